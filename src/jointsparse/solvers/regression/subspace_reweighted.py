r"""The source's algorithms for sparse subspace learning: reweighted least squares.

.. math:: A \leftarrow G^{-1}X^\top(XG^{-1}X^\top + \tfrac{\lambda}{2}I)^{-1}Y
          \quad\text{(λ = 1/μ: Algorithm 2)},\qquad
          A \leftarrow G^{-1}X^\top(XG^{-1}X^\top)^{+}Y \quad\text{(Algorithm 1)} ,

with :math:`G^{-1} = \operatorname{diag}(\|a_i\|)` (for Σ|a_ij|: diag(\|a_ij\|), another for each
column; for ‖A‖_F: ‖A‖_F I). The source's equation (17) has 1/μ where 1/(2μ) is right. Each pass
minimises a quadratic function above the objective, so the objective never rises, but rows become
zero only in the limit.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from jointsparse.arrays import FloatArray
from jointsparse.linalg import by_cholesky, solve_positive
from jointsparse.solvers.regression.subspace import SubspaceProblem, penalised_gap
from jointsparse.solvers.regression.subspace_norms import lengths_of, norm_of
from jointsparse.solvers.solution import Solution, Trace

DEPENDENT = 1e-14  # of the largest eigenvalue of XG⁻¹Xᵀ: below, the pseudo-inverse leaves it out


def solve_subspace_reweighted(
    problem: SubspaceProblem,
    penalty: float | None,
    norm: str,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> Solution:
    """Minimise ‖Y - XA‖² + penalty Ω(A), or Ω(A) over XA = Y where ``penalty`` is None.

    Parameters
    ----------
    problem : SubspaceProblem
        Data and targets.
    penalty : float or None
        λ > 0; None for the constraint.
    norm : {"l21", "l11", "fro"}
        Ω.
    tol : float
        Relative change of A at which to stop.
    max_iter : int
        Largest number of passes.

    Returns
    -------
    Solution
        A in ``loadings``, without exact zeros; the gap of what was reached, where λ is given.
    """
    V, sigma, right = problem.row_space
    if penalty is None:
        data, right = V.T, right / sigma[:, None]
    else:
        data = sigma[:, None] * V.T
    lengths = np.ones((data.shape[1], 1))
    trace = Trace(tol, max_iter, "relative change of A")
    A = np.zeros_like(problem.correlation)
    for iteration in range(1, max_iter + 1):
        previous = A
        A = _pass(data, right, lengths, penalty)
        objective = norm_of(A, norm)
        if penalty is not None:
            lack = 1 - np.sum(problem.row_space[2] ** 2) + np.sum((right - data @ A) ** 2)
            objective = float(lack) + penalty * objective
        lengths = lengths_of(A, norm)
        size = float(np.linalg.norm(A))
        change = float(np.linalg.norm(A - previous)) / size if size > 0 else 0.0
        if trace.record(iteration, objective, measure=change):
            break
    gap = None if penalty is None else penalised_gap(problem, A, penalty, norm)[1]
    diagnostics = {} if gap is None else {"duality_gap": gap}
    return trace.solution(A, objective, None, diagnostics)


def _pass(
    data: FloatArray, right: FloatArray, lengths: FloatArray, penalty: float | None
) -> FloatArray:
    if lengths.shape[1] > 1:
        columns = [
            _pass(data, right[:, [j]], lengths[:, [j]], penalty) for j in range(right.shape[1])
        ]
        return np.column_stack(columns)
    weighted = data * lengths[:, 0]
    inner = weighted @ data.T
    if penalty is not None:
        inner[np.diag_indices_from(inner)] += penalty / 2
        return weighted.T @ solve_positive(inner, right, by_cholesky)
    values, vectors = eigh(inner, check_finite=False)
    useful = values > DEPENDENT * max(values[-1], np.finfo(float).tiny)
    vectors = vectors[:, useful]
    return weighted.T @ (vectors @ ((vectors.T @ right) / values[useful][:, None]))
