"""The two shapes of graph that sums over blocks need, a function of each block and a tree.

And the one place where graphs are computed, which says in words what a cluster that is lost means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from typing import Any

STATES_AT_A_TIME = 4  # how many partial sums one task of the tree adds up

_LOST = (
    "the Dask cluster was closed, or the connection to it was lost, while samples were read; "
    "connect to a cluster again (distributed.Client) and repeat the call"
)
_KILLED = (
    "several workers of the Dask cluster ended while they worked on the same samples, perhaps for "
    "lack of memory; give the workers more, or use smaller chunks"
)


class ClusterError(RuntimeError):
    """The cluster cannot be used, or was lost; one sentence that says what to do."""


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


def computed(*collections: Any, held: bool = False) -> Any:
    """Return the values of Dask collections, computed together.

    Parameters
    ----------
    *collections : delayed objects, Dask arrays and DataFrames
        What to compute.
    held : bool
        Whether they build on what the workers of a cluster keep in memory, and nobody else has.
    """
    import dask

    if held and not on_cluster():
        raise ClusterError(_LOST)
    with _cluster_told():
        return dask.compute(*collections)


def persisted(blocks: Sequence[Any]) -> list[Any]:
    """Return the same blocks, computed and kept where Dask computes."""
    import dask

    with _cluster_told():
        return list(dask.persist(*blocks))


@contextmanager
def _cluster_told() -> Iterator[None]:
    """Say in words what became of the cluster; errors of what is computed pass as they are."""
    try:
        yield
    except CancelledError as error:
        raise ClusterError(_LOST) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "distributed":
            raise
        killed = type(error).__name__ == "KilledWorker"
        raise ClusterError(_KILLED if killed else _LOST) from error


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
