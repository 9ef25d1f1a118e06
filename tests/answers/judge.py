"""A neutral judge of sets: what the selected features predict of the dropped ones in other samples.

One half of the samples regresses the dropped features on the selected ones, by ridge regression
whose penalty is chosen by generalised cross-validation; the other half is predicted. It shares no
code with the package, and knows no method.
"""

import numpy as np

PENALTIES = np.geomspace(1e-3, 1e2, 17)  # of the largest eigenvalue; the first is the floor


def halves(n_samples, seed=0):
    """Return two halves of the samples, at random."""
    order = np.random.default_rng(seed).permutation(n_samples)
    return np.sort(order[: n_samples // 2]), np.sort(order[n_samples // 2 :])


def predicted(train, test, features):
    """Return the R² of the dropped features in the test samples, in percent."""
    dropped = np.setdiff1d(np.arange(train.shape[1]), features)
    mean = train.mean(axis=0)
    train, test = train - mean, test - mean
    total = (test[:, dropped] ** 2).sum()
    U, lengths, Vt = np.linalg.svd(train[:, features], full_matrices=False)
    if not (lengths[:1] > 0).any() or total == 0:
        return 0.0
    seen = U.T @ train[:, dropped]
    everything, energies = (train[:, dropped] ** 2).sum(), (seen**2).sum(axis=1)
    scores = []
    for penalty in lengths[0] ** 2 * PENALTIES:
        shrunk = lengths**2 / (lengths**2 + penalty)
        left = everything - ((1 - (1 - shrunk) ** 2) * energies).sum()
        scores.append((left / (len(train) - 1 - shrunk.sum()) ** 2, penalty))
    penalty = min(scores)[1]
    weights = Vt.T @ ((lengths / (lengths**2 + penalty))[:, None] * seen)
    missed = ((test[:, dropped] - test[:, features] @ weights) ** 2).sum()
    return 100 * float(1 - missed / total)


def held_out(X, select, seeds=(0,)):
    """Return the mean R² over both halves; ``select`` sees the half that is not predicted."""
    found = []
    for seed in seeds:
        one, other = halves(len(X), seed)
        for train, test in ((X[one], X[other]), (X[other], X[one])):
            found.append(predicted(train, test, select(train)))
    return float(np.mean(found))


def worth(X, features):
    """Return the same of a given set, whatever chose it: to compare two sets of one table."""
    return held_out(X, lambda train: np.asarray(features, dtype=int), seeds=range(4))
