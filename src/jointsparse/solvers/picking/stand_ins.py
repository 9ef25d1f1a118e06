r"""Features that stand in for one another: which of them is kept hardly matters.

Features j and k stand in for each other where either predicts at least 80 % of the other,

.. math:: r_{jk}^2 = \frac{S_{jk}^2}{S_{jj}S_{kk}} \ge 0.8 .

The bound is a convention, and the same for every set: whether two features are the same thing is a
property of the table, so that what was kept on some samples can be looked for in what was kept on
others. It is far from what chance gives: of two unrelated features in 20 samples, one pair in ten
million has as much.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import to_host
from jointsparse.linalg import blocks
from jointsparse.solvers.products.columns import Columns

STAND_IN = 0.8  # squared correlation from which two features stand in for each other
LEADERS = 512  # features whose correlations with others are held at a time


def _unit(columns: Columns, features: IntArray) -> Array:
    """Return some columns at unit length; zeros where a feature is constant."""
    return columns.take(features) * columns.here(_inverse_lengths(columns, features))


def _inverse_lengths(columns: Columns, features: IntArray) -> FloatArray:
    lengths = np.sqrt(to_host(columns.squares)[features])
    return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def _standing_in(
    columns: Columns, units: Array, features: IntArray, others: IntArray
) -> NDArray[np.bool_]:
    """Return which features (rows, at unit length in ``units``) stand in for which others."""
    correlations = to_host(columns.inner(units, others)) * _inverse_lengths(columns, others)
    # A feature stands for itself, also where it is constant or rounding says otherwise.
    return (correlations**2 >= STAND_IN) | (features[:, None] == others)


def found_again(columns: Columns, features: IntArray, sets: Sequence[IntArray]) -> FloatArray:
    """Return in what share of some sets each feature, or a stand-in of it, is found.

    Parameters
    ----------
    columns : Columns
        The table.
    features : ndarray of int
        The features to look for.
    sets : sequence of ndarray of int
        What was kept on various samples.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import Moments
    >>> from jointsparse.solvers.products.columns import feature_columns
    >>> from jointsparse.solvers.picking.stand_ins import found_again
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> columns = feature_columns(Moments.from_data(np.hstack([X, -X])))
    >>> sets = [np.array([0, 1]), np.array([3, 2])]
    >>> found_again(columns, np.arange(6), sets).tolist()
    [1.0, 0.5, 0.5, 1.0, 0.5, 0.5]
    """
    ever = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *sets]))
    counts = np.zeros(features.size)
    if ever.size == 0:
        return counts
    units = _unit(columns, ever)
    places = [np.searchsorted(ever, kept) for kept in sets]
    for part in blocks(features.size):
        near = _standing_in(columns, units, ever, features[part])
        counts[part] = sum(near[place].any(axis=0) for place in places)
    return counts / len(sets)


def groups_of_stand_ins(columns: Columns, order: IntArray) -> IntArray:
    """Put every feature into a group of features that stand in for its first member.

    The first feature of an order leads a group: all that stand in for it. The first one that is
    left leads the next, and so on. Nothing is random, and no more than a block of correlations is
    held at a time; all of them are computed where features have no stand-ins.

    Parameters
    ----------
    columns : Columns
        The table.
    order : ndarray of int
        All features, those that shall lead first.

    Returns
    -------
    ndarray of int
        Number of the group of each feature; the groups are numbered in the order of their leaders.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import Moments
    >>> from jointsparse.solvers.products.columns import feature_columns
    >>> from jointsparse.solvers.picking.stand_ins import groups_of_stand_ins
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> columns = feature_columns(Moments.from_data(np.hstack([X, -X])))
    >>> groups_of_stand_ins(columns, np.arange(6)).tolist()
    [0, 1, 2, 0, 1, 2]
    """
    groups = np.full(order.size, -1, dtype=np.int64)
    found = 0
    left = order
    while left.size:
        leaders = left[:LEADERS]
        units = _unit(columns, leaders)
        mine: list[int] = []  # places of those that lead, among ``leaders``
        among = _standing_in(columns, units, leaders, leaders)
        for place, feature in enumerate(leaders):
            if groups[feature] < 0:
                free = leaders[among[place] & (groups[leaders] < 0)]
                groups[free] = found
                mine.append(place)
                found += 1
        left = left[leaders.size :]
        index = np.array(mine)
        number = groups[leaders[index]]
        for part in blocks(left.size):
            near = _standing_in(columns, units, leaders, left[part])[index]
            met = near.any(axis=0)
            groups[left[part][met]] = number[near[:, met].argmax(axis=0)]
        left = left[groups[left] < 0]
    return groups
