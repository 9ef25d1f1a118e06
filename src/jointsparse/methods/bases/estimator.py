"""What all estimators share: samples become moments, a solution becomes fitted attributes."""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from jointsparse.device import is_device_array, on_accelerator
from jointsparse.methods.bases.all_or_nothing import all_or_nothing, unchanged
from jointsparse.methods.bases.online import Online
from jointsparse.methods.bases.ranking import Ranked
from jointsparse.methods.bases.robustness import (
    NotesOutliers,
    made_robust_for,
    moments_from,
    robust_moments,
    robust_of,
    scale_of,
)
from jointsparse.methods.bases.shared_docs import with_shared
from jointsparse.methods.reading.needs import Needs
from jointsparse.methods.reading.plan import check_dense
from jointsparse.methods.reading.preparing import note_preparation, prepared_moments
from jointsparse.methods.reading.samples import takes_missing, valid_samples
from jointsparse.methods.reading.scaling import scaled_moments, scaled_source
from jointsparse.moments import Moments
from jointsparse.robust.learning import refuse_with_robust
from jointsparse.running.cores import sharing_cores
from jointsparse.running.notices import warn_caller
from jointsparse.selection.choosing import by_score
from jointsparse.solvers.solution import Solution
from jointsparse.sources import as_source, is_streamed
from jointsparse.sources.base import within_memory_of
from jointsparse.sources.in_memory import ArraySource


class MomentsEstimator(NotesOutliers, Online, Ranked, BaseEstimator):
    """Base of all methods; they see the data through its :class:`Moments`.

    A subclass defines ``_fit(moments)``, and ``_needs()`` where the scatter matrix is not
    enough.
    """

    # What runs on the host although the samples are on a device, in words; nothing in most.
    _on_host = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__doc__:
            cls.__doc__ = with_shared(cls.__doc__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a saved model; parameters that it did not know have their defaults."""
        known = inspect.signature(type(self).__init__).parameters
        super().__setstate__(
            {name: known[name].default for name in self._get_param_names()} | state
        )

    def _fit(self, moments: Moments) -> Self:
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _needs(self) -> Needs:
        """Return what the method needs of samples, besides their scatter matrix."""
        return Needs()

    def _check_dense(self, moments: Moments) -> None:
        """Refuse sparse samples, before anything is computed, where they would not fit as dense."""
        if sp.issparse(moments.data):
            check_dense(self, moments.n_samples, moments.n_features)

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, batch: Any = None) -> Self:
        """Fit the method to samples.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or tensor of shape (n_samples, n_features)
            Samples, one per row. Not modified. A PyTorch tensor or CuPy array is worked on where
            it is; what the fit leaves behind is NumPy. Also a source of samples, or the path of a
            file or folder, which need not fit in memory (see :func:`open_source`).
        y : ignored
            For compatibility with scikit-learn.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights, at least 0. Whole numbers are counts: a sample of weight 2 is there twice, one
            of weight 0 is not. Others are divided by their mean, so that only their ratios matter.
        batch : array-like of shape (n_samples,) or None, default=None
            Which samples were measured together: numbers or words. The fit is to what varies
            *within* batches.

        Returns
        -------
        self
        """
        shape = getattr(X, "shape", ())
        with all_or_nothing(self), within_memory_of(X), sharing_cores(shape):
            moments = self.moments_of(X, y, sample_weight=sample_weight, batch=batch)
            self._tell_what_runs_on_the_host(moments)
            return self.fit_moments(moments)

    def moments_of(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, batch: Any = None
    ) -> Moments:
        """Return the moments of samples, checked and scaled as ``fit`` does.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or source of shape (n_samples, n_features)
            Samples, one per row. Not modified.
        y : ignored
            Used by methods that want classes.
        sample_weight, batch : array-like of shape (n_samples,) or None, default=None
            As in ``fit``.

        Returns
        -------
        Moments
        """
        scale, missing = scale_of(self), getattr(self, "missing", "error")
        if sample_weight is not None or batch is not None or takes_missing(self):
            refuse_with_robust(robust_of(self), sample_weight=sample_weight, batch=batch)
            moments = prepared_moments(
                self, self._given(X), sample_weight=sample_weight, batch=batch, missing=missing
            )
        else:
            moments = self._moments_of(X, scale)
        return scaled_moments(moments, scale)

    def _given(self, X: Any) -> Any:
        """Return samples as a source, checked but for missing values; tensors as they are."""
        if is_streamed(X):
            return as_source(X)
        with unchanged(self):
            samples = valid_samples(self, X, fitting=True)
            names = getattr(self, "feature_names_in_", None)
        return samples if is_device_array(samples) else ArraySource(samples, names)

    def _moments_of(self, X: Any, scale: str | None) -> Moments:
        """Return the moments of samples that count once each, without missing values."""
        if is_streamed(X):
            source = as_source(X)
            at_hand = source.array is not None
            moments = moments_from(source if at_hand else scaled_source(source, scale), self)
            moments.scale = None if at_hand else scale
            if moments.n_samples < 2:
                raise ValueError(f"{as_source(X).name} has one row; at least two are needed")
            return moments
        with unchanged(self):  # the columns are noted by fit, when it has more to say
            samples = valid_samples(self, X, fitting=True)
            names = getattr(self, "feature_names_in_", None)
        # As a source: what was checked once is not checked again.
        samples = samples if is_device_array(samples) else ArraySource(samples)
        moments = robust_moments(samples, self)
        moments.feature_names = names
        return moments

    def fit_moments(self, moments: Moments) -> Self:
        """Fit the method to moments instead of samples.

        Parameters
        ----------
        moments : Moments
            Count, mean and scatter matrix of the samples.

        Returns
        -------
        self
        """
        shape = moments.n_samples, moments.n_features
        with all_or_nothing(self), sharing_cores(shape):
            self._forget()
            moments = made_robust_for(self, moments)
            self._note_features(moments)
            return self._fit(scaled_moments(moments, scale_of(self)))

    def _tell_what_runs_on_the_host(self, moments: Moments) -> None:
        if self._on_host and on_accelerator(moments.data):
            warn_caller(
                f"{type(self).__name__}: mean and scatter matrix are computed on the device, "
                f"{self._on_host} on the host"
            )

    def _note_features(self, moments: Moments) -> None:
        self.n_features_in_ = moments.n_features
        if moments.feature_names is not None:
            self.feature_names_in_ = np.asarray(moments.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        note_preparation(self, moments)
        self._note_outliers(moments)

    def _record(self, solution: Solution) -> None:
        """Keep what the solver says about its run; warn where it did not converge."""
        if not solution.converged:
            warn_caller(
                f"{type(self).__name__} did not converge: {solution.reason}. "
                "Raise max_iter, or tol if that accuracy is not needed.",
                ConvergenceWarning,
            )
        self.objective_ = solution.objective
        self.history_ = np.asarray(solution.history)
        self.n_iter_ = solution.n_iter
        self.converged_ = solution.converged
        self.stopping_reason_ = solution.reason
        self.diagnostics_ = solution.diagnostics

    def _rank(self, scores: NDArray[np.float64], moments: Moments) -> NDArray[np.int64]:
        """Set scores and, by them alone, the ranking; return the features, best first."""
        self.feature_scores_ = scores
        order = by_score(scores, moments.variances, moments.data)
        self.ranking_ = np.empty(order.size, dtype=np.int64)
        self.ranking_[order] = np.arange(1, order.size + 1)
        return order
