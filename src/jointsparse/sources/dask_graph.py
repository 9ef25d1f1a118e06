"""The two shapes of graph that sums over blocks need: a function of each block, and a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

STATES_AT_A_TIME = 4  # how many partial sums one task of the tree adds up


def applied(
    function: Callable[..., Any], blocks: Sequence[Any], arguments: Iterable[Sequence[Any]]
) -> list[Any]:
    """Return ``function(block, *arguments)`` of each block, delayed.

    The function, with whatever arrays it carries, is in the graph once and not in every task.
    """
    import dask

    shared, apply = dask.delayed(function, pure=False), dask.delayed(_apply, pure=False)
    return [apply(shared, block, *row) for block, row in zip(blocks, arguments, strict=True)]


def tree_sum(states: Sequence[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Combine delayed states, in order, in a tree that depends on their number alone.

    States that are None stand for nothing. So the result is the same, to the last bit, for any
    number of workers, and after any of them died.
    """
    import dask

    joining = dask.delayed(partial(_joined, combine), pure=False)
    apply = dask.delayed(_apply, pure=False)
    states = list(states)
    while len(states) > 1:
        groups = range(0, len(states), STATES_AT_A_TIME)
        states = [apply(joining, states[i : i + STATES_AT_A_TIME]) for i in groups]
    return states[0] if states else None


def on_cluster() -> bool:
    """Tell whether Dask would compute on a cluster now, not on threads or processes here."""
    from dask.base import get_scheduler

    owner = getattr(get_scheduler(), "__self__", None)
    return type(owner).__module__.partition(".")[0] == "distributed"


def _apply(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


def _joined(combine: Any, states: list[Any]) -> Any:
    present = [state for state in states if state is not None]
    if not present:
        return None
    total = present[0]
    for state in present[1:]:
        total = combine(total, state)
    return total
