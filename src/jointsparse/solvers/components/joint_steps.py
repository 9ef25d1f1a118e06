"""Larger steps for the alternation of joint sparse PCA: Q and P are extrapolated."""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import Array
from jointsparse.linalg import rows_in_use
from jointsparse.numerics.projections import polar
from jointsparse.solvers.convex.acceleration import Anderson, AndersonOfOne

MEMORY = 3  # earlier alternations that are combined; of 72 random tables, 6 save 2 % more

Pair = tuple[Array, Array]


class Extrapolation:
    """Anderson acceleration of Q and P, as long as the same rows of Q are in use.

    Weights belong to Q and P, so that an alternation takes these two to the next two. Whoever asks
    for a step sees to it that it is not for the worse.
    """

    def __init__(self) -> None:
        self.rows: Array | None = None
        self.anderson: Anderson | None = None

    def reset(self) -> None:
        """Forget earlier alternations."""
        if self.anderson is not None:
            self.anderson.reset()

    def step(self, before: Pair, found: Pair) -> Pair | None:
        """Return Q and P beyond what the alternation found; None where other rows are in use."""
        used = rows_in_use(found[0])
        if self.rows is None or not bool((used == self.rows).all()):
            self.rows = used
            self.reset()
            return None
        if type(used) is not np.ndarray:
            self.anderson = self.anderson or Anderson(MEMORY)
            moves = (found[0] - before[0], found[1] - before[1])
            Q, P = self.anderson.step(before, moves)
            return Q, polar(P)
        self.anderson = self.anderson or AndersonOfOne(MEMORY)
        start = np.concatenate(before)
        (both,) = self.anderson.step((start,), (np.concatenate(found) - start,))
        size = len(found[0])
        return both[:size], polar(both[size:])
