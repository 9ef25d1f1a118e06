"""The features as the greedy kernel sees them: columns of a matrix X with XᵀX = S."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dpstrf

from jointsparse.arrays import Array
from jointsparse.device import is_device_array, like
from jointsparse.linalg import array_namespace, blocks, column_products, double, eigh, positive_part
from jointsparse.moments import Moments


class Columns:
    """Centred columns of a dense m × p array, scaled so that their squares add up to 1.

    The array is neither copied nor changed; float32 is converted block by block. It may be of any
    namespace, and everything returned is of the same.
    """

    single = False  # whether the columns were centred in single precision
    last_start: Any = None  # where the last greedy run began, for another with the same target

    def __init__(self, data: Array) -> None:
        self.data: Any = data
        self.n_rows, self.n_features = data.shape
        self.xp = array_namespace(data)
        self.single = data.dtype == self.xp.float32
        self._set_scale(
            self.xp.concat([column_products(b, b) for b in map(double, self._column_blocks())])
        )

    def _set_scale(self, squares: Array) -> None:
        self.xp = array_namespace(squares)
        self.total = float(squares.sum())
        self.scale = 1 / math.sqrt(self.total)
        self.squares = squares / self.total

    def here(self, array: Any) -> Array:
        """Return a NumPy array where the columns are."""
        return like(array, self.squares)

    def _column_blocks(self) -> Iterator[Array]:
        for part in blocks(self.n_features):
            yield self.data[:, part]

    def take(self, features: Any) -> Array:
        """Return some columns, m × k in float64."""
        if not (isinstance(features, slice) or is_device_array(features)):
            features = self.here(features)
        return double(self.data[:, features]) * self.scale

    def rows(self, part: slice) -> Array:
        """Return some rows, k × p in float64."""
        return double(self.data[part, :]) * self.scale

    def project(self, vectors: Array) -> Array:
        """Return vectors @ X for a few vectors (k × m) in rows."""
        scaled = vectors * self.scale
        if self.data.dtype == self.xp.float64:
            # One by one: a product of a thin matrix is slower than two of vectors.
            return self.xp.stack([scaled[k, :] @ self.data for k in range(scaled.shape[0])])
        return self.xp.concat([scaled @ double(block) for block in self._column_blocks()], axis=1)

    def inner(self, vectors: Array, part: Any) -> Array:
        """Return the inner products (k × features) of vectors (m × k) with some columns."""
        return vectors.T @ self.take(part)

    def gram(self) -> Array:
        """Return XXᵀ."""
        parts = (self.take(part) for part in blocks(self.n_features))
        return sum(block @ block.T for block in parts)

    def leading_axes(self, count: int | None = None) -> tuple[Array, Array]:
        """Return eigenvalues of XXᵀ, largest first, and eigenvectors; at least ``count``."""
        values, axes = eigh(self.gram())
        return self.xp.flip(values), self.xp.flip(axes, axis=1)

    def leading_values(self, count: int) -> Array:
        """Return the largest eigenvalues of XXᵀ, largest first."""
        return self.xp.flip(self.xp.linalg.eigvalsh(self.gram()))[:count]


NEGLIGIBLE = 1e-12  # pivots and eigenvalues of a correlation matrix that are zero but for rounding


def root_of_scatter(scatter: Array) -> Array:
    """Return a root F of S = FᵀF with as many rows as S has rank.

    A pivoted Cholesky factor of the correlation matrix, so that the accuracy of a feature does not
    depend on the scale of the others. Only LAPACK has one: on a device the root is made of the
    eigenvectors of that matrix.
    """
    if is_device_array(scatter):
        xp = array_namespace(scatter)
        lengths = xp.sqrt(positive_part(xp.linalg.diagonal(scatter)))
        inverse = xp.where(lengths > 0, 1 / xp.where(lengths > 0, lengths, 1.0), 0.0)
        values, axes = eigh(scatter * inverse[:, None] * inverse)
        large = values > NEGLIGIBLE
        return (axes[:, large] * xp.sqrt(values[large])).T * lengths
    deviations = np.sqrt(np.clip(np.diagonal(scatter), 0.0, None))
    inverse = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0)
    correlation = scatter * inverse[:, None] * inverse
    size = deviations.size
    factor, pivots, rank, _ = dpstrf(correlation, tol=NEGLIGIBLE, lower=0)
    root = np.zeros((rank, size))
    root[:, pivots - 1] = np.triu(factor)[:rank]
    return np.asarray(root * deviations)


def feature_columns(moments: Moments) -> Columns:
    """Return the features through whichever is smaller: the samples or the scatter matrix."""
    if "columns" not in moments.cache:
        if moments.near_one is not moments:
            columns = feature_columns(moments.near_one)
        elif not moments.is_wide:
            columns = Columns(root_of_scatter(moments.native.scatter))
        elif moments.elsewhere:
            from jointsparse.solvers.products.remote_columns import (
                RemoteColumns,  # which builds on this
            )

            columns = RemoteColumns(moments.data, moments.variances)
        elif sp.issparse(moments.data):
            from jointsparse.solvers.products.sparse_columns import (
                SparseColumns,  # which builds on this
            )

            columns = SparseColumns(moments.data, moments.mean, moments.variances)
        else:
            columns = Columns(moments.native.centred_data)
        moments.cache["columns"] = columns
    cached: Columns = moments.cache["columns"]
    return cached
