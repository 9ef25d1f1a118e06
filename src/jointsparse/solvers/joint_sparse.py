r"""Joint sparse PCA: one projection and one recovery, with rows of the projection that are zero.

.. math:: \min_{Q,P}\ \operatorname{loss}(X - XQP^\top) + \lambda\sum_i\|q_i\|_2

The loss is the squared Frobenius norm, the sum of the norms of the rows (one for each *sample*), or
the sum of the norms of the columns (one for each *feature*). Norms that are not squared are
majorised by weighted squares, :math:`\|r\|\le w\|r\|^2 + 1/(4w)` with :math:`w=1/(2\|r\|)`. What is
left with fixed weights is the same for all three: with a scatter matrix S, a vector
:math:`\varphi` over the features and :math:`\bar P = \varphi\circ P` with orthonormal columns,

.. math:: \min_{Q}\ \operatorname{tr}(Q^\top SQ) - 2\operatorname{tr}\big(Q^\top S
          (\varphi\circ\bar P)\big) + \lambda\sum_i\|q_i\|_2 ,\qquad
          \bar P = \operatorname{polar}\big(\varphi\circ(SQ)\big) .

The first is a row-sparse regression, solved exactly: rows are exactly zero. For samples and for the
Frobenius norm :math:`\varphi = 1`, the constraint stays the same, and the objective never rises.
For features :math:`\varphi^2` are the weights themselves: the constraint :math:`P^\top
\operatorname{diag}(w)P = I` moves with them, and the objective may rise.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.projections import polar
from jointsparse.solvers.gram import Gram, SampleGram, equal_features, row_squares
from jointsparse.solvers.group_regression import (
    emptying_penalty,
    group_regression,
    share_equally,
)
from jointsparse.solvers.solution import Solution, Trace
from jointsparse.solvers.weighted_pass import ArraySamples, LinearFit

SMOOTHING = 1e-6  # of the typical norm of a residual: its weight stays finite
FIRST, FINE = 0.3, 1e-10  # accuracy of the regressions, at first and at best
COARSE = 0.03  # the same relative to the last change of Q
KEEP = 1e-10  # of the largest singular value: directions that Q does not use stay as they were


class Loss(Protocol):
    """A loss as the alternation sees it; data are divided by the root of their total variance.

    Attributes
    ----------
    gram : Gram
        S with the present weights, divided by its trace.
    trace : float
        That trace.
    descends : bool
        Whether no alternation can raise the objective.
    power : float
        λ in units of the data is λ here times (tr S)^power.
    unit : float
        Power of tr S by which the value of the loss is multiplied in the same way.
    """

    gram: Gram
    trace: float
    descends: bool
    power: float
    unit: float

    @property
    def scale(self) -> FloatArray | float:
        """Return φ."""

    def reweigh(self, Q: FloatArray, P: FloatArray, SQ: FloatArray) -> float:
        """Set the weights for Q and P, given S Q with the present ones; return the loss there."""

    def start(self, count: int) -> FloatArray:
        """Return the best P̄ with the present weights and no penalty."""


class FrobeniusLoss:
    """Squared norm of the residual; S never changes."""

    scale = trace = 1.0
    descends = True
    power = unit = 1.0

    def __init__(self, gram: Gram) -> None:
        self.gram = gram

    def reweigh(self, Q: FloatArray, P: FloatArray, SQ: FloatArray) -> float:
        """Return the loss."""
        return 1 + float(np.sum(Q * SQ)) - 2 * float(np.sum(P * SQ))

    def start(self, count: int) -> FloatArray:
        """Return the principal components."""
        return self.gram.leading(count)[1]


class SampleLoss:
    """Sum of the norms of the residuals of the samples; one pass over the data for new weights.

    Parameters
    ----------
    centred : ndarray of shape (n_samples, n_features)
        Centred data, in single or double precision.
    wide : bool
        Whether products go through the samples instead of a p × p matrix.
    shrink : float
        What the data are multiplied by, so that their sum of squares is 1; not in place.
    """

    scale = 1.0
    descends = True
    power = unit = 0.5

    def __init__(self, centred: NDArray[np.floating], *, wide: bool, shrink: float = 1.0) -> None:
        self.samples, self.wide, self.shrink = centred, wide, shrink
        self.smoothing = SMOOTHING / np.sqrt(centred.shape[0])
        self.squares = row_squares(centred)
        self._pass()

    def _pass(self, Q: FloatArray | None = None, P: FloatArray | None = None) -> FloatArray:
        """Set the weights of the residuals of Q and P; return their norms."""
        fit = LinearFit(Q, P, smoothing=self.smoothing / self.shrink)
        sums = ArraySamples(self.samples).weighted_pass(fit, scatter=not self.wide)
        norms = self.shrink * np.asarray(sums.norms)
        self.gram: Gram
        if sums.scatter is None:
            self.gram = SampleGram(self.samples, 0.5 / norms, self.squares)
        else:
            self.gram = Gram(0.5 / self.shrink * sums.scatter)
        self.trace = self.gram.trace * self.shrink**2
        return norms

    def reweigh(self, Q: FloatArray, P: FloatArray, SQ: FloatArray) -> float:
        """Set the weights for Q and P; return the loss there."""
        return float(np.sum(self._pass(Q, P)))

    def start(self, count: int) -> FloatArray:
        """Return the leading directions of the weighted samples."""
        return self.gram.leading(count)[1]


class FeatureLoss:
    """Sum of the norms of the residuals of the features; known through S alone."""

    trace = 1.0
    descends = False
    power, unit = 0.75, 0.5

    def __init__(self, gram: Gram) -> None:
        self.gram = gram
        self.squares = np.asarray(gram.diagonal)
        self.smoothing = SMOOTHING / np.sqrt(self.squares.size)
        self._set(np.sqrt(self.squares + self.smoothing**2))

    def _set(self, norms: FloatArray) -> None:
        self.scale = np.sqrt(0.5 / norms)[:, None]

    def reweigh(self, Q: FloatArray, P: FloatArray, SQ: FloatArray) -> float:
        """Set the weights for Q and P = P̄/φ; return the loss there."""
        recovery = P / self.scale
        norms = feature_residuals(self.squares, Q, recovery, SQ, self.smoothing)
        self._set(norms)
        return float(np.sum(norms))

    def start(self, count: int) -> FloatArray:
        """Return the leading directions of the features divided by the roots of their weights."""
        return self.gram.leading_scaled(self.scale[:, 0], count)


def feature_residuals(
    squares: FloatArray, Q: FloatArray, P: FloatArray, SQ: FloatArray, smoothing: float
) -> FloatArray:
    """Return the norm of every column of X - XQPᵀ, from the scatter matrix alone."""
    changed = np.sum(P * (P @ (Q.T @ SQ) - 2 * SQ), axis=1)
    return np.sqrt(np.maximum(squares + changed, 0) + smoothing**2)


def emptying_joint_penalty(loss: Loss, start: FloatArray) -> float:
    """Return the smallest λ for which Q = 0 is the best answer to the starting P."""
    return emptying_penalty(loss.gram.apply(loss.scale * start)) * loss.trace


def solve_joint(
    loss: Loss,
    start: FloatArray,
    penalty: float,
    *,
    tol: float,
    max_iter: int,
    warm: tuple[FloatArray, FloatArray] | None = None,
) -> Solution:
    """Alternate between Q, P and the weights until Q stands still.

    Parameters
    ----------
    loss : FrobeniusLoss, SampleLoss or FeatureLoss
        The loss, with the weights that belong to Q = 0.
    start : ndarray of shape (n_features, n_components)
        First P̄ (``loss.start``).
    penalty : float
        λ, for data with a sum of squares of 1.
    tol : float
        Relative change ‖Q - Q_old‖ / ‖Q‖ at which to stop.
    max_iter : int
        Limit on the number of alternations.
    warm : tuple of two ndarray of shape (n_features, n_components) or None
        Q and P (``loadings`` and ``state``) of a run with another penalty, to start from.

    Returns
    -------
    Solution
        ``loadings`` is Q, ``state`` is P; ``objective`` and ``history`` are those of the scaled
        data.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.gram import Gram
    >>> from jointsparse.solvers.joint_sparse import FrobeniusLoss, solve_joint
    >>> loss = FrobeniusLoss(Gram(np.diag([3.0, 2.0, 1.0])))
    >>> solution = solve_joint(loss, loss.start(2), 0.5, tol=1e-8, max_iter=100)
    >>> np.abs(solution.loadings).round(3)
    array([[0.5 , 0.  ],
           [0.  , 0.25],
           [0.  , 0.  ]])
    """
    P, Q, SQ = start.copy(), np.zeros_like(start), np.zeros_like(start)
    recovery, lowest = start, np.inf
    trace = Trace(tol, max_iter, "relative change of the loadings")
    accuracy, equal = FIRST, equal_features(loss.gram)
    gram = loss.gram  # that SQ belongs to
    if warm is not None and np.any(warm[0]):
        P, Q, SQ, recovery = _better_start(loss, P, warm, penalty, equal)
        gram = loss.gram
    for iteration in range(1, max_iter + 1):
        before = (Q, P, SQ)
        image = SQ if loss.gram is gram else None
        gram = loss.gram
        Q, SQ = _projection(loss, P, Q, penalty, accuracy, equal, image)
        P = _recovery(loss, SQ, P)
        recovery_before, recovery = recovery, P / loss.scale  # before the weights change
        value = loss.reweigh(Q, P, SQ) + penalty * float(np.sum(np.linalg.norm(Q, axis=1)))
        if loss.descends and value > lowest * (1 + 1e-14):
            # Only rounding can do that (near singular weights), so there is nothing left to gain.
            (Q, P, SQ), recovery, value = before, recovery_before, lowest
            loss.reweigh(Q, P, SQ)
            accuracy = FINE
        lowest = value
        size = float(np.linalg.norm(Q))
        change = float(np.linalg.norm(Q - before[0])) / size if size > 0 else 0.0
        # A Q that stands still says little where it is not accurate.
        if trace.record(iteration, value, measure=max(change, accuracy)):
            break
        accuracy = max(min(accuracy, COARSE * change), FINE)
    return trace.solution(Q, trace.history[-1], None, {}, recovery)


def _better_start(
    loss: Loss,
    start: FloatArray,
    before: tuple[FloatArray, FloatArray],
    penalty: float,
    equal: list[IntArray],
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return P̄, Q, S Q and P: of the first answer to ``start``, or of the run before.

    The run before is close where the penalty has changed little. But a strong penalty can leave so
    few features that P turns away from all others, and these would never enter again.
    """
    Q, SQ = _projection(loss, start, np.zeros_like(start), penalty, FIRST, equal)
    fresh = Q, _recovery(loss, SQ, start) / loss.scale
    values = []
    for Q, recovery in (fresh, before):
        value = loss.reweigh(Q, loss.scale * recovery, loss.gram.apply(Q))
        values.append(value + penalty * float(np.sum(np.linalg.norm(Q, axis=1))))
    Q, recovery = before
    if values[0] < values[1]:
        Q, recovery = fresh
        loss.reweigh(Q, loss.scale * recovery, loss.gram.apply(Q))
    # The weights of features move the constraint.
    P = np.asarray(polar(loss.scale * recovery))
    return P, Q, loss.gram.apply(Q), recovery


def _projection(
    loss: Loss,
    P: FloatArray,
    start: FloatArray,
    penalty: float,
    accuracy: float,
    equal: list[IntArray],
    image: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return Q and S Q; ``image`` is S times the start, where it is known."""
    wanted = loss.scale * P
    correlation = loss.gram.apply(wanted)
    if penalty == 0:
        # Of the many optima where S is singular this is one, and without weights it is PCA.
        return wanted, correlation
    fit = group_regression(
        loss.gram,
        correlation,
        target=float(np.sum(wanted * correlation)),
        penalty=penalty / loss.trace,
        tol=accuracy,
        start=start,
        image=image,
    )
    return share_equally(fit.coefficients, equal), fit.image


def _recovery(loss: Loss, SQ: FloatArray, before: FloatArray) -> FloatArray:
    image = loss.scale * SQ
    size = float(np.linalg.norm(image))
    return before if size == 0 else np.asarray(polar(image + KEEP * size * before))
