r"""Exact solution of the convex model by operator splitting on p × p matrices.

Ω is copied three times, one copy for each difficulty: Ω itself carries the quadratic (solved in
closed form in the eigenbasis of S), Z₁ the cone and the trace (one eigendecomposition), Z₂ the
column norms (a shrinkage). In the notation of :mod:`~jointsparse.solvers.splitting`:

.. math:: Z_1 = \operatorname{prox}_{\eta\operatorname{tr}/\rho,\ \succeq 0}(T_1),\quad
          Z_2 = \operatorname{prox}_{\lambda\|\cdot\|_{2,1}/\rho}(T_2),\quad Y = T - Z,

.. math:: \tilde\Omega_{ij} = \frac{[2S + \rho(Z_1-Y_1) + \rho\operatorname{sym}(Z_2-Y_2)]_{ij}}
                                   {s_i+s_j+2\rho}.

The multiplier λV = ρY₂ always has columns of norm at most λ, so it certifies the solution at any
time. The returned Ω is the principal submatrix of Z₁ on the nonzero columns of Z₂: still positive
semidefinite, with exact zeros elsewhere, and the gap is that of this matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import array_namespace

from jointsparse.linalg import Array, Spectrum, add_to_diagonal, column_norms, symmetric_part
from jointsparse.projections import from_eigenpairs, positive_eigenpairs
from jointsparse.solvers.acceleration import Arrays
from jointsparse.solvers.certificate import dual_value, relative_gap
from jointsparse.solvers.convex_model import ConvexModel, factor_on
from jointsparse.solvers.solution import Solution, Trace
from jointsparse.solvers.splitting import Copies, run_splitting

INITIAL_STEP = 2.0  # ρ in units of η + λ; see RELAXATION in the splitting loop for how it was found


@dataclass(frozen=True)
class SplittingState:
    """Copies and multipliers ρY in the coordinates of the features, for a warm start."""

    cone: Array
    columns: Array
    cone_multiplier: Array
    columns_multiplier: Array
    rho: float
    lam: float


def solve_splitting(
    spectrum: Spectrum,
    lam: float,
    eta: float,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    start: SplittingState | None = None,
    keep_state: bool = False,
) -> Solution:
    """Solve the convex model to a certified relative gap.

    Parameters
    ----------
    spectrum : Spectrum
        Eigendecomposition of the scatter matrix.
    lam, eta : float
        Penalties in the units of the scatter matrix; at least 0, not both 0.
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Iteration limit.
    start : SplittingState or None
        State of an earlier solution to start from.
    keep_state : bool
        Whether to return the state for a later warm start (four p × p arrays).

    Returns
    -------
    Solution
        ``loadings`` is U with Ω = UUᵀ and exactly zero rows for the features left out.
    """
    model = ConvexModel.in_data_units(spectrum, lam, eta)
    problem = _SquaredLoss(model)
    trace = Trace(tol, max_iter, "duality gap", known=spectrum.trace)  # that of Ω = 0
    result = run_splitting(
        problem,
        _Candidate.empty(model),
        trace,
        scale=spectrum.trace,
        start=None if start is None else problem.resume(start),
    )
    factor = factor_on(result.best.block, result.best.kept)
    objective = model.objective_of_factor(factor)
    gap = relative_gap(objective, result.lower_bound)
    trace.measure = gap
    return Solution(
        loadings=factor,
        objective=objective * spectrum.trace,
        gap=gap,
        history=trace.history,
        gap_history=trace.gap_history,
        n_iter=len(trace.history),
        converged=trace.converged,
        reason=trace.reason,
        diagnostics={
            "rank": float(factor.shape[1]),
            "step size": result.copies.steps[0],
            "primal residual": result.residuals[0][0],
            "dual residual": result.residuals[0][1],
        },
        state=problem.save(result.copies) if keep_state else None,
    )


class _SquaredLoss:
    """The blocks: 0 is the cone, in the eigenbasis of S; 1 the columns, mixed (VᵀZ₂)."""

    groups: tuple[tuple[int, ...], ...] = ((0, 1),)

    def __init__(self, model: ConvexModel) -> None:
        self.model = model
        self.s, self.vectors = model.spectrum.values, model.spectrum.vectors

    def start(self) -> tuple[Arrays, tuple[float, ...]]:
        """Start at the optimum without column norms, with the multipliers that fit it.

        Multipliers that satisfy the stationarity of Ω at the start save about half of the
        iterations against multipliers of zero.
        """
        xp = array_namespace(self.s)
        model, s = self.model, self.s
        rho = INITIAL_STEP * (model.eta + model.lam)
        guess = xp.clip(s - model.eta / 2, 0.0, None) / (s + model.lam / 2)
        columns = guess[:, None] * self.vectors.T
        norms = column_norms(columns)
        directions = columns / xp.where(norms > 0, norms, xp.ones_like(norms))
        columns_dual = directions * (model.lam / rho)
        cone = -symmetric_part(columns_dual @ self.vectors)
        add_to_diagonal(cone, guess + 2 * s * (1 - guess) / rho)
        return (cone, columns + columns_dual), (rho,)

    def split(
        self, targets: Arrays, steps: tuple[float, ...], rescale: tuple[float, ...]
    ) -> Copies:
        """Cone and columns from their targets, then Ω from both in closed form."""
        (rho,), (factor,) = steps, rescale
        s, vectors = self.s, self.vectors
        cone = from_eigenpairs(*positive_eigenpairs(targets[0], self.model.eta / rho))
        columns = self.model.penalty.prox(targets[1], 1 / rho)
        cone_dual = (targets[0] - cone) / factor
        columns_dual = (targets[1] - columns) / factor
        rho = rho * factor
        right = rho * (cone - cone_dual + symmetric_part((columns - columns_dual) @ vectors))
        smooth = add_to_diagonal(right, 2 * s) / (s[:, None] + s[None, :] + 2 * rho)
        agreed = (smooth, smooth @ vectors.T)
        return Copies(agreed, (cone, columns), (cone_dual, columns_dual), (rho,))

    def lower_bound(self, copies: Copies) -> float:
        """Certify with Ω and the multiplier of the columns."""
        multiplier = symmetric_part((copies.steps[0] * copies.duals[1]) @ self.vectors)
        return dual_value(self.model, copies.agreed[0], multiplier)

    def candidate(self, copies: Copies) -> _Candidate:
        """Cut the cone's copy down to the features that the columns' copy keeps."""
        cone, columns = copies.values
        return _Candidate.of(self.model, cone, column_norms(columns) > 0)

    def save(self, copies: Copies) -> SplittingState:
        """Return the iterate in the coordinates of the features."""
        (rho,), vectors = copies.steps, self.vectors
        return SplittingState(
            cone=vectors @ copies.values[0] @ vectors.T,
            columns=vectors @ copies.values[1],
            cone_multiplier=rho * (vectors @ copies.duals[0] @ vectors.T),
            columns_multiplier=rho * (vectors @ copies.duals[1]),
            rho=rho,
            lam=self.model.lam,
        )

    def resume(self, start: SplittingState) -> tuple[Arrays, tuple[float, ...]]:
        """Carry an earlier iterate over; multipliers of columns scale with λ, as their bound."""
        growth = self.model.lam / start.lam if start.lam > 0 else 0.0
        cone = start.cone + start.cone_multiplier / start.rho
        columns = start.columns + start.columns_multiplier * (growth / start.rho)
        return (self.vectors.T @ cone @ self.vectors, self.vectors.T @ columns), (start.rho,)


@dataclass(frozen=True)
class _Candidate:
    """A feasible Ω: the principal submatrix ``block`` on the features ``kept``, zero elsewhere."""

    objective: float
    block: Array
    kept: Array

    @classmethod
    def empty(cls, model: ConvexModel) -> _Candidate:
        xp = array_namespace(model.spectrum.values)
        vectors = model.spectrum.vectors
        return cls(1.0, vectors[:0, :0], xp.zeros(vectors.shape[0], dtype=xp.bool))

    @classmethod
    def of(cls, model: ConvexModel, cone: Array, kept: Array) -> _Candidate:
        xp = array_namespace(cone)
        vectors = model.spectrum.vectors
        mixed = cone @ vectors.T
        # Entry (i, j) of Ω lives on kept features only, so the rows of V that belong to dropped
        # features can be left out of every product.
        rows = vectors[kept, :]
        block = symmetric_part(rows @ mixed[:, kept])
        if bool(xp.all(kept)):
            objective = model.objective(cone, mixed)
        else:
            objective = model.objective(rows.T @ block @ rows, block)
        return cls(objective, block, kept)
