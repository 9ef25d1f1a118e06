"""Very wide tables in single precision: time, peak memory, what is found.

    python -m benchmarks.million [METHOD ...] [--size N P] [--threads T]   measures and prints
    python -m benchmarks.million --store [METHOD ...]                      keeps it for the page

METHOD is spca-psd or cspca-psd (certified to 1e-3), spca, jspca or jspca-frobenius; without any,
the first four. The problem, 1 000 × 1 000 000 unless told otherwise: ten directions on 2 000
features that carry half of the variance; noise of equal size on all features is the rest. Each
method runs in a process of its own; the peak is that of the whole process, the table included.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import keeping
from benchmarks.pages import Table, grid, scientific
from benchmarks.worker import peak
from jointsparse import CSPCA, JSPCA, SPCA, SPCAPSD, __version__

STORED = Path(__file__).parent / "results" / "million.json"
SIZE, THREADS = (1_000, 1_000_000), 2
RANK, PLANTED = 10, 2_000
MODELS = {
    "spca-psd": lambda: SPCAPSD(alpha=0.1, eta=0.03, tol=1e-3, n_features_to_select="support"),
    "cspca-psd": lambda: CSPCA(alpha=0.1, eta=0.03, tol=1e-3, n_features_to_select="support"),
    "spca": lambda: SPCA(n_components=RANK),
    "jspca": lambda: JSPCA(n_components=RANK),
    "jspca-frobenius": lambda: JSPCA(n_components=RANK, loss="frobenius"),
}
WORDS = {
    "spca-psd": "SPCA-PSD",
    "cspca-psd": "CSPCA-PSD",
    "spca": "SPCA, ten components",
    "jspca": "JSPCA, ten components",
    "jspca-frobenius": "JSPCA, squared loss, ten components",
}


def problem(n, p, seed=0):
    """Return the table in single precision and the planted features; no n × p temporary."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, p), dtype=np.float32)
    for row in X:
        row[:] = rng.standard_normal(p, dtype=np.float32)
    planted = np.sort(rng.choice(p, PLANTED, replace=False))
    scores = rng.standard_normal((n, RANK)) * np.linspace(1.3, 0.7, RANK)
    loadings = rng.choice([-1, 1], (RANK, PLANTED)) * rng.uniform(0.5, 1.5, (RANK, PLANTED))
    signal = scores @ loadings
    signal *= np.sqrt(n * p) / np.linalg.norm(signal)
    X[:, planted] += signal
    return X, planted


def child(name, n, p, threads):
    """Fit one method, and print what it took and what it found."""
    X, planted = problem(n, p)
    table = peak() * 1024
    model = MODELS[name]()
    start, processor = time.perf_counter(), time.process_time()
    with threadpool_limits(threads):
        model.fit(X)
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    found = model.get_support(indices=True)
    explained = getattr(model, "explained_variance_ratio_", None)
    answer = {
        "version": __version__,
        "size": [n, p],
        "threads": threads,
        "seconds": round(seconds, 1),
        "processor": round(processor, 1),
        "peak": round(peak() * 1024 / 1e9, 2),
        "table": round(table / 1e9, 2),
        "kept": int(found.size),
        "planted": int(np.intersect1d(found, planted).size),
        "gap": getattr(model, "duality_gap_", None),
        "explained": None if explained is None else float(explained.sum()),
        "iterations": int(model.n_iter_),
    }
    print(json.dumps(answer))


def measured(name, n, p, threads):
    """Run one method in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.million", "--child", name]
    sizes = ["--size", str(n), str(p), "--threads", str(threads)]
    run = subprocess.run(
        [*command, *sizes],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    return json.loads(run.stdout.splitlines()[-1])


def result(one):
    """Say what was found."""
    words = []
    if one["gap"] is not None:
        words.append(f"certified to {scientific(one['gap'])}")
    if one["kept"] == one["planted"] == PLANTED:
        words.append(f"exactly the {PLANTED // 1000} 000 planted features")
    elif one["kept"] == one["planted"]:
        words.append(f"{one['kept']} features, all of them planted")
    else:
        words.append(f"{one['kept']} features, {one['planted']} of them planted")
    if one["explained"] is not None:
        words.append(f"{100 * one['explained']:.1f} % of the variance")
    return ", ".join(words)


def lines():
    """Return the table of what is stored, in Markdown."""
    rows = [
        [
            WORDS[name],
            f"{one['processor']:.0f} s",
            f"{one['peak']:.1f} GB",
            result(one),
        ]
        for name, one in keeping.known(STORED).items()
    ]
    head = ["method", "time of the processor", "peak memory, the table included", "result"]
    return grid(head, rows)


TABLE = Table("docs/large.md", "million", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", metavar="METHOD")
    parser.add_argument("--size", nargs=2, type=int, default=list(SIZE), metavar=("N", "P"))
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--store", action="store_true", help="keep the result for the page")
    parser.add_argument("--child", choices=list(MODELS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, *options.size, options.threads)
        return
    if options.store and tuple(options.size) != SIZE:
        parser.error("only the size of the page is stored")
    for name in options.methods or list(MODELS)[:4]:
        one = measured(name, *options.size, options.threads)
        print(
            f"{name} {one['size'][0]} x {one['size'][1]}: {one['seconds']:.0f} s "
            f"({one['processor']:.0f} s of the processor), {one['iterations']} iterations, peak "
            f"{one['peak']:.2f} GB ({one['table']:.2f} GB with the table alone); {result(one)}",
            flush=True,
        )
        if options.store:
            keeping.add(STORED, name, one)
    if options.store:
        TABLE.write()


if __name__ == "__main__":
    main()
