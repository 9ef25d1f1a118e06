"""The loss of JSPCA over the samples, for sparse ones: products with them, never a dense copy."""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.solvers.components.joint import SMOOTHING, SampleLoss
from jointsparse.solvers.products.gram import SampleGram

FEW_DIGITS = 1e-4  # of the square of a sample: below, that of its residual is not a difference
DENSE_ENTRIES = 2**14  # of residuals that are computed at a time


class SparseSampleLoss(SampleLoss):
    """Sum of the norms of the residuals x - PQᵀx of the samples, divided by √(sum of squares).

    Parameters
    ----------
    gram : SampleGram
        Scatter matrix of the samples, all weights 1.
    """

    def __init__(self, gram: SampleGram) -> None:
        self.plain, self.shrink = gram, 1 / np.sqrt(gram.trace)
        self.squares = gram.squares
        self.smoothing = SMOOTHING / np.sqrt(self.squares.size)
        self._set(self._norms(self.squares))

    def _norms(self, squares: FloatArray) -> FloatArray:
        return np.sqrt(squares * self.shrink**2 + self.smoothing**2)

    def _set(self, norms: FloatArray) -> None:
        self.gram = self.plain.weighted(0.5 / norms)
        self.trace = self.gram.trace * self.shrink**2

    def reweigh(self, Q: FloatArray, P: FloatArray, SQ: FloatArray) -> float:
        """Set the weights for Q and P; return the loss there."""
        # Not the residuals themselves, which would be dense.
        scores, images = self.plain.samples.times(Q), self.plain.samples.times(P)
        changed = np.sum(scores * (scores @ (P.T @ P) - 2 * images), axis=1)
        squares = self.squares + changed
        # But for the samples that are fitted nearly exactly, which this loss likes to have: a
        # difference of squares leaves a small one no digits, and its weight would be noise.
        small = np.flatnonzero(squares < FEW_DIGITS * self.squares)
        step = max(1, DENSE_ENTRIES // len(P))
        for first in range(0, small.size, step):
            rows = small[first : first + step]
            residuals = self.plain.samples.rows(rows) - scores[rows] @ P.T
            squares[rows] = np.sum(residuals**2, axis=1)
        norms = self._norms(squares)
        self._set(norms)
        return float(np.sum(norms))
