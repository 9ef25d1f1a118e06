"""A million features on one machine: ``python -m benchmarks.million [N_FEATURES [N_SAMPLES]]``.

SPCA-PSD, or CSPCA-PSD with ``cspca`` as third argument, on float32 data with a rank-10 signal on
the first 0.2 % of the features, which carries about half of the variance, and noise on all.
Reported are the time of each part, the certified gap, whether the planted features were found, and
the peak memory of the process.
"""

import resource
import sys
import time

import numpy as np

from jointsparse import CSPCA, SPCAPSD, Moments

RANK = 10
SHARE = 0.002  # of the features carry the signal


def planted(n_samples, n_features, seed=0):
    """Float32 data, made in blocks of features."""
    rng = np.random.default_rng(seed)
    signal = max(RANK, round(SHARE * n_features))
    X = np.empty((n_samples, n_features), dtype=np.float32)
    for first in range(0, n_features, 10_000):
        width = min(10_000, n_features - first)
        X[:, first : first + width] = rng.standard_normal((n_samples, width), dtype=np.float32)
    # n·p of noise and as much of signal
    scale = np.sqrt(n_features / (signal * RANK))
    left, right = rng.standard_normal((n_samples, RANK)), rng.standard_normal((RANK, signal))
    X[:, :signal] += (scale * (left @ right)).astype(np.float32)
    return X, signal


def peak():
    """Peak memory of the process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def main(n_features=1_000_000, n_samples=1_000, loss="squared", alpha=0.1, eta=0.03):
    X, signal = planted(n_samples, n_features)
    print(f"{n_samples} x {n_features} float32: {X.nbytes / 1e9:.2f} GB, peak {peak():.2f} GB")
    begin = time.perf_counter()
    moments = Moments.from_data(X)
    checked = time.perf_counter()
    method = CSPCA if loss == "cspca" else SPCAPSD
    model = method(alpha=alpha, eta=eta, tol=1e-3, n_features_to_select="support")
    model.fit_moments(moments)
    done = time.perf_counter()
    found = np.flatnonzero(model.support_)
    right = int(np.sum(found < signal))
    print(
        f"mean and checks {checked - begin:.1f} s, fit {done - checked:.1f} s; gap "
        f"{model.duality_gap_:.1e}, rank {model.loadings_.shape[1]}, {model.n_iter_} iterations, "
        f"{np.count_nonzero(getattr(model, 'proved_zero_', 0))} features proved zero; "
        f"{found.size} kept, of them {right} of the {signal} planted; peak memory {peak():.2f} GB"
    )
    return model


if __name__ == "__main__":
    main(*(int(text) if text.isdigit() else text for text in sys.argv[1:]))
