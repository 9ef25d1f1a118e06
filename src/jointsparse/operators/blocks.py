r"""Samples in blocks of columns, of which one at a time is looked at.

The centred matrix X = R - 1μᵀ (n × p) is cut into blocks of columns X_b, which stay where they are.
Only thin matrices are held besides:

.. math:: XU = \sum_b X_bU_b,\qquad (X^\top V)_b = X_b^\top V,\qquad XX^\top = \sum_b X_bX_b^\top .

Everything is centred and added up in float64 whatever the type of the blocks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import Array, FloatArray
from jointsparse.linalg import array_namespace
from jointsparse.operators.samples import Samples, centred_block

# Columns of a thin matrix that BLAS multiplies sooner one by one than together (three in half the
# time), and entries of the other matrix from which that counts: measured on 100 × 1000 to 10 000.
FEW_COLUMNS, LARGE = 4, 2**14


class ColumnBlocks(Samples):
    """Samples of which a function can be applied to every block of columns (``_results``).

    Parameters
    ----------
    empty : array of shape (n_features, 0)
        As of :class:`Samples`.
    n_samples : int
        Number of rows.
    """

    _factors: Array = None  # what features are multiplied by after they were centred

    def __init__(self, empty: Array, n_samples: int) -> None:
        self.empty, self.dtype = empty, empty.dtype
        self.shape = (n_samples, int(empty.shape[0]))

    def _results(self, function: Callable[..., Any], *aligned: Array) -> Iterable[Any]:
        """Return ``function(block, *parts)`` of all centred blocks in order, with parts of p."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _total(
        self, shape: tuple[int, ...], function: Callable[..., Any], *aligned: Array
    ) -> Array:
        """Return the sum of ``function(block, *parts)``, of this shape, over all blocks."""
        total = self._zeros(*shape)
        for found in self._results(function, *aligned):
            total += found
        return total

    def _zeros(self, *shape: int) -> Array:
        return self.xp.zeros(shape, dtype=self.xp.float64, device=self.empty.device)

    def _joined(self, function: Callable[..., Any], *width: int) -> Array:
        """Return ``function(block)`` of all blocks, one below the other: p rows."""
        result = self._zeros(self.shape[1], *width)
        start = 0
        for found in self._results(function):
            stop = start + found.shape[0]
            result[start:stop, ...] = found
            start = stop
        return result

    def times(self, columns: Array) -> Array:
        """Return XU."""
        return self._total((self.shape[0], columns.shape[1]), _times, columns)

    def transposed_times(self, rows: Array) -> Array:
        """Return XᵀV."""
        return self._joined(partial(_transposed_times, rows=rows), rows.shape[1])

    def combined(self, weights: Any) -> Array:
        """Return WX."""
        result, start = self._zeros(weights.shape[0], self.shape[1]), 0
        for found in self._results(partial(_combined, weights=weights)):
            stop = start + found.shape[1]
            result[:, start:stop] = found
            start = stop
        return result

    def squared_lengths(self, rows: Array | None = None) -> Array:
        """Return ‖Vᵀx_j‖² for every feature; ‖x_j‖² without V."""
        return self._joined(partial(_squared_lengths, rows=rows))

    def weighted_squares(self, weights: Array) -> Array:
        """Return Σ_i w_i x_ij² for every feature."""
        return self._joined(partial(_weighted_squares, weights=weights))

    def row_squares(self) -> Array:
        """Return ‖x_i‖² for every sample."""
        return self._total(self.shape[:1], _row_squares)

    def size(self) -> float:
        """Return the largest absolute value of an entry of X."""
        return max(self._results(_size), default=0.0)

    def powers(self) -> tuple[Array, Array]:
        """Return Σ_j x_ij² for every sample, and Σ_i x_ij⁴ for every feature."""
        rows, fourth, start = self._zeros(self.shape[0]), self._zeros(self.shape[1]), 0
        for squares, fourth_powers in self._results(_powers):
            stop = start + fourth_powers.shape[0]
            rows += squares
            fourth[start:stop] = fourth_powers
            start = stop
        return rows, fourth

    def _gram(self) -> Array:
        return self._total((self.shape[0],) * 2, _gram)

    def dense(self) -> Array:
        """Return the centred array, in memory here."""
        return self._array(self.dtype)

    def _array(self, dtype: Any) -> Array:
        """Return X as an array of some type."""
        result = self.xp.empty(self.shape, dtype=dtype, device=self.empty.device)
        start = 0
        for block in self._results(partial(_as_type, dtype=dtype)):
            stop = start + block.shape[1]
            result[:, start:stop] = block
            start = stop
        return result

    def scaled(self, factors: Array) -> Self:
        """Return the features multiplied by factors, where they are."""
        other = copy.copy(self)
        other._factors = factors if self._factors is None else self._factors * factors
        other._kept_gram = None
        return other


class RemoteSamples(ColumnBlocks):
    """Blocks of columns in a file or on a cluster.

    A subclass says how a function is applied to all blocks (``_results``), and how some columns are
    selected (``_selected``).

    Parameters
    ----------
    widths : sequence of int
        How many columns each block has.
    n_samples : int
        Number of rows.
    dtype : numpy.dtype
        Type of the entries.
    memory : int
        Bytes that a selection of the columns may take in memory here; larger ones stay where they
        are.
    mean : ndarray of shape (n_features,) or None
        Mean of every column; computed where it is not given.
    factors : ndarray of shape (n_features,) or None
        What centred columns are multiplied by.
    """

    def __init__(
        self,
        widths: Sequence[int],
        n_samples: int,
        dtype: Any,
        *,
        memory: int,
        mean: FloatArray | None = None,
        factors: FloatArray | None = None,
    ) -> None:
        self._widths, self._memory, self._factors = list(widths), memory, factors
        single = np.dtype(np.float32 if dtype == np.float32 else np.float64)
        super().__init__(np.empty((sum(self._widths), 0), dtype=single), n_samples)
        self.mean = np.zeros(self.shape[1]) if mean is None else mean
        if mean is None:
            self.mean = self._joined(_means)

    @property
    def held_bytes(self) -> int:
        """What blocks, and columns that are kept, take in memory here: as much again as these."""
        return 2 * self._memory

    def _selected(self, chosen: NDArray[np.bool_]) -> RemoteSamples:
        """Return some columns, where they are."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _parts(self, *aligned: NDArray[Any]) -> Iterator[tuple[Any, ...]]:
        """Cut means, factors and what else has a row for each feature as the blocks are cut."""
        start = 0
        for width in self._widths:
            part = slice(start, start + width)
            factors = None if self._factors is None else self._factors[part]
            yield self.mean[part], factors, *(array[part] for array in aligned)
            start += width

    def columns(self, chosen: NDArray[np.bool_]) -> Samples:
        """Return the samples with some features: in memory here where they fit."""
        from jointsparse.operators.dense import DenseSamples  # which builds on this

        chosen = np.asarray(chosen, dtype=bool)
        kept = int(np.count_nonzero(chosen))
        if kept * self.shape[0] * self.dtype.itemsize <= self._memory:
            return DenseSamples(self._selected(chosen).dense())
        return self if kept == self.shape[1] else self._selected(chosen)

    def take(self, features: Any) -> FloatArray:
        """Return few columns, in memory here."""
        wanted = np.arange(self.shape[1])[features]
        chosen = np.zeros(self.shape[1], dtype=bool)
        chosen[wanted] = True
        found = self._selected(chosen)._array(np.float64)
        return np.asarray(found[:, np.searchsorted(np.flatnonzero(chosen), wanted)])

    def rows(self, part: Any) -> FloatArray:
        """Return few samples: one product with as many columns."""
        return np.asarray(self.transposed_times(np.eye(self.shape[0])[:, part]).T)

    def scatter(self, weights: FloatArray | None = None) -> FloatArray:
        """Return Σ_i w_i x_i x_iᵀ, of samples that are taken into memory for it."""
        X = self._array(np.float64)
        return np.asarray(X.T @ (X if weights is None else X * weights[:, None]))


def on_centred(
    block: Any,
    mean: FloatArray,
    factors: FloatArray | None,
    *parts: FloatArray,
    function: Callable[..., Any],
) -> Any:
    """Return ``function(centred and scaled block, *parts)``: what is done where the block is."""
    centred = centred_block(block.toarray() if sp.issparse(block) else np.asarray(block), mean)
    return function(centred if factors is None else centred * factors, *parts)


def _means(block: Array) -> Array:
    return array_namespace(block).mean(block, axis=0)


def _as_type(block: Array, dtype: Any) -> Array:
    return array_namespace(block).astype(block, dtype, copy=False)


def thin_product(matrix: Array, thin: Array) -> Array:
    """Return ``matrix @ thin``: column by column where that is sooner."""
    few = 1 < thin.shape[1] <= FEW_COLUMNS
    if not few or type(matrix) is not np.ndarray or matrix.size < LARGE:
        return matrix @ thin
    result = np.empty((matrix.shape[0], thin.shape[1]), order="F")
    for column, image in zip(thin.T, result.T, strict=True):
        np.matmul(matrix, column, out=image)
    return result


def _times(block: Array, columns: Array) -> Array:
    return thin_product(block, columns)


def _transposed_times(block: Array, rows: Array) -> Array:
    return thin_product(block.T, rows)


def _combined(block: Array, weights: Any) -> Array:
    return weights @ block


def _squared_lengths(block: Array, rows: Array | None) -> Array:
    image = block if rows is None else rows.T @ block
    return array_namespace(image).sum(image * image, axis=0)


def _weighted_squares(block: Array, weights: Array) -> Array:
    return weights @ (block * block)


def _row_squares(block: Array) -> Array:
    if type(block) is np.ndarray:
        return np.einsum("ij,ij->i", block, block)  # no temporary array
    return array_namespace(block).sum(block * block, axis=1)


def _size(block: Array) -> float:
    return float(array_namespace(block).max(abs(block)))


def _powers(block: Array) -> tuple[Array, Array]:
    squares = block * block
    if type(block) is np.ndarray:
        return np.einsum("ij->i", squares), np.einsum("ij,ij->j", squares, squares)
    xp = array_namespace(block)
    return xp.sum(squares, axis=1), xp.sum(squares * squares, axis=0)


def _gram(block: Array) -> Array:
    return block @ block.T
