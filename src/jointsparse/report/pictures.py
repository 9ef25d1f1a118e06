"""Where the lines, ticks and pixels of the pictures go; the template draws them."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray

WIDTH, HEIGHT = 400, 240  # one unit is about one pixel of a telephone
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 38
MOST_POINTS = 400  # of a line: more cannot be seen
DOTS = 30  # points that are drawn one by one

_KEPT = (0, 114, 178)
_KEPT_MARK = (213, 94, 0)


@dataclass(frozen=True)
class Line:
    """A line: its place on the page, and what it is."""

    points: str
    kind: str
    dots: list[tuple[float, float]] = field(default_factory=list)
    title: str = ""


@dataclass(frozen=True)
class Axis:
    """A scale from numbers to places on the page."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a number."""
        low, high, value = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        share = (value - low) / (high - low) if high != low else 0.5
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self, most: int = 5) -> list[tuple[float, str]]:
        """Return places and texts of a few round numbers."""
        values = self._powers(most) if self.log else self._steps(most)
        return [(self(value), _short(value)) for value in values]

    def _steps(self, most: int) -> list[float]:
        span = abs(self.high - self.low) or 1.0
        power = 10.0 ** math.floor(math.log10(span / most))
        step = next(f * power for f in (1, 2, 5, 10) if span / (f * power) <= most)
        low, high = sorted((self.low, self.high))
        first = math.ceil(low / step - 1e-9)
        return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]

    def _powers(self, most: int) -> list[float]:
        low, high = sorted((math.log10(self.low), math.log10(self.high)))
        exponents = list(range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1))
        if len(exponents) < 2:  # less than a factor of ten: two or three round numbers
            rounds = [
                f * 10.0**e for e in range(math.floor(low), math.ceil(high) + 1) for f in (1, 2, 5)
            ]
            return [v for v in rounds if low - 1e-9 <= math.log10(v) <= high + 1e-9]
        return [10.0**e for e in exponents[:: math.ceil(len(exponents) / most)]]


@dataclass(frozen=True)
class Chart:
    """A picture with two axes."""

    x: Axis
    y: Axis
    x_label: str
    y_label: str
    lines: list[Line]
    whole_numbers: bool = False
    percent: bool = False
    width: int = WIDTH
    height: int = HEIGHT
    marks: list[tuple[float, str]] | None = None  # instead of round numbers on the x axis

    @property
    def x_ticks(self) -> list[tuple[float, str]]:
        """Return places and texts on the horizontal axis."""
        ticks = self.x.ticks() if self.marks is None else self.marks
        return [t for t in ticks if float(t[1]).is_integer()] if self.whole_numbers else ticks

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        """Return places and texts on the vertical axis."""
        ticks = self.y.ticks()
        return [(y, f"{100 * float(t):.0f}\u202f%") for y, t in ticks] if self.percent else ticks


def across(low: float, high: float) -> Axis:
    """Return a horizontal axis."""
    return Axis(low, high, LEFT, WIDTH - RIGHT)


def upwards(low: float, high: float, *, log: bool = False, height: int = HEIGHT) -> Axis:
    """Return a vertical axis."""
    return Axis(low, high, height - BOTTOM, TOP, log)


def line(x: Axis, y: Axis, xs: FloatArray, ys: FloatArray, kind: str, title: str = "") -> Line:
    """Return a line through points; few enough of them to be seen."""
    if xs.size > MOST_POINTS:
        chosen = np.unique(np.linspace(0, xs.size - 1, MOST_POINTS).round().astype(int))
        xs, ys = xs[chosen], ys[chosen]
    places = [(x(float(u)), y(float(v))) for u, v in zip(xs, ys, strict=True) if np.isfinite(v)]
    points = " ".join(f"{u:g},{v:g}" for u, v in places)
    return Line(points, kind, places if len(places) <= DOTS else [], title)


def shares_chart(curves: dict[str, FloatArray | None], x_label: str) -> Chart:
    """Return R² against the number of features."""
    known = {kind: curve for kind, curve in curves.items() if curve is not None}
    most = max(curve.size for curve in known.values())
    x, y = across(1, max(most, 2)), upwards(0, 1)
    lines = [
        line(x, y, np.arange(1.0, curve.size + 1), curve, kind) for kind, curve in known.items()
    ]
    return Chart(x, y, x_label, "variance accounted for", lines, whole_numbers=True, percent=True)


def steps_chart(values: FloatArray, y_label: str, *, log: bool) -> Chart | None:
    """Return a number against the iterations of the solver; None where there is nothing to see."""
    finite = np.isfinite(values) & ((values > 0) | (not log))
    if finite.sum() < 2:
        return None
    low, high = float(values[finite].min()), float(values[finite].max())
    if log:
        low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
    if low == high:
        low, high = low - abs(low or 1) / 10, high + abs(high or 1) / 10
    x = across(1, values.size)
    y = upwards(low, high, log=log)
    shown = np.where(finite, values, np.nan)
    one = line(x, y, np.arange(1.0, values.size + 1), shown, "own")
    return Chart(x, y, "check of the solver", y_label, [one], whole_numbers=True)


def _short(value: float) -> str:
    return f"{value:.4g}"


def png(pixels: NDArray[np.uint8]) -> str:
    """Return an RGB picture as a data address, without any library."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(pixels))

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode("ascii")


def heat_map(values: FloatArray, shape: tuple[int, int]) -> str:
    """Return numbers between 0 and 1 from white to dark blue; NaN is grey."""
    share = np.clip(np.nan_to_num(values), 0.0, 1.0)[:, None]
    colours = 255 - share * (255 - np.array([0, 60, 110]))
    colours[np.isnan(values)] = 190
    return png(colours.round().astype(np.uint8).reshape(*shape, 3))


def marked_map(
    background: FloatArray | None, kept: NDArray[np.bool_], shape: tuple[int, int]
) -> str:
    """Return the kept pixels in colour over a grey picture."""
    grey = np.full(kept.size, 0.88)
    if background is not None:
        low, high = np.nanmin(background), np.nanmax(background)
        # Never black or white: the marks must stand out, and so must the rim of the picture.
        grey = 0.25 + 0.65 * (background - low) / ((high - low) or 1.0)
    colours = np.repeat(255 * grey[:, None], 3, axis=1)
    colours[kept] = _KEPT_MARK if background is not None else _KEPT
    return png(colours.round().astype(np.uint8).reshape(*shape, 3))
