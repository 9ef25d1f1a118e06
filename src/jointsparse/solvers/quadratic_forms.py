r"""The lowest eigenspace of A + diag(w), for A given in three ways.

The reweighted eigenproblems (:mod:`jointsparse.solvers.reweighted_eigen`) need, for changing
weights w > 0, the spectral projector P of the m smallest eigenvalues of A + diag(w), and of P only
its diagonal and tr(PA). Where eigenvalue m equals m + 1 the projector is not unique: all of the
tied eigenspace then takes part with an equal share, which depends on no basis and on no order of
the features.

:class:`DenseForm` has A as a matrix. The other two are for more features than samples, where no
p × p matrix is formed: the lowest eigenvectors are the largest ones of the inverse, which
Woodbury's identity applies through n × n matrices. Large weights (features that are leaving) become
small numbers there, so they cost no accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from jointsparse.arrays import FloatArray
from jointsparse.graphs.laplacian import class_means
from jointsparse.linalg import add_to_diagonal, eigh, lowest_eigenpairs, symmetric_part
from jointsparse.solvers.block_krylov import largest_pairs, widened

TIE = 1e-9  # relative difference of eigenvalues that are equal
RANK = 1e-12  # relative to the largest eigenvalue of a Gram matrix: below, it is zero
GUARDS = 4
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
    """A symmetric matrix A, known through its lowest eigenspaces."""

    def first(self, count: int) -> Subspace:
        """Return the lowest eigenspace of A."""

    def lowest(self, weights: FloatArray, count: int, start: FloatArray) -> Subspace:
        """Return the lowest eigenspace of A + diag(weights), looked for from ``start``."""


def shares(values: FloatArray, count: int, tie: float) -> FloatArray:
    """Return how much of every eigenvector belongs to the projector of the ``count`` smallest."""
    limit = values[count - 1]
    below = values < limit - tie
    tied = np.abs(values - limit) <= tie
    share = np.where(below, 1.0, 0.0)
    share[tied] = (count - below.sum()) / tied.sum()
    return share


class DenseForm:
    """A as a p × p matrix.

    Parameters
    ----------
    matrix : ndarray of shape (n_features, n_features)
        A.
    """

    def __init__(self, matrix: FloatArray) -> None:
        self.matrix = matrix

    def first(self, count: int) -> Subspace:
        """Return the lowest eigenspace of A."""
        values, vectors = eigh(self.matrix)
        size = self.matrix.shape[0] * float(np.max(np.abs(self.matrix)))
        return self._subspace(vectors, shares(values, count, TIE * size))

    def lowest(self, weights: FloatArray, count: int, start: FloatArray) -> Subspace:
        """Return the lowest eigenspace of A + diag(weights), looked for from ``start``."""
        shifted = add_to_diagonal(self.matrix.copy(), weights)
        size = weights.size
        most = min(count + GUARDS, size)
        values, vectors = lowest_eigenpairs(shifted, most)
        if values.size < size and values[-1] - values[count - 1] <= later_tie(values, count):
            values, vectors = eigh(shifted)
        return self._subspace(vectors, shares(values, count, later_tie(values, count)))

    def _subspace(self, vectors: FloatArray, share: FloatArray) -> Subspace:
        return subspace_of(vectors, share, lambda V: np.sum(V * (self.matrix @ V), axis=0))


class _WideForm:
    """What the two forms through samples share."""

    data: FloatArray
    floor = 0.0

    def matrix_of_form(self) -> FloatArray:
        """Return A."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    @cached_property
    def dense(self) -> DenseForm:
        """The same form with its p × p matrix."""
        return DenseForm(self.matrix_of_form())

    def _inverse(self, weights: FloatArray) -> Callable[[FloatArray], FloatArray]:
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _energies(self, vectors: FloatArray) -> FloatArray:
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def lowest(self, weights: FloatArray, count: int, start: FloatArray) -> Subspace:
        """Return the lowest eigenspace of A + diag(weights), looked for from ``start``."""
        small = weights.size <= DENSE_UP_TO
        inverse = self._inverse(weights)
        found = _lowest_of_inverse(inverse, start, count, self.floor, 4 if small else 60)
        if found is None:
            return self.dense.lowest(weights, count, start)
        return subspace_of(*found, self._energies)


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
        self.data = data
        self.matrix = matrix

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

    def _inverse(self, weights: FloatArray) -> Callable[[FloatArray], FloatArray]:
        scaled = self.data / weights
        system = np.asarray(sp.csr_array(self.matrix.T) @ (scaled @ self.data.T).T).T
        factor = scipy.linalg.lu_factor(
            add_to_diagonal(system, 1.0), overwrite_a=True, check_finite=False
        )

        def apply(block: FloatArray) -> FloatArray:
            inner = scipy.linalg.lu_solve(factor, scaled @ block, check_finite=False)
            return block / weights[:, None] - scaled.T @ (self.matrix @ inner)

        return apply

    def matrix_of_form(self) -> FloatArray:
        """Return A."""
        return laplacian_product(self.data, self.matrix)

    def _energies(self, vectors: FloatArray) -> FloatArray:
        image = self.data @ vectors
        return np.asarray(np.sum(image * (self.matrix @ image), axis=0))


class ScatterForm(_WideForm):
    """A = -XᵀX, for more features than samples.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_features)
        X, centred.
    """

    def __init__(self, data: FloatArray) -> None:
        self.data = data
        self.values, self.rows = eigh(data @ data.T)
        # Twice the largest: just above it, the first eigenvector would outweigh all others.
        self.floor = -2 * float(self.values[-1])

    def first(self, count: int) -> Subspace:
        """Return the principal subspace."""
        values = -self.values[::-1]
        share = shares(values, count, TIE * abs(float(values[0])))
        kept = values < -RANK * self.values[-1]
        kept[max(count + GUARDS, np.count_nonzero(share)) :] = False
        vectors = self.data.T @ (self.rows[:, ::-1][:, kept] / np.sqrt(-values[kept]))
        return subspace_of(vectors, share[kept], self._energies)

    def _inverse(self, weights: FloatArray) -> Callable[[FloatArray], FloatArray]:
        diagonal = weights - self.floor
        scaled = self.data / diagonal
        system = add_to_diagonal(-(scaled @ self.data.T), 1.0)
        factor = scipy.linalg.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)

        def apply(block: FloatArray) -> FloatArray:
            inner = scipy.linalg.cho_solve(factor, scaled @ block, check_finite=False)
            return block / diagonal[:, None] + scaled.T @ inner

        return apply

    def matrix_of_form(self) -> FloatArray:
        """Return A."""
        return -(self.data.T @ self.data)

    def _energies(self, vectors: FloatArray) -> FloatArray:
        return -np.sum((self.data @ vectors) ** 2, axis=0)


def laplacian_product(data: FloatArray, matrix: sp.csr_array) -> FloatArray:
    """Return XᵀLX, p × p."""
    return np.asarray(symmetric_part(data.T @ (matrix @ data)))


def form_of(data: FloatArray, matrix: sp.csr_array, count: int) -> QuadraticForm:
    """Return XᵀLX as a matrix, or through the samples where they are fewer than the features."""
    n, p = data.shape
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


def later_tie(values: FloatArray, count: int) -> float:
    """Return how far eigenvalues may differ that tie."""
    return TIE * max(abs(float(values[0])), abs(float(values[min(count, values.size - 1)])))


def _lowest_of_inverse(
    inverse: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    count: int,
    floor: float,
    patience: int,
) -> tuple[FloatArray, FloatArray] | None:
    """Return eigenvectors and their shares; None where few restarts were allowed and did not do.

    More guards are taken until the last of them is not tied, so that ties are complete.
    """
    n = start.shape[0]
    guards = GUARDS
    while True:
        width = min(count + guards, n)
        wanted = min(count + 1, width)
        pairs = largest_pairs(inverse, widened(start, width), wanted, max_restarts=patience)
        if not pairs.converged and patience < 10:
            return None
        values = 1 / pairs.values + floor
        share = shares(values, count, later_tie(values, count))
        if share[-1] == 0 or width == n or not pairs.converged:
            return pairs.vectors, share
        start, guards = pairs.vectors, 2 * guards
