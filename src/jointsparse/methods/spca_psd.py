"""SPCA-PSD: convex sparse PCA on the cone of positive semidefinite matrices (source 004)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from jointsparse.linalg import Spectrum
from jointsparse.methods.base import ScatterSelector, check_stopping
from jointsparse.methods.penalty_scale import absolute_penalty, check_scale
from jointsparse.moments import Moments
from jointsparse.solvers.convex_model import factor_scores, largest_eta, largest_lam
from jointsparse.solvers.convex_published import CONSTANTS, solve_published
from jointsparse.solvers.convex_splitting import solve_splitting
from jointsparse.solvers.solution import Solution


class SPCAPSD(ScatterSelector):
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
    alpha : float or "auto", default="auto"
        Sparsity penalty λ on the scale of ``penalty_scale``; "auto" is 0.1 on the relative scale.
    eta : float or "auto", default="auto"
        Rank penalty η on the scale of ``penalty_scale``; "auto" is 0.03 on the relative scale.
    n_features_to_select : int, float, "auto" or "support", default="auto"
        How many features to keep: a number; a share of all; "auto", the fewest best-ranked ones
        that together explain 90 % of the variance; or "support", all with a nonzero score.
    solver : {"exact", "published"}, default="exact"
        "exact" returns the optimum with exact zeros and a certified duality gap. "published" is
        the algorithm printed in the paper: its objective may rise between iterations, it stops
        above the optimum and has no exact zeros.
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

    Attributes
    ----------
    feature_scores_ : ndarray of shape (n_features,)
        Column norms of Ω; exactly zero for features that the solution leaves out.
    ranking_ : ndarray of shape (n_features,)
        1 for the best feature.
    support_ : ndarray of shape (n_features,)
        Which features are kept.
    selection_curve_ : ndarray
        Share of the variance explained by the best feature, the best two, … down to the last one
        kept. With ``n_features_to_select="auto"`` only.
    loadings_ : ndarray of shape (n_features, rank)
        U with Ω = UUᵀ, the columns orthogonal and the longest first.
    duality_gap_ : float
        Proven upper bound on (objective - optimum) / objective. Exact solver only.
    objective_ : float
        Objective of the solution.
    history_, gap_history_ : ndarray of shape (n_iter_,)
        Best objective and gap known after each iteration.
    alpha_, eta_ : float
        λ and η in the units of the data.
    n_iter_ : int
        Iterations made.
    converged_ : bool
        Whether the tolerance was reached.
    stopping_reason_ : str
        Why the solver stopped.
    diagnostics_ : dict
        Rank of Ω, residuals, step size.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had any.

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
    ['mean texture', 'texture error', 'worst texture']
    >>> bool(selector.duality_gap_ < 1e-4)
    True
    """

    def __init__(
        self,
        *,
        alpha: float | str = "auto",
        eta: float | str = "auto",
        n_features_to_select: int | float | str = "auto",
        solver: str = "exact",
        penalty_scale: str = "relative",
        constants: str = "authors",
        tol: float = 1e-4,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.eta = eta
        self.n_features_to_select = n_features_to_select
        self.solver = solver
        self.penalty_scale = penalty_scale
        self.constants = constants
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state

    def _solve(self, moments: Moments) -> tuple[Solution, NDArray[np.float64]]:
        self._check_parameters()
        spectrum = Spectrum.of(moments.scatter)
        self._set_penalties(spectrum)
        if self.solver == "exact":
            solution = self._solve_exact(spectrum)
        else:
            solution = self._solve_published(spectrum, moments.n_samples)
        self.loadings_ = solution.loadings
        return solution, factor_scores(solution.loadings)

    def _check_parameters(self) -> None:
        if self.solver not in ("exact", "published"):
            raise ValueError(f"solver={self.solver!r} is neither 'exact' nor 'published'")
        if self.constants not in CONSTANTS:
            raise ValueError(f"constants={self.constants!r} is neither 'authors' nor 'paper'")
        check_stopping(self.tol, self.max_iter)

    def _set_penalties(self, spectrum: Spectrum) -> None:
        scale = check_scale(self.penalty_scale)
        trace = spectrum.trace
        eta_max = largest_eta(spectrum)
        self.eta_ = absolute_penalty(
            "eta", self.eta, scale=scale, auto=0.03, largest=eta_max, trace=trace
        )
        lam_max = largest_lam(spectrum, self.eta_)
        self.alpha_ = absolute_penalty(
            "alpha", self.alpha, scale=scale, auto=0.1, largest=lam_max, trace=trace
        )
        if self.alpha_ == 0 and (self.eta_ == 0 or self.solver == "published"):
            other = "alpha must be positive" if self.eta_ else "alpha and eta cannot both be 0"
            raise ValueError(f"{other}: without a penalty every feature reconstructs itself")

    def _solve_exact(self, spectrum: Spectrum) -> Solution:
        start = getattr(self, "_state", None) if self.warm_start else None
        if start is not None and start.cone.shape != spectrum.vectors.shape:
            start = None  # other features than last time
        solution = solve_splitting(
            spectrum,
            self.alpha_,
            self.eta_,
            tol=self.tol,
            max_iter=self.max_iter,
            start=start,
            keep_state=self.warm_start,
        )
        self._state = solution.state
        return solution

    def _solve_published(self, spectrum: Spectrum, n_samples: int) -> Solution:
        p = spectrum.values.shape[0]
        start = np.ones(p)
        if self.random_state is not None:
            start = check_random_state(self.random_state).uniform(size=p)
        return solve_published(
            spectrum,
            self.alpha_,
            self.eta_,
            n_samples=n_samples,
            start=start,
            constants=CONSTANTS[self.constants],
            tol=self.tol,
            max_iter=self.max_iter,
        )
