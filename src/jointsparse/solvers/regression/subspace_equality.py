r"""Sparse coefficients that reproduce the targets exactly.

.. math:: \min_A\ \Omega(A) \quad\text{over}\quad XA = Y ;\qquad
          \max_\Theta\ \langle Y,\Theta\rangle \quad\text{over}\quad \Omega^*(X^\top\Theta)\le 1

is its dual. With the thin X = U diag(σ) Vᵀ the constraint is VᵀA = T, T = diag(1/σ)UᵀY: orthonormal
rows, whatever the condition of X. The method of multipliers solves it: regressions with a penalty,
each on targets to which the former residuals are added,

.. math:: A \leftarrow \arg\min_A\ \|T + M - V^\top A\|_F^2 + \lambda\,\Omega(A) ,\qquad
          M \leftarrow M + T - V^\top A ,

so zeros are exact, and 2M/λ is feasible for the dual; λ falls while progress is slow. What is
then missing from the constraint is made good on the features in use. Where XA = Y has no solution,
the constraint holds in the sense of least squares, XᵀXA = XᵀY.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.solvers.products.equal_features import equal_features
from jointsparse.solvers.products.gram import SampleGram
from jointsparse.solvers.regression.group import share_equally
from jointsparse.solvers.regression.subspace import SubspaceProblem, sparse_regression
from jointsparse.solvers.regression.subspace_norms import dual_norm_of, norm_of
from jointsparse.solvers.solution import Solution, Trace, closed_form

PENALTY = 0.01  # of the λ that empties the first regression; any λ gives the same limit
FASTER = 0.1  # λ is multiplied by this while XA = Y is approached by less than that in a step
SMALLEST = 1e-9  # of the first λ: below, the regressions would be rounding
FEASIBLE = 1e-9  # relative to ‖T‖: how far VᵀA may be off


def solve_equality(
    problem: SubspaceProblem, norm: str, *, tol: float = 1e-6, max_iter: int = 1000
) -> Solution:
    """Minimise Ω(A) over XA = Y.

    Parameters
    ----------
    problem : SubspaceProblem
        Data and targets.
    norm : {"l21", "l11", "fro"}
        Ω.
    tol : float
        Certified relative gap at which to stop.
    max_iter : int
        Largest number of regressions.

    Returns
    -------
    Solution
        A in ``loadings``; objective Ω(A). The history shows Ω(A) of each corrected A.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.products.gram import SampleGram
    >>> from jointsparse.solvers.regression.subspace_equality import solve_equality
    >>> from jointsparse.solvers.regression.subspace import SubspaceProblem
    >>> X = np.array([[1.0, 2.0, 2.0], [-1.0, -2.0, -2.0]]) / np.sqrt(18)
    >>> Y = np.array([[1.0], [-1.0]]) / np.sqrt(2)
    >>> problem = SubspaceProblem(SampleGram(X), X.T @ Y, Y)
    >>> solve_equality(problem, "l21").loadings.round(3).ravel()
    array([0.  , 0.75, 0.75])
    """
    V, sigma, coordinates = problem.row_space
    T = coordinates / sigma[:, None]
    smallest = V @ T  # the solution of smallest Frobenius norm
    if norm == "fro" or V.shape[0] == V.shape[1] or not np.any(T):
        solution = closed_form(smallest, norm_of(smallest, norm), None)
        return replace(solution, gap=0.0, gap_history=[0.0])
    equal = equal_features(problem.gram)
    rank, size = V.shape[1], float(np.linalg.norm(T))
    gram = SampleGram(V.T / np.sqrt(rank))
    C = V @ T / rank
    penalty = PENALTY * 2 * dual_norm_of(C, norm)
    smallest_penalty = SMALLEST * penalty
    M, A = np.zeros_like(T), np.zeros_like(C)
    best, best_norm, dual = smallest, norm_of(smallest, norm), 0.0
    off, multipliers = 0.0, 0.0  # what the best lacks of the constraint; length of the dual point
    trace = Trace(tol, max_iter, "certified gap")
    lack = size
    for iteration in range(1, max_iter + 1):
        shifted = T + M
        A = sparse_regression(
            gram, V @ shifted / rank, float(np.sum(shifted**2)) / rank, penalty, norm, A
        )
        missing = T - V.T @ A
        M = M + missing
        corrected = share_equally(_corrected(V, T, A, norm), equal)
        length, lacks = norm_of(corrected, norm), float(np.linalg.norm(V.T @ corrected - T))
        if length < best_norm and lacks <= FEASIBLE * size:
            best, best_norm, off = corrected, length, lacks
        steepest = dual_norm_of(V @ M, norm)
        value = float(np.sum(T * M)) / steepest if steepest > 0 else 0.0
        if value > dual:
            dual, multipliers = value, float(np.linalg.norm(M)) / steepest
        # An A that misses T by so much may be shorter than any that does not.
        gap = (max(best_norm - dual, 0.0) + off * multipliers) / best_norm
        if trace.record(iteration, best_norm, gap=gap, measure=gap):
            break
        previous, lack = lack, float(np.linalg.norm(missing))
        if lack > FASTER * previous and penalty > smallest_penalty:
            # Θ = 2M/λ stays what it is.
            penalty, M = FASTER * penalty, FASTER * M
    return trace.solution(best, best_norm, gap, {})


def _corrected(V: FloatArray, T: FloatArray, A: FloatArray, norm: str) -> FloatArray:
    """Return the A nearest to this one, with its zeros, that satisfies the constraint."""
    corrected = A.copy()
    lack = T - V.T @ A
    if norm == "l21":
        used = np.any(A != 0, axis=1)
        corrected[used] += np.linalg.lstsq(V[used].T, lack, rcond=None)[0]
    else:
        for j in range(A.shape[1]):
            used = A[:, j] != 0
            corrected[used, j] += np.linalg.lstsq(V[used].T, lack[:, j], rcond=None)[0]
    return corrected
