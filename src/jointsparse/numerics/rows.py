"""Rows of matrices with many of them, and few columns."""

from __future__ import annotations

from functools import reduce

import numpy as np

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace

THIN = 8  # columns: up to so many, NumPy looks at one after the other sooner than at short rows


def rows_in_use(matrix: Array) -> Array:
    """Return which rows of a matrix are not zero.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.numerics.rows import rows_in_use
    >>> rows_in_use(np.array([[0.0, 2.0], [0.0, 0.0], [1.0, 0.0]])).tolist()
    [True, False, True]
    """
    used = matrix != 0
    if type(matrix) is np.ndarray and 0 < matrix.shape[1] <= THIN:
        return reduce(np.logical_or, used.T)
    return array_namespace(matrix).any(used, axis=1)
