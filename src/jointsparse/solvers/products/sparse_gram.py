"""The scatter matrix of sparse samples: products with them, centred implicitly, never dense."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.linalg import by_cholesky, solve_positive
from jointsparse.operators.sparse import SparseSamples
from jointsparse.solvers.eigen.lanczos import LARGEST_GRAM, leading_pairs
from jointsparse.solvers.products.gram import NOTHING, Gram

MOST_PAIRS = 12  # eigenpairs where nobody says how many are needed and there are too many for all
ACCURATE = 1e-13  # relative residual of linear systems with too many samples to factorise


class SparseGram(Gram):
    """S = Xᵀ diag(w) X divided by its trace, with X = R - 1μᵀ and R sparse.

    Parameters
    ----------
    matrix : sparse matrix of shape (n_samples, n_features)
        R.
    mean : ndarray of shape (n_features,)
        μ.
    weights : ndarray of shape (n_samples,) or None
        Weights w of the samples; None: all are 1.
    """

    def __init__(self, matrix: Any, mean: FloatArray, weights: FloatArray | None = None) -> None:
        self.data = SparseSamples(matrix.astype(np.float64), mean)
        self._set_weights(weights)

    def _set_weights(self, weights: FloatArray | None) -> None:
        self._pairs: tuple[FloatArray, FloatArray] | None = None
        if weights is None:
            self.trace = float(np.sum(self.data.squared_lengths()))
            weights = np.ones(self.data.shape[0])
        else:
            self.trace = float(weights @ self.row_squares())
        self.weights = (weights / self.trace)[:, None]

    def weighted(self, weights: FloatArray) -> SparseGram:
        """Return the scatter matrix of the same samples with other weights."""
        other = SparseGram.__new__(SparseGram)
        other.data = self.data
        other._set_weights(weights)
        return other

    def row_squares(self) -> FloatArray:
        """Return ‖x_i‖² of every sample."""
        return np.asarray(self.data.row_squares())

    @cached_property
    def diagonal(self) -> FloatArray:
        """Diagonal of S."""
        return np.asarray(self.data.weighted_squares(self.weights[:, 0]))

    def apply(self, matrix: FloatArray) -> FloatArray:
        """Return S @ matrix."""
        thin = matrix.reshape(len(matrix), -1)
        image = self.data.transposed_times(self.weights * self.data.times(thin))
        return np.asarray(image.reshape(matrix.shape))

    def columns(self, features: IntArray) -> FloatArray:
        """Return S[:, features]."""
        return self.scaled_back(self.scaled_columns(features))

    def scaled_columns(self, features: IntArray) -> FloatArray:
        """Return some columns of √w X, as an array."""
        few = self.data.matrix[:, features].toarray() - self.data.mean[features]
        return np.asarray(np.sqrt(self.weights) * few)

    def block(self, features: IntArray) -> FloatArray:
        """Return S[features, features]."""
        few, mean = self.data.matrix[:, features], self.data.mean[features]
        weighted = few.multiply(self.weights).tocsc()
        mixed = np.outer(mean, np.asarray(weighted.sum(axis=0)).ravel())
        inner = (few.T @ weighted).toarray() - mixed - mixed.T
        return np.asarray(inner + self.weights.sum() * np.outer(mean, mean))

    def ridge_solve(self, right: FloatArray, ridge: float) -> FloatArray:
        """Return (S + ridge I)⁻¹ right, by the matrix inversion lemma."""
        thin = right.reshape(len(right), -1)
        inverse = self._row_solve(np.ones(len(right)), self.scaled_image(thin), ridge)
        found = (thin - self.scaled_back(inverse)) / ridge
        return np.asarray(found.reshape(right.shape))

    def reweighted_fit(self, wanted: FloatArray, lengths: FloatArray, penalty: float) -> FloatArray:
        """Return (S + penalty diag(1/lengths))⁻¹ S wanted; rows without length are zero."""
        inverse = self._row_solve(lengths, self.scaled_image(wanted), penalty)
        return np.asarray(lengths[:, None] * self.scaled_back(inverse))

    def scaled_image(self, matrix: FloatArray) -> FloatArray:
        """Return √w X matrix."""
        return np.asarray(np.sqrt(self.weights) * self.data.times(matrix))

    def scaled_back(self, rows: FloatArray) -> FloatArray:
        """Return (√w X)ᵀ rows."""
        return np.asarray(self.data.transposed_times(np.sqrt(self.weights) * rows))

    def _row_solve(self, lengths: FloatArray, right: FloatArray, ridge: float) -> FloatArray:
        """Return (√w X diag(lengths) Xᵀ √w + ridge I)⁻¹ right, in the space of the samples."""
        n = self.data.shape[0]
        if n <= LARGEST_GRAM:
            roots = np.sqrt(lengths)
            scaled = SparseSamples(self.data.matrix.multiply(roots).tocsc(), self.data.mean * roots)
            inner = scaled.gram() * np.sqrt(self.weights) * np.sqrt(self.weights).T
            return np.asarray(solve_positive(inner + ridge * np.eye(n), right, by_cholesky))

        def product(vector: FloatArray) -> FloatArray:
            back = self.scaled_back(vector.reshape(n, -1))
            return np.asarray(self.scaled_image(lengths[:, None] * back).ravel() + ridge * vector)

        operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
        columns = [cg(operator, column, rtol=ACCURATE)[0] for column in right.T]
        return np.stack(columns, axis=1)

    def leading_scaled(self, factors: FloatArray, count: int) -> FloatArray:
        """Return the first eigenvectors for the features multiplied by factors."""
        matrix = sp.csc_array(self.data.matrix.multiply(factors))
        scaled = SparseGram(matrix, self.data.mean * factors, self.weights[:, 0])
        return scaled.leading(count)[1]

    def leading(self, count: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues (largest first) above rounding, and their eigenvectors.

        Parameters
        ----------
        count : int or None
            Number of eigenvectors wanted. Of many samples there are not many more eigenvalues
            either: all would cost as much as with dense data.
        """
        # No more than are asked for: those of noise lie close together and take long.
        values, rows = self._row_pairs(MOST_PAIRS if count is None else max(count, 1))
        values, rows = values[values > NOTHING * values[0]], rows[:, values > NOTHING * values[0]]
        rows = rows[:, :count]
        return values, self.scaled_back(rows) / np.sqrt(values[: rows.shape[1]])

    def _row_pairs(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues of S and unit vectors over the samples; computed once."""
        if self._pairs is None or (self._truncated and self._pairs[0].size < count):
            n = self.data.shape[0]
            if self._truncated:
                self._pairs = leading_pairs(n, self._rows_and_back, count)
            else:
                roots = np.sqrt(self.weights)
                values, rows = np.linalg.eigh(self.data.gram() * roots * roots.T)
                self._pairs = values[::-1], rows[:, ::-1]
        return self._pairs

    @property
    def _truncated(self) -> bool:
        """Whether there are too many samples for all eigenvalues."""
        return self.data.shape[0] > LARGEST_GRAM

    def _rows_and_back(self, vectors: FloatArray) -> FloatArray:
        thin = vectors.reshape(len(vectors), -1)
        return np.asarray(self.scaled_image(self.scaled_back(thin)).reshape(vectors.shape))

    def rank(self, found: int) -> int:
        """Return the rank: as many as were found, or what it can be where not all were."""
        n = self.data.shape[0]
        return min(n - 1, int(np.count_nonzero(self.diagonal))) if self._truncated else found
