r"""Elastic net on the scatter matrix, the inner problem of sparse PCA.

.. math:: \min_b\ (a-b)^\top S\,(a-b) + \lambda_2\|b\|_2^2 + \lambda_1\|b\|_1

Only c = S a, and the columns of S that belong to active features, are ever needed. They come from a
p × p matrix (:class:`Gram`) or, without forming one, from the samples
(:class:`~jointsparse.solvers.products.gram.SampleGram`). As :math:`\lambda_2\to\infty`, the
solution scaled by :math:`1+\lambda_2` becomes the soft threshold of c at :math:`\lambda_1/2`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from jointsparse.arrays import FloatArray
from jointsparse.solvers.products.gram import Gram

MAX_SWEEPS = 10_000  # of coordinate descent over one working set
MAX_SIGNS = 5  # times the size of the working set: systems solved before coordinate descent
ROUNDING = 1e-12  # relative to the largest |c|: below, a difference is rounding


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
    >>> from jointsparse.solvers.regression.elastic_net import elastic_net
    >>> from jointsparse.solvers.products.gram import Gram
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
        support[entering] = True
        working = np.flatnonzero(support)
        block = gram.block(working)
        block.flat[:: len(block) + 1] += ridge
        start = solution[working]
        solution[working] = _solve_block(block, correlation[working], half, start, slack)
    return solution


def _solve_block(
    block: FloatArray, correlation: FloatArray, half: float, solution: FloatArray, slack: float
) -> FloatArray:
    """Solve min bᵀGb - 2cᵀb + 2 half ‖b‖₁ on a working set."""
    found = _by_signs(block, correlation, half, solution, slack)
    return _by_descent(block, correlation, half, solution, slack) if found is None else found


def _by_signs(
    block: FloatArray, correlation: FloatArray, half: float, solution: FloatArray, slack: float
) -> FloatArray | None:
    """Guess signs, solve the linear system, correct the signs where it contradicts them.

    A coefficient that would change its sign becomes zero on the way there; where the objective is
    least on that way, the next system begins. None where G is singular or signs go round in
    circles.
    """
    signs = np.sign(solution)
    residual = correlation - block @ solution
    entering = (signs == 0) & (np.abs(residual) > half + slack)
    signs[entering] = np.sign(residual[entering])
    for _ in range(MAX_SIGNS * solution.size + 5):
        active = np.flatnonzero(signs)
        target = np.zeros(solution.size)
        if active.size:
            right = correlation[active] - half * signs[active]
            part = positive_solve(block[active[:, None], active], right)
            if part is None:
                return None
            target[active] = part
        wrong = target * signs < 0
        if not wrong.any():
            residual = correlation - block @ target
            entering = (signs == 0) & (np.abs(residual) > half + slack)
            if not entering.any():
                return target
            solution = target
            signs[entering] = np.sign(residual[entering])
            continue
        at_once = wrong & (solution == 0)
        if at_once.any():  # they entered with others that explain them
            signs[at_once] = 0.0
            continue
        solution = _best_on_way(block, correlation, half, solution, target, wrong)
        signs = np.sign(solution)
    return None


def _best_on_way(
    block: FloatArray,
    correlation: FloatArray,
    half: float,
    solution: FloatArray,
    target: FloatArray,
    wrong: NDArray[np.bool_],
) -> FloatArray:
    """Return the best of the target and the points before it where a coefficient vanishes."""
    way = target - solution
    shares = np.append(-solution[wrong] / way[wrong], 1.0)
    points = solution[:, None] + way[:, None] * shares
    crossing = np.flatnonzero(wrong)
    points[crossing, np.arange(crossing.size)] = 0.0
    values = np.sum(points * (block @ points - 2 * correlation[:, None]), axis=0)
    values += 2 * half * np.abs(points).sum(axis=0)
    return np.ascontiguousarray(points[:, int(np.argmin(values))])


def _by_descent(
    block: FloatArray, correlation: FloatArray, half: float, solution: FloatArray, slack: float
) -> FloatArray:
    """Coordinate descent: slow, and never at a loss."""
    diagonal = np.diagonal(block).copy()
    solution = solution.copy()
    residual = correlation - block @ solution
    signs = np.sign(solution)
    for _ in range(MAX_SWEEPS):
        previous, largest = signs, 0.0
        for i in range(solution.size):
            old = solution[i]
            rho = residual[i] + diagonal[i] * old
            new = np.sign(rho) * max(abs(rho) - half, 0.0) / diagonal[i]
            if new != old:
                residual -= block[:, i] * (new - old)
                solution[i] = new
                largest = max(largest, abs(new - old) * diagonal[i])
        signs = np.sign(solution)
        # Once the signs are right the solution is a linear system: exact, however slowly
        # coordinate descent would go on (strongly correlated features).
        exact = _with_signs(block, correlation, half, signs, slack)
        if exact is not None:
            return exact
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
        part = positive_solve(block[active[:, None], active], right)
        if part is None or np.any(np.sign(part) != signs[active]):
            return None
        solution[active] = part
    residual = np.abs(correlation - block @ solution)
    return None if np.any(residual > half + slack) else solution


def cholesky(matrix: FloatArray) -> FloatArray | None:
    """Return the lower factor of a positive definite matrix; None where that is nearly singular."""
    factor, failed = dpotrf(matrix, lower=1, clean=0)
    if failed:
        return None
    pivots = np.diagonal(factor)
    return None if pivots.min() ** 2 <= 1e-13 * pivots.max() ** 2 else factor


def positive_solve(matrix: FloatArray, right: FloatArray) -> FloatArray | None:
    """Solve with a positive definite matrix; None where it is numerically singular."""
    factor = cholesky(matrix)
    return None if factor is None else np.asarray(dpotrs(factor, right, lower=1)[0])
