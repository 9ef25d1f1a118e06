r"""What stationarity says about the optimum of the convex model: one secular equation per feature.

With Ω = UUᵀ, UᵀU = diag(g), d_j = ‖Ωe_j‖ and A = S + (λ/2) diag(1/d), on the support

.. math:: A\,U \operatorname{diag}(g) + U\,(U^\top A U + \eta I) = 2SU .

Let τ and Q be the eigenvalues and eigenvectors of g^(-1/2)(UᵀAU + ηI)g^(-1/2). In the coordinates
of E = U g^(-1/2) Q (orthonormal columns), column j of Ω is E f_j with

.. math:: F = U g^{1/2} Q = \operatorname{diag}(d)\,Z,\qquad
          Z_{ji} = \frac{b_{ji}}{\lambda/2 + \tau_i d_j},\qquad
          b = S U\,(2 g^{-1/2} - g^{1/2})\,Q .

So the columns of F are columns of SU weighted feature by feature, and the multiplier of feature j
is v_j = Ez_j. Given b and τ, the norms d follow from ‖z_j‖ = 1, a secular equation for each
feature; it has no positive solution exactly for the features that vanish, and those get
z_j = (2/λ)b_j, which is at most 1 long. This predicts norms, support and multipliers of a better
solution from those of a good one. Nothing here is a proof.
"""

from __future__ import annotations

from dataclasses import dataclass

from jointsparse.arrays import Array
from jointsparse.linalg import (
    add_to_diagonal,
    array_namespace,
    blocks,
    double,
    eigh,
    long_product,
    positive_part,
    symmetric_part,
    tall_product,
)

FAINTEST = 1e-6  # smallest d_j for the weights of a basis, as a share of the largest
NEGLIGIBLE = 1e-7  # relative squared length of a column of U that is left out
MOST_STEPS = 12  # of Newton's method; where the τ_i differ by up to 1000, six leave errors of 1e-6
EXACT = 1e-10  # relative step after which the next one would be rounding


@dataclass(frozen=True)
class Stationarity:
    """The quantities above for one U.

    Attributes
    ----------
    pull : array of shape (n_features, rank)
        b.
    tau : array of shape (rank,)
        Eigenvalues τ.
    norms : array of shape (n_features,)
        Norms d.
    axes : array of shape (n_features, rank)
        E.
    half_lam : float
        λ/2.
    """

    pull: Array
    tau: Array
    norms: Array
    axes: Array
    half_lam: float

    @classmethod
    def of(cls, factor: Array, images: Array, lam: float, eta: float) -> Stationarity:
        """Predict from U (n_features × rank, not empty) and SU; lam is positive."""
        xp = array_namespace(factor)
        squares, rotation = eigh(long_product(factor.T, factor))
        keep = squares > NEGLIGIBLE * squares[-1]
        lengths, rotation = xp.sqrt(squares[keep]), rotation[:, keep]
        factor, images = tall_product(factor, rotation), tall_product(images, rotation)
        pencil = long_product(factor.T, images) + lam / 2 * _weighted_gram(factor, lengths)
        pencil = add_to_diagonal(symmetric_part(pencil), eta)
        tau, rotation = eigh(pencil / (lengths[:, None] * lengths[None, :]))
        axes = rotation / lengths[:, None]
        pull = tall_product(images, 2 * axes - rotation * lengths[:, None])
        norms = xp.concat(
            [secular_norms(double(pull[part, :]) ** 2, tau, lam / 2) for part in _parts(pull)]
        )
        return cls(pull, tau, norms, tall_product(factor, axes), lam / 2)

    def columns(self) -> Array:
        """Return F for a basis: no feature is quite without weight."""
        xp = array_namespace(self.pull)
        norms = xp.clip(self.norms, FAINTEST * float(xp.max(self.norms)), None)
        return self._weighted(norms, norms)

    def multiplier(self, basis: Array) -> Array:
        """Return the v_j in the coordinates of a basis, one column for each feature."""
        xp = array_namespace(self.pull)
        directions = self._weighted(xp.ones_like(self.norms), self.norms)
        return tall_product(directions, long_product(self.axes.T, basis)).T

    def _weighted(self, scale: Array, norms: Array) -> Array:
        xp = array_namespace(self.pull)
        result = xp.empty_like(self.pull)
        for part in _parts(self.pull):
            weights = scale[part, None] / (self.half_lam + self.tau[None, :] * norms[part, None])
            result[part, :] = xp.astype(weights * double(self.pull[part, :]), result.dtype)
        return result


def secular_norms(squares: Array, tau: Array, half_lam: float) -> Array:
    r"""Solve :math:`\sum_i b_{ji}^2/(\lambda/2+\tau_i d_j)^2 = 1` for d_j ≥ 0, for every feature.

    d_j = 0 where the sum is at most 1 at d_j = 0: there the feature vanishes. Newton's method on
    the concave increasing function (sum)^(-1/2) stays left of the root when started at 0, so it
    needs no safeguard.
    """
    xp = array_namespace(squares)
    norms = xp.zeros(squares.shape[0], dtype=squares.dtype, device=squares.device)
    alive = xp.sum(squares, axis=1) > half_lam**2
    if not bool(xp.any(alive)):
        return norms
    squares, found = squares[alive, :], norms[alive]
    for _ in range(MOST_STEPS):
        inverse = 1 / (half_lam + tau[None, :] * found[:, None])
        terms = squares * inverse**2
        total = xp.sum(terms, axis=1)
        step = (total**1.5 - total) / xp.sum(terms * inverse * tau, axis=1)
        found = positive_part(found + step)
        if float(xp.max(xp.abs(step))) <= EXACT * float(xp.max(found)):
            break
    norms[alive] = found
    return norms


def _weighted_gram(factor: Array, lengths: Array) -> Array:
    """UᵀD⁻¹U with d_j = ‖Ωe_j‖, for U with orthogonal columns of these lengths."""
    xp = array_namespace(factor)
    total = xp.zeros((lengths.shape[0],) * 2, dtype=xp.float64, device=factor.device)
    norms = xp.concat(
        [xp.linalg.vector_norm(double(factor[b, :]) * lengths, axis=1) for b in _parts(factor)]
    )
    norms = xp.clip(norms, 1e-9 * float(xp.max(norms)), None)
    for part in _parts(factor):
        block = double(factor[part, :])
        total += (block / norms[part, None]).T @ block
    return total


def _parts(rows: Array) -> list[slice]:
    return list(blocks(rows.shape[0]))
