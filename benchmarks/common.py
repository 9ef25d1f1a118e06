"""What the benchmarks share: the datasets, a clock, a verdict.

The datasets are read from the folder that JOINTSPARSE_DATA names; the three that come with
scikit-learn need no folder.
"""

import os
import time
from functools import cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
ALL = "usps isolet mnist imm40 pie allaml orlraws10p yale coil20 warppie10p glioma tox171 colon"
NAMES = tuple(ALL.split())
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
BUNDLED = ("digits", "breast_cancer", "wine")


def has_data():
    """Whether the folder with the thirteen datasets is there."""
    return Path(os.environ.get("JOINTSPARSE_DATA", "")).joinpath("yale.npz").is_file()


@cache
def table(name, most_samples=None):
    """Return samples (bytes scaled to [0, 1]) and classes; at most so many samples, drawn once."""
    if name in BUNDLED:
        import sklearn.datasets

        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    else:
        data = np.load(Path(os.environ["JOINTSPARSE_DATA"]) / f"{name}.npz", allow_pickle=False)
        X, y = data["X"], data["y"]
        X = X / 255.0 if X.dtype == np.uint8 else X.astype(float)
    if most_samples is not None and len(X) > most_samples:
        rows = np.sort(np.random.default_rng(0).permutation(len(X))[:most_samples])
        X, y = X[rows], y[rows]
    return X, y


def load(name):
    """Return the centred samples."""
    X, _ = table(name)
    return X - X.mean(axis=0)


def timed(function, clock=time.perf_counter):
    """Return the seconds a call took and what it returned."""
    start = clock()
    result = function()
    return clock() - start, result


def alternate(ours, theirs, repeats=3, clock=time.perf_counter):
    """Medians of interleaved runs, a warm-up of each excluded."""
    ours(), theirs()
    a, b = [], []
    for _ in range(repeats):
        a.append(timed(ours, clock)[0])
        b.append(timed(theirs, clock)[0])
    return float(np.median(a)), float(np.median(b))


def verdict(good):
    """Return the word that stands behind every bar."""
    return "ok" if good else "MISSED"
