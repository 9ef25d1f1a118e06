r"""Pairs of features that go together, in no pattern that is above the noise.

Two columns among forty that are nearly the same have an eigenvalue of 2, less than the noise of 150
samples has: a test of patterns cannot see them. Their correlation r says it by itself. It counts
where both of these are improbable in every of the p(p - 1)/2 pairs of a table together:

* r as large in Gaussian columns: :math:`r^2 \sim \mathrm{Beta}(\tfrac12, \tfrac{n-2}2)`;
* a sum as large, beside its own terms :math:`z_i = x_{ij}x_{ik}`, of numbers with signs of their
  own (Efron, 1969), which few gross values cannot reach:

.. math:: P\Bigl(\Bigl|\sum_i z_i\Bigr| \ge t\,\Bigl(\sum_i z_i^2\Bigr)^{1/2}\Bigr)
          \le 2e^{-t^2/2} .

With very many samples :math:`\sum_i z_i^2` is not computed, but bounded by the fourth powers of the
columns, by Cauchy and Schwarz.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import to_host
from jointsparse.linalg import array_namespace
from jointsparse.operators.samples import Samples
from jointsparse.solvers.products.columns import Columns

CHANCE = 0.01  # probability with which any pair of a table of independent features counts, at most
MOST_WORK = 2e10  # multiplications: of larger tables pairs are not looked at
# Where features take part in patterns there is an answer without pairs, and a fit of 100 x 5000
# samples would take ten times as long with them: up to this many, it takes half as long again.
MOST_BESIDE_PATTERNS = 2e8
AT_ONCE = 512  # features whose correlations with all others are held at a time
MOST_PAIRS = 200  # of those that may count, the most correlated: their products are looked at
MANY_ROWS = 20_000  # above, products of two columns are bounded


def pairs_beyond_chance(
    columns: Columns,
    samples: Samples | None,
    leverages: FloatArray,
    n_samples: int,
    apart: NDArray[np.bool_] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the share that each feature has in common with one other, and a p value of it.

    0 and 1 for features that go together with none beyond chance.

    Parameters
    ----------
    columns : Columns
        The table.
    samples : Samples or None
        The centred samples; None where only their sums are known. Of sums alone no pair counts:
        nothing tells whether a correlation rests on a few gross values.
    leverages : ndarray of shape (n_features,)
        Σ_i x_ij⁴ / (Σ_i x_ij²)² for every feature.
    n_samples : int
        Number of samples.
    apart : ndarray of bool of shape (n_features,) or None
        Features of which one at least is in every pair that is looked at; None for all.
    """
    p = columns.n_features
    shares, pvalues = np.zeros(p), np.ones(p)
    if samples is None or n_samples < 4:
        return shares, pvalues
    lengths = np.sqrt(to_host(columns.squares))
    leads = lengths > 0 if apart is None else apart & (lengths > 0)
    live = int(np.count_nonzero(lengths))
    most = MOST_WORK if leads.sum() == live else MOST_BESIDE_PATTERNS
    if columns.n_rows * float(leads.sum()) * p > most:
        return shares, pvalues
    n_pairs = max(live * (live - 1) // 2, 1)
    level = CHANCE / n_pairs
    first, second, correlations = _strongest(columns, lengths, n_samples, level, leads)
    if not first.size:
        return shares, pvalues
    ratios = _ratios(first, second, correlations, samples, leverages, n_samples)
    chance = np.maximum(_of_gaussian(correlations, n_samples), 2 * np.exp(-(ratios**2) / 2))
    adjusted = 1 - (1 - correlations**2) * (n_samples - 1) / (n_samples - 2)
    for count in np.flatnonzero(chance * n_pairs <= CHANCE):
        for feature in (first[count], second[count]):
            shares[feature] = max(shares[feature], adjusted[count])
            pvalues[feature] = min(pvalues[feature], chance[count] * (live - 1))
    return shares, pvalues


def _of_gaussian(correlations: FloatArray, n_samples: int) -> FloatArray:
    """Return how probable so large a correlation is for two independent Gaussian columns."""
    left = np.clip(1 - correlations**2, 0.0, 1.0)
    return np.asarray(betainc((n_samples - 2) / 2, 0.5, left))


def _strongest(
    columns: Columns,
    lengths: FloatArray,
    n_samples: int,
    level: float,
    leads: NDArray[np.bool_],
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the pairs whose correlation is improbable by itself, and the correlations."""
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    least, n_leads = _least(n_samples, level) ** 0.5, int(np.count_nonzero(leads))
    found: list[tuple[IntArray, IntArray, FloatArray]] = []
    order = np.concatenate([np.flatnonzero(leads), np.flatnonzero(~leads & (lengths > 0))])
    for start in range(0, n_leads, AT_ONCE):
        leaders, rest = order[start : min(start + AT_ONCE, n_leads)], order[start:]
        units = columns.take(leaders) * columns.here(inverse[leaders])
        block = columns.inner(units, rest) * columns.here(inverse[rest])
        xp = array_namespace(block)
        one, other = xp.nonzero(xp.abs(block) >= least)
        one, other, values = map(to_host, (one, other, block[one, other]))
        later = other > one  # each pair once
        places = rest[one[later]], rest[other[later]]
        found.append((*places, np.clip(values[later], -1.0, 1.0)))
    first, second, correlations = (np.concatenate(parts) for parts in zip(*found, strict=True))
    strongest = np.argsort(-np.abs(correlations), kind="stable")[:MOST_PAIRS]
    return first[strongest], second[strongest], correlations[strongest]


def _least(n_samples: int, level: float) -> float:
    """Return the squared correlation from which on it is so improbable; a little less."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        improbable = _of_gaussian(np.sqrt([middle]), n_samples)[0] <= level
        low, high = (low, middle) if improbable else (middle, high)
    return low


def _ratios(
    first: IntArray,
    second: IntArray,
    correlations: FloatArray,
    samples: Samples,
    leverages: FloatArray,
    n_samples: int,
) -> FloatArray:
    """Return |Σ z| / (Σ z²)^½ for the products of two columns, or what it is at least."""
    if n_samples > MANY_ROWS:
        return np.asarray(np.abs(correlations) / (leverages[first] * leverages[second]) ** 0.25)
    features, places = np.unique(np.concatenate([first, second]), return_inverse=True)
    values = to_host(samples.take(features)).astype(np.float64)
    values = values / np.sqrt((values**2).sum(axis=0))
    half = first.size
    products = values[:, places[:half]] * values[:, places[half:]]
    return np.asarray(np.abs(products.sum(axis=0)) / np.sqrt((products**2).sum(axis=0)))
