"""What a selection is worth: reported when it is asked for, from samples that are still there."""

from __future__ import annotations

import warnings
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from jointsparse.methods.from_source import check_features, read_moments
from jointsparse.methods.plan import TO_JUDGE
from jointsparse.methods.samples import valid_samples
from jointsparse.moments import Moments
from jointsparse.selection_report import SelectionReport, selection_report
from jointsparse.sources import as_source, is_streamed

REMEMBERED_ENTRIES = 2**22  # 32 MB: samples up to this size are kept until the report is made


class SelectionWorth:
    """Adds ``selection_report_`` and ``selection_report(X)`` to a selector.

    ``selection_report_`` is computed when it is first asked for and kept from then on. It needs the
    samples, and an estimator should not hold on to large data. So up to 4 million entries are
    remembered by reference, never copied; larger data only as long as the caller keeps them (a weak
    reference). They are forgotten once the report is made, and pickles never contain them.
    """

    support_: NDArray[np.bool_]
    selection_report_: SelectionReport

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Not a property: showing an estimator in a notebook would evaluate it.
            if name != "selection_report_":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            check_is_fitted(self)
            moments = self._remembered_moments()
            if moments is None:
                raise AttributeError(
                    "the samples of fit are no longer at hand (large data are not kept, nor are "
                    "data in a pickle): use selection_report(X)"
                )
            self.selection_report_ = self._make_report(moments)
            self.__dict__.pop("_remembered", None)
            return self.selection_report_

    def selection_report(self, X: Any) -> SelectionReport:
        """Measure on any samples what the kept features explain.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_samples, n_features)
            Samples, those of fit or others.

        Returns
        -------
        SelectionReport
            R² of the kept features, of as many principal components and of random sets of the same
            size, on samples held out of the regression; and the stand-ins of dropped features.
        """
        check_is_fitted(self)
        return self._make_report(_moments_to_judge(self._data_for_report(X)))

    def transform(self, X: Any) -> Any:
        """Keep the chosen columns.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix, tensor or source
            Samples: n_samples × n_features.

        Returns
        -------
        array of the same kind and on the same device, Dask collection or Source
            The kept columns. Of a Dask array or DataFrame, one of the same kind that is not
            computed yet. Of a source (or a path) it is a source again: nothing is read before its
            ``blocks`` are, or it is read or written as a whole.
        """
        if not is_streamed(X):
            return super().transform(X)  # type: ignore[misc]
        check_is_fitted(self)
        source = as_source(X)
        check_features(self, source)
        kept = np.flatnonzero(self.support_)
        return source.columns(kept).finite(kept).as_given()

    def inverse_transform(self, X: Any) -> Any:
        """Put the kept columns back to their places, with zeros for the others.

        Parameters
        ----------
        X : array-like, sparse matrix, tensor, Dask collection or Source
            Samples with the kept columns only: n_samples × n_kept.

        Returns
        -------
        array of the same kind, Dask collection or Source, of shape (n_samples, n_features)
            Not computed yet where X is not.
        """
        if not is_streamed(X):
            return super().inverse_transform(X)  # type: ignore[misc]
        check_is_fitted(self)
        source, kept = as_source(X), np.flatnonzero(self.support_)
        if source.n_features != kept.size:
            raise ValueError(
                f"{source.name} has {source.n_features} columns; {kept.size} were expected"
            )
        n_features = self.support_.size
        put_back = partial(_put_back, kept=kept, n_features=n_features)
        names = getattr(self, "feature_names_in_", None)
        return source.map_finite(put_back, n_features, source.dtype, names).as_given()

    def _data_for_report(self, X: Any) -> Any:
        if is_streamed(X):
            check_features(self, as_source(X))
            return X
        return valid_samples(self, X, fitting=False)

    def _make_report(self, moments: Moments) -> SelectionReport:
        kept = np.flatnonzero(self.support_)
        if kept.size == 0:
            raise AttributeError("no feature was kept, so there is nothing to report on")
        report = selection_report(moments, kept)
        if report.below_random:
            advice = ". rule='greedy' avoids features that repeat each other"
            warnings.warn(
                f"{type(self).__name__}: the kept features are worth less than random ones: "
                f"{report}{'' if getattr(self, 'rule', '') == 'greedy' else advice}",
                UserWarning,
                stacklevel=3,
            )
        return report

    def _remember(self, moments: Moments) -> None:
        self.__dict__.pop("selection_report_", None)
        source: Any = moments.data if moments.has_samples else moments
        size = moments.n_features * (moments.n_samples if moments.has_samples else 1)
        if sp.issparse(source):
            size = source.nnz
        self._remembered: Any = source
        if size > REMEMBERED_ENTRIES or not moments.has_samples:
            self._remembered = weakref.ref(source)

    def _remember_streamed(self, X: Any, moments: Moments) -> None:
        # Nobody else has these moments; samples that were read into memory can be read again.
        self._remembered = as_source(X) if moments.has_samples else moments

    def _remembered_moments(self) -> Moments | None:
        source = self.__dict__.get("_remembered")
        if isinstance(source, weakref.ref):
            source = source()
        if source is None or isinstance(source, Moments):
            return source
        return _moments_to_judge(source)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())  # type: ignore[call-overload]
        # Neither the samples nor the solver's own variables (a start for the next fit, often larger
        # than the solution) belong to what was learned.
        state.pop("_remembered", None)
        state.pop("_state", None)
        return state


def _moments_to_judge(X: Any) -> Moments:
    """Return the moments of samples to judge a set of features by, however many there are."""
    if not is_streamed(X):
        return Moments.from_data(X)
    source = as_source(X)
    if source.array is not None:
        return Moments.from_data(source.array)
    return read_moments(source, TO_JUDGE)


def _put_back(block: Any, kept: NDArray[np.int64], n_features: int) -> NDArray[Any]:
    full = np.zeros((block.shape[0], n_features), dtype=block.dtype)
    full[:, kept] = block.toarray() if sp.issparse(block) else block
    return full
