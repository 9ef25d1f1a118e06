r"""Which features of a table matter: those that have something in common with others.

A table of noise has a largest eigenvalue too. What is above the one that noise alone would have,
in 95 of 100 tables, is an independent pattern (:mod:`jointsparse.solvers.picking.noise_edge`); a
feature matters that takes part in one more than a feature of noise would
(:mod:`jointsparse.solvers.picking.feature_test`). Both are properties of the table, not of a
method, and do not depend on the units of its columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.moments import Moments
from jointsparse.running.workspace import Slot
from jointsparse.solvers.picking.feature_test import discoveries, shares_and_pvalues
from jointsparse.solvers.picking.noise_edge import NoiseEdge, sequential_edge
from jointsparse.solvers.picking.pairs import pairs_beyond_chance, too_many_pairs
from jointsparse.solvers.picking.patterns import (
    EQUAL,
    FIRST_PAIRS,
    MOST_PAIRS,
    Patterns,
    can_be_evened,
    centred_samples,
    patterns_of,
    weights_of,
)
from jointsparse.solvers.products.columns import feature_columns

FDR = 0.05  # share of false ones among the significant features, on average
DIFFERENT = 0.2  # standard deviation of noise levels beyond which the test errs, unless weighted
ALIKE = 1.2  # largest level, relative to the mean, at which weighted samples are alike
LESS = 0.5  # of what samples differed before weighting: another round as long as it helps
QUIETEST = 0.1  # of the median level: a sample without any noise must not be the whole table


@dataclass(frozen=True)
class FeatureSignificance:
    """Which features have something in common with others, beyond what noise would have.

    Attributes
    ----------
    shares : ndarray of shape (n_features,)
        Share of each feature's variance that patterns of the *other* features account for: 0 on
        average for noise, 1 for a copy; 0 for constant features.
    pvalues : ndarray of shape (n_features,)
        How probable so large a share is for a feature that is independent of the others; 1 for
        constant features. Of a feature that takes part in no pattern, that of its closest pair.
    significant : ndarray of bool of shape (n_features,)
        Features that matter; of these at most ``fdr`` are false on average (Benjamini-Hochberg).
    n_significant : int
        Number of independent patterns above the noise.
    noise_edge : float
        The largest eigenvalue of the correlation matrix that noise alone would have.
    patterns : ndarray of shape (n_significant,)
        Its eigenvalues above that, largest first; they are in units of one feature.
    limited : bool
        Whether counting stopped at its limit, so that there may be more patterns.
    fdr : float
        The share of false ones that was allowed.
    assumes_equal_samples : bool
        Whether samples were taken to be equally noisy, because only their sums are known.
    sample_heterogeneity : float
        Standard deviation of the samples' noise levels, relative to their mean, beyond what equal
        levels would show. Above 0.2 samples are weighted by one over their levels, if that
        makes them alike.
    weighted : bool
        Whether they were.
    sample_weights : ndarray of shape (n_samples,)
        These weights, of mean 1, times those that the samples came with; all 1 where samples were
        not weighted. They belong to this test: a method takes samples as they are unless
        ``fit(X, sample_weight=...)`` is given them.
    untested : str
        Why patterns could not be told from noise, so that none is claimed; empty where they could.
    """

    shares: FloatArray
    pvalues: FloatArray
    significant: NDArray[np.bool_]
    n_significant: int
    noise_edge: float
    patterns: FloatArray
    limited: bool
    fdr: float
    assumes_equal_samples: bool
    sample_heterogeneity: float
    weighted: bool
    sample_weights: FloatArray
    untested: str = ""

    def __str__(self) -> str:
        if self.untested:
            return f"Patterns are not told from noise: {self.untested}."
        total, found = self.significant.size, int(self.significant.sum())
        if self.n_significant == 0 and found:
            lines = [
                f"No pattern in these {total} features is stronger than in random numbers. "
                f"{found} of them go together in pairs, beyond chance: on average "
                f"{self.shares[self.significant].mean():.0%} of such a feature is shared with "
                "another one."
            ]
        elif self.n_significant == 0:
            these = "this one feature" if total == 1 else f"these {total} features"
            lines = [
                f"No structure beyond noise: no pattern in {these} is stronger than "
                "in random numbers, and no feature is significant."
            ]
        else:
            count, more = self.n_significant, "at least " if self.limited else ""
            what = "independent pattern is" if count == 1 else "independent patterns are"
            lines = [
                f"{more}{count} {what} stronger than noise.".capitalize(),
                f"{found} of {total} features share something with others (false-discovery rate "
                f"{self.fdr:.0%})"
                + (
                    f"; on average {self.shares[self.significant].mean():.0%} of such a feature "
                    "is shared."
                    if found
                    else "."
                ),
            ]
        if self.assumes_equal_samples:
            lines.append("The samples are assumed to be equally noisy: only their sums are known.")
        if self.weighted:
            lines.append(
                "Some samples are noisier than others; each is weighted by its own noise level "
                "here (sample_weights)."
            )
        elif self.sample_heterogeneity > DIFFERENT:
            lines.append(
                "Some samples are noisier than others in some of the features, which hides "
                "patterns and makes p values approximate: logarithms or ranks may help."
            )
        return " ".join(lines)


def feature_significance(X: Any, *, fdr: float = FDR) -> FeatureSignificance:
    r"""Test which features have something in common with others, beyond what noise would have.

    Columns are standardised, whatever their scale: S is n times the correlation matrix, with
    eigenvalues s_i and, for samples of noise level a_i, the noise edge e. With r eigenvalues above
    e, and c_ij the product of feature j with pattern i as it would be without feature j,

    .. math:: T_j = \frac1{S_{jj}}\sum_{i\le r} c_{ij}^2 \sim
              \mathrm{Beta}\Bigl(\tfrac r2, \tfrac{n-1-r}2\Bigr)

    for a feature that is independent of the others; its p value is the upper tail, and the share
    that it has in common with them :math:`1 - (1-T_j)(n-1)/(n-1-r)`, if positive.

    Features that take part in no pattern may still go together in pairs. Where the samples
    themselves are at hand, a feature counts whose correlation with another one is beyond chance in
    all pairs of the table (1 %), by its size and without resting on a few gross values. The p value
    and the share are then those of that pair.

    Samples whose noise levels differ much hide patterns and make noise look like them. They are
    found by what the patterns leave of each, and weighted by one over their levels.

    Parameters
    ----------
    X : array-like, data frame, sparse matrix, tensor, source, path or Moments
        Samples in rows, or their moments. Rows must be independent of each other: time series,
        batches and copies of samples are structure to this test, unless ``Moments.from_data`` was
        told of them (``batch``, ``sample_weight``): then n - 1 above is n less the number of
        batches, a sample counts once, however often it is there, and one of a larger weight is
        known to be louder.
    fdr : float, default=0.05
        Share of false ones among the significant features, on average.

    Returns
    -------
    FeatureSignificance
        Shares, p values, which features are significant, and how many patterns there are.

    Notes
    -----
    The largest eigenvalue of noise is exceeded in about 5 % of tables of noise, in which a pattern
    and some features are then found. Moments without samples assume samples of equal noise level.
    In samples that ``robust="samples"`` shrunk, ranks count for no pair: they tell by how much
    each row was shrunk, in all columns alike where most values are the same.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import feature_significance
    >>> rng = np.random.default_rng(3)
    >>> X = rng.standard_normal((200, 40))
    >>> print(feature_significance(X))
    No structure beyond noise: no pattern in these 40 features is stronger than in random ...
    >>> X[:, :6] += rng.standard_normal((200, 1))
    >>> found = feature_significance(X)
    >>> found.n_significant, np.flatnonzero(found.significant).tolist()
    (1, [0, 1, 2, 3, 4, 5])
    """
    if not isinstance(fdr, int | float) or isinstance(fdr, bool) or not 0 < fdr < 1:
        raise ValueError(f"fdr={fdr!r} is not a number between 0 and 1")
    moments = X if isinstance(X, Moments) else Moments.from_data(X, copy=False)
    table = _table(moments)
    significant = np.zeros(moments.n_features, dtype=bool)
    live = moments.variances > 0
    significant[live] = discoveries(table.pvalues[live], float(fdr))
    return FeatureSignificance(
        shares=table.shares.copy(),
        pvalues=table.pvalues.copy(),
        significant=significant,
        n_significant=table.edge.n_patterns,
        noise_edge=table.edge.edge / moments.n_samples,
        patterns=table.values / moments.n_samples,
        limited=table.edge.limited,
        fdr=float(fdr),
        assumes_equal_samples=not moments.has_samples,
        sample_heterogeneity=table.plain.spread,
        weighted=table.edge is not table.plain,
        sample_weights=_own(table.weights),
        untested=_untested(moments),
    )


def _untested(moments: Moments) -> str:
    return "" if moments.origin is None else moments.origin.unknown


def _own(weights: FloatArray) -> FloatArray:
    """Return weights that can be changed without changing those that are kept; ones stay one."""
    return weights.copy() if weights.flags.writeable else weights


def noise_edge(moments: Moments) -> NoiseEdge:
    """Return the largest eigenvalue that noise would have, in the units of the scatter matrix.

    Of columns and samples as they are: a loud column hides patterns among quiet ones, and loud
    samples those of quiet ones. Standardised columns and weighted samples are what
    :func:`feature_significance` looks at. Where it finds more patterns by weighting samples, or
    any where none is found here, samples are taken to be equally noisy here: the edge is then
    rather too low than too high.

    Parameters
    ----------
    moments : Moments
        The table.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import Moments
    >>> from jointsparse.significance import noise_edge
    >>> X = np.random.default_rng(0).standard_normal((200, 40))
    >>> found = noise_edge(Moments.from_data(X))
    >>> found.n_patterns, bool(found.edge > (200**0.5 + 40**0.5) ** 2)
    (0, True)
    """
    return moments.workspace.kept(EDGE, lambda: _noise_edge(moments))


def _noise_edge(moments: Moments) -> NoiseEdge:
    base = moments.near_one
    unit = moments.total_variance / base.total_variance if base is not moments else 1.0
    table, squares = _table(moments), base.variances[base.variances > 0]
    if squares.size and np.ptp(squares) <= EQUAL * squares[0]:
        found = table.plain
        factor = unit * float(squares[0]) / base.n_samples  # standardised, but for the unit
    else:
        found, factor = _edge(base, standardised=False)[1], unit
    # Without weights one pattern more or less is chance, which must not decide on the edge.
    hidden = table.edge is not table.plain or found.n_patterns == 0
    if hidden and found.n_patterns < table.edge.n_patterns:
        equal = _edge(base, standardised=False, equal_samples=True)[1]
        if equal.n_patterns > found.n_patterns:
            found, factor = equal, unit
    found = replace(found, edge=found.edge * factor, noise=found.noise * factor)
    return found if not _untested(moments) else _silent(found, moments.total_variance)


def _silent(found: NoiseEdge, most: float) -> NoiseEdge:
    """Return an edge that nothing is above, where patterns cannot be told from noise."""
    return replace(found, n_patterns=0, edge=max(found.edge, most), limited=False)


def leverages(moments: Moments) -> FloatArray:
    r"""Return how much each feature hangs on single samples.

    .. math:: \ell_j = \frac{\sum_i x_{ij}^4}{(\sum_i x_{ij}^2)^2}

    is the leverage of a sample in a regression on the feature, averaged over where the feature's
    squares are: from 1/n, where all samples hold as much, to 1 where one holds all.

    Parameters
    ----------
    moments : Moments
        The table; of moments without samples all are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import Moments
    >>> from jointsparse.significance import leverages
    >>> X = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 4.0], [-1.0, -4.0]])
    >>> leverages(Moments.from_data(X)).round(6).tolist()
    [0.25, 0.5]
    """
    return _table(moments).leverages


@dataclass(frozen=True)
class _Table:
    """What is kept of a table: the edges of samples as they are and as they were tested."""

    plain: NoiseEdge
    edge: NoiseEdge
    values: FloatArray
    shares: FloatArray
    pvalues: FloatArray
    leverages: FloatArray
    weights: FloatArray


TABLE: Slot[_Table] = Slot("table of noise")
EDGE: Slot[NoiseEdge] = Slot("noise edge")


def _table(moments: Moments) -> _Table:
    return moments.workspace.kept(TABLE, lambda: _tested(moments.near_one))


def _tested(moments: Moments) -> _Table:
    patterns, plain = _edge(moments, standardised=True)
    if _untested(moments):
        plain = _silent(plain, float(patterns.squares.sum()))
    leverages = patterns.leverages
    edge, levels = plain, plain.first_levels
    # One number for all of them: a table of a billion samples has room for no array of ones.
    weights = np.broadcast_to(1.0, moments.n_samples)
    # With their patterns in it: a loud sample that was taken for a pattern would look quiet.
    while plain.spread > DIFFERENT and edge.levels.max() > ALIKE and can_be_evened(moments):
        levels = np.maximum(levels, QUIETEST * float(np.median(levels)))
        found, better = _edge(moments, standardised=True, levels=levels)
        if better.levels.std() > LESS * edge.levels.std():
            break  # they differ in some features, not in a level that all features have
        patterns, edge, weights = found, better, weights_of(moments, levels)
        levels = levels * edge.levels
        levels = levels / levels.mean()
    shares, pvalues = shares_and_pvalues(patterns, edge.n_patterns)
    # A pair among many features is no pattern above their noise, nor part of one.
    varying = moments.variances > 0
    apart = varying.copy()
    apart[apart] = ~discoveries(pvalues[apart], FDR)
    samples = centred_samples(moments)
    # Before there are columns: those of a wide table are a copy of it.
    too_many = too_many_pairs(moments.n_samples, apart, varying)
    if samples is not None and apart.any() and not too_many:
        in_pairs, chances = pairs_beyond_chance(
            feature_columns(moments),
            samples,
            leverages,
            moments.n_samples,
            apart,
            moments.origin,
        )
        shares, pvalues = np.maximum(shares, in_pairs), np.minimum(pvalues, chances)
    values = patterns.values[: edge.n_patterns].copy()
    return _Table(plain, edge, values, shares, pvalues, leverages, weights)


def _edge(
    moments: Moments,
    *,
    standardised: bool,
    levels: FloatArray | None = None,
    equal_samples: bool = False,
) -> tuple[Patterns, NoiseEdge]:
    """Return spectrum and edge; of a very large table more eigenpairs until noise is reached."""
    pairs = FIRST_PAIRS
    while True:
        patterns = patterns_of(moments, standardised=standardised, levels=levels, pairs=pairs)
        edge = sequential_edge(patterns, equal_samples=equal_samples)
        everything = patterns.others[0] == 0 or pairs >= MOST_PAIRS
        if everything or edge.n_patterns < patterns.values.size:
            return patterns, edge
        pairs *= 4
