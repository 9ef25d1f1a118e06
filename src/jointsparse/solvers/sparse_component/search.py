r"""Branch and bound: the best component with a proof, at any time how far it can be from the best.

A node is a set of candidates and those of them that must be in the support. Its bound is that of
``certificate.py``; features that are proved in no better support leave (``gershgorin.py``, then the
certificate with each of them forced in), those proved in every better one are included. What then
is left open is cut in two: with a feature, and without. The node of the largest bound comes first,
so that the largest bound in the heap, at any time, is one for all that is open.
"""

from __future__ import annotations

import copy
import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.sparse_component.certificate import upper_eigenvalue
from jointsparse.solvers.sparse_component.gershgorin import Rows
from jointsparse.solvers.sparse_component.joint.bound import joint_certificate
from jointsparse.solvers.sparse_component.joint.part import JointPart
from jointsparse.solvers.sparse_component.joint.primal import good_components
from jointsparse.solvers.sparse_component.open_part import Node, OpenPart
from jointsparse.solvers.sparse_component.part import Part
from jointsparse.solvers.sparse_component.primal import Component, good_component
from jointsparse.solvers.sparse_component.problem import Problem

STATE_NUMBERS = 2**25  # numbers in the states that open nodes keep to start from, 256 MB
ROOT = 0  # number of the first node
SMALL = 500  # features up to which the largest eigenvalue is worth its time as a first bound


@dataclass(frozen=True)
class Progress:
    """How far a search has come; what a callback is given.

    Attributes
    ----------
    value, bound : float
        What is attained, and what nothing can exceed.
    nodes, open_nodes : int
        Nodes looked at, and those still to look at.
    seconds : float
        Time spent.
    """

    value: float
    bound: float
    nodes: int
    open_nodes: int
    seconds: float


class BestFirst:
    """A search that can be stopped, looked at and gone on with.

    Parameters
    ----------
    problem : Problem
        What is asked.
    best : Component
        The best known so far.
    bound : float
        What nothing exceeds, known from the start.
    included : ndarray
        Features that must be in the support.
    started : float
        When the work on the problem began.

    Attributes
    ----------
    closed : float
        No support in the closed parts is better than this.
    kept : ndarray
        Features that are not proved to be in no better support.
    nodes : int
        Nodes looked at.
    seconds : float
        Time spent.
    """

    def __init__(
        self, problem: Problem, best: Component, bound: float, included: IntArray, started: float
    ) -> None:
        self.problem, self.best = problem, best
        self.nodes = 0
        self.closed = -np.inf
        self.kept = np.arange(len(problem.S))
        self._count = ROOT
        self._state_numbers = 0
        self._heap: list[Node] = []
        self._push(ROOT, bound, self.kept, included, None)
        self.seconds = time.perf_counter() - started

    def copy(self) -> Self:
        """Return a search that goes on from here and leaves this one as it is."""
        other = copy.copy(self)
        other._heap = list(self._heap)
        return other

    @property
    def bound(self) -> float:
        """No support is better than this, whatever happens next."""
        largest_open = self._heap[0].bound if self._heap else -np.inf
        return max(self.best.value, self.closed, largest_open) + self.problem.error

    @property
    def n_open(self) -> int:
        """Number of nodes still to look at."""
        return len(self._heap)

    @property
    def proved(self) -> bool:
        """Whether nothing is better by more than the tolerance."""
        return self.bound <= self.problem.goal(self.best.value)

    def progress(self) -> Progress:
        """Return how far it has come."""
        return Progress(self.best.value, self.bound, self.nodes, self.n_open, self.seconds)

    def run(
        self,
        *,
        max_nodes: int | None = None,
        time_limit: float | None = None,
        callback: Callable[[Progress], Any] | None = None,
    ) -> None:
        """Go on until it is proved, so many more nodes are looked at, or the time is over."""
        started, before = time.perf_counter(), self.seconds
        deadline = None if time_limit is None else started + time_limit
        last = None if max_nodes is None else self.nodes + max_nodes
        while self._heap and not self.proved:
            if last is not None and self.nodes >= last:
                break
            if deadline is not None and time.perf_counter() >= deadline:
                break
            node = heapq.heappop(self._heap)
            try:
                self._look_at(node, deadline)
            except BaseException:  # also Ctrl-C: what is open stays open, or the bound were wrong
                heapq.heappush(self._heap, node)
                raise
            self._forget(node.start)
            self.nodes += 1
            self.seconds = before + time.perf_counter() - started
            if callback is not None and callback(self.progress()):
                break
        self.seconds = before + time.perf_counter() - started

    def _push(
        self,
        number: int,
        bound: float,
        candidates: IntArray,
        included: IntArray,
        start: Any,
    ) -> None:
        if start is not None:
            size = start.n_numbers
            start = start if self._state_numbers + size <= STATE_NUMBERS else None
            self._state_numbers += 0 if start is None else size
        heapq.heappush(self._heap, Node((-bound, number), candidates, included, start))

    def _forget(self, start: Any) -> None:
        if start is not None:
            self._state_numbers -= start.n_numbers

    def _part(self, node: Node) -> OpenPart:
        """Return a node as something to work on."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _look_at(self, node: Node, deadline: float | None) -> None:
        """Bound a node, shrink it, and close it or cut it in two."""
        part = self._part(node)
        finished = part.work(deadline)
        self.best = part.best
        number = node.key[1]
        if number == ROOT:  # what left it is in no better support at all
            self.kept = part.candidates
        self.closed = max(self.closed, part.closed)
        if not finished:
            self._push(number, part.bound, part.candidates, part.included, part.state())
        for child in part.children:
            self._count += 1
            self._push(self._count, *child)


class Search(BestFirst):
    """The search for the best component.

    Parameters
    ----------
    S : ndarray of shape (p, p)
        Symmetric to the digit, with its largest entry near 1.
    k : int
        Number of features in a support, 1 to p.
    included : ndarray
        Features that must be in the support, at most k.
    nonnegative : bool
        Whether only v ≥ 0 are meant.
    tol : float
        Relative distance of bound and value that counts as proved.
    error : float
        By how much rounding of S itself may change a value; charged to the bound.
    known : Component or None
        A component that is known already.
    """

    def __init__(
        self,
        S: FloatArray,
        k: int,
        included: IntArray,
        *,
        nonnegative: bool = False,
        tol: float = 1e-6,
        error: float = 0.0,
        known: Component | None = None,
    ) -> None:
        started = time.perf_counter()
        mask = np.zeros(len(S), dtype=bool)
        mask[included] = True
        best = good_component(S, k, mask, nonnegative=nonnegative)
        if known is not None and known.value > best.value:
            best = known
        rows = Rows(S, len(S), k, mask, np.ones(len(S)), nonnegative=nonnegative)
        bound = float(rows.radii.max())
        if len(S) <= SMALL:
            bound = min(bound, upper_eigenvalue(S))
        problem = Problem(S, k, nonnegative, tol, error)
        super().__init__(problem, best, bound, included, started)

    def _part(self, node: Node) -> Part:
        return Part(self.problem, node, self.best)


class JointSearch(BestFirst):
    """The search for the best components with a common support.

    Parameters
    ----------
    S : ndarray of shape (p, p)
        Symmetric to the digit, with its largest entry near 1.
    k, r : int
        Number of features in a support, 1 to p, and of components, 1 to k.
    included : ndarray
        Features that must be in the support, at most k.
    tol : float
        Relative distance of bound and value that counts as proved.
    """

    def __init__(
        self, S: FloatArray, k: int, r: int, included: IntArray, *, tol: float = 1e-6
    ) -> None:
        started = time.perf_counter()
        mask = np.zeros(len(S), dtype=bool)
        mask[included] = True
        best = good_components(S, k, r, mask)
        self.r = r
        problem = Problem(S, k, nonnegative=False, tol=tol)
        # Λ = 0 and Λ = S: nothing exceeds the first eigenvalues, nor the largest variances.
        bounds = (joint_certificate(S, part, k, r, mask).value for part in (np.zeros_like(S), S))
        super().__init__(problem, best, min(bounds), included, started)

    def _part(self, node: Node) -> JointPart:
        return JointPart(self.problem, node, self.best, self.r)
