"""SPCAFS: principal components with few features in common (Li, Nie, Bian, Wu, Li)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import is_device_array, to_host
from jointsparse.linalg import array_namespace, submatrix
from jointsparse.methods.bases.graph_selector import (
    check_count,
    check_power,
    embedded,
    row_penalty,
    twin_labels,
)
from jointsparse.methods.bases.selector import Selector, check_stopping
from jointsparse.methods.reading.needs import Needs, copies_of
from jointsparse.methods.reading.wide_samples import sparse_samples
from jointsparse.moments import Moments
from jointsparse.selection.choosing import projection_target
from jointsparse.solvers.graph.device_form import DeviceForm
from jointsparse.solvers.graph.quadratic_forms import (
    DENSE_UP_TO,
    DenseForm,
    QuadraticForm,
    ScatterForm,
)
from jointsparse.solvers.graph.reweighted_eigen import scores_of, solve_reweighted_eigen
from jointsparse.solvers.graph.sparse_form import SparseScatterForm
from jointsparse.solvers.picking.row_targets import Target
from jointsparse.solvers.products.gram import SampleGram, centred_in_double
from jointsparse.solvers.solution import Solution
from jointsparse.solvers.subset.constraints import Constraints

AUTO_COMPONENTS = 5
RANK = 1e-12  # relative to the largest eigenvalue: below, it is zero


class SPCAFS(Selector):
    r"""Select features by PCA with a row-sparse orthonormal projection.

    For centred X (n samples × p features), solve

    .. math:: \min_{W\in\mathbb R^{p\times m},\ W^\top W=I}\ \|X - XWW^\top\|_F^2
              + g\sum_j\|w_j\|_2^p ,\qquad 0<p\le1,

    where :math:`w_j` is the row of W that belongs to feature j. The score of a feature is
    :math:`\|w_j\|^2`, between 0 and 1; the scores sum to m.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of components m. "auto" is 5, or what the data allow. (The papers set it to the
        number of clusters less 1.)
    alpha : float or "auto", default="auto"
        Sparsity penalty g on the scale of ``penalty_scale``; "auto" is 0.3 on the relative scale,
        where 0.03 to 10 is the useful range.
    p : float, default=0.5
        Exponent of the row norms, above 0 and at most 1.
    :shared: n_features_to_select
    :shared: rule_of_scores
    :shared: constraints
    penalty_scale : {"relative", "trace", "absolute"}, default="relative"
        Unit of ``alpha``. "relative": the g at which, for a W with equal rows, the penalty equals
        the variance of the first m principal components. "trace": multiples of the total variance
        tr S, S = XᵀX. "absolute": the number of the paper.
    tol : float, default=1e-4
        Largest change of a score, and violation of the conditions of optimality (see
        ``diagnostics_``), at which to stop.
    max_iter : int, default=1000
        Largest number of eigenproblems. Up to 30 are made as published; where more are allowed, a
        search between them makes ten do as a rule.
    :shared: missing
    :shared: scale

    Attributes
    ----------
    feature_scores_ : ndarray of shape (n_features,)
        Squared row norms of W; 0 for rows that are zero up to the smoothing (1e-8).
    :shared: order
    :shared: attributes
    loadings_ : ndarray of shape (n_features, n_components)
        W. More columns where eigenvalues tie.
    objective_ : float
        The objective above, at ``loadings_``.
    history_ : ndarray of shape (n_iterations,)
        Objective after each eigenproblem as it is minimised, with :math:`\|w_j\|^2+10^{-10}` in
        place of :math:`\|w_j\|^2`: it never rises, and ends slightly above ``objective_``.
    alpha_ : float
        g in the units of the data.
    n_components_ : int
        Number of components fitted.
    n_iter_ : int
        Eigenproblems solved.
    :shared: stopping
    :shared: optimality
    :shared: features_in

    Notes
    -----
    The problem is not convex: the solution is a stationary point, reached from the principal
    components. The numbers of the papers (10⁻⁴ … 10⁴ on the absolute scale) do next to nothing on
    pixels between 0 and 255; hence the relative scale. A large ``alpha`` leaves exactly m features
    with score 1; asking for more then adds those with the largest variance, with a warning.

    References
    ----------
    Li, Nie, Bian, Wu, Li (2021). Sparse PCA via l2,p-Norm Regularization for Unsupervised Feature
    Selection. IEEE TPAMI.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import SPCAFS
    >>> X = StandardScaler().fit_transform(load_breast_cancer().data)
    >>> selector = SPCAFS(n_components=3, alpha=1.0, n_features_to_select=6).fit(X)
    >>> int(selector.get_support().sum())
    6
    """

    # Of more features than samples; otherwise everything p × p stays on the device.
    _on_host = "the projection"

    def _tell_what_runs_on_the_host(self, moments: Moments) -> None:
        if moments.n_features > moments.n_samples:
            super()._tell_what_runs_on_the_host(moments)

    def __init__(
        self,
        *,
        n_components: int | str = "auto",
        alpha: float | str = "auto",
        p: float = 0.5,
        n_features_to_select: int | float | str = "auto",
        rule: str = "greedy",
        constraints: Constraints | None = None,
        penalty_scale: str = "relative",
        tol: float = 1e-4,
        max_iter: int = 1000,
        missing: str = "error",
        scale: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.p = p
        self.n_features_to_select = n_features_to_select
        self.rule = rule
        self.constraints = constraints
        self.penalty_scale = penalty_scale
        self.tol = tol
        self.max_iter = max_iter
        self.missing = missing
        self.scale = scale

    def _needs(self) -> Needs:
        return Needs(fit_bytes=copies_of(8, 9))  # measured, with the samples

    def _target(self, solution: Solution, moments: Moments) -> Target | None:
        return projection_target(solution.loadings)

    def _solve(self, moments: Moments) -> tuple[Solution, FloatArray]:
        check_stopping(self.tol, self.max_iter)
        power = check_power(self.p)
        varies = moments.variances > 0
        total = moments.total_variance
        form, rank, eigenvalues, twins = _form(moments, varies)
        count = self._count(rank, int(varies.sum()))
        if count > rank:
            self._warn(f"the data have rank {rank}: no more components are fitted")
            count = rank
        penalty = row_penalty(
            self.alpha,
            scale=self.penalty_scale,
            power=power,
            shape=(int(varies.sum()), count),
            energy=float(eigenvalues(count)[:count].sum()) * total,
            trace=total,
        )
        self.alpha_, self.n_components_ = penalty, count
        solution = solve_reweighted_eigen(
            form,
            count,
            penalty=penalty / total,
            power=power,
            tol=self.tol,
            max_iter=self.max_iter,
            twins=twins,
        )
        # The kernel leaves out the constant ‖X‖² and works on data of trace 1.
        history = [(1 + value) * total for value in solution.history]
        self.loadings_ = embedded(np.asarray(solution.loadings), varies)
        scores = embedded(scores_of(solution.state), varies)
        objective = (1 + solution.objective) * total
        return (
            replace(solution, objective=objective, history=history, loadings=self.loadings_),
            scores,
        )

    def _count(self, rank: int, p: int) -> int:
        if isinstance(self.n_components, str) and self.n_components == "auto":
            return max(1, min(AUTO_COMPONENTS, rank, p - 1))
        return check_count("n_components", self.n_components)


def _form(
    moments: Moments, varies: NDArray[np.bool_]
) -> tuple[QuadraticForm, int, Callable[[int], FloatArray], IntArray | None]:
    """Return -S of trace 1, its rank, its eigenvalues and twins.

    It is seen through the samples where they are fewer than the features, and through products
    with them where they are sparse and an array of them would be large; the eigenvalues come from a
    function of how many are needed.
    """
    total = moments.total_variance
    wide = moments.has_samples and int(varies.sum()) > moments.n_samples
    if wide and sp.issparse(moments.data) and int(varies.sum()) > DENSE_UP_TO:
        samples = sparse_samples(moments, 1.0, varies)
        gram = SampleGram(samples)
        form = SparseScatterForm(gram)
        rank = gram.rank(form.values.size)
        return form, rank, lambda count: gram.leading(count)[0], twin_labels(samples)
    if wide:
        data = centred_in_double(moments)[:, varies] / np.sqrt(total)
        through_samples = ScatterForm(data)
        values = np.clip(through_samples.values[::-1], 0.0, None)
        return through_samples, _rank(values), lambda count: values[:count], twin_labels(data)
    if is_device_array(moments.data):
        return _form_there(moments, varies)
    scatter = moments.scatter[np.ix_(varies, varies)] / total
    values = np.clip(scipy.linalg.eigvalsh(scatter)[::-1], 0.0, None)
    # Equal features have equal columns of the scatter matrix, and only they.
    return DenseForm(-scatter), _rank(values), lambda count: values[:count], twin_labels(scatter)


def _form_there(
    moments: Moments, varies: NDArray[np.bool_]
) -> tuple[QuadraticForm, int, Callable[[int], FloatArray], IntArray | None]:
    """Return the same of samples on a device, where they are not fewer than the features."""
    live = np.flatnonzero(varies)
    scatter = submatrix(moments.native.scatter, live, live) / moments.total_variance
    found = to_host(array_namespace(scatter).linalg.eigvalsh(scatter))
    values = np.clip(found[::-1], 0.0, None)
    return DeviceForm(-scatter), _rank(values), lambda count: values[:count], twin_labels(scatter)


def _rank(values: FloatArray) -> int:
    return int(np.count_nonzero(values > RANK * values[0]))
