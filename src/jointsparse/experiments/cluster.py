"""Tasks on a Dask cluster: the workers compute, this process alone writes what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from jointsparse.experiments.store import Finished
from jointsparse.experiments.task import Failed, Task
from jointsparse.sources.dask.graph import ClusterError

PACKAGE = "jointsparse"
SECONDS_TO_CONNECT = 10.0


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to a Dask scheduler, and see that its workers have this version of the package.

    Parameters
    ----------
    address : str
        Address of the scheduler, such as "tcp://127.0.0.1:8786".
    """
    try:
        from distributed import Client
        from distributed.comm import get_address_host_port
    except ImportError as error:
        raise ClusterError("a cluster needs Dask: pip install 'jointsparse[dask]'") from error
    try:
        get_address_host_port(address, strict=True)
    except (ValueError, TypeError) as error:
        raise ClusterError(
            f"{address!r} is not the address of a scheduler, such as tcp://127.0.0.1:8786"
        ) from error
    try:
        client = Client(address, timeout=SECONDS_TO_CONNECT, set_as_default=False)
    except OSError as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address}; start one with 'dask scheduler' and give "
            "the address that it prints"
        ) from error
    with client:
        _check_versions(client)
        yield client


def _check_versions(client: Any) -> None:
    """Refuse workers whose results would be those of another version."""
    found = client.get_versions(packages=[PACKAGE])
    here = found["client"]["packages"][PACKAGE]
    for address, worker in found["workers"].items():
        there = worker["packages"][PACKAGE] if isinstance(worker, dict) else None
        if there != here:
            has = f"{PACKAGE} {there}" if there else f"no {PACKAGE}"
            raise ClusterError(
                f"the worker {address} has {has}; install {PACKAGE} {here}, which is here, on all"
            )


def has_workers(client: Any) -> bool:
    """Tell whether the cluster has a worker now; more may come and go at any time."""
    return bool(client.nthreads())


def executed_by(
    client: Any, function: Callable[[Task], Finished | Failed], tasks: list[Task]
) -> Iterator[Finished | Failed]:
    """Compute tasks on a cluster; yield each outcome as soon as it is there.

    A task whose worker dies is given to another one. Only one under which several workers died
    (Dask's ``distributed.scheduler.allowed-failures``) is given up: it may be what kills them.
    """
    from distributed import as_completed

    futures = client.map(function, tasks, pure=False)
    task_of = {future.key: task for future, task in zip(futures, tasks, strict=True)}
    completed = as_completed(futures, loop=client.loop)
    # A result that is still asked for when its worker dies is computed again: ask for none twice.
    del futures
    for future in completed:
        task = task_of[future.key]
        try:
            outcome = future.result()
        except CancelledError as error:
            raise ClusterError(
                "the connection to the Dask scheduler was lost; what had arrived is kept, and the "
                "same command goes on from there"
            ) from error
        except Exception as error:  # the worker died, or cannot even load the task
            outcome = Failed(task, f"{type(error).__name__}: {error}")
        future.release()
        yield outcome
