"""What the sections of the page show of the kept features and of the samples: ready to be drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.report.findings import (
    Features,
    Findings,
    Sizes,
    counted,
    grouped,
    percent,
    short_percent,
)
from jointsparse.report.look import BINS, CLIPPED, Distribution, Look
from jointsparse.report.pictures import Axis, Chart, across, line, png, upwards
from jointsparse.text import cut_middle

MOST_CHIPS = 300  # kept features that are named at the top; the copy button has all
MOST_CARDS = 60  # kept features that have a card of their own
TOP_FIVE = 5  # of what a kept feature stands in for; the script shows all
TOO_LITTLE = 4.0  # per cent: a feature that has no more of another does not stand in for it
UNRELATED = "cpu"  # reasons of features that nothing stands in for: constant, proved zero, noise
INLINE_NAME = 40

MAP_WIDTH, MAP_HEIGHT = 320, 240
_BLUE, _WHITE, _RED = (0, 103, 163), (247, 247, 247), (194, 84, 10)


def groups(features: Features) -> dict[int, list[tuple[int, int]]]:
    """Return for each kept feature the dropped ones that it stands in for, the best first.

    Each dropped feature belongs to the kept one that alone predicts most of it in this table, and
    stands with that share in whole per cent; to none where that is hardly anything, or the feature
    has nothing to do with any other.
    """
    found: dict[int, list[tuple[int, int]]] = {
        int(place): [] for place in np.flatnonzero(features.kept)
    }
    shares = np.nan_to_num(np.round(100 * features.stand_in_r2[:, 0]))
    related = ~np.isin(features.reasons, list(UNRELATED)) & ~features.kept
    member = related & (features.stand_ins[:, 0] >= 0) & (shares > TOO_LITTLE)
    for place in np.flatnonzero(member).tolist():
        found[int(features.stand_ins[place, 0])].append((place, int(shares[place])))
    for members in found.values():
        members.sort(key=lambda pair: (-pair[1], pair[0]))
    return found


def cards(found: Findings) -> list[dict[str, Any]]:
    """Return what each kept feature stands for."""
    features, look = found.features, found.look
    parts = 0 if found.worth is None else found.worth.n_parts
    cards = []
    for number, (place, members) in enumerate(groups(features).items()):
        if number == MOST_CARDS:
            break
        known = look is not None and number < len(look.distributions)
        again = np.nan if features.found_again is None else float(features.found_again[place])
        cards.append(
            {
                "number": number + 1,
                "place": place,
                "name": features.name(place),
                "members": [(features.name(other), share) for other, share in members[:TOP_FIVE]],
                "total": len(members),
                "again": f"{round(again * parts)} of {parts}"
                if parts and np.isfinite(again)
                else "",
                "spread": _histogram(look.distributions[number])
                if known and look is not None
                else None,
            }
        )
    return cards


def chips(features: Features) -> list[str]:
    """Return the names of the kept features, best first."""
    return [features.name(int(place)) for place in np.flatnonzero(features.kept)[:MOST_CHIPS]]


def _histogram(found: Distribution) -> dict[str, Any]:
    top = max(int(found.counts.max()), 1)
    steps = " ".join(
        f"L{i} {24 - 22 * int(n) / top:.1f}L{i + 1} {24 - 22 * int(n) / top:.1f}"
        for i, n in enumerate(found.counts)
    )
    numbers = [_number(x) for x in (found.lowest, found.median, found.highest)]
    return {
        "path": f"M0 24{steps}L{BINS} 24Z",
        "width": BINS,
        "low": numbers[0],
        "median": numbers[1],
        "high": numbers[2],
    }


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−") if np.isfinite(value) else "?"


def sizes_chart(found: Findings) -> dict[str, Any] | None:
    """Return what numbers of features predict in new samples, with the chosen number."""
    known, n_kept = found.sizes, found.features.n_kept
    if known is None or found.worth is None or not found.worth.held_out or known.sizes.size < 2:
        return None
    x, y = across(1, float(known.sizes[-1])), upwards(0, _top(known))
    sizes = known.sizes.astype(np.float64)
    low, high = (
        np.clip(known.r2 - known.error, 0, None),
        np.clip(known.r2 + known.error, 0, None),
    )
    there = [f"{x(float(s)):g},{y(float(v)):g}" for s, v in zip(sizes, high, strict=True)]
    back = [f"{x(float(s)):g},{y(float(v)):g}" for s, v in zip(sizes, low, strict=True)]
    shown = line(x, y, sizes, np.clip(known.r2, 0, None), "own")
    label = "number of features kept"
    chart = Chart(x, y, label, "predicted", [shown], whole_numbers=True, percent=True)
    inside = known.sizes[0] <= n_kept <= known.sizes[-1]
    worth = found.worth
    return {
        "chart": chart,
        "band": " ".join([*there, *reversed(back)]),
        "further": bool(known.sizes[-1] > n_kept),
        "chosen": (x(float(n_kept)), y(max(worth.own, 0.0))) if inside else None,
        "random": (
            x(float(n_kept)),
            y(max(worth.random, 0.0)),
            y(max(worth.random - worth.random_spread, 0.0)),
            y(max(worth.random + worth.random_spread, 0.0)),
        )
        if inside
        else None,
        "table": [
            (grouped(int(size)), short_percent(float(r2)), _points(float(error)))
            for size, r2, error in zip(known.sizes, known.r2, known.error, strict=True)
        ],
    }


def _points(error: float) -> str:
    return f"± {100 * error:.1f}"


def _top(known: Sizes) -> float:
    """Return where the axis ends: at a round share above everything on it."""
    highest = float(np.max(known.r2 + known.error))
    return min(1.0, max(0.1, np.ceil(10 * highest + 0.5) / 10))


def look_view(found: Findings) -> dict[str, Any] | None:
    """Return the heat map, the correlations and the two maps of the samples."""
    look = found.look
    if look is None:
        return None
    kept = np.flatnonzero(found.features.kept)
    names = [found.features.name(int(kept[column])) for column in range(len(look.correlations))]
    return {
        "n_shown": len(look.names),
        "n_samples": look.n_samples,
        "strips": [
            (names[int(column)], png(_diverging(row[None, :] / CLIPPED)))
            for column, row in zip(look.columns, look.values, strict=True)
        ],
        "labels": _label_strip(look),
        "classes": list(enumerate(look.classes)),
        "correlations": _correlation_cells(look, names) if len(names) > 1 else None,
        "maps": [
            (f"All {counted(len(found.features), 'feature')}", _dots(look.everything)),
            (f"As told by the {counted(int(kept.size), 'kept feature')}", _dots(look.kept)),
        ],
        "kinds": _kinds(look),
        "alike": short_percent(look.alike),
        "random": f"{100 * look.random:.0f} ± {short_percent(look.random_spread)}",
    }


def look_data(look: Look) -> dict[str, Any]:
    """Return what the script needs to link the pictures."""
    return {"names": look.names, "labels": look.labels, "order": look.order.tolist()}


def _diverging(shares: FloatArray) -> Any:
    """Return colours of numbers from -1 (blue) through 0 to 1 (red)."""
    clipped = np.clip(np.nan_to_num(shares), -1.0, 1.0)[..., None]
    towards = np.where(clipped < 0, _BLUE, _RED)
    return (_WHITE + np.abs(clipped) * (towards - np.array(_WHITE))).round().astype(np.uint8)


def _kinds(look: Look) -> list[int]:
    """Return the number of the class of each sample in the maps; 0 without classes."""
    if not look.classes or look.labels is None:
        return [0] * len(look.names)
    return [look.classes.index(label) for label in look.labels]


# Of Okabe and Ito: eight colours that people with any kind of colour vision tell apart.
CLASS_COLOURS = (
    *((0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167)),
    *((86, 180, 233), (213, 94, 0), (120, 120, 120), (190, 175, 20)),
)


def _label_strip(look: Look) -> str | None:
    if not look.classes:
        return None
    kinds = np.array(_kinds(look))[look.order]
    return png(np.array(CLASS_COLOURS, dtype=np.uint8)[kinds][None, :, :])


def _dots(places: FloatArray) -> list[tuple[float, float]]:
    """Return where the samples lie in a picture, with equal units in both directions."""
    half = max(float(np.abs(places[:, 0]).max()) / (MAP_WIDTH / 2 - 8), 1e-300)
    half = max(half, float(np.abs(places[:, 1]).max()) / (MAP_HEIGHT / 2 - 8))
    x, y = (
        Axis(-1, 1, MAP_WIDTH / 2 - 1 / half, MAP_WIDTH / 2 + 1 / half),
        Axis(-1, 1, MAP_HEIGHT / 2 + 1 / half, MAP_HEIGHT / 2 - 1 / half),
    )
    return [(x(float(u)), y(float(v))) for u, v in places]


def _correlation_cells(look: Look, names: list[str]) -> dict[str, Any]:
    size = len(names)
    cell = min(22.0, 232.0 / size)
    left = 400 - size * cell - 4
    colours = _diverging(look.correlations)
    cells = [
        {
            "x": round(left + j * cell, 2),
            "y": round(i * cell, 2),
            "fill": "rgb({},{},{})".format(*colours[i, j].tolist()),
            "title": f"{cut_middle(names[i], INLINE_NAME)} and "
            f"{cut_middle(names[j], INLINE_NAME)}: {look.correlations[i, j]:.2f}".replace(
                "-0.", "−0."
            ),
        }
        for i in range(size)
        for j in range(i)
    ]
    room = max(int(left / 6.2), 8)
    return {
        "cells": cells,
        "cell": round(cell, 2),
        "height": round(size * cell + 4, 1),
        "rows": [
            (round((i + 0.5) * cell + 3.5, 1), f"{cut_middle(name, room - 3)} {i + 1}")
            for i, name in enumerate(names)
        ]
        if cell >= 9
        else [],
        "columns": [
            (round(left + (j + 0.5) * cell, 1), round((j + 0.5) * cell + 3.5, 1), j + 1)
            for j in range(size)
        ]
        if cell >= 13
        else [],
        "left": round(left - 5, 1),
        "strongest": _strongest(look.correlations, names),
    }


def _strongest(correlations: FloatArray, names: list[str]) -> str:
    """Name the two kept features that are most alike."""
    off = np.abs(np.tril(correlations, -1))
    i, j = np.unravel_index(int(np.argmax(off)), off.shape)
    value = f"{correlations[i, j]:.2f}".replace("-", "−")
    first, second = (f"“{cut_middle(names[int(k)], INLINE_NAME)}”" for k in (j, i))
    return f"{first} and {second} are most alike: {value}."


def how_many_words(found: Findings) -> str:
    """Say in a sentence what the curve over the number of features shows."""
    known, worth, n_kept = found.sizes, found.worth, found.features.n_kept
    if known is None or worth is None:
        return ""
    best = int(np.argmax(known.r2))
    text = (
        f"{counted(n_kept, 'feature')} {'predicts' if n_kept == 1 else 'predict'} "
        f"{short_percent(worth.own)} of the others in new samples"
    )
    if known.sizes[best] == n_kept or known.r2[best] <= worth.own:
        other = "smaller" if known.sizes[-1] <= n_kept else "other"
        return f"{text}; no {other} number that was tried does better."
    number = counted(int(known.sizes[best]), "feature")
    return f"{text}; the most is {percent(float(known.r2[best]), 0)}, with {number}."
