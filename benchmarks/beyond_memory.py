"""Tables beyond memory: peaks of ``select`` beside what ``--memory`` allowed.

    python -m benchmarks --suite memory          measures what is not stored, and writes the page
    python -m benchmarks --suite memory page     writes the page alone

Files of 25 features, three and six times as large as the memory that is allowed. Each figure comes
from a process of its own, which first selects from a small table of the same kind: what Python and
the libraries take by themselves is no part of the budget. Results are kept in
``benchmarks/results/beyond_memory.json``; the table in ``docs/large.md`` is written from there.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import keeping
from benchmarks.pages import Table, grid
from jointsparse import __version__

STORED = Path(__file__).parent / "results" / "beyond_memory.json"
ALLOWED = 30  # MB
TIMES = (3, 6)
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
    # Into a file: what is kept of the answer is no part of the budget.
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
    """Return a table with three patterns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 3)) @ rng.standard_normal((3, FEATURES))
    return X + rng.standard_normal((rows, FEATURES))


def arrow(X):
    """Return it as an Arrow table."""
    import pyarrow as pa

    return pa.table({f"x{j}": X[:, j] for j in range(X.shape[1])})


def npy(path, X):
    np.save(path, X)


def parquet(path, X):
    """Write one row group. Dictionaries of numbers that never repeat would be refused."""
    import pyarrow.parquet as pq

    pq.write_table(arrow(X), path, row_group_size=len(X), use_dictionary=False)


def feather(path, X):
    """Write batches of 65 536 rows."""
    import pyarrow.feather

    pyarrow.feather.write_feather(arrow(X), path)


def csv(path, X):
    import pyarrow.csv

    pyarrow.csv.write_csv(arrow(X.round(4)), path)


def hdf5(path, X):
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=X, chunks=(min(len(X), 1000), FEATURES), compression="lzf")


def zarr(path, X):
    import zarr

    stored = zarr.open(path, mode="w", shape=X.shape, chunks=(1000, FEATURES), dtype=X.dtype)
    stored[:] = X


def h5ad(path, X):
    """Write counts, nine of ten of them zero, as AnnData does."""
    import h5py
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


# By suffix.
WRITERS = {
    "npy": npy,
    "parquet": parquet,
    "arrow": feather,
    "csv": csv,
    "h5": hdf5,
    "zarr": zarr,
    "h5ad": h5ad,
}
WORDS = {
    "npy": "`.npy`",
    "parquet": "Parquet, one row group",
    "arrow": "Arrow",
    "csv": "CSV",
    "h5": "HDF5",
    "zarr": "Zarr",
    "h5ad": "`.h5ad`, sparse counts",
}


def measured(folder, little, big, memory, *options, threads=None):
    """Return status, peak in MB and number of kept features of a selection in its own process.

    With ``threads``, as if there were so many cores.
    """
    files = [str(little), str(big), str(folder / "answer.json")]
    command = [sys.executable, "-W", "ignore", "-c", MEASURE, memory, *files]
    environment = os.environ | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)})
    found = subprocess.run(
        [*command, *options], check=True, capture_output=True, text=True, env=environment
    )
    return json.loads(found.stdout.splitlines()[-1])


def of_kind(folder, kind, times, allowed=ALLOWED, threads=None):
    """Return the same for a file so many times as large as the memory that is allowed."""
    rows = times * allowed * 10**6 // (8 * FEATURES)
    little, big = (folder / f"{name}.{kind}" for name in ("little", "big"))
    WRITERS[kind](little, table(200))
    WRITERS[kind](big, table(rows))
    return measured(folder, little, big, f"{allowed}MB", threads=threads)


def run():
    """Measure what is not stored yet of this version, and store it."""
    for kind in WRITERS:
        known = keeping.known(STORED).get(kind, {})
        if known.get("version") == __version__:
            continue
        peaks = {}
        for times in TIMES:
            with tempfile.TemporaryDirectory() as folder:
                status, peak, _ = of_kind(Path(folder), kind, times)
            assert status == 0, (kind, times)
            peaks[str(times)] = round(peak, 1)
            print(kind, times, f"{peak:.1f} MB of {ALLOWED}", flush=True)
        keeping.add(STORED, kind, {"version": __version__, "allowed": ALLOWED, "peaks": peaks})


def lines():
    """Return the table of what is stored, in Markdown."""
    head = ["file", "allowed", *(f"peak, a table {times} times as large" for times in TIMES)]
    rows = [
        [
            WORDS[kind],
            f"{one['allowed']} MB",
            *(f"{one['peaks'][str(times)]:.0f} MB" for times in TIMES),
        ]
        for kind, one in keeping.known(STORED).items()
    ]
    return grid(head, rows)


TABLE = Table("docs/large.md", "peaks", lines)


def main(words=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks --suite memory")
    parser.add_argument("what", nargs="?", choices=("page",), help="measure nothing")
    parser.add_argument("--quick", action="store_true", help="one file, nothing is stored")
    options = parser.parse_args(words)
    if options.quick:
        with tempfile.TemporaryDirectory() as folder:
            _, peak, kept = of_kind(Path(folder), "npy", TIMES[0])
        print(f"npy, {TIMES[0]} times as large: {peak:.1f} MB of {ALLOWED}, {kept} kept")
        return
    if options.what is None:
        run()
    TABLE.write()
    print(lines())


if __name__ == "__main__":
    main()
