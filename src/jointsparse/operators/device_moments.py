r"""Moments of samples on a device: the sums of :mod:`jointsparse.moments` in any array namespace.

.. math:: \mu = \frac1n\sum_i x_i,\qquad S = \sum_i (x_i-\mu)(x_i-\mu)^\top

Blocks of rows are centred in float64 and multiplied, so that float32 samples lose no digits beyond
those they came with. On a GPU with full float64 matrix units this costs no more than
float32 would.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from jointsparse.arrays import Array
from jointsparse.eigen.tridiagonal import KnownPairs
from jointsparse.linalg import Spectrum, array_namespace, correlation_spectrum, double

BLOCK_ENTRIES = 2**24  # 128 MB of float64: enough to keep a GPU busy
SINGLE_PRECISION = (1e-12, 1e12)  # mean squares between which single precision is safe


def single_is_safe(mean_square: float) -> bool:
    """Whether neither centred samples of single precision nor their squares leave its range."""
    smallest, largest = SINGLE_PRECISION
    return smallest < mean_square < largest


class DeviceMoments:
    """Mean, variances, scatter matrix and spectra of samples, on their device.

    The attributes have the names and the meaning of those of :class:`~jointsparse.Moments`.

    Parameters
    ----------
    data : array of shape (n_samples, n_features)
        Samples, one per row. Not copied, not changed.
    """

    has_samples = True

    def __init__(self, data: Array) -> None:
        self.data = data
        self.n_samples, self.n_features = (int(length) for length in data.shape)

    @cached_property
    def mean(self) -> Array:
        """Mean μ, in float64."""
        xp = array_namespace(self.data)
        return sum(xp.sum(block, axis=0, dtype=xp.float64) for block in self._blocks()) / (
            self.n_samples
        )

    @cached_property
    def variances(self) -> Array:
        """Diagonal of the scatter matrix, exactly 0 for constant features."""
        xp = array_namespace(self.data)
        if "scatter" in self.__dict__:
            return xp.asarray(xp.linalg.diagonal(self.scatter), copy=True)
        squares = sum(xp.sum(centred**2, axis=0) for centred in self._centred_blocks())
        return xp.where(self._constant(squares), xp.zeros_like(squares), squares)

    @cached_property
    def scatter(self) -> Array:
        """Scatter matrix S in float64."""
        xp = array_namespace(self.data)
        mean = self.mean
        scatter = xp.zeros((self.n_features,) * 2, dtype=xp.float64, device=mean.device)
        rest = xp.zeros_like(mean)
        for centred in self._centred_blocks():
            rest += xp.sum(centred, axis=0)
            scatter += centred.T @ centred
        # What rounding left of the mean (huge offsets, small spread) is taken out to second order.
        scatter -= rest[:, None] * rest / self.n_samples
        constant = self._constant(xp.linalg.diagonal(scatter))
        return xp.where(constant[:, None] | constant, xp.zeros_like(scatter), scatter)

    @cached_property
    def spectrum(self) -> Spectrum:
        """Eigendecomposition of the scatter matrix, all p vectors."""
        return Spectrum.of(self.scatter)

    def eigenpairs(self) -> tuple[KnownPairs, float]:
        """Return the eigenpairs of the scatter matrix over its trace; the trace."""
        return KnownPairs(self.spectrum.values, self.spectrum.vectors), self.spectrum.trace

    @cached_property
    def correlation_spectrum(self) -> tuple[Array, Array, Array]:
        """Lengths of the features, and the eigenpairs of their correlation matrix."""
        return correlation_spectrum(self.scatter)

    @cached_property
    def thin_spectrum(self) -> Spectrum:
        """The same without any p × p matrix where there are more features than samples."""
        if self.n_features > self.n_samples:
            return Spectrum.thin(self.centred_data)
        return self.spectrum

    @cached_property
    def centred_data(self) -> Array:
        """The samples with the mean taken off: a copy.

        float32 stays float32, unless its squares would underflow or overflow.
        """
        xp = array_namespace(self.data)
        mean_square = float(xp.sum(self.variances)) / (self.n_samples * self.n_features)
        single = self.data.dtype == xp.float32 and single_is_safe(mean_square)
        return self.centred_as(xp.float32 if single else xp.float64)

    def centred_as(self, dtype: Any) -> Array:
        """Return a copy of the samples of this type, with the mean taken off."""
        xp = array_namespace(self.data)
        centred = xp.empty(self.data.shape, dtype=dtype, device=self.data.device)
        first = 0
        for block in self._blocks():  # in one pass: neither a copy in float64 nor its difference
            part = centred[first : first + block.shape[0], :]
            xp.subtract(block, self.mean, out=part)
            first += block.shape[0]
        centred[:, self.variances == 0] = 0.0
        return centred

    def _blocks(self) -> Iterator[Array]:
        """Yield rows; of integers and truth values in float64, as the latter cannot be centred."""
        floating = array_namespace(self.data).isdtype(self.data.dtype, "real floating")
        rows = max(1, BLOCK_ENTRIES // self.n_features)
        for start in range(0, self.n_samples, rows):
            block = self.data[start : start + rows, :]
            yield block if floating else double(block)

    def _centred_blocks(self) -> Iterator[Array]:
        for block in self._blocks():
            yield block - self.mean  # which converts on the way

    def _constant(self, squares: Array) -> Array:
        """Return which features have a spread that is nothing but rounding."""
        xp = array_namespace(squares)
        unit = 8 * xp.finfo(squares.dtype).eps * abs(self.mean)
        return squares <= self.n_samples * unit**2
