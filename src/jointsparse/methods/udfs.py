"""UDFS: discriminative features without labels (Yang, Shen, Ma, Huang, Zhou)."""

from __future__ import annotations

from typing import Any

from jointsparse.arrays import FloatArray
from jointsparse.graphs.discriminant import discriminant_matrix
from jointsparse.graphs.neighbours import nearest_neighbours
from jointsparse.methods.bases.graph_selector import (
    AUTO_CLUSTERS,
    GraphSelector,
    check_count,
    row_penalty,
    twin_labels,
)
from jointsparse.methods.bases.penalty_scale import ROUNDING, check_scale
from jointsparse.methods.bases.selector import check_stopping, is_number
from jointsparse.moments import Moments
from jointsparse.solvers.graph.quadratic_forms import form_of
from jointsparse.solvers.graph.reweighted_eigen import scores_of, solve_reweighted_eigen
from jointsparse.solvers.solution import Solution
from jointsparse.solvers.subset.constraints import Constraints


class UDFS(GraphSelector):
    r"""Select features by local discriminant analysis with a row-sparse projection.

    Each sample i and its k nearest neighbours form a neighbourhood of K = k + 1 samples; locally
    centred they are the rows of :math:`Z_i`. With :math:`H_K = I - 11^\top/K` and the selector
    :math:`S_i` of these samples, solve

    .. math:: \min_{W^\top W=I_c}\ \operatorname{tr}(W^\top M W) + g\sum_j\|w_j\|_2 ,\qquad
              M = X^\top\Bigl[\sum_i S_iH_K(Z_iZ_i^\top+\lambda I)^{-1}H_KS_i^\top\Bigr]X ,

    where :math:`w_j` is the row of W that belongs to feature j. The score of a feature is
    :math:`\|w_j\|^2`, between 0 and 1; the scores sum to c.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        Number of columns c of W, in the paper the number of clusters. "auto" is 5, or one less
        than the number of features that vary.
    alpha : float or "auto", default="auto"
        Sparsity penalty g on the scale of ``penalty_scale``; "auto" is 0.3 on the relative scale,
        where 0.03 to 3 is the useful range.
    ridge : float, default=1.0
        Regularisation λ of the neighbourhoods: a multiple of their mean variance tr(Z_i Z_iᵀ)/K
        or, on the absolute scale, the number of the paper.
    n_neighbors : int, default=5
        Number of neighbours k; at most n_samples - 1 are used.
    :shared: search
    :shared: n_features_to_select
    :shared: rule_of_scores
    :shared: constraints
    penalty_scale : {"relative", "trace", "absolute"}, default="relative"
        Unit of ``alpha``. "relative": the g at which penalty and trace weigh the same for a W with
        equal rows, (c/p) tr M / √(pc). "trace": multiples of tr M. "absolute": the number of the
        paper.
    tol : float, default=1e-4
        Largest change of a score, and violation of the conditions of optimality (see
        ``diagnostics_``), at which to stop.
    max_iter : int, default=1000
        Largest number of eigenproblems. (The authors' program makes 20. Up to 30 are made as
        published; where more are allowed, a search between them makes ten do as a rule.)
    :shared: scale

    Attributes
    ----------
    feature_scores_ : ndarray of shape (n_features,)
        Squared row norms of W; 0 for rows that are zero up to the smoothing (1e-8).
    :shared: order
    :shared: attributes
    loadings_ : ndarray of shape (n_features, n_clusters)
        W. More columns where eigenvalues tie.
    objective_ : float
        The objective above, at ``loadings_``.
    history_ : ndarray of shape (n_iterations,)
        Objective after each eigenproblem as it is minimised, with :math:`\|w_j\|^2+10^{-10}` in
        place of :math:`\|w_j\|^2`: it never rises, and ends slightly above ``objective_``.
    alpha_ : float
        g in the units of the objective.
    n_iter_ : int
        Eigenproblems solved.
    :shared: stopping
    :shared: optimality
    :shared: features_in

    Notes
    -----
    Directions in which the data do not vary cost nothing, so features that depend linearly on each
    other are rewarded. Constant features are left out beforehand (score 0); a warning tells of
    features that are multiples of each other. With more features than samples the null space of M
    is large and the first W is not unique: all of the null space takes part equally, so that the
    result does not depend on the order of the features.

    References
    ----------
    Yang, Shen, Ma, Huang, Zhou (2011). l2,1-Norm Regularized Discriminative Feature Selection for
    Unsupervised Learning. IJCAI, 1589-1594.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import UDFS
    >>> X = StandardScaler().fit_transform(load_breast_cancer().data)
    >>> selector = UDFS(n_features_to_select=5).fit(X)
    >>> selector.transform(X).shape
    (569, 5)
    >>> round(float(selector.feature_scores_.sum()), 6)
    5.0
    """

    _rewards_duplicates = True

    def _stays(self, moments: Moments) -> bool:
        return not moments.is_wide

    def __init__(
        self,
        *,
        n_clusters: int | str = "auto",
        alpha: float | str = "auto",
        ridge: float = 1.0,
        n_neighbors: int = 5,
        search: str = "exact",
        n_features_to_select: int | float | str = "auto",
        rule: str = "greedy",
        constraints: Constraints | None = None,
        penalty_scale: str = "relative",
        tol: float = 1e-4,
        max_iter: int = 1000,
        scale: str | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.ridge = ridge
        self.n_neighbors = n_neighbors
        self.search = search
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
        relative = check_scale(self.penalty_scale) != "absolute"
        if not is_number(self.ridge) or not 0 < float(self.ridge) < float("inf"):
            raise ValueError(f"ridge={self.ridge!r} is not a number above 0")
        p = data.shape[1]
        count = self._count(p)
        wanted = check_count("n_neighbors", self.n_neighbors)
        neighbours, _ = nearest_neighbours(data, wanted, search=self.search)
        # M does not depend on the scale of the data where the ridge goes with it.
        ridge = float(self.ridge) if relative else float(self.ridge) / unit**2
        # An absolute one is compared with the largest that a neighbourhood can hold.
        most = 1.0 if relative else float((data**2).sum(axis=1).max())
        if ridge < ROUNDING * most:
            raise ValueError(
                f"ridge={self.ridge!r} is {ridge / most:.2g} of the size of the data, which is "
                "lost in rounding; raise it, or set penalty_scale='relative'"
            )
        matrix, trace = discriminant_matrix(data, neighbours, ridge=ridge, relative=relative)
        self.alpha_ = row_penalty(
            self.alpha,
            scale=self.penalty_scale,
            power=1.0,
            shape=(p, count),
            energy=trace * count / p,
            trace=trace,
        )
        solution = solve_reweighted_eigen(
            form_of(data, matrix, count),
            count,
            penalty=self.alpha_,
            tol=self.tol,
            max_iter=self.max_iter,
            twins=twin_labels(data),
        )
        return solution, scores_of(solution.state)

    def _count(self, p: int) -> int:
        if isinstance(self.n_clusters, str) and self.n_clusters == "auto":
            return max(1, min(AUTO_CLUSTERS, p - 1))
        count = check_count("n_clusters", self.n_clusters)
        if count > p:
            raise ValueError(
                f"n_clusters={count} is more than the {p} features that vary; lower it"
            )
        return count
