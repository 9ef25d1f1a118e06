r"""A = -XᵀX of sparse samples, for the reweighted eigenproblems: products, never a dense copy.

The lowest eigenspace of A + diag(w) comes from products alone, by the block Davidson method:
Rayleigh-Ritz on a growing basis, which each step extends by the residuals of the pairs that are not
accurate yet, divided by w + θ. Large weights (features that are leaving) are harmless there.

The basis begins with the features of least weight, too. Of k equal features, k - 1 combinations are
zero in every sample, and eigenvectors; whatever treats equal features alike has nothing of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.eigen.block_krylov import widened
from jointsparse.eigen.ritz import RitzBasis
from jointsparse.eigen.ties import TIE, later_tie, shares
from jointsparse.solvers.graph.quadratic_forms import GUARDS, Subspace, subspace_of
from jointsparse.solvers.products.gram import SampleGram

ACCURATE = 1e-9  # angle between a wanted vector and the wanted space: residual over distance …
ROUNDING = 1e-13  # … but no residual is asked for below this share of the largest eigenvalue
GUARD = 1e-4  # residual over distance of the first guard: beyond, it might hide a wanted one
LEAST_SHIFT = 0.1  # of the largest eigenvalue: what weights are raised by, at least
WIDEST = 6  # times the pairs: columns of the basis, before it shrinks to them
MOST_STEPS = 500


class SparseScatterForm:
    """A = -S with S = XᵀX divided by its trace, X sparse and centred on the way.

    Parameters
    ----------
    gram : SampleGram
        S, of features that vary.
    """

    def __init__(self, gram: SampleGram) -> None:
        self.gram = gram
        self.values = gram.leading(1)[0]  # all, or at least the largest

    @property
    def size(self) -> float:
        """Largest eigenvalue of S."""
        return float(self.values[0])

    def product(self, block: FloatArray) -> FloatArray:
        """Return A times a block of vectors."""
        return -self.gram.apply(block)

    def block(self, features: IntArray) -> FloatArray:
        """Return the rows and columns of A that belong to some features, as a new matrix."""
        return -self.gram.block(features)

    def first(self, count: int) -> Subspace:
        """Return the principal subspace."""
        guards = GUARDS
        while True:  # until the last guard is not tied, so that ties are complete
            values, vectors = self.gram.leading(count + guards)
            lowest = -values[: vectors.shape[1]]
            share = shares(lowest, count, TIE * self.size)
            if share[-1] == 0 or lowest.size < count + guards:
                return subspace_of(vectors, share, self._energies)
            guards *= 2

    def lowest(self, weights: FloatArray, count: int, start: FloatArray) -> Subspace:
        """Return the lowest eigenspace of A + diag(weights), looked for from ``start``."""
        guards = GUARDS
        while True:  # until the last guard is not tied, so that ties are complete
            width = min(count + guards, weights.size)
            values, vectors = self._davidson(weights, count, widened(start, width))
            share = shares(-values, count, later_tie(-values, count))
            if share[-1] == 0 or width == weights.size:
                return subspace_of(vectors, share, self._energies)
            start, guards = vectors, 2 * guards

    def _davidson(
        self, weights: FloatArray, count: int, start: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the largest eigenpairs of S - diag(weights), as many as ``start`` has columns.

        The first ``count`` are accurate, and those that tie with the last of them; where all do,
        more columns are needed to see the end of the tie, and the pairs are returned as they are.
        """
        width = start.shape[1]
        light = np.zeros((weights.size, width))
        light[np.argsort(weights, kind="stable")[:width], np.arange(width)] = 1.0
        ritz = RitzBasis(
            lambda block: self.gram.apply(block) - weights[:, None] * block, weights, largest=True
        )
        ritz.extend(start)
        ritz.extend(light)
        for _ in range(MOST_STEPS):
            ritz.solve()
            values, vectors, residuals = ritz.pairs(width)
            late = _late(values, count, residuals, weights, self.size)
            if not late.any():
                break
            if ritz.used > WIDEST * width:
                ritz.shrink()
            shift = np.maximum(values[late], LEAST_SHIFT * self.size)
            if not ritz.extend(residuals[:, late] / (weights[:, None] + shift)):
                break  # what is missing is rounding
        return values, vectors

    def _energies(self, vectors: FloatArray) -> FloatArray:
        return np.asarray(-np.sum(self.gram.image(vectors) ** 2, axis=0))


def _late(
    values: FloatArray, count: int, residuals: FloatArray, weights: FloatArray, size: float
) -> NDArray[np.bool_]:
    """Return which of the pairs, the largest first, are not accurate yet and have to be."""
    tie = later_tie(-values, count)
    end = int(np.count_nonzero(values >= values[count - 1] - tie))
    late = np.zeros(values.size, dtype=bool)
    if end == values.size:
        return late
    # An error of a feature is its residual over its weight, where that is large.
    scale = size + float(np.max(np.abs(values)))
    errors = np.linalg.norm(residuals * (scale / (scale + weights))[:, None], axis=0)
    distances = values[:end] - values[end]
    late[:end] = errors[:end] > np.maximum(ACCURATE * distances, ROUNDING * scale)
    late[end] = errors[end] > GUARD * distances[-1]
    return late
