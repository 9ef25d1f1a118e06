"""The lowest eigenspace of A + diag(w), for a p × p matrix A on a device.

All eigenpairs cost no more there than some, and of many only the wanted ones come to the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import like, to_host
from jointsparse.eigen.ties import TIE, later_tie, shares
from jointsparse.linalg import add_to_diagonal, array_namespace, eigh, symmetric_part
from jointsparse.solvers.graph.quadratic_forms import GUARDS, Subspace, block_of, subspace_of

DENSE_ENTRIES = 2**24  # of the graph made dense at a time: 128 MB


class DeviceForm:
    """A as a p × p matrix on a device.

    Parameters
    ----------
    matrix : array of shape (n_features, n_features)
        A.
    """

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix

    @property
    def size(self) -> float:
        """No eigenvalue of A is larger, up to sign."""
        return abs(float(array_namespace(self.matrix).linalg.trace(self.matrix)))

    def first(self, count: int) -> Subspace:
        """Return the lowest eigenspace of A."""
        found, vectors = eigh(self.matrix)
        size = self.matrix.shape[0] * float(abs(self.matrix).max())
        return self._subspace(vectors, shares(to_host(found), count, TIE * size))

    def lowest(self, weights: FloatArray, count: int, start: FloatArray) -> Subspace:
        """Return the lowest eigenspace of A + diag(weights); ``start`` is not needed."""
        here = array_namespace(self.matrix).asarray(self.matrix, copy=True)
        found, vectors = eigh(add_to_diagonal(here, like(weights, here)))
        values = to_host(found)
        return self._subspace(vectors, shares(values, count, later_tie(values, count)))

    def product(self, block: FloatArray) -> FloatArray:
        """Return A times a block of vectors."""
        return to_host(self.matrix @ like(block, self.matrix))

    def block(self, features: IntArray) -> FloatArray:
        """Return the rows and columns of A that belong to some features, on the host."""
        return block_of(self.matrix, features)

    def _subspace(self, vectors: Array, share: FloatArray) -> Subspace:
        kept = max(int(np.count_nonzero(share)), GUARDS + round(float(share.sum())))
        found = to_host(vectors[:, :kept])
        return subspace_of(found, share[:kept], lambda V: np.sum(V * self.product(V), axis=0))


def device_product(data: Array, matrix: sp.csr_array) -> Array:
    """Return XᵀLX for samples on a device and a sparse L, some rows of which are made dense."""
    total: Any = 0.0
    step = max(1, DENSE_ENTRIES // matrix.shape[0])
    for first in range(0, matrix.shape[0], step):
        part = slice(first, first + step)
        total = total + data[part, :].T @ (like(matrix[part].toarray(), data) @ data)
    return symmetric_part(total)
