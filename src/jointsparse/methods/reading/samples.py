"""The check of samples on their way into a method."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from jointsparse.device import checked_samples, is_device_array
from jointsparse.incomplete import check_missing
from jointsparse.methods.reading.from_source import check_features
from jointsparse.sources.door import Samples, as_samples, cure, how_to_estimate
from jointsparse.sources.frames import flat_frame, is_frame
from jointsparse.sources.in_memory import ArraySource


def takes_missing(estimator: Any) -> bool:
    """Whether samples of an estimator may have missing values, by its parameter ``missing``."""
    inner = getattr(estimator, "estimator", estimator)
    missing = getattr(inner, "missing", "error")
    check_missing(missing)
    return bool(missing != "error")


def valid_samples(estimator: Any, X: Any, *, fitting: bool, **options: Any) -> Any:
    """Return samples that were checked, and in ``fit`` note their columns in the estimator.

    scikit-learn checks what it knows; tensors are checked where they are and stay there.

    Parameters
    ----------
    estimator : estimator
        Whose samples these are.
    X : array-like, data frame, sparse matrix or tensor of shape (n_samples, n_features)
        Samples, one per row.
    fitting : bool
        Whether the columns may be any (two samples at least), or must be those of ``fit``.
    **options
        More of what the door for samples takes.
    """
    least = 2 if fitting else 1
    missing = takes_missing(estimator)
    if not is_device_array(X):
        X = flat_frame(X) if is_frame(X) else X
        samples = as_samples(
            X,
            ensure_min_samples=least,
            estimator=estimator,
            missing=missing,
            advice=partial(_cure, estimator) if fitting else cure,
            **options,
        )
        _note_or_compare(estimator, X, samples, fitting=fitting)
        return samples.values
    if not fitting:
        return checked_samples(X, n_features=estimator.n_features_in_, missing=missing)
    X = checked_samples(X, min_samples=least, missing=missing)
    estimator.n_features_in_ = int(X.shape[1])
    estimator.__dict__.pop("feature_names_in_", None)  # tensors have no names
    return X


def _cure(estimator: Any) -> str:
    """Return what to do about missing values: the parameter that takes them, where there is one."""
    inner = getattr(estimator, "estimator", estimator)
    if not hasattr(inner, "missing"):
        return cure()
    if inner._needs().samples:
        return "missing='mean' puts the mean of its column there, or leave such rows or columns out"
    return how_to_estimate()


def _note_or_compare(estimator: Any, X: Any, samples: Samples, *, fitting: bool) -> None:
    """Keep the number and the names of the columns, or compare them with those of ``fit``.

    scikit-learn does so for what it knows; it does not know where other containers have names.
    """
    if fitting and type(X) is np.ndarray:  # which has no names
        estimator.n_features_in_ = samples.values.shape[1]
        estimator.__dict__.pop("feature_names_in_", None)
        return
    if is_frame(X) or samples.names is None:
        columns = X if is_frame(X) else samples.values
        validate_data(estimator, columns, reset=fitting, skip_check_array=True)
        return
    if not fitting:
        check_features(estimator, ArraySource(*samples))
        return
    estimator.n_features_in_ = len(samples.names)
    estimator.feature_names_in_ = samples.names
