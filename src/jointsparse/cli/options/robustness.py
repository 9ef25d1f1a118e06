"""``--robust`` and ``--outliers``: outliers get a bounded say, and are named."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jointsparse.cli.errors import CommandError, told
from jointsparse.cli.intake import fitting
from jointsparse.cli.intake.fitting import Scale, Selection, Transform
from jointsparse.text import counted, percent, visible

if TYPE_CHECKING:
    from jointsparse.io import Table
    from jointsparse.methods.robust_steps import RobustStep

ROBUST_HELP = (
    "What may be wrong with the table: whole samples (up to a fifth far from the others) or single "
    "cells. Outliers get a bounded say, or none, and are listed. Columns become comparable by "
    "robust scales, or keep their own with --scale none. What is written holds the original values."
)
OUTLIERS_HELP = "Add the outlier scores of the samples to --output; with --robust."
SCORE_COLUMN = "outlier_score"
_LISTED = 5  # rows named on the terminal
MOST_CELLS = 1000  # single values in --json


class Robust(StrEnum):
    """What may be wrong with a table."""

    SAMPLES = "samples"
    CELLS = "cells"


def check_options(
    robust: Robust | None, outliers: bool, output: Path | None, beside: dict[str, bool]
) -> None:
    """Refuse outlier scores that nothing computes, or that would be written nowhere.

    Parameters
    ----------
    robust, outliers, output
        Those options.
    beside : dict of str to bool
        Other options that do not go with ``--robust``, and whether they were given.
    """
    clashes = [option for option, given in beside.items() if given]
    if robust is not None and clashes:
        instead = "use --transform rank, by which no value is far from the others"
        if clashes[0].startswith("--missing"):
            instead = "fill missing values with --missing mean or median"
        raise CommandError(f"--robust does not go with {clashes[0]}: {instead}, or leave one out")
    if outliers and robust is None:
        raise CommandError("--outliers needs --robust samples or --robust cells")
    if outliers and output is None:
        raise CommandError("--outliers adds a column to the table of --output: give that too")


def make_step(robust: Robust, scale: Scale) -> "RobustStep":
    """Return what makes samples robust, unfitted."""
    from jointsparse.methods.robust_steps import SpatialSign, Wrap

    units = "original" if scale is Scale.NONE else "comparable"
    return SpatialSign(units=units) if robust is Robust.SAMPLES else Wrap(units=units)


def prepare(
    table: "Table",
    data: str | None,
    transform: Transform | None,
    scale: Scale,
    robust: Robust | None,
) -> "tuple[Any, str, RobustStep | None]":
    """Return the values to fit, in words what was done to them, and what made them robust."""
    if robust is None:
        return *fitting.prepare(table, data, transform, scale), None
    name = data or fitting.BUNDLED_NAME
    values = fitting.transformed(table.values, name, transform, table.names)
    step = make_step(robust, scale)
    try:
        values = step.fit(values).transform(values)
    except ValueError as error:
        raise told(error) from error
    return values, fitting.told_with(transform, scaling_words(robust, scale)), step


def scaling_words(robust: Robust, scale: Scale) -> str:
    """Return in words what was done to the columns."""
    units = "not scaled" if scale is Scale.NONE else "scaled by medians"
    return f"{units}, robust against outlier {robust.value}"


def with_scores(table: "Table", step: "RobustStep") -> "Table":
    """Return a table with the outlier scores of its samples as one column more."""
    import numpy as np
    from scipy import sparse

    from jointsparse.io.table import distinct

    scores = step.outlier_scores_[:, None]
    values: Any
    if sparse.issparse(table.values):
        values = sparse.hstack([table.values, sparse.csr_array(scores)], format="csr")
    else:
        values = np.hstack([table.values, scores])
    return replace(table, values=values, names=distinct([*table.names, SCORE_COLUMN])[0])


def outlier_record(selection: Selection) -> dict[str, Any] | None:
    """Return the outliers for JSON, worst first; rows are counted from 1."""
    from jointsparse.robust.rule import FAR
    from jointsparse.robust.wrapping import GROSS

    step = _step(selection)
    if step is None:
        return None
    rows = (-step.outlier_scores_).argsort(kind="stable")[: int(step.outliers_.sum())].tolist()
    record: dict[str, Any] = {
        "robust": step.kind,
        "limit": FAR,
        "samples": [{"row": row + 1, "score": float(step.outlier_scores_[row])} for row in rows],
    }
    cells = _cells(selection)
    if cells is not None:
        names = selection.table.names
        record["cell_limit"] = GROSS
        record["n_cells"] = len(cells)
        record["cells"] = [
            {"row": row + 1, "feature": names[column]} for row, column in cells[:MOST_CELLS]
        ]
    return record


def outliers_in_words(selection: Selection) -> dict[str, str]:
    """Say which samples and values were left without a say."""
    step = _step(selection)
    if step is None:
        return {}
    n = step.outlier_scores_.size
    rows = (-step.outlier_scores_).argsort(kind="stable")[: int(step.outliers_.sum())].tolist()
    text = f"none of {counted(n, 'sample')} is far from the others"
    if rows:
        listed = ", ".join(str(row + 1) for row in rows[:_LISTED])
        more = f" and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
        verb = "is" if len(rows) == 1 else "are"
        row_word = "row" if len(rows) == 1 else "rows"
        text = (
            f"{len(rows)} of {counted(n, 'sample')} {verb} far from the others ({row_word} "
            f"{listed}{more}); of clean samples 1 in 400 would be"
        )
    cells = _cells(selection)
    if cells is None:
        return {"outliers": text}
    values = n * len(selection.table.names)
    share = percent(len(cells) / values)
    if cells and len(cells) < 0.0005 * values:
        share = "less than 0.1 %"
    first = ""
    if cells:
        row, column = cells[0]
        first = f", the first in row {row + 1}, {visible(selection.table.names[column])}"
    gross = f"{counted(len(cells), 'single value')} ({share}) {'is' if len(cells) == 1 else 'are'}"
    return {"outliers": text, "gross values": f"{gross} far from the rest of the column{first}"}


def _step(selection: Selection) -> "RobustStep | None":
    """Return what made the samples robust: before the method, or inside (--param robust=…)."""
    inside: RobustStep | None = getattr(selection.estimator, "robust_step_", None)
    return inside if selection.step is None else selection.step


def _cells(selection: Selection) -> list[tuple[int, int]] | None:
    """Return row and column of gross values; None where single values are not judged."""
    from scipy import sparse

    step, values = selection.step, getattr(selection.table, "values", None)
    if step is None or step.kind != "cells" or values is None:
        return None
    values = fitting.transformed(values, selection.data, selection.transform, [])
    gross = step.rule.gross(values)
    found = gross.tocoo().coords if sparse.issparse(gross) else gross.nonzero()
    return sorted(zip(found[0].tolist(), found[1].tolist(), strict=True))
