r"""The inverse root of a large symmetric operator, applied to a few vectors.

.. math:: A^{-1/2} b ,\qquad A \succeq 0 \text{ known through } v \mapsto Av .

k steps of Lanczos from b give an orthonormal basis Q and a tridiagonal T = QᵀAQ, and
:math:`\|b\|\,Q\,T^{-1/2}e_1` converges to the answer as fast as the best polynomial of degree k - 1
approximates the root on the spectrum. All vectors of the basis are kept and orthogonalised again,
so that rounding does not bring eigenvalues twice.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh_tridiagonal

from jointsparse.arrays import FloatArray

LOOK_EVERY = 10  # steps between two looks at the answer
SETTLED = 1e-10  # relative change of the answer between two looks, at which it is there
MOST_STEPS = 500


def inverse_root_times(
    product: Callable[[FloatArray], FloatArray], vectors: FloatArray, *, smallest: float
) -> FloatArray:
    """Return A^(-1/2) times every column.

    Parameters
    ----------
    product : callable
        Multiplies a vector by A.
    vectors : ndarray of shape (n, k)
        Columns in the range of A.
    smallest : float
        Eigenvalues below this share of the largest are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.eigen.inverse_root import inverse_root_times
    >>> A = np.diag([4.0, 9.0, 1e-9])
    >>> found = inverse_root_times(A.__matmul__, np.array([[2.0], [3.0], [1.0]]), smallest=1e-6)
    >>> bool(np.allclose(found, [[1.0], [1.0], [0.0]], atol=1e-10))
    True
    """
    return np.stack([_applied(product, vector, smallest) for vector in vectors.T], axis=1)


def _applied(
    product: Callable[[FloatArray], FloatArray], vector: FloatArray, smallest: float
) -> FloatArray:
    length = float(np.linalg.norm(vector))
    if length == 0:
        return np.zeros_like(vector)
    most = min(MOST_STEPS, vector.size)
    basis = np.empty((most, vector.size))
    diagonal: list[float] = []
    beside: list[float] = []
    before = np.zeros(0)
    direction = vector / length
    for step in range(1, most + 1):
        basis[step - 1] = direction
        known = basis[:step]
        image = product(direction)
        diagonal.append(float(direction @ image))
        for _ in range(2):
            image = image - known.T @ (known @ image)
        size = float(np.linalg.norm(image))
        exhausted = size <= 1e-13 * max(map(abs, diagonal))
        if exhausted or step == most or step % LOOK_EVERY == 0:
            weights = _root_in_basis(np.array(diagonal), np.array(beside), smallest)
            change = weights - np.pad(before, (0, weights.size - before.size))
            if exhausted or np.linalg.norm(change) <= SETTLED * np.linalg.norm(weights):
                break
            before = weights
        beside.append(size)
        direction = image / size
    return np.asarray(length * (weights @ basis[: weights.size]))


def _root_in_basis(diagonal: FloatArray, beside: FloatArray, smallest: float) -> FloatArray:
    """Return T^(-1/2)e₁."""
    values, axes = eigh_tridiagonal(diagonal, beside)
    large = values > smallest * values[-1]
    return np.asarray(axes[:, large] @ (axes[0, large] / np.sqrt(values[large])))
