r"""Centred samples as the solvers for many features see them: a few products, never a copy.

A solver for p ≫ n needs very little of the centred n × p matrix X. Everything it asks for is in
:class:`WideData`: products with thin matrices from either side, lengths of columns, the n × n Gram
matrix, a selection of the columns. Data that live elsewhere (blocks on a cluster, a file) take part
by offering the same.

Two are here. :class:`DenseWide` wraps an array of any namespace; :class:`SparseWide` a SciPy sparse
matrix. Both can centre on the way, X = R - 1μᵀ, so that neither a centred copy nor (for sparse R) a
dense one is ever made:

.. math:: XU = RU - 1(\mu^\top U),\qquad X^\top V = R^\top V - \mu(1^\top V),\qquad
          \|x_j\|^2 = \|r_j\|^2 - n\mu_j^2 .

Results are float64 whatever the data are stored in, accumulated block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, blocks, double, without_offsets


class WideData(Protocol):
    """What the solvers for many features ask of the centred data X (n × p)."""

    shape: tuple[int, int]
    empty: Array
    """A p × 0 array: its dtype is that of solutions, its namespace and device those of results."""

    def times(self, columns: Array) -> Array:
        """Return XU (n × k) for a p × k array U."""
        ...

    def transposed_times(self, rows: Array) -> Array:
        """Return XᵀV (p × k) for an n × k array V."""
        ...

    def squared_lengths(self, rows: Array | None = None) -> Array:
        """Return ‖Vᵀx_j‖² for every feature (p,), without holding XᵀV; ‖x_j‖² without V."""
        ...

    def weighted_squares(self, weights: Array) -> Array:
        """Return Σ_i w_i x_ij² for every feature (p,)."""
        ...

    def row_squares(self) -> Array:
        """Return ‖x_i‖² for every sample (n,)."""
        ...

    def gram(self) -> Array:
        """Return XXᵀ (n × n), computed once."""
        ...

    def columns(self, chosen: Array) -> WideData:
        """Return the data of some features, given by a mask."""
        ...

    def dense(self) -> Array:
        """Return X as an array; only asked for where few features are left."""
        ...


class ScalableData(WideData, Protocol):
    """What is also asked where features are compared: the same with features in another unit."""

    def scaled_gram(self, factors: Array) -> Array:
        """Return XF²Xᵀ (n × n) for features multiplied by the factors F = diag(f)."""
        ...

    def scaled_powers(self, factors: Array) -> tuple[Array, Array]:
        """Return Σ_j (f_jx_ij)² for every sample (n,), Σ_i (f_jx_ij)⁴ for every feature (p,)."""
        ...


class DenseWide:
    """Samples in an n × p array.

    Parameters
    ----------
    array : array of shape (n_samples, n_features)
        R, of any namespace and real dtype. Kept as a reference.
    mean : array of shape (n_features,) or None
        μ in float64; None where the array is centred already.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.wide.data import DenseWide
    >>> R = np.random.default_rng(0).standard_normal((5, 40)) + 3
    >>> X = R - R.mean(axis=0)
    >>> bool(np.allclose(DenseWide(R, R.mean(axis=0)).gram(), X @ X.T))
    True
    """

    def __init__(self, array: Array, mean: Array | None = None) -> None:
        xp = array_namespace(array)
        self.array, self.mean = array, mean
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = xp.float32 if array.dtype == xp.float32 else xp.float64
        self.empty = xp.empty((self.shape[1], 0), dtype=self.dtype, device=array.device)
        self._direct = mean is None and array.dtype == xp.float64  # nothing to convert
        self._gram: Array = None
        self._squares: Array = None

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield the columns in float64, a block at a time."""
        for part in blocks(self.shape[1]):
            block = double(self.array[:, part])
            yield part, block if self.mean is None else block - self.mean[part]

    def times(self, columns: Array) -> Array:
        """Return XU."""
        columns = double(columns)
        if self._direct:
            return self.array @ columns
        total = self._zeros((self.shape[0], columns.shape[1]))
        for part, block in self._blocks():
            total += block @ columns[part, :]
        return total

    def transposed_times(self, rows: Array) -> Array:
        """Return XᵀV."""
        if self._direct:
            return self.array.T @ rows
        result = self._zeros((self.shape[1], rows.shape[1]))
        for part, block in self._blocks():
            result[part, :] = block.T @ rows
        return result

    def squared_lengths(self, rows: Array | None = None) -> Array:
        """Return ‖Vᵀx_j‖² for every feature."""
        if rows is not None:
            return self._sums_of_squares(rows)
        if self._squares is None:
            self._squares = self._sums_of_squares(None)
        return self._squares

    def _sums_of_squares(self, rows: Array | None) -> Array:
        xp = array_namespace(self.array)
        result = self._zeros((self.shape[1],))
        for part, block in self._blocks():
            image = block if rows is None else rows.T @ block
            result[part] = xp.sum(image * image, axis=0)
        return result

    def weighted_squares(self, weights: Array) -> Array:
        """Return Σ_i w_i x_ij² for every feature."""
        result = self._zeros((self.shape[1],))
        for part, block in self._blocks():
            result[part] = weights @ (block * block)
        return result

    def row_squares(self) -> Array:
        """Return ‖x_i‖² for every sample."""
        xp = array_namespace(self.array)
        total = self._zeros((self.shape[0],))
        for _, block in self._blocks():
            total += xp.sum(block * block, axis=1)
        return total

    def gram(self) -> Array:
        """Return XXᵀ."""
        if self._gram is None:
            total = self._zeros((self.shape[0],) * 2)
            for _, block in self._blocks():
                total += block @ block.T
            self._gram = total
        return self._gram

    def scaled_gram(self, factors: Array) -> Array:
        """Return XF²Xᵀ for features multiplied by factors."""
        total = self._zeros((self.shape[0],) * 2)
        for part, block in self._blocks():
            scaled = block * factors[part]
            total += scaled @ scaled.T
        return total

    def scaled_powers(self, factors: Array) -> tuple[Array, Array]:
        """Return Σ_j (f_jx_ij)² for every sample, and Σ_i (f_jx_ij)⁴ for every feature."""
        xp = array_namespace(self.array)
        rows, fourth = self._zeros((self.shape[0],)), self._zeros((self.shape[1],))
        for part, block in self._blocks():
            squares = (block * factors[part]) ** 2
            rows += xp.sum(squares, axis=1)
            fourth[part] = xp.sum(squares**2, axis=0)
        return rows, fourth

    def weighted_scatter(self, weights: Array) -> Array:
        """Return Σ_i w_i x_i x_iᵀ (p × p)."""
        total = self._zeros((self.shape[1],) * 2)
        for rows in blocks(self.shape[0]):
            block = double(self.array[rows, :])
            centred = block if self.mean is None else block - self.mean
            total += centred.T @ (centred * weights[rows, None])
        return total

    def columns(self, chosen: Array) -> DenseWide:
        """Return the data of some features: a centred copy, or this where it is all of them."""
        xp = array_namespace(self.array)
        if bool(xp.all(chosen)):
            return self
        block = self.array[:, chosen]
        if self.mean is not None:
            block = double(block) - self.mean[chosen]
        return DenseWide(xp.astype(block, self.dtype, copy=False))

    def dense(self) -> Array:
        """Return the array, centred."""
        if self.mean is None:
            return self.array
        xp = array_namespace(self.array)
        shape = self.shape
        result = xp.empty(shape, dtype=self.dtype, device=self.array.device)
        for part, block in self._blocks():
            result[:, part] = xp.astype(block, self.dtype)
        return result

    def _zeros(self, shape: tuple[int, ...]) -> Array:
        xp = array_namespace(self.array)
        return xp.zeros(shape, dtype=xp.float64, device=self.array.device)


class SparseWide:
    """Samples in a SciPy sparse matrix, centred on the way and never made dense.

    Parameters
    ----------
    matrix : sparse matrix or array of shape (n_samples, n_features)
        R. Converted to compressed columns once.
    mean : ndarray of shape (n_features,)
        μ in float64.
    """

    def __init__(self, matrix: Any, mean: np.ndarray) -> None:
        self.dtype = np.float32 if matrix.dtype == np.float32 else np.float64
        matrix, mean = without_offsets(matrix, np.asarray(mean, dtype=np.float64))
        self.matrix, self.mean = matrix.tocsc(), mean
        self.shape = (int(matrix.shape[0]), int(matrix.shape[1]))
        self.empty = np.empty((self.shape[1], 0), dtype=self.dtype)
        self._transposed = self.matrix.T.tocsc().T  # by rows, for products from the right
        self._gram: np.ndarray | None = None

    def times(self, columns: Array) -> Array:
        """Return XU."""
        columns = np.asarray(columns, dtype=np.float64)
        return self._transposed @ columns - self.mean @ columns

    def transposed_times(self, rows: Array) -> Array:
        """Return XᵀV."""
        return self.matrix.T @ rows - np.outer(self.mean, np.sum(rows, axis=0))

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Return some samples, centred, as an array."""
        return np.asarray(self._transposed[indices].toarray() - self.mean)

    def squared_lengths(self, rows: Array | None = None) -> Array:
        """Return ‖Vᵀx_j‖² for every feature."""
        if rows is not None:
            result = np.empty(self.shape[1])
            for part in blocks(self.shape[1]):
                image = self.matrix[:, part].T @ rows - np.outer(self.mean[part], rows.sum(axis=0))
                result[part] = np.einsum("ij,ij->i", image, image)
            return result
        return self.weighted_squares(np.ones(self.shape[0]))

    def weighted_squares(self, weights: Array) -> Array:
        """Return Σ_i w_i x_ij² for every feature, from deviations: no difference of squares."""
        counts = np.diff(self.matrix.indptr)
        owner = np.repeat(np.arange(self.shape[1]), counts)
        stored = weights[self.matrix.indices]
        deviations = stored * (self.matrix.data.astype(np.float64) - self.mean[owner]) ** 2
        squares = np.bincount(owner, weights=deviations, minlength=self.shape[1])
        unstored = weights.sum() - np.bincount(owner, weights=stored, minlength=self.shape[1])
        # Where all entries are stored this is rounding, and a large mean would blow it up.
        return squares + np.where(counts < self.shape[0], unstored, 0.0) * self.mean**2

    def row_squares(self) -> Array:
        """Return ‖x_i‖² for every sample."""
        rows = self._transposed.astype(np.float64)
        squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        return np.maximum(squares - 2 * (rows @ self.mean) + float(self.mean @ self.mean), 0.0)

    def gram(self) -> Array:
        """Return XXᵀ = RRᵀ - Rμ1ᵀ - 1(Rμ)ᵀ + ‖μ‖²11ᵀ."""
        if self._gram is None:
            values = self._transposed.astype(np.float64)
            product = np.asarray((values @ values.T).todense())
            shift = values @ self.mean
            product -= shift[:, None] + shift[None, :] - float(self.mean @ self.mean)
            self._gram = product
        return self._gram

    def scaled_gram(self, factors: Array) -> Array:
        """Return XF²Xᵀ for features multiplied by factors."""
        return self._scaled(factors).gram()

    def scaled_powers(self, factors: Array) -> tuple[Array, Array]:
        """Return Σ_j (f_jx_ij)² for every sample, and Σ_i (f_jx_ij)⁴ for every feature."""
        scaled = self._scaled(factors)
        counts = np.diff(scaled.matrix.indptr)
        owner = np.repeat(np.arange(self.shape[1]), counts)
        deviations = scaled.matrix.data - scaled.mean[owner]
        stored = np.bincount(owner, weights=deviations**4, minlength=self.shape[1])
        return scaled.row_squares(), stored + (self.shape[0] - counts) * scaled.mean**4

    def weighted_scatter(self, weights: Array) -> Array:
        """Return Σ_i w_i x_i x_iᵀ (p × p)."""
        values = self._transposed.astype(np.float64)
        product = np.asarray((values.T @ values.multiply(weights[:, None]).tocsr()).todense())
        shift = np.outer(values.T @ weights, self.mean)
        return product - shift - shift.T + weights.sum() * np.outer(self.mean, self.mean)

    def _scaled(self, factors: Array) -> SparseWide:
        """Return the same with features multiplied by factors, still sparse."""
        matrix = self.matrix.astype(np.float64) @ sp.diags_array(factors)
        return SparseWide(matrix, self.mean * factors)

    def columns(self, chosen: Array) -> SparseWide:
        """Return the data of some features, still sparse."""
        if bool(np.all(chosen)):
            return self
        return SparseWide(self.matrix[:, np.flatnonzero(chosen)], self.mean[chosen])

    def dense(self) -> Array:
        """Return the centred array."""
        return (self.matrix.toarray() - self.mean).astype(self.dtype, copy=False)


def as_wide(data: Any) -> WideData:
    """Wrap a centred array; anything that is :class:`WideData` already is returned as it is."""
    return data if hasattr(data, "transposed_times") else DenseWide(data)
