r"""What of a table lies above the noise, as the greedy rule and the penalties use it.

With the eigenpairs :math:`X = U\operatorname{diag}(\sqrt s)V^\top` and the noise edge e, what is
left of X when every direction is shrunk by the noise is

.. math:: X\Omega = U\operatorname{diag}\bigl(\sqrt{s_i}\,(1 - e/s_i)_+\bigr)V^\top ,

the solution of SPCA-PSD at λ = 0 and η = 2e.

A regression on a feature whose squares sit in few samples fits these samples, whatever it is worth
elsewhere. A sample that holds the share :math:`h_i` of the squares pulls the fit towards itself by
that share: left out, it is fitted worse by :math:`1 - h_i`. On average over the squares of feature
j that is its leverage :math:`\ell_j = \sum_i x_{ij}^4/(\sum_i x_{ij}^2)^2`, and of a gain
:math:`f/g` about :math:`f/(g(1+\ell_j))` is left in new samples. What earlier picks leave of the
feature still sits in those samples, so that :math:`\ell_j S_{jj}` is added to the length g as it
was before any pick. Gaussian columns have 3/n; up to twice that, columns count alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import to_host
from jointsparse.moments import Moments
from jointsparse.running.workspace import Slot
from jointsparse.significance import leverages, noise_edge
from jointsparse.solvers.picking.patterns import ROW_PAIRS, directions_of
from jointsparse.solvers.picking.row_targets import Projection, Target, row_axes
from jointsparse.solvers.products.columns import feature_columns

# Twice that of a Gaussian column, which one in two hundred exceeds with twenty samples and fewer
# with more: Gaussian columns are chosen alike from samples and from their sums.
USUAL_KURTOSIS = 6.0


@dataclass(frozen=True)
class AboveNoise:
    """What is above the noise in a table, in the units of its columns.

    Attributes
    ----------
    count : int
        Number of directions above the noise edge.
    share : float
        The noise edge as a share of the largest eigenvalue; 0 where there is nothing above it.
    squares : ndarray of shape (n_features,)
        Noise in the sum of squares of each feature, as a share of the total variance.
    hanging : ndarray of shape (n_features,)
        What of the sum of squares of each feature hangs on single samples, ℓ_j S_jj, as a share of
        the total variance; where only sums over samples are known, as much as of Gaussian columns.
    target : callable, ndarray or None
        XΩ, for the greedy rule; None where nothing is above the noise.
    """

    count: int
    share: float
    squares: FloatArray
    hanging: FloatArray
    target: Target | None


def noise_of(moments: Moments) -> AboveNoise:
    """Return what is above the noise; computed once for the same moments.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import Moments
    >>> from jointsparse.selection.noise import noise_of
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 40))
    >>> X[:, :6] += rng.standard_normal((200, 1))
    >>> found = noise_of(Moments.from_data(X))
    >>> found.count, 0 < found.share < 1
    (1, True)
    """
    return moments.workspace.kept(ABOVE, lambda: _above(moments))


ABOVE: Slot[AboveNoise] = Slot("above noise")


def _above(moments: Moments) -> AboveNoise:
    edge, total = noise_edge(moments), moments.total_variance
    squares = directions_of(moments) * edge.noise / total
    usual = USUAL_KURTOSIS / moments.n_samples
    hanging = np.maximum(leverages(moments), usual) * (moments.variances / total)
    count = edge.n_patterns
    if count == 0:
        return AboveNoise(0, 0.0, squares, hanging, None)
    if moments.is_wide:
        relative, axes = _row_axes(moments, count)
        shrunk = np.clip(1 - edge.edge / total / relative, 0.0, None)
        target: Target = axes * feature_columns(moments).here(relative**0.5 * shrunk)
    else:
        pairs, trace = moments.native.eigenpairs()
        values = to_host(pairs.values)[::-1][:count].astype(np.float64) * trace
        relative = values / total
        shrunk = np.clip(1 - edge.edge / values, 0.0, None)
        target = Projection(pairs.leading(0, count) * feature_columns(moments).here(shrunk))
    return AboveNoise(count, float(edge.edge / total / relative[0]), squares, hanging, target)


def _row_axes(moments: Moments, count: int) -> tuple[FloatArray, Array]:
    """Return leading eigenvalues of XXᵀ as shares of the total variance, and eigenvectors."""
    base = moments.near_one
    known = base.workspace.found(ROW_PAIRS)  # from when patterns were told from noise
    if known is not None:
        pairs, unit = known
        values = to_host(pairs.values)[::-1][:count] * (unit / base.total_variance)
        return values, pairs.leading(0, count)
    values, axes = row_axes(feature_columns(moments), 0.0, count)
    return to_host(values[:count]), axes[:, :count]


def pattern_loadings(moments: Moments) -> FloatArray:
    """Return V diag(1 - e/s): the samples times these are what lies above the noise.

    Refused where nothing does.
    """
    edge, spectrum = noise_edge(moments), moments.thin_spectrum
    count = edge.n_patterns
    if count == 0:
        raise ValueError(
            "target='patterns' has nothing to explain: there is no structure beyond noise"
        )
    values = spectrum.values[-count:] * spectrum.trace
    return np.asarray(spectrum.vectors[:, -count:] * np.clip(1 - edge.edge / values, 0.0, None))
