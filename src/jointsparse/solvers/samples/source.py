"""Passes over samples that are not at hand: blocks of a file, or of an array on a cluster."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.solvers.samples.weighted_pass import LinearFit, Passes, RowPasses, WeightedSums
from jointsparse.sources import Source

FLOOR = 1e-9  # of the typical distance: a sample at the centre would get an infinite weight
MEDIAN_TOLERANCE = 1e-10  # movement at which to stop, relative to the mean distance
MOST_MEDIAN_STEPS = 200
# Entries of a block that are worked on at a time: a pass makes several arrays of that size beside
# the matrices of the solver. At least as many rows as features, so that the sums cost no more.
PART_ENTRIES = 2**18


class SourceSamples:
    """Samples of a source about a centre; each pass reads every block once, where it is.

    Parameters
    ----------
    source : Source
        Samples.
    centre : ndarray of shape (n_features,)
        What is taken off every sample: their mean.
    live : ndarray of bool of shape (n_features,)
        Features that vary; the others are exactly zero.
    n_samples : int
        How many there are.
    scale : float
        Typical distance of a sample from the centre.
    unit : float
        What the samples are divided by.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.samples.source import SourceSamples
    >>> from jointsparse.solvers.samples.weighted_pass import LinearFit
    >>> from jointsparse.sources import as_source
    >>> X = np.array([[4.0, 5.0], [1.0, 3.0]])
    >>> samples = SourceSamples(as_source(X), np.ones(2), np.ones(2, dtype=bool), 2, 1.0)
    >>> samples.weighted_pass(LinearFit()).norms
    array([5., 2.])
    """

    def __init__(
        self,
        source: Source,
        centre: FloatArray,
        live: NDArray[np.bool_],
        n_samples: int,
        scale: float,
        unit: float = 1.0,
    ) -> None:
        self.source, self.centre, self.live = source, centre, live
        self.n_samples, self.scale, self.unit = n_samples, scale, unit

    def divided(self, unit: float) -> SourceSamples:
        """Return the same samples divided by a number."""
        scale = self.scale / unit
        return SourceSamples(
            self.source, self.centre, self.live, self.n_samples, scale, self.unit * unit
        )

    def weighted_pass(self, fit: LinearFit, *, scatter: bool = True) -> WeightedSums:
        """Return the sums over all samples; norms in the order of the samples."""
        weights = self.live / self.unit
        fold = partial(_fold, fit=fit, centre=self.centre, weights=weights, scatter=scatter)
        parts = self.source.reduce(fold, _join)
        assert parts is not None
        norms, second, sums = parts
        weight, first, products = sums
        return WeightedSums(
            norms=np.concatenate(norms),
            second_norms=np.concatenate(second) if fit.second is not None else None,
            weight=float(weight),
            first=first,
            scatter=products if scatter else None,
        )


def _fold(
    state: Any,
    block: Any,
    start: int,
    fit: LinearFit,
    centre: FloatArray,
    weights: FloatArray,
    scatter: bool,
) -> Any:
    n, p = block.shape
    step = max(p, PART_ENTRIES // p)
    for first in range(0, max(n, 1), step):
        part = block[first : first + step]
        rows = np.subtract(part.toarray() if sp.issparse(part) else part, centre, dtype=np.float64)
        rows *= weights
        sums = RowPasses(rows).weighted_pass(fit, scatter=scatter)
        products = sums.scatter if scatter else 0.0
        found = ([sums.norms], [sums.second_norms], (sums.weight, sums.first, products))
        state = found if state is None else _join(state, found)
    return state


def _join(one: Any, other: Any) -> Any:
    # New arrays: what a worker of a cluster holds must not change under it.
    sums = tuple(a + b for a, b in zip(one[2], other[2], strict=True))
    return one[0] + other[0], one[1] + other[1], sums


def median_by_passes(samples: SourceSamples) -> FloatArray:
    """Return the geometric median, about the centre of the samples, by Weiszfeld's iteration."""
    median = np.zeros(samples.centre.size)
    for _ in range(MOST_MEDIAN_STEPS):
        fit = LinearFit(mean=median, smoothing=FLOOR * samples.scale)
        sums = samples.weighted_pass(fit, scatter=False)
        new = sums.first / sums.weight
        moved = float(np.linalg.norm(new - median))
        median = new
        if moved <= MEDIAN_TOLERANCE * float(np.mean(sums.norms)):
            break
    return median


def slope_by_passes(samples: Passes, centre: FloatArray, scale: float) -> FloatArray:
    """Return Q = Σ (x_i-b)(x_i-b)ᵀ/‖x_i-b‖, the slope of the losses of norms at Ω = 0."""
    sums = samples.weighted_pass(LinearFit(mean=centre, smoothing=FLOOR * scale))
    mixed = np.outer(sums.first, centre)
    return np.asarray(sums.scatter - mixed - mixed.T + sums.weight * np.outer(centre, centre))
