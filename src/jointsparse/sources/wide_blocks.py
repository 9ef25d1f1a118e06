r"""Products with few rows and very many columns, in blocks of columns that are elsewhere.

The centred matrix X = R - 1μᵀ (n × p, p ≫ n) is cut into blocks of columns X_b that stay where they
are, on workers or in a file. Only thin matrices are held here:

.. math:: XU = \sum_b X_bU_b,\qquad (X^\top V)_b = X_b^\top V,\qquad XX^\top = \sum_b X_bX_b^\top .

Everything is centred and added up in float64 whatever the type of the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray


class WideBlocks:
    """Centred samples in blocks of columns, as the solvers for many features see them.

    A subclass says how a function is applied to all blocks (``_results``, ``_total``), and how some
    columns are selected (``_selected``) or scaled (``scaled``).

    Parameters
    ----------
    widths : sequence of int
        How many columns each block has.
    n_samples : int
        Number of rows.
    dtype : numpy.dtype
        Type of the entries.
    collect : callable
        ``collect(array)`` makes of a centred array what the solvers take in the place of this.
    memory : int
        Bytes that a selection of the columns may take in memory here; larger ones stay where they
        are.
    mean : ndarray of shape (n_features,) or None
        Mean of every column; computed where it is not given.
    """

    def __init__(
        self,
        widths: Sequence[int],
        n_samples: int,
        dtype: Any,
        *,
        collect: Callable[[NDArray[Any]], Any],
        memory: int,
        mean: FloatArray | None = None,
    ) -> None:
        self._widths, self._collect, self._memory = list(widths), collect, memory
        self.shape = (n_samples, sum(self._widths))
        self.dtype = np.dtype(np.float32 if dtype == np.float32 else np.float64)
        self.empty = np.empty((self.shape[1], 0), dtype=self.dtype)
        self.mean = np.zeros(self.shape[1]) if mean is None else mean
        if mean is None:
            self.mean = self._side_by_side(_means)
        self._gram: FloatArray | None = None

    def _results(self, function: Callable[..., Any], parts: Iterable[Any]) -> Iterable[Any]:
        """Return ``function(block, *part)`` of all blocks, in order."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _total(self, function: Callable[..., Any], parts: Iterable[Any]) -> FloatArray:
        """Return the sum of ``function(block, *part)`` over all blocks."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _selected(self, chosen: NDArray[np.bool_]) -> WideBlocks:
        """Return some columns, where they are."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def scaled(self, factors: FloatArray) -> WideBlocks:
        """Return the features multiplied by factors, where they are."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def times(self, columns: FloatArray) -> FloatArray:
        """Return XU."""
        parts = zip(self._cut(self.mean), self._cut(np.asarray(columns)), strict=True)
        return self._total(_times, parts)

    def transposed_times(self, rows: FloatArray) -> FloatArray:
        """Return XᵀV."""
        return self._side_by_side(partial(_transposed_times, rows=rows))

    def squared_lengths(self, rows: FloatArray | None = None) -> FloatArray:
        """Return ‖Vᵀx_j‖² for every feature; ‖x_j‖² without V."""
        return self._side_by_side(partial(_squared_lengths, rows=rows))

    def weighted_squares(self, weights: FloatArray) -> FloatArray:
        """Return Σ_i w_i x_ij² for every feature."""
        return self._side_by_side(partial(_weighted_squares, weights=weights))

    def row_squares(self) -> FloatArray:
        """Return ‖x_i‖² for every sample."""
        return self._total(_row_squares, self._means())

    def gram(self) -> FloatArray:
        """Return XXᵀ."""
        if self._gram is None:
            self._gram = self._total(_gram, self._means())
        return self._gram

    def scaled_gram(self, factors: FloatArray) -> FloatArray:
        """Return XF²Xᵀ for features multiplied by factors."""
        return self._total(_scaled_gram, zip(self._cut(self.mean), self._cut(factors), strict=True))

    def scaled_powers(self, factors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return Σ_j (f_jx_ij)² for every sample, and Σ_i (f_jx_ij)⁴ for every feature."""
        parts = zip(self._cut(self.mean), self._cut(factors), strict=True)
        found = list(self._results(_scaled_powers, parts))
        rows = np.sum([rows for rows, _ in found], axis=0)
        return rows, np.concatenate([fourth for _, fourth in found])

    def columns(self, chosen: NDArray[np.bool_]) -> Any:
        """Return the data of some features: in memory here where they fit."""
        chosen = np.asarray(chosen, dtype=bool)
        kept = int(np.count_nonzero(chosen))
        if kept * self.shape[0] * self.dtype.itemsize <= self._memory:
            return self._collect(self._selected(chosen).dense())
        return self if kept == self.shape[1] else self._selected(chosen)

    def dense(self) -> NDArray[Any]:
        """Return the centred array, in memory here."""
        result = np.empty(self.shape, dtype=self.dtype)
        start = 0
        for block in self._results(partial(centred_block, dtype=self.dtype), self._means()):
            result[:, start : start + block.shape[1]] = block
            start += block.shape[1]
        return result

    def _cut(self, features: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Cut an array with one row for each feature as the blocks are cut."""
        start = 0
        for width in self._widths:
            yield features[start : start + width]
            start += width

    def _means(self) -> Iterator[tuple[FloatArray]]:
        return ((part,) for part in self._cut(self.mean))

    def _side_by_side(self, function: Callable[..., Any]) -> FloatArray:
        found = list(self._results(function, self._means()))
        return np.concatenate(found) if found else np.empty(0)


def centred_block(block: Any, mean: FloatArray, dtype: Any = np.float64) -> NDArray[Any]:
    """Return a block of columns less their means."""
    dense = block.toarray() if sp.issparse(block) else block
    return np.subtract(dense, mean, dtype=np.float64).astype(dtype, copy=False)


def scaled_block(block: Any, factors: FloatArray) -> Any:
    """Return a block of columns multiplied by factors, in double precision."""
    if sp.issparse(block):
        return block.astype(np.float64) @ sp.diags_array(factors)
    return np.multiply(block, factors, dtype=np.float64)


def _means(block: Any, _: FloatArray) -> FloatArray:
    return np.asarray(block.mean(axis=0, dtype=np.float64)).ravel()


def _times(block: Any, mean: FloatArray, columns: FloatArray) -> FloatArray:
    return centred_block(block, mean) @ columns


def _transposed_times(block: Any, mean: FloatArray, rows: FloatArray) -> FloatArray:
    return centred_block(block, mean).T @ rows


def _squared_lengths(block: Any, mean: FloatArray, rows: FloatArray | None) -> FloatArray:
    image = centred_block(block, mean)
    if rows is not None:
        image = rows.T @ image
    return np.asarray(np.sum(image * image, axis=0))


def _weighted_squares(block: Any, mean: FloatArray, weights: FloatArray) -> FloatArray:
    return np.asarray(weights @ centred_block(block, mean) ** 2)


def _row_squares(block: Any, mean: FloatArray) -> FloatArray:
    centred = centred_block(block, mean)
    return np.asarray(np.sum(centred * centred, axis=1))


def _gram(block: Any, mean: FloatArray) -> FloatArray:
    centred = centred_block(block, mean)
    return centred @ centred.T


def _scaled_gram(block: Any, mean: FloatArray, factors: FloatArray) -> FloatArray:
    scaled = centred_block(block, mean) * factors
    return scaled @ scaled.T


def _scaled_powers(
    block: Any, mean: FloatArray, factors: FloatArray
) -> tuple[FloatArray, FloatArray]:
    squares = (centred_block(block, mean) * factors) ** 2
    return squares.sum(axis=1), np.sum(squares**2, axis=0)
