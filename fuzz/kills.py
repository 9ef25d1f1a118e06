"""Programs that are ended at random moments: nothing lost, nothing half written."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np

from jointsparse.io import Table, TableError, read_table, write_table
from jointsparse.io.atomic import PREFIX
from jointsparse.persistence import ModelError, load_model

SIGNALS = {"KILL": signal.SIGKILL, "INT": signal.SIGINT, "TERM": signal.SIGTERM}
STATUS = {"KILL": -signal.SIGKILL, "INT": 130, "TERM": 143}
COMMAND = [sys.executable, "-m", "jointsparse"]
EXPERIMENTS = ["000-table1", "001-pitprops", "000-outliers", "--quick"]
MOST_TRIES = 4  # for each signal that is to come in time
LONGEST = 20.0  # seconds before the end is near
OLD = {"kept.csv": b"a,b\n1,2\n", "page.html": b"<html>old</html>", "model.skops": b"old"}
DATABASE = "results.sqlite"


def run(count: int, first: int = 0, names: tuple[str, ...] = ("KILL",)) -> int:
    """End ``select`` and ``reproduce`` in turn; return the number of faults.

    A signal that comes when the program has ended already does not count: another is sent.
    """
    seen: Counter[str] = Counter()
    faults, number = 0, first
    with tempfile.TemporaryDirectory() as folder:
        runs = (_Select(Path(folder) / "select"), _Reproduce(Path(folder) / "reproduce"))
        while seen["before the end"] < count and number < first + MOST_TRIES * count:
            rng = np.random.default_rng(number)
            kind = runs[number % 2]
            name = names[int(rng.integers(len(names)))]
            status, errors = kind.end(SIGNALS[name], rng)
            wrong = kind.wrong()
            if not _ended_by_a_library(status, errors):
                wrong += _wrong_end(status, errors, name)
            if name != "KILL" and not _ended_by_a_library(status, errors):
                wrong += [f"{path} was left" for path in kind.folder.glob(f"{PREFIX}*")]
            for fault in wrong:
                print(f"kills case {number} ({kind.name}, SIG{name}): {fault}", flush=True)
            faults += bool(wrong)
            seen["too late" if status == 0 else "before the end"] += 1
            number += 1
        for kind in runs:
            for fault in kind.wrong_afterwards():
                print(f"kills, afterwards ({kind.name}): {fault}", flush=True)
                faults += 1
    counts = ", ".join(f"{number} {what}" for what, number in sorted(seen.items()))
    print(f"kills by {', '.join(names)}: {counts}; {faults} faults", flush=True)
    return faults


def _ended_by_a_library(status: int, errors: str) -> bool:
    """Whether a compiled library ended the process, as SIGKILL would.

    Parts of Matplotlib call Python from where C++ allows no exception: a Ctrl-C that comes in
    that moment ends the process before any line of Python can tidy up. The next run does.
    """
    return status == -signal.SIGABRT and "pybind11::error_already_set" in errors


def _wrong_end(status: int, errors: str, name: str) -> list[str]:
    """Return what is wrong with how a program ended; a signal may also have come too late."""
    # Python ends by the signal itself where none of our lines is loaded yet, and, of Ctrl-C, where
    # it came while the standard library ran a string as code; shells call both 130 or 143.
    if status not in (0, STATUS[name], -SIGNALS[name]):
        return [f"status {status}: {errors[-400:]}"]
    early = "jointsparse" not in errors
    return [f"a traceback: {errors[-400:]}"] if "Traceback" in errors and not early else []


def _environment() -> dict[str, str]:
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


class _Select:
    """``select --output --report --save`` over files that are there already."""

    name = "select"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        rng = np.random.default_rng(0)
        values = rng.standard_normal((300, 12)) * np.arange(1, 13)
        write_table(folder / "table.csv", Table(values, [f"c{j}" for j in range(12)]))
        options = ["--method", "spca-psd", "--features", "4", "--quiet", "--path-points", "5"]
        outputs = ["--output", "kept.csv", "--report", "page.html", "--save", "model.skops"]
        self.command = [*COMMAND, "select", "table.csv", *options, *outputs]
        start = time.monotonic()
        subprocess.run(self.command, cwd=folder, check=True, env=_environment())
        self.duration = time.monotonic() - start
        self.kept = (folder / "kept.csv").read_bytes()

    def end(self, number: int, rng: np.random.Generator) -> tuple[int, str]:
        for name, content in OLD.items():
            (self.folder / name).write_bytes(content)
        return _ended(self.command, self.folder, number, rng.uniform(0, self.duration))

    def wrong(self) -> list[str]:
        """Return what is wrong with the files: all are old, or all new and whole."""
        content = {name: (self.folder / name).read_bytes() for name in OLD}
        old = sorted(name for name in OLD if content[name] == OLD[name])
        wrong = [f"only {', '.join(old)} are old"] if 0 < len(old) < len(OLD) else []
        if content["kept.csv"] not in (OLD["kept.csv"], self.kept):
            wrong.append(f"kept.csv: {content['kept.csv'][:100]!r}")
        page = content["page.html"]
        if page != OLD["page.html"] and not page.rstrip().endswith(b"</html>"):
            wrong.append(f"page.html ends with {page[-60:]!r}")
        if content["model.skops"] != OLD["model.skops"]:
            try:
                load_model(self.folder / "model.skops")
            except ModelError as error:
                wrong.append(f"model.skops: {error}")
        return wrong

    def wrong_afterwards(self) -> list[str]:
        """Run undisturbed: it succeeds, and takes away what was left."""
        done = subprocess.run(self.command, cwd=self.folder, env=_environment(), check=False)
        wrong = [] if done.returncode == 0 else [f"status {done.returncode}"]
        wrong += [f"{path} is still there" for path in self.folder.glob(f"{PREFIX}*")]
        try:
            read_table(self.folder / "kept.csv")
            load_model(self.folder / "model.skops")
        except (TableError, ModelError) as error:
            wrong.append(str(error))
        return wrong


class _Reproduce:
    """``reproduce``, which goes on with the same file of results until it is complete."""

    name = "reproduce"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.command = [*COMMAND, "reproduce", *EXPERIMENTS, "--results", DATABASE, "--json"]
        self.known: dict[str, list[str]] = {}
        self.duration = 6.0

    def end(self, number: int, rng: np.random.Generator) -> tuple[int, str]:
        status, errors = _ended(self.command, self.folder, number, rng.uniform(0, self.duration))
        if status == 0:  # complete: from the beginning again
            self._forget = True
        return status, errors

    _forget = False

    def wrong(self) -> list[str]:
        """Return what is wrong with the results: those there before are there, unchanged."""
        database = self.folder / DATABASE
        if not database.exists():
            return [] if not self.known else ["the file of results is gone"]
        try:
            found = _results(database)
        except sqlite3.Error as error:
            return [f"{DATABASE}: {error}"]
        lost = [key for key, rows in self.known.items() if found.get(key) != rows]
        self.known = found
        if self._forget:
            self.known, self._forget = {}, False
            for path in self.folder.glob(f"{DATABASE}*"):
                path.unlink()
        return [f"lost the results of {', '.join(lost)}"] if lost else []

    def wrong_afterwards(self) -> list[str]:
        """Run undisturbed: it goes on, and completes what is missing."""
        before = len(self.known)
        done = subprocess.run(
            self.command, cwd=self.folder, env=_environment(), capture_output=True, check=False
        )
        wrong = [] if done.returncode == 0 else [f"status {done.returncode}: {done.stderr!r}"]
        wrong += self.wrong()
        return wrong if len(self.known) >= before else [*wrong, "fewer results than before"]


def _results(database: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(database)) as connection:
        (state,) = connection.execute("PRAGMA integrity_check").fetchone()
        if state != "ok":
            raise sqlite3.DatabaseError(state)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if "task" not in tables:
            return {}
        keys = [key for (key,) in connection.execute("SELECT key FROM task")]
        query = 'SELECT "values" FROM result WHERE task = ? ORDER BY number'
        return {key: [row for (row,) in connection.execute(query, (key,))] for key in keys}


def _ended(command: list[str], folder: Path, number: int, after: float) -> tuple[int, str]:
    """Start a program, send it a signal after some seconds; return its status and errors."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, errors = process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        try:
            _, errors = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            return 999, f"did not end within {LONGEST:g} s after the signal"
    return process.returncode, errors
