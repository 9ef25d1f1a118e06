r"""Row-sparse least squares, the inner problem of JSPCA and of FSSL.

.. math:: \min_{A\in\mathbb R^{p\times k}}\ \|Y - XA\|_F^2 + \lambda\sum_i\|a_i\|_2 ,
          \qquad a_i \text{ the rows of } A ,

known through S = XᵀX, C = XᵀY and ‖Y‖². Rows are zero together: the features they belong to are not
used. A matrix A is optimal exactly when, with R = C - S A,

.. math:: \|r_i\| \le \lambda/2 \ \text{ where } a_i = 0 ,\qquad
          r_i = \tfrac{\lambda}{2}\,\frac{a_i}{\|a_i\|} \ \text{ elsewhere.}

A working set of features grows until no other wants to enter. On it, steps of block soft
thresholding find the rows that are zero, and Newton steps solve for the others: the former give
exact zeros, the latter accuracy. All steps treat equal features alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.products.gram import EqualFeatures, Gram
from jointsparse.solvers.regression.group_curvature import Curvature, curvature_of

MAX_NEWTON = 200  # steps on one working set; ten are usual
MOST_EXHAUSTED = 5  # working sets that took all of them: S is too ill-conditioned for more
DAMPING = 1e-6  # of the curvature along rows: where equal features make it vanish, rounding rules
ENOUGH = 0.5  # of the decrease that a Newton step promises
LENGTHS = (
    0.3,
    0.1,
    0.03,
    0.01,
)  # of Newton steps where the whole one does not help, until one does
ENTERING = 5  # at most a fifth of those used: of far more, most would have to leave again
ACCURATE = 0.6  # of what the first to enter lacks: so far the others go meanwhile
TIE = 1e-9  # relative: features that differ by less enter together


@dataclass(frozen=True)
class GroupRegression:
    """A solution of the regression.

    Attributes
    ----------
    coefficients : ndarray of shape (n_features, n_targets)
        A, with exact zero rows.
    n_steps : int
        Newton steps made.
    correlation, residual : ndarray of shape (n_features, n_targets)
        C, and C - S A.
    target, half : float
        ‖Y‖² and λ/2.
    """

    coefficients: FloatArray
    n_steps: int
    correlation: FloatArray
    residual: FloatArray
    target: float
    half: float

    @property
    def image(self) -> FloatArray:
        """S A."""
        return self.correlation - self.residual

    @property
    def objective(self) -> float:
        """Objective of A."""
        return self._certificate[0]

    @property
    def gap(self) -> float:
        """Proven upper bound on (objective - optimum) / objective."""
        return self._certificate[1]

    @cached_property
    def _certificate(self) -> tuple[float, float]:
        return _certified(
            self.coefficients, self.correlation, self.residual, self.target, self.half
        )


def group_regression(
    gram: Gram,
    correlation: FloatArray,
    *,
    target: float,
    penalty: float,
    tol: float = 1e-10,
    start: FloatArray | None = None,
    image: FloatArray | None = None,
) -> GroupRegression:
    """Minimise ‖Y - XA‖² + penalty Σ‖a_i‖ over A.

    Parameters
    ----------
    gram : Gram
        Scatter matrix S (divided by its trace; everything else is in that unit).
    correlation : ndarray of shape (n_features, n_targets)
        C = XᵀY.
    target : float
        ‖Y‖².
    penalty : float
        λ > 0.
    tol : float
        How far the conditions of optimality may be missed, relative to λ/2.
    start : ndarray of shape (n_features, n_targets) or None
        Where to start; None starts from zero.
    image : ndarray of shape (n_features, n_targets) or None
        S times the start, where it is known.

    Returns
    -------
    GroupRegression
        The solution and its certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.products.gram import Gram
    >>> from jointsparse.solvers.regression.group import group_regression
    >>> gram = Gram(np.diag([0.5, 0.3, 0.2]))
    >>> C = np.array([[0.3, 0.4], [0.0, 0.3], [0.03, 0.04]])
    >>> fit = group_regression(gram, C, target=1.0, penalty=0.2)
    >>> fit.coefficients.round(3) + 0.0
    array([[0.48 , 0.64 ],
           [0.   , 0.667],
           [0.   , 0.   ]])
    >>> fit.gap < 1e-9
    True
    """
    half = penalty / 2
    solution = np.zeros_like(correlation) if start is None else start.copy()
    if image is None:
        image = gram.apply(solution) if np.any(solution) else np.zeros_like(solution)
    residual = correlation - image
    n_steps, exhausted, best = 0, 0, np.inf
    for _ in range(correlation.shape[0] + 1):
        used = solution.any(axis=1)
        excess = np.where(used, 0.0, _lengths(residual) - half)
        entering = _largest(excess, tol * half, max(10, int(used.sum()) // ENTERING))
        if entering.size == 0 and _violation(solution[used], residual[used], half) <= tol * half:
            break
        working = np.union1d(np.flatnonzero(used), entering)
        # Not more accurate than it pays while features are still entering.
        slack = max(tol * half, ACCURATE * float(np.max(excess)))
        solution[working], steps = _solve_block(
            curvature_of(gram, working), correlation[working], half, solution[working], slack
        )
        n_steps += steps
        residual = correlation - gram.apply(solution)
        value = _value(solution, correlation, residual, half)
        exhausted += steps == MAX_NEWTON
        if not _falls(value, best) or exhausted == MOST_EXHAUSTED:
            break  # what is missing is rounding
        best = value
    return GroupRegression(solution, n_steps, correlation, residual, target, half)


def optimality_violation(coefficients: FloatArray, residual: FloatArray, half: float) -> float:
    """Return the largest violation of the conditions of optimality; ``residual`` is C - S A."""
    used = _used(coefficients)
    outside = float(np.max(_lengths(residual[~used]), initial=0.0)) - half
    return max(_violation(coefficients[used], residual[used], half), outside, 0.0)


def emptying_penalty(correlation: FloatArray) -> float:
    """Return the smallest λ for which A = 0 is optimal: 2 maxᵢ ‖cᵢ‖."""
    return 2 * float(np.max(_lengths(correlation)))


def share_equally(coefficients: FloatArray, groups: list[EqualFeatures]) -> FloatArray:
    """Give equal features equal rows, and opposite ones opposite rows: the mean, never worse.

    Any division of their sum in the same direction is as good, so rounding would choose one.
    """
    for features, signs in groups:
        mean = (signs @ coefficients[features]) / signs.size
        coefficients[features] = np.outer(signs, mean)
    return coefficients


def _certified(
    solution: FloatArray, correlation: FloatArray, residual: FloatArray, target: float, half: float
) -> tuple[float, float]:
    """Return the objective and the relative duality gap.

    The dual problem is max ‖Y‖² - ‖Y - Θ‖² over ‖Xᵀᵢ Θ‖ ≤ λ/2; Y - XA, shortened until it is
    feasible, comes close. Its best length is known in closed form.
    """
    inner = float(np.sum(solution * residual))  # ⟨XA, Y - XA⟩
    missed = target - float(np.sum(solution * correlation)) - inner  # ‖Y - XA‖²
    size = float(np.sum(_lengths(solution)))
    steepest = float(np.max(_lengths(residual)))
    return certified(missed, inner, half=half, size=size, steepest=steepest)


def certified(
    missed: float, inner: float, *, half: float, size: float, steepest: float
) -> tuple[float, float]:
    """Return the objective and the relative duality gap, for any norm.

    Parameters
    ----------
    missed, inner : float
        ‖Y - XA‖² and ⟨XA, Y - XA⟩.
    half : float
        λ/2.
    size, steepest : float
        The norm of A, and the dual norm of Xᵀ(Y - XA).
    """
    objective = missed + 2 * half * size
    longest = half / steepest if steepest > 0 else np.inf
    best = (missed + inner) / missed if missed > 0 else 1.0
    length = min(longest, best)
    dual = length * (2 * (missed + inner) - length * missed)
    return objective, max(objective - dual, 0.0) / objective if objective > 0 else 0.0


def _largest(excess: FloatArray, slack: float, most: int) -> IntArray:
    """Return the features that want to enter; the strongest where they are many, ties together."""
    entering = np.flatnonzero(excess > slack)
    if entering.size <= most:
        return entering
    # Few enter at a time: one that enters explains others, which then need not.
    bar = np.partition(excess[entering], entering.size - most)[entering.size - most]
    return entering[excess[entering] >= bar * (1 - TIE)]


def _violation(rows: FloatArray, residual: FloatArray, half: float) -> float:
    """Return the largest violation of the conditions of optimality in rows that are not zero."""
    if rows.shape[0] == 0:
        return 0.0
    norms = _lengths(rows)[:, None]
    return float(np.max(_lengths(residual - half * rows / norms)))


def _value(A: FloatArray, C: FloatArray, residual: FloatArray, half: float) -> float:
    """Return the objective without ‖Y‖²."""
    return 2 * half * float(np.sum(_lengths(A))) - float(np.vdot(A, C + residual))


def _falls(value: float, best: float) -> bool:
    """Whether the objective is lower than before, by more than rounding."""
    return value < best - 1e-15 * abs(value)


def _solve_block(
    S: Curvature, C: FloatArray, half: float, A: FloatArray, slack: float
) -> tuple[FloatArray, int]:
    """Solve for the features of a working set; return also the number of steps."""
    lipschitz = S.bound
    A, residual = A.copy(), C - S.times(A)
    best = np.inf
    for step in range(1, MAX_NEWTON + 1):  # noqa: B007 - returned
        A = _without_weak(S, C, half, _shrink_rows(A + residual / lipschitz, half / lipschitz))
        used = _used(A)
        if np.any(used):
            inner = S if np.all(used) else S.only(used)
            A[used] = _newton(inner, C[used], half, A[used])
        residual = C - S.times(A)
        used = _used(A)
        outside = _lengths(residual[~used])
        value = _value(A, C, residual, half)
        solved = _violation(A[used], residual[used], half) <= slack
        if (solved and not np.any(outside > half + slack)) or not _falls(value, best):
            break
        best = value
    return A, step


def _shrink_rows(A: FloatArray, threshold: float) -> FloatArray:
    norms = _lengths(A)
    return A * np.maximum(1 - threshold / np.where(norms > 0, norms, 1.0), 0.0)[:, None]


def _without_weak(S: Curvature, C: FloatArray, half: float, A: FloatArray) -> FloatArray:
    """Set rows to zero that each would be, were it the only one to change; if that helps."""
    alone = C - S.times(A) + S.diagonal[:, None] * A
    weak = (_lengths(alone) <= half) & A.any(axis=1)
    if not weak.any():
        return A
    fewer = np.where(weak[:, None], 0.0, A)
    return fewer if _block_value(S, C, half, fewer) < _block_value(S, C, half, A) else A


def _newton(S: Curvature, C: FloatArray, half: float, A: FloatArray) -> FloatArray:
    """Make one step over rows that are not zero: Newton's, or a safe one where that is better.

    With uᵢ = aᵢ/‖aᵢ‖ and hᵢ = λ/(2‖aᵢ‖) the Hessian is M = S + diag(h), the same for all columns,
    less hᵢuᵢuᵢᵀ for each row i. By the matrix inversion lemma two systems of the size of M solve
    it, whatever the number of columns: M itself, and K = diag(1/h) - M⁻¹ ∘ UUᵀ. The safe step is
    M⁻¹C, the minimum of a quadratic function above the objective.
    """
    norms = _lengths(A)
    units, heights = A / norms[:, None], half / norms
    inverse = S.shifted_inverse(heights)
    SA = S.times(A)
    gradient = SA + heights[:, None] * A - C
    # M⁻¹ times the gradient; not A - M⁻¹C, where the jitter would remain.
    plain = inverse.times(gradient)
    K = inverse.bent(units)
    K.flat[:: len(K) + 1] += DAMPING / heights
    _, weights, failed = dposv(K, np.vecdot(units, plain), overwrite_a=True)
    if failed:
        return inverse.times(C)
    direction = -plain - inverse.times(units * weights[:, None])
    ahead = _stopped_at_zero(A + direction, A)
    value = _block_value(S, C, half, ahead)
    now = float(np.vdot(A, SA - 2 * C)) + 2 * half * float(norms.sum())
    if value < now + ENOUGH * float(np.vdot(gradient, direction)):
        return ahead
    safe = inverse.times(C)
    lowest = _block_value(S, C, half, safe)
    lowest += 1e-14 * abs(lowest)  # near the optimum only Newton's step tells them apart
    for length in LENGTHS:
        if value < lowest:
            return ahead
        ahead = _stopped_at_zero(A + length * direction, A)
        value = _block_value(S, C, half, ahead)
    return ahead if value < lowest else _stretched(S, C, half, A, safe)


def _stretched(
    S: Curvature, C: FloatArray, half: float, A: FloatArray, safe: FloatArray
) -> FloatArray:
    """Go twice as far as the safe step, which is a short one, as long as that helps."""
    best, lowest, length = safe, _block_value(S, C, half, safe), 2.0
    while True:
        ahead = _stopped_at_zero(A + length * (safe - A), A)
        value = _block_value(S, C, half, ahead)
        if not _falls(value, lowest):
            return best
        best, lowest, length = ahead, value, 2 * length


def _stopped_at_zero(ahead: FloatArray, A: FloatArray) -> FloatArray:
    """Set rows to zero that have turned round.

    A row that shrinks is linear in its length, so its Newton step leads beyond zero: there it
    stops. Many rows can leave in one step that way.
    """
    ahead[np.vecdot(ahead, A) <= 0] = 0.0
    return ahead


def _block_value(S: Curvature, C: FloatArray, half: float, A: FloatArray) -> float:
    return S.energy(A) - 2 * float(np.vdot(A, C)) + 2 * half * float(_lengths(A).sum())


def _used(A: FloatArray) -> NDArray[np.bool_]:
    """Return which rows are not zero."""
    return np.asarray(A.any(axis=1))


def _lengths(A: FloatArray) -> FloatArray:
    """Return the norm of every row; several times faster than the general one."""
    return np.sqrt(np.vecdot(A, A))
