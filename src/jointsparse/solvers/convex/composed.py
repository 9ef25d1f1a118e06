r"""Any penalties with the squared loss, by splitting, with a proof at every certificate.

.. math:: \min_\Omega\ f(\Omega) + \sum_k P_k(\Omega),\qquad f(\Omega)=\|X-X\Omega^\top\|_F^2

In the notation of :mod:`~jointsparse.solvers.convex.loop` each penalty is a block; the common
variable is solved in closed form in the eigenbasis of S.

**The bound.** Where :math:`P_k(\Omega)\ge\langle M_k,\Omega\rangle` for all Ω (the polar of M_k is
at most 1) and :math:`\sum_k M_k = tG` with G = -∇f(Ω̃),

.. math:: f(\Omega)+\sum_k P_k(\Omega)\ \ge\ f(\Omega)+t\langle G,\Omega\rangle
          \ \ge\ t\langle G,I\rangle - t^2 f(\tilde\Omega).

The blocks bring their own multipliers ρY_k; one of the penalties takes what is left of G, and t
shortens all of them until every polar allows it. Which penalty takes the rest is tried in turn: a
bound is a bound. A penalty with a conjugate in place of a polar subtracts it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, column_norms, symmetric_part
from jointsparse.losses.squared import SquaredLossOn
from jointsparse.solvers.convex.acceleration import Arrays
from jointsparse.solvers.convex.certificate import relative_gap
from jointsparse.solvers.convex.loop import Copies, run_splitting
from jointsparse.solvers.convex.model import factor_on, first_share
from jointsparse.solvers.solution import Solution, Trace

FIRST_STEP = 0.3  # ρ in units of the mean eigenvalue, weighted by itself; the loop adapts it


def solve_composed(
    loss: SquaredLossOn, penalties: Sequence[Any], *, tol: float, max_iter: int
) -> Solution:
    """Minimise the squared loss and any penalties to a certified relative gap.

    Parameters
    ----------
    loss : SquaredLossOn
        f, on some samples.
    penalties : sequence
        Objects with ``value``, ``prox`` and ``polar`` (or ``conjugate``).
    tol, max_iter : float, int
        Relative gap to reach, and iteration limit.

    Returns
    -------
    Solution
        ``loadings`` is U with Ω = UUᵀ where a penalty asks for a symmetric matrix, otherwise Ωᵀ:
        one row for each feature.
    """
    problem = _Blocks(loss, penalties)
    trace = Trace(tol, max_iter, "duality gap", known=loss.empty)
    result = run_splitting(problem, problem.point(problem.zero()), trace, scale=1.0)
    omega = result.best.omega
    diagnostics = {
        "step size": result.copies.steps[0],
        "primal residual": result.residuals[0][0],
        "dual residual": result.residuals[0][1],
    }
    loadings = omega.T
    if problem.symmetric:
        loadings = factor_on(omega, column_norms(omega) > 0)
        diagnostics["rank"] = float(loadings.shape[1])
    gap = relative_gap(result.best.objective, result.lower_bound)
    return trace.solution(loadings, result.best.objective, gap, diagnostics)


@dataclass(frozen=True)
class _Point:
    objective: float
    omega: Array


class _Blocks:
    """One block for each penalty, all in the coordinates of the features."""

    def __init__(self, loss: SquaredLossOn, penalties: Sequence[Any]) -> None:
        self.loss, self.penalties = loss, tuple(penalties)
        self.symmetric = any(getattr(penalty, "symmetric", False) for penalty in penalties)
        self.groups: tuple[tuple[int, ...], ...] = (tuple(range(len(self.penalties))),)

    def zero(self) -> Array:
        """Return Ω = 0."""
        xp = array_namespace(self.loss.scatter)
        return xp.zeros_like(self.loss.scatter)

    def point(self, omega: Array) -> _Point:
        """Return a matrix with its objective, infinite where a penalty is."""
        value = self.loss.value(omega)
        return _Point(value + sum(penalty.value(omega) for penalty in self.penalties), omega)

    def start(self) -> tuple[Arrays, tuple[float, ...]]:
        """Start from what a ridge of the size of the step would leave."""
        xp = array_namespace(self.loss.scatter)
        values, vectors = self.loss.spectrum.values, self.loss.spectrum.vectors
        typical = float(xp.sum(values**2))  # of eigenvalues that sum to 1
        share = first_share(values, 0.0, typical)
        omega = (vectors * share) @ vectors.T
        rho = FIRST_STEP * typical * self.loss.spectrum.trace
        return (omega,) * len(self.penalties), (rho,)

    def split(
        self, targets: Arrays, steps: tuple[float, ...], rescale: tuple[float, ...]
    ) -> Copies:
        """Every penalty's step from its target, then Ω from all of them."""
        (rho,), (factor,) = steps, rescale
        values = tuple(
            penalty.prox(target, 1 / rho)
            for penalty, target in zip(self.penalties, targets, strict=True)
        )
        duals = tuple(t - z for t, z in zip(targets, values, strict=True))
        if factor != 1:
            duals, rho = tuple(dual / factor for dual in duals), rho * factor
        count = len(values)
        centre = sum(z - y for z, y in zip(values, duals, strict=True)) / count
        if self.symmetric:
            centre = symmetric_part(centre)
        omega = self.loss.nearest(centre, count * rho, symmetric=self.symmetric)
        return Copies((omega,) * count, values, duals, (rho,))

    def candidate(self, copies: Copies) -> _Point:
        """Return the best of the blocks, each cut down to the features that all of them keep."""
        xp = array_namespace(*copies.values)
        kept = column_norms(copies.values[0]) > 0
        for value in copies.values[1:]:
            kept = kept & (column_norms(value) > 0)
        mask = xp.astype(kept, copies.values[0].dtype)
        points = []
        for value in copies.values:
            cut = value * mask[None, :]
            if self.symmetric:
                cut = symmetric_part(cut * mask[:, None])
            points.append(self.point(cut))
        return min(points, key=lambda point: point.objective)

    def lower_bound(self, copies: Copies, *, thorough: bool) -> float:
        """Return the best bound over the penalty that takes what the others leave."""
        del thorough  # the cheap bound is the only one
        omega, rho = copies.agreed[0], copies.steps[0]
        pull = -self.loss.gradient(omega)
        if self.symmetric:
            pull = symmetric_part(pull)
        own = [rho * dual for dual in copies.duals]
        rest = pull - sum(own)
        bounds = (
            self._bound(omega, [m + rest if k == taker else m for k, m in enumerate(own)])
            for taker in range(len(own))
        )
        return max(0.0, *bounds)  # losses and penalties are never below 0

    def _bound(self, omega: Array, multipliers: list[Array]) -> float:
        longest, conjugates = 1.0, []
        for penalty, matrix in zip(self.penalties, multipliers, strict=True):
            if hasattr(penalty, "conjugate"):
                conjugates.append((penalty, matrix))
            else:
                longest = max(longest, penalty.polar(matrix))
        if not math.isfinite(longest):
            return -math.inf
        most = 1 / longest
        shares = {most, max(0.0, min(most, self.loss.best_share(omega)))}
        return max(
            self.loss.bound(omega, share)
            - sum(penalty.conjugate(share * matrix) for penalty, matrix in conjugates)
            for share in shares
        )
