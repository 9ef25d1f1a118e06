r"""The scatter matrix of many features through the samples: a block of rows at a time.

S = XᵀX of centred samples X is never formed. Of n terms, the computed inner product of two columns
is off by at most :math:`\gamma_n\|x_i\|\|x_j\|`, γ_n = nu/(1-nu), so that for all unit v with at
most k nonzeros

.. math:: |v^\top(\hat S-S)v| \le \gamma_n\Bigl(\sum_i|v_i|\|x_i\|\Bigr)^2
          \le \gamma_n\sum_{i\text{: }k\text{ largest}}\|x_i\|^2,

whichever way the entries were computed. Of sparse samples r - μ the mean is taken off after the
product. Each of the terms :math:`r_i^\top r_j`, :math:`(r_i^\top 1)\mu_j`, :math:`\mu_i(1^\top
r_j)` and :math:`n\mu_i\mu_j` is off by at most γ_n times the lengths of the two columns *before*
that, as :math:`\sqrt n|\mu_i|\le\|r_i\|`: the same holds with these lengths, and a factor of 4.
"""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.linalg import blocks
from jointsparse.operators.dense import operator_of
from jointsparse.operators.samples import Samples
from jointsparse.solvers.sparse_component.certificate import UNIT


class ScatterEntries:
    """Entries of S, and what rounding can have made of them.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_features) or Samples
        X, centred, in memory.
    scale : float
        S is XᵀX times this; a power of two.
    mean : ndarray of shape (n_features,) or None
        What products of sparse samples take off; None: X was centred before.
    """

    def __init__(
        self, data: Array | Samples, scale: float = 1.0, mean: FloatArray | None = None
    ) -> None:
        self.samples, self.scale = operator_of(data), scale
        self.n_samples, self.n_features = self.samples.shape
        self.diagonal = np.asarray(self.samples.squared_lengths()) * scale
        # The squares that the rounding of an entry refers to. Four times the theory: lengths, sums
        # and the scaling are rounded too.
        self.raw, self.rounding = self.diagonal, 4 * (self.n_samples + 8) * UNIT
        if mean is not None:
            self.raw = self.raw + self.n_samples * scale * mean**2
            self.rounding *= 4
        # No computed entry exceeds the product of two of these.
        self.lengths = np.sqrt(self.diagonal + self.rounding * self.raw) * (1 + 4 * UNIT)

    def entries(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return S[rows, columns]."""
        if columns.size < self.n_features:
            return np.asarray(self.samples.entries(rows, columns)) * self.scale
        found = np.empty((rows.size, columns.size))
        for part in blocks(self.n_features):
            found[:, part] = self.samples.entries(rows, part)
        return found * self.scale

    def square(self, features: IntArray) -> FloatArray:
        """Return S[features, features], symmetric to the digit."""
        found = self.entries(features, features)
        return (found + found.T) / 2

    def image(self, features: IntArray, loadings: FloatArray) -> FloatArray:
        """Return X v for a v with few features."""
        return np.asarray(self.samples.take(features) @ loadings)

    def back(self, vector: FloatArray) -> FloatArray:
        """Return Xᵀ u."""
        return np.asarray(self.samples.transposed_times(vector[:, None])[:, 0])

    def error(self, k: int) -> float:
        """Return more than rounding can change any vᵀSv."""
        top = np.partition(self.raw, self.raw.size - k)[-k:] if k < self.raw.size else self.raw
        return self.rounding * float(top.sum())
