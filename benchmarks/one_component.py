"""One sparse component with abess and with A-ManPG: ``python one_component.py S.npz OUT.npz``.

It needs NumPy and the two programs, nothing of ours. S.npz has a covariance matrix ``S`` and
numbers of features ``counts``; OUT.npz gets ``NAME_K``, the features of each program for each of
them. A program that fails leaves nothing.
"""

import sys

import numpy as np

PENALTIES = 12  # of A-ManPG, from few nonzeros to many


def by_abess(S, k):
    from abess.decomposition import SparsePCA

    # It refuses what is not symmetric to the digit, or has an eigenvalue below 0 by rounding.
    safe = (S + S.T) / 2 + 1e-9 * np.max(np.diagonal(S)) * np.eye(len(S))
    model = SparsePCA(support_size=k, thread=1)
    model.fit(Sigma=safe, n=10 * len(S))
    return np.flatnonzero(np.asarray(model.coef_).ravel())


def by_a_manpg(S, k):
    """The k largest loadings at every penalty with as many nonzeros; the best of these."""
    from sparsepca import spca

    best, top = None, -np.inf
    largest = float(np.linalg.eigvalsh(S)[-1])
    for penalty in np.geomspace(0.01, 2, PENALTIES) * largest / len(S) ** 0.5:
        found = spca(S, np.array([[penalty]]), np.inf, k=1, type=1, normalize=False, maxiter=500)
        loadings = np.abs(np.asarray(found["loadings"])).ravel()
        if np.count_nonzero(loadings) >= k:
            features = np.argsort(-loadings)[:k]
            value = float(np.linalg.eigvalsh(S[np.ix_(features, features)])[-1])
            if value > top:
                best, top = features, value
    return best


def main(source, target):
    with np.load(source) as data:
        S, counts = data["S"], data["counts"]
    found = {}
    for name, solve in (("abess", by_abess), ("A-ManPG", by_a_manpg)):
        for k in counts.tolist():
            try:
                features = solve(S, k)
            except Exception as error:  # whatever a rival raises is its result
                print(f"{name}, {k}: {error}", file=sys.stderr)
                continue
            if features is not None and 0 < len(features) <= k:
                found[f"{name}_{k}"] = features
    np.savez(target, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
