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

from jointsparse.projections import polar
from jointsparse.solvers.gram import FloatArray, Gram, IntArray, SampleGram, equal_features
from jointsparse.solvers.group_regression import (
    emptying_penalty,
    group_regression,
    share_equally,
)
from jointsparse.solvers.solution import Solution, Trace
from jointsparse.solvers.source_samples import SourceSamples
from jointsparse.solvers.weighted_pass import ArraySamples, LinearFit, Samples

SMOOTHING = 1e-6  # of the typical norm of a residual: its weight stays finite
COARSE, FINE = 0.03, 1e-10  # accuracy of the regressions: of the change of Q, and at best
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
        return self.gram.leading(count)[1][:, :count].copy()


class SampleLoss:
    """Sum of the norms of the residuals of the samples; one pass over the data for new weights.

    Parameters
    ----------
    centred : ndarray of shape (n_samples, n_features) or SourceSamples
        Centred data with a sum of squares of 1, or what passes over them.
    wide : bool
        Whether products go through the samples, an array, instead of a p × p matrix.
    """

    scale = 1.0
    descends = True
    power = unit = 0.5

    def __init__(self, centred: FloatArray | SourceSamples, *, wide: bool) -> None:
        self.centred, self.wide = centred, wide
        self.samples: Samples
        if isinstance(centred, SourceSamples):
            self.samples, n_samples = centred, centred.n_samples
        else:
            self.samples, n_samples = ArraySamples(centred), centred.shape[0]
        self.smoothing = SMOOTHING / np.sqrt(n_samples)
        self._pass(LinearFit(smoothing=self.smoothing))

    def _pass(self, fit: LinearFit) -> FloatArray:
        """Set the weights of these residuals; return their norms."""
        sums = self.samples.weighted_pass(fit, scatter=not self.wide)
        self.gram: Gram
        if sums.scatter is None:
            assert isinstance(self.centred, np.ndarray)
            self.gram = SampleGram(self.centred, 0.5 / sums.norms)
        else:
            self.gram = Gram(0.5 * sums.scatter)
        self.trace = self.gram.trace
        return np.asarray(sums.norms)

    def reweigh(self, Q: FloatArray, P: FloatArray, SQ: FloatArray) -> float:
        """Set the weights for Q and P; return the loss there."""
        return float(np.sum(self._pass(LinearFit(Q, P, smoothing=self.smoothing))))

    def start(self, count: int) -> FloatArray:
        """Return the leading directions of the weighted samples."""
        return self.gram.leading(count)[1][:, :count].copy()


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
        return self.gram.scaled(self.scale[:, 0]).leading(count)[1][:, :count].copy()


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
    loss: Loss, start: FloatArray, penalty: float, *, tol: float, max_iter: int
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
    accuracy, equal = COARSE, equal_features(loss.gram)
    for iteration in range(1, max_iter + 1):
        before = (Q, P, SQ)
        Q, SQ = _projection(loss, P, Q, penalty, accuracy, equal)
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


def _projection(
    loss: Loss,
    P: FloatArray,
    start: FloatArray,
    penalty: float,
    accuracy: float,
    equal: list[IntArray],
) -> tuple[FloatArray, FloatArray]:
    """Return Q and S Q."""
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
    )
    return share_equally(fit.coefficients, equal), fit.image


def _recovery(loss: Loss, SQ: FloatArray, before: FloatArray) -> FloatArray:
    image = loss.scale * SQ
    size = float(np.linalg.norm(image))
    return before if size == 0 else np.asarray(polar(image + KEEP * size * before))
