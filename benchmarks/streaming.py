"""Data that do not fit in memory, measured: ``python -m benchmarks.streaming [ROWS [FEATURES]]``.

A folder of Parquet files (float32; 5 000 000 × 200 unless told otherwise, 4 GB) is made in the
system's temporary folder and deleted afterwards. Each figure comes from a process of its own:

* read: the bare read, pyarrow's batches and nothing else;
* products: XᵀX of as many rows, block by block, float64 blocks that are in memory;
* fit: ``SPCAPSD().fit(open_source(folder, memory="1GB"))``, all of it, and its peak memory.

At last, how long a fit takes once the moments are known, for 10⁴ samples and for a hundred copies
of each; that alone with ``after-moments`` in place of the sizes. Times are seconds of the
processor, the best of several runs. Without sizes, and with ``after-moments``, the results are kept
in benchmarks/results for docs/large.md.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import keeping
from benchmarks.pages import Table, grid
from benchmarks.worker import peak
from jointsparse import __version__

ROWS_PER_FILE = 500_000
BLOCK = 2**22
MEMORY = "1GB"
STORED = Path(__file__).parent / "results" / "after_moments.json"
STREAMED = STORED.with_name("streaming.json")


def make_data(folder, rows, features, seed=0):
    """Write a rank-5 signal with noise, in several files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((5, features), dtype=np.float32)
    names = [f"x{j:03d}" for j in range(features)]
    for number, start in enumerate(range(0, rows, ROWS_PER_FILE)):
        count = min(ROWS_PER_FILE, rows - start)
        with pq.ParquetWriter(
            folder / f"part{number:04d}.parquet",
            pa.schema([(name, pa.float32()) for name in names]),
            use_dictionary=False,
        ) as writer:
            for first in range(0, count, 100_000):
                size = min(100_000, count - first)
                X = rng.standard_normal((size, 5), dtype=np.float32) @ loadings
                X += rng.standard_normal((size, features), dtype=np.float32)
                writer.write_table(pa.table(dict(zip(names, X.T.copy(), strict=True))))


def read(folder):
    """Read everything and do nothing with it."""
    import pyarrow.parquet as pq

    for file in sorted(folder.iterdir()):
        for _ in pq.ParquetFile(file).iter_batches(batch_size=2**16):
            pass


def products(folder):
    """Multiply as many rows as there are."""
    import pyarrow.parquet as pq

    files = sorted(folder.iterdir())
    rows = sum(pq.read_metadata(file).num_rows for file in files)
    features = pq.read_metadata(files[0]).num_columns
    block = np.random.default_rng(0).standard_normal((BLOCK // features, features))
    total = np.zeros((features, features))
    for _ in range(-(-rows // len(block))):
        total += block.T @ block


def fit(folder):
    """Fit a method to the folder."""
    from jointsparse import SPCAPSD, open_source

    SPCAPSD().fit(open_source(folder, memory=MEMORY))


def child(job, folder):
    """Run one job, and print its seconds and the peak of memory."""
    start = time.process_time()
    {"read": read, "products": products, "fit": fit}[job](Path(folder))
    seconds = time.process_time() - start
    print(json.dumps({"seconds": seconds, "peak": peak() * 1024}))


def measured(job, folder, repeats):
    """Return the best time and the highest peak of a job run in processes of its own."""
    found = []
    for _ in range(repeats):
        command = [sys.executable, "-m", "benchmarks.streaming", job, str(folder)]
        run = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1]
        )
        found.append(json.loads(run.stdout))
    return min(run["seconds"] for run in found), max(run["peak"] for run in found)


def streaming(rows, features, repeats=2):
    """Print and return time and memory of a fit beside those of its parts."""
    folder = Path(tempfile.mkdtemp())
    try:
        size = 4 * rows * features
        free = shutil.disk_usage(folder).free
        if free < 2 * size:
            raise SystemExit(f"{folder} has {free / 1e9:.0f} GB left; {2 * size / 1e9:.0f} needed")
        make_data(folder, rows, features)
        # A first read that is not counted brings the files into the system's cache.
        measured("read", folder, 1)
        figures = {job: measured(job, folder, repeats) for job in ("read", "products", "fit")}
    finally:
        shutil.rmtree(folder)
    parts = figures["read"][0] + figures["products"][0]
    ratio = figures["fit"][0] / parts
    print(f"{rows} × {features} float32 ({size / 1e9:.2f} GB), budget {MEMORY}")
    for job, (seconds, most) in figures.items():
        print(f"  {job:10} {seconds:7.2f} s   peak {most / 1e9:.2f} GB")
    print(f"  fit / (read + products) = {ratio:.2f}")
    return ratio, figures["fit"][1]


def after_moments(features=100, few=10_000, many=1_000_000, repeats=20, *, store=False):
    """Print and return how much longer fits take with 100 times the samples.

    The many are the few, each of them a hundred times: the same problem, whose scatter matrix is a
    hundred times larger. Other samples would be another problem, with another number of iterations.
    """
    from jointsparse import FSSL, JSPCA, Moments, registry

    found = registry.methods().items()
    methods = {name: method.make for name, method in found if method.scatter_only}
    methods["jspca, features"] = lambda: JSPCA(loss="features")
    methods["jspca, frobenius"] = lambda: JSPCA(loss="frobenius")
    methods["fssl, pca"] = lambda: FSSL(graph="pca")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((few, 5)) @ rng.standard_normal((5, features))
    X += rng.standard_normal((few, features))
    once = Moments.from_data(X)
    times = many // few
    both = [(few, once.scatter), (few * times, once.scatter * times)]
    ratios = {}
    for name, make in methods.items():
        best = [np.inf, np.inf]
        for _ in range(repeats):
            for place, (rows, scatter) in enumerate(both):
                fresh = Moments(rows, once.mean, scatter.copy())
                start = time.process_time()
                make().fit_moments(fresh)
                best[place] = min(best[place], time.process_time() - start)
        ratios[name] = best[1] / best[0]
        print(f"{name}: {1000 * best[0]:.1f} ms, {1000 * best[1]:.1f} ms", flush=True)
        if store:
            keeping.add(STORED, name, {"version": __version__, "seconds": best})
    if store:
        TABLE.write()
    return ratios


def lines():
    """Return the table of what is stored, in Markdown."""
    rows = [
        [name, *(f"{1000 * seconds:.1f} ms" for seconds in best), f"{best[1] / best[0]:.2f}"]
        for name, found in keeping.known(STORED).items()
        for best in [found["seconds"]]
    ]
    return grid(["method", "10⁴ samples", "10⁶ samples", "ratio"], rows)


TABLE = Table("docs/large.md", "after the moments", lines)


def main():
    if sys.argv[1:] and sys.argv[1] in ("read", "products", "fit"):
        child(*sys.argv[1:])
        return
    if sys.argv[1:] == ["after-moments"]:
        after_moments(store=True)
        return
    sizes = [int(size) for size in sys.argv[1:]]
    rows, features = (*sizes, *(5_000_000, 200)[len(sizes) :])
    ratio, most = streaming(rows, features)
    if not sizes:  # what the page quotes
        found = {"version": __version__, "ratio": ratio, "peak": most / 1e9}
        keeping.add(STREAMED, f"{rows} x {features}", found)
    after_moments()


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
