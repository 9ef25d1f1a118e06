"""Samples that come in portions: the moments of all that were seen, and a fit to them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from jointsparse.arrays import FloatArray
from jointsparse.device import is_device_array, to_host
from jointsparse.methods.bases.all_or_nothing import all_or_nothing, unchanged
from jointsparse.methods.reading.from_source import check_features
from jointsparse.methods.reading.samples import takes_missing, valid_samples
from jointsparse.moments import Moments
from jointsparse.numerics.semidefinite import Checked
from jointsparse.preparation import prepared
from jointsparse.running.notices import warn_caller
from jointsparse.sources import Source, as_source, is_streamed
from jointsparse.sources.in_memory import ArraySource
from jointsparse.sources.origin import Origin

Half = tuple[int, FloatArray, FloatArray]
WEIGHTED = "partial_fit keeps sums, which do not tell how samples were weighted"


def no_partial_fit(estimator: Any) -> str:
    """Say why a method has no ``partial_fit``."""
    return (
        f"{type(estimator).__name__} looks at the samples themselves, not only at sums over them, "
        "so it has no partial_fit: use fit(X)"
    )


def _works_from_moments(estimator: Any) -> bool:
    if estimator._needs().samples:
        raise AttributeError(no_partial_fit(estimator))
    return True


class Online:
    """Adds ``partial_fit`` to estimators for which the scatter matrix is enough."""

    # Count, mean and scatter matrix of two random halves of what was seen; plain arrays, so that
    # a saved model can go on.
    _seen: tuple[Half, Half]
    n_samples_seen_: int

    @available_if(_works_from_moments)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Fit the method to these samples and all that earlier calls were given.

        Kept are count, mean and scatter matrix of two halves of the samples (2p² numbers), to which
        a call adds; the samples are not kept. The method itself is then solved anew, as by
        ``fit_moments``. The result is that of one fit to all samples as they are read from a file
        that does not fit in memory: the same model, and what it is worth judged by halves. After
        ``fit``, which keeps no sums, it begins anew.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix, tensor, source or path
            More samples, one per row, with the same features. Not modified.
        y : ignored
            For compatibility with scikit-learn.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of these samples, as in ``fit``; shares are relative to this call's. Patterns
            are then not told from noise: no feature is significant, and "auto" keeps none.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            seen = self.__dict__.get("_seen")
            if seen is None and hasattr(self, "n_features_in_"):
                warn_caller(
                    f"{type(self).__name__}: partial_fit begins anew here, as fit, by which this "
                    "estimator was fitted, keeps no sums to go on from"
                )
            if takes_missing(self):
                raise ValueError(
                    "partial_fit takes samples without missing values only: what stands for one "
                    "depends on samples that are still to come; use fit, or missing='error'"
                )
            source, weighted = self._portion(X, sample_weight, first=seen is None)
            weighted = weighted or getattr(self, "_seen_weighted", False)
            known = None if seen is None else _restored(seen, source.feature_names)
            total = Moments.from_source(source, offset=0 if known is None else known.n_samples)
            if known is not None:
                total = known + total
                total.feature_names = getattr(self, "feature_names_in_", None)
            if weighted:
                total.origin = Origin.of_rows(2, unknown=WEIGHTED)
            if total.n_samples < 2:
                raise ValueError("one sample does not vary: begin with two at least")
            self.fit_moments(total)  # type: ignore[attr-defined]
            assert total.halves is not None
            one, other = ((half.n_samples, half.mean, half.scatter) for half in total.halves)
            self._seen, self.n_samples_seen_ = (one, other), total.n_samples
            if weighted:
                self._seen_weighted = True
        return self

    def _portion(self, X: Any, sample_weight: Any, *, first: bool) -> tuple[Source, bool]:
        """Return the samples of a call, checked, and whether their weights matter."""
        if is_streamed(X):
            source = as_source(X)
            if not first:
                check_features(self, source)
        else:
            with unchanged(self):
                values = valid_samples(self, X, fitting=first)
                names = getattr(self, "feature_names_in_", None)
            source = ArraySource(to_host(values) if is_device_array(values) else values, names)
        if sample_weight is None:
            return source, False
        found = prepared(source, sample_weight=sample_weight)
        return found.samples, found.origin is not None

    def _forget(self) -> None:
        """Leave what earlier calls of ``partial_fit`` summed up."""
        for name in ("_seen", "_seen_weighted", "n_samples_seen_"):
            self.__dict__.pop(name, None)


def _restored(seen: tuple[Half, Half], feature_names: Any) -> Moments:
    one, other = (
        Moments(int(n), np.asarray(mean), Checked(np.asarray(scatter)), feature_names)
        for n, mean, scatter in seen
    )
    total = one + other
    return Moments(
        total.n_samples, total.mean, Checked(total.scatter), feature_names, halves=(one, other)
    )
