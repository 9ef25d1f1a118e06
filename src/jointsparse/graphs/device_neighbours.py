r"""k nearest neighbours of samples on a device, exact: the same sets as on the host.

The product form :math:`\|x_i\|^2+\|x_j\|^2-2x_i^\top x_j`, in double precision and by blocks of
rows, gives the nearest k and a few more. Its rounding error has a bound: where what comes next lies
beyond the k-th distance by more than that, these are all candidates, and otherwise more are taken.
Their distances are computed again from differences, and ties go to the sample that comes first
(:mod:`jointsparse.graphs.neighbours`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import like, numbers, to_host
from jointsparse.linalg import EPSILON, array_namespace

BLOCK_ENTRIES = 2**26  # distances, or entries of differences, held at a time: 512 MB
SPARE = 8  # candidates beyond k at first; four times as many where they do not settle it
TIE = 1e-10  # relative difference below which two distances are equal, as on the host


def device_neighbours(
    data: Array, count: int, *, ordered: bool = True
) -> tuple[IntArray, FloatArray]:
    """Return neighbours, the nearest first, and squared distances, both on the host.

    Parameters
    ----------
    data : array of shape (n_samples, n_features)
        Samples on a device; at least two.
    count : int
        Number of neighbours k.
    ordered : bool
        Whether order and distances are asked for; without, neighbours that products alone tell are
        not looked at again, and distances are not set.
    """
    from jointsparse.graphs.neighbours import chosen  # which builds on this

    n = int(data.shape[0])
    count = min(int(count), n - 1)
    centred, scale = _near_one(data)
    squares = array_namespace(data).sum(centred**2, axis=1)
    indices, distances = np.empty((n, count), dtype=np.int64), np.zeros((n, count))
    step = max(1, BLOCK_ENTRIES // n)
    for first in range(0, n, step):
        rows = np.arange(first, min(first + step, n))
        places, decided = _candidates(centred, squares, rows, count)
        other, known = to_host(places), to_host(decided)
        indices[rows] = other[:, :count]
        if not ordered:
            rows, other = rows[~known], other[~known]
        if rows.size:
            exact = _exact(centred, rows, other)
            owner = np.repeat(np.arange(rows.size), other.shape[1])
            indices[rows], distances[rows] = chosen(owner, other.ravel(), exact.ravel(), count)
    return indices, distances * scale**2


def _near_one(data: Array) -> tuple[Array, float]:
    """Return the samples less their mean, divided by their largest entry."""
    xp = array_namespace(data)
    centred = data - xp.mean(data, axis=0)
    scale = float(xp.max(abs(centred))) or 1.0
    return centred / scale, scale


def _candidates(centred: Array, squares: Array, rows: IntArray, count: int) -> tuple[Array, Array]:
    """Return, for some samples, others among which the k nearest are, and where they come first."""
    xp = array_namespace(centred)
    n, d = centred.shape
    part = slice(int(rows[0]), int(rows[-1]) + 1)
    apart = squares[part][:, None] + squares - 2 * (centred[part, :] @ centred.T)
    own = xp.arange(rows.size, device=centred.device)
    apart[own, own + part.start] = float("inf")
    # Of the product and of the sums: no distance is off by more than twice this.
    error = EPSILON * (d + 16) * (squares[part] + xp.max(squares))
    spare = SPARE
    while True:
        taken = min(count + spare, n - 1)
        nearest, places = _smallest(apart, taken)
        limit = nearest[:, count - 1] + 2 * error
        limit = limit + 4 * TIE * abs(limit)
        beyond = nearest - 2 * error[:, None] > limit[:, None]
        if taken == n - 1:
            decided = beyond[:, count] if taken > count else xp.ones_like(beyond[:, 0])
            return places, decided
        (settled,) = numbers(xp.all(beyond[:, taken - 1]))
        if settled:
            return places, beyond[:, count]
        spare *= 4


def _smallest(matrix: Array, count: int) -> tuple[Array, Array]:
    """Return the smallest entries of every row, ascending, and their places."""
    xp = array_namespace(matrix)
    if hasattr(xp, "topk"):
        values, places = xp.topk(matrix, count, dim=1, largest=False)
        return values, places
    places = xp.argsort(matrix, axis=1)[:, :count]
    return xp.take_along_axis(matrix, places, axis=1), places


def _exact(centred: Array, rows: IntArray, other: IntArray) -> FloatArray:
    """Return squared distances from differences."""
    xp = array_namespace(centred)
    exact = np.empty(other.shape)
    step = max(1, BLOCK_ENTRIES // (other.shape[1] * centred.shape[1]))
    for first in range(0, rows.size, step):
        part = slice(first, first + step)
        difference = gathered(centred, other[part]) - gathered(centred, rows[part])[:, None, :]
        exact[part] = to_host(xp.sum(difference * difference, axis=2))
    return exact


def gathered(data: Array, places: Any) -> Array:
    """Return data[places], of shape (*places.shape, n_features)."""
    flat = data[like(np.asarray(places).reshape(-1), data), :]
    return array_namespace(data).reshape(flat, (*places.shape, data.shape[1]))
