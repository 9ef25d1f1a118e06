"""k nearest neighbours of sparse samples: candidates by sparse products, the choice by differences.

As in :mod:`~jointsparse.graphs.neighbours`, whatever the rounding of the products leaves possible
is a candidate, and its distance is computed again from the difference of the two sparse rows. Rows
of the n × n matrix of products exist in blocks only.
"""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.graphs.neighbours import BLOCK_ENTRIES, PAIR_ENTRIES, chosen, tie_margin
from jointsparse.graphs.sparse_samples import squared_distances
from jointsparse.operators.sparse import SparseSamples


def sparse_neighbours(data: SparseSamples, count: int) -> tuple[IntArray, FloatArray]:
    """Return the nearest neighbours of every sample among the others.

    Parameters
    ----------
    data : SparseSamples
        At least two samples.
    count : int
        Number of neighbours k.

    Returns
    -------
    indices, distances : ndarray of shape (n_samples, k)
        As from :func:`~jointsparse.graphs.neighbours.nearest_neighbours`.
    """
    n = data.shape[0]
    count = min(int(count), n - 1)
    largest = float(np.max(np.abs(data.matrix.data), initial=0.0)) or 1.0
    scaled = SparseSamples(data.by_row / largest, data.mean / largest)
    rows, transposed = scaled.by_row, scaled.by_row.T.tocsr()
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    fullest = int(np.max(np.diff(rows.indptr)))
    error = float(np.finfo(np.float64).eps) * (fullest + 16)
    indices, distances = np.empty((n, count), dtype=np.int64), np.empty((n, count))
    step = max(1, BLOCK_ENTRIES // n)
    for first in range(0, n, step):
        part = np.arange(first, min(first + step, n))
        # Lower bounds of ‖x_i - x_j‖² - ‖x_i‖² (1 - error).
        low = (rows[part] @ transposed).toarray()
        low *= -2
        low += squares * (1 - error)
        low[np.arange(part.size), part] = np.inf
        nearest = np.argpartition(low, count - 1, axis=1)[:, :count]
        above = np.take_along_axis(low, nearest, axis=1) + 2 * error * squares[nearest]
        limit = above.max(axis=1) + 2 * error * squares[part]
        limit += tie_margin(limit, squares[part])
        owner, other = np.nonzero(low <= limit[:, None])
        owner = part[owner]
        exact = _distances(scaled, owner, other, max(1, PAIR_ENTRIES // max(fullest, 1)))
        indices[part], distances[part] = chosen(owner, other, exact, count)
    return indices, distances * largest**2


def _distances(data: SparseSamples, owner: IntArray, other: IntArray, step: int) -> FloatArray:
    starts = range(0, owner.size, step)
    return np.concatenate(
        [squared_distances(data, owner[k : k + step], other[k : k + step]) for k in starts]
    )
