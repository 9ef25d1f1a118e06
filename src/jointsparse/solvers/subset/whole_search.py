r"""The best set where some features are chosen as whole groups, with a proven bound at any moment.

What is chosen are *units*: whole groups, and features of none. A node is a set I of features that
is in and units that may come in, m features being missing. If unit u is in, every set of the node
is I ∪ u with at most m - |u| more features, and with Q_u a basis of what I leaves of u,

.. math:: f(H) \le b_u = f(I) + \operatorname{tr}(Q_u^\top T Q_u) +
          \Lambda_q\bigl((I-Q_uQ_u^\top)T'(I-Q_uQ_u^\top)\bigr),

T' the target that I leaves, on the span of the candidates, and q the largest rank of units of at
most m - |u| features in all: interlacing for blocks. Every set is the one of its weakest unit with
stronger ones, so child i has the i-th unit in and all weaker ones out.

**Dependence.** A feature of u that I and the features of u before it determine to the last digits
is left out of Q_u. What is left of others counts as a direction, however little it is, so that the
bound can only be larger. Where it is no more than ``DROPPED`` its direction is lost in rounding:
the sets with u are then bounded with their node, for ever.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.subset.bounds import MORE, top_sum
from jointsparse.solvers.subset.exchange import FoundSet
from jointsparse.solvers.subset.problem import DETERMINED, SubsetProblem, independent
from jointsparse.solvers.subset.rules import Rules
from jointsparse.solvers.subset.search import TOLERANCE, SubsetSearch
from jointsparse.solvers.subset.whole_groups import settled

DROPPED = 1e-14  # share of a feature below which rounding decides where it points


class _Node(NamedTuple):
    """An open node: the heap sorts by the first two."""

    negative_bound: float
    number: int
    included: tuple[int, ...]
    units: IntArray  # numbers of the units that may come in


class WholeSearch(SubsetSearch):
    """Search for the best set of at most k features, some of them in whole groups.

    Parameters
    ----------
    problem : SubsetProblem
        Features and target, :func:`settled`.
    size : int
        Number k of features.
    rules : Rules
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
        rules: Rules,
        *,
        start: FoundSet | None = None,
        tol: float = TOLERANCE,
        joint: bool = True,
    ) -> None:
        super().__init__(problem, size, rules, start=start, tol=tol, joint=joint)
        self._units = [list(unit) for unit in rules.units]
        self._live = [[j for j in unit if problem.live[j]] for unit in self._units]
        self._ranks = _largest_ranks(self._units, self._live, self.size)
        self._inside = independent(problem, rules.include)  # what is in at the root
        room = rules.room(rules.include)
        useful = [
            number
            for number, unit in enumerate(self._units)
            if self._live[number] and room.fits(unit)
        ]
        root = _Node(-self._ceiling, 0, rules.include, np.array(useful, dtype=np.int64))
        self._heap = [root]

    def _top(self) -> float:
        """Return the largest bound of an open node."""
        heap = self.__dict__.get("_heap")
        return -heap[0].negative_bound if heap else -np.inf

    def _step(self, most: float, deadline: float) -> None:
        if self._improve_joint(deadline):
            return
        node = heapq.heappop(self._heap)
        self.nodes += 1
        bound = min(-node.negative_bound, self._ceiling)
        if bound <= self.best.value + self.tol:
            self._close(bound)
        else:
            self._look_at(node, bound)

    def _look_at(self, node: _Node, bound: float) -> None:
        room = self.rules.room(node.included)
        missing = self.size - len(node.included)
        units = [
            int(number)
            for number in node.units
            if len(self._units[number]) <= missing and room.fits(self._units[number])
        ]
        idle = set(self.rules.include) - set(self._inside)
        inside = [j for j in node.included if self.problem.live[j] and j not in idle]
        state = _State(self.problem, inside)
        self._keep(node.included, state.value)
        if state.lost:
            self._close(bound)
            return
        own = state.value + float(self.problem.charge(state.inverse_trace, len(inside)))
        self._close(min(bound, own))
        if not units:
            return
        bounds = np.minimum(self._bounds(state, units, missing), bound)
        if node.number == 0:
            for number, limit in zip(units, bounds, strict=True):
                self.bounds_with[self._units[number]] = limit
        order = np.argsort(bounds, kind="stable")
        alive = order[bounds[order] > self.best.value + self.tol]
        if alive.size < order.size:
            self._close(float(bounds[order[order.size - alive.size - 1]]))
        ordered = np.array(units, dtype=np.int64)[alive]
        for place, number in enumerate(ordered.tolist()):
            self._count += 1
            included = (*node.included, *self._units[number])
            child = _Node(-float(bounds[alive[place]]), self._count, included, ordered[place + 1 :])
            heapq.heappush(self._heap, child)

    def _keep(self, features: Sequence[int], value: float) -> None:
        outside = [j for j in features if j not in self._idle]
        self._offer(outside, value)

    def _bounds(self, state: _State, units: Sequence[int], missing: int) -> FloatArray:
        """Return what no set of a node with each of some units can exceed."""
        candidates = sorted({j for number in units for j in self._live[number]})
        spanned = state.span(candidates, compress=self._traces is not None)
        values, vectors = np.linalg.eigh(spanned.target)
        self.work += float(values.size) ** 3
        span_charge = self._table.span_charge if self._traces is not None else 0.0
        bounds = np.empty(len(units))
        for place, number in enumerate(units):
            block = state.block(self._live[number])
            if block.lost:
                bounds[place] = np.inf
                continue
            basis = spanned.axes.T @ block.basis
            rank = int(self._ranks[missing - len(self._units[number])])
            gain = float(np.einsum("ij,ij->", basis, spanned.target @ basis))
            rest = _sum_without(values, vectors.T @ basis, rank)
            inside = state.size + len(self._live[number])
            charge = float(self.problem.charge(block.inverse_trace, inside))
            bounds[place] = state.value + gain + rest + charge + span_charge
            self.work += 20.0 * (rank + MORE) ** 2
        return bounds


def _largest_ranks(units: Sequence[list[int]], live: Sequence[list[int]], size: int) -> IntArray:
    """Return the largest rank of units with at most 0, 1, …, ``size`` features in all."""
    ranks = np.zeros(size + 1, dtype=np.int64)
    for unit, columns in zip(units, live, strict=True):
        count = len(unit)
        if count <= size:
            ranks[count:] = np.maximum(ranks[count:], ranks[: ranks.size - count] + len(columns))
    return ranks


def _sum_without(values: FloatArray, shadows: FloatArray, count: int) -> float:
    """Bound the sum of the largest eigenvalues once some directions are taken out of a target.

    As :func:`largest_without` for one: with d² the leading eigenvalues less the next one β, the
    sum is at most Λ(diag(d²) - (d∘G)(d∘G)ᵀ) + count · β.
    """
    whole = float(top_sum(values, count))
    if count <= 0:
        return whole
    wanted = min(values.size, count + shadows.shape[1] + MORE)
    rest = values.size - wanted
    next_one = max(float(values[rest - 1]), 0.0) if rest else 0.0
    squares = np.maximum(values[rest:] - next_one, 0.0)
    scaled = shadows[rest:] * np.sqrt(squares)[:, None]
    small = np.asarray(np.linalg.eigvalsh(np.diag(squares) - scaled @ scaled.T), np.float64)
    return min(float(top_sum(small, count)) + count * next_one, whole)


@dataclass(frozen=True)
class _Block:
    """A basis of what is left of some features, tr C⁻¹ with what is in, and if one was lost."""

    basis: FloatArray
    inverse_trace: float
    lost: bool  # whether rounding hides the direction of a feature that may add something


@dataclass(frozen=True)
class _Spanned:
    """Axes of the space of the candidates, and the target on it."""

    axes: FloatArray
    target: FloatArray


class _State:
    """What some features that are in leave of others, and of the target."""

    def __init__(self, problem: SubsetProblem, inside: Sequence[int]) -> None:
        self.problem = problem
        nothing = np.zeros((len(problem.columns), 0))
        self.basis, self._inverse = nothing, np.zeros((0, 0))
        self._kept: list[int] = []
        first = self.block(inside)
        self.basis, self.inverse_trace, self.lost = first.basis, first.inverse_trace, first.lost
        self._inverse, self._kept = self._last_inverse, self._last_kept
        self.size = self.basis.shape[1]
        self.value = float(np.einsum("ij,ij->", self.basis, problem.target @ self.basis))

    def block(self, features: Sequence[int]) -> _Block:
        """Return what is left of some features, one after the other."""
        columns, kept, lost = self.basis, list(self._kept), False
        own, inverse = self.basis.shape[1], self._inverse
        for feature in features:
            left = self.problem.columns[:, feature]
            shares = np.zeros(columns.shape[1])
            for _ in range(2):  # so that none of the others stays
                along = columns.T @ left
                left = left - columns @ along
                shares += along
            squares = float(left @ left)
            if squares <= DETERMINED and self.problem.determined(kept, np.array([feature])).all():
                continue
            if squares <= DROPPED:
                lost = True
                continue
            kept.append(feature)
            length = squares**0.5
            columns = np.column_stack([columns, left / length])
            corner = np.append(-inverse @ shares, 1.0) / length
            inverse = np.block(
                [[inverse, corner[:-1, None]], [np.zeros((1, len(inverse))), corner[-1:, None]]]
            )
        self._last_inverse, self._last_kept = inverse, kept
        return _Block(columns[:, own:], float(np.sum(inverse**2)), lost)

    def span(self, candidates: Sequence[int], *, compress: bool) -> _Spanned:
        """Return the space of what is left of the candidates; all of it where that is not safe."""
        target = self.problem.target
        if compress:
            left = self.problem.columns[:, list(candidates)]
            for _ in range(2):
                left = left - self.basis @ (self.basis.T @ left)
            axes = np.linalg.qr(left)[0]
            return _Spanned(axes, axes.T @ target @ axes)
        off = np.eye(len(target)) - self.basis @ self.basis.T
        return _Spanned(np.eye(len(target)), off @ target @ off)


def search_for(
    problem: SubsetProblem,
    size: int,
    rules: Rules,
    *,
    start: FoundSet | None = None,
    tol: float = TOLERANCE,
) -> SubsetSearch:
    """Return the search for the best allowed set, among features or among whole groups.

    Parameters
    ----------
    problem : SubsetProblem
        Features and target.
    size : int
        Number of features.
    rules : Rules
        Constraints.
    start : FoundSet or None
        A set to begin with.
    tol : float
        Share of the target to which the best set is proved.
    """
    if rules.wholes:
        return WholeSearch(settled(problem, rules), size, rules, start=start, tol=tol)
    return SubsetSearch(problem, size, rules, start=start, tol=tol)
