"""RNE: features that neighbours reconstruct well (Liu, Ye, Li, Wang, Wang)."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from jointsparse.arrays import FloatArray
from jointsparse.device import to_host
from jointsparse.graphs.discriminant import BLOCK_ENTRIES
from jointsparse.graphs.neighbours import neighbour_sets
from jointsparse.graphs.reconstruction import reconstructed, reconstruction_weights
from jointsparse.graphs.sparse_samples import stored
from jointsparse.methods.bases.graph_selector import GraphSelector, check_count, embedded
from jointsparse.methods.bases.penalty_scale import check_scale, penalty_in_units
from jointsparse.methods.bases.selector import check_stopping, is_number
from jointsparse.methods.reading.needs import Needs, copies_with_graph
from jointsparse.moments import Moments
from jointsparse.solvers.graph.neighbourhood import residual_start, solve_neighbourhood
from jointsparse.solvers.solution import Solution, closed_form
from jointsparse.solvers.subset.constraints import Constraints

AUTO_ALPHA = 1e3  # the authors' number, in units of the mean residual


class RNE(GraphSelector):
    r"""Select features by robust neighbourhood embedding.

    The weights of locally linear embedding reconstruct every sample from its k nearest neighbours;
    A = X - W_l X are the residuals. The paper's model for m features is

    .. math:: \min_{H\ge0,\ H\in\mathbb R^{p\times m}}\ \|AH\|_1 + \tfrac a4\|H^\top H-I\|_F^2 ,

    a relaxation of *choosing* m features: for a selection matrix H the objective is the sum of the
    l1 norms :math:`\|a_j\|_1` of the chosen columns. That problem has a closed form, the columns
    with the smallest norms, and ``solver="exact"`` is it: the score is
    :math:`1/(1+\|a_j\|_1/\bar a)` with the mean norm :math:`\bar a`.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbours k; at most n_samples - 1 are used.
    :shared: search
    ridge : float, default=1e-3
        Regularisation of the reconstruction weights, relative to the local variance.
    :shared: n_features_to_select
    :shared: rule_of_scores
    :shared: constraints
    solver : {"exact", "published"}, default="exact"
        "exact": the best selection. "published": the iterations of the paper, with the score
        :math:`\sum_l H_{jl}^2`.
    init : {"residual", "random"}, default="residual"
        Start of the published solver: near the best selection, where the result is the same every
        time, or random as in the paper, where the ranking is mostly that of the start.
    n_init : int, default=1
        Number of random starts, of which the best objective counts.
    alpha : float or "auto", default="auto"
        Penalty a of the published solver on the scale of ``penalty_scale``; "auto" is 1000 on the
        relative scale.
    penalty_scale : {"relative", "trace", "absolute"}, default="relative"
        Unit of ``alpha``: "relative" and "trace" divide A by its mean column norm, "absolute" takes
        A and the number as they are in the paper.
    legacy_transpose : bool, default=False
        Use X - W_lᵀX, as the authors' program does by mistake. For replication only.
    tol : float, default=1e-6
        Relative change of the objective at which the published solver stops.
    max_iter : int, default=50
        Largest number of iterations of the published solver.
    random_state : int, RandomState instance or None, default=None
        Random starts.
    :shared: scale

    Attributes
    ----------
    feature_scores_ : ndarray of shape (n_features,)
        Score of each feature, see above; 0 for constant features.
    residual_norms_ : ndarray of shape (n_features,)
        :math:`\|a_j\|_1` in units of the data.
    :shared: order
    :shared: attributes
    loadings_ : ndarray of shape (n_features, n_features_to_select)
        H, of the published solver.
    objective_ : float
        Sum of all residual norms ("exact"), or the model's objective ("published", in units of the
        mean residual norm on the relative scale).
    history_ : ndarray of shape (n_iterations,)
        Objective after each iteration.
    n_iter_ : int
        Iterations made; 1 for the closed form.
    :shared: stopping
    :shared: features_in

    Notes
    -----
    A small residual may mean a smooth feature or just a small one: standardise features with
    different units. The authors scale every *sample* to unit length first
    (:class:`sklearn.preprocessing.Normalizer`).

    References
    ----------
    Liu, Ye, Li, Wang, Wang (2020). Robust Neighborhood Embedding for Unsupervised Feature
    Selection. Knowledge-Based Systems 193.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import RNE
    >>> X = StandardScaler().fit_transform(load_iris().data)
    >>> one = RNE(n_features_to_select=2, rule="norm").fit(X)
    >>> other = RNE(n_features_to_select=2, rule="norm", solver="published", tol=1e-3).fit(X)
    >>> bool((one.get_support() == other.get_support()).all())
    True
    """

    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        search: str = "exact",
        ridge: float = 1e-3,
        n_features_to_select: int | float | str = "auto",
        rule: str = "greedy",
        constraints: Constraints | None = None,
        solver: str = "exact",
        init: str = "residual",
        n_init: int = 1,
        alpha: float | str = "auto",
        penalty_scale: str = "relative",
        legacy_transpose: bool = False,
        tol: float = 1e-6,
        max_iter: int = 50,
        random_state: Any = None,
        scale: str | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.search = search
        self.ridge = ridge
        self.n_features_to_select = n_features_to_select
        self.rule = rule
        self.constraints = constraints
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.alpha = alpha
        self.penalty_scale = penalty_scale
        self.legacy_transpose = legacy_transpose
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.scale = scale

    def _solve(self, moments: Moments) -> tuple[Solution, FloatArray]:
        check_stopping(self.tol, self.max_iter)
        check_scale(self.penalty_scale)
        for name, known in (("solver", ("exact", "published")), ("init", ("residual", "random"))):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name}={value!r} is neither {known[0]!r} nor {known[1]!r}")
        if not is_number(self.ridge) or not 0 <= float(self.ridge) < float("inf"):
            raise ValueError(f"ridge={self.ridge!r} is not a number of at least 0")
        solution, scores = super()._solve(moments)
        self.residual_norms_ = embedded(solution.state, moments.variances > 0)
        return solution, scores

    @property
    def _on_host(self) -> str:  # type: ignore[override]
        return "" if self._needs().sparse else "neighbours and solver"

    def _needs(self) -> Needs:
        exact = self.solver == "exact" and not self.legacy_transpose
        fit = copies_with_graph(8, pairs=3)
        return Needs(samples=True, fit_bytes=fit) if exact else super()._needs()

    def _solve_samples(
        self, data: Any, mean: FloatArray, unit: float
    ) -> tuple[Solution, FloatArray]:
        wanted = check_count("n_neighbors", self.n_neighbors)
        neighbours = neighbour_sets(data, wanted, search=self.search)
        weights = reconstruction_weights(data, neighbours, ridge=float(self.ridge))
        sparse = stored(data)
        if sparse is not None:
            norms = _sparse_norms(sparse.by_row, weights)
            size = np.asarray(abs(sparse.by_row).sum(axis=0)).ravel()
            return self._selection(_beyond_rounding(norms, size, len(neighbours)), unit)
        if self.legacy_transpose:  # where, unlike here, the mean matters
            residuals = data + mean - weights.T @ (data + mean)
        else:
            residuals = data - reconstructed(data, weights)
        norms = to_host(abs(residuals).sum(axis=0))
        if self.solver == "exact":
            size = to_host(abs(data).sum(axis=0))
            return self._selection(_beyond_rounding(norms, size, len(neighbours)), unit)
        typical = float(norms.mean()) or 1.0
        relative = self.penalty_scale != "absolute"
        strength = penalty_in_units(
            "alpha",
            self.alpha,
            scale=self.penalty_scale,
            auto=AUTO_ALPHA,
            unit=lambda: 1.0,
            trace=1.0,
        )
        best: Solution | None = None
        for start in self._starts(norms):
            found = solve_neighbourhood(
                residuals / typical if relative else residuals * unit,
                start,
                strength=strength,
                tol=self.tol,
                max_iter=self.max_iter,
            )
            if best is None or found.objective < best.objective:
                best = found
        assert best is not None
        energy = np.sum(best.loadings**2, axis=1)
        return replace(best, state=norms * unit), energy

    def _selection(self, norms: FloatArray, unit: float) -> tuple[Solution, FloatArray]:
        """Return the best selection, in closed form."""
        nothing = np.zeros((norms.size, 0))
        solution = closed_form(nothing, float(norms.sum()) * unit, norms * unit)
        return solution, 1 / (1 + norms / (float(norms.mean()) or 1.0))

    def _starts(self, norms: FloatArray) -> list[FloatArray]:
        wanted = self.n_features_to_select
        if isinstance(wanted, str):
            raise ValueError(
                f"n_features_to_select={wanted!r}: solver='published' fits one model for each "
                "number of features; give a number or a share, or use solver='exact'"
            )
        count = wanted if is_number(wanted, Integral) else round(float(wanted) * norms.size)
        count = int(min(max(count, 1), norms.size))
        if self.init == "residual":
            return [residual_start(norms, count)]
        random = check_random_state(self.random_state)
        shape = (norms.size, count)
        return [random.uniform(size=shape) for _ in range(check_count("n_init", self.n_init))]


def _beyond_rounding(norms: FloatArray, size: FloatArray, n_samples: int) -> FloatArray:
    """Return Σ|r - Wr|, exactly 0 where it is no more than the rounding of sums of such numbers."""
    rounding = n_samples * np.finfo(np.float64).eps * size
    return np.where(norms <= rounding, 0.0, norms)


def _sparse_norms(matrix: sp.csr_array, weights: sp.csr_array) -> FloatArray:
    """Return Σ|r - Wr| of every feature, some rows at a time; W1 = 1, so that means drop out."""
    step = max(1, BLOCK_ENTRIES * matrix.shape[0] // max(1, weights[[0]].nnz * matrix.nnz))
    total = np.zeros(matrix.shape[1])
    for first in range(0, matrix.shape[0], step):
        part = slice(first, first + step)
        total += np.asarray(abs(matrix[part] - weights[part] @ matrix).sum(axis=0)).ravel()
    return total
