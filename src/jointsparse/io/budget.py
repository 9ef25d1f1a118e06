"""How much memory a computation may take."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_CGROUP_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)
USUAL_MEMORY = 4 * 10**9  # where the system does not say how much it has
LEAST_FREE = 10**8  # taken for free, whatever the system says
# A kernel may always take this: NumPy, SciPy and BLAS take as much to be there at all.
LEAST_ALLOWED = 2**24
_ALLOWED: ContextVar[int | None] = ContextVar("allowed", default=None)


def parse_size(text: Any) -> int:
    """Return a number of bytes from a text such as 500MB, 1.5 GB, 2GiB or 4g.

    Examples
    --------
    >>> from jointsparse.io.budget import parse_size
    >>> parse_size("1.5GB"), parse_size("2 GiB"), parse_size(1000)
    (1500000000, 2147483648, 1000)
    """
    found = _SIZE.fullmatch(str(text))
    size = 0.0
    if found:
        base = 1024 if found[3] else 1000
        size = float(found[1]) * base ** _UNITS[found[2].lower()]
    if size < 1:
        raise ValueError(f"{text!r} is not an amount of memory; write for example 500MB or 4GB")
    return int(size)


def size_in_words(size: float) -> str:
    """Return a number of bytes as a person would say it."""
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.0f} bytes"


def enough(size: int) -> str:
    """Return an amount of memory that is at least as large, with two digits, for ``parse_size``.

    Examples
    --------
    >>> from jointsparse.io.budget import enough, parse_size
    >>> enough(1_210_000), parse_size(enough(999)) >= 999
    ('1.3MB', True)
    """
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            step = 10 ** (len(str(size)) - 2)
            return f"{-(-size // step) * step / unit:g}{name}"
    return "1kB"


def default_budget() -> int:
    """Return half of the memory that is free now."""
    return available_memory() // 2


@contextmanager
def limited_to(memory: Any) -> Iterator[None]:
    """Let kernels take no more memory than this, within the block; None: what is free.

    Examples
    --------
    >>> from jointsparse.io.budget import allowed_memory, limited_to
    >>> with limited_to("50MB"):
    ...     allowed_memory()
    50000000
    """
    token = _ALLOWED.set(None if memory is None else parse_size(memory))
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def allowed_memory(wanted: float = math.inf, held: int = 0) -> int:
    """Return what a kernel may take: what the user allows, or what is free where that is less.

    The system is not asked, which takes longer than a small fit, where little is wanted.

    Parameters
    ----------
    wanted : float
        What it could use.
    held : int
        What of that which the user allows is taken already; what is free is free beside it.
    """
    allowed = _ALLOWED.get()
    free = LEAST_FREE if wanted <= LEAST_FREE else available_memory()
    return free if allowed is None else min(max(allowed - held, LEAST_ALLOWED), free)


def available_memory() -> int:
    """Return how many bytes are free, within the limits of a container where there are any."""
    free = float(_system_memory())
    for limit, used in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):
            free = min(free, int(Path(limit).read_text()) - int(Path(used).read_text()))
    return int(max(min(free, _left_to_process()), LEAST_FREE))


def _left_to_process() -> float:
    """Return what ``ulimit -v`` leaves to this process."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            return limit - pages * os.sysconf("SC_PAGE_SIZE")
    return math.inf


def _system_memory() -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(
        AttributeError, OSError, ValueError
    ):  # systems without /proc; Windows has neither
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return USUAL_MEMORY
