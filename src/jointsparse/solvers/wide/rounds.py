r"""The convex model for many features in a basis that holds all of range(Xᵀ): the fall-back.

It is for models that a small basis cannot hold (:mod:`~jointsparse.solvers.convex.low_rank`), where
η is 0 or so small that most directions of the samples matter. In rounds,

1. a working set of features and an orthonormal basis W of m ≪ p columns are chosen
   (:mod:`~jointsparse.solvers.wide.basis`);
2. the model restricted to Ω = W Ω̃ Wᵀ, whose unknown is m × m, is solved by the splitting loop
   (:mod:`~jointsparse.solvers.convex.splitting` with a rectangular W), from where the last round
   ended;
3. a dual point for *all* features is made from its multipliers
   (:mod:`~jointsparse.solvers.wide.certificate`) and bounds how far the point is from the optimum
   of the model itself, not of the restricted one;

until that bound is small enough. Basis and working set are heuristics, the bound is not.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from jointsparse.arrays import Array
from jointsparse.linalg import (
    Spectrum,
    array_namespace,
    column_norms,
    columns_of,
    long_product,
    sum_of_squares,
    symmetric_part,
    tall_product,
)
from jointsparse.solvers.convex.acceleration import Arrays
from jointsparse.solvers.convex.certificate import relative_gap
from jointsparse.solvers.convex.loop import Copies
from jointsparse.solvers.convex.model import ConvexModel, factor_scores
from jointsparse.solvers.convex.screening import gap_safe_screen
from jointsparse.solvers.convex.stationarity import Stationarity
from jointsparse.solvers.solution import Solution, Trace
from jointsparse.solvers.wide.basis import (
    RestrictedLoss,
    build_basis,
    change_basis,
    factor_in,
    sort_columns,
    without_rows,
)
from jointsparse.solvers.wide.certificate import (
    Frame,
    SampleDual,
    lower_bound,
    objective_of_factor,
    relieved,
)

FIRST_TOLERANCE = 3e-3  # gap of the restricted problem in the first, poor basis
RESUMED_TOLERANCE = 1e-4  # … in the first round from an earlier solution
LATER_TOLERANCE = 0.02  # … and later, as a share of the gap of the last round
LAST_TOLERANCE = 0.2  # … but not below this share of the tolerance, halved for every slow round
LONGEST_ROUND = 200  # iterations
SLOW = 0.2  # a round that leaves more than this share of the gap is slow: see build_basis
SMALL_NORM = 0.1  # column norms below this share of their median may leave the working set
COVERED = 0.98  # share of λ that a dual column may need for its feature to leave the working set


def solve_in_full_range(
    data: Array,
    lam: float,
    eta: float,
    total: float,
    *,
    tol: float,
    max_iter: int,
    first: Solution | None = None,
    factor: Array | None = None,
    max_rounds: int | None = None,
) -> Solution:
    """Solve the convex model on the features that are left.

    Parameters
    ----------
    data : array of shape (n_samples, n_features)
        Columns of X that may be nonzero.
    lam, eta : float
        Penalties in the units of XᵀX; lam positive, eta at least 0.
    total : float
        tr S over all features, those left out of ``data`` included.
    tol, max_iter : float, int
        Relative duality gap to reach; limit on the iterations, those of ``first`` included.
    first : Solution or None
        What another solver has reached: its point, bound and history are taken over.
    factor : array of shape (n_features, rank) or None
        U of a similar problem to start from, where there is no ``first``.
    max_rounds : int or None
        Limit on the rounds, where a larger gap will do, too.

    Returns
    -------
    Solution
        ``dual`` is a list of :class:`~jointsparse.solvers.wide.certificate.SampleDual`.
    """
    trace = Trace(tol, max_iter, "duality gap", known=total)
    rounds = Rounds(data, lam, eta, total, tol)
    iterations = 0
    if first is not None:
        iterations, factor = first.n_iter, first.loadings
        trace.history, trace.gap_history = list(first.history), list(first.gap_history)
        assert first.gap is not None
        rounds.best, rounds.objective = first.loadings, first.objective
        rounds.bound, rounds.recorded = first.objective * (1 - first.gap), first.objective
    if factor is not None:
        rounds.resume(factor)
    while True:
        iterations += rounds.solve_restricted(max_iter - iterations)
        rounds.certify()
        done = trace.record(iterations, rounds.objective, gap=rounds.gap, measure=rounds.gap)
        if done or iterations >= max_iter or rounds.count == max_rounds:
            break
        rounds.choose_next()
    best = rounds.best
    sizes = {"rank": best.shape[1], "rounds": rounds.count, "basis size": rounds.basis.shape[1]}
    numbers = {name: float(size) for name, size in sizes.items()}
    solution = trace.solution(best, trace.history[-1], trace.gap_history[-1], numbers)
    return replace(solution, dual=rounds.duals())


class Rounds:
    """State of the rounds, in the units of the data.

    Parameters
    ----------
    data : array of shape (n_samples, n_features)
        Columns of X that may be nonzero.
    lam, eta : float
        Penalties; lam positive.
    total : float
        tr S over all features, those left out of ``data`` included.
    tol : float
        Relative gap to reach.
    """

    def __init__(self, data: Array, lam: float, eta: float, total: float, tol: float) -> None:
        xp = array_namespace(data)
        self.data, self.lam, self.eta, self.total, self.tol = data, lam, eta, total, tol
        self.trace = sum_of_squares(data)
        self.kept = xp.ones(data.shape[1], dtype=xp.bool, device=data.device)
        self.best = data.T[:, :0]  # U of the best point so far; Ω = 0 at first
        self.objective, self.bound, self.gap = total, 0.0, math.inf
        self.recorded = total  # objective after the last round: the history must not rise above it
        self.count, self.slow = 0, 0  # rounds, and those that did not gain enough
        # of the last round, on its working set:
        self.basis: Array = None
        self.copies = Copies((), (), (), ())
        self.factor: Array = None  # U of the iterate
        self.multiplier: Array = None  # m × p, in coordinates of the basis
        self.targets: Arrays | None = None
        self.resumed = False

    def resume(self, factor: Array) -> None:
        """Begin at the solution of a similar problem."""
        if factor.shape[1] == 0:
            return
        self.kept = self._working_set(factor)
        self.factor = factor[self.kept, :]
        self.resumed = True

    def solve_restricted(self, budget: int) -> int:
        """Solve in a new basis on the current working set; return the iterations it took."""
        self.count += 1
        values, basis = build_basis(
            self._working_data(), self.factor, self.multiplier, self.slow, self.lam, self.eta
        )
        spectrum = Spectrum(values / self.total, basis, self.total)
        model = ConvexModel.in_data_units(spectrum, self.lam, self.eta)
        self.problem = RestrictedLoss(model)
        if self.targets is not None:
            self.targets = change_basis(self.targets, self.basis, basis)
        self.basis, self.multiplier = basis, None  # no two rounds of large arrays at a time
        aim = FIRST_TOLERANCE if math.isinf(self.gap) else LATER_TOLERANCE * self.gap
        if math.isinf(self.gap) and self.resumed:
            aim = RESUMED_TOLERANCE
        aim = max(aim, LAST_TOLERANCE * self.tol / 2**self.slow)
        limit = min(LONGEST_ROUND, budget)
        self.copies, iterations = self.problem.solve(aim, limit, self._pop_start())
        self.multiplier = (self.copies.steps[0] / model.lam) * self.copies.duals[1]
        return iterations

    def _pop_start(self) -> tuple[Arrays, tuple[float, ...]] | None:
        """Return where to start, without keeping it."""
        targets, self.targets = self.targets, None
        if targets is None:
            return None if self.factor is None else self.problem.start_at(self.factor)
        return targets, self.copies.steps

    def certify(self) -> None:
        """Bound the optimum of the whole problem, and look for a better feasible point.

        The multiplier of the splitting is free where features vanish, and may leave the basis
        there; the one that stationarity predicts does not, but is only good near the optimum.
        """
        data = self._working_data()
        self.recorded = self.objective
        self.factor = factor_in(self.basis, self.copies.values[0])
        self.certificates: list[tuple[Any, ...]] = []  # Ω̃, frame, bound
        frame = Frame.of(data, self.basis, self.multiplier)
        smooth = symmetric_part(self.copies.agreed[0])
        self._bound(frame, [self.problem.consistent(self.copies), smooth])
        self._compare(data)
        if self._gap_now() > self.tol and self.factor.shape[1] > 0:
            images = tall_product(data.T, long_product(data, self.factor))
            stationarity = Stationarity.of(self.factor, images, self.lam, self.eta)
            frame = Frame.of(data, self.basis, stationarity.multiplier(self.basis))
            self._bound(frame, [relieved(frame, smooth, self.lam, self.eta)])
            self._compare(data)
        before, self.gap = self.gap, self._gap_now()
        if math.isfinite(before) and self.gap > SLOW * before:
            self.slow += 1

    def _bound(self, frame: Frame, points: list[Array]) -> None:
        """Raise the lower bound, if these Ω̃ can, with the multiplier of the frame."""
        rest = self.data[:, ~self.kept]
        for rotated in points:
            found = lower_bound(frame, rotated, rest, self.trace, self.lam, self.eta)
            self.certificates.append((rotated, frame, found))
            # Screened features are zero: they add their share of the trace, and nothing else.
            self.bound = max(self.bound, found.value + self.total - self.trace)

    def duals(self) -> list[SampleDual]:
        """Return the dual points of the last round."""
        screened = self.trace < self.total
        return [
            SampleDual.of(frame.image, rotated, found.limit, screened=screened)
            for rotated, frame, found in self.certificates
        ]

    def choose_next(self) -> None:
        """Choose the next working set and carry the iterate over to it."""
        xp = array_namespace(self.data)
        targets = tuple(z + y for z, y in zip(self.copies.values, self.copies.duals, strict=True))
        norms = factor_scores(self.factor)
        median = float(xp.sort(norms)[norms.shape[0] // 2])
        small = self._left_out() | (norms < SMALL_NORM * median)
        kept = self._working_set(self._on_all(without_rows(self.factor, small)))
        if bool(xp.any(kept != self.kept)):
            self.basis, self.factor, columns, multiplier = (
                self._on_all(rows)[kept, :]
                for rows in (self.basis, self.factor, targets[1].T, self.multiplier.T)
            )
            targets, self.multiplier, self.kept = (targets[0], columns.T), multiplier.T, kept
        self.targets, self.certificates = targets, []
        self.copies = replace(self.copies, agreed=(), values=(), duals=())

    def _compare(self, data: Array) -> None:
        """Keep the iterate if it is better; with fewer features already if it is good enough.

        A principal submatrix of Ω is positive semidefinite: rows of U may be set to zero.
        """
        xp = array_namespace(data)
        candidates, zero = [self.factor], self._left_out()
        if bool(xp.any(zero)):
            candidates.insert(0, sort_columns(without_rows(self.factor, zero)))
        for factor in candidates:
            value = objective_of_factor(data, factor, self.total, self.lam, self.eta)
            done = value <= self.recorded and relative_gap(value, self.bound) <= self.tol
            if done or value < self.objective:
                self.best, self.objective = self._on_all(factor), value
            if done:
                return

    def _working_set(self, factor: Array) -> Array:
        """Return the features that the dual point of UUᵀ would not cover (rows of U not zero)."""
        xp = array_namespace(self.data)
        kept = ~gap_safe_screen(self.data, factor, 0.0, COVERED * self.lam, self.eta)
        if not bool(xp.any(kept)):
            kept[xp.argmax(column_norms(self.data))] = True  # arrays must not be empty
        return kept

    def _left_out(self) -> Array:
        """Return which features of the working set the columns' copy sets to zero."""
        return column_norms(self.copies.values[1]) == 0

    def _gap_now(self) -> float:
        return relative_gap(self.objective, self.bound)

    def _working_data(self) -> Array:
        return columns_of(self.data, self.kept)

    def _on_all(self, rows: Array) -> Array:
        """Add zero rows for the features outside the working set."""
        xp = array_namespace(rows)
        if bool(xp.all(self.kept)):
            return rows
        shape = (self.kept.shape[0], rows.shape[1])
        result = xp.zeros(shape, dtype=rows.dtype, device=rows.device)
        result[self.kept, :] = rows
        return result
