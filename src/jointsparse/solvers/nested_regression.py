r"""How much of the data a growing set of features explains.

For features taken in a given order, the share of the total variance that a linear regression of
*all* features on the first h explains:

.. math:: R^2_h = 1 - \frac{\min_B \|X - X_h B\|_F^2}{\|X\|_F^2}

It is a Cholesky factorisation of S with its columns in that order, stopped early: O(p h) per step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def explained_along(
    scatter_column: Callable[[int], FloatArray],
    variances: FloatArray,
    order: Iterable[int],
    *,
    target: float = 1.0,
) -> list[float]:
    """Return R² after each feature of ``order``, until ``target`` is reached.

    Parameters
    ----------
    scatter_column : callable
        Returns a column of the scatter matrix S, given its number.
    variances : ndarray of shape (n_features,)
        Diagonal of S.
    order : iterable of int
        Features, first to last.
    target : float
        R² at which to stop.
    """
    total = float(np.sum(variances))
    directions = np.empty((0, variances.size))
    explained, curve = 0.0, []
    for feature in order:
        left = scatter_column(int(feature)) - directions[:, feature] @ directions
        # A feature that the earlier ones determine adds nothing but rounding errors.
        if left[feature] > 1e-9 * variances[feature]:
            direction = left / np.sqrt(left[feature])
            directions = np.vstack([directions, direction])
            explained += float(direction @ direction)
        curve.append(min(1.0, explained / total))
        if curve[-1] >= target:
            break
    return curve
