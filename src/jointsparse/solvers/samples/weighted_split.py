r"""CSPCA and AW-SPCA: the samples are reweighted while Ω is split.

.. math:: \min_{\Omega,\,v}\ \sum_i \|x_i - \Omega x_i - v\|_2 + \lambda\|\Omega\|_{2,1}
          + \eta\,\|\Omega\|_*

over all Ω or over Ω ⪰ 0. A norm is below a weighted square, :math:`\|e\|\le\tfrac12(w\|e\|^2+1/w)`,
and equal to it at w = 1/‖e‖. Residuals are hardly ever zero, so that their weights settle soon, as
in :mod:`~jointsparse.solvers.convex.reweighted`; columns and singular values that vanish would take
weights long to find, and have proximal steps. So the blocks of
:mod:`~jointsparse.solvers.convex.loop` are one copy of Ω for the nuclear norm or the cone and one
for the columns, and in the place of the residuals (:mod:`~jointsparse.solvers.samples.free`,
:mod:`~jointsparse.solvers.samples.cone`) their norms r alone, which an iteration replaces by those
that it finds. With :math:`S=\sum_i(x_i-m)(x_i-m)^\top/r_i`, m the mean of these weights where v is
free, and G the sum of what k copies ask for, the common variable solves

.. math:: \Omega\,(S + k\rho I) = S + \rho G ,

by a Cholesky factorisation, or its symmetric form, by the eigenpairs of S. Everything is mixed by
Anderson's method at once. On 300 × 200 and 800 × 500 numbers a gap of 1e-4 takes half of the
iterations that residuals as a block take, and no array of n rows is kept from one to the next.

**Certificate.** :math:`p_i = e_i/r_i`, cut to length 1, for the residuals e of the common variable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from jointsparse.arrays import Array
from jointsparse.eigen.tridiagonal import eigenpairs
from jointsparse.linalg import array_namespace, unit_columns
from jointsparse.penalties import L21
from jointsparse.solvers.convex.acceleration import Arrays
from jointsparse.solvers.convex.loop import Copies
from jointsparse.solvers.convex.model import first_share
from jointsparse.solvers.samples.geometric_median import row_norms
from jointsparse.solvers.samples.model import SampleModel

FIRST_WEIGHTS = 2  # sets of weights of the first guess; each saves about an iteration
SMOOTHING = 0.01  # of the tolerance: norms below this share of their mean count as that
LARGEST_FACTOR = 3.0  # by which mixed norms may differ from the newest


class WeightedBlocks(ABC):
    """Block 0: norms of residuals. Then the nuclear norm or the cone, if any. Last: the columns."""

    def __init__(self, model: SampleModel, tol: float) -> None:
        self.model, self.tol = model, tol
        self.spectral = model.eta > 0
        self.groups: tuple[tuple[int, ...], ...] = ((1, 2),) if self.spectral else ((1,),)
        xp = array_namespace(model.data)
        centred = model.data - xp.mean(model.data, axis=0) if model.free_mean else model.data
        self.newest = row_norms(centred)
        # Norms are brought to the size of Ω, so that mixing minds them as it minds a copy of it.
        self.unit = model.data.shape[1] ** 0.5 / float(xp.linalg.vector_norm(self.newest))

    def start(self) -> tuple[Arrays, tuple[float, ...]]:
        """Start at the optimum of the squared loss with the second set of weights."""
        m, xp = self.model, array_namespace(self.newest)
        for _ in range(FIRST_WEIGHTS):
            norms = self._floored(self.newest)
            centred, scatter = self._weighted(norms)
            pairs = eigenpairs(scatter)
            shares = first_share(pairs.values, m.eta, m.lam)
            shares = xp.flip(shares)[: int(xp.sum(xp.astype(shares > 0, xp.int64)))]
            axes = pairs.leading(0, int(shares.shape[0]))
            inner = (axes * shares) @ axes.T
            self.newest = row_norms(centred - centred @ inner)
        step = m.eta + m.lam
        columns = m.outer(inner)
        pull = m.lam * unit_columns(columns)
        targets: Arrays = (self.newest * self.unit,)
        if self.spectral:
            norms = self._floored(self.newest)
            residuals = centred - centred @ inner
            rest = m.outer((residuals / norms[:, None]).T @ centred) - pull
            targets += (columns + rest / step,)
        return (*targets, columns + pull / step), (step,)

    def split(
        self, targets: Arrays, steps: tuple[float, ...], rescale: tuple[float, ...]
    ) -> Copies:
        """Proximal steps of the copies, then Ω for the weights, and the norms that it leaves."""
        m, (rho,), (factor,) = self.model, steps, rescale
        norms = self._near_newest(targets[0] / self.unit)
        values: Arrays = (L21(m.lam).prox(targets[-1], 1 / rho),)
        if self.spectral:
            values = (self._spectral_step(targets[1], m.eta / rho), *values)
        duals = tuple((t - z) / factor for t, z in zip(targets[1:], values, strict=True))
        rho *= factor
        asked = values[0] - duals[0]
        for value, dual in zip(values[1:], duals[1:], strict=True):
            asked = asked + (value - dual)
        centred, scatter = self._weighted(norms)
        inner, matrix = self._solved(scatter, asked, rho, len(values))
        residuals = centred - centred @ inner.T
        self.newest = row_norms(residuals)
        residuals /= norms[:, None]
        self.forces, self.lengths = residuals, self.newest / norms
        used = norms * self.unit
        agreed = (self.newest * self.unit, *(matrix,) * len(values))
        return Copies(agreed, (used, *values), (0 * used, *duals), (rho,))

    def dual(self) -> tuple[float, Array]:
        """Return Σ pᵢᵀxᵢ and PᵀX of the last iterate."""
        xp = array_namespace(self.lengths)
        long = self.lengths > 1
        cut = xp.where(long, 1 / xp.where(long, self.lengths, 1.0), 1.0)
        return self.model.dual(self.forces * cut[:, None])

    def _weighted(self, norms: Array) -> tuple[Array, Array]:
        """Return X - 1mᵀ and S."""
        m, xp = self.model, array_namespace(norms)
        centred = m.data
        if m.free_mean:
            centred = centred - ((1 / norms) @ centred) / xp.sum(1 / norms)
        rows = centred / xp.sqrt(norms)[:, None]
        return centred, rows.T @ rows

    def _near_newest(self, norms: Array) -> Array:
        xp = array_namespace(norms)
        norms = xp.maximum(norms, self.newest / LARGEST_FACTOR)
        return self._floored(xp.minimum(norms, self.newest * LARGEST_FACTOR))

    def _floored(self, norms: Array) -> Array:
        xp = array_namespace(norms)
        least = max(SMOOTHING * self.tol * float(xp.mean(self.newest)), 1e-300)
        return xp.where(norms > least, norms, least)

    @abstractmethod
    def _spectral_step(self, target: Array, threshold: float) -> Array:
        """Lower the singular values, or the eigenvalues and no further than to 0."""

    @abstractmethod
    def _solved(self, scatter: Array, asked: Array, rho: float, copies: int) -> tuple[Array, Array]:
        """Return Ω in the basis of the samples, and with all features."""
