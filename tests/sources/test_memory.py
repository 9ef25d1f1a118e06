"""What ``--memory`` promises: the peak of the process stays within it, whatever is read.

Each figure comes from a process of its own, which first selects from a small table of the same
kind: what the libraries take by themselves is no part of the budget.
"""

from unittest.mock import patch

import numpy as np
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from test_cli import invoke

from benchmarks import keeping
from benchmarks.beyond_memory import (
    ALLOWED,
    FEATURES,
    STORED,
    WRITERS,
    arrow,
    csv,
    measured,
    of_kind,
    table,
)
from jointsparse import GreedySelector, open_source
from jointsparse.io import TableError
from jointsparse.sources.files.arrow import ArrowSource


def one_batch(path, X):
    """Write what is unpacked a column at a time; see below."""
    pyarrow.feather.write_feather(arrow(X), path, chunksize=len(X))


@pytest.mark.slow
@pytest.mark.parametrize("times", [3, 6])
@pytest.mark.parametrize("kind", WRITERS)
def test_the_peak_stays_within_the_memory(tmp_path, kind, times):
    pytest.importorskip({"h5": "h5py", "h5ad": "h5py", "zarr": "zarr"}.get(kind, "numpy"))
    status, peak, kept = of_kind(tmp_path, kind, times)
    assert (status, kept) == (0, 3)
    assert peak <= ALLOWED


@pytest.mark.slow
def test_the_peak_of_an_arrow_file_that_is_one_batch(tmp_path):
    # Columns of 12 MB, each of which is unpacked as a whole; those of 16 MB are too large.
    for name, rows in (("little", 200), ("big", 1_500_000), ("larger", 2_000_000)):
        one_batch(tmp_path / f"{name}.arrow", table(rows))
    little, big, larger = (tmp_path / f"{name}.arrow" for name in ("little", "big", "larger"))
    status, peak, kept = measured(tmp_path, little, big, "60MB")
    assert (status, kept) == (0, 3)
    assert peak <= 60
    status, peak, _ = measured(tmp_path, little, larger, "60MB")
    assert status == 2
    assert peak <= 8  # nothing of the columns was read
    said = refused(larger, "--memory", "60MB")
    assert "its columns of a batch, of which each is read as a whole, take 60.9 MB" in said
    assert "allow more with --memory 130MB" in said


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_peak_stays_within_the_memory_on_many_cores(tmp_path, kind):
    # Arrow's allocator holds memory for each thread; it takes their number from this variable.
    status, peak, _ = of_kind(tmp_path, kind, 3, threads=8)
    assert status == 0
    assert peak <= ALLOWED


def test_the_peaks_that_were_stored_are_within_the_memory():
    for one in keeping.known(STORED).values():
        # With room: what allocators keep is another amount on every machine.
        assert max(one["peaks"].values()) <= 5 / 6 * one["allowed"]


@pytest.mark.slow
def test_the_peak_of_text_with_many_columns(tmp_path):
    X = np.random.default_rng(0).standard_normal((3, 20_000)).round(3)
    csv(tmp_path / "little.csv", X[:, :50])
    names = ",".join(f"g{j}" for j in range(X.shape[1]))
    np.savetxt(tmp_path / "big.csv", X, "%g", ",", header=names, comments="")
    said = refused(tmp_path / "big.csv", "--memory", "30MB")
    assert "a fit to 3 samples × 20000 features needs 40.2 MB of memory" in said
    assert "allow more with --memory 41MB" in said
    status, peak, _ = measured(tmp_path, tmp_path / "little.csv", tmp_path / "big.csv", "41MB")
    assert status == 0
    assert peak <= 41


def refused(*words):
    result = invoke("select", *words)
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


def test_a_chunk_that_does_not_fit(tmp_path):
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    shape = (10**7, 4)
    with h5py.File(tmp_path / "bomb.h5", "w") as file:
        file.create_dataset("x", shape=shape, chunks=shape, dtype="f8", compression="gzip")
    zarr.open(tmp_path / "bomb.zarr", mode="w", shape=shape, chunks=shape, dtype="f8")
    for name in ("bomb.h5", "bomb.zarr"):
        said = refused(tmp_path / name, "--memory", "100MB")
        assert "its chunks, of which each is read as a whole, take 638 MB; allow more" in said
        assert "with --memory 1.3GB" in said
        with pytest.raises(TableError, match=r'allow more with memory="1.3GB"'):
            GreedySelector().fit(open_source(tmp_path / name, memory="100MB"))


def test_a_description_that_does_not_fit(tmp_path):
    pq.write_table(arrow(table(6000)), tmp_path / "x.parquet", row_group_size=3)
    said = refused(tmp_path / "x.parquet", "--memory", "5MB")
    assert "does not fit in memory: the descriptions of its row groups take" in said
    assert "allow more with --memory" in said


def test_pages_that_do_not_fit(tmp_path):
    pq.write_table(arrow(table(150_000)), tmp_path / "x.parquet")  # a dictionary of 1 MB a column
    said = refused(tmp_path / "x.parquet", "--memory", "20MB")
    assert "its open pages, of which each is read as a whole, take" in said
    assert "allow more with --memory" in said
    # Before the first rows are read, for which all pages are open.
    with (
        patch.object(ArrowSource, "_sample", side_effect=AssertionError("rows were read")),
        pytest.raises(TableError, match="its open pages"),
    ):
        open_source(tmp_path / "x.parquet", memory="20MB")


def test_columns_of_text_that_do_not_fit_in_blocks(tmp_path):
    X = np.ones((3, 3000))
    names = ",".join(f"g{j}" for j in range(X.shape[1]))
    np.savetxt(tmp_path / "x.csv", X, "%g", ",", header=names, comments="")
    with pytest.raises(TableError, match="3000 columns of text, read in blocks, take 27 MB"):
        open_source(tmp_path / "x.csv", memory="20MB")


def test_a_large_batch_is_read_by_columns(tmp_path):
    X = table(1000)
    one_batch(tmp_path / "x.arrow", X)
    source = open_source(tmp_path / "x.arrow", memory="40kB")
    assert source.n_samples == 1000
    np.testing.assert_array_equal(np.concatenate(list(source.blocks())), X)
    kept = source.columns([7, 2])
    np.testing.assert_array_equal(np.concatenate(list(kept.blocks())), X[:, [7, 2]])


def test_chunks_longer_than_blocks_are_read_once(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    X = table(900)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=X, chunks=(300, FEATURES))
    source = open_source(tmp_path / "x.h5", memory="5MB")
    seen, usual = [], source._read
    monkeypatch.setattr(source, "_read", lambda part: seen.append(part) or usual(part))
    blocks = list(source.blocks(entries=100 * FEATURES))
    assert [len(block) for block in blocks] == [100] * 9
    assert [part.start for part in seen] == [0, 300, 600]
    np.testing.assert_array_equal(np.concatenate(blocks), X)
