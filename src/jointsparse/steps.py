"""How far a long computation is: steps that are counted, and whoever wants to follow them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class Step:
    """Where a computation of several steps stands.

    Attributes
    ----------
    what : str
        What is counted, such as "parts left out".
    done, total : int
        Steps that are done, and all of them.
    seconds : float
        Time since the first step began.
    """

    what: str
    done: int
    total: int
    seconds: float

    @property
    def left(self) -> float | None:
        """Seconds left if all steps take as long as those before; None before the first ended."""
        return self.seconds / self.done * (self.total - self.done) if self.done else None


Follower = Callable[[Step], None]
_follower: ContextVar[Follower | None] = ContextVar("follower", default=None)


@contextmanager
def follow_steps(callback: Follower) -> Iterator[None]:
    """Call something before every step, and after the last, while the block runs.

    Counted are the parts of the samples that are left out one by one, while the features are
    selected on the others ("parts left out"); the numbers of features that are tried to find how
    many to keep ("sizes"); the random sets that a selection is compared with ("random sets"); the
    fits of a search for penalties, or along a path of them ("penalties"); the sets of features that
    such a search clusters ("sets"); the fits to random parts of the samples that tell how stable a
    selection is ("subsamples"); and, of many samples, those whose neighbours are found, some at a
    time ("neighbours").

    Parameters
    ----------
    callback : callable
        Takes a :class:`Step`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from jointsparse import SPCAPSD
    >>> from jointsparse.steps import follow_steps
    >>> X = scale(load_breast_cancer().data)
    >>> seen = []
    >>> with follow_steps(seen.append):
    ...     selector = SPCAPSD(n_features_to_select="auto").fit(X)
    >>> [(step.done, step.total) for step in seen if step.what == "parts left out"]
    [(0, 3), (1, 3), (2, 3), (3, 3)]
    """
    token = _follower.set(callback)
    try:
        yield
    finally:
        _follower.reset(token)


def steps(what: str, items: Sequence[Item]) -> Iterator[Item]:
    """Yield the items, and tell the follower, if there is one, how many are done."""
    follower = _follower.get()
    started = time.monotonic()
    for done, item in enumerate(items):
        if follower is not None:
            follower(Step(what, done, len(items), time.monotonic() - started))
        yield item
    if follower is not None:
        follower(Step(what, len(items), len(items), time.monotonic() - started))


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Count what is done in no particular order, by several threads; call what is given after each.

    Steps within such a step are not told: who follows wants to know how far the whole is.

    Parameters
    ----------
    what : str
        What is counted.
    total : int
        How many there are.

    Examples
    --------
    >>> from jointsparse.steps import counting, follow_steps
    >>> seen = []
    >>> with follow_steps(seen.append), counting("penalties", 2) as one_done:
    ...     one_done()
    ...     one_done()
    >>> [(step.done, step.total) for step in seen]
    [(0, 2), (1, 2), (2, 2)]
    """
    follower, started, lock, done = _follower.get(), time.monotonic(), Lock(), 0

    def tell() -> None:
        if follower is not None:
            follower(Step(what, done, total, time.monotonic() - started))

    def one_done() -> None:
        nonlocal done
        with lock:
            done += 1
            tell()

    token = _follower.set(None)
    try:
        tell()
        yield one_done
    finally:
        _follower.reset(token)
