"""Samples and features in one picture: scores as points, loadings as arrows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jointsparse.arrays import FloatArray
from jointsparse.plotting._components import (
    ComponentTable,
    check_most,
    counted,
    strongest,
    table_of,
)
from jointsparse.plotting._groups import draw_groups
from jointsparse.plotting._labels import place_labels
from jointsparse.plotting._style import FAINT, clean_axes, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More points than this only make the drawing slow; more arrows cannot be labelled.
MOST_POINTS = 10_000
MOST_ARROWS = 40
_VECTOR_POINTS = 2_000  # with more points, files of vector graphics hold a bitmap of them
_ARROW = "#1A1A1A"
_LONGEST_ARROW = 0.8  # of the distance from the origin to the farthest sample
_SHORTEST_ARROW = 0.02  # of the longest: a shorter one is a dot with a name
_MOST_ELONGATED = 5.0


class BiplotDisplay:
    """Scores of the samples on two components, with arrows for the strongest loadings.

    An arrow starts at the origin and points where samples with a high value of its feature lie.
    All arrows have one scale, chosen so that they fill the picture: lengths compare with each
    other, not with the scores. Make it with
    :meth:`from_estimator`.

    Parameters
    ----------
    scores : array-like of shape (n_samples, n_components)
        Projections of the samples.
    components : array-like of shape (n_components, n_features)
        Loadings, one component per row.
    y : array-like of shape (n_samples,), optional
        Classes (numbers or strings), or numbers for a colour scale.
    feature_names : sequence of str, optional
        Names; "feature 0", "feature 1", … if not given.
    explained_variance_ratio : array-like of shape (n_components,), optional
        Share of the variance that each component explains, for the labels of the axes.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the picture.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.
    scatters_ : list of matplotlib.collections.PathCollection
        The points: one collection, or one for each class.
    arrows_ : list of matplotlib.text.Annotation
        The arrows, strongest feature first.
    arrow_labels_ : list of matplotlib.text.Annotation
        Their labels.
    arrow_scale_ : ndarray of shape (2,)
        What loadings are multiplied with along each axis to give the tip of their arrow.
    shown_features_ : ndarray of int
        Columns of ``components`` that have an arrow, strongest first.

    Notes
    -----
    Both axes have the same unit, so that angles are true, unless the scores extend more than five
    times further along one axis than along the other. Each axis then has a unit of its own, for
    points and arrows alike, as if the scores had been scaled to the same range. Of more than 10 000
    samples a random part is drawn, the same on every call. Arrows shorter than 2 % of the longest
    are left out.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import SPCA
    >>> from jointsparse.plotting import BiplotDisplay
    >>> table = load_breast_cancer()
    >>> X = StandardScaler().fit_transform(table.data)
    >>> model = SPCA(n_components=3, n_nonzero=6).fit(X)
    >>> kinds = table.target_names[table.target]
    >>> display = BiplotDisplay.from_estimator(model, X, y=kinds, feature_names=table.feature_names)
    >>> len(display.arrows_)
    12
    """

    ax_: Any
    figure_: Any
    scatters_: list[Any]
    arrows_: list[Any]
    arrow_labels_: list[Any]
    arrow_scale_: FloatArray
    shown_features_: NDArray[np.intp]

    def __init__(
        self,
        *,
        scores: ArrayLike,
        components: ArrayLike,
        y: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        explained_variance_ratio: ArrayLike | None = None,
    ) -> None:
        self._table = ComponentTable(components, feature_names, explained_variance_ratio)
        self.components = self._table.components
        self.feature_names = feature_names
        self.explained_variance_ratio = self._table.ratio
        self.scores: FloatArray = np.asarray(scores, dtype=float)
        if self.scores.ndim != 2 or self.scores.shape[1] != self.components.shape[0]:
            raise ValueError(
                f"scores has shape {self.scores.shape}: give one column for each of the "
                f"{self.components.shape[0]} components"
            )
        if not np.all(np.isfinite(self.scores)):
            raise ValueError("scores contains values that are not finite")
        self.y = None if y is None else np.asarray(y)
        if self.y is not None and self.y.shape != self.scores.shape[:1]:
            raise ValueError(
                f"y has shape {self.y.shape}: give one class or number for each of the "
                f"{self.scores.shape[0]} samples"
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        components: Sequence[int] = (0, 1),
        y: ArrayLike | None = None,
        max_arrows: int = 12,
        feature_names: Sequence[str] | None = None,
        ax: "Axes | None" = None,
    ) -> "BiplotDisplay":
        """Draw samples and features of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Any fitted estimator with ``components_`` and ``transform``, of this library or of
            scikit-learn, or a pipeline that ends with one.
        X : array-like, data frame or sparse matrix of shape (n_samples, n_features)
            Samples to draw, seen in fit or new.
        components : pair of int
            Which components are the axes, by row of ``components_``.
        y : array-like of shape (n_samples,), optional
            Classes (numbers or strings), or numbers for a colour scale.
        max_arrows : int
            How many features get an arrow at most: those with the longest loadings in the two
            components.
        feature_names : sequence of str, optional
            Names; by default those seen during fit.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        BiplotDisplay
            The display, drawn.
        """
        table = table_of(estimator, feature_names, cls.__name__)
        display = cls(
            scores=estimator.transform(X),
            components=table.components,
            y=y,
            feature_names=table.feature_names,
            explained_variance_ratio=table.ratio,
        )
        return display.plot(ax=ax, components=components, max_arrows=max_arrows)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        components: Sequence[int] = (0, 1),
        max_arrows: int = 12,
    ) -> "BiplotDisplay":
        """Draw points and arrows.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        components : pair of int
            Which components are the axes.
        max_arrows : int
            How many arrows to draw at most; never more than 40.

        Returns
        -------
        BiplotDisplay
            The display itself.
        """
        pair = self._pair(components)
        check_most("max_arrows", max_arrows, 0)
        ax = new_axes(6.4, 5.6) if ax is None else ax
        self.ax_, self.figure_ = ax, ax.figure
        rows = self._rows()
        points = self.scores[rows][:, pair]
        loadings = self.components[pair]
        self.shown_features_, n_nonzero = strongest(loadings, min(max_arrows, MOST_ARROWS))
        length = np.hypot(*loadings[:, self.shown_features_])
        visible = length > _SHORTEST_ARROW * np.max(length, initial=0.0)
        self.shown_features_ = self.shown_features_[visible]
        units = _units(points)
        self.arrow_scale_ = units * _scale(points / units, loadings.T)
        tips = loadings[:, self.shown_features_].T * self.arrow_scale_

        self._draw_plane(pair, np.vstack([points, tips]))
        if units[0] == units[1]:
            ax.set_aspect("equal", adjustable="datalim")
        y = None if self.y is None else self.y[rows]
        self.scatters_, legend_rows = draw_groups(
            ax,
            points,
            y,
            alpha=float(np.clip(14 / np.sqrt(max(rows.size, 1)), 0.2, 0.75)),
            rasterized=rows.size > _VECTOR_POINTS,
        )
        title = self._title(rows.size, n_nonzero)
        ax.set_title(title, loc="left", fontsize="medium", pad=8 + 15 * legend_rows)
        self.arrows_ = [self._arrow(tip) for tip in tips]
        names = [self._table.name(feature) for feature in self.shown_features_]
        self.arrow_labels_ = place_labels(ax, tips, names, colour=_ARROW)
        return self

    def _pair(self, components: Sequence[int]) -> list[int]:
        count = self.components.shape[0]
        if count < 2:
            raise ValueError(
                "a biplot needs two components, but there is only one: fit with n_components=2 or "
                "more, or draw the one with LoadingsDisplay"
            )
        if np.shape(components) != (2,):
            raise ValueError(
                f"components={components!r} must be a pair of components, such as (0, 1)"
            )
        return self._table.chosen(components)

    def _rows(self) -> NDArray[np.intp]:
        """Return the samples to draw, in their order."""
        count = self.scores.shape[0]
        if count <= MOST_POINTS:
            return np.arange(count)
        return np.sort(np.random.default_rng(0).choice(count, MOST_POINTS, replace=False))

    def _draw_plane(self, pair: list[int], content: FloatArray) -> None:
        ax = self.ax_
        ax.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
        ax.axvline(0, color=FAINT, linewidth=0.8, zorder=0)
        # By data limits, not fixed ones: a common unit of both axes may have to widen one of them.
        ax.update_datalim(content)
        ax.margins(0.06)
        ax.autoscale_view()
        for component, set_label in zip(pair, (ax.set_xlabel, ax.set_ylabel), strict=True):
            percent = self._table.percent(component)
            of_variance = f" ({percent} of the variance)" if percent else ""
            set_label(f"component {component + 1}{of_variance}")
        clean_axes(ax)

    def _arrow(self, tip: FloatArray) -> Any:
        style = {
            "arrowstyle": "-|>,head_length=0.45,head_width=0.17",
            "color": _ARROW,
            "linewidth": 1.0,
            "shrinkA": 0,
            "shrinkB": 0,
        }
        return self.ax_.annotate("", tuple(tip), (0, 0), arrowprops=style, zorder=3)

    def _title(self, n_points: int, n_nonzero: int) -> str:
        n_arrows, total = self.shown_features_.size, self.components.shape[1]
        n_samples = self.scores.shape[0]
        parts = [f"{counted(n_samples)} samples"]
        if n_points < n_samples:
            parts = [f"{counted(n_points)} of {parts[0]}"]
        if n_arrows < n_nonzero:
            parts.append(f"the {n_arrows} strongest of {counted(total)} features")
        elif n_nonzero < total:
            parts.append(f"all {n_nonzero} features with a loading")
        else:
            parts.append(f"all {n_arrows} features")
        return ", ".join(parts) if n_arrows else parts[0]


def _units(points: FloatArray) -> FloatArray:
    """Return the unit of each axis: the same unless the points extend much further along one."""
    reach = np.max(np.abs(points), axis=0, initial=0.0)
    if reach.max() <= _MOST_ELONGATED * reach.min() or reach.min() == 0:
        return np.full(2, reach.max() or 1.0)
    return np.asarray(reach)


def _scale(points: FloatArray, loadings: FloatArray) -> float:
    """Return the factor that makes the arrows fill the picture."""
    reach = float(np.max(np.hypot(*points.T), initial=0.0)) or 1.0
    longest = float(np.max(np.hypot(*loadings.T), initial=0.0)) or 1.0
    return _LONGEST_ARROW * reach / longest
