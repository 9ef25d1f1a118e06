r"""A bound for ridge regression, which stays close where there are more features than samples.

With more features than samples a few of them explain everything of *these* samples, and the bounds
on f(H) say little. A ridge regression with penalty α, in units of a feature's sum of squares,
explains

.. math:: f_\alpha(z) = \operatorname{tr} T -
          \alpha\operatorname{tr}\Bigl(T\bigl(\alpha I + \sum_j z_jx_jx_j^\top\bigr)^{-1}\Bigr)

with z the indicator of a set. It is concave in z, so its tangent at *any* z ≥ 0 lies above it, and
the tangent is largest at the k features with the largest slopes:

.. math:: f_\alpha(H) \le f_\alpha(z) - g^\top z + \sum_{k\text{ largest}} g_j, \qquad
          g_j = \alpha\,x_j^\top A^{-1} T A^{-1} x_j,\quad A = \alpha I + \sum_j z_jx_jx_j^\top .

The points are those of Frank and Wolfe's method; O(r²p) for each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.subset.bounds import components_bound
from jointsparse.solvers.subset.problem import EPS, SubsetProblem

STEPS = 60  # the bound falls by 1/step; later ones change its fourth digit


def ridge_value(
    problem: SubsetProblem, features: Sequence[int] | IntArray, penalty: float
) -> float:
    """Return the share of the target that a ridge regression on a set explains."""
    columns = problem.columns[:, np.asarray(features, dtype=np.int64)]
    inner = columns.T @ columns
    inner[np.diag_indices_from(inner)] += penalty
    images = columns.T @ problem.target @ columns
    return float(np.trace(np.linalg.solve(inner, images)))


def ridge_bound(
    problem: SubsetProblem, size: int, penalty: float, *, steps: int = STEPS
) -> tuple[float, FloatArray]:
    """Return what no set of that size can explain by ridge regression, and z of the last tangent.

    Parameters
    ----------
    problem : SubsetProblem
        Features and target.
    size : int
        Number of features.
    penalty : float
        α, in units of a feature's sum of squares; positive.
    steps : int
        Tangents tried; each is a bound.
    """
    live = problem.live
    size = min(size, int(live.sum()))
    best = components_bound(problem, size)
    if size == 0:
        return best, np.zeros(live.size)
    weights = np.where(live, size / int(live.sum()), 0.0)
    for step in range(steps):
        value, slopes, condition = _tangent(problem, weights, penalty)
        largest = np.argsort(slopes)[slopes.size - size :]
        bound = value - float(slopes @ weights) + float(slopes[largest].sum())
        # Solving with A loses condition · eps of the numbers that are added up.
        scale = problem.reachable + 2 * float(np.abs(slopes) @ weights) + float(slopes.max())
        charge = 8 * sum(problem.columns.shape) * EPS * condition * scale
        best = min(best, bound + charge + problem.accuracy * size * condition)
        corner = np.zeros_like(weights)
        corner[largest] = 1.0
        weights = weights + 2 / (step + 3) * (corner - weights)
    return best, weights


def _tangent(
    problem: SubsetProblem, weights: FloatArray, penalty: float
) -> tuple[float, FloatArray, float]:
    """Return f_α, its slopes, and the condition of A."""
    columns = problem.columns
    values, vectors = np.linalg.eigh((columns * weights) @ columns.T)
    values = np.maximum(values, 0.0) + penalty
    turned = vectors.T @ problem.target @ vectors
    value = float(np.trace(turned) - penalty * np.sum(np.diagonal(turned) / values))
    inside = (vectors.T @ columns) / values[:, None]
    slopes = penalty * np.einsum("ij,ij->j", inside, turned @ inside)
    return value, np.maximum(slopes, 0.0), float(values[-1] / penalty)
