r"""Pairs of features that go together, in no pattern that is above the noise.

Two columns among forty that are nearly the same have an eigenvalue of 2, less than the noise of 150
samples has: a test of patterns cannot see them. Their correlation r says it by itself. It counts
where both of these are improbable in every of the p(p - 1)/2 pairs of a table together:

* r as large in Gaussian columns: :math:`r^2 \sim \mathrm{Beta}(\tfrac12, \tfrac{n-2}2)`;
* a sum as large, beside its own terms :math:`z_i = x_{ij}x_{ik}`, of numbers with signs of their
  own (Efron, 1969), which few gross values cannot reach; or the same of the ranks of both columns,
  as gross values make large what all others say, too:

.. math:: P\Bigl(\Bigl|\sum_i z_i\Bigr| \ge s\Bigr) \le 2 \min_{\lambda\ge 0} e^{-\lambda s}
          \prod_i\cosh\lambda z_i \le 2e^{-s^2/2\sum_i z_i^2} .

The first bound is the probability itself, :math:`2^{1-n}`, where all signs agree, as in copies.
Signs are not their own where a few values are far from the rest, as the mean then lies to one side
of nearly all: so it is never less than :math:`2^{1-m}`, where of all terms
:math:`m=(\sum_i|z_i|)^2/\sum_i z_i^2` count. With very many samples the second one is used, and
:math:`\sum_i z_i^2` is bounded by the fourth powers of the columns, by Cauchy and Schwarz.
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
from jointsparse.sources.origin import Origin
from jointsparse.sources.weighting import plain_rows

# Probability with which any pair of a table of independent features counts, at most: of Gaussian
# ones by their size, of others by the signs of values, and once more by those of ranks.
CHANCE = 0.01
MOST_WORK = 2e10  # multiplications: of larger tables pairs are not looked at
# Where features take part in patterns there is an answer without pairs, and a fit of 100 x 5000
# samples would take ten times as long with them: up to this many, it takes half as long again.
MOST_BESIDE_PATTERNS = 2e8
# Features whose correlations with all others are held at a time, and entries of that, 128 MB: of
# sparse samples no more columns than these are dense.
AT_ONCE, ENTRIES_AT_ONCE = 512, 2**24
MOST_PAIRS = 200  # of those that may count, the most correlated: their products are looked at
MANY_ROWS = 20_000  # above, products of two columns are bounded
STEPS = 30  # of Newton's method, which copies stop when their signs decide
TIES = 9  # digits of columns of length 1 to which values are told apart that were weighted before
FLAT = 1e-12  # share of Σz² below which a larger factor changes nothing
LOG_2 = float(np.log(2))


def pairs_beyond_chance(
    columns: Columns,
    samples: Samples,
    leverages: FloatArray,
    n_samples: int,
    apart: NDArray[np.bool_],
    origin: Origin | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the share that each feature has in common with one other, and a p value of it.

    0 and 1 for features that go together with none beyond chance.

    Parameters
    ----------
    columns : Columns
        The table.
    samples : Samples
        The centred samples. Of sums alone no pair counts: nothing tells whether a correlation rests
        on a few gross values.
    leverages : ndarray of shape (n_features,)
        Σ_i x_ij⁴ / (Σ_i x_ij²)² for every feature.
    n_samples : int
        Number of samples.
    apart : ndarray of bool of shape (n_features,)
        Features of which one at least is in every pair that is looked at.
    origin : Origin or None
        What the rows are, where they are not as many independent samples.
    """
    p = columns.n_features
    shares, pvalues = np.zeros(p), np.ones(p)
    freedom = n_samples - 1 if origin is None else origin.n_effective
    if freedom < 3:
        return shares, pvalues
    lengths = np.sqrt(to_host(columns.squares))
    leads, live = apart & (lengths > 0), int(np.count_nonzero(lengths))
    n_pairs = max(live * (live - 1) // 2, 1)
    level = CHANCE / n_pairs
    first, second, correlations = _strongest(columns, lengths, freedom, level, leads)
    if not first.size:
        return shares, pvalues
    of_signs = _of_signs(first, second, correlations, samples, leverages, n_samples, level, origin)
    chance = np.maximum(_of_gaussian(correlations, freedom), of_signs)
    adjusted = 1 - (1 - correlations**2) * freedom / (freedom - 1)
    for count in np.flatnonzero(chance * n_pairs <= CHANCE):
        for feature in (first[count], second[count]):
            shares[feature] = max(shares[feature], adjusted[count])
            pvalues[feature] = min(pvalues[feature], chance[count] * (live - 1))
    return shares, pvalues


def too_many_pairs(n_samples: int, apart: NDArray[np.bool_], varying: NDArray[np.bool_]) -> bool:
    """Whether looking at the pairs of some features with all others would take too long."""
    n_apart, p = int(np.count_nonzero(apart)), apart.size
    most = MOST_WORK if n_apart == np.count_nonzero(varying) else MOST_BESIDE_PATTERNS
    return min(n_samples, p) * float(n_apart) * p > most


def _of_gaussian(correlations: FloatArray, freedom: float) -> FloatArray:
    """Return how probable so large a correlation is for two independent Gaussian columns."""
    left = np.clip(1 - correlations**2, 0.0, 1.0)
    return np.asarray(betainc((freedom - 1) / 2, 0.5, left))


def _strongest(
    columns: Columns,
    lengths: FloatArray,
    freedom: float,
    level: float,
    leads: NDArray[np.bool_],
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the pairs whose correlation is improbable by itself, and the correlations."""
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    least, n_leads = _least(freedom, level) ** 0.5, int(np.count_nonzero(leads))
    found: list[tuple[IntArray, IntArray, FloatArray]] = []
    order = np.concatenate([np.flatnonzero(leads), np.flatnonzero(~leads & (lengths > 0))])
    at_once = max(1, min(AT_ONCE, ENTRIES_AT_ONCE // max(columns.n_rows, columns.n_features)))
    for start in range(0, n_leads, at_once):
        leaders, rest = order[start : min(start + at_once, n_leads)], order[start:]
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


def _least(freedom: float, level: float) -> float:
    """Return the squared correlation from which on it is so improbable; a little less."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        improbable = _of_gaussian(np.sqrt([middle]), freedom)[0] <= level
        low, high = (low, middle) if improbable else (middle, high)
    return low


def _of_signs(
    first: IntArray,
    second: IntArray,
    correlations: FloatArray,
    samples: Samples,
    leverages: FloatArray,
    n_samples: int,
    level: float,
    origin: Origin | None,
) -> FloatArray:
    """Return how probable so large a sum of the products of two columns is, at most.

    Of the ranks, where that of the values is above a level. Rows that batches and weights tie
    together have fewer signs of their own. Ranks in rows that were shrunk tell by how much.
    """
    share = 1.0 if origin is None else origin.n_effective / (n_samples - 1)
    if n_samples > MANY_ROWS:
        squared = correlations**2 / np.sqrt(leverages[first] * leverages[second])
        return np.asarray(np.minimum(2 * np.exp(-share * squared / 2), 1.0))
    features, places = np.unique(np.concatenate([first, second]), return_inverse=True)
    values = to_host(samples.take(features)).astype(np.float64)
    values = values / np.sqrt((values**2).sum(axis=0))
    ranked = values
    if origin is not None and origin.mixed:  # ranks of weighted values would be those of weights
        ranked = np.round(plain_rows(values, origin), TIES)
    chances, half = [], first.size
    for one, other, correlation in zip(places[:half], places[half:], correlations, strict=True):
        chance = chance_of_signs(values[:, one] * values[:, other], share)
        if chance > level and not (origin is not None and origin.shrunk):
            terms = centred_ranks(ranked[:, one]) * centred_ranks(ranked[:, other])
            if terms.sum() * correlation > 0:
                chance = min(chance, chance_of_signs(terms, share))
        chances.append(chance)
    return np.array(chances)


def centred_ranks(column: FloatArray) -> FloatArray:
    """Return the ranks of some values about their mean; equal values share theirs.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.picking.pairs import centred_ranks
    >>> centred_ranks(np.array([0.1, 700.0, 0.2, 0.2])).tolist()
    [-1.5, 1.5, 0.0, 0.0]
    """
    _, places, counts = np.unique(column, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return np.asarray(ranks - ranks.mean())


def chance_of_signs(terms: FloatArray, share: float = 1.0) -> float:
    """Return a bound of the probability that terms of random signs have so large a sum.

    Of signs of their own there is a share of the terms, which multiplies the exponent.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.picking.pairs import chance_of_signs
    >>> chance_of_signs(np.ones(40)) <= 2.01 * 0.5**40, chance_of_signs(np.array([5.0, 0.1])) > 0.9
    (True, True)
    """
    sizes, total = np.abs(terms), abs(float(terms.sum()))
    squares = float((sizes**2).sum())
    if squares == 0:
        return 1.0
    factor, exponent = total / squares, 0.0
    for _ in range(STEPS):  # of Newton; any factor gives a bound, and the first the second one
        slopes = np.tanh(factor * sizes)
        # log cosh, without overflow
        logs = factor * sizes + np.log1p(np.exp(-2 * factor * sizes)) - LOG_2
        exponent = min(exponent, float(logs.sum()) - factor * total)
        bend = float((sizes**2 * (1 - slopes**2)).sum())
        if bend <= FLAT * squares:
            break
        factor = max(factor + (total - float((sizes * slopes).sum())) / bend, 0.0)
    few = -LOG_2 * float(sizes.sum()) ** 2 / squares
    return min(2 * float(np.exp(share * max(exponent, few))), 1.0)
