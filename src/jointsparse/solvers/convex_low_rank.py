r"""Exact solution of the convex model when the optimum has low rank, without a p × p decomposition.

In rounds, the model is solved on Ω = W Ω̃ Wᵀ for a p × m orthonormal W with WᵀSW = diag(s)
(:mod:`~jointsparse.solvers.low_rank_basis`, :mod:`~jointsparse.solvers.convex_splitting`), the
solution is certified as one of the *whole* model, and W takes in what the certificate misses.

The restricted problem has an m × m unknown and m × p multipliers, and its iterations cost
O(pm²); the only work that is cubic in p is one Cholesky factorisation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from jointsparse.linalg import (
    Array,
    Spectrum,
    array_namespace,
    column_norms,
    double,
    eigh,
    positive_part,
)
from jointsparse.solvers.acceleration import Arrays
from jointsparse.solvers.certificate import relative_gap
from jointsparse.solvers.convex_model import ConvexModel, factor_scores
from jointsparse.solvers.convex_splitting import SquaredLoss
from jointsparse.solvers.low_rank_basis import (
    Basis,
    DualPoint,
    leading_basis,
    proved_bound,
    stationary_columns,
)
from jointsparse.solvers.solution import Solution, Trace
from jointsparse.solvers.splitting import Copies, run_splitting

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

    scatter: Array
    eta: float
    leading: tuple[Basis, float]
    basis: Basis
    copies: Copies
    factor: Array


def solve_low_rank(
    scatter: Array,
    lam: float,
    eta: float,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    start: LowRankState | None = None,
    most_leading: int | None = None,
) -> Solution:
    """Solve the convex model to a certified relative gap, fast if few 2s_i are above eta.

    Parameters
    ----------
    scatter : array of shape (n_features, n_features)
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

    Returns
    -------
    Solution
        ``loadings`` is U with Ω = UUᵀ and exactly zero rows for the features left out. Not
        converged, with a valid gap all the same, where the basis would grow too large; then the
        p × p solver (:func:`~jointsparse.solvers.convex_splitting.solve_splitting`) is the right
        one.
    """
    if eta <= 0 or lam < 0:
        raise ValueError(f"eta must be positive and lam at least 0, not {eta} and {lam}")
    if start is not None and (start.scatter is not scatter or start.eta != eta):
        start = None
    given, scatter = scatter, double(scatter)
    total = float(array_namespace(scatter).linalg.trace(scatter))
    rounds = _Rounds(scatter, lam / total, eta / total, _RoundsTrace(tol, max_iter, total))
    if start is None:
        most = rounds.largest if most_leading is None else most_leading
        leading = leading_basis(scatter, total, eta / total, most)
    else:
        leading = start.leading
    if leading is None:
        return rounds.solution()
    last = rounds.run(*leading, start)
    solution = rounds.solution()
    if last is None:
        return solution
    return replace(solution, state=LowRankState(given, eta, leading, *last, solution.loadings))


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
        scatter: Array,
        basis: Basis,
        beta: float,
        lam: float,
        eta: float,
        trace: _RoundsTrace,
    ) -> None:
        super().__init__(ConvexModel(Spectrum(basis.values, basis.vectors, 1.0), lam, eta))
        self.scatter, self.basis, self.beta, self.trace = scatter, basis, beta, trace
        self.bound = 0.0
        self._point: DualPoint | None = None
        self._own_objective = 1.0
        self._carried: tuple[Arrays, tuple[float, ...]] | None = None

    def carry(self, copies: Copies, turn: Array) -> None:
        """Start where an earlier round ended; ``turn`` takes its coordinates to the new ones."""
        cone, columns = (z + y for z, y in zip(copies.values, copies.duals, strict=True))
        self._carried = (turn @ cone @ turn.T, turn @ columns), copies.steps

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
            # UᵀSU of the rows that stay, from the products at hand
            lost = factor[dropped, :]
            cross = lost.T @ images[dropped, :]
            square = lost.T @ (self.scatter[dropped, :][:, dropped] @ lost) / self.trace.total
            factor[dropped, :] = 0.0
            objective = _objective(inner - cross - cross.T + square, factor, lam, eta)
            self._own_objective = min(objective, self._own_objective)
        return _Candidate(objective, factor)

    def factor(self) -> tuple[Array, Array]:
        """Return U with orthogonal columns and UUᵀ = Ω of the last cone's copy, and SU."""
        values, vectors = self._cone_pairs
        kept = values > 1e-12  # Ω ⪯ I, so this is rounding
        weights = vectors[:, kept] * values[kept] ** 0.5
        return self.vectors @ weights, self.basis.images @ weights

    def dual_point(self, copies: Copies) -> DualPoint:
        """Ω and the multiplier of the columns."""
        pull = copies.steps[0] * copies.duals[1]
        return DualPoint(self.model, self.basis.images, self.beta, self.consistent(copies), pull)

    def lower_bound(self, copies: Copies, *, thorough: bool = False) -> float:
        """Certify for the whole model, and note how far the optimum in this basis is."""
        if thorough:
            return self.bound  # asked for the second time at this iterate
        self._point = self.dual_point(copies)
        self.bound = max(self.bound, self._point.certificate().value)
        if relative_gap(self._own_objective, self.bound) > self.trace.tol:
            # Only where it is not over yet does it matter how much this basis has left to give.
            self.trace.own_gap = self._own_objective - self._point.own_bound()
        return self.bound

    def missing(self) -> Array:
        """Return directions that the basis lacks."""
        return self.scatter[:, :0] if self._point is None else self._point.missing()


class _Rounds:
    """The rounds, with the best point and the best bound so far; penalties for trace 1."""

    def __init__(self, scatter: Array, lam: float, eta: float, trace: _RoundsTrace) -> None:
        self.scatter, self.lam, self.eta, self.trace = scatter, lam, eta, trace
        self.largest = max(int(LARGEST_SHARE * scatter.shape[0]), LARGEST_ALWAYS)
        self.best = _Candidate(1.0, scatter[:, :0])
        self.bound = 0.0
        self.count = self.size = 0
        self.obstacle = "too many directions matter"

    def run(
        self, basis: Basis, beta: float, start: LowRankState | None
    ) -> tuple[Basis, Copies] | None:
        """Solve, certify and enlarge the basis in turns; return the last basis and iterate."""
        if self._empty(basis):
            self.bound = 1.0
            return None
        factor, images = self._guess(basis)
        missing, copies, origin = self.scatter[:, :0], None, basis
        if start is not None and start.factor.shape[1] > 0:
            factor, images = start.factor, self.scatter @ start.factor / self.trace.total
            copies, origin = start.copies, start.basis
        while self.count < MOST_ROUNDS:
            larger = basis.enlarged(
                self.scatter, self.trace.total, self._columns(factor, images, missing)
            )
            if larger.size > self.largest:
                return None
            loss = RestrictedLoss(self.scatter, larger, beta, self.lam, self.eta, self.trace)
            loss.bound = self.bound
            if copies is not None:
                loss.carry(copies, larger.vectors.T @ origin.vectors)
            basis = origin = larger
            self.trace.next_round()
            # A larger basis starts from where a smaller one ended, not quite in balance.
            delay = 0 if copies is None else 1
            result = run_splitting(loss, self.best, self.trace, scale=self.trace.total, delay=delay)
            self.best, self.bound, copies = result.best, loss.bound, result.copies
            self.count, self.size = self.count + 1, basis.size
            if self.trace.converged or self.trace.left == 0:
                return basis, copies
            factor, images = loss.factor()
            missing = loss.missing()
        self.obstacle = f"{MOST_ROUNDS} rounds were not enough"
        return None

    def _empty(self, basis: Basis) -> bool:
        """Whether 2S ⪯ ηI, so that Ω = 0 with V = 0 is optimal."""
        if bool(array_namespace(basis.values).any(2 * basis.values >= self.eta)):
            return False
        nothing = Basis(basis.values[:0], basis.vectors[:, :0], basis.images[:, :0])
        return proved_bound(self.scatter, self.trace.total, nothing, self.eta) is not None

    def _guess(self, basis: Basis) -> tuple[Array, Array]:
        """U and SU of the optimum without column norms, where the splitting starts too."""
        xp = array_namespace(self.scatter)
        first = positive_part(basis.values - self.eta / 2) / (basis.values + self.lam / 2)
        weights = xp.sqrt(first[first > 0])
        return basis.vectors[:, first > 0] * weights, basis.images[:, first > 0] * weights

    def _columns(self, factor: Array, images: Array, missing: Array) -> Array:
        """Return what the basis of the next round should hold."""
        if self.lam == 0 or factor.shape[1] == 0:
            return missing
        columns = stationary_columns(factor, images, self.lam, self.eta)
        return array_namespace(missing).concat([columns, missing], axis=1)

    def solution(self) -> Solution:
        """Return the best point, with its objective computed anew."""
        xp, trace = array_namespace(self.scatter), self.trace
        _, rotation = eigh(self.best.factor.T @ self.best.factor)
        factor = self.best.factor @ xp.flip(rotation, axis=1)  # orthogonal, the longest first
        inner = factor.T @ (self.scatter @ factor) / trace.total
        objective = _objective(inner, factor, self.lam, self.eta)
        gap = relative_gap(objective, self.bound)
        sizes = {"rank": factor.shape[1], "basis size": self.size, "rounds": self.count}
        diagnostics = {name: float(size) for name, size in sizes.items()}
        solution = trace.solution(factor, objective * trace.total, gap, diagnostics)
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
