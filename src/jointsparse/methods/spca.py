"""SPCA: sparse principal components by penalised regression (Zou, Hastie, Tibshirani)."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.linalg import array_namespace
from jointsparse.methods.bases.components import ComponentsMethod
from jointsparse.methods.bases.penalty_scale import absolute_penalty, check_scale
from jointsparse.methods.bases.selector import check_stopping, is_number
from jointsparse.methods.reading.needs import Needs, scatter_bytes
from jointsparse.moments import Moments
from jointsparse.solvers.components.procrustes import SparsePenalty, continued, solve_alternating
from jointsparse.solvers.components.supports import towards_axes
from jointsparse.solvers.products.gram import Gram, gram_of
from jointsparse.solvers.solution import Solution
from jointsparse.solvers.sparse_component.deflation import (
    Deflated,
    ProvedComponents,
    components_by_deflation,
)
from jointsparse.solvers.sparse_component.solve import MOST_DENSE
from jointsparse.text import few_digits_up

AUTO_ALPHA = 0.1  # share of the penalty that empties a component, elastic net form
AUTO_ALPHA_LIMIT = 0.5  # the same in the limit form, where a threshold this high keeps more
TRIAL_TOL, TRIAL_ITER = 1e-2, 8  # where several starts are tried, each goes so far
TURNING = 0.3  # of the penalty that empties a component: below, it is the axes that matter
UNEQUAL = 2  # times the smallest count: above, several starts are tried
AUTO_RIDGE = 1e-3  # of the largest eigenvalue: unique solutions, loadings hardly changed
PROOF_SECONDS = 60.0  # for each component with certify=True
PROOF_TOL = 1e-6  # relative gap at which a component is proved the best
PROOF_ATTRIBUTES = (
    "component_bounds_",
    "component_gaps_",
    "proved_optimal_",
    "orthogonality_gap_",
)


class SPCA(ComponentsMethod):
    r"""Sparse principal components by elastic net regression.

    For centred X (n samples × p features) with scatter matrix S = XᵀX, solve

    .. math:: \min_{A,B\in\mathbb R^{p\times k}}\ \|X - XBA^\top\|_F^2 + \lambda_2\|B\|_F^2
              + \sum_{j=1}^k\lambda_{1j}\|b_j\|_1 ,\qquad A^\top A = I ,

    by alternation: elastic nets for the columns of B, :math:`A = UV^\top` from the thin SVD of S B.
    The rows of ``components_`` are the columns of B at unit length. Without the l1 penalty they are
    the principal components, whatever the ridge λ₂. For p > n the limit λ₂ → ∞ is the default:
    :math:`b_j` is then S a_j, soft-thresholded at :math:`\lambda_{1j}/2`.

    Parameters
    ----------
    n_components : int, default=2
        Number of components k. No more are fitted than the rank of the data.
    alpha : float, sequence of float or "auto", default="auto"
        Sparsity penalty λ₁ on the scale of ``penalty_scale``: one for all components or one for
        each. "auto" is 0.1 on the relative scale, and 0.5 in the limit form.
    n_nonzero : int, sequence of int or None, default=None
        Number of nonzero loadings: of every component, or of each. In place of the l1 penalty:
        overrides ``alpha``, and loadings are not shrunk.
    ridge : float, "auto", "inf" or None, default="auto"
        Ridge penalty λ₂ on the scale of ``penalty_scale``. "inf" or None: the limit form. "auto":
        the limit form where p > n, otherwise 0.001 on the relative scale.
    penalty_scale : {"relative", "trace", "absolute"}, default="relative"
        Unit of ``alpha`` and ``ridge``. "relative": ``alpha`` is a fraction of the penalty that
        empties the weakest component, min_j 2 max|S v_j| over the principal components v_j;
        ``ridge`` is a multiple of the largest eigenvalue of S. "trace": multiples of the total
        variance tr S. "absolute": the numbers of the paper.
    tol : float, default=1e-5
        Relative change of B, and violation of the conditions of optimality (see ``diagnostics_``),
        at which to stop.
    max_iter : int, default=1000
        Largest number of alternations.
    warm_start : bool, default=False
        Start from A and B of the previous call to ``fit`` where their shapes are right.
    certify : bool or float, default=False
        With ``n_nonzero``: find each component by a search that proves how much better another
        could be, for at most so many seconds (True: 60) for each. See the notes.
    :shared: missing
    :shared: robust_components

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Loadings at unit length with exact zeros; the largest in absolute value is positive. The
        component that explains most comes first, then the one that adds most, unless ``alpha`` or
        ``n_nonzero`` names the components one by one. An empty component is zero.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        What each component adds to the share of the variance that a regression of X on the scores
        explains: kind "reconstruction" of :func:`jointsparse.metrics.explained_variance`.
    mean_ : ndarray of shape (n_features,)
        Mean of the samples.
    reconstruction_ : ndarray of shape (n_components, n_features)
        Least squares map from scores back to features.
    alpha_ : ndarray of shape (n_components,)
        λ₁ of every component in units of the data; 0 with ``n_nonzero``.
    ridge_ : float
        λ₂ in units of the data; infinity for the limit form.
    n_components_ : int
        Number of components fitted.
    component_bounds_ : ndarray of shape (n_components,)
        With ``certify``: what no vector with as many nonzeros exceeds, in the unit of S; proved.
    component_gaps_ : ndarray of shape (n_components,)
        With ``certify``: by which share another could be better than the component, at most.
    proved_optimal_ : bool
        With ``certify``: whether all these gaps are within 1e-6.
    orthogonality_gap_ : float
        With ``certify``: largest cosine between two components; 0 where all are orthogonal.
    feature_scores_ : ndarray of shape (n_features,)
        Length of each feature's loadings; exactly zero for features in no component.
    ranking_ : ndarray of shape (n_features,)
        1 for the best feature.
    objective_ : float
        Objective of the solution. In the limit form: what the alternation minimises there, divided
        by tr S (constants left out, so it is negative).
    history_ : ndarray of shape (n_iterations,)
        Objective after each alternation. It never rises.
    n_iter_ : int
        Alternations made.
    :shared: stopping
    diagnostics_ : dict
        "optimality": by how much the solution misses the conditions of a stationary point. With A
        the best for B, and r half the gradient of the smooth part in :math:`b_j`, it is the largest
        \|r + ½λ₁ sign(b)\|, or \|r\| - ½λ₁ where b = 0, divided by ½λ₁ (without such a penalty by
        the largest entry of S a_j; with ``n_nonzero`` nonzero loadings only). "optimality_bound":
        what it is not above where ``converged_``, ``tol``. "empty_components": their number.
    :shared: robust_attributes
    :shared: features_in

    Notes
    -----
    The problem is not convex: the solution is a stationary point reached from the principal
    components, the same on every run. Where the same small penalty (less than 0.3 on the relative
    scale) is on all components, they are first rotated towards the axes (varimax), which costs the
    fit nothing: that saves most of the alternations. Where p > n nothing of size p × p is formed.
    Steps of the alternation are extrapolated (Anderson); one that would raise the objective is not
    made.

    The fit to X does not change when A and B are rotated together, so penalties decide which
    direction becomes which component. A component penalised more than a weaker one can lose its
    direction to it and end empty; that is why the relative scale has one unit for all.

    With ``n_nonzero`` the constraint :math:`\|b_j\|_0\le n_j` stands in place of the l1 penalty.
    It starts from the principal components rotated towards the axes (varimax), and from themselves
    where the counts differ much; then the features of a component are exchanged as long as that
    lowers the objective.

    With ``certify`` there is no regression. The first component is the unit v with so many nonzeros
    that maximises :math:`v^\top Sv`; it is projected out of S, and the next one does the same to
    what is left (:func:`jointsparse.sparse_component`, deflation). Each proof is about its own
    deflated matrix: other components together may explain more
    (:func:`jointsparse.joint_components` proves that of components with common features), and they
    need not be orthogonal. The objective is the variance that
    is left, tr S minus :math:`v_j^\top S_jv_j` of all components; ``alpha``, ``ridge`` and
    ``warm_start`` play no part, and the components stay in the order in which they were found.

    References
    ----------
    Zou, Hastie, Tibshirani (2006). Sparse Principal Component Analysis. Journal of Computational
    and Graphical Statistics 15(2), 265-286, equation (3.12) and Algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import SPCA
    >>> X = StandardScaler().fit_transform(load_breast_cancer().data)
    >>> model = SPCA(n_components=3, n_nonzero=5).fit(X)
    >>> (model.components_ != 0).sum(axis=1).tolist()
    [5, 5, 5]
    >>> bool(model.explained_variance_ratio_.sum() > 0.6)
    True
    """

    n_components: int
    alpha_: FloatArray
    _state: tuple[FloatArray, FloatArray] | None = None  # A and B of the last fit

    def __init__(
        self,
        *,
        n_components: int = 2,
        alpha: Any = "auto",
        n_nonzero: Any = None,
        ridge: float | str | None = "auto",
        penalty_scale: str = "relative",
        tol: float = 1e-5,
        max_iter: int = 1000,
        warm_start: bool = False,
        certify: bool | float = False,
        missing: str = "error",
        robust: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.n_nonzero = n_nonzero
        self.ridge = ridge
        self.penalty_scale = penalty_scale
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.certify = certify
        self.missing = missing
        self.robust = robust

    def _keep_order(self) -> bool:
        return bool(self.certify) or self._named_one_by_one()

    def _named_one_by_one(self) -> bool:
        given = self.alpha if self.n_nonzero is None else self.n_nonzero
        return not (isinstance(given, str) or np.isscalar(given))

    def _reordered(self, order: NDArray[np.int64]) -> None:
        self.alpha_ = self.alpha_[order]

    def _solve(self, moments: Moments, gram: Gram) -> Solution:
        check_stopping(self.tol, self.max_iter)
        check_scale(self.penalty_scale)
        seconds = self._proof_seconds()
        for name in PROOF_ATTRIBUTES:  # of an earlier fit
            self.__dict__.pop(name, None)
        values, start = self._principal(moments, gram)
        count = values.size
        if count < self.n_components:
            self._warn(f"the data have rank {count}: no more components are fitted")
        if seconds is not None:
            return self._solve_with_proof(moments, count, seconds)
        ridge = self._ridge_in_trace(moments, gram)
        counts = self._counts(moments.n_features, count)
        l1, turning = np.zeros(count), False
        if counts is None:
            unit = _emptying_weakest(gram, values, start)
            l1 = self._penalties(count, unit, gram.trace, limit=np.isinf(ridge))
            turning = np.isfinite(ridge) and 0 < l1.min() == l1.max() <= TURNING * unit
        penalty = SparsePenalty(ridge, l1, counts)
        if counts is not None or self.warm_start or not np.isinf(ridge):
            start = to_host(start)
        loadings = None
        if self.warm_start and self._state is not None and self._state[0].shape == start.shape:
            A, loadings = self._state
            start = continued(A, loadings, start * values)
        elif counts is not None:
            start, loadings = self._first(gram, penalty, start, values)
        elif turning:
            start = towards_axes(start, values)
        solution = solve_alternating(
            gram, start, penalty, tol=self.tol, max_iter=self.max_iter, loadings=loadings
        )
        directions, B, self.alpha_ = solution.state
        self._state = (directions(), B) if self.warm_start else None
        self.ridge_ = ridge * gram.trace
        return solution

    def _proof_seconds(self) -> float | None:
        """Return the time for each component; None where no proof is asked for."""
        if self.certify is False:
            return None
        if self.certify is not True and not (is_number(self.certify) and self.certify > 0):
            raise ValueError(
                f"certify={self.certify!r} is neither True nor False nor a number of seconds"
            )
        if self.n_nonzero is None:
            raise ValueError("certify needs n_nonzero: the number of nonzeros of each component")
        return PROOF_SECONDS if self.certify is True else float(self.certify)

    def _needs(self) -> Needs:
        if not self.certify:
            return Needs()
        return Needs(
            dense_bytes=lambda n, p: (
                2 * 8 * n * p if p > max(n, MOST_DENSE) else scatter_bytes(n, p)
            )
        )

    def _solve_with_proof(self, moments: Moments, count: int, seconds: float) -> Solution:
        counts = self._counts(moments.n_features, count)
        assert counts is not None
        by_samples = moments.has_samples and moments.n_features > MOST_DENSE
        left = Deflated(None, moments.centred_data) if by_samples else Deflated(moments.scatter)
        found = components_by_deflation(left, counts.tolist(), seconds=seconds, tol=PROOF_TOL)
        self.component_bounds_ = found.bounds
        self.component_gaps_ = (found.bounds - found.values) / found.values
        self.proved_optimal_ = bool(found.proved.all())
        cosines = np.abs(found.loadings.T @ found.loadings)
        self.orthogonality_gap_ = float(np.max(np.triu(cosines, 1)))
        self.alpha_, self.ridge_ = np.zeros(found.values.size), 0.0
        self._state = None
        history = moments.total_variance - np.cumsum(found.values)
        return Solution(
            loadings=found.loadings,
            objective=float(history[-1]),
            gap=None,
            history=history.tolist(),
            gap_history=[],
            n_iter=history.size,
            converged=True,
            reason=_about_proofs(found, moments.total_variance),
        )

    def _first(
        self, gram: Gram, penalty: SparsePenalty, principal: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return where to start with counts: from sparse directions in the principal subspace.

        Where the counts differ much, it matters which direction has how many: the principal
        components themselves are tried too.
        """
        sparse = towards_axes(principal, values)
        if penalty.counts is None or penalty.counts.max() <= UNEQUAL * penalty.counts.min():
            return sparse, None
        trials = [
            solve_alternating(gram, start, penalty, tol=TRIAL_TOL, max_iter=TRIAL_ITER)
            for start in (sparse, principal)
        ]
        directions, B, _ = min(trials, key=lambda trial: trial.objective).state
        return directions(), B

    def _remark(self, solution: Solution) -> str:
        if self.certify:
            return "" if self.proved_optimal_ else solution.reason
        counts = self._counts(*solution.loadings.shape)
        found = array_namespace(solution.loadings).sum(solution.loadings != 0, axis=0)
        return _about_counts(to_host(found), counts)

    def emptying_penalty(self, moments: Moments) -> tuple[float, dict[str, Any]]:
        """Return the λ₁ that empties the weakest component, and how to follow a path from there.

        With the parameters returned, ``alpha`` is in data units, the ridge stays what it is now,
        and each solution starts from the last.
        """
        if self.n_nonzero is not None:
            raise ValueError(
                f"n_nonzero={self.n_nonzero!r} stands in place of alpha, which a path goes "
                "through: leave it at None"
            )
        self._check_n_components()
        check_scale(self.penalty_scale)
        gram = gram_of(moments)
        values, start = self._principal(moments, gram)
        ridge = self._ridge_in_trace(moments, gram) * gram.trace
        following = {
            "penalty_scale": "absolute",
            "ridge": "inf" if np.isinf(ridge) else ridge,
            "warm_start": True,
        }
        return _emptying_weakest(gram, values, start) * gram.trace, following

    def set_penalty(self, penalty: float) -> None:
        """Set λ₁ of all components in the units of the path."""
        self.set_params(alpha=penalty)

    def _principal(self, moments: Moments, gram: Gram) -> tuple[FloatArray, Array]:
        """Return the largest eigenvalues and the principal components.

        Components of many features stay where the samples are.
        """
        there = gram.through_samples is not None and gram.of_array
        values, start = (gram.principal if there else gram.leading)(int(self.n_components))
        variances = moments.native.variances if is_device_array(start) else moments.variances
        start[variances == 0, :] = 0.0  # rounding of the eigenvectors
        return values[: start.shape[1]], start

    def _penalties(self, count: int, unit: float, trace: float, *, limit: bool) -> FloatArray:
        """Return λ₁ of every component in units of the trace; ``unit`` empties the weakest."""
        auto = AUTO_ALPHA_LIMIT if limit else AUTO_ALPHA
        absolute = [
            absolute_penalty(
                "alpha",
                value,
                scale=self.penalty_scale,
                auto=auto,
                largest=lambda: unit * trace,
                trace=trace,
            )
            for value in self._one_each("alpha", self.alpha, count)
        ]
        return np.asarray(absolute) / trace

    def _counts(self, n_features: int, count: int) -> NDArray[np.int64] | None:
        if self.n_nonzero is None:
            return None
        given = self._one_each("n_nonzero", self.n_nonzero, count)
        for value in given:
            if not is_number(value, Integral) or not 1 <= value <= n_features:
                raise ValueError(
                    f"n_nonzero={value!r} is not a whole number between 1 and the number of "
                    f"features, {n_features}"
                )
        return np.asarray(given, dtype=np.int64)

    def _one_each(self, name: str, value: Any, count: int) -> list[Any]:
        """Return one value for every component fitted."""
        if not self._named_one_by_one():
            return [value] * count
        given = list(value)
        if len(given) != self.n_components:
            raise ValueError(f"{name} has {len(given)} values for n_components={self.n_components}")
        return given[:count]

    def _ridge_in_trace(self, moments: Moments, gram: Gram) -> float:
        """Return λ₂ in units of the trace."""
        ridge = self.ridge
        if ridge is None or ridge == "inf":
            return float("inf")
        values, _ = gram.leading(0)
        largest = float(values[0])
        if ridge == "auto":
            # p > n, said so that it does not depend on samples that occur twice or on constants.
            wide = np.count_nonzero(moments.variances) > gram.rank(values.size) + 1
            return float("inf") if wide else AUTO_RIDGE * largest
        if not is_number(ridge) or not float(ridge) >= 0:
            raise ValueError(
                f"ridge={ridge!r} is neither a number of at least 0, nor 'auto', nor 'inf'"
            )
        unit = {"relative": largest, "trace": 1.0, "absolute": 1 / gram.trace}
        return float(ridge) * unit[self.penalty_scale]


def _emptying_weakest(gram: Gram, values: FloatArray, principal: Array) -> float:
    """Return the λ₁ that empties the weakest component, in units of the trace.

    One unit for all: were a strong component penalised more than a weak one, its direction would
    move to the weak one, and leave it empty.
    """
    # S v = λv saves a device two passes over the samples; the host would only change last digits.
    there = is_device_array(principal)
    image = principal * like(values, principal) if there else gram.apply(principal)
    return 2 * float(array_namespace(image).max(abs(image), axis=0).min())


def _about_proofs(found: ProvedComponents, total: float) -> str:
    """Return what was proved, in words; ``total`` is the variance of all features."""
    if found.proved.all():
        return f"each component is the best within {PROOF_TOL:.0e} (proved)"
    first = int(np.argmin(found.proved))
    points = few_digits_up(100 * (found.bounds[first] - found.values[first]) / total)
    return (
        f"component {first + 1} is not proved to be the best: another one may have up to {points} "
        "points more of the total variance; give certify more seconds"
    )


def _about_counts(found: NDArray[Any], wanted: NDArray[np.int64] | None) -> str:
    """Return what to tell about the numbers of nonzeros; nothing where they are as they should."""
    if wanted is not None and not np.array_equal(found, wanted):
        return (
            f"the components have {found.tolist()} nonzero loadings, not the {wanted.tolist()} "
            "asked for: equal features enter together, and the rank limits how many can enter "
            "without a ridge"
        )
    if np.any(found == 0):
        empty = ", ".join(str(j + 1) for j in np.flatnonzero(found == 0))
        return f"component {empty} is empty and stays zero; lower alpha"
    return ""
