"""The parameter ``robust`` of methods: their samples are made robust before anything is summed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.device import is_device_array
from jointsparse.methods.reading.from_source import moments_to_fit
from jointsparse.methods.robust_steps import RobustStep, step_of
from jointsparse.moments import Moments
from jointsparse.robust.learning import Robust, check_kind, robust_samples
from jointsparse.running.workspace import Slot
from jointsparse.sources import as_source
from jointsparse.sources.in_memory import ArraySource

MADE_ROBUST: Slot[Moments] = Slot("made robust")
ROBUST_ATTRIBUTES = ("outlier_scores_", "outliers_", "robust_step_")


def robust_of(estimator: Any) -> str | None:
    """Return what a method bounds: "samples", "cells", or None.

    Examples
    --------
    >>> from jointsparse import SPCAPSD
    >>> from jointsparse.methods.bases.robustness import robust_of
    >>> robust_of(SPCAPSD(robust="cells"))
    'cells'
    """
    robust = getattr(estimator, "robust", None)
    return None if robust is None else check_kind(robust)


def scale_of(estimator: Any) -> str | None:
    """Return how a method scales columns; robust samples have comparable columns already."""
    scale: str | None = getattr(estimator, "scale", None)
    return scale if robust_of(estimator) is None else None


def robust_moments(X: Any, estimator: Any) -> Moments:
    """Return the moments of samples in memory, of robust ones if a method wants those.

    Parameters
    ----------
    X : tensor or Source
        Samples that were checked.
    estimator : estimator
        What they are for.
    """
    robust = robust_of(estimator)
    if robust is None:
        return Moments.from_data(X, copy=False)
    samples, how = robust_samples(X, robust, comparable=_comparable(estimator))
    return Moments.from_data(samples, copy=False).made_robust(how)


def moments_from(X: Any, estimator: Any) -> Moments:
    """Return the moments of a source as a method needs them, of robust samples if it wants those.

    Parameters
    ----------
    X : Source, path or Dask collection
        Samples.
    estimator : estimator
        What they are for.
    """
    robust = robust_of(estimator)
    if robust is None:
        return moments_to_fit(as_source(X), estimator)
    samples, how = robust_samples(X, robust, comparable=_comparable(estimator))
    return moments_to_fit(samples, estimator).made_robust(how)


def made_robust_for(estimator: Any, moments: Moments) -> Moments:
    """Return moments of robust samples where a method wants those, or say that they are not there.

    Parameters
    ----------
    estimator : estimator
        What they are for.
    moments : Moments
        Of samples as they are, or of robust ones.
    """
    robust = robust_of(estimator)
    how = moments.robust
    if robust is None:
        return moments
    if how is not None and how.rule.kind != robust:
        raise ValueError(
            f"robust={robust!r}, and the moments are those of Moments.from_data(X, "
            f"robust={how.rule.kind!r}): choose one of the two"
        )
    if how is None and (not moments.has_samples or moments.elsewhere):
        raise ValueError(
            f"robust={robust!r} needs the samples, not only their moments: fit it with fit(X), or "
            f"with moments from Moments.from_data(X, robust={robust!r})"
        )
    if how is not None and (how.comparable or not _comparable(estimator)):
        return moments
    variant = (robust, _comparable(estimator))
    found = moments.workspace.kept(
        MADE_ROBUST, lambda: _robust_of(moments, how, estimator), variant
    )
    return found.with_labels(moments.labels)


def _robust_of(moments: Moments, how: Robust | None, estimator: Any) -> Moments:
    if how is None:
        data = moments.data if is_device_array(moments.data) else ArraySource(moments.data)
        made = robust_moments(data, estimator)
        made.feature_names = moments.feature_names
        if moments.origin is not None:
            shrunk = moments.origin.shrunk or made.origin is not None
            made.made_of(replace(moments.origin, shrunk=shrunk))
        return made
    made = moments.scaled(1 / how.rule.scale)
    made.robust = how._replace(comparable=True)
    return made


def _comparable(estimator: Any) -> bool:
    """Tell whether a method wants comparable columns: to select, but not to find components."""
    return bool(getattr(getattr(estimator, "estimator", estimator), "_comparable_columns", True))


class NotesOutliers:
    """Adds to a method what its robust samples say about outliers."""

    outlier_scores_: FloatArray
    outliers_: NDArray[Any]
    robust_step_: RobustStep

    def _note_outliers(self, moments: Moments) -> None:
        """Keep the outlier scores of robust samples; forget those of an earlier fit."""
        how = moments.robust
        if how is None:
            for name in ROBUST_ATTRIBUTES:
                self.__dict__.pop(name, None)
            return
        self.outlier_scores_, self.outliers_ = how.scores, how.outliers
        self.robust_step_ = step_of(how)

    def _note_shrunk(self, moments: Moments) -> Moments:
        """Note that samples were shrunk, where those of fit were; return the moments."""
        step = self.__dict__.get("robust_step_")
        if step is not None and moments.origin is None:
            moments.made_of(step.origin_of(moments.n_samples))
        return moments

    def _as_fitted(self, values: Any) -> Any:
        """Return checked samples as the method saw those of ``fit``."""
        step = self.__dict__.get("robust_step_")
        return values if step is None else step.transform(values)
