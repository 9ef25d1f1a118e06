r"""What graphs ask of samples, for arrays and for sparse ones, which are never made dense.

Sparse samples are centred on the way, X = R - 1μᵀ (:mod:`jointsparse.operators.sparse`):

.. math:: WX = WR - (W1)\mu^\top

for W with few rows, or few entries. Distances between samples do not depend on μ at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import like, to_host
from jointsparse.operators.dense import operator_of
from jointsparse.operators.samples import Samples
from jointsparse.operators.sparse import SparseSamples

DENSE_ENTRIES = 2**24  # of weights made dense at a time, for samples on a device: 128 MB


def stored(data: Array | Samples) -> SparseSamples | None:
    """Return samples that are sparse, for algorithms that walk along stored entries; else None."""
    return data if isinstance(data, SparseSamples) else None


def combined(weights: Any, data: Array | Samples) -> FloatArray:
    """Return WX for samples of any kind, on the host."""
    samples = operator_of(data)
    if samples.home != "device":
        return np.asarray(samples.combined(weights))
    step = max(1, DENSE_ENTRIES // samples.shape[0])
    parts = [_dense(weights[k : k + step]) for k in range(0, weights.shape[0], step)]
    return np.concatenate([to_host(samples.combined(like(part, samples.empty))) for part in parts])


def times(data: Array | Samples, columns: FloatArray) -> FloatArray:
    """Return XA for samples of any kind, on the host."""
    samples = operator_of(data)
    return to_host(samples.times(like(columns, samples.empty)))


def _dense(weights: Any) -> FloatArray:
    return np.asarray(weights.toarray()) if sp.issparse(weights) else np.ascontiguousarray(weights)


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
