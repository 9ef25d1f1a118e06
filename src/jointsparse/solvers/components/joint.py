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

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.operators.dense import operator_of
from jointsparse.projections import polar
from jointsparse.solvers.products.gram import (
    EqualFeatures,
    Gram,
    SampleGram,
    equal_features,
)
from jointsparse.solvers.regression.group import (
    emptying_penalty,
    group_regression,
    optimality_violation,
    share_equally,
)
from jointsparse.solvers.samples.weighted_pass import ArraySamples, LinearFit
from jointsparse.solvers.solution import Solution, Trace

SMOOTHING = 1e-6  # of the typical norm of a residual: its weight stays finite
FIRST, FINE = 0.3, 1e-10  # accuracy of the regressions, at first and at best
COARSE = 0.03  # the same relative to how far Q and P are from optimal
SMALLEST = 1e-9  # of the λ that empties Q: smaller ones are lost in the rounding of the gradient
FLAT, CLOSER = 1e-14, 0.9  # of objective and violation: less is no progress …
IDLE = 25  # … and so many alternations without any end the run
RISE = 1e-13  # of the objective: more than rounding where weights are not nearly singular
ROUNDING = 1e-15  # relative error of a gradient, where nothing cancels
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
    def cancellation(self) -> float:
        """Return what relative rounding errors of S are multiplied by in the weights."""

    @property
    def scale(self) -> FloatArray | float:
        """Return φ."""

    def reweigh(self, Q: FloatArray, P: FloatArray, SQ: FloatArray) -> float:
        """Set the weights for Q and P, given S Q with the present ones; return the loss there."""

    def start(self, count: int) -> FloatArray:
        """Return the best P̄ with the present weights and no penalty."""


class FrobeniusLoss:
    """Squared norm of the residual; S never changes."""

    scale = trace = cancellation = 1.0
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

    scale = cancellation = 1.0
    descends = True
    power = unit = 0.5

    def __init__(self, centred: NDArray[np.floating], *, wide: bool, shrink: float = 1.0) -> None:
        self.samples, self.wide, self.shrink = centred, wide, shrink
        self.operator = operator_of(centred)  # whose products are kept for all weights
        self.smoothing = SMOOTHING / np.sqrt(centred.shape[0])
        self.squares = np.asarray(self.operator.row_squares())
        self._pass()

    def _pass(self, Q: FloatArray | None = None, P: FloatArray | None = None) -> FloatArray:
        """Set the weights of the residuals of Q and P; return their norms."""
        fit = LinearFit(Q, P, smoothing=self.smoothing / self.shrink)
        sums = ArraySamples(self.samples).weighted_pass(fit, scatter=not self.wide)
        norms = self.shrink * np.asarray(sums.norms)
        self.gram: Gram
        if sums.scatter is None:
            self.gram = SampleGram(self.operator, 0.5 / norms, self.squares)
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
        # A small residual is the difference of large squares.
        self.cancellation = max(1.0, float(np.max(self.squares / norms**2)))

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
) -> Solution[FloatArray]:
    """Alternate between Q, P and the weights until they are optimal for each other.

    Parameters
    ----------
    loss : FrobeniusLoss, SampleLoss or FeatureLoss
        The loss, with the weights that belong to Q = 0.
    start : ndarray of shape (n_features, n_components)
        First P̄ (``loss.start``).
    penalty : float
        λ, for data with a sum of squares of 1.
    tol : float
        Violation of the conditions of optimality at which to stop, see :func:`_violation`.
    max_iter : int
        Limit on the number of alternations.
    warm : tuple of two ndarray of shape (n_features, n_components) or None
        Q and P (``loadings`` and ``state``) of a run with another penalty, to start from.

    Returns
    -------
    Solution
        ``loadings`` is Q, ``state`` is P; ``objective`` and ``history`` are those of the scaled
        data, ``diagnostics["optimality"]`` is the violation at Q and P.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.operators.dense import operator_of
    from jointsparse.solvers.products.gram import Gram
    >>> from jointsparse.solvers.components.joint import FrobeniusLoss, solve_joint
    >>> loss = FrobeniusLoss(Gram(np.diag([3.0, 2.0, 1.0])))
    >>> solution = solve_joint(loss, loss.start(2), 0.5, tol=1e-8, max_iter=100)
    >>> np.abs(solution.loadings).round(3)
    array([[0.5 , 0.  ],
           [0.  , 0.25],
           [0.  , 0.  ]])
    """
    P, Q = start.copy(), np.zeros_like(start)
    trace = Trace(tol, max_iter, "violation of the conditions of optimality")
    accuracy, equal = FIRST, equal_features(loss.gram)
    if warm is not None and np.any(warm[0]):
        P, Q = _better_start(loss, P, warm, penalty, equal)
    image = loss.gram.apply(Q) if np.any(Q) else np.zeros_like(Q)
    point = _Point(Q, P, image, loss.gram.apply(loss.scale * P), P / loss.scale)
    progress = _Progress()
    for iteration in range(1, max_iter + 1):
        before, point = point, _alternated(loss, point, penalty, accuracy, equal)
        if loss.descends and point.value > before.value * (1 + RISE):
            # Only rounding can do that (near singular weights).
            progress.rises(accurate=accuracy == FINE)
            loss.reweigh(before.Q, before.P, before.image)
            point, accuracy = before, FINE
        elif loss.descends:
            progress.note(point)
        if trace.record(iteration, point.value, measure=point.violation) or (tol and progress.over):
            break
        if point is not before:
            # More accurate than the point is good: a Q that stands still says nothing by itself.
            accuracy = max(min(accuracy, COARSE * min(point.violation, point.moved)), FINE)
    diagnostics = {"optimality": point.violation, "optimality_bound": tol + point.rounding}
    solution = trace.solution(point.Q, point.value, None, diagnostics, point.recovery)
    if solution.converged or not progress.over:
        return solution
    return replace(solution, reason=f"rounding prevents more: {trace.lacking}")


@dataclass(frozen=True)
class _Point:
    """Q, P̄ and P; S Q and S(φ∘P̄) with the weights of Q and P; what is known of them."""

    Q: FloatArray
    P: FloatArray
    image: FloatArray
    correlation: FloatArray
    recovery: FloatArray
    value: float = np.inf
    violation: float = np.inf
    rounding: float = 0.0
    moved: float = 1.0  # ‖Q - Q_old‖ / ‖Q‖


class _Progress:
    """Whether an alternation that cannot raise the objective still gets anywhere."""

    def __init__(self) -> None:
        self.lowest, self.least, self.idle, self.over = np.inf, np.inf, 0, False

    def note(self, point: _Point) -> None:
        """Note an alternation; the run is over where many of them have led nowhere."""
        falls = point.value < self.lowest * (1 - FLAT) or point.violation < CLOSER * self.least
        self.idle = 0 if falls else self.idle + 1
        self.lowest = min(point.value, self.lowest)
        self.least = min(point.violation, self.least)
        self.over = self.idle >= IDLE

    def rises(self, *, accurate: bool) -> None:
        """Note that the objective has risen: the end, where the regression was accurate."""
        self.over = accurate


def _alternated(
    loss: Loss, point: _Point, penalty: float, accuracy: float, equal: list[EqualFeatures]
) -> _Point:
    """Return the next Q and P, and set the weights that belong to them."""
    Q, image = _projection(loss, point, penalty, accuracy, equal)
    P = _recovery(loss, image, point.P)
    recovery = P / loss.scale  # before the weights change
    gram = loss.gram
    value = loss.reweigh(Q, P, image) + penalty * float(np.sum(np.linalg.norm(Q, axis=1)))
    if loss.gram is not gram:
        image = loss.gram.apply(Q)
    correlation = loss.gram.apply(loss.scale * P)
    size = float(np.linalg.norm(Q))
    moved = float(np.linalg.norm(Q - point.Q)) / size if size > 0 else 1.0
    reached = _Point(Q, P, image, correlation, recovery, value, moved=moved)
    violation, rounding = _violation(loss, reached, penalty)
    return replace(reached, violation=violation, rounding=rounding)


def _violation(loss: Loss, point: _Point, penalty: float) -> tuple[float, float]:
    """Return by how much the conditions of optimality are missed, and the rounding of that number.

    For Q relative to λ, row by row (see :mod:`~jointsparse.solvers.regression.group`). For P̄ = φ∘P
    the gradient of tr(P̄ᵀM), M = φ∘(S Q), along matrices with orthonormal columns, relative to ‖M‖;
    and how far its columns are from orthonormal, since the weights of features move φ.
    """
    half = penalty / loss.trace / 2
    frame, pull = loss.scale * point.recovery, loss.scale * point.image
    correlation = point.correlation
    if not isinstance(loss.scale, float):
        correlation = loss.gram.apply(loss.scale * frame)  # P̄ itself belongs to the last φ
    largest = float(np.max(np.linalg.norm(correlation, axis=1)))
    unit = max(half, SMALLEST * largest) or 1.0
    missed = optimality_violation(point.Q, correlation - point.image, half) / unit
    rounding = ROUNDING * loss.cancellation * largest / unit
    if not np.any(pull):
        return (missed if penalty > 0 else 0.0), rounding
    inner = frame.T @ pull
    slope = pull - frame @ ((inner + inner.T) / 2)
    turned = float(np.linalg.norm(slope)) / float(np.linalg.norm(pull))
    skewed = float(np.linalg.norm(frame.T @ frame - np.eye(len(inner)))) / len(inner) ** 0.5
    return max(missed, turned, skewed), rounding


def _better_start(
    loss: Loss,
    start: FloatArray,
    before: tuple[FloatArray, FloatArray],
    penalty: float,
    equal: list[EqualFeatures],
) -> tuple[FloatArray, FloatArray]:
    """Return P̄ and Q: of the first answer to ``start``, or of the run before.

    The run before is close where the penalty has changed little. But a strong penalty can leave so
    few features that P turns away from all others, and these would never enter again.
    """
    nothing = np.zeros_like(start)
    correlation = loss.gram.apply(loss.scale * start)
    first = _Point(nothing, start, nothing, correlation, start / loss.scale)
    Q, SQ = _projection(loss, first, penalty, FIRST, equal)
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
    return np.asarray(polar(loss.scale * recovery)), Q


def _projection(
    loss: Loss, point: _Point, penalty: float, accuracy: float, equal: list[EqualFeatures]
) -> tuple[FloatArray, FloatArray]:
    """Return the best Q for P̄, and S Q."""
    wanted = loss.scale * point.P
    if penalty == 0:
        # Of the many optima where S is singular this is one, and without weights it is PCA.
        return wanted, point.correlation
    fit = group_regression(
        loss.gram,
        point.correlation,
        target=float(np.sum(wanted * point.correlation)),
        penalty=penalty / loss.trace,
        tol=accuracy,
        start=point.Q,
        image=point.image,
    )
    return share_equally(fit.coefficients, equal), fit.image


def _recovery(loss: Loss, SQ: FloatArray, before: FloatArray) -> FloatArray:
    image = loss.scale * SQ
    size = float(np.linalg.norm(image))
    return before if size == 0 else np.asarray(polar(image + KEEP * size * before))
