"""Commands from dataclasses of options, and the options that several of them share."""

from collections.abc import Callable
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from jointsparse.cli.intake.fitting import Impute, Scale, Transform
from jointsparse.cli.options.robustness import ROBUST_HELP, Robust

DataArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="Table, as for select. Without it, the bundled breast-cancer table.",
        show_default=False,
    ),
]
ScaleOption = Annotated[Scale, typer.Option("--scale", help="How to make columns comparable.")]
TRANSFORM_HELP = (
    "Choose by log(1 + x), or by ranks as normal scores, in place of the values, where a few are "
    "far from the rest; before scaling. What is written holds the original values."
)
TransformOption = Annotated[
    Transform | None, typer.Option("--transform", help=TRANSFORM_HELP, show_default=False)
]
RobustOption = Annotated[
    Robust | None, typer.Option("--robust", help=ROBUST_HELP, show_default=False)
]
ImputeOption = Annotated[
    Impute | None,
    typer.Option(
        "--missing",
        "--impute",
        help="What to do about missing values: error, or fill them by mean or median.",
        show_default="error",
    ),
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


def as_command(run: Callable[[Any], None]) -> Callable[..., None]:
    """Return a function with one parameter for each option, which is how Typer wants a command.

    Parameters
    ----------
    run : callable
        Function of one parameter, a dataclass whose fields are annotated as Typer's options. A
        signature with thirty options would hide what the command does.
    """
    (kind,) = (hint for name, hint in get_type_hints(run).items() if name != "return")
    hints = get_type_hints(kind, include_extras=True)

    def command(**given: Any) -> None:
        run(kind(**given))

    command.__name__, command.__doc__ = run.__name__, run.__doc__
    command.__annotations__ = hints
    vars(command)["__signature__"] = Signature(
        [
            Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if field.default is MISSING else field.default,
                annotation=hints[field.name],
            )
            for field in fields(kind)
        ]
    )
    return command
