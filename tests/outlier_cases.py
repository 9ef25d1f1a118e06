"""Tables with outliers of which the right answer is known."""

from typing import NamedTuple

import numpy as np

SIGNAL = 8  # features that have something in common


class Outlying(NamedTuple):
    values: np.ndarray
    directions: np.ndarray  # p × 2
    n_outliers: int


def outlier_table(kind, seed, *, n=200, p=60, share=0.05, noise=0.5):
    """Return two patterns in eight of the features, all of about variance 1.25, with outliers."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((2, p))
    loadings[np.arange(SIGNAL) % 2, np.arange(SIGNAL)] = 1.0
    deviations = np.where(np.arange(p) < SIGNAL, noise, (1 + noise**2) ** 0.5)
    values = rng.standard_normal((n, 2)) @ loadings + rng.standard_normal((n, p)) * deviations
    values, count = with_outliers(values, kind, rng, share, np.arange(p) >= SIGNAL)
    return Outlying(values, np.linalg.svd(loadings, full_matrices=False)[2].T, count)


def low_rank_table(kind, seed, *, n=300, p=40, share=0.05):
    """Return three patterns in all of the features, with outliers."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((p, 3)))[0]
    values = rng.standard_normal((n, 3)) * [5, 4, 3] @ basis.T + 0.3 * rng.standard_normal((n, p))
    values, count = with_outliers(values, kind, rng, share, np.arange(p) >= p // 2)
    return Outlying(values, basis, count)


def with_outliers(values, kind, rng, share, noise):
    """Return the samples with outliers of a kind, the first ones, and how many these are."""
    n, p = values.shape
    word, _, number = kind.partition(" ")
    size, count = float(number or 0), round(share * n)
    if word == "noise":
        values[:count, noise] *= size
    elif word == "all":
        values[:count] *= size
    elif word == "shift":
        values[:count] += size
    elif word == "one":
        count = 1
        values[0] += size * rng.standard_normal(p)
    elif word == "cells":
        count = 0
        wrong = rng.random((n, p)) < share
        values = np.where(wrong, size * rng.standard_normal((n, p)), values)
    elif word == "tails":
        values /= np.sqrt(rng.chisquare(2, n) / 2)[:, None]
    elif word == "celltails":
        values += 0.3 * values.std(axis=0) * rng.standard_t(2, (n, p))
    return values, count


def angle(basis, directions):
    """Return the largest principal angle between two spaces, in degrees."""
    found = np.linalg.qr(basis)[0]
    cosines = np.linalg.svd(found.T @ directions, compute_uv=False)
    return float(np.degrees(np.arccos(np.clip(cosines.min(), 0, 1))))
