r"""The local discriminant matrix of UDFS.

For each sample i let :math:`N(i)` be itself and its k nearest neighbours, K = k + 1 samples, and
:math:`Z_i = H_K X_{N(i)}` these samples centred around their own mean, with
:math:`H_K = I - 11^\top/K`. With the selector :math:`S_i` of the rows N(i),

.. math:: L = \sum_i S_i B_i S_i^\top,\qquad B_i = H_K (Z_i Z_i^\top + \lambda I_K)^{-1} H_K .

L is positive semidefinite, sparse, and L1 = 0. One formula serves all shapes; a program in wide use
takes another one where there are few features, which amounts to 1/λ in place of λ.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import is_device_array, to_host
from jointsparse.graphs.device_neighbours import BLOCK_ENTRIES as DEVICE_ENTRIES
from jointsparse.graphs.device_neighbours import gathered
from jointsparse.linalg import array_namespace

BLOCK_ENTRIES = 2**22  # entries of neighbourhoods gathered at a time


def local_grams(data: Array, members: IntArray) -> FloatArray:
    """Return Z_i Z_iᵀ of every neighbourhood; ``members`` is n × K, the samples in each."""
    n, size = members.shape
    if is_device_array(data):
        return _grams_there(data, members)
    grams = np.empty((n, size, size))
    step = max(1, BLOCK_ENTRIES // (size * data.shape[1]))
    for first in range(0, n, step):
        local = data[members[first : first + step]]
        local = local - local[:, :1]  # equal samples: exactly nothing, not the rounding of a mean
        local = local - local.mean(axis=1, keepdims=True)
        grams[first : first + step] = local @ local.transpose(0, 2, 1)
    return grams


def _grams_there(data: Array, members: IntArray) -> FloatArray:
    """Return the same of samples on a device, on the host."""
    xp = array_namespace(data)
    parts = []
    step = max(1, DEVICE_ENTRIES // (members.shape[1] * data.shape[1]))
    for first in range(0, members.shape[0], step):
        local = gathered(data, members[first : first + step])
        local = local - local[:, :1, :]
        local = local - xp.mean(local, axis=1, keepdims=True)
        parts.append(to_host(local @ xp.matrix_transpose(local)))
    return np.concatenate(parts)


def discriminant_matrix(
    data: Array, neighbours: IntArray, *, ridge: float, relative: bool = True
) -> tuple[sp.csr_array, float]:
    """Return L, and tr(XᵀLX), which is exactly 0 where all neighbours are equal.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_features)
        Samples.
    neighbours : ndarray of shape (n_samples, k)
        Neighbours of every sample.
    ridge : float
        λ, above 0.
    relative : bool
        Whether ``ridge`` is a multiple of the mean of tr(Z_i Z_iᵀ)/K over the neighbourhoods.

    Returns
    -------
    matrix : csr_array of shape (n_samples, n_samples)
        L, with at most n K² entries.
    trace : float
        Σ_i ⟨Z_i Z_iᵀ, B_i⟩.
    """
    n = data.shape[0]
    members = np.column_stack([np.arange(n), neighbours])
    size = members.shape[1]
    grams = local_grams(data, members)
    unit = float(np.einsum("ikk->", grams)) / (n * size) if relative else 1.0
    inner = np.linalg.inv(grams + ridge * (unit or 1.0) * np.eye(size))
    inner -= inner.mean(axis=1, keepdims=True)
    inner -= inner.mean(axis=2, keepdims=True)
    inner = (inner + inner.transpose(0, 2, 1)) / 2
    rows = np.repeat(members, size, axis=1)
    columns = np.tile(members, (1, size))
    matrix = sp.coo_array((inner.ravel(), (rows.ravel(), columns.ravel())), shape=(n, n))
    return sp.csr_array(matrix), float(np.sum(grams * inner))
