"""Warnings that point at the caller's own line, however many frames of the package lie between."""

from __future__ import annotations

import sys
import warnings

# What runs between a caller's line and the warning: this package, and its context managers.
_BETWEEN = ("jointsparse", "contextlib")


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, attributed to the nearest frame outside of this package.

    Examples
    --------
    >>> import warnings
    >>> from jointsparse.running.notices import warn_caller
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_caller("look here")
    >>> str(caught[0].message)
    'look here'
    """
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in _BETWEEN
