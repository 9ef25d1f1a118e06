r"""The one door data comes in by: samples become a count, a mean and a scatter matrix.

.. math:: n,\qquad \mu = \frac1n\sum_i x_i,\qquad S = \sum_i (x_i-\mu)(x_i-\mu)^\top

Centring happens here and nowhere else, block by block, so the caller's array is neither copied as
a whole nor changed. All sums are accumulated in float64 whatever the type of the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array

BLOCK_ENTRIES = 2**22  # 32 MB of float64: larger blocks are no faster, smaller ones are slower

FloatArray = NDArray[np.float64]


class Moments:
    """Count, mean and scatter matrix of a set of samples.

    Moments of disjoint sets of samples can be added; methods that need nothing but the scatter
    matrix can be fitted from them (``fit_moments``).

    Parameters
    ----------
    n_samples : int
        Number of samples n.
    mean : ndarray of shape (n_features,)
        Mean μ.
    scatter : ndarray of shape (n_features, n_features)
        Scatter matrix S (n - 1 times the covariance matrix).
    feature_names : sequence of str or None
        Names of the columns, where the data had any.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import Moments
    >>> X = np.arange(12.0).reshape(6, 2) ** 2
    >>> whole = Moments.from_data(X)
    >>> parts = Moments.from_data(X[:2]) + Moments.from_data(X[2:])
    >>> bool(np.allclose(whole.scatter, parts.scatter)), parts.n_samples
    (True, 6)
    """

    def __init__(
        self,
        n_samples: int,
        mean: FloatArray,
        scatter: FloatArray,
        feature_names: Any = None,
    ) -> None:
        self.n_samples = n_samples
        self.mean = mean
        self.scatter = scatter
        self.feature_names = feature_names

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.mean.shape[0])

    @property
    def total_variance(self) -> float:
        """Trace of the scatter matrix."""
        return float(np.trace(self.scatter))

    @classmethod
    def from_data(cls, X: Any) -> Self:
        """Compute the moments of samples.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or memmap of shape (n_samples, n_features)
            Samples, one per row. Never modified; sparse data are never made dense.
        """
        names = column_names(X)
        matrix = check_array(X, accept_sparse=("csr", "csc"), dtype="numeric")
        mean = _mean(matrix)
        scatter = _sparse_scatter(matrix, mean) if sp.issparse(matrix) else _scatter(matrix, mean)
        _clear_constant_features(scatter, mean, matrix.shape[0])
        return cls(matrix.shape[0], mean, scatter, names)

    @classmethod
    def from_scatter(cls, scatter: Any, n_samples: int, feature_names: Any = None) -> Self:
        """Take a scatter, covariance or correlation matrix as it is (mean zero).

        Every relative penalty is free of the scale of the matrix; absolute penalties refer to the
        matrix given here.
        """
        names = column_names(scatter) if feature_names is None else feature_names
        matrix = check_array(scatter, dtype=np.float64)
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(
                f"a scatter matrix is square; got {matrix.shape[0]} rows and "
                f"{matrix.shape[1]} columns"
            )
        size = float(np.max(np.abs(matrix)))
        asymmetry = float(np.max(np.abs(matrix - matrix.T)))
        if asymmetry > 1e-8 * size:
            raise ValueError(
                f"a scatter matrix is symmetric; two mirrored entries differ by {asymmetry:.3g}"
            )
        negative = float(np.min(np.diagonal(matrix)))
        if negative < 0:
            raise ValueError(f"a scatter matrix has no negative diagonal entry; got {negative:.3g}")
        return cls(n_samples, np.zeros(matrix.shape[0]), (matrix + matrix.T) / 2, names)

    def __add__(self, other: Moments) -> Moments:
        if self.n_features != other.n_features:
            raise ValueError(
                f"moments of {self.n_features} and of {other.n_features} features cannot be added"
            )
        n = self.n_samples + other.n_samples
        shift = other.mean - self.mean
        # The pairwise update of Chan, Golub and LeVeque: no difference of large numbers.
        between = np.outer(shift, shift) * (self.n_samples * other.n_samples / n)
        mean = self.mean + shift * (other.n_samples / n)
        return Moments(n, mean, self.scatter + other.scatter + between, self.feature_names)

    def partial_fit(self, X: Any) -> Self:
        """Add more samples, in place."""
        total = self + Moments.from_data(X)
        self.n_samples, self.mean, self.scatter = total.n_samples, total.mean, total.scatter
        return self

    def __repr__(self) -> str:
        return f"Moments(n_samples={self.n_samples}, n_features={self.n_features})"


def column_names(X: Any) -> Any:
    """Return the column names of a pandas or polars data frame, or None where there are none."""
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    names = np.asarray(columns, dtype=object)
    return names if all(isinstance(name, str) for name in names) else None


def _row_blocks(matrix: Any) -> Iterator[Any]:
    rows = max(1, BLOCK_ENTRIES // max(1, matrix.shape[1]))
    for start in range(0, matrix.shape[0], rows):
        yield matrix[start : start + rows]


def _mean(matrix: Any) -> FloatArray:
    n = matrix.shape[0]
    if sp.issparse(matrix):
        return np.asarray(matrix.sum(axis=0, dtype=np.float64)).ravel() / n
    total = np.zeros(matrix.shape[1])
    for block in _row_blocks(matrix):
        total += np.sum(block, axis=0, dtype=np.float64)
    return total / n


def _scatter(matrix: Any, mean: FloatArray) -> FloatArray:
    p = matrix.shape[1]
    scatter = np.zeros((p, p))
    rest = np.zeros(p)
    for block in _row_blocks(matrix):
        centred = np.subtract(block, mean, dtype=np.float64)
        rest += centred.sum(axis=0)
        scatter += centred.T @ centred
    # What rounding left of the mean (huge offsets, small spread) is taken out to second order.
    scatter -= np.outer(rest, rest) / matrix.shape[0]
    return scatter


def _sparse_scatter(matrix: Any, mean: FloatArray) -> FloatArray:
    values = matrix.astype(np.float64)
    n = matrix.shape[0]
    scatter = np.asarray((values.T @ values).todense())
    scatter -= n * np.outer(mean, mean)
    # The diagonal decides which features are constant, so it must not suffer from cancellation.
    by_column = values.tocsc()
    stored = np.diff(by_column.indptr)
    deviation = (by_column.data - np.repeat(mean, stored)) ** 2
    owner = np.repeat(np.arange(mean.size), stored)
    variance = np.bincount(owner, weights=deviation, minlength=mean.size)
    np.fill_diagonal(scatter, variance + (n - stored) * mean**2)
    return scatter


def _clear_constant_features(scatter: FloatArray, mean: FloatArray, n: int) -> None:
    """Set rows and columns of features whose spread is nothing but rounding to exactly zero."""
    rounding = n * (8 * np.finfo(np.float64).eps * np.abs(mean)) ** 2
    constant = np.diagonal(scatter) <= rounding
    scatter[constant, :] = 0.0
    scatter[:, constant] = 0.0
