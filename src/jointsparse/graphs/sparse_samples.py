r"""Sparse samples as the graphs see them: centred implicitly, X = R - 1μᵀ, never made dense.

.. math:: XA = RA - 1(\mu^\top A),\qquad WX = WR - (W1)\mu^\top ,

for thin A and for W with few rows. Distances between samples do not depend on μ at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import is_device_array, like, to_host

DENSE_ENTRIES = 2**24  # of weights made dense at a time, for samples on a device: 128 MB


@dataclass(frozen=True)
class SparseSamples:
    """Sparse samples less their mean.

    Attributes
    ----------
    matrix : csr_array of shape (n_samples, n_features)
        R, in float64.
    mean : ndarray of shape (n_features,)
        μ.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from jointsparse.graphs.sparse_samples import SparseSamples
    >>> samples = SparseSamples(sp.csr_array([[2.0, 0.0], [0.0, 4.0]]), np.array([1.0, 2.0]))
    >>> samples.times(np.array([[1.0], [1.0]]))
    array([[-1.],
           [ 1.]])
    """

    matrix: sp.csr_array
    mean: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

    def times(self, columns: FloatArray) -> FloatArray:
        """Return XA."""
        return np.asarray(self.matrix @ columns - self.mean @ columns)

    def combined(self, weights: Any) -> FloatArray:
        """Return WX; W has few rows, or few entries."""
        sums = np.asarray(weights.sum(axis=1)).ravel()
        product = weights @ self.matrix
        product = product.toarray() if sp.issparse(product) else np.asarray(product)
        return np.asarray(product - np.outer(sums, self.mean))

    def inner(self, one: IntArray, other: IntArray) -> FloatArray:
        """Return the inner products of pairs of centred samples."""
        towards = self.matrix @ self.mean
        plain = _row_sums(self.matrix[one].multiply(self.matrix[other]))
        return plain - towards[one] - towards[other] + float(self.mean @ self.mean)

    def lengths(self) -> FloatArray:
        """Return the norms of the centred samples."""
        everyone = np.arange(self.shape[0])
        return np.sqrt(np.maximum(self.inner(everyone, everyone), 0.0))

    def distances(self, one: IntArray, other: IntArray) -> FloatArray:
        """Return squared distances of pairs of samples, from their differences."""
        difference = self.matrix[one] - self.matrix[other]
        return _row_sums(difference.multiply(difference))


def combined(weights: Any, data: Array | SparseSamples) -> FloatArray:
    """Return WX for samples of any kind."""
    if isinstance(data, SparseSamples):
        return data.combined(weights)
    if not is_device_array(data):
        return np.asarray(weights @ data)
    step = max(1, DENSE_ENTRIES // data.shape[0])
    parts = [_dense(weights[k : k + step]) for k in range(0, weights.shape[0], step)]
    return np.concatenate([to_host(like(part, data) @ data) for part in parts])


def times(data: Array | SparseSamples, columns: FloatArray) -> FloatArray:
    """Return XA for samples of any kind."""
    if isinstance(data, SparseSamples):
        return data.times(columns)
    return to_host(data @ like(columns, data))


def _dense(weights: Any) -> FloatArray:
    return np.asarray(weights.toarray()) if sp.issparse(weights) else np.ascontiguousarray(weights)


def _row_sums(matrix: Any) -> FloatArray:
    return np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()
