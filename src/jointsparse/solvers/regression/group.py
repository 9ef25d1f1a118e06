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

from jointsparse.arrays import Array
from jointsparse.device import is_device_array, like, to_host
from jointsparse.linalg import (
    add_to_diagonal,
    array_namespace,
    inner_product,
    row_lengths,
    rows_in_use,
    solved_by_cholesky,
)
from jointsparse.solvers.products.equal_features import EqualFeatures
from jointsparse.solvers.products.gram import Gram
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
# On a device, whose launches take longer than the host takes for these: what is looked at in turn …
FEW_ENTRIES = 2**14  # … of all features: entries of A up to which A is on the host meanwhile
FEW_FEATURES = 128  # … of a working set: features up to which it is solved there


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

    coefficients: Array
    n_steps: int
    correlation: Array
    residual: Array
    target: float
    half: float

    @property
    def image(self) -> Array:
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
    correlation: Array,
    *,
    target: float,
    penalty: float,
    tol: float = 1e-10,
    start: Array | None = None,
    image: Array | None = None,
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
    here = to_host if correlation.shape[0] * correlation.shape[1] <= FEW_ENTRIES else gram.here
    given, correlation = correlation, here(correlation)
    xp = array_namespace(correlation)
    empty = start is None
    solution = xp.zeros_like(correlation) if empty else xp.asarray(here(start), copy=True)
    if image is None:
        image = xp.zeros_like(solution) if empty else gram.apply(solution)
    residual = correlation - here(image)
    n_steps, exhausted, best = 0, 0, np.inf
    for _ in range(correlation.shape[0] + 1):
        used = rows_in_use(solution)
        excess = xp.where(used, 0.0, row_lengths(residual) - half)
        most = max(10, int(used.sum()) // ENTERING)
        entering, highest = _largest(excess, tol * half, most)
        if (
            entering.shape[0] == 0
            and _violation(solution[used], residual[used], half) <= tol * half
        ):
            break
        used[entering] = True
        working = xp.nonzero(used)[0]
        # Not more accurate than it pays while features are still entering.
        slack = max(tol * half, ACCURATE * highest)
        there = to_host if working.shape[0] <= FEW_FEATURES else gram.here
        block, steps = _solve_block(
            curvature_of(gram, there(working)),
            there(correlation[working]),
            half,
            there(solution[working]),
            slack,
        )
        solution[working] = here(block)
        n_steps += steps
        residual = correlation - gram.apply(solution)
        value = _value(solution, correlation, residual, half)
        exhausted += steps == MAX_NEWTON
        if not _falls(value, best) or exhausted == MOST_EXHAUSTED:
            break  # what is missing is rounding
        best = value
    # An answer of the kind of the question.
    if not is_device_array(given):
        solution, residual = to_host(solution), to_host(residual)
    elif not is_device_array(solution):
        solution, residual = like(solution, given), like(residual, given)
    return GroupRegression(solution, n_steps, given, residual, target, half)


def optimality_violation(coefficients: Array, residual: Array, half: float) -> float:
    """Return the largest violation of the conditions of optimality; ``residual`` is C - S A."""
    used = rows_in_use(coefficients)
    outside = _highest(row_lengths(residual[~used])) - half
    return max(_violation(coefficients[used], residual[used], half), outside, 0.0)


def emptying_penalty(correlation: Array) -> float:
    """Return the smallest λ for which A = 0 is optimal: 2 maxᵢ ‖cᵢ‖."""
    return 2 * float(row_lengths(correlation).max())


def share_equally(coefficients: Array, groups: list[EqualFeatures]) -> Array:
    """Give equal features equal rows, and opposite ones opposite rows: the mean, never worse.

    Any division of their sum in the same direction is as good, so rounding would choose one.
    """
    for features, signs in groups:
        rows, turn = like(features, coefficients), like(signs, coefficients)
        mean = (turn @ coefficients[rows]) / signs.size
        coefficients[rows] = turn[:, None] * mean
    return coefficients


def _certified(
    solution: Array, correlation: Array, residual: Array, target: float, half: float
) -> tuple[float, float]:
    """Return the objective and the relative duality gap.

    The dual problem is max ‖Y‖² - ‖Y - Θ‖² over ‖Xᵀᵢ Θ‖ ≤ λ/2; Y - XA, shortened until it is
    feasible, comes close. Its best length is known in closed form.
    """
    inner = inner_product(solution, residual)  # ⟨XA, Y - XA⟩
    missed = target - inner_product(solution, correlation) - inner  # ‖Y - XA‖²
    size = float(row_lengths(solution).sum())
    steepest = float(row_lengths(residual).max())
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


def _largest(excess: Array, slack: float, most: int) -> tuple[Array, float]:
    """Return the features that want to enter, and what the first of them lacks.

    The strongest where they are many, ties together: few enter at a time, since one that enters
    explains others, which then need not.
    """
    xp = array_namespace(excess)
    entering = xp.nonzero(excess > slack)[0]
    count = int(entering.shape[0])
    if count == 0:
        return entering, float(excess.max())
    lacking = excess[entering]
    if count <= most:
        return entering, float(lacking.max())
    ordered = xp.sort(lacking)
    return entering[lacking >= ordered[count - most] * (1 - TIE)], float(ordered[-1])


def _highest(values: Array) -> float:
    """Return the largest of some numbers of at least 0; 0 of none."""
    return float(values.max()) if values.shape[0] else 0.0


def _violation(A: Array, residual: Array, half: float) -> float:
    """Return the largest violation of the conditions of optimality in rows that are not zero."""
    norms = row_lengths(A)
    used = norms > 0
    return _highest(row_lengths(residual - A * (half / (norms + ~used))[:, None]) * used)


def _value(A: Array, C: Array, residual: Array, half: float) -> float:
    """Return the objective without ‖Y‖²."""
    return 2 * half * float(row_lengths(A).sum()) - inner_product(A, C + residual)


def _falls(value: float, best: float) -> bool:
    """Whether the objective is lower than before, by more than rounding."""
    return value < best - 1e-15 * abs(value)


def _solve_block(S: Curvature, C: Array, half: float, A: Array, slack: float) -> tuple[Array, int]:
    """Solve for the features of a working set; return also the number of steps."""
    lipschitz = S.bound
    residual = C - S.times(A)
    best = np.inf
    for step in range(1, MAX_NEWTON + 1):  # noqa: B007 - returned
        A = _without_weak(S, C, half, _shrink_rows(A + residual / lipschitz, half / lipschitz))
        used = rows_in_use(A)
        count = int(used.sum())
        if count == A.shape[0]:
            A = _newton(S, C, half, A)
        elif count:
            A[used] = _newton(S.only(used), C[used], half, A[used])
        residual = C - S.times(A)
        used = rows_in_use(A)
        value = _value(A, C, residual, half)
        solved = _violation(A, residual, half) <= slack
        outside = _highest(row_lengths(residual) * ~used) if solved else np.inf
        if outside <= half + slack or not _falls(value, best):
            break
        best = value
    return A, step


def _shrink_rows(A: Array, threshold: float) -> Array:
    xp = array_namespace(A)
    norms = row_lengths(A)
    shares = 1 - threshold / xp.where(norms > 0, norms, 1.0)
    return A * xp.where(shares > 0, shares, 0.0)[:, None]


def _without_weak(S: Curvature, C: Array, half: float, A: Array) -> Array:
    """Set rows to zero that each would be, were it the only one to change; if that helps."""
    xp = array_namespace(A)
    alone = C - S.times(A) + S.diagonal[:, None] * A
    weak = (row_lengths(alone) <= half) & rows_in_use(A)
    if not bool(weak.any()):
        return A
    fewer = xp.where(weak[:, None], 0.0, A)
    return fewer if _block_value(S, C, half, fewer) < _block_value(S, C, half, A) else A


def _newton(S: Curvature, C: Array, half: float, A: Array) -> Array:
    """Make one step over rows that are not zero: Newton's, or a safe one where that is better.

    With uᵢ = aᵢ/‖aᵢ‖ and hᵢ = λ/(2‖aᵢ‖) the Hessian is M = S + diag(h), the same for all columns,
    less hᵢuᵢuᵢᵀ for each row i. By the matrix inversion lemma two systems of the size of M solve
    it, whatever the number of columns: M itself, and K = diag(1/h) - M⁻¹ ∘ UUᵀ. The safe step is
    M⁻¹C, the minimum of a quadratic function above the objective.
    """
    norms = row_lengths(A)
    units, heights = A / norms[:, None], half / norms
    inverse = S.shifted_inverse(heights)
    SA = S.times(A)
    gradient = SA + heights[:, None] * A - C
    # M⁻¹ times the gradient; not A - M⁻¹C, where the jitter would remain.
    plain = inverse.times(gradient)
    K = add_to_diagonal(inverse.bent(units), DAMPING / heights)
    weights = solved_by_cholesky(K, array_namespace(A).vecdot(units, plain))
    if weights is None:
        return inverse.times(C)
    direction = -plain - inverse.times(units * weights[:, None])
    ahead = _stopped_at_zero(A + direction, A)
    value = _block_value(S, C, half, ahead)
    now = inner_product(A, SA - 2 * C) + 2 * half * float(norms.sum())
    if value < now + ENOUGH * inner_product(gradient, direction):
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


def _stretched(S: Curvature, C: Array, half: float, A: Array, safe: Array) -> Array:
    """Go twice as far as the safe step, which is a short one, as long as that helps."""
    best, lowest, length = safe, _block_value(S, C, half, safe), 2.0
    while True:
        ahead = _stopped_at_zero(A + length * (safe - A), A)
        value = _block_value(S, C, half, ahead)
        if not _falls(value, lowest):
            return best
        best, lowest, length = ahead, value, 2 * length


def _stopped_at_zero(ahead: Array, A: Array) -> Array:
    """Set rows to zero that have turned round.

    A row that shrinks is linear in its length, so its Newton step leads beyond zero: there it
    stops. Many rows can leave in one step that way.
    """
    ahead[array_namespace(A).vecdot(ahead, A) <= 0] = 0.0
    return ahead


def _block_value(S: Curvature, C: Array, half: float, A: Array) -> float:
    return S.energy(A) - 2 * inner_product(A, C) + 2 * half * float(row_lengths(A).sum())
