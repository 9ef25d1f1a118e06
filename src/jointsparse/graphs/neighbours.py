r"""k nearest neighbours, exact: the candidates by matrix products, the choice by differences.

.. math:: N_k(i) = \text{the } k \text{ smallest } \|x_i - x_j\|^2,\ j\ne i

The product form :math:`\|x_i\|^2+\|x_j\|^2-2x_i^\top x_j` is fast and loses digits. It is used, in
single precision, only to rule samples out: its rounding error has a bound, so whatever lies within
that bound of the k-th distance is a candidate, and its distance is computed again from the
differences. Rows of the n × n matrix exist in blocks only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import is_device_array
from jointsparse.graphs.approximate import EXACT_UP_TO, descended
from jointsparse.graphs.device_neighbours import device_neighbours
from jointsparse.graphs.sparse_samples import stored
from jointsparse.steps import steps

FOLLOWED = "neighbours"  # what the steps are called
FEW_BLOCKS = 200  # that are over before anybody wants to know how far it is
# Distances held at a time: of these 16 MB the allocator keeps the memory for the next block. With
# four times as many, fresh pages for each block took half of the time.
BLOCK_ENTRIES = 2**22
PAIR_ENTRIES = 2**21  # entries of differences held at a time
SMALLEST_SINGLE = 200  # samples; up to these, double precision costs nothing
GROUP = 64  # samples of which only the nearest counts in a first pass
MODERATE = (1e-3, 1e3)  # largest entries that single precision and squares have no trouble with
TIE = 1e-10  # relative difference below which two distances are equal
CANDIDATES = 8  # times k + 8: more than that in single precision, and double is tried


SEARCHES = ("exact", "approximate")


def neighbour_sets(data: Any, count: int, *, search: str = "exact") -> IntArray:
    """Return the k nearest neighbours of every sample, in any order; sooner than with distances.

    Where matrix products alone tell which k are nearest, no difference is computed.
    """
    return _neighbours(data, count, ordered=False, search=search)[0]


def nearest_neighbours(
    data: Any, count: int, *, search: str = "exact"
) -> tuple[IntArray, FloatArray]:
    """Return the nearest neighbours of every sample among the others.

    Parameters
    ----------
    data : array of shape (n_samples, n_features) or SparseSamples
        Samples, on the host or on a device; at least two.
    count : int
        Number of neighbours k; no more are returned than there are other samples.
    search : {"exact", "approximate"}
        Whether to find all of them, or most in less time (:mod:`~jointsparse.graphs.approximate`):
        of more than 10 000 dense samples on the host; others are searched exactly.

    Returns
    -------
    indices : ndarray of shape (n_samples, k)
        Neighbours, the nearest first. A sample is never its own neighbour, even where others equal
        it. Of samples at the same distance the one with the lowest index comes first.
    distances : ndarray of shape (n_samples, k)
        Squared distances.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.graphs.neighbours import nearest_neighbours
    >>> indices, distances = nearest_neighbours(np.array([[0.0], [1.0], [3.0], [4.5]]), 2)
    >>> indices.tolist()
    [[1, 2], [0, 2], [3, 1], [2, 1]]
    >>> distances[0].round(12).tolist()
    [1.0, 9.0]
    """
    return _neighbours(data, count, ordered=True, search=search)


def _neighbours(
    data: Any, count: int, *, ordered: bool, search: str
) -> tuple[IntArray, FloatArray]:
    """Return neighbours and squared distances; the latter only where they are ordered."""
    if search not in SEARCHES:
        raise ValueError(f"search={search!r} is neither 'exact' nor 'approximate'")
    sparse = stored(data)
    if sparse is not None:
        from jointsparse.graphs.sparse_neighbours import sparse_neighbours  # which builds on this

        return sparse_neighbours(sparse, count)
    if is_device_array(data):
        return device_neighbours(data, count, ordered=ordered)
    n = data.shape[0]
    count = min(int(count), n - 1)
    centred, scale = _near_one(np.asarray(data, dtype=np.float64))
    if search == "approximate" and n > EXACT_UP_TO:
        return _approximate(centred, count, scale)
    indices = np.empty((n, count), dtype=np.int64)
    distances = np.empty((n, count))
    screen = _Screen(centred, count, np.float32 if n > SMALLEST_SINGLE else np.float64)
    double = None if n > SMALLEST_SINGLE else screen
    starts = range(0, n, screen.block)
    for first in steps(FOLLOWED, starts) if len(starts) > FEW_BLOCKS else starts:
        rows = np.arange(first, min(first + screen.block, n))
        pairs = screen.candidates(rows)
        if screen is not double and pairs[0].size > CANDIDATES * (count + 8) * rows.size:
            double = double or _Screen(centred, count, np.float64)
            pairs = double.candidates(rows)
        if not ordered:
            pairs, rows = _undecided(*pairs, rows, count, indices)
        if rows.size:
            indices[rows], distances[rows] = _nearest_of(centred, *pairs, count)
    return indices, distances * scale**2


def _approximate(centred: FloatArray, count: int, scale: float) -> tuple[IntArray, FloatArray]:
    """Return most of the neighbours; all of samples that the descent did not reach."""
    n = centred.shape[0]
    owner, other = descended(centred, count)
    missed = np.flatnonzero(np.bincount(owner, minlength=n) < count)
    indices, distances = np.empty((n, count), dtype=np.int64), np.empty((n, count))
    reached = np.unique(owner)
    if reached.size:
        indices[reached], distances[reached] = _nearest_of(centred, owner, other, count)
    if missed.size:
        screen = _Screen(centred, count, np.float64)
        for row in missed:
            pairs = screen.candidates(np.array([row]))
            indices[row], distances[row] = _nearest_of(centred, *pairs, count)
    return indices, distances * scale**2


def _near_one(data: FloatArray) -> tuple[FloatArray, float]:
    """Return the samples centred and divided by the largest entry, and that entry.

    As they are where that would change next to nothing: then nothing is copied.
    """
    mean = data.mean(axis=0)
    size = _largest_entry(data)
    if MODERATE[0] < size < MODERATE[1] and _largest_entry(mean) <= TIE * size:
        return data, 1.0
    centred = data - mean
    scale = _largest_entry(centred) or 1.0
    centred /= scale
    return centred, scale


def _largest_entry(array: FloatArray) -> float:
    """Return the largest absolute value, without a copy."""
    return max(float(np.max(array, initial=0.0)), -float(np.min(array, initial=0.0)))


class _Screen:
    """Distances by matrix products in one precision, with what their rounding may amount to."""

    def __init__(self, centred: FloatArray, count: int, dtype: Any) -> None:
        n, d = centred.shape
        self.count, self.n = count, n
        self.width = max(1, min(GROUP, n // (16 * (count + 1))))
        self.block = max(1, BLOCK_ENTRIES // n)
        self.squares = np.einsum("ij,ij->i", centred, centred)
        # Of the product, of the sums, and of the samples themselves in this precision; twice, as
        # the squares of a sample are a term of its products.
        self.error = 2 * float(np.finfo(dtype).eps) * (d + 16)
        # (√2 x_j, ‖x_j‖²), so that a product with (-√2 x_i, 1) is ‖x_i - x_j‖² - ‖x_i‖², and the
        # block need not be gone over once more to subtract.
        self.sides = np.empty((n, d + 1), dtype=dtype)
        np.multiply(centred, 2**0.5, out=self.sides[:, :d], casting="same_kind")
        self.sides[:, d] = self.squares * (1 - self.error)
        # How far above its lower bound the distance to any of a group may be. A group is every
        # so-manieth sample; those left over are in none.
        self.step = n // self.width
        largest = self.squares[: self.step * self.width].reshape(self.width, self.step).max(axis=0)
        self.margins = (2 * self.error * largest).astype(dtype)

    def candidates(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return pairs (i, j) among which are the k nearest j of every row i, in order of i."""
        size = rows.size
        # Lower bounds of ‖x_i - x_j‖² - ‖x_i‖² (1 - error).
        low = self._all() if size == self.n else self._some(rows)
        low[np.arange(size), rows] = np.inf
        # The k-th smallest bound is at most that of the k best groups: an upper bound is enough.
        grouped = low[:, : self.step * self.width].reshape(size, self.width, self.step)
        nearest = grouped.min(axis=1)
        nearest += self.margins
        limit = self._limit(np.partition(nearest, self.count - 1, axis=1)[:, self.count - 1], rows)
        owner, other = np.divmod(np.flatnonzero(low <= limit[:, None]), self.n)
        # Of these the k smallest bounds give a limit that hardly more than k are below.
        bounds = low[owner, other]
        order = np.lexsort((bounds, owner))
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        best = order[starts[:, None] + np.arange(self.count)]
        above = bounds[best] + 2 * self.error * self.squares[other[best]]
        kept = bounds <= self._limit(above.max(axis=1), rows)[owner]
        return rows[owner[kept]], other[kept]

    def _some(self, rows: IntArray) -> NDArray[Any]:
        sides = self.sides[rows[0] : rows[-1] + 1] * -1
        sides[:, -1] = 1
        return np.asarray(sides @ self.sides.T)

    def _all(self) -> NDArray[Any]:
        """Return the bounds of all pairs: of a symmetric product BLAS computes one half."""
        samples = self.sides[:, :-1]
        low = samples @ samples.T
        return np.subtract(self.sides[:, -1], low, out=low)

    def _limit(self, above: NDArray[Any], rows: IntArray) -> NDArray[Any]:
        """Return what the k nearest of each row are not above, given upper bounds of others."""
        limit = above + 2 * self.error * self.squares[rows]
        limit += tie_margin(limit, self.squares[rows])
        # In single precision the limit must not be rounded down.
        dtype = self.sides.dtype
        return np.nextafter(limit.astype(dtype), np.array(np.inf, dtype=dtype))


def tie_margin(limit: FloatArray, squares: FloatArray) -> FloatArray:
    """Return how much farther than the k-th neighbour another may be that ties with it.

    Ties are for the indices to decide, so all that tie must be candidates, whatever the accuracy of
    the products. ``limit`` is what the k-th squared distance less ``squares`` is not above.
    """
    return 2 * TIE * np.maximum(limit + squares, 0.0)


def _undecided(
    owner: IntArray, other: IntArray, rows: IntArray, count: int, indices: IntArray
) -> tuple[tuple[IntArray, IntArray], IntArray]:
    """Enter the neighbours of rows with no more than k candidates; return pairs of the others."""
    sizes = np.bincount(owner - rows[0], minlength=rows.size)
    decided = sizes == count
    mine = np.repeat(decided, sizes)
    indices[rows[decided]] = other[mine].reshape(-1, count)
    return (owner[~mine], other[~mine]), rows[~decided]


def _nearest_of(
    data: FloatArray, owner: IntArray, other: IntArray, count: int
) -> tuple[IntArray, FloatArray]:
    """Choose the nearest of the candidates, by exact differences."""
    exact = np.empty(owner.size)
    step = max(1, PAIR_ENTRIES // data.shape[1])
    for first in range(0, owner.size, step):
        part = slice(first, first + step)
        difference = data[owner[part]] - data[other[part]]
        exact[part] = np.einsum("ij,ij->i", difference, difference)
    return chosen(owner, other, exact, count)


def chosen(
    owner: IntArray, other: IntArray, exact: FloatArray, count: int
) -> tuple[IntArray, FloatArray]:
    """Choose the nearest of the candidates (in order of their owners), given their distances."""
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    order = np.lexsort((exact, owner))
    last = exact[order[starts + count - 1]]
    last = np.repeat(last, np.diff(starts, append=owner.size))
    # What differs from the k-th distance by rounding only is a tie: the index decides.
    key = np.where(np.abs(exact - last) <= TIE * last, last, exact)
    order = np.lexsort((other, key, owner))
    taken = order[starts[:, None] + np.arange(count)]
    return other[taken], exact[taken]
