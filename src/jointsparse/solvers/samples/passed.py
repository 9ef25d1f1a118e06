"""JSPCA's loss over the samples where these are only ever passed over."""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.solvers.components.joint import SMOOTHING
from jointsparse.solvers.products.gram import Gram
from jointsparse.solvers.samples.source import SourceSamples
from jointsparse.solvers.samples.weighted_pass import LinearFit


class PassedSampleLoss:
    """Sum of the norms of the residuals of the samples; one pass for new weights, p × p sums.

    Parameters
    ----------
    samples : SourceSamples
        Centred samples with a sum of squares of 1.
    """

    scale = cancellation = 1.0
    descends = True
    power = unit = 0.5

    def __init__(self, samples: SourceSamples) -> None:
        self.samples = samples
        self.smoothing = SMOOTHING / np.sqrt(samples.n_samples)
        self._pass(LinearFit(smoothing=self.smoothing))

    def _pass(self, fit: LinearFit) -> float:
        """Set the weights of these residuals; return the sum of their norms."""
        sums = self.samples.weighted_pass(fit)
        assert sums.scatter is not None
        self.gram = Gram(0.5 * sums.scatter)
        self.trace = self.gram.trace
        return float(np.sum(sums.norms))

    def reweigh(self, Q: FloatArray, P: FloatArray, SQ: FloatArray) -> float:
        """Set the weights for Q and P; return the loss there."""
        return self._pass(LinearFit(Q, P, smoothing=self.smoothing))

    def start(self, count: int) -> FloatArray:
        """Return the leading directions of the weighted samples."""
        return self.gram.leading(count)[1]
