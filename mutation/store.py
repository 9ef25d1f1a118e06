"""What is known so far: which test reaches which line, and what became of every fault tried."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

from mutation.operators import Mutant

TABLES = """
CREATE TABLE IF NOT EXISTS texts (file TEXT PRIMARY KEY, hash TEXT);
CREATE TABLE IF NOT EXISTS tests (test TEXT PRIMARY KEY, file TEXT, seconds REAL);
CREATE TABLE IF NOT EXISTS lines (file TEXT, line INTEGER, test TEXT);
CREATE INDEX IF NOT EXISTS by_line ON lines (file, line);
CREATE TABLE IF NOT EXISTS modules (name TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS results (
    file TEXT, number INTEGER, line INTEGER, before TEXT, after TEXT,
    outcome TEXT, by TEXT, run INTEGER, reaching INTEGER, seconds REAL,
    PRIMARY KEY (file, number));
"""


class Store:
    """A database in one file; its results hold for the texts they were found on."""

    def __init__(self, path: Path, root: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.base = sqlite3.connect(path)
        self.base.executescript(TABLES)

    def changed(self, files: list[str]) -> list[str]:
        """Return the files whose text is not the one that the database knows."""
        known = dict(self.base.execute("SELECT file, hash FROM texts"))
        return [file for file in files if known.get(file) != self._hash(file)]

    def forget_results(self, file: str) -> None:
        self.base.execute("DELETE FROM results WHERE file = ?", (file,))
        self.base.commit()

    def reaching(self, file: str) -> list[str]:
        """Return the test files with a test that reaches a source file."""
        query = """SELECT DISTINCT tests.file FROM lines JOIN tests USING (test)
                   WHERE lines.file = ?"""
        return [row[0] for row in self.base.execute(query, (file,))]

    def know(self, file: str) -> None:
        self.base.execute("INSERT OR REPLACE INTO texts VALUES (?, ?)", (file, self._hash(file)))
        self.base.commit()

    def _hash(self, file: str) -> str:
        path = self.root / file
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""

    def put_coverage(
        self,
        test_file: str,
        seconds: dict[str, float],
        lines: list[tuple[str, int, str]],
        modules: list[str],
    ) -> None:
        """Replace what is known about the tests of one file."""
        with self.base:
            old = "SELECT test FROM tests WHERE file = ?"
            self.base.execute(f"DELETE FROM lines WHERE test IN ({old})", (test_file,))
            self.base.execute("DELETE FROM tests WHERE file = ?", (test_file,))
            rows = [(test, test_file, spent) for test, spent in seconds.items()]
            self.base.executemany("INSERT OR REPLACE INTO tests VALUES (?, ?, ?)", rows)
            passed = [row for row in lines if row[2] in seconds]
            self.base.executemany("INSERT INTO lines VALUES (?, ?, ?)", passed)
            names = [(name,) for name in modules]
            self.base.executemany("INSERT OR IGNORE INTO modules VALUES (?)", names)

    def modules(self) -> list[str]:
        return [row[0] for row in self.base.execute("SELECT name FROM modules ORDER BY name")]

    def tests_for(self, mutant: Mutant) -> list[tuple[str, float]]:
        """Return the tests that reach a fault with their seconds: past killers, then the fast."""
        query = """SELECT DISTINCT tests.test, seconds FROM lines JOIN tests USING (test)
                   WHERE lines.file = ? AND line BETWEEN ? AND ?"""
        extent = (0, 10**9) if mutant.at_import else (mutant.first, mutant.last)
        found = self.base.execute(query, (mutant.file, *extent)).fetchall()
        killers = """SELECT by, COUNT(*) FROM results
                     WHERE file = ? AND outcome = 'killed' GROUP BY by"""
        kills = dict(self.base.execute(killers, (mutant.file,)))
        return sorted(found, key=lambda row: row[1] / (1 + kills.get(row[0], 0)))

    def put_result(
        self, mutant: Mutant, outcome: str, by: str, run: int, reaching: int, seconds: float
    ) -> None:
        row = (mutant.file, mutant.number, mutant.line, mutant.before, mutant.after)
        self.base.execute(
            "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, outcome, by, run, reaching, seconds),
        )
        self.base.commit()

    def results(self, file: str) -> dict[int, tuple[str, int, str, str, str, int, int]]:
        """Return outcome, line, before, after, killer, tests run and tests reaching by number."""
        query = """SELECT number, outcome, line, before, after, by, run, reaching
                   FROM results WHERE file = ?"""
        return {row[0]: row[1:] for row in self.base.execute(query, (file,))}
