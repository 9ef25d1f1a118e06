"""The methods with losses over samples, on samples that are only ever passed over."""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.device import to_host
from jointsparse.linalg import Spectrum, double
from jointsparse.methods.reading.wide_samples import wide_data
from jointsparse.moments import Moments
from jointsparse.running.workspace import Slot
from jointsparse.solvers.convex.published import factor_of_scatter
from jointsparse.solvers.convex.reweighted import solve_reweighted
from jointsparse.solvers.samples.geometric_median import geometric_median, median_by_products
from jointsparse.solvers.samples.source import SourceSamples, median_by_passes, slope_by_passes
from jointsparse.solvers.samples.streamed import StreamedModel
from jointsparse.solvers.solution import Solution
from jointsparse.sources import Source

PASSED: Slot[SourceSamples] = Slot("samples to pass over")
MEDIAN: Slot[FloatArray] = Slot("geometric median")


def moments_with_passes(source: Source) -> Moments:
    """Return moments that know where their samples are, for one pass in every iteration."""
    source = source.persist()
    moments = Moments.from_source(source)
    scale = float(np.sqrt(moments.total_variance / moments.n_samples))
    live = moments.variances > 0
    samples = SourceSamples(source, moments.mean, live, moments.n_samples, scale)
    moments.workspace.keep(PASSED, samples)
    return moments


def samples_of(moments: Moments) -> SourceSamples | None:
    """Return the samples to pass over; None where they are in memory."""
    return moments.workspace.found(PASSED)


def median_of(moments: Moments) -> FloatArray:
    """Return the geometric median of the samples, about their mean."""
    return moments.workspace.kept(MEDIAN, lambda: _median(moments))


def _median(moments: Moments) -> FloatArray:
    samples = samples_of(moments)
    if samples is not None:
        return median_by_passes(samples)
    if moments.is_wide:
        return to_host(median_by_products(wide_data(moments)))
    return to_host(geometric_median(double(moments.native.centred_data)))


def root_of_slope(samples: SourceSamples, moments: Moments, *, free_mean: bool) -> FloatArray:
    """Return F with FᵀF = Q, the slope of the loss at Ω = 0."""
    centre = median_of(moments) if free_mean else np.zeros(moments.n_features)
    slope = slope_by_passes(samples, centre, samples.scale)
    return np.asarray(factor_of_scatter(Spectrum.of((slope + slope.T) / 2)))


def solve_by_passes(
    samples: SourceSamples,
    lam: float,
    eta: float,
    *,
    free_mean: bool = False,
    tol: float,
    max_iter: int,
) -> Solution:
    """Solve CSPCA-PSD or AW-SPCA-PSD, one pass over the samples for each weighting."""
    model = StreamedModel(samples, lam, eta, free_mean=free_mean, scale=samples.scale)
    return solve_reweighted(model, tol=tol, max_iter=max_iter)
