r"""Robust neighbourhood embedding: the kernel of RNE.

With the residuals A = X - W_l X of reconstructing every sample from its neighbours (W_l from
:mod:`jointsparse.graphs.reconstruction`),

.. math:: \min_{H\ge0,\ H\in\mathbb R^{p\times m}}\ \|AH\|_1 + \tfrac a4\|H^\top H - I\|_F^2 .

A nonnegative H with orthonormal columns has one column for each group of features. For a selection
matrix (one 1 in each column) the objective is the sum of the l1 norms of m columns of A, so the
best *selection* is known in closed form: the columns with the smallest norms. The published
iterations (augmented Lagrangian, multiplicative updates) end where their start leads them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.penalties import soft_threshold
from jointsparse.solvers.solution import Solution, Trace

INNER = 30  # multiplicative updates in one iteration
FIRST_STEP, GROWTH, LARGEST_STEP = 10.0, 1.1, 1e10  # of the augmented Lagrangian
UNDERFLOW = 1e-100  # entries below are 0: numbers near the smallest ones are ten times slower
SQUARE_UP_TO = 3  # times n: features up to which a p × p matrix is the cheaper way


def residual_start(norms: FloatArray, count: int) -> FloatArray:
    """Return an H near the best selection: 1 at the smallest norms, 0.01 elsewhere.

    Not 0, since an entry that is 0 stays so.
    """
    H = np.full((norms.size, count), 0.01)
    H[np.argsort(norms, kind="stable")[:count], np.arange(count)] = 1.0
    return H


def solve_neighbourhood(
    residuals: FloatArray, start: FloatArray, *, strength: float, tol: float, max_iter: int
) -> Solution:
    """Run the published iterations.

    Parameters
    ----------
    residuals : ndarray of shape (n_samples, n_features)
        A.
    start : ndarray of shape (n_features, count)
        First H, positive.
    strength : float
        a.
    tol : float
        Relative change of the objective at which to stop. (The authors' program has no such test.)
    max_iter : int
        Limit on the number of iterations.

    Returns
    -------
    Solution
        ``loadings`` is H.
    """
    A, H = residuals, start.copy()
    products = _split_products(A)
    M, Y, step = A @ H, np.zeros((A.shape[0], H.shape[1])), FIRST_STEP
    trace = Trace(tol, max_iter, "relative change of the objective")
    tiny = np.finfo(np.float64).eps
    for iteration in range(1, max_iter + 1):
        pull = step * (A.T @ M)
        dual = A.T @ Y
        gain = np.clip(pull, 0, None) + np.clip(dual, 0, None)
        loss = np.clip(-pull, 0, None) + np.clip(-dual, 0, None) + tiny
        for _ in range(INNER):
            H /= np.sqrt(np.sum(H * H, axis=0) + tiny)
            plus, minus = products(H)
            H *= np.sqrt(
                (strength * H + gain + step * minus)
                / (strength * (H @ (H.T @ H)) + loss + step * plus)
            )
            H[H < UNDERFLOW] = 0.0
        image = A @ H
        M = soft_threshold(image - Y / step, 1 / step)
        Y += step * (M - image)
        step = min(GROWTH * step, LARGEST_STEP)
        objective = embedding_objective(image, H, strength)
        before = trace.history[-1] if trace.history else np.inf
        change = abs(before - objective) / max(abs(objective), tiny)
        if trace.record(iteration, objective, measure=change):
            break
    return trace.solution(H, trace.history[-1], None, {})


def embedding_objective(image: FloatArray, H: FloatArray, strength: float) -> float:
    """Return ‖AH‖₁ + (a/4)‖HᵀH - I‖² for ``image`` = AH."""
    off = H.T @ H - np.eye(H.shape[1])
    return float(np.sum(np.abs(image))) + strength / 4 * float(np.sum(off**2))


def _split_products(A: FloatArray) -> Callable[[FloatArray], tuple[FloatArray, FloatArray]]:
    """Return the function H ↦ (G₊H, G₋H), where G₊ - G₋ = AᵀA with both nonnegative."""
    n, p = A.shape
    if p <= SQUARE_UP_TO * n:
        size = np.abs(A.T @ A)

        def square(H: FloatArray) -> tuple[FloatArray, FloatArray]:
            both, net = size @ H, A.T @ (A @ H)
            return (both + net) / 2, np.clip((both - net) / 2, 0, None)

        return square
    positive, negative = np.clip(A, 0, None), np.clip(-A, 0, None)

    def factored(H: FloatArray) -> tuple[FloatArray, FloatArray]:
        # A larger split, with the same fixed points, that needs no p × p matrix.
        up, down = positive @ H, negative @ H
        return positive.T @ up + negative.T @ down, positive.T @ down + negative.T @ up

    return factored
