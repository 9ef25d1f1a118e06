"""One node of the search for several components while it is looked at."""

from __future__ import annotations

import time

import numpy as np

from jointsparse.arrays import IntArray
from jointsparse.solvers.sparse_component.certificate import BoolArray
from jointsparse.solvers.sparse_component.joint_bound import (
    JointCertificate,
    JointRelaxation,
    JointState,
    upper_sum,
)
from jointsparse.solvers.sparse_component.joint_primal import (
    best_jointly_on,
    exchanged_jointly,
)
from jointsparse.solvers.sparse_component.part import Node
from jointsparse.solvers.sparse_component.primal import Component, largest
from jointsparse.solvers.sparse_component.problem import Problem

CHUNKS = (20, 20, 20, 40, 50, 60, 80, 100)  # steps between two looks at the bound
EARLIEST = 60  # steps before a node is cut in two
SLOW = 0.9  # of the distance to the level: two looks that leave more of it, and the node is cut


class JointPart:
    """A node while it is looked at; attributes as those of :class:`Part`."""

    def __init__(self, problem: Problem, node: Node, best: Component, r: int) -> None:
        self.problem, self.best, self.r = problem, best, r
        self.bound, self.start = node.bound, node.start
        self.candidates, self.included = node.candidates, node.included
        self.closed = -np.inf
        self.children: list[tuple[float, IntArray, IntArray, JointState | None]] = []
        self.relaxation: JointRelaxation | None = None
        self.certificate: JointCertificate | None = None

    @property
    def level(self) -> float:
        """Only supports better than this are looked for."""
        return self.problem.level(self.best.value)

    @property
    def mask(self) -> BoolArray:
        """Which candidates must be in the support."""
        return np.isin(self.candidates, self.included)

    def state(self) -> JointState | None:
        """Return where to go on from."""
        return self.start if self.relaxation is None else self.relaxation.state()

    def work(self, deadline: float | None) -> bool:
        """Do all there is to do; return whether it was done before the deadline."""
        while not self._is_small():
            again = self._relax(deadline)
            if self.bound <= self.level:
                self._close(self.bound)
                return True
            if deadline is not None and time.perf_counter() >= deadline:
                return False
            if not again:
                self._cut_in_two()
                return True
        return True

    def _close(self, bound: float) -> None:
        self.closed = max(self.closed, min(self.bound, max(bound, self.level)))

    def _lower(self, bound: float) -> None:
        self.bound = min(self.bound, max(bound, self.level))

    def _is_small(self) -> bool:
        """Solve what needs no relaxation; return whether that was all."""
        k = self.problem.k
        if k not in (self.candidates.size, self.included.size):
            return False
        features = self.candidates if self.candidates.size == k else self.included
        self._offer(best_jointly_on(self.problem.S, features, self.r))
        self._close(upper_sum(self.problem.part(features), self.r))
        return True

    def _offer(self, found: Component) -> None:
        if found.value > self.best.value:
            self.best = found

    def _relax(self, deadline: float | None) -> bool:
        """Bound what is left; return whether there is now less of it."""
        part = self.problem.part(self.candidates)
        relaxation = JointRelaxation(part, self.problem.k, self.r, self.mask, self.start)
        self.relaxation, self.certificate = relaxation, None
        distances = [np.inf, np.inf]
        for chunk in CHUNKS:
            relaxation.advance(chunk, deadline)
            found = relaxation.certificate()
            if self.certificate is None or found.value < self.certificate.value:
                self.certificate = found
            self._lower(found.value)
            late = deadline is not None and time.perf_counter() >= deadline
            if self.bound <= self.level or late:
                return False
            if self._shrink(found):
                return True
            distances.append(self.certificate.value - self.level)
            if distances[-1] > SLOW * distances[-3] and relaxation.steps >= EARLIEST:
                break
        features = largest(relaxation.z, self.problem.k, self.mask, nonnegative=True)
        rounded = exchanged_jointly(part, features, self.r, self.mask)
        self._offer(best_jointly_on(self.problem.S, self.candidates[rounded.features], self.r))
        return self._shrink(self.certificate) if self.certificate is not None else False

    def _shrink(self, found: JointCertificate) -> bool:
        """Let candidates leave, or be included; return whether any were."""
        mask, level = self.mask, self.level
        useless = ~mask & (found.with_each() <= level)
        needed = ~mask & (found.without_each() <= level)
        if not useless.any() and not needed.any():
            return False
        kept = np.flatnonzero(~useless)
        n_included = np.count_nonzero(mask | needed)
        if np.any(useless & needed) or n_included > self.problem.k or kept.size < self.problem.k:
            self._lower(level)  # nothing better can be
            return True
        self.included = self.candidates[mask | needed]
        state = self.state()
        self.start = None if state is None else state.of(kept)
        self.relaxation = None
        self.candidates = self.candidates[kept]
        return True

    def _cut_in_two(self) -> None:
        """Leave two parts open: with a feature, and without it."""
        assert self.relaxation is not None
        assert self.certificate is not None
        chances = np.where(self.mask, np.inf, self.relaxation.z)
        j = int(np.argmin(np.abs(chances - 0.5)))
        state = self.relaxation.state()
        others = np.delete(np.arange(self.candidates.size), j)
        more = np.append(self.included, self.candidates[j])
        without, with_it = self.certificate.without_each()[j], self.certificate.with_each()[j]
        for bound, candidates, included, start in (
            (without, self.candidates[others], self.included, state.of(others)),
            (with_it, self.candidates, more, state),
        ):
            lowered = min(self.bound, max(float(bound), self.level))
            if lowered <= self.level:
                self._close(lowered)
            else:
                self.children.append((lowered, candidates, included, start))
