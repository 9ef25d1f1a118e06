r"""Newton's method for leverages that reproduce themselves, once it is settled which features stay.

A pass of :mod:`jointsparse.solvers.graph.reweighted_eigen` maps leverages x to weights
:math:`w = \tfrac{gq}2(x+\varepsilon)^{(q-2)/2}` and these to the leverages F of the lowest m
eigenvectors of A + diag(w). To first order in the weights

.. math:: \mathrm dF = -N\,\mathrm dw,\qquad
          N_{ab} = 2\sum_{i\le m<j}\frac{u_{ia}u_{ja}\,u_{ib}u_{jb}}{\lambda_j-\lambda_i} ,

so that in the logarithms :math:`l = \log(x+\varepsilon)` the map has the derivative
:math:`T = \operatorname{diag}(F+\varepsilon)^{-1}N\operatorname{diag}(h)`, :math:`h = (1-q/2)\,w`:
similar to a positive semidefinite matrix, whose eigenvalues t are below 1 at a minimum. With f what
a pass changes, Newton's step is :math:`(I-T)^{-1}f`, every part of it the change times 1/(1 - t).
Parts with t near 1 or above, of features that are about to leave, are moved by a multiple that is
limited, and the limit grows while the objective falls.

N is taken of the features that are in use. For one that is all but gone the eigenvectors follow it,
:math:`v_j = -(Av)_j/w_j`, and t is :math:`(2-q)F_j/(F_j+\varepsilon)`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.linalg import add_to_diagonal, eigh

IN_USE = 10.0  # times the smoothing: leverages that smoothing does not hide
MOST = 1000  # features in use; the two decompositions of a step take half a second with so many
APART = 1e-6  # relative distance of eigenvalues m and m + 1: nearer, N is not known
FIRST_REACH, LONGEST_REACH = 8.0, 1e4  # times what a pass changes
FURTHER, SHORTER = 2.0, 4.0  # by which the limit grows after a good step, and falls after a bad one


class NewtonSteps:
    """Where to take the next tangent: where the leverages would reproduce themselves.

    Parameters
    ----------
    block : callable
        Returns the rows and columns of A that belong to some features.
    count : int
        Number of eigenvectors m.
    power : float
        q.
    smoothing : float
        ε.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.graph.leverage_newton import NewtonSteps
    >>> A, x = np.array([[1, -2, 0], [-2, 1.5, -2], [0, -2, 2]]), np.full(3, 1 / 3)
    >>> steps = NewtonSteps(lambda features: A[np.ix_(features, features)], 1, 1.0, 1e-10)
    >>> for _ in range(5):
    ...     weights = 0.5 * (x + 1e-10) ** -0.5
    ...     after = np.linalg.eigh(A + np.diag(weights))[1][:, 0] ** 2
    ...     x = steps.point(x, after, weights)
    >>> bool(np.max(np.abs(x - after)) < 1e-12)
    True
    """

    def __init__(
        self,
        block: Callable[[IntArray], FloatArray],
        count: int,
        power: float,
        smoothing: float,
    ) -> None:
        self.block, self.count, self.power, self.smoothing = block, count, power, smoothing
        self.reach = FIRST_REACH

    def went_well(self) -> None:
        """Allow longer steps, after one that lowered the objective."""
        self.reach = min(LONGEST_REACH, FURTHER * self.reach)

    def went_too_far(self) -> None:
        """Allow shorter ones only."""
        self.reach = max(1.0, self.reach / SHORTER)

    def point(
        self, before: FloatArray, after: FloatArray, weights: FloatArray
    ) -> FloatArray | None:
        """Return leverages beyond a pass that took ``before``, with its weights, to ``after``.

        None where too many features are in use, or too few for a choice between them.
        """
        used = np.flatnonzero(np.maximum(before, after) > IN_USE * self.smoothing)
        if not self.count < used.size <= MOST:
            return None
        values, vectors = eigh(add_to_diagonal(self.block(used), weights[used]))
        lead = values[: self.count]
        if values[self.count] - lead[-1] <= APART * max(abs(values[self.count]), abs(lead[0])):
            return None
        start, end = np.log(before + self.smoothing), np.log(after + self.smoothing)
        steps = end - start
        lone = (2 - self.power) * after / (after + self.smoothing)
        others = steps * self._multiple(lone)
        others[used] = self._coupled(values, vectors, after[used], weights[used], steps[used])
        return np.clip(np.exp(np.minimum(start + others, 0.0)) - self.smoothing, 0.0, 1.0)

    def _coupled(
        self,
        values: FloatArray,
        vectors: FloatArray,
        after: FloatArray,
        weights: FloatArray,
        steps: FloatArray,
    ) -> FloatArray:
        """Return (I - T)⁻¹ times the steps of the features in use, with limited parts."""
        rest, size = vectors[:, self.count :], after + self.smoothing
        slopes = (1 - self.power / 2) * weights
        root = np.sqrt(slopes / size)[:, None]  # T is similar to root · N · root
        similar = np.zeros((after.size, after.size))
        for value, vector in zip(values, vectors.T[: self.count], strict=False):
            part = rest * (root * vector[:, None]) * np.sqrt(2 / (values[self.count :] - value))
            similar += part @ part.T
        rates, turn = eigh(similar)
        length = np.sqrt(slopes * size)
        return np.asarray(turn @ (self._multiple(rates) * (turn.T @ (length * steps)))) / length

    def _multiple(self, rates: FloatArray) -> FloatArray:
        """Return 1 / (1 - t), no larger than allowed."""
        return 1 / np.maximum(1 - rates, 1 / self.reach)
