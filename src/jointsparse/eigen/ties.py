"""Eigenvalues that tie, and what each eigenvector then has of the projector of the lowest ones."""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray

TIE = 1e-9  # relative difference of eigenvalues that are equal


def shares(values: FloatArray, count: int, tie: float) -> FloatArray:
    """Return how much of every eigenvector belongs to the projector of the ``count`` smallest."""
    limit = values[count - 1]
    below = values < limit - tie
    tied = np.abs(values - limit) <= tie
    share = np.where(below, 1.0, 0.0)
    share[tied] = (count - below.sum()) / tied.sum()
    return share


def later_tie(values: FloatArray, count: int) -> float:
    """Return how far eigenvalues may differ that tie."""
    return TIE * max(abs(float(values[0])), abs(float(values[min(count, values.size - 1)])))
