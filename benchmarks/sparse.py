"""Sparse text-like data, measured: ``python -m benchmarks.sparse [METHOD ...] [--size N P]``.

With ``--store`` the results are kept (benchmarks/results/sparse.json) and written into the page
docs/large.md.

The table: 20 000 documents × 50 000 words unless told otherwise, 0.5 % filled; eight topics of 80
words each, and words at random. Dense it would take 8 GB. Every method runs in a process of its
own, on one thread; for each, the seconds of the processor, the peak of memory of the whole process
(with Python, the libraries and the table) and how many of the features that it
keeps are topic words. Methods that need a dense table say so before anything is computed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

from benchmarks import keeping
from benchmarks.pages import Table, grid, scientific

STORED = Path(__file__).parent / "results" / "sparse.json"
SIZE = (20_000, 50_000)
TOPICS, WORDS, SHARE, NOISE = 8, 80, 0.125, 0.0034
KEPT = 30
MODELS = {
    "spca-psd": ("SPCAPSD", {}),
    "cspca-psd": ("CSPCA", {}),
    "aw-spca-psd": ("AWSPCA", {}),
    "cspca": ("CSPCA", {"psd": False}),
    "aw-spca": ("AWSPCA", {"psd": False}),
    "greedy": ("GreedySelector", {}),
    "spca": ("SPCA", {"n_components": 4}),
    "jspca": ("JSPCA", {"n_components": 4}),
    "jspca-features": ("JSPCA", {"n_components": 4, "loss": "features"}),
    "jspca-frobenius": ("JSPCA", {"n_components": 4, "loss": "frobenius"}),
    "dictionary-spca": ("DictionarySPCA", {"n_components": 4}),
    "robust-pca": ("RobustPCA", {}),
    "fssl": ("FSSL", {}),
    "fssl-pca": ("FSSL", {"graph": "pca"}),
    "spcafs": ("SPCAFS", {}),
    "laplacian-score": ("LaplacianScore", {}),
    "mcfs": ("MCFS", {}),
    "udfs": ("UDFS", {}),
    "sogfs": ("SOGFS", {}),
    "rne": ("RNE", {}),
}


def problem(n, p, seed=0):
    """Return the table in compressed rows, and which words belong to a topic."""
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(seed)
    words = rng.choice(p, TOPICS * WORDS, replace=False)
    counts = rng.uniform(0.5, 1.5, TOPICS * WORDS)
    topics = sp.csr_array((counts, (np.repeat(np.arange(TOPICS), WORDS), words)), shape=(TOPICS, p))
    member = sp.csr_array((rng.uniform(size=(n, TOPICS)) < SHARE).astype(float))
    noise = sp.random_array((n, p), density=NOISE, rng=rng)
    planted = np.zeros(p, dtype=bool)
    planted[words] = True
    return sp.csr_array(noise + member @ topics), planted


def child(name, n, p):
    """Fit one method, and print what it took and what it found."""
    import inspect

    import numpy as np

    import jointsparse
    from benchmarks.worker import peak

    kind, parameters = MODELS[name]
    kind = getattr(jointsparse, kind)
    if "n_features_to_select" in inspect.signature(kind).parameters:
        parameters = {**parameters, "n_features_to_select": KEPT}
    X, planted = problem(n, p)
    model = kind(**parameters)
    found = {"version": jointsparse.__version__, "filled": X.nnz / (n * p)}
    start = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X)
    except ValueError as refusal:
        found["refused"] = str(refusal)
    else:
        kept = model.get_support(indices=True)
        found["kept"], found["planted"] = kept.size, int(np.count_nonzero(planted[kept]))
        found["reason"] = getattr(model, "stopping_reason_", "")
        found["gap"] = getattr(model, "duality_gap_", None)
        found["warnings"] = [str(one.message) for one in caught]
    found["seconds"] = time.process_time() - start
    found["peak"] = peak() * 1024
    print(json.dumps(found))


def measured(name, n, p):
    """Run one method in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.sparse", "--child", name, "--size", str(n), str(p)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        env=environment,
        check=False,
    )
    if run.returncode:
        return {"failed": run.stderr.strip().splitlines()[-1:]}
    return json.loads(run.stdout)


def line(name, found):
    """Return one row of the table."""
    if "failed" in found:
        return f"| {name} | failed: {found['failed']} | | |"
    cost = f"{found['seconds']:.0f} s | {found['peak'] / 1e9:.2f} GB"
    if "refused" in found:
        return f"| {name} | {cost} | refused: {found['refused']} |"
    return (
        f"| {name} | {cost} | {found['planted']} of {found['kept']} features are topic words; "
        f"{found['reason']} |"
    )


def shown(name):
    """Return how a method is called on the page."""
    kind, parameters = MODELS[name]
    given = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
    return f"`{kind}({given})`" if given else f"`{kind}`"


def kept(found):
    """Say what was kept, and what is proved."""
    whose = "" if found["planted"] == found["kept"] else f", {found['planted']} of them topic words"
    gap = found.get("gap")
    proved = "" if gap is None else f", certified to {scientific(gap)}"
    return f"{found['kept']} features{whose}{proved}"


def lines():
    """Return the table of what is stored, in Markdown; refusals last."""
    rows, refused = [], []
    for name, found in keeping.known(STORED).items():
        if "refused" in found:
            need = re.search(r"[\d.]+ [GM]B", found["refused"]).group()
            refused.append([shown(name), "refused", "", f"would need {need}"])
        else:
            cost = [f"{found['seconds']:.0f} s", f"{found['peak'] / 1e9:.1f} GB"]
            rows.append([shown(name), *cost, kept(found)])
    return grid(["method", "time", "peak memory", "kept"], rows + refused)


TABLE = Table("docs/large.md", "sparse", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", default=list(MODELS), metavar="METHOD")
    parser.add_argument("--size", nargs=2, type=int, default=list(SIZE), metavar=("N", "P"))
    parser.add_argument("--store", action="store_true", help="keep the results for the page")
    parser.add_argument("--child", choices=list(MODELS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, *options.size)
        return
    if options.store and tuple(options.size) != SIZE:
        parser.error("only the size of the page is stored")
    for name in options.methods or list(MODELS):
        found = measured(name, *options.size)
        print(line(name, found), flush=True)
        if options.store and "failed" not in found:
            keeping.add(STORED, name, found)
    if options.store:
        TABLE.write()


if __name__ == "__main__":
    main()
