r"""Where the rotation of sparse PCA lives: over the features, or over the samples.

With B fixed, :math:`A = \operatorname{polar}(SB)`; all that the next B needs is S A. Let
:math:`X = U\Sigma V^\top` be thin. Then :math:`A = Va` with :math:`a =
\operatorname{polar}(\Sigma U^\top XB)`, and :math:`SA = X^\top U\Sigma a`: of A itself nothing is
needed, and where p > n one pass over X makes an alternation.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jointsparse.linalg import double
from jointsparse.projections import polar
from jointsparse.solvers.gram import FloatArray, Gram, IntArray, SampleGram

MOST = 0.25  # share of the features that may be copied, where the others cannot matter


class Space(Protocol):
    """A, and the features that B can use."""

    @property
    def width(self) -> int:
        """Number of features that B can use: its rows."""

    def correlation(self) -> FloatArray:
        """Return S A for these features."""

    def turn(self, B: FloatArray, alive: NDArray[np.bool_]) -> tuple[float, float]:
        """Set the columns of A to the best for B; return tr(AᵀSB) and tr(BᵀSB)."""

    def directions(self) -> FloatArray:
        """Return A for all features."""

    def all_rows(self, B: FloatArray) -> FloatArray:
        """Return B for all features."""

    def own_rows(self, B: FloatArray) -> FloatArray:
        """Return the rows of B for the features that it can use."""


class FeatureSpace:
    """A as it is, and the scatter matrix."""

    def __init__(self, gram: Gram, start: FloatArray) -> None:
        self.gram, self.A = gram, start.copy()
        self.width = start.shape[0]

    def correlation(self) -> FloatArray:
        """Return S A."""
        return self.gram.apply(self.A)

    def turn(self, B: FloatArray, alive: NDArray[np.bool_]) -> tuple[float, float]:
        """Set the columns of A to the best for B; return tr(AᵀSB) and tr(BᵀSB)."""
        SB = self.gram.apply(B)
        self.A[:, alive] = polar(SB[:, alive])
        return float(np.sum(self.A * SB)), float(np.sum(B * SB))

    def directions(self) -> FloatArray:
        """Return A."""
        return self.A

    def all_rows(self, B: FloatArray) -> FloatArray:
        """Return B."""
        return B

    own_rows = all_rows


class SampleSpace:
    """A through X A; features whose loadings no A of unit length can bring above zero are left out.

    Parameters
    ----------
    gram : SampleGram
        Scatter matrix.
    start : ndarray of shape (n_features, n_components)
        First A.
    threshold : float
        Features with |S a| not above it for every a of unit length have no loadings.
    """

    def __init__(self, gram: SampleGram, start: FloatArray, threshold: float) -> None:
        self.gram, self.start = gram, start
        self.values, self.rows = gram.rows
        self.roots = np.sqrt(gram.weights)
        self.inner = np.zeros((self.values.size, start.shape[1]))  # a, for columns turned
        self.turned = np.zeros(start.shape[1], dtype=bool)
        self.image = self.roots * gram.image(start)
        self.kept: IntArray | None = None
        self.part: FloatArray | None = None  # X for the features kept
        if threshold > 0:
            # |S a| ≤ ‖x‖ ‖X a‖, and ‖X a‖ is at most the largest singular value of X.
            reach = np.sqrt(gram.diagonal * self.values[0]) * (1 + 1e-9)
            kept = np.flatnonzero(reach > threshold)
            if kept.size <= MOST * reach.size:
                self.kept, self.part = kept, self.roots * double(gram.samples[:, kept])

    @property
    def width(self) -> int:
        """Number of features that B can use."""
        return self.start.shape[0] if self.kept is None else int(self.kept.size)

    def correlation(self) -> FloatArray:
        """Return S A for these features."""
        if self.part is None:
            return self.gram.back(self.roots * self.image)
        return self.part.T @ self.image

    def turn(self, B: FloatArray, alive: NDArray[np.bool_]) -> tuple[float, float]:
        """Set the columns of A to the best for B; return tr(AᵀSB) and tr(BᵀSB)."""
        scores = self.roots * self.gram.image(B) if self.part is None else self.part @ B
        sigma = np.sqrt(self.values)[:, None]
        self.inner[:, alive] = polar(sigma * (self.rows.T @ scores[:, alive]))
        self.image[:, alive] = self.rows @ (sigma * self.inner[:, alive])
        self.turned |= alive
        return float(np.sum(self.image * scores)), float(np.sum(scores * scores))

    def directions(self) -> FloatArray:
        """Return A for all features: one more pass over X."""
        A = self.start.copy()
        inner = self.inner[:, self.turned] / np.sqrt(self.values)[:, None]
        A[:, self.turned] = self.gram.back(self.roots * (self.rows @ inner))
        return A

    def all_rows(self, B: FloatArray) -> FloatArray:
        """Return B for all features."""
        if self.kept is None:
            return B
        full = np.zeros_like(self.start)
        full[self.kept] = B
        return full

    def own_rows(self, B: FloatArray) -> FloatArray:
        """Return the rows of B for the features that it can use."""
        return B if self.kept is None else B[self.kept]
