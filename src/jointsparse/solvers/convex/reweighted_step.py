r"""One reweighted step of the convex models, on p × p matrices or without any.

The minimiser of :math:`\sum_i d_i\|x_i-\Omega x_i-v\|^2 + \operatorname{tr}\Omega E\Omega^\top
+ 2s\operatorname{tr}\Omega` over all p × p matrices is

.. math:: \Omega = (S_d - v b^\top - sI)(S_d+E)^{-1},\qquad S_d = X^\top\operatorname{diag}(d)X,\
          b = X^\top d .

With F = diag(√d) X, g = √d and C = (I + F E⁻¹ Fᵀ)⁻¹, Woodbury's identity makes it, for s = 0, a
matrix of rank n, :math:`(F^\top - v g^\top)\,C F E^{-1}`, and for v = 0 and diagonal E its
symmetric part is

.. math:: M = \operatorname{sym}\big(E^{-1}F^\top C F\,(I+sE^{-1})\big) - sE^{-1},

a matrix of low rank minus a positive diagonal, whose few positive eigenpairs are all that the
projection onto the cone needs.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property

from jointsparse.arrays import Array
from jointsparse.eigen.davidson import PositivePairs, davidson
from jointsparse.linalg import (
    add_to_diagonal,
    array_namespace,
    eigh,
    solve_positive,
    symmetric_part,
    unless_singular,
)
from jointsparse.numerics.projections import positive_eigenpairs

logger = logging.getLogger(__name__)

NEGLIGIBLE = 1e-12  # relative squared length of a row that is rounding


@dataclass(frozen=True)
class Quadratic:
    """The weights of one step, with E = diag(diagonal) - vectors diag(less) vectorsᵀ.

    Attributes
    ----------
    samples : array of shape (n_samples,)
        d.
    diagonal : array of shape (n_features,)
        Diagonal part of E; positive.
    shift : float
        s.
    offset : array of shape (n_features,) or None
        v.
    vectors, less : array of shape (n_features, rank) and (rank,), or None
        What the nuclear norm takes off E, so that E stays positive definite.
    """

    samples: Array
    diagonal: Array
    shift: float
    offset: Array | None = None
    vectors: Array | None = None
    less: Array | None = None


@dataclass(frozen=True)
class Omega:
    """Ω = basis @ loadingsᵀ with an orthonormal basis.

    Therefore the rows of the loadings are as long as the columns of Ω.

    Attributes
    ----------
    basis : array of shape (n_features, rank) or None
        None stands for the identity.
    loadings : array of shape (n_features, rank)
        One row per feature.
    eigenpairs : tuple of arrays or None
        Eigenvalues and eigenvectors of a positive semidefinite Ω.
    """

    basis: Array | None
    loadings: Array
    eigenpairs: tuple[Array, Array] | None = None

    @classmethod
    def from_eigenpairs(cls, values: Array, vectors: Array) -> Omega:
        """Build a positive semidefinite Ω from its positive eigenvalues, in descending order."""
        return cls(vectors, vectors * values, (values, vectors))

    @cached_property
    def singular(self) -> tuple[Array, Array]:
        """Singular values and right singular vectors."""
        if self.eigenpairs is not None:
            return self.eigenpairs
        xp = array_namespace(self.loadings)
        if self.basis is not None:
            vectors, values, _ = xp.linalg.svd(self.loadings, full_matrices=False)
            return values, vectors
        # Several times faster than a singular value decomposition. What rounding makes of an
        # eigenvalue of zero would not be small after the root, so it is taken as zero.
        squares, vectors = xp.linalg.eigh(self.loadings @ self.loadings.T)
        noise = xp.finfo(squares.dtype).eps * squares.shape[0] * squares[-1]
        return xp.sqrt(xp.where(squares > noise, squares, 0 * squares)), vectors

    @cached_property
    def column_norms(self) -> Array:
        """Norms of the columns ω_j."""
        return array_namespace(self.loadings).linalg.vector_norm(self.loadings, axis=1)

    @property
    def nuclear_norm(self) -> float:
        """Sum of the singular values; for a positive semidefinite Ω that is its trace."""
        values, _ = self.singular
        return float(array_namespace(values).sum(values))

    @property
    def square_root(self) -> Array:
        """U with Ω = UUᵀ, for an Ω made from eigenpairs."""
        values, vectors = self.singular
        return vectors * array_namespace(values).sqrt(values)

    def of_rows(self, rows: Array) -> Array:
        """Return Ωx for every row x."""
        rotated = rows @ self.loadings
        return rotated if self.basis is None else rotated @ self.basis.T


class FeatureForm:
    """The step with p × p matrices, for fewer features than samples.

    Parameters
    ----------
    data : array of shape (n_samples, n_features)
        X.
    fixed_weights : bool
        Whether all sample weights are 1 in every step.
    """

    def __init__(self, data: Array, *, fixed_weights: bool) -> None:
        self.data = data
        self.scatter = data.T @ data if fixed_weights else None

    def minimiser(self, quadratic: Quadratic) -> Omega:
        """Return the unconstrained minimiser."""
        xp = array_namespace(self.data)
        scatter = self.scatter
        if scatter is None:
            scatter = self.data.T @ (quadratic.samples[:, None] * self.data)
        left = add_to_diagonal(xp.asarray(scatter, copy=True), quadratic.diagonal)
        if quadratic.vectors is not None:
            left -= (quadratic.vectors * quadratic.less) @ quadratic.vectors.T
        right = add_to_diagonal(xp.asarray(scatter, copy=True), -quadratic.shift)
        if quadratic.offset is not None:
            right -= (quadratic.samples @ self.data)[:, None] * quadratic.offset
        return Omega(None, solve_positive(left, right))  # the transpose of the formula

    def projected(self, quadratic: Quadratic) -> Omega:
        """Return the projection of the minimiser onto the cone."""
        xp = array_namespace(self.data)
        matrix = symmetric_part(self.minimiser(quadratic).loadings)
        values, vectors = positive_eigenpairs(matrix)
        return Omega.from_eigenpairs(xp.flip(values), xp.flip(vectors, axis=1))


class SampleForm:
    """The step without p × p matrices, for at least as many features as samples.

    Parameters
    ----------
    data : array of shape (n_samples, n_features)
        X.
    """

    def __init__(self, data: Array) -> None:
        self.data = data
        self.eigenspace: Array | None = None  # of the previous step

    def minimiser(self, quadratic: Quadratic) -> Omega:
        """Return the unconstrained minimiser; the shift must be 0."""
        left, right = self._product(quadratic)
        basis, triangle = array_namespace(left).linalg.qr(left)
        return Omega(basis, right.T @ triangle.T)

    def projected(self, quadratic: Quadratic) -> Omega:
        """Return the projection of the minimiser onto the cone; E must be diagonal."""
        if quadratic.shift > 0:
            operator = _LowRankMinusDiagonal(self.data, quadratic)
            pairs = operator.positive_pairs(self.eigenspace)
            self.eigenspace = pairs.basis
            return Omega.from_eigenpairs(pairs.values, pairs.vectors)
        # sym(AB) lives in the space of the columns of A and the rows of B: 2n dimensions. At most n
        # eigenvalues are positive, more are rounding errors.
        left, right = self._product(quadratic)
        xp = array_namespace(left)
        basis, triangle = xp.linalg.qr(xp.concat([left, right.T], axis=1))
        n = left.shape[1]
        values, vectors = positive_eigenpairs(symmetric_part(triangle[:, :n] @ triangle[:, n:].T))
        vectors = xp.flip(vectors, axis=1)[:, :n]
        return Omega.from_eigenpairs(xp.flip(values)[:n], basis @ vectors)

    def _product(self, quadratic: Quadratic) -> tuple[Array, Array]:
        """Return A and B with minimiser AB = (Fᵀ - vgᵀ)C · FE⁻¹."""
        xp = array_namespace(self.data)
        root = xp.sqrt(quadratic.samples)[:, None]
        weighted = root * self.data
        right = weighted / quadratic.diagonal
        if quadratic.vectors is not None:
            # E = D - ZZᵀ, so E⁻¹ = D⁻¹ + D⁻¹Z(I - ZᵀD⁻¹Z)⁻¹ZᵀD⁻¹.
            vectors = quadratic.vectors * xp.sqrt(quadratic.less)
            scaled = vectors.T / quadratic.diagonal
            inner = add_to_diagonal(-scaled @ vectors, 1.0)
            right = right + (right @ vectors) @ solve_positive(inner, scaled)
        inner = add_to_diagonal(right @ weighted.T, 1.0)
        if quadratic.offset is not None:
            weighted = weighted - root * quadratic.offset
        return solve_positive(inner.T, weighted).T, right


def _root_of_rest(inner: Array, weighted: Array) -> Array:
    """Return G with GᵀG = WᵀN⁻¹W, for N - I positive semidefinite but for rounding."""
    xp = array_namespace(inner)
    factor = unless_singular(xp.linalg.cholesky, inner)
    if factor is not None:
        return xp.linalg.solve(factor, weighted)
    logger.info("a matrix of %d rows has no Cholesky factor; eigenpairs serve", inner.shape[0])
    values, vectors = eigh(symmetric_part(inner))
    return (vectors / xp.sqrt(xp.clip(values, 1.0, None))).T @ weighted  # N has none below 1


class _LowRankMinusDiagonal:
    r"""M = sym(E⁻¹FᵀCF(I + sE⁻¹)) - sE⁻¹ for diagonal E, held as GᵀG = FᵀCF and E⁻¹."""

    def __init__(self, data: Array, quadratic: Quadratic) -> None:
        xp = array_namespace(data)
        weighted = xp.sqrt(quadratic.samples)[:, None] * data
        self.shift, self.inverse = quadratic.shift, 1 / quadratic.diagonal
        inner = add_to_diagonal((weighted * self.inverse) @ weighted.T, 1.0)
        self.root = _root_of_rest(inner, weighted)

    def apply(self, block: Array) -> Array:
        """Return M times a block; with E⁻¹ multiplied out it takes two passes over G."""
        rows = block.T  # the eigensolver holds vectors as contiguous rows
        scaled = rows * self.inverse
        a, b = rows @ self.root.T, scaled @ self.root.T
        low_rank = self.inverse * ((a + (2 * self.shift) * b) @ self.root) + b @ self.root
        return (low_rank / 2 - self.shift * scaled).T

    @cached_property
    def _independent_rows(self) -> Array:
        """G rotated to orthogonal rows, without those that are nothing but rounding.

        Centred samples always have one such row, and for a small bound the inertia of the rounding
        in it would count as an eigenvalue.
        """
        xp = array_namespace(self.root)
        squares, rotation = xp.linalg.eigh(self.root @ self.root.T)
        return rotation[:, squares > NEGLIGIBLE * squares[-1]].T @ self.root

    def count_above(self, bound: float) -> int:
        r"""Return how many eigenvalues exceed a bound ≥ 0, from an n × n matrix.

        M = P J Pᵀ - sE⁻¹ with P = [E⁻¹Gᵀ, Gᵀ] and J = [[sI, ½I], [½I, 0]]. By the additivity of
        inertia over Schur complements, M - τI has as many positive eigenvalues as
        J⁻¹ - Pᵀ(sE⁻¹ + τI)⁻¹P has negative ones beyond the n of J⁻¹; its lower right block is
        negative definite and takes up those n, so the rest are those of the other complement.
        """
        xp = array_namespace(self.inverse)
        weight = 1 / (self.shift * self.inverse + bound)
        root = self._independent_rows
        moments = [(root * (self.inverse**power * weight)) @ root.T for power in (0, 1, 2)]
        across = add_to_diagonal(-moments[1], 2.0)
        lower = add_to_diagonal(moments[0], 4 * self.shift)
        complement = across @ solve_positive(lower, across) - moments[2]
        return int(xp.sum(xp.linalg.eigvalsh(symmetric_part(complement)) < 0))

    def positive_pairs(self, start: Array | None) -> PositivePairs:
        """Return the positive eigenpairs; None starts from the row space of the data."""
        if start is None:
            start = array_namespace(self.root).linalg.qr(self.root.T)[0]
        return davidson(self.apply, -self.shift * self.inverse, start, count_above=self.count_above)
