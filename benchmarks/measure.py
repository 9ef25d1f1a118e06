"""Competitors side by side on one problem: interleaved repeats, each in its own process."""

import json
import os
import select
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.common import ONE_THREAD, ROOT
from benchmarks.environments import HERE

PATIENCE = 6
LONG = 5.0  # seconds: a run longer than this is not repeated, and its warm-up counts as the run


@dataclass
class Outcome:
    """What one competitor did on one problem."""

    competitor: str
    version: str | None = None
    status: str = "ok"  # or "not installed", "timeout", "crashed: …", "does not apply: …"
    seconds: list[float] = field(default_factory=list)  # of the processor
    memory: float | None = None  # MB that the first run added at its peak
    quality: dict[str, float] = field(default_factory=dict)
    kept_range: float | None = None  # of times that are no longer known one by one

    @property
    def good(self):
        return self.status == "ok"

    @property
    def median(self):
        return float(np.median(self.seconds)) if self.seconds else None

    @property
    def half_range(self):
        """Half the range between the quartiles; None for a single run."""
        if len(self.seconds) < 2:
            return self.kept_range
        low, high = np.percentile(self.seconds, [25, 75])
        return float(high - low) / 2


class RivalError(Exception):
    """A competitor crashed, aborted or ran out of time."""


class Worker:
    """One competitor in its process; it is ended, whatever it does, with the ``with`` block."""

    def __init__(self, solver, python, folder, site=None):
        self.solver, self.folder = solver, Path(folder)
        paths = [ROOT / "src", ROOT] if solver.environment == HERE else []
        paths += [] if site is None else [site]
        self.errors = (self.folder / "errors").open("w+")
        self.process = subprocess.Popen(
            [python, str(ROOT / "benchmarks" / "worker.py"), solver.file, solver.cls],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            stream.close()

    def ask(self, limit, **command):
        """Send a command and wait for its answer: so many seconds of the processor, no longer.

        On a busy machine they pass slowly, which is not the competitor's fault; one that does not
        work at all is ended after as many seconds of the clock, times ``PATIENCE``.
        """
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise RivalError(self._last_words()) from None
        answer, before, end = b"", self._worked(), time.monotonic() + PATIENCE * limit
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], min(1.0, limit / 4))
            if not ready:
                if self._worked() - before > limit or time.monotonic() > end:
                    self.process.kill()
                    raise RivalError(f"timeout after {limit:g} s")
                continue
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                raise RivalError(self._last_words())
            answer += part
        answer = json.loads(answer)
        if "error" in answer:
            raise RivalError(f"crashed: {answer['error']}")
        return answer

    def _worked(self):
        """Seconds of the processor so far; the clock where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _last_words(self):
        status = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        return f"crashed: {how}{': ' + lines[-1][:150] if lines else ''}"

    def result(self, limit):
        to = self.folder / "result.npz"
        self.ask(limit, do="result", to=str(to))
        with np.load(to, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}


def measure(task, problem, solvers, environments, *, repeats=5, limit=60.0):
    """Return the outcome of every competitor on one problem.

    The leader of a task, where it has one, runs first, and what it found becomes a parameter of the
    others (for example how many nonzeros each component shall have).
    """
    data, params = task.load(problem), dict(problem.params)
    outcomes, workers = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        seen = {key: value for key, value in data.items() if not key.startswith("_")}
        np.savez(Path(folder) / "data.npz", **seen)
        order = sorted(solvers, key=lambda solver: solver.name != task.leader)
        try:
            for place, solver in enumerate(order):
                outcome = Outcome(solver.name)
                outcomes[solver.name] = outcome
                python = environments.python(solver.environment)
                outcome.version = environments.version(solver.environment, solver.distribution)
                reason = solver.refuses(seen, params)
                if outcome.version is None:
                    outcome.status = "not installed"
                    continue
                if reason:
                    outcome.status = f"does not apply: {reason}"
                    continue
                own = Path(folder) / str(place)
                own.mkdir()
                worker = Worker(solver, python, own, environments.site)
                try:
                    path = str(Path(folder) / "data.npz")
                    worker.ask(limit, do="load", data=path, params=params)
                    first = worker.ask(limit, do="run")
                    outcome.memory = first["memory"]
                    found = worker.result(limit)
                    if solver.name == task.leader:
                        params.update(task.lead(data, params, found))
                    outcome.quality = task.evaluate(data, params, found)
                    if first["seconds"] > LONG:
                        outcome.seconds = [first["seconds"]]
                        worker.__exit__()
                    else:
                        workers[solver.name] = worker
                except RivalError as failure:
                    outcome.status = str(failure)
                    worker.__exit__()
            for _ in range(repeats):
                for name, worker in list(workers.items()):
                    try:
                        outcomes[name].seconds.append(worker.ask(limit, do="run")["seconds"])
                    except RivalError as failure:
                        outcomes[name].status = str(failure)
                        workers.pop(name).__exit__()
        finally:
            for worker in workers.values():
                worker.__exit__()
    return [outcomes[solver.name] for solver in solvers]
