"""Progress of a fit, read from the records that the solvers log."""

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from jointsparse.cli.console import Glyphs

SOLVER_LOGGER = "jointsparse.solvers"
SECONDS_BETWEEN_LINES = 2.0


@contextmanager
def solver_progress(console: Console, tol: float | None) -> Iterator[None]:
    """Show the solver's progress on the console while the block runs.

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
        with handler:
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


class _BarProgress(_ProgressHandler):
    """A bar on a terminal; it fills as the gap falls, on a logarithmic scale, towards ``tol``."""

    def __init__(self, console: Console, tol: float | None) -> None:
        super().__init__()
        self._tol = tol
        self._largest_gap = 1.0
        self._arrow = Glyphs.for_console(console).arrow
        self._progress = Progress(
            SpinnerColumn("dots" if console.encoding.lower().startswith("utf") else "line"),
            TextColumn("fitting"),
            BarColumn(bar_width=24, complete_style="cyan", pulse_style="cyan"),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("fit", total=None, detail="")

    def __enter__(self) -> "_BarProgress":
        self._progress.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._progress.stop()
        self.close()

    def draw(self, iteration: int, gap: float | None) -> None:
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

    def draw(self, iteration: int, gap: float | None) -> None:
        now = time.monotonic()
        if now - self._last < SECONDS_BETWEEN_LINES:
            return
        self._last = now
        gap_text = "" if gap is None else f", gap {gap:.1e}"
        seconds = now - self._started
        self._console.print(Text(f"fitting: iteration {iteration}{gap_text}, {seconds:.0f} s"))
