"""One node of the search while it is looked at: bounded, shrunk, and closed or cut in two."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.sparse_component.bound_admm import Relaxation, State
from jointsparse.solvers.sparse_component.certificate import (
    BoolArray,
    Certificate,
    is_below,
    upper_eigenvalue,
)
from jointsparse.solvers.sparse_component.gershgorin import eliminate
from jointsparse.solvers.sparse_component.joint_bound import JointRelaxation
from jointsparse.solvers.sparse_component.nonnegative import bound_on_faces
from jointsparse.solvers.sparse_component.primal import Component, best_on, exchanged, largest
from jointsparse.solvers.sparse_component.problem import Problem

CHUNKS = (20, 20, 20, 40, 50, 60, 80, 100, 120, 140, 160)  # steps between two looks at the bound
SHRINK_AT = (40, 100, 210, 390, 650)  # steps after which the certificate is asked what may leave
EARLIEST = 100  # steps before a node is cut in two
SLOW = 0.9  # of the distance to the level: two looks that leave more of it, and the node is cut
OTHER_CHUNKS = (40, 60, 100)  # steps between two looks at the other bound
WORTH = 0.05  # share of the candidates that must leave for the relaxation to begin anew
CLEAR = 1e-9  # of k times the largest entry: an eigenvalue so far below the level is below it


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


class Part:
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

    def __init__(self, problem: Problem, node: Node, best: Component) -> None:
        self.problem, self.best = problem, best
        self.bound, self.start = node.bound, node.start
        self.candidates, self.included = node.candidates, node.included
        self.closed = -np.inf
        self.children: list[tuple[float, IntArray, IntArray, State | None]] = []
        self.relaxation: Relaxation | None = None
        self.certificate: Certificate | None = None

    @property
    def level(self) -> float:
        """Only supports better than this are looked for."""
        return self.problem.level(self.best.value)

    @property
    def mask(self) -> BoolArray:
        """Which candidates must be in the support."""
        return np.isin(self.candidates, self.included)

    def state(self) -> State | None:
        """Return where to go on from."""
        return self.start if self.relaxation is None else self.relaxation.state()

    def work(self, deadline: float | None) -> bool:
        """Do all there is to do; return whether it was done before the deadline."""
        while self._shrink_by_rows() and not self._is_small():
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
        """Note a bound for something that needs no more work."""
        self.closed = max(self.closed, min(self.bound, max(bound, self.level)))

    def _lower(self, bound: float) -> None:
        """Note a bound for what is left; what had left before is below the level."""
        self.bound = min(self.bound, max(bound, self.level))

    def _offer(self, features: IntArray) -> None:
        found = best_on(self.problem.S, features, nonnegative=self.problem.nonnegative)
        if found.value > self.best.value:
            self.best = found

    def _keep(self, kept: IntArray) -> None:
        """Go on with some of the candidates."""
        if kept.size < self.candidates.size:
            state = self.state()
            self.start = None if state is None else state.of(kept)
            self.relaxation = None
            self.candidates = self.candidates[kept]

    def _shrink_by_rows(self) -> bool:
        """Let candidates leave by the rows of S; return whether anything is left."""
        problem = self.problem
        part = problem.part(self.candidates)
        kept, bound = eliminate(
            part, problem.k, self.mask, self.level, nonnegative=problem.nonnegative
        )
        self._lower(bound)
        if kept.size == 0:
            self._close(self.bound)
            return False
        self._keep(kept)
        return True

    def _is_small(self) -> bool:
        """Solve what needs no relaxation; return whether that was all."""
        k, S = self.problem.k, self.problem.S
        if self.candidates.size == k:
            self._solve(self.candidates)
        elif self.included.size == k:
            self._solve(self.included)
        elif self.included.size == k - 1:
            free = self.candidates[~self.mask]
            sets = np.column_stack([np.tile(self.included, (free.size, 1)), free])
            values = np.linalg.eigvalsh(S[sets[:, :, None], sets[:, None, :]])[:, -1]
            for i in np.argsort(-values, kind="stable"):
                if values[i] <= self.level - CLEAR * k * self.problem.size:
                    break
                self._solve(sets[i])
            self._close(self.level)
        else:
            return False
        return True

    def _solve(self, features: IntArray) -> None:
        """Close one support."""
        self._offer(features)
        bound = upper_eigenvalue(self.problem.part(features))
        if self.problem.nonnegative and bound > self.level:
            bound = bound_on_faces(self.problem.part(np.sort(features)), self.level)
        self._close(bound)

    def _relax(self, deadline: float | None) -> bool:
        """Bound what is left; return whether there is now less of it."""
        problem = self.problem
        relaxation = Relaxation(
            problem.part(self.candidates),
            problem.k,
            self.mask,
            nonnegative=problem.nonnegative,
            start=self.start,
        )
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
            if relaxation.steps in SHRINK_AT and self._shrink_by_certificate(WORTH):
                return True
            distances.append(self.certificate.value - self.level)
            slow = distances[-1] > SLOW * distances[-3]
            if slow and relaxation.steps >= EARLIEST:
                break
        self._round(relaxation.chances())
        return self._shrink_by_certificate(0.0) or self._relax_otherwise(deadline)

    def _round(self, chances: FloatArray) -> None:
        """Look whether the relaxation points to a better support."""
        problem = self.problem
        part = problem.part(self.candidates)
        features = largest(chances, problem.k, self.mask, nonnegative=True)
        found = exchanged(part, features, self.mask, nonnegative=problem.nonnegative)
        self._offer(self.candidates[found.features])

    def _shrink_by_certificate(self, worth: float) -> bool:
        """Let candidates leave, or be included, by the best certificate; whether any were."""
        assert self.certificate is not None
        useless = proved_useless(self.certificate, self.level)
        needed = proved_needed(self.certificate, self.level)
        return self._leave(useless, needed, worth)

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

    def _relax_otherwise(self, deadline: float | None) -> bool:
        """Try the bound that is made for several components; return whether there is now less.

        It is better where the best component uses hardly more features than it needs, and as a
        proof it is as good.
        """
        assert self.certificate is not None
        mask = self.mask
        relaxation = JointRelaxation(self.problem.part(self.candidates), self.problem.k, 1, mask)
        for chunk in OTHER_CHUNKS:
            relaxation.advance(chunk, deadline)
            found = relaxation.certificate()
            self._lower(found.value)
            late = deadline is not None and time.perf_counter() >= deadline
            if self.bound <= self.level or late:
                return False
            level = self.level
            useless = ~mask & (found.with_each() <= level)
            if self._leave(useless, ~mask & (found.without_each() <= level)):
                return True
            if found.value > self.certificate.value:
                break
        return False

    def _cut_in_two(self) -> None:
        """Leave two parts open: with a feature, and without it."""
        assert self.relaxation is not None
        assert self.certificate is not None
        chances = self.relaxation.chances()
        chances[self.mask] = np.inf
        j = int(np.argmin(np.abs(chances - 0.5)))
        state, rows = self.relaxation.state(), self.certificate.rows
        others = np.delete(np.arange(self.candidates.size), j)
        feature = self.candidates[j]
        options = [
            (rows.without_feature(j), self.candidates[others], self.included, state.of(others)),
            (rows.with_feature(j), self.candidates, np.append(self.included, feature), state),
        ]
        for sums, candidates, included, start in options:
            bound = upper_eigenvalue(self.certificate.bounded(sums))
            bound = min(self.bound, max(bound, self.level))
            if bound <= self.level:
                self._close(bound)
            else:
                self.children.append((bound, candidates, included, start))


def proved_useless(found: Certificate, level: float) -> BoolArray:
    """Return which features no support better than ``level`` holds."""
    free = np.flatnonzero(~found.included)
    useless = np.zeros(len(found.matrix), dtype=bool)
    sums = found.rows.with_each(free)
    # Where a vector already shows a larger value, no factorisation is needed.
    hopeful = _below_on_eigenvectors(found, sums, level)
    for position in np.flatnonzero(hopeful):
        useless[free[position]] = is_below(found.bounded(sums[:, position]), level)
    return useless


def proved_needed(found: Certificate, level: float) -> BoolArray:
    """Return which features every support better than ``level`` holds."""
    free = np.flatnonzero(~found.included)
    needed = np.zeros(len(found.matrix), dtype=bool)
    sums = np.column_stack([found.rows.without_feature(int(j)) for j in free])
    hopeful = _below_on_eigenvectors(found, sums, level)
    for position in np.flatnonzero(hopeful):
        needed[free[position]] = is_below(found.bounded(sums[:, position]), level)
    return needed


def _below_on_eigenvectors(found: Certificate, sums: FloatArray, level: float) -> BoolArray:
    """Return for which columns of sums a few vectors leave it possible that all is below."""
    matrix = found.bounded(found.rows.total)
    if len(matrix) < len(sums):  # some features have no place; their rows are none
        return np.ones(sums.shape[1], dtype=bool)
    vectors = np.linalg.eigh(matrix)[1][:, -3:]
    base = found.matrix @ vectors
    hopeful = np.ones(sums.shape[1], dtype=bool)
    present = np.isfinite(sums)
    finite = np.where(present, sums, 0.0)
    for q, image in zip(vectors.T, base.T, strict=True):
        squares = q * q
        # With rows left out, the vector is cut; the cross terms are bounded by dropping the test.
        whole = present.all(axis=0)
        quotient = float(q @ image) + squares @ finite
        hopeful &= ~whole | (quotient <= level)
        for position in np.flatnonzero(~whole & hopeful):
            cut = np.where(present[:, position], q, 0.0)
            length = float(cut @ cut)
            if length > 0:
                value = float(cut @ found.matrix @ cut) + (cut * cut) @ finite[:, position]
                hopeful[position] = value / length <= level
    return hopeful
