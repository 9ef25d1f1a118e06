r"""The lowest eigenspace of A + diag(w), for A given in three ways.

The reweighted eigenproblems (:mod:`jointsparse.solvers.graph.reweighted_eigen`) need, for changing
weights w > 0, the spectral projector P of the m smallest eigenvalues of A + diag(w), and of P only
its diagonal and tr(PA). Where eigenvalue m equals m + 1 the projector is not unique: all of the
tied eigenspace then takes part with an equal share, which depends on no basis and on no order of
the features.

:class:`DenseForm` has A as a matrix. The other two are for more features than samples, where no
p × p matrix is formed: A is ± BᵀB with no more rows than samples, and Woodbury's identity applies
inverses through n × n matrices. Large weights (features that are leaving) become small numbers
there, so they cost no accuracy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.eigen.block_krylov import Pairs, widened
from jointsparse.eigen.shifted_davidson import lowest_pairs
from jointsparse.eigen.ties import TIE, later_tie, shares
from jointsparse.graphs.laplacian import class_means
from jointsparse.linalg import (
    add_to_diagonal,
    array_namespace,
    eigh,
    lowest_eigenpairs,
    symmetric_part,
)
from jointsparse.solvers.graph.light_features import LightFeatures
from jointsparse.solvers.graph.ritz_elimination import RitzElimination

logger = logging.getLogger(__name__)

RANK = 1e-12  # relative to the largest eigenvalue of a Gram matrix: below, it is zero
GUARDS = 4
MOST_GUARDS = 64  # to look for what random vectors have missed
APART = 1e-3  # of the least weight: how far below it a shift lies where all weights are equal
MANY = 100  # features; of fewer, one decomposition of all takes no longer than of the light ones
# Features up to which light ones are tried by a series first: it takes fewer steps than
# Rayleigh-Ritz, but products of all heavy features with all light ones.
FEW = 400
# Columns of XᵀLX that are computed at a time. From 64 to 256 the time is the same to 4 % (random
# samples, 2000 by 1000 and 1000 by 900 numbers), 0.7 of that of the whole product.
STRIP = 128
ROUNDING = 1e-14  # of the size of A: what the lowest eigenvalue may be off by
DENSE_UP_TO = 2000  # features for which a decomposition is a way out where the inverse is slow


class Subspace(NamedTuple):
    """An m-dimensional eigenspace.

    ``leverages`` is the diagonal of the projector P = VVᵀ, ``energy`` is tr(PA). ``vectors`` is V,
    which has more than m columns where eigenvalues tie, and none where too many do. ``start`` is
    what to look for a similar space from.
    """

    leverages: FloatArray
    energy: float
    vectors: FloatArray
    start: FloatArray


class QuadraticForm(Protocol):
    """A symmetric matrix A, semidefinite, known through its lowest eigenspaces."""

    @property
    def size(self) -> float:
        """No eigenvalue of A is larger, up to sign."""

    def first(self, count: int) -> Subspace:
        """Return the lowest eigenspace of A."""

    def lowest(self, weights: FloatArray, count: int, start: FloatArray) -> Subspace:
        """Return the lowest eigenspace of A + diag(weights), looked for from ``start``."""

    def product(self, block: FloatArray) -> FloatArray:
        """Return A times a block of vectors."""

    def block(self, features: IntArray) -> FloatArray:
        """Return the rows and columns of A that belong to some features, as a new matrix."""


class DenseForm:
    """A as a p × p matrix.

    Parameters
    ----------
    matrix : array of shape (n_features, n_features)
        A, on the host or on a device, where it then stays.
    """

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix
        self._light: LightFeatures | None = None
        self._ritz: RitzElimination | None = None
        self._above = 0.0

    def first(self, count: int) -> Subspace:
        """Return the lowest eigenspace of A."""
        n = self.matrix.shape[0]
        size = n * float(abs(self.matrix).max())
        if n <= FEW or is_device_array(self.matrix):
            values, vectors = eigh(self.matrix)
        else:
            values, vectors = _decomposed(self.matrix, count, TIE * size)
        if n >= MANY and not is_device_array(self.matrix):
            self._ritz = RitzElimination(self.matrix, float(values[0]) - ROUNDING * size)
            if n <= FEW:
                self._light = LightFeatures(self.matrix, float(np.max(np.abs(values))))
        return self._subspace(vectors, shares(to_host(values), count, TIE * size))

    def lowest(self, weights: FloatArray, count: int, start: FloatArray) -> Subspace:
        """Return the lowest eigenspace of A + diag(weights), looked for from ``start``."""
        if is_device_array(self.matrix):  # all pairs cost no more there than some
            xp = array_namespace(self.matrix)
            here = xp.asarray(self.matrix, copy=True)
            found, vectors = eigh(add_to_diagonal(here, like(weights, here)))
            values = to_host(found)
            return self._subspace(vectors, shares(values, count, later_tie(values, count)))
        most = min(count + GUARDS, weights.size)
        pairs = None if self._light is None else self._light.lowest(weights, count, most)
        ritz = None
        if pairs is None and self._ritz is not None:
            ritz = pairs = self._ritz.lowest(weights, count, most, self._above)
        if pairs is None:
            pairs = _decomposed(add_to_diagonal(self.matrix.copy(), weights), count)
        values, vectors = pairs
        if values.size > count:  # well above the next eigenvalue of similar weights
            self._above = float(values[count] + abs(values[count]))
        share = shares(values, count, later_tie(values, count))
        if ritz is None:
            return self._subspace(vectors, share)
        kept = values[share > 0] - weights[:, None]  # as Av = θv - diag(w)v: no product
        return subspace_of(vectors, share, lambda V: np.sum(V**2 * kept, axis=0))

    @property
    def size(self) -> float:
        """No eigenvalue of A is larger, up to sign."""
        return abs(float(array_namespace(self.matrix).linalg.trace(self.matrix)))

    def product(self, block: FloatArray) -> FloatArray:
        """Return A times a block of vectors."""
        return to_host(self.matrix @ like(block, self.matrix))

    def block(self, features: IntArray) -> FloatArray:
        """Return the rows and columns of A that belong to some features, as a new matrix."""
        return block_of(self.matrix, features)

    def _subspace(self, vectors: Array, share: FloatArray) -> Subspace:
        if is_device_array(vectors):
            kept = max(int(np.count_nonzero(share)), GUARDS + round(float(share.sum())))
            vectors, share = to_host(vectors[:, :kept]), share[:kept]
        return subspace_of(vectors, share, lambda V: np.sum(V * self.product(V), axis=0))


class _WideForm:
    """A = ± BᵀB, where B has fewer rows than columns.

    Parameters
    ----------
    rows : ndarray of shape (rank, n_features)
        B.
    sign : float
        1 or -1.
    size : float
        Largest eigenvalue of BᵀB.
    """

    def __init__(self, rows: FloatArray, sign: float, size: float) -> None:
        self.rows, self.sign, self.size = rows, sign, size

    @cached_property
    def dense(self) -> DenseForm:
        """The same form with its p × p matrix."""
        return DenseForm(self.sign * symmetric_part(self.rows.T @ self.rows))

    def lowest(self, weights: FloatArray, count: int, start: FloatArray) -> Subspace:
        """Return the lowest eigenspace of A + diag(weights), looked for from ``start``.

        More guards are taken until the last of them is not tied, so that ties are complete, and
        until a count shows that none is missing: the start may have nothing of an eigenvector.
        """
        n, guards = weights.size, GUARDS
        small = n <= DENSE_UP_TO
        if small and 2 * self.rows.shape[0] > n:  # little is saved by the smaller systems
            return self.dense.lowest(weights, count, start)
        while True:
            width = min(count + guards, n)
            pairs = lowest_pairs(
                self.product,
                lambda shift: self._inverse(weights - shift),
                weights,
                widened(start, width),
                count,
                shift=self._below(weights, count),
                size=self.size,
                max_steps=30 if small else 200,
            )
            if small and not pairs.converged:
                return self.dense.lowest(weights, count, start)
            share = shares(pairs.values, count, later_tie(pairs.values, count))
            complete = share[-1] == 0 and self._complete(weights, pairs, share)
            if share[-1] == 0 and not complete and guards > MOST_GUARDS:
                logger.info("the lowest %d eigenpairs of %d features may not be these", count, n)
                complete = True
            if complete or width == n:
                return subspace_of(pairs.vectors, share, self._energies)
            start, guards = pairs.vectors, 2 * guards

    def _complete(self, weights: FloatArray, pairs: Pairs, share: FloatArray) -> bool:
        """Whether the lowest eigenvalues are these: by Sylvester's law of inertia."""
        found = np.count_nonzero(share)
        below, above = pairs.values[found - 1 : found + 1]
        diagonal = _without_zeros(weights - (0.6 * below + 0.4 * above))
        negative = np.count_nonzero(eigh(self._system(self.rows / diagonal))[0] < 0)
        return bool(np.count_nonzero(diagonal < 0) - self.sign * negative == found)

    def _below(self, weights: FloatArray, count: int) -> float:
        """Return a number below all eigenvalues of A + diag(weights), but not too far."""
        least = float(weights.min())
        if self.sign < 0:
            return least - 2 * self.size
        # The lowest eigenvalues are at least the least weight, and the rank of A bounds them too:
        # no more than weight number count + rank in ascending order.
        number = min(count + self.rows.shape[0], weights.size) - 1
        spread = float(np.partition(weights, number)[number]) - least
        return max(0.0, least - max(spread / 2, APART * least))

    def _inverse(self, diagonal: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return what multiplies by (diag(diagonal) + A)⁻¹, by Woodbury's identity."""
        diagonal = _without_zeros(diagonal)
        scaled = self.rows / diagonal
        system = self._system(scaled)
        factor = scipy.linalg.lu_factor(system, overwrite_a=True, check_finite=False)

        def apply(block: FloatArray) -> FloatArray:
            inner = scipy.linalg.lu_solve(factor, scaled @ block, check_finite=False)
            return block / diagonal[:, None] - self.sign * (scaled.T @ inner)

        return apply

    def _system(self, scaled: FloatArray) -> FloatArray:
        return np.asarray(add_to_diagonal(self.sign * (scaled @ self.rows.T), 1.0))

    def product(self, block: FloatArray) -> FloatArray:
        """Return A times a block of vectors."""
        return self.sign * (self.rows.T @ (self.rows @ block))

    def block(self, features: IntArray) -> FloatArray:
        """Return the rows and columns of A that belong to some features, as a new matrix."""
        rows = self.rows[:, features]
        return np.asarray(self.sign * symmetric_part(rows.T @ rows))

    def _energies(self, vectors: FloatArray) -> FloatArray:
        return self.sign * np.sum((self.rows @ vectors) ** 2, axis=0)


class LaplacianForm(_WideForm):
    """A = Xᵀ L X with a sparse positive semidefinite L, for more features than samples.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_features)
        X.
    matrix : csr_array of shape (n_samples, n_samples)
        L, whose null space is spanned by the indicators of the connected components.
    """

    def __init__(self, data: FloatArray, matrix: sp.csr_array) -> None:
        self.data, self.matrix = data, matrix
        rows = _rooted(matrix, data)
        largest = float(eigh(rows @ rows.T)[0][-1]) if rows.size else 0.0
        super().__init__(rows, 1.0, largest)

    def first(self, count: int) -> Subspace:
        """Return the lowest eigenspace of A: a share of its null space.

        With p > n + count it is larger than ``count``, so all of it is tied. Its complement is
        spanned by the samples, centred within each component.
        """
        _, member = connected_components(self.matrix, directed=False)
        centred = self.data - class_means(self.data, member)
        values, rows = eigh(centred @ centred.T)
        kept = values > RANK * max(float(values[-1]), np.finfo(np.float64).tiny)
        span = centred.T @ (rows[:, kept] / np.sqrt(values[kept]))
        null = np.clip(1 - np.sum(span**2, axis=1), 0.0, None)
        nothing = np.empty((null.size, 0))
        return Subspace(null * (count / null.sum()), 0.0, nothing, nothing)


class ScatterForm(_WideForm):
    """A = -XᵀX, for more features than samples.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_features)
        X, centred.
    """

    def __init__(self, data: FloatArray) -> None:
        self.values, self.vectors = eigh(data @ data.T)
        super().__init__(data, -1.0, float(self.values[-1]))

    def first(self, count: int) -> Subspace:
        """Return the principal subspace, of no more dimensions than the rank."""
        rank = int(np.count_nonzero(self.values > RANK * self.size))
        values = -self.values[::-1][:rank]  # what is zero ties with none of them
        share = shares(values, count, TIE * self.size)
        kept = slice(max(count + GUARDS, np.count_nonzero(share)))
        vectors = self.rows.T @ (self.vectors[:, ::-1][:, :rank][:, kept] / np.sqrt(-values[kept]))
        return subspace_of(vectors, share[kept], self._energies)


def _without_zeros(diagonal: FloatArray) -> FloatArray:
    least = np.finfo(np.float64).eps * float(np.max(np.abs(diagonal)))
    return np.where(np.abs(diagonal) < least, least, diagonal)


def _rooted(matrix: sp.csr_array, data: FloatArray) -> FloatArray:
    """Return B with BᵀB = XᵀLX and as many rows as L has rank: by a Cholesky factor of L."""
    square = matrix.toarray()
    limit = RANK * float(np.max(square.diagonal(), initial=0.0))
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(square, tol=limit, lower=1)
    return np.asarray(np.tril(factor)[:, :rank].T @ data[order - 1])


def _decomposed(
    matrix: FloatArray, count: int, tie: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the lowest eigenpairs of a matrix, so many that the last ties with none wanted."""
    values, vectors = lowest_eigenpairs(matrix, min(count + GUARDS, len(matrix)))
    tie = later_tie(values, count) if tie is None else tie
    if values.size < len(matrix) and values[-1] - values[count - 1] <= tie:
        values, vectors = eigh(matrix)
    return values, vectors


def block_of(matrix: Array, features: IntArray) -> FloatArray:
    """Return some rows and columns of a matrix, on the host."""
    some = like(features, matrix) if is_device_array(matrix) else features
    return np.array(to_host(matrix[some, :][:, some]))


def laplacian_product(data: FloatArray, matrix: sp.csr_array) -> FloatArray:
    """Return XᵀLX, p × p: its lower triangle is computed, and copied to the upper one."""
    image = np.asarray(matrix @ data)
    size = data.shape[1]
    found = np.empty((size, size))
    for first in range(0, size, STRIP):
        last = min(first + STRIP, size)
        found[first:last, :last] = data[:, first:last].T @ image[:, :last]
        found[:first, first:last] = found[first:last, :first].T
        found[first:last, first:last] = symmetric_part(found[first:last, first:last])
    return found


def form_of(data: Any, matrix: sp.csr_array, count: int) -> QuadraticForm:
    """Return XᵀLX as a matrix, or through the samples where they are fewer than the features."""
    n, p = data.shape
    if is_device_array(data):
        from jointsparse.solvers.graph.device_form import (  # which builds on this
            DeviceForm,
            device_product,
        )

        return DeviceForm(device_product(data, matrix))
    if p > n + count:
        return LaplacianForm(data, matrix)
    return DenseForm(laplacian_product(data, matrix))


def subspace_of(
    vectors: FloatArray, share: FloatArray, energies: Callable[[FloatArray], FloatArray]
) -> Subspace:
    """Return the space of eigenvectors in ascending order, of which the last may be guards."""
    part = vectors[:, share > 0] * np.sqrt(share[share > 0])
    start = vectors[:, : max(part.shape[1], GUARDS + round(float(share.sum())))]
    return Subspace(np.sum(part**2, axis=1), float(np.sum(energies(part))), part, start)
