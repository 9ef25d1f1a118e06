"""What the displays of component methods share: data of a fitted estimator, checks, wording."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jointsparse.arrays import FloatArray
from jointsparse.plotting._fitted import check_is_estimator, last_step, names_seen
from jointsparse.plotting._style import plain_label

_LONGEST_NAME = 28


class ComponentTable:
    """Loadings of all components, checked, with the names of features and the variance of each.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Loadings, one component per row.
    feature_names : sequence of str, optional
        Names; "feature 0", "feature 1", … if not given.
    explained_variance_ratio : array-like of shape (n_components,), optional
        Share of the variance that each component explains.
    """

    def __init__(
        self,
        components: ArrayLike,
        feature_names: Sequence[str] | None,
        explained_variance_ratio: ArrayLike | None,
    ) -> None:
        self.components: FloatArray = np.asarray(components, dtype=float)
        if self.components.ndim != 2 or 0 in self.components.shape:
            raise ValueError(
                f"components has shape {self.components.shape}: give one row for each component "
                "and one column for each feature"
            )
        if not np.all(np.isfinite(self.components)):
            raise ValueError("components contains values that are not finite")
        n_components, n_features = self.components.shape
        if feature_names is not None and len(feature_names) != n_features:
            raise ValueError(
                f"feature_names has {len(feature_names)} names for {n_features} features"
            )
        self.feature_names = feature_names
        ratio = explained_variance_ratio
        self.ratio: FloatArray | None = None if ratio is None else np.asarray(ratio, dtype=float)
        if self.ratio is not None and self.ratio.shape != (n_components,):
            raise ValueError(
                f"explained_variance_ratio has shape {self.ratio.shape}: give one number for each "
                f"of the {n_components} components"
            )

    def chosen(self, components: Sequence[int]) -> list[int]:
        """Return the numbers of the components asked for; refuse what does not exist."""
        count = self.components.shape[0]
        if np.ndim(components) != 1:
            raise ValueError(f"components={components!r} must be a list of numbers, such as [0]")
        for number in components:
            if not isinstance(number, int | np.integer) or not 0 <= number < count:
                raise ValueError(
                    f"components contains {number!r}, but the {count} components are numbered "
                    f"0 to {count - 1}"
                )
        numbers = [int(number) for number in components]
        if not numbers or len(set(numbers)) < len(numbers):
            raise ValueError(f"components={numbers} must name different components, at least one")
        return numbers

    def name(self, feature: int) -> str:
        """Return the name of a feature as matplotlib should draw it."""
        if self.feature_names is None:
            return f"feature {feature}"
        return plain_label(str(self.feature_names[feature]), _LONGEST_NAME)

    def percent(self, component: int) -> str:
        """Return the explained variance of a component in words; nothing where it is unknown."""
        if self.ratio is None or not np.isfinite(self.ratio[component]):
            return ""
        value = 100 * self.ratio[component]
        return "<0.1 %" if 0 < value < 0.05 else f"{value:.1f} %"


def strongest(loadings: FloatArray, most: int) -> tuple[NDArray[np.intp], int]:
    """Return the features with the longest loadings, longest first, and how many are nonzero.

    Features whose loadings are all zero are never returned.
    """
    # Divided by the largest first: squares of very small or large loadings are not numbers.
    peak = float(np.max(np.abs(loadings)))
    strength = np.linalg.norm(loadings / peak if peak > 0 else loadings, axis=0)
    order = np.argsort(-strength, kind="stable")
    n_nonzero = int(np.count_nonzero(np.any(loadings != 0, axis=0)))
    return order[: min(most, n_nonzero)], n_nonzero


def check_most(name: str, value: Any, lowest: int) -> None:
    """Refuse a number of features that makes no sense."""
    if not isinstance(value, int | np.integer) or value < lowest:
        raise ValueError(f"{name}={value!r} is not a whole number of at least {lowest}")


def counted(number: int) -> str:
    """Return a whole number with its digits in groups of three."""
    return f"{number:,}".replace(",", "\u202f")


def table_of(estimator: Any, feature_names: Sequence[str] | None, display: str) -> ComponentTable:
    """Return the components of a fitted estimator, or of the last step of a pipeline."""
    from sklearn.utils.validation import check_is_fitted

    final = last_step(estimator)
    check_is_estimator(final)
    check_is_fitted(final)
    if np.ndim(getattr(final, "components_", 0)) != 2:
        raise ValueError(
            f"{type(final).__name__} has no components_: {display} draws component methods such as "
            "SPCA or PCA; FeatureScoresDisplay draws the scores of any selector"
        )
    if feature_names is None:
        feature_names = names_seen(estimator)
    ratio = getattr(final, "explained_variance_ratio_", None)
    return ComponentTable(final.components_, feature_names, ratio)
