r"""Sparse regression of targets Y on features, the second half of joint subspace learning.

.. math:: \min_A\ \|Y - XA\|_F^2 + \lambda\,\Omega(A) ,\qquad \Omega(A) =
          \sum_i\|a_i\|_2,\quad \sum_{ij}|a_{ij}| \quad\text{or}\quad \|A\|_F ,

:math:`a_i` the rows of A, one for each feature, or, as λ → 0, min Ω(A) over XA = Y
(:mod:`~jointsparse.solvers.regression.subspace_equality`). The first is the group (multi-task)
lasso, the second a lasso for each target, and the third, the norm not squared, is ridge regression
with δ = λ/(2‖A‖_F): one equation for δ. All come with a duality gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import svd
from scipy.optimize import brentq

from jointsparse.arrays import FloatArray
from jointsparse.device import to_host
from jointsparse.linalg import array_namespace
from jointsparse.solvers.products.equal_features import equal_features
from jointsparse.solvers.products.gram import Gram, SampleGram
from jointsparse.solvers.regression.group import certified, group_regression, share_equally
from jointsparse.solvers.regression.subspace_norms import dual_norm_of, norm_of
from jointsparse.solvers.solution import Solution, Trace

ATTEMPTS = 5  # regressions; one is usual, and another continues where rounding ended it early
SINGULAR = 1e-10  # of the largest singular value of X: below, a direction is rounding


@dataclass(frozen=True)
class SubspaceProblem:
    """Centred data X with a sum of squares of 1, and targets Y with ‖Y‖_F = 1.

    Attributes
    ----------
    gram : Gram
        Scatter matrix XᵀX; through the samples where p > n.
    correlation : ndarray of shape (n_features, n_targets)
        XᵀY.
    targets : ndarray of shape (n_samples, n_targets) or None
        Y, where the samples are at hand.
    """

    gram: Gram
    correlation: FloatArray
    targets: FloatArray | None

    @cached_property
    def row_space(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """V, σ of the thin X = U diag(σ) Vᵀ, and UᵀY: all that A can have to do with Y."""
        through = self.gram.through_samples
        if through is not None and through.of_array and self.targets is not None:
            U, sigma, Vt = _thin_svd(through)
            rank = int(np.count_nonzero(sigma > SINGULAR * sigma[0]))
            V, sigma, coordinates = Vt[:rank].T, sigma[:rank], U[:, :rank].T @ self.targets
        else:
            values, V = self.gram.leading()
            sigma = np.sqrt(values)
            coordinates = (V.T @ self.correlation) / sigma[:, None]
        # Constant features have no part in it, not even by rounding.
        return np.where(self.gram.diagonal[:, None] > 0, V, 0.0), sigma, coordinates

    @property
    def missed(self) -> float:
        """‖Y - XA‖_F for the least squares A: what no linear function of X explains."""
        return float(np.sqrt(max(1 - np.sum(self.row_space[2] ** 2), 0.0)))


def _thin_svd(gram: SampleGram) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return U, σ and Vᵀ of the samples, computed where they are."""
    data = gram.sample_columns(slice(None))
    data = data - data.mean(axis=0)  # what rounding to single precision left
    if isinstance(data, np.ndarray):
        return svd(data, full_matrices=False, check_finite=False)
    U, sigma, Vt = array_namespace(data).linalg.svd(data, full_matrices=False)
    return to_host(U), to_host(sigma), to_host(Vt)


def emptying(problem: SubspaceProblem, norm: str) -> float:
    """Return the smallest λ for which A = 0 is optimal."""
    return 2 * dual_norm_of(problem.correlation, norm)


def solve_subspace(
    problem: SubspaceProblem,
    penalty: float,
    norm: str,
    *,
    tol: float = 1e-6,
    start: FloatArray | None = None,
) -> Solution:
    """Minimise ‖Y - XA‖² + penalty Ω(A) over A.

    Parameters
    ----------
    problem : SubspaceProblem
        Data and targets.
    penalty : float
        λ > 0.
    norm : {"l21", "l11", "fro"}
        Ω.
    tol : float
        Certified relative gap that counts as converged.
    start : ndarray of shape (n_features, n_targets) or None
        A of another penalty to start from; None starts from zero.

    Returns
    -------
    Solution
        A in ``loadings``; equal features have equal rows.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.products.gram import Gram
    >>> from jointsparse.solvers.regression.subspace import SubspaceProblem, solve_subspace
    >>> C = np.array([[0.3, 0.4], [0.0, 0.3], [0.03, 0.04]])
    >>> problem = SubspaceProblem(Gram(np.diag([0.5, 0.3, 0.2])), C, None)
    >>> solve_subspace(problem, 0.2, "l21").loadings.round(3) + 0.0
    array([[0.48 , 0.64 ],
           [0.   , 0.667],
           [0.   , 0.   ]])
    >>> solve_subspace(problem, 0.2, "l11").loadings.round(3) + 0.0
    array([[0.4  , 0.6  ],
           [0.   , 0.667],
           [0.   , 0.   ]])
    """
    gram, C = problem.gram, problem.correlation
    attempts = 1 if norm == "fro" else ATTEMPTS
    trace = Trace(tol, attempts, "certified gap")
    equal = equal_features(gram)
    A = start
    for iteration in range(1, attempts + 1):
        if norm == "fro":
            A = _frobenius(problem, penalty)
        else:
            A = sparse_regression(gram, C, 1.0, penalty, norm, A)
        A = share_equally(A, equal)
        objective, gap = penalised_gap(problem, A, penalty, norm)
        if trace.record(iteration, objective, gap=gap, measure=gap):
            break
    return trace.solution(A, objective, gap, {})


def sparse_regression(
    gram: Gram,
    correlation: FloatArray,
    target: float,
    penalty: float,
    norm: str,
    start: FloatArray | None = None,
) -> FloatArray:
    """Return the group lasso ("l21"), or a lasso for each target ("l11": groups of one column)."""
    if norm == "l21":
        fit = group_regression(gram, correlation, target=target, penalty=penalty, start=start)
        return fit.coefficients
    A = np.zeros_like(correlation)
    for j in range(A.shape[1]):
        begin = None if start is None else start[:, [j]]
        fit = group_regression(
            gram, correlation[:, [j]], target=target, penalty=penalty, start=begin
        )
        A[:, j] = fit.coefficients[:, 0]
    return A


def penalised_gap(
    problem: SubspaceProblem, A: FloatArray, penalty: float, norm: str
) -> tuple[float, float]:
    """Return the objective of A and its relative duality gap."""
    C, through = problem.correlation, problem.gram.through_samples
    if through is not None and problem.targets is not None:
        # From the residual itself: differences of large numbers would spoil a small gap.
        lack = problem.targets - through.image(A)
        R, missed = through.back(lack), float(np.sum(lack**2))
        inner = float(np.sum(A * R))
    else:
        R = C - problem.gram.apply(A)
        inner = float(np.sum(A * R))
        missed = 1.0 - float(np.sum(A * C)) - inner
    return certified(
        missed,
        inner,
        half=penalty / 2,
        size=norm_of(A, norm),
        steepest=dual_norm_of(R, norm),
    )


def _frobenius(problem: SubspaceProblem, penalty: float) -> FloatArray:
    """Solve δ‖A(δ)‖ = λ/2 with A(δ) = (S + δI)⁻¹C; the left side grows with δ."""
    V, sigma, coordinates = problem.row_space
    energy = np.sum(coordinates**2, axis=1) * sigma**2  # of VᵀC, direction by direction
    largest, half = float(np.sqrt(energy.sum())), penalty / 2
    if largest <= half:
        return np.zeros_like(problem.correlation)

    def excess(log_delta: float) -> float:
        delta = np.exp(log_delta)
        return float(delta * np.sqrt(np.sum(energy / (sigma**2 + delta) ** 2)) - half)

    lowest = half / float(np.sqrt(np.sum(energy / sigma**4)))  # as if A were as long as at δ = 0
    highest = half * float(sigma[0]) ** 2 / (largest - half)
    bracket = np.log(lowest) - 1, np.log(max(highest, lowest)) + 1
    delta = np.exp(brentq(excess, *bracket, xtol=1e-14, rtol=1e-14))
    return V @ (coordinates * (sigma / (sigma**2 + delta))[:, None])
