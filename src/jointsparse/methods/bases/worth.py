"""What a selection is worth: reported when it is asked for, from samples that are still there."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import is_device_array, like
from jointsparse.extremes import Extremes, extreme_values
from jointsparse.linalg import array_namespace
from jointsparse.methods.bases.online import no_partial_fit
from jointsparse.methods.bases.robustness import NotesOutliers, scale_of
from jointsparse.methods.reading.from_source import check_features, read_moments
from jointsparse.methods.reading.needs import TO_JUDGE
from jointsparse.methods.reading.samples import takes_missing, valid_samples
from jointsparse.methods.reading.scaling import scaled_moments
from jointsparse.moments import Moments
from jointsparse.partition import some_rows
from jointsparse.selection_report import SelectionReport, selection_report
from jointsparse.significance import feature_significance
from jointsparse.sources import as_source, is_streamed
from jointsparse.sources.origin import Origin
from jointsparse.trials import (
    MOST_ROWS,
    Cut,
    Picked,
    cut_and_pick,
    fixed_cut,
    rows_that_take_part,
)

REMEMBERED_ENTRIES = 2**22  # 32 MB: samples up to this size are kept until the report is made
OF_NOISE = (
    "n_significant_",
    "noise_edge_",
    "feature_shares_",
    "feature_pvalues_",
    "significant_",
)  # what a fit says about patterns and noise
FEWEST_REMEMBERED = 1000  # samples: of larger tables so many at least must fit, or none are kept


class SelectionWorth(NotesOutliers):
    """Adds ``selection_report_`` and ``selection_report(X)`` to a selector.

    ``selection_report_`` is computed when it is first asked for and kept from then on. It needs the
    samples, and the caller may change those: so the estimator keeps a copy of those that take part
    (:func:`~jointsparse.trials.rows_that_take_part`) where it has at most 4 million entries, and
    forgets it once the report is made. Pickles never contain it. Where the model alone decides what
    is kept, patterns are told from noise when that is first asked for, too, or before the samples
    are forgotten.
    """

    support_: NDArray[np.bool_]
    ranking_: IntArray
    selection_report_: SelectionReport
    n_significant_: int
    noise_edge_: float
    feature_shares_: FloatArray
    feature_pvalues_: FloatArray
    significant_: NDArray[np.bool_]
    # Samples or moments, their parts and labels, and gross values where not all samples are kept.
    _remembered: tuple[Any, Cut | None, Any, Extremes | None]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Not a property: showing an estimator in a notebook would evaluate it.
            if name == "partial_fit":
                raise AttributeError(no_partial_fit(self))
            remembered = self.__dict__.get("_remembered")
            if name in OF_NOISE and remembered is not None:
                self._note_noise(_moments_of(remembered[0]))
                return self.__dict__[name]
            if name != "selection_report_":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            check_is_fitted(self)
            if remembered is None:
                raise AttributeError(
                    "the samples of fit are no longer at hand (large tables are not kept, nor are "
                    "the samples in a pickle): use selection_report(X)"
                )
            samples, cut, y, extremes = remembered
            moments = _moments_of(samples)
            if cut is None and self.support_.any():
                cut = self._cut(moments, y)
            self.selection_report_ = self._make_report(moments, cut, extremes)
            if OF_NOISE[0] not in self.__dict__:
                self._note_noise(moments)
            self.__dict__.pop("_remembered", None)
            return self.selection_report_

    def _cut(self, moments: Moments, y: Any = None) -> Cut:
        """Repeat the selection in parts of the samples."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of parts; the fit to all samples warns
            return cut_and_pick(moments, partial(self._pick_on, y=y))

    def _note_noise(self, moments: Moments) -> None:
        """Set what the table says by itself, whatever the method."""
        found = feature_significance(moments)
        self.n_significant_ = found.n_significant
        self.noise_edge_ = found.noise_edge
        self.feature_shares_ = found.shares
        self.feature_pvalues_ = found.pvalues
        self.significant_ = found.significant

    @property
    def _is_noise(self) -> bool:
        """Whether nothing is above the noise: no pattern, and no two features that go together."""
        return self.n_significant_ == 0 and not self.significant_.any()

    def _pick_on(self, moments: Moments, rows: IntArray | None, *, y: Any) -> Picked:
        """Select on some of the samples, as many features as may be of use."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def selection_report(self, X: Any, y: Any = None, *, new: bool = False) -> SelectionReport:
        """Measure what the kept features are worth, on the samples of ``fit`` or on others.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_samples, n_features), or Moments
            Samples, or their moments.
        y : array-like or None
            What ``fit`` was given, for methods that want it.
        new : bool, default=False
            Whether these samples had no part in ``fit``. If not, the selection is repeated in parts
            of them, as for ``selection_report_``. New samples judge the kept features as they are.

        Returns
        -------
        SelectionReport
            What the kept features predict of the dropped ones, beside random sets of the same size,
            principal components and all other features; and the stand-ins of dropped features.
        """
        check_is_fitted(self)
        moments = X
        if not isinstance(X, Moments):
            moments = self._moments_to_judge(X)
        kept = self._best_first()
        cut = None
        if kept.size and not new:
            cut = self._cut(moments, y)
        elif kept.size:
            cut = fixed_cut(moments, kept, feature_significance(moments).significant)
        return self._make_report(moments, cut)

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
        columns = source.columns(kept)
        return (columns if takes_missing(self) else columns.finite(kept)).as_given()

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

    def _moments_to_judge(self, X: Any) -> Moments:
        """Return the moments of samples, filled and scaled as ``fit`` does."""
        data = self._data_for_report(X)
        if takes_missing(self):
            inner: Any = getattr(self, "estimator", self)
            moments = Moments.from_data(data, missing=inner.missing, copy=False)
        else:
            moments = self._note_shrunk(_moments_to_judge(data))
        return scaled_moments(moments, scale_of(self))

    def _data_for_report(self, X: Any) -> Any:
        if is_streamed(X):
            check_features(self, as_source(X))
            return self._as_fitted(X)
        return self._as_fitted(valid_samples(self, X, fitting=False))

    def _make_report(
        self, moments: Moments, cut: Cut | None, extremes: Extremes | None = None
    ) -> SelectionReport:
        kept = self._best_first()
        scores = np.asarray(getattr(self, "feature_scores_", 1.0))
        emptied = kept.size == 0 and not (scores > 0).any()
        found = (getattr(self, name, None) for name in ("missing_values_", "batches_"))
        about = tuple(str(one) for one in found if one is not None)
        report = selection_report(moments, kept, cut, extremes, emptied=emptied)
        return replace(report, about=about) if about else report

    def _best_first(self) -> IntArray:
        kept = np.flatnonzero(self.support_)
        return kept[np.argsort(self.ranking_[kept], kind="stable")]

    def _remember(self, moments: Moments, cut: Cut | None, y: Any = None) -> bool:
        """Keep what the report will need: samples of its own, or moments.

        Returns whether all samples are kept, and no change of those of the caller changes them.
        """
        self.__dict__.pop("selection_report_", None)
        self.__dict__.pop("_remembered", None)
        if not moments.has_samples:
            if moments.n_features**2 <= REMEMBERED_ENTRIES:
                self._remembered = (moments, cut, None, None)
        elif moments.elsewhere:
            self._remembered = (moments, cut, None, None)  # the samples stay where they are
        else:
            samples, rows = _some_rows(moments.data, moments.origin)
            if samples is not None and moments.origin is not None:
                samples = _with_origin(moments, samples, rows)
            if samples is not None and rows is None:
                self._remembered = (samples, cut, y, None)
                return True
            elif samples is not None:
                # Gross values are few: some of the samples do not tell.
                self._remembered = (samples, _among(cut, rows), None, extreme_values(moments))
        return False

    def __getstate__(self) -> dict[str, Any]:
        if "_remembered" in self.__dict__ and OF_NOISE[0] not in self.__dict__:
            self._note_noise(_moments_of(self._remembered[0]))
        state: dict[str, Any] = dict(super().__getstate__())  # type: ignore[call-overload]
        # Neither the samples nor the solver's own variables (a start for the next fit, often larger
        # than the solution) belong to what was learned.
        state.pop("_remembered", None)
        state.pop("_state", None)
        return state


def _moments_of(remembered: Any) -> Moments:
    """Return the moments of what was kept: samples, or moments already."""
    if isinstance(remembered, Moments):
        return remembered
    return Moments.from_data(remembered, copy=False)


def _with_origin(moments: Moments, samples: Any, rows: IntArray | None) -> Moments:
    """Return the moments of what is kept, which know what their rows are."""
    if rows is not None:
        return some_rows(moments, rows)
    return Moments.from_data(samples, copy=False).made_of(moments.origin)


def _moments_to_judge(X: Any) -> Moments:
    """Return the moments of samples to judge a set of features by, however many there are."""
    if not is_streamed(X):
        return Moments.from_data(X, copy=False)
    source = as_source(X)
    if source.array is not None:
        return Moments.from_data(source.array, copy=False)
    return read_moments(source, TO_JUDGE)


def _put_back(block: Any, kept: NDArray[np.int64], n_features: int) -> NDArray[Any]:
    full = np.zeros((block.shape[0], n_features), dtype=block.dtype)
    full[:, kept] = block.toarray() if sp.issparse(block) else block
    return full


def _among(cut: Cut | None, rows: IntArray) -> Cut | None:
    """Return the trials with samples counted among some rows; None where others took part, too."""
    if cut is None or cut.parts is None or sum(part.size for part in cut.parts) > rows.size:
        return None
    return replace(cut, parts=tuple(np.searchsorted(rows, part) for part in cut.parts))


def _some_rows(data: Any, origin: Origin | None) -> tuple[Any, Any]:
    """Return a copy of the samples that trials use, or of fewer, and their rows; None for all.

    No samples where they are too large.
    """
    n_samples, n_features = data.shape
    entries = data.nnz if sp.issparse(data) else n_samples * n_features
    most = max(1, int(REMEMBERED_ENTRIES * n_samples // max(entries, 1)))
    if most >= n_samples <= MOST_ROWS:
        if sp.issparse(data):
            return data.copy(), None
        return array_namespace(data).asarray(data, copy=True), None
    if most < min(n_samples, FEWEST_REMEMBERED):
        return None, None
    rows = np.sort(rows_that_take_part(n_samples, origin)[:most])
    return (data[like(rows, data)] if is_device_array(data) else data[rows]), rows
