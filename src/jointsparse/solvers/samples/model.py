r"""What CSPCA and AW-SPCA have in common on the cone and without it.

.. math:: \sum_i\|x_i - \Omega x_i - v\|_2 + \dots

in the coordinates of an orthonormal basis of the features, in which all of X lies.
"""

from __future__ import annotations

from dataclasses import dataclass

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace
from jointsparse.solvers.convex.acceleration import Arrays
from jointsparse.solvers.convex.loop import Copies
from jointsparse.solvers.convex.model import first_share
from jointsparse.solvers.samples.geometric_median import (
    NEAR_THE_MEDIAN,
    geometric_median,
    row_norms,
    typical_length,
)


@dataclass(frozen=True)
class SampleModel:
    """The problem, with the data in some basis and scaled so that Σ‖x_i‖ = 1.

    Attributes
    ----------
    data : array of shape (n_samples, r)
        XB, centred.
    values, basis : arrays of shape (r,) and (n_features, r)
        s and B, with XᵀX = B diag(s) Bᵀ. None and None for X itself, B being the identity.
    lam, eta : float
        Penalties in the units of the scaled data.
    free_mean : bool
        Whether v is free (AW-SPCA).
    """

    data: Array
    values: Array
    basis: Array
    lam: float
    eta: float
    free_mean: bool

    def inner(self, matrix: Array) -> Array:
        """Return Ω̂B, given Ω̂ for all features."""
        return matrix if self.basis is None else matrix @ self.basis

    def outer(self, inner: Array) -> Array:
        """Return Ω̂ for all features, given Ω̂B, where it is zero off the basis."""
        return inner if self.basis is None else inner @ self.basis.T

    def residuals(self, inner: Array) -> tuple[Array, Array]:
        """Return X - XΩᵀ - 1vᵀ and the best v, both in the basis, as Ω is."""
        xp = array_namespace(inner)
        left = self.data - self.data @ inner.T
        if not self.free_mean:
            return left, xp.zeros_like(left[0, :])
        offset = geometric_median(left, tol=NEAR_THE_MEDIAN, max_iter=50)
        return left - offset, offset

    def first(self) -> tuple[Array, Array, Array, tuple[float, float]]:
        """Return where to start: Ω in the basis, its residuals, their directions, and step sizes.

        Ω is the optimum of the squared loss with one weight for each sample.
        """
        slope = emptying_data(self.data, free_mean=self.free_mean)
        xp = array_namespace(slope)
        # Rows of the slope are as long as the roots of those of the data.
        steps = (1 / typical_length(row_norms(slope) ** 2), self.eta + self.lam)
        values, axes = xp.linalg.eigh(slope.T @ slope)
        inner = (axes * first_share(values, self.eta, self.lam)) @ axes.T
        residuals, _ = self.residuals(inner)
        sizes = row_norms(residuals)
        forces = residuals / xp.where(sizes > 0, sizes, xp.ones_like(sizes))[:, None]
        return inner, residuals, forces, steps

    def dual(self, multipliers: Array) -> tuple[float, Array]:
        """Return Σ pᵢᵀxᵢ and PᵀX for multipliers of the residuals, made feasible: ‖pᵢ‖ ≤ 1."""
        xp = array_namespace(multipliers)
        if self.free_mean:
            multipliers = multipliers - xp.mean(multipliers, axis=0)
        forces = multipliers / max(1.0, float(xp.max(row_norms(multipliers))))
        return float(xp.sum(forces * self.data)), forces.T @ self.data


def emptying_data(data: Array, *, free_mean: bool) -> Array:
    """Return F with FᵀF = Q = Σ (x_i-b)(x_i-b)ᵀ/‖x_i-b‖, the slope of the loss at Ω = 0.

    Its size decides which penalties empty the model. b is 0, or the geometric median where the
    mean is free.
    """
    xp = array_namespace(data)
    centred = data - geometric_median(data) if free_mean else data
    norms = row_norms(centred)
    positive = norms > 0
    weights = xp.where(positive, 1 / xp.sqrt(xp.where(positive, norms, 1.0)), 0.0)
    return centred * weights[:, None]


def multipliers(targets: Arrays, values: Arrays, rescale: tuple[float, ...]) -> Arrays:
    """Return the scaled multipliers after the proximal steps: of the residuals, of the others."""
    factors = (rescale[0],) + (rescale[1],) * (len(targets) - 1)
    return tuple((t - z) / f for t, z, f in zip(targets, values, factors, strict=True))


def step_sizes(copies: Copies) -> dict[str, float]:
    """Return the step sizes of the blocks: of the residuals, unless they are reweighted, and Ω."""
    names = ("step size of residuals", "step size of the matrix")[-len(copies.steps) :]
    return dict(zip(names, map(float, copies.steps), strict=True))
