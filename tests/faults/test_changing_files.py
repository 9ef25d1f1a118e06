"""Files of every format that change while they are read: refused, never read as half and half."""

import os
import shutil
import time

import numpy as np
import pytest

from jointsparse import CSPCA, GreedySelector
from jointsparse.io import Table, TableError, versions, write_table
from jointsparse.io.versions import Folder
from jointsparse.sources import as_source, open_source

ROWS = 4000
X = np.random.default_rng(0).normal(size=(ROWS, 3))
OTHER = np.random.default_rng(1).normal(size=(ROWS, 3))
REFUSED = r"changed while it was read|does not exist|damaged"


def write_hdf5(path, values):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", track_order=False) as file:
        file.create_dataset("X", data=values, chunks=(500, 3), track_times=False)


def write_zarr(path, values, zarr_format=3):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(
        path,
        shape=values.shape,
        dtype=values.dtype,
        chunks=(500, 2),
        zarr_format=zarr_format,
        overwrite=True,
        compressors=None,
    )
    stored[:] = values


def write_old_zarr(path, values):
    write_zarr(path, values, zarr_format=2)


def write_plain(path, values):
    write_table(path, Table(values, list("abc")))


WRITERS = {
    "a.h5": write_hdf5,
    "a.zarr": write_zarr,
    "old.zarr": write_old_zarr,
    "a.npy": write_plain,
    "a.parquet": write_plain,
    "a.arrow": write_plain,
    "a.csv": write_plain,
    "a.csv.gz": write_plain,
}


LAST_CHUNK = {"a.zarr": "c/7/1", "old.zarr": "7.1"}


def last_part(path):
    """Return the file in which the last rows are."""
    return path / LAST_CHUNK[path.name] if path.is_dir() else path


def overwritten(path):
    """Other bytes, as many, and the old time of the last change: only the system knows."""
    file = last_part(path)
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[len(content) // 2 :] = content[len(content) // 2 :][::-1]
    with file.open("r+b") as stream:
        stream.write(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def truncated(path):
    os.truncate(last_part(path), 1000)


def removed(path):
    """Of a Zarr array, a part that is not there would be read as zeros."""
    last_part(path).unlink()


def replaced(path):
    """Another table of the same shape takes the place of this one, with all its old times."""
    other = path.with_name(f"other{''.join(path.suffixes)}")
    WRITERS[path.name](other, OTHER)
    if path.is_dir():
        shutil.rmtree(path)
    other.replace(path)


def swapped(path):
    """The same with a table that is older than this one was when it was opened."""
    path.rename(path.with_name("away"))
    path.with_name("older").rename(path)


CHANGES = [overwritten, truncated, removed, replaced, swapped]


@pytest.fixture(params=WRITERS)
def path(request, tmp_path):
    path = tmp_path / request.param
    WRITERS[request.param](path, OTHER)
    path.rename(tmp_path / "older")
    WRITERS[request.param](path, X)
    return path


@pytest.mark.parametrize("change", CHANGES)
def test_in_the_middle_of_a_pass(path, change):
    blocks = open_source(path).blocks(entries=1500)
    next(blocks)
    time.sleep(0.02)
    change(path)
    with pytest.raises(TableError, match=REFUSED):
        list(blocks)


@pytest.mark.parametrize("change", CHANGES)
def test_before_the_second_pass(path, change):
    source = open_source(path)
    np.testing.assert_allclose(np.concatenate(list(source.blocks(entries=1500))), X)
    time.sleep(0.02)
    change(path)
    with pytest.raises(TableError, match=REFUSED):
        GreedySelector(n_features_to_select=1).fit(source)


@pytest.mark.parametrize("change", [overwritten, removed])
def test_before_some_columns_are_read(path, change):
    source = open_source(path)
    time.sleep(0.02)
    change(path)
    with pytest.raises(TableError, match=REFUSED):
        source.read_columns(np.array([0, 2]))


def test_a_file_that_stays_is_read_as_often_as_wanted(path):
    source = open_source(path)
    for _ in range(3):
        np.testing.assert_allclose(source.read(), X)
        np.testing.assert_allclose(source.read_columns(np.array([0, 2])), X[:, [0, 2]])


@pytest.mark.parametrize("name", ["a.h5", "a.zarr", "a.npy"])
def test_between_the_passes_of_a_fit(tmp_path, name):
    """One pass for the moments, and then one for every weighting of the samples."""
    path = tmp_path / name
    WRITERS[name](path, X)
    source = open_source(path, memory="100kB")
    usual, passes = source.blocks, []

    def blocks(entries=None):
        passes.append(1)
        if len(passes) == 3:
            time.sleep(0.02)
            overwritten(path)
        return usual(entries)

    source.blocks = blocks
    with pytest.raises(TableError, match="changed while it was read"):
        CSPCA(alpha=0.1, eta=0.1).fit(source)
    assert len(passes) == 3


@pytest.mark.parametrize("change", [overwritten, removed])
def test_arrays_that_were_opened_elsewhere(tmp_path, change):
    zarr, h5py = pytest.importorskip("zarr"), pytest.importorskip("h5py")
    write_zarr(tmp_path / "a.zarr", X)
    write_hdf5(tmp_path / "a.h5", X)
    with h5py.File(tmp_path / "a.h5", "r") as file:
        for path, stored in (
            (tmp_path / "a.zarr", zarr.open_array(tmp_path / "a.zarr", mode="r")),
            (tmp_path / "a.h5", file["X"]),
        ):
            source = as_source(stored)
            np.testing.assert_array_equal(source.read(), X)
            time.sleep(0.02)
            change(path)
            with pytest.raises(TableError, match=REFUSED):
                source.read()


def test_arrays_that_are_in_no_file(tmp_path):
    """Or in one that this program is writing: who opened it knows what is in it."""
    zarr, h5py = pytest.importorskip("zarr"), pytest.importorskip("h5py")
    stored = zarr.array(X, chunks=(500, 2))
    np.testing.assert_array_equal(as_source(stored).read(), X)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        source = as_source(file.create_dataset("X", data=X))
        file.create_dataset("Y", data=OTHER)
        file.flush()
        np.testing.assert_array_equal(source.read(), X)


def test_a_folder_written_by_a_clock_that_is_ahead(tmp_path, monkeypatch):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "0").write_bytes(b"chunk")
    (tmp_path / "mark").touch()
    ahead = time.time_ns() - 10**10
    monkeypatch.setattr(versions.time, "time_ns", lambda: ahead)
    with Folder(tmp_path).open("c/0") as stream:
        assert stream.read() == b"chunk"
