r"""A = -XᵀX of sparse samples, for the reweighted eigenproblems: products, never a dense copy.

The lowest eigenspace of A + diag(w) comes from products alone, by the block Davidson method:
Rayleigh-Ritz on a growing basis, which each step extends by the residuals of the pairs that are not
accurate yet, divided by w + θ. Large weights (features that are leaving) are harmless there.
"""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.solvers.eigen.block_krylov import widened
from jointsparse.solvers.eigen.orthonormal import outside
from jointsparse.solvers.eigen.ties import TIE, later_tie, shares
from jointsparse.solvers.graph.quadratic_forms import GUARDS, Subspace, subspace_of
from jointsparse.solvers.products.gram import SampleGram

ACCURATE = 1e-9  # residual of the pairs that are wanted, as a share of the largest eigenvalue …
SIGN = 1e-4  # … and of the first guard
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

    def first(self, count: int) -> Subspace:
        """Return the principal subspace."""
        values, vectors = self.gram.leading(count + GUARDS)
        lowest = -values[: vectors.shape[1]]
        share = shares(lowest, count, TIE * abs(float(lowest[0])))
        return subspace_of(vectors, share, self._energies)

    def lowest(self, weights: FloatArray, count: int, start: FloatArray) -> Subspace:
        """Return the lowest eigenspace of A + diag(weights), looked for from ``start``."""
        guards = GUARDS
        while True:  # until the last guard is not tied, so that ties are complete
            width = min(count + guards, weights.size)
            values, vectors = self._davidson(weights, count, widened(start, width))
            share = shares(-values, count, later_tie(-values, count))
            if share[count:].any():  # guards take part: they have to be as accurate as the others
                values, vectors = self._davidson(weights, width, vectors)
                share = shares(-values, count, later_tie(-values, count))
            if share[-1] == 0 or width == weights.size:
                return subspace_of(vectors, share, self._energies)
            start, guards = vectors, 2 * guards

    def _davidson(
        self, weights: FloatArray, count: int, start: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the largest eigenpairs of S - diag(weights), as many as ``start`` has columns."""
        width, largest = start.shape[1], float(self.values[0])
        basis = np.linalg.qr(start)[0]
        images = self._image(weights, basis)
        for _ in range(MOST_STEPS):
            inner = basis.T @ images
            values, turn = np.linalg.eigh((inner + inner.T) / 2)
            values, turn = values[::-1][:width], turn[:, ::-1][:, :width]
            vectors, turned = basis @ turn, images @ turn
            residuals = turned - vectors * values
            sizes = np.linalg.norm(residuals, axis=0) / largest
            late = sizes > np.where(np.arange(width) < count, ACCURATE, SIGN)
            late[count + 1 :] = False
            if not late.any():
                break
            if basis.shape[1] > WIDEST * width:
                basis, images = vectors, turned
            shift = np.maximum(values[late], LEAST_SHIFT * largest)
            block = outside(basis, residuals[:, late] / (weights[:, None] + shift))
            if block.shape[1] == 0:
                break  # what is missing is rounding
            basis = np.hstack([basis, block])
            images = np.hstack([images, self._image(weights, block)])
        return values, vectors

    def _image(self, weights: FloatArray, block: FloatArray) -> FloatArray:
        return self.gram.apply(block) - weights[:, None] * block

    def _energies(self, vectors: FloatArray) -> FloatArray:
        return np.asarray(-np.sum(self.gram.image(vectors) ** 2, axis=0))
