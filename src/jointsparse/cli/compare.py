"""``jointsparse compare``: several methods side by side on one table."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table as RichTable
from rich.text import Text

from jointsparse.cli import fitting
from jointsparse.cli.arguments import find_method, parse_features
from jointsparse.cli.console import (
    Glyphs,
    error_console,
    output_console,
    print_json,
    print_warning,
)
from jointsparse.cli.errors import CommandError
from jointsparse.cli.fitting import Scale
from jointsparse.cli.options import (
    DataArgument,
    DropTextOption,
    FigureOption,
    ImputeOption,
    JsonOption,
    QuietOption,
    ScaleOption,
)
from jointsparse.cli.outputs import check_result_paths, save_figure
from jointsparse.cli.reporting import check_page_target
from jointsparse.cli.together import appear_together, telling
from jointsparse.methods import registry
from jointsparse.text import visible

if TYPE_CHECKING:
    from jointsparse.io import Table
    from jointsparse.model_selection import Comparison, MethodResult

HELP = "Run several methods side by side: what each keeps, what it is worth, how they agree."
QUICK = ("greedy", "spca-psd", "spca", "jspca", "spcafs", "laplacian-score")
SCORES = {"accuracy": "ACC", "nmi": "NMI", "ari": "ARI"}
_NAME_LENGTH = 18
_WIDE = 110  # columns of a terminal on which there is room for the spreads too


@dataclass(frozen=True)
class CompareOptions:
    """What ``jointsparse compare`` can be asked for."""

    data: DataArgument = None
    methods: Annotated[
        str,
        typer.Option("--methods", metavar="A,B,C", help="Names, or all; see: jointsparse methods."),
    ] = ",".join(QUICK)
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            metavar="K",
            help="How many each keeps: a count or a share such as 0.2. By default the fewest that "
            "explain 90 % of the variance, picked greedily.",
        ),
    ] = None
    label: Annotated[
        str | None,
        typer.Option(
            "--label", metavar="COLUMN", help="Classes: kept out, and used for cluster scores."
        ),
    ] = None
    scale: ScaleOption = Scale.STANDARD
    drop_text: DropTextOption = False
    impute: ImputeOption = None
    subsamples: Annotated[
        int,
        typer.Option(
            "--subsamples",
            min=2,
            metavar="N",
            help="Halves of the samples on which each method selects again; even.",
        ),
    ] = 10
    seed: Annotated[int, typer.Option("--seed", help="Seed of the halves and of K-means.")] = 0
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write the table of methods, as CSV."),
    ] = None
    figure: FigureOption = None
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write it as one HTML page."),
    ] = None
    as_json: JsonOption = False
    quiet: QuietOption = False


def compare(options: CompareOptions) -> None:
    """Read, compare, write, print."""
    from jointsparse.model_selection import compare_methods

    estimators = {name: find_method(name).make() for name in _names(options.methods)}
    if options.subsamples % 2:
        raise CommandError(f"--subsamples: {options.subsamples} is odd, but halves come in pairs")
    count = None if options.features is None else parse_features(options.features)
    if isinstance(count, str):
        raise CommandError(f"--features: compare takes a count or a share, not {count}")
    check_result_paths(options.output, options.figure, options.data)
    if options.report is not None:
        check_page_target(options.report, "--report")
    table = fitting.load_table(options.data, options.label, options.drop_text, options.impute)
    values, scaling = fitting.scale_columns(table.values, options.scale)
    wanted = _count(count, table, values)
    try:
        with _progress(error_console(), options.quiet) as on_progress:
            found = compare_methods(
                estimators,
                values,
                table.labels,
                n_features_to_select=wanted,
                n_subsamples=options.subsamples,
                random_state=options.seed,
                feature_names=table.names,
                on_progress=on_progress,
            )
    except ValueError as error:
        raise CommandError(str(error)) from error
    for result in found.results:
        for message in (*result.warnings, *([result.error] if result.error else [])):
            print_warning(f"{result.name}: {message}")
    with appear_together() as written:
        _write(found, options.output, options.figure)
        if options.report is not None:
            _write_report(options.report, found, fitting.data_name(options.data), scaling)
    with telling(written):
        if options.as_json:
            print_json(as_record(found, table, fitting.data_name(options.data), options.scale))
        elif not options.quiet:
            console = output_console()
            _print(console, found, table, fitting.data_name(options.data), scaling)
            for path in written:
                console.print(Text(f"wrote {path}"), soft_wrap=True)


def _names(text: str) -> list[str]:
    if text.strip() == "all":
        return list(registry.methods())
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise CommandError("--methods takes names with commas between them, such as greedy,spca")
    return names


def _count(wanted: int | float | None, table: "Table", values: Any) -> int:
    """Return how many features each method keeps."""
    n_features = table.values.shape[1]
    if wanted is None:
        from jointsparse.methods.greedy_selector import GreedySelector

        try:
            return int(GreedySelector().fit(values).get_support().sum())
        except ValueError as error:
            raise CommandError(str(error)) from error
    count = wanted if isinstance(wanted, int) else max(1, round(wanted * n_features))
    if count > n_features:
        raise CommandError(f"cannot keep {count} features: the table has {n_features}")
    return int(count)


@contextmanager
def _progress(console: Console, quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    if quiet:
        yield None
    elif not console.is_terminal:
        yield lambda name, done, total: console.print(Text(f"{done + 1} of {total}: {name}"))
    else:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("", total=None)
            yield lambda name, done, total: bar.update(
                task, description=name, completed=done, total=total
            )


def _write(found: "Comparison", output: Path | None, figure: Path | None) -> None:
    from jointsparse.io import write_rows

    if output is not None:
        write_rows(output, *_rows(found))
    if figure is not None:
        from jointsparse.plotting import ComparisonDisplay

        save_figure(figure, lambda: ComparisonDisplay.from_comparison(found).figure_)


def _write_report(path: Path, found: "Comparison", data: str, scaling: str) -> None:
    from datetime import UTC, datetime

    from jointsparse import __version__
    from jointsparse.report.comparison import save_comparison

    made = f"Made by jointsparse compare {__version__} on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    title = f"Methods side by side: {data}"
    save_comparison(path, found, title=title, scaling=scaling, made=made)


def _rows(found: "Comparison") -> tuple[list[str], list[list[Any]]]:
    """Return header and cells: a line for each method, then PCA, random and all features."""
    labelled = found.scores_of_all is not None
    header = ["method", "kept", "r2_held_out", "r2_std", "stability", "lower", "upper", "seconds"]
    header += [f"{score}{end}" for score in SCORES for end in ("", "_std")] if labelled else []
    header += [f"jaccard_{result.name}" for result in found.results] + ["features", "error"]
    overlap = found.jaccard
    rows = []
    for number, result in enumerate(found.results):
        names = "; ".join(found.feature_names[j] for j in result.kept)
        row = [result.name, len(result.kept), *result.r2, *result.stability, result.seconds]
        row += _cells(result.scores) if labelled else []
        rows.append([*map(_blank, [*row, *overlap[number]]), names, result.error])
    nothing = [""] * len(found.results)
    for name, r2 in (("PCA", found.pca_r2), ("random features", found.random_r2)):
        scores = [""] * 2 * len(SCORES) if labelled else []
        rows.append([name, found.n_kept, *r2, "", "", "", "", *scores, *nothing, "", ""])
    if labelled:
        scores = _cells(found.scores_of_all)
        rows.append(["all features", found.n_features, *[""] * 6, *scores, *nothing, "", ""])
    return header, rows


def _cells(scores: dict[str, tuple[float, float]] | None) -> list[Any]:
    if scores is None:
        return [""] * 2 * len(SCORES)
    return [value for name in SCORES for value in scores[name]]


def _blank(value: Any) -> Any:
    return "" if isinstance(value, float) and math.isnan(value) else value


def as_record(found: "Comparison", table: "Table", data: str, scale: Scale) -> dict[str, Any]:
    """Return everything a program may want to know, ready for JSON."""
    return {
        "data": data,
        "label": table.label_name,
        "scale": scale.value,
        "n_samples": found.n_samples,
        "n_features": found.n_features,
        "n_kept": found.n_kept,
        "n_subsamples": found.n_subsamples,
        "methods": [_method_record(found, result) for result in found.results],
        "pca_r2_held_out": _mean_std(found.pca_r2),
        "random_r2_held_out": _mean_std(found.random_r2),
        "scores_of_all_features": _score_record(found.scores_of_all),
        "jaccard": found.jaccard,
        "kept_by": {
            found.feature_names[int(j)]: int(found.votes[j]) for j in found.votes.nonzero()[0]
        },
        "notes": table.notes,
    }


def _method_record(found: "Comparison", result: "MethodResult") -> dict[str, Any]:
    value, lower, upper = result.stability
    return {
        "method": result.name,
        "kept": [found.feature_names[j] for j in result.kept],
        "r2_held_out": _mean_std(result.r2),
        "stability": {"value": value, "lower": lower, "upper": upper},
        "scores": _score_record(result.scores),
        "seconds": result.seconds,
        "warnings": list(result.warnings),
        "error": result.error or None,
    }


def _mean_std(pair: tuple[float, float]) -> dict[str, float]:
    return {"mean": pair[0], "std": pair[1]}


def _score_record(scores: dict[str, tuple[float, float]] | None) -> dict[str, Any] | None:
    return None if scores is None else {name: _mean_std(pair) for name, pair in scores.items()}


def _print(console: Console, found: "Comparison", table: "Table", data: str, scaling: str) -> None:
    glyphs = Glyphs.for_console(console)
    parts = (
        f"{found.n_samples} samples {glyphs.times} {found.n_features} features",
        f"{found.n_kept} kept by each method",
        scaling,
    )
    heading = Text.assemble((visible(data), "bold"), *(glyphs.separator + part for part in parts))
    console.print(heading, soft_wrap=True)
    for note in table.notes:
        console.print(Text(f"note: {visible(note)}", "dim"))
    console.print(_table(found, glyphs, console.width >= _WIDE))
    if len(found.results) > 1:
        console.print(Text("overlap of the selections (Jaccard index)", "bold"))
        console.print(_overlap_table(found, glyphs))
    shared = int((found.votes == sum(bool(result.kept) for result in found.results)).sum())
    console.print(
        Text(
            f"{shared} of the {int((found.votes > 0).sum())} features that any method keeps are "
            f"kept by all; measured on {found.n_subsamples} halves of the samples"
        ),
        soft_wrap=True,
    )


def _table(found: "Comparison", glyphs: Glyphs, wide: bool) -> RichTable:
    labelled = found.scores_of_all is not None
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", no_wrap=True, style="bold")
    titles = [f"held-out {glyphs.r_squared}, %", "stability"]
    titles += ["95 % interval"] * wide + ["seconds"] + list(SCORES.values()) * labelled
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for result in found.results:
        if result.error:
            table.add_row(Text(result.name), Text("failed", "yellow"))
            continue
        value, lower, upper = result.stability
        table.add_row(
            Text(result.name),
            Text(_percent(result.r2, glyphs, wide)),
            Text(f"{value:.2f}"),
            *([Text(f"{lower:.2f} to {upper:.2f}")] if wide else []),
            Text(f"{result.seconds:.2f}"),
            *_score_cells(result.scores, glyphs, wide),
        )
    table.add_section()
    for name, r2 in (("PCA", found.pca_r2), ("random features", found.random_r2)):
        table.add_row(Text(name, "dim"), Text(_percent(r2, glyphs, wide), "dim"))
    if labelled:
        empty = [""] * (4 if wide else 3)
        cells = _score_cells(found.scores_of_all, glyphs, wide)
        table.add_row(Text("all features", "dim"), *empty, *cells)
    return table


def _percent(pair: tuple[float, float], glyphs: Glyphs, wide: bool) -> str:
    spread = f" {glyphs.plus_minus} {100 * pair[1]:.1f}" if wide else ""
    return f"{100 * pair[0]:.1f}{spread}"


def _score_cells(
    scores: dict[str, tuple[float, float]] | None, glyphs: Glyphs, wide: bool
) -> list[Text]:
    if scores is None:
        return []
    return [Text(_percent(scores[name], glyphs, wide)) for name in SCORES]


def _overlap_table(found: "Comparison", glyphs: Glyphs) -> RichTable:
    """Return the matrix; columns are numbered, so that many methods fit on a terminal."""
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("method", no_wrap=True, style="bold")
    for number in range(1, len(found.results) + 1):
        table.add_column(str(number), justify="right", no_wrap=True)
    for number, (result, row) in enumerate(zip(found.results, found.jaccard, strict=True), start=1):
        cells = ("" if math.isnan(value) else f"{value:.2f}" for value in row)
        table.add_row(str(number), Text(result.name[:_NAME_LENGTH]), *map(Text, cells))
    return table
