"""The features as the greedy kernel sees them: columns of a matrix X with XᵀX = S."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf

from jointsparse.linalg import blocks, double
from jointsparse.moments import Moments

FloatArray = NDArray[np.float64]


class Columns:
    """Centred columns of a dense m × p array, scaled so that their squares add up to 1.

    The array is neither copied nor changed; float32 is converted block by block.
    """

    last_start: Any = None  # where the last greedy run began, for another with the same target

    def __init__(self, data: NDArray[Any]) -> None:
        self.data: Any = data
        self.n_rows, self.n_features = data.shape
        squares = np.concatenate(
            [np.einsum("ij,ij->j", block, block) for block in map(double, self._column_blocks())]
        )
        self._set_scale(squares)

    def _set_scale(self, squares: FloatArray) -> None:
        self.total = float(squares.sum())
        self.scale = 1 / np.sqrt(self.total)
        self.squares = squares / self.total

    def _column_blocks(self) -> Iterator[NDArray[Any]]:
        for part in blocks(self.n_features):
            yield self.data[:, part]

    def take(self, features: Any) -> FloatArray:
        """Return some columns, m × k in float64."""
        return double(self.data[:, features]) * self.scale

    def rows(self, part: slice) -> FloatArray:
        """Return some rows, k × p in float64."""
        return double(self.data[part]) * self.scale

    def project(self, vectors: FloatArray) -> FloatArray:
        """Return vectors @ X for a few vectors (k × m) in rows."""
        scaled = vectors * self.scale
        if self.data.dtype == np.float64:
            # One by one: a product of a thin matrix is slower than two of vectors.
            return np.stack([vector @ self.data for vector in scaled])
        return np.concatenate([scaled @ double(block) for block in self._column_blocks()], axis=1)

    def inner(self, vectors: FloatArray, part: Any) -> FloatArray:
        """Return the inner products (k × features) of vectors (m × k) with some columns."""
        return np.asarray(vectors.T @ self.take(part))

    def gram(self) -> FloatArray:
        """Return XXᵀ."""
        gram = np.zeros((self.n_rows, self.n_rows))
        for part in blocks(self.n_features):
            block = self.take(part)
            gram += block @ block.T
        return gram

    def leading_axes(self, count: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues of XXᵀ, largest first, and eigenvectors; at least ``count``."""
        values, axes = np.linalg.eigh(self.gram())
        return values[::-1], axes[:, ::-1]

    def leading_values(self, count: int) -> FloatArray:
        """Return the largest eigenvalues of XXᵀ, largest first."""
        return np.asarray(np.linalg.eigvalsh(self.gram())[::-1][:count])


def root_of_scatter(scatter: FloatArray) -> FloatArray:
    """Return a root F of S = FᵀF with as many rows as S has rank.

    A pivoted Cholesky factor of the correlation matrix, so that the accuracy of a feature does not
    depend on the scale of the others.
    """
    deviations = np.sqrt(np.clip(np.diagonal(scatter), 0.0, None))
    inverse = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0)
    correlation = scatter * inverse[:, None] * inverse
    size = deviations.size
    factor, pivots, rank, _ = dpstrf(correlation, tol=1e-12, lower=0)
    root = np.zeros((rank, size))
    root[:, pivots - 1] = np.triu(factor)[:rank]
    return np.asarray(root * deviations)


def feature_columns(moments: Moments) -> Columns:
    """Return the features through whichever is smaller: the samples or the scatter matrix."""
    if "columns" not in moments.cache:
        if not moments.has_samples or moments.n_features <= moments.n_samples:
            columns = Columns(root_of_scatter(moments.scatter))
        elif hasattr(moments.data, "transposed_times"):
            from jointsparse.solvers.remote_columns import RemoteColumns  # which builds on this

            columns = RemoteColumns(moments.data, moments.variances)
        elif sp.issparse(moments.data):
            from jointsparse.solvers.sparse_columns import SparseColumns  # which builds on this

            columns = SparseColumns(moments.data, moments.mean, moments.variances)
        else:
            columns = Columns(moments.centred_data)
        moments.cache["columns"] = columns
    cached: Columns = moments.cache["columns"]
    return cached
