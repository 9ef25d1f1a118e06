"""The features as the greedy kernel sees them: columns of a matrix X with XᵀX = S."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dpstrf

from jointsparse.arrays import Array
from jointsparse.device import is_device_array, like
from jointsparse.eigen.lanczos import LARGEST_GRAM, leading_pairs
from jointsparse.linalg import array_namespace, correlation_spectrum, eigh
from jointsparse.moments import Moments
from jointsparse.operators.dense import operator_of
from jointsparse.operators.samples import Samples
from jointsparse.operators.sparse import SparseSamples
from jointsparse.running.workspace import Slot
from jointsparse.solvers.products.gram import centred_where_held


class Columns:
    """Centred features, scaled so that their squares add up to 1.

    Whatever is returned is of the namespace of the samples, where they are; in memory here for
    samples in a file or on a cluster.

    Parameters
    ----------
    data : array of shape (n_rows, n_features) or Samples
        X: the samples, or any root of the scatter matrix.
    squares : array of shape (n_features,) or None
        Squared lengths of the columns, where they are known; exactly 0 for constant ones.
    """

    last_start: Any = None  # where the last greedy run began, for another with the same target

    def __init__(self, data: Array | Samples, squares: Array | None = None) -> None:
        self.samples = operator_of(data)
        self.n_rows, self.n_features = self.samples.shape
        self.xp = self.samples.xp
        if squares is None:
            squares = self.samples.squared_lengths()
        elif not (squares > 0).all():  # whatever rounding makes of columns that do not vary
            self.samples = self.samples.scaled(self.xp.astype(squares > 0, squares.dtype))
        # Whether the columns were centred in single precision.
        self.single = self.samples.is_array and self.samples.dtype == self.xp.float32
        self.total = float(squares.sum())
        self.scale = 1 / math.sqrt(self.total)
        self.squares = squares / self.total

    def here(self, array: Any) -> Array:
        """Return a NumPy array where the columns are."""
        return like(array, self.squares)

    def take(self, features: Any) -> Array:
        """Return some columns, m × k in float64."""
        return self.samples.take(features) * self.scale

    def rows(self, part: slice) -> Array:
        """Return some rows, k × p in float64."""
        return self.samples.rows(part) * self.scale

    def project(self, vectors: Array) -> Array:
        """Return Xᵀv for a few vectors of length m, each a row there and here."""
        return self.samples.transposed_times((self.scale * vectors).T).T

    def inner(self, vectors: Array, part: Any) -> Array:
        """Return the inner products (k × features) of vectors (m × k) with some columns."""
        return self.samples.inner(vectors, part).T * self.scale

    def times(self, matrix: Array) -> Array:
        """Return X @ matrix for a p × k matrix."""
        return self.samples.times(matrix) * self.scale

    def gram(self) -> Array:
        """Return XXᵀ."""
        return self.samples.gram() * self.scale**2

    def squared(self, vectors: Array) -> Array:
        """Return XXᵀ times a vector or vectors."""
        thin = vectors.reshape(vectors.shape[0], -1)
        image = self.samples.times(self.samples.transposed_times(thin))
        return (image * self.scale**2).reshape(vectors.shape)

    @property
    def many_rows(self) -> bool:
        """Whether there are too many rows to decompose XXᵀ, and products cost little."""
        return self.samples.is_sparse and self.n_rows > LARGEST_GRAM

    def leading_axes(self, count: int | None = None) -> tuple[Array, Array]:
        """Return eigenvalues of XXᵀ, largest first, and eigenvectors; at least ``count``."""
        if count is not None and self.many_rows and 2 * count < self.n_rows:
            return leading_pairs(self.n_rows, self.squared, count)
        values, axes = eigh(self.gram())
        return self.xp.flip(values), self.xp.flip(axes, axis=1)

    def leading_values(self, count: int) -> Array:
        """Return the largest eigenvalues of XXᵀ, largest first."""
        if self.many_rows and 2 * count < self.n_rows:
            return leading_pairs(self.n_rows, self.squared, count)[0]
        return self.xp.flip(self.xp.linalg.eigvalsh(self.gram()))[:count]

    def left_over(self, span: Array, kernel: Array) -> tuple[Array, Array]:
        """Return ‖Px_j‖² and x_jᵀPKPx_j of all features; P takes orthonormal rows out."""
        outside = np.eye(self.n_rows) - span.T @ span
        lengths = self.samples.squared_lengths(outside) * self.scale**2
        values, axes = np.linalg.eigh(kernel)
        large = values > np.finfo(np.float64).eps * values[-1]
        root = outside @ (axes[:, large] * np.sqrt(values[large]))
        return lengths, self.samples.squared_lengths(root) * self.scale**2


NEGLIGIBLE = 1e-12  # pivots and eigenvalues of a correlation matrix that are zero but for rounding


def root_of_scatter(scatter: Array) -> Array:
    """Return a root F of S = FᵀF with as many rows as S has rank.

    A pivoted Cholesky factor of the correlation matrix, so that the accuracy of a feature does not
    depend on the scale of the others. Only LAPACK has one: on a device the root is made of the
    eigenvectors of that matrix.
    """
    if is_device_array(scatter):
        return root_of_correlations(*correlation_spectrum(scatter))
    deviations = np.sqrt(np.clip(np.diagonal(scatter), 0.0, None))
    inverse = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0)
    correlation = scatter * inverse[:, None] * inverse
    size = deviations.size
    factor, pivots, rank, _ = dpstrf(correlation, tol=NEGLIGIBLE, lower=0)
    root = np.zeros((rank, size))
    root[:, pivots - 1] = np.triu(factor)[:rank]
    return np.asarray(root * deviations)


def root_of_correlations(lengths: Array, values: Array, axes: Array) -> Array:
    """Return a root of the scatter matrix, given lengths and eigenpairs of the correlations."""
    xp = array_namespace(values)
    large = values > NEGLIGIBLE
    return (axes[:, large] * xp.sqrt(values[large])).T * lengths


def _root_of(moments: Moments) -> Array:
    if is_device_array(moments.data):
        return root_of_correlations(*moments.native.correlation_spectrum)
    return root_of_scatter(moments.native.scatter)


COLUMNS: Slot[Columns] = Slot("columns")


def feature_columns(moments: Moments) -> Columns:
    """Return the features through whichever is smaller: the samples or the scatter matrix."""
    return moments.workspace.kept(COLUMNS, lambda: _columns(moments))


def _columns(moments: Moments) -> Columns:
    data, squares = moments.data, moments.variances
    if moments.near_one is not moments:
        return feature_columns(moments.near_one)
    if not moments.is_wide:
        return Columns(_root_of(moments))
    if isinstance(data, Samples):
        return Columns(data, squares)
    if sp.issparse(data):
        return Columns(SparseSamples(data.astype(np.float64), moments.mean), squares)
    return Columns(centred_where_held(moments))
