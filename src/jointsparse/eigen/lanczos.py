"""Leading eigenpairs of matrices that are too large to decompose, by products with vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from jointsparse.arrays import FloatArray

LARGEST_GRAM = 4096  # samples up to which all eigenvalues of their Gram matrix are computed


def leading_pairs(
    size: int, product: Any, count: int, room: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues (largest first) and eigenvectors of a semidefinite operator.

    Parameters
    ----------
    size : int
        Rows of the operator.
    product : callable
        Multiplies a vector, or a block of them, by the operator, which is positive semidefinite.
    count : int
        Number of pairs.
    room : int or None
        Vectors to work with; None: twice as many as there are pairs. More of them are worth it
        where the leading eigenvalues are close to each other and a product is cheap.
    """
    start = np.random.default_rng(0).standard_normal(size)
    operator = LinearOperator((size, size), matvec=product, matmat=product, dtype=np.float64)
    room = None if room is None else min(room, size)
    values, vectors = eigsh(operator, k=min(count, size - 1), v0=start, tol=1e-13, ncv=room)
    return values[::-1], vectors[:, ::-1]
