r"""Exact solution of the convex model when the optimum has low rank, without a p × p decomposition.

In rounds, the model is solved on Ω = W Ω̃ Wᵀ for a p × m orthonormal W with WᵀSW = diag(s)
(:mod:`~jointsparse.solvers.convex.low_rank_basis`, :mod:`~jointsparse.solvers.convex.splitting`),
the solution is certified as one of the *whole* model, and W takes in what the certificate misses.

The restricted problem has an m × m unknown and m × p multipliers, and its iterations cost
O(pm²). S is reached through products only (:mod:`~jointsparse.solvers.wide.scatter_access`): where
it is a matrix, the only work that is cubic in p is one Cholesky factorisation; where it is XᵀX for
few samples, there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from jointsparse.arrays import Array
from jointsparse.linalg import (
    Spectrum,
    add_to_diagonal,
    array_namespace,
    column_norms,
    double,
    eigh,
    symmetric_part,
)
from jointsparse.solvers.convex.acceleration import Arrays
from jointsparse.solvers.convex.certificate import MatrixDual, relative_gap
from jointsparse.solvers.convex.loop import Copies, run_splitting
from jointsparse.solvers.convex.low_rank_basis import Basis, DualPoint, Scatter
from jointsparse.solvers.convex.model import ConvexModel, capped_penalty, factor_scores, first_share
from jointsparse.solvers.convex.splitting import INITIAL_STEP, SquaredLoss
from jointsparse.solvers.convex.stationarity import Stationarity
from jointsparse.solvers.solution import Solution, Trace
from jointsparse.solvers.wide.scatter_access import MatrixScatter

MOST_ROUNDS = 10
LONGEST_ROUND = 100  # iterations
# W may have this share of p columns, or this number, whichever is more. Beyond, decompositions of
# m × m matrices and products with W cost what the p × p solver costs.
LARGEST_SHARE = 1 / 3
LARGEST_ALWAYS = 128
# A basis is left when the distance from its own optimum is below this share of the gap. With 0.1
# hard problems take half as many iterations again, with 0.8 one run in three takes a round more.
EXHAUSTED = 0.3


@dataclass(frozen=True)
class LowRankState:
    """Where a run ended, and what holds for every other lam on the same S with the same eta."""

    scatter: Any
    eta: float
    leading: tuple[Basis, float] | None
    factor: Array


def solve_low_rank(
    scatter: Array | Scatter,
    lam: float,
    eta: float,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    start: LowRankState | None = None,
    most_leading: int | None = None,
    largest_share: float | None = None,
    most_columns: int | None = None,
) -> Solution[LowRankState | None]:
    """Solve the convex model to a certified relative gap, fast if few 2s_i are above eta.

    Parameters
    ----------
    scatter : array of shape (n_features, n_features) or Scatter
        S, not zero.
    lam, eta : float
        Penalties in the units of S; lam at least 0, eta positive.
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Limit on the iterations of the splitting loop, over all rounds.
    start : LowRankState or None
        ``state`` of an earlier solution. Of use for the same S (the very array) and eta only.
    most_leading : int or None
        Give up at once where more than this many eigenvectors of S matter; None allows as many as
        the basis may hold.
    largest_share : float or None
        Columns that the basis may have, as a share of the features; None is what pays where p × p
        matrices are the alternative.
    most_columns : int or None
        Columns that there is memory for; None sets no such limit.

    Returns
    -------
    Solution
        ``loadings`` is U with Ω = UUᵀ and exactly zero rows for the features left out. Not
        converged, with a valid gap all the same, where the basis would grow too large; then the
        p × p solver (:func:`~jointsparse.solvers.convex.splitting.solve_splitting`) is the right
        one. ``dual`` is a :class:`~jointsparse.solvers.convex.certificate.MatrixDual`, of the last
        round.
    """
    if eta <= 0 or lam < 0:
        raise ValueError(f"eta must be positive and lam at least 0, not {eta} and {lam}")
    if start is not None and (start.scatter is not scatter or start.eta != eta):
        start = None
    access, given = as_scatter(scatter), scatter
    total = access.total
    share = LARGEST_SHARE if largest_share is None else largest_share
    row, rank = capped_penalty(lam, total), capped_penalty(eta, total)
    rounds = _Rounds(access, row, rank, share, _RoundsTrace(tol, max_iter, total))
    if most_columns is not None:
        rounds.largest = min(rounds.largest, most_columns)
    if start is None or start.leading is None:
        most = rounds.largest if most_leading is None else most_leading
        leading = access.leading(rank, most)
    else:
        leading = start.leading
    if leading is None:
        return rounds.solution()
    ended_well = rounds.run(*leading, start)
    solution = replace(rounds.solution(), dual=rounds.dual)
    if not ended_well:
        return solution
    return replace(solution, state=LowRankState(given, eta, leading, solution.loadings))


def as_scatter(scatter: Array | Scatter) -> Scatter:
    """Wrap a scatter matrix; anything that is :class:`Scatter` already is returned as it is."""
    if hasattr(scatter, "form_without"):
        return scatter
    matrix = double(scatter)
    return MatrixScatter(matrix, float(array_namespace(matrix).linalg.trace(matrix)))


@dataclass(frozen=True)
class _Candidate:
    """A feasible Ω = UUᵀ."""

    objective: float
    factor: Array


class _RoundsTrace(Trace):
    """One history for all rounds. A round also ends when its basis has given what it has."""

    def __init__(self, tol: float, max_iter: int, total: float) -> None:
        super().__init__(tol, max_iter, "duality gap", known=total)  # that of Ω = 0
        self.total, self.most = total, max_iter
        self.done = 0  # iterations of earlier rounds
        self.own_gap = float("inf")  # absolute distance from the optimum in this basis, for trace 1

    @property
    def left(self) -> int:
        """Iterations that may still be made."""
        return self.most - len(self.history)

    def next_round(self) -> None:
        """Count the iterations of a round from here."""
        self.done, self.own_gap = len(self.history), float("inf")
        self.max_iter = min(LONGEST_ROUND, self.left)

    def record(
        self, iteration: int, objective: float, *, gap: float | None = None, measure: float
    ) -> bool:
        """Note the objective after an iteration of the round; return whether the round may end."""
        super().record(self.done + iteration, objective, gap=gap, measure=measure)
        return self.converged or self.own_gap * self.total <= EXHAUSTED * measure * objective


class RestrictedLoss(SquaredLoss):
    """The blocks of the model on Ω = W Ω̃ Wᵀ, with points and bounds of the whole model."""

    def __init__(
        self,
        scatter: Scatter,
        basis: Basis,
        beta: float,
        lam: float,
        eta: float,
        trace: _RoundsTrace,
    ) -> None:
        # Bounds and points are made with W in float64; the iterates may be stored in float32.
        xp = array_namespace(basis.vectors)
        stored = xp.astype(basis.vectors, scatter.empty.dtype, copy=False)
        super().__init__(ConvexModel(Spectrum(basis.values, stored, 1.0), lam, eta))
        self.scatter, self.basis, self.beta, self.trace = scatter, basis, beta, trace
        self.bound = 0.0
        self._point: DualPoint | None = None
        self._limit, self._apart = 0.0, False  # of its bounds; whether C is better taken out of H
        self._own_objective = 1.0
        self._carried: tuple[Arrays, tuple[float, ...]] | None = None

    def carry(self, copies: Copies, turn: Array) -> None:
        """Start where an earlier round ended; ``turn`` takes its coordinates to the new ones."""
        cone, columns = (z + y for z, y in zip(copies.values, copies.duals, strict=True))
        self._carried = (turn @ cone @ turn.T, self._stored(turn) @ columns), copies.steps

    def predict(self, stationarity: Stationarity) -> None:
        """Start where stationarity expects the optimum, given a solution for other penalties."""
        model, s, vectors = self.model, self.s, self.vectors
        step = INITIAL_STEP * (model.eta + model.lam)
        directions = self._stored(stationarity.multiplier(self.basis.vectors))
        norms = self._stored(stationarity.norms)
        rotated = symmetric_part(double((directions * norms) @ vectors))
        half = s[:, None] * rotated
        slope = -half - half.T - model.lam * symmetric_part(double(directions @ vectors))
        cone = rotated + add_to_diagonal(slope, 2 * s) / step
        self._carried = (cone, directions * (norms + model.lam / step)), (step,)

    def start(self) -> tuple[Arrays, tuple[float, ...]]:
        """Return the targets carried over, if there are any."""
        # Given as ``start`` to the loop, they would be certified at once, for nothing.
        return super().start() if self._carried is None else self._carried

    def candidate(self, copies: Copies) -> _Candidate:
        """Cut the cone's copy down to the features that the columns' copy keeps."""
        xp = array_namespace(self.s)
        lam, eta = self.model.lam, self.model.eta
        factor, images = self.factor()
        inner = factor.T @ images
        self._own_objective = objective = _objective(inner, factor, lam, eta)
        dropped = column_norms(copies.values[1]) == 0
        if bool(xp.any(dropped)):
            inner = self.scatter.form_without(dropped, factor, images, inner)
            factor[dropped, :] = 0.0
            objective = _objective(inner, factor, lam, eta)
            self._own_objective = min(objective, self._own_objective)
        return _Candidate(objective, factor)

    def factor(self) -> tuple[Array, Array]:
        """Return U with orthogonal columns and UUᵀ = Ω of the last cone's copy, and SU."""
        values, vectors = self._cone_pairs
        kept = values > 1e-12  # Ω ⪯ I, so this is rounding
        weights = vectors[:, kept] * values[kept] ** 0.5
        return self.basis.vectors @ weights, self.basis.images @ weights

    def dual_point(self, copies: Copies) -> DualPoint:
        """Ω and the multiplier of the columns."""
        pull = copies.steps[0] * copies.duals[1]
        return DualPoint(self.model, self.basis, self.beta, self.consistent(copies), pull)

    def lower_bound(self, copies: Copies, *, thorough: bool = False) -> float:
        """Certify for the whole model, and note how far the optimum in this basis is."""
        if thorough:
            return self.bound  # asked for the second time at this iterate
        self._point = point = self.dual_point(copies)
        found = point.certificate()
        self.bound, self._limit, self._apart = max(self.bound, found.value), found.limit, False
        if self._unproved():
            other = point.uncoupled()
            self.bound, self._limit = max(self.bound, other.value), max(self._limit, other.limit)
            self._apart = other.value > found.value
        if self._unproved():
            # Only where it is not over yet does it matter how much this basis has left to give.
            self.trace.own_gap = self._own_objective - point.own_bound()
        return self.bound

    def _unproved(self) -> bool:
        return relative_gap(self._own_objective, self.bound) > self.trace.tol

    def matrix_dual(self) -> MatrixDual | None:
        """Return the dual point of the last bound."""
        if self._point is None:
            return None
        return MatrixDual(self.basis.vectors, self._point.rotated, self._limit)

    def missing(self, room: int) -> Array:
        """Return directions that the basis lacks, unless there are more than it has room for.

        Where the multipliers can take out of H what leads to them, the bound does without.
        """
        nothing = double(self.scatter.empty)
        if self._point is None:
            return nothing
        missing = self._point.missing()
        return nothing if self._apart and missing.shape[1] > room else missing


class _Rounds:
    """The rounds, with the best point and the best bound so far; penalties for trace 1."""

    def __init__(
        self, scatter: Scatter, lam: float, eta: float, share: float, trace: _RoundsTrace
    ) -> None:
        self.scatter, self.lam, self.eta, self.trace = scatter, lam, eta, trace
        self.largest = max(int(share * scatter.empty.shape[0]), LARGEST_ALWAYS)
        self.best = self.first = _Candidate(1.0, double(scatter.empty))
        self.bound = 0.0
        self.count = self.size = 0
        self.obstacle = "too many directions matter"
        self.dual: MatrixDual | None = None  # of the last round

    def run(self, basis: Basis, beta: float, start: LowRankState | None) -> bool:
        """Solve, certify and enlarge the basis in turns; return whether nothing was in the way."""
        if self._empty(basis):
            self.bound = 1.0
            nothing = double(self.scatter.empty)
            self.dual = MatrixDual(nothing, nothing[:0, :], 1.0)
            return False
        factor, images = self._guess(basis)
        self.first, known = self._point(factor, images), False
        if start is not None and start.factor.shape[1] > 0:
            earlier = double(start.factor)
            its_images = self.scatter.times(earlier)
            point = self._point(earlier, its_images)
            # Far from its own penalties a solution is a worse start than none.
            if point.objective < self.first.objective:
                self.first, known = point, True
                factor, images = earlier, its_images
        missing, copies, origin = double(self.scatter.empty), None, basis
        while self.count < MOST_ROUNDS:
            expected = self._expected(factor, images)
            larger = basis.enlarged(self.scatter, self._columns(expected, missing))
            if larger.size > self.largest:
                return False
            loss = RestrictedLoss(self.scatter, larger, beta, self.lam, self.eta, self.trace)
            loss.bound = self.bound
            if copies is not None:
                loss.carry(copies, larger.vectors.T @ origin.vectors)
            elif known and expected is not None:
                loss.predict(expected)
            basis = origin = larger
            self.trace.next_round()
            # A larger basis starts from where a smaller one ended, not quite in balance.
            delay = 0 if copies is None else 1
            result = run_splitting(loss, self.best, self.trace, scale=self.trace.total, delay=delay)
            self.best, self.bound, copies = result.best, loss.bound, result.copies
            self.dual = loss.matrix_dual()
            self.count, self.size = self.count + 1, basis.size
            if self.trace.converged or self.trace.left == 0:
                return True
            factor, images = loss.factor()
            missing = loss.missing(self.largest - basis.size - factor.shape[1])
        self.obstacle = f"{MOST_ROUNDS} rounds were not enough"
        return False

    def _empty(self, basis: Basis) -> bool:
        """Whether 2S ⪯ ηI, so that Ω = 0 with V = 0 is optimal."""
        if bool(array_namespace(basis.values).any(2 * basis.values >= self.eta)):
            return False
        nothing = Basis(basis.values[:0], basis.vectors[:, :0], basis.images[:, :0])
        return self.scatter.proved_bound(nothing, self.eta) is not None

    def _guess(self, basis: Basis) -> tuple[Array, Array]:
        """U and SU of the optimum without column norms, where the splitting starts too."""
        xp = array_namespace(basis.values)
        first = first_share(basis.values, self.eta / 2, self.lam / 2)
        weights = xp.sqrt(first[first > 0])
        return basis.vectors[:, first > 0] * weights, basis.images[:, first > 0] * weights

    def _point(self, factor: Array, images: Array) -> _Candidate:
        return _Candidate(_objective(factor.T @ images, factor, self.lam, self.eta), factor)

    def _expected(self, factor: Array, images: Array) -> Stationarity | None:
        """Return what U and SU lead to, where there are column norms and U is not empty."""
        if self.lam == 0 or factor.shape[1] == 0:
            return None
        return Stationarity.of(factor, images, self.lam, self.eta)

    def _columns(self, expected: Stationarity | None, missing: Array) -> Array:
        """Return what the basis of the next round should hold."""
        if expected is None:
            return missing
        return array_namespace(missing).concat([expected.columns(), missing], axis=1)

    def solution(self) -> Solution:
        """Return the best point, with its objective computed anew."""
        # The first point has no zeros that the penalties asked for: only where nothing better came.
        if not self.trace.converged and self.first.objective < self.best.objective:
            self.best = self.first
        xp, trace = array_namespace(self.best.factor), self.trace
        _, rotation = eigh(self.best.factor.T @ self.best.factor)
        stored = self.best.factor @ xp.flip(rotation, axis=1)  # orthogonal, the longest first
        stored = xp.astype(stored, self.scatter.empty.dtype, copy=False)
        factor = double(stored)
        inner = factor.T @ self.scatter.times(factor)
        objective = _objective(inner, factor, self.lam, self.eta)
        gap = relative_gap(objective, self.bound)
        trace.max_iter = trace.most
        sizes = {"rank": factor.shape[1], "basis size": self.size, "rounds": self.count}
        diagnostics = {name: float(size) for name, size in sizes.items()}
        solution = trace.solution(stored, objective * trace.total, gap, diagnostics)
        if solution.converged or trace.left == 0:
            return solution
        reason = f"{self.obstacle}: {trace.measure_name} {gap:.1e} above {trace.tol:.1e}"
        return replace(solution, reason=reason)


def _objective(inner: Array, factor: Array, lam: float, eta: float) -> float:
    """Objective at Ω = UUᵀ from UᵀSU and U, for trace 1."""
    xp = array_namespace(inner)
    gram = factor.T @ factor
    smooth = 1 - 2 * float(xp.linalg.trace(inner)) + float(xp.sum(inner * gram))
    sparsity = lam * float(xp.sum(factor_scores(factor)))
    return smooth + sparsity + eta * float(xp.linalg.trace(gram))
