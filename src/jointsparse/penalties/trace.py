"""Penalties on the eigenvalues or singular values: few directions."""

from __future__ import annotations

from dataclasses import dataclass

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, largest_eigenvalue, symmetric_part
from jointsparse.numerics.projections import (
    from_eigenpairs,
    positive_eigenpairs,
    shrink_singular_values,
)

ROUNDING = 1e-12  # of the largest entry: eigenvalues below zero by less than this are zeros


@dataclass(frozen=True)
class Trace:
    r"""Trace on the positive semidefinite cone: :math:`\eta\operatorname{tr}M`, and M ⪰ 0.

    Infinite for any other matrix. What is solved with it is symmetric.

    Parameters
    ----------
    strength : float
        η ≥ 0; 0 is the cone alone.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.penalties import Trace
    >>> Trace(0.5).prox(np.diag([2.0, 0.3]), 1.0)
    array([[1.5, 0. ],
           [0. , 0. ]])
    """

    strength: float
    symmetric = True

    def value(self, matrix: Array) -> float:
        """Return the penalty of a matrix."""
        xp = array_namespace(matrix)
        size = float(xp.max(xp.abs(matrix))) if matrix.shape[0] else 0.0
        apart = float(xp.max(xp.abs(matrix - matrix.T))) if size else 0.0
        if apart > ROUNDING * size or largest_eigenvalue(-symmetric_part(matrix)) > max(
            ROUNDING * size * matrix.shape[0], 0.0
        ):
            return float("inf")
        return self.strength * float(xp.linalg.trace(matrix))

    def prox(self, matrix: Array, step: float) -> Array:
        """Lower the eigenvalues by ``step * strength``, to zero where they are not larger."""
        return from_eigenpairs(*positive_eigenpairs(symmetric_part(matrix), step * self.strength))

    def polar(self, matrix: Array) -> float:
        """Return the largest eigenvalue of the symmetric part, in units of η."""
        largest = largest_eigenvalue(symmetric_part(matrix))
        if largest <= 0:
            return 0.0
        return largest / self.strength if self.strength > 0 else float("inf")


@dataclass(frozen=True)
class Nuclear:
    r"""Sum of singular values, :math:`\eta\|M\|_*`, of any matrix.

    Parameters
    ----------
    strength : float
        η ≥ 0.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.penalties import Nuclear
    >>> Nuclear(2.0).value(np.diag([3.0, -1.0]))
    8.0
    """

    strength: float

    def value(self, matrix: Array) -> float:
        """Return the penalty of a matrix."""
        xp = array_namespace(matrix)
        return self.strength * float(xp.sum(xp.linalg.svdvals(matrix)))

    def prox(self, matrix: Array, step: float) -> Array:
        """Lower the singular values by ``step * strength``, to zero where they are not larger."""
        return shrink_singular_values(matrix, step * self.strength)

    def polar(self, matrix: Array) -> float:
        """Return the largest singular value, in units of η."""
        xp = array_namespace(matrix)
        largest = float(xp.max(xp.linalg.svdvals(matrix)))
        if largest == 0:
            return 0.0
        return largest / self.strength if self.strength > 0 else float("inf")
