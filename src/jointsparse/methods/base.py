"""What all selectors share: how many features are kept, and which."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from jointsparse.methods.from_moments import MomentsEstimator
from jointsparse.moments import Moments
from jointsparse.solvers.nested_regression import explained_along
from jointsparse.solvers.solution import Solution

AUTO_R2 = 0.9  # share of the variance that "auto" wants explained


class Selector(SelectorMixin, MomentsEstimator):
    """Base of the selectors; they see the data through its :class:`Moments`.

    A subclass has the parameter ``n_features_to_select`` and defines ``_solve(moments)``, which
    returns a :class:`Solution` and the scores of the features.
    """

    n_features_to_select: int | float | str

    def _solve(self, moments: Moments) -> tuple[Solution, NDArray[np.float64]]:
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _fit(self, moments: Moments) -> Self:
        count = _requested_count(self.n_features_to_select, moments.n_features)
        if not np.any(moments.variances > 0):
            raise ValueError(
                "every feature is constant: there is no variance to explain and nothing to select"
            )
        # What this fit may not set must not survive from an earlier one.
        for stale in ("duality_gap_", "gap_history_", "selection_curve_", "proved_zero_"):
            self.__dict__.pop(stale, None)
        solution, scores = self._solve(moments)
        self._record(solution)
        self._keep(self._rank(scores, moments.variances), count, moments)
        if solution.gap is not None:
            self.duality_gap_ = solution.gap
            self.gap_history_ = np.asarray(solution.gap_history)
        if solution.proved_zero is not None:
            self.proved_zero_ = np.asarray(solution.proved_zero)
        return self

    def _keep(self, order: NDArray[np.int64], count: int | str, moments: Moments) -> None:
        nonzero = self.feature_scores_ > 0
        available = int(nonzero.sum())
        if available == 0:
            self._warn(f"no feature has a nonzero score{self._how_to_keep_some(moments)}")
        elif not isinstance(count, str) and count > available:
            self._warn(
                f"only {available} features have a nonzero score; the other {count - available} "
                "kept are those with the largest variance"
            )
        chosen = order[nonzero[order]] if isinstance(count, str) else order[:count]
        if count == "auto":
            curve = explained_along(
                moments.scatter_column, moments.variances, chosen, target=AUTO_R2
            )
            self.selection_curve_ = np.asarray(curve)
            chosen = chosen[: len(curve)]
        self.support_ = np.zeros(nonzero.size, dtype=bool)
        self.support_[chosen] = True

    def _how_to_keep_some(self, moments: Moments) -> str:
        """Advice for a model that came out empty; the subclasses know what to lower."""
        return ""

    def _warn(self, message: str) -> None:
        # Attributed to the caller of fit or fit_moments.
        warnings.warn(f"{type(self).__name__}: {message}", UserWarning, stacklevel=5)

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


def is_number(value: Any, kind: type = Real) -> bool:
    """Whether a parameter is a number (True and False are not)."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _requested_count(wanted: Any, n_features: int) -> int | str:
    """Return how many features to keep, or the word that says how to find out."""
    if isinstance(wanted, str):
        if wanted in ("auto", "support"):
            return wanted
    elif is_number(wanted, Integral):
        if not 1 <= wanted <= n_features:
            raise ValueError(
                f"n_features_to_select={wanted} is not between 1 and the number of features, "
                f"{n_features}"
            )
        return int(wanted)
    elif is_number(wanted) and 0 < wanted <= 1:
        return max(1, round(float(wanted) * n_features))
    raise ValueError(
        f"n_features_to_select={wanted!r} is neither a number of features, nor a share between "
        "0 and 1, nor 'auto', nor 'support'"
    )
