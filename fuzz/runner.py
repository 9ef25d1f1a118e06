"""Processes that run one case after the other, and are replaced where they die or hang.

A case may take ten seconds of processor time (or what the module of its kind says), counted by the
system over all threads of its process, so that a busy machine condemns nothing; one that waits
without working is a hang too, after ten minutes by the clock on the wall.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import time
from collections import Counter
from importlib import import_module
from multiprocessing.connection import wait
from typing import Any

LIMIT = 10.0  # seconds of processor time that one case may take
PATIENCE = 60 * LIMIT  # seconds by the clock, for a case that waits instead of working
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# Of a fit: the same as its twin, at the limit of both solvers only, but for a tie of the twin, or
# as near as two fits prove that both did not reach their tolerance.
GOOD = ("fitted", "same limit", "tied", "open", "read", "refused")


def run(kind: str, first: int, count: int, jobs: int) -> int:
    """Run cases of one kind in processes of their own; return the number of faults."""
    numbers = iter(range(first, first + count))
    workers = [_Worker(kind) for _ in range(jobs)]  # which import side by side
    seen: Counter[str] = Counter()
    failing: list[int] = []
    busy = [worker for worker in workers if worker.start(next(numbers, None))]
    while busy:
        for worker in list(busy):
            outcome = worker.outcome()
            if outcome is None:
                continue
            seen[outcome if outcome in GOOD else "fault"] += 1
            if outcome not in GOOD:
                failing.append(worker.number)
                print(f"{kind} case {worker.number}: {outcome}", flush=True)
            if not worker.start(next(numbers, None)):
                busy.remove(worker)
        wait([worker.pipe for worker in busy], timeout=1.0)
    for worker in workers:
        worker.end()
    counts = ", ".join(f"{seen[name]} {name}" for name in sorted(seen))
    print(f"{kind}: {count} cases: {counts or 'none'}; {seen['fault']} faults", flush=True)
    if failing:
        print(f"{kind}: failing cases: {' '.join(map(str, sorted(failing)))}", flush=True)
    return seen["fault"]


class _Worker:
    """A process that runs one case after the other, and is replaced where it dies or hangs."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._begin()

    def _begin(self) -> None:
        self.pipe, end = mp.Pipe()
        self.process = mp.get_context("spawn").Process(target=_serve, args=(self.kind, end))
        self.process.start()
        end.close()
        self.ready = False

    def start(self, number: int | None) -> bool:
        if number is None:
            return False
        if not self.ready:
            self.pipe.recv()  # imports are done: from here on the clock is that of the cases
            self.ready = True
        self.number, self.since = number, time.monotonic()
        self.pipe.send(number)
        return True

    def outcome(self) -> str | None:
        try:
            if self.pipe.poll():
                return str(self.pipe.recv())
        except (EOFError, ConnectionResetError):
            self.process.join()
            status = self.process.exitcode
            self._begin()
            if status == -signal.SIGPROF:
                return f"took more than {limit_of(self.kind):g} s of processor time"
            return f"the process died with status {status}"
        if time.monotonic() - self.since > PATIENCE:
            self.process.kill()
            self.process.join()
            self._begin()
            return f"waited for more than {PATIENCE:g} s"
        return None

    def end(self) -> None:
        self.pipe.send(None)
        self.process.join(5)
        self.process.kill()


def limit_of(kind: str) -> float:
    """Return the seconds of processor time that a case of a kind may take."""
    return float(getattr(import_module(f"fuzz.{kind}"), "CASE_LIMIT", LIMIT))


def _serve(kind: str, pipe: Any) -> None:
    for variable in THREADS:
        os.environ.setdefault(variable, "1")
    module = import_module(f"fuzz.{kind}")
    module.prepare()
    pipe.send("ready")
    while (number := pipe.recv()) is not None:
        # The system ends the process, wherever it is, when this much processor time is used up.
        signal.setitimer(signal.ITIMER_PROF, limit_of(kind))
        outcome = module.case(number)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        pipe.send(outcome)
