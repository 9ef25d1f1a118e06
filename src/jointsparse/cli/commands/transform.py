"""``jointsparse transform``: apply a saved model to another table."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from jointsparse.cli.display.console import Glyphs, output_console, print_json, print_warning
from jointsparse.cli.errors import CommandError, told
from jointsparse.cli.options.tables import TableOptions, notes_in_options, spooled
from jointsparse.cli.outputs import Kind, Output, check_outputs
from jointsparse.text import counted, visible

if TYPE_CHECKING:
    from jointsparse.io import Table

HELP = "Keep the features of a saved model in another table, with its original values."
_LISTED = 5  # names in a sentence
_NOTHING = (
    "the model keeps no feature, so there is nothing to write; fit it again with a smaller "
    "penalty, or with --features K"
)
_MODEL_FAULTS = (ValueError, AttributeError, TypeError, LookupError, ArithmeticError, MemoryError)


@dataclass(frozen=True, kw_only=True)
class TransformOptions(TableOptions):
    """What ``jointsparse transform`` can be asked for."""

    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="File of select --save.", show_default=False)
    ]
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="Table with the columns that the model was fitted to, in any order.",
            show_default=False,
        ),
    ]
    output: Annotated[
        Path,
        typer.Option(
            "--output", metavar="FILE", help="Where the result goes; any format that select reads."
        ),
    ]
    scaled: Annotated[
        bool,
        typer.Option(
            "--scaled",
            help="Write values as the model sees them, not the original ones: filled, scaled, and "
            "after select --transform log1p their logarithms.",
        ),
    ] = False
    partial: Annotated[
        bool,
        typer.Option(
            "--partial", help="Columns that the model does not keep need not be in the table."
        ),
    ] = False
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of text.")
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only warnings and errors (and --json).")
    ] = False


def transform(options: TransformOptions) -> None:
    """Load, match the columns, write."""
    from jointsparse.io import TableError, write_table
    from jointsparse.io.budget import available_memory
    from jointsparse.io.reading import read_with
    from jointsparse.persistence import ModelError, load_model

    options = replace(options, data=str(spooled(options.data)))
    check_outputs([Output("--output", options.output, Kind.TABLE)], [options.data, options.model])
    try:
        fitted = load_model(options.model)
        layout = replace(options.layout(), drop_text=True, ids_apart_from=_wanted_names(fitted))
        table = read_with(
            Path(options.data), layout, impute="keep", least_rows=1, memory=available_memory()
        )
        table.notes[:] = notes_in_options(table.notes)
        result, notes = applied(
            fitted, table, options.data, scaled=options.scaled, partial=options.partial
        )
        write_table(options.output, result)
    except (ModelError, TableError, OSError) as error:
        raise told(error) from error
    if options.as_json:
        print_json(
            {
                "model": str(options.model),
                "data": options.data,
                "n_samples": result.values.shape[0],
                "columns": result.names,
                "scaled": options.scaled,
                "notes": notes,
                "output": str(options.output),
            }
        )
    elif not options.quiet:
        _print(result, table, notes, options.output)
    else:
        for note in notes:
            print_warning(note)


def _print(result: "Table", table: "Table", notes: list[str], output: Path) -> None:
    console = output_console()
    glyphs = Glyphs.for_console(console)
    for note in notes:
        console.print(Text(f"note: {visible(note)}", "dim"))
    rows, columns = result.values.shape
    shape = f"{counted(rows, 'sample')} {glyphs.times} {counted(columns, 'column')}"
    console.print(Text(f"{shape}, of {table.values.shape[1]} in the table", "bold"))
    console.print(Text(f"wrote {output}"), soft_wrap=True)


def applied(
    model: Any, table: "Table", data: str, *, scaled: bool, partial: bool
) -> "tuple[Table, list[str]]":
    """Return what the model makes of a table, and notes about what was ignored.

    A file can hold a model of the right types with the wrong values in it: whatever it does then,
    and numbers that are not finite where those of the table are, are the model's fault.
    """
    try:
        result, notes = _applied(model, table, data, scaled=scaled, partial=partial)
    except CommandError:
        raise
    except _MODEL_FAULTS as error:
        reason = f"{type(error).__name__}: {error}"[:160]
        raise CommandError(f"the model cannot be applied: {reason}") from error
    if not result.names:
        raise CommandError(_NOTHING)
    if _finite(table.values) and not _finite(result.values):
        raise CommandError("the model cannot be applied: it gives values that are not finite")
    return result, notes


def _finite(values: Any) -> bool:
    import numpy as np

    stored = values if isinstance(values, np.ndarray) else values.data
    return stored.dtype.kind in "biuf" and bool(np.isfinite(stored).all())


def _applied(
    model: Any, table: "Table", data: str, *, scaled: bool, partial: bool
) -> "tuple[Table, list[str]]":
    import numpy as np
    from sklearn.feature_selection import SelectorMixin
    from sklearn.pipeline import Pipeline

    last = model[-1] if isinstance(model, Pipeline) else model
    selects = isinstance(last, SelectorMixin)
    kept = np.flatnonzero(last.get_support()) if selects else None
    if kept is not None and not kept.size:
        raise CommandError(_NOTHING)
    matched, notes, absent = _matched(model, table, data, kept if partial else None)
    values = _filled(model, matched, kept, data)
    if scaled and "rank" in getattr(model, "named_steps", {}):
        raise CommandError(
            "the features were chosen by ranks (select --transform rank), and samples of another "
            "table have none among those: leave --scaled out for the original values"
        )
    if selects and not scaled:
        assert kept is not None
        names = [matched.names[j] for j in kept]
        return _table(values[:, kept], names, table), notes
    if absent:
        # Their values have no part in what is kept; scaling needs some number there.
        values = np.nan_to_num(values, nan=0.0)
    out = _quietly(model, values)
    if selects:
        assert kept is not None
        return _table(out, [matched.names[j] for j in kept], table), notes
    names = [str(name) for name in last.get_feature_names_out()]
    return _table(out, names, table), notes


def _wanted_names(model: Any) -> frozenset[str]:
    """Return the columns that a model was fitted to, whatever they look like."""
    names = getattr(model, "feature_names_in_", None)
    return frozenset() if names is None else frozenset(map(str, names))


def _matched(
    model: Any, table: "Table", data: str, needed: Any
) -> "tuple[Table, list[str], list[str]]":
    """Return the model's columns in the model's order; missing ones, where allowed, as NaN."""
    import numpy as np

    names = getattr(model, "feature_names_in_", None)
    if names is None:
        count, there = int(model.n_features_in_), table.values.shape[1]
        if count != there:
            raise CommandError(
                f"the model was fitted to {counted(count, 'column')}; {data} has {there}"
            )
        return table, [], []
    wanted = [str(name) for name in names]
    place = {name: j for j, name in enumerate(table.names)}
    absent = [name for name in wanted if name not in place]
    must = absent
    if needed is not None:
        must = [wanted[j] for j in needed if wanted[j] not in place]
    if must:
        raise CommandError(_absent_message(model, table, data, wanted, must, needed is None))
    extra = [name for name in table.names if name not in set(wanted)]
    notes = [*table.notes]
    if extra:
        notes.append(f"ignored {counted(len(extra), 'column')} that the model does not know")
        notes[-1] += f": {_listed(extra)}"
    present = [name for name in wanted if name in place]
    order = [place[name] for name in present]
    if order != sorted(order):
        notes.append("the columns were put into the order of the model")
    part = table.select(order)
    if not absent:
        return part, notes, []
    notes.append(f"{counted(len(absent), 'column')} that the model does not keep are not there")
    values = np.full((part.values.shape[0], len(wanted)), np.nan)
    dense = part.values if isinstance(part.values, np.ndarray) else part.values.toarray()
    values[:, [wanted.index(name) for name in present]] = dense
    return _table(values, wanted, table), notes, absent


def _absent_message(
    model: Any, table: "Table", data: str, wanted: list[str], absent: list[str], all_needed: bool
) -> str:
    text = next((f" ({note})" for note in table.notes if "text column" in note), "")
    message = (
        f"{data} lacks {len(absent)} of the {counted(len(wanted), 'column')} that the model was "
        f"fitted to: {_listed(absent)}{text}"
    )
    last = model[-1] if hasattr(model, "steps") else model
    if all_needed and hasattr(last, "get_support"):
        kept = {wanted[j] for j in last.get_support(indices=True)}
        if not kept & set(absent):
            message += "; the model keeps none of these, so --partial will do"
    return message


def _filled(model: Any, table: "Table", kept: Any, data: str) -> Any:
    """Return the values without missing ones where it matters."""
    import numpy as np

    from jointsparse.methods.reading.samples import takes_missing

    values = table.values
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        return values
    first = model[0] if hasattr(model, "steps") else model
    filling = getattr(first, "statistics_", None)
    if filling is not None:
        return np.where(np.isnan(values), filling, values)
    if takes_missing(model[-1] if hasattr(model, "steps") else model):
        return values  # what is missing stays missing
    columns = np.arange(values.shape[1]) if kept is None else kept
    holed = [table.names[j] for j in columns if np.isnan(values[:, j]).any()]
    if holed:
        raise CommandError(
            f"{data} has missing values in {counted(len(holed), 'column')} ({_listed(holed)}), and "
            "the model was saved without --missing"
        )
    return values


def _quietly(model: Any, values: Any) -> Any:
    import warnings

    with warnings.catch_warnings():
        # The columns were matched by name above; an array has none to check again.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return model.transform(values)


def _table(values: Any, names: list[str], like: "Table") -> "Table":
    made = like.with_values(values, names)
    made.notes.clear()
    return made


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(visible(name)[:60] for name in names[:_LISTED]) + more
