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

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from jointsparse.solvers.gram import FloatArray, Gram, IntArray

MAX_NEWTON = 200  # steps on one working set; ten are usual
DAMPING = 1e-6  # of the curvature along rows: where equal features make it vanish, rounding rules
JITTER = 1e-14  # of the largest variance: keeps a singular S positive where λ is next to nothing
LENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01)  # of Newton steps, until one helps
TIE = 1e-9  # relative: features that differ by less enter together


@dataclass(frozen=True)
class GroupRegression:
    """A solution of the regression.

    Attributes
    ----------
    coefficients : ndarray of shape (n_features, n_targets)
        A, with exact zero rows.
    objective : float
        Its objective.
    gap : float
        Proven upper bound on (objective - optimum) / objective.
    n_steps : int
        Newton steps made.
    image : ndarray of shape (n_features, n_targets)
        S A.
    """

    coefficients: FloatArray
    objective: float
    gap: float
    n_steps: int
    image: FloatArray


def group_regression(
    gram: Gram,
    correlation: FloatArray,
    *,
    target: float,
    penalty: float,
    tol: float = 1e-10,
    start: FloatArray | None = None,
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

    Returns
    -------
    GroupRegression
        The solution and its certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.gram import Gram
    >>> from jointsparse.solvers.group_regression import group_regression
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
    residual = correlation - gram.apply(solution) if np.any(solution) else correlation
    n_steps, best = 0, np.inf
    for _ in range(correlation.shape[0] + 1):
        used = np.any(solution != 0, axis=1)
        excess = np.where(used, 0.0, np.linalg.norm(residual, axis=1) - half)
        entering = _largest(excess, tol * half, max(10, int(used.sum())))
        if entering.size == 0 and _violation(solution[used], residual[used], half) <= tol * half:
            break
        working = np.union1d(np.flatnonzero(used), entering)
        # Not more accurate than it pays while features are still entering.
        slack = max(tol * half, 0.1 * float(np.max(excess)))
        solution[working], steps = _solve_block(
            gram.block(working), correlation[working], half, solution[working], slack
        )
        n_steps += steps
        residual = correlation - gram.apply(solution)
        value = _value(solution, correlation, residual, half)
        if not _falls(value, best):
            break  # what is missing is rounding
        best = value
    certificate = _certified(solution, correlation, residual, target, half)
    return GroupRegression(solution, *certificate, n_steps, correlation - residual)


def emptying_penalty(correlation: FloatArray) -> float:
    """Return the smallest λ for which A = 0 is optimal: 2 maxᵢ ‖cᵢ‖."""
    return 2 * float(np.max(np.linalg.norm(correlation, axis=1)))


def share_equally(coefficients: FloatArray, groups: list[IntArray]) -> FloatArray:
    """Give equal features equal rows: their mean, which is never worse.

    Any division of their sum in the same direction is as good, so rounding would choose one.
    """
    for group in groups:
        coefficients[group] = coefficients[group].mean(axis=0)
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
    size = float(np.sum(np.linalg.norm(solution, axis=1)))
    steepest = float(np.max(np.linalg.norm(residual, axis=1)))
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
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return float(np.max(np.linalg.norm(residual - half * rows / norms, axis=1)))


def _value(A: FloatArray, C: FloatArray, residual: FloatArray, half: float) -> float:
    """Return the objective without ‖Y‖²."""
    penalty = 2 * half * float(np.sum(np.linalg.norm(A, axis=1)))
    return penalty - float(np.sum(A * (C + residual)))


def _falls(value: float, best: float) -> bool:
    """Whether the objective is lower than before, by more than rounding."""
    return value < best - 1e-15 * abs(value)


def _solve_block(
    S: FloatArray, C: FloatArray, half: float, A: FloatArray, slack: float
) -> tuple[FloatArray, int]:
    """Solve for the features of a working set; return also the number of steps."""
    lipschitz = float(np.linalg.norm(S))  # not below the largest eigenvalue, and cheap
    A, residual = A.copy(), C - S @ A
    best = np.inf
    for step in range(1, MAX_NEWTON + 1):  # noqa: B007 - returned
        A = _shrink_rows(A + residual / lipschitz, half / lipschitz)
        used = np.any(A != 0, axis=1)
        if np.any(used):
            inner = S if used.all() else S[np.ix_(used, used)]
            A[used] = _newton(inner, C[used], half, A[used])
        residual = C - S @ A
        used = np.any(A != 0, axis=1)
        outside = np.linalg.norm(residual[~used], axis=1)
        value = _value(A, C, residual, half)
        solved = _violation(A[used], residual[used], half) <= slack
        if (solved and not np.any(outside > half + slack)) or not _falls(value, best):
            break
        best = value
    return A, step


def _shrink_rows(A: FloatArray, threshold: float) -> FloatArray:
    norms = np.linalg.norm(A, axis=1, keepdims=True)
    return A * np.maximum(1 - threshold / np.where(norms > 0, norms, 1.0), 0.0)


def _newton(S: FloatArray, C: FloatArray, half: float, A: FloatArray) -> FloatArray:
    """Make one step over rows that are not zero: Newton's, or a safe one where that is better.

    With uᵢ = aᵢ/‖aᵢ‖ and hᵢ = λ/(2‖aᵢ‖) the Hessian is M = S + diag(h), the same for all columns,
    less hᵢuᵢuᵢᵀ for each row i. By the matrix inversion lemma two systems of the size of M solve
    it, whatever the number of columns: M itself, and K = diag(1/h) - M⁻¹ ∘ UUᵀ. The safe step is
    M⁻¹C, the minimum of a quadratic function above the objective.
    """
    norms = np.linalg.norm(A, axis=1, keepdims=True)
    units, heights = A / norms, half / norms[:, 0]
    M = S + np.diag(heights + JITTER * float(np.max(np.diagonal(S))))
    inverse = cho_solve(cho_factor(M, check_finite=False), np.eye(len(M)), check_finite=False)
    safe = inverse @ C
    # M⁻¹ times the gradient; not A - safe, where the jitter would remain.
    plain = inverse @ (S @ A + heights[:, None] * A - C)
    K = np.diag((1 + DAMPING) / heights) - inverse * (units @ units.T)
    try:
        weights = cho_solve(cho_factor(K, check_finite=False), np.sum(units * plain, axis=1))
    except LinAlgError:
        return safe
    direction = -plain - inverse @ (units * weights[:, None])
    lowest = _block_value(S, C, half, safe)
    lowest += 1e-14 * abs(lowest)  # near the optimum only Newton's step tells them apart
    for length in LENGTHS:
        ahead = A + length * direction
        # A row that shrinks is linear in its length, so its Newton step leads beyond zero: there
        # it stops. Many rows can leave in one step that way.
        ahead[np.sum(ahead * A, axis=1) <= 0] = 0.0
        if _block_value(S, C, half, ahead) < lowest:
            return ahead
    return safe


def _block_value(S: FloatArray, C: FloatArray, half: float, A: FloatArray) -> float:
    return float(np.sum(A * (S @ A - 2 * C))) + 2 * half * float(np.linalg.norm(A, axis=1).sum())
