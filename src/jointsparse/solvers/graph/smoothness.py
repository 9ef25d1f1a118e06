r"""How smooth features are on a graph: the Laplacian score, in closed form.

.. math:: \mathrm{LS}_r = \frac{\tilde f_r^\top (D-G)\tilde f_r}{\tilde f_r^\top D\tilde f_r},\qquad
          \tilde f_r = f_r - \frac{f_r^\top D1}{1^\top D1}1
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.graphs.device_neighbours import BLOCK_ENTRIES as DEVICE_ENTRIES
from jointsparse.graphs.device_neighbours import gathered
from jointsparse.graphs.laplacian import degrees
from jointsparse.graphs.sparse_samples import stored
from jointsparse.linalg import array_namespace, columns_near_one, columns_near_one_there
from jointsparse.solvers.solution import Solution, closed_form

BLOCK_ENTRIES = 2**17  # entries of features taken at a time: what is made of them is not large
LEAST = 32  # features
SMALLEST = 1e-100  # sum of squares, of which none that counts underflows


def solve_smoothness(data: Any, graph: sp.csr_array) -> Solution[FloatArray]:
    """Return the Laplacian score of every feature.

    Parameters
    ----------
    data : array of shape (n_samples, n_features) or SparseSamples
        Features in columns, on the host or on a device.
    graph : csr_array of shape (n_samples, n_samples)
        Symmetric weights G, not all zero.

    Returns
    -------
    Solution
        ``state`` are the scores, between 0 and 2; infinite where a feature is constant on all
        samples that have neighbours. ``loadings`` is empty.
    """
    n, p = data.shape
    degree = degrees(graph)
    step = max(LEAST, BLOCK_ENTRIES // n)
    scores, sparse_data = np.empty(p), stored(data)
    if is_device_array(data):
        scores = _scores_there(data, graph, degree)
    elif sparse_data is not None:
        columns, mean = sparse_data.matrix, sparse_data.mean
        # Of a column that is filled to half at most, no more than half of Σf² is its mean.
        full = np.diff(columns.indptr) > n / 2
        sparse, few = np.flatnonzero(~full), np.flatnonzero(full)
        for first in range(0, sparse.size, step):
            part = sparse[first : first + step]
            scores[part] = _sparse_scores(columns[:, part], graph, degree)
        for first in range(0, few.size, step):
            part = few[first : first + step]
            scores[part] = _scores(columns[:, part].toarray() - mean[part], graph, degree)
    else:
        for first in range(0, p, step):
            scores[first : first + step] = _scores(data[:, first : first + step], graph, degree)
    known = scores[np.isfinite(scores)]
    return closed_form(np.zeros((p, 0)), float(known.mean()) if known.size else 0.0, scores)


def _scores(part: FloatArray, graph: sp.csr_array, degree: FloatArray) -> FloatArray:
    """Return the scores of some features, which do not depend on their units."""
    mean, centred, total = _around_mean(part, degree)
    if not (total.min() > SMALLEST and total.max() < 1 / SMALLEST):
        mean, centred, total = _around_mean(columns_near_one(part), degree)
    rough = total - np.einsum("ij,ij->j", centred, graph @ centred)
    return _ratio(rough, total, total + float(degree.sum()) * mean**2, degree.size)


def _around_mean(part: FloatArray, degree: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return weighted means, deviations from them, and weighted sums of the squares of these."""
    with np.errstate(over="ignore", invalid="ignore"):  # which is seen, and done again
        mean = (degree @ part) / float(degree.sum())
        centred = np.subtract(part, mean, order="C")  # as products with the graph want it
        return mean, centred, degree @ (centred * centred)


def _scores_there(data: Array, graph: sp.csr_array, degree: FloatArray) -> FloatArray:
    """Return the same of samples on a device; what is rough is summed over the edges, once each."""
    xp, data = array_namespace(data), columns_near_one_there(data)
    upper = sp.triu(graph, 1).tocoo()
    weights, mass = like(upper.data, data), like(degree, data)
    mean = (mass @ data) / float(degree.sum())
    total = mass @ (data - mean) ** 2
    rough: Any = xp.zeros_like(total)
    step = max(1, DEVICE_ENTRIES // data.shape[1])
    for first in range(0, upper.nnz, step):
        part = slice(first, first + step)
        apart = gathered(data, upper.row[part]) - gathered(data, upper.col[part])
        rough = rough + weights[part] @ apart**2
    squares = total + float(degree.sum()) * mean**2
    return _ratio(to_host(rough), to_host(total), to_host(squares), degree.size)


def _sparse_scores(part: sp.csc_array, graph: sp.csr_array, degree: FloatArray) -> FloatArray:
    """Return the scores of some features without taking their mean off: (D - G)1 = 0."""
    exponents = np.frexp(abs(part).max(axis=0).toarray().ravel())[1]
    part = part.copy()
    part.data = np.ldexp(part.data, -np.repeat(exponents, np.diff(part.indptr)))
    squares = part.multiply(part).T @ degree
    total = squares - (part.T @ degree) ** 2 / float(degree.sum())
    across = np.asarray(part.multiply(graph @ part).sum(axis=0)).ravel()
    return _ratio(squares - across, total, squares, degree.size)


def _ratio(rough: FloatArray, total: FloatArray, squares: FloatArray, n: int) -> FloatArray:
    # What rounding leaves of a feature that is constant where it counts.
    varies = total > 10 * n * np.finfo(np.float64).eps * squares
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(varies, np.clip(rough / total, 0, 2), np.inf)
