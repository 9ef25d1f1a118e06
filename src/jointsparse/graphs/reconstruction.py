r"""Weights that reconstruct every sample from its neighbours (locally linear embedding).

.. math:: \min_{w_i^\top 1 = 1}\ \Bigl\|x_i - \sum_{j\in N_k(i)} w_{ij}x_j\Bigr\|^2
          + \rho\operatorname{tr}(C_i)\|w_i\|^2,\qquad C_i = Z_iZ_i^\top,

where the rows of :math:`Z_i` are :math:`x_j - x_i`. The solution is
:math:`(C_i+\rho\operatorname{tr}(C_i) I)^{-1}1`, scaled to sum 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.graphs.device_neighbours import BLOCK_ENTRIES as DEVICE_ENTRIES
from jointsparse.graphs.device_neighbours import gathered
from jointsparse.graphs.discriminant import BLOCK_ENTRIES
from jointsparse.graphs.laplacian import rows_to_csr
from jointsparse.graphs.sparse_samples import stored
from jointsparse.linalg import array_namespace
from jointsparse.operators.sparse import SparseSamples

SMALLEST_RIDGE = 1e-12  # more neighbours than dimensions leave C singular


def reconstruction_weights(
    data: FloatArray | SparseSamples, neighbours: IntArray, *, ridge: float = 1e-3
) -> sp.csr_array:
    """Return the weights, row i those of sample i.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_features) or SparseSamples
        Samples.
    neighbours : ndarray of shape (n_samples, k)
        Neighbours of every sample.
    ridge : float
        ρ.

    Returns
    -------
    csr_array of shape (n_samples, n_samples)
        k entries in each row, summing to 1. Where all neighbours equal the sample they share the
        weight.
    """
    n, count = neighbours.shape
    if is_device_array(data):
        return rows_to_csr(neighbours, _weights_there(data, neighbours, max(ridge, SMALLEST_RIDGE)))
    weights = np.empty((n, count))
    # Entries of a row: all of them, or those that are stored.
    sparse = stored(data)
    width = data.shape[1] if sparse is None else sparse.by_row.nnz // n + 1
    step = max(1, BLOCK_ENTRIES // (count * width))
    for first in range(0, n, step):
        part = slice(first, first + step)
        gram = _local_grams(data, neighbours[part], first)
        trace = np.einsum("ikk->i", gram)
        gram /= np.where(trace > 0, trace, 1.0)[:, None, None]
        gram[:, np.arange(count), np.arange(count)] += np.where(
            trace > 0, max(ridge, SMALLEST_RIDGE), 1.0
        )[:, None]
        weights[part] = np.linalg.solve(gram, np.ones((gram.shape[0], count, 1)))[:, :, 0]
    weights /= weights.sum(axis=1, keepdims=True)
    return rows_to_csr(neighbours, weights)


def _weights_there(data: Array, neighbours: IntArray, ridge: float) -> FloatArray:
    """Return the same weights of samples on a device, all systems of a block at once."""
    xp = array_namespace(data)
    n, count = neighbours.shape
    weights = np.empty((n, count))
    eye = xp.eye(count, dtype=data.dtype, device=data.device)
    for part in _row_parts(data, count):
        differences = gathered(data, neighbours[part]) - data[part, None, :]
        gram = differences @ xp.matrix_transpose(differences)
        trace = xp.sum(gram * eye, axis=(1, 2))
        varies = trace > 0
        gram = gram / xp.where(varies, trace, 1.0)[:, None, None]
        # Of two numbers PyTorch would make single precision.
        shift = xp.where(varies, ridge * xp.ones_like(trace), 1.0)
        gram = gram + shift[:, None, None] * eye
        right = xp.ones((*gram.shape[:2], 1), dtype=data.dtype, device=data.device)
        weights[part] = to_host(xp.linalg.solve(gram, right)[:, :, 0])
    return weights / weights.sum(axis=1, keepdims=True)


def reconstructed(data: Any, weights: sp.csr_array) -> Any:
    """Return W @ data, where the samples are; every row of W has as many entries."""
    if not is_device_array(data):
        return weights @ data
    n = data.shape[0]
    neighbours, shares = weights.indices.reshape(n, -1), weights.data.reshape(n, -1)
    parts = []
    for part in _row_parts(data, neighbours.shape[1]):
        others = gathered(data, neighbours[part])
        parts.append((like(shares[part], data)[:, None, :] @ others)[:, 0, :])
    return array_namespace(data).concat(parts)


def _row_parts(data: Array, count: int) -> Iterator[slice]:
    step = max(1, DEVICE_ENTRIES // (count * data.shape[1]))
    for first in range(0, data.shape[0], step):
        yield slice(first, min(first + step, data.shape[0]))


def _local_grams(data: Any, neighbours: IntArray, first: int) -> FloatArray:
    """Return C_i of some samples, the first of which has the number ``first``."""
    size, count = neighbours.shape
    samples = stored(data)
    if samples is None:
        differences = data[neighbours] - data[first : first + size, None, :]
        return np.asarray(differences @ differences.transpose(0, 2, 1))
    own = samples.by_row[first : first + size]
    sparse = [samples.by_row[other] - own for other in neighbours.T]
    gram = np.empty((size, count, count))
    for a in range(count):
        for b in range(a + 1):
            products = np.asarray(sparse[a].multiply(sparse[b]).sum(axis=1)).ravel()
            gram[:, a, b] = gram[:, b, a] = products
    return gram
