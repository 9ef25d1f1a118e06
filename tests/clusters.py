"""A Dask cluster for tests: a scheduler and workers as processes of their own, on loopback."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PATIENCE = 60.0  # seconds until a process must have started


class Cluster:
    """One scheduler and some workers with one thread each; any of them may be killed."""

    def __init__(self, folder, n_workers, preload=None):
        pytest.importorskip("distributed", reason="dask and distributed are not installed")
        self.folder, self.preload = Path(folder), preload
        self.file = self.folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"
        )
        self.workers = []
        try:
            self._wait_for(self.file.exists)
            self.address = json.loads(self.file.read_text())["address"]
            for _ in range(n_workers):
                self.add_worker()
        except BaseException:
            self.close()
            raise

    def add_worker(self):
        number = len(self.workers)
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
        options += ["--local-directory", str(self.folder)]
        if self.preload is not None:
            options += ["--preload", str(self.preload)]
        self.workers.append(self._start(f"worker {number}", *options))
        self._wait_for(lambda: "Registered to" in self._log(f"worker {number}").read_text())

    def kill_worker(self, number):
        """End a worker as a power cut would."""
        self.workers[number].send_signal(signal.SIGKILL)
        assert self.workers[number].wait() == -signal.SIGKILL

    def _start(self, name, *options):
        module = f"distributed.cli.dask_{name.split()[0]}"
        command = [sys.executable, "-m", module, "--scheduler-file", str(self.file), *options]
        with self._log(name).open("w") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment())

    def _log(self, name):
        return self.folder / f"{name}.log"

    def _wait_for(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "the cluster did not start"
            assert self.scheduler.poll() is None, self._log("scheduler").read_text()
            time.sleep(0.05)

    def close(self):
        for process in (*self.workers, self.scheduler):
            if process.poll() is None:
                process.kill()
                process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def environment():
    """Return an environment in which other processes import what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
