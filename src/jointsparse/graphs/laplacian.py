r"""Weighted neighbour graphs and their Laplacian L = D - G.

.. math:: G_{ij} = \begin{cases} w(x_i, x_j) & j\in N_k(i)\ \text{or}\ i\in N_k(j)\\
          0 & \text{otherwise,}\end{cases}\qquad D = \operatorname{diag}(G\mathbf 1)

with w = 1 ("binary"), :math:`e^{-\|x_i-x_j\|^2/(2t^2)}` ("heat") or the cosine of the angle between
the samples ("cosine", negative ones cut off). There are no loops. Two other graphs that appear in
the sources are given through their products with a matrix only (:func:`class_means`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import is_device_array, to_host
from jointsparse.graphs.device_neighbours import gathered
from jointsparse.graphs.neighbours import nearest_neighbours, neighbour_sets
from jointsparse.graphs.sparse_samples import inner_products, stored
from jointsparse.linalg import array_namespace

SMALL = 150  # samples whose graph is sooner made as a dense matrix; of random ones, measured
WEIGHTS = ("binary", "heat", "cosine")


def affinity(
    data: Any,
    n_neighbors: int,
    *,
    weights: str = "binary",
    width: float | None = None,
    search: str = "exact",
) -> sp.csr_array:
    """Return the symmetric neighbour graph of the samples.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_features) or SparseSamples
        Samples.
    n_neighbors : int
        Number of neighbours k; at most n_samples - 1 are used.
    weights : {"binary", "heat", "cosine"}
        Weights of the edges.
    width : float or None
        t of the heat weights, in units of the data; None takes the median distance between
        neighbours.
    search : {"exact", "approximate"}
        How neighbours are found.

    Returns
    -------
    csr_array of shape (n_samples, n_samples)
        G, with at most 2 n k entries. A heat weight may underflow, so that a sample far from all
        others is isolated.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.graphs.laplacian import affinity, laplacian
    >>> graph = affinity(np.array([[0.0], [1.0], [3.0]]), 1)
    >>> graph.toarray().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    >>> laplacian(graph).toarray().tolist()
    [[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]]
    """
    if weights == "binary":
        indices = neighbour_sets(data, n_neighbors, search=search)
        return _joined(indices, np.ones(indices.shape))
    indices, distances = nearest_neighbours(data, n_neighbors, search=search)
    if weights == "heat":
        width = median_distance(distances) if width is None else width
        values = np.exp(-0.5 * (np.sqrt(distances) / width) ** 2)
    else:
        values = _cosines(data, indices)
    return _joined(indices, values)


def _joined(indices: IntArray, values: FloatArray) -> sp.csr_array:
    """Return the graph of neighbours, one of whom at least has the other; the larger weight."""
    n = len(indices)
    if n > SMALL:
        return symmetrised(rows_to_csr(indices, values), combine="max")
    dense = np.zeros((n, n))
    dense.reshape(-1)[n * np.arange(n)[:, None] + indices] = values
    dense = np.maximum(dense, dense.T)
    rows, columns = divmod(np.flatnonzero(dense), n)
    pointer = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=n), out=pointer[1:])
    return sp.csr_array((dense[rows, columns], columns, pointer), shape=(n, n))


def median_distance(distances: FloatArray) -> float:
    """Return the median of the distances; of those above 0 where more than half are 0."""
    lengths = np.sqrt(distances)
    middle = float(np.median(lengths))
    if middle == 0 and np.any(lengths > 0):
        middle = float(np.median(lengths[lengths > 0]))
    return middle or 1.0


def rows_to_csr(indices: IntArray, values: FloatArray) -> sp.csr_array:
    """Return the n × n matrix whose row i holds values[i] in the columns indices[i]."""
    n, count = indices.shape
    pointer = np.arange(0, n * count + 1, count)
    # Copies: sorting happens in place.
    matrix = sp.csr_array((values.flatten(), indices.flatten(), pointer), shape=(n, n))
    matrix.sort_indices()
    return matrix


def symmetrised(matrix: sp.csr_array, *, combine: str) -> sp.csr_array:
    """Return max(M, Mᵀ) or, with ``combine="mean"``, (M + Mᵀ)/2, without entries that are 0."""
    other = matrix.T.tocsr()
    both = matrix.maximum(other) if combine == "max" else (matrix + other) * 0.5
    both = sp.csr_array(both)
    both.eliminate_zeros()
    both.sort_indices()
    return both


def degrees(graph: sp.csr_array) -> FloatArray:
    """Return the sums of the rows."""
    return np.asarray(graph.sum(axis=1), dtype=np.float64).ravel()


def laplacian(graph: sp.csr_array) -> sp.csr_array:
    """Return diag(G1) - G."""
    return sp.csr_array(sp.diags_array(degrees(graph)) - graph)


def class_means(data: FloatArray, labels: NDArray[Any]) -> FloatArray:
    """Return G X for the graph of classes, G_ij = 1/n_c within class c: means of the classes.

    All degrees of that graph are 1. It is never formed.
    """
    _, member = np.unique(labels, return_inverse=True)
    size = np.bincount(member)
    belongs = sp.csr_array((np.ones(member.size), (member, np.arange(member.size))))
    means = (belongs @ data) / size[:, None]
    return np.asarray(means[member])


def _cosines(data: Any, indices: IntArray) -> FloatArray:
    sparse = stored(data)
    if sparse is not None:
        norms, everyone = np.sqrt(sparse.row_squares()), np.arange(sparse.shape[0])
        norms = np.where(norms > 0, norms, 1.0)
        found = [
            inner_products(sparse, everyone, other) / (norms * norms[other]) for other in indices.T
        ]
        return np.clip(np.stack(found, axis=1), 0.0, None)
    if is_device_array(data):
        xp = array_namespace(data)
        unit = data / (float(xp.max(abs(data))) or 1.0)
        norms = xp.linalg.vector_norm(unit, axis=1)
        unit = unit / xp.where(norms > 0, norms, 1.0)[:, None]
        cosines = [xp.sum(unit * gathered(unit, other), axis=1) for other in indices.T]
        return np.clip(to_host(xp.stack(cosines, axis=1)), 0.0, None)
    scaled = np.asarray(data, dtype=np.float64)
    scaled = scaled / (np.max(np.abs(scaled), initial=0.0) or 1.0)
    norms = np.linalg.norm(scaled, axis=1)
    scaled /= np.where(norms > 0, norms, 1.0)[:, None]
    values = np.empty(indices.shape)
    for column in range(indices.shape[1]):
        values[:, column] = np.einsum("ij,ij->i", scaled, scaled[indices[:, column]])
    return np.clip(values, 0.0, None)
