r"""Upper bounds from eigenvalues: principal components, and interlacing.

Λ_m(A) is the sum of the m largest eigenvalues of A, counted only where they are positive. A
projection P_H has rank at most k, so f(H) = tr(P_H T) ≤ Λ_k(T): no k features explain more than the
first k principal components.

**Interlacing.** If feature j is in H, P_H = x_jx_jᵀ + Q with Q ⟂ x_j of rank at most k - 1, hence

.. math:: f(H) \le b_j = x_j^\top T x_j + \Lambda_{k-1}\bigl((I-x_jx_j^\top)T(I-x_jx_j^\top)\bigr).

This holds for every j ∈ H, so no k features explain more than the k-th largest b.

*Many at once.* With T = VΛVᵀ, its s largest eigenvalues Λ₁ and the next one β (0 if there is none),
T ⪯ V₁(Λ₁-β)V₁ᵀ + βI, and with g = V₁ᵀx_j, d² = Λ₁ - β

.. math:: \Lambda_m\bigl((I-x_jx_j^\top)T(I-x_jx_j^\top)\bigr) \le
          \Lambda_m\bigl(\operatorname{diag}(d^2) - (d\circ g)(d\circ g)^\top\bigr) + m\beta ,

one small eigenproblem for each feature, all of them in one call.
"""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.subset.problem import SubsetProblem

MORE = 8  # eigenvalues kept beyond those that are summed: more cost more than they prune
AT_ONCE = 2**17  # entries of the small matrices of one call: 1 MB, which caches hold


def top_sum(values: FloatArray, count: int) -> FloatArray:
    """Return the sum of the largest positive values of each row sorted in ascending order."""
    if count <= 0:
        return np.zeros(values.shape[:-1])
    largest = values[..., max(values.shape[-1] - count, 0) :]
    return np.maximum(largest, 0.0).sum(axis=-1)


def components_bound(problem: SubsetProblem, size: int) -> float:
    """Return what no set of that size can exceed: the value of as many principal components."""
    return float(top_sum(problem.spectrum[0], size)) + problem.rounding


def sums_without(
    values: FloatArray, shadows: FloatArray, owners: IntArray, count: int
) -> FloatArray:
    """Bound the sum of the largest eigenvalues once a unit direction is taken out of a target.

    Parameters
    ----------
    values : ndarray of shape (b, r)
        Eigenvalues of each target, smallest first.
    shadows : ndarray of shape (c, r)
        Directions in the basis of the eigenvectors.
    owners : ndarray of shape (c,)
        Which target each direction is taken out of.
    count : int
        How many eigenvalues are summed.

    Returns
    -------
    ndarray of shape (c,)
    """
    size = values.shape[1]
    wanted = min(size, count + MORE)
    next_one = np.zeros(len(values))
    if wanted < size:
        next_one = np.maximum(values[:, size - wanted - 1], 0.0)
    squares = np.maximum(values[:, size - wanted :] - next_one[:, None], 0.0)
    roots = np.sqrt(squares)
    sums = np.empty(len(shadows))
    step = max(1, AT_ONCE // max(wanted, 1) ** 2)
    diagonal = np.arange(wanted)
    for start in range(0, len(shadows), step):
        part = slice(start, start + step)
        scaled = shadows[part, size - wanted :] * roots[owners[part]]
        small = scaled[:, :, None] * -scaled[:, None, :]
        small[:, diagonal, diagonal] += squares[owners[part]]
        sums[part] = top_sum(np.asarray(np.linalg.eigvalsh(small), np.float64), count)
    whole = top_sum(values, count)
    return np.minimum(sums + count * next_one[owners], whole[owners])
