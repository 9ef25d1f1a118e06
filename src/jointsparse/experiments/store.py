"""Results in one SQLite file: every finished task is in it whole, or not at all."""

from __future__ import annotations

import json
import platform
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from jointsparse.experiments.task import Row, Task

SCHEMA = """
CREATE TABLE IF NOT EXISTS task (
    key TEXT PRIMARY KEY,
    experiment TEXT NOT NULL,
    "case" TEXT NOT NULL,
    seconds REAL NOT NULL,
    finished TEXT NOT NULL,
    machine TEXT NOT NULL,
    versions TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS result (
    task TEXT NOT NULL REFERENCES task(key),
    number INTEGER NOT NULL,
    "values" TEXT NOT NULL,
    PRIMARY KEY (task, number)
);
CREATE TABLE IF NOT EXISTS failure (
    key TEXT NOT NULL,
    experiment TEXT NOT NULL,
    "case" TEXT NOT NULL,
    message TEXT NOT NULL,
    happened TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS task_of_experiment ON task(experiment);
"""
PACKAGES = ("jointsparse", "numpy", "scipy", "scikit-learn")
WAIT = 60.0  # seconds that one writer waits for another


@dataclass(frozen=True)
class Finished:
    """A task, its rows, and where they were computed: perhaps on another machine."""

    task: Task
    rows: list[Row]
    seconds: float
    machine: str
    versions: str


class Store:
    """A file of results.

    Parameters
    ----------
    path : str or Path
        The SQLite file; made where it does not exist.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from jointsparse.experiments import Store, Task
    >>> task = Task("demo", {"seed": 1})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(pathlib.Path(folder) / "results.sqlite")
    ...     store.add(task, [{"accuracy": 0.5}], seconds=0.1)
    ...     store.finished("demo") == {task.key}, store.results("demo")
    (True, [({'seed': 1}, {'accuracy': 0.5})])
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with self._connection() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(SCHEMA)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        # One short connection for each piece of work: nothing to share between processes.
        connection = sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()

    def add(self, task: Task, rows: Iterable[Row], *, seconds: float) -> None:
        """Keep results that were computed here, now; see :meth:`add_finished`."""
        self.add_finished(Finished(task, list(rows), seconds, machine(), versions()))

    def add_finished(self, done: Finished) -> None:
        """Keep the results of a finished task in one transaction; a second time nothing changes."""
        task = done.task
        values = [json.dumps(row, sort_keys=True) for row in done.rows]
        about = (done.seconds, _now(), done.machine, done.versions)
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            known = connection.execute("SELECT 1 FROM task WHERE key = ?", (task.key,)).fetchone()
            if known is None:
                connection.execute(
                    "INSERT INTO task VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (task.key, task.experiment, task.text, *about),
                )
                connection.executemany(
                    "INSERT INTO result VALUES (?, ?, ?)",
                    [(task.key, number, text) for number, text in enumerate(values)],
                )
                connection.execute("DELETE FROM failure WHERE key = ?", (task.key,))
            connection.execute("COMMIT")

    def add_failure(self, task: Task, message: str) -> None:
        """Note that a task failed; it is tried again in the next run."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM failure WHERE key = ?", (task.key,))
            connection.execute(
                "INSERT INTO failure VALUES (?, ?, ?, ?, ?)",
                (task.key, task.experiment, task.text, message, _now()),
            )
            connection.execute("COMMIT")

    def finished(self, experiment: str | None = None) -> set[str]:
        """Return the keys of the finished tasks."""
        query = "SELECT key FROM task WHERE ? IS NULL OR experiment = ?"
        with self._connection() as connection:
            return {key for (key,) in connection.execute(query, (experiment, experiment))}

    def results(
        self, experiment: str, keys: Iterable[str] | None = None
    ) -> list[tuple[dict[str, Any], Row]]:
        """Return all (case, row) pairs of an experiment, ordered by case.

        Parameters
        ----------
        experiment : str
            Its name.
        keys : iterable of str or None
            The tasks wanted; None returns those of all.
        """
        query = (
            'SELECT task.key, task."case", result."values" FROM result JOIN task '
            "ON task.key = result.task WHERE task.experiment = ? "
            'ORDER BY task."case", result.number'
        )
        wanted = None if keys is None else set(keys)
        with self._connection() as connection:
            return [
                (json.loads(case), json.loads(values))
                for key, case, values in connection.execute(query, (experiment,))
                if wanted is None or key in wanted
            ]

    def done(self, experiment: str, keys: Iterable[str] | None = None) -> list[Finished]:
        """Return the finished tasks of an experiment with their rows; see :meth:`results`."""
        query = (
            'SELECT task.key, task."case", seconds, machine, versions, result."values" FROM task '
            "LEFT JOIN result ON task.key = result.task WHERE task.experiment = ? "
            'ORDER BY task."case", result.number'
        )
        wanted = None if keys is None else set(keys)
        found: dict[str, Finished] = {}
        with self._connection() as connection:
            for key, case, *about, values in connection.execute(query, (experiment,)):
                if wanted is not None and key not in wanted:
                    continue
                task = Task(experiment, json.loads(case))
                one = found.setdefault(key, Finished(task, [], *about))
                if values is not None:
                    one.rows.append(json.loads(values))
        return list(found.values())

    def seconds(self, experiment: str) -> dict[str, float]:
        """Return how long each finished task took, by key."""
        query = "SELECT key, seconds FROM task WHERE experiment = ?"
        with self._connection() as connection:
            return dict(connection.execute(query, (experiment,)).fetchall())

    def failures(self, experiment: str) -> list[tuple[dict[str, Any], str]]:
        """Return the cases that failed last time, with the messages."""
        query = 'SELECT "case", message FROM failure WHERE experiment = ? ORDER BY "case"'
        with self._connection() as connection:
            return [
                (json.loads(case), text) for case, text in connection.execute(query, (experiment,))
            ]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine() -> str:
    """Describe the kind of machine; not which one."""
    return f"{platform.system()} {platform.machine()}, Python {sys.version.split()[0]}"


def versions() -> str:
    """Return the versions of the packages that numbers depend on, as JSON."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return json.dumps(found)
