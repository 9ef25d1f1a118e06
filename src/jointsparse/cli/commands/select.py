"""``jointsparse select``: rank the features of a table and keep the ones that matter."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jointsparse.cli.display.console import as_given, output_console, print_json, print_warning
from jointsparse.cli.display.printing import print_answer
from jointsparse.cli.display.rendering import (
    RANKING_HEADER,
    as_record,
    ranking_cells,
)
from jointsparse.cli.display.repeating import command_of
from jointsparse.cli.errors import CommandError
from jointsparse.cli.intake import fitting, streaming
from jointsparse.cli.intake.fitting import Impute, Rule, Scale, Selection, Transform
from jointsparse.cli.intake.taking_in import take_in
from jointsparse.cli.options import (
    choosing,
    constraining,
    proving,
    reporting,
    robustness,
    saving,
    weighing,
)
from jointsparse.cli.options.arguments import (
    build_estimator,
    default_parameters,
    find_method,
    parameters_of,
)
from jointsparse.cli.options.choosing import Criterion
from jointsparse.cli.options.devices import find_device, move
from jointsparse.cli.options.shared import TRANSFORM_HELP
from jointsparse.cli.options.tables import TableOptions, spooled
from jointsparse.cli.outputs import Kind, Output, check_outputs
from jointsparse.cli.together import appear_together, telling

if TYPE_CHECKING:
    from jointsparse.methods.registry import Method

_data_option, _result, _printing = (
    partial(typer.Option, rich_help_panel=panel) for panel in ("Data", "Results", "Printing")
)

HELP = "Rank the features of a table and keep the ones that matter."


@dataclass(frozen=True, kw_only=True)
class SelectOptions(constraining.ConstraintOptions, TableOptions):
    """What ``jointsparse select`` can be asked for."""

    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="Table: CSV, TSV, Excel, Parquet, Arrow, NPY, NPZ, Matrix Market, HDF5 or "
            "AnnData; a folder of CSV, Parquet or Arrow files, or of 10x; - for standard input. "
            "Without it, the bundled breast-cancer table.",
            show_default=False,
        ),
    ] = None
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="See: jointsparse methods.")
    ] = "spca-psd"
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            metavar="K",
            help="How many to keep: a count, a share such as 0.2, support (all nonzero scores) or "
            "auto (as many as new samples call for, none in noise), the default.",
        ),
    ] = None
    r2: Annotated[
        float | None,
        typer.Option(
            "--r2",
            metavar="SHARE",
            help="Keep the fewest features that account for this share of the variance in this "
            "table.",
        ),
    ] = None
    rule: Annotated[
        Rule | None,
        typer.Option(
            "--rule",
            help="How the set is made: greedy avoids features that repeat each other; norm takes "
            "the highest scores, as published; variance the largest variances, with --scale none; "
            "swap improves the greedy set by exchanges.",
            show_default="greedy",
        ),
    ] = None
    components: Annotated[
        int | None,
        typer.Option(
            "--components",
            min=1,
            metavar="K",
            help="Number of components, for methods that have them; what each is made of is "
            "printed.",
        ),
    ] = None
    choose: Annotated[
        Criterion | None,
        typer.Option(
            "--choose",
            help="Choose the penalties first, without labels, by this criterion.",
            show_default=False,
        ),
    ] = None
    clusters: Annotated[
        int | None,
        typer.Option(
            "--clusters",
            min=2,
            metavar="C",
            help="Number of groups in the samples, where it is known; for --choose.",
        ),
    ] = None
    prove: Annotated[
        float | None,
        typer.Option("--prove", min=0, metavar="SECONDS", help=proving.PROVE_HELP),
    ] = None
    scale: Annotated[
        Scale, _data_option("--scale", help="How to make columns with different units comparable.")
    ] = Scale.STANDARD
    transform: Annotated[
        Transform | None, _data_option("--transform", help=TRANSFORM_HELP, show_default=False)
    ] = None
    robust: Annotated[
        robustness.Robust | None,
        _data_option("--robust", help=robustness.ROBUST_HELP, show_default=False),
    ] = None
    impute: Annotated[
        Impute | None, _data_option("--missing", "--impute", help=weighing.MISSING_HELP)
    ] = None
    weights: Annotated[
        str | None, _data_option("--weights", metavar="COLUMN", help=weighing.WEIGHTS_HELP)
    ] = None
    batch: Annotated[
        str | None, _data_option("--batch", metavar="COLUMN", help=weighing.BATCH_HELP)
    ] = None
    memory: Annotated[
        str | None,
        _data_option(
            "--memory",
            metavar="SIZE",
            help="How much may be used, such as 1GB; larger tables are read in blocks. "
            "Half of what is free by default.",
            show_default=False,
        ),
    ] = None
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="NAME=VALUE",
            help="Any parameter of the method, such as alpha=0.2; can be repeated.",
        ),
    ] = None
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed, for methods that use randomness.")
    ] = None
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="DEVICE",
            help="Fit on a device of PyTorch: cpu, cuda, cuda:1, …",
            show_default=False,
        ),
    ] = None
    output: Annotated[
        Path | None,
        _result(
            "--output", metavar="FILE", help="Write the kept columns, with their original values."
        ),
    ] = None
    outliers: Annotated[bool, _result("--outliers", help=robustness.OUTLIERS_HELP)] = False
    ranking: Annotated[
        Path | None,
        _result(
            "--ranking",
            metavar="FILE",
            help="Write rank, score, kept and stand-ins of all, as CSV.",
        ),
    ] = None
    report: Annotated[
        Path | None,
        _result(
            "--report", metavar="FILE", help="Write what was found, and why, as one HTML page."
        ),
    ] = None
    image_shape: Annotated[
        str | None,
        _result(
            "--image-shape",
            metavar="HxW",
            help="Height and width, where the features are pixels: pictures in the report.",
        ),
    ] = None
    path_points: Annotated[
        int | None,
        _result(
            "--path-points",
            min=0,
            metavar="N",
            help="Points of the regularisation path in the report; 0 for none.",
            show_default="24, if they take less than a minute",
        ),
    ] = None
    top: Annotated[
        int | None,
        _printing(
            "--top",
            min=1,
            metavar="N",
            help="Show the N best features, kept or not.",
            show_default="the kept ones, at most 30",
        ),
    ] = None
    scores: Annotated[
        bool,
        _printing(
            "--scores",
            help="Show the method's own score of each feature, too.",
        ),
    ] = False
    as_json: Annotated[
        bool, _result("--json", help="Print one JSON object instead of the tables.")
    ] = False
    save: Annotated[
        Path | None,
        _result(
            "--save",
            metavar="FILE",
            help="Write the fitted model (.skops), for jointsparse transform.",
        ),
    ] = None
    quiet: Annotated[
        bool, _printing("--quiet", help="Print only warnings and errors (and --json).")
    ] = False
    verbose: Annotated[
        bool, _printing("--verbose", help="Print diagnostics and parameters too.")
    ] = False


def select(options: SelectOptions) -> None:
    """Read, fit, write, print: in this order, and nothing is written before all is well."""
    from jointsparse.io.budget import limited_to

    impute = None if options.impute is Impute.ERROR else options.impute
    options = replace(options, data=spooled(options.data), impute=impute)
    chosen = find_method(options.method)
    constraining.check_constraints(options)
    estimator = _build(options, chosen)
    shape, place = _check_results(options), find_device(options.device)
    table, judged, scaling, step = take_in(options, estimator)
    values = fitting.without_origin(judged)
    reporting.check_pixels(shape, len(table.names))
    constraints = constraining.constraints_of(options, table)
    if constraints is not None:
        constraining.check_count(constraints, parameters_of(estimator)["n_features_to_select"])
        estimator.set_params(constraints=constraints)
    proving.check_memory(options.prove, values, options.memory)
    loud = not options.quiet
    with limited_to(options.memory):
        known = default_parameters(chosen)
        estimator, choice = choosing.chosen(
            estimator, judged, options.choose, options.clusters, options.seed, options.quiet
        )
        placed = move(values, place)
        fitted = judged if place is None else fitting.of_origin(placed, fitting.origin_of(judged))
        seconds, warnings = fitting.fit(estimator, fitted, known, show_progress=loud)
        proving.go_on(options.prove, estimator, show_progress=loud)
        worth, more_warnings = fitting.worth(estimator, judged, show_progress=loud)
    warnings += more_warnings
    certificate, unproved = proving.proof(options.prove, placed, estimator, show_progress=loud)
    notes = [*table.notes, *_seed_note(options.seed, parameters_of(estimator)), *choice, *unproved]
    held = _constraints_held(options, constraints, values, table.names, estimator)
    selection = Selection(
        data=fitting.data_name(options.data),
        table=table,
        method=chosen.name,
        scale=options.scale,
        scaling=scaling,
        estimator=estimator,
        seconds=seconds,
        notes=notes,
        warnings=warnings,
        report=worth,
        transform=options.transform,
        certificate=certificate,
        constraints=held,
        step=step,
    )
    for message in warnings:
        print_warning(message)
    with appear_together() as written:
        _write(selection, options)
        _write_more(options, selection, values, shape)
    with telling(written):
        if options.as_json:
            print_json(as_record(selection))
        elif not options.quiet:
            print_answer(output_console(), selection, options, written)


def _constraints_held(
    options: SelectOptions, constraints: Any, values: Any, names: list[str], estimator: Any
) -> dict[str, Any] | None:
    """Return which constraints held, and with --prove what they cost."""
    kept = estimator.get_support().nonzero()[0].tolist()
    found = []
    if constraints is not None and options.prove is not None:
        count = proving.asked_for(estimator)
        with proving.proving(not options.quiet):
            found = constraining.prices(constraints, values, names, count, options.prove)
    return constraining.record(constraints, names, kept, found)


def _build(options: SelectOptions, chosen: "Method") -> Any:
    """Return the estimator that was asked for, unfitted."""
    fitting.check_rule(options.rule, options.scale)
    return build_estimator(
        chosen,
        options.features,
        options.param or [],
        options.seed,
        r2=options.r2,
        rule=None if options.rule is None else options.rule.value,
        components=options.components,
    )


def _check_results(options: SelectOptions) -> tuple[int, int] | None:
    """Refuse, before any work, results that cannot be written; return the shape of the images."""
    beside = {
        "--weights": options.weights is not None,
        "--batch": options.batch is not None,
        f"--missing {options.impute}": options.impute in fitting.ESTIMATES,
    }
    robustness.check_options(options.robust, options.outliers, options.output, beside)
    check_outputs(
        [
            Output("--output", options.output, Kind.TABLE),
            Output("--ranking", options.ranking, Kind.TEXT),
            Output("--report", options.report, Kind.PAGE),
            Output("--save", options.save, Kind.MODEL),
        ],
        [options.data, *options.constraint_files],
    )
    shape = reporting.parse_image_shape(options.image_shape)
    if shape is not None and options.report is None:
        raise CommandError("--image-shape is for the pictures of a report: give --report too")
    return shape


def _seed_note(seed: int | None, parameters: dict[str, Any]) -> list[str]:
    if seed is None or "random_state" in parameters:
        return []
    return ["this method uses no randomness, so --seed changes nothing"]


def _write(selection: Selection, options: SelectOptions) -> None:
    """Write the tables that were asked for."""
    from jointsparse.io import write_rows, write_table

    output, ranking = options.output, options.ranking
    if output is not None and not selection.kept.any():
        message = fitting.nothing_kept_message(selection.estimator)
        if selection.report is not None:
            message = selection.report.verdict.rstrip(".")
        raise CommandError(f"{message}; {output} was not written")
    if ranking is not None:
        write_rows(ranking, RANKING_HEADER, ranking_cells(selection))
    if output is not None:
        columns = selection.kept.nonzero()[0]
        if isinstance(selection.table, streaming.StreamedTable):
            selection.table.write(output, columns)
        else:
            kept = selection.table.select(columns)
            if options.outliers and selection.step is not None:
                kept = robustness.with_scores(kept, selection.step)
            write_table(output, kept)


def _write_more(
    options: SelectOptions,
    selection: Selection,
    values: Any,
    shape: tuple[int, int] | None,
) -> None:
    """Write the report and the model, where they were asked for."""
    if options.report is not None:
        filling = fitting.filling_of(options.impute)
        request = reporting.Request(
            target=options.report,
            source=options.data and as_given(options.data, Path(options.data).name),
            image_shape=shape,
            points=options.path_points,
            reading=_reading(options) | ({"impute": filling} if filling else {}),
            show_progress=not options.quiet,
            command=command_of("select", options, quiet=False, as_json=False),
            weighing=weighing.Weighing(options.weights, options.batch).parameters,
            estimated=options.impute in fitting.ESTIMATES,
        )
        reporting.write_report(request, selection, values)
    if options.save is not None:
        saving.write_model(options.save, selection, options.impute)


def _reading(options: SelectOptions) -> dict[str, Any]:
    """Return the parameters of ``read_table``, with the columns of weights and batches."""
    layout = weighing.Weighing(options.weights, options.batch).in_layout(options.layout())
    return options.reading() | ({"ids": list(layout.ids)} if layout.ids else {})
