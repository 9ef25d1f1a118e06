r"""The scatter matrix of many features through the samples: a block of rows at a time.

S = XᵀX of centred samples X is never formed. Of n terms, the computed inner product of two columns
is off by at most :math:`\gamma_n\|x_i\|\|x_j\|`, γ_n = nu/(1-nu), so that for all unit v with at
most k nonzeros

.. math:: |v^\top(\hat S-S)v| \le \gamma_n\Bigl(\sum_i|v_i|\|x_i\|\Bigr)^2
          \le \gamma_n\sum_{i\text{: }k\text{ largest}}\|x_i\|^2,

whichever way the entries were computed. Sparse samples stay sparse: the mean is taken off after the
product, and the same holds with the lengths of the columns before that, and a factor of 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.linalg import blocks, double, without_offsets
from jointsparse.solvers.sparse_component.certificate import UNIT


class DenseSamples:
    """Products with centred samples in memory.

    Parameters
    ----------
    centred : ndarray of shape (n_samples, n_features)
        X, in single or double precision; single precision is converted block by block.
    scale : float
        S is XᵀX times this; a power of two.
    """

    def __init__(self, centred: Any, scale: float = 1.0) -> None:
        self.data, self.scale = centred, scale
        self.n_samples, self.n_features = centred.shape
        self.diagonal = self._column_squares()
        # No computed entry exceeds the product of two of these.
        self.lengths = np.sqrt(self.diagonal + self._rounding() * self._raw()) * (1 + 4 * UNIT)

    def _column_squares(self) -> FloatArray:
        found = np.empty(self.n_features)
        for part in blocks(self.n_features):
            block = double(self.data[:, part])
            found[part] = np.einsum("ij,ij->j", block, block) * self.scale
        return found

    def entries(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return S[rows, columns]."""
        left = double(self.data[:, rows]).T
        if columns.size == self.n_features:
            found = np.empty((rows.size, columns.size))
            for part in blocks(self.n_features):
                found[:, part] = left @ double(self.data[:, part])
            return found * self.scale
        return np.asarray(left @ double(self.data[:, columns])) * self.scale

    def square(self, features: IntArray) -> FloatArray:
        """Return S[features, features], symmetric to the digit."""
        found = self.entries(features, features)
        return (found + found.T) / 2

    def image(self, features: IntArray, loadings: FloatArray) -> FloatArray:
        """Return X v for a v with few features."""
        return np.asarray(double(self.data[:, features]) @ loadings)

    def back(self, vector: FloatArray) -> FloatArray:
        """Return scale · Xᵀ u."""
        found = np.empty(self.n_features)
        for part in blocks(self.n_features):
            found[part] = vector @ double(self.data[:, part])
        return found * self.scale

    def _raw(self) -> FloatArray:
        """Return the squares that the rounding of an entry refers to."""
        return self.diagonal

    def _rounding(self) -> float:
        """Return what rounding can change, of the product of two lengths."""
        # Four times the theory: lengths, sums and the scaling are rounded too.
        return 4 * (self.n_samples + 8) * UNIT

    def error(self, k: int) -> float:
        """Return more than rounding can change any vᵀSv."""
        squares = self._raw()
        top = np.partition(squares, squares.size - k)[-k:] if k < squares.size else squares
        return self._rounding() * float(top.sum())


class SparseSamples(DenseSamples):
    """The same for sparse samples and their mean.

    Parameters
    ----------
    data : sparse matrix of shape (n_samples, n_features)
        Samples as they came.
    mean : ndarray of shape (n_features,)
        Mean of the samples.
    scale : float
        S is the scatter matrix times this.
    """

    def __init__(self, data: Any, mean: FloatArray, scale: float = 1.0) -> None:
        shifted, self.mean = without_offsets(data, mean)
        self.columns = sp.csc_array(shifted).astype(np.float64)
        self.raw = np.asarray(self.columns.multiply(self.columns).sum(axis=0)).ravel()
        super().__init__(self.columns, scale)

    def _column_squares(self) -> FloatArray:
        squares = self.raw - self.n_samples * self.mean**2
        return np.maximum(squares, 0.0) * self.scale

    def entries(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return S[rows, columns]."""
        found = (self.columns[:, rows].T @ self.columns[:, columns]).toarray()
        found -= np.outer(self.n_samples * self.mean[rows], self.mean[columns])
        return np.asarray(found) * self.scale

    def image(self, features: IntArray, loadings: FloatArray) -> FloatArray:
        """Return X v for a v with few features."""
        shift = float(self.mean[features] @ loadings)
        return np.asarray(self.columns[:, features] @ loadings) - shift

    def back(self, vector: FloatArray) -> FloatArray:
        """Return scale · Xᵀ u."""
        return (np.asarray(self.columns.T @ vector) - self.mean * vector.sum()) * self.scale

    def _raw(self) -> FloatArray:
        return self.raw * self.scale

    def _rounding(self) -> float:
        return 4 * super()._rounding()
