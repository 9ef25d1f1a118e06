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

two equations in one unknown, T_j, which Newton's steps solve; where these end nowhere, repetition
does. If feature j is independent of the rest, then T_j has
the law Beta(r/2, (n-1-r)/2), from which come the p value and the share of the feature's variance
that it has in common with the others, adjusted so that it is 0 on average for noise:

.. math:: 1 - (1-T_j)\,\frac{n-1}{n-1-r} .
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import is_device_array, like, numbers, to_host
from jointsparse.linalg import RANK, array_namespace
from jointsparse.running.threads import in_parts
from jointsparse.solvers.picking.patterns import Patterns

STEPS = 8  # of Newton's, which takes three, before the equations are repeated instead
ROUNDS = 50  # of the repetition, which takes from ten to thirty
SETTLED = 1e-6  # change of T, a share, at which it ends; of Newton's last step the square is left
LEAST = 0.05  # of the denominator: below, a feature makes up the whole direction by itself
ENTRIES = 2**16  # of features by patterns at a time: a dozen such arrays stay near the processor
FEW_ENTRIES = 2**15  # with which the host is done before a device has launched a hundred operations
DEVICE_ENTRIES = 2**24  # on a device, which is idle with fewer: a dozen of 134 MB


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
    freedom = patterns.n_directions - count
    if count == 0 or not patterns.n_features:
        return shares, pvalues
    varying = patterns.varying
    found = leave_one_out(patterns, count)[varying]
    shares[varying] = np.clip(1 - (1 - found) * patterns.n_directions / freedom, 0.0, 1.0)
    tails = in_parts(lambda part: betainc(freedom / 2, count / 2, 1 - found[part]), found.size)
    pvalues[varying] = np.concatenate(tails)
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
    images, squares = patterns.images(count), patterns.squares
    if squares.size * count <= FEW_ENTRIES:
        images = to_host(images)
    first, second = like(first, images), like(second, images)
    found = np.zeros(squares.size)
    step = max((DEVICE_ENTRIES if is_device_array(images) else ENTRIES) // count, 1)

    def solve(several: slice) -> None:
        for start in range(several.start, several.stop, step):
            part = slice(start, min(start + step, several.stop))
            lengths = like(squares[part], images)
            equations = _Equations(images[part, :], lengths, first, second, patterns, count)
            found[part] = to_host(equations.solved())

    if is_device_array(images):  # which works on all of a part at once by itself
        solve(slice(0, squares.size))
    else:
        in_parts(solve, squares.size)
    return found


class _Equations:
    r"""T of some features as a function of what the patterns leave of them, 1 - T.

    With the shares :math:`b_i = a_i^2/S` of a feature, of which each other direction holds
    :math:`\sigma^2 = (1-T)S/(n-1-r)`,

    .. math:: T = \sum_i b_i\,\frac{(1-(1-T)\alpha_i)_+^2}{1-(1-T)\beta_i},\qquad
              \alpha_i = \frac{Sm_i}{n-1-r},\quad \beta_i = \frac{b_iS^2m_i'}{n-1-r} .
    """

    def __init__(
        self,
        images: Array,
        squares: Array,
        first: Array,
        second: Array,
        patterns: Patterns,
        count: int,
    ) -> None:
        freedom = patterns.n_directions - count
        length = (squares + (squares <= 0))[:, None]  # 1 for constant features
        self.inside = images / length
        self.alpha = (length / freedom) * first
        self.beta = images * ((length / freedom) * second)
        self.first = 0 * squares + count / patterns.n_directions
        self.vecdot = array_namespace(images).vecdot

    def terms(self, share: Array) -> tuple[Array, Array, Array]:
        """Return (1 - (1-T)α)₊, the denominators, and b times the one over the other."""
        left = (1 - share)[:, None]
        kept = _at_least(1 - left * self.alpha, 0.0)
        below = _at_least(1 - left * self.beta, LEAST)
        return kept, below, self.inside * kept / below

    def again(self, share: Array) -> Array:
        """Return what the right side is, at most 1."""
        kept, _, both = self.terms(share)
        return _at_most_one(self.vecdot(both, kept))

    def solved(self) -> Array:
        """Return T: by Newton's steps from the first repetition."""
        share = self.again(self.first)
        for _ in range(STEPS):
            kept, below, both = self.terms(share)
            found = self.vecdot(both, kept)
            # The slope of the right side in T; a denominator at its limit has none.
            falling = kept * self.beta
            falling /= below
            falling[below <= LEAST] = 0.0
            slope = self.vecdot(both, 2 * self.alpha - falling)
            slope[found >= 1] = 0.0
            new = share + (_at_most_one(found) - share) / (1 - slope)
            steepest, change = numbers(abs(slope).max(), abs(new - share).max())
            share = new
            if not steepest < 1:  # not where repetition would end
                break
            if change <= SETTLED:
                return _at_most_one(_at_least(share, 0.0))
        return self.repeated()

    def repeated(self) -> Array:
        """Return T, as far as repetition comes."""
        share = self.first
        for _ in range(ROUNDS):
            new = self.again(share)
            change = float(abs(new - share).max())
            share = new
            if change <= SETTLED:
                break
        return share


def _at_least(array: Array, value: float) -> Array:
    """Raise entries to a value, in the array itself."""
    if type(array) is np.ndarray:
        return np.maximum(array, value, out=array)
    array[array < value] = value
    return array


def _at_most_one(array: Array) -> Array:
    """Lower entries to 1, in the array itself."""
    if type(array) is np.ndarray:
        return np.minimum(array, 1.0, out=array)
    array[array > 1] = 1.0
    return array


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
    ascending = np.sort(pvalues[pvalues <= fdr])  # no limit is higher
    limits = fdr * np.arange(1, ascending.size + 1) / pvalues.size
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
    few = np.flatnonzero(pvalues <= level)  # no limit is higher
    order = few[np.argsort(pvalues[few], kind="stable")]
    above = pvalues[order] > level / (pvalues.size - np.arange(order.size))
    rejected = np.zeros(pvalues.size, dtype=bool)
    rejected[order[: int(np.argmax(above)) if above.any() else order.size]] = True
    return rejected
