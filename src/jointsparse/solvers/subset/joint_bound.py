r"""The joint bound: one relaxation for all sets, then one for each part of them.

Where the steps of a relaxation hardly lower its bound any more, its sets are split in parts. Let
W_0 … W_k be *disjoint* groups of features. A set of k features cannot have a member in each of
them, so every set is one of those without W_0, or of those without W_1, …, and no set is worth more
than the largest of these k + 1 bounds. Each of the parts is the same problem with fewer features,
and its relaxation goes on where the one before stood. Groups are hardest to do without where
their features resemble each other, and have the same share of Σz and of all features: they are cut
along principal directions of the squared correlations.

The part with the largest bound is worked on first; one that makes no progress is split again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.subset.joint_certificate import Certificate, Frame, certify, frame_of
from jointsparse.solvers.subset.joint_relaxation import SINGLE, Relaxation
from jointsparse.solvers.subset.problem import SubsetProblem
from jointsparse.solvers.subset.rules import Rules

MOST_FEATURES = 300  # beyond, one step takes longer than a hundred nodes of the search
# Features from which an accelerator is faster than one core of its host, and up to which it makes
# some thirty steps a second: 1.3 times as fast with 200, twice with 256, twelve times with 617.
FEWEST_THERE, MOST_THERE = 200, 700
STEPS_BETWEEN = 15  # steps between two proofs, and two looks at the penalty
MOST_STEPS = 600  # of one relaxation
STALLS = 3  # times in a row that nothing worth while came of steps
FIRST = 45  # steps that the search has to be worth before the first ones are made here
STALL = 0.004  # share of the gap that as many steps have to close, to be worth while
MOST_BYTES = 2**27  # of all relaxations
MOST_PARTS = 100  # their problems take as much as that once more
MATRICES = 45  # of the size of the features that a relaxation keeps
# Work of a step over n³ + 120n², n = 2c, in the unit in which the search counts.
STEP_WORK, SINGLE_STEP_WORK = 0.25, 0.06
# Work of the search for each unit of work here: little where this bound is the smaller of the two
# and only it can improve.
PATIENCE_AHEAD, PATIENCE_BEHIND = 0.1, 0.4
# In parts both may have the longer breath, so each gets half of the time. But first the search has
# a few seconds to itself: what it can prove at all it often proves in those.
PATIENCE_IN_PARTS, PARTS_AFTER = 1.0, 1e9


class _Part:
    """The sets without some features: the best proof found so far, and a relaxation.

    Parameters
    ----------
    frame : Frame
        The problem.
    without : ndarray of bool of shape (n_features,)
        Features that none of its sets has, besides those that may not be in.
    best : float
        A bound on its sets.
    origin : Relaxation or None
        The relaxation of a larger part, from which its own begins.
    """

    def __init__(
        self,
        frame: Frame,
        without: NDArray[np.bool_],
        best: float = np.inf,
        origin: Relaxation | None = None,
    ) -> None:
        self.frame, self.without, self.best, self.origin = frame, without, best, origin
        self.certificate: Certificate | None = None
        self.relaxation: Relaxation | None = None
        self.lowest = np.inf  # bound of its own relaxation: the first ones are above ``best``
        self.stalled = 0

    @property
    def step_work(self) -> float:
        """Work of one step."""
        count = len(self.frame.target)
        each = STEP_WORK if count < SINGLE else SINGLE_STEP_WORK
        return each * (2 * count + 120) * (2 * count) ** 2

    @property
    def size_in_bytes(self) -> int:
        """What its relaxation takes."""
        count = len(self.frame.target)
        return MATRICES * count**2 * (8 if count < SINGLE else 4)

    def begin(self, home: Any) -> None:
        """Have a relaxation: that of the larger part as far as it has come, or a new one."""
        if self.relaxation is None:
            start = self.origin
            self.relaxation = (
                Relaxation(self.frame, home) if start is None else start.restricted(self.frame)
            )
            self.origin, self.lowest = None, np.inf

    def improve(self, enough: float, stop: Callable[[], bool]) -> int:
        """Make some steps, and a proof of what they give; return how many steps."""
        relaxation = self.relaxation
        assert relaxation is not None
        made = 0
        while True:
            relaxation.step()
            made += 1
            if relaxation.steps % STEPS_BETWEEN == 0:
                break
            if stop():
                return made
        found = certify(self.frame, relaxation.multipliers())
        relaxation.adapt()
        before, self.lowest = self.lowest, min(self.lowest, found.bound)
        if found.bound < self.best:
            self.best, self.certificate = found.bound, found
        slow = before - self.lowest <= STALL * (self.lowest - enough)
        self.stalled = self.stalled + 1 if slow else 0
        return made

    @property
    def at_its_end(self) -> bool:
        """Whether more steps would hardly change anything."""
        made = 0 if self.relaxation is None else self.relaxation.steps
        return self.stalled >= STALLS or made >= MOST_STEPS

    def feature_bounds(self, include: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        """Return what none of its sets with each feature exceeds, and none without it."""
        inside = np.where(self.without, -np.inf, self.best)
        outside = np.full(inside.size, self.best)
        outside[list(include)] = np.inf  # there is none
        if self.certificate is not None:
            features = self.frame.features
            inside[features] = np.minimum(self.certificate.bounds_with, self.best)
            outside[features] = np.minimum(self.certificate.bounds_without, self.best)
        return inside, outside


class JointBound:
    """The best proof found so far, and the parts in which better ones are looked for.

    Parameters
    ----------
    problem : SubsetProblem
        Features and target.
    size : int
        Number of features.
    rules : Rules
        Constraints.
    frame : Frame
        The same problem as the relaxation sees it.
    """

    def __init__(self, problem: SubsetProblem, size: int, rules: Rules, frame: Frame) -> None:
        self._problem, self._size, self._rules = problem, size, rules
        self._home = problem.home if len(frame.target) >= FEWEST_THERE else None
        self.best, self.steps, self.work = np.inf, 0, 0.0
        self.finished = False
        self._root = _Part(frame, np.zeros(problem.n_features, dtype=bool))
        self._parts = [self._root]

    @classmethod
    def at_root(cls, problem: SubsetProblem, size: int, rules: Rules) -> JointBound | None:
        """Return the joint bound of a problem; None where there is none."""
        most = MOST_FEATURES if problem.home is None else MOST_THERE
        if np.sum(problem.live & rules.allowed) > most:
            return None
        frame = frame_of(problem, size, rules)
        return None if frame is None else cls(problem, size, rules, frame)

    @property
    def n_parts(self) -> int:
        """Number of parts in which all sets are."""
        return len(self._parts)

    def due(self, work: float, searched: float) -> bool:
        """Whether it is worth going on here, rather than in the search.

        Parameters
        ----------
        work : float
            Work of the search so far.
        searched : float
            The bound of the search.
        """
        if self.finished:
            return False
        if self.n_parts > 1:
            return work >= max(PARTS_AFTER, PATIENCE_IN_PARTS * self.work)
        patience = PATIENCE_AHEAD if self.best < searched else PATIENCE_BEHIND
        return work >= patience * (self.work + FIRST * self._root.step_work)

    def improve(self, enough: float, stop: Callable[[], bool]) -> None:
        """Make some steps in the part with the largest bound, and a proof of what they give."""
        part = max(self._parts, key=lambda one: one.best)
        self._make_room(part)
        part.begin(self._home)
        made = part.improve(enough, stop)
        self.steps += made
        self.work += made * part.step_work
        self.best = min(self.best, max(one.best for one in self._parts))
        if self.best <= enough:
            self.finished = True
        elif part.at_its_end:
            self.finished = not self._split(part)

    def feature_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return what no set with each feature can exceed, and what none without it can."""
        of_parts = [part.feature_bounds(self._rules.include) for part in self._parts]
        whole = self._root.feature_bounds(self._rules.include)
        inside, outside = (np.max(each, axis=0) for each in zip(*of_parts, strict=True))
        return np.minimum(inside, whole[0]), np.minimum(outside, whole[1])

    def _make_room(self, part: _Part) -> None:
        """Let go of relaxations until there is room for one more, the smallest bounds first.

        Such a part is bounded as it is; it begins again should its bound be the largest one day.
        """
        if part.relaxation is not None:
            return
        others = [one for one in self._parts if one.relaxation is not None]
        kept = part.size_in_bytes + sum(one.size_in_bytes for one in others)
        for one in sorted(others, key=lambda other: other.best):
            if kept <= MOST_BYTES:
                break
            one.relaxation = None
            kept -= one.size_in_bytes

    def _split(self, part: _Part) -> bool:
        """Put the parts of a part in its place; return whether that is possible."""
        count, groups = len(part.frame.target), part.frame.size + 1
        origin = part.relaxation
        if origin is None or count < 2 * groups or self.n_parts + groups > MOST_PARTS:
            return False
        # A group of few features is easily done without, however much of it is in.
        weights = np.maximum(origin.weights, 0.0)
        labels = alike(part.frame.inner**2, weights / weights.sum() + 1 / count, groups)
        parts = []
        for group in range(groups):
            without = part.without.copy()
            without[part.frame.features[labels == group]] = True
            frame = frame_of(self._problem, self._size, self._rules, without=without)
            if frame is None:
                return False
            parts.append(_Part(frame, without, part.best, origin))
        self._parts = [one for one in self._parts if one is not part] + parts
        part.relaxation = None
        return True


def alike(similar: FloatArray, weights: FloatArray, count: int) -> IntArray:
    """Return groups of features that resemble each other, of about the same weight each.

    Parameters
    ----------
    similar : ndarray of shape (c, c)
        Similarities: a positive semidefinite matrix.
    weights : ndarray of shape (c,)
        Weights, positive.
    count : int
        How many groups.

    Returns
    -------
    ndarray of shape (c,)
        The group of each feature.
    """
    labels = np.zeros(len(similar), dtype=np.int64)
    todo = [(np.arange(len(similar)), 0, count)]
    while todo:
        members, first, wanted = todo.pop()
        labels[members] = first
        if wanted == 1:
            continue
        mass = weights[members] / weights[members].sum()
        centred = similar[np.ix_(members, members)]
        centred = centred - mass @ centred
        centred = centred - (centred @ mass)[:, None]
        root = np.sqrt(mass)
        direction = np.linalg.eigh(root[:, None] * centred * root)[1][:, -1]
        order = np.argsort(direction / root, kind="stable")
        share = (wanted // 2) / wanted
        cut = int(np.argmin(np.abs(np.cumsum(mass[order]) - share))) + 1
        cut = min(max(cut, wanted // 2), members.size - (wanted - wanted // 2))
        todo.append((members[order[:cut]], first, wanted // 2))
        todo.append((members[order[cut:]], first + wanted // 2, wanted - wanted // 2))
    return labels
