"""What the convex family shares: penalties, their scales, the choice of a solver."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import like, to_host
from jointsparse.io.budget import enough
from jointsparse.linalg import Spectrum, double, eigh, positive_part
from jointsparse.losses import SampleNormLoss, SquaredLoss
from jointsparse.methods.bases.choosing import Model
from jointsparse.methods.bases.penalty_scale import ROUNDING, absolute_penalty, check_scale
from jointsparse.methods.bases.selector import Selector, check_stopping, is_number
from jointsparse.methods.reading.preparing import preparation_rounding
from jointsparse.moments import Moments
from jointsparse.penalties import L21, Nuclear, Trace
from jointsparse.running.workspace import Slot
from jointsparse.selection.choosing import projection_target, whitened_target
from jointsparse.selection.noise import noise_of
from jointsparse.solvers.choice import check_requirements
from jointsparse.solvers.convex.model import (
    factor_scores,
    largest_eta,
    largest_lam,
    nonempty_lam,
)
from jointsparse.solvers.convex.published import CONSTANTS, solve_published
from jointsparse.solvers.picking.row_targets import Target
from jointsparse.solvers.samples.geometric_median import row_norms
from jointsparse.solvers.solution import Rounding, Solution, proven
from jointsparse.solvers.wide.convex import TooManyDirectionsError

SLOPE_SPECTRUM: Slot[Spectrum] = Slot("slope spectrum")
AUTO_ALPHA = 0.1  # where eta is given, or nothing is above the noise
AUTO_ETA = 0.03  # where nothing is above the noise: a model to look at, of which nothing is kept
SMALL_ALPHA = 0.02  # where the noise, or the number of clusters, says what eta is
SMALLEST_ETA = 0.01  # relative: below, the solver takes long and the choice stays as it is
ETA_FOR_CLUSTERS = (1e-4, 0.5)  # smallest and largest


class ConvexSelector(Selector):
    """Base of SPCA-PSD, CSPCA and AW-SPCA.

    A subclass says what its loss is (``_loss``, ``_slope``), how the samples enter it
    (``_slope_data``) and how it is solved exactly (``_solve_exact``).
    """

    alpha: float | str
    n_clusters: int | None = None
    penalty_scale: str
    solver: Any
    constants: str
    tol: float
    max_iter: int
    random_state: Any

    _loss: str
    _slope = 1.0
    _solvers: tuple[str, ...] = ("exact", "published")

    @property
    def _on_cone(self) -> bool:
        return bool(getattr(self, "psd", True))

    @property
    def _eta(self) -> float | str:
        return getattr(self, "eta", 0.0)

    def _slope_data(self, moments: Moments) -> Array:
        """F with Q = slope · FᵀF, where Q is the slope of the loss at Ω = 0."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _solve_exact(self, moments: Moments, lam: float, tol: float) -> Solution:
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _solve(self, moments: Moments) -> tuple[Solution, NDArray[np.float64]]:
        self._check_parameters()
        self._set_penalties(moments)
        if self.solver == "published":
            solution = self._solve_published(moments)
        elif self.alpha == "count":
            solution = self._solve_for_count(moments)
        else:
            solution = self._solve_proven(moments, self.alpha_)
        self.loadings_ = to_host(solution.loadings)
        return solution, self._scores(solution)

    def _target(self, solution: Solution, moments: Moments) -> Target | None:
        """Return XΩ: what the model reconstructs.

        Where the number of clusters is given it is X S^(-1/2) Ω, every direction alike: one that
        separates two small groups counts as much as one that separates two large ones.
        """
        loadings = double(solution.loadings)
        if self._on_cone:  # ‖Ω y‖ = ‖(U (UᵀU)^(1/2))ᵀ y‖ for Ω = UUᵀ
            lengths, axes = eigh(loadings.T @ loadings)
            loadings = loadings @ (axes * positive_part(lengths) ** 0.5)
        if self.n_clusters is not None:
            return whitened_target(loadings, moments)
        return projection_target(loadings)

    def _as_model(self, solution: Solution, scores: FloatArray, moments: Moments) -> Model:
        model = super()._as_model(solution, scores, moments)
        return replace(model, knows_noise=self.n_clusters is None)

    def emptying_penalty(self, moments: Moments) -> tuple[float, dict[str, Any]]:
        """Return a λ that surely empties the model, in data units, and how to follow a path.

        With the parameters returned, ``alpha`` is in data units, η stays what it is now, and each
        solution starts from the last where the method can.
        """
        self._check_parameters()
        self._set_penalties(moments)
        fixed = {"eta": self.eta_, "warm_start": True, "n_features_to_select": "support"}
        known = self.get_params()
        following = {name: value for name, value in fixed.items() if name in known}
        return self._largest_lam(moments), {"penalty_scale": "absolute", **following}

    def set_penalty(self, penalty: float) -> None:
        """Set the penalty in the units of the path."""
        self.set_params(alpha=penalty)

    def solution(self, moments: Moments) -> tuple[NDArray[np.float64], Solution]:
        """Return the scores and the solution for some moments, without selecting features."""
        solution, scores = self._solve(moments)
        return scores, solution

    def _scores(self, solution: Solution) -> NDArray[np.float64]:
        scores = factor_scores if self._on_cone else row_norms
        return to_host(scores(solution.loadings)).astype(np.float64, copy=False)

    def _check_parameters(self) -> None:
        named = isinstance(self.solver, str)
        if self.solver not in self._solvers if named else not hasattr(self.solver, "solve"):
            known = ", ".join(map(repr, self._solvers))
            raise ValueError(f"solver={self.solver!r} is not one of {known}")
        if self.constants not in CONSTANTS:
            raise ValueError(f"constants={self.constants!r} is neither 'authors' nor 'paper'")
        if self.alpha == "count" and self.solver == "published":
            raise ValueError("alpha='count' needs exact zeros, which solver='published' never has")
        check_stopping(self.tol, self.max_iter)
        count = self.n_clusters
        if count is not None and not (is_number(count, Integral) and count >= 1):
            raise ValueError(f"n_clusters={count!r} is neither None nor a whole number above 0")

    def _auto_eta(self, moments: Moments) -> float:
        """Return what "auto" means: the noise edge; with c clusters, what leaves c - 1 components.

        On the relative scale η removes the directions whose eigenvalue is below that share of the
        largest. The geometric mean of eigenvalues c - 1 and c lies between the two.
        """
        if self.n_clusters is None:
            noise = noise_of(moments)
            return max(noise.share, SMALLEST_ETA) if noise.count else AUTO_ETA
        count = max(2, int(self.n_clusters))
        values = self._slope_values(moments, count)
        padded = np.append(values, np.zeros(count)) / values[0]
        share = np.sqrt(padded[count - 2] * padded[count - 1])
        return float(np.clip(share, *ETA_FOR_CLUSTERS))

    def _auto_alpha(self, moments: Moments) -> float:
        if self.n_clusters is not None:
            return SMALL_ALPHA
        return SMALL_ALPHA if self._eta == "auto" and noise_of(moments).count else AUTO_ALPHA

    def _set_penalties(self, moments: Moments) -> None:
        scale = check_scale(self.penalty_scale)
        trace = moments.total_variance
        self.eta_ = absolute_penalty(
            "eta",
            self._eta,
            scale=scale,
            auto=self._auto_eta(moments) if self._eta == "auto" else 0.0,
            largest=lambda: self._largest_eta(moments),
            trace=trace,
        )
        self.alpha_ = absolute_penalty(
            "alpha",
            "auto" if self.alpha == "count" else self.alpha,
            scale=scale,
            auto=self._auto_alpha(moments),
            largest=lambda: self._largest_lam(moments),
            trace=trace,
        )
        self._check_penalties(moments)

    def _check_penalties(self, moments: Moments) -> None:
        """Refuse penalties of nothing, to rounding: then every feature reconstructs itself."""
        if self.alpha_ == 0 and not (self.eta_ > 0 and self._zero_alpha_allowed()):
            if self.alpha != 0 and self.eta_ > 0:
                raise ValueError(
                    f"eta={self._eta} alone empties the model, so that alpha={self.alpha} is a "
                    "share of nothing; lower eta"
                )
            both = hasattr(self, "eta") and not self.eta_
            reason = "alpha and eta cannot both be 0" if both else "alpha must be positive"
            raise ValueError(f"{reason}: without a penalty every feature reconstructs itself")
        size = self._empty_objective(moments)
        if self.alpha_ + self.eta_ < ROUNDING * size:
            raise ValueError(
                f"the penalty is {(self.alpha_ + self.eta_) / size:.2g} of the size of the data, "
                "which is lost in rounding: without a penalty every feature reconstructs itself; "
                "raise alpha, or set penalty_scale='relative'"
            )

    def _empty_objective(self, moments: Moments) -> float:
        """Return the objective of Ω = 0, tr S, or what Σ‖x_i‖ is not above."""
        total = moments.total_variance
        return total if self._loss == "squared" else float(np.sqrt(moments.n_samples * total))

    def _solve_proven(self, moments: Moments, lam: float) -> Solution:
        """Solve for a λ; the gap includes the rounding of the objective and of its bound."""
        if not isinstance(self.solver, str):
            return self._solve_by_parts(moments, lam)
        size = self._empty_objective(moments)
        terms = moments.n_samples * moments.n_features
        data = preparation_rounding(moments)
        rounding = Rounding(terms, size, size / (lam + self.eta_), data)
        return proven(lambda tol: self._solve_exact(moments, lam, tol), self.tol, rounding)

    def _solve_by_parts(self, moments: Moments, lam: float) -> Solution:
        """Hand the model, as a loss and penalties, to a solver of the user's choice."""
        loss: Any = SquaredLoss()
        if self._loss != "squared":
            loss = SampleNormLoss(free_mean=self._loss == "samples+mean")
        rank = Trace(self.eta_) if self._on_cone else Nuclear(self.eta_)
        penalties = (L21(lam), rank)
        check_requirements(self.solver, penalties)
        solution: Solution = self.solver.solve(loss.on(moments), penalties)
        return solution

    def _slope_values(self, moments: Moments, count: int) -> NDArray[np.float64]:
        """Return the largest eigenvalues of Q, at least ``count``, in order and up to a factor."""
        values = to_host(self._slope_spectrum(moments).values)
        return values[::-1].astype(np.float64, copy=False)

    def _largest_eta(self, moments: Moments) -> float:
        """Return the smallest η that empties the model without λ."""
        return largest_eta(self._slope_spectrum(moments), self._slope)

    def _largest_lam(self, moments: Moments) -> float:
        """Return a λ that surely empties the model at the η in use."""
        return largest_lam(self._slope_spectrum(moments), self.eta_, self._slope)

    def _zero_alpha_allowed(self) -> bool:
        return False

    def _slope_spectrum(self, moments: Moments) -> Spectrum:
        def make() -> Spectrum:
            data = self._slope_data(moments)
            wide = data.shape[0] < data.shape[1]
            return Spectrum.thin(data) if wide else Spectrum.of(data.T @ data)

        return moments.workspace.kept(SLOPE_SPECTRUM, make, self._loss)

    def _solve_for_count(self, moments: Moments) -> Solution:
        """Find, by bisection, the penalty whose solution has exactly the wanted support."""
        if not is_number(self.n_features_to_select, Integral):
            raise ValueError(
                "alpha='count' looks for the penalty whose solution has n_features_to_select "
                f"features, so that must be a whole number; got {self.n_features_to_select!r}"
            )
        wanted = int(self.n_features_to_select)
        high = self._largest_lam(moments)
        low = 1e-5 * high
        best: tuple[int, float, Solution] | None = None
        for _ in range(40):
            lam = float(np.sqrt(low * high))
            solution = self._solve_proven(moments, lam)
            size = int(np.count_nonzero(self._scores(solution)))
            # Of two supports equally far from the wanted one the larger loses less.
            if best is None or (abs(size - wanted), -size) < (abs(best[0] - wanted), -best[0]):
                best = (size, lam, solution)
            if size == wanted or high / low < 1 + 1e-6:
                break
            low, high = (lam, high) if size > wanted else (low, lam)
        assert best is not None
        size, self.alpha_, solution = best
        if size != wanted:
            self._warn(
                f"no penalty was found whose solution has exactly {wanted} features; the nearest "
                f"has {size}"
            )
        return solution

    def _solve_published(self, moments: Moments) -> Solution:
        p = moments.n_features
        data = double(self._published_data(moments))
        start = np.ones(p)
        if self.random_state is not None:
            start = check_random_state(self.random_state).uniform(size=p)
        return solve_published(
            data,
            self.alpha_,
            self.eta_,
            loss=self._loss,  # type: ignore[arg-type]
            psd=self._on_cone,
            n_samples=moments.n_samples,
            start=like(start, data),
            constants=self.constants,
            tol=self.tol,
            max_iter=self.max_iter,
        )

    def _published_data(self, moments: Moments) -> Array:
        return moments.native.centred_data

    def _nonempty_lam(self, moments: Moments) -> float:
        """Return a λ that surely does not empty the model at the η in use."""
        return nonempty_lam(self._slope_data(moments), self.eta_, self._slope)

    def _how_to_keep_some(self, moments: Moments) -> str:
        largest = self._nonempty_lam(moments)
        unit = 1.0
        if self.penalty_scale == "relative":
            unit = self._largest_lam(moments)
        elif self.penalty_scale == "trace":
            unit = moments.total_variance
        if largest == 0:
            return f": eta={self._eta} alone empties the model, lower it"
        if largest >= self.alpha_:  # the solver ended at zero, which is as good within tol
            return (
                f": alpha={self.alpha} is so close to the penalty that empties the model that "
                f"nothing is left within tol={self.tol:g}; lower alpha, or tol"
            )
        return (
            f": alpha={self.alpha} empties the model; every alpha up to "
            f"{_rounded_down(largest / unit):.3g} keeps some"
        )

    def _about_rank(self, problem: TooManyDirectionsError, moments: Moments) -> str:
        """Say which eta keeps the rank low enough, in the unit that the user chose."""
        need = enough(round(1e9 * problem.gigabytes))
        if not hasattr(self, "eta"):
            return (
                f"{problem.count} directions matter, which need {need} of memory at "
                f"{moments.n_features} features: allow so much, or use fewer features"
            )
        unit = 1.0
        if self.penalty_scale == "relative":
            unit = self._largest_eta(moments)
        elif self.penalty_scale == "trace":
            unit = moments.total_variance
        cure = "allow so much, since no eta that keeps any feature needs less"
        if problem.eta < self._largest_eta(moments):
            cure = f"use eta={_rounded_up(problem.eta / unit)} or more, or allow so much"
        return (
            f"eta={self._eta} lets {problem.count} directions matter, which need {need} of "
            f"memory at {moments.n_features} features: {cure}"
        )


def _rounded_up(value: float) -> float:
    """Return the next larger number of two digits."""
    digit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(f"{np.ceil(value / digit) * digit:.2g}")


def _rounded_down(value: float) -> float:
    """Return the next smaller number of three digits."""
    digit = 10.0 ** (np.floor(np.log10(value)) - 2)
    return float(f"{np.floor(value / digit) * digit:.3g}")
