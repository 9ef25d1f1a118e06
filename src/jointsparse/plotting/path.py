"""Scores of the features along a regularisation path."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jointsparse.plotting._components import check_most, counted
from jointsparse.plotting._fitted import before_last, last_step, names_seen
from jointsparse.plotting._style import (
    ACCENT,
    FAINT,
    QUIET_TEXT,
    STRONG,
    clean_axes,
    plain_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from jointsparse.model_selection import RegularizationPath

MOST_LINES = 200  # more cannot be told apart
_NAMED = 8  # lines with a name at their end
_LONGEST_NAME = 28
_LINE_GAP = 0.05  # of the height of the axes, between two names


class PathDisplay:
    """Score of each feature against the penalty, and how many features are in the model.

    Strong penalties are on the left. Lines of features that the estimator keeps are blue, the
    others grey. Make it with :meth:`from_path` or :meth:`from_estimator`.

    Parameters
    ----------
    alphas : array-like of shape (n_points,)
        Penalties, as shares of the one that empties the model.
    feature_scores : array-like of shape (n_points, n_features)
        Scores at each penalty; exactly zero for features left out.
    feature_names : sequence of str, optional
        Names; "feature 0", "feature 1", … if not given.
    support : array-like of bool of shape (n_features,), optional
        Which features were kept; all lines have one colour if not given.
    used : float, optional
        Penalty of the fitted model, for a mark.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the lines.
    count_ax_ : matplotlib.axes.Axes
        Axes with the number of features, sharing the penalties.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.
    lines_ : list of matplotlib.lines.Line2D
        The lines, the highest score first.
    count_line_ : matplotlib.lines.Line2D
        The number of features in the model.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import SPCAPSD, regularization_path
    >>> from jointsparse.plotting import PathDisplay
    >>> table = load_breast_cancer()
    >>> X = StandardScaler().fit_transform(table.data)
    >>> path = regularization_path(SPCAPSD(), X, alphas=[0.9, 0.5, 0.1])
    >>> display = PathDisplay.from_path(path, feature_names=table.feature_names)
    >>> len(display.lines_), display.count_line_.get_ydata().tolist()
    (30, [0, 30, 30])
    """

    ax_: Any
    count_ax_: Any
    figure_: Any
    lines_: list[Any]
    count_line_: Any

    def __init__(
        self,
        *,
        alphas: ArrayLike,
        feature_scores: ArrayLike,
        feature_names: Sequence[str] | None = None,
        support: ArrayLike | None = None,
        used: float | None = None,
    ) -> None:
        self.alphas = np.asarray(alphas, dtype=float)
        self.feature_scores = np.asarray(feature_scores, dtype=float)
        if self.feature_scores.ndim != 2 or len(self.feature_scores) != self.alphas.size:
            raise ValueError(
                f"feature_scores has shape {self.feature_scores.shape}: give one row for each of "
                f"the {self.alphas.size} penalties"
            )
        self.feature_names = feature_names
        self.support = None if support is None else np.asarray(support, dtype=bool)
        self.used = used

    @classmethod
    def from_path(
        cls,
        path: "RegularizationPath",
        *,
        feature_names: Sequence[str] | None = None,
        support: ArrayLike | None = None,
        used: float | None = None,
        max_features: int = 40,
        ax: "Axes | None" = None,
    ) -> "PathDisplay":
        """Draw a path that was computed before.

        Parameters
        ----------
        path : RegularizationPath
            From :func:`~jointsparse.regularization_path`.
        feature_names : sequence of str, optional
            Names; by default those of the path.
        support : array-like of bool of shape (n_features,), optional
            Which features to draw in colour, such as ``estimator.get_support()``.
        used : float, optional
            Penalty to mark, as a share of the one that empties the model.
        max_features : int
            How many lines to draw at most: those with the highest scores.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        PathDisplay
            The display, drawn.
        """
        names: Any = path.feature_names if feature_names is None else feature_names
        display = cls(
            alphas=path.alphas,
            feature_scores=path.feature_scores,
            feature_names=names,
            support=support,
            used=used,
        )
        return display.plot(ax=ax, max_features=max_features)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        alphas: ArrayLike | None = None,
        n_points: int = 30,
        feature_names: Sequence[str] | None = None,
        max_features: int = 40,
        ax: "Axes | None" = None,
    ) -> "PathDisplay":
        """Follow a model through penalties, and draw it.

        Parameters
        ----------
        estimator : SPCAPSD, CSPCA, AWSPCA, SPCA, JSPCA or FSSL
            Where it is a fitted selector, its kept features are in colour and its penalty is
            marked. It is not modified. Of a fitted pipeline, the last step.
        X : array-like, data frame or sparse matrix of shape (n_samples, n_features), or Moments
            The samples.
        alphas : array-like, optional
            Penalties as shares of the one that empties the model.
        n_points : int
            How many penalties, where ``alphas`` is not given.
        feature_names : sequence of str, optional
            Names; by default those of X.
        max_features : int
            How many lines to draw at most.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        PathDisplay
            The display, drawn.
        """
        from jointsparse.model_selection import regularization_path

        if feature_names is None and last_step(estimator) is not estimator:
            feature_names = names_seen(estimator)
        X = before_last(estimator, X)
        estimator = last_step(estimator)
        path = regularization_path(estimator, X, alphas=alphas, n_points=n_points)
        fitted = hasattr(estimator, "support_")
        empties = path.penalties[0] / path.alphas[0]
        return cls.from_path(
            path,
            feature_names=feature_names,
            support=estimator.get_support() if fitted else None,
            used=float(estimator.alpha_ / empties) if fitted else None,
            max_features=max_features,
            ax=ax,
        )

    def plot(self, ax: "Axes | None" = None, *, max_features: int = 40) -> "PathDisplay":
        """Draw the lines.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a part of its place, below, is used for the number of features. A new
            figure by default.
        max_features : int
            How many lines to draw at most; never more than 200.

        Returns
        -------
        PathDisplay
            The display itself.
        """
        check_most("max_features", max_features, 1)
        self.ax_, self.count_ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        peak = self.feature_scores.max(axis=0, initial=0.0)
        shown = np.argsort(-peak, kind="stable")[: min(max_features, MOST_LINES)]
        self.lines_ = [self._line(int(feature)) for feature in shown]
        counts = np.count_nonzero(self.feature_scores, axis=1)
        (self.count_line_,) = self.count_ax_.plot(
            self.alphas, counts, color=STRONG, drawstyle="steps-post", marker=self._marker()
        )
        self._label(shown)
        return self

    def _line(self, feature: int) -> Any:
        kept = self.support is None or self.support[feature]
        (line,) = self.ax_.plot(
            self.alphas,
            self.feature_scores[:, feature],
            color=STRONG if kept else FAINT,
            linewidth=1.2,
            zorder=3 if kept else 2,
            marker=self._marker(),
            label=self._name(feature),
        )
        return line

    def _marker(self) -> str:
        # A line needs two points to be seen.
        return "o" if self.alphas.size == 1 else ""

    def _name(self, feature: int) -> str:
        if self.feature_names is None:
            return f"feature {feature}"
        return plain_label(str(self.feature_names[feature]), _LONGEST_NAME)

    def _label(self, shown: NDArray[np.intp]) -> None:
        ax, low = self.ax_, self.count_ax_
        ax.set_xscale("log")
        if self.alphas.size > 1:
            ax.set_xlim(self.alphas.max(), self.alphas.min())
        ax.set_ylim(bottom=0)
        low.set_ylim(bottom=0)
        ax.set_ylabel("feature score")
        low.set_ylabel("features")
        low.set_xlabel("penalty, as a share of the one that empties the model")
        low.yaxis.get_major_locator().set_params(integer=True)
        total = self.feature_scores.shape[1]
        words = "All scores"
        if shown.size < total:
            words = f"The {shown.size} highest scores of {counted(total)} features"
        ax.set_title(f"{words} along the path", loc="left", fontsize="medium")
        if self.used is not None:
            for axes in (ax, low):
                axes.axvline(self.used, color=ACCENT, linewidth=1, linestyle="--")
            ax.annotate(
                "fitted model",
                (self.used, 1),
                xycoords=("data", "axes fraction"),
                xytext=(3, -10),
                textcoords="offset points",
                color=ACCENT,
                fontsize="small",
            )
        clean_axes(ax)
        clean_axes(low)
        self._name_ends(shown)

    def _name_ends(self, shown: NDArray[np.intp]) -> None:
        """Write the names of the highest lines at their ends, where there is room for them."""
        last = self.feature_scores[-1]
        top = self.ax_.get_ylim()[1]
        taken: list[float] = []
        order = sorted(shown.tolist(), key=lambda j: (self._is_grey(j), -last[j]))
        for feature in order:
            height = float(last[feature]) / top
            if last[feature] == 0 or any(abs(height - other) < _LINE_GAP for other in taken):
                continue
            taken.append(height)
            self.ax_.annotate(
                self._name(feature),
                (1, height),
                xycoords="axes fraction",
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize="x-small",
                color=QUIET_TEXT,
                annotation_clip=False,
            )
            if len(taken) == _NAMED:
                return

    def _is_grey(self, feature: int) -> bool:
        return self.support is not None and not bool(self.support[feature])


def _axes(ax: "Axes | None") -> tuple[Any, Any]:
    """Return the axes of the scores and, below, of the number of features."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, (upper, lower) = plt.subplots(
            2, 1, figsize=(6.4, 4.8), sharex=True, height_ratios=(3, 1), layout="constrained"
        )
        return upper, lower
    from mpl_toolkits.axes_grid1 import make_axes_locatable

    lower = make_axes_locatable(ax).append_axes("bottom", size="35%", pad=0.15, sharex=ax)
    ax.tick_params(axis="x", labelbottom=False)
    return ax, lower
