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
Frobenius norm :math:`\varphi = 1`, the constraint stays the same, and the objective never rises;
steps are extrapolated there (:mod:`~jointsparse.solvers.components.joint_steps`), and taken as they
are where that would raise it.
For features :math:`\varphi^2` are the weights themselves: the constraint :math:`P^\top
\operatorname{diag}(w)P = I` moves with them, and the objective may rise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from jointsparse.arrays import Array
from jointsparse.device import free_bytes, is_device_array, to_host
from jointsparse.linalg import (
    array_namespace,
    double,
    inner_product,
    length,
    positive_part,
    row_lengths,
)
from jointsparse.numerics.projections import polar
from jointsparse.operators.dense import operator_of
from jointsparse.solvers.components.joint_steps import Extrapolation
from jointsparse.solvers.products.equal_features import EqualFeatures, equal_features
from jointsparse.solvers.products.gram import Gram, SampleGram
from jointsparse.solvers.regression.group import (
    emptying_penalty,
    group_regression,
    optimality_violation,
    share_equally,
)
from jointsparse.solvers.samples.weighted_pass import LinearFit, RowPasses
from jointsparse.solvers.solution import Solution, Trace

SMOOTHING = 1e-6  # of the typical norm of a residual: its weight stays finite
FIRST, FINE = 0.3, 1e-10  # accuracy of the regressions, at first and at best
COARSE = 0.03  # the same relative to how far Q and P are from optimal
SMALLEST = 1e-9  # of the λ that empties Q: smaller ones are lost in the rounding of the gradient
FLAT, CLOSER = 1e-14, 0.9  # of objective and violation: less is no progress …
IDLE = 25  # … and so many alternations without any end the run
IN_TURN = 250  # the same where the objective may rise, and only the violation tells
FEW_DIGITS = 0.01  # of the square of a sample: below, that of its residual is not a difference
RESIDUAL_ENTRIES = 2**22  # of residuals in memory at a time: 32 MB
ROOM = 4  # times a copy in double precision must be free on a device for one to be made
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
    def scale(self) -> Array | float:
        """Return φ."""

    def reweigh(self, Q: Array, P: Array, SQ: Array) -> float:
        """Set the weights for Q and P, given S Q with the present ones; return the loss there."""

    def start(self, count: int) -> Array:
        """Return the best P̄ with the present weights and no penalty."""


class FrobeniusLoss:
    """Squared norm of the residual; S never changes."""

    scale = trace = cancellation = 1.0
    descends = True
    power = unit = 1.0

    def __init__(self, gram: Gram) -> None:
        self.gram = gram

    def reweigh(self, Q: Array, P: Array, SQ: Array) -> float:
        """Return the loss."""
        return 1 + inner_product(Q, SQ) - 2 * inner_product(P, SQ)

    def start(self, count: int) -> Array:
        """Return the principal components."""
        return self.gram.leading(count)[1]


class SampleLoss:
    """Sum of the norms of the residuals of the samples; one pass over the data for new weights.

    Parameters
    ----------
    centred : array of shape (n_samples, n_features)
        Centred data, in single or double precision, on the host or on a device.
    wide : bool
        Whether products go through the samples instead of a p × p matrix.
    shrink : float
        What the data are multiplied by, so that their sum of squares is 1; not in place.
    """

    scale = cancellation = 1.0
    descends = True
    power = unit = 0.5

    def __init__(self, centred: Array, *, wide: bool, shrink: float = 1.0) -> None:
        self.samples, self.wide, self.shrink = centred, wide, shrink
        self.smoothing = SMOOTHING / float(np.sqrt(centred.shape[0]))
        there = is_device_array(centred)
        if there and wide and free_bytes(centred) > ROOM * 8 * centred.shape[0] * centred.shape[1]:
            self.samples = centred = double(centred)  # every alternation would convert them again
        self.operator = operator_of(centred)  # whose products are kept for all weights
        self.squares = self.operator.row_squares()
        self._pass()

    def _pass(self, Q: Array | None = None, P: Array | None = None) -> Array:
        """Set the weights of the residuals of Q and P; return their norms."""
        images: tuple[tuple[Array, Array], ...] = ()
        self.gram: Gram
        self._known: SampleGram
        if self.wide:
            left = self.squares
            if Q is not None and P is not None:
                image = self._known.plain_image
                images = ((Q, image(Q)), (P, image(P)))
                left = self._left(images)
            norms = (left * self.shrink**2 + self.smoothing**2) ** 0.5
            self.gram = self._known = SampleGram(self.operator, 0.5 / norms, self.squares)
            self._known.known_images = images
        else:
            fit = LinearFit(Q, P, smoothing=self.smoothing / self.shrink)
            sums = RowPasses(self.operator).weighted_pass(fit)
            norms = self.shrink * sums.norms
            scatter: Array = sums.scatter
            self.gram = Gram(0.5 / self.shrink * scatter)
        self.trace = self.gram.trace * self.shrink**2
        return norms

    def _left(self, images: tuple[tuple[Array, Array], ...]) -> Array:
        """Return the squared residuals ‖x - PQᵀx‖², given Q with XQ and P with XP.

        With y = Qᵀx and z = Pᵀx they are ‖x‖² - 2yᵀz + yᵀPᵀPy: no array of the size of X is made.
        Where that is a small difference, from the residuals themselves.
        """
        (_, y), (P, z) = images
        xp = array_namespace(y)
        left = self.squares + xp.sum(y * (y @ (P.T @ P) - 2 * z), axis=1)
        small = xp.nonzero(left < FEW_DIGITS * self.squares)[0]
        step = max(1, RESIDUAL_ENTRIES // self.samples.shape[1])
        for first in range(0, small.shape[0], step):
            rows = small[first : first + step]
            residuals = double(self.samples[rows, :]) - y[rows] @ P.T
            left[rows] = xp.sum(residuals**2, axis=1)
        return left

    def reweigh(self, Q: Array, P: Array, SQ: Array) -> float:
        """Set the weights for Q and P; return the loss there."""
        return float(self._pass(Q, P).sum())

    def start(self, count: int) -> Array:
        """Return the leading directions of the weighted samples."""
        return self.gram.leading(count)[1]


class FeatureLoss:
    """Sum of the norms of the residuals of the features; known through S alone."""

    trace = 1.0
    descends = False
    power, unit = 0.75, 0.5

    def __init__(self, gram: Gram) -> None:
        self.gram = gram
        self.squares = gram.here(np.asarray(gram.diagonal))
        self.smoothing = SMOOTHING / float(np.sqrt(self.squares.shape[0]))
        self._set((self.squares + self.smoothing**2) ** 0.5)

    def _set(self, norms: Array) -> None:
        self.scale = ((0.5 / norms) ** 0.5)[:, None]
        # A small residual is the difference of large squares.
        self.cancellation = max(1.0, float((self.squares / norms**2).max()))

    def reweigh(self, Q: Array, P: Array, SQ: Array) -> float:
        """Set the weights for Q and P = P̄/φ; return the loss there."""
        recovery = P / self.scale
        norms = feature_residuals(self.squares, Q, recovery, SQ, self.smoothing)
        self._set(norms)
        return float(norms.sum())

    def start(self, count: int) -> Array:
        """Return the leading directions of the features divided by the roots of their weights."""
        return self.gram.leading_scaled(self.scale[:, 0], count)


def feature_residuals(squares: Array, Q: Array, P: Array, SQ: Array, smoothing: float) -> Array:
    """Return the norm of every column of X - XQPᵀ, from the scatter matrix alone."""
    changed = (P * (P @ (Q.T @ SQ) - 2 * SQ)).sum(axis=1)
    return (positive_part(squares + changed) + smoothing**2) ** 0.5


def emptying_joint_penalty(loss: Loss, start: Array) -> float:
    """Return the smallest λ for which Q = 0 is the best answer to the starting P."""
    return emptying_penalty(loss.gram.apply(loss.scale * loss.gram.here(start))) * loss.trace


def solve_joint(
    loss: Loss,
    start: Array,
    penalty: float,
    *,
    tol: float,
    max_iter: int,
    warm: tuple[Array, Array] | None = None,
) -> Solution[Array]:
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
    >>> from jointsparse.solvers.products.gram import Gram
    >>> from jointsparse.solvers.components.joint import FrobeniusLoss, solve_joint
    >>> loss = FrobeniusLoss(Gram(np.diag([3.0, 2.0, 1.0])))
    >>> solution = solve_joint(loss, loss.start(2), 0.5, tol=1e-8, max_iter=100)
    >>> np.abs(solution.loadings).round(3)
    array([[0.5 , 0.  ],
           [0.  , 0.25],
           [0.  , 0.  ]])
    """
    P = loss.gram.here(start)
    Q = array_namespace(P).zeros_like(P)
    trace = Trace(tol, max_iter, "violation of the conditions of optimality")
    accuracy, equal = FIRST, equal_features(loss.gram)
    if warm is not None and np.any(warm[0]):
        before = loss.gram.here(warm[0]), loss.gram.here(warm[1])
        P, Q = _better_start(loss, P, before, penalty, equal)
    image = array_namespace(P).zeros_like(P) if warm is None else loss.gram.apply(Q)
    point = _Point(Q, P, image, loss.gram.apply(loss.scale * P), P / loss.scale)
    progress = _Progress(descends=loss.descends)
    faster = Extrapolation() if loss.descends else None
    for iteration in range(1, max_iter + 1):
        earlier, point = point, _alternated(loss, point, penalty, accuracy, equal, faster)
        if loss.descends and point.value > earlier.value * (1 + RISE):
            # Only rounding can do that (near singular weights).
            progress.rises(accurate=accuracy == FINE)
            loss.reweigh(earlier.Q, earlier.P, earlier.image)
            point, accuracy = earlier, FINE
        else:
            progress.note(point)
        if progress.over and faster is not None:
            # What rounding makes of larger steps says nothing about small ones.
            faster, progress = None, _Progress(descends=loss.descends)
        if trace.record(iteration, point.value, measure=point.violation) or (tol and progress.over):
            break
        if point is not earlier:
            # More accurate than the point is good: a Q that stands still says nothing by itself.
            accuracy = max(min(accuracy, COARSE * min(point.violation, point.moved)), FINE)
    diagnostics = {"optimality": point.violation, "optimality_bound": tol + point.rounding}
    solution = trace.solution(point.Q, point.value, None, diagnostics, point.recovery)
    if solution.converged or not progress.over:
        return solution
    why = "rounding prevents more" if loss.descends else "weights that go in turn lead no further"
    return replace(solution, reason=f"{why}: {trace.lacking}")


@dataclass(frozen=True)
class _Point:
    """Q, P̄ and P; S Q and S(φ∘P̄) with the weights of Q and P; what is known of them."""

    Q: Array
    P: Array
    image: Array
    correlation: Array
    recovery: Array
    value: float = np.inf
    violation: float = np.inf
    rounding: float = 0.0
    moved: float = 1.0  # ‖Q - Q_old‖ / ‖Q‖


class _Progress:
    """Whether an alternation still gets anywhere.

    Parameters
    ----------
    descends : bool
        Whether none can raise the objective; else it says nothing.
    """

    def __init__(self, *, descends: bool) -> None:
        self.descends, self.most = descends, IDLE if descends else IN_TURN
        self.lowest, self.least, self.idle, self.over = np.inf, np.inf, 0, False

    def note(self, point: _Point) -> None:
        """Note an alternation; the run is over where many of them have led nowhere."""
        lower = self.descends and point.value < self.lowest * (1 - FLAT)
        closer = point.violation < CLOSER * self.least
        self.idle = 0 if lower or closer else self.idle + 1
        self.lowest = min(point.value, self.lowest)
        # Of small steps in a row each would be too little, and all of them enough.
        self.least = point.violation if closer else self.least
        self.over = self.idle >= self.most

    def rises(self, *, accurate: bool) -> None:
        """Note that the objective has risen: the end, where the regression was accurate."""
        self.over = accurate


def _alternated(
    loss: Loss,
    point: _Point,
    penalty: float,
    accuracy: float,
    equal: list[EqualFeatures],
    faster: Extrapolation | None = None,
) -> _Point:
    """Return the next Q and P, and set the weights that belong to them."""
    Q, image = _projection(loss, point, penalty, accuracy, equal)
    P = _recovery(loss, image, point.P)
    further = None if faster is None else faster.step((point.Q, point.P), (Q, P))
    if faster is not None and further is not None:
        reached = _reached(loss, point, *further, loss.gram.apply(further[0]), penalty)
        if reached.value <= point.value * (1 + RISE):
            return reached
        faster.reset()
    return _reached(loss, point, Q, P, image, penalty)


def _reached(loss: Loss, point: _Point, Q: Array, P: Array, image: Array, penalty: float) -> _Point:
    """Return what is known of Q and P, given S Q, and set the weights that belong to them."""
    recovery = P / loss.scale  # before the weights change
    gram = loss.gram
    value = loss.reweigh(Q, P, image) + penalty * float(row_lengths(Q).sum())
    wanted = _scaled(loss, P)
    if loss.gram is gram:
        correlation = gram.apply(wanted)
    else:
        image, correlation = loss.gram.apply_both(Q, wanted)
    size = length(Q)
    moved = length(Q - point.Q) / size if size > 0 else 1.0
    reached = _Point(Q, P, image, correlation, recovery, value, moved=moved)
    violation, rounding = _violation(loss, reached, penalty)
    return replace(reached, violation=violation, rounding=rounding)


def _scaled(loss: Loss, P: Array) -> Array:
    """Return φ∘P; P itself where φ = 1, so that a loss may know it again."""
    return P if isinstance(loss.scale, float) else loss.scale * P


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
    largest = float(row_lengths(correlation).max())
    unit = max(half, SMALLEST * largest) or 1.0
    missed = optimality_violation(point.Q, correlation - point.image, half) / unit
    rounding = ROUNDING * loss.cancellation * largest / unit
    size = length(pull)
    if size == 0:
        return (missed if penalty > 0 else 0.0), rounding
    inner = frame.T @ pull
    turned = length(pull - frame @ ((inner + inner.T) / 2)) / size
    crossed = to_host(frame.T @ frame)
    skewed = length(crossed - np.eye(len(crossed))) / len(crossed) ** 0.5
    return max(missed, turned, skewed), rounding


def _better_start(
    loss: Loss,
    start: Array,
    before: tuple[Array, Array],
    penalty: float,
    equal: list[EqualFeatures],
) -> tuple[Array, Array]:
    """Return P̄ and Q: of the first answer to ``start``, or of the run before.

    The run before is close where the penalty has changed little. But a strong penalty can leave so
    few features that P turns away from all others, and these would never enter again.
    """
    nothing = array_namespace(start).zeros_like(start)
    correlation = loss.gram.apply(loss.scale * start)
    first = _Point(nothing, start, nothing, correlation, start / loss.scale)
    Q, SQ = _projection(loss, first, penalty, FIRST, equal)
    fresh = Q, _recovery(loss, SQ, start) / loss.scale
    values = []
    for Q, recovery in (fresh, before):
        value = loss.reweigh(Q, loss.scale * recovery, loss.gram.apply(Q))
        values.append(value + penalty * float(row_lengths(Q).sum()))
    Q, recovery = before
    if values[0] < values[1]:
        Q, recovery = fresh
        loss.reweigh(Q, loss.scale * recovery, loss.gram.apply(Q))
    # The weights of features move the constraint.
    return polar(loss.scale * recovery), Q


def _projection(
    loss: Loss, point: _Point, penalty: float, accuracy: float, equal: list[EqualFeatures]
) -> tuple[Array, Array]:
    """Return the best Q for P̄, and S Q."""
    wanted = loss.scale * point.P
    if penalty == 0:
        # Of the many optima where S is singular this is one, and without weights it is PCA.
        return wanted, point.correlation
    fit = group_regression(
        loss.gram,
        point.correlation,
        target=inner_product(wanted, point.correlation),
        penalty=penalty / loss.trace,
        tol=accuracy,
        start=point.Q,
        image=point.image,
    )
    return share_equally(fit.coefficients, equal), fit.image


def _recovery(loss: Loss, SQ: Array, before: Array) -> Array:
    image = loss.scale * SQ
    size = length(image)
    return before if size == 0 else polar(image + KEEP * size * before)
