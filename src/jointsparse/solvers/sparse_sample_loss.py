"""The loss of JSPCA over the samples, for sparse ones: products with them, never a dense copy."""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.solvers.joint_sparse import SMOOTHING, SampleLoss
from jointsparse.solvers.sparse_gram import SparseGram


class SparseSampleLoss(SampleLoss):
    """Sum of the norms of the residuals x - PQᵀx of the samples, divided by √(sum of squares).

    Parameters
    ----------
    gram : SparseGram
        Scatter matrix of the samples, all weights 1.
    """

    def __init__(self, gram: SparseGram) -> None:
        self.plain, self.shrink = gram, 1 / np.sqrt(gram.trace)
        self.squares = gram.row_squares()
        self.smoothing = SMOOTHING / np.sqrt(self.squares.size)
        self._set(self._norms(self.squares))

    def _norms(self, squares: FloatArray) -> FloatArray:
        return np.sqrt(squares * self.shrink**2 + self.smoothing**2)

    def _set(self, norms: FloatArray) -> None:
        self.gram = self.plain.weighted(0.5 / norms)
        self.trace = self.gram.trace * self.shrink**2

    def reweigh(self, Q: FloatArray, P: FloatArray, SQ: FloatArray) -> float:
        """Set the weights for Q and P; return the loss there."""
        # Not the residuals themselves, which would be dense. Differences of squares cost half of
        # the digits of a small one, and few components leave no sparse sample a small one.
        scores, images = self.plain.data.times(Q), self.plain.data.times(P)
        changed = np.sum(scores * (scores @ (P.T @ P) - 2 * images), axis=1)
        norms = self._norms(np.maximum(self.squares + changed, 0.0))
        self._set(norms)
        return float(np.sum(norms))
