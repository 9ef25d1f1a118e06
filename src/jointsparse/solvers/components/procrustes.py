r"""Sparse principal components by alternation: elastic nets for B, a Procrustes rotation for A.

.. math:: \min_{A^\top A=I,\,B}\ \|X - XBA^\top\|_F^2 + \lambda_2\|B\|_F^2
          + \sum_j\lambda_{1j}\|b_j\|_1

With A fixed the columns of B separate into elastic nets; with B fixed, A = UVᵀ from the thin SVD
UDVᵀ of S B. In the limit :math:`\lambda_2\to\infty` (B scaled by :math:`1+\lambda_2`, constants
left out) the same alternation minimises

.. math:: -2\operatorname{tr}(A^\top SB) + \|B\|_F^2 + \sum_j\lambda_{1j}\|b_j\|_1 ,

whose B-step is a soft threshold. With fixed penalties neither step can raise the objective.

Counts of nonzeros can stand in place of the l1 penalty
(:mod:`jointsparse.solvers.components.supports`); then too no step can raise the objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import like, to_host
from jointsparse.linalg import array_namespace, length
from jointsparse.penalties import soft_threshold
from jointsparse.solvers.components.procrustes_spaces import FeatureSpace, SampleSpace, Space
from jointsparse.solvers.components.procrustes_steps import Extrapolation
from jointsparse.solvers.components.supports import QUIET, Supports
from jointsparse.solvers.products.gram import Gram
from jointsparse.solvers.regression.elastic_net import elastic_net
from jointsparse.solvers.regression.elastic_net_batches import ElasticNets
from jointsparse.solvers.solution import Solution, Trace

SMALLEST = 1e-9  # of the λ₁ that empties a component: smaller ones are lost in rounding


@dataclass
class SparsePenalty:
    """Penalties of the components, in units of the trace of S.

    Attributes
    ----------
    ridge : float
        λ₂; infinity for the limit form.
    l1 : ndarray of shape (n_components,)
        λ₁ of each component; zero where counts are given.
    counts : ndarray of shape (n_components,) or None
        Number of nonzeros of each component, in place of the l1 penalty.
    """

    ridge: float
    l1: FloatArray
    counts: IntArray | None = None

    def objective(self, B: FloatArray, match: float, spread: float) -> float:
        """Return the objective, for S of trace 1, from tr(AᵀSB) and tr(BᵀSB)."""
        common = -2 * match
        if self.counts is None:
            common += float(self.l1 @ np.abs(B).sum(axis=0))
        square = float(np.vdot(B, B))
        if np.isinf(self.ridge):
            return common + square
        return 1 + common + spread + self.ridge * square

    def space(self, gram: Gram, start: Array) -> Space:
        """Return where A lives: over the samples where they are fewer and A itself is not asked."""
        through = gram.through_samples
        if through is not None and gram.of_array and np.isinf(self.ridge):
            return SampleSpace(through, start, self.l1 / 2 if self.counts is None else None)
        return FeatureSpace(gram, start)

    def steps(self, gram: Gram, space: Space, shape: tuple[int, int]) -> Steps:
        """Return how B follows A."""
        if self.counts is not None:
            return CountedSteps(Supports(gram, self.ridge, self.counts))
        return PenalisedSteps(self, ElasticNets(gram, self.ridge, shape), space)


class Steps(Protocol):
    """How B follows A."""

    @property
    def smooth(self) -> bool:
        """Whether A may be extrapolated after the last step."""

    def best(
        self, C: FloatArray, B: FloatArray, columns: IntArray
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return the best B for A (C = S A), and S B where known, starting from B."""

    def at_rest(self) -> bool:
        """Return whether all is done once B stands still; if not, the next step does it."""


class PenalisedSteps:
    """Soft thresholds, or elastic nets."""

    smooth = True

    def __init__(self, penalty: SparsePenalty, nets: ElasticNets, space: Space) -> None:
        self.penalty, self.nets, self.space = penalty, nets, space

    def best(
        self, C: FloatArray, B: FloatArray, columns: IntArray
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return the best B for A (C = S A), and S B where known, starting from B."""
        ridge, l1 = self.penalty.ridge, self.penalty.l1
        if np.isfinite(ridge) and (ridge > 0 or l1.all()):
            return self.nets.at_penalties(C, B, l1, columns)
        B = B.copy()
        for j in columns:
            if np.isinf(ridge):
                B[:, j] = soft_threshold(C[:, j], l1[j] / 2)
            elif l1[j] > 0:
                B[:, j] = elastic_net(
                    self.nets.gram, C[:, j], ridge=ridge, penalty=float(l1[j]), start=B[:, j]
                )
            else:  # one of many optima where S is singular, and the one that is PCA
                B[:, j] = self.space.directions()[:, j]
        return B, None

    def at_rest(self) -> bool:
        """Return whether all is done once B stands still: yes."""
        return True


class CountedSteps:
    """So many nonzeros: supports are searched, then held until B stands still, then looked at."""

    def __init__(self, supports: Supports) -> None:
        self.supports, self.search = supports, True

    @property
    def smooth(self) -> bool:
        """Whether A may be extrapolated after the last step."""
        return not self.search or (np.isinf(self.supports.ridge) and self.supports.quiet > 0)

    def best(
        self, C: FloatArray, B: FloatArray, columns: IntArray
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return the best B for A (C = S A), and S B where known."""
        found = self.supports.step(C, B, columns, search=self.search)
        self.search = not self.supports.settled or np.isinf(self.supports.ridge)
        return found

    def at_rest(self) -> bool:
        """Return whether the supports have been looked at; if not, the next step does it."""
        if self.search or self.supports.quiet > QUIET:
            return self.supports.quiet > 0
        self.supports.quiet, self.search = QUIET, True
        return False


def solve_alternating(
    gram: Gram,
    start: Array,
    penalty: SparsePenalty,
    *,
    tol: float,
    max_iter: int,
    loadings: FloatArray | None = None,
) -> Solution[tuple[Callable[[], FloatArray], Array, FloatArray]]:
    """Alternate between A and B until B stands still.

    Parameters
    ----------
    gram : Gram
        Scatter matrix of trace 1.
    start : array of shape (n_features, n_components)
        First A, with orthonormal columns: the principal components. In the limit form it may be on
        the device of the samples, where the loadings are then, too.
    penalty : SparsePenalty
        Penalties in the unit of ``gram``.
    tol : float
        Relative change ‖B - B_old‖ / ‖B‖, and violation of the conditions of optimality, at which
        to stop.
    max_iter : int
        Limit on the number of alternations.
    loadings : ndarray of shape (n_features, n_components) or None
        First B, from a run with other penalties; None: zero.

    Returns
    -------
    Solution
        ``loadings`` are the columns of B at unit length (zero columns stay zero), ``objective``
        and ``history`` are in units of the data, ``state`` is (a function that returns A, B, λ₁ in
        units of the data): A may take one more pass over the samples, and few want it. Where counts
        are searched each objective belongs to the λ₁ of its own iteration.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.products.gram import Gram
    >>> from jointsparse.solvers.components.procrustes import SparsePenalty, solve_alternating
    >>> gram = Gram(np.diag([3.0, 2.0, 1.0]))
    >>> penalty = SparsePenalty(ridge=0.0, l1=np.array([0.1, 0.1]))
    >>> solution = solve_alternating(gram, np.eye(3)[:, :2], penalty, tol=1e-8, max_iter=100)
    >>> solution.loadings
    array([[1., 0.],
           [0., 1.],
           [0., 0.]])
    """
    space = penalty.space(gram, start)
    steps = penalty.steps(gram, space, start.shape)
    B = array_namespace(start).zeros_like(start) if loadings is None else loadings.copy()
    alive = np.ones(start.shape[1], dtype=bool)
    trace = Trace(tol, max_iter, "relative change of the loadings")
    faster = Extrapolation(space)
    for iteration in range(1, max_iter + 1):
        C, before = space.correlation(B)
        B, image = steps.best(C, before, alive.nonzero()[0])
        # A component that is empty stays so: its a_j no longer means anything.
        alive &= B.any(axis=0)
        match, spread = space.turn(B, alive, image)
        size = length(B)
        change = length(B - before) / size if size > 0 else 0.0
        objective = penalty.objective(B, match, spread) * gram.trace
        if faster.failed(objective):
            trace.record(iteration, trace.history[-1], measure=float("inf"))
            continue
        change = max(change, faster.residual)
        if change <= tol:  # B and A stand still; whether they are optimal costs one product more
            violation = _violation(gram, penalty, space.pull(), space.all_rows(B))
            change = max(change, violation)
        if trace.record(iteration, objective, measure=change) and steps.at_rest():
            break
        # Two more may be needed: one to see that the step was for the worse, one in its place.
        further = steps.smooth and iteration + 2 <= max_iter
        faster.step(objective, alive, extrapolate=further)
    B = space.all_rows(B)
    if not trace.converged:
        violation = _violation(gram, penalty, space.pull(), B)
    return _result(trace, gram, penalty, space, B, violation)


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


def _violation(gram: Gram, penalty: SparsePenalty, C: Array, B: Array) -> float:
    """Return by how much the conditions of optimality are missed, given C = S A and B.

    For every b_j, with r = S a_j - S b_j - λ₂b_j (in the limit S a_j - b_j): r = ½λ₁ sign(b) where
    b is not zero, |r| ≤ ½λ₁ elsewhere; relative to ½λ₁, or, without such a penalty, to the largest
    entry of S a_j. With counts the second does not apply: the other features are held at zero.
    Empty components, whose a_j means nothing, are left out. A is the best for B as it was computed.
    """
    xp, used, half = array_namespace(B), B != 0, penalty.l1 / 2
    rest = C - (B if np.isinf(penalty.ridge) else gram.apply(B) + penalty.ridge * B)
    inside = abs(rest - like(half, B) * xp.sign(B))
    outside = abs(rest) - like(half, B)
    missed = xp.where(used, inside, 0.0 if penalty.counts is not None else outside)
    most, largest = to_host(xp.max(missed, axis=0)), to_host(xp.max(abs(C), axis=0))
    alive = to_host(xp.any(used, axis=0))
    units = np.where(half > SMALLEST * largest, half, largest)[alive]
    return float(np.max(most[alive] / units, initial=0.0))


def _result(
    trace: Trace,
    gram: Gram,
    penalty: SparsePenalty,
    space: Space,
    B: Array,
    violation: float,
) -> Solution:
    norms = to_host(array_namespace(B).linalg.vector_norm(B, axis=0))
    loadings = B / like(np.where(norms > 0, norms, 1.0), B)
    diagnostics = {
        "empty_components": float(np.count_nonzero(norms == 0)),
        "optimality": violation,
        "optimality_bound": trace.tol,
    }
    state = (space.directions, B, penalty.l1 * gram.trace)
    return trace.solution(loadings, trace.history[-1], None, diagnostics, state)
