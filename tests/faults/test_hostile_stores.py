"""Zarr folders and HDF5 files made to do harm, and what is no file where one is expected."""

import asyncio
import json
import os
import time
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from jointsparse import GreedySelector, load_model, save_model
from jointsparse.cli.main import app
from jointsparse.io import TableError, read_table, write_rows
from jointsparse.io.versions import Folder
from jointsparse.persistence import ModelError
from jointsparse.sources import open_source

SECONDS = 10.0
X = np.random.default_rng(0).normal(size=(40, 6))
needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")


def refused(function, path, *words):
    """The path is refused in one sentence, in no time."""
    started = time.process_time()
    with pytest.raises(TableError) as caught:
        function(path)
    assert time.process_time() - started < SECONDS
    sentence = str(caught.value)
    assert str(path) in sentence
    assert "\n" not in sentence
    assert len(sentence) < 1000
    for word in words:
        assert word in sentence


def read(path):
    """Open and read all of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Zarr's, about what it does not know
        for _ in open_source(path).blocks(entries=60):
            pass


@pytest.fixture
def store(tmp_path):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(
        tmp_path / "a.zarr", shape=X.shape, dtype=X.dtype, chunks=(10, 6), compressors=None
    )
    stored[:] = X
    return tmp_path / "a.zarr"


def says(store, **changes):
    """Let the metadata of an array say something else."""
    metadata = json.loads((store / "zarr.json").read_text())
    for name, value in changes.items():
        if name == "chunks":
            metadata["chunk_grid"]["configuration"]["chunk_shape"] = value
        else:
            metadata[name] = value
    (store / "zarr.json").write_text(json.dumps(metadata))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"chunks": [0, 6]}, ["damaged"]),
        ({"chunks": [-10, 6]}, ["damaged"]),
        ({"chunks": [10]}, ["damaged"]),
        ({"chunks": [10, 6, 1]}, ["damaged"]),
        ({"chunks": []}, ["damaged"]),
        ({"chunks": "ten"}, ["damaged"]),
        ({"chunks": [2**40, 6]}, ["chunks of shape", "does not fit in memory"]),
        ({"shape": [2**70, 6]}, ["damaged", "no file can hold"]),
        ({"shape": [2**60, 6]}, ["damaged", "no file can hold"]),
        ({"shape": [2, 2**59]}, ["damaged", "no file can hold"]),
        ({"shape": [2, 2**50]}, ["does not fit in memory", "columns"]),
        ({"shape": [-40, 6]}, ["damaged"]),
        ({"shape": [0, 6]}, ["no numbers"]),
        ({"shape": [40]}, ["damaged"]),
        ({"shape": None}, ["damaged"]),
        ({"data_type": "complex128", "fill_value": [0, 0]}, ["real numbers"]),
        ({"codecs": []}, ["damaged"]),
        ({"codecs": [{"name": "nonsense"}]}, ["damaged"]),
    ],
    ids=str,
)
def test_absurd_metadata(store, changes, words):
    says(store, **changes)
    refused(read, store, *words)


@pytest.mark.parametrize("chunks", [[0, 6], [10], [-1, -1], [2**40, 6]])
def test_absurd_metadata_of_the_old_format(tmp_path, chunks):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "a.zarr"
    zarr.create_array(path, shape=X.shape, dtype=X.dtype, chunks=(10, 6), zarr_format=2)[:] = X
    metadata = json.loads((path / ".zarray").read_text())
    (path / ".zarray").write_text(json.dumps(metadata | {"chunks": chunks}))
    refused(read, path)


@pytest.mark.parametrize("text", ["", "{", "[" * 10**5, "null", '{"zarr_format": 3}', "\0" * 99])
def test_metadata_that_is_none(store, text):
    (store / "zarr.json").write_text(text)
    refused(read, store)


def pipe(path):
    os.mkfifo(path)


def zeros(path):
    path.symlink_to("/dev/zero")


def elsewhere(path):
    other = path.parents[2].with_name("elsewhere")
    other.write_bytes(b"\0" * 480)
    path.symlink_to(other)


def loop(path):
    path.symlink_to(path)


SPECIAL = [pipe, zeros, elsewhere, loop]


@needs_pipes
@pytest.mark.parametrize("name", ["c/2/0", "zarr.json"])
@pytest.mark.parametrize("special", [*SPECIAL, os.mkdir], ids=lambda f: f.__name__)
def test_chunks_that_are_no_files(store, name, special):
    """A pipe would be waited for, and of zeros there is no end."""
    (store / name).unlink()
    special(store / name)
    refused(read, store)


@needs_pipes
def test_a_folder_of_chunks_that_is_elsewhere(store):
    (store / "c" / "2").rename(store.with_name("2"))
    (store / "c" / "2").symlink_to(store.with_name("2"))
    with pytest.raises(TableError, match="a link"):
        read(store)


@pytest.mark.parametrize("name", ["c/2/0", "zarr.json"])
def test_a_chunk_of_a_terabyte(store, name):
    os.truncate(store / name, 10**12)
    with pytest.raises(TableError, match=r"does not fit in memory.* 1 TB"):
        read(store)


def test_names_that_lead_out_of_the_folder(store):
    folder = Folder(store)
    for name in ("../a.txt", "/etc/passwd", "c/../../a.txt"):
        with pytest.raises(TableError, match="outside of its folder"), folder.open(name):
            pass


def test_a_packed_store(store):
    (store.parent / "b.zarr").write_bytes(b"PK")
    refused(read, store.parent / "b.zarr", "is no folder")


def test_parts_of_chunks_are_read(tmp_path):
    """With several chunks in a file, Zarr asks for parts of it."""
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(
        tmp_path / "a.zarr", shape=X.shape, dtype=X.dtype, chunks=(5, 2), shards=(20, 6)
    )
    stored[:] = X
    source = open_source(tmp_path / "a.zarr")
    np.testing.assert_array_equal(source.read(), X)
    np.testing.assert_array_equal(source.read_columns(np.array([2])), X[:, 2:3])
    from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
    from zarr.core.buffer import default_buffer_prototype

    content = (tmp_path / "a.zarr" / "c" / "0" / "0").read_bytes()
    wanted = [None, RangeByteRequest(3, 9), OffsetByteRequest(7), SuffixByteRequest(5)]
    store = source.stored.store
    found = asyncio.run(
        store.get_partial_values(
            default_buffer_prototype(), [*(("c/0/0", part) for part in wanted), ("none", None)]
        )
    )
    expected = [content, content[3:9], content[7:], content[-5:]]
    assert [part.to_bytes() for part in found[:-1]] == expected
    assert found[-1] is None


def hdf5(path, make):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        make(h5py, file)
    return path


def virtual(h5py, file):
    layout = h5py.VirtualLayout(shape=X.shape, dtype=X.dtype)
    layout[:] = h5py.VirtualSource("/dev/zero", "X", shape=X.shape)
    file.create_virtual_dataset("X", layout)


def outside(h5py, file):
    file.create_dataset("X", shape=X.shape, dtype=X.dtype, external=[("/dev/zero", 0, X.nbytes)])


def test_numbers_that_are_in_other_files(tmp_path):
    for number, make in enumerate((virtual, outside)):
        path = hdf5(tmp_path / f"{number}.h5", make)
        refused(read, path, "keeps the numbers of /X in other files", "h5repack")


def test_links_out_of_a_file_are_not_followed(tmp_path):
    hdf5(tmp_path / "there.h5", lambda h5py, file: file.create_dataset("X", data=X))

    def link(h5py, file):
        file["X"] = h5py.ExternalLink("there.h5", "/X")
        file["around"] = h5py.SoftLink("/around")

    path = hdf5(tmp_path / "a.h5", link)
    refused(read, path, "holds the matrices none")
    for name in ("X", "around"):
        with pytest.raises(TableError, match=f"none of them is {name}"):
            open_source(path, dataset=name)


def test_absurd_datasets(tmp_path):
    def make(shape, **options):
        return lambda h5py, file: file.create_dataset("X", shape=shape, dtype="f8", **options)

    huge = hdf5(tmp_path / "huge.h5", make((2**61, 6), chunks=(10, 6)))
    refused(read, huge, "no file can hold")
    wide = hdf5(tmp_path / "wide.h5", make((2, 2**50), chunks=(1, 10)))
    refused(read, wide, "does not fit in memory")
    nothing = hdf5(
        tmp_path / "none.h5",
        lambda h5py, file: file.create_dataset("X", data=None, dtype="f8", shape=None),
    )
    refused(read, nothing, "matrices none")


NAMES = ["a.csv", "a.csv.gz", "a.parquet", "a.arrow", "a.npy", "a.npz", "a.mtx", "a.h5", "a.zarr"]


@needs_pipes
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("special", [pipe, zeros, loop, os.mkdir], ids=lambda f: f.__name__)
def test_what_is_no_file_is_no_table(tmp_path, name, special):
    path = tmp_path / name
    special(path)
    refused(read, path)
    if name not in ("a.h5", "a.zarr"):
        refused(read_table, path)
    done = CliRunner().invoke(app, ["select", str(path), "--quiet"])
    assert done.exit_code == 2, done.output
    assert name in done.stderr


@needs_pipes
@pytest.mark.parametrize("special", [pipe, zeros, loop], ids=lambda f: f.__name__)
def test_a_part_of_a_table_that_is_no_file(tmp_path, special):
    """Left out, the table would lack a part without a word."""
    folder = tmp_path / "table"
    folder.mkdir()
    (folder / "1.csv").write_text("a,b\n1,2\n3,4\n")
    special(folder / "2.csv")
    refused(read, folder, "2.csv", "not a file")


@needs_pipes
@pytest.mark.parametrize("special", [pipe, zeros, loop], ids=lambda f: f.__name__)
def test_what_is_no_file_is_no_model(tmp_path, special):
    path = tmp_path / "a.skops"
    special(path)
    with pytest.raises(ModelError, match=r"a\.skops"):
        load_model(path)


def test_results_are_not_written_around_a_loop(tmp_path):
    for name in ("a.csv", "a.skops"):
        loop(tmp_path / name)
    with pytest.raises(TableError, match=r"a\.csv cannot be written: .*link"):
        write_rows(tmp_path / "a.csv", ["a"], [[1]])
    with pytest.raises(TableError, match=r"a\.skops cannot be written: .*link"):
        save_model(GreedySelector().fit(X), tmp_path / "a.skops")
    (tmp_path / "in.csv").write_text("a,b\n1,2\n3,5\n4,1\n")
    for option, name in (("--output", "a.csv"), ("--ranking", "a.csv"), ("--save", "a.skops")):
        done = CliRunner().invoke(
            app, ["select", str(tmp_path / "in.csv"), option, str(tmp_path / name), "--quiet"]
        )
        assert done.exit_code == 2, (option, done.output, done.exception)
        assert name in done.stderr
