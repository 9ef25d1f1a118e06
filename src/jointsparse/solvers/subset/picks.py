"""Exchanges for the greedy rule of any method: on its columns, for its target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jointsparse.arrays import IntArray
from jointsparse.device import to_host
from jointsparse.solvers.picking.row_targets import Target, row_products
from jointsparse.solvers.products.columns import Columns
from jointsparse.solvers.subset.exchange import FoundSet, exchange
from jointsparse.solvers.subset.problem import SubsetProblem, problem_of_columns
from jointsparse.solvers.subset.rules import Rules


def problem_of_picks(columns: Columns, target: Target | None = None) -> SubsetProblem:
    """Return the problem that the greedy rule works on.

    Parameters
    ----------
    columns : Columns
        The features, X.
    target : callable, ndarray of shape (n_rows, q) or None
        XAᵀ, or what returns its rows for a block of rows of X; None is A = I.
    """
    features = np.asarray(to_host(columns.take(slice(None))), dtype=np.float64)
    if target is None:
        return problem_of_columns(features)
    mapped = row_products(columns, target) if callable(target) else target
    return problem_of_columns(features, np.asarray(to_host(mapped), dtype=np.float64))


def exchange_picks(
    columns: Columns,
    picks: Sequence[int] | IntArray,
    *,
    target: Target | None = None,
    rules: Rules | None = None,
) -> FoundSet:
    """Exchange picks of the greedy rule for other features while more of the target is explained.

    Parameters
    ----------
    columns : Columns
        The features.
    picks : sequence of int
        Features that were picked.
    target : callable, ndarray or None
        What they shall explain, as for :func:`select_greedily`.
    rules : Rules or None
        Constraints.

    Returns
    -------
    FoundSet
        As many features, never worth less.
    """
    problem = problem_of_picks(columns, target)
    return exchange(problem, picks, rules or Rules.none(problem.n_features))
