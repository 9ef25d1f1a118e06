"""What ``compare`` says while it works: how long it will take, and where it is."""

import math
import threading
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from jointsparse.cli.display.console import print_note
from jointsparse.cli.display.progress import is_within, share_done
from jointsparse.cli.errors import CommandError
from jointsparse.steps import Step, follow_steps
from jointsparse.text import counted

SLOW = 60.0  # seconds beyond which --skip-slow leaves a method out
WORTH_SAYING = 5.0  # seconds of all methods below which nobody wants to know beforehand
BETWEEN_LINES = 10.0  # seconds between signs of life in a log


def duration(seconds: float) -> str:
    """Return a time as a person would say it.

    Examples
    --------
    >>> from jointsparse.cli.display.compare_progress import duration
    >>> duration(0.2), duration(42.4), duration(400), duration(9000)
    ('1 s', '42 s', '7 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def announce(estimates: Mapping[str, float]) -> None:
    """Say how long each method will take, where that is long."""
    known = {name: seconds for name, seconds in estimates.items() if not math.isnan(seconds)}
    if sum(known.values()) < WORTH_SAYING:
        return
    parts = (f"{name} {duration(seconds)}" for name, seconds in known.items())
    slow = [name for name, seconds in known.items() if seconds > SLOW]
    hint = f"; --skip-slow leaves out {', '.join(slow)}" if slow else ""
    print_note(f"about {duration(sum(known.values()))} in all: {', '.join(parts)}{hint}")


def without_slow(
    estimators: Mapping[str, Any], estimates: Mapping[str, float]
) -> tuple[dict[str, Any], list[str]]:
    """Return the methods that take less than a minute, and a note about the others."""
    slow = {name: seconds for name, seconds in estimates.items() if seconds > SLOW}
    kept = {name: estimator for name, estimator in estimators.items() if name not in slow}
    if not kept:
        raise CommandError(
            f"--skip-slow leaves nothing: every method would take more than {duration(SLOW)}; "
            "name others with --methods, or use fewer samples"
        )
    if not slow:
        return kept, []
    told = ", ".join(f"{name} (about {duration(seconds)})" for name, seconds in slow.items())
    return kept, [f"left out {counted(len(slow), 'slow method')}: {told}"]


class CompareProgress:
    """A bar on a terminal, lines elsewhere: which method, which of its fits, for how long.

    Parameters
    ----------
    console : rich.console.Console
        Where it is shown.
    quiet : bool
        Whether nothing is.
    """

    def __init__(self, console: Console, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._bar: Progress | None = None
        # What comes before the first method: halves of the samples, and what random sets predict.
        self._what, self._within, self._started = "random features", "", time.monotonic()
        self._over = threading.Event()
        self._lines: threading.Thread | None = None
        if not quiet and console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self._bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
            self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> "CompareProgress":
        self._following = follow_steps(self.step)
        self._following.__enter__()
        if self._bar is not None:
            self._bar.start()
        elif not self._quiet:
            self._lines = threading.Thread(target=self._signs_of_life, daemon=True)
            self._lines.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._following.__exit__(None, None, None)
        self._over.set()
        if self._bar is not None:
            self._bar.stop()
        if self._lines is not None:
            self._lines.join()

    def method(self, name: str, done: int, total: int) -> None:
        """Note that a method begins."""
        self._what, self._started = name, time.monotonic()
        if self._bar is not None:
            self._bar.update(self._task, description=name, completed=done, total=total)
        elif not self._quiet:
            self._console.print(Text(f"{done + 1} of {total}: {name}"))

    def fit(self, name: str, number: int, total: int) -> None:
        """Note that one of the fits of a method begins."""
        self._what = f"{name}, fit {number} of {total}"
        if self._bar is not None:
            self._bar.update(self._task, description=self._what)

    def step(self, step: Step) -> None:
        """Note how far the long part of a fit is."""
        if not is_within(step):
            return
        self._within = "" if step.done == step.total else f", {share_done(step)}"
        if self._bar is not None:
            self._bar.update(self._task, description=self._what + self._within)

    def _signs_of_life(self) -> None:
        while not self._over.wait(BETWEEN_LINES):
            seconds = time.monotonic() - self._started
            self._console.print(Text(f"{self._what}, {duration(seconds)}{self._within}"))


def in_time(estimators: dict[str, Any], values: Any, table: Any, options: Any) -> dict[str, Any]:
    """Say how long the methods will take; leave out the slow ones, where that was asked for.

    Parameters
    ----------
    estimators : dict of str to estimator
        What is to be compared.
    values : array
        The samples.
    table : Table
        Gets a note where a method is left out.
    options : CompareOptions
        Those of the command.
    """
    from jointsparse.model_selection.timing import estimated_seconds

    try:
        estimates = estimated_seconds(
            estimators, values, n_subsamples=options.subsamples, random_state=options.seed
        )
    except ValueError:
        return estimators  # what is wrong with the samples is said by the comparison
    if options.skip_slow:
        estimators, notes = without_slow(estimators, estimates)
        table.notes.extend(notes)
        estimates = {name: seconds for name, seconds in estimates.items() if name in estimators}
    if not options.quiet:
        announce(estimates)
    return estimators
