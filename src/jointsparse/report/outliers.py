"""Outlier samples and gross values on the page: how many, and the worst of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jointsparse.methods.robust_steps import RobustStep
from jointsparse.report.entries import amount, entry, listing, number, sentence
from jointsparse.robust.rule import FAR, KINDS

MOST_ROWS = 20  # of the worst samples


@dataclass(frozen=True)
class Outliers:
    """What was found to be far from the rest.

    Attributes
    ----------
    kind : {"samples", "cells"}
        What was bounded.
    n_outliers : int
        Samples that are far from the others.
    rows : list of (int, float)
        Row, counted from 1, and score of the worst.
    n_cells : int or None
        Gross single values; None where they were not counted.
    limit : float
        Scores above are those of outliers.
    """

    kind: str
    n_outliers: int
    rows: list[tuple[int, float]]
    n_cells: int | None
    limit: float = FAR


def outliers_from_record(record: Any) -> Outliers | None:
    """Return the outliers of a record of ``select --json``; None where nothing was robust.

    Raises ValueError, with what is wrong, where it is not one.
    """
    if record is None:
        return None
    samples = listing(record, "samples")
    kind = sentence(entry(record, "robust"), "robust")
    if kind not in KINDS:
        raise ValueError("'robust' is neither 'samples' nor 'cells'")
    rows = [
        (amount(one, "row"), number(entry(one, "score"), "score")) for one in samples[:MOST_ROWS]
    ]
    cells = amount(record, "n_cells") if "n_cells" in record else None
    return Outliers(kind, len(samples), rows, cells)


def outliers_of(estimator: Any) -> Outliers | None:
    """Return the outliers that a fitted estimator, or a step of a pipeline, knows about."""
    steps = [step for _, step in getattr(estimator, "steps", [])] or [estimator]
    known = [getattr(step, "robust_step_", step) for step in steps]
    found = [step for step in known if isinstance(step, RobustStep)]
    if not found:
        return None
    scores = found[-1].outlier_scores_
    order = (-scores).argsort(kind="stable")[: int(found[-1].outliers_.sum())].tolist()
    rows = [(row + 1, float(scores[row])) for row in order[:MOST_ROWS]]
    return Outliers(found[-1].kind, len(order), rows, None)
