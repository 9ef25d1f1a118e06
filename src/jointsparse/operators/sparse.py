r"""Samples in a SciPy sparse matrix R, centred on the way, X = R - 1μᵀ, and never made dense.

.. math:: XU = RU - 1(\mu^\top U),\qquad X^\top V = R^\top V - \mu(1^\top V),\qquad
          XX^\top = RR^\top - R\mu1^\top - 1(R\mu)^\top + \|\mu\|^211^\top .

Columns without a zero are centred first: of them a large mean would cost digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import FloatArray
from jointsparse.linalg import blocks, without_offsets
from jointsparse.operators.samples import Samples

PRODUCT_BLOCK = 512  # columns of XᵀX at a time: the product of sparse matrices is not that sparse


class SparseSamples(Samples):
    """Samples in a SciPy sparse matrix.

    Parameters
    ----------
    matrix : sparse matrix or array of shape (n_samples, n_features)
        R. Converted to compressed columns once.
    mean : ndarray of shape (n_features,)
        μ in float64.
    """

    home, is_sparse = "memory", True

    def __init__(self, matrix: Any, mean: FloatArray) -> None:
        self.dtype = np.float32 if matrix.dtype == np.float32 else np.float64
        matrix, mean = without_offsets(matrix, np.asarray(mean, dtype=np.float64))
        self.matrix, self.mean = matrix.tocsc(), mean
        self.shape = (int(matrix.shape[0]), int(matrix.shape[1]))
        self.empty = np.empty((self.shape[1], 0), dtype=self.dtype)
        self.by_row = self.matrix.T.tocsc().T  # for products from the right

    def times(self, columns: FloatArray) -> FloatArray:
        """Return XU."""
        columns = np.asarray(columns, dtype=np.float64)
        return np.asarray(self.by_row @ columns - self.mean @ columns)

    def transposed_times(self, rows: FloatArray) -> FloatArray:
        """Return XᵀV."""
        return np.asarray(self.matrix.T @ rows - np.outer(self.mean, np.sum(rows, axis=0)))

    def combined(self, weights: Any) -> FloatArray:
        """Return WX."""
        product, sums = weights @ self.by_row, np.asarray(weights.sum(axis=1)).ravel()
        product = product.toarray() if sp.issparse(product) else np.asarray(product)
        return np.asarray(product - np.outer(sums, self.mean))

    def rows(self, part: Any) -> FloatArray:
        """Return few samples as an array in float64."""
        return np.asarray(self.by_row[part].toarray() - self.mean)

    def squared_lengths(self, rows: FloatArray | None = None) -> FloatArray:
        """Return ‖Vᵀx_j‖² for every feature."""
        if rows is None:
            return self.weighted_squares(np.ones(self.shape[0]))
        result = np.empty(self.shape[1])
        for part in blocks(self.shape[1]):
            image = self.inner(rows, part)
            result[part] = np.einsum("ij,ij->i", image, image)
        return result

    def weighted_squares(self, weights: FloatArray) -> FloatArray:
        """Return Σ_i w_i x_ij² for every feature, from deviations: no difference of squares."""
        stored = weights[self.matrix.indices]
        squares = self._sums(stored * self._deviations() ** 2)
        # Where all entries are stored this is rounding, and a large mean would blow it up.
        some = np.diff(self.matrix.indptr) < self.shape[0]
        unstored = np.where(some, weights.sum() - self._sums(stored), 0.0)
        return np.asarray(squares + unstored * self.mean**2)

    def _owners(self) -> Any:
        """Return the feature of each stored entry."""
        return np.repeat(np.arange(self.shape[1]), np.diff(self.matrix.indptr))

    def _deviations(self) -> FloatArray:
        """Return stored entries less the mean of their feature."""
        return np.asarray(self.matrix.data.astype(np.float64) - self.mean[self._owners()])

    def _sums(self, stored: FloatArray) -> FloatArray:
        """Add up numbers of stored entries, feature by feature."""
        return np.asarray(np.bincount(self._owners(), stored, self.shape[1]), dtype=np.float64)

    def row_squares(self) -> FloatArray:
        """Return ‖x_i‖² for every sample."""
        rows = self.by_row.astype(np.float64)
        squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        return np.maximum(squares - 2 * (rows @ self.mean) + float(self.mean @ self.mean), 0.0)

    def size(self) -> float:
        """Return what no absolute value of an entry of X exceeds."""
        stored = float(np.max(np.abs(self.matrix.data), initial=0.0))
        return stored + float(np.max(np.abs(self.mean), initial=0.0))

    def powers(self) -> tuple[FloatArray, FloatArray]:
        """Return Σ_j x_ij² for every sample, and Σ_i x_ij⁴ for every feature."""
        unstored = self.shape[0] - np.diff(self.matrix.indptr)
        fourth = self._sums(self._deviations() ** 4) + unstored * self.mean**4
        return self.row_squares(), np.asarray(fourth)

    def _gram(self) -> FloatArray:
        values = self.by_row.astype(np.float64)
        product = np.asarray((values @ values.T).todense())
        shift = values @ self.mean
        product -= shift[:, None] + shift[None, :] - float(self.mean @ self.mean)
        return product

    def scatter_lengths(self) -> FloatArray:
        """Return ‖Xᵀx_j‖² for every feature: squared lengths of the columns of XᵀX."""
        n, mean, matrix = self.shape[0], self.mean, self.matrix.astype(np.float64)
        lengths = np.empty(self.shape[1])
        for start in range(0, self.shape[1], PRODUCT_BLOCK):
            part = slice(start, start + PRODUCT_BLOCK)
            product = sp.csc_array(self.by_row.T @ matrix[:, part])
            squares = np.asarray(product.multiply(product).sum(axis=0)).ravel()
            squares = squares - 2 * n * mean[part] * (product.T @ mean)
            lengths[part] = squares + (n * mean[part]) ** 2 * float(mean @ mean)
        return np.maximum(lengths, 0.0)

    def inner(self, rows: FloatArray, features: Any) -> FloatArray:
        """Return x_jᵀV for few features j, one row for each."""
        product = self.matrix[:, features].T @ rows
        return np.asarray(product - np.outer(self.mean[features], rows.sum(axis=0)))

    def entries(self, rows: Any, columns: Any) -> FloatArray:
        """Return x_iᵀx_j, few features i in rows and some j in columns; the mean comes off last."""
        few, some = self.matrix[:, rows].astype(np.float64), self.matrix[:, columns]
        product = (few.T @ some).toarray()
        ones, mean = np.ones(self.shape[0]), self.mean
        product -= np.outer(few.T @ ones, mean[columns]) + np.outer(mean[rows], some.T @ ones)
        return np.asarray(product + self.shape[0] * np.outer(mean[rows], mean[columns]))

    def scatter(self, weights: FloatArray | None = None) -> FloatArray:
        """Return Σ_i w_i x_i x_iᵀ."""
        if weights is None:
            weights = np.ones(self.shape[0])
        return scatter_of(self.by_row.astype(np.float64), self.mean, weights)

    def block(self, features: Any, weights: FloatArray) -> FloatArray:
        """Return Σ_i w_i x_i x_iᵀ of few features."""
        return scatter_of(self.matrix[:, features], self.mean[features], weights)

    def take(self, features: Any) -> FloatArray:
        """Return few columns as an array in float64."""
        return np.asarray(self.matrix[:, features].toarray() - self.mean[features])

    def columns(self, chosen: Any) -> SparseSamples:
        """Return the samples with some features, still sparse."""
        if bool(np.all(chosen)):
            return self
        return SparseSamples(self.matrix[:, np.flatnonzero(chosen)], self.mean[chosen])

    def scaled(self, factors: FloatArray) -> SparseSamples:
        """Return the same with features multiplied by factors, still sparse."""
        matrix = self.matrix.astype(np.float64) @ sp.diags_array(factors)
        return SparseSamples(matrix, self.mean * factors)

    def dense(self) -> FloatArray:
        """Return the centred array."""
        return self.take(slice(None)).astype(self.dtype, copy=False)


def scatter_of(matrix: Any, mean: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Σ_i w_i (r_i - μ)(r_i - μ)ᵀ of sparse rows, small enough to be dense."""
    weighted = matrix.multiply(weights[:, None]).tocsr()
    product = np.asarray((matrix.T @ weighted).todense())
    shift = np.outer(matrix.T @ weights, mean)
    return product - shift - shift.T + weights.sum() * np.outer(mean, mean)


def live_columns(matrix: Any, mean: FloatArray, squares: FloatArray) -> SparseSamples:
    """Return sparse samples with zeros for the features whose squared length is 0."""
    live = squares > 0
    if live.all():
        return SparseSamples(matrix, mean)
    return SparseSamples(matrix.multiply(live).tocsr(), np.where(live, mean, 0.0))
