r"""Weighted models for more features than samples: nothing of size p × p, one more copy of the data.

Residuals are never formed. With Y = XU and G = UᵀU (k × k), for Ω = UUᵀ

.. math:: \|x_i - \Omega x_i\|^2 = \|x_i\|^2 - 2\|y_i\|^2 + y_i^\top G\,y_i ,

and the dual points of :func:`~jointsparse.solvers.convex_wide.solve_wide` know the same sums for
their own matrices.
"""

from __future__ import annotations


from jointsparse.linalg import Array, array_namespace, blocks, double, long_product, positive_part
from jointsparse.solvers.convex_reweighted import SMOOTHING, Step, sample_bound
from jointsparse.solvers.convex_wide import WideState, solve_wide

ROUNDING = 1e-14  # of a squared norm
MAX_ROUNDS = 8  # of one weighted model; the next one goes on from there


class WideModel:
    """CSPCA-PSD or AW-SPCA-PSD on an array with more columns than rows.

    Parameters
    ----------
    data : array of shape (n_samples, n_features)
        X, centred; float64, or float32 to halve the memory.
    lam, eta : float
        Penalties in the units of the data; lam positive, eta at least 0.
    free_mean : bool
        Whether the mean is free.
    """

    def __init__(self, data: Array, lam: float, eta: float, *, free_mean: bool) -> None:
        xp = array_namespace(data)
        self.data, self.lam, self.eta, self.free_mean = data, lam, eta, free_mean
        self.state: WideState | None = None
        distances = xp.sqrt(squared_norms(data))
        self.smoothing = SMOOTHING * float(xp.mean(distances))
        self.norms = self._smoothed(distances**2)
        offset = xp.zeros_like(data[0, :]) if free_mean else None
        self.empty = Step(
            float(xp.sum(distances)), 0.0, self.norms, data.T[:, :0], offset, iterations=0
        )

    def solve(self, mixture: list[float], weights: Array, tol: float, max_iter: int) -> Step:
        """Solve with these weights; how they were mixed does not matter here."""
        xp = array_namespace(weights)
        mean = None
        if self.free_mean:
            mean = long_product((weights / xp.sum(weights))[None, :], self.data)[0, :]
        rows = self._weighted(mean, xp.sqrt(weights / 2))
        solution = solve_wide(
            rows,
            self.lam,
            self.eta,
            tol=tol,
            max_iter=max_iter,
            start=self.state,
            keep_state=True,
            max_rounds=MAX_ROUNDS,
        )
        self.state = solution.state
        squares, factor = squared_norms(rows), solution.loadings
        bound = 0.0
        for dual in solution.dual:
            left = positive_part(squares - 2 * dual.linear + dual.quadratic)
            # the rounding of the sum above must not make a norm too small
            left = xp.sqrt(left + ROUNDING * squares)
            value = 2 * float(xp.sum(squares - dual.linear))
            longest = float(xp.max(xp.sqrt(2 * weights) * left))
            bound = max(bound, sample_bound(dual.limit, value, longest))
        image, gram = long_product(rows, factor), long_product(factor.T, factor)
        left = positive_part(squares + xp.sum((image @ gram - 2 * image) * image, axis=1))
        norms = xp.sqrt(left * (2 / weights))
        objective = float(xp.sum(norms)) + self.eta * float(xp.linalg.trace(gram))
        objective += self.lam * _sum_of_scores(factor, gram)
        offset = None
        if mean is not None:
            wide = double(factor)
            offset = mean - wide @ (wide.T @ mean)
        return Step(
            objective, bound, self._smoothed(norms**2), factor, offset, iterations=solution.n_iter
        )

    def _weighted(self, mean: Array | None, scale: Array) -> Array:
        """Return the rows about the mean, scaled, in the dtype of the data."""
        xp = array_namespace(self.data)
        result = xp.empty_like(self.data)
        for part in blocks(self.data.shape[1]):
            block = double(self.data[:, part])
            if mean is not None:
                block = block - mean[part]
            result[:, part] = xp.astype(block * scale[:, None], result.dtype)
        return result

    def _smoothed(self, squares: Array) -> Array:
        return array_namespace(squares).sqrt(squares + self.smoothing**2)


def squared_norms(data: Array) -> Array:
    """Squared norm of every row, in float64."""
    xp = array_namespace(data)
    total = xp.zeros(data.shape[0], dtype=xp.float64, device=data.device)
    for part in blocks(data.shape[1]):
        total += xp.sum(double(data[:, part]) ** 2, axis=1)
    return total


def _sum_of_scores(factor: Array, gram: Array) -> float:
    """‖UUᵀ‖₂,₁, given UᵀU."""
    xp = array_namespace(factor)
    total = 0.0
    for part in blocks(factor.shape[0]):
        rows = double(factor[part, :])
        total += float(xp.sum(xp.sqrt(positive_part(xp.sum((rows @ gram) * rows, axis=1)))))
    return total
