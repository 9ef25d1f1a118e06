"""What ``select`` prints for a person: the answer, the next command, what was written."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from jointsparse.cli.components import print_components
from jointsparse.cli.fitting import Selection
from jointsparse.cli.next_step import next_step
from jointsparse.cli.rendering import print_selection

if TYPE_CHECKING:
    from jointsparse.cli.select import SelectOptions


def print_answer(
    console: Console, selection: Selection, options: "SelectOptions", written: list[Path]
) -> None:
    """Print the answer, what helps next, and which files were written."""
    print_selection(
        console,
        selection,
        options.top,
        scores=options.scores,
        verbose=options.verbose,
        next_step=next_step(selection, options),
    )
    print_components(console, selection)
    for path in written:
        console.print(Text(f"wrote {path}"), soft_wrap=True)
