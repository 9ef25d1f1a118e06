"""CSPCA and CSPCA-PSD: convex sparse PCA with residuals that are not squared."""

from __future__ import annotations

from typing import Any

from jointsparse.methods.bases.sample_loss import SampleLossSelector
from jointsparse.methods.reading.passes import samples_of, solve_by_passes
from jointsparse.moments import Moments
from jointsparse.solvers.products.gram import double_where_held
from jointsparse.solvers.samples.cone import solve_samples
from jointsparse.solvers.samples.exact import solve_samples_on_cone
from jointsparse.solvers.samples.free import solve_samples_free
from jointsparse.solvers.solution import Solution
from jointsparse.solvers.subset.constraints import Constraints
from jointsparse.solvers.wide.convex import TooManyDirectionsError


class CSPCA(SampleLossSelector):
    r"""Select features by convex sparse PCA with unsquared losses, solved to a proven optimum.

    For centred samples :math:`x_i`, solve

    .. math:: \min_{\Omega}\ \sum_i\|x_i - \Omega x_i\|_2
              + \lambda\sum_j\|\omega_j\|_2 + \eta\,\|\Omega\|_* ,

    over positive semidefinite Ω (``psd=True``, where the nuclear norm is the trace) or over all
    p × p matrices. Residuals are not squared, which tames mild outliers: the error of a far sample
    counts by its size, not by its square. Its leverage is not bounded, so that a sample very far
    away still decides: against such, put :class:`SpatialSign` before it. :math:`\omega_j` is column
    j of Ω; its norm is the score of feature j.

    Parameters
    ----------
    alpha : float, "auto" or "count", default="auto"
        Sparsity penalty λ on the scale of ``penalty_scale``; "auto" is 0.02 on the relative scale,
        and 0.1 where ``eta`` is given or nothing is above the noise. "count" finds the penalty
        whose solution has exactly ``n_features_to_select`` nonzero features.
    eta : float or "auto", default="auto"
        Rank penalty η on the scale of ``penalty_scale``; "auto" is, on the relative scale, the
        share of the largest eigenvalue of S that noise alone could have (at least 0.01; 0.03 where
        nothing is above the noise). Where ``n_clusters`` is given it is √(s_(c-1) s_c)/s₁, s_i
        being the eigenvalues of Q (below).
    psd : bool, default=True
        Whether Ω is restricted to the positive semidefinite cone. The two models have different
        optima: the claim that the unrestricted optimum lies on the cone anyway does not hold (see
        Notes).
    :shared: n_clusters
    :shared: n_features_to_select
    :shared: rule_of_model
    :shared: constraints
    solver : {"exact", "splitting", "published"} or solver, default="exact"
        "exact" returns the optimum with exact zeros and a certified duality gap, by the solver that
        suits the shape: for more features than samples without p × p matrices, but for small tables
        and ``eta=0``. "splitting" does the same with p × p matrices at every shape. "published" is
        the reweighting algorithm of the literature, with neither zeros nor a gap. A solver with its
        own tolerances: ``Splitting(tol=1e-8)`` of :mod:`jointsparse.solvers`.
    penalty_scale : {"relative", "trace", "absolute"}, default="relative"
        Unit of ``alpha`` and ``eta``. "relative": fractions of values that empty the model, with
        :math:`Q = \sum_i x_ix_i^\top/\|x_i\|`: η_max = λ_max(Q) and λ_max = max_j ‖[(Q - ηI)₊]_j‖.
        "trace": multiples of the total variance tr S. "absolute": the numbers of the paper.
    constants : {"authors", "paper"}, default="authors"
        Smoothing, ridge and stopping rule of the published algorithm. Those of the authors use η
        where the derivative of the model has η/2.
    tol : float, default=1e-4
        Relative duality gap at which the exact solver stops.
    max_iter : int, default=1000
        Largest number of iterations: steps of the splitting solver, or sets of weights.
    random_state : int, RandomState instance or None, default=None
        Random start of the published algorithm; None starts from the identity.
    :shared: missing
    :shared: scale

    Attributes
    ----------
    feature_scores_ : ndarray of shape (n_features,)
        Column norms of Ω; exactly zero for features that the solution leaves out.
    :shared: order_of_rule
    :shared: attributes
    loadings_ : ndarray of shape (n_features, rank)
        One row for each feature: U with Ω = UUᵀ where ``psd``; otherwise L, whose row norms are the
        column norms of Ω.
    duality_gap_ : float
        Proven upper bound on (objective - optimum) / objective, rounding included. Exact solver
        only.
    objective_, history_, gap_history_, n_iter_, converged_, stopping_reason_
        As in :class:`SPCAPSD`.
    alpha_, eta_ : float
        λ and η in the units of the data.

    Notes
    -----
    For X with the rows x and -x, x = (2, 1), λ = 1 and small η, the optimum over all matrices is
    Ω = [[1, 0], [½, 0]]: not symmetric, and its symmetric part has a negative eigenvalue. Over
    *symmetric* matrices there is an optimum on the cone.

    References
    ----------
    Chang, Nie, Yang, Zhang, Huang (2016). Convex Sparse PCA for Unsupervised Feature Learning. ACM
    Transactions on Knowledge Discovery from Data 11(1).

    Zheng, Zhang, Liu, Jiang, Huo, Liu (2023). arXiv:2309.06202, problems (37) and (39).

    Examples
    --------
    Eight features carry the signal; ten samples of 200 are wild in the other 22.

    >>> import numpy as np
    >>> from jointsparse import CSPCA, SPCAPSD
    >>> rng = np.random.default_rng(0)
    >>> X = 0.3 * rng.standard_normal((200, 30))
    >>> X[:, :8] += rng.standard_normal((200, 2)) @ rng.standard_normal((2, 8))
    >>> X[:10, 8:] += 8 * rng.standard_normal((10, 22))
    >>> by_scores = {"alpha": 0.3, "eta": 0.3, "n_features_to_select": 8, "rule": "norm"}
    >>> robust = CSPCA(**by_scores).fit(X)
    >>> np.flatnonzero(robust.get_support()).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    >>> squared = SPCAPSD(**by_scores).fit(X)
    >>> int(squared.get_support()[:8].sum())
    2
    """

    _loss = "samples"
    _solvers = ("exact", "splitting", "published")

    def __init__(
        self,
        *,
        alpha: float | str = "auto",
        eta: float | str = "auto",
        psd: bool = True,
        n_clusters: int | None = None,
        n_features_to_select: int | float | str = "auto",
        rule: str = "greedy",
        constraints: Constraints | None = None,
        solver: Any = "exact",
        penalty_scale: str = "relative",
        constants: str = "authors",
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: Any = None,
        missing: str = "error",
        scale: str | None = None,
    ) -> None:
        self.alpha = alpha
        self.eta = eta
        self.psd = psd
        self.n_clusters = n_clusters
        self.n_features_to_select = n_features_to_select
        self.rule = rule
        self.constraints = constraints
        self.solver = solver
        self.penalty_scale = penalty_scale
        self.constants = constants
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.missing = missing
        self.scale = scale

    def _solve_exact(self, moments: Moments, lam: float, tol: float) -> Solution:
        limits: dict[str, Any] = {"tol": tol, "max_iter": self.max_iter}
        elsewhere = samples_of(moments)
        if elsewhere is not None:
            return solve_by_passes(elsewhere, lam, self.eta_, **limits)
        if not self.psd:
            return solve_samples_free(double_where_held(moments), lam, self.eta_, **limits)
        if self.solver == "splitting":
            spectrum = moments.native.spectrum
            return solve_samples(double_where_held(moments), spectrum, lam, self.eta_, **limits)
        try:
            return solve_samples_on_cone(
                self._data(moments),
                lam,
                self.eta_,
                spectrum=None if moments.elsewhere else lambda: moments.native.spectrum,
                **limits,
            )
        except TooManyDirectionsError as problem:
            raise ValueError(self._about_rank(problem, moments)) from None
