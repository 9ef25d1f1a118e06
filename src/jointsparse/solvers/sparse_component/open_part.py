"""One node of a search while it is looked at: what the two kinds of bounds have in common."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.sparse_component.certificate import BoolArray
from jointsparse.solvers.sparse_component.primal import Component
from jointsparse.solvers.sparse_component.problem import Problem

SLOW = 0.9  # of the distance to the level: two looks that leave more of it, and the node is cut


@dataclass(frozen=True, order=True)
class Node:
    """A part of the problem that is open; the largest bound is first in order.

    Attributes
    ----------
    key : tuple
        Minus the bound, and the number of the node.
    candidates, included : ndarray
        Features that may be in the support, and those of them that must be.
    start : State, JointState or None
        Where the relaxation may start.
    """

    key: tuple[float, int]
    candidates: IntArray = field(compare=False)
    included: IntArray = field(compare=False)
    start: Any = field(compare=False, default=None)

    @property
    def bound(self) -> float:
        """No support in this part is better."""
        return -self.key[0]


class OpenPart:
    """A node while it is looked at.

    Attributes
    ----------
    bound : float
        No support in this part is better than this (or than the level, where that is more).
    best : Component
        The best known component.
    closed : float
        A bound for what was closed; minus infinity where nothing was.
    children : list
        Bound, candidates, included features and start of every part that stays open.
    """

    earliest: int  # steps before a node is cut in two

    def __init__(self, problem: Problem, node: Node, best: Component) -> None:
        self.problem, self.best = problem, best
        self.bound, self.start = node.bound, node.start
        self.candidates, self.included = node.candidates, node.included
        self.closed = -np.inf
        self.children: list[tuple[float, IntArray, IntArray, Any]] = []
        self.relaxation: Any = None
        self.certificate: Any = None

    @property
    def level(self) -> float:
        """Only supports better than this are looked for."""
        return self.problem.level(self.best.value)

    @property
    def mask(self) -> BoolArray:
        """Which candidates must be in the support."""
        return np.isin(self.candidates, self.included)

    def state(self) -> Any:
        """Return where to go on from."""
        return self.start if self.relaxation is None else self.relaxation.state()

    def work(self, deadline: float | None) -> bool:
        """Do all there is to do; return whether it was done before the deadline."""
        while not self._is_done():
            again = self._relax(deadline)
            if self.bound <= self.level:
                self._close(self.bound)
                return True
            if is_late(deadline):
                return False
            if not again:
                self._cut_in_two()
                return True
        return True

    def _is_done(self) -> bool:
        """Do what needs no relaxation; return whether that was all."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _relax(self, deadline: float | None) -> bool:
        """Bound what is left; return whether there is now less of it."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _shrink(self) -> bool:
        """Let candidates leave, or be included, by the certificate; return whether any were."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _halves(self) -> tuple[int, FloatArray]:
        """Return the candidate to branch on, and the bounds without it and with it."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _advance(
        self, relaxation: Any, chunks: Iterable[int], deadline: float | None
    ) -> bool | None:
        """Make steps of a relaxation, with looks at what is proved.

        Returns whether candidates have left; None where the steps have become slow, and neither
        that, nor the level, nor the deadline was reached.
        """
        self.relaxation, self.certificate = relaxation, None
        distances = [np.inf, np.inf]
        for chunk in chunks:
            relaxation.advance(chunk, deadline)
            found = relaxation.certificate()
            if self.certificate is None or found.value < self.certificate.value:
                self.certificate = found
            self._lower(found.value)
            if self.bound <= self.level or is_late(deadline):
                return False
            if self._shrink():
                return True
            distances.append(self.certificate.value - self.level)
            if distances[-1] > SLOW * distances[-3] and relaxation.steps >= self.earliest:
                break
        return None

    def _close(self, bound: float) -> None:
        """Note a bound for something that needs no more work."""
        self.closed = max(self.closed, min(self.bound, max(bound, self.level)))

    def _lower(self, bound: float) -> None:
        """Note a bound for what is left; what had left before is below the level."""
        self.bound = min(self.bound, max(bound, self.level))

    def _offer(self, found: Component) -> None:
        if found.value > self.best.value:
            self.best = found

    def _keep(self, kept: IntArray) -> None:
        """Go on with some of the candidates."""
        if kept.size < self.candidates.size:
            state = self.state()
            self.start = None if state is None else state.of(kept)
            self.relaxation = None
            self.candidates = self.candidates[kept]

    def _leave(self, useless: BoolArray, needed: BoolArray, worth: float = 0.0) -> bool:
        """Let candidates leave, or be included, where they are enough to be worth it."""
        mask = self.mask
        changes = np.count_nonzero(useless) + np.count_nonzero(needed)
        if changes == 0 or changes < worth * np.count_nonzero(~mask):
            return False
        kept = np.flatnonzero(~useless)
        n_included = np.count_nonzero(mask | needed)
        if np.any(useless & needed) or n_included > self.problem.k or kept.size < self.problem.k:
            self._lower(self.level)  # nothing better can be
            return True
        self.included = self.candidates[mask | needed]
        self._keep(kept)
        return True

    def _cut_in_two(self) -> None:
        """Leave two parts open: without a feature, and with it."""
        j, (without, with_it) = self._halves()
        state = self.relaxation.state()
        others = np.delete(np.arange(self.candidates.size), j)
        more = np.append(self.included, self.candidates[j])
        for bound, candidates, included, start in (
            (without, self.candidates[others], self.included, state.of(others)),
            (with_it, self.candidates, more, state),
        ):
            lowered = min(self.bound, max(float(bound), self.level))
            if lowered <= self.level:
                self._close(lowered)
            else:
                self.children.append((lowered, candidates, included, start))


def is_late(deadline: float | None) -> bool:
    """Whether the time is over."""
    return deadline is not None and time.perf_counter() >= deadline
