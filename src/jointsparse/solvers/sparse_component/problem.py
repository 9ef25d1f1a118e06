"""The problem that all nodes of a search share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jointsparse.arrays import FloatArray, IntArray

SMALLEST = 1e-3  # of the largest entry: where less is attained, the tolerance refers to this
WITHIN = (
    1 - 1e-6
)  # share of the tolerance that is used, so that the gap is below it, digits and all


@dataclass(frozen=True)
class Problem:
    """max vᵀSv over unit v with at most k nonzeros, to a relative tolerance.

    Attributes
    ----------
    S : ndarray of shape (p, p)
        Symmetric to the digit, with its largest entry near 1.
    k : int
        Number of features in a support.
    nonnegative : bool
        Whether only v ≥ 0 are meant.
    tol : float
        Relative distance of bound and value that counts as proved.
    error : float
        By how much rounding of S itself may change a value.
    """

    S: FloatArray
    k: int
    nonnegative: bool
    tol: float
    error: float = 0.0

    @cached_property
    def size(self) -> float:
        """The largest entry."""
        return float(np.max(np.abs(self.S), initial=0.0))

    def _tolerance(self, value: float) -> float:
        return self.tol * max(abs(value), SMALLEST * (self.size or 1.0))

    def goal(self, value: float) -> float:
        """Return what a support has to exceed to be better than ``value`` beyond the tolerance."""
        return value + self._tolerance(value)

    def level(self, value: float) -> float:
        """Return what counts as better in the search: a little less, the rounding of S too."""
        return value + WITHIN * self._tolerance(value) - self.error

    def part(self, features: IntArray) -> FloatArray:
        """Return S for some of the features."""
        return self.S[features[:, None], features]
