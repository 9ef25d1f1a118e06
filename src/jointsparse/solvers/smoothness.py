r"""How smooth features are on a graph: the Laplacian score, in closed form.

.. math:: \mathrm{LS}_r = \frac{\tilde f_r^\top (D-G)\tilde f_r}{\tilde f_r^\top D\tilde f_r},\qquad
          \tilde f_r = f_r - \frac{f_r^\top D1}{1^\top D1}1
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from jointsparse.graphs.laplacian import degrees
from jointsparse.graphs.neighbours import FloatArray
from jointsparse.solvers.solution import Solution, closed_form

BLOCK_ENTRIES = 2**22  # entries of features taken at a time


def solve_smoothness(data: FloatArray, graph: sp.csr_array) -> Solution:
    """Return the Laplacian score of every feature.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_features)
        Features in columns.
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
    volume = float(degree.sum())
    scores = np.empty(p)
    step = max(1, BLOCK_ENTRIES // n)
    for first in range(0, p, step):
        part = data[:, first : first + step]
        centred = part - (degree @ part) / volume
        weighted = degree[:, None] * centred
        total = np.einsum("ij,ij->j", weighted, centred)
        rough = total - np.einsum("ij,ij->j", centred, graph @ centred)
        # What rounding leaves of a feature that is constant where it counts.
        bound = 10 * n * np.finfo(np.float64).eps * (degree @ part**2)
        varies = total > bound
        with np.errstate(divide="ignore", invalid="ignore"):
            scores[first : first + step] = np.where(varies, np.clip(rough / total, 0, 2), np.inf)
    known = scores[np.isfinite(scores)]
    return closed_form(np.zeros((p, 0)), float(known.mean()) if known.size else 0.0, scores)
