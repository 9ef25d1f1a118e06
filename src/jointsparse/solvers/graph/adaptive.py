r"""Feature selection with a graph that is learned along with it: the kernel of SOGFS.

.. math:: \min_{S,F,W}\ \operatorname{tr}(W^\top X^\top L_SXW) + \tfrac\gamma2\|S\|_F^2
          + \lambda\operatorname{tr}(F^\top L_SF) + g\sum_j\|w_j\|^q

over rows of S on the simplex, :math:`F^\top F=I_c`, :math:`W^\top W=I_m`, with L_S the Laplacian of
(S + Sᵀ)/2. The term in F asks for c connected components; λ is doubled while there are fewer and
halved while there are more. Every row of S has k candidates: the neighbours in X at first, those in
XW after ``FIXED`` iterations.

Where the graph has more than c components, or eigenvalues of the W-step tie, F and W are not
unique; the mean over all choices is taken, which depends on no basis.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.eigen.block_krylov import largest_pairs, widened
from jointsparse.graphs.adaptive import adapted_weights
from jointsparse.graphs.laplacian import degrees, laplacian, rows_to_csr, symmetrised
from jointsparse.graphs.neighbours import nearest_neighbours
from jointsparse.graphs.sparse_samples import times
from jointsparse.linalg import lowest_eigenpairs
from jointsparse.solvers.graph.quadratic_forms import GUARDS, Subspace, form_of
from jointsparse.solvers.graph.reweighted_eigen import (
    NEGLIGIBLE,
    reweighted_passes,
    row_norms_sum,
    with_accurate_rows,
)
from jointsparse.solvers.solution import Solution, Trace

FIXED = 5  # iterations with the first candidates
DOUBLINGS = 500  # of λ, and halvings: it and its products with distances stay finite numbers
NO_EDGE = 1e-10  # weight (rows sum to 1) that joins nothing
ROUNDING = 1e-8  # length of a direction of XW, where columns of X have length 1
PASSES = 100  # eigenproblems in one W-step; with much noise, features leave one by one, in 40 or so
MORE_PASSES = 500  # of the last one, until it is stationary; ten are usual
DENSE_UP_TO = 300  # samples for which the eigenvectors of the graph come from a full matrix
FACTOR_UP_TO = 4000  # samples for which a sparse factorisation of the Laplacian stays sparse enough


def solve_adaptive_graph(
    data: Any,
    candidates: IntArray,
    weights: FloatArray,
    *,
    n_clusters: int,
    n_components: int,
    strength: float,
    penalty: float,
    power: float,
    tol: float,
    max_iter: int,
    twins: IntArray | None = None,
) -> Solution[tuple[FloatArray, sp.csr_array, float]]:
    """Alternate between the graph, its indicators and the projection.

    Parameters
    ----------
    data : array of shape (n_samples, n_features)
        X, on the host or on a device.
    candidates, weights : ndarray of shape (n_samples, k)
        Neighbours in X and the first rows of S.
    n_clusters, n_components : int
        c and m.
    strength : float
        γ; also the first λ.
    penalty, power : float
        g > 0 and q.
    tol : float
        Largest change of a ‖w_j‖² at which a W-step stops.
    max_iter : int
        Limit on the number of alternations.
    twins : ndarray of shape (n_features,) or None
        Labels of features that are equal.

    Returns
    -------
    Solution
        ``loadings`` is W, ``state`` is (leverages, S, λ). It has converged when the graph has c
        components, as published, and W is stationary on it. The objective is that of the best F;
        that of each iteration belongs to its own λ, so it may rise.
    """
    trade = strength
    graph, count = _graph(candidates, weights)
    matrix = laplacian(graph)
    indicators = component_indicators(graph, n_clusters, matrix)
    options = (n_components, penalty, power, tol, twins)
    space = _Projection(data, matrix, *options).space
    trace = Trace(0.5, max_iter, "components too many or too few,")
    for iteration in range(1, max_iter + 1):
        embedding = _without_rounding(times(data, space.vectors))
        if iteration > FIXED and np.any(embedding):
            candidates = nearest_neighbours(embedding, candidates.shape[1])[0]
        weights = adapted_weights(embedding, indicators, candidates, trade=trade, strength=strength)
        graph, count = _graph(candidates, weights)
        matrix = laplacian(graph)
        projection = _Projection(data, matrix, *options)
        space = projection.space
        best = indicators
        if count <= n_clusters:
            best = component_indicators(graph, n_clusters, matrix)
        # With as many components as wanted or more, the best F costs nothing.
        smooth = float(np.sum(best * (matrix @ best))) if count < n_clusters else 0.0
        rest = strength / 2 * float(np.sum(weights**2)) + trade * smooth
        objective = projection.objective + rest
        distance = abs(count - n_clusters)
        # Never after one step: the indicators have not seen a learned graph yet.
        last = distance if iteration > 1 else distance + 1
        if trace.record(iteration, objective, measure=last) or iteration == max_iter:
            break
        if count < n_clusters:
            trade = min(2 * trade, strength * 2.0**DOUBLINGS)
        elif count > n_clusters:  # and the indicators stay: those of this graph are not unique
            trade = max(trade / 2, strength * 2.0**-DOUBLINGS)
        indicators = best
    space = projection.settled()
    embedding = _without_rounding(times(data, space.vectors))
    again = adapted_weights(embedding, best, candidates, trade=trade, strength=strength)
    diagnostics = {
        "components": float(count),
        "rows": float(np.count_nonzero(space.leverages > NEGLIGIBLE)),
        "optimality": projection.violation,
        "optimality_bound": tol,
        "graph_change": float(np.linalg.norm(again - weights) / np.linalg.norm(weights)),
    }
    state = (space.leverages, rows_to_csr(candidates, weights), trade)
    solution = trace.solution(space.vectors, projection.objective + rest, None, diagnostics, state)
    return _judged(solution, projection, n_clusters)


def _judged(solution: Solution, projection: _Projection, n_clusters: int) -> Solution:
    """Say why the run ended; it has not converged where W is not stationary."""
    count = int(solution.diagnostics["components"])
    reason = f"the graph has {count} components after {solution.n_iter} iterations"
    if not solution.converged:
        reason += f", not {n_clusters} (penalties that overshoot in turn may never agree on it)"
    elif projection.violation > projection.tol:
        reason += (
            f", but W misses its conditions of optimality by {projection.violation:.1e}, more than "
            f"the tolerance {projection.tol:.1e}"
        )
        solution = replace(solution, converged=False)
    return replace(solution, reason=reason)


def component_indicators(graph: sp.csr_array, count: int, matrix: sp.csr_array) -> FloatArray:
    """Return F: the eigenvectors of the ``count`` smallest eigenvalues of the Laplacian.

    The indicators of connected components, which have eigenvalue 0, are known; where there are
    more of them than ``count``, all take part with an equal share. Others are looked for among the
    vectors orthogonal to them.
    """
    n = graph.shape[0]
    found, member = connected_components(graph, directed=False)
    size = np.bincount(member)
    null = np.zeros((n, found))
    null[np.arange(n), member] = 1 / np.sqrt(size[member])
    if found >= count:
        return null * np.sqrt(count / found)
    rest = min(count, n) - found
    if n <= DENSE_UP_TO:
        full = matrix.toarray() + 4 * float(degrees(graph).max()) * (null @ null.T)
        return np.column_stack([null, lowest_eigenpairs(full, rest)[1][:, :rest]])

    means = sp.csr_array((1 / size[member], (member, np.arange(n))))

    def outside(block: FloatArray) -> FloatArray:
        # Faster than with null, which is dense: subtract the mean of each component.
        return np.asarray(block - (means @ block)[member])

    if n <= FACTOR_UP_TO:
        factor = splu(sp.csc_array(matrix + 1e-6 * sp.eye_array(n)), permc_spec="MMD_AT_PLUS_A")

        def apply(block: FloatArray) -> FloatArray:
            return outside(factor.solve(np.ascontiguousarray(outside(block))))
    else:
        shift = 2 * float(degrees(graph).max())

        def apply(block: FloatArray) -> FloatArray:
            inside = outside(block)
            return outside(shift * inside - matrix @ inside)

    start = outside(widened(np.empty((n, 0)), rest + GUARDS))
    pairs = largest_pairs(apply, start, rest, tol=1e-8)
    return np.column_stack([null, pairs.vectors[:, :rest]])


def _graph(candidates: IntArray, weights: FloatArray) -> tuple[sp.csr_array, int]:
    """Return (S + Sᵀ)/2 without its negligible weights, and its number of components."""
    rows = rows_to_csr(candidates, np.where(weights > NO_EDGE, weights, 0.0))
    graph = symmetrised(rows, combine="mean")
    return graph, int(connected_components(graph, directed=False)[0])


def _without_rounding(embedding: FloatArray) -> FloatArray:
    """Return the embedding less the directions in which nothing but rounding is left.

    Features that depend on each other make many of them, and near them all samples would be
    neighbours by chance.
    """
    left, sizes, _ = np.linalg.svd(embedding, full_matrices=False)
    return np.asarray(left * np.where(sizes > ROUNDING, sizes, 0.0))


class _Projection:
    """The W-step on one graph, from the start that was published, and how it would go on."""

    def __init__(
        self,
        data: Any,
        matrix: sp.csr_array,
        count: int,
        penalty: float,
        power: float,
        tol: float,
        twins: IntArray | None,
    ) -> None:
        self.penalty, self.power, self.tol = penalty, power, tol
        self.form = form_of(data, matrix, count)
        # All of them as published: where they end decides on the next graph, and so on the path. A
        # search for a stationary W between them took a third of the time, ended each step as low,
        # and the whole up to 12 % higher on some tables. Passes that the derivative foretells,
        # followed at once, left a third of them and ended each step as low, too, but took 0.9 of
        # the time on 55 tables of up to 250 by 150 numbers, and changed the path of half of them
        # (0.68 to 1.32 of the objective, 1.003 in the mean; a tolerance of 1e-5: 0.81 to 1.31).
        self.passes = reweighted_passes(self.form, count, penalty, power, twins, plain=PASSES)
        for number in range(1, PASSES + 1):
            self.at = next(self.passes)
            # The first space of wide data is known by its leverages only.
            if self.at.change <= tol and number > 1:
                break

    @property
    def space(self) -> Subspace:
        return self.at.space

    @property
    def violation(self) -> float:
        return self.at.violation

    @property
    def objective(self) -> float:
        """tr(WᵀXᵀLXW) + g Σ‖w_j‖^q."""
        accurate = self.space._replace(vectors=with_accurate_rows(self.form, self.at))
        return accurate.energy + self.penalty * row_norms_sum(accurate, self.power)

    def settled(self) -> Subspace:
        """Return the space where it is stationary: the last one no longer decides on a graph."""
        for _ in range(MORE_PASSES):
            if self.at.measure <= self.tol:
                break
            self.at = next(self.passes)
        return self.space._replace(vectors=with_accurate_rows(self.form, self.at))
