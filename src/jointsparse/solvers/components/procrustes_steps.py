"""Larger steps for the alternation of sparse PCA: A is extrapolated, and never for the worse."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.linalg import length
from jointsparse.numerics.projections import polar
from jointsparse.solvers.components.procrustes_spaces import Space
from jointsparse.solvers.convex.acceleration import AndersonOfOne

MEMORY = 6  # earlier steps that are combined
RISE = 1e-13  # of the objective: more than rounding


class Extrapolation:
    """Anderson acceleration of A ← polar(S B(A)), brought back to orthonormal columns.

    An alternation cannot raise the objective: a step after which it has risen is taken back.

    Parameters
    ----------
    space : Space
        Where A lives.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.anderson = AndersonOfOne(MEMORY)
        self.frame = space.frame  # for which B is computed
        self.plain: FloatArray | None = None  # where the alternation itself would have gone
        self.objective = float("inf")
        self.alive: NDArray[np.bool_] | None = None

    @property
    def residual(self) -> float:
        """How far an alternation moves A, as a share of its length."""
        frame = self.space.frame
        return length(frame - self.frame) / frame.shape[1] ** 0.5

    def failed(self, objective: float) -> bool:
        """Return whether the last step was for the worse; then A is where it would have been."""
        allowed = self.objective + RISE * abs(self.objective)
        if self.plain is None or objective <= allowed:
            return False
        self.space.place(self.plain)
        self.frame, self.plain = self.plain, None
        self.anderson.reset()
        return True

    def step(self, objective: float, alive: NDArray[np.bool_], *, extrapolate: bool) -> None:
        """Move A beyond where the alternation has brought it."""
        reached = self.space.frame
        if self.alive is None or bool((alive != self.alive).any()):
            self.anderson.reset()
        self.alive, self.objective, self.plain = alive.copy(), objective, None
        if not extrapolate:
            self.anderson.reset()
        elif alive.any():
            every = bool(alive.all())  # then nothing need be copied
            start, end = (part if every else part[:, alive] for part in (self.frame, reached))
            placed = polar(self.anderson.step((start,), (end - start,))[0])
            if not every:
                some, placed = placed, reached.copy()
                placed[:, alive] = some
            self.space.place(placed)
            self.plain = reached
        self.frame = self.space.frame
