"""Several methods side by side: what their selections predict, and how much they agree."""

from typing import TYPE_CHECKING, Any

import numpy as np

from jointsparse.plotting._style import (
    ACCENT,
    FAINT,
    QUIET_TEXT,
    STRONG,
    clean_axes,
    plain_label,
)

if TYPE_CHECKING:
    from jointsparse.model_selection import Comparison

_LONGEST_NAME = 24


class ComparisonDisplay:
    """What each method's set predicts, its stability, and the overlap of every two selections.

    Parameters
    ----------
    comparison : Comparison
        From :func:`~jointsparse.compare_methods`.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure.
    ax_ : ndarray of matplotlib.axes.Axes
        Axes of what is predicted, of the stability and of the overlap.
    bars_ : matplotlib.container.BarContainer
        Bars of what is predicted, first method on top.
    """

    figure_: Any
    ax_: Any
    bars_: Any

    def __init__(self, comparison: "Comparison") -> None:
        self.comparison = comparison

    @classmethod
    def from_comparison(cls, comparison: "Comparison") -> "ComparisonDisplay":
        """Draw a comparison in a new figure."""
        return cls(comparison).plot()

    def plot(self) -> "ComparisonDisplay":
        """Draw the three parts in a new figure."""
        import matplotlib.pyplot as plt

        results = self.comparison.results
        height = 1.6 + 0.42 * len(results)
        self.figure_, self.ax_ = plt.subplots(
            1, 3, figsize=(11, height), width_ratios=(1.1, 1, 1.1), layout="constrained"
        )
        names = [plain_label(result.name, _LONGEST_NAME) for result in results]
        self._worth(self.ax_[0], names)
        self._stability(self.ax_[1], names)
        self._overlap(self.ax_[2], names)
        return self

    def _worth(self, ax: Any, names: list[str]) -> None:
        found = self.comparison
        places = np.arange(len(names))
        mean, spread = np.array([result.r2 for result in found.results]).T
        self.bars_ = ax.barh(places, mean, xerr=spread, color=STRONG, ecolor=QUIET_TEXT, height=0.6)
        dashed = {"linestyle": "--", "linewidth": 1.2}
        words = f"{found.n_kept} principal components (of all features)"
        ax.axvline(found.pca_r2[0], color=FAINT, label=words, **dashed)
        chance, reach = found.random_r2
        words = f"{found.n_kept} random features, ± standard deviation"
        ax.axvline(chance, color=ACCENT, label=words, **dashed)
        ax.axvspan(chance - reach, chance + reach, color=ACCENT, alpha=0.15, linewidth=0, zorder=0)
        ax.set_yticks(places, names)
        ax.invert_yaxis()
        ax.set_xlim(0, 1)
        ax.set_xlabel("dropped features predicted in new samples")
        ax.set_title(f"{found.n_kept} kept features", loc="left", fontsize="medium")
        self.figure_.legend(
            loc="outside lower left",
            ncols=2,
            frameon=False,
            fontsize="small",
            labelcolor=QUIET_TEXT,
        )
        clean_axes(ax)

    def _stability(self, ax: Any, names: list[str]) -> None:
        places = np.arange(len(names))
        value, lower, upper = np.array([result.stability for result in self.comparison.results]).T
        reach = np.abs(np.vstack([value - lower, upper - value]))
        ax.errorbar(value, places, xerr=reach, fmt="o", color=STRONG, ecolor=QUIET_TEXT)
        ax.set_yticks(places, [""] * len(names))
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_xlim(min(0.0, float(np.nanmin([0.0, *lower]))), 1.02)
        ax.set_xlabel("stability, 95 % interval")
        ax.set_title("Same features on other samples", loc="left", fontsize="medium")
        clean_axes(ax)

    def _overlap(self, ax: Any, names: list[str]) -> None:
        overlap = self.comparison.jaccard
        size = "small" if len(names) <= 8 else "x-small"
        ax.imshow(overlap, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for row, column in np.ndindex(*overlap.shape):
            value = overlap[row, column]
            if not np.isnan(value):
                colour = "white" if value > 0.6 else "black"
                style = {"ha": "center", "va": "center", "color": colour, "fontsize": size}
                ax.text(column, row, f"{value:.2f}".removeprefix("0"), **style)
        ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
        ax.set_yticks(range(len(names)), [""] * len(names))
        ax.set_title("Same features as another method", loc="left", fontsize="medium")
