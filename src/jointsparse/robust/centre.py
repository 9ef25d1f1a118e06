r"""The geometric median, with a proof of how near the best centre is.

.. math:: \min_m\ f(m) = \sum_i w_i\|x_i - m\|

At a point that is no sample the gradient is :math:`-\sum_i w_i u_i` with the directions
:math:`u_i = (x_i-m)/\|x_i-m\|`; at the sample k the steepest descent is
:math:`(\|R\| - w_k)_+`, :math:`R = \sum_{i\ne k} w_i u_i` (Vardi, Zhang 2000). The optimum is
reached where that is 0; divided by :math:`\sum_i w_i` it is the convergence measure.
"""

from __future__ import annotations

from typing import NamedTuple

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace

# At this length of the mean direction the centre is off by about 1e-7 of a usual distance.
TOLERANCE = 1e-7
MOST_STEPS = 500
SAME = 1e-12  # of the mean distance: a sample nearer than this is at the centre


class Centre(NamedTuple):
    """A geometric median.

    Attributes
    ----------
    point : array of shape (n_features,)
        Where it is.
    slope : float
        Steepest descent of the mean distance there, between 0 and 1; 0 at the optimum.
    n_iter : int
        Steps made.
    """

    point: Array
    slope: float
    n_iter: int


def geometric_median(
    points: Array,
    start: Array,
    *,
    tol: float = TOLERANCE,
    max_iter: int = MOST_STEPS,
) -> Centre:
    """Return the geometric median of the rows by the steps of Weiszfeld, Vardi and Zhang.

    Parameters
    ----------
    points : array of shape (n_samples, n_features)
        Points, one per row, in double precision.
    start : array of shape (n_features,)
        Where to start: robust itself, such as the medians of the columns, or gross samples cost
        many steps.
    tol : float
        Slope at which to stop.
    max_iter : int
        Most steps.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.robust.centre import geometric_median
    >>> points = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0], [1e9, 1e9]])
    >>> geometric_median(points, np.zeros(2)).point.round(2).tolist()
    [1.58, 1.58]
    """
    xp = array_namespace(points)
    centre, slope = start, 1.0
    for step in range(max_iter + 1):
        apart = points - centre
        distances = xp.linalg.vector_norm(apart, axis=1)
        there = distances <= SAME * float(xp.mean(distances))
        weights = xp.where(there, xp.zeros_like(distances), 1 / xp.where(there, 1.0, distances))
        pull = weights @ apart  # Σ u_i over the samples elsewhere
        total, strength = float(xp.sum(weights)), float(xp.linalg.vector_norm(pull))
        held = float(xp.sum(xp.astype(there, xp.float64)))  # samples at the centre hold it there
        slope = max(strength - held, 0.0) / points.shape[0]
        if slope <= tol or step == max_iter:
            break
        centre = centre + pull * ((1 - held / strength) / total)
    return Centre(centre, slope, step)
