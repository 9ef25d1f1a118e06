r"""Embeddings of samples that a graph asks for: the targets of subspace learning.

.. math:: G y = \lambda D y ,\qquad D = \operatorname{diag}(G\mathbf 1) ,\qquad \lambda
          \text{ largest first, without } y = \mathbf 1 .

The multiplicity of :math:`\lambda = 1` is the number of connected components (of a neighbour graph)
or of classes (of the graph with weight 1/size within each class); those eigenvectors are constant
on each component and known in closed form. Of targets with the same eigenvalue the graph prefers
none, so the data choose: those along which the samples vary most come first. Hence nothing
depends on the order of the samples, unless they vary equally along several. Nothing n × n and dense
is formed, except for a few samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import like, on_accelerator, to_host
from jointsparse.eigen.lanczos import leading_pairs
from jointsparse.graphs.laplacian import degrees
from jointsparse.graphs.sparse_samples import combined
from jointsparse.linalg import array_namespace, eigh
from jointsparse.operators.sparse import SparseSamples

SMALL = 200  # samples, up to which the eigenproblem is dense
SMALL_THERE = 5000  # … on an accelerator
TIE = 1e-9  # eigenvalues closer than that are equal
ALIKE = 1e-6  # rows whose lengths differ by less are equally long
UNSEEN = 1e-10  # of the largest: targets that vary less with the data are out of their reach


def class_targets(
    data: FloatArray | SparseSamples, labels: NDArray[Any], count: int | None = None
) -> FloatArray:
    """Return the targets of linear discriminant analysis: centred indicators of the classes.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_features) or SparseSamples
        Centred samples.
    labels : ndarray of shape (n_samples,)
        Classes, of any type that can be sorted.
    count : int or None
        Number of targets; None: all, one less than there are classes.

    Returns
    -------
    ndarray of shape (n_samples, n_targets)
        Orthonormal, orthogonal to 1 and constant on each class; those along which the class means
        vary most first. Fewer where the means span less.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.graphs.targets import class_targets
    >>> X = np.array([[-2.0], [-1.0], [0.0], [3.0]])
    >>> abs(class_targets(X, np.array(["a", "a", "a", "b"])).ravel()).round(3)
    array([0.289, 0.289, 0.289, 0.866])
    """
    _, member = np.unique(labels, return_inverse=True)
    return _component_targets(data, member.ravel(), np.ones(data.shape[0]), count)


def neighbour_targets(
    data: FloatArray | SparseSamples, graph: sp.csr_array, count: int
) -> FloatArray:
    """Return the targets of locality preserving projections: the smoothest on the graph.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_features) or SparseSamples
        Centred samples.
    graph : csr_array of shape (n_samples, n_samples)
        Symmetric weights. An isolated sample is a component by itself.
    count : int
        Number of targets.

    Returns
    -------
    ndarray of shape (n_samples, n_targets)
        Centred, smoothest first, of unit length for the weights D before they were centred.
        Fewer where there are fewer.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.graphs.laplacian import affinity
    >>> from jointsparse.graphs.targets import neighbour_targets
    >>> X = np.array([[0.0], [1.0], [2.0], [7.0], [8.0]])
    >>> Y = neighbour_targets(X - X.mean(), affinity(X, 1), 1)  # two components
    >>> (Y / Y[0]).ravel().round(3)
    array([ 1. ,  1. ,  1. , -1.5, -1.5])
    """
    weights = degrees(graph)
    graph = sp.csr_array(graph + sp.diags_array((weights == 0).astype(float)))
    weights = np.where(weights == 0, 1.0, weights)
    n_components, member = connected_components(graph, directed=False)
    found = np.zeros((data.shape[0], 0))
    if n_components > 1:
        found = _component_targets(data, member, weights, count)
    # Targets within components come after all those that separate them.
    missing = min(count - (n_components - 1), data.shape[0] - n_components)
    if missing > 0:
        within = _within_components(data, graph, weights, member, missing)
        found = np.column_stack([found, within])
    return found - found.mean(axis=0)


def _component_targets(
    data: FloatArray | SparseSamples, member: IntArray, weights: FloatArray, count: int | None
) -> FloatArray:
    """Return targets constant on each component, orthonormal for the weights, orthogonal to 1."""
    mass = np.bincount(member, weights=weights)
    belongs = sp.csr_array((np.ones(member.size), (member, np.arange(member.size))))
    roots = np.sqrt(mass)
    sums = combined(belongs, data) / roots[:, None]
    sums -= np.outer(roots, roots @ sums) / mass.sum()
    most = mass.size - 1 if count is None else min(count, mass.size - 1)
    # Orthogonal to 1 once more: rounding must not bring it back where the means are next to equal.
    basis = _most_varying(sums, most)
    basis -= np.outer(roots, roots @ basis) / mass.sum()
    return (basis / roots[:, None])[member]


def _within_components(
    data: FloatArray | SparseSamples,
    graph: sp.csr_array,
    weights: FloatArray,
    member: IntArray,
    count: int,
) -> FloatArray:
    """Return the leading eigenvectors that are not constant on components."""
    n = weights.size
    root = np.sqrt(weights)
    scale = sp.diags_array(1 / root)
    adjacency = sp.csr_array(scale @ graph @ scale)
    mass = np.bincount(member, weights=weights)
    constant = sp.csr_array((root / np.sqrt(mass)[member], (np.arange(n), member)))
    wanted = count
    while True:
        values, vectors = _leading(adjacency, constant, min(wanted + 4, n - mass.size), data)
        # All that tie with the last one wanted must be there to choose from.
        if values.size == n - mass.size or values[-1] < values[count - 1] - TIE:
            break
        wanted *= 2
    targets = vectors / root[:, None]
    groups = np.split(np.arange(values.size), np.flatnonzero(-np.diff(values) > TIE) + 1)
    chosen, room = [], count
    for group in groups:
        if room <= 0:
            break
        part = targets[:, group]
        if group.size > 1:
            part = part @ _most_varying(combined(part.T, data), min(room, group.size), part)
        chosen.append(part)
        room -= group.size
    return np.column_stack(chosen)


def _leading(
    adjacency: sp.csr_array, constant: sp.csr_array, count: int, data: Any = None
) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues and their vectors, orthogonal to those of the components.

    Where the samples are on an accelerator, a dense decomposition of a few thousand is faster there
    than an iteration here.
    """
    n = adjacency.shape[0]
    there = n <= SMALL_THERE and on_accelerator(data)
    if n <= SMALL or count >= n - 1 or there:
        deflated = _filled(adjacency, data) if there else adjacency.toarray()
        member = like(constant.indices, deflated)
        roots = like(constant.data, deflated)
        joined = array_namespace(deflated).astype(member[:, None] == member, deflated.dtype)
        values, vectors = eigh(deflated - 3 * roots[:, None] * roots * joined)
        lead = to_host(vectors[:, n - count :])
        return to_host(values)[::-1][:count], lead[:, ::-1]
    # Eigenvalues are between -1 and 1, those of the components 1: of A + 2I - 3CCᵀ they are between
    # 1 and 3, and 0.
    values, vectors = leading_pairs(
        n,
        lambda v: adjacency @ v + 2 * v - 3 * (constant @ (constant.T @ v)),
        count,
        room=4 * count + 40,
    )
    return values - 2, vectors


def _filled(matrix: sp.csr_array, data: Any) -> Any:
    """Return a sparse matrix as a dense one where the samples are."""
    xp = array_namespace(data)
    full = xp.zeros(matrix.shape, dtype=xp.float64, device=data.device)
    entries = matrix.tocoo()
    full[like(entries.row.astype(np.int64), data), like(entries.col.astype(np.int64), data)] = like(
        entries.data, data
    )
    return full


def _most_varying(image: FloatArray, count: int, places: FloatArray | None = None) -> FloatArray:
    """Return the leading left singular vectors, without those of singular values that are 0.

    Of equal ones neither graph nor data prefer any: the first samples do, in the rows of
    ``places`` times the vectors, and rounding does not.
    """
    left, values, _ = np.linalg.svd(image, full_matrices=False)
    seen = int(np.count_nonzero(values > UNSEEN * values[0])) if values.size else 0
    bounds = np.flatnonzero(-np.diff(values[:seen]) > TIE * values[0]) + 1 if seen else ()
    for group in np.split(np.arange(seen), bounds):
        if group.size > 1 and group[0] < count:
            wanted = min(group.size, count - int(group[0]))
            rows = left[:, group] if places is None else places @ left[:, group]
            left[:, group[:wanted]] = left[:, group] @ _one_sample_each(rows, wanted)
    return left[:, : max(1, min(count, seen))]


def _one_sample_each(rows: FloatArray, count: int) -> FloatArray:
    """Return what turns columns so that each is led by one row, the first of the longest."""
    rotation = np.zeros((rows.shape[1], 0))
    for _ in range(count):
        lengths = np.linalg.norm(rows, axis=1)
        leader = int(np.argmax(lengths >= (1 - ALIKE) * lengths.max()))
        towards = rows[leader] / lengths[leader]
        # Once more, as what is left of a row may be as short as rounding.
        towards = towards - rotation @ (rotation.T @ towards)
        towards /= np.linalg.norm(towards)
        rotation = np.column_stack([rotation, towards])
        rows = rows - np.outer(rows @ towards, towards)
    return rotation
