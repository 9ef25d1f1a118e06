r"""The joint bound: the multipliers of the joint relaxation, by alternating directions.

The relaxation of :mod:`joint_certificate` has variables P, z and ζ (for zzᵀ, with diag ζ = z),
ζ̄_ij = 1 - z_i - z_j + ζ_ij, G₁, G₂ ⪰ 0, Σz = k, and the inequalities ζ ≥ 0, ζ̄ ≥ 0, ζ_ij ≤ z_i,
Σ_{j≠i} ζ_ij = (k - 1)z_i. Copies of G₁, G₂ and of the inequalities are projected on their cones; P
and ζ then have closed forms, z costs one product with a constant matrix. Two eigendecompositions
for each step; the multipliers are the parts that the projections cut off.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.solvers.subset.joint_certificate import (
    Certificate,
    Frame,
    Multipliers,
    certify,
    frame_of,
)
from jointsparse.solvers.subset.problem import SubsetProblem
from jointsparse.solvers.subset.rules import Rules

MOST_FEATURES = 300  # beyond, one step takes longer than a hundred nodes of the search
OVER_RELAXATION = 1.6
WEIGHT = 0.5  # of the inequalities against the matrices
MANY = 150  # features beyond which a larger penalty to begin with gets down faster
STEPS_BETWEEN = 15  # steps between two proofs, and two looks at the penalty
MOST_STEPS = 600
STALL = 0.004  # share of the gap that as many steps have to close, to be worth while
STEP_WORK = 0.25  # work of a step over n³ + 120n², n = 2c, in the unit in which the search counts
# Work of the search for each unit of work here: little where this bound is the smaller of the two
# and only it can improve, much where the search gets on well without it.
PATIENCE_AHEAD, PATIENCE_BESIDE, PATIENCE_BEHIND = 0.2, 1.0, 4.0
WELL = 1 / 3  # share of the way from principal components to the best set, for that


class JointBound:
    """The best proof found so far, and the relaxation that looks for better ones.

    Parameters
    ----------
    frame : Frame
        The problem.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.best = np.inf
        self.certificate: Certificate | None = None
        self.finished = False
        self._relaxation = Relaxation(frame)
        self._stalled = 0

    @classmethod
    def at_root(cls, problem: SubsetProblem, size: int, rules: Rules) -> JointBound | None:
        """Return the joint bound of a problem; None where there is none."""
        if np.sum(problem.live & rules.allowed) > MOST_FEATURES:
            return None
        frame = frame_of(problem, size, rules)
        return None if frame is None else cls(frame)

    @property
    def steps(self) -> int:
        """Steps made."""
        return self._relaxation.steps

    def due(self, work: float, searched: float, way: float) -> bool:
        """Whether it is worth going on here, rather than in the search.

        Parameters
        ----------
        work : float
            Work of the search so far.
        searched : float
            The bound of the search.
        way : float
            Share of the way from its first bound to the best set that the search has come.
        """
        behind = PATIENCE_BEHIND if way >= WELL else PATIENCE_BESIDE
        patience = PATIENCE_AHEAD if self.best < searched else behind
        rows = 2 * len(self.frame.target)
        mine = STEP_WORK * (rows + 120) * rows**2 * (self.steps + STEPS_BETWEEN)
        return not self.finished and work >= patience * mine

    def improve(self, enough: float, stop: Callable[[], bool]) -> None:
        """Make some steps, and a proof of what they give."""
        while True:
            self._relaxation.step()
            if self.steps % STEPS_BETWEEN == 0:
                break
            if stop():
                return
        found = certify(self.frame, self._relaxation.multipliers())
        self._relaxation.adapt()
        before = self.best
        if found.bound < before:
            self.best, self.certificate = found.bound, found
        slow = before - self.best <= STALL * (self.best - enough)
        self._stalled = self._stalled + 1 if slow else 0
        self.finished = self._stalled >= 3 or self.steps >= MOST_STEPS or self.best <= enough


class Relaxation:
    """The iterates of the method of alternating directions."""

    def __init__(self, frame: Frame) -> None:
        self.frame, self.steps = frame, 0
        split = count = len(frame.target)
        size = frame.size
        self._off = (~np.eye(count, dtype=bool)).astype(np.float64)
        self._one, self._two = frame.inner * self._off, frame.dual_inner * self._off
        self.penalty = max(float(np.trace(frame.target)), 1e-12) / split
        if count > MANY:
            self.penalty *= 12
        self._prepare(count, size)
        self._projection = np.eye(split) * (size / split)
        self._chosen = np.full(count, size / count)
        both = size * (size - 1) / (count * (count - 1))
        self._pairs = np.where(self._off > 0, both, size / count)
        self._copies = [_positive(matrix)[0] for matrix in self._matrices()]
        self._duals = [np.zeros_like(matrix) for matrix in self._copies]
        self._bounds = [np.maximum(part, 0.0) for part in self._inequalities()]
        self._slopes = [np.zeros((count, count)) for _ in range(3)]
        self._rows = np.zeros(count)

    def _prepare(self, count: int, size: int) -> None:
        """Invert the matrix of the linear system for z (and the multipliers of its rows)."""
        one, two, off = self._one, self._two, self._off
        weight = one**2 + two**2 + 4 * WEIGHT
        self._inverse = off / weight
        self._cross = (two**2 + 2 * WEIGHT) * off
        own = (two**2 + WEIGHT) * off - self._cross**2 * self._inverse
        system = own + np.diag(3 + own.sum(axis=1) + WEIGHT * (count - 1))
        ratio = self._cross * self._inverse
        self._has_rows = self.frame.exactly and size > 1
        width = 2 * count + 1 if self._has_rows else count + 1
        matrix = np.zeros((width, width))
        matrix[:count, :count] = system
        matrix[:count, -1], matrix[-1, :count] = -1.0, 1.0
        if self._has_rows:
            link = ratio + np.diag(ratio.sum(axis=1) - (size - 1))
            matrix[:count, count:-1], matrix[count:-1, :count] = -link, link
            matrix[count:-1, count:-1] = self._inverse + np.diag(self._inverse.sum(axis=1))
        self._solve = np.linalg.inv(matrix)

    def _matrices(self) -> list[FloatArray]:
        frame, chosen = self.frame, self._chosen
        inside, outside = frame.columns * chosen, frame.duals * (1 - chosen)
        neither = 1 - chosen[:, None] - chosen + self._pairs
        np.fill_diagonal(neither, 1 - chosen)
        rest = np.eye(len(frame.target)) - self._projection
        return [
            np.block([[self._projection, inside], [inside.T, frame.inner * self._pairs]]),
            np.block([[rest, outside], [outside.T, frame.dual_inner * neither]]),
        ]

    def _inequalities(self) -> list[FloatArray]:
        chosen, pairs = self._chosen, self._pairs
        return [pairs, 1 - chosen[:, None] - chosen + pairs, chosen[:, None] - pairs]

    def step(self) -> None:
        """Make one step."""
        self._update_variables()
        primal = dual = 0.0
        for place, matrix in enumerate(self._matrices()):
            copy = self._copies[place]
            mixed = OVER_RELAXATION * matrix + (1 - OVER_RELAXATION) * copy + self._duals[place]
            positive, negative = _positive(mixed)
            primal += float(np.sum((matrix - positive) ** 2))
            dual += float(np.sum((positive - copy) ** 2))
            self._copies[place], self._duals[place] = positive, negative
        for place, part in enumerate(self._inequalities()):
            copy = self._bounds[place]
            mixed = OVER_RELAXATION * part + (1 - OVER_RELAXATION) * copy + self._slopes[place]
            positive = np.maximum(mixed, 0.0)
            primal += float(np.sum((part - positive) ** 2 * self._off))
            dual += float(np.sum((positive - copy) ** 2 * self._off))
            self._bounds[place] = positive
            self._slopes[place] = np.minimum(mixed, 0.0) * self._off
        self._residuals = primal**0.5, dual**0.5
        self.steps += 1

    def _update_variables(self) -> None:
        frame = self.frame
        split = count = len(frame.target)
        first, second = (c - d for c, d in zip(self._copies, self._duals, strict=True))
        low, none, part = (b - s for b, s in zip(self._bounds, self._slopes, strict=True))
        identity = np.eye(split)
        projection = first[:split, :split] + identity - second[:split, :split]
        projection = 0.5 * (projection + frame.target / self.penalty)
        projection -= (np.trace(projection) - frame.size) / split * identity
        inside = np.einsum("ij,ij->j", frame.columns, first[:split, split:])
        outside = np.einsum("ij,ij->j", frame.duals, second[:split, split:])
        one, two = first[split:, split:], second[split:, split:]
        right = inside + 0.5 * np.diagonal(one) + 1 - outside
        right = right + 0.5 * (1 - np.diagonal(two))
        pull = self._one * one + self._two * two - self._two**2
        pull = (pull + WEIGHT * (low + none - 1 - part - part.T)) * self._off
        constant = -(self._two**2) - WEIGHT + self._two * two + WEIGHT * (none - part)
        constant = (constant - self._cross * self._inverse * pull) * self._off
        right = right - constant.sum(axis=1)
        if self._has_rows:
            rows = -(pull * self._inverse).sum(axis=1)
            solution = self._solve @ np.concatenate([right, rows, [frame.size]])
            self._rows = solution[count:-1]
        else:
            solution = self._solve @ np.append(right, frame.size)
        chosen = solution[:count]
        sums = chosen[:, None] + chosen
        pairs = (pull + self._cross * sums + self._rows[:, None] + self._rows) * self._inverse
        np.fill_diagonal(pairs, chosen)
        self._projection, self._chosen, self._pairs = projection, chosen, pairs

    def adapt(self) -> None:
        """Change the penalty where one of the residuals is much the larger."""
        primal, dual = self._residuals
        factor = 1.5 if primal > 2 * dual else 1 / 1.5 if dual > 2 * primal else 1.0
        self.penalty *= factor
        self._duals = [part / factor for part in self._duals]
        self._slopes = [part / factor for part in self._slopes]

    def multipliers(self) -> Multipliers:
        """Return what the projections have cut off."""
        first, second = (-self.penalty * part for part in self._duals)
        weight = WEIGHT * self.penalty
        turn = -2 * weight * self._slopes[2] - 2 * self.penalty * self._rows[:, None]
        return Multipliers(first, second, -weight * self._slopes[1], turn)


def _positive(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the positive and the negative part of a symmetric matrix; their sum is the matrix."""
    values, vectors = np.linalg.eigh(matrix)
    cut = int(np.searchsorted(values, 0.0))
    if 2 * cut <= values.size:
        negative = (vectors[:, :cut] * values[:cut]) @ vectors[:, :cut].T
        return matrix - negative, negative
    positive = (vectors[:, cut:] * values[cut:]) @ vectors[:, cut:].T
    return positive, matrix - positive
