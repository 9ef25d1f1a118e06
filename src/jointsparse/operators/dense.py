"""Samples in an array of any namespace: in memory, or on a device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import Array
from jointsparse.device import is_device_array, like, on_accelerator
from jointsparse.linalg import array_namespace, blocks, double
from jointsparse.operators.blocks import ColumnBlocks, thin_product
from jointsparse.operators.samples import Samples, centred_block, reweighted_gram

BLOCK_ENTRIES = 2**26  # converted to float64 at a time on an accelerator: 512 MB
SINGLE_FACTORS = (1e-30, 1e30)  # beyond, single precision cannot hold the factors


class DenseSamples(ColumnBlocks):
    """Samples in an n × p array, centred on the way.

    Parameters
    ----------
    array : array of shape (n_samples, n_features)
        R, of any namespace and real dtype. Kept as a reference.
    mean : array of shape (n_features,) or None
        μ in float64; None where the array is centred already.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.operators.dense import DenseSamples
    >>> R = np.random.default_rng(0).standard_normal((5, 40)) + 3
    >>> X = R - R.mean(axis=0)
    >>> bool(np.allclose(DenseSamples(R, R.mean(axis=0)).gram(), X @ X.T))
    True
    """

    _unscaled: DenseSamples | None = None  # of features in another unit
    _weights: Array | None = None  # of weighted samples (``reweighted``) …
    _offset: Array | None = None  # … their mean …
    _plain: DenseSamples | None = None  # … and the samples that they were

    def __init__(self, array: Array, mean: Array | None = None) -> None:
        xp = array_namespace(array)
        self.array, self.mean = array, mean
        self.home = "device" if is_device_array(array) else "memory"
        self._in_double = array.dtype == xp.float64
        dtype = xp.float32 if array.dtype == xp.float32 else xp.float64
        empty = xp.empty((int(array.shape[1]), 0), dtype=dtype, device=array.device)
        super().__init__(empty, int(array.shape[0]))
        self._squares: Array = None

    @property
    def _as_it_is(self) -> bool:
        """Whether the array is X."""
        return self.mean is None and self._factors is None and self._weights is None

    @property
    def _direct(self) -> bool:
        """Whether it is, in float64."""
        return self._in_double and self._as_it_is

    @property
    def is_held(self) -> bool:
        """Whether it is, in an array of NumPy."""
        return type(self.array) is np.ndarray and self._direct

    def _block(self, features: Any) -> Array:
        """Return some columns of X, given by a slice or by their numbers in an array."""
        block = centred_block(self._stored(features), self._at(self.mean, features))
        if self._offset is not None:
            block = block - self._offset[features]
        if self._factors is not None:
            block = block * self._factors[features]
        return block if self._weights is None else block * self.xp.sqrt(self._weights)[:, None]

    def _stored(self, features: Any) -> Array:
        """Return some columns of R; masks and numbers beside slices are in no standard."""
        if isinstance(features, slice):
            return self.array[:, features]
        return self.xp.take(self.array, features, axis=1)

    @staticmethod
    def _at(array: Array | None, features: Any) -> Array | None:
        return None if array is None else array[features]

    def _results(self, function: Callable[..., Any], *aligned: Array) -> Iterator[Any]:
        for part in self._parts():
            yield function(self._block(part), *(array[part, ...] for array in aligned))

    def _parts(self) -> Iterator[slice]:
        """Blocks of features; large ones on an accelerator, which each of them keeps waiting."""
        rows, width = self.shape
        if not on_accelerator(self.array):
            return blocks(width)
        step = max(1, BLOCK_ENTRIES // max(rows, 1))
        return (slice(first, min(first + step, width)) for first in range(0, width, step))

    def times(self, columns: Array) -> Array:
        """Return XU."""
        columns = double(columns)
        if self._unscaled is not None:
            return self._unscaled.times(columns * self._factors[:, None])
        return thin_product(self.array, columns) if self._direct else super().times(columns)

    def transposed_times(self, rows: Array) -> Array:
        """Return XᵀV."""
        rows = double(rows)
        if self._unscaled is not None:
            return self._unscaled.transposed_times(rows) * self._factors[:, None]
        return thin_product(self.array.T, rows) if self._direct else super().transposed_times(rows)

    def combined(self, weights: Any) -> Array:
        """Return WX."""
        return weights @ self.array if self._direct else super().combined(weights)

    def squared_lengths(self, rows: Array | None = None) -> Array:
        """Return ‖Vᵀx_j‖² for every feature; those without V are kept."""
        if rows is not None:
            return super().squared_lengths(rows)
        if self._squares is None:
            self._squares = super().squared_lengths()
        return self._squares

    def _gram(self) -> Array:
        if self.is_held:
            return self.array @ self.array.T
        if self._plain is None:
            return super()._gram()
        about_mean = self._offset is not None
        return reweighted_gram(self._plain.gram(), self._weights, about_mean=about_mean)

    def scatter(self, weights: Array | None = None) -> Array:
        """Return Σ_i w_i x_i x_iᵀ, a block of rows at a time."""
        total = self._zeros(self.shape[1], self.shape[1])
        for part in blocks(self.shape[0]):
            block = self.rows(part)
            total += block.T @ (block if weights is None else block * weights[part][:, None])
        return total

    def rows(self, part: Any) -> Array:
        """Return few samples as an array in float64."""
        if self._direct:
            return self.array[part, :]
        rows = copy.copy(self)
        rows.array = self.array[part, :]
        rows._weights = self._at(self._weights, part)
        return rows._block(slice(None))

    def take(self, features: Any) -> Array:
        """Return few columns as an array in float64."""
        if not (isinstance(features, slice) or is_device_array(features)):
            features = like(features, self.empty)
        return self._stored(features) if self._direct else self._block(features)

    def columns(self, chosen: Array) -> DenseSamples:
        """Return some features: a centred copy, or this where it is all of them."""
        xp = self.xp
        if bool(xp.all(chosen)):
            return self
        numbers = xp.nonzero(chosen)[0]
        block = self._stored(numbers) if self._as_it_is else self._block(numbers)
        return DenseSamples(xp.astype(block, self.dtype, copy=False))

    def dense(self) -> Array:
        """Return the array, centred."""
        if self._as_it_is:
            return self.array
        at_once = self._in_double and self._factors is None and self._weights is None
        return self.array - self.mean if at_once else super().dense()

    def scaled(self, factors: Array) -> DenseSamples:
        """Return the features multiplied by factors, on the way."""
        other = super().scaled(factors)
        other._squares = other._plain = None
        other._unscaled = self if self._unscaled is None else self._unscaled
        return other

    def reweighted(self, weights: Array, mean: Array | None = None) -> Samples:
        """Return the rows √w_i (x_i - m), on the way."""
        if self._weights is not None or self._factors is not None:
            return super().reweighted(weights, mean)
        other = copy.copy(self)
        other._weights, other._offset, other._plain = weights, mean, self
        other._kept_gram = other._squares = None
        return other


def operator_of(data: Any) -> Samples:
    """Wrap a centred array; what is :class:`Samples` already is returned as it is."""
    return data if isinstance(data, Samples) else DenseSamples(data)


def scaled_columns(data: Any, factors: Array) -> Any:
    """Return samples, wherever they are, with their features multiplied by factors."""
    if sp.issparse(data):
        return data @ sp.diags_array(factors)
    if isinstance(data, Samples):
        return data.scaled(factors)
    here = like(factors, data)
    single = array_namespace(data).float32
    low, high = SINGLE_FACTORS
    if data.dtype == single and low <= np.abs(factors).min() and np.abs(factors).max() <= high:
        here = array_namespace(data).astype(here, single)  # and stays so
    return data * here
