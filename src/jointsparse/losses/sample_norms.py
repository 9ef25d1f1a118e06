r"""The loss that sums the lengths of residuals, not their squares."""

from __future__ import annotations

from dataclasses import dataclass

from jointsparse.arrays import Array
from jointsparse.linalg import Spectrum, array_namespace, double
from jointsparse.moments import Moments


@dataclass(frozen=True)
class SampleNormLoss:
    r"""Sum of reconstruction errors, :math:`\sum_i\|x_i-\Omega x_i-v\|_2`.

    A sample far from the rest pulls with a force of 1 instead of with its distance.

    Parameters
    ----------
    free_mean : bool
        Whether v is chosen with Ω (as in AW-SPCA) or 0 for centred samples (as in CSPCA).

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import Moments
    >>> from jointsparse.losses import SampleNormLoss
    >>> X = np.array([[0.0, 0.0], [6.0, 8.0]])
    >>> SampleNormLoss().on(Moments.from_data(X)).value(np.zeros((2, 2)))
    10.0
    """

    free_mean: bool = False

    def on(self, moments: Moments) -> SampleNormLossOn:
        """Return the loss on some samples, which have to be at hand."""
        if not moments.has_samples:
            raise ValueError("the lengths of residuals need the samples, not their moments alone")
        return SampleNormLossOn(moments, self.free_mean)


class SampleNormLossOn:
    """The sum of the lengths of residuals on some samples.

    Parameters
    ----------
    moments : Moments
        The samples.
    free_mean : bool
        Whether v is free.
    """

    def __init__(self, moments: Moments, free_mean: bool) -> None:
        self.moments, self.free_mean = moments, free_mean

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.moments.n_features

    @property
    def data(self) -> Array:
        """The centred samples."""
        return double(self.moments.native.centred_data)

    @property
    def spectrum(self) -> Spectrum:
        """Eigenvalues of S, with their sum as the unit, and eigenvectors."""
        spectrum: Spectrum = self.moments.native.spectrum
        return spectrum

    def value(self, omega: Array, offset: Array | float = 0.0) -> float:
        """Return the loss of a matrix, with v = ``offset``."""
        xp = array_namespace(omega)
        left = self.data - self.data @ omega.T - offset
        return float(xp.sum(xp.linalg.vector_norm(left, axis=1)))
