r"""Weighted models for more features than samples: nothing of size p × p, no copy of the data.

The rows :math:`\sqrt{w_i/2}\,(x_i-m)` are samples again
(:meth:`~jointsparse.operators.samples.Samples.reweighted`). Residuals are formed only of
samples that are reproduced almost exactly: with Y = XU and G = UᵀU (k × k), for Ω = UUᵀ

.. math:: \|x_i - \Omega x_i\|^2 = \|x_i\|^2 - 2\|y_i\|^2 + y_i^\top G\,y_i ,

and the dual points of :func:`~jointsparse.solvers.wide.convex.solve_wide` know the same sums for
their own matrices.
"""

from __future__ import annotations

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, blocks, double, long_product, positive_part
from jointsparse.operators.dense import operator_of
from jointsparse.operators.samples import Samples
from jointsparse.solvers.convex.reweighted import (
    SMOOTHING,
    Step,
    rounded_limit,
    rounding_of_sums,
    sample_bound,
)
from jointsparse.solvers.wide.convex import WideState, solve_wide
from jointsparse.solvers.wide.scatter_access import LARGEST_GRAM

ROUNDING = 1e-14  # of a squared norm
FEW_DIGITS = 1e-4  # of the square of a sample: below, that of its residual is not a difference
RESIDUAL_ENTRIES = 2**22  # of residuals in memory at a time: 32 MB
LEAST_TOLERANCE = 1e-7  # of a weighted model whose iterates are float32
ACCEPTED = 100.0  # times the tolerance: the next weighted model goes on from there


def squared_rows(data: Samples) -> Array:
    """Return ‖x_i‖² of every sample; from the Gram matrix where the solvers need that anyway."""
    if data.shape[0] > LARGEST_GRAM:
        return data.row_squares()
    return positive_part(array_namespace(data.empty).linalg.diagonal(data.gram()))


class WideModel:
    """CSPCA-PSD or AW-SPCA-PSD on samples with more features than there are samples.

    Parameters
    ----------
    data : array of shape (n_samples, n_features) or Samples
        X, centred, or centred on the way.
    lam, eta : float
        Penalties in the units of the data; lam positive, eta at least 0.
    free_mean : bool
        Whether the mean is free.
    """

    def __init__(self, data: Array | Samples, lam: float, eta: float, *, free_mean: bool) -> None:
        self.data = operator_of(data)
        self.lam, self.eta, self.free_mean = lam, eta, free_mean
        self.state: WideState | None = None
        xp = array_namespace(self.data.empty)
        distances = xp.sqrt(squared_rows(self.data))
        self.smoothing = SMOOTHING * float(xp.mean(distances))
        self.norms = self._smoothed(distances**2)
        value, offset = float(xp.sum(distances)), None
        if free_mean:
            offset = xp.zeros(self.data.shape[1], dtype=xp.float64, device=distances.device)
        self.empty = Step(value, 0.0, self.norms, self.data.empty, offset, iterations=0)

    def solve(self, mixture: list[float], weights: Array, tol: float, max_iter: int) -> Step:
        """Solve with these weights; how they were mixed does not matter here."""
        xp = array_namespace(weights)
        mean = None
        if self.free_mean:
            mean = self.data.transposed_times((weights / xp.sum(weights))[:, None])[:, 0]
        rows = self.data.reweighted(weights / 2, mean)
        if rows.empty.dtype == xp.float32:
            tol = max(tol, LEAST_TOLERANCE)
        solution = solve_wide(
            rows,
            self.lam,
            self.eta,
            tol=tol,
            max_iter=max_iter,
            start=self.state,
            keep_state=True,
            accept=ACCEPTED * tol,
        )
        self.state = solution.state
        squares = squared_rows(rows)
        bound = 0.0
        for dual in solution.dual:
            left = positive_part(squares - 2 * dual.linear + dual.quadratic)
            # the rounding of the sum above must not make a norm too small
            left = xp.sqrt(left + ROUNDING * squares)
            value = 2 * float(xp.sum(squares - dual.linear))
            whole = 2 * float(xp.sum(squares))
            value -= rounding_of_sums(*rows.shape) * whole
            longest = float(xp.max(xp.sqrt(2 * weights) * left))
            limit = rounded_limit(dual.limit, whole, self.lam + self.eta, rows.shape)
            bound = max(bound, sample_bound(limit, value, longest))
        factor = solution.loadings
        image, gram = rows.times(factor), long_product(factor.T, factor)
        left = _squared_residuals(rows, squares, factor, image, gram)
        norms = xp.sqrt(left * (2 / weights))
        objective = float(xp.sum(norms)) + self.eta * float(xp.linalg.trace(gram))
        objective += self.lam * _sum_of_scores(factor, gram)
        offset = None
        if mean is not None:
            wide = double(factor)
            offset = mean - wide @ (wide.T @ mean)
        new = self._smoothed(norms**2)
        return Step(objective, bound, new, factor, offset, iterations=solution.n_iter)

    def _smoothed(self, squares: Array) -> Array:
        return array_namespace(squares).sqrt(squares + self.smoothing**2)


def _squared_residuals(
    rows: Samples, squares: Array, factor: Array, image: Array, gram: Array
) -> Array:
    """Return ‖x_i - UUᵀx_i‖², given ‖x_i‖², U, XU and UᵀU.

    Of samples that are reproduced, next to nothing is left of the sums: their residuals are formed
    after all, some at a time. A norm of √ε‖x_i‖ would count as 0 otherwise, which is less than the
    objective is. Of samples that are elsewhere the rounding is added instead.
    """
    xp = array_namespace(squares)
    left = positive_part(squares + xp.sum((image @ gram - 2 * image) * image, axis=1))
    small = left < FEW_DIGITS * squares
    if rows.is_elsewhere:
        return xp.where(small, left + ROUNDING * squares, left)
    few, wide = xp.nonzero(small)[0], double(factor)
    step = max(1, RESIDUAL_ENTRIES // rows.shape[1])
    for first in range(0, few.shape[0], step):
        part = few[first : first + step]
        left[part] = xp.sum((rows.rows(part) - image[part] @ wide.T) ** 2, axis=1)
    return left


def _sum_of_scores(factor: Array, gram: Array) -> float:
    """‖UUᵀ‖₂,₁, given UᵀU."""
    xp = array_namespace(factor)
    total = 0.0
    for part in blocks(factor.shape[0]):
        rows = double(factor[part, :])
        total += float(xp.sum(xp.sqrt(positive_part(xp.sum((rows @ gram) * rows, axis=1)))))
    return total
