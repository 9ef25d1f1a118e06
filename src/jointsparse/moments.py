r"""The one door data comes in by: samples become a count, a mean and a scatter matrix.

.. math:: n,\qquad \mu = \frac1n\sum_i x_i,\qquad S = \sum_i (x_i-\mu)(x_i-\mu)^\top

Centring happens here and nowhere else, block by block, so the caller's array is neither copied as
a whole nor changed. All sums are accumulated in float64 whatever the type of the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array

from jointsparse.device import checked_samples, is_device_array, to_host
from jointsparse.device_moments import DeviceMoments
from jointsparse.linalg import Spectrum

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
    scatter : ndarray of shape (n_features, n_features) or None
        Scatter matrix S (n - 1 times the covariance matrix); None computes it from ``data`` when
        it is first asked for.
    feature_names : sequence of str or None
        Names of the columns, where the data had any.
    data : ndarray or sparse matrix of shape (n_samples, n_features) or None
        The samples themselves, where they are at hand. Kept as a reference, not copied.

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
        scatter: FloatArray | None = None,
        feature_names: Any = None,
        *,
        data: Any = None,
    ) -> None:
        if scatter is None and data is None:
            raise ValueError("moments need a scatter matrix or samples to compute it from")
        self.n_samples = n_samples
        self.mean = mean
        self.feature_names = feature_names
        self.cache: dict[str, Any] = {}  # what methods derive from these moments and need again
        self._scatter = scatter
        self._data = data
        self._device = DeviceMoments(data) if is_device_array(data) else None

    @property
    def native(self) -> Any:
        """The same arrays where the samples are: on their device; these moments for NumPy.

        Kernels that run in any array namespace take their input from here. Everything else of a
        ``Moments`` is NumPy, wherever it was computed.
        """
        return self if self._device is None else self._device

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.mean.shape[0])

    @property
    def scatter(self) -> FloatArray:
        """Scatter matrix, computed when first asked for: p × p."""
        if self._scatter is None and self._device is not None:
            self._scatter = to_host(self._device.scatter)
        if self._scatter is None:
            self._scatter = _scatter(self._data, self.mean)
        return self._scatter

    @property
    def total_variance(self) -> float:
        """Trace of the scatter matrix."""
        return float(np.sum(self.variances))

    @cached_property
    def variances(self) -> FloatArray:
        """Diagonal of the scatter matrix, exactly 0 for constant features."""
        if self._scatter is not None:
            return np.diagonal(self._scatter).copy()
        if self._device is not None:
            return to_host(self._device.variances)
        return _variances(self._data, self.mean)

    @property
    def has_samples(self) -> bool:
        """Whether the samples themselves are at hand."""
        return self._data is not None

    @property
    def data(self) -> Any:
        """The samples as they came, dense or sparse; None where only their moments are known."""
        return self._data

    @cached_property
    def spectrum(self) -> Spectrum:
        """Eigendecomposition of the scatter matrix, all p vectors."""
        if self._device is not None:
            return self._device.spectrum.on_host()
        return Spectrum.of(self.scatter)

    @cached_property
    def thin_spectrum(self) -> Spectrum:
        """The same without any p × p matrix where there are more features than samples."""
        if self.has_samples and self.n_features > self.n_samples:
            if self._device is not None:
                return self._device.thin_spectrum.on_host()
            return Spectrum.thin(self.centred_data)
        return self.spectrum

    @cached_property
    def centred_data(self) -> NDArray[Any]:
        """The samples with the mean taken off: a dense n × p copy; float32 stays float32."""
        if self._data is None:
            raise ValueError(
                "this needs the samples themselves, not only their scatter matrix: fit it with "
                "fit(X), or with moments from Moments.from_data(X)"
            )
        if self._device is not None:
            return to_host(self._device.centred_data)
        dense = self._data.toarray() if sp.issparse(self._data) else np.asarray(self._data)
        dtype = np.float32 if dense.dtype == np.float32 else np.float64
        centred = np.subtract(dense, self.mean, dtype=np.float64).astype(dtype, copy=False)
        centred[:, self.variances == 0] = 0.0
        return centred

    @classmethod
    def from_data(cls, X: Any) -> Self:
        """Compute the moments of samples.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix, memmap, PyTorch tensor or CuPy array
            Samples, one per row: n_samples × n_features. Never modified; sparse data are never
            made dense, and tensors stay on their device.
        """
        if is_device_array(X):
            device = DeviceMoments(checked_samples(X))
            moments = cls(device.n_samples, to_host(device.mean), data=device.data)
            moments._device = device
            return moments
        names = column_names(X)
        matrix = check_array(X, accept_sparse=("csr", "csc"), dtype="numeric")
        return cls(matrix.shape[0], _mean(matrix), None, names, data=matrix)

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
        self.n_samples, self.mean, self._scatter = total.n_samples, total.mean, total.scatter
        self._data = self._device = None
        self.cache.clear()
        for cached in ("variances", "spectrum", "thin_spectrum", "centred_data"):
            self.__dict__.pop(cached, None)
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
    scatter = _sparse_scatter(matrix, mean) if sp.issparse(matrix) else _dense_scatter(matrix, mean)
    # Rows and columns of features whose spread is nothing but rounding are exactly zero.
    constant = np.diagonal(scatter) <= _rounding(mean, matrix.shape[0])
    scatter[constant, :] = 0.0
    scatter[:, constant] = 0.0
    return scatter


def _dense_scatter(matrix: Any, mean: FloatArray) -> FloatArray:
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
    scatter = np.asarray((values.T @ values).todense())
    scatter -= matrix.shape[0] * np.outer(mean, mean)
    # The diagonal decides which features are constant, so it must not suffer from cancellation.
    np.fill_diagonal(scatter, _sum_of_squares(matrix, mean))
    return scatter


def _variances(matrix: Any, mean: FloatArray) -> FloatArray:
    variances = _sum_of_squares(matrix, mean)
    variances[variances <= _rounding(mean, matrix.shape[0])] = 0.0
    return variances


def _sum_of_squares(matrix: Any, mean: FloatArray) -> FloatArray:
    """Σ_i (x_ij - μ_j)² for every feature j."""
    if sp.issparse(matrix):
        by_column = matrix.astype(np.float64).tocsc()
        stored = np.diff(by_column.indptr)
        owner = np.repeat(np.arange(mean.size), stored)
        deviation = (by_column.data - mean[owner]) ** 2
        squares = np.bincount(owner, weights=deviation, minlength=mean.size)
        return squares + (matrix.shape[0] - stored) * mean**2
    total = np.zeros(mean.size)
    for block in _row_blocks(matrix):
        total += np.sum(np.subtract(block, mean, dtype=np.float64) ** 2, axis=0)
    return total


def _rounding(mean: FloatArray, n: int) -> FloatArray:
    """Sum of squares that rounding alone may leave of a constant feature."""
    return n * (8 * np.finfo(np.float64).eps * np.abs(mean)) ** 2
