"""FSSL on images with few labelled samples: ``python -m benchmarks.fssl [SECTION ...]``.

Twenty times m images of each class are drawn; the nearest of them in the embedding labels the
others. The datasets are read from the folder that JOINTSPARSE_DATA names. *Expected* is what
earlier prototypes gave. Another draw of twenty moves every mean on yale, 1-NN's too, by about .01
(its standard error; .001 to .009 on mnist), so ``DRAWS=first`` (in the environment, the default)
repeats the prototypes' draws: of 72 ways to seed them it is the one that gives 1-NN's expected
accuracies on yale to three digits; no other method was looked at in that choice.
``DRAWS=second`` is an independent draw. What the first draws give is kept in
benchmarks/results/fssl.json, from which docs/graphs.md has its tables.
"""

import os
import sys
import time
import warnings

import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import MultiTaskLasso
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from benchmarks import keeping
from benchmarks.common import ROOT, table, verdict
from benchmarks.pages import Table, grid
from jointsparse import FSSL

DRAWS = os.environ.get("DRAWS", "first")
REPEATS = 20
STORED = ROOT / "benchmarks" / "results" / "fssl.json"
CLOSE = 0.015  # difference of accuracies that counts as the same


def load(name, classes=None):
    X, y = table(name)
    keep = np.ones(y.size, dtype=bool) if classes is None else np.isin(y, classes)
    return X[keep], y[keep]


def drawn(y, per_class, repeat):
    train = np.zeros(y.size, dtype=bool)
    rng = np.random.default_rng(repeat + (100 if DRAWS == "first" else 0))
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        if DRAWS == "first":
            train[rng.permutation(members)[:per_class]] = True
        else:
            train[rng.choice(members, per_class, replace=False)] = True
    return train


def accuracy(Z, y, train):
    nearest = KNeighborsClassifier(1).fit(Z[train], y[train])
    return nearest.score(Z[~train], y[~train])


def compare(X, y, sizes, methods):
    """Print accuracy and pixels of every method beside what is expected; return what was found."""
    found = {}
    for name, (make, expected, pixels) in methods.items():
        for place, per_class in enumerate(sizes):
            results, used, gaps = [], [], []
            for seed in range(REPEATS):
                train = drawn(y, per_class, seed)
                if make is None:
                    results.append(accuracy(X, y, train))
                    continue
                model = make().fit(X[train], y[train])
                results.append(accuracy(model.transform(X), y, train))
                if isinstance(model, FSSL):
                    used.append(np.count_nonzero(model.feature_scores_))
                    gaps.append(model.duality_gap_)
            mean, error = np.mean(results), np.std(results) / np.sqrt(REPEATS)
            one = {"mean": mean, "error": error, "pixels": np.mean(used) if used else None}
            found.setdefault(name, {})[per_class] = one
            line = f"{name:14s} {per_class:2d} per class: {mean:.3f} ± {error:.3f}"
            if expected is not None:
                line += f" (expected {expected[place]:.3f})"
                line += f" {verdict(abs(mean - expected[place]) <= CLOSE)}"
            if used:
                line += f"; {np.mean(used):.1f} of {X.shape[1]} pixels"
                line += f" (expected {pixels[place]})" if pixels else ""
                line += f", gap {max(gaps):.0e}"
            print(line, flush=True)
    return found


def mnist():
    """Digits 1 and 9, 10 to 30 of each."""
    X, y = load("mnist", (1, 9))
    methods = {
        "1-NN": (None, (0.966, 0.978, 0.983), None),
        "FSSL": (
            lambda: FSSL(graph="lda", mu=20, penalty_scale="absolute"),
            (0.912, 0.956, 0.973),
            (15, 28, 39),
        ),
        "FSSL, fro": (
            lambda: FSSL(graph="lda", norm="fro", constraint="equality"),
            (0.972, 0.980, 0.982),
            None,
        ),
        "FSSL, XA = Y": (lambda: FSSL(graph="lda", constraint="equality"), None, None),
    }
    return compare(X, y, (10, 20, 30), methods)


def yale():
    """Fifteen subjects, 5 to 7 images of each."""
    X, y = load("yale")
    methods = {
        "1-NN": (None, (0.586, 0.616, 0.624), None),
        "PCA, 95 %": (lambda: PCA(0.95), (0.581, 0.605, 0.611), None),
        "PCA + LDA": (
            lambda: make_pipeline(PCA(0.95), LinearDiscriminantAnalysis()),
            (0.704, 0.759, 0.797),
            None,
        ),
        "FSSL, fro": (lambda: FSSL(graph="lda", norm="fro", constraint="equality"), None, None),
        "FSSL": (
            lambda: FSSL(graph="lda", mu=30),
            (0.703, 0.747, 0.767),
            (251, 280, 308),
        ),
    }
    return compare(X, y, (5, 6, 7), methods)


def rival():
    """Time against scikit-learn's MultiTaskLasso, which solves the same problem."""
    X, y = load("yale")
    train = drawn(y, 5, 0)
    data, labels = X[train], y[train]
    for mu in (3, 10, 30, 100):
        start = time.perf_counter()
        model = FSSL(graph="lda", mu=mu).fit(data, labels)
        ours = time.perf_counter() - start
        lasso = MultiTaskLasso(
            1 / (2 * len(data) * model.mu_), fit_intercept=False, tol=1e-6, max_iter=100_000
        )
        start = time.perf_counter()
        lasso.fit(data - data.mean(axis=0), model.targets_)
        theirs = time.perf_counter() - start
        start = time.perf_counter()
        source = FSSL(graph="lda", mu=mu, solver="reweighted", tol=1e-6, max_iter=5000)
        source.fit(data, labels)
        published = time.perf_counter() - start
        print(
            f"mu {mu}: {ours:.2f} s, MultiTaskLasso {theirs:.2f} s, reweighting {published:.2f} s "
            f"({source.n_iter_} passes); {np.count_nonzero(model.feature_scores_)} pixels, "
            f"{np.count_nonzero(lasso.coef_.any(axis=0))}, "
            f"{np.count_nonzero(source.feature_scores_)}; objective of the reweighting "
            f"{source.objective_ / model.objective_ - 1:.1e} above"
        )


def lines(section, heads):
    """Return what is stored of a section, in Markdown."""
    found = keeping.known(STORED)[section]
    rows = []
    for per_class in found["1-NN"]:
        rows.append([per_class])
        for name in heads:
            one = found[name][per_class]
            pixels = f" with {one['pixels']:.0f} pixels" if name == "FSSL" else ""
            rows[-1].append(f"{one['mean']:.3f}".lstrip("0") + pixels)
    return grid(["per class", *heads.values()], rows)


DENSE = {"FSSL, fro": '"fro", XA = Y'}
OF_MNIST = {"1-NN": "1-NN, all 784 pixels"} | DENSE | {"FSSL": '"l21", μ = 20'}
OF_YALE = {"1-NN": "1-NN", "PCA, 95 %": "PCA, 95 %", "PCA + LDA": "PCA + LDA"} | DENSE
OF_YALE |= {"FSSL": '"l21", `mu=30`'}
TABLES = (
    Table("docs/graphs.md", "digits of FSSL", lambda: lines("mnist", OF_MNIST)),
    Table("docs/graphs.md", "faces of FSSL", lambda: lines("yale", OF_YALE)),
)

SECTIONS = {f.__name__: f for f in (mnist, yale, rival)}


def main(names):
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for name in names or SECTIONS:
            print(f"\n== {name}: {SECTIONS[name].__doc__.splitlines()[0]}", flush=True)
            found = SECTIONS[name]()
            if found and DRAWS == "first":
                keeping.add(STORED, name, found)
    for one in TABLES:
        one.write()


if __name__ == "__main__":
    main(sys.argv[1:])
