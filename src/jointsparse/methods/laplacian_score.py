"""Laplacian score: features that are smooth on the neighbour graph (He, Cai, Niyogi)."""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.methods.bases.graph_selector import GraphSelector, neighbour_graph
from jointsparse.methods.reading.needs import Needs, copies_with_graph
from jointsparse.moments import Moments
from jointsparse.operators.sparse import SparseSamples
from jointsparse.solvers.graph.smoothness import solve_smoothness
from jointsparse.solvers.solution import Solution
from jointsparse.solvers.subset.constraints import Constraints


class LaplacianScore(GraphSelector):
    r"""Select features that vary little between neighbours and much overall.

    With the symmetric weights G of the k-nearest-neighbour graph, degrees D = diag(G1) and the
    Laplacian L = D - G, the Laplacian score of a feature f is

    .. math:: \mathrm{LS} = \frac{\tilde f^\top L\tilde f}{\tilde f^\top D\tilde f}
              = \frac{\tfrac12\sum_{ij}G_{ij}(f_i-f_j)^2}{\sum_i d_i(f_i-\bar f)^2},\qquad
              \tilde f = f - \bar f,\ \bar f = \frac{f^\top D1}{1^\top D1} .

    It lies between 0 (smooth) and 2, and small is good. The score of a feature here is
    1/(1 + LS), so that higher is better as in every method.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbours k; at most n_samples - 1 are used.
    :shared: search
    weights : {"binary", "heat", "cosine"}, default="binary"
        Weights of the edges: 1; exp(-‖x_i - x_j‖²/(2t²)); or the cosine of the angle between the
        centred samples, where it is positive.
    width : float or "auto", default="auto"
        t of the heat weights, in units of the data; "auto" is the median distance between
        neighbours.
    :shared: n_features_to_select
    :shared: rule_of_scores
    :shared: constraints
    :shared: scale

    Attributes
    ----------
    feature_scores_ : ndarray of shape (n_features,)
        1/(1 + LS); 0 for constant features.
    laplacian_scores_ : ndarray of shape (n_features,)
        LS as in the paper; infinity for constant features.
    :shared: order
    :shared: attributes
    objective_ : float
        Mean LS of the features that vary.
    n_iter_, history_, converged_, stopping_reason_
        A closed form: one iteration.
    :shared: features_in

    Notes
    -----
    Each score is free of the scale of its own feature, but the graph is not: distances use all
    features as they are, so standardise features with different units. On the graph that joins
    samples of one class with weight 1/(size of the class), LS = 1/(1 + F) with Fisher's score F.

    References
    ----------
    He, Cai, Niyogi (2005). Laplacian Score for Feature Selection. NIPS 18.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from jointsparse import LaplacianScore
    >>> data = load_iris()
    >>> selector = LaplacianScore(n_features_to_select=2, rule="norm").fit(data.data)
    >>> selector.get_feature_names_out(data.feature_names).tolist()
    ['petal length (cm)', 'petal width (cm)']
    """

    _on_host = ""

    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        search: str = "exact",
        weights: str = "binary",
        width: float | str = "auto",
        n_features_to_select: int | float | str = "auto",
        rule: str = "greedy",
        constraints: Constraints | None = None,
        scale: str | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.search = search
        self.weights = weights
        self.width = width
        self.n_features_to_select = n_features_to_select
        self.rule = rule
        self.constraints = constraints
        self.scale = scale

    def _solve(self, moments: Moments) -> tuple[Solution, FloatArray]:
        solution, scores = super()._solve(moments)
        varies = moments.variances > 0
        self.laplacian_scores_ = np.full(varies.size, np.inf)
        self.laplacian_scores_[varies] = solution.state
        return solution, scores

    def _needs(self) -> Needs:
        return Needs(samples=True, fit_bytes=copies_with_graph(5))

    def _solve_samples(
        self, data: FloatArray | SparseSamples, mean: FloatArray, unit: float
    ) -> tuple[Solution, FloatArray]:
        graph = neighbour_graph(
            data,
            self.n_neighbors,
            weights=self.weights,
            width=self.width,
            unit=unit,
            search=self.search,
        )
        solution = solve_smoothness(data, graph)
        return solution, 1 / (1 + solution.state)
