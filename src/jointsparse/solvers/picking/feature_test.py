r"""Does a feature take part in the patterns of a table? A test that leaves the feature itself out.

Let u_i be the leading directions of the samples, i ≤ r, with eigenvalues s_i, and y_j a feature.
A feature of pure noise is part of u_i too, because u_i was found with its help. As it would be
without feature j, the product is, by the secular equation of K - y_j y_jᵀ,

.. math:: c_{ij}^2 = \frac{a_{ij}^2\,(1-\sigma_j^2m_i)_+^2}{1-a_{ij}^2\sigma_j^2m_i'},\qquad
          a_{ij} = y_j^\top u_i,\quad m_i = \sum_{k>r}\frac1{s_i-s_k},\quad
          m_i' = \sum_{k>r}\frac1{(s_i-s_k)^2},

where the other directions, all n - 1 - r of them with those of eigenvalue 0, hold σ_j² of the
feature each. What they hold is what the patterns leave,

.. math:: \sigma_j^2 = \frac{S_{jj} - \sum_i c_{ij}^2}{n-1-r},\qquad
          T_j = \sum_{i\le r} c_{ij}^2/S_{jj},

two equations that are solved by repetition. If feature j is independent of the rest, then T_j has
the law Beta(r/2, (n-1-r)/2), from which come the p value and the share of the feature's variance
that it has in common with the others, adjusted so that it is 0 on average for noise:

.. math:: 1 - (1-T_j)\,\frac{n-1}{n-1-r} .
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from jointsparse.arrays import FloatArray
from jointsparse.linalg import RANK, blocks
from jointsparse.running.threads import in_parts
from jointsparse.solvers.picking.patterns import Patterns

ROUNDS = 50  # of the repetition, which takes about five
SETTLED = 1e-6  # change of T, a share, at which it ends
LEAST = 0.05  # of the denominator: below, a feature makes up the whole direction by itself


def shares_and_pvalues(patterns: Patterns, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the share of each feature that the others account for, and its p value.

    Parameters
    ----------
    patterns : Patterns
        The spectrum of the table.
    count : int
        r, the number of leading directions that are patterns.

    Returns
    -------
    shares : ndarray of shape (n_features,)
        Between 0 and 1; 0 for constant features, and for all where r is 0.
    pvalues : ndarray of shape (n_features,)
        1 for these.
    """
    shares, pvalues = np.zeros(patterns.squares.size), np.ones(patterns.squares.size)
    live = patterns.squares > 0
    freedom = patterns.n_directions - count
    if count == 0 or not live.any():
        return shares, pvalues
    found = leave_one_out(patterns, count)[live]
    shares[live] = np.clip(1 - (1 - found) * patterns.n_directions / freedom, 0.0, 1.0)
    tails = in_parts(lambda part: betainc(freedom / 2, count / 2, 1 - found[part]), found.size)
    pvalues[live] = np.concatenate(tails)
    return shares, pvalues


def leave_one_out(patterns: Patterns, count: int) -> FloatArray:
    """Return T, the share of each feature along the patterns as they would be without it."""
    lead, rest = patterns.values[:count], patterns.values[count:]
    gaps = np.maximum(lead[:, None] - rest, RANK * lead[:, None])  # equal ones at the limit
    first, second = np.sum(1 / gaps, axis=1), np.sum(1 / gaps**2, axis=1)
    others, mean = patterns.others
    first += others / (lead - mean)
    second += others / (lead - mean) ** 2
    empty = max(patterns.n_directions - patterns.values.size - others, 0)
    first += empty / lead
    second += empty / lead**2
    freedom = patterns.n_directions - count
    images, squares = patterns.images(count), patterns.squares
    found = np.zeros(squares.size)

    def solve(part: slice) -> None:
        length = np.where(squares[part] > 0, squares[part], 1.0)
        inside = images[part] / length[:, None]  # a² as a share of the feature
        share = np.full(length.size, count / patterns.n_directions)
        for _ in range(ROUNDS):
            noise = ((1 - share) * length / freedom)[:, None]
            kept = np.maximum(1 - noise * first, 0.0) ** 2
            below = np.maximum(1 - inside * length[:, None] * noise * second, LEAST)
            new = np.minimum(np.sum(inside * kept / below, axis=1), 1.0)
            change = float(np.max(np.abs(new - share)))
            share = new
            if change <= SETTLED:
                break
        found[part] = share

    def solve_all(several: slice) -> None:
        for part in blocks(several.stop - several.start):
            solve(slice(several.start + part.start, several.start + part.stop))

    in_parts(solve_all, squares.size)
    return found


def discoveries(pvalues: FloatArray, fdr: float) -> NDArray[np.bool_]:
    """Return which hypotheses to reject: Benjamini and Hochberg's rule.

    Parameters
    ----------
    pvalues : ndarray
        One for each hypothesis.
    fdr : float
        Share of false ones among the rejections that is allowed on average.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.picking.feature_test import discoveries
    >>> discoveries(np.array([0.001, 0.8, 0.03, 0.02]), 0.05).tolist()
    [True, False, True, True]
    """
    ascending = np.sort(pvalues)
    limits = fdr * np.arange(1, pvalues.size + 1) / pvalues.size
    below = np.flatnonzero(ascending <= limits)
    # What equals the last one is below its own limit, too, which is higher.
    return pvalues <= ascending[below[-1]] if below.size else np.zeros(pvalues.size, dtype=bool)


def beyond_doubt(pvalues: FloatArray, level: float) -> NDArray[np.bool_]:
    """Return which hypotheses to reject if not one rejection may be false: Holm's rule.

    Parameters
    ----------
    pvalues : ndarray
        One for each hypothesis.
    level : float
        Probability with which any rejection is false, at most.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.picking.feature_test import beyond_doubt
    >>> beyond_doubt(np.array([0.001, 0.8, 0.03, 0.02]), 0.05).tolist()
    [True, False, False, False]
    """
    order = np.argsort(pvalues, kind="stable")
    above = pvalues[order] > level / np.arange(pvalues.size, 0, -1)
    rejected = np.zeros(pvalues.size, dtype=bool)
    rejected[order[: int(np.argmax(above)) if above.any() else pvalues.size]] = True
    return rejected
