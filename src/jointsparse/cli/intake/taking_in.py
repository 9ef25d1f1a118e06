"""From the options of ``select`` to a table and what is fitted: in memory, or read in blocks."""

from typing import TYPE_CHECKING, Any

from jointsparse.cli.display.console import print_note
from jointsparse.cli.errors import CommandError
from jointsparse.cli.intake import fitting, streaming
from jointsparse.cli.intake.fitting import Transform
from jointsparse.cli.intake.screening import screened
from jointsparse.cli.options import robustness, weighing
from jointsparse.cli.options.arguments import parameters_of

if TYPE_CHECKING:
    from jointsparse.cli.commands.select import SelectOptions
    from jointsparse.io import Table


def take_in(options: "SelectOptions", estimator: Any) -> tuple[Any, Any, str, Any]:
    """Return the table, what to fit (scaled, or moments), how in words, and the robust step."""
    how = streaming.Preparation(
        options.transform,
        options.scale,
        options.impute,
        weighing.Weighing(options.weights, options.batch),
        options.robust,
    )
    weighing.set_missing(estimator, options.impute)
    layout = how.weighing.in_layout(options.layout())
    table: Table | None = None
    try:
        source = streaming.open_if_large(
            options.data, estimator, layout=layout, memory=options.memory
        )
        if source is None:
            table = fitting.load_table(
                options.data, layout, options.impute, options.memory, estimates=True
            )
    except CommandError as error:
        raise how.weighing.told(error) from error
    if table is not None:
        streaming.check_whole(table, estimator, options.memory)
    else:
        assert source is not None
        count = parameters_of(estimator).get("n_features_to_select")
        fitting.check_count(count, source.n_features)
        table = streaming.whole_table(source, how)
        if table is None:
            streaming.check_format(options.output)
            streaming.check_outliers(source, options.outliers)
            source, notes = screened(source, how, options, estimator, quiet=options.quiet)
            reading = streaming.how_to_read(source, estimator, how)
            if not options.quiet:
                print_note(streaming.announcement(source, reading, estimator))
            taken = streaming.take_in(source, reading, how, show_progress=not options.quiet)
            taken[0].notes[:0] = notes
            return taken
    fitting.check_table(table, estimator)
    return (table, *_prepare(options, how, table, estimator))


def _prepare(
    options: "SelectOptions", how: streaming.Preparation, table: "Table", estimator: Any
) -> tuple[Any, str, Any]:
    """Return what to fit of a table in memory, how it was scaled in words, and the robust step."""
    given = how.weighing.of_table(table)
    if not given and options.impute not in fitting.ESTIMATES:
        values, scaling, step = robustness.prepare(
            table, options.data, options.transform, options.scale, options.robust
        )
        origin = None if step is None else step.origin_of(values.shape[0])
        return fitting.of_origin(values, origin), scaling, step
    if options.impute in fitting.ESTIMATES and options.transform is Transform.RANK:
        raise CommandError("--transform rank needs all values of a column: use --missing mean")
    data = options.data or fitting.BUNDLED_NAME
    values = fitting.transformed(table.values, data, options.transform, table.names)
    values, scaling, notes = weighing.weighed(
        values, given, options.impute, options.scale, estimator
    )
    table.notes.extend(notes)
    return values, fitting.told_with(options.transform, scaling), None
