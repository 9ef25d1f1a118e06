"""SPCA-PSD: convex sparse PCA on the cone of positive semidefinite matrices (source 004)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import Array
from jointsparse.device import like, to_host
from jointsparse.linalg import Spectrum
from jointsparse.methods.bases.convex import ConvexSelector
from jointsparse.methods.reading.needs import Needs
from jointsparse.methods.reading.wide_samples import (
    advised_by_few,
    strongest,
    wide_data,
)
from jointsparse.moments import Moments
from jointsparse.solvers.convex.exact import solve_scatter
from jointsparse.solvers.convex.model import SQUARED_LOSS_SLOPE, nonempty_lam
from jointsparse.solvers.convex.published import factor_of_scatter
from jointsparse.solvers.convex.splitting import MATRICES, solve_splitting
from jointsparse.solvers.solution import Solution
from jointsparse.solvers.subset.constraints import Constraints
from jointsparse.solvers.wide.basis import ACCELERATION_BYTES
from jointsparse.solvers.wide.convex import TooManyDirectionsError, WideState, solve_wide
from jointsparse.solvers.wide.penalties import largest_lam_wide, leading_eigenvalues

# Arrays of the size of wide samples: as every method has, and earlier steps, up to their limit
# (measured 10 in all with 100 × 20 000 and 80 × 10 000 entries). How many directions matter is not
# known before; what more of them take, the solver asks itself.
COPIES, REMEMBERED = 4, 7
SMALLEST_FACTORED = 400  # features; below, p × p matrices cost no more than the overhead


class SPCAPSD(ConvexSelector):
    r"""Select features by convex sparse PCA, solved to a proven optimum.

    For centred X (n samples × p features) with scatter matrix S = XᵀX, solve

    .. math:: \min_{\Omega\succeq 0}\ \|X - X\Omega\|_F^2
              + \lambda\sum_j\|\omega_j\|_2 + \eta\operatorname{tr}\Omega ,

    where :math:`\omega_j` is column j of the p × p reconstruction matrix Ω. The sum of column norms
    (``alpha`` sets λ) makes whole columns, that is features, exactly zero; the trace (``eta`` sets
    η) keeps the rank low, as the number of components does in PCA. The score of a feature is
    :math:`\|\omega_j\|_2`.

    Parameters
    ----------
    alpha : float, "auto" or "count", default="auto"
        Sparsity penalty λ on the scale of ``penalty_scale``; "auto" is 0.02 on the relative scale,
        and 0.1 where ``eta`` is given or nothing is above the noise. "count" finds the penalty
        whose solution has exactly ``n_features_to_select`` nonzero features.
    eta : float or "auto", default="auto"
        Rank penalty η on the scale of ``penalty_scale``; "auto" is the noise edge: directions whose
        eigenvalue noise alone could have are removed (η = 2e, at least 0.01 on the relative scale;
        0.03 where nothing is above the noise). Where ``n_clusters`` is given it is
        √(s_(c-1) s_c)/s₁, s_i being the eigenvalues of S.
    :shared: n_clusters
    :shared: n_features_to_select
    :shared: rule_of_model
    :shared: constraints
    solver : {"exact", "splitting", "factored", "published"} or solver, default="exact"
        "exact" returns the optimum with exact zeros and a certified duality gap, by whichever way
        suits the shape and the rank. "splitting" (p × p matrices) and "factored" (never a p × p
        matrix) force one. "published" is the algorithm printed in the paper: its objective may
        rise between iterations, it stops above the optimum and has no exact zeros. A solver of
        :mod:`jointsparse.solvers`, or your own, with its own tolerances: ``Splitting(tol=1e-8)``.
    penalty_scale : {"relative", "trace", "absolute"}, default="relative"
        Unit of ``alpha`` and ``eta``. "relative": fractions of values that empty the model,
        η_max = 2 s₁ (s₁ the largest eigenvalue of S) and, at the given η,
        λ_max = max_j ‖[(2S - ηI)₊]_j‖, so that the same numbers suit data of any scale. "trace":
        multiples of the total variance tr S. "absolute": the numbers of the paper.
    constants : {"authors", "paper"}, default="authors"
        Smoothing, ridge and stopping rule of the published algorithm: those of the authors' program
        (absolute numbers, at most 100 iterations; ``tol`` is not used), or small numbers relative
        to the data. Not used by the exact solver.
    tol : float, default=1e-4
        Relative duality gap at which the exact solver stops; relative change of the objective for
        the published one with the paper's constants.
    max_iter : int, default=1000
        Largest number of iterations.
    warm_start : bool, default=False
        Start the exact solver from the solution of the previous call to ``fit``.
    random_state : int, RandomState instance or None, default=None
        Random start of the published algorithm; None starts from the identity. The exact solver
        uses no random numbers.
    :shared: missing
    :shared: scale
    :shared: robust

    Attributes
    ----------
    feature_scores_ : ndarray of shape (n_features,)
        Column norms of Ω; exactly zero for features that the solution leaves out.
    :shared: order_of_rule
    :shared: attributes
    loadings_ : ndarray of shape (n_features, rank)
        U with Ω = UUᵀ, the columns orthogonal and the longest first.
    proved_zero_ : ndarray of shape (n_features,)
        Features that are proved to be zero in *every* optimum; other zeros are zeros of this
        solution. Where the solver screens.
    duality_gap_ : float
        Proven upper bound on (objective - optimum) / objective, rounding included. Exact solver
        only.
    objective_ : float
        Objective of the solution.
    history_, gap_history_ : ndarray of shape (n_iterations,)
        Best objective and gap known after each iteration.
    alpha_, eta_ : float
        λ and η in the units of the data.
    n_iter_ : int
        Iterations made.
    :shared: stopping
    diagnostics_ : dict
        Rank of Ω, residuals, step size; of the exact solver also "optimality", ``duality_gap_``
        again, and "optimality_bound", ``tol``, which it is not above where ``converged_``.
    :shared: robust_attributes
    :shared: features_in

    Notes
    -----
    Symbols of the paper: λ is ``alpha_``, η is ``eta_``, Ω is ``loadings_ @ loadings_.T``. The
    paper's orientation of X is transposed.

    References
    ----------
    Zheng, Zhang, Liu, Jiang, Huo, Liu (2023). Fast Sparse PCA via Positive Semidefinite Projection
    for Unsupervised Feature Selection. arXiv:2309.06202, problem (14) and Algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import SPCAPSD
    >>> data = load_breast_cancer()
    >>> X = StandardScaler().fit_transform(data.data)
    >>> selector = SPCAPSD(n_features_to_select=3).fit(X)
    >>> data.feature_names[selector.get_support()].tolist()
    ['mean concavity', 'texture error', 'worst radius']
    >>> bool(selector.duality_gap_ < 1e-4)
    True

    The three highest scores stand for few others, which no score knows:

    >>> published = SPCAPSD(n_features_to_select=3, rule="norm").fit(X)
    >>> data.feature_names[published.get_support()].tolist()
    ['texture error', 'smoothness error', 'symmetry error']
    >>> selector.selection_curve_[-1].round(2), published.selection_curve_[-1].round(2)
    (np.float64(0.63), np.float64(0.19))
    """

    def __init__(
        self,
        *,
        alpha: float | str = "auto",
        eta: float | str = "auto",
        n_clusters: int | None = None,
        n_features_to_select: int | float | str = "auto",
        rule: str = "greedy",
        constraints: Constraints | None = None,
        solver: Any = "exact",
        penalty_scale: str = "relative",
        constants: str = "authors",
        tol: float = 1e-4,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        missing: str = "error",
        scale: str | None = None,
        robust: str | None = None,
    ) -> None:
        self.alpha = alpha
        self.eta = eta
        self.n_clusters = n_clusters
        self.n_features_to_select = n_features_to_select
        self.rule = rule
        self.constraints = constraints
        self.solver = solver
        self.penalty_scale = penalty_scale
        self.constants = constants
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.missing = missing
        self.scale = scale
        self.robust = robust

    _loss = "squared"
    _slope = SQUARED_LOSS_SLOPE
    _solvers = ("exact", "splitting", "factored", "published")

    def _zero_alpha_allowed(self) -> bool:
        return self.solver != "published"

    def _slope_data(self, moments: Moments) -> Array:
        if moments.is_wide:
            return moments.native.centred_data
        return factor_of_scatter(moments.native.spectrum)

    def _needs(self) -> Needs:
        if self.solver == "published":
            return Needs(dense_bytes=lambda n, p: 12 * 8 * n * p)
        if self.solver == "splitting":
            return Needs(dense_bytes=lambda n, p: MATRICES * 8 * p**2, scatter_copies=MATRICES)
        if self.solver == "factored":
            return Needs(products=True)
        # Where a small basis does not hold the optimum, the model is split.
        products = self.solver == "exact"
        return Needs(products=products, scatter_copies=MATRICES, fit_bytes=_wide_bytes)

    def _slope_spectrum(self, moments: Moments) -> Spectrum:
        spectrum: Spectrum = moments.native.thin_spectrum
        return spectrum

    def _slope_values(self, moments: Moments, count: int) -> NDArray[np.float64]:
        if not moments.is_wide:
            return super()._slope_values(moments, count)
        return to_host(leading_eigenvalues(wide_data(moments), count))

    def _largest_eta(self, moments: Moments) -> float:
        if not moments.is_wide:
            return super()._largest_eta(moments)
        return self._slope * float(leading_eigenvalues(wide_data(moments), 1)[0])

    def _largest_lam(self, moments: Moments) -> float:
        if not moments.is_wide:
            return super()._largest_lam(moments)
        return largest_lam_wide(wide_data(moments), self.eta_)

    def _nonempty_lam(self, moments: Moments) -> float:
        if not advised_by_few(moments):
            return super()._nonempty_lam(moments)
        data = wide_data(moments)
        few = data.columns(like(strongest(moments), data.empty)).dense()
        return nonempty_lam(few, self.eta_, self._slope)

    def _published_data(self, moments: Moments) -> Array:
        return self._slope_data(moments)

    def _solve_exact(self, moments: Moments, lam: float, tol: float) -> Solution:
        limits: dict[str, Any] = {"tol": tol, "max_iter": self.max_iter}
        if self.solver == "splitting":
            return solve_splitting(moments.native.spectrum, lam, self.eta_, **limits)
        keep = self.warm_start or self.alpha == "count"
        start = getattr(self, "_state", None) if keep else None
        many = moments.n_features >= SMALLEST_FACTORED or moments.elsewhere
        wide = moments.is_wide and many
        if self.solver == "factored" or wide:
            state = start if isinstance(start, WideState) else None
            if state is not None and state.factor.shape[0] != moments.n_features:
                state = None  # other features than last time
            solution = self._solve_wide(moments, lam, start=state, keep_state=keep, **limits)
            self._state = solution.state
            return solution
        solution = solve_scatter(
            moments.native.scatter,
            lam,
            self.eta_,
            spectrum=lambda: moments.native.spectrum,
            start=None if isinstance(start, WideState) else start,
            keep_state=keep,
            **limits,
        )
        self._state = solution.state
        return solution

    def _solve_wide(self, moments: Moments, lam: float, **options: Any) -> Solution:
        """Solve without any p × p matrix, in a unit in which no square of a variance overflows."""
        near = moments.near_one
        unit = moments.total_variance / near.total_variance  # 1, but for data of extreme size
        data = wide_data(near) if near.is_wide else self._slope_data(near)
        try:
            solution = solve_wide(data, lam / unit, self.eta_ / unit, **options)
        except TooManyDirectionsError as problem:
            problem.eta *= unit
            raise ValueError(self._about_rank(problem, moments)) from None
        return solution if unit == 1 else solution.in_unit(unit)


def _wide_bytes(n_samples: int, n_features: int) -> int:
    """Return what a fit to wide samples takes; 0 of others."""
    samples = 8 * n_samples * n_features
    if n_features <= n_samples:
        return 0
    return COPIES * samples + min(REMEMBERED * samples, ACCELERATION_BYTES)
