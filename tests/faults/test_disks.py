"""Disks that are full, folders that cannot be written to, files that change or end early."""

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from programs import jointsparse, one_sentence
from pyarrow import parquet

from jointsparse import GreedySelector
from jointsparse.experiments import Store, Task, store
from jointsparse.io import Table, TableError, read_table, write_table
from jointsparse.sources import open_source

FULL = 20_000  # bytes of a file before the disk is full
OLD = b"what was there before"


@pytest.fixture
def table(tmp_path):
    values = np.random.default_rng(0).standard_normal((500, 20)) * np.arange(1, 21)
    write_table(tmp_path / "in.parquet", Table(values, [f"c{j}" for j in range(20)]))
    return tmp_path / "in.parquet"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--output", "out.csv"),
        ("--output", "out.parquet"),
        ("--output", "out.arrow"),
        ("--output", "out.npy"),
        ("--output", "out.npz"),
        ("--output", "out.mtx"),
        ("--output", "out.csv.gz"),
        ("--report", "out.html"),
    ],
)
def test_a_full_disk(table, option, name):
    """The limit of the size of a file does what a full disk does: writing fails halfway."""
    target = table.parent / name
    target.write_bytes(OLD)
    arguments = ["select", table, option, target, "--features", 10, "--quiet", "--path-points", 0]
    done = jointsparse(*arguments, folder=table.parent, largest_file=FULL)
    assert done.returncode == 2, done.stderr
    assert one_sentence(done.stderr)
    assert "File too large" in done.stderr or "is the disk full?" in done.stderr
    assert target.read_bytes() == OLD
    assert {path.name for path in table.parent.iterdir()} == {"in.parquet", name}
    assert jointsparse(*arguments, folder=table.parent).returncode == 0
    assert target.read_bytes() != OLD


@pytest.mark.slow
def test_a_full_disk_under_the_model(table):
    target = table.parent / "model.skops"
    arguments = ["select", table, "--save", target, "--quiet"]
    done = jointsparse(*arguments, folder=table.parent, largest_file=2000)
    assert done.returncode == 2, done.stderr
    assert one_sentence(done.stderr)
    assert {path.name for path in table.parent.iterdir()} == {"in.parquet"}


@pytest.mark.slow
def test_a_full_disk_under_the_results_of_reproduce(tmp_path):
    arguments = ["reproduce", "001-pitprops", "--quick", "--results", "results.sqlite"]
    done = jointsparse(*arguments, folder=tmp_path, largest_file=FULL)
    assert done.returncode == 2, done.stderr
    assert one_sentence(done.stderr)
    assert "results.sqlite" in done.stderr
    assert jointsparse(*arguments, folder=tmp_path).returncode == 0


@pytest.mark.slow
def test_a_full_file_system(table, tmp_path):
    """The same on a file system of a megabyte, where one can be mounted."""
    small = tmp_path / "small"
    small.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], check=False
        ).returncode
    ):
        pytest.skip("a file system cannot be mounted here")
    try:
        arguments = ["select", table, "--features", 10, "--output", small / "a.csv"]
        done = jointsparse(*arguments, folder=tmp_path)
        assert done.returncode == 2, done.stderr
        assert "No space left on device" in done.stderr
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.slow
def test_a_read_only_folder(table, tmp_path):
    """A folder that not even root can write to, where there is one to be had."""
    closed = tmp_path / "closed"
    closed.mkdir()
    mounted = False
    if os.geteuid() == 0:
        mounting = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(closed)]
        mounted = subprocess.run(mounting, check=False).returncode == 0
        if not mounted:
            pytest.skip("root may write anywhere, and no file system can be mounted here")
    else:
        closed.chmod(0o500)
    try:
        for option, name in (("--output", "a.csv"), ("--report", "a.html"), ("--save", "a.skops")):
            done = jointsparse("select", table, option, closed / name, folder=tmp_path)
            assert done.returncode == 2, done.stderr
            assert one_sentence(done.stderr)
            assert "cannot be written" in done.stderr
        done = jointsparse("reproduce", "001", "--results", closed / "r.sqlite", folder=tmp_path)
        assert done.returncode == 2
        assert one_sentence(done.stderr)
    finally:
        if mounted:
            subprocess.run(["umount", str(closed)], check=True)


def test_a_file_in_the_place_of_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TableError, match="there is no directory"):
        write_table(tmp_path / "file" / "a.csv", Table(np.eye(2), ["a", "b"]))


def test_a_folder_that_refuses_even_to_delete(tmp_path, monkeypatch):
    """As a read-only file system does: the first error is told, not that of tidying up."""

    def refuse(*arguments, **options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "touch", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(TableError, match=r"a\.csv cannot be written: Read-only file system\."):
        write_table(tmp_path / "a.csv", Table(np.eye(2), ["a", "b"]))


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9, 0.999])
def test_truncated_parquet(table, share):
    content = table.read_bytes()
    table.write_bytes(content[: int(share * len(content))])
    with pytest.raises(TableError, match="damaged"):
        read_table(table)
    with pytest.raises(TableError, match="damaged"):
        open_source(table)


def written_again(path):
    content = path.read_bytes()
    time.sleep(0.01)
    path.write_bytes(content + content)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv", ".npy"])
@pytest.mark.parametrize("change", ["longer", "shorter", "gone", "replaced"])
def test_a_file_that_changes_between_blocks(tmp_path, suffix, change):
    """Half of one table and half of another is none: also not by way of a crash."""
    path = tmp_path / f"a{suffix}"
    write_table(path, Table(np.random.default_rng(0).normal(size=(5000, 3)), list("abc")))
    blocks = open_source(path).blocks(entries=300)
    next(blocks)
    if change == "longer":
        written_again(path)
    elif change == "shorter":
        os.truncate(path, 3000)
    elif change == "gone":
        path.unlink()
    else:
        write_table(path, Table(np.zeros((5000, 3)), list("abc")))
    with pytest.raises(TableError, match=r"changed while it was read|does not exist|damaged"):
        list(blocks)


def test_a_file_that_changes_between_two_passes(tmp_path):
    path = tmp_path / "a.csv"
    write_table(path, Table(np.random.default_rng(0).normal(size=(50, 3)), list("abc")))
    source = open_source(path)
    list(source.blocks())
    written_again(path)
    with pytest.raises(TableError, match="changed while it was read"):
        GreedySelector(n_features_to_select=1).fit(source)


def test_a_file_that_changes_while_it_is_read_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "a.npy"
    np.save(path, np.eye(3))
    from jointsparse.io import reading

    real = reading.read_matrix

    def slow(*arguments):
        result = real(*arguments)
        written_again(path)
        return result

    monkeypatch.setattr(reading, "read_matrix", slow)
    with pytest.raises(TableError, match="changed while it was read; run again"):
        read_table(path)


@pytest.fixture
def locked(tmp_path):
    """A database that another connection has locked for writing."""
    Store(tmp_path / "results.sqlite")
    connection = sqlite3.connect(
        tmp_path / "results.sqlite", isolation_level=None, check_same_thread=False
    )
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.close()


def test_a_locked_database_is_waited_for(tmp_path, locked):
    threading.Timer(0.5, lambda: locked.execute("COMMIT")).start()
    task = Task("demo", {"n": 1})
    Store(tmp_path / "results.sqlite").add(task, [{"x": 1}], seconds=0.1)
    assert Store(tmp_path / "results.sqlite").finished("demo") == {task.key}


LOCKED = """
import sys
from jointsparse.experiments import store
store.WAIT = 0.2
sys.argv = ["jointsparse", "reproduce", "001-pitprops", "--quick", "--results", "results.sqlite"]
from jointsparse.cli.start import main
main()
"""


@pytest.mark.slow
def test_a_database_that_stays_locked_is_told(tmp_path, locked):
    done = subprocess.run(
        [sys.executable, "-c", LOCKED], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert one_sentence(done.stderr)
    assert "database is locked" in done.stderr
    locked.execute("COMMIT")
    done = jointsparse(
        "reproduce", "001-pitprops", "--quick", "--results", "results.sqlite", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_a_transaction_that_is_cut_off_leaves_nothing(tmp_path, monkeypatch):
    """The power fails between the task and its results: neither is there afterwards."""
    results = Store(tmp_path / "results.sqlite")
    task = Task("demo", {"n": 1})

    def rows():
        yield {"x": 1}

    monkeypatch.setattr(store.json, "dumps", lambda *a, **k: object())
    with pytest.raises(sqlite3.Error):
        results.add(task, rows(), seconds=0.1)
    monkeypatch.undo()
    assert results.finished("demo") == set()
    assert results.results("demo") == []
    results.add(task, rows(), seconds=0.1)
    assert len(results.results("demo")) == 1


def test_a_damaged_database_is_told(tmp_path):
    from typer.testing import CliRunner

    from jointsparse.cli.main import app

    Store(tmp_path / "good.sqlite")
    shutil.copy(tmp_path / "good.sqlite", tmp_path / "bad.sqlite")
    content = bytearray((tmp_path / "bad.sqlite").read_bytes())
    content[100:4096] = b"\xff" * 3996
    (tmp_path / "bad.sqlite").write_bytes(content)
    arguments = ["reproduce", "001-pitprops", "--quick", "--results", str(tmp_path / "bad.sqlite")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "bad.sqlite cannot be" in result.stderr


def test_a_row_group_that_is_cut_off(tmp_path):
    """The end, which says what is where, is whole; what lies before it is not."""
    path = tmp_path / "a.parquet"
    values = np.random.default_rng(0).normal(size=20_000)
    parquet.write_table(pa.table({"a": values, "b": values}), path)
    content = bytearray(path.read_bytes())
    content[1000:100_000] = b"\0" * 99_000
    path.write_bytes(content)
    with pytest.raises(TableError):
        read_table(path)
    with pytest.raises(TableError):
        list(open_source(path).blocks())
