"""What each component is made of: loadings as signed bars, components side by side."""

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
from jointsparse.plotting._style import ACCENT, FAINT, QUIET_TEXT, STRONG, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More columns or rows than this cannot be read in one figure.
MOST_COMPONENTS = 12
MOST_ROWS = 100
_HALF = 0.44  # of a column: the longest bar


class LoadingsDisplay:
    """Loadings as a table of bars: a row for each feature, a column for each component.

    A bar to the right (blue) is a positive loading, a bar to the left (vermilion) a negative one,
    all on one scale. Where a loading is exactly zero there is nothing. Features stand with the
    component in which they are strongest, the strongest first. Make it with
    :meth:`from_estimator`.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Loadings, one component per row.
    feature_names : sequence of str, optional
        Names; "feature 0", "feature 1", … if not given.
    explained_variance_ratio : array-like of shape (n_components,), optional
        Share of the variance that each component explains, for the headings.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the table.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.
    bars_ : list of matplotlib.container.BarContainer
        The bars of each component shown, from top to bottom; zero loadings have none.
    headings_ : list of matplotlib.text.Text
        Heading of each component shown.
    shown_features_ : ndarray of int
        Columns of ``components`` that have a row, from top to bottom.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import SPCA
    >>> from jointsparse.plotting import LoadingsDisplay
    >>> table = load_breast_cancer()
    >>> model = SPCA(n_components=2, n_nonzero=4).fit(StandardScaler().fit_transform(table.data))
    >>> display = LoadingsDisplay.from_estimator(model, feature_names=table.feature_names)
    >>> [len(bars) for bars in display.bars_]
    [4, 4]
    """

    ax_: Any
    figure_: Any
    bars_: list[Any]
    headings_: list[Any]
    shown_features_: NDArray[np.intp]

    def __init__(
        self,
        *,
        components: ArrayLike,
        feature_names: Sequence[str] | None = None,
        explained_variance_ratio: ArrayLike | None = None,
    ) -> None:
        self._table = ComponentTable(components, feature_names, explained_variance_ratio)
        self.components = self._table.components
        self.feature_names = feature_names
        self.explained_variance_ratio = self._table.ratio

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        components: Sequence[int] | None = None,
        max_features: int = 20,
        feature_names: Sequence[str] | None = None,
        ax: "Axes | None" = None,
    ) -> "LoadingsDisplay":
        """Draw the loadings of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Any fitted estimator with ``components_``, of this library or of scikit-learn, or a
            pipeline that ends with one.
        components : sequence of int, optional
            Which components to draw, by row of ``components_``; the first 12 by default.
        max_features : int
            How many features to draw at most: those with the longest loadings in the components
            drawn. How many nonzero loadings are left out is written below.
        feature_names : sequence of str, optional
            Names; by default those seen during fit.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        LoadingsDisplay
            The display, drawn.
        """
        table = table_of(estimator, feature_names, cls.__name__)
        display = cls(
            components=table.components,
            feature_names=table.feature_names,
            explained_variance_ratio=table.ratio,
        )
        return display.plot(ax=ax, components=components, max_features=max_features)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        components: Sequence[int] | None = None,
        max_features: int = 20,
    ) -> "LoadingsDisplay":
        """Draw the table.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure, as large as the table needs, by default.
        components : sequence of int, optional
            Which components to draw; the first 12 by default.
        max_features : int
            How many features to draw at most; never more than 100.

        Returns
        -------
        LoadingsDisplay
            The display itself.
        """
        numbers = self._numbers(components)
        check_most("max_features", max_features, 1)
        drawn = self.components[numbers]
        best, n_nonzero = strongest(drawn, min(max_features, MOST_ROWS))
        self.shown_features_ = rows = _grouped(drawn, best)
        n_hidden = n_nonzero - rows.size
        if ax is None:
            n_lines = max(rows.size, 2) + (n_hidden > 0)
            ax = new_axes(2.4 + 1.15 * max(len(numbers), 3), 1.5 + 0.24 * n_lines)
        self.ax_, self.figure_ = ax, ax.figure
        self._draw_grid(len(numbers), rows.size)
        unit = float(np.max(np.abs(drawn[:, rows]), initial=0.0)) or 1.0
        self.bars_ = [
            self._draw_bars(column, drawn[column, rows] / unit) for column in range(len(numbers))
        ]
        self.headings_ = [self._heading(column, number) for column, number in enumerate(numbers)]
        self._label_axes(rows, len(numbers), unit)
        self._note_what_is_missing(drawn, rows, n_hidden)
        two_lines = any("\n" in heading.get_text() for heading in self.headings_)
        title = self._title(rows.size, n_nonzero)
        if components is None and len(numbers) < self.components.shape[0]:
            title += f", first {len(numbers)} of {self.components.shape[0]} components"
        ax.set_title(title, loc="left", fontsize="medium", pad=32 if two_lines else 19)
        return self

    def _numbers(self, components: Sequence[int] | None) -> list[int]:
        if components is None:
            return list(range(min(self.components.shape[0], MOST_COMPONENTS)))
        numbers = self._table.chosen(components)
        if len(numbers) > MOST_COMPONENTS:
            raise ValueError(
                f"components names {len(numbers)} components, but a figure has room for "
                f"{MOST_COMPONENTS}: draw them in several figures"
            )
        return numbers

    def _draw_grid(self, n_columns: int, n_rows: int) -> None:
        ax = self.ax_
        ax.set_xlim(-0.5, n_columns - 0.5)
        ax.set_ylim(max(n_rows, 1) - 0.5, -0.5)
        # Faint lines lead the eye from a name to its bars.
        ax.hlines(np.arange(n_rows), -0.5, n_columns - 0.5, color="#E8E8E8", linewidth=0.6)
        ax.vlines(np.arange(n_columns), -0.5, max(n_rows, 1) - 0.5, color=FAINT, linewidth=0.8)
        ax.vlines(
            np.arange(1, n_columns) - 0.5, -0.5, max(n_rows, 1) - 0.5, color="white", linewidth=6
        )
        ax.spines[:].set_visible(False)
        ax.set_axisbelow(True)

    def _draw_bars(self, column: int, loadings: FloatArray) -> Any:
        nonzero = np.flatnonzero(loadings)
        values = loadings[nonzero]
        colours = [STRONG if value > 0 else ACCENT for value in values]
        # The edge keeps a small loading visible: only zeros are empty.
        return self.ax_.barh(
            nonzero,
            _HALF * values,
            left=column,
            height=0.66,
            color=colours,
            edgecolor=colours,
            linewidth=0.8,
            zorder=2,
        )

    def _heading(self, column: int, number: int) -> Any:
        lines = [f"component {number + 1}", self._table.percent(number)]
        if not np.any(self.components[number]):
            lines[1] = "all zero"
        return self.ax_.annotate(
            "\n".join(lines).rstrip(),
            (column, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize="small",
        )

    def _label_axes(self, rows: NDArray[np.intp], n_columns: int, unit: float) -> None:
        ax = self.ax_
        ax.set_yticks(np.arange(rows.size), [self._table.name(feature) for feature in rows])
        ax.tick_params(axis="y", length=0)
        mark = _round_number(unit)
        offsets = np.array([-mark, 0.0, mark]) * _HALF / unit
        ticks = (np.arange(n_columns)[:, None] + offsets).ravel()
        ax.set_xticks(ticks, [f"−{mark:g}", "0", f"{mark:g}"] * n_columns)
        ax.tick_params(axis="x", labelsize="x-small", colors=QUIET_TEXT, length=2)
        ax.set_xlabel("loading")

    def _note_what_is_missing(
        self, drawn: FloatArray, rows: NDArray[np.intp], n_hidden: int
    ) -> None:
        """Write in one more row how many nonzero loadings of each component are not drawn."""
        if n_hidden == 0:
            return
        ax, row = self.ax_, rows.size
        ax.set_ylim(row + 0.5, -0.5)
        names = [label.get_text() for label in ax.get_yticklabels()]
        ax.set_yticks(np.arange(row + 1), [*names, f"+ {counted(n_hidden)} more"])
        ax.get_yticklabels()[-1].set_color(QUIET_TEXT)
        hidden = np.count_nonzero(drawn, axis=1) - np.count_nonzero(drawn[:, rows], axis=1)
        for column, count in enumerate(hidden):
            if count:
                text = f"+ {counted(int(count))}"
                ax.text(column, row, text, ha="center", va="center", color=QUIET_TEXT, size="small")

    def _title(self, n_rows: int, n_nonzero: int) -> str:
        total = counted(self.components.shape[1])
        if n_rows < n_nonzero:
            return f"Loadings of the {n_rows} strongest of {total} features"
        if n_nonzero < self.components.shape[1]:
            return f"Nonzero loadings: {n_nonzero} of {total} features"
        return "Loadings of all features"


def _grouped(loadings: FloatArray, features: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return features by the component in which they are strongest, the strongest first."""
    size = np.abs(loadings[:, features])
    return features[np.lexsort((-size.max(axis=0, initial=0.0), size.argmax(axis=0)))]


def _round_number(largest: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that is not above."""
    power = 10.0 ** np.floor(np.log10(largest))
    return float(power * max(step for step in (1, 2, 5) if step * power <= largest * (1 + 1e-9)))
