"""What all selectors share: how many features are kept, and which; the columns that they are."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import checked_samples, is_device_array, like, to_host
from jointsparse.methods.bases.choosing import ChoosesFeatures, Model
from jointsparse.methods.bases.estimator import MomentsEstimator
from jointsparse.methods.reading.samples import takes_missing, valid_samples
from jointsparse.methods.reading.scaling import remark_on_scale
from jointsparse.moments import Moments, check_variance
from jointsparse.selection.choosing import BY_GAIN, is_number
from jointsparse.solvers.picking.row_targets import Target
from jointsparse.solvers.solution import Solution
from jointsparse.sources.door import as_samples
from jointsparse.sources.frames import flat_frame, is_frame, plain_columns

__all__ = ["ColumnSelector", "Selector", "check_stopping", "is_number"]


class ColumnSelector(SelectorMixin):
    """scikit-learn's selector, which also takes tensors and leaves them on their device."""

    support_: NDArray[np.bool_]

    def transform(self, X: Any) -> Any:
        """Return the kept columns.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or tensor of shape (n_samples, n_features)
            Samples, one per row.

        Returns
        -------
        ndarray, data frame, sparse matrix or tensor of shape (n_samples, n_kept)
            A tensor for a tensor, on the same device.
        """
        check_is_fitted(self)
        samples = valid_samples(self, X, fitting=False)
        if is_frame(X):
            # scikit-learn knows how to keep the types of the columns.
            return super().transform(plain_columns(flat_frame(X)))
        X, kept = samples, self.get_support(indices=True)
        if kept.size == 0:
            warnings.warn(
                "no feature was kept: the result has no column", UserWarning, stacklevel=2
            )
        return X[:, like(kept, X)] if is_device_array(X) else X[:, kept]

    def inverse_transform(self, X: Any) -> Any:
        """Put kept columns back in their places, with columns of zeros for the others.

        Parameters
        ----------
        X : array-like, sparse matrix or tensor of shape (n_samples, n_kept)
            The kept columns.

        Returns
        -------
        ndarray, sparse matrix or tensor of shape (n_samples, n_features)
            A tensor for a tensor, on the same device.
        """
        if not is_device_array(X):
            return super().inverse_transform(as_samples(X).values)
        support = self.get_support()
        X = checked_samples(X, n_features=int(np.count_nonzero(support)))
        xp = array_namespace(X)
        full = xp.zeros((X.shape[0], support.size), dtype=X.dtype, device=X.device)
        full[:, like(np.flatnonzero(support), X)] = X
        return full

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_


class Selector(ChoosesFeatures, ColumnSelector, MomentsEstimator):
    """Base of the selectors; they see the data through its :class:`Moments`.

    A subclass has the parameters ``n_features_to_select`` and ``rule`` and defines
    ``_solve(moments)``, which returns a :class:`Solution` and the scores of the features, at least
    0. Where the method has a model of the data, ``_target`` says what the greedy rule is to
    account for; without one it is what lies above the noise, each gain multiplied by the score.
    """

    def _solve(self, moments: Moments) -> tuple[Solution, NDArray[np.float64]]:
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _target(self, solution: Solution, moments: Moments) -> Target | None:
        """Return what the kept features shall account for; None where there are scores only."""
        return None

    def _as_model(self, solution: Solution, scores: FloatArray, moments: Moments) -> Model:
        target = None
        by_support = isinstance(self.n_features_to_select, str) and (
            self.n_features_to_select == "support"
        )
        if self.rule in BY_GAIN and scores.any() and not by_support:
            target = self._target(solution, moments)
        return Model(scores, target, weigh=target is None)

    def _model_of(self, moments: Moments, rows: IntArray | None, y: Any) -> Model:
        return self._as_model(*self._solve(moments), moments)

    def _fit(self, moments: Moments) -> Self:
        wanted = self._check_wanted(moments.n_features)
        check_variance(moments)
        self._check_dense(moments)
        # What this fit may not set must not survive from an earlier one.
        for stale in ("duality_gap_", "gap_history_", "proved_zero_"):
            self.__dict__.pop(stale, None)
        remark_on_scale(self, moments)
        self._ask_about_noise(moments, wanted)
        solution, scores = self._solve(moments)
        self._record(solution)
        self._make_set(self._as_model(solution, scores, moments), moments)
        if solution.gap is not None:
            self.duality_gap_ = solution.gap
            self.gap_history_ = np.asarray(solution.gap_history)
        if solution.proved_zero is not None:
            self.proved_zero_ = to_host(solution.proved_zero)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = takes_missing(self)
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
