r"""What graphs ask of samples, for arrays and for sparse ones, which are never made dense.

Sparse samples are centred on the way, X = R - 1μᵀ (:mod:`jointsparse.operators.sparse`):

.. math:: WX = WR - (W1)\mu^\top

for W with few rows, or few entries. Distances between samples do not depend on μ at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.operators.sparse import SparseSamples


def combined(weights: Any, data: FloatArray | SparseSamples) -> FloatArray:
    """Return WX for samples of either kind."""
    if not isinstance(data, SparseSamples):
        return np.asarray(weights @ data)
    sums = np.asarray(weights.sum(axis=1)).ravel()
    product = weights @ data.by_row
    product = product.toarray() if sp.issparse(product) else np.asarray(product)
    return np.asarray(product - np.outer(sums, data.mean))


def times(data: FloatArray | SparseSamples, columns: FloatArray) -> FloatArray:
    """Return XA for samples of either kind."""
    return data.times(columns) if isinstance(data, SparseSamples) else np.asarray(data @ columns)


def inner_products(data: SparseSamples, one: IntArray, other: IntArray) -> FloatArray:
    """Return the inner products of pairs of centred samples."""
    towards = data.by_row @ data.mean
    plain = _row_sums(data.by_row[one].multiply(data.by_row[other]))
    return plain - towards[one] - towards[other] + float(data.mean @ data.mean)


def squared_distances(data: SparseSamples, one: IntArray, other: IntArray) -> FloatArray:
    """Return squared distances of pairs of samples, from their differences."""
    difference = data.by_row[one] - data.by_row[other]
    return _row_sums(difference.multiply(difference))


def _row_sums(matrix: Any) -> FloatArray:
    return np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()
