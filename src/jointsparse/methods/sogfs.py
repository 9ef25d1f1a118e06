"""SOGFS: features and a clustered graph learned together (Nie, Zhu, Li)."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.graphs.adaptive import initial_weights
from jointsparse.graphs.neighbours import nearest_neighbours
from jointsparse.linalg import column_norms
from jointsparse.methods.bases.graph_selector import (
    AUTO_CLUSTERS,
    GraphSelector,
    check_count,
    check_power,
    row_penalty,
    twin_labels,
)
from jointsparse.methods.bases.selector import check_stopping
from jointsparse.moments import Moments
from jointsparse.solvers.graph.adaptive import solve_adaptive_graph
from jointsparse.solvers.graph.reweighted_eigen import scores_of
from jointsparse.solvers.solution import Solution
from jointsparse.solvers.subset.constraints import Constraints


class SOGFS(GraphSelector):
    r"""Select features while learning a graph with as many components as there are clusters.

    For X (n samples × p features) with columns centred and scaled to unit length, solve

    .. math:: \min_{S,F,W}\ \operatorname{tr}(W^\top X^\top L_SXW) + \tfrac\gamma2\|S\|_F^2
              + \lambda\operatorname{tr}(F^\top L_SF) + g\sum_j\|w_j\|_2^p

    over S ≥ 0 with rows that sum to 1, :math:`F^\top F=I_c` and :math:`W^\top W=I_m`, where L_S is
    the Laplacian of (S + Sᵀ)/2 and :math:`w_j` the row of W that belongs to feature j. γ is set so
    that about k neighbours have a positive weight; λ is adapted until the graph has c connected
    components. The score of a feature is :math:`\|w_j\|^2`, between 0 and 1; the scores sum to m.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        Number of components c of the graph. "auto" is 5, or a third of the number of samples.
    n_components : int or "auto", default="auto"
        Number of columns m of W. "auto" is c - 1, or one less than the number of features that
        vary.
    alpha : float or "auto", default="auto"
        Sparsity penalty g on the scale of ``penalty_scale``; "auto" is 0.3 on the relative scale,
        where 0.03 to 3 is the useful range.
    p : float, default=0.5
        Exponent of the row norms, above 0 and at most 1.
    n_neighbors : int, default=5
        Number of neighbours k; at most n_samples - 2 are used.
    :shared: n_features_to_select
    :shared: rule_of_scores
    :shared: constraints
    penalty_scale : {"relative", "trace", "absolute"}, default="relative"
        Unit of ``alpha``. "relative": the g at which penalty and trace weigh the same for a W with
        equal rows, on the first graph. "trace": multiples of tr(XᵀL_S X) on the first graph.
        "absolute": the number of the authors' program (half of the paper's).
    tol : float, default=1e-4
        Largest change of a score at which the search for W stops; after the last alternation also
        violation of its conditions of optimality (see ``diagnostics_``).
    max_iter : int, default=50
        Largest number of alternations.
    :shared: scale

    Attributes
    ----------
    feature_scores_ : ndarray of shape (n_features,)
        Squared row norms of W; 0 for rows that are zero up to the smoothing (1e-8).
    :shared: order
    :shared: attributes
    loadings_ : ndarray of shape (n_features, n_components)
        W. More columns where eigenvalues tie.
    graph_ : csr_array of shape (n_samples, n_samples)
        S.
    objective_ : float
        The objective above at ``graph_``, ``loadings_`` and the last λ, with the best F: the term
        in F is λ times the sum of the c smallest eigenvalues of L_S, which is 0 where the graph has
        c components.
    history_ : ndarray of shape (n_iterations,)
        The same after each alternation; each belongs to its own λ, so it may rise. After the last,
        W goes on until it is stationary, so that ``objective_`` may be lower.
    alpha_, graph_penalty_, cluster_penalty_ : float
        g, γ and the last λ.
    n_iter_ : int
        Alternations made.
    converged_ : bool
        Whether the graph has c components, where the alternation ends as published, and W is
        stationary on it.
    stopping_reason_ : str
        Why the solver stopped.
    diagnostics_ : dict
        Numbers of components of the graph and of nonzero rows. "optimality": how far W is from
        stationary on ``graph_``, as in :class:`UDFS`. "optimality_bound": what it is not above
        where ``converged_``, ``tol``. "graph_change": ‖S' - S‖/‖S‖ for the S' that is best for the
        returned W among the same neighbours; the alternation, as published, does not wait for it to
        vanish.
    :shared: features_in

    Notes
    -----
    Features are standardised by the method. Directions in which the data do not vary cost nothing,
    so features that depend linearly on each other are rewarded. Constant features are left out
    beforehand (score 0); a warning tells of features that are multiples of each other. With more
    features than samples W is not unique in the first eigenproblem: all of the null space takes
    part equally, so that the result does not depend on the order of the features.

    References
    ----------
    Nie, Zhu, Li (2016). Unsupervised Feature Selection with Structured Graph Optimization. AAAI,
    1302-1308. With exponent p: Nie, Zhu, Li (2021), IEEE TKDE 33(3).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from jointsparse import SOGFS
    >>> selector = SOGFS(n_clusters=2, n_features_to_select=2).fit(load_iris().data)
    >>> int(selector.diagnostics_["components"])
    2
    """

    _rewards_duplicates = True
    _scale_free = True

    def _stays(self, moments: Moments) -> bool:
        return not moments.is_wide

    def __init__(
        self,
        *,
        n_clusters: int | str = "auto",
        n_components: int | str = "auto",
        alpha: float | str = "auto",
        p: float = 0.5,
        n_neighbors: int = 5,
        n_features_to_select: int | float | str = "auto",
        rule: str = "greedy",
        constraints: Constraints | None = None,
        penalty_scale: str = "relative",
        tol: float = 1e-4,
        max_iter: int = 50,
        scale: str | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.alpha = alpha
        self.p = p
        self.n_neighbors = n_neighbors
        self.n_features_to_select = n_features_to_select
        self.rule = rule
        self.constraints = constraints
        self.penalty_scale = penalty_scale
        self.tol = tol
        self.max_iter = max_iter
        self.scale = scale

    def _solve_samples(
        self, data: Any, mean: FloatArray, unit: float
    ) -> tuple[Solution, FloatArray]:
        check_stopping(self.tol, self.max_iter)
        power = check_power(self.p)
        data = data / column_norms(data)
        n, p = data.shape
        clusters = self._clusters(n)
        components = self._components(clusters, p)
        # One neighbour beyond the k sets the scale of the weights.
        wanted = max(1, min(check_count("n_neighbors", self.n_neighbors), n - 2))
        candidates, distances = nearest_neighbours(data, wanted + 1)
        weights, self.graph_penalty_ = initial_weights(distances, wanted)
        candidates, distances = candidates[:, :wanted], distances[:, :wanted]
        # tr(XᵀLX) as a sum of squares: exactly 0, not rounding of any sign, where neighbours are
        # equal throughout.
        trace = float(np.sum(weights * distances)) / 2
        self.alpha_ = row_penalty(
            self.alpha,
            scale=self.penalty_scale,
            power=power,
            shape=(p, components),
            energy=trace * components / p,
            trace=trace,
        )
        if self.alpha_ == 0:
            raise ValueError(f"alpha={self.alpha!r} must be above 0: without it W is not unique")
        solution = solve_adaptive_graph(
            data,
            candidates,
            weights,
            n_clusters=clusters,
            n_components=components,
            strength=self.graph_penalty_,
            penalty=self.alpha_,
            power=power,
            tol=self.tol,
            max_iter=self.max_iter,
            twins=twin_labels(data),
        )
        leverages, self.graph_, self.cluster_penalty_ = solution.state
        return solution, scores_of(leverages)

    def _clusters(self, n: int) -> int:
        if isinstance(self.n_clusters, str) and self.n_clusters == "auto":
            return max(1, min(AUTO_CLUSTERS, n // 3))
        count = check_count("n_clusters", self.n_clusters)
        if count > n // 2:
            raise ValueError(
                f"n_clusters={count} is too many: each component of the graph has at least two of "
                f"the {n} samples"
            )
        return count

    def _components(self, clusters: int, p: int) -> int:
        if isinstance(self.n_components, str) and self.n_components == "auto":
            return max(1, min(clusters - 1, p - 1))
        count = check_count("n_components", self.n_components)
        if count > p:
            raise ValueError(
                f"n_components={count} is more than the {p} features that vary; lower it"
            )
        return count
