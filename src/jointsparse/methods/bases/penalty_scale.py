"""Penalties in the unit the user chose → penalties in the units of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jointsparse.methods.bases.selector import is_number

SCALES = ("relative", "trace", "absolute")
ROUNDING = 1e-14  # of the size of the data: smaller penalties have no effect in double precision


def check_scale(scale: Any) -> str:
    """Return the penalty scale, or say which ones there are."""
    if scale not in SCALES:
        raise ValueError(f"penalty_scale={scale!r} is not one of {', '.join(map(repr, SCALES))}")
    return str(scale)


def absolute_penalty(
    name: str, value: Any, *, scale: str, auto: float, largest: Callable[[], float], trace: float
) -> float:
    """Convert a penalty.

    Parameters
    ----------
    name : str
        Name of the parameter, for messages.
    value : float or "auto"
        What the user gave.
    scale : {"relative", "trace", "absolute"}
        Unit of ``value``: a fraction of ``largest``, a multiple of ``trace``, or data units.
    auto : float
        Meaning of ``"auto"``, always on the relative scale.
    largest : callable
        Returns a penalty that empties the model; called only where it is needed.
    trace : float
        Total variance tr S.
    """
    if scale == "relative" and is_number(value) and 1 <= value < float("inf"):
        raise ValueError(
            f"{name}={value} empties the model: on the relative scale it is a fraction, below "
            "1, of the penalty that removes every feature (for the units of the papers set "
            "penalty_scale='absolute')"
        )
    return penalty_in_units(name, value, scale=scale, auto=auto, unit=largest, trace=trace)


def penalty_in_units(
    name: str, value: Any, *, scale: str, auto: float, unit: Callable[[], float], trace: float
) -> float:
    """Convert a penalty whose relative ``unit`` empties nothing, so that it may exceed it."""
    if isinstance(value, str) and value == "auto":
        return auto * unit()
    if not is_number(value) or not 0 <= value < float("inf"):
        raise ValueError(f"{name}={value!r} is neither a number of at least 0 nor 'auto'")
    if scale == "relative":
        return float(value) * unit() if value > 0 else 0.0
    return float(value) * (trace if scale == "trace" else 1.0)
