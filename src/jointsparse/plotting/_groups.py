"""Points in the colours of their classes, or of a number."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.plotting._style import FAINT, QUIET_TEXT, STRONG, plain_label

# For every kind of colour vision: Okabe-Ito where it has enough colours that are seen on white,
# the twelve of Paul Tol otherwise. The marks differ too, so that colour is never alone.
FEW_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MANY_COLOURS = (
    *("#332288", "#CC6677", "#117733", "#88CCEE", "#882255", "#DDCC77"),
    *("#44AA99", "#AA4499", "#999933", "#661100", "#6699CC", "#AA4466"),
)
MARKERS = ("o", "^", "s", "D", "v", "P", "X")
MOST_CLASSES = 12
_LEGEND_CHARACTERS = 60  # in one line of the legend
_LONGEST_CLASS = 24


def draw_groups(
    ax: Any, points: NDArray[np.float64], y: NDArray[Any] | None, **style: Any
) -> tuple[list[Any], int]:
    """Draw the points; return their collections and how many lines the legend above has."""
    style = {"s": 16 if len(points) <= 2000 else 8, "linewidths": 0, "zorder": 1, **style}
    if y is None:
        return [ax.scatter(*points.T, color=STRONG, **style)], 0
    if _is_quantity(y):
        scatter = ax.scatter(*points.T, c=y.astype(float), cmap="viridis", **style)
        bar = ax.figure.colorbar(scatter, ax=ax, shrink=0.8, pad=0.02)
        bar.set_label("y")
        bar.solids.set_alpha(1)
        return [scatter], 0
    scatters = [
        ax.scatter(*points[members].T, label=label, **{**style, **look})
        for label, members, look in _classes(y)
    ]
    return scatters, _add_legend(ax, scatters)


def _is_quantity(y: NDArray[Any]) -> bool:
    return bool(np.issubdtype(y.dtype, np.number)) and np.unique(y).size > MOST_CLASSES


def _classes(y: NDArray[Any]) -> Iterator[tuple[str, NDArray[np.bool_], dict[str, Any]]]:
    """Yield label, members and look of each class; where there are many, the rarest as one."""
    try:
        values, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    except TypeError:  # values of several kinds have no order
        return (yield from _classes(y.astype(str)))
    own = np.arange(values.size)
    if values.size > MOST_CLASSES:
        own = np.sort(np.argsort(-counts, kind="stable")[: MOST_CLASSES - 1])
    colours = FEW_COLOURS if own.size <= len(FEW_COLOURS) else MANY_COLOURS
    for turn, code in enumerate(own):
        label = plain_label(str(values[code]), _LONGEST_CLASS)
        # matplotlib leaves labels that start with an underscore out of legends.
        label = f" {label}" if label.startswith("_") else label
        look = {"color": colours[turn], "marker": MARKERS[turn % len(MARKERS)]}
        yield label, codes == code, look
    if own.size < values.size:
        label = f"{values.size - own.size} other classes"
        yield label, ~np.isin(codes, own), {"color": FAINT, "marker": "o", "zorder": 0.9}


def _add_legend(ax: Any, scatters: list[Any]) -> int:
    longest = max(len(scatter.get_label()) for scatter in scatters) + 4
    columns = min(len(scatters), max(_LEGEND_CHARACTERS // longest, 1), 6)
    legend = ax.legend(
        handles=scatters,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
        borderpad=0,
        handletextpad=0.2,
        columnspacing=1.2,
        ncols=columns,
        frameon=False,
        labelcolor=QUIET_TEXT,
        fontsize="small",
        markerscale=1.4,
    )
    for handle in legend.legend_handles:
        handle.set_alpha(1)
    return -(-len(scatters) // columns)
