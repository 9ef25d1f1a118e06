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
from jointsparse.linalg import (
    add_to_diagonal,
    array_namespace,
    blocks,
    double,
    eigh,
    solve_positive,
)
from jointsparse.moments import Moments
from jointsparse.operators.dense import operator_of
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
        return in_kind(solve_positive(shifted(self.scatter, ridge), self.here(right)), right)

    def reweighted_fit(self, wanted: Any, lengths: Any, penalty: float) -> Any:
        """Return (S + penalty diag(1/lengths))⁻¹ S wanted; rows without length are zero."""
        roots = array_namespace(self.scatter).sqrt(self.here(lengths))[:, None]
        inner = shifted(roots * self.scatter * roots.T, penalty)
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
    data : array of shape (n_samples, n_features)
        X, on a device.
    weights : array of shape (n_samples,) or None
        w; None: all are 1.
    squares : array of shape (n_samples,) or None
        Squared length of each sample, where it is known.
    """

    def __init__(self, data: Array, weights: Any = None, squares: Any = None) -> None:
        xp = array_namespace(data)
        self.array, self.samples = data, operator_of(data)
        self.squares = row_squares(data) if squares is None else squares
        if weights is None:
            weights = xp.ones_like(self.squares)
        self.trace = float(xp.sum(weights * self.squares))
        self._weights = (weights / self.trace)[:, None]
        self._roots = xp.sqrt(self._weights)
        self._block: tuple[Any, Any] | None = None
        self._last: tuple[Any, Any] | None = None

    @cached_property
    def weights(self) -> Any:  # type: ignore[override]
        """Weights divided by the trace, on the host."""
        return to_host(self._weights)

    def here(self, array: Any) -> Array:
        """Return an array where the samples are."""
        return array if is_device_array(array) else like(array, self._weights)

    @cached_property
    def diagonal(self) -> Any:
        """Diagonal of S, on the host."""
        xp = array_namespace(self.array)
        parts = [self._weights[:, 0] @ double(self.array[:, k]) ** 2 for k in self._parts()]
        return to_host(xp.concat(parts))

    def weighted(self, weights: Any) -> DeviceSampleGram:
        """Return the scatter matrix of the same samples with other weights."""
        return DeviceSampleGram(self.array, self.here(weights), self.squares)

    def apply(self, matrix: Any) -> Any:
        """Return S @ matrix."""
        here = self.here(matrix)
        thin = here if here.ndim == 2 else here[:, None]
        image = self._lifted(self._weights * self.plain_image(thin))
        return in_kind(image if here.ndim == 2 else image[:, 0], matrix)

    def apply_both(self, one: Any, other: Any) -> tuple[Any, Any]:
        """Return S @ one and S @ other, in one pass over X for the two products with Xᵀ."""
        images = [self.plain_image(one), self.plain_image(other)]
        rows = array_namespace(self._weights).concat(list(map(self.here, images)), axis=1)
        found = in_kind(self._lifted(self._weights * rows), one)
        return found[:, : one.shape[1]], found[:, one.shape[1] :]

    def image(self, matrix: Any) -> Any:
        """Return √w X matrix."""
        return in_kind(self._roots * self.here(self.plain_image(matrix)), matrix)

    def plain_image(self, matrix: Any) -> Any:
        """Return X matrix, without weights; rows of zeros cost nothing."""
        for known, image in self.known_images:
            if known is matrix:
                return image
        here = self.here(matrix)
        xp = array_namespace(here)
        used = xp.nonzero(xp.any(here != 0, axis=1))[0]
        if used.shape[0] <= FEW * here.shape[0]:
            return in_kind(self._taken(used) @ here[used, :], matrix)
        total: Any = 0.0
        for part in self._parts():
            total = total + double(self.array[:, part]) @ here[part, :]
        return in_kind(total, matrix)

    def back(self, rows: Any) -> Any:
        """Return (√w X)ᵀ rows."""
        return in_kind(self._lifted(self._roots * self.here(rows)), rows)

    def _lifted(self, rows: Array) -> Array:
        """Return Xᵀ rows, on the device."""
        parts = [double(self.array[:, part]).T @ rows for part in self._parts()]
        return parts[0] if len(parts) == 1 else array_namespace(rows).concat(parts)

    def sample_columns(self, features: Any) -> Any:
        """Return some columns of √w X, on the device."""
        chosen = features if isinstance(features, slice) else self.here(features)
        return self._roots * double(self.array[:, chosen])

    def columns(self, features: Any) -> Any:
        """Return S[:, features]."""
        return in_kind(self.back(self.sample_columns(features)), features)

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
        return in_kind(self._roots * self._taken(self.here(features)), features)

    def ridge_solve(self, right: Any, ridge: float) -> Any:
        """Return (S + ridge I)⁻¹ right, by the matrix inversion lemma."""
        here = self.here(right)
        thin = here if here.ndim == 2 else here[:, None]
        inner = shifted(self._between_rows(), ridge)
        found = (thin - self.back(solve_positive(inner, self.image(thin)))) / ridge
        return in_kind(found if here.ndim == 2 else found[:, 0], right)

    def reweighted_fit(self, wanted: Any, lengths: Any, penalty: float) -> Any:
        """Return (S + penalty diag(1/lengths))⁻¹ S wanted; rows without length are zero."""
        here, scale = self.here(wanted), self.here(lengths)
        inner = shifted(self._between_rows(scale), penalty)
        solved = solve_positive(inner, self.image(here))
        return in_kind(scale[:, None] * self.back(solved), wanted)

    def leading(self, count: int | None = None) -> tuple[Any, Any]:
        """Return eigenvalues (largest first) above rounding, and so many eigenvectors; NumPy."""
        values, rows = self._row_spectrum
        return values, to_host(self._vectors(values[:count], rows[:, :count]))

    def principal(self) -> tuple[Any, Array]:
        """Return all eigenvalues above rounding, largest first, and eigenvectors on the device."""
        values, rows = self._row_spectrum
        return values, self._vectors(values, rows)

    def leading_scaled(self, factors: Any, count: int) -> Any:
        """Return the first eigenvectors for the features multiplied by factors."""
        scale = self.here(factors)
        values, rows = _descending(*eigh(self._between_rows(scale**2)))
        return to_host(scale[:, None] * self._vectors(values[:count], rows[:, :count]))

    @cached_property
    def rows(self) -> tuple[Any, Any]:
        """Eigenvalues of S and, for each, its unit vector over the samples; NumPy."""
        values, rows = self._row_spectrum
        return values, to_host(rows)

    def rank(self, found: int) -> int:
        """Return the rank: all eigenvalues are known."""
        return found

    @cached_property
    def _row_spectrum(self) -> tuple[Any, Any]:
        return _descending(*eigh(self._between_rows()))

    def _taken(self, features: Array) -> Array:
        """Return some columns of X; those asked for last are kept."""
        if self._last is None or not _equal(self._last[0], features):
            self._last = features, double(self.array[:, features])
        return self._last[1]

    def _vectors(self, values: Any, rows: Array) -> Array:
        """Return eigenvectors over the features."""
        return self.back(rows / self.here(np.sqrt(values)))

    def _between_rows(self, lengths: Any = None) -> Any:
        """Return the n × n matrix √w X diag(lengths) Xᵀ √w."""
        total: Any = 0.0
        for part in self._parts():
            block = double(self.array[:, part])
            total = total + (block if lengths is None else block * lengths[part]) @ block.T
        return total * self._roots * self._roots.T

    def _parts(self) -> Iterator[slice]:
        """Blocks of features; all at once where nothing has to be converted."""
        return _column_parts(self.array)


def device_gram(moments: Moments, *, wide: bool, in_double: bool) -> Gram:
    """Return the scatter matrix of samples on a device: through them where p > n."""
    if not wide:
        return DeviceGram(moments.native.scatter)
    return DeviceSampleGram(
        centred_in_double_there(moments) if in_double else moments.native.centred_data
    )


def shifted(matrix: Array, ridge: float) -> Array:
    """Return a matrix with a number added to its diagonal, which is fresh."""
    return add_to_diagonal(array_namespace(matrix).asarray(matrix, copy=True), ridge)


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
