"""Progress of reading a table in blocks: how many of its rows have been seen."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from jointsparse.cli.display.progress import SECONDS_BETWEEN_LINES
from jointsparse.text import counted

if TYPE_CHECKING:
    from jointsparse.sources import Source


@contextmanager
def reading_progress(console: Console, source: "Source", rows: int) -> Iterator["Source"]:
    """Yield the source, which reports what is read of it while the block runs.

    Parameters
    ----------
    console : rich.console.Console
        A terminal gets a bar that disappears at the end, anything else gets plain lines.
    source : Source
        The table.
    rows : int
        How many rows it has, about.
    """
    if not console.is_terminal:
        yield _watched(source, _line_printer(console))
        return
    bar = Progress(
        TextColumn("reading"),
        BarColumn(bar_width=24, complete_style="cyan"),
        TextColumn("{task.completed:.0f} rows"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task("read", total=rows)
    with bar:
        yield _watched(source, lambda seen: bar.update(task, completed=seen))


def _line_printer(console: Console) -> Callable[[int], None]:
    """Return what prints the number of rows, at most once every two seconds."""
    started = last = time.monotonic()

    def show(seen: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            console.print(Text(f"reading: {counted(seen, 'row')}, {now - started:.0f} s"))

    return show


def _watched(source: "Source", show: Callable[[int], None]) -> "Source":
    from jointsparse.sources.base import MappedSource

    class Watched(MappedSource):
        """The same blocks, counted."""

        def blocks(self, entries: int | None = None) -> Iterator[Any]:
            """Yield the blocks of the source."""
            seen = 0
            for block in self.source.blocks(entries):
                seen += block.shape[0]
                show(seen)
                yield block

    return Watched(source, lambda block: block, source.n_features, None, source.feature_names)
