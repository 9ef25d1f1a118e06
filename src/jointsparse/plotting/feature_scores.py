"""Scores of the best features, as bars."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jointsparse.plotting._fitted import fitted_with, names_seen
from jointsparse.plotting._style import FAINT, QUIET_TEXT, STRONG, clean_axes, new_axes, plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More bars than this cannot be told apart, and labels make the drawing slow.
MOST_BARS = 200
_LONGEST_NAME = 40


class FeatureScoresDisplay:
    """Horizontal bars of the highest feature scores, best on top, kept ones in colour.

    Make it with :meth:`from_estimator`.

    Parameters
    ----------
    feature_scores : array-like of shape (n_features,)
        Higher is better.
    feature_names : sequence of str, optional
        Names; "feature 0", "feature 1", … if not given.
    support : array-like of bool of shape (n_features,), optional
        Which features were kept; all bars have one colour if not given.
    ranking : array-like of int of shape (n_features,), optional
        Ranks (1 = best); they order features with equal scores.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the bars.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.
    bars_ : matplotlib.container.BarContainer
        The bars, best first.
    """

    ax_: Any
    figure_: Any
    bars_: Any

    def __init__(
        self,
        *,
        feature_scores: ArrayLike,
        feature_names: Sequence[str] | None = None,
        support: ArrayLike | None = None,
        ranking: ArrayLike | None = None,
    ) -> None:
        self.feature_scores = np.asarray(feature_scores, dtype=float)
        self.feature_names = feature_names
        self.support = None if support is None else np.asarray(support, dtype=bool)
        self.ranking = None if ranking is None else np.asarray(ranking)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: Sequence[str] | None = None,
        n_features: int = 20,
        ax: "Axes | None" = None,
    ) -> "FeatureScoresDisplay":
        """Draw the scores of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Any fitted estimator of this library, or a pipeline that ends with one.
        feature_names : sequence of str, optional
            Names; by default those seen during fit.
        n_features : int
            How many bars to draw at most.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        FeatureScoresDisplay
            The display, drawn.
        """
        if feature_names is None:
            feature_names = names_seen(estimator)
        estimator = fitted_with(estimator, "feature_scores_", cls.__name__)
        display = cls(
            feature_scores=estimator.feature_scores_,
            feature_names=feature_names,
            support=estimator.get_support(),
            ranking=getattr(estimator, "ranking_", None),
        )
        return display.plot(ax=ax, n_features=n_features)

    def plot(self, ax: "Axes | None" = None, *, n_features: int = 20) -> "FeatureScoresDisplay":
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure, as high as the bars need, by default.
        n_features : int
            How many bars to draw at most; never more than 200.

        Returns
        -------
        FeatureScoresDisplay
            The display itself.
        """
        shown = self._best(n_features)
        ax = new_axes(6.4, 1.4 + 0.26 * max(shown.size, 2)) if ax is None else ax
        positions = np.arange(shown.size)
        self.ax_, self.figure_ = ax, ax.figure
        self.bars_ = ax.barh(
            positions, self.feature_scores[shown], height=0.72, color=self._colours(shown)
        )
        ax.set_yticks(positions, [self._name(column) for column in shown])
        ax.invert_yaxis()
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel("feature score")
        title_pad = 8 if self.support is None else 24  # the legend has its place below the title
        ax.set_title(self._title(shown.size), loc="left", fontsize="medium", pad=title_pad)
        clean_axes(ax)
        self._add_legend(shown)
        return self

    def _best(self, n_features: int) -> NDArray[np.intp]:
        """Return the columns with the highest scores, best first."""
        if n_features < 1:
            raise ValueError(f"n_features must be at least 1, got {n_features}.")
        ties = np.arange(self.feature_scores.size) if self.ranking is None else self.ranking
        order = np.lexsort((ties, -self.feature_scores))
        return order[: min(n_features, MOST_BARS)]

    def _colours(self, shown: NDArray[np.intp]) -> list[str]:
        if self.support is None:
            return [STRONG] * shown.size
        return [STRONG if self.support[column] else FAINT for column in shown]

    def _name(self, column: int) -> str:
        if self.feature_names is None:
            return f"feature {column}"
        return plain_label(str(self.feature_names[column]), _LONGEST_NAME)

    def _title(self, n_shown: int) -> str:
        total = self.feature_scores.size
        if n_shown == total:
            return "Scores of all features"
        return f"The {n_shown} highest scores of {total:,} features".replace(",", "\u202f")

    def _add_legend(self, shown: NDArray[np.intp]) -> None:
        if self.support is None:
            return
        from matplotlib.patches import Patch

        n_kept = int(self.support.sum())
        kept_here = int(self.support[shown].sum())
        elsewhere = "" if kept_here == n_kept else f", {n_kept - kept_here} not shown"
        handles = [Patch(color=STRONG, label=f"kept ({n_kept} of {self.support.size}{elsewhere})")]
        if kept_here < shown.size:
            handles.append(Patch(color=FAINT, label="dropped"))
        # Outside the axes no bar, however long, runs into it.
        self.ax_.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0, 1),
            borderaxespad=0.2,
            borderpad=0,
            ncols=2,
            frameon=False,
            labelcolor=QUIET_TEXT,
            fontsize="small",
        )
