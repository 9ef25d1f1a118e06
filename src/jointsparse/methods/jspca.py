"""JSPCA: joint sparse PCA, components that share the features they do without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import to_host
from jointsparse.methods.bases.components import ComponentsMethod, regression
from jointsparse.methods.bases.penalty_scale import absolute_penalty, check_scale
from jointsparse.methods.bases.selector import check_stopping, is_number
from jointsparse.methods.reading.needs import Needs, copies_of, matrices_of
from jointsparse.methods.reading.passes import samples_of
from jointsparse.moments import Moments
from jointsparse.solvers.components.joint import (
    FeatureLoss,
    FrobeniusLoss,
    Loss,
    SampleLoss,
    emptying_joint_penalty,
    feature_residuals,
    solve_joint,
)
from jointsparse.solvers.components.joint_published import solve_joint_published
from jointsparse.solvers.products.gram import Gram, double_where_held, gram_of
from jointsparse.solvers.samples.passed import PassedSampleLoss
from jointsparse.solvers.samples.sparse import SparseSampleLoss
from jointsparse.solvers.solution import Solution

AUTO_ALPHA = 0.1  # of the penalty that empties the model
LOSSES = ("samples", "features", "frobenius")
SOLVERS = ("exact", "published")


class JSPCA(ComponentsMethod):
    r"""Joint sparse principal components: a feature is in all components or in none.

    For centred X (n samples × p features) find a projection Q and a recovery P, both p × k, by

    .. math:: \min_{Q,P}\ \operatorname{loss}(X - XQP^\top) + \lambda\sum_{i=1}^p\|q_i\|_2 ,

    :math:`q_i` the rows of Q, one for each feature. The loss is

    * ``"samples"``: :math:`\sum_i\|x_i - PQ^\top x_i\|_2` over the samples, with
      :math:`P^\top P=I`. Residuals count once, not squared: against mild outliers.
    * ``"frobenius"``: :math:`\|X - XQP^\top\|_F^2`, :math:`P^\top P=I`: row-sparse SPCA.
    * ``"features"``: :math:`\sum_j\|(X - XQP^\top)_{\cdot j}\|_2` over the features, as in the
      source, with :math:`P^\top DP=I`, D the diagonal of :math:`1/(2\|(X - XQP^\top)_{\cdot j}\|)`.

    Q and P alternate; with P fixed, Q is a row-sparse regression, solved to optimality, so rows are
    exactly zero. Objective and zero rows do not change when Q and P are rotated together: the
    rotation is chosen that makes the scores uncorrelated.

    Parameters
    ----------
    n_components : int, default=2
        Number of components k. No more are fitted than the rank of the data.
    alpha : float or "auto", default="auto"
        Penalty λ on the scale of ``penalty_scale``. "auto" is 0.1 on the relative scale.
    loss : {"samples", "features", "frobenius"}, default="samples"
        What is summed; see above.
    solver : {"exact", "published"}, default="exact"
        "published" is the source's algorithm (``loss="features"`` only), in the units of the data:
        reweighting, from the principal components and weights of 1. Its columns are not rotated.
    threshold : float, default=0
        With ``solver="published"``: entries of Q not larger than this become zero. The source's
        table needs 0.01; without it no row is zero.
    penalty_scale : {"relative", "trace", "absolute"}, default="relative"
        Unit of ``alpha``. "relative": fraction of the penalty for which Q = 0 answers the starting
        P. "trace": multiples of that power of tr S which grows like λ with the data: tr S for
        "frobenius", its root for "samples", its power 3/4 for "features". "absolute": λ itself.
    tol : float, default=1e-5
        Violation of the conditions of optimality at which to stop (see ``diagnostics_``); with
        ``solver="published"`` the relative change of Q, as published. 0 makes exactly ``max_iter``
        iterations.
    max_iter : int, default=1000
        Largest number of alternations.
    warm_start : bool, default=False
        Start from Q and P of the previous call to ``fit``, where their shapes are right and their
        objective is not above that of the first answer to the usual start; ``solver="exact"`` only.
    :shared: missing
    :shared: robust_components

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Columns of Q at unit length, the one that explains most first; a feature that is not used
        is zero in all of them. The largest entry of each in absolute value is positive.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        What each component adds to the share of the variance that a regression of X on the scores
        explains: kind "reconstruction" of :func:`jointsparse.metrics.explained_variance`.
    projection_, recovery_ : ndarray of shape (n_features, n_components)
        Q and P, columns in the order of ``components_``.
    mean_ : ndarray of shape (n_features,)
        Mean of the samples.
    reconstruction_ : ndarray of shape (n_components, n_features)
        Least squares map from scores back to features; with ``loss="samples"``, of the samples
        weighted by 1/(2‖residual‖), so that outliers do not bend it.
    alpha_ : float
        λ in units of the data.
    n_components_ : int
        Number of components fitted.
    feature_scores_ : ndarray of shape (n_features,)
        Length of each feature's row of ``components_``; exactly zero for features not used.
    ranking_ : ndarray of shape (n_features,)
        1 for the best feature.
    objective_ : float
        Objective of ``projection_`` and ``recovery_``.
    history_ : ndarray of shape (n_iterations,)
        Objective after each alternation. It never rises, except with ``loss="features"``, where
        the constraint moves.
    n_iter_ : int
        Alternations made.
    :shared: stopping
    diagnostics_ : dict
        "optimality": by how much the returned Q and P miss the conditions of a stationary point,
        the larger of two numbers. For Q, with R the gradient of the loss in Q, the largest
        :math:`\|r_i+\lambda q_i/\|q_i\|\|` or, where :math:`q_i=0`, :math:`\|r_i\|-\lambda`,
        divided by λ; for P the gradient along the constraint, as a share of the whole. Norms that
        are not squared are smoothed by 1e-6 of their typical size. With ``loss="features"`` Q and P
        are optimal for the weights D of their own residuals. "optimality_bound": what it is not
        above where ``converged_``, ``tol`` and the rounding of the scatter matrix. Neither is there
        with ``solver="published"``.
    :shared: robust_attributes
    :shared: features_in

    Notes
    -----
    The problem is not convex: the solution is a stationary point reached from the principal
    components (of samples weighted by 1/(2‖x‖), for ``loss="samples"``), the same on every run.
    "frobenius" and "features" know the data through the scatter matrix; "samples" makes one pass
    over them for each alternation. Where p > n nothing of size p × p is formed.

    The source claims robustness to outlier samples and an objective that never rises. With
    ``loss="samples"`` the second holds, and the first for mild outliers: a residual that is not
    squared bounds what it can do, not what a far sample can (the mean is the ordinary one, too).
    With the source's own ``"features"`` neither holds. ``robust="samples"`` bounds the samples
    first, about a centre found from their geometric median; then ``components_``, ``recovery_``
    and ``mean_`` are all robust, see the page about outliers.

    References
    ----------
    Yi, Lai, He, Cheung, Liu (2017). Joint sparse principal component analysis. Pattern Recognition
    61, 524-536.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import JSPCA
    >>> X = StandardScaler().fit_transform(load_breast_cancer().data)
    >>> model = JSPCA(n_components=2, alpha=0.4).fit(X)
    >>> int(model.get_support().sum())
    5
    >>> model.transform(X).shape
    (569, 2)
    """

    n_components: int
    projection_: FloatArray
    recovery_: FloatArray
    _state: tuple[FloatArray, FloatArray] | None = None  # Q and P of the last fit, as solved

    def __init__(
        self,
        *,
        n_components: int = 2,
        alpha: float | str = "auto",
        loss: str = "samples",
        solver: str = "exact",
        threshold: float = 0.0,
        penalty_scale: str = "relative",
        tol: float = 1e-5,
        max_iter: int = 1000,
        warm_start: bool = False,
        missing: str = "error",
        robust: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.loss = loss
        self.solver = solver
        self.threshold = threshold
        self.penalty_scale = penalty_scale
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.missing = missing
        self.robust = robust

    def _keep_order(self) -> bool:
        return self.solver == "published"

    def _reordered(self, order: IntArray) -> None:
        self.projection_, self.recovery_ = self.projection_[:, order], self.recovery_[:, order]

    def _needs(self) -> Needs:
        samples = self.loss == "samples"
        fit = matrices_of(2, 26, 0) if samples else copies_of(0, 0)  # measured 30 to 40
        return Needs(samples=samples, passes=self.solver == "exact", fit_bytes=fit)

    def _solve(self, moments: Moments, gram: Gram) -> Solution:
        self._check_parameters()
        loss, start = self._begun(moments, gram)
        if start.shape[1] < self.n_components:
            self._warn(f"the data have rank {start.shape[1]}: no more components are fitted")
        unit = gram.trace**loss.power
        self.alpha_ = absolute_penalty(
            "alpha",
            self.alpha,
            scale=self.penalty_scale,
            auto=AUTO_ALPHA,
            largest=lambda: emptying_joint_penalty(loss, start) * unit,
            trace=unit,
        )
        if self.solver == "published":
            solution = solve_joint_published(
                gram, start.shape[1], self.alpha_, tol=self.tol, max_iter=self.max_iter
            )
            loadings = self._as_published(solution)
            solution = replace(solution, objective=self._objective_of_features(gram))
        else:
            warm = self._state if self.warm_start else None
            if warm is not None and warm[0].shape != start.shape:
                warm = None
            solution = solve_joint(
                loss, start, self.alpha_ / unit, tol=self.tol, max_iter=self.max_iter, warm=warm
            )
            solution = replace(
                solution, loadings=to_host(solution.loadings), state=to_host(solution.state)
            )
            self._state = (solution.loadings, solution.state) if self.warm_start else None
            solution = _in_units_of_data(solution, loss, gram.trace)
            loadings = self._rotated(solution, gram)
        return replace(solution.with_state(loss.gram), loadings=_unit_columns(loadings))

    def _remark(self, solution: Solution) -> str:
        return "" if np.any(solution.loadings) else "every loading is zero; lower alpha"

    def emptying_penalty(self, moments: Moments) -> tuple[float, dict[str, Any]]:
        """Return the λ for which Q = 0 answers the starting P, and how to follow a path from there.

        With the parameters returned ``alpha`` is in data units, and each solution starts from the
        last.
        """
        self._check_n_components()
        self._check_parameters()
        gram = gram_of(moments)
        loss, start = self._begun(moments, gram)
        largest = emptying_joint_penalty(loss, start) * gram.trace**loss.power
        return largest, {"penalty_scale": "absolute", "warm_start": True}

    def set_penalty(self, penalty: float) -> None:
        """Set λ in the units of the path."""
        self.set_params(alpha=penalty)

    def _begun(self, moments: Moments, gram: Gram) -> tuple[Loss, FloatArray]:
        """Return the loss with its first weights, and the P that is best for them."""
        loss = self._loss(moments, gram)
        start = loss.start(int(self.n_components))
        start[moments.variances == 0] = 0.0  # rounding of the eigenvectors
        return loss, start

    def _loss(self, moments: Moments, gram: Gram) -> Loss:
        if self.loss == "frobenius":
            return FrobeniusLoss(gram)
        if self.loss == "features":
            return FeatureLoss(gram)
        elsewhere = samples_of(moments)
        if elsewhere is not None:
            return PassedSampleLoss(elsewhere.divided(float(np.sqrt(gram.trace))))
        through = gram.through_samples
        if through is not None and gram.of_sparse:
            return SparseSampleLoss(through)
        wide = through is not None
        # Where p > n single precision stays: a copy in double precision may not fit.
        centred = moments.native.centred_data if wide else double_where_held(moments)
        return SampleLoss(centred, wide=wide, shrink=float(1 / np.sqrt(gram.trace)))

    def _objective_of_features(self, gram: Gram) -> float:
        """Return the objective of Q and P, less the entries that became zero."""
        Q, P = self.projection_, self.recovery_
        norms = feature_residuals(np.asarray(gram.diagonal), Q, P, gram.apply(Q), 0.0)
        penalty = self.alpha_ * float(np.sum(np.linalg.norm(Q, axis=1)))
        return float(np.sum(norms)) * float(np.sqrt(gram.trace)) + penalty

    def _as_published(self, solution: Solution) -> FloatArray:
        Q = solution.loadings
        self.projection_ = np.where(np.abs(Q) > self.threshold, Q, 0.0)
        self.recovery_ = solution.state
        return self.projection_

    def _rotated(self, solution: Solution, gram: Gram) -> FloatArray:
        """Turn Q and P together until the scores are uncorrelated, largest variance first."""
        Q, P = solution.loadings, solution.state
        inner = Q.T @ gram.apply(Q)
        rotation = np.linalg.eigh((inner + inner.T) / 2)[1][:, ::-1]
        self.projection_, self.recovery_ = Q @ rotation, P @ rotation
        return self.projection_

    def _reconstruction(self, solution: Solution, gram: Gram) -> Array:
        weighted = solution.state if self.loss == "samples" else gram
        return regression(weighted, self.components_.T)

    def _check_parameters(self) -> None:
        check_stopping(self.tol, self.max_iter, zero_tol=True)
        check_scale(self.penalty_scale)
        for name, value, known in (
            ("loss", self.loss, LOSSES),
            ("solver", self.solver, SOLVERS),
        ):
            if value not in known:
                raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, known))}")
        if self.solver == "published" and self.loss != "features":
            raise ValueError(
                f"solver='published' is the source's algorithm, which has loss='features'; with "
                f"loss={self.loss!r} use solver='exact'"
            )
        if not is_number(self.threshold) or not self.threshold >= 0:
            raise ValueError(f"threshold={self.threshold!r} is not a number of at least 0")
        if self.threshold > 0 and self.solver == "exact":
            raise ValueError("threshold is for solver='published'; 'exact' has exact zeros")


def _in_units_of_data(solution: Solution, loss: Loss, trace: float) -> Solution:
    """Undo the division of the data by the root of their total variance."""
    value = trace**loss.unit
    shrink = trace ** (loss.unit - loss.power)  # λ‖Q‖ must grow like the loss
    return replace(
        solution,
        loadings=solution.loadings * shrink,
        state=solution.state / shrink,
        objective=solution.objective * value,
        history=[entry * value for entry in solution.history],
    )


def _unit_columns(loadings: FloatArray) -> FloatArray:
    norms = np.linalg.norm(loadings, axis=0)
    # A column that is rounding only (Q of lower rank) must not become a component.
    real = norms > 1e-12 * np.max(norms, initial=0.0)
    return np.where(real, loadings / np.where(real, norms, 1.0), 0.0)
