"""``jointsparse path``: which features enter and leave as the penalty falls."""

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from jointsparse.cli.display.console import (
    Glyphs,
    error_console,
    output_console,
    print_json,
    print_warning,
    shorten_middle,
)
from jointsparse.cli.display.progress import solver_progress
from jointsparse.cli.errors import CommandError, told
from jointsparse.cli.intake import fitting
from jointsparse.cli.intake.fitting import Scale
from jointsparse.cli.options import robustness
from jointsparse.cli.options.arguments import build_estimator, find_method, name_of, parameters_of
from jointsparse.cli.options.shared import (
    DataArgument,
    FigureOption,
    ImputeOption,
    JsonOption,
    QuietOption,
    RobustOption,
    ScaleOption,
    TransformOption,
)
from jointsparse.cli.options.tables import TableOptions, spooled
from jointsparse.cli.outputs import Kind, Output, check_outputs, save_figure
from jointsparse.cli.together import appear_together, telling
from jointsparse.text import counted, visible

if TYPE_CHECKING:
    from jointsparse.model_selection import RegularizationPath

HELP = "Follow a model through all penalties: which features enter and leave."
HEADER = ("point", "alpha", "penalty", "features", "objective", "gap", "enter", "leave")
_NAMED = 3  # names in a line on the terminal; the files have all
_NAME_CELLS = 24


@dataclass(frozen=True, kw_only=True)
class PathOptions(TableOptions):
    """What ``jointsparse path`` can be asked for."""

    data: DataArgument = None
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="A method with a sparsity penalty.")
    ] = "spca-psd"
    points: Annotated[
        int, typer.Option("--points", min=1, metavar="N", help="Number of penalties.")
    ] = 20
    smallest: Annotated[
        float,
        typer.Option(
            "--smallest",
            metavar="SHARE",
            help="Smallest penalty, as a share of the one that empties the model.",
        ),
    ] = 1e-3
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", metavar="NAME=VALUE", help="Any other parameter of the method, such as eta."
        ),
    ] = None
    components: Annotated[
        int | None,
        typer.Option(
            "--components", min=1, metavar="K", help="Number of components, where there are any."
        ),
    ] = None
    scale: ScaleOption = Scale.STANDARD
    transform: TransformOption = None
    robust: RobustOption = None
    impute: ImputeOption = None
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write the points, with all names, as CSV."),
    ] = None
    figure: FigureOption = None
    as_json: JsonOption = False
    quiet: QuietOption = False


def path(options: PathOptions) -> None:
    """Read, solve for every penalty, write, print."""
    options = replace(options, data=spooled(options.data))
    if not 0 < options.smallest < 0.95:
        raise CommandError(f"--smallest: {options.smallest:g} is not a share between 0 and 0.95")
    chosen = find_method(options.method)
    estimator = build_estimator(
        chosen, None, options.param or [], None, components=options.components
    )
    estimator = getattr(estimator, "estimator", estimator)  # the method itself has the path
    check_outputs(
        [
            Output("--output", options.output, Kind.TEXT),
            Output("--figure", options.figure, Kind.FIGURE),
        ],
        [options.data],
    )
    table = fitting.load_table(options.data, options.layout(), options.impute)
    fitting.check_table(table, estimator)
    values, scaling, _ = robustness.prepare(
        table, options.data, options.transform, options.scale, options.robust
    )
    found, warnings = _solve(estimator, values, options.points, options.smallest, options.quiet)
    for message in warnings:
        print_warning(message)
    rows = path_rows(found, table.names)
    with appear_together() as written:
        _write(found, rows, table.names, options.output, options.figure)
    with telling(written):
        if options.as_json:
            print_json(
                {
                    "data": fitting.data_name(options.data),
                    "method": chosen.name,
                    "parameters": parameters_of(estimator),
                    "scale": options.scale.value,
                    "transform": options.transform and options.transform.value,
                    "n_samples": table.values.shape[0],
                    "n_features": table.values.shape[1],
                    "points": [dict(zip(HEADER, row, strict=True)) for row in rows],
                    "notes": table.notes,
                    "warnings": warnings,
                }
            )
        elif not options.quiet:
            console = output_console()
            _print(
                console,
                rows,
                table.values.shape,
                fitting.data_name(options.data),
                chosen.name,
                scaling,
            )
            for place in written:
                console.print(Text(f"wrote {place}"), soft_wrap=True)


def _solve(
    estimator: Any, values: Any, points: int, smallest: float, quiet: bool
) -> "tuple[RegularizationPath, list[str]]":
    from jointsparse.model_selection import regularization_path

    bar = nullcontext() if quiet else solver_progress(error_console(), None)
    with fitting.collect_warnings(estimator) as messages, bar:
        try:
            found = regularization_path(estimator, values, n_points=points, smallest=smallest)
        except (TypeError, ValueError) as error:
            raise told(error, method=name_of(estimator)) from error
    return found, messages


def path_rows(found: "RegularizationPath", names: list[str]) -> list[tuple[Any, ...]]:
    """Return one line for each point, strongest penalty first, with what enters and leaves."""
    rows = []
    before = set[int]()
    for number, support in enumerate(found.supports):
        now = {int(j) for j in support.nonzero()[0]}
        rows.append(
            (
                number + 1,
                float(found.alphas[number]),
                float(found.penalties[number]),
                len(now),
                float(found.objectives[number]),
                float(found.duality_gaps[number]),
                [names[j] for j in sorted(now - before)],
                [names[j] for j in sorted(before - now)],
            )
        )
        before = now
    return rows


def _write(
    found: "RegularizationPath",
    rows: list[tuple[Any, ...]],
    names: list[str],
    output: Path | None,
    figure: Path | None,
) -> None:
    from jointsparse.io import write_rows

    if output is not None:
        write_rows(output, HEADER, [_cells(row) for row in rows])
    if figure is not None:
        from jointsparse.plotting import PathDisplay

        save_figure(figure, lambda: PathDisplay.from_path(found, feature_names=names).figure_)


def _cells(row: tuple[Any, ...]) -> tuple[Any, ...]:
    *numbers, enter, leave = row
    plain = ["" if isinstance(n, float) and math.isnan(n) else n for n in numbers]
    return (*plain, "; ".join(enter), "; ".join(leave))


def _print(
    console: Console,
    rows: list[tuple[Any, ...]],
    shape: tuple[int, ...],
    data: str,
    method: str,
    scaling: str,
) -> None:
    glyphs = Glyphs.for_console(console)
    size = f"{counted(shape[0], 'sample')} {glyphs.times} {counted(shape[1], 'feature')}"
    separator = glyphs.separator
    heading = Text.assemble(
        (visible(data), "bold"), separator, size, separator, (method, "bold"), separator, scaling
    )
    console.print(heading, soft_wrap=True)
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("alpha", "features", "objective", "gap"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("enter (+) and leave (-)", overflow="fold")
    for _, alpha, _, count, objective, gap, enter, leave in rows:
        table.add_row(
            Text(f"{alpha:.3g}"),
            Text(str(count)),
            Text(f"{objective:.5g}"),
            Text("" if math.isnan(gap) else f"{gap:.0e}"),
            Text(_changes(enter, leave, glyphs)),
        )
    console.print(table)
    gaps = [row[5] for row in rows if not math.isnan(row[5])]
    if gaps:
        console.print(Text(f"every point is solved to within {max(gaps):.1e} (proved)"))


def _changes(enter: list[str], leave: list[str], glyphs: Glyphs) -> str:
    parts = []
    for sign, names in (("+", enter), ("-", leave)):
        parts += [
            f"{sign}{shorten_middle(visible(name), _NAME_CELLS, glyphs.ellipsis)}"
            for name in names[:_NAMED]
        ]
        if len(names) > _NAMED:
            parts.append(f"{sign}{len(names) - _NAMED} more")
    return ", ".join(parts)
