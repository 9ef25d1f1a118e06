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

a rank-one change of a diagonal matrix for each feature, all of them in one call.
"""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.subset.problem import EPS, SubsetProblem

MORE = 8  # eigenvalues kept beyond those that are summed: more cost more than they prune
HALVINGS = 10  # of the intervals in which eigenvalues lie: a thousandth of their differences
AT_ONCE = 2**15  # entries of one batch: 256 KB, which caches hold


def top_sum(values: FloatArray, count: int) -> FloatArray:
    """Return the sum of the largest positive values of each row sorted in ascending order."""
    largest = values[..., max(values.shape[-1] - count, 0) :]
    return np.maximum(largest, 0.0).sum(axis=-1)


def components_bound(problem: SubsetProblem, size: int) -> float:
    """Return what no set of that size can exceed: the value of as many principal components."""
    # An error of the inner products is one of the target, whose trace is at most 1.
    charge = problem.rounding + 2 * size * problem.accuracy
    return float(top_sum(problem.spectrum[0], size)) + charge


def largest_without(
    values: FloatArray, shadows: FloatArray, owners: IntArray, count: int
) -> FloatArray:
    """Bound the largest eigenvalues once a unit direction is taken out of a target.

    The i-th eigenvalue of diag(d²) - vvᵀ lies between the i-th and the next d², and is at most μ if
    Σ v_j² / (d_j² - μ) ≥ 1 there: bisection, whose upper ends are bounds at any moment.

    Parameters
    ----------
    values : ndarray of shape (b, r)
        Eigenvalues of each target, smallest first.
    shadows : ndarray of shape (c, r)
        Directions in the basis of the eigenvectors.
    owners : ndarray of shape (c,)
        Which target each direction is taken out of.
    count : int
        How many eigenvalues are wanted.

    Returns
    -------
    ndarray of shape (c, count)
        Largest first; zeros where there are no more.
    """
    size = values.shape[1]
    known, wanted = min(count, size), min(size, count + MORE)
    next_one = np.zeros(len(values))
    if wanted < size:
        next_one = np.maximum(values[:, size - wanted - 1], 0.0)
    squares = np.maximum(values[:, ::-1][:, :wanted] - next_one[:, None], 0.0).T
    ends = np.vstack([squares, np.zeros((1, len(values)))])
    found = np.zeros((len(shadows), count))
    step = max(1, AT_ONCE // max(known * wanted, 1))
    for start in range(0, len(shadows) if known else 0, step):
        part = slice(start, start + step)
        own = owners[part]
        poles = squares[:, own]
        weights = poles * shadows[part, ::-1][:, :wanted].T ** 2
        high, low = poles[:known], ends[1 : known + 1, own]
        for _ in range(HALVINGS):
            middle = (high + low) / 2
            with np.errstate(divide="ignore", invalid="ignore"):  # where two are equal: no news
                below = (weights[:, None] / (poles[:, None] - middle)).sum(axis=0) >= 1
            high, low = np.where(below, middle, high), np.where(below, low, middle)
        found[part, :known] = (high + next_one[own] + 4 * wanted * EPS * poles[0]).T
    return found
