r"""Best-first search for the best set, with a proven bound at any moment.

A node is a set I that is in, and candidates C; it stands for every set I ∪ R, R ⊆ C, |R| ≤ m, with
m = k - |I|. Nodes with the largest bounds are taken first, some at a time. For a candidate j, b_j
bounds all sets that contain it (:mod:`bounds`), so those with b_j no better than the best set known
leave; fewer than m left, or the m-th largest b no better, and the node is done. Otherwise they are
sorted, weakest first; child i has the i-th in and all weaker ones out. With one or two features
missing, the best of all sets of the node is computed outright.

The largest bound of all open nodes, of what was set aside, and of the best set is an upper bound
for every set at any moment: the search can be stopped, looked at and resumed anywhere. Its state is
the list of open nodes, each a few numbers.

Sets of fewer than m candidates need no thought of their own: they are worth no more than with any
other candidate added, allowed or not, and what bounds that bounds them.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.subset.bounds import MORE, components_bound, largest_without, top_sum
from jointsparse.solvers.subset.exchange import STARTS, FoundSet, exchange, good_set
from jointsparse.solvers.subset.joint_bound import JointBound
from jointsparse.solvers.subset.nodes import Nodes, Table
from jointsparse.solvers.subset.pairs import bounds_by_pairs, gains_of_pairs
from jointsparse.solvers.subset.problem import (
    DETERMINED,
    SubsetProblem,
    independent,
    inverse_traces,
    set_value,
)
from jointsparse.solvers.subset.rules import Rules

TOLERANCE = 1e-9  # share of the target to which "best" is proved
# How far down, between a node's bound and the best set, bounds of its children are worth lowering.
AMBITION = 0.5


class SearchProgress(NamedTuple):
    """Where a search stands: best value, proven bound, nodes looked at, seconds spent."""

    value: float
    bound: float
    nodes: int
    seconds: float


class _Open(NamedTuple):
    """An open node, and with it its weaker siblings; the heap sorts by the first two.

    The node has ``features[place]`` in besides ``parent``, and what comes after it as candidates;
    ``limits`` are the bounds of all siblings, ascending. The root has place -1.
    """

    negative_bound: float
    number: int
    parent: tuple[int, ...]
    features: IntArray
    limits: FloatArray
    place: int

    @property
    def included(self) -> tuple[int, ...]:
        """What is in."""
        own = () if self.place < 0 else (int(self.features[self.place]),)
        return self.parent + own

    @property
    def candidates(self) -> IntArray:
        """What may come in."""
        return self.features[self.place + 1 :]


class SubsetSearch:
    """Search for the best set of at most k features.

    Parameters
    ----------
    problem : SubsetProblem
        Features and target.
    size : int
        Number k of features.
    rules : Rules or None
        Constraints.
    start : FoundSet or None
        A set to begin with; by greedy picks and exchanges by default.
    tol : float
        Share of the target to which the best set is proved.
    joint : bool
        Whether the joint bound is used where the search alone is slow.
    """

    def __init__(
        self,
        problem: SubsetProblem,
        size: int,
        rules: Rules | None = None,
        *,
        start: FoundSet | None = None,
        tol: float = TOLERANCE,
        joint: bool = True,
    ) -> None:
        self.problem = problem
        self.rules = rules or Rules.none(problem.n_features)
        self.size = min(size, self.rules.most_features())
        self.tol = tol
        self.best = start or good_set(problem, self.size, self.rules, starts=STARTS)
        self.nodes, self.seconds = 0, 0.0
        self.closed = self.best.value  # largest bound of what will not be looked at again
        self.method = "principal components"
        self.bounds_with = np.full(problem.n_features, np.inf)  # of all sets with each feature
        self.work = 0.0  # about how many multiplications were made
        # Included features that earlier ones determine add nothing, but count.
        included = independent(problem, self.rules.include)
        self._idle = tuple(f for f in self.rules.include if f not in included)
        self._allowed = np.flatnonzero(self.rules.allowed & problem.live)
        self._traces = inverse_traces(problem, self._allowed)
        self._root_depth = len(included)
        self._table = Table(problem, self.size, self._traces)
        self._count = 0
        self._open: list[list[_Open]] = [[] for _ in range(self.size + 1)]  # by number of features
        self._ceiling = components_bound(problem, self.size)
        self._note_ceiling(self._all(), "all features that may be kept")
        free = self.rules.left_over(self.rules.include) & problem.live
        if not problem.determined(included, np.array(self._idle, dtype=np.int64)).all():
            self._close(self._ceiling)  # they may add something that rounding hides
        limits = np.array([self._ceiling])
        self._push(len(included), included, np.flatnonzero(free), limits, -1)
        self._joint = None
        if joint and not self._idle:
            self._joint = JointBound.at_root(problem, self.size, self.rules)

    def _all(self) -> float:
        """Return what all features that may be in explain together."""
        if self._allowed.size == self.problem.live.sum():
            return min(self.problem.reachable + self.problem.rounding, 1.0)  # a share
        if self._traces is None:
            return np.inf
        basis = np.linalg.qr(self.problem.columns[:, self._allowed])[0]
        inside = float(np.einsum("ij,ij->", basis, self.problem.target @ basis))
        return inside + float(self.problem.charge(float(self._traces.sum()), self._allowed.size))

    def _note_ceiling(self, bound: float, method: str) -> None:
        if bound < self._ceiling:
            self._ceiling, self.method = bound, method

    def _top(self) -> float:
        """Return the largest bound of an open node."""
        return max((-heap[0].negative_bound for heap in self._open if heap), default=-np.inf)

    @property
    def bound(self) -> float:
        """What no allowed set of at most k features can exceed."""
        return max(min(max(self._top(), self.closed), self._ceiling), self.best.value)

    @property
    def bound_method(self) -> str:
        """What the bound comes from."""
        searched = max(self._top(), self.closed) < self._ceiling
        return "search" if searched else self.method

    @property
    def proved(self) -> bool:
        """Whether no set is better than the best one known by more than the tolerance."""
        return self.bound <= self.best.value + self.tol

    @property
    def finished(self) -> bool:
        """Whether more work changes nothing."""
        return self.proved or self._top() <= self.closed

    def feature_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return what no set with each feature can exceed, and what none without it can."""
        inside, outside = self.bounds_with.copy(), np.full(self.problem.n_features, np.inf)
        if self._joint is not None:
            with_it, without_it = self._joint.feature_bounds()
            inside, outside = np.minimum(inside, with_it), without_it
        return inside, outside

    def run(
        self,
        *,
        time_limit: float = np.inf,
        max_nodes: float = np.inf,
        callback: Callable[[SearchProgress], object] | None = None,
    ) -> None:
        """Go on, until the best set is proved or a limit is reached.

        Parameters
        ----------
        time_limit : float
            Seconds for this call.
        max_nodes : float
            Nodes for this call; unlike seconds they give the same result every time.
        callback : callable or None
            Called with a :class:`SearchProgress` now and then; the search stops where it returns
            True.
        """
        begin, before = time.perf_counter(), self.seconds
        said, last = begin, self.nodes + max_nodes
        while self.nodes < last and not self.finished:
            now = time.perf_counter()
            self.seconds = before + now - begin
            if now - begin >= time_limit:
                break
            if callback is not None and now - said >= 0.1:  # often enough for a person
                said = now
                if callback(self.progress) is True:
                    break
            self._step(last - self.nodes, begin + time_limit)
        self.seconds = before + time.perf_counter() - begin
        if callback is not None:
            callback(self.progress)

    @property
    def progress(self) -> SearchProgress:
        """Where the search stands."""
        return SearchProgress(self.best.value, self.bound, self.nodes, self.seconds)

    def _step(self, most: float, deadline: float) -> None:
        """Sharpen the bound of all, or look at the nodes with the largest bounds."""
        if self._improve_joint(deadline):
            return
        tops = [heap[0].negative_bound if heap else np.inf for heap in self._open]
        depth = int(np.argmin(tops))
        taken: list[_Open] = []
        widest = 0
        while self._open[depth] and most > 0:
            node = self._open[depth][0]
            widest = max(widest, node.candidates.size)
            if len(taken) >= self._table.at_once(widest, last=self._is_last(depth)):
                break
            heapq.heappop(self._open[depth])
            self.nodes += 1
            most -= 1
            bound = min(-node.negative_bound, self._ceiling)
            if bound <= self.best.value + self.tol:
                self._close(bound)  # and with it all weaker siblings
                continue
            taken.append(node)
            if node.place > 0:
                self._push(depth, node.parent, node.features, node.limits, node.place - 1)
        if taken:
            self._expand(taken, depth)

    def _improve_joint(self, deadline: float) -> bool:
        """Make some steps of the joint bound where it is worth it; return whether it was."""
        joint, searched = self._joint, max(self._top(), self.closed)
        if joint is None or not joint.due(self.work, searched):
            return False
        joint.improve(self.best.value + self.tol, lambda: time.perf_counter() >= deadline)
        self._note_ceiling(joint.best, "joint relaxation")
        return True

    def _missing_at(self, depth: int) -> int:
        """Return how many features are missing where so many that add something are in."""
        return self.size - len(self._idle) - depth

    def _is_last(self, depth: int) -> bool:
        """Whether the best sets of nodes with that many features are computed outright."""
        missing = self._missing_at(depth)
        return missing <= 1 or (missing == 2 and self._table.keeps_gram())

    def _push(
        self,
        depth: int,
        parent: tuple[int, ...],
        features: IntArray,
        limits: FloatArray,
        place: int,
    ) -> None:
        self._count += 1
        node = _Open(-float(limits[place]), self._count, parent, features, limits, place)
        heapq.heappush(self._open[depth], node)

    def _close(self, bound: float) -> None:
        self.closed = max(self.closed, min(bound, self._ceiling))

    def _offer(self, features: Sequence[int], value: float) -> None:
        """Keep a set where it is better than the best one known, by its exact value."""
        if value > self.best.value:
            whole = np.array([*self._idle, *features], dtype=np.int64)
            exact = set_value(self.problem, whole)
            if exact > self.best.value:
                self.best = FoundSet(whole, exact)
                better = exchange(self.problem, self.best.features, self.rules)
                if better.value > exact:
                    self.best = better

    def _expand(self, taken: Sequence[_Open], depth: int) -> None:
        candidates = [node.candidates for node in taken]
        if self.rules.coupled:
            candidates = [
                node.candidates[self.rules.left_over(self._idle + node.included)[node.candidates]]
                for node in taken
            ]
        missing, last = self._missing_at(depth), self._is_last(depth)
        nodes = self._table.nodes([node.included for node in taken], candidates, last=last)
        bounds = np.minimum([-node.negative_bound for node in taken], self._ceiling)
        charges = np.asarray(self.problem.charge(nodes.inverse_trace, depth))
        leader = int(np.argmax(nodes.value))
        self._offer(nodes.included[leader].tolist(), float(nodes.value[leader]))
        good, unclear = nodes.good, self._unclear(nodes)
        if unclear.any():
            # Their directions are lost in rounding, or too short to be looked into: what bounds the
            # node bounds them, for ever.
            self._close(float(np.max(bounds[unclear.any(axis=1)])))
        # Where something can be added, what is in alone is bounded together with that.
        alone = ~good.any(axis=1) | (missing == 0)
        if alone.any():
            self._close(float(np.max(np.minimum(bounds, nodes.value + charges)[alone])))
        if alone.all():
            return
        if last:
            self._close_singles(nodes, good)
            if missing == 2:
                self._close_pairs(nodes, good, bounds)
            return
        self._branch(nodes, good, missing, bounds)
        if nodes.depth == self._root_depth:
            self.bounds_with[nodes.candidates[0, unclear[0]]] = bounds[0]

    def _unclear(self, nodes: Nodes) -> NDArray[np.bool_]:
        """Return which candidates are not good, nor known to be determined by what is in."""
        unclear = ~nodes.good & (nodes.candidates < self.problem.n_features)
        for row in np.flatnonzero(unclear.any(axis=1)).tolist():
            places = np.flatnonzero(unclear[row])
            chosen = nodes.candidates[row, places]
            unclear[row, places] = ~self.problem.determined(nodes.included[row], chosen)
        return unclear

    def _close_singles(self, nodes: Nodes, good: NDArray[np.bool_]) -> None:
        """Compute the best sets of nodes with one more feature."""
        self.work += good.size
        totals = np.where(good, nodes.value[:, None] + nodes.gains, -np.inf)
        row, best = divmod(int(np.argmax(totals)), good.shape[1])
        features = [*nodes.included[row].tolist(), int(nodes.candidates[row, best])]
        self._offer(features, float(totals[row, best]))
        charges = np.asarray(self.problem.charge(nodes.inverse_traces, nodes.depth + 1))
        self._close(float(np.max(totals + charges)))

    def _close_pairs(self, nodes: Nodes, good: NDArray[np.bool_], bounds: FloatArray) -> None:
        """Compute the best sets of nodes with two more features."""
        inner, images = nodes.pairs()
        self.work += 20.0 * inner.size
        # The second of a pair must not be determined by the first and what is in.
        second = (1 - inner**2) * nodes.left[:, None, :]
        allowed = good[:, :, None] & good[:, None, :] & self._allowed_pairs(nodes)
        self._close_near_pairs(nodes, allowed & (second < DETERMINED / 2), bounds)
        allowed &= second >= DETERMINED / 2
        both = gains_of_pairs(inner, images, nodes.gains)
        totals = np.where(allowed, nodes.value[:, None, None] + both, -np.inf)
        row, pair = divmod(int(np.argmax(totals)), good.shape[1] ** 2)
        one, other = divmod(pair, good.shape[1])
        best = float(totals[row, one, other])
        if best == -np.inf:
            return
        features = nodes.candidates[row, [one, other]].tolist()
        self._offer([*nodes.included[row].tolist(), *features], best)
        least = float(np.min(nodes.left, where=good, initial=1.0))
        worst = float(np.min(second, where=allowed, initial=1.0))
        self._close(self._upper_of_pairs(nodes, inner, totals, least, worst))

    def _close_near_pairs(self, nodes: Nodes, near: NDArray[np.bool_], bounds: FloatArray) -> None:
        """Bound pairs whose second is nearly determined with their node, unless it wholly is."""
        for row in np.flatnonzero(near.any(axis=(1, 2))).tolist():
            firsts, seconds = (nodes.candidates[row, p] for p in np.nonzero(near[row]))
            inside = nodes.included[row]
            if not self.problem.determined(inside, seconds, firsts).all():
                self._close(float(bounds[row]))

    def _allowed_pairs(self, nodes: Nodes) -> NDArray[np.bool_]:
        different = ~np.eye(nodes.candidates.shape[1], dtype=bool)
        if not self.rules.coupled:
            return different[None]
        known = np.minimum(nodes.candidates, self.problem.n_features - 1)  # the filling is not good
        rows = zip(nodes.included, known, strict=True)
        return different & np.stack(
            [self.rules.pairs([*self._idle, *inside], some) for inside, some in rows]
        )

    def _upper_of_pairs(
        self, nodes: Nodes, inner: FloatArray, totals: FloatArray, least: float, worst: float
    ) -> float:
        """Return the largest value of a pair with what rounding may have cost.

        tr C⁻¹ grows by (1 + |coefficients of the second on the first and what is in|²) / residual,
        and |a - b|² ≤ 2|a|² + 2|b|². ``least`` and ``worst`` are the smallest residuals of a first
        and of a second feature: pairs that even the largest charge does not bring above what is
        closed already are not looked at.
        """
        loads, left = nodes.loads, nodes.left
        most = float(nodes.inverse_traces.max() + (2 + 3 / least) * loads.max() / worst)
        limit = self.closed - float(self.problem.charge(most, nodes.depth + 2))
        row, one, other = np.nonzero(totals > limit)
        if row.size == 0:
            return -np.inf
        square = inner[row, one, other] ** 2
        ratio = square * left[row, other] / left[row, one]
        growth = 2 * loads[row, other] + ratio * (1 + 2 * loads[row, one])
        growth /= (1 - square) * left[row, other]
        traces = nodes.inverse_traces[row, one] + growth
        charges = np.asarray(self.problem.charge(traces, nodes.depth + 2))
        return float(np.max(totals[row, one, other] + charges))

    def _branch(
        self, nodes: Nodes, good: NDArray[np.bool_], missing: int, ceilings: FloatArray
    ) -> None:
        charges = np.asarray(self.problem.charge(nodes.inverse_traces, nodes.depth + 1))
        charges = charges + nodes.span_charge
        values, shadows = nodes.spectrum()
        self.work += len(values) * values.shape[1] ** 3
        bounds = nodes.value[:, None] + nodes.gains + charges
        level = self.best.value + self.tol
        quick = bounds + top_sum(values, missing - 1)[:, None]
        rows, places = np.nonzero(good & (quick > level))
        self.work += 12.0 * rows.size * missing * (missing + MORE)
        largest = largest_without(values, shadows[rows, :, places], rows, missing - 1)
        bounds = np.minimum(quick, ceilings[:, None])
        sharp = nodes.value[rows] + nodes.gains[rows, places] + charges[rows, places]
        sharp += largest.sum(axis=1)
        bounds[rows, places] = np.minimum(bounds[rows, places], sharp)
        if missing > 2 and self._table.keeps_gram():
            tails = np.tile(top_sum(values, missing - 2)[:, None], good.shape[1])
            tails[rows, places] = np.minimum(
                tails[rows, places], largest[:, : missing - 2].sum(axis=1)
            )
            far = level + AMBITION * (ceilings - level)
            wanted = good & (bounds > far[:, None])
            self.work += 12.0 * float(np.sum(wanted.sum(axis=1) ** 2))
            bounds = bounds_by_pairs(nodes, good, bounds, tails, wanted, missing)
        if nodes.depth == self._root_depth:
            self.bounds_with[nodes.candidates[0]] = bounds[0]
        alive = good & (bounds > level)
        done = good & ~alive
        if done.any():
            self._close(float(bounds[done].max()))
        for row in np.flatnonzero(alive.any(axis=1)).tolist():
            most = min(missing, int(good[row].sum()))
            self._push_children(nodes, row, np.flatnonzero(alive[row]), bounds[row], most)

    def _push_children(
        self, nodes: Nodes, row: int, order: IntArray, bounds: FloatArray, missing: int
    ) -> None:
        """Open the strongest child of a node; ``missing`` is at most the number of candidates."""
        if order.size < missing:
            return
        order = order[np.argsort(bounds[order], kind="stable")]
        highest = float(bounds[order[order.size - missing]])  # the m-th largest
        features = nodes.candidates[row, order]
        included = tuple(nodes.included[row].tolist())
        # Where no feature keeps another out, small rests are parts of larger sets seen elsewhere.
        free = self._traces is not None and not self.rules.coupled
        last = order.size - missing + 1 if free else order.size
        limits = np.minimum(bounds[order[:last]], highest)
        self._push(nodes.depth + 1, included, features, limits, last - 1)
