r"""A good set: features picked one by one, then exchanged one for one as long as that helps.

Let C = X̂ᵀX̂_H, D = X̂ᵀTX̂_H (p × k), K = C_H⁻¹, M = D_H. The coefficients of every feature on the set
are A = CK, and each set without its i-th feature gains back one unit direction, K X̂_Hᵀ e_i/√K_ii.
So the value of *every* exchange of a member i for a candidate c,

.. math:: f(H) - \frac{N_{ii}}{K_{ii}} +
          \frac{f_c + 2A_{ci}E_{ci}/K_{ii} + A_{ci}^2N_{ii}/K_{ii}^2}{g_c + A_{ci}^2/K_{ii}},

with E = (D - AM)K, N = KMK, f and g what the whole set leaves of the target and of the candidate,
costs three products of p × k by k × k. The best exchange of all is made, and one column of C and D
is new: O(pk² + pr) for each, with no p × p matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.subset.problem import (
    DETERMINED,
    SubsetProblem,
    orthonormal_basis,
    set_value,
)
from jointsparse.solvers.subset.rules import Rules
from jointsparse.solvers.subset.whole_groups import without_each_unit

GAIN = 1e-10  # share of the target below which an exchange is not worth making
TIE = 1e-8  # relative difference of gains that rounding may make
# Beginnings besides the greedy picks: with ten of them the best of ten random ones is reached on
# all tables tried (digits, 20 of 61: 67.6 % instead of 66.5 %), in less than the time of a fit.
STARTS, STARTS_UP_TO = 10, 20
# Of larger sets a few, as long as pk³ multiplications, about what the exchanges of one beginning
# take, are done in a tenth of a second: isolet, 50 of 617, gets 74.77 % instead of 74.66 %.
FEW_STARTS, FEW_STARTS_WORK = 3, 1e8


@dataclass(frozen=True)
class FoundSet:
    """A set that was found.

    Attributes
    ----------
    features : ndarray of int
        The set: members in the order in which they came in.
    value : float
        Share of the target that it explains.
    swaps : int
        Exchanges made.
    """

    features: IntArray
    value: float
    swaps: int = 0


def greedy_set(
    problem: SubsetProblem,
    size: int,
    rules: Rules | None = None,
    *,
    start: Sequence[int] | IntArray = (),
    per_price: bool = False,
) -> FoundSet:
    """Pick features one by one, each the one that adds most to those before it.

    Parameters
    ----------
    problem : SubsetProblem
        Features and target.
    size : int
        Number of features, those given included; fewer where the picks determine all others.
    rules : Rules or None
        Constraints; the included features are taken first.
    start : sequence of int
        Features that are taken first, after the included ones.
    per_price : bool
        Whether the gain for each unit of the price decides.
    """
    rules = rules or Rules.none(problem.n_features)
    run = _Greedy(problem)
    for feature in dict.fromkeys([*rules.include, *map(int, start)]):
        run.take(feature)
    prices = rules.prices if per_price else np.ones(problem.n_features)
    while len(run.picks) < size:
        room = rules.room(run.picks)
        free = room.free & problem.live & (run.left > DETERMINED)
        group, worth = run.best_group(room.wholes, size - len(run.picks), prices)
        if not free.any() and not group:
            break
        score = run.scores(free) / prices
        if max(score.max(), worth) <= 0:  # explained to the last digit: what is most by itself
            score = np.where(free, run.left, 0.0)
        if group and worth >= score.max():
            for feature in group:
                run.take(feature)
            continue
        run.take(int(np.argmax(score >= (1 - TIE) * score.max())))
    picks = np.array(run.picks, dtype=np.int64)
    return FoundSet(picks, set_value(problem, picks))


class _Greedy:
    """What the picks leave of the features (g) and of the target (f)."""

    def __init__(self, problem: SubsetProblem) -> None:
        self.problem = problem
        self.left = problem.live.astype(np.float64)
        self.target_left = problem.gains.copy()
        self.basis = np.zeros((0, len(problem.columns)))
        self.gain = 0.0  # of the last pick
        self.picks: list[int] = []

    def scores(self, free: NDArray[np.bool_]) -> FloatArray:
        """Return what each free feature would add; 0 where that is rounding."""
        adds = free & (self.target_left > self.problem.rounding)
        return np.where(adds, self.target_left, 0.0) / np.where(adds, self.left, 1.0)

    def take(self, feature: int) -> None:
        """Add a feature to the picks."""
        self.picks.append(feature)
        self.gain = 0.0
        direction = self._off(self.problem.columns[:, feature])
        length = float(np.linalg.norm(direction))
        if length**2 <= DETERMINED:
            return
        direction = self._off(direction / length)
        direction /= np.linalg.norm(direction)
        image = self._off(self.problem.target @ direction)
        along, through = np.stack([direction, image]) @ self.problem.columns
        self.gain = max(float(direction @ image), 0.0)
        self.target_left += along * (self.gain * along - 2 * through)
        self.left -= along**2
        self.basis = np.vstack([self.basis, direction])

    def best_group(
        self, groups: Sequence[tuple[int, ...]], most: int, prices: FloatArray
    ) -> tuple[tuple[int, ...], float]:
        """Return the whole group that adds most for each of its features, and how much.

        Groups that add nothing, or have more than so many features, are left out.
        """
        best: tuple[tuple[int, ...], float] = ((), 0.0)
        for members in groups:
            if len(members) > most:
                continue
            block = self._off(self._off(self.problem.columns[:, list(members)]))
            basis = orthonormal_basis(block)[0]
            gain = float(np.einsum("ij,ij->", basis, self.problem.target @ basis))
            worth = gain / float(prices[list(members)].sum())
            if worth > best[1]:
                best = members, worth
        return best

    def _off(self, vector: FloatArray) -> FloatArray:
        return vector - self.basis.T @ (self.basis @ vector)


def exchange(
    problem: SubsetProblem, features: Sequence[int] | IntArray, rules: Rules | None = None
) -> FoundSet:
    """Exchange members of a set for other features, one for one, while the set gets better.

    Parameters
    ----------
    problem : SubsetProblem
        Features and target.
    features : sequence of int
        The set to begin with, allowed by the rules.
    rules : Rules or None
        Constraints.

    Returns
    -------
    FoundSet
        Never worth less than the set given.
    """
    rules = rules or Rules.none(problem.n_features)
    chosen = np.asarray(features, dtype=np.int64).copy()
    start = FoundSet(chosen.copy(), set_value(problem, chosen))
    if chosen.size == 0 or chosen.size >= problem.live.sum():
        return start
    live = problem.live[chosen]  # constant features of the set stay, and are no part of the algebra
    if not live.any():
        return start
    swaps = _Swaps(problem, chosen[live], rules, chosen[~live])
    # Each exchange adds GAIN, so the loop ends; local optima come long before this many.
    for _ in range(50 + 20 * chosen.size):
        if not swaps.make_best():
            break
    chosen[live] = swaps.chosen
    value = set_value(problem, chosen)
    # What exchanges add is more than rounding: of two sets that are worth the same, the one given.
    return FoundSet(chosen, value, swaps.made) if value > start.value + GAIN / 2 else start


class _Swaps:
    """A set, and inner products of all features with its members; some of it may stay aside."""

    def __init__(
        self, problem: SubsetProblem, chosen: IntArray, rules: Rules, aside: IntArray
    ) -> None:
        self.problem, self.chosen, self.rules, self.aside = problem, chosen, rules, aside
        self.inner = problem.columns.T @ problem.columns[:, chosen]
        self.images = problem.images.T @ problem.columns[:, chosen]
        self.value = -np.inf
        self.made = 0

    def make_best(self) -> bool:
        """Make the exchange that adds most; return whether there was one."""
        found = self._best()
        if found is None:
            return False
        feature, place = found
        self.chosen[place] = feature
        column = self.problem.columns[:, feature]
        self.inner[:, place] = column @ self.problem.columns
        self.images[:, place] = column @ self.problem.images
        self.made += 1
        return True

    def _best(self) -> tuple[int, int] | None:
        members = self.inner[self.chosen]
        try:
            inverse = np.asarray(np.linalg.inv(members), np.float64)
        except np.linalg.LinAlgError:  # two members are the same feature
            return None
        target = self.images[self.chosen]
        value = float(np.sum(inverse * target))
        if not self.value + GAIN / 2 < value <= 1 + 1e-6:
            return None  # rounding: the last exchange did not add what it seemed to
        self.value = value
        weights = np.diagonal(inverse)  # 1 / what the others leave of each member
        if not np.all((weights > 0) & (weights * DETERMINED <= 1)):
            return None
        change = self._changes(inverse, target, weights)
        change[~self._allowed()] = -np.inf
        best = float(change.max())
        if best <= GAIN:
            return None
        # The first of those that differ by rounding only, whatever the order of the members.
        feature, place = divmod(int(np.argmax(change >= best * (1 - TIE))), self.chosen.size)
        return feature, place

    def _changes(self, inverse: FloatArray, target: FloatArray, weights: FloatArray) -> FloatArray:
        """Return what every exchange would add, at least: p × k.

        A gain is a quotient of two differences, each of them known to rounding. What the others
        leave next to nothing of could seem to add anything: it counts less what that may be.
        """
        shares = self.inner @ inverse
        explained = shares @ target
        left = 1 - np.einsum("ij,ij->i", shares, self.inner)
        target_left = self.problem.gains - np.einsum(
            "ij,ij->i", shares, 2 * self.images - explained
        )
        across = (self.images - explained) @ inverse
        own = np.einsum("ij,ij->j", inverse, target @ inverse) / weights
        back = shares / np.sqrt(weights)
        above = target_left[:, None] + back * (2 * across / np.sqrt(weights) + back * own)
        below = left[:, None] + back**2
        free = below > DETERMINED
        gains = (above - self.problem.rounding) / np.where(free, below, 1.0) - own
        return np.where(free, gains, -np.inf)

    def _allowed(self) -> NDArray[np.bool_]:
        if self.rules.coupled:
            whole = np.concatenate([self.chosen, self.aside])
            good = self.rules.swaps(whole)[:, : self.chosen.size]
            return np.asarray(good & self.problem.live[:, None])
        rows = self.rules.allowed & self.problem.live
        rows[self.chosen] = False
        movable = ~np.isin(self.chosen, self.rules.include)
        return np.asarray(rows[:, None] & movable)


def in_order(
    problem: SubsetProblem, features: Sequence[int] | IntArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Put a set in the order in which a greedy rule would pick it.

    Returns
    -------
    order : ndarray of int
        The set; members that others determine come last.
    values : ndarray
        Share of the target that the first, the first two, … explain.
    next_ones : ndarray of shape (n_features,)
        What each feature outside the set would add to it; 0 where that is rounding.
    """
    members = np.asarray(features, dtype=np.int64)
    inside = np.zeros(problem.n_features, dtype=bool)
    inside[members] = True
    run = _Greedy(problem)
    values = [0.0]
    while True:
        free = inside & problem.live & (run.left > DETERMINED)
        free[run.picks] = False
        if not free.any():
            break
        score = run.scores(free)
        if score.max() <= 0:
            score = np.where(free, run.left, 0.0)
        best = int(np.argmax(score >= (1 - TIE) * score.max()))
        run.take(best)
        values.append(values[-1] + run.gain)
    determined = [int(feature) for feature in members if int(feature) not in set(run.picks)]
    order = np.array([*run.picks, *determined], dtype=np.int64)
    values += [values[-1]] * len(determined)
    outside = ~inside & problem.live & (run.left > DETERMINED)
    return order, np.array(values[1:]), run.scores(outside)


def explained_curve(problem: SubsetProblem, order: IntArray, weights: FloatArray) -> FloatArray:
    """Return the share of the variance of all features that the first few of some explain.

    Parameters
    ----------
    problem : SubsetProblem
        The features.
    order : ndarray of int
        Some of them.
    weights : ndarray of shape (n_features,)
        Variances of all.
    """
    run = _Greedy(problem)
    left, curve = weights / weights.sum(), []
    for feature in order.tolist():
        run.take(feature)
        curve.append(1 - float(left @ np.maximum(run.left, 0.0)))
    return np.clip(np.maximum.accumulate(curve), 0.0, 1.0) if curve else np.zeros(0)


def good_set(
    problem: SubsetProblem, size: int, rules: Rules | None = None, *, starts: int | None = None
) -> FoundSet:
    """Return the best of some sets by exchanges.

    They begin with greedy picks (with prices also for each unit of the price) and with sets spread
    over all features.

    Parameters
    ----------
    problem : SubsetProblem
        Features and target.
    size : int
        Number of features.
    rules : Rules or None
        Constraints.
    starts : int or None
        How many sets of the second kind; None is a few where that takes no time to speak of.
    """
    rules = rules or Rules.none(problem.n_features)
    starts = _starts(problem.n_features, size) if starts is None else starts
    beginnings = [greedy_set(problem, size, rules).features]
    if rules.costs is not None:
        beginnings.append(greedy_set(problem, size, rules, per_price=True).features)
    beginnings += spread_sets(problem, size, rules, starts)
    best = None
    for beginning in beginnings:
        found = _exchanged_and_filled(problem, beginning, size, rules)
        if best is None or found.value > best.value + GAIN:
            best = found
    assert best is not None
    return _exchanged_units(problem, best, size, rules) if rules.wholes else best


def _starts(n_features: int, size: int) -> int:
    """Return how many beginnings besides the greedy picks take no time to speak of."""
    if size <= STARTS_UP_TO:
        return STARTS
    return FEW_STARTS if n_features * size**3 <= FEW_STARTS_WORK else 0


def _exchanged_and_filled(
    problem: SubsetProblem, features: IntArray, size: int, rules: Rules
) -> FoundSet:
    """Exchange members, and fill up where an exchange has made room for another one."""
    swaps = 0
    while True:
        found = exchange(problem, features, rules)
        swaps += found.swaps
        features = greedy_set(problem, size, rules, start=found.features).features
        if features.size == found.features.size:
            return FoundSet(found.features, found.value, swaps)


def _exchanged_units(problem: SubsetProblem, best: FoundSet, size: int, rules: Rules) -> FoundSet:
    """Exchange whole groups for what fits in their place, as long as that helps."""
    for _ in range(10 + size):  # each round adds GAIN; few are needed
        sets = without_each_unit(
            best.features, rules, lambda rest: _refilled(problem, rest, rules, size)
        )
        found = max(
            (FoundSet(some, set_value(problem, some), best.swaps + 1) for some in sets),
            key=lambda other: other.value,
            default=best,
        )
        if found.value <= best.value + GAIN:
            break
        best = found
    return best


def _refilled(problem: SubsetProblem, rest: list[int], rules: Rules, size: int) -> IntArray:
    """Return the better of two ways to fill up what a unit has left."""
    ways = (greedy_set(problem, size, rules, start=rest, per_price=p) for p in (False, True))
    return max(ways, key=lambda found: found.value).features


def spread_sets(problem: SubsetProblem, size: int, rules: Rules, count: int) -> list[IntArray]:
    """Return sets that are far from each other: every so-manieth feature by its gain alone.

    Unlike random ones they do not depend on the order of the features.
    """
    live = np.flatnonzero(rules.allowed & problem.live)
    live = live[~np.isin(live, rules.include)]
    order = live[np.argsort(-problem.gains[live], kind="stable")]
    missing = min(size - len(rules.include), order.size)
    if missing < 1 or order.size == missing or rules.wholes:
        return []
    found = []
    for start in range(count):
        places = ((np.arange(missing) + (start + 0.5) / count) * order.size / missing).astype(int)
        chosen = list(rules.include)
        for feature in order[places].tolist():
            if not rules.coupled or rules.left_over(chosen)[feature]:
                chosen.append(feature)
        found.append(np.array(chosen, dtype=np.int64))
    return found
