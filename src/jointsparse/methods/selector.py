"""What all selectors share: how many features are kept, and which."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from jointsparse.device import to_host
from jointsparse.methods.estimator import MomentsEstimator
from jointsparse.methods.samples import ColumnSelector
from jointsparse.methods.worth import SelectionWorth
from jointsparse.moments import Moments, check_variance
from jointsparse.selection import (
    Choice,
    Wanted,
    about_choice,
    check_rule,
    choose_features,
    is_number,
    wanted_features,
)
from jointsparse.solvers.greedy import Target
from jointsparse.solvers.solution import Solution

__all__ = ["Selector", "check_stopping", "is_number"]


class Selector(SelectionWorth, ColumnSelector, MomentsEstimator):
    """Base of the selectors; they see the data through its :class:`Moments`.

    A subclass has the parameters ``n_features_to_select`` and ``rule`` and defines
    ``_solve(moments)``, which returns a :class:`Solution` and the scores of the features, at least
    0. Where the method has a model of the data, ``_target`` says what the greedy rule is to
    explain; without one it explains all features, each gain multiplied by the feature's score.
    """

    n_features_to_select: int | float | str
    rule: str = "greedy"

    def _solve(self, moments: Moments) -> tuple[Solution, NDArray[np.float64]]:
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _target(self, solution: Solution, moments: Moments) -> Target | None:
        """Return what the kept features shall explain; None where the method has only scores."""
        return None

    def _fit(self, moments: Moments) -> Self:
        wanted = wanted_features(self.n_features_to_select, moments.n_features)
        check_rule(self.rule)
        check_variance(moments)
        self._check_dense(moments)
        # What this fit may not set must not survive from an earlier one.
        for stale in ("duality_gap_", "gap_history_", "selection_curve_", "proved_zero_"):
            self.__dict__.pop(stale, None)
        solution, scores = self._solve(moments)
        self._record(solution)
        self.feature_scores_ = scores
        self._keep(self._choose(solution, moments, wanted), wanted, moments)
        if solution.gap is not None:
            self.duality_gap_ = solution.gap
            self.gap_history_ = np.asarray(solution.gap_history)
        if solution.proved_zero is not None:
            self.proved_zero_ = to_host(solution.proved_zero)
        return self

    def _choose(self, solution: Solution, moments: Moments, wanted: Wanted) -> Choice:
        greedy = self.rule == "greedy" and not wanted.support and self.feature_scores_.any()
        target = self._target(solution, moments) if greedy else None
        return choose_features(
            moments,
            self.feature_scores_,
            wanted,
            rule=self.rule,
            target=target,
            weigh=target is None,
        )

    def _keep(self, choice: Choice, wanted: Wanted, moments: Moments) -> None:
        self.ranking_ = choice.ranking
        self.support_ = choice.support
        if choice.curve is not None:
            self.selection_curve_ = choice.curve
        self._remember(moments)
        if choice.available == 0:
            self._warn(f"no feature has a nonzero score{self._how_to_keep_some(moments)}")
            return
        message = about_choice(choice, wanted)
        if message:
            self._warn(message)

    def _how_to_keep_some(self, moments: Moments) -> str:
        """Advice for a model that came out empty; the subclasses know what to lower."""
        return ""

    def _warn(self, message: str, level: int = 5) -> None:
        # Attributed to the caller of fit or fit_moments; five frames up from inside _solve.
        warnings.warn(f"{type(self).__name__}: {message}", UserWarning, stacklevel=level)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def check_stopping(tol: Any, max_iter: Any, *, zero_tol: bool = False) -> None:
    """Refuse a tolerance or an iteration limit that makes no sense.

    Where ``zero_tol`` is set, a tolerance of 0 asks for exactly ``max_iter`` iterations.
    """
    if not is_number(tol) or not (0 < tol < 1 or (zero_tol and tol == 0)):
        raise ValueError(f"tol={tol!r} is not a number between 0 and 1")
    if not is_number(max_iter, Integral) or max_iter < 1:
        raise ValueError(f"max_iter={max_iter!r} is not a whole number of at least 1")
