r"""The scatter matrix of samples on a device, as the regression kernels use it.

.. math:: S = X^\top\operatorname{diag}(w)X

X, or S itself, stays on its device, and so does everything of its size: products, blocks,
eigenvectors. Answers are of the kind of the questions: a kernel that keeps its p × k arrays on the
host asks with NumPy arrays and gets such, one that keeps them on the device moves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from jointsparse.arrays import Array
from jointsparse.device import is_device_array, like, on_accelerator, to_host
from jointsparse.linalg import array_namespace, blocks, double, eigh, solve_positive
from jointsparse.moments import Moments
from jointsparse.solvers.products.gram import FEW, NOTHING, Gram, SampleGram

BLOCK_ENTRIES = 2**26  # entries converted to float64 at a time on an accelerator: 512 MB


def in_kind(answer: Array, question: Any) -> Array:
    """Return an answer on the device where the question was there, as NumPy otherwise."""
    return answer if is_device_array(question) else to_host(answer)


class DeviceGram(Gram):
    """Scatter matrix divided by its trace, p × p on a device."""

    def __init__(self, scatter: Array) -> None:
        self.trace = float(array_namespace(scatter).linalg.trace(scatter))
        self.scatter = scatter / self.trace

    def here(self, array: Any) -> Array:
        """Return an array where the matrix is."""
        return array if is_device_array(array) else like(array, self.scatter)

    @cached_property
    def diagonal(self) -> Any:
        """Diagonal of S, on the host."""
        return to_host(array_namespace(self.scatter).linalg.diagonal(self.scatter))

    def apply(self, matrix: Any) -> Any:
        """Return S @ matrix."""
        return in_kind(self.scatter @ self.here(matrix), matrix)

    def columns(self, features: Any) -> Any:
        """Return S[:, features]."""
        return in_kind(self.scatter[:, self.here(features)], features)

    def block(self, features: Any) -> Any:
        """Return S[features, features]."""
        chosen = self.here(features)
        return in_kind(self.scatter[chosen, :][:, chosen], features)

    def ridge_solve(self, right: Any, ridge: float) -> Any:
        """Return (S + ridge I)⁻¹ right."""
        return in_kind(solve_positive(self._shifted(ridge), self.here(right)), right)

    def _shifted(self, ridge: float, matrix: Array | None = None) -> Array:
        matrix = self.scatter if matrix is None else matrix
        xp = array_namespace(matrix)
        return matrix + ridge * xp.eye(
            matrix.shape[0], dtype=matrix.dtype, device=self.scatter.device
        )

    def reweighted_fit(self, wanted: Any, lengths: Any, penalty: float) -> Any:
        """Return (S + penalty diag(1/lengths))⁻¹ S wanted; rows without length are zero."""
        roots = array_namespace(self.scatter).sqrt(self.here(lengths))[:, None]
        inner = self._shifted(penalty, roots * self.scatter * roots.T)
        right = roots * (self.scatter @ self.here(wanted))
        return in_kind(roots * solve_positive(inner, right), wanted)

    def leading(self, count: int | None = None) -> tuple[Any, Any]:
        """Return eigenvalues (largest first) above rounding, and so many eigenvectors; NumPy."""
        values, vectors = self._spectrum
        return values, to_host(vectors[:, :count]).copy()

    def principal(self) -> tuple[Any, Array]:
        """Return all eigenvalues above rounding, largest first, and eigenvectors on the device."""
        return self._spectrum

    def rank(self, found: int) -> int:
        """Return the rank: all eigenvalues are known."""
        return int(self._spectrum[0].size)

    def leading_scaled(self, factors: Any, count: int) -> Any:
        """Return the first eigenvectors for the features multiplied by factors."""
        scale = self.here(factors)
        return DeviceGram(self.scatter * scale[:, None] * scale).leading(count)[1]

    @cached_property
    def _spectrum(self) -> tuple[Any, Any]:
        """Eigenvalues on the host, eigenvectors on the device: all, which costs no more there."""
        return _descending(*eigh(self.scatter))


class DeviceSampleGram(SampleGram):
    """The same through the samples, of which single precision is converted block by block.

    Parameters
    ----------
    centred : array of shape (n_samples, n_features)
        X, on a device.
    weights : array of shape (n_samples,) or None
        Weights of the samples; None: all are 1.
    squares : array of shape (n_samples,) or None
        Squared length of each sample, where it is known.
    """

    def __init__(self, centred: Array, weights: Any = None, squares: Array | None = None) -> None:
        xp = array_namespace(centred)
        self.samples = centred
        if squares is None:
            squares = row_squares(centred)
        if weights is None:
            weights = xp.ones_like(squares)
        self.trace = float(xp.sum(weights * squares))
        self.weights = to_host(weights / self.trace)[:, None]
        self._weights = (weights / self.trace)[:, None]
        self._block: tuple[Any, Any] | None = None
        self._last: tuple[Any, Any] | None = None

    def here(self, array: Any) -> Array:
        """Return an array where the samples are."""
        return array if is_device_array(array) else like(array, self._weights)

    @cached_property
    def diagonal(self) -> Any:
        """Diagonal of S, on the host."""
        xp = array_namespace(self.samples)
        parts = [self._weights[:, 0] @ double(self.samples[:, k]) ** 2 for k in self._parts()]
        return to_host(xp.concat(parts))

    def apply(self, matrix: Any) -> Any:
        """Return S @ matrix."""
        here = self.here(matrix)
        weights = self._weights if here.ndim == 2 else self._weights[:, 0]
        return in_kind(self.back(weights * self.image(here)), matrix)

    def weighed(self, rows: Any) -> Any:
        """Return rows, one for each sample, times the weights."""
        return (self._weights if is_device_array(rows) else self.weights) * rows

    def image(self, matrix: Any) -> Any:
        """Return X @ matrix; rows of zeros cost nothing."""
        for known, image in self.known_images:
            if known is matrix:
                return image
        here = self.here(matrix)
        xp = array_namespace(here)
        used = xp.nonzero(here if here.ndim == 1 else xp.any(here != 0, axis=1))[0]
        if used.shape[0] <= FEW * here.shape[0]:
            return in_kind(self._taken(used) @ here[used], matrix)
        total: Any = 0.0
        for part in self._parts():
            total = total + double(self.samples[:, part]) @ here[part]
        return in_kind(total, matrix)

    def back(self, rows: Any) -> Any:
        """Return Xᵀ @ rows."""
        here = self.here(rows)
        parts = [double(self.samples[:, part]).T @ here for part in self._parts()]
        return in_kind(array_namespace(here).concat(parts), rows)

    def columns(self, features: Any) -> Any:
        """Return S[:, features]."""
        taken = double(self.samples[:, self.here(features)])
        return in_kind(self.back(self._weights * taken), features)

    def block(self, features: Any) -> Any:
        """Return S[features, features]."""
        chosen = self.here(features)
        if self._block is None or not _equal(self._block[0], chosen):
            part = self._taken(chosen)
            self._block = chosen, part.T @ (self._weights * part)
        xp = array_namespace(chosen)
        return in_kind(xp.asarray(self._block[1], copy=True), features)

    def root(self, features: Any) -> Any:
        """Return R with RᵀR = S[features, features], of one row for each sample."""
        xp = array_namespace(self._weights)
        return in_kind(xp.sqrt(self._weights) * self._taken(self.here(features)), features)

    def ridge_solve(self, right: Any, ridge: float) -> Any:
        """Return (S + ridge I)⁻¹ right, by the matrix inversion lemma."""
        here = self.here(right)
        xp = array_namespace(here)
        inner = self._with_ridge(self._between_rows(), ridge)
        roots = xp.sqrt(self._weights if here.ndim == 2 else self._weights[:, 0])
        inverse = solve_positive(inner, roots * self.image(here))
        return in_kind((here - self.back(roots * inverse)) / ridge, right)

    def reweighted_fit(self, wanted: Any, lengths: Any, penalty: float) -> Any:
        """Return (S + penalty diag(1/lengths))⁻¹ S wanted; rows without length are zero."""
        here, scale = self.here(wanted), self.here(lengths)
        roots = array_namespace(here).sqrt(self._weights)
        inner = self._with_ridge(self._between_rows(scale), penalty)
        solved = solve_positive(inner, roots * self.image(here))
        return in_kind(scale[:, None] * self.back(roots * solved), wanted)

    def leading(self, count: int | None = None) -> tuple[Any, Any]:
        """Return eigenvalues (largest first) above rounding, and so many eigenvectors; NumPy."""
        values, rows = self._row_spectrum
        return values, to_host(self._lifted(values[:count], rows[:, :count]))

    def principal(self) -> tuple[Any, Array]:
        """Return all eigenvalues above rounding, largest first, and eigenvectors on the device."""
        values, rows = self._row_spectrum
        return values, self._lifted(values, rows)

    def leading_scaled(self, factors: Any, count: int) -> Any:
        """Return the first eigenvectors for the features multiplied by factors."""
        scale = self.here(factors)
        values, rows = _descending(*eigh(self._between_rows(scale**2)))
        return to_host(scale[:, None] * self._lifted(values[:count], rows[:, :count]))

    @cached_property
    def rows(self) -> tuple[Any, Any]:
        """Eigenvalues of S and, for each, its unit vector over the samples; NumPy."""
        values, rows = self._row_spectrum
        return values, to_host(rows)

    @cached_property
    def _row_spectrum(self) -> tuple[Any, Any]:
        return _descending(*eigh(self._between_rows()))

    def taken(self, features: Any) -> Any:
        """Return some columns of X in double precision, on the device."""
        return double(self.samples[:, self.here(features)])

    def _taken(self, features: Array) -> Array:
        if self._last is None or not _equal(self._last[0], features):
            self._last = features, self.taken(features)
        return self._last[1]

    def _lifted(self, values: Any, rows: Array) -> Array:
        """Return eigenvectors over the features."""
        roots = array_namespace(rows).sqrt(self._weights)
        return self.back(roots * rows / self.here(np.sqrt(values)))

    def _between_rows(self, lengths: Any = None) -> Any:
        """Return the n × n matrix X diag(lengths) Xᵀ of the weighted samples."""
        total: Any = 0.0
        for part in self._parts():
            block = double(self.samples[:, part])
            total = total + (block if lengths is None else block * lengths[part]) @ block.T
        roots = array_namespace(total).sqrt(self._weights)
        return total * roots * roots.T

    def _with_ridge(self, matrix: Array, ridge: float) -> Array:
        xp = array_namespace(matrix)
        return matrix + ridge * xp.eye(
            matrix.shape[0], dtype=matrix.dtype, device=self._weights.device
        )

    def _parts(self) -> Iterator[slice]:
        """Blocks of features; all at once where nothing has to be converted."""
        return _column_parts(self.samples)


def device_gram(moments: Moments, *, wide: bool, in_double: bool) -> Gram:
    """Return the scatter matrix of samples on a device: through them where p > n."""
    if not wide:
        return DeviceGram(moments.native.scatter)
    return DeviceSampleGram(
        centred_in_double_there(moments) if in_double else moments.native.centred_data
    )


def row_squares(samples: Array) -> Array:
    """Return the squared length of every row, in double precision, on the device."""
    xp = array_namespace(samples)
    total: Any = 0.0
    for part in _column_parts(samples):
        total = total + xp.sum(double(samples[:, part]) ** 2, axis=1)
    return total


def centred_in_double_there(moments: Moments) -> Array:
    """Return the centred samples in double precision, on their device."""
    native: Any = moments.native
    return native.centred_as(array_namespace(native.data).float64)


def _column_parts(samples: Array) -> Iterator[slice]:
    rows, width = samples.shape
    if samples.dtype == array_namespace(samples).float64:
        return iter([slice(0, width)])
    if not on_accelerator(samples):
        return blocks(width)
    step = max(1, BLOCK_ENTRIES // max(rows, 1))
    return (slice(first, min(first + step, width)) for first in range(0, width, step))


def _equal(one: Array, other: Array) -> bool:
    if one is other:
        return True
    return one.shape == other.shape and bool(array_namespace(one).all(one == other))


def _descending(values: Array, vectors: Array) -> tuple[Any, Any]:
    """Return the eigenvalues above rounding, largest first, on the host, and their vectors."""
    found = to_host(values)[::-1]
    rank = int(np.count_nonzero(found > NOTHING * found[0]))
    xp = array_namespace(vectors)
    return found[:rank].copy(), xp.flip(vectors[:, vectors.shape[1] - rank :], axis=1)
