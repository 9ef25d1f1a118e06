"""What a display draws of an estimator: of a pipeline its last step, of a wrapper what is in it."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def last_step(estimator: Any) -> Any:
    """Return the last step of a pipeline; any other estimator as it is."""
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


def check_is_estimator(estimator: Any) -> None:
    """Refuse what is no estimator, such as samples in its place, without printing all of it."""
    if not hasattr(estimator, "fit"):
        raise TypeError(f"a fitted estimator is needed here, not {type(estimator).__name__}")


def fitted_with(estimator: Any, attribute: str, display: str) -> Any:
    """Return the fitted estimator, or last step, that has an attribute; or say why there is none.

    Parameters
    ----------
    estimator : estimator
        Fitted; a pipeline, or a wrapper with the method in ``estimator_``, will do.
    attribute : str
        What is drawn.
    display : str
        Name of the display, for messages.
    """
    from sklearn.utils.validation import check_is_fitted

    final = last_step(estimator)
    check_is_estimator(final)
    check_is_fitted(final)
    for found in (final, last_step(getattr(final, "estimator_", final))):
        if hasattr(found, attribute):
            return found
    why = ""
    if attribute == "selection_curve_" and getattr(final, "n_features_to_select", "") == "support":
        why = "; n_features_to_select='support' takes the set as the model made it"
    elif attribute == "selection_curve_" and not np.any(getattr(final, "support_", True)):
        why = ": no feature was kept"
    raise ValueError(f"{type(final).__name__} has no {attribute}, which {display} draws{why}")


def before_last(estimator: Any, X: Any) -> Any:
    """Return samples as the last step of a pipeline sees them."""
    if hasattr(estimator, "steps") and len(estimator.steps) > 1:
        return estimator[:-1].transform(X)
    return X


def names_seen(estimator: Any) -> Sequence[str] | None:
    """Return the names of the features of the last step, where anything knows them."""
    final = last_step(estimator)
    names: Sequence[str] | None = getattr(final, "feature_names_in_", None)
    if names is None and final is not estimator and hasattr(estimator, "feature_names_in_"):
        # The steps before may have dropped or made features.
        earlier = estimator[:-1]
        if hasattr(earlier, "get_feature_names_out"):
            names = earlier.get_feature_names_out()
    return names
