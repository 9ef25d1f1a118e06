r"""A = -XᵀX of sparse samples, for the reweighted eigenproblems: products, never a dense copy.

The lowest eigenspace of A + diag(w) belongs to the largest eigenvalues of the inverse of
D - XᵀX, D = diag(w) + 2s₁I, which Woodbury's identity applies in the space of the samples:

.. math:: (D - X^\top X)^{-1} = D^{-1} + D^{-1}X^\top(I - XD^{-1}X^\top)^{-1}XD^{-1} .

The matrix in the middle is factorised for a few thousand samples. With more of them it is inverted
by Chebyshev's iteration: no entry of D is below 2s₁, so that its eigenvalues lie between ½ and 1,
and each step divides the error by (√2 + 1)² ≈ 5.8.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from jointsparse.linalg import add_to_diagonal
from jointsparse.solvers.block_krylov import FloatArray
from jointsparse.solvers.quadratic_forms import (
    GUARDS,
    TIE,
    DenseForm,
    Subspace,
    WideForm,
    shares,
    subspace_of,
)
from jointsparse.solvers.sparse_gram import SparseGram
from jointsparse.solvers.wide_data import SparseWide

LOWEST, HIGHEST = 0.5, 1.0  # eigenvalues of I - XD⁻¹Xᵀ
STEPS = 17  # of Chebyshev's iteration: an error of 5.8⁻¹⁷ = 1e-13


class SparseScatterForm(WideForm):
    """A = -S with S = XᵀX divided by its trace, X sparse and centred on the way.

    Parameters
    ----------
    gram : SparseGram
        S, of features that vary.
    """

    def __init__(self, gram: SparseGram) -> None:
        self.gram = gram
        self.values = gram.leading(1)[0]  # all, or at least the largest
        self.floor = -2 * float(self.values[0])

    def first(self, count: int) -> Subspace:
        """Return the principal subspace."""
        values, vectors = self.gram.leading(count + GUARDS)
        lowest = -values[: vectors.shape[1]]
        share = shares(lowest, count, TIE * abs(float(lowest[0])))
        return subspace_of(vectors, share, self._energies)

    def _inverse(self, weights: FloatArray) -> Callable[[FloatArray], FloatArray]:
        diagonal = (weights - self.floor)[:, None]
        middle = self._middle(diagonal[:, 0])

        def apply(block: FloatArray) -> FloatArray:
            thin = block / diagonal
            inner = middle(self.gram.scaled_image(thin))
            return thin + self.gram.scaled_back(inner) / diagonal

        return apply

    def _middle(self, diagonal: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return how (I - XD⁻¹Xᵀ)⁻¹ is applied."""
        if self.gram.truncated:
            return lambda right: self._chebyshev(diagonal[:, None], right)
        data, roots = self.gram.data, 1 / np.sqrt(diagonal)
        scaled = SparseWide(sp.csc_array(data.matrix.multiply(roots)), data.mean * roots)
        weights = np.sqrt(self.gram.weights)
        system = add_to_diagonal(-scaled.gram() * weights * weights.T, 1.0)
        factor = scipy.linalg.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        return lambda right: scipy.linalg.cho_solve(factor, right, check_finite=False)

    def _chebyshev(self, diagonal: FloatArray, right: FloatArray) -> FloatArray:
        centre, radius = (HIGHEST + LOWEST) / 2, (HIGHEST - LOWEST) / 2
        ratio = radius / (2 * centre)
        left, solution = right, np.zeros_like(right)
        step, weight = left / centre, 2.0
        for _ in range(STEPS):
            solution = solution + step
            left = (
                right
                - solution
                + self.gram.scaled_image(self.gram.scaled_back(solution) / diagonal)
            )
            weight = 1 / (1 - ratio**2 * weight)
            step = weight * (left / centre) + (weight - 1) * step
        return solution + step

    def matrix_of_form(self) -> FloatArray:
        """Return A; only asked for where features are few."""
        return -self.gram.block(np.arange(self.gram.data.shape[1]))

    @property
    def dense(self) -> DenseForm:
        """The same form with its p × p matrix."""
        return DenseForm(self.matrix_of_form())

    def _energies(self, vectors: FloatArray) -> FloatArray:
        return -np.sum(self.gram.scaled_image(vectors) ** 2, axis=0)
