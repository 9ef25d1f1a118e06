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

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, eigh
from jointsparse.running.cores import threads
from jointsparse.running.threads import LONG_PART, in_parts

SMALL_TURN = 0.1  # root mean square of a column of Y, beyond which the second order is not small
# ‖Y‖ below which the columns stay orthonormal to rounding. Y is as antisymmetric as rounding lets
# it be, and columns mix with those of the largest eigenvalues: with 1e-3, and corrections to 1e-12,
# principal component pursuit did not come nearer than 5e-7 on some tables of 400 × 200 numbers.
LEAST_DRIFT = 1e-5
MOST_CORRECTIONS = 4  # from the largest turn to rounding
SQUARED_TO_ROUNDING = 1e-7  # of ‖VᵀV - I‖: one correction leaves three quarters of the square
# Matrices that are decomposed from an attempt that failed to the next. An attempt is two products;
# a decomposition takes as long as five on one core, and as many more on several.
WAIT = 2
TINY = 1e-300


class FollowedEigenpairs:
    """Approximate eigenpairs of one matrix after another.

    Parameters
    ----------
    largest_turn : float
        Root mean square of a column of Y up to which vectors are turned. Larger turns save
        decompositions where a rough answer will do, and cost iterations where it does not.

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

    def __init__(self, largest_turn: float = SMALL_TURN) -> None:
        self.largest_turn = largest_turn
        self.vectors: Any = None
        self._left = 0

    def __call__(self, matrix: Array) -> tuple[Array, Array]:
        """Return eigenvalues, in no order, and orthonormal vectors."""
        values = None
        if self.vectors is not None and self._left == 0:
            values = self._turned(matrix)
            self._left = WAIT if values is None else 0
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
        turn, size, added = _turn(coupling, values)
        if not size <= self.largest_turn * values.shape[0] ** 0.5:
            return None
        second = turn @ turn.T  # -Y², of which BLAS computes one half
        second *= -0.5
        turn += second
        turned = V @ turn
        turned += V
        self.vectors = _orthonormal(turned) if size > LEAST_DRIFT else turned
        return values + added


def _turn(coupling: Array, values: Array) -> tuple[Array, float, Array]:
    """Return Y, its norm, and what the eigenvalues gain by it to second order."""
    xp = array_namespace(coupling)
    if type(coupling) is np.ndarray:
        return _turn_in_parts(coupling, values)
    apart = values[None, :] - values[:, None]
    turn = apart * apart
    turn += (4 * coupling) * coupling + TINY
    turn = coupling * apart / turn
    return turn, float(xp.linalg.vector_norm(turn)), xp.sum(turn * coupling, axis=0)


def _turn_in_parts(
    coupling: NDArray[Any], values: NDArray[Any]
) -> tuple[NDArray[Any], float, NDArray[Any]]:
    """Do the same rows by rows: what is computed on the way stays in the cache."""
    turn = np.empty_like(coupling, order="C")

    def some(rows: slice) -> tuple[Any, Any]:
        B, Y = coupling[rows], turn[rows]
        apart = values - values[rows, None]
        np.multiply(B, B, out=Y)
        Y *= 4
        Y += apart * apart
        Y += TINY
        apart *= B
        np.divide(apart, Y, out=Y)
        return np.einsum("ij,ij->", Y, Y), np.einsum("ij,ij->j", Y, B)

    count = len(values)
    parts = in_parts(some, count, part=max(1, LONG_PART // count), workers=threads())
    squares, added = zip(*parts, strict=True)
    return turn, float(sum(squares)) ** 0.5, np.sum(added, axis=0)


def _orthonormal(V: Array) -> Array:
    """Return V (VᵀV)^(-1/2) by Newton's iteration, which squares the distance of VᵀV from I."""
    xp = array_namespace(V)
    identity = xp.eye(V.shape[1], dtype=V.dtype, device=V.device)
    for _ in range(MOST_CORRECTIONS):
        apart = V.T @ V
        apart -= identity
        correction = V @ apart
        correction *= -0.5
        correction += V
        V = correction
        if float(xp.linalg.vector_norm(apart)) <= SQUARED_TO_ROUNDING:
            break
    return V
