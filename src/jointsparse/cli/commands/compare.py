"""``jointsparse compare``: several methods side by side on one table."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from jointsparse.cli.display.compare_progress import CompareProgress, in_time
from jointsparse.cli.display.console import (
    Glyphs,
    error_console,
    output_console,
    print_json,
    print_warning,
)
from jointsparse.cli.errors import CommandError, told
from jointsparse.cli.intake import fitting
from jointsparse.cli.intake.fitting import Scale
from jointsparse.cli.options import constraining, proving, robustness
from jointsparse.cli.options.arguments import find_method, parse_features
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
from jointsparse.methods import registry
from jointsparse.text import counted, visible

if TYPE_CHECKING:
    from jointsparse.io import Table
    from jointsparse.model_selection import Comparison, MethodResult
    from jointsparse.solvers.subset.constraints import Constraints

HELP = "Run several methods side by side: what each keeps, what that predicts, how they agree."
QUICK = ("greedy", "spca-psd", "spca", "jspca", "spcafs", "laplacian-score")
SCORES = {"accuracy": "ACC", "nmi": "NMI", "ari": "ARI"}
_NAME_LENGTH = 18
_OVERLAP_CELLS = 7  # of a number in the table of overlaps, with the gap beside it


@dataclass(frozen=True, kw_only=True)
class CompareOptions(constraining.ConstraintOptions, TableOptions):
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
            help="How many each keeps: a count or a share such as 0.2. By default as many as new "
            "samples call for, picked greedily.",
        ),
    ] = None
    scale: ScaleOption = Scale.STANDARD
    transform: TransformOption = None
    robust: RobustOption = None
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
    prove: Annotated[
        float | None,
        typer.Option("--prove", min=0, metavar="SECONDS", help=proving.PROVE_HELP),
    ] = None
    skip_slow: Annotated[
        bool,
        typer.Option(
            "--skip-slow", help="Leave out methods that would take more than a minute each."
        ),
    ] = False
    as_json: JsonOption = False
    quiet: QuietOption = False


def compare(options: CompareOptions) -> None:
    """Read, compare, write, print."""
    options = replace(options, data=spooled(options.data))
    methods = {name: find_method(name) for name in _names(options.methods)}
    constraining.check_constraints(options)
    if options.subsamples % 2:
        raise CommandError(f"--subsamples: {options.subsamples} is odd, but halves come in pairs")
    count = None if options.features is None else parse_features(options.features)
    if isinstance(count, str):
        raise CommandError(f"--features: compare takes a count or a share, not {count}")
    check_outputs(
        [
            Output("--output", options.output, Kind.TEXT),
            Output("--figure", options.figure, Kind.FIGURE),
            Output("--report", options.report, Kind.PAGE),
        ],
        [options.data, *options.constraint_files],
    )
    table = fitting.load_table(options.data, options.layout(), options.impute)
    values, scaling, _ = robustness.prepare(
        table, options.data, options.transform, options.scale, options.robust
    )
    proving.check_memory(options.prove, values, None)
    constraints = constraining.constraints_of(options, table)
    wanted = _count(count, table, values, constraints)
    constraining.check_count(constraints, wanted)
    estimators = {name: constraining.constrained(one, constraints) for name, one in methods.items()}
    estimators = in_time(estimators, values, table, options)
    found, held = _compared(options, estimators, table, values, wanted, constraints)
    table.notes.extend([] if held is None else held["words"])
    found = replace(found, notes=tuple(table.notes))
    for result in found.results:
        for message in (*result.warnings, *([result.error] if result.error else [])):
            told = message.startswith(f"{result.name}: ")  # warnings of methods begin so
            print_warning(message if told else f"{result.name}: {message}")
    with appear_together() as written:
        _write(found, options.output, options.figure)
        if options.report is not None:
            _write_report(options.report, found, fitting.data_name(options.data), scaling)
    with telling(written):
        if options.as_json:
            print_json(as_record(found, table, options, held))
        elif not options.quiet:
            console = output_console()
            _print(console, found, table, fitting.data_name(options.data), scaling)
            for path in written:
                console.print(Text(f"wrote {path}"), soft_wrap=True)


def _compared(
    options: CompareOptions,
    estimators: "Mapping[str, Any]",
    table: "Table",
    values: Any,
    wanted: int,
    constraints: "Constraints | None",
) -> "tuple[Comparison, dict[str, Any] | None]":
    """Return the comparison, and which constraints held and what they cost."""
    from jointsparse.model_selection import compare_methods

    prices: list[Any] = []
    try:
        with CompareProgress(error_console(), options.quiet) as progress:
            found = compare_methods(
                estimators,
                values,
                table.labels,
                n_features_to_select=wanted,
                n_subsamples=options.subsamples,
                random_state=options.seed,
                feature_names=table.names,
                on_progress=progress.method,
                on_fit=progress.fit,
            )
        if options.prove is not None:
            seconds = options.prove
            with proving.proving(not options.quiet):
                found = found.proved(values, constraints=constraints, time_limit=seconds)
                prices = constraining.prices(constraints, values, table.names, wanted, seconds)
    except ValueError as error:
        raise told(error, time_limit="--prove") from error
    return _in_options(found), constraining.record(constraints, table.names, None, prices)


def _in_options(found: "Comparison") -> "Comparison":
    """Return the comparison with what the methods said in the words of the command line."""
    from jointsparse.cli.words import in_options

    results = (
        replace(
            result,
            warnings=tuple(in_options(text, result.name) for text in result.warnings),
            error=in_options(result.error, result.name),
        )
        for result in found.results
    )
    return replace(found, results=tuple(results))


def _names(text: str) -> list[str]:
    if text.strip() == "all":
        return list(registry.methods())
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise CommandError("--methods takes names with commas between them, such as greedy,spca")
    return names


def _count(
    wanted: int | float | None, table: "Table", values: Any, constraints: "Constraints | None"
) -> int:
    """Return how many features each method keeps."""
    n_features = table.values.shape[1]
    if wanted is None:
        from jointsparse.methods.greedy_selector import GreedySelector

        selector = GreedySelector(constraints=constraints)
        try:
            with fitting.collect_warnings(selector):
                count = int(selector.fit(values).get_support().sum())
        except ValueError as error:
            raise told(error) from error
        if count == 0:
            why = selector.selection_report_.verdict.rstrip(".")
            raise CommandError(f"{why}; say with --features how many to compare")
        return count
    count = wanted if isinstance(wanted, int) else max(1, round(wanted * n_features))
    fitting.check_count(count, n_features)
    return int(count)


def _write(found: "Comparison", output: Path | None, figure: Path | None) -> None:
    from jointsparse.io import write_rows

    if output is not None:
        write_rows(output, *_rows(found))
    if figure is not None:
        from jointsparse.plotting import ComparisonDisplay

        save_figure(figure, lambda: ComparisonDisplay.from_comparison(found).figure_)


def _write_report(path: Path, found: "Comparison", data: str, scaling: str) -> None:
    from jointsparse.report.comparison import save_comparison

    title = f"Methods side by side: {data}"
    save_comparison(path, found, title=title, scaling=scaling, made=made())


def made() -> str:
    """Say by what, and when, a page was made."""
    from datetime import UTC, datetime

    from jointsparse import __version__

    return f"Made by jointsparse compare {__version__} on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."


def _rows(found: "Comparison") -> tuple[list[str], list[list[Any]]]:
    """Return header and cells: a line for each method, then PCA, random and all features."""
    labelled = found.scores_of_all is not None
    header = ["method", "kept", "r2_held_out", "r2_std", "stability", "lower", "upper"]
    header += ["group_stability", "group_lower", "group_upper", "seconds"]
    proved = not math.isnan(found.set_bound)
    header += ["set_value", "set_bound"] * proved
    header += [f"{score}{end}" for score in SCORES for end in ("", "_std")] if labelled else []
    header += [f"jaccard_{result.name}" for result in found.results] + ["features", "error"]
    overlap = found.jaccard
    rows = []
    for number, result in enumerate(found.results):
        names = "; ".join(found.feature_names[j] for j in result.kept)
        row = [result.name, len(result.kept), *result.r2, *result.stability]
        row += [*result.group_stability, result.seconds]
        row += [result.set_value, found.set_bound] * proved
        row += _cells(result.scores) if labelled else []
        rows.append([*map(_blank, [*row, *overlap[number]]), names, result.error])
    nothing = [""] * len(found.results)
    for name, r2 in (("PCA", found.pca_r2), ("random features", found.random_r2)):
        scores = [""] * 2 * len(SCORES) if labelled else []
        rows.append([name, found.n_kept, *r2, *[""] * (7 + 2 * proved), *scores, *nothing, "", ""])
    if labelled:
        scores = _cells(found.scores_of_all)
        empty = [""] * (9 + 2 * proved)
        rows.append(["all features", found.n_features, *empty, *scores, *nothing, "", ""])
    return header, rows


def _cells(scores: dict[str, tuple[float, float]] | None) -> list[Any]:
    if scores is None:
        return [""] * 2 * len(SCORES)
    return [value for name in SCORES for value in scores[name]]


def _blank(value: Any) -> Any:
    return "" if isinstance(value, float) and math.isnan(value) else value


def as_record(
    found: "Comparison",
    table: "Table",
    options: CompareOptions,
    constraints: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return everything a program may want to know, ready for JSON."""
    return {
        "data": fitting.data_name(options.data),
        "label": table.label_name,
        "scale": options.scale.value,
        "transform": options.transform and options.transform.value,
        "n_samples": found.n_samples,
        "n_features": found.n_features,
        "n_kept": found.n_kept,
        "n_subsamples": found.n_subsamples,
        "verdict": found.verdict,
        "set": None
        if math.isnan(found.set_bound)
        else {
            "bound": found.set_bound,
            "best_value": found.best_set_value,
            "constrained": found.constrained,
        },
        "constraints": constraints,
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
    return {
        "method": result.name,
        "kept": [found.feature_names[j] for j in result.kept],
        "r2_held_out": _mean_std(result.r2),
        "stability": _interval(result.stability),
        "group_stability": _interval(result.group_stability),
        "scores": _score_record(result.scores),
        "set_value": result.set_value,
        "seconds": result.seconds,
        "warnings": list(result.warnings),
        "error": result.error or None,
    }


def _interval(found: tuple[float, float, float]) -> dict[str, float]:
    return dict(zip(("value", "lower", "upper"), found, strict=True))


def _mean_std(pair: tuple[float, float]) -> dict[str, float]:
    return {"mean": pair[0], "std": pair[1]}


def _score_record(scores: dict[str, tuple[float, float]] | None) -> dict[str, Any] | None:
    return None if scores is None else {name: _mean_std(pair) for name, pair in scores.items()}


def _print(console: Console, found: "Comparison", table: "Table", data: str, scaling: str) -> None:
    glyphs = Glyphs.for_console(console)
    parts = (
        f"{counted(found.n_samples, 'sample')} {glyphs.times} "
        f"{counted(found.n_features, 'feature')}",
        f"{found.n_kept} kept by each method",
        scaling,
    )
    heading = Text.assemble((visible(data), "bold"), *(glyphs.separator + part for part in parts))
    console.print(heading, soft_wrap=True)
    for note in table.notes:
        console.print(Text(f"note: {visible(note)}", "dim"))
    console.print()
    verdict = found.verdict.replace("±", glyphs.plus_minus)
    console.print(Text(verdict, "bold"), soft_wrap=True)
    endless = console.options.update(width=1000, max_width=1000)
    for wide, groups in ((True, True), (False, True), (False, False)):
        shown = _table(found, glyphs, wide=wide, groups=groups)
        if console.measure(shown, options=endless).maximum <= console.width:
            break  # else there is no room for the spreads, or for the groups
    console.print(shown)
    explained = (
        "predicted: what the kept features predict of the dropped ones in new samples. Features "
        "are selected on one half of the samples and judged on the other, "
        f"{found.n_subsamples} times in all {glyphs.plus_minus} standard deviation. Random "
        "features: ten sets. Principal components are made of all features; theirs is the share "
        "of all"
    )
    if groups:
        explained += ". Of groups: stability where features that stand in for one another are one"
    console.print(Text(explained, "dim"))
    if not math.isnan(found.set_bound):
        console.print(Text(found.proof, "dim"))
    if len(found.results) > 1:
        console.print(Text("overlap of the selections (Jaccard index)", "bold"))
        for part in _overlap_tables(found, console.width):
            console.print(part)
    kept = int((found.votes > 0).sum())
    shared = int((found.votes == sum(bool(result.kept) for result in found.results)).sum())
    console.print(
        Text(
            f"together the methods keep {counted(kept, 'different feature')}; {shared or 'none'} "
            f"of them {'is' if shared == 1 else 'are'} kept by every method"
        ),
        soft_wrap=True,
    )


def _table(found: "Comparison", glyphs: Glyphs, *, wide: bool, groups: bool) -> RichTable:
    labelled = found.scores_of_all is not None
    proved = not math.isnan(found.set_bound)
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", no_wrap=wide, overflow="fold", style="bold")
    titles = ["predicted, %", "stability"]
    titles += (
        ["95 % interval"] * wide
        + ["of groups"] * groups
        + ["of the best, %"] * proved
        + ["seconds"]
        + list(SCORES.values()) * labelled
    )
    for title in titles:
        # Where even this is too wide, titles take several lines: nothing is cut off.
        table.add_column(title, justify="right", no_wrap=wide, overflow="fold")
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
            *([Text(f"{result.group_stability[0]:.2f}")] if groups else []),
            *([Text(found.share_of_best(result))] if proved else []),
            Text(f"{result.seconds:.2f}"),
            *_score_cells(result.scores, glyphs, wide),
        )
    table.add_section()
    # The spread of chance is there on every terminal: without it nothing can be compared.
    random = Text(_percent(found.random_r2, glyphs, True), "dim")
    table.add_row(Text(f"{counted(found.n_kept, 'random feature')}", "dim"), random)
    pca = Text(_percent(found.pca_r2, glyphs, wide), "dim")
    table.add_row(Text(f"{counted(found.n_kept, 'principal component')}", "dim"), pca)
    if labelled:
        empty = [""] * (3 + wide + groups + proved)
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


def _overlap_tables(found: "Comparison", width: int) -> Iterator[RichTable]:
    """Yield the matrix; columns are numbered, and in several tables where one has no room."""
    names = [result.name[:_NAME_LENGTH] for result in found.results]
    room = width - max(map(len, names)) - 2 * _OVERLAP_CELLS
    most = max(1, room // _OVERLAP_CELLS)
    for first in range(0, len(names), most):
        numbers = range(first, min(first + most, len(names)))
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("", justify="right", no_wrap=True)
        table.add_column("method", no_wrap=True, style="bold")
        for number in numbers:
            table.add_column(str(number + 1), justify="right", no_wrap=True)
        for number, (name, row) in enumerate(zip(names, found.jaccard, strict=True), start=1):
            cells = ("" if math.isnan(row[j]) else f"{row[j]:.2f}" for j in numbers)
            table.add_row(str(number), Text(name), *map(Text, cells))
        yield table
