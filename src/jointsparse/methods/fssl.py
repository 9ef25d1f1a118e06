"""FSSL: features and a subspace together, for classes, neighbourhoods or principal scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.graphs.laplacian import WEIGHTS, affinity
from jointsparse.graphs.sparse_samples import combined, times
from jointsparse.graphs.targets import class_targets, neighbour_targets
from jointsparse.linalg import double
from jointsparse.methods.bases.components import ComponentsMethod, check_count
from jointsparse.methods.bases.graph_selector import check_count as check_whole
from jointsparse.methods.bases.selector import check_stopping, is_number
from jointsparse.methods.reading.classes import class_labels
from jointsparse.methods.reading.needs import Needs, copies_of, copies_with_graph, scatter_bytes
from jointsparse.methods.reading.preparing import preparation_rounding, rows_for
from jointsparse.methods.reading.wide_samples import samples_for_graph
from jointsparse.moments import Moments
from jointsparse.running.workspace import Slot
from jointsparse.solvers.products.gram import Gram
from jointsparse.solvers.regression.subspace import SubspaceProblem, emptying, solve_subspace
from jointsparse.solvers.regression.subspace_equality import solve_equality
from jointsparse.solvers.regression.subspace_norms import NORMS
from jointsparse.solvers.regression.subspace_reweighted import solve_subspace_reweighted
from jointsparse.solvers.solution import Rounding, Solution, proven

Targeted = tuple[SubspaceProblem, float]  # data and targets of length 1, and their length
TARGETS: Slot[tuple[Any, Targeted]] = Slot("targets")  # and their classes
AUTO_MU = 10.0  # times the μ below which nothing is selected
AUTO_COMPONENTS = 2  # of graphs that do not say how many
GRAPHS = ("auto", "lda", "lpp", "pca")
CONSTRAINTS = ("penalised", "equality")
SOLVERS = ("exact", "reweighted")
SCALES = ("relative", "absolute")
NOTHING = 1e-12  # length of XᵀY (both of length 1) below which it is rounding
UNREACHED = 1e-6  # share of the targets that X may miss before the user is told


class FSSL(ComponentsMethod):
    r"""Joint feature selection and subspace learning.

    A graph of the samples asks for an embedding Y (n samples × k), the leading eigenvectors of

    .. math:: G\,y = \lambda D\,y ,\qquad D = \operatorname{diag}(G\mathbf 1),\ y\perp D\mathbf 1 .

    It is reproduced by a projection A (p features × k) of the centred samples X that uses few
    features,

    .. math:: \min_A\ \|A\|_{2,1} + \mu\,\|XA - Y\|_F^2 \qquad\text{or}\qquad
              \min_A\ \|A\|_{2,1}\ \text{ over } XA = Y ,\qquad
              \|A\|_{2,1} = \sum_{i=1}^p\|a_i\|_2 ,

    :math:`a_i` the rows of A. Both problems are convex and are solved to a certified optimum.
    ``transform`` returns the embedding XA as it is, so that distances in it mean what they mean
    for Y.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of targets k. None: one less than there are classes for "lda", otherwise 2.
    graph : {"auto", "lda", "lpp", "pca"}, default="auto"
        What the embedding keeps.

        * "lda": the classes y. G_ij = 1/n_c within class c; Y are the centred, orthonormal
          indicators of the classes.
        * "lpp": neighbourhoods. G are the weights of the k-nearest-neighbour graph; its connected
          components are told apart first.
        * "pca": the variance. Y are the first k principal scores, in the units of X.
        * "auto": "lda" where y holds labels of at least two classes, otherwise "lpp".
    mu : float or "auto", default="auto"
        Weight μ of the regression on the scale of ``penalty_scale``; more keeps more features.
        "auto" is 10 on the relative scale. Not used with ``constraint="equality"``, the limit
        μ → ∞.
    norm : {"l21", "l11", "fro"}, default="l21"
        Norm of A: "l21" as above, features are used by all targets or by none; "l11",
        :math:`\sum|a_{ij}|`, a lasso for each target; "fro", :math:`\|A\|_F` (not squared), dense.
    constraint : {"penalised", "equality"}, default="penalised"
        Which of the two problems. XA = Y can be met where X has at least n - 1 independent
        features; otherwise it is met in the sense of least squares, with a warning.
    n_neighbors : int, default=5
        Neighbours k of each sample on the "lpp" graph.
    weights : {"binary", "heat", "cosine"}, default="binary"
        Weights of the "lpp" graph, see :class:`LaplacianScore`.
    solver : {"exact", "reweighted"}, default="exact"
        "reweighted" is the source's algorithm, without exact zeros.
    penalty_scale : {"relative", "absolute"}, default="relative"
        Unit of ``mu``. "relative": multiples (above 1) of the :math:`\mu_{\min}` up to which A = 0
        is optimal, :math:`1/(2\max_i\|x_i^\top Y\|)` for "l21". "absolute": μ itself.
    tol : float, default=1e-6
        Certified relative duality gap to reach; with ``solver="reweighted"`` the relative change
        of A at which to stop, where 0 makes exactly ``max_iter`` passes.
    max_iter : int, default=1000
        Largest number of passes ("reweighted"), or of regressions ("equality").
    warm_start : bool, default=False
        Start from A of the previous call to ``fit`` where its shape is right; penalised problem
        with ``solver="exact"`` only.

    Attributes
    ----------
    coefficients_ : ndarray of shape (n_features, n_components)
        A; a feature that is not used is a zero row.
    components_ : ndarray of shape (n_components, n_features)
        The same, transposed: not of unit length, in the order of the targets. The largest entry
        of each in absolute value is positive.
    targets_ : ndarray of shape (n_samples, n_components)
        Y, where the samples were at hand.
    graph_ : str
        The graph that was used.
    mu_, mu_min_ : float
        μ and μ_min in units of the data; μ is infinite for ``constraint="equality"``.
    residual_ : float
        :math:`\|XA - Y\|_F/\|Y\|_F`.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        What each component adds to the share of the variance that a regression of X on the scores
        explains: kind "reconstruction" of :func:`jointsparse.metrics.explained_variance`.
    duality_gap_ : float
        Proven upper bound on (objective - optimum) / objective (not for "reweighted").
    mean_ : ndarray of shape (n_features,)
        Mean of the samples.
    reconstruction_ : ndarray of shape (n_components, n_features)
        Least squares map from scores back to features.
    n_components_ : int
        Number of targets.
    feature_scores_ : ndarray of shape (n_features,)
        Length of each feature's row of A, divided by ‖A‖_F; exactly zero for features not used.
    ranking_ : ndarray of shape (n_features,)
        1 for the best feature.
    objective_ : float
        Objective of A.
    history_ : ndarray of shape (n_iterations,)
        Objective after each iteration.
    n_iter_ : int
        Iterations made.
    :shared: stopping
    diagnostics_ : dict
        "optimality": ``duality_gap_`` again; "optimality_bound": ``tol``, which it is not above
        where ``converged_``. Only "duality_gap" with ``solver="reweighted"``.
    :shared: features_in

    Notes
    -----
    With "l21" the penalised problem is scikit-learn's ``MultiTaskLasso(1/(2nμ),
    fit_intercept=False)`` on X and Y. Targets with the same eigenvalue (all those of "lda") are
    rotated so that the one along which the samples vary most comes first; "l21" and "fro" do not
    depend on that. Where p > n nothing of size p × p is formed.

    Against the source: its equation (17) has 1/μ where 1/(2μ) is right; its "l11" weights, a matrix
    of ones, are those of no norm; its all-ones target carries no information and is left out.

    References
    ----------
    Gu, Li, Han (2011). Joint feature selection and subspace learning. IJCAI, 1294-1299.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import FSSL
    >>> data = load_breast_cancer()
    >>> X = StandardScaler().fit_transform(data.data)
    >>> model = FSSL(graph="lda", mu=4).fit(X, data.target_names[data.target])
    >>> int(model.get_support().sum()), model.duality_gap_ < 1e-6
    (4, True)
    >>> model.transform(X).shape
    (569, 1)
    """

    coefficients_: FloatArray
    _state: FloatArray | None = None  # A of the last fit, of data and targets of length 1

    @property
    def _on_host(self) -> str:  # type: ignore[override]
        return "" if self._needs().sparse else "the components"

    def __init__(
        self,
        *,
        n_components: int | None = None,
        graph: str = "auto",
        mu: float | str = "auto",
        norm: str = "l21",
        constraint: str = "penalised",
        n_neighbors: int = 5,
        weights: str = "binary",
        solver: str = "exact",
        penalty_scale: str = "relative",
        tol: float = 1e-6,
        max_iter: int = 1000,
        warm_start: bool = False,
    ) -> None:
        self.n_components = n_components
        self.graph = graph
        self.mu = mu
        self.norm = norm
        self.constraint = constraint
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.solver = solver
        self.penalty_scale = penalty_scale
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, batch: Any = None) -> Self:
        """Fit the method to samples.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_samples, n_features)
            Samples, one per row. Not modified.
        y : array-like of shape (n_samples,) or None
            Classes of the samples: numbers or strings. Needed for ``graph="lda"``, used by "auto",
            ignored by the other graphs.
        sample_weight, batch : array-like of shape (n_samples,) or None, default=None
            How often each sample is there, and which were measured together.

        Returns
        -------
        self
        """
        return super().fit(X, y, sample_weight=sample_weight, batch=batch)

    def moments_of(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, batch: Any = None
    ) -> Moments:
        """Return the moments of samples, and with them the classes, checked as ``fit`` does.

        Parameters
        ----------
        X, y, sample_weight, batch
            As in ``fit``.

        Returns
        -------
        Moments
        """
        moments = super().moments_of(X, y, sample_weight=sample_weight, batch=batch)
        return self.with_classes(moments, rows_for(y, sample_weight))

    def with_classes(self, moments: Moments, y: Any) -> Moments:
        """Return moments with the classes of their samples, checked as ``fit`` does.

        Parameters
        ----------
        moments : Moments
            Moments of the samples; not changed.
        y : array-like of shape (n_samples,) or None
            Classes of the samples.

        Returns
        -------
        Moments
        """
        return moments.with_labels(class_labels(moments, y, self.graph))

    def fit_moments(self, moments: Moments, y: Any = None) -> Self:
        """Fit the method to moments instead of samples.

        Parameters
        ----------
        moments : Moments
            Count, mean and scatter matrix of the samples, and the samples themselves unless
            ``graph="pca"``.
        y : array-like of shape (n_samples,) or None
            Classes of the samples. None: those that :meth:`moments_of` was given, if any.

        Returns
        -------
        self
        """
        return super().fit_moments(moments if y is None else self.with_classes(moments, y))

    def _needs(self) -> Needs:
        # The others need a basis of the samples' span: as large as the dense samples.
        sparse = self.solver == "exact" and self.constraint == "penalised" and self.norm != "fro"
        return Needs(
            samples=self.graph != "pca",
            sparse=sparse,
            fit_bytes=copies_with_graph(5) if self.graph != "pca" else copies_of(0, 0),
            dense_bytes=lambda n, p: scatter_bytes(n, p) if sparse or p <= n else 5 * 8 * n * p,
        )

    def _keep_order(self) -> bool:
        return True

    def _check_n_components(self) -> None:
        if self.n_components is not None:
            check_count(self.n_components)

    def _feature_scores(self) -> FloatArray:
        lengths = np.linalg.norm(double(self.components_), axis=0)
        # Free of the scale of the data, on which A depends.
        return lengths / (np.linalg.norm(lengths) or 1.0)

    def _solve(self, moments: Moments, gram: Gram) -> Solution:
        self._check_parameters()
        for stale in ("targets_", "duality_gap_"):
            self.__dict__.pop(stale, None)
        # Data and targets are divided by their lengths.
        scale = float(np.sqrt(gram.trace))
        problem, unit = self._problem(moments, gram, scale)
        largest = self._emptying(problem, unit, scale)
        found = problem.correlation.shape[1]
        if self.n_components is not None and found < self.n_components:
            self._warn(f"the {self.graph_!r} graph and these data have only {found} targets")
        if self.constraint == "equality" and problem.missed > UNREACHED:
            self._warn(
                f"XA = Y has no solution: {problem.missed:.1%} of the targets is not a linear "
                "function of the features. A is a least squares solution, sparse only where there "
                "are several; constraint='penalised' selects features"
            )
        multiple = self._multiple()
        self.mu_ = multiple * self.mu_min_
        # Targets and data have length 1, and so has the objective of A = 0.
        terms = moments.n_samples * moments.n_features
        leverage = 1.0 if np.isinf(multiple) else multiple
        rounding = Rounding(terms, 1.0, leverage, preparation_rounding(moments))
        solution = proven(
            lambda tol: self._solved(problem, largest / multiple, tol), self.tol, rounding
        )
        self._state = np.asarray(solution.loadings) if self.warm_start else None
        return self._in_units_of_data(solution, problem, moments, scale, unit)

    def _remark(self, solution: Solution) -> str:
        if np.any(solution.loadings):
            return ""
        return f"every coefficient is zero; raise mu above {self.mu_min_:.3g}"

    def emptying_penalty(self, moments: Moments) -> tuple[float, dict[str, Any]]:
        """Return the 1/μ at which the first feature enters, and how to follow a path from there.

        With the parameters returned ``mu`` is in data units, and each solution starts from the
        last.
        """
        self._check_n_components()
        self._check_parameters()
        if self.constraint == "equality":
            raise ValueError("constraint='equality' has no penalty: there is no path to follow")
        gram = self._gram(moments)
        scale = float(np.sqrt(gram.trace))
        self._emptying(*self._problem(moments, gram, scale), scale)
        return 1 / self.mu_min_, {"penalty_scale": "absolute", "warm_start": True}

    def set_penalty(self, penalty: float) -> None:
        """Set 1/μ in the units of the path."""
        self.set_params(mu=1 / penalty)

    def _emptying(self, problem: SubspaceProblem, unit: float, scale: float) -> float:
        """Return the smallest λ that empties the scaled problem; set its μ."""
        largest = emptying(problem, self.norm)
        if largest <= NOTHING:
            raise ValueError(
                f"no feature varies with the targets of graph={self.graph_!r}: there is nothing "
                "to select"
            )
        self.mu_min_ = 1 / (largest * unit * scale)
        return largest

    def _chosen_graph(self, moments: Moments) -> str:
        labels = moments.labels
        if self.graph == "lda" and labels is None:
            raise ValueError(
                "graph='lda' needs the classes of the samples: fit(X, y). Without classes use "
                "graph='lpp' or 'pca'"
            )
        graph = self.graph
        if graph == "auto":
            graph = "lpp" if labels is None else "lda"
        if graph in ("lda", "lpp") and not moments.has_samples:
            raise ValueError(
                f"graph={self.graph!r} needs the samples themselves, not only their scatter "
                "matrix: use fit(X), or graph='pca'"
            )
        return graph

    def _problem(self, moments: Moments, gram: Gram, scale: float) -> Targeted:
        """Return data and targets of length 1, and the length of the targets.

        They stay with the moments: the points of a path have the same targets. Those of other
        classes are others.
        """
        self.graph_ = self._chosen_graph(moments)
        variant = (self.graph_, self.n_components, self.n_neighbors, self.weights)
        labels = moments.labels if self.graph_ == "lda" else None
        known = moments.workspace.found(TARGETS, variant)
        if known is None or (labels is not None and not np.array_equal(known[0], labels)):
            problem = self._new_problem(moments, gram, scale)
            # A copy: the caller may change his classes, and these are compared with them.
            known = None if labels is None else labels.copy(), problem
            moments.workspace.keep(TARGETS, known, variant)
        return known[1]

    def _new_problem(self, moments: Moments, gram: Gram, scale: float) -> Targeted:
        if self.graph_ == "pca":
            count = self.n_components or AUTO_COMPONENTS
            values, vectors = gram.leading(count)
            vectors[moments.variances == 0] = 0.0  # rounding of the eigenvectors
            length = float(np.sqrt(np.sum(values[:count])))
            Y = None
            if moments.has_samples:
                Y = times(samples_for_graph(moments, scale), vectors) / length
            C = gram.apply(vectors) / length
            return SubspaceProblem(gram, C, Y), length * scale
        data = samples_for_graph(moments, scale)
        if self.graph_ == "lda":
            Y = class_targets(data, moments.labels, self.n_components)
        else:
            graph = affinity(data, self.n_neighbors, weights=self.weights)
            Y = neighbour_targets(data, graph, self.n_components or AUTO_COMPONENTS)
        length = float(np.linalg.norm(Y))
        Y = Y / length
        return SubspaceProblem(gram, combined(Y.T, data).T, Y), length

    def _solved(self, problem: SubspaceProblem, penalty: float, tol: float) -> Solution:
        equality = self.constraint == "equality"
        if self.solver == "reweighted":
            weight = None if equality else penalty
            return solve_subspace_reweighted(
                problem, weight, self.norm, tol=self.tol, max_iter=self.max_iter
            )
        if equality:
            return solve_equality(problem, self.norm, tol=tol, max_iter=self.max_iter)
        start = self._state if self.warm_start else None
        if start is not None and start.shape != problem.correlation.shape:
            start = None
        return solve_subspace(problem, penalty, self.norm, tol=tol, start=start)

    def _in_units_of_data(
        self,
        solution: Solution,
        problem: SubspaceProblem,
        moments: Moments,
        scale: float,
        unit: float,
    ) -> Solution:
        """Undo the division of data and targets, and turn signs so that peaks are positive."""
        A = np.asarray(solution.loadings)
        peak = A[np.argmax(np.abs(A), axis=0), np.arange(A.shape[1])]
        signs = np.where(peak < 0, -1.0, 1.0)
        if problem.targets is None:
            lack = 1 - np.sum(A * (2 * problem.correlation - problem.gram.apply(A)))
            self.residual_ = float(np.sqrt(max(lack, 0.0)))
        else:
            missed = problem.targets - times(samples_for_graph(moments, scale), A)
            self.residual_ = float(np.linalg.norm(missed))
            self.targets_ = problem.targets * (signs * unit)
        if solution.gap is not None:
            self.duality_gap_ = solution.gap
        self.coefficients_ = A * (signs * (unit / scale))
        value = unit / scale if self.constraint == "equality" else self.mu_ * unit**2
        return replace(
            solution,
            loadings=self.coefficients_,
            objective=solution.objective * value,
            history=[entry * value for entry in solution.history],
        )

    def _multiple(self) -> float:
        """Return μ/μ_min."""
        if self.constraint == "equality":
            return np.inf
        if isinstance(self.mu, str) and self.mu == "auto":
            return AUTO_MU
        if not is_number(self.mu) or not 0 < float(self.mu) < float("inf"):
            raise ValueError(f"mu={self.mu!r} is neither a number above 0 nor 'auto'")
        if self.penalty_scale == "absolute":
            return float(self.mu) / self.mu_min_
        if float(self.mu) <= 1:
            raise ValueError(
                f"mu={self.mu} gives A = 0: on the relative scale it is a multiple, above 1, of "
                "the mu that lets the first feature in (for the units of the source set "
                "penalty_scale='absolute')"
            )
        return float(self.mu)

    def _check_parameters(self) -> None:
        check_stopping(self.tol, self.max_iter, zero_tol=self.solver == "reweighted")
        check_whole("n_neighbors", self.n_neighbors)
        for name, known in (
            ("graph", GRAPHS),
            ("norm", NORMS),
            ("constraint", CONSTRAINTS),
            ("weights", WEIGHTS),
            ("solver", SOLVERS),
            ("penalty_scale", SCALES),
        ):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, known))}")
