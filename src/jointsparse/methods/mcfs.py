"""MCFS: features that reproduce the clusters of a graph (Cai, Zhang, He)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.graphs.sparse_samples import combined
from jointsparse.graphs.targets import neighbour_targets
from jointsparse.methods.bases.graph_selector import (
    AUTO_CLUSTERS,
    GraphSelector,
    check_count,
    neighbour_graph,
)
from jointsparse.methods.bases.selector import check_stopping, is_number
from jointsparse.methods.reading.needs import Needs, copies_with_graph
from jointsparse.operators.dense import operator_of
from jointsparse.solvers.products.gram import Gram, SampleGram
from jointsparse.solvers.regression.subspace import SubspaceProblem, emptying, solve_subspace
from jointsparse.solvers.solution import Rounding, Solution, proven
from jointsparse.solvers.subset.constraints import Constraints

UNSEEN = 1e-8  # correlation of a target with every feature below which it is out of their reach


class MCFS(GraphSelector):
    r"""Select features that reproduce the spectral embedding of the neighbour graph.

    With the symmetric weights G of the k-nearest-neighbour graph, degrees D = diag(G1) and the
    Laplacian L = D - G, let :math:`y_1,\dots,y_c` be the smoothest functions on the graph:
    :math:`Ly = \mu Dy`, the smallest :math:`\mu` first, without the constant one. They tell the
    clusters apart. Each of them, centred and of length 1, is explained by few features,

    .. math:: \min_{a_k}\ \|y_k - Xa_k\|_2^2 + \lambda_k\|a_k\|_1 ,\qquad k = 1,\dots,c ,

    X centred. The score of feature j is :math:`\max_k|a_{jk}|`, so that a feature is good that
    matters for one of the clusters.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        Number c of functions, in the paper the number of clusters. "auto" is 5; fewer where the
        graph has fewer.
    alpha : float, default=0.1
        Sparsity: λ_k as a fraction, between 0 and 1, of the value at which a_k is empty.
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
    tol : float, default=1e-6
        Certified relative gap at which to stop.
    :shared: scale

    Attributes
    ----------
    feature_scores_ : ndarray of shape (n_features,)
        Largest absolute a_jk of each feature, for X with a mean square of 1; exactly 0 for a
        feature that no regression uses.
    :shared: order
    :shared: attributes
    loadings_ : ndarray of shape (n_features, c)
        a_1 … a_c in columns, for X with a mean square of 1.
    objective_ : float
        Σ_k of the objectives, with y_k divided by its largest absolute product with a feature,
        and all of them by one number, so that Σ‖y_k‖² = 1: then one λ serves for all.
    duality_gap_ : float
        Proven upper bound on (objective - optimum) / objective, rounding included.
    history_, gap_history_ : ndarray
        Objective and gap after each attempt; one is usual.
    n_iter_, converged_, stopping_reason_
        Attempts made, whether the gap reached the tolerance, and why the solver stopped.
    diagnostics_ : dict
        "optimality": ``duality_gap_`` again; "optimality_bound": ``tol``, which it is not above
        where ``converged_``.
    :shared: features_in

    Notes
    -----
    The paper stops the path of least angle regression at a number of features for each y_k; here
    the penalty is given. Functions with equal eigenvalues (those of separate components of the
    graph above all) are ordered by how much the data vary along them, so that nothing depends on
    the order of the samples; where they vary equally along several, the first samples decide. Equal
    features share their coefficient. The same regressions, with
    one penalty for all functions, are ``FSSL(graph="lpp", norm="l11")``.

    References
    ----------
    Cai, Zhang, He (2010). Unsupervised Feature Selection for Multi-Cluster Data. KDD, 333-342.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import MCFS
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((90, 6))
    >>> X[:30, 1] += 8  # two clusters differ from the rest, each in a feature of its own
    >>> X[60:, 4] += 8
    >>> selector = MCFS(n_clusters=2, n_features_to_select=2).fit(X)
    >>> np.flatnonzero(selector.get_support()).tolist()
    [1, 4]
    """

    _on_host = ""

    def __init__(
        self,
        *,
        n_clusters: int | str = "auto",
        alpha: float = 0.1,
        n_neighbors: int = 5,
        search: str = "exact",
        weights: str = "binary",
        width: float | str = "auto",
        n_features_to_select: int | float | str = "auto",
        rule: str = "greedy",
        constraints: Constraints | None = None,
        tol: float = 1e-6,
        scale: str | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.n_neighbors = n_neighbors
        self.search = search
        self.weights = weights
        self.width = width
        self.n_features_to_select = n_features_to_select
        self.rule = rule
        self.constraints = constraints
        self.tol = tol
        self.scale = scale

    def _needs(self) -> Needs:
        return Needs(samples=True, fit_bytes=copies_with_graph(6))

    def _solve_samples(
        self, data: Any, mean: FloatArray, unit: float
    ) -> tuple[Solution, FloatArray]:
        check_stopping(self.tol, 1)
        if not is_number(self.alpha) or not 0 < self.alpha < 1:
            raise ValueError(f"alpha={self.alpha!r} is not a number between 0 and 1")
        automatic = isinstance(self.n_clusters, str) and self.n_clusters == "auto"
        count = AUTO_CLUSTERS if automatic else check_count("n_clusters", self.n_clusters)
        graph = neighbour_graph(
            data,
            self.n_neighbors,
            weights=self.weights,
            width=self.width,
            unit=unit,
            search=self.search,
        )
        targets = neighbour_targets(data, graph, count)
        gram = _gram(data)
        scale = float(np.sqrt(gram.trace))
        targets = targets / np.linalg.norm(targets, axis=0)
        peaks = np.max(np.abs(combined(targets.T, data)), axis=1) / scale
        seen = peaks > UNSEEN
        if not seen.any():
            raise ValueError(
                f"no feature varies with the {peaks.size} smoothest functions on the graph: there "
                "is nothing to select; raise n_clusters or n_neighbors"
            )
        # Equally long seen from the data, every target has the same emptying penalty.
        targets = targets[:, seen] / peaks[seen]
        length = float(np.linalg.norm(targets))
        targets = targets / length
        problem = SubspaceProblem(gram, combined(targets.T, data).T / scale, targets)
        penalty = float(self.alpha) * emptying(problem, "l11")
        solution = proven(
            lambda tol: solve_subspace(problem, penalty, "l11", tol=tol),
            self.tol,
            Rounding(data.shape[0] * data.shape[1], 1.0, 1 / float(self.alpha)),
        )
        loadings = np.asarray(solution.loadings) * (peaks[seen] * length / scale)
        return replace(solution, loadings=loadings), np.max(np.abs(loadings), axis=1)


def _gram(data: Any) -> Gram:
    """Return the scatter matrix, through the samples where that is less."""
    samples = operator_of(data)
    wide = samples.is_sparse or samples.shape[1] > samples.shape[0]
    return SampleGram(samples) if wide else Gram(data.T @ data)
