"""Entries of a JSON document that somebody else may have written: checked, or refused in words."""

from __future__ import annotations

import math
from typing import Any

from jointsparse.text import visible

LONGEST = 500  # characters of a text; names of features have a limit of their own


def entry(record: Any, name: str) -> Any:
    """Return an entry of an object."""
    if not isinstance(record, dict):
        raise ValueError(f"{name!r} is looked for in what is not an object")
    if name not in record:
        raise ValueError(f"it has no entry {name!r}")
    return record[name]


def listing(record: Any, name: str) -> list[Any]:
    """Return an entry that is a list."""
    found = entry(record, name)
    if not isinstance(found, list):
        raise ValueError(f"{name!r} is not a list")
    return found


def number(value: Any, name: str) -> float:
    """Return a finite number; NaN for null, which stands for what is not known."""
    if value is None:
        return math.nan
    if not isinstance(value, int | float) or isinstance(value, bool) or not _finite(value):
        raise ValueError(f"{name!r} is not a number")
    return float(value)


def amount(record: Any, name: str, *, least: int = 0, most: int = 10**15) -> int:
    """Return an entry that counts something."""
    found = entry(record, name)
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
        raise ValueError(f"{name!r} is not a whole number from {least} to {most}")
    return found


def sentence(value: Any, name: str) -> str:
    """Return a text that can be shown."""
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is not a text")
    return visible(value[:LONGEST])


def scaling_of(record: Any) -> str:
    """Return in words what was done to the columns; earlier versions knew no transform."""
    scale = sentence(entry(record, "scale"), "scale")
    scaling = {"none": "not scaled"}.get(scale, f"scaled ({scale})")
    transform = record.get("transform")
    return scaling if transform is None else f"{sentence(transform, 'transform')}, {scaling}"


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond any float
        return False
