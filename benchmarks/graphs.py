"""What the methods on graphs promise, measured: ``python -m benchmarks.graphs [SECTION ...]``.

The datasets are read from the folder that JOINTSPARSE_DATA names. Rivals are optional and are run
by interpreters of their own, because they need old versions of their dependencies: name these, with
a colon between them, in JOINTSPARSE_RIVALS. (skfeature-chappers runs on any; ITMO_FS needs
scipy<1.12, numpy<2 and scikit-learn<1.4.) Times are CPU seconds on one thread, of the call alone.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr
from threadpoolctl import threadpool_limits

from benchmarks import common, keeping
from benchmarks.common import ONE_THREAD, ROOT, table, verdict
from jointsparse import RNE, SOGFS, SPCAFS, UDFS, LaplacianScore

warnings.simplefilter("ignore")

MODEL_ONLY = {"n_features_to_select": "support"}  # rivals do not choose how many to keep
STORED = ROOT / "benchmarks" / "results" / "neighbours.json"  # which docs/graphs.md quotes
LIMIT = 900  # seconds for one run of a rival

# Each sets ``scores`` for X; what is above the line is not timed.
RIVALS = {
    "skfeature laplacian": """
from skfeature.function.similarity_based.lap_score import lap_score
from skfeature.utility.construct_W import construct_W
# timed
W = construct_W(X, metric="euclidean", neighbor_mode="knn", weight_mode="binary", k=5)
scores = np.argsort(lap_score(X, mode="index", W=W))  # places in the ranking, best first
""",
    "ITMO_FS laplacian": """
from ITMO_FS.filters.univariate import laplacian_score
# timed
scores = laplacian_score(X, np.zeros(len(X)))
""",
    "skfeature udfs": """
from skfeature.function.sparse_learning_based.UDFS import udfs
# timed
scores = np.sum(np.asarray(udfs(X, mode="raw", n_clusters=5, k=5)) ** 2, axis=1)
""",
    "ITMO_FS udfs": """
from ITMO_FS.filters.sparse import UDFS
# timed
UDFS(10, c=5, k=5).run(X)
scores = None
""",
}
SCRIPT = """
import json, sys, time, resource, warnings
warnings.simplefilter("ignore")
import numpy as np
import scipy.linalg
X, passes, eigh = np.load(sys.argv[1]), [], scipy.linalg.eigh
scipy.linalg.eigh = lambda *args, **kwargs: (passes.append(1), eigh(*args, **kwargs))[1]
{imports}
start = time.process_time()
{timed}
seconds = time.process_time() - start
scores = None if scores is None or np.ndim(scores) != 1 else np.asarray(scores).tolist()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
print(json.dumps([seconds, peak, scores, len(passes)]))
"""


def load(name):
    return table(name)[0]


def timed(function):
    return common.timed(function, time.process_time)


def run_rival(interpreter, name, X):
    """Seconds, memory (GB), scores and eigenproblems of a rival; words where it did not finish."""
    imports, body = RIVALS[name].split("# timed")
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", X)
        code = SCRIPT.format(imports=imports, timed=body)
        try:
            run = subprocess.run(
                [interpreter, "-c", code, str(Path(folder) / "X.npy")],
                capture_output=True,
                text=True,
                timeout=LIMIT,
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": ""},
            )
        except subprocess.TimeoutExpired:
            return f"not finished after {LIMIT} s"
    if run.returncode:
        return (run.stderr.strip().splitlines() or [f"exit status {run.returncode}"])[-1]
    return json.loads(run.stdout.splitlines()[-1])


@cache
def interpreter_for(name):
    """The first of the named interpreters that can run the rival at all."""
    X = np.random.default_rng(0).standard_normal((30, 8))
    for interpreter in filter(None, os.environ.get("JOINTSPARSE_RIVALS", "").split(os.pathsep)):
        if not isinstance(run_rival(interpreter, name, X), str):
            return interpreter
    print(f"{name}: absent, or it does not run (JOINTSPARSE_RIVALS names where to look)")
    return None


def against(name, X, ours, bar):
    """Run a rival between two runs of ours; print the ratio."""
    interpreter = interpreter_for(name)
    if interpreter is None:
        return None
    first, _ = timed(ours)
    theirs = run_rival(interpreter, name, X)
    second, model = timed(ours)
    mine = min(first, second)
    shape = f"{X.shape[0]} × {X.shape[1]}: "
    if isinstance(theirs, str):
        print(f"{shape}{mine:.2f} s; {name}: {theirs}")
        return None
    seconds, peak, scores, passes = theirs
    ratio = seconds / mine
    result = f"(bar {bar}) {verdict(ratio >= bar)}" if bar else ""
    print(
        f"{shape}{mine:.2f} s against {seconds:.1f} s of {name} ({peak:.1f} GB): {ratio:.0f} "
        f"times faster {result}",
        flush=True,
    )
    if passes:  # beside the verdict, not in place of it: stopping rules differ
        equal = UDFS(n_clusters=5, max_iter=passes, tol=1e-15, **MODEL_ONLY)
        again = min(timed(lambda: equal.fit(X))[0] for _ in range(2))
        print(
            f"    {model.n_iter_} passes against {passes}; with {passes} of ours {again:.2f} s, "
            f"{seconds / again:.0f} times",
            flush=True,
        )
    return None if scores is None else (model, np.array(scores))


def laplacian():
    """Laplacian score on mnist, 20 000 × 784, and where theirs do not reach, fewer samples."""
    X = load("mnist")
    for name, sizes in (("skfeature laplacian", (5000, 20000)), ("ITMO_FS laplacian", (250, 500))):
        for n in sizes:
            part = X[:: len(X) // n][:n]
            part = part[:, part.std(axis=0) > 0]
            bar = 5 if n == sizes[-1] else 0
            both = against(
                name, part, lambda part=part: LaplacianScore(**MODEL_ONLY).fit(part), bar
            )
            if both and name.startswith("skfeature"):
                found = spearmanr(both[0].laplacian_scores_, both[1]).statistic
                print(f"    Spearman with theirs (self-loops in their graph): {found:.4f}")


def udfs():
    """UDFS on 2 000 × 500: equal numbers of clusters and neighbours; default stopping rules."""
    pixels = load("mnist")[::10]
    varied = np.sort(np.argsort(-pixels.std(axis=0), kind="stable")[:500])
    print("2 000 images of mnist, the 500 pixels that vary most:")
    fit = UDFS(n_clusters=5, **MODEL_ONLY)
    against("skfeature udfs", pixels[:, varied], lambda: fit.fit(pixels[:, varied]), 20)
    print("features of one kind, five factors and noise (slow to converge):")
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((2000, 5)) @ rng.standard_normal((5, 500))
    X = signal + rng.standard_normal((2000, 500))
    for name in ("skfeature udfs", "ITMO_FS udfs"):
        for n in (500, 2000):
            bar = 20 if n == 2000 else 0
            against(name, X[:n], lambda n=n: UDFS(n_clusters=5, **MODEL_ONLY).fit(X[:n]), bar)
    for label, model in (
        ("default", UDFS(**MODEL_ONLY)),
        ("20 passes", UDFS(max_iter=20, **MODEL_ONLY)),
    ):
        seconds, _ = timed(lambda model=model: model.fit(X))
        print(f"ours, {label}: {seconds:.2f} s, {model.n_iter_} passes, {model.stopping_reason_}")


def wide():
    """More features than samples: the n × n form against the p × p one, on yale."""
    from jointsparse.solvers.graph import quadratic_forms

    X = load("yale")
    for model in (UDFS(n_clusters=15), SPCAFS(n_components=14), SPCAFS(n_components=14, p=1.0)):
        model.set_params(max_iter=20, tol=1e-9)
        samples, _ = timed(lambda model=model: model.fit(X))
        scores = model.feature_scores_
        form = quadratic_forms.LaplacianForm.lowest
        quadratic_forms._WideForm.lowest = lambda self, weights, count, start: (
            quadratic_forms.DenseForm(self.matrix_of_form()).lowest(weights, count, start)
        )
        matrix, _ = timed(lambda model=model: model.fit(X))
        quadratic_forms._WideForm.lowest = form
        difference = np.abs(scores - model.feature_scores_).max()
        print(
            f"{model}: {samples:.2f} s against {matrix:.2f} s, scores equal to {difference:.1e} "
            f"{verdict(difference < 1e-6)}"
        )


def memory():
    """Peak memory on mnist, 20 000 × 784, each in its own process (SOGFS: two alternations)."""
    for name in (
        "LaplacianScore()",
        "UDFS()",
        "RNE()",
        "SPCAFS()",
        "SOGFS(n_clusters=10, max_iter=2)",
    ):
        code = f"from benchmarks.graphs import *; fit_mnist({name})"
        subprocess.run([sys.executable, "-c", code], env={**os.environ, **ONE_THREAD}, check=True)


def fit_mnist(model):
    X = load("mnist")
    seconds, _ = timed(lambda: model.fit(X))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(
        f"{model}: peak {peak:.2f} GB of the whole process {verdict(peak < 4)}, {seconds:.0f} s, "
        f"{model.n_iter_} iterations, {model.stopping_reason_}",
        flush=True,
    )


def orders():
    """yale with the features in another order: the same ranking, also where p > n."""
    X = load("yale")
    order = np.random.default_rng(0).permutation(X.shape[1])
    for model in (LaplacianScore(), UDFS(), SOGFS(n_clusters=15), RNE(), SPCAFS()):
        one = model.fit(X).feature_scores_[order]
        other = model.fit(X[:, order]).feature_scores_
        found = spearmanr(one.round(8), other.round(8)).statistic
        print(
            f"{type(model).__name__:14s} Spearman {found:.6f}, scores equal to "
            f"{np.abs(one - other).max():.1e} {verdict(found > 0.999)}"
        )


def neighbours():
    """The exact search for five neighbours on mnist, 20 000 × 784."""
    from jointsparse.graphs.neighbours import neighbour_sets

    X = load("mnist")
    seconds, _ = timed(lambda: neighbour_sets(X, 5))
    keeping.add(STORED, "mnist", {"size": X.shape, "seconds": seconds})
    print(f"{seconds:.1f} s")


SECTIONS = {f.__name__: f for f in (neighbours, laplacian, udfs, wide, memory, orders)}


def main(names):
    with threadpool_limits(1):
        for name in names or SECTIONS:
            print(f"\n== {name}: {SECTIONS[name].__doc__.splitlines()[0]}", flush=True)
            SECTIONS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
