"""Options that several commands share, in one wording."""

from pathlib import Path
from typing import Annotated

import typer

from jointsparse.cli.fitting import Impute, Scale

DataArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="Table, as for select. Without it, the bundled breast-cancer table.",
        show_default=False,
    ),
]
ScaleOption = Annotated[Scale, typer.Option("--scale", help="How to make columns comparable.")]
DropTextOption = Annotated[
    bool, typer.Option("--drop-text", help="Leave out columns that are not numbers.")
]
ImputeOption = Annotated[
    Impute | None, typer.Option("--impute", help="What replaces missing values.")
]
FigureOption = Annotated[
    Path | None, typer.Option("--figure", metavar="FILE", help="Draw it: PNG, SVG or PDF.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of the tables.")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", help="Print only warnings and errors (and --json).")
]
