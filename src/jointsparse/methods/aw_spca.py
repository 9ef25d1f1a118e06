"""AW-SPCA and AW-SPCA-PSD: robust convex sparse PCA that finds its own mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgecon, dgetrf, dgetrs

from jointsparse.device import to_host
from jointsparse.methods.bases.sample_loss import SampleLossSelector
from jointsparse.methods.reading.passes import median_of, samples_of, solve_by_passes
from jointsparse.moments import Moments
from jointsparse.solvers.products.gram import double_where_held
from jointsparse.solvers.samples.cone import solve_samples
from jointsparse.solvers.samples.exact import solve_samples_on_cone
from jointsparse.solvers.samples.free import solve_samples_free
from jointsparse.solvers.solution import Solution
from jointsparse.solvers.subset.constraints import Constraints
from jointsparse.solvers.wide.convex import TooManyDirectionsError

SHRUNK = 1e-3  # of the largest stretch: directions in which b is not determined by v
ESTIMATE = 3.0  # by which LAPACK may underestimate the norm of an inverse


class AWSPCA(SampleLossSelector):
    r"""Select features by convex sparse PCA with unsquared losses and the mean that suits it best.

    Solve

    .. math:: \min_{\Omega,\,v}\ \sum_i\|x_i - \Omega x_i - v\|_2 + \lambda\sum_j\|\omega_j\|_2

    over positive semidefinite Ω (``psd=True``) or over all p × p matrices. With v = (I - Ω)b the
    residual of a sample is (I - Ω)(x_i - b): b takes the place of the mean, which outlier samples
    would pull away. Mild outliers do little harm then; against gross ones put
    :class:`SpatialSign` before it. There is no rank penalty. The score of feature j is
    :math:`\|\omega_j\|_2`, the norm of column j of Ω.

    Parameters
    ----------
    alpha : float, "auto" or "count", default="auto"
        Sparsity penalty λ on the scale of ``penalty_scale``; "auto" is 0.1 on the relative scale,
        and 0.02 where ``n_clusters`` is given. "count" finds the penalty whose solution has exactly
        ``n_features_to_select`` nonzero features.
    psd : bool, default=True
        Whether Ω is restricted to the positive semidefinite cone.
    :shared: n_clusters
    :shared: n_features_to_select
    :shared: rule_of_model
    :shared: constraints
    solver : {"exact", "splitting", "published"} or solver, default="exact"
        "exact" returns the optimum with exact zeros and a certified duality gap, by the solver that
        suits the shape: on the cone no p × p matrix beyond 1500 features and four to a sample.
        "splitting" does the same with p × p matrices at every shape. "published" is the reweighting
        algorithm of the literature, with neither zeros nor a gap. A solver with its own tolerances:
        ``Splitting(tol=1e-8)`` of :mod:`jointsparse.solvers`.
    penalty_scale : {"relative", "trace", "absolute"}, default="relative"
        Unit of ``alpha``. "relative": a fraction of max_j ‖Q_j‖, where
        :math:`Q = \sum_i (x_i-b)(x_i-b)^\top/\|x_i-b\|` and b is the geometric median. "trace":
        multiples of the total variance tr S. "absolute": the numbers of the paper.
    constants : {"authors", "paper"}, default="authors"
        Smoothing, ridge and stopping rule of the published algorithm.
    tol : float, default=1e-4
        Relative duality gap at which the exact solver stops.
    max_iter : int, default=1000
        Largest number of iterations: steps of the splitting solver, or sets of weights.
    random_state : int, RandomState instance or None, default=None
        Not used; for symmetry with the other methods.
    :shared: missing
    :shared: scale

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The mean b that goes with the solution, in the coordinates of X. Along directions that Ω
        reconstructs to within 0.1 % any b would do, and that of the geometric median is taken.
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
    alpha_ : float
        λ in the units of the data.

    References
    ----------
    Yi, He, Jing, Li, Nie (2019). Adaptive Weighted Sparse Principal Component Analysis for Robust
    Unsupervised Feature Selection. IEEE Transactions on Neural Networks and Learning Systems.

    Zheng, Zhang, Liu, Jiang, Huo, Liu (2023). arXiv:2309.06202, problems (36) and (38).

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import AWSPCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 5))
    >>> X[0] = 1000.0  # pulls the sample mean to 20
    >>> bool(np.abs(AWSPCA().fit(X).mean_).max() < 1)
    True
    """

    _loss = "samples+mean"
    _free_mean = True
    _solvers = ("exact", "splitting", "published")

    def __init__(
        self,
        *,
        alpha: float | str = "auto",
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

    def _solve(self, moments: Moments) -> tuple[Solution, NDArray[np.float64]]:
        solution, scores = super()._solve(moments)
        self.mean_ = moments.mean + self._nearest_mean(solution, median_of(moments))
        return solution, scores

    def _solve_exact(self, moments: Moments, lam: float, tol: float) -> Solution:
        limits: dict[str, Any] = {"free_mean": True, "tol": tol, "max_iter": self.max_iter}
        elsewhere = samples_of(moments)
        if elsewhere is not None:
            return solve_by_passes(elsewhere, lam, 0.0, **limits)
        if not self.psd:
            return solve_samples_free(double_where_held(moments), lam, 0.0, **limits)
        if self.solver == "splitting":
            spectrum = moments.native.spectrum
            return solve_samples(double_where_held(moments), spectrum, lam, 0.0, **limits)
        try:
            return solve_samples_on_cone(
                self._data(moments), lam, 0.0, spectrum=lambda: moments.native.spectrum, **limits
            )
        except TooManyDirectionsError as problem:
            raise ValueError(self._about_rank(problem, moments)) from None

    def _nearest_mean(self, solution: Solution, median: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the b nearest to the median with (I - Ω)b = v, where Ω = BLᵀ.

        b = median + w + Bc with w = v - (I - Ω)median solves it if (I - LᵀB)c = Lᵀw.
        """
        loadings, offset = to_host(solution.loadings), to_host(solution.state.offset)
        basis = solution.state.basis
        basis = np.eye(loadings.shape[0]) if basis is None else to_host(basis)
        rest = offset - median + basis @ (loadings.T @ median)
        inner = np.eye(basis.shape[1]) - loadings.T @ basis
        correction = _solved(inner, loadings.T @ rest)
        return np.asarray(median + rest + basis @ correction)


def _solved(matrix: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the shortest solution without the directions that the matrix shrinks by ``SHRUNK``.

    There are none where it is well conditioned, which its factors tell at a tenth of the cost.
    """
    if not len(matrix):  # of an empty model: LAPACK prints that it does not like it
        return right
    factors, pivots, failed = dgetrf(matrix)
    if not failed:
        sums = np.abs(matrix)
        sizes = {"1": sums.sum(axis=0).max(), "I": sums.sum(axis=1).max()}
        # The condition number of lengths is not above the larger one of these two.
        shares = [float(dgecon(factors, size, norm=norm)[0]) for norm, size in sizes.items()]
        if min(shares) > ESTIMATE * SHRUNK:
            return np.asarray(dgetrs(factors, pivots, right)[0])
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=SHRUNK)[0])
