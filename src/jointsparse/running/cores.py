"""NumPy's and SciPy's BLAS in one process: together they take no more threads than there are cores.

The wheels of both bring an OpenBLAS of their own, each with one thread for every core. Threads that
have nothing to do wait actively for a while, so that a solver which calls both in turn finds its
cores taken: on 16 cores UDFS of 2000 × 1000 samples took 33 seconds, on one core 4.5. With the
cores shared it takes 3 to 4.

Small tables have one thread. Where others work on the same machine, a thread that is waited for
actively may not run for a while: on two busy cores SPCA-PSD took 12 to 20 seconds of 150 × 300
samples, and 0.2 with one thread.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import PurePath
from typing import Any, Protocol

# Part of the cores for SciPy's pool. NumPy has the products of large matrices, which use all cores;
# SciPy the factorisations, which gain little from more than four (Cholesky of 1000 × 1000: 10.1 ms
# on one core, 6.0 on four, 5.5 on sixteen). Halves took as long as this on 16 cores.
PART_OF_SCIPY = 4

# Threads of Python for arithmetic entry by entry: a few cores ask for all that memory can give, and
# only one thread at a time begins an operation.
MOST_OF_PYTHON = 8


# Samples times features times the smaller of both: below, a decomposition takes one core 40 ms at
# most, of which more threads could save a half (400 × 400 samples).
SMALL = 2**26


class Pool(Protocol):
    """A pool of threads, as threadpoolctl has them."""

    filepath: str

    @property
    def num_threads(self) -> int:
        """How many there are."""

    def set_num_threads(self, num_threads: int) -> None:
        """Have as many."""


class Sharing:
    """Counts who computes: the first limits the pools, the last gives them their threads back.

    As long as all who compute have small tables, there is one thread.

    Parameters
    ----------
    pools : list of Pool
        The pools of NumPy and SciPy; other numbers than two are left alone.
    cores : int
        Number of cores.
    """

    def __init__(self, pools: list[Pool], cores: int) -> None:
        self.pools, self.cores = pools, cores
        self._lock = threading.Lock()
        self._computing = self._large = 0
        self._before: list[int] = []

    def threads(self) -> int:
        """Return how many of NumPy's threads fall to each of those who compute."""
        with self._lock:
            known = self.pools[0].num_threads if self.pools else 1
            return max(1, min(MOST_OF_PYTHON, known // max(1, self._computing)))

    def begin(self, *, small: bool = False) -> None:
        """Limit the pools to what those who compute may have."""
        with self._lock:
            if self._computing == 0:
                self._before = [pool.num_threads for pool in self.pools]
            self._computing += 1
            self._large += not small
            self._limit()

    def end(self, *, small: bool = False) -> None:
        """Give back what the others who compute leave."""
        with self._lock:
            self._computing -= 1
            self._large -= not small
            self._limit()

    def _limit(self) -> None:
        counts = [1] * len(self.pools)
        if self._large:
            counts = shared(self._before, self.cores)
        elif not self._computing:
            counts = self._before
        for pool, count in zip(self.pools, counts, strict=True):
            if pool.num_threads != count:
                pool.set_num_threads(count)


def shared(threads: list[int], cores: int) -> list[int]:
    """Return how many threads NumPy and SciPy have, of those they had, to share the cores.

    The thread that calls belongs to both pools.

    Examples
    --------
    >>> from jointsparse.running.cores import shared
    >>> shared([16, 16], 16), shared([2, 2], 2), shared([4, 4], 16)
    ([13, 4], [2, 1], [4, 4])
    """
    if len(threads) != 2 or sum(threads) - 1 <= cores:
        return threads
    numpy, scipy = threads
    scipy = max(1, min(scipy, cores // PART_OF_SCIPY))
    return [max(1, min(numpy, cores - scipy + 1)), scipy]


def is_small(shape: Any) -> bool:
    """Return whether a table of this shape is worth one thread only.

    Examples
    --------
    >>> from jointsparse.running.cores import is_small
    >>> is_small((150, 300)), is_small((100, 5000)), is_small((1000, 1000)), is_small(())
    (True, True, False, False)
    """
    sides = shape if isinstance(shape, tuple) else ()
    known = len(sides) == 2 and all(isinstance(side, int) for side in sides)
    return known and math.prod(sides) * min(sides) <= SMALL


@contextmanager
def sharing_cores(shape: Any = ()) -> Iterator[None]:
    """Have NumPy's and SciPy's BLAS share the cores meanwhile; may be nested, and in threads.

    Of a small table they have one thread each. One whose shape is not known is not small.
    """
    sharing, small = _sharing(), is_small(shape)
    sharing.begin(small=small)
    try:
        yield
    finally:
        sharing.end(small=small)


def threads() -> int:
    """Return how many threads may work on the parts of an array.

    As many as NumPy's BLAS has, at most eight, and fewer where several compute in this process:
    one in tests, in the processes of a parallel run, and where users limit it to one.
    """
    return _sharing().threads()


@cache
def _sharing() -> Sharing:
    import joblib
    import scipy.linalg  # noqa: F401 - its BLAS must be there to be found
    from threadpoolctl import ThreadpoolController

    pools = ThreadpoolController().select(internal_api="openblas").lib_controllers
    of = {owner(pool.filepath): pool for pool in pools}
    known = [of["numpy"], of["scipy"]] if of.keys() >= {"numpy", "scipy"} else []
    return Sharing(known, joblib.cpu_count())


if hasattr(os, "register_at_fork"):  # a child has other threads, none of which computes
    os.register_at_fork(after_in_child=_sharing.cache_clear)


def owner(path: str) -> str:
    """Return which package a library came with; "" for one that the system has.

    Examples
    --------
    >>> from jointsparse.running.cores import owner
    >>> owner("site-packages/numpy.libs/libscipy_openblas64_.so")
    'numpy'
    >>> owner("site-packages/scipy/.dylibs/libscipy_openblas.dylib")
    'scipy'
    >>> owner("/usr/lib/libopenblas.so.0")
    ''
    """
    folders = (folder.split(".")[0] for folder in reversed(PurePath(path).parts))
    return next((folder for folder in folders if folder in ("numpy", "scipy")), "")
