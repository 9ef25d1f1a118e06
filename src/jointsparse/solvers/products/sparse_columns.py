"""The features of a sparse matrix for the greedy kernel: centred implicitly, never made dense."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from jointsparse.arrays import FloatArray
from jointsparse.linalg import without_offsets
from jointsparse.solvers.products.columns import Columns

LARGEST_GRAM = 4096  # samples up to which all eigenvalues of their Gram matrix are computed
PRODUCT_BLOCK = 512  # columns of XᵀX at a time: the product of sparse matrices is not that sparse


class SparseColumns(Columns):
    """Columns of a sparse m × p matrix R with its mean taken off: X = R - 1μᵀ.

    Parameters
    ----------
    matrix : sparse matrix of shape (n_rows, n_features)
        R.
    mean : ndarray of shape (n_features,)
        μ.
    squares : ndarray of shape (n_features,)
        Squared lengths of the centred columns; those of length 0 are taken for zeros.
    """

    def __init__(self, matrix: Any, mean: FloatArray, squares: FloatArray) -> None:
        live = squares > 0
        matrix, mean = without_offsets(matrix, mean)
        self.data = sp.csc_array(matrix, dtype=np.float64)
        if not live.all():
            self.data = sp.csc_array(self.data @ sp.diags_array(live.astype(np.float64)))
        self.by_row = self.data.tocsr()
        self.mean = np.where(live, mean, 0.0)
        self.n_rows, self.n_features = matrix.shape
        self._set_scale(squares)

    def take(self, features: Any) -> FloatArray:
        """Return some columns, m × k."""
        return np.asarray((self.data[:, features].toarray() - self.mean[features]) * self.scale)

    def rows(self, part: slice) -> FloatArray:
        """Return some rows, k × p."""
        return np.asarray((self.by_row[part].toarray() - self.mean) * self.scale)

    def project(self, vectors: FloatArray) -> FloatArray:
        """Return vectors @ X for a few vectors (k × m) in rows."""
        return self.inner(vectors.T, slice(None))

    def inner(self, vectors: FloatArray, part: Any) -> FloatArray:
        """Return the inner products (k × features) of vectors (m × k) with some columns."""
        whole = isinstance(part, slice) and part == slice(None)
        data = self.data if whole else self.data[:, part]
        product = data.T @ vectors - np.outer(self.mean[part], vectors.sum(axis=0))
        return np.asarray(product.T * self.scale)

    def times(self, matrix: FloatArray) -> FloatArray:
        """Return X @ matrix for a p × k matrix."""
        return np.asarray((self.by_row @ matrix - self.mean @ matrix) * self.scale)

    def gram(self) -> FloatArray:
        """Return XXᵀ = RRᵀ - Rμ1ᵀ - 1(Rμ)ᵀ + ‖μ‖²11ᵀ."""
        shift = self.by_row @ self.mean
        product = np.asarray((self.by_row @ self.by_row.T).todense())
        product -= shift[:, None] + shift - float(self.mean @ self.mean)
        return product * self.scale**2

    def scatter_lengths(self) -> FloatArray:
        """Return ‖Xᵀx_j‖² for every feature: squared lengths of the columns of XᵀX."""
        n, mean = self.n_rows, self.mean
        lengths = np.empty(self.n_features)
        for start in range(0, self.n_features, PRODUCT_BLOCK):
            part = slice(start, start + PRODUCT_BLOCK)
            product = sp.csc_array(self.by_row.T @ self.data[:, part])
            owner = np.repeat(np.arange(product.shape[1]), np.diff(product.indptr))
            squares = np.bincount(owner, weights=product.data**2, minlength=product.shape[1])
            squares -= 2 * n * mean[part] * (product.T @ mean)
            lengths[part] = squares + (n * mean[part]) ** 2 * float(mean @ mean)
        return np.maximum(lengths, 0.0) * self.scale**4

    def leading_axes(self, count: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues of XXᵀ, largest first, and eigenvectors; at least ``count``."""
        if count is None or self.n_rows <= LARGEST_GRAM or 2 * count >= self.n_rows:
            return super().leading_axes(count)
        return leading_pairs(self.n_rows, self.squared, count)

    def leading_values(self, count: int) -> FloatArray:
        """Return the largest eigenvalues of XXᵀ, largest first; all where there are few rows."""
        if self.n_rows <= LARGEST_GRAM or 2 * count >= self.n_rows:
            return np.asarray(np.linalg.eigvalsh(self.gram())[::-1][:count])
        return leading_pairs(self.n_rows, self.squared, count)[0]

    @property
    def many_rows(self) -> bool:
        """Whether there are too many rows to decompose XXᵀ."""
        return self.n_rows > LARGEST_GRAM

    def squared(self, vectors: FloatArray) -> FloatArray:
        """Return XXᵀ times vectors."""
        thin = vectors.reshape(len(vectors), -1)
        return self.times(self.inner(thin, slice(None)).T).reshape(vectors.shape)


class ImplicitKernel:
    """The kernel K = F Fᵀ of the greedy target through products: nothing is m × m.

    Parameters
    ----------
    columns : SparseColumns
        The features.
    factor : ndarray of shape (m, q) or None
        F; None is F = X.
    unit : float
        What K is divided by.
    """

    def __init__(
        self, columns: SparseColumns, factor: FloatArray | None = None, unit: float = 1.0
    ) -> None:
        self.columns, self.factor, self.unit = columns, factor, unit

    def __matmul__(self, vectors: FloatArray) -> FloatArray:
        if self.factor is not None:
            return np.asarray(self.factor @ (self.factor.T @ vectors)) / self.unit
        thin = vectors.reshape(len(vectors), -1)
        image = self.columns.times(self.columns.inner(thin, slice(None)).T)
        return np.asarray(image.reshape(vectors.shape)) / self.unit

    def forms(self) -> FloatArray:
        """Return x_jᵀKx_j for every feature."""
        if self.factor is None:
            return self.columns.scatter_lengths() / self.unit
        images = self.columns.inner(self.factor, slice(None))
        return np.asarray(np.sum(images**2, axis=0)) / self.unit


def leading_pairs(size: int, product: Any, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues (largest first) and eigenvectors of a symmetric operator."""
    start = np.random.default_rng(0).standard_normal(size)
    operator = LinearOperator((size, size), matvec=product, matmat=product, dtype=np.float64)
    values, vectors = eigsh(operator, k=min(count, size - 1), v0=start, tol=1e-13)
    return values[::-1], vectors[:, ::-1]
