"""What CSPCA and AW-SPCA share: a loss over samples, and how it looks where features are many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import Array
from jointsparse.device import like, to_host
from jointsparse.linalg import array_namespace, column_norms
from jointsparse.methods.bases.convex import ConvexSelector
from jointsparse.methods.reading.needs import Needs, matrices_of
from jointsparse.methods.reading.passes import median_of, root_of_slope, samples_of
from jointsparse.methods.reading.wide_samples import advised_by_few, strongest, wide_data
from jointsparse.moments import Moments
from jointsparse.operators.samples import Samples
from jointsparse.running.workspace import Slot
from jointsparse.solvers.convex.model import nonempty_lam
from jointsparse.solvers.products.gram import double_where_held
from jointsparse.solvers.samples.exact import MANY_SAMPLES, reweighting_pays
from jointsparse.solvers.samples.model import emptying_data
from jointsparse.solvers.samples.wide import squared_rows
from jointsparse.solvers.wide.penalties import largest_lam_wide, leading_eigenvalues

WEIGHTED: Slot[Samples] = Slot("rows of the first weighted model")
# Arrays of the size of wide samples in a fit without η, the samples included: measured 46 to 58,
# with 30 × 6 000 and 100 × 8 000 entries.
WIDE_COPIES = 60
# p × p matrices of a fit that passes over the samples, whose models are split: measured 62 to 73
# with 6 000 × 300 and 5 000 × 500 entries, blocks included; and of one that weights features, too.
PASSED_MATRICES, MATRICES_OF_BOTH = 76, 46
NEAREST = 1e-9  # of the mean distance from the median: smaller ones count as this, as in its search


class SampleLossSelector(ConvexSelector):
    """Base of CSPCA and AW-SPCA: Σ‖x_i - Ωx_i - v‖, with v = 0 or free."""

    _free_mean = False
    psd: bool

    def _needs(self) -> Needs:
        exact = self.solver == "exact" and self.psd
        products = exact and not self._free_mean
        # Measured with 4000 × 600, 1500 × 400, 100 × 20 000 and 80 × 10 000 entries, the samples
        # included.
        fit = _on_cone if self._free_mean else matrices_of(3, PASSED_MATRICES, 0)
        if not self.psd or self.solver == "published":
            fit = matrices_of(25, 20, 25) if self._free_mean else matrices_of(20, 56, 46)
        return Needs(
            samples=True,
            passes=exact,
            products=products,
            dense_bytes=self._bytes,
            scatter_copies=PASSED_MATRICES,
            fit_bytes=fit,
        )

    def _slope_data(self, moments: Moments) -> Array:
        elsewhere = samples_of(moments)
        if elsewhere is not None:
            return root_of_slope(elsewhere, moments, free_mean=self._free_mean)
        data = double_where_held(moments)
        if self._free_mean and not moments.is_wide:  # about the median, which is asked for again
            return emptying_data(data - like(median_of(moments), data), free_mean=False)
        return emptying_data(data, free_mean=self._free_mean)

    def _data(self, moments: Moments) -> Array | Samples:
        """Return the samples for the solver on the cone."""
        wide = wide_data(moments) if moments.is_wide else None
        if self._free_mean and (wide is None or wide.is_array):
            return double_where_held(moments)  # without η single precision is not enough
        return moments.native.centred_data if wide is None else wide

    # Of more features than samples nothing is asked that needs a second copy of them.

    def _weighted(self, moments: Moments) -> Samples:
        """Return the rows whose scatter matrix is Q/2: those of the first weighted model."""
        return moments.workspace.kept(WEIGHTED, lambda: self._first_weights(moments), self._loss)

    def _first_weights(self, moments: Moments) -> Samples:
        data, mean = wide_data(moments), None
        squares = squared_rows(data)
        if self._free_mean:  # the median is the mean for the weights that it gives
            mean = like(median_of(moments), data.empty)
            squares = squares - 2 * data.times(mean[:, None])[:, 0] + float(mean @ mean)
        xp = array_namespace(squares)
        norms = xp.sqrt(xp.clip(squares, 0.0, None))
        if self._free_mean:  # samples at the median hold it there: they must have a weight
            norms = xp.clip(norms, NEAREST * float(xp.mean(norms)), None)
        weights = xp.where(norms > 0, 1 / xp.where(norms > 0, norms, 1.0), 0.0)
        return data.reweighted(weights / 2, mean)

    def _slope_values(self, moments: Moments, count: int) -> NDArray[np.float64]:
        if not moments.is_wide:
            return super()._slope_values(moments, count)
        return to_host(leading_eigenvalues(self._weighted(moments), count))

    def _largest_eta(self, moments: Moments) -> float:
        if not moments.is_wide:
            return super()._largest_eta(moments)
        return 2 * float(leading_eigenvalues(self._weighted(moments), 1)[0])

    def _largest_lam(self, moments: Moments) -> float:
        if not moments.is_wide and self.eta_ == 0:  # no eigenvalue is cut off: Q itself will do
            data = self._slope_data(moments)
            Q = data.T @ data
            trace = float(array_namespace(Q).linalg.trace(Q))
            largest = float(array_namespace(Q).max(column_norms(Q / (trace or 1.0))))
            return self._slope * largest * trace
        if not moments.is_wide:
            return super()._largest_lam(moments)
        return largest_lam_wide(self._weighted(moments), self.eta_)

    def _nonempty_lam(self, moments: Moments) -> float:
        if not advised_by_few(moments):
            return super()._nonempty_lam(moments)
        data = self._weighted(moments)
        few = data.columns(like(strongest(moments), data.empty)).dense()
        return nonempty_lam(few, self.eta_)

    def _bytes(self, n_samples: int, n_features: int) -> int:
        eta = 0.0 if self._free_mean else 1.0
        samples, square = 8 * n_samples * n_features, 8 * n_features**2
        if not self.psd or self.solver == "published":
            return 12 * samples  # arrays with n rows and p columns, or columns of the features
        if self.solver == "exact" and reweighting_pays(n_samples, n_features, eta):
            if n_features <= n_samples:
                return samples + 4 * square
            return 0 if eta else 16 * samples  # without η the factor has as many columns as samples
        if self.solver == "exact" and not eta and n_samples >= MANY_SAMPLES * n_features:
            return samples + 10 * square  # the samples are passed over, some at a time
        return 2 * samples + 10 * square


def _on_cone(n_samples: int, n_features: int) -> int:
    """Return the bytes of a fit without η, in which every direction matters.

    With η only some do: then the solver looks whether they fit, once it knows how many.
    """
    samples = 8 * n_samples * n_features
    if reweighting_pays(n_samples, n_features, 0.0):
        return WIDE_COPIES * samples
    return 7 * samples + MATRICES_OF_BOTH * 8 * n_features**2
