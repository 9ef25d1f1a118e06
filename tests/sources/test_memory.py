"""What ``--memory`` promises: the peak of the process stays within it, whatever is read.

Each figure comes from a process of its own, which first selects from a small table of the same
kind: what the libraries take by themselves is no part of the budget.
"""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from test_cli import invoke

from jointsparse import GreedySelector, open_source
from jointsparse.io import TableError

BUDGET = 30  # MB
FEATURES = 25

MEASURE = """
import contextlib, json, sys
from pathlib import Path
from jointsparse.cli.start import main

def peak():
    # Not ru_maxrss, which begins with that of the process that started this one.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM"))

def select(path):
    # Into a file: what a test keeps of the answer is no part of the budget.
    options = ["--features", "3", "--memory", sys.argv[1], "--json", "--quiet", *sys.argv[5:]]
    sys.argv[1:], given = ["select", path, *options], sys.argv[1:]
    try:
        with open(answer, "w") as out, contextlib.redirect_stdout(out):
            main()
        return 0
    except SystemExit as end:
        return end.code or 0
    finally:
        sys.argv[1:] = given

answer = sys.argv[4]
assert select(sys.argv[2]) == 0
before = peak()
status = select(sys.argv[3])
taken = peak() - before
kept = len(json.loads(Path(answer).read_text())["kept"]) if status == 0 else ""
print(json.dumps([status, taken, kept]))
"""


def table(rows):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 3)) @ rng.standard_normal((3, FEATURES))
    return X + rng.standard_normal((rows, FEATURES))


def arrow(X):
    return pa.table({f"x{j}": X[:, j] for j in range(X.shape[1])})


def npy(path, X):
    np.save(path, X)


def parquet(path, X):
    # Dictionaries of numbers that never repeat would be refused, see below.
    pq.write_table(arrow(X), path, row_group_size=len(X), use_dictionary=False)


def feather(path, X):
    pyarrow.feather.write_feather(arrow(X), path)  # 65 536 rows in a batch


def one_batch(path, X):
    """Write what is unpacked a column at a time; see below."""
    pyarrow.feather.write_feather(arrow(X), path, chunksize=len(X))


def csv(path, X):
    pyarrow.csv.write_csv(arrow(X.round(4)), path)


def hdf5(path, X):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=X, chunks=(min(len(X), 1000), FEATURES), compression="lzf")


def zarr(path, X):
    zarr = pytest.importorskip("zarr")
    stored = zarr.open(path, mode="w", shape=X.shape, chunks=(1000, FEATURES), dtype=X.dtype)
    stored[:] = X


def h5ad(path, X):
    """Write counts, nine of ten of them zero, as AnnData does."""
    h5py = pytest.importorskip("h5py")
    from scipy import sparse

    matrix = sparse.csr_array(np.where(np.abs(X) > 3.2, np.rint(np.abs(X)), 0).astype(np.float32))
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", matrix.shape
        for name in ("data", "indices"):
            group.create_dataset(
                name, data=getattr(matrix, name), chunks=(min(matrix.nnz, 1 << 14),)
            )
        group.create_dataset("indptr", data=matrix.indptr)
        for frame, count in zip(("obs", "var"), matrix.shape, strict=True):
            inside = file.create_group(frame)
            inside.attrs["_index"] = "_index"
            inside.create_dataset("_index", data=np.array([f"{i}" for i in range(count)], "S"))


WRITERS = {
    "npy": npy,
    "parquet": parquet,
    "arrow": feather,
    "csv": csv,
    "h5": hdf5,
    "zarr": zarr,
    "h5ad": h5ad,
}


def measured(folder, little, big, memory, *options):
    files = [str(little), str(big), str(folder / "answer.json")]
    command = [sys.executable, "-W", "ignore", "-c", MEASURE, memory, *files]
    found = subprocess.run([*command, *options], check=True, capture_output=True, text=True)
    return json.loads(found.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("times", [3, 6])
@pytest.mark.parametrize("kind", WRITERS)
def test_the_peak_stays_within_the_memory(tmp_path, kind, times):
    rows = times * BUDGET * 10**6 // (8 * FEATURES)
    WRITERS[kind](tmp_path / f"little.{kind}", table(200))
    WRITERS[kind](tmp_path / f"big.{kind}", table(rows))
    little, big = (tmp_path / f"{name}.{kind}" for name in ("little", "big"))
    status, peak, kept = measured(tmp_path, little, big, f"{BUDGET}MB")
    assert (status, kept) == (0, 3)
    assert peak <= BUDGET


@pytest.mark.slow
def test_the_peak_of_text_with_many_columns(tmp_path):
    X = np.random.default_rng(0).standard_normal((3, 20_000)).round(3)
    csv(tmp_path / "little.csv", X[:, :50])
    names = ",".join(f"g{j}" for j in range(X.shape[1]))
    np.savetxt(tmp_path / "big.csv", X, "%g", ",", header=names, comments="")
    said = refused(tmp_path / "big.csv", "--memory", "30MB")
    assert "a fit to 3 samples × 20000 features needs 36.8 MB of memory" in said
    assert "allow more with --memory 37MB" in said
    status, peak, _ = measured(tmp_path, tmp_path / "little.csv", tmp_path / "big.csv", "37MB")
    assert status == 0
    assert peak <= 37


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
