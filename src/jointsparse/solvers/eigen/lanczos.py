"""Leading eigenpairs of matrices that are too large to decompose, by products with vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from jointsparse.arrays import FloatArray

LARGEST_GRAM = 4096  # samples up to which all eigenvalues of their Gram matrix are computed


def leading_pairs(size: int, product: Any, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues (largest first) and eigenvectors of a symmetric operator."""
    start = np.random.default_rng(0).standard_normal(size)
    operator = LinearOperator((size, size), matvec=product, matmat=product, dtype=np.float64)
    values, vectors = eigsh(operator, k=min(count, size - 1), v0=start, tol=1e-13)
    return values[::-1], vectors[:, ::-1]
