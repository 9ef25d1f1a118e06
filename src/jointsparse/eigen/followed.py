r"""Eigenpairs of a symmetric matrix that changes a little from call to call.

With V the eigenvectors of the matrix before, and :math:`B = V^\top G V` that of now, V is turned
by :math:`\exp(Y)\approx I + Y + Y^2/2`, where

.. math:: Y_{ij} = \frac{B_{ij}\,\delta_{ij}}{\delta_{ij}^2 + 4B_{ij}^2},\qquad
          \delta_{ij} = B_{jj} - B_{ii},

which is antisymmetric. For pairs further apart than what couples them this is the first order of
perturbation theory, so that what is left off the diagonal is of second order; pairs that are nearly
equal are hardly turned (any basis of their plane serves), and come apart in the calls that follow.
All of it is products of matrices, six or so, which every processor does many times as fast as it
does an eigendecomposition. Where the matrix changed too much for it, it is decomposed anew.
"""

from __future__ import annotations

from typing import Any

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, eigh

LARGEST_TURN = 0.1  # root mean square of a column of Y; beyond, second orders are no longer small
LEAST_DRIFT = 1e-3  # ‖Y‖ below which the columns stay orthonormal to rounding: an error of ‖Y‖⁴/4
LONGEST_WAIT = 8  # matrices that are decomposed before the next attempt, after some that failed
TINY = 1e-300


class FollowedEigenpairs:
    """Approximate eigenpairs of one matrix after another.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.eigen.followed import FollowedEigenpairs
    >>> A = np.diag([1.0, 2.0, 4.0])
    >>> follow = FollowedEigenpairs()
    >>> for change in (0.0, 0.01, 0.01, 0.01):
    ...     values, vectors = follow(A + change)
    >>> bool(np.allclose(values, np.linalg.eigvalsh(A + 0.01), atol=1e-12))
    True
    """

    def __init__(self) -> None:
        self.vectors: Any = None
        self._wait = self._left = 0

    def __call__(self, matrix: Array) -> tuple[Array, Array]:
        """Return eigenvalues, in no order, and orthonormal vectors."""
        values = None
        if self.vectors is not None and self._left == 0:
            values = self._turned(matrix)
            self._left = self._wait = 0 if values is not None else _longer(self._wait)
        if values is None:
            self._left = max(0, self._left - 1)
            values, self.vectors = eigh(matrix)
        return values, self.vectors

    def _turned(self, matrix: Array) -> Array | None:
        """Turn the vectors and return the values; None where the turn would be too large."""
        xp = array_namespace(matrix)
        V = self.vectors
        coupling = V.T @ (matrix @ V)
        values = xp.linalg.diagonal(coupling)
        apart = values[None, :] - values[:, None]
        turn = apart * apart
        turn += (4 * coupling) * coupling + TINY
        turn = coupling * apart / turn
        size = float(xp.linalg.vector_norm(turn))
        if not size <= LARGEST_TURN * values.shape[0] ** 0.5:
            return None
        V = V + V @ (turn + turn @ turn / 2)
        if size > LEAST_DRIFT:
            V = 1.5 * V - 0.5 * (V @ (V.T @ V))
        self.vectors = V
        return values + xp.sum(turn * coupling, axis=0)


def _longer(wait: int) -> int:
    return min(LONGEST_WAIT, 2 * wait + 2)
