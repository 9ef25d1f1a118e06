"""What to do next: one command, where one would help."""

from typing import TYPE_CHECKING, Any

from jointsparse.cli.display.repeating import command_of
from jointsparse.cli.intake.fitting import ESTIMATES, Selection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jointsparse.cli.commands.select import SelectOptions

PROVABLE = 500  # features: of more, a minute of search seldom proves anything
PROVING_SECONDS = 60.0


def next_step(selection: Selection, options: "SelectOptions") -> tuple[str, str] | None:
    """Return why, and the command: the first that would help; None where none would."""
    from jointsparse.selection.verdict import LUCKY

    report = selection.report
    if report is None:
        return None
    if report.extremes_matter and selection.transform is None and selection.step is None:
        return _against_extremes(selection, options)
    if not selection.kept.any() or report.is_noise:
        return None
    asked = options.features is not None or options.r2 is not None
    provable, known = report.n_features <= PROVABLE, selection.certificate
    changes: list[tuple[bool, str, dict[str, object]]] = [
        (
            report.beaten_by > LUCKY and asked,
            "Random features do nearly as well; let new samples say how many to keep",
            {"features": None, "r2": None},
        ),
        (
            known is not None and not known.proved and options.prove is None and provable,
            "Search a minute for the best set, with a proof",
            {"prove": PROVING_SECONDS},
        ),
        (
            options.report is None,
            "See the samples, the groups and every feature on one page",
            {"report": "report.html"},
        ),
        (
            known is None and provable,
            "Search a minute for a better set, and prove how much better one could be",
            {"prove": PROVING_SECONDS},
        ),
    ]
    for helps, why, changed in changes:
        if helps:
            return why, command_of("select", options, **changed)
    return None


def _against_extremes(selection: Selection, options: "SelectOptions") -> tuple[str, str]:
    """Return the option that leaves extreme values out, or one that goes with the others."""
    extremes = None if selection.report is None else selection.report.extremes
    why = "A few extreme values may decide this"
    weighed = options.weights is not None or options.batch is not None
    if weighed or options.impute in ESTIMATES:  # which --robust does not go with
        changed = {"transform": "rank"}
        if options.impute in ESTIMATES:  # ranks need every value
            changed["impute"] = "mean"
        return f"{why}; choose by ranks", command_of("select", options, **changed)
    cells = extremes is None or extremes.columns.size > 0
    if extremes is not None and cells and _are_counts(selection.table, extremes.columns):
        why = "A few large counts may decide this; choose by their logarithms"
        return why, command_of("select", options, transform="log1p")
    changed = {"robust": "cells" if cells else "samples"}
    return f"{why}; see what is left without them", command_of("select", options, **changed)


def _are_counts(table: Any, columns: "NDArray[Any]") -> bool:
    """Whether no value of a table in memory is negative, and these columns hold whole numbers."""
    import numpy as np

    values = getattr(table, "values", None)
    if not isinstance(values, np.ndarray) or values.min() < 0:
        return False
    loud = values[:, columns]
    return bool((loud == np.round(loud)).all())
