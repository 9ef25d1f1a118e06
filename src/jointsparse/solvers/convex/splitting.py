r"""Exact solution of the convex model by operator splitting on p × p matrices.

Ω is copied three times, one copy for each difficulty: Ω itself carries the quadratic (solved in
closed form in the eigenbasis of S), Z₁ the cone and the trace (one eigendecomposition), Z₂ the
column norms (a shrinkage). In the notation of :mod:`~jointsparse.solvers.convex.loop`:

.. math:: Z_1 = \operatorname{prox}_{\eta\operatorname{tr}/\rho,\ \succeq 0}(T_1),\quad
          Z_2 = \operatorname{prox}_{\lambda\|\cdot\|_{2,1}/\rho}(T_2),\quad Y = T - Z,

.. math:: \tilde\Omega_{ij} = \frac{[2S + \rho(Z_1-Y_1) + \rho\operatorname{sym}(Z_2-Y_2)]_{ij}}
                                   {s_i+s_j+2\rho}.

The multiplier λV = ρY₂ always has columns of norm at most λ, so it certifies the solution at any
time. The returned Ω is the principal submatrix of Z₁ on the nonzero columns of Z₂: still positive
semidefinite, with exact zeros elsewhere, and the gap is that of this matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from jointsparse.arrays import Array
from jointsparse.device import free_bytes
from jointsparse.io.budget import allowed_memory
from jointsparse.linalg import (
    Spectrum,
    add_to_diagonal,
    array_namespace,
    column_norms,
    double,
    strips,
    symmetric_part,
    unit_columns,
)
from jointsparse.numerics.projections import from_eigenpairs, positive_eigenpairs
from jointsparse.solvers.convex.acceleration import Arrays
from jointsparse.solvers.convex.certificate import (
    MatrixDual,
    consistent_move,
    dual_point_of_cone,
    dual_value,
    dual_value_of_cone,
    relative_gap,
)
from jointsparse.solvers.convex.loop import (
    ACCELERATION_BYTES,
    ACCELERATION_MEMORY,
    Candidate,
    Copies,
    run_splitting,
)
from jointsparse.solvers.convex.model import ConvexModel, factor_on, first_share
from jointsparse.solvers.solution import Solution, Trace

CONSISTENT_RAISE = 1e-2  # of the denominators, in units of η + λ
# Ratio of two λ up to which the solution for one is a better start for the other than none.
NEAR = 2.0
INITIAL_STEP = 3.0  # ρ in units of η + λ: between 2 and 4 the iterations hardly change
# p × p matrices that exist at the same time in a fit that is split, besides earlier steps: those of
# the samples and of two halves, eigenvectors, two iterates and the best point, and a certificate.
# Measured 19 to 22.
MATRICES = 24
MOST_KEPT = 256  # rows of weights that are kept; beyond, products outweigh to compute them anew


@dataclass(frozen=True)
class SplittingState:
    """Copies and multipliers ρY, for a warm start: coordinates of the features, data units."""

    cone: Array
    columns: Array
    cone_multiplier: Array
    columns_multiplier: Array
    rho: float
    lam: float

    def is_near(self, lam: float) -> bool:
        """Whether a problem with this λ is better started from here than anew."""
        return self.lam <= NEAR * lam and lam <= NEAR * self.lam


def solve_splitting(
    spectrum: Spectrum,
    lam: float,
    eta: float,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    start: SplittingState | None = None,
    keep_state: bool = False,
    held: int = 0,
) -> Solution[SplittingState | None]:
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
        State of an earlier solution to start from, where its λ is near.
    keep_state : bool
        Whether to return the state for a later warm start (four p × p arrays), and the dual point.
    held : int
        How many more matrices of p × p whoever calls this holds.

    Returns
    -------
    Solution
        ``loadings`` is U with Ω = UUᵀ and exactly zero rows for the features left out.
    """
    model = ConvexModel.in_data_units(spectrum, lam, eta)
    problem = SquaredLoss(model)
    trace = Trace(tol, max_iter, "duality gap", known=spectrum.trace)  # that of Ω = 0
    result = run_splitting(
        problem,
        _Candidate.empty(model),
        trace,
        scale=spectrum.trace,
        start=problem.resume(start) if start is not None and start.is_near(lam) else None,
        acceleration_bytes=_acceleration_bytes(spectrum.vectors, MATRICES + held),
    )
    factor, objective = result.best.finish(model)
    gap = relative_gap(objective, result.lower_bound)
    diagnostics = {
        "rank": float(factor.shape[1]),
        "step size": result.copies.steps[0],
        "primal residual": result.residuals[0][0],
        "dual residual": result.residuals[0][1],
    }
    state = problem.save(result.copies) if keep_state else None
    solution = trace.solution(factor, objective * spectrum.trace, gap, diagnostics, state)
    return replace(solution, dual=problem.dual_of(result.copies)) if keep_state else solution


def _acceleration_bytes(vectors: Array, matrices: int) -> int:
    """Return what earlier steps may take: what the matrices without them leave of the memory."""
    matrix = 8 * vectors.shape[0] * vectors.shape[1]
    # The last step, which earlier ones are compared with, counts like one of them.
    wanted = (matrices + 4 + 4 * ACCELERATION_MEMORY) * matrix
    left = (free_bytes(vectors) or allowed_memory(wanted)) - matrices * matrix
    return max(0, min(ACCELERATION_BYTES, left - 4 * matrix))


class SquaredLoss:
    """The blocks: 0 is the cone, in the eigenbasis of S; 1 the columns, mixed (VᵀZ₂).

    V need not be square: with any p × m orthonormal V such that VᵀSV = diag(s), this is the model
    restricted to Ω = V Ω̃ Vᵀ. V may be float32 while s is float64; block 1 then is float32 too.
    """

    groups: tuple[tuple[int, ...], ...] = ((0, 1),)

    def __init__(self, model: ConvexModel) -> None:
        self.model = model
        self.s, self.vectors = model.spectrum.values, model.spectrum.vectors
        self._cached_weights: tuple[float, Array] | None = None

    def start(self) -> tuple[Arrays, tuple[float, ...]]:
        """Start at the optimum without column norms, with the multipliers that fit it.

        Multipliers that satisfy the stationarity of Ω at the start save about half of the
        iterations against multipliers of zero.
        """
        model, s = self.model, self.s
        rho = INITIAL_STEP * (model.eta + model.lam)
        guess = first_share(s, model.eta / 2, model.lam / 2)
        columns = self._stored(guess[:, None]) * self.vectors.T
        columns_dual = unit_columns(columns) * (model.lam / rho)
        cone = -symmetric_part(double(columns_dual @ self.vectors))
        add_to_diagonal(cone, guess + 2 * s * (1 - guess) / rho)
        return (cone, columns + columns_dual), (rho,)

    def split(
        self, targets: Arrays, steps: tuple[float, ...], rescale: tuple[float, ...]
    ) -> Copies:
        """Cone and columns from their targets, then Ω from both in closed form."""
        (rho,), (factor,) = steps, rescale
        # p × p arrays: what is of no more use goes before the next one comes, or is worked on in
        # place.
        (cone_target, columns_target), vectors = targets, self.vectors
        del targets
        self.__dict__.pop("_cone_pairs", None)
        self._cone_pairs = positive_eigenpairs(cone_target, self.model.eta / rho)
        cone = from_eigenpairs(*self._cone_pairs)
        cone_dual = cone_target - cone
        del cone_target
        columns = self.model.penalty.prox(columns_target, 1 / rho)
        columns_dual = columns_target - columns
        del columns_target
        if factor != 1:
            cone_dual /= factor
            columns_dual /= factor
            rho *= factor
        mixed = symmetric_part(double((columns - columns_dual) @ vectors))
        smooth = cone - cone_dual
        smooth += mixed
        del mixed
        self._weigh(add_to_diagonal(smooth, (2 / rho) * self.s), rho)
        agreed = (smooth, self._stored(smooth) @ vectors.T)
        return Copies(agreed, (cone, columns), (cone_dual, columns_dual), (rho,))

    def _weigh(self, matrix: Array, rho: float) -> None:
        """Multiply by ρ/(s_i + s_j + 2ρ), in place; few weights are kept until ρ changes."""
        if matrix.shape[0] > MOST_KEPT:
            scaled = self.s / rho
            for part in strips(*matrix.shape):
                matrix[part, :] *= 1 / (scaled[part, None] + (scaled + 2)[None, :])
            return
        if self._cached_weights is None or self._cached_weights[0] != rho:
            scaled = self.s / rho
            self._cached_weights = (rho, 1 / (scaled[:, None] + (scaled + 2)[None, :]))
        matrix *= self._cached_weights[1]

    def _stored(self, array: Array) -> Array:
        """Return an array in the dtype of the eigenvectors."""
        return array_namespace(array).astype(array, self.vectors.dtype, copy=False)

    def lower_bound(self, copies: Copies, *, thorough: bool) -> float:
        """Certify with the multipliers of both blocks."""
        if thorough:
            pull = copies.steps[0] * copies.duals[1]
            return dual_value(self.model, self.consistent(copies), pull)
        return dual_value_of_cone(self.model, copies.agreed[0], self.remainder(copies))

    def dual_of(self, copies: Copies) -> MatrixDual:
        """Return the dual point of the iterate."""
        return dual_point_of_cone(self.model, copies.agreed[0], self.remainder(copies))

    def remainder(self, copies: Copies) -> Array:
        """Return R = H - G, where G is the multiplier of the cone, at most ηI."""
        (rho,), (cone, columns) = copies.steps, copies.values
        mixed = symmetric_part(double(columns @ self.vectors))
        rest = 2 * copies.agreed[0]
        rest -= cone
        rest -= mixed
        rest *= rho
        return rest

    def consistent(self, copies: Copies) -> Array:
        """Return an Ω̃ moved so that H is nearly G: good for certificates long before convergence.

        See :func:`~jointsparse.solvers.convex.certificate.dual_value_of_cone`.
        """
        move = consistent_move(self.model, self.remainder(copies), raise_by=CONSISTENT_RAISE)
        move += copies.agreed[0]
        return symmetric_part(move)

    def candidate(self, copies: Copies) -> Candidate:
        """Cut the cone's copy down to the features that the columns' copy keeps."""
        cone, columns = copies.values
        pairs = self.__dict__.pop("_cone_pairs")  # kept by the candidate, where it has a use
        return _Candidate.of(self.model, cone, column_norms(columns) > 0, pairs)

    def save(self, copies: Copies) -> SplittingState:
        """Return the iterate in the coordinates of the features and the units of the data."""
        (rho,), vectors = copies.steps, self.vectors
        rho = rho * self.model.spectrum.trace
        return SplittingState(
            cone=vectors @ copies.values[0] @ vectors.T,
            columns=vectors @ copies.values[1],
            cone_multiplier=rho * (vectors @ copies.duals[0] @ vectors.T),
            columns_multiplier=rho * (vectors @ copies.duals[1]),
            rho=rho,
            lam=self.model.lam * self.model.spectrum.trace,
        )

    def resume(self, start: SplittingState) -> tuple[Arrays, tuple[float, ...]]:
        """Carry an earlier iterate over; multipliers of columns scale with λ, as their bound."""
        trace = self.model.spectrum.trace
        growth = self.model.lam * trace / start.lam if start.lam > 0 else 0.0
        cone = start.cone + start.cone_multiplier / start.rho
        columns = start.columns + start.columns_multiplier * (growth / start.rho)
        targets = (self.vectors.T @ cone @ self.vectors, self.vectors.T @ columns)
        return targets, (start.rho / trace,)


@dataclass(frozen=True)
class _Candidate:
    """A feasible Ω: the cone's copy cut down to the features ``kept``, zero elsewhere."""

    objective: float
    cone: Array
    kept: Array
    pairs: tuple[Array, Array] | None = None  # eigenpairs of the cone's copy, where all are kept

    @classmethod
    def empty(cls, model: ConvexModel) -> _Candidate:
        values = model.spectrum.values
        xp = array_namespace(values)
        p, m = model.spectrum.vectors.shape
        place = {"device": values.device}
        cone = xp.zeros((m, m), dtype=values.dtype, **place)
        return cls(1.0, cone, xp.zeros(p, dtype=xp.bool, **place))

    @classmethod
    def of(
        cls, model: ConvexModel, cone: Array, kept: Array, pairs: tuple[Array, Array]
    ) -> _Candidate:
        xp = array_namespace(cone)
        if bool(xp.all(kept)):
            objective = model.objective(cone, cone @ model.spectrum.vectors.T)
            return cls(objective, cone, kept, pairs)
        block = cls(1.0, cone, kept).block(model)
        rows = model.spectrum.vectors[kept, :]
        rotated = rows.T @ block @ rows
        del rows
        return cls(model.objective(rotated, block), cone, kept)

    def finish(self, model: ConvexModel) -> tuple[Array, float]:
        """Return U with Ω = UUᵀ, largest component first, and the objective at this Ω."""
        if self.pairs is None:
            factor = factor_on(self.block(model), self.kept)
            return factor, model.objective_of_factor(factor)
        xp = array_namespace(self.cone)
        values, vectors = self.pairs
        scaled = xp.flip(vectors * xp.sqrt(values), axis=1)
        return model.spectrum.vectors @ scaled, self.objective

    def block(self, model: ConvexModel) -> Array:
        """Return Ω on the kept features, in their coordinates."""
        rows = model.spectrum.vectors[self.kept, :]
        return symmetric_part(rows @ (self.cone @ rows.T))
