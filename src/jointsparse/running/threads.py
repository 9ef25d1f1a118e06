"""Work on long arrays, part by part, on all cores: for functions that NumPy and SciPy run alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

PART = 2**15  # entries: long enough that threads do not wait for Python
# The same for plain arithmetic, which is faster: with 2**15 entries two threads take a third more
# of the processor than one, and no more with these. They are still what a cache holds.
LONG_PART = 2**17


def in_parts(
    function: Callable[[slice], Any], size: int, *, part: int = PART, workers: int | None = None
) -> list[Any]:
    """Return ``function(part)`` for parts of ``range(size)``, in their order.

    Parameters
    ----------
    function : callable
        Takes a slice; may write to its own part of an array.
    size : int
        Number of entries.
    part : int
        Number of entries in each part.
    workers : int or None, default=None
        Number of threads at most; None takes as many as there are cores.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.running.threads import in_parts
    >>> values = np.arange(5.0)
    >>> in_parts(lambda part: float(values[part].sum()), 5)
    [10.0]
    """
    parts = [slice(first, min(first + part, size)) for first in range(0, size, part)]
    if workers is None:
        workers = len(os.sched_getaffinity(0)) if len(parts) > 1 and _knows_cores() else 1
    workers = min(len(parts), workers)
    if workers < 2:
        return [function(part) for part in parts]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, parts))


def _knows_cores() -> bool:
    return hasattr(os, "sched_getaffinity")
