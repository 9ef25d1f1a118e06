r"""The joint bound: the multipliers of the joint relaxation, by alternating directions.

The relaxation of :mod:`joint_certificate` has variables P, z and ζ (for zzᵀ, with diag ζ = z),
ζ̄_ij = 1 - z_i - z_j + ζ_ij, G₁, G₂, ζ ⪰ 0, Σz = k, and the inequalities ζ ≥ 0, ζ̄ ≥ 0, ζ_ij ≤ z_i,
Σ_{j≠i} ζ_ij = (k - 1)z_i. Copies of G₁, G₂, ζ and of the inequalities are projected on their cones;
P and ζ then have closed forms, z costs one product with a constant matrix. Three
eigendecompositions for each step; the multipliers are the parts that the projections cut off.

Any multipliers are a proof, so steps may be rounded as one likes: those of many features are made
in single precision, which takes half the time. Proofs are in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh

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
OVER_RELAXATION = 1.8
# Of the inequalities, and of ζ ⪰ 0, against the Gram matrices. Their c² copies hold z and ζ where
# they are: with a weight of 0.5, USPS needs ten times as many steps.
WEIGHT, PAIR_WEIGHT = 0.01, 0.1
FEW = 75  # features up to which the penalty begins at the mean eigenvalue; then as their square
SINGLE = 100  # features from which steps are made in single precision
MUCH = 10  # times the other residual: a penalty that changes sooner is changed back later
STEPS_BETWEEN = 15  # steps between two proofs, and two looks at the penalty
MOST_STEPS = 600
FIRST = 45  # steps that the search has to be worth before the first ones are made here
STALL = 0.004  # share of the gap that as many steps have to close, to be worth while
# Work of a step over n³ + 120n², n = 2c, in the unit in which the search counts.
STEP_WORK, SINGLE_STEP_WORK = 0.25, 0.06
# Work of the search for each unit of work here: little where this bound is the smaller of the two
# and only it can improve.
PATIENCE_AHEAD, PATIENCE_BEHIND = 0.1, 0.4


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

    def due(self, work: float, searched: float) -> bool:
        """Whether it is worth going on here, rather than in the search.

        Parameters
        ----------
        work : float
            Work of the search so far.
        searched : float
            The bound of the search.
        """
        patience = PATIENCE_AHEAD if self.best < searched else PATIENCE_BEHIND
        count = len(self.frame.target)
        each = STEP_WORK if count < SINGLE else SINGLE_STEP_WORK
        mine = each * (2 * count + 120) * (2 * count) ** 2 * (self.steps + FIRST)
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
        kind: Any = np.float32 if count >= SINGLE else np.float64
        self._columns, self._duals_of, self._inner, self._dual_inner, self._target = (
            part.astype(kind)
            for part in (frame.columns, frame.duals, frame.inner, frame.dual_inner, frame.target)
        )
        self._identity = np.eye(count, dtype=kind)
        self._off = 1 - self._identity
        self._one, self._two = self._inner * self._off, self._dual_inner * self._off
        self.penalty = max(float(np.trace(frame.target)), 1e-12) / split
        self.penalty *= max(1.0, (count / FEW) ** 2)
        self._prepare(count, size)
        self._projection = self._identity * kind(size / split)
        self._chosen = np.full(count, size / count, dtype=kind)
        both = size * (size - 1) / (count * (count - 1))
        self._pairs = np.where(self._off > 0, both, size / count).astype(kind)
        self._copies = [_positive(matrix)[0] for matrix in self._matrices()]
        self._duals = [np.zeros_like(matrix) for matrix in self._copies]
        self._bounds = [np.maximum(part, 0.0) for part in self._inequalities()]
        self._slopes = [np.zeros_like(self._pairs) for _ in range(3)]
        self._rows = np.zeros(count, dtype=kind)

    def _prepare(self, count: int, size: int) -> None:
        """Invert the matrix of the linear system for z (and the multipliers of its rows)."""
        off = ~np.eye(count, dtype=bool)
        one, two = self.frame.inner * off, self.frame.dual_inner * off
        inverse = off / (one**2 + two**2 + 4 * WEIGHT + PAIR_WEIGHT)
        cross = (two**2 + 2 * WEIGHT) * off
        own = (two**2 + WEIGHT) * off - cross**2 * inverse
        alone = 3 + PAIR_WEIGHT / 2 + WEIGHT * (count - 1)
        system = own + np.diag(alone + own.sum(axis=1))
        ratio = cross * inverse
        self._has_rows = self.frame.exactly and size > 1
        width = 2 * count + 1 if self._has_rows else count + 1
        matrix = np.zeros((width, width))
        matrix[:count, :count] = system
        matrix[:count, -1], matrix[-1, :count] = -1.0, 1.0
        if self._has_rows:
            link = ratio + np.diag(ratio.sum(axis=1) - (size - 1))
            matrix[:count, count:-1], matrix[count:-1, :count] = -link, link
            matrix[count:-1, count:-1] = inverse + np.diag(inverse.sum(axis=1))
        self._solve = np.linalg.inv(matrix)
        kind = self._off.dtype
        self._inverse, self._cross = inverse.astype(kind), cross.astype(kind)

    def _matrices(self) -> list[FloatArray]:
        chosen = self._chosen
        inside, outside = self._columns * chosen, self._duals_of * (1 - chosen)
        neither = 1 - chosen[:, None] - chosen + self._pairs
        np.fill_diagonal(neither, 1 - chosen)
        rest = self._identity - self._projection
        return [
            np.block([[self._projection, inside], [inside.T, self._inner * self._pairs]]),
            np.block([[rest, outside], [outside.T, self._dual_inner * neither]]),
            self._pairs,
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
            weight = 1.0 if place < 2 else PAIR_WEIGHT
            primal += weight * float(np.sum((matrix - positive) ** 2))
            dual += weight * float(np.sum((positive - copy) ** 2))
            self._copies[place], self._duals[place] = positive, negative
        for place, part in enumerate(self._inequalities()):
            copy = self._bounds[place]
            mixed = OVER_RELAXATION * part + (1 - OVER_RELAXATION) * copy + self._slopes[place]
            positive = np.maximum(mixed, 0.0)
            primal += WEIGHT * float(np.sum((part - positive) ** 2 * self._off))
            dual += WEIGHT * float(np.sum((positive - copy) ** 2 * self._off))
            self._bounds[place] = positive
            self._slopes[place] = np.minimum(mixed, 0.0) * self._off
        self._residuals = primal**0.5, dual**0.5
        self.steps += 1

    def _update_variables(self) -> None:
        frame = self.frame
        split = count = len(frame.target)
        first, second, third = (c - d for c, d in zip(self._copies, self._duals, strict=True))
        low, none, part = (b - s for b, s in zip(self._bounds, self._slopes, strict=True))
        projection = first[:split, :split] + self._identity - second[:split, :split]
        projection = 0.5 * (projection + self._target / self.penalty)
        projection -= (np.trace(projection) - frame.size) / split * self._identity
        inside = np.einsum("ij,ij->j", self._columns, first[:split, split:])
        outside = np.einsum("ij,ij->j", self._duals_of, second[:split, split:])
        one, two = first[split:, split:], second[split:, split:]
        right = inside + 0.5 * np.diagonal(one) + 1 - outside
        right = right + 0.5 * (1 - np.diagonal(two)) + 0.5 * PAIR_WEIGHT * np.diagonal(third)
        pull = self._one * one + self._two * two - self._two**2 + PAIR_WEIGHT * third
        pull = (pull + WEIGHT * (low + none - 1 - part - part.T)) * self._off
        constant = -(self._two**2) - WEIGHT + self._two * two + WEIGHT * (none - part)
        constant = (constant - self._cross * self._inverse * pull) * self._off
        right = right - constant.sum(axis=1)
        if self._has_rows:
            rows = -(pull * self._inverse).sum(axis=1)
            solution = self._solve @ np.concatenate([right, rows, [frame.size]])
            self._rows = solution[count:-1].astype(right.dtype)
        else:
            solution = self._solve @ np.append(right, frame.size)
        chosen = solution[:count].astype(right.dtype)
        sums = chosen[:, None] + chosen
        pairs = (pull + self._cross * sums + self._rows[:, None] + self._rows) * self._inverse
        np.fill_diagonal(pairs, chosen)
        self._projection, self._chosen, self._pairs = projection, chosen, pairs

    def adapt(self) -> None:
        """Change the penalty where one of the residuals is much the larger."""
        primal, dual = self._residuals
        factor = 1.5 if primal > MUCH * dual else 1 / 1.5 if dual > MUCH * primal else 1.0
        self.penalty *= factor
        self._duals = [part / factor for part in self._duals]
        self._slopes = [part / factor for part in self._slopes]

    def multipliers(self) -> Multipliers:
        """Return what the projections have cut off."""
        first, second, third = (-self.penalty * part.astype(np.float64) for part in self._duals)
        _, none, part = (-WEIGHT * self.penalty * s.astype(np.float64) for s in self._slopes)
        turn = 2 * part - 2 * self.penalty * self._rows.astype(np.float64)[:, None]
        return Multipliers(first, second, none, turn, PAIR_WEIGHT * third)


def _positive(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the positive and the negative part of a symmetric matrix; their sum is the matrix."""
    # SciPy's driver makes use of single precision, NumPy's does not.
    values, vectors = eigh(matrix, driver="evd", check_finite=False)
    cut = int(np.searchsorted(values, 0.0))
    if 2 * cut <= values.size:
        negative = (vectors[:, :cut] * values[:cut]) @ vectors[:, :cut].T
        return matrix - negative, negative
    positive = (vectors[:, cut:] * values[cut:]) @ vectors[:, cut:].T
    return positive, matrix - positive
