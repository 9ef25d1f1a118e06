"""Run tasks, one after the other, on several cores or on a cluster; skip what is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from jointsparse.experiments.cluster import connected, executed_by
from jointsparse.experiments.store import Finished, Store, machine, versions
from jointsparse.experiments.task import Failed, Task

Progress = Callable[[int, int, "float | None"], None]


def run(
    tasks: Sequence[Task],
    store: Store,
    *,
    jobs: int = 1,
    cluster: Any = None,
    device: str | None = None,
    on_progress: Progress | None = None,
) -> int:
    """Do the tasks that are not done yet, and keep the results of each as soon as it ends.

    Stopped at any moment, even by force, and started again, it goes on where it was: what is kept
    is not done again, and what was under way is done anew.

    Parameters
    ----------
    tasks : sequence of Task
        All tasks, done or not.
    store : Store
        Where results are kept.
    jobs : int, default=1
        Number of processes.
    cluster : str, distributed.Client or None, default=None
        A Dask cluster to send the tasks to, in place of processes here: the address of its
        scheduler or a client of it. Workers only compute; results are written here.
    device : str or None, default=None
        A device of PyTorch on which large samples are clustered, and models fitted to them, where
        time is not what is measured.
    on_progress : callable or None, default=None
        Called with the number of tasks done, of all tasks, and the estimated seconds left.

    Returns
    -------
    int
        Number of tasks that failed; their messages are in the store.
    """
    done = store.finished()
    todo = [task for task in tasks if task.key not in done]
    clock = _Clock(len(tasks), len(tasks) - len(todo), on_progress)
    failed = 0
    with closing(_executed(todo, jobs, cluster, device)) as outcomes:
        for outcome in outcomes:
            if isinstance(outcome, Failed):
                store.add_failure(outcome.task, outcome.message)
                failed += 1
            else:
                store.add_finished(outcome)
            clock.tick()
    return failed


def execute(task: Task, device: str | None = None) -> Finished | Failed:
    """Do one task; an error of its own ends this task only."""
    from jointsparse.experiments.catalogue import experiments
    from jointsparse.experiments.data import compute_on

    compute_on(device)
    start = time.perf_counter()
    try:
        rows = experiments()[task.experiment].compute(task.case)
    except Exception as error:  # whatever it is, the other tasks go on
        return Failed(task, f"{type(error).__name__}: {error}")
    where = machine() if device is None else f"{machine()}, large samples on {device}"
    return Finished(task, rows, time.perf_counter() - start, where, versions())


def _executed(
    tasks: list[Task], jobs: int, cluster: Any, device: str | None
) -> Generator[Finished | Failed, None, None]:
    if isinstance(cluster, str):
        with connected(cluster) as client:
            yield from executed_by(client, partial(_one_thread, device=device), tasks)
    elif cluster is not None:
        yield from executed_by(cluster, partial(_one_thread, device=device), tasks)
    elif jobs == 1 or len(tasks) < 2:
        yield from (execute(task, device) for task in tasks)
    else:
        from joblib import Parallel, delayed

        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs")
        yield from parallel(delayed(_one_thread)(task, device) for task in tasks)


def _one_thread(task: Task, device: str | None = None) -> Finished | Failed:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # the processes share the cores
        return execute(task, device)


class _Clock:
    """Counts tasks and estimates the time left from the pace so far."""

    def __init__(self, total: int, done: int, report: Progress | None) -> None:
        self.total, self.done, self.report = total, done, report
        self.start, self.first = time.perf_counter(), done
        self._tell()

    def tick(self) -> None:
        self.done += 1
        self._tell()

    def _tell(self) -> None:
        if self.report is None:
            return
        made = self.done - self.first
        left = None
        if made:
            left = (time.perf_counter() - self.start) / made * (self.total - self.done)
        self.report(self.done, self.total, left)
