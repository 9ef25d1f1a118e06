r"""Sparse principal components by alternation: elastic nets for B, a Procrustes rotation for A.

.. math:: \min_{A^\top A=I,\,B}\ \|X - XBA^\top\|_F^2 + \lambda_2\|B\|_F^2
          + \sum_j\lambda_{1j}\|b_j\|_1

With A fixed the columns of B separate into elastic nets; with B fixed, A = UVᵀ from the thin SVD
UDVᵀ of S B. In the limit :math:`\lambda_2\to\infty` (B scaled by :math:`1+\lambda_2`, constants
left out) the same alternation minimises

.. math:: -2\operatorname{tr}(A^\top SB) + \|B\|_F^2 + \sum_j\lambda_{1j}\|b_j\|_1 ,

whose B-step is a soft threshold. With fixed penalties neither step can raise the objective.

A count of nonzeros instead of a penalty has its λ₁ found anew for each A. That usually settles; it
can also wander between supports, so after ``HOLD_AFTER`` iterations the supports are held and
replace the l1 penalty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jointsparse.penalties import soft_threshold
from jointsparse.solvers.elastic_net import PLACE_ON_STRETCH, elastic_net, path_to_count
from jointsparse.solvers.gram import FloatArray, Gram, IntArray, SampleGram
from jointsparse.solvers.procrustes_spaces import FeatureSpace, SampleSpace, Space
from jointsparse.solvers.solution import Solution, Trace

HOLD_AFTER = 200  # iterations; where the search for counts settles, it has by then


@dataclass
class SparsePenalty:
    """Penalties of the components, in units of the trace of S.

    Attributes
    ----------
    ridge : float
        λ₂; infinity for the limit form.
    l1 : ndarray of shape (n_components,)
        λ₁ of each component; where counts are given, those found for them.
    counts : ndarray of shape (n_components,) or None
        Number of nonzeros wanted in each component.
    supports : ndarray of shape (n_features, n_components) or None
        Once set (``hold``), these entries of B may be nonzero and there is no l1 penalty.
    """

    ridge: float
    l1: FloatArray
    counts: IntArray | None = None
    supports: NDArray[np.bool_] | None = None

    def step(self, gram: Gram, j: int, space: Space, c: FloatArray, b: FloatArray) -> FloatArray:
        """Return the best b_j for a_j (c = S a_j), starting from b; finds λ₁ for a count."""
        if self.supports is not None:
            return self._restricted(gram, np.flatnonzero(self.supports[:, j]), c)
        if np.isinf(self.ridge):
            if self.counts is not None:
                self.l1[j] = 2 * _threshold_for(c, int(self.counts[j]))
            return soft_threshold(c, self.l1[j] / 2)
        if self.counts is not None:
            count = int(self.counts[j])
            found, self.l1[j] = path_to_count(gram, c, ridge=self.ridge, count=count)
            return found
        if self.l1[j] == 0 and self.ridge == 0:
            return space.directions()[
                :, j
            ].copy()  # one of many optima where S is singular, and the one that is PCA
        return elastic_net(gram, c, ridge=self.ridge, penalty=float(self.l1[j]), start=b)

    def hold(self, supports: NDArray[np.bool_]) -> None:
        """Keep these supports from now on; they replace the l1 penalty."""
        self.supports = supports
        # Penalties that differ must not stay fixed: a strong direction would move to the
        # component that is penalised least, and leave its own empty.
        self.l1 = np.zeros_like(self.l1)

    def _restricted(self, gram: Gram, features: IntArray, c: FloatArray) -> FloatArray:
        b = np.zeros_like(c)
        if np.isinf(self.ridge):
            b[features] = c[features]
        elif features.size:
            block = gram.block(features) + self.ridge * np.eye(features.size)
            b[features] = np.linalg.lstsq(block, c[features])[0]
        return b

    def objective(self, B: FloatArray, match: float, spread: float) -> float:
        """Return the objective, for S of trace 1, from tr(AᵀSB) and tr(BᵀSB)."""
        common = float(np.sum(self.l1 * np.abs(B).sum(axis=0))) - 2 * match
        if np.isinf(self.ridge):
            return common + float(np.sum(B * B))
        return 1 + common + spread + self.ridge * float(np.sum(B * B))

    def space(self, gram: Gram, start: FloatArray) -> Space:
        """Return where A lives: over the samples where they are fewer and A itself is not asked."""
        if isinstance(gram, SampleGram) and np.isinf(self.ridge):
            return SampleSpace(gram, start, self.l1 / 2 if self.counts is None else None)
        return FeatureSpace(gram, start)


def solve_alternating(
    gram: Gram,
    start: FloatArray,
    penalty: SparsePenalty,
    *,
    tol: float,
    max_iter: int,
    loadings: FloatArray | None = None,
) -> Solution:
    """Alternate between A and B until B stands still.

    Parameters
    ----------
    gram : Gram
        Scatter matrix of trace 1.
    start : ndarray of shape (n_features, n_components)
        First A, with orthonormal columns: the principal components.
    penalty : SparsePenalty
        Penalties in the unit of ``gram``.
    tol : float
        Relative change ‖B - B_old‖ / ‖B‖ at which to stop.
    max_iter : int
        Limit on the number of alternations.
    loadings : ndarray of shape (n_features, n_components) or None
        First B, from a run with other penalties; None: zero.

    Returns
    -------
    Solution
        ``loadings`` are the columns of B at unit length (zero columns stay zero), ``objective``
        and ``history`` are in units of the data, ``state`` is (A, B, λ₁ in units of the data).
        Where counts are searched each objective belongs to the λ₁ of its own iteration.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.gram import Gram
    >>> from jointsparse.solvers.procrustes import SparsePenalty, solve_alternating
    >>> gram = Gram(np.diag([3.0, 2.0, 1.0]))
    >>> penalty = SparsePenalty(ridge=0.0, l1=np.array([0.1, 0.1]))
    >>> solution = solve_alternating(gram, np.eye(3)[:, :2], penalty, tol=1e-8, max_iter=100)
    >>> solution.loadings
    array([[1., 0.],
           [0., 1.],
           [0., 0.]])
    """
    space = penalty.space(gram, start)
    B = np.zeros_like(start) if loadings is None else loadings.copy()
    alive = np.ones(start.shape[1], dtype=bool)
    trace = Trace(tol, max_iter, "relative change of the loadings")
    hold = max(2, min(HOLD_AFTER, max_iter // 2))
    for iteration in range(1, max_iter + 1):
        if penalty.counts is not None and iteration == hold:
            penalty.hold(B != 0)  # with counts, B has all its rows
        C, B = space.correlation(B)
        before = B.copy()
        for j in np.flatnonzero(alive):
            B[:, j] = penalty.step(gram, int(j), space, C[:, j], B[:, j])
        # A component that is empty stays so: its a_j no longer means anything.
        alive &= np.any(B != 0, axis=0)
        match, spread = space.turn(B, alive)
        size = float(np.linalg.norm(B))
        change = float(np.linalg.norm(B - before)) / size if size > 0 else 0.0
        objective = penalty.objective(B, match, spread) * gram.trace
        if trace.record(iteration, objective, measure=change):
            break
    return _result(trace, gram, penalty, space.directions(), space.all_rows(B))


def continued(A: FloatArray, B: FloatArray, principal: FloatArray) -> FloatArray:
    """Return a first A for other penalties: that of a run before, its empty components refilled.

    The a_j of an empty component is what it was when that became empty. In its place come the
    directions in which the principal components (given times their eigenvalues) differ most from
    the others.
    """
    empty = ~np.any(B != 0, axis=0)
    start = A.copy()
    if np.any(empty):
        others = A[:, ~empty]
        rest = principal - others @ (others.T @ principal)
        start[:, empty] = np.linalg.svd(rest, full_matrices=False)[0][:, : int(empty.sum())]
    return start


def _result(
    trace: Trace, gram: Gram, penalty: SparsePenalty, A: FloatArray, B: FloatArray
) -> Solution:
    norms = np.linalg.norm(B, axis=0)
    loadings = B / np.where(norms > 0, norms, 1.0)
    diagnostics = {
        "empty_components": float(np.count_nonzero(norms == 0)),
        "supports_held": float(penalty.supports is not None),
    }
    state = (A, B, penalty.l1 * gram.trace)
    return trace.solution(loadings, trace.history[-1], None, diagnostics, state)


def _threshold_for(values: FloatArray, count: int) -> float:
    """Return a threshold that leaves ``count`` entries, placed as on the elastic net's path."""
    if count >= values.size:
        return 0.0
    place = values.size - count
    ordered = np.partition(np.abs(values), [place - 1, place])
    below, above = float(ordered[place - 1]), float(ordered[place])
    # Values that differ by rounding only are a tie: none of them may stay by chance.
    if above <= below * (1 + 1e-9):
        return above
    return below + PLACE_ON_STRETCH * (above - below)
