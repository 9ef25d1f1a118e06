r"""Exact solution of the models whose loss sums over samples: CSPCA and AW-SPCA.

.. math:: \min_{\Omega,\,v}\ \sum_i \|x_i - \Omega x_i - v\|_2 + \lambda\|\Omega\|_{2,1}
          + \eta\,\|\Omega\|_*

over Ω ⪰ 0 (where the nuclear norm is the trace), here, or over all Ω
(:mod:`~jointsparse.solvers.samples.free`). CSPCA has v = 0; AW-SPCA has v free and η = 0. A
sample far from the rest pulls with a force of 1 instead of with its distance.

In the notation of :mod:`~jointsparse.solvers.convex.loop` there is one block more than for the
squared loss: the residuals E = X - XΩᵀ - 1vᵀ, whose proximal step shortens every row. The common
variable solves a linear system that is diagonal in the eigenbasis of S = XᵀX; weights never appear.
The multiplier P = ρ_E Y_E of the residuals has rows of norm at most 1 by construction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jointsparse.arrays import Array
from jointsparse.linalg import (
    Spectrum,
    add_to_diagonal,
    array_namespace,
    column_norms,
    eigh,
    symmetric_part,
    unit_columns,
)
from jointsparse.numerics.projections import from_eigenpairs, positive_eigenpairs
from jointsparse.penalties import L21
from jointsparse.solvers.convex.acceleration import Arrays
from jointsparse.solvers.convex.certificate import dual_value_samples_cone, relative_gap
from jointsparse.solvers.convex.loop import Copies, SplitProblem, run_splitting
from jointsparse.solvers.convex.model import (
    Reconstruction,
    capped_penalty,
    factor_on,
)
from jointsparse.solvers.samples.both_weights import ENOUGH, shortest_pull
from jointsparse.solvers.samples.geometric_median import row_norms
from jointsparse.solvers.samples.model import SampleModel, multipliers, step_sizes
from jointsparse.solvers.samples.weighted_split import WeightedBlocks
from jointsparse.solvers.solution import Solution, Trace


class ConeModel(SampleModel):
    """The model in the eigenbasis of S, or in the features as they are."""

    def both(self, omega: Array) -> Array:
        """Return Ω in the basis."""
        return omega if self.basis is None else self.basis.T @ omega @ self.basis

    def objective(self, omega: Array) -> float:
        """Return the objective at Ω, given in the coordinates of the features."""
        xp = array_namespace(omega)
        residuals, _ = self.residuals(self.both(omega))
        value = float(xp.sum(row_norms(residuals))) + L21(self.lam).value(omega)
        return value + self.eta * float(xp.linalg.trace(omega))


def solve_samples(
    data: Array,
    spectrum: Spectrum,
    lam: float,
    eta: float,
    *,
    free_mean: bool = False,
    tol: float = 1e-4,
    max_iter: int = 1000,
    patience: int | None = None,
) -> Solution[Reconstruction]:
    """Solve CSPCA or AW-SPCA on the cone to a certified relative gap.

    Parameters
    ----------
    data : array of shape (n_samples, n_features)
        X, centred.
    spectrum : Spectrum
        Eigendecomposition of XᵀX, all vectors.
    lam, eta : float
        Penalties in the units of the data; lam positive, eta at least 0.
    free_mean : bool
        Whether v is free.
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Iteration limit.
    patience : int or None
        Iterations without progress after which to give up, converged or not.

    Returns
    -------
    Solution
        ``loadings`` is U with Ω = UUᵀ and exactly zero rows for the features left out; ``state`` is
        a :class:`~jointsparse.solvers.convex.model.Reconstruction` with U and v.
    """
    scale = float(array_namespace(data).sum(row_norms(data)))
    model = ConeModel(
        data=(data @ spectrum.vectors) / scale,
        values=spectrum.values * (spectrum.trace / scale / scale),
        basis=spectrum.vectors,
        lam=capped_penalty(lam, scale),
        eta=capped_penalty(eta, scale),
        free_mean=free_mean,
    )
    trace = Trace(tol, max_iter, "duality gap", known=scale)
    return _solved(model, _Blocks(model), trace, scale, patience)


def solve_weighted_cone(
    data: Array,
    lam: float,
    eta: float,
    *,
    free_mean: bool = False,
    tol: float = 1e-4,
    max_iter: int = 1000,
    patience: int | None = None,
) -> Solution[Reconstruction]:
    """Solve the same with reweighted samples; eta is positive, all else as there."""
    scale = float(array_namespace(data).sum(row_norms(data)))
    lam, eta = capped_penalty(lam, scale), capped_penalty(eta, scale)
    model = ConeModel(data / scale, None, None, lam, eta, free_mean)
    trace = Trace(tol, max_iter, "duality gap", known=scale)
    return _solved(model, WeightedCone(model, tol), trace, scale, patience)


def _solved(
    model: ConeModel, blocks: SplitProblem, trace: Trace, scale: float, patience: int | None
) -> Solution[Reconstruction]:
    """Run the loop on some blocks."""
    width = model.data.shape[1] if model.basis is None else model.basis.shape[0]
    nothing = 0 * (model.data[:1, :width].T @ model.data[:1, :width])
    empty = _Candidate.of(model, nothing)
    result = run_splitting(blocks, empty, trace, scale=scale, patience=patience)
    loadings = factor_on(result.best.omega, column_norms(result.best.omega) > 0)
    omega = loadings @ loadings.T
    objective = model.objective(omega)
    gap = relative_gap(objective, result.lower_bound)
    _, offset = model.residuals(model.both(omega))
    offset = offset if model.basis is None else model.basis @ offset
    state = Reconstruction(loadings, offset * scale)
    diagnostics = {"rank": float(loadings.shape[1]), **step_sizes(result.copies)}
    return trace.solution(loadings, objective * scale, gap, diagnostics, state)


@dataclass(frozen=True)
class _Candidate:
    """A feasible Ω in the coordinates of the features."""

    objective: float
    omega: Array

    @classmethod
    def of(cls, model: ConeModel, omega: Array) -> _Candidate:
        return cls(model.objective(omega), omega)


class _Blocks:
    """Block 0: residuals, 1: the cone, 2: the columns.

    Everything is in the eigenbasis of S, but the columns are mixed (VᵀZ).
    """

    groups: tuple[tuple[int, ...], ...] = ((0,), (1, 2))

    def __init__(self, model: ConeModel) -> None:
        self.model = model

    def start(self) -> tuple[Arrays, tuple[float, ...]]:
        """Start at the optimum of the squared loss with one weight for each sample.

        The multipliers satisfy the stationarity of Ω there.
        """
        m = self.model
        omega, residuals, forces, steps = m.first()
        columns = omega @ m.basis.T
        pull = m.lam * unit_columns(columns)
        rest = symmetric_part(forces.T @ m.data - pull @ m.basis)
        targets = (
            residuals + forces / steps[0],
            omega + rest / steps[1],
            columns + pull / steps[1],
        )
        return targets, steps

    def split(
        self, targets: Arrays, steps: tuple[float, ...], rescale: tuple[float, ...]
    ) -> Copies:
        """Proximal step of every block, then Ω and v from all of them in closed form."""
        m = self.model
        values = self._proximal(targets, steps)
        duals = multipliers(targets, values, rescale)
        rho_e, rho = (step * factor for step, factor in zip(steps, rescale, strict=True))
        reflected = [z - y for z, y in zip(values, duals, strict=True)]

        xp = array_namespace(m.data)
        wanted = m.data - reflected[0]
        offset = xp.mean(wanted, axis=0) if m.free_mean else 0.0
        right = rho_e * ((wanted - offset).T @ m.data) + rho * (reflected[2] @ m.basis)
        half = m.values / 2
        omega = symmetric_part(right + rho * reflected[1])
        omega = omega / (rho_e * (half[:, None] + half) + 2 * rho)
        residuals = m.data - m.data @ omega - offset
        return Copies((residuals, omega, omega @ m.basis.T), values, duals, (rho_e, rho))

    def _proximal(self, targets: Arrays, steps: tuple[float, ...]) -> Arrays:
        m, (rho_e, rho) = self.model, steps
        residuals = L21(1.0).prox(targets[0].T, 1 / rho_e).T
        cone = from_eigenpairs(*positive_eigenpairs(symmetric_part(targets[1]), m.eta / rho))
        return residuals, cone, L21(m.lam).prox(targets[2], 1 / rho)

    def candidate(self, copies: Copies) -> _Candidate:
        """Cut the cone's copy down to the kept features."""
        m, columns = self.model, copies.values[2]
        xp = array_namespace(columns)
        kept = column_norms(columns) > 0
        omega = m.basis @ copies.values[1] @ m.basis.T
        return _Candidate.of(m, xp.where(kept[:, None] & kept, omega, xp.zeros_like(omega)))

    def lower_bound(self, copies: Copies, *, thorough: bool) -> float:
        """Certify with the multipliers of all blocks; there is only one way."""
        if thorough:
            return -math.inf
        m, (rho_e, rho) = self.model, copies.steps
        value, moment = m.dual(rho_e * copies.duals[0])
        pull = rho * copies.duals[2]
        return dual_value_samples_cone(value, moment - pull @ m.basis, m.lam, m.eta)


class WeightedCone(WeightedBlocks):
    """Blocks with reweighted samples, in the coordinates of the features."""

    model: ConeModel

    def _spectral_step(self, target: Array, threshold: float) -> Array:
        return from_eigenpairs(*positive_eigenpairs(symmetric_part(target), threshold))

    def _solved(self, scatter: Array, asked: Array, rho: float, copies: int) -> tuple[Array, Array]:
        values, axes = eigh(scatter)
        inner = axes.T @ symmetric_part(asked) @ axes
        inner *= rho
        inner = add_to_diagonal(inner, values)
        half = values / 2 + copies * rho / 2
        inner /= half[:, None] + half
        omega = symmetric_part(axes @ inner @ axes.T)
        return omega, omega

    def candidate(self, copies: Copies) -> _Candidate:
        """Cut the cone's copy down to the kept features."""
        _, cone, columns = copies.values
        xp = array_namespace(columns)
        kept = column_norms(columns) > 0
        omega = xp.where(kept[:, None] & kept, cone, xp.zeros_like(cone))
        return _Candidate.of(self.model, omega)

    def lower_bound(self, copies: Copies, *, thorough: bool) -> float:
        """Certify with the forces of the residuals and the multipliers of the copies.

        That of the cone is below η. So sym(PᵀX) is the sum of the two and of a rest, which goes to
        V; where V is too long, some of it goes to the rows, as only its symmetric part counts.
        """
        if thorough:
            return -math.inf
        m, (rho,) = self.model, copies.steps
        value, moment = self.dual()
        cone, pull = rho * copies.duals[1], rho * copies.duals[2]
        rest = symmetric_part(moment - pull - cone)
        lengths = column_norms(copies.values[2])
        longest = shortest_pull((pull + rest) / m.lam, lengths, 1.0, ENOUGH * self.tol)
        return value / max(1.0, longest)
