"""Very wide tables in single precision: time, peak memory, what is found.

    python -m benchmarks.million METHOD N_SAMPLES N_FEATURES [THREADS]

METHOD is spca-psd or cspca-psd (certified to 1e-3), spca, jspca or jspca-frobenius. The problem:
ten directions on 2 000 features that carry half of the variance; noise of equal size on all
features is the rest. The peak is that of the whole process, the table included.
"""

import resource
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

from jointsparse import CSPCA, JSPCA, SPCA, SPCAPSD

RANK, PLANTED = 10, 2_000
MODELS = {
    "spca-psd": lambda: SPCAPSD(alpha=0.1, eta=0.03, tol=1e-3, n_features_to_select="support"),
    "cspca-psd": lambda: CSPCA(alpha=0.1, eta=0.03, tol=1e-3, n_features_to_select="support"),
    "spca": lambda: SPCA(n_components=RANK),
    "jspca": lambda: JSPCA(n_components=RANK),
    "jspca-frobenius": lambda: JSPCA(n_components=RANK, loss="frobenius"),
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


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(name, n, p, threads=1):
    X, planted = problem(n, p)
    before = peak()
    model = MODELS[name]()
    start = time.perf_counter()
    with threadpool_limits(threads):
        model.fit(X)
    seconds = time.perf_counter() - start
    found = model.get_support(indices=True)
    hits = np.intersect1d(found, planted).size
    explained = ""
    if hasattr(model, "explained_variance_ratio_"):
        explained = f"{model.explained_variance_ratio_.sum():.1%} of the variance; "
    print(
        f"{name} {n} x {p}: {seconds:.0f} s, {model.n_iter_} iterations, peak {peak():.2f} GB "
        f"({before:.2f} GB with the table alone); {found.size} features, {hits} of the {PLANTED} "
        f"planted; {explained}{model.stopping_reason_}",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
