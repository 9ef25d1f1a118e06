r"""Lower the singular values of a matrix that changes a little from call to call.

Only singular values above the threshold are needed, and in the iterations of a solver their number
settles early. Once it is small against the smaller side, a basis of that many directions and some
more is carried along, and improved by one subspace iteration each time, without an
eigendecomposition. Where most of them stay above it, all singular vectors are turned from one call
to the next (:mod:`~jointsparse.eigen.followed`). Both are exact in the limit only, where
the matrix settles: for solvers that judge their result by other means.
"""

from __future__ import annotations

from typing import Any

from jointsparse.arrays import Array
from jointsparse.eigen.followed import SMALL_TURN, FollowedEigenpairs
from jointsparse.linalg import array_namespace, column_norms, eigh

PARTIAL_SHARE = 0.2  # of the smaller side: with more directions the dense way is faster
PARTIAL_FROM = 150  # smaller sides than this are decomposed densely, each time anew


class Shrink:
    """Lower singular values by a threshold; returns A, R with A Rᵀ the result and RᵀR = I.

    Parameters
    ----------
    columns : int
        Number of columns of the matrices, which should be tall.
    largest_turn : float
        As :class:`~jointsparse.eigen.followed.FollowedEigenpairs` has it.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.eigen.shrink import Shrink
    >>> A, R = Shrink(2)(np.array([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), 2.0)
    >>> np.round(A @ R.T, 12).tolist()
    [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    """

    def __init__(self, columns: int, largest_turn: float = SMALL_TURN) -> None:
        self.columns, self.largest_turn = columns, largest_turn
        self.basis: Any = None
        self.follow = FollowedEigenpairs(largest_turn)

    def __call__(self, M: Array, threshold: float) -> tuple[Array, Array]:
        """Return A and R."""
        found = None if self.basis is None else self._partial(M, threshold, self.basis)
        if found is None:
            found = self._dense(M, threshold)
        values, vectors, image = found
        return image * (1 - threshold / values), vectors

    def _dense(self, M: Array, threshold: float) -> tuple[Array, Array, Array]:
        xp = array_namespace(M)
        large = self.columns >= PARTIAL_FROM
        squares, vectors = (self.follow if large else eigh)(M.T @ M)
        count = int(xp.sum(xp.astype(squares > threshold**2, xp.int64)))
        size = count + max(5, count // 5)  # some more, which see further directions come
        if large and size <= PARTIAL_SHARE * self.columns:
            self.basis = vectors[:, xp.argsort(squares)[-size:]]
            self.follow = FollowedEigenpairs(self.largest_turn)  # later ones are not near these
        else:
            self.basis = None
        near = vectors[:, squares > threshold**2]
        image = M @ near
        # Of pairs that were followed the values are those of the vectors as they are now.
        values = column_norms(image)
        above = values > threshold
        if count == 0 or bool(xp.all(above)):
            return values, near, image
        return values[above], near[:, above], image[:, above]

    def _partial(
        self, M: Array, threshold: float, basis: Array
    ) -> tuple[Array, Array, Array] | None:
        xp = array_namespace(M)
        basis, _ = xp.linalg.qr(M.T @ (M @ basis))
        image = M @ basis
        squares, turn = eigh(image.T @ image)
        basis = basis @ turn
        count = int(xp.sum(xp.astype(squares > threshold**2, xp.int64)))
        if count + 2 > squares.shape[0]:
            return None  # there may be more of them than the basis can hold
        self.basis = basis
        first = squares.shape[0] - count
        return xp.sqrt(squares[first:]), basis[:, first:], image @ turn[:, first:]
