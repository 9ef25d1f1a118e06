"""Labels at the tips of arrows that do not cover each other."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.plotting._style import QUIET_TEXT

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_DISTANCES = (5, 12, 20, 30, 42, 56, 72, 90, 110, 135, 165)  # points, from the tip
_TURNS = np.deg2rad([0, 15, -15, 30, -30, 50, -50, 75, -75, 105, -105, 140, -140, 180])
_LEADER_FROM = 10  # points: from here a line shows where the label belongs
_GAP = 2.0  # points between two labels
_SAME_TIP = 3.0  # points: tips that are nearer to each other look like one
_ROUNDS = 4


def place_labels(ax: "Axes", tips: FloatArray, names: list[str], *, colour: str) -> list[Any]:
    """Write a name near each tip: outwards if there is room, otherwise near by with a line.

    The first names choose first. Sizes are measured on the figure as it is laid out now.
    """
    from matplotlib.patheffects import withStroke

    labels = [
        ax.annotate(
            name,
            tuple(tip),
            xytext=(0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize="small",
            color=colour,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
            zorder=4,
        )
        for tip, name in zip(tips, names, strict=True)
    ]
    if not labels:
        return labels
    root = ax.figure.canvas.figure  # also where the axes are in a part of a figure
    for label in labels:
        label.set_in_layout(False)  # else long names at the rim would move the axes
    root.draw_without_rendering()
    points = 72 / root.dpi
    extents = [label.get_window_extent() for label in labels]
    sizes = np.array([[box.width, box.height] for box in extents]) * points
    anchors = ax.transData.transform(tips) * points
    origin = ax.transData.transform((0, 0)) * points
    frame = ax.get_window_extent()
    bounds = np.array([[frame.x0, frame.y0], [frame.x1, frame.y1]]) * points
    centres = _place(anchors, sizes, origin, bounds)
    for label, centre, anchor, size in zip(labels, centres, anchors, sizes, strict=True):
        label.set_position(tuple(centre - anchor))
        _add_leader(ax, label, centre, anchor, size)
    return labels


def _place(
    anchors: FloatArray, sizes: FloatArray, origin: FloatArray, bounds: FloatArray
) -> FloatArray:
    """Return centres of boxes near the anchors: no overlap if possible, within the bounds."""
    count = len(anchors)
    halves = sizes / 2
    shafts = np.stack([np.broadcast_to(origin, anchors.shape), anchors], axis=1)
    centres = np.empty_like(anchors)
    leaders = np.empty((count, 2, 2))
    options = [
        _candidates(anchor, half, anchor - origin)
        for anchor, half in zip(anchors, halves, strict=True)
    ]
    # In later rounds a label can take the place that another has left.
    for turn in range(_ROUNDS * count):
        own = turn % count
        others = np.delete(np.arange(count), own)[: None if turn >= count else own]
        half, anchor = halves[own], anchors[own]
        ends = np.clip(anchor, options[own] - half, options[own] + half)
        lines = np.stack([np.broadcast_to(anchor, ends.shape), ends], axis=1)
        low, high = options[own] - half, options[own] + half
        outside = np.maximum(bounds[0] - low, 0) + np.maximum(high - bounds[1], 0)
        cost = 1e-2 * np.arange(len(low)) + 10 * outside.sum(axis=1)
        cost += 3 * _crossings(shafts, options[own], half).sum(axis=0)
        cost += 2 * _crossings(leaders[others], options[own], half).sum(axis=0)
        cost += 2 * _crossings(lines, centres[others], halves[others]).sum(axis=1)
        cost += _confusions(lines, low, high, np.delete(anchors, own, axis=0))
        apart = np.abs(options[own][:, None] - centres[others]) - half - halves[others] - _GAP
        cost += 100 * np.prod(np.maximum(-apart, 0), axis=2).sum(axis=1)
        best = int(np.argmin(cost))
        centres[own], leaders[own] = options[own][best], lines[best]
    return centres


def _confusions(
    lines: FloatArray, low: FloatArray, high: FloatArray, tips: FloatArray
) -> FloatArray:
    """Count the other tips to which a label, or the line to it, seems to belong."""
    anchor = lines[0, 0]
    tips = tips[np.hypot(*(tips - anchor).T) > _SAME_TIP]
    gap = np.maximum(np.maximum(low[:, None] - tips, tips - high[:, None]), 0)
    nearer = np.hypot(gap[..., 0], gap[..., 1]) < np.hypot(*(lines[:, 1] - anchor).T)[:, None]
    passed = _crossings(lines, tips, np.full(2, _SAME_TIP))
    return np.asarray((nearer | passed).sum(axis=1), dtype=float)


def _crossings(lines: FloatArray, centres: FloatArray, half: FloatArray) -> NDArray[np.bool_]:
    """Return which lines (rows) run through which boxes (columns)."""
    start, step = lines[:, None, 0], lines[:, None, 1] - lines[:, None, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        first = (centres - half - start) / step
        second = (centres + half - start) / step
    # Along an axis in which a line does not move, it is in the box always or never (0/0: at its
    # rim, which counts as never).
    enter = np.max(np.fmin(first, second), axis=2, initial=0.0)
    leave = np.min(np.fmax(first, second), axis=2, initial=1.0)
    return np.asarray(enter < leave)


def _candidates(anchor: FloatArray, half: FloatArray, direction: FloatArray) -> FloatArray:
    """Return centres of a box around an anchor, the nearest and most outward first."""
    angles = np.arctan2(direction[1], direction[0]) + _TURNS
    units = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # The box begins where the ray has gone its distance: from there to the centre.
    inwards = half * units / np.max(np.abs(units), axis=1, keepdims=True)
    rings = [anchor + distance * units + inwards for distance in _DISTANCES]
    return np.concatenate(rings)


def _add_leader(
    ax: "Axes", label: Any, centre: FloatArray, anchor: FloatArray, size: FloatArray
) -> None:
    away = np.maximum(np.abs(centre - anchor) - size / 2, 0)
    if np.hypot(*away) < _LEADER_FROM:
        return
    nearest = np.clip(anchor, centre - size / 2, centre + size / 2)
    ax.annotate(
        "",
        label.xy,
        xytext=tuple(nearest - anchor),
        textcoords="offset points",
        arrowprops={
            "arrowstyle": "-",
            "color": QUIET_TEXT,
            "linewidth": 0.5,
            "shrinkA": 0,
            "shrinkB": 0,
        },
        zorder=2,
    ).set_in_layout(False)
