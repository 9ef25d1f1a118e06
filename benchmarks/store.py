"""Where measurements are kept: one SQLite file, so that a run can stop and go on.

A run belongs to one machine, one set of versions and one state of the sources: should any of them
change, a new run begins, since ratios are compared within a run only.
"""

import hashlib
import json
import os
import platform
import sqlite3
from datetime import UTC, datetime

from benchmarks.common import ROOT
from benchmarks.environments import installed
from benchmarks.measure import Outcome

TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY, started TEXT, identity TEXT, description TEXT
);
CREATE TABLE IF NOT EXISTS problems (
    run INTEGER, suite TEXT, task TEXT, problem TEXT, params TEXT, measured TEXT, load REAL,
    PRIMARY KEY (run, suite, task, problem)
);
CREATE TABLE IF NOT EXISTS outcomes (
    run INTEGER, suite TEXT, task TEXT, problem TEXT, competitor TEXT, version TEXT, status TEXT,
    seconds TEXT, memory REAL, quality TEXT,
    PRIMARY KEY (run, suite, task, problem, competitor)
);
"""
PACKAGES = ("numpy", "scipy", "scikit-learn", "threadpoolctl", "jointsparse")


def description(python, *, quick):
    """Return what the measurements depend on: machine, versions, threads, sources."""
    versions = installed(python)
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {name: versions.get(name) for name in PACKAGES},
        "threads": 1,
        "quick": quick,
        "sources": sources(),
    }


def _processor():
    try:
        with open("/proc/cpuinfo") as file:  # noqa: PTH123
            return next(
                line.split(":")[1].strip() for line in file if line.startswith("model name")
            )
    except (OSError, StopIteration):
        return platform.processor()


def sources():
    """Return a fingerprint of the library's sources."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class Store:
    """Measurements of one run in a database that holds many."""

    def __init__(self, path, about, *, fresh=False):
        self.database = sqlite3.connect(path, timeout=60)  # others may be writing
        self.database.executescript(TABLES)
        identity = json.dumps(about, sort_keys=True)
        found = self.database.execute(
            "SELECT id FROM runs WHERE identity = ? ORDER BY id DESC LIMIT 1", (identity,)
        ).fetchone()
        if found is None or fresh:
            with self.database:
                cursor = self.database.execute(
                    "INSERT INTO runs (started, identity, description) VALUES (?, ?, ?)",
                    (datetime.now(UTC).isoformat(timespec="seconds"), identity, identity),
                )
            found = (cursor.lastrowid,)
        self.run, self.about = found[0], about

    def has(self, problem):
        """Whether a problem has been measured in this run."""
        return (
            self.database.execute(
                "SELECT 1 FROM problems WHERE run = ? AND suite = ? AND task = ? AND problem = ?",
                (self.run, problem.suite, problem.task, problem.name),
            ).fetchone()
            is not None
        )

    def add(self, problem, outcomes):
        """Keep all outcomes of one problem, or none: they are compared with each other."""
        place = (self.run, problem.suite, problem.task, problem.name)
        measured = datetime.now(UTC).isoformat(timespec="seconds")
        with self.database:
            self.database.execute(
                "INSERT OR REPLACE INTO problems VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*place, json.dumps(problem.params), measured, os.getloadavg()[0]),
            )
            self.database.executemany(
                "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        *place,
                        outcome.competitor,
                        outcome.version,
                        outcome.status,
                        json.dumps(outcome.seconds),
                        outcome.memory,
                        json.dumps(outcome.quality),
                    )
                    for outcome in outcomes
                ],
            )

    def outcomes(self, suite, task):
        """Return {problem: [outcome, …]} of one task, in the order of measuring."""
        rows = self.database.execute(
            "SELECT problem, competitor, version, status, seconds, memory, quality FROM outcomes "
            "WHERE run = ? AND suite = ? AND task = ? ORDER BY rowid",
            (self.run, suite, task),
        )
        found = {}
        for problem, competitor, version, status, seconds, memory, quality in rows:
            outcome = Outcome(
                competitor, version, status, json.loads(seconds), memory, json.loads(quality)
            )
            found.setdefault(problem, []).append(outcome)
        return found

    def close(self):
        self.database.close()
