r"""Sums over the samples of a source, each in one pass: what :meth:`Source.reduce` is used for.

The scatter matrix around the mean is updated block by block. With n samples seen so far around
their mean μ, m more rows, and d the mean of their deviations x_i - μ,

.. math:: S \leftarrow S + \sum_i (x_i-\mu)(x_i-\mu)^\top - \tfrac{m^2}{n+m}\,dd^\top,\qquad
          \mu \leftarrow \mu + \tfrac{m}{n+m}\,d .

Deviations are taken before they are squared, so a mean of 10⁸ costs no digits of a spread of 1. All
sums are in float64 whatever the type of the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.blas import dsyr, dsyrk

from jointsparse.arrays import FloatArray
from jointsparse.linalg import blocks as slices
from jointsparse.linalg import without_offsets
from jointsparse.sources.base import Block, Source

# A product of two stored entries takes a hundred times as long as one of a dense product, of which
# half are computed.
DENSE_ENOUGH = 0.07
# Entries that are made dense at a time: rows enough for the products to outweigh the p × p sums.
DENSE_PART, DENSE_ROWS, LEAST_DENSE = 2**21, 512, 2**18
CACHED = 2**15  # entries of a part of a block that stays in the cache while it is worked on


class NotFiniteError(ValueError):
    """A missing or infinite value among the samples.

    Parameters
    ----------
    row, column : int
        Where it is, counted from 0.
    value : float
        What it is.
    """

    def __init__(self, row: int, column: int, value: float) -> None:
        super().__init__(row, column, value)
        self.row, self.column, self.value = row, column, value


@dataclass
class Sums:
    """Count, mean and scatter matrix of the rows seen so far.

    Attributes
    ----------
    n : int
        How many rows.
    mean : ndarray of shape (n_features,)
        Their mean.
    scatter : ndarray of shape (n_features, n_features)
        Their scatter matrix; only the upper triangle counts until :meth:`complete`.
    """

    n: int
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def empty(cls, n_features: int) -> Sums:
        """Return the sums of no rows."""
        return cls(0, np.zeros(n_features), np.zeros((n_features, n_features), order="F"))

    def add(self, block: Block, start: int = 0) -> None:
        """Take more rows in; ``start`` is the number of the first, for messages."""
        if block.shape[0] == 0:
            return
        if sp.issparse(block):
            self._add_rows(block, start)
            return
        rows = np.empty(block.shape, order="F" if block.flags.f_contiguous else "C")
        mean = self.mean
        if self.n == 0:
            mean = np.mean(block, axis=0, dtype=np.float64)
            check_finite(mean, block, start)
        np.subtract(block, mean, out=rows, dtype=np.float64)
        deviation = rows.mean(axis=0)
        check_finite(deviation, block, start)
        self.mean = mean
        m = block.shape[0]
        if rows.flags.f_contiguous:
            self.scatter = dsyrk(1.0, rows, beta=1.0, c=self.scatter, trans=1, overwrite_c=1)
        else:
            self.scatter = dsyrk(1.0, rows.T, beta=1.0, c=self.scatter, overwrite_c=1)
        self.scatter = dsyr(-(m * m) / (self.n + m), deviation, a=self.scatter, overwrite_a=1)
        self.n += m
        self.mean = self.mean + deviation * (m / self.n)

    def _add_rows(self, block: Any, start: int) -> None:
        """Take sparse rows in, as dense ones where so much is stored that it takes less time."""
        n, p = block.shape
        if block.nnz <= DENSE_ENOUGH * n * p:
            self._add_sparse(block, start)
            return
        rows = max(1, min(DENSE_PART, max(LEAST_DENSE, DENSE_ROWS * p)) // p)
        parts = block.tocsr()
        for first in range(0, n, rows):
            self.add(parts[first : first + rows].toarray(), start + first)

    def _add_sparse(self, block: Any, start: int) -> None:
        """Take more rows in that stay sparse: strip by strip, upper triangle only.

        With R the rows, μ their mean and μ₀ that of the rows before, of which there are n₀, the
        scatter matrix grows by RᵀR − nμμᵀ + n₀n/(n₀ + n)(μ − μ₀)(μ − μ₀)ᵀ. A column without zeros
        is centred first; the diagonal is summed up by itself, without cancellation.
        """
        check_sparse_finite(block, start)
        values = block.astype(np.float64)
        n = block.shape[0]
        mean = np.asarray(values.sum(axis=0)).ravel() / n
        shift, total = mean - self.mean, self.n + n
        share = self.n * n / total
        diagonal = np.diagonal(self.scatter) + squared_deviations(block, mean) + share * shift**2
        centred, rest = without_offsets(values, mean)
        columns = centred.tocsc()
        for part in slices(mean.size):
            products = columns[:, : part.stop].T @ columns[:, part]
            self.scatter[: part.stop, part] += products.toarray()
        self.scatter = dsyr(-n, rest, a=self.scatter, overwrite_a=1)
        self.scatter = dsyr(share, shift, a=self.scatter, overwrite_a=1)
        np.fill_diagonal(self.scatter, diagonal)
        self.mean = self.mean + shift * (n / total)
        self.n = total

    def _merge(self, n: int, mean: FloatArray, scatter: FloatArray) -> None:
        """Chan, Golub and LeVeque's update, in place: no difference of large numbers."""
        shift = mean - self.mean
        total = self.n + n
        self.scatter += scatter
        self.scatter = dsyr(self.n * n / total, shift, a=self.scatter, overwrite_a=1)
        self.mean = self.mean + shift * (n / total)
        self.n = total

    def __add__(self, other: Sums) -> Sums:
        both = Sums(self.n, self.mean, self.scatter.copy(order="F"))
        if other.n:
            both._merge(other.n, other.mean, other.scatter)
        return both

    def complete(self) -> FloatArray:
        """Return the scatter matrix with both triangles, rows of constant features exactly 0."""
        scatter = self.scatter
        for part in slices(scatter.shape[0]):
            scatter[part.stop :, part] = scatter[part, part.stop :].T
            square = scatter[part, part]
            square[...] = np.triu(square) + np.triu(square, 1).T
        constant = np.diagonal(scatter) <= rounding(self.mean, self.n)
        scatter[constant, :] = 0.0
        scatter[:, constant] = 0.0
        return scatter.T  # the same, row by row in memory


def rounding(mean: FloatArray, n: int) -> FloatArray:
    """Return the sum of squares that rounding alone may leave of a constant feature; finite."""
    double = np.finfo(np.float64)
    with np.errstate(over="ignore"):
        squares = n * (8 * double.eps * np.abs(mean)) ** 2
    # Infinite squares are those of numbers that are too large, not of a constant.
    return np.asarray(np.minimum(squares, double.max))


def check_finite(sums: FloatArray, block: Block, start: int) -> None:
    """Refuse a block whose sums are not finite, saying which entry is to blame."""
    if np.isfinite(sums).all():
        return
    for part in slices(block.shape[0]):
        values = np.asarray(block[part], dtype=np.float64)
        rows, columns = np.nonzero(~np.isfinite(values))
        if rows.size:
            first = (int(rows[0]), int(columns[0]))
            raise NotFiniteError(start + part.start + first[0], first[1], float(values[first]))


def check_sparse_finite(block: Any, start: int) -> None:
    """Refuse a sparse block with an entry that is missing or infinite, saying which one."""
    if np.isfinite(block.data).all():
        return
    found = block.tocoo()
    at = int(np.flatnonzero(~np.isfinite(found.data))[0])
    raise NotFiniteError(start + int(found.row[at]), int(found.col[at]), float(found.data[at]))


def squared_deviations(block: Block, mean: FloatArray) -> FloatArray:
    """Return Σ_i (x_ij - μ_j)² for every feature j."""
    return deviations(block, mean)[1]


def deviations(block: Block, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Σ_i (x_ij - μ_j) and Σ_i (x_ij - μ_j)² for every feature j."""
    if not sp.issparse(block):
        return _dense_deviations(block, mean)
    by_column = block.astype(np.float64).tocsc()
    stored = np.diff(by_column.indptr)
    owner = np.repeat(np.arange(mean.size), stored)
    deviation = by_column.data - mean[owner]
    empty = block.shape[0] - stored
    sums = np.bincount(owner, weights=deviation, minlength=mean.size) - empty * mean
    squares = np.bincount(owner, weights=deviation**2, minlength=mean.size) + empty * mean**2
    return np.asarray(sums), np.asarray(squares)


def _dense_deviations(block: NDArray[Any], mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the same, part by part along the memory: no copy of the block leaves the cache."""
    sums, squares = np.zeros(mean.size), np.zeros(mean.size)
    by_column = block.flags.f_contiguous
    length, width = block.shape[::-1] if by_column else block.shape
    step = max(1, CACHED // max(1, width))
    for first in range(0, length, step):
        part = slice(first, first + step)
        rows, columns = (slice(None), part) if by_column else (part, slice(None))
        deviation = np.subtract(block[rows, columns], mean[columns], dtype=np.float64)
        sums[columns] += deviation.sum(axis=0)
        squares[columns] += np.einsum("ij,ij->j", deviation, deviation)
    return sums, squares


def half_of(start: int, count: int) -> NDArray[np.bool_]:
    """Say which of some consecutive rows are in the first half of all.

    Rows 2k and 2k + 1 are in different halves; a hash of k tells which is where. So the halves are
    random, equally large, and the same however the rows are cut into blocks.
    """
    row = np.arange(start, start + count, dtype=np.uint64)
    mixed = (row >> np.uint64(1)) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    coin = (mixed >> np.uint64(63)).astype(bool)
    return np.asarray(coin ^ (row & np.uint64(1)).astype(bool))


def fold_sums(state: Sums | None, block: Block, start: int) -> Sums:
    """Take a block into the sums of all rows."""
    state = state or Sums.empty(block.shape[1])
    state.add(block, start)
    return state


def add_sums(one: Sums, other: Sums) -> Sums:
    """Return the sums of both."""
    return one + other


Halves = tuple[Sums, Sums]


def fold_halves(state: Halves | None, block: Block, start: int, offset: int = 0) -> Halves:
    """Take a block into the sums of two random halves of the rows."""
    state = state or (Sums.empty(block.shape[1]), Sums.empty(block.shape[1]))
    first = half_of(offset + start, block.shape[0])
    try:
        state[0].add(_pick(block, first))
        state[1].add(_pick(block, ~first))
    except NotFiniteError:
        # The halves do not know which row of the block it was.
        fold_sums(None, block, start)
        raise
    return state


def add_halves(one: Halves, other: Halves) -> Halves:
    """Return the sums of both, half by half."""
    return one[0] + other[0], one[1] + other[1]


def _pick(block: Block, mask: NDArray[np.bool_]) -> Block:
    if not sp.issparse(block) and block.flags.f_contiguous:
        return np.take(block.T, np.flatnonzero(mask), axis=1).T  # stays column by column
    return block[mask]


def mean_of(source: Source) -> tuple[int, FloatArray]:
    """Return the number of rows and their mean."""
    state = source.reduce(fold_mean, add_means)
    if state is None:
        raise ValueError(f"{source.name} has no rows")
    return state


def fold_mean(
    state: tuple[int, FloatArray] | None, block: Block, start: int
) -> tuple[int, FloatArray]:
    """Take some more rows into their number and mean."""
    n = block.shape[0]
    if sp.issparse(block):
        block = block.astype(np.float64)  # SciPy would add up in single precision and then convert
    total = np.asarray(block.sum(axis=0, dtype=np.float64)).ravel()
    return (n, total / n) if state is None else add_means(state, (n, total / n))


def add_means(one: tuple[int, FloatArray], other: tuple[int, FloatArray]) -> tuple[int, FloatArray]:
    """Return the number and the mean of two runs of rows."""
    n = one[0] + other[0]
    with np.errstate(invalid="ignore"):  # infinite values are found, and named, later
        return n, one[1] + (other[1] - one[1]) * (other[0] / n)


def squares_around(source: Source, mean: FloatArray) -> FloatArray:
    """Return Σ_i (x_ij - μ_j)² for every feature j, exactly 0 for constant features.

    The mean of very many rows is rounded by more than one of them is: what the rows are off it on
    the whole says by how much, and is taken off (a column of 0.3333 had a deviation of 1e-15).
    """
    state = source.reduce(partial(_fold_squares, mean=mean), _add_squares)
    if state is None:
        return np.zeros(source.n_features)
    n, sums, squares = state
    squares = squares - sums**2 / n
    return np.where(squares <= rounding(mean, n), 0.0, squares)


def _fold_squares(
    state: tuple[int, FloatArray, FloatArray] | None, block: Block, start: int, mean: FloatArray
) -> tuple[int, FloatArray, FloatArray]:
    n, sums, squares = state or (0, np.zeros(mean.size), np.zeros(mean.size))
    more = deviations(block, mean)
    return n + block.shape[0], sums + more[0], squares + more[1]


def _add_squares(
    one: tuple[int, FloatArray, FloatArray], other: tuple[int, FloatArray, FloatArray]
) -> tuple[int, FloatArray, FloatArray]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]
