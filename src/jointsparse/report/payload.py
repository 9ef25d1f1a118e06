"""The data that the page's script reads: compact, bounded, and never able to end its element."""

from __future__ import annotations

import base64
import json
import math
import zlib
from typing import Any

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.report.findings import REASONS, Features, Findings, PathPoints
from jointsparse.report.pictures import Axis, across
from jointsparse.report.sections import look_data

MOST_LISTED = 100_000  # features that can be looked up in the page
PATH_NAMES = 40  # features named at one point of the path
PATH_BARS = 12
PACKED_FROM = 200_000  # characters: smaller data stand in the page as they are
MAP_ENTRIES = 1_000_000  # pixels × points of the path
# In an element of text nothing but "<" can end it; the others are for readers less careful.
_DANGEROUS = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"}


def safe_json(value: Any) -> str:
    r"""Return JSON that can stand inside a script element: ASCII, without ``<``, ``>`` and ``&``.

    Examples
    --------
    >>> from jointsparse.report.payload import safe_json
    >>> print(safe_json("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for character, escape in _DANGEROUS.items():
        text = text.replace(character, escape)
    return text


def packed_json(value: Any) -> tuple[str, bool]:
    """Return data for the page, and whether they are packed: large ones are, to a third or less.

    Packed data are zlib's, as base64: every browser of the last years can unpack them.
    """
    text = safe_json(value)
    if len(text) < PACKED_FROM:
        return text, False
    return base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii"), True


def page_data(found: Findings) -> dict[str, Any]:
    """Return all that the script needs."""
    data = _features(found.features)
    data["reasons"] = REASONS
    if found.curves is not None:
        axis = across(1, max(found.curves.kept.size, 2))
        data["curve"] = {
            "kept": _parts(found.curves.kept),
            "pca": None if found.curves.pca is None else _parts(found.curves.pca),
            "random": None if found.curves.random is None else _parts(found.curves.random),
            "x": [axis(1), axis(max(found.curves.kept.size, 2))],
        }
    if found.sizes is not None:
        data["sizes"] = {
            "sizes": found.sizes.sizes.tolist(),
            "r2": _parts(np.clip(found.sizes.r2, 0, None)),
            "error": _parts(found.sizes.error),
            "x": [across(1, float(max(found.sizes.sizes[-1], 2)))(v) for v in _ends(found)],
        }
    if found.look is not None:
        data["look"] = look_data(found.look)
    if found.path is not None:
        data["path"] = path_data(found.path, found.features, found.pixels)
    return data


def _ends(found: Findings) -> tuple[float, float]:
    assert found.sizes is not None
    return 1.0, float(max(found.sizes.sizes[-1], 2))


def _features(features: Features) -> dict[str, Any]:
    count = min(len(features), MOST_LISTED)
    part = slice(count)
    repeated = repeated_places(features.names)
    return {
        "total": len(features),
        "names": None if features.names is None else features.names[part],
        # Columns are needed for names that are not there, and to tell equal names apart.
        "columns": features.columns[part].tolist() if features.names is None or repeated else None,
        "repeated": [place for place in repeated if place < count],
        "scores": [float(f"{score:.4g}") for score in features.scores[part].tolist()],
        "shares": _parts(features.shares[part], 100),
        "codes": "".join(features.reasons[part].tolist()),
        "r2": _parts(features.r2[part][features.kept[part]]),
        "explained": _parts(features.explained[part]),
        "again": _again(features, part),
        "standIns": [features.stand_ins[part, k].tolist() for k in range(3)],
        "standInR2": [_parts(features.stand_in_r2[part, k], 100) for k in range(3)],
    }


def _again(features: Features, part: slice) -> list[int]:
    """Return how often each kept feature is found again, in hundredths; -1 where not known."""
    if features.found_again is None:
        return []
    return _parts(features.found_again[part][features.kept[part]], 100)


def repeated_places(names: list[str] | None) -> list[int]:
    """Return the places of names that occur more than once."""
    if names is None or len(set(names)) == len(names):
        return []
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return [place for place, name in enumerate(names) if counts[name] > 1]


def _parts(shares: FloatArray, unit: int = 1000) -> list[int]:
    """Return shares in whole thousandths (or hundredths); -1 for what is not known."""
    scaled = np.where(np.isfinite(shares), np.round(unit * shares), -1)
    return [int(value) for value in scaled.tolist()]


def path_axis(path: PathPoints) -> Axis:
    """Return the axis of the points of the path, strong penalties on the left.

    The points are one step apart, as on the slider: where much happens, there are many of them.
    """
    return across(0, max(path.alphas.size - 1, 1))


def start_point(path: PathPoints) -> int:
    """Return the point nearest to the model of the report, else one in the middle."""
    if path.used is None or not path.used > 0:
        return path.alphas.size // 2
    return int(np.argmin(np.abs(np.log(path.alphas) - math.log(path.used))))


def path_data(path: PathPoints, features: Features, pixels: Any) -> dict[str, Any]:
    """Return, for every point of the path, what entered, what left and what is strongest."""
    axis, top = path_axis(path), float(path.scores.max(initial=0.0)) or 1.0
    points = []
    before = np.zeros(path.scores.shape[1], dtype=bool)
    numbers = zip(path.scores, path.alphas, path.penalties, path.gaps, strict=True)
    for place, (row, alpha, penalty, gap) in enumerate(numbers):
        inside = row > 0
        strongest = np.argsort(-row, kind="stable")[:PATH_BARS]
        points.append(
            {
                "x": axis(place),
                "alpha": f"{alpha:.3g}",
                "penalty": f"{penalty:.4g}",
                "gap": None if not np.isfinite(gap) else f"{gap:.1e}",
                "count": int(inside.sum()),
                "entered": _changed(inside & ~before, row),
                "left": _changed(before & ~inside, -np.arange(row.size, dtype=float)),
                "top": [[int(j), round(100 * float(row[j]) / top, 1)] for j in strongest if row[j]],
            }
        )
        before = inside
    data = {"points": points, "start": start_point(path), "maps": None}
    if pixels is not None and path.scores.size <= MAP_ENTRIES:
        data["maps"] = [_digits(row, features.columns, top) for row in path.scores]
        data["shape"] = list(pixels.shape)
    return data


def _changed(mask: Any, strength: FloatArray) -> list[Any]:
    places = np.flatnonzero(mask)
    best = places[np.argsort(-strength[places], kind="stable")[:PATH_NAMES]]
    return [int(places.size), [int(place) for place in best]]


def _digits(row: FloatArray, columns: Any, top: float) -> str:
    """Return one letter for each pixel, "a" for zero up to "z": enough for a picture."""
    level = np.ceil(25 * np.clip(row / top, 0, 1)).astype(int)
    letters = np.full(row.size, ord("a"), dtype=np.uint8)
    letters[columns] += level.astype(np.uint8)
    return letters.tobytes().decode("ascii")
