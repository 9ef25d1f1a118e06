r"""Bases in which a problem with many more features than samples becomes small, and that problem.

For p × m orthonormal W with range(Xᵀ) ⊂ range(W), the model restricted to Ω = W Ω̃ Wᵀ has an m × m
unknown, and ‖Ωe_j‖ = ‖Ω̃w_j‖ for row w_j of W. The optimum does not lie in range(Xᵀ), but the
columns of its U are vectors of range(Xᵀ) weighted feature by feature, with weights that the last
solution predicts (:mod:`~jointsparse.solvers.convex.stationarity`). The basis is Xᵀ and these k
columns; features whose multiplier leaves it all the same get their own unit vector.

A basis only limits how good the point can be; that it is good is the certificate's business
(:mod:`~jointsparse.solvers.wide.certificate`). Arrays with p rows keep the dtype of the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jointsparse.arrays import Array
from jointsparse.eigen.orthonormal import orthonormalised, outside
from jointsparse.linalg import (
    add_to_diagonal,
    array_namespace,
    blocks,
    column_norms,
    double,
    eigh,
    long_product,
    positive_part,
    symmetric_part,
    tall_product,
)
from jointsparse.solvers.convex.acceleration import Arrays
from jointsparse.solvers.convex.certificate import dual_value_of_cone
from jointsparse.solvers.convex.loop import Copies, run_splitting
from jointsparse.solvers.convex.splitting import INITIAL_STEP, SquaredLoss
from jointsparse.solvers.convex.stationarity import Stationarity
from jointsparse.solvers.solution import Trace

DENSE_SHARE = 0.6  # a basis of more columns than this share of the features is no saving
NEGLIGIBLE = 1e-13  # relative eigenvalue of XXᵀ that is rounding
NEGLIGIBLE_LENGTH = 1e-8  # relative eigenvalue of Ω that is taken for zero
ACCELERATION_BYTES = 2**28  # less than the loop takes by itself: W is large, too
FIRST_UNITS, MOST_UNITS = 40, 2000
ESCAPE = 0.02  # length of a multiplier outside the basis (of at most 1) that is worth a column


def build_basis(
    data: Array, factor: Array | None, multiplier: Array | None, slow: int, lam: float, eta: float
) -> tuple[Array, Array]:
    """Return s (m,) and W (p × m) with WᵀW = I, WᵀSW = diag(s), range(Xᵀ) ⊂ range(W).

    Parameters
    ----------
    data : array of shape (n, p)
        X, centred.
    factor : array of shape (p, k) or None
        U of the last solution, for the weighted columns.
    multiplier : array of shape (m, p) or None
        Columns in coordinates of the last basis, for the unit vectors.
    slow : int
        Number of rounds that gained little: 0 for no unit vectors. Every further one doubles
        their number and halves the escape that asks for one.
    lam, eta : float
        Penalties in the units of the data.
    """
    xp = array_namespace(data)
    n, p = data.shape
    k = 0 if factor is None else factor.shape[1]
    if n + k > DENSE_SHARE * p:
        return _diagonalised(data, xp.eye(p, dtype=data.dtype, device=data.device))
    basis = range_basis(data)
    if factor is not None and k > 0:
        images = tall_product(data.T, long_product(data, factor))
        columns = Stationarity.of(factor, images, lam, eta).columns()
        basis = xp.concat([basis, outside(basis, columns)], axis=1)
    if multiplier is not None and slow > 0:
        most = min(FIRST_UNITS * 2 ** (slow - 1), MOST_UNITS)
        features = poorly_spanned(basis, multiplier, most, ESCAPE / 2 ** (slow - 1))
        if basis.shape[1] + features.shape[0] > DENSE_SHARE * p:
            return _diagonalised(data, xp.eye(p, dtype=data.dtype, device=data.device))
        columns = xp.zeros((p, features.shape[0]), dtype=data.dtype, device=data.device)
        columns[features, xp.arange(features.shape[0], device=features.device)] = 1.0
        basis = xp.concat([basis, outside(basis, columns)], axis=1)
    return _diagonalised(data, basis)


def range_basis(data: Array) -> Array:
    """Return an orthonormal basis of range(Xᵀ), from the n × n Gram matrix."""
    xp = array_namespace(data)
    values, vectors = eigh(long_product(data, data.T))
    keep = values > NEGLIGIBLE * values[-1]
    basis = tall_product(data.T, vectors[:, keep] / xp.sqrt(values[keep]))
    return orthonormalised(basis)  # the Gram matrix leaves half of the digits: once more


def poorly_spanned(basis: Array, multiplier: Array, most: int, least: float) -> Array:
    """Return the features whose rows of (I - WWᵀ)Yᵀ are longest, and longer than ``least``."""
    xp = array_namespace(basis)
    inside = long_product(multiplier, basis)
    lengths = xp.concat(
        [
            xp.linalg.vector_norm(
                double(multiplier[:, part]) - inside @ double(basis[part, :]).T, axis=0
            )
            for part in _parts(basis)
        ]
    )
    order = xp.argsort(lengths, descending=True)[:most]
    return order[lengths[order] > least]


@dataclass(frozen=True)
class Point:
    """A feasible point, of which only the objective is kept."""

    objective: float


class RestrictedLoss(SquaredLoss):
    """The model on Ω = W Ω̃ Wᵀ. Its feasible points are the cone's copies."""

    def solve(
        self, tol: float, max_iter: int, start: tuple[Arrays, tuple[float, ...]] | None
    ) -> tuple[Copies, int]:
        """Iterate to a gap of ``tol``; return the last iterate and how many there were."""
        rule = RoundRule(tol, max_iter, "gap")
        limit, scale = ACCELERATION_BYTES, self.model.spectrum.trace
        result = run_splitting(
            self, Point(1.0), rule, scale=scale, start=start, acceleration_bytes=limit
        )
        return result.copies, rule.iterations

    def candidate(self, copies: Copies) -> Point:
        """Return the cone's copy."""
        cone = copies.values[0]
        return Point(self.model.objective(cone, self._stored(cone) @ self.vectors.T))

    def lower_bound(self, copies: Copies, *, thorough: bool) -> float:
        """Bound the restricted optimum, cheaply: the bound that counts is for all features."""
        if thorough:
            return -math.inf  # nothing better than what was returned before
        return dual_value_of_cone(self.model, copies.agreed[0], self.remainder(copies))

    def start_at(self, factor: Array) -> tuple[Arrays, tuple[float, ...]]:
        """Start at Ω = UUᵀ, with multipliers that satisfy stationarity as far as they can."""
        xp = array_namespace(factor)
        model, s = self.model, self.s
        rho = INITIAL_STEP * (model.eta + model.lam)
        rotated = long_product(self.vectors.T, factor)
        rotated = rotated @ rotated.T
        columns = self._stored(rotated) @ self.vectors.T
        norms = column_norms(columns)
        dual = columns * (model.lam / rho / xp.where(norms > 0, norms, xp.ones_like(norms)))
        half = s[:, None] * rotated
        smooth = add_to_diagonal(-half - half.T, 2 * s)
        cone = rotated + smooth / rho - symmetric_part(dual @ self.vectors)
        return (cone, columns + dual), (rho,)


class RoundRule(Trace):
    """Stopping rule of one round. The history is that of the rounds."""

    iterations = 0

    def record(
        self, iteration: int, objective: float, *, gap: float | None = None, measure: float
    ) -> bool:
        """Note the measure only."""
        self.iterations, self.measure = iteration, measure
        return self.converged


def change_basis(targets: Arrays, old: Array, new: Array) -> Arrays:
    """Project targets onto another basis; exact where it contains the old one."""
    change = long_product(old.T, new)
    return change.T @ targets[0] @ change, tall_product(targets[1].T, change).T


def factor_in(basis: Array, cone: Array) -> Array:
    """Return U with UUᵀ = W Z Wᵀ, columns orthogonal, the longest first."""
    xp = array_namespace(cone)
    values, vectors = eigh(cone)
    keep = values > NEGLIGIBLE_LENGTH * float(xp.max(xp.abs(values)))
    columns = vectors[:, keep] * xp.sqrt(values[keep])
    return tall_product(basis, xp.flip(columns, axis=1))


def sort_columns(factor: Array) -> Array:
    """Rotate U so that its columns are orthogonal, the longest first."""
    xp = array_namespace(factor)
    values, vectors = eigh(long_product(factor.T, factor))
    keep = values > NEGLIGIBLE_LENGTH * float(xp.max(values)) if values.shape[0] else values > 0
    return tall_product(factor, xp.flip(vectors[:, keep], axis=1))


def without_rows(factor: Array, zero: Array) -> Array:
    """Return U with these rows set to zero."""
    xp = array_namespace(factor)
    return xp.where(zero[:, None], xp.zeros_like(factor[:1, :]), factor)


def _diagonalised(data: Array, basis: Array) -> tuple[Array, Array]:
    """Rotate W so that WᵀSW is diagonal."""
    image = long_product(data, basis)
    values, rotation = eigh(image.T @ image)
    return positive_part(values), tall_product(basis, rotation)


def _parts(rows: Array) -> list[slice]:
    return list(blocks(rows.shape[0]))
