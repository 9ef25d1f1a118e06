r"""Elastic net on the scatter matrix, the inner problem of sparse PCA.

.. math:: \min_b\ (a-b)^\top S\,(a-b) + \lambda_2\|b\|_2^2 + \lambda_1\|b\|_1

Only c = S a, and the columns of S that belong to active features, are ever needed. They come from a
p × p matrix (:class:`Gram`) or, without forming one, from the samples
(:class:`~jointsparse.solvers.gram.SampleGram`). As :math:`\lambda_2\to\infty`, the solution
scaled by :math:`1+\lambda_2` becomes the soft threshold of c at :math:`\lambda_1/2`.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from jointsparse.arrays import FloatArray
from jointsparse.solvers.gram import Gram

MAX_SWEEPS = 10_000  # of coordinate descent over one working set
ROUNDING = 1e-12  # relative to the largest |c|: below, a difference is rounding
# Every λ₁ between two breakpoints has the same count; which one is taken is a convention. Near the
# lower end coefficients are shrunk least; not at the end, where the count would hang on rounding.
# (Pitprops: the published supports come out for 0.1 to 0.3; outside, one or two features differ.)
PLACE_ON_STRETCH = 0.2


def elastic_net(
    gram: Gram,
    correlation: FloatArray,
    *,
    ridge: float,
    penalty: float,
    start: FloatArray | None = None,
) -> FloatArray:
    """Minimise (a-b)ᵀS(a-b) + ridge ‖b‖² + penalty ‖b‖₁ over b.

    Parameters
    ----------
    gram : Gram
        Scatter matrix S (divided by its trace; ``ridge`` and ``penalty`` are in that unit).
    correlation : ndarray of shape (n_features,)
        c = S a.
    ridge, penalty : float
        λ₂ and λ₁, at least 0; not both 0 where S is singular (then the solution is not unique).
    start : ndarray of shape (n_features,) or None
        Where to start; None starts from zero.

    Returns
    -------
    ndarray of shape (n_features,)
        The solution b, with exact zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.elastic_net import elastic_net
    >>> from jointsparse.solvers.gram import Gram
    >>> gram = Gram(np.diag([0.5, 0.3, 0.2]))
    >>> elastic_net(gram, np.array([0.5, 0.3, 0.02]), ridge=0.0, penalty=0.1)
    array([0.9       , 0.83333333, 0.        ])
    """
    half = penalty / 2
    solution = np.zeros(correlation.shape[0]) if start is None else start.copy()
    if penalty == 0:
        return gram.ridge_solve(correlation, ridge)
    slack = ROUNDING * max(float(np.max(np.abs(correlation))), half)
    for _ in range(correlation.shape[0] + 1):
        gradient = correlation - gram.apply(solution) - ridge * solution
        support = solution != 0
        excess = np.where(support, 0.0, np.abs(gradient) - half)
        entering = np.flatnonzero(excess > slack)
        off = np.abs(gradient[support] - half * np.sign(solution[support]))
        if entering.size == 0 and not np.any(off > slack):
            break
        # Few enter at a time: one that enters explains others, which then need not.
        most = max(10, int(support.sum()))
        if entering.size > most:
            entering = entering[np.argsort(-excess[entering], kind="stable")[:most]]
        working = np.union1d(np.flatnonzero(support), entering)
        block = gram.block(working)
        block[np.diag_indices_from(block)] += ridge
        start = solution[working]
        solution[working] = _solve_block(block, correlation[working], half, start, slack)
    return solution


def path_to_count(
    gram: Gram, correlation: FloatArray, *, ridge: float, count: int
) -> tuple[FloatArray, float]:
    """Follow the solutions from the empty one to one with ``count`` nonzeros.

    Between breakpoints the solution is linear in λ₁. At each, one feature enters (its gradient
    reaches λ₁/2) or leaves (its coefficient reaches 0). λ₁ is taken from the stretch before one
    more would enter (``PLACE_ON_STRETCH``). Fewer come back only where features tie, where the rank
    is smaller, or where λ₁ = 0 is reached.

    Returns
    -------
    solution : ndarray of shape (n_features,)
        The solution b.
    penalty : float
        Its λ₁.
    """
    half = float(np.max(np.abs(correlation)))
    active = [int(np.argmax(np.abs(correlation)))] if half > 0 else []
    signs = [float(np.sign(correlation[i])) for i in active]
    columns = gram.columns(np.asarray(active, dtype=np.int64))
    held = -1  # the feature that moved last: rounding must not move it back at once
    for _ in range(20 * correlation.shape[0] + 20):
        both = None
        if active:
            block = columns[active] + ridge * np.eye(len(active))
            right = np.column_stack([correlation[active], signs])
            both = _positive_solve(block, right)
        if both is None:
            break
        offset, slope = both.T
        rest, drift = correlation - columns @ offset, columns @ slope
        step, place, sign = _next_breakpoint(rest, drift, active, held, half)
        with np.errstate(divide="ignore", invalid="ignore"):
            leaving = offset / slope
        free = (leaving > 0) & (leaving < half * (1 - ROUNDING)) & (np.asarray(active) != held)
        exits = np.where(free, leaving, 0.0)
        first = int(np.argmax(exits))
        if exits[first] > step:
            half, held = float(exits[first]), active.pop(first)
            del signs[first]
            columns = np.delete(columns, first, axis=1)
            continue
        if step <= 0 or len(active) >= count:
            found = step + PLACE_ON_STRETCH * (half - step) if step > 0 else 0.0
            solution = np.zeros(correlation.shape[0])
            solution[active] = offset - found * slope
            return solution, 2 * found
        half, held = step, place
        active.append(place)
        signs.append(sign)
        columns = np.column_stack([columns, gram.columns(np.array([place]))])
    # No further: the active features are linearly dependent. Solve where the path has come to.
    return elastic_net(gram, correlation, ridge=ridge, penalty=2 * half), 2 * half


def _next_breakpoint(
    rest: FloatArray, drift: FloatArray, active: list[int], held: int, half: float
) -> tuple[float, int, float]:
    """Return the largest h < half where an entry of rest + h drift is ±h; which, and its sign."""
    candidates = np.zeros((2, rest.size))
    with np.errstate(divide="ignore", invalid="ignore"):
        candidates[0] = rest / (1 - drift)
        candidates[1] = -rest / (1 + drift)
    candidates[~np.isfinite(candidates) | (candidates > half * (1 + 1e-9))] = 0.0
    candidates[:, active] = 0.0
    if held >= 0:
        candidates[:, held] = 0.0
    which, place = np.unravel_index(int(np.argmax(candidates)), candidates.shape)
    step = min(float(candidates[which, place]), half)
    negligible = step <= ROUNDING * half
    return (0.0 if negligible else step), int(place), (1.0 if which == 0 else -1.0)


def _solve_block(
    block: FloatArray, correlation: FloatArray, half: float, solution: FloatArray, slack: float
) -> FloatArray:
    """Solve min bᵀGb - 2cᵀb + 2 half ‖b‖₁ on a working set."""
    diagonal = np.diagonal(block).copy()
    residual = correlation - block @ solution
    signs = np.sign(solution)
    for _ in range(MAX_SWEEPS):
        # Once the signs are right the solution is a linear system: exact, however slowly
        # coordinate descent would go on (strongly correlated features).
        exact = _with_signs(block, correlation, half, signs, slack)
        if exact is not None:
            return exact
        previous = signs
        largest = 0.0
        for i in range(solution.size):
            old = solution[i]
            rho = residual[i] + diagonal[i] * old
            new = np.sign(rho) * max(abs(rho) - half, 0.0) / diagonal[i]
            if new != old:
                residual -= block[:, i] * (new - old)
                solution[i] = new
                largest = max(largest, abs(new - old) * diagonal[i])
        signs = np.sign(solution)
        if largest <= slack and np.array_equal(signs, previous):
            break
    return solution


def _with_signs(
    block: FloatArray, correlation: FloatArray, half: float, signs: FloatArray, slack: float
) -> FloatArray | None:
    """Return the solution if it has these signs; None if it has not, or G is singular."""
    active = np.flatnonzero(signs)
    solution = np.zeros(signs.size)
    if active.size:
        right = correlation[active] - half * signs[active]
        part = _positive_solve(block[np.ix_(active, active)], right)
        if part is None or np.any(np.sign(part) != signs[active]):
            return None
        solution[active] = part
    residual = np.abs(correlation - block @ solution)
    return None if np.any(residual > half + slack) else solution


def _positive_solve(matrix: FloatArray, right: FloatArray) -> FloatArray | None:
    """Solve with a positive definite matrix; None where it is numerically singular."""
    try:
        factor = cho_factor(matrix, lower=True, check_finite=False)
    except LinAlgError:
        return None
    pivots = np.diagonal(factor[0])
    if pivots.min() ** 2 <= 1e-13 * pivots.max() ** 2:
        return None
    return np.asarray(cho_solve(factor, right, check_finite=False))
