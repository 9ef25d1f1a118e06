"""Temporary files, alone and in sets: of killed programs none stays, of others none is touched."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from programs import environment
from typer.testing import CliRunner

from jointsparse.cli.main import app
from jointsparse.io import Table, TableError, atomic_path, atomic_set, write_rows, write_table
from jointsparse.io import atomic as atomic_module
from jointsparse.io.atomic import PREFIX


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_what_a_killed_program_left_is_deleted(tmp_path):
    """At once; but not what a program that still runs is writing, and nothing of anybody else's."""
    for name in (f"{PREFIX}1.csv", f"{PREFIX}2.csv", ".x"):
        (tmp_path / name).write_text("half")
    (tmp_path / f"{PREFIX}folder").mkdir()
    with atomic_path(tmp_path / "a.csv") as writing:
        with atomic_path(tmp_path / "b.csv") as other:
            other.write_text("b")
        assert writing.exists()
        writing.write_text("a")
    assert names(tmp_path) == {"a.csv", "b.csv", f"{PREFIX}folder", ".x"}
    assert (tmp_path / "a.csv").read_text() == "a"


KILLED = """
import os, signal
from pathlib import Path
from jointsparse.io import atomic_path
with atomic_path("a.csv") as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_the_file_of_a_program_that_was_really_killed(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", KILLED], cwd=tmp_path, env=environment(), check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 1
    write_rows(tmp_path / "b.csv", ["a"], [[1]])
    assert names(tmp_path) == {"b.csv"}


def test_writers_do_not_delete_each_others_files(tmp_path):
    """Each looks for abandoned files in the moment in which another has made one."""
    failures = []

    def write(number):
        try:
            for count in range(60):
                with atomic_path(tmp_path / f"{number}.csv") as temporary:
                    temporary.write_text(str(count))
        except Exception as error:  # in a thread it would be lost
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert names(tmp_path) == {f"{number}.csv" for number in range(4)}
    assert {path.read_text() for path in tmp_path.iterdir()} == {"59"}


def test_a_file_that_is_taken_for_an_abandoned_one_is_made_again(tmp_path, monkeypatch):
    """Another program comes between making the file and locking it: in every way it can."""
    fcntl = pytest.importorskip("fcntl")
    usual, came = atomic_module._locked, []

    def delete(stream):
        came.append(stream.name)
        if len(came) == 1:  # deleted before the lock
            os.unlink(stream.name)  # noqa: PTH108
        elif len(came) == 2:  # the other program has the lock
            with open(stream.name, "rb") as other:  # noqa: PTH123
                fcntl.flock(other, fcntl.LOCK_EX)
                found = usual(stream)
                os.unlink(stream.name)  # noqa: PTH108
                return found
        return usual(stream)

    monkeypatch.setattr(atomic_module, "_locked", delete)
    write_rows(tmp_path / "a.csv", ["a"], [[1]])
    assert len(set(came)) == 3
    assert names(tmp_path) == {"a.csv"}


def test_where_there_are_no_locks_nothing_is_deleted(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(95, "Operation not supported")

    left = tmp_path / f"{PREFIX}1.csv"
    left.write_text("half")
    monkeypatch.setattr(atomic_module.fcntl, "flock", refuse)
    write_rows(tmp_path / "a.csv", ["a"], [[1]])
    monkeypatch.setattr(atomic_module, "fcntl", None)
    write_rows(tmp_path / "b.csv", ["a"], [[1]])
    assert names(tmp_path) == {"a.csv", "b.csv", left.name}


def test_a_set_appears_when_it_is_complete(tmp_path):
    (tmp_path / "a.csv").write_text("old")
    named = []
    with atomic_set(named):
        with atomic_path(tmp_path / "a.csv") as temporary:
            temporary.write_text("a")
        with atomic_set():  # which is part of the other
            write_rows(tmp_path / "b.csv", ["b"], [[1]])
        write_rows(tmp_path / "c.csv", ["c"], [[1]])  # deletes no file that waits
        assert (tmp_path / "a.csv").read_text() == "old"
        assert named == []
        assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 3
    assert names(tmp_path) == {"a.csv", "b.csv", "c.csv"}
    assert named == [tmp_path / f"{name}.csv" for name in "abc"]
    assert (tmp_path / "a.csv").read_text() == "a"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_set_that_fails_leaves_what_was_there(tmp_path, error):
    (tmp_path / "a.csv").write_text("old")

    def write():
        with atomic_set():
            write_rows(tmp_path / "a.csv", ["a"], [[1]])
            write_rows(tmp_path / "b.csv", ["b"], [[1]])
            with atomic_path(tmp_path / "c.csv"):
                raise error

    with pytest.raises(error):
        write()
    assert names(tmp_path) == {"a.csv"}
    assert (tmp_path / "a.csv").read_text() == "old"
    write_rows(tmp_path / "d.csv", ["d"], [[1]])  # by itself again
    assert (tmp_path / "d.csv").exists()


def test_a_name_that_is_refused_in_the_end(tmp_path):
    named = []

    def write():
        with atomic_set(named):
            for name in ("a.csv", "b.csv", "c.csv"):
                write_rows(tmp_path / name, ["a"], [[1]])
            (tmp_path / "b.csv").mkdir()

    with pytest.raises(TableError, match=r"b\.csv cannot be written"):
        write()
    assert named == [tmp_path / "a.csv"]
    assert names(tmp_path) == {"a.csv", "b.csv"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_signals_wait_between_the_names_of_a_set(tmp_path, monkeypatch):
    usual = atomic_module.Path.replace

    def replace(self, target):
        signal.raise_signal(signal.SIGINT)
        return usual(self, target)

    monkeypatch.setattr(atomic_module.Path, "replace", replace)
    named = []

    def write():
        with atomic_set(named):
            write_rows(tmp_path / "a.csv", ["a"], [[1]])
            write_rows(tmp_path / "b.csv", ["b"], [[1]])

    with pytest.raises(KeyboardInterrupt):
        write()
    assert names(tmp_path) == {"a.csv", "b.csv"}
    assert len(named) == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# The last output of each command fails; none of the others may be there then.
COMMANDS = {
    "compare": [["--output", "a.csv"], ["--figure", "a.png"], ["--report", "a.html"]],
    "path": [["--output", "a.csv"], ["--figure", "a.png"]],
    "select": [
        ["--ranking", "a.csv"],
        ["--output", "b.csv"],
        ["--report", "a.html"],
        ["--save", "a.skops"],
    ],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    values = np.random.default_rng(0).standard_normal((40, 5)) * np.arange(1, 6)
    write_table(tmp_path / "in.csv", Table(values, list("abcde")))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(name):
    words = [name, "in.csv", "--quiet", *(word for pair in COMMANDS[name] for word in pair)]
    words += {
        "compare": ["--methods", "greedy,laplacian-score", "--subsamples", "2", "--features", "2"],
        "path": ["--points", "2"],
        "select": ["--path-points", "0", "--features", "2"],
    }[name]
    return words


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("error", "status"), [(OSError(28, "No space left on device"), 2), (KeyboardInterrupt(), 130)]
)
def test_the_results_of_a_command_appear_together(folder, monkeypatch, name, error, status):
    outputs = {pair[1] for pair in COMMANDS[name]}
    usual, synced = atomic_module._to_disk, []

    def full(path):
        synced.append(path)
        if len(synced) == len(outputs):
            raise error
        usual(path)

    monkeypatch.setattr(atomic_module, "_to_disk", full)
    done = CliRunner().invoke(app, command(name))
    assert done.exit_code == status, done.output
    assert names(folder) == {"in.csv"}
    if status == 2:
        assert "No space left on device" in done.stderr
        assert "written before" not in done.stderr
    else:
        assert "nothing was written" in done.stderr
    monkeypatch.setattr(atomic_module, "_to_disk", usual)
    done = CliRunner().invoke(app, command(name))
    assert done.exit_code == 0, done.output
    assert names(folder) == {"in.csv", *outputs}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_end_asked_for_when_all_is_written_says_so(folder, monkeypatch, name):
    usual = atomic_module.Path.replace

    def replace(self, target):
        signal.raise_signal(signal.SIGINT)
        return usual(self, target)

    monkeypatch.setattr(atomic_module.Path, "replace", replace)
    done = CliRunner().invoke(app, command(name))
    assert done.exit_code == 130, done.output
    outputs = {pair[1] for pair in COMMANDS[name]}
    assert names(folder) == {"in.csv", *outputs}
    assert "nothing was written" not in done.stderr
    assert "were written before" in done.stderr
