r"""Parameters judged on samples that had no part in the choice of the features.

The samples are cut into K parts. For each part, every point of the grid is fitted to all *other*
parts, the dropped features are regressed on those that it keeps there, and the part is the judge.
With H_k what a point keeps without part k,

.. math:: R^2 = 1 - \frac{\sum_k\sum_{j\notin H_k} r_{jk}}{\sum_k\sum_{j\notin H_k} v_{jk}} ,

v the squares of feature j in part k and r its squared error: the share of the dropped features that
is predicted in new samples, as in :mod:`jointsparse.trials`. All points have the same parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jointsparse.arrays import IntArray
from jointsparse.model_selection.grid import Parameters, walk_all
from jointsparse.moments import Moments
from jointsparse.significance import feature_significance
from jointsparse.solvers.picking.held_out import Judged, cross_validation_folds
from jointsparse.trials import MOST_ROWS, cut_into_parts, error_of, total_of, without_part

Score = tuple[float, float]  # a criterion and its standard error


def held_out_scores(
    estimator: Any,
    moments: Moments,
    lines: Sequence[Sequence[Parameters]],
    *,
    seed: int,
    n_jobs: int | None,
    one_done: Callable[[], None],
) -> list[Score]:
    """Return R² and its standard error for each point of a grid, line by line.

    Parameters
    ----------
    estimator : estimator
        A selector.
    moments : Moments
        The data, with their samples.
    lines : sequence of sequence of dict
        The points; along a line every fit starts from the one before, if it can.
    seed : int
        Seed of the parts.
    n_jobs : int or None
        Threads.
    one_done : callable
        Called after each fit.
    """
    rows = np.random.default_rng(seed).permutation(moments.n_samples)[:MOST_ROWS]
    parts = cut_into_parts(rows, moments.origin)
    kept, inside = [], []
    for part in parts:
        training = without_part(moments, rows, part)[0]
        inside.append(feature_significance(training).significant)
        kept.append(_kept_on(estimator, training, lines, n_jobs, one_done))
    judged: list[list[Judged]] = []
    for fold, sets in zip(cross_validation_folds(moments, parts, inside), kept, strict=True):
        # Neighbouring points often keep the same features; each set is judged once.
        known = {features.tobytes(): fold.judge(features) for features in _different(sets)}
        judged.append([known[features.tobytes()] for features in sets])
    points = zip(*judged, strict=True)
    return [(total_of(found).r2, error_of(found)) for found in points]


def _kept_on(
    estimator: Any,
    training: Moments,
    lines: Sequence[Sequence[Parameters]],
    n_jobs: int | None,
    one_done: Callable[[], None],
) -> list[IntArray]:
    """Return what each point keeps on some of the samples."""
    try:
        fits = walk_all(estimator, training, lines, n_jobs=n_jobs, one_done=one_done)
    except ValueError as error:
        raise ValueError(
            "criterion='held-out' fits every point to parts of the samples, and "
            f"{type(estimator).__name__} refuses one: {error}"
        ) from error
    return [fit.kept for fit in fits]


def _different(sets: Sequence[IntArray]) -> list[IntArray]:
    return list({features.tobytes(): features for features in sets}.values())
