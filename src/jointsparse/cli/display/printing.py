"""What ``select`` prints for a person: the answer, the next command, what was written."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from jointsparse.cli.display.components import print_components
from jointsparse.cli.display.next_step import next_step
from jointsparse.cli.display.rendering import print_selection
from jointsparse.cli.intake.fitting import Selection

if TYPE_CHECKING:
    from jointsparse.cli.commands.select import SelectOptions


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
