"""Progress of a fit: what the solvers log, and the steps in which a selection is judged."""

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from jointsparse.cli.display.console import Glyphs
from jointsparse.steps import Step, follow_steps

SOLVER_LOGGER = "jointsparse.solvers"
SECONDS_BETWEEN_LINES = 2.0


@contextmanager
def solver_progress(console: Console, tol: float | None) -> Iterator[None]:
    """Show on the console how far a fit is, and its trials on parts of the samples.

    Parameters
    ----------
    console : rich.console.Console
        A terminal gets a bar that disappears at the end, anything else gets plain lines.
    tol : float or None
        Gap at which the solver stops; None if the solver has none.
    """
    logger = logging.getLogger(SOLVER_LOGGER)
    level = logger.level
    handler = _BarProgress(console, tol) if console.is_terminal else _LineProgress(console)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with handler, follow_steps(handler.draw_step):
            yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


class _ProgressHandler(logging.Handler):
    """Reads the solver's records; the subclasses draw."""

    def __enter__(self) -> "_ProgressHandler":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def emit(self, record: logging.LogRecord) -> None:
        iteration = getattr(record, "iteration", None)
        if iteration is None:
            return
        gap = getattr(record, "gap", None)
        if gap is not None and not (math.isfinite(gap) and gap > 0):
            gap = None
        self.draw(int(iteration), gap)

    def draw(self, iteration: int, gap: float | None) -> None:
        raise NotImplementedError

    def draw_step(self, step: Step) -> None:
        raise NotImplementedError


# What a step is called while it runs.
_DOING = {
    "parts left out": "selecting again",
    "sizes": "trying sizes",
    "random sets": "beside chance",
    "penalties": "trying penalties",
    "sets": "clustering",
    "subsamples": "selecting on parts",
    "neighbours": "looking for neighbours",
}


def is_within(step: Step) -> bool:
    """Whether a step is within one of the others, which goes on when it is over."""
    return step.what == "neighbours"


def share_done(step: Step) -> str:
    """Return how much of the steps within another is done."""
    left = "" if not step.left else f", about {step.left:.0f} s left"
    return f"{_DOING[step.what]}: {100 * step.done // step.total} %{left}"


def _told(step: Step) -> str:
    """Return a step in words: which of how many, and the time that is left, once it is known."""
    left = "" if not step.left else f", about {step.left:.0f} s left"
    return f"{min(step.done + 1, step.total)} of {step.total}{left}"


class _BarProgress(_ProgressHandler):
    """A bar on a terminal; it fills as the gap falls, on a logarithmic scale, towards ``tol``.

    While a fit is one of several it fills with the steps instead.
    """

    def __init__(self, console: Console, tol: float | None) -> None:
        super().__init__()
        self._tol = tol
        self._largest_gap = 1.0
        self._arrow = Glyphs.for_console(console).arrow
        self._progress = Progress(
            SpinnerColumn("dots" if console.encoding.lower().startswith("utf") else "line"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24, complete_style="cyan", pulse_style="cyan"),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("fitting", total=None, detail="")
        self._in_steps = False

    def __enter__(self) -> "_BarProgress":
        self._progress.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._progress.stop()
        self.close()

    def draw_step(self, step: Step) -> None:
        if is_within(step):
            self._progress.update(self._task, detail=share_done(step))
            return
        self._in_steps = step.done < step.total
        self._progress.update(
            self._task,
            description=_DOING[step.what] if self._in_steps else "fitting",
            detail=_told(step) if self._in_steps else "",
            total=step.total,
            completed=step.done,
        )

    def draw(self, iteration: int, gap: float | None) -> None:
        if self._in_steps:
            return  # one of several fits: the bar counts those
        detail = f"iteration {iteration}"
        share = None
        if gap is not None:
            detail += f", gap {gap:.1e}"
            if self._tol:
                detail += f" {self._arrow} {self._tol:.0e}"
                share = self._share_done(gap, self._tol)
        self._progress.update(
            self._task,
            detail=detail,
            total=None if share is None else 1.0,
            completed=share or 0.0,
        )

    def _share_done(self, gap: float, tol: float) -> float:
        self._largest_gap = max(gap, self._largest_gap)
        if gap <= tol:
            return 1.0
        return math.log(self._largest_gap / gap) / math.log(self._largest_gap / tol)


class _LineProgress(_ProgressHandler):
    """Plain lines for logs and pipes, at most one every two seconds."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._started = self._last = time.monotonic()

        self._step: Step | None = None

    def draw_step(self, step: Step) -> None:
        if is_within(step):
            self._line(share_done(step))
            return
        self._step = step if step.done < step.total else None
        if self._step is not None:
            self._line(f"{_DOING[step.what]}: {_told(step)}")

    def draw(self, iteration: int, gap: float | None) -> None:
        gap_text = "" if gap is None else f", gap {gap:.1e}"
        what = "fitting" if self._step is None else f"{_DOING[self._step.what]}: "
        if self._step is not None:
            what += _told(self._step)
        self._line(f"{what}: iteration {iteration}{gap_text}")

    def _line(self, text: str) -> None:
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            self._console.print(Text(f"{text}, {now - self._started:.0f} s"))
