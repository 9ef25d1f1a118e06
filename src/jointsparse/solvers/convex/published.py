r"""The published algorithms of source 004 and of the two methods it builds on.

One iteration replaces every norm in the objective by a weighted square, minimises that without the
constraint and, in the models with Ω ⪰ 0, projects the result. For centred X (n × p, rows x_i):

.. math:: \sum_i \|x_i-\Omega x_i - v\|^{q} + \lambda\sum_j\|\omega_j\| + \eta\,r(\Omega),\qquad
          \Omega \leftarrow (S_d - v b^\top - c\eta I)(S_d + E)^{-1},

.. math:: S_d = X^\top\!\operatorname{diag}(d)X,\quad b = X^\top d,\quad
          d_i = \frac{1}{2\sqrt{\|x_i-\Omega x_i-v\|^2+\varepsilon_1}},\quad
          E = \operatorname{diag}\Big(\frac{\lambda}{2\sqrt{\|\omega_j\|^2+\varepsilon_1}}
          + \varepsilon_2\Big) + \eta D_3 .

============  ==============  ====  ===  ==============  ====  ==============================
model         loss            psd    q   r(Ω)            v     afterwards
============  ==============  ====  ===  ==============  ====  ==============================
SPCA-PSD      "squared"       yes    2   tr Ω            0     symmetric part, PSD projection
CSPCA-PSD     "samples"       yes    1   tr Ω            0     symmetric part, PSD projection
CSPCA         "samples"       no     1   ‖Ω‖_*           0     nothing
AW-SPCA-PSD   "samples+mean"  yes    1   none            free  symmetric part, PSD projection
AW-SPCA       "samples+mean"  no     1   none            free  nothing
============  ==============  ====  ===  ==============  ====  ==============================

The squared loss has d = 1. Only the nuclear norm has D₃ = ½(ΩᵀΩ + ε₁I)^{-1/2}, and only the trace
has c: its derivative gives c = ½, the authors' program of CSPCA-PSD has c = 1. A free v becomes
(b - Ωb)/Σd after each step, so v = (I - Ω)m with the weighted mean m = b/Σd.

Projecting the unconstrained minimiser is not the constrained minimiser: the objective may rise
between iterations, the limit lies above the optimum (up to 10 % on real data) and no column becomes
exactly zero. These algorithms are kept so that the published tables can be reproduced; they are not
the exact solvers.

With fewer features than samples the step works on p × p matrices, otherwise it never forms one
(:mod:`jointsparse.solvers.convex.reweighted_step`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from jointsparse.arrays import Array
from jointsparse.linalg import Spectrum, array_namespace
from jointsparse.penalties import L21
from jointsparse.solvers.convex.model import Reconstruction
from jointsparse.solvers.convex.reweighted_step import FeatureForm, Omega, Quadratic, SampleForm
from jointsparse.solvers.solution import Solution, Trace

Loss = Literal["squared", "samples", "samples+mean"]

EIGENPAIRS = 2.0**-51  # times p: what is rounding in an eigenvalue, and in a column of Ω


@dataclass(frozen=True)
class PublishedConstants:
    """Numbers that the algorithms need and the models do not have.

    Attributes
    ----------
    smoothing : float
        ε₁, added to squared norms.
    ridge_features, ridge_samples : float
        ε₂ on the diagonal, in the form for fewer features than samples and in the other one.
    absolute : bool
        Whether ε₁, ε₂ and ``tol`` are in the units of the data (as the authors have them) or
        relative: ε₁ to the mean of ‖x_i‖² (where it smooths residuals), ε₂ to the mean eigenvalue
        of S_d at Ω = 0, ``tol`` to the objective, and the first sample weight of "samples+mean" to
        the inverse of the root mean square of ‖x_i‖.
    tol : float or None
        Change of the objective at which to stop; None leaves it to the caller.
    max_iter : int or None
        Iteration limit; None leaves it to the caller.
    eta_share : float
        c, the share of η that is subtracted from the diagonal.
    """

    smoothing: float
    ridge_features: float
    ridge_samples: float
    absolute: bool
    tol: float | None = None
    max_iter: int | None = None
    eta_share: float = 0.5


# What the authors' programs use. SPCA-PSD has two ridges, so that its two forms solve different
# problems; all stopping rules depend on the scale of the data.
_AUTHORS_SQUARED = PublishedConstants(2.0**-52, 1e-3, 1e-2, True, tol=1e-5, max_iter=100)
_AUTHORS_SAMPLES = PublishedConstants(1e-3, 1e-3, 1e-3, True, 1e-5, 100, eta_share=1.0)
# The papers only ask for "small positive numbers": here the same on every scale.
_PAPER = PublishedConstants(1e-12, 1e-10, 1e-10, False)

CONSTANTS = ("authors", "paper")


def published_constants(name: str, loss: Loss, *, psd: bool) -> PublishedConstants:
    """Return the authors' constants of a model, or those that only follow the paper."""
    if name == "paper":
        return _PAPER
    if loss == "squared":
        return _AUTHORS_SQUARED
    return _AUTHORS_SAMPLES if psd else replace(_AUTHORS_SAMPLES, max_iter=1000)


def factor_of_scatter(spectrum: Spectrum) -> Array:
    """Return F with FᵀF = S and as few rows as possible: the data, as far as S can tell."""
    xp = array_namespace(spectrum.values)
    positive = spectrum.values > 1e-15 * spectrum.values[-1]
    lengths = xp.sqrt(spectrum.values[positive] * spectrum.trace)
    return (spectrum.vectors[:, positive] * lengths).T


def solve_published(
    data: Array,
    lam: float,
    eta: float,
    *,
    loss: Loss = "squared",
    psd: bool = True,
    n_samples: int | None = None,
    start: Array | None = None,
    constants: str | PublishedConstants = "authors",
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> Solution[Reconstruction]:
    """Run a published algorithm.

    Parameters
    ----------
    data : array of shape (n_rows, n_features)
        Centred samples. For the squared loss any matrix with the same scatter matrix will do, for
        example :func:`factor_of_scatter`.
    lam, eta : float
        Penalties in the units of the loss; lam must be positive. "samples+mean" has no eta.
    loss, psd : str, bool
        The model: see the table at the top of the module.
    n_samples : int or None
        Number of samples, where it is not that of the rows: the form for p ≥ n is used when there
        are not more samples than features.
    start : array of shape (n_features,) or None
        Diagonal of the first Ω (the authors draw it at random); None is the identity. Not used by
        "samples+mean", which starts from weights of 1.
    constants : {"authors", "paper"} or PublishedConstants
        Smoothing, ridges, share of eta and, where they are set, the stopping rule.
    tol, max_iter : float, int
        Stopping rule where the constants leave it open.

    Returns
    -------
    Solution
        With the constraint, ``loadings`` is U with Ω = UUᵀ, largest component first. Without it,
        ``loadings`` is Ωᵀ where p < n and otherwise L with Ω = QLᵀ and orthonormal Q; either way
        its row norms are the column norms of Ω. ``state`` is a :class:`Reconstruction` with what
        is missing. There is no certificate: ``gap`` is None.
    """
    if loss == "squared" and not psd:
        raise ValueError("no published algorithm has the squared loss without the constraint")
    if isinstance(constants, str):
        constants = published_constants(constants, loss, psd=psd)
    wide = data.shape[1] >= (data.shape[0] if n_samples is None else n_samples)
    model = _Model.of(data, lam, eta, loss, psd=psd, wide=wide, constants=constants)
    step = SampleForm(data) if wide else FeatureForm(data, fixed_weights=loss == "squared")
    trace = Trace(
        tol if constants.tol is None else constants.tol,
        max_iter if constants.max_iter is None else min(max_iter, constants.max_iter),
        "absolute change of the objective" if constants.absolute else "relative change",
    )
    quadratic, objective = model.first_quadratic(start)
    iteration = 0
    for iteration in range(1, trace.max_iter + 1):
        omega = step.projected(quadratic) if psd else step.minimiser(quadratic)
        offset = model.best_offset(omega, quadratic)
        norms = model.residual_norms(omega, offset)
        previous, objective = objective, model.objective(omega, norms)
        change = abs(objective - previous)
        measure = change if constants.absolute else change / abs(objective)
        if trace.record(iteration, objective, measure=measure):
            break
        quadratic = model.reweighted(omega, norms, offset)
    loadings, basis = (_square_root(omega),) * 2 if psd else (omega.loadings, omega.basis)
    diagnostics = {"rank": float(loadings.shape[1])}
    return trace.solution(loadings, objective, None, diagnostics, Reconstruction(basis, offset))


def _square_root(omega: Omega) -> Array:
    """Return U with Ω = UUᵀ, and nothing of it that is rounding of eigenvalues and eigenvectors.

    Features that are constant, and columns that the iteration drives to zero, would end there as
    1e-16 of the largest, or as 0 by chance; of eigenvalues of that size they would be 1e-8.
    """
    rows = omega.square_root
    if rows.shape[1] == 0:
        return rows
    xp = array_namespace(rows)
    squares = xp.sum(rows**2, axis=0)
    large = squares > EIGENPAIRS * rows.shape[0] * xp.max(squares)
    rows, squares = rows[:, large], squares[large]
    lengths = xp.sqrt(rows**2 @ squares)  # of the columns of Ω: those of U are orthogonal
    level = EIGENPAIRS * rows.shape[0] * float(xp.max(lengths))
    return xp.where((lengths > level)[:, None], rows, xp.zeros_like(rows))


@dataclass(frozen=True)
class _Model:
    """Objective and weights; ridge and smoothing are in the units of the data."""

    data: Array
    lam: float
    eta: float
    loss: Loss
    psd: bool
    eta_share: float
    ridge: float
    smoothing: float
    residual_smoothing: float
    first_weight: float

    @classmethod
    def of(
        cls,
        data: Array,
        lam: float,
        eta: float,
        loss: Loss,
        *,
        psd: bool,
        wide: bool,
        constants: PublishedConstants,
    ) -> _Model:
        """Bring the constants into the units of the data."""
        ridge = constants.ridge_samples if wide else constants.ridge_features
        residual_smoothing, first_weight = constants.smoothing, 1.0
        if not constants.absolute:
            xp = array_namespace(data)
            squares = xp.sum(data**2, axis=1)
            trace = xp.sum(squares if loss == "squared" else xp.sqrt(squares) / 2)
            ridge *= float(trace) / data.shape[1]
            residual_smoothing *= float(xp.mean(squares))
            first_weight /= math.sqrt(float(xp.mean(squares)))
        return cls(
            data=data,
            lam=lam,
            eta=0.0 if loss == "samples+mean" else eta,
            loss=loss,
            psd=psd,
            eta_share=constants.eta_share,
            ridge=ridge,
            smoothing=constants.smoothing,
            residual_smoothing=residual_smoothing,
            first_weight=first_weight,
        )

    def first_quadratic(self, start: Array | None) -> tuple[Quadratic, float]:
        """Return the quadratic at the start, and the objective there (if there is an Ω)."""
        xp = array_namespace(self.data)
        ones = xp.ones_like(self.data[0, :])
        if self.loss == "samples+mean":
            samples = self.first_weight * xp.ones_like(self.data[:, 0])
            return Quadratic(samples, self.lam + self.ridge + 0 * ones, 0.0), math.inf
        start = ones if start is None else start
        norms = xp.linalg.vector_norm(self.data * (1 - start), axis=1)
        sizes = xp.abs(start)  # column norms and singular values of a diagonal matrix
        diagonal = self._column_weights(sizes)
        if self.eta > 0 and not self.psd:
            diagonal = diagonal + self.eta * L21(1.0).weights(sizes, self.smoothing)
        objective = self._loss(norms) + (self.lam + self.eta) * float(xp.sum(sizes))
        return Quadratic(self._sample_weights(norms), diagonal, self._shift), objective

    def reweighted(self, omega: Omega, norms: Array, offset: Array | None) -> Quadratic:
        """Return the quadratic that touches the objective at Ω."""
        samples, diagonal = self._sample_weights(norms), self._column_weights(omega.column_norms)
        if self.eta == 0 or self.psd:
            return Quadratic(samples, diagonal, self._shift, offset)
        # D₃ = a I - Z diag(a - h) Zᵀ with a = 1/(2√ε₁): outside the few right singular vectors Z
        # of Ω all weights are the same.
        values, vectors = omega.singular
        outside = 0.5 / math.sqrt(self.smoothing)
        less = self.eta * (outside - L21(1.0).weights(values, self.smoothing))
        return Quadratic(samples, diagonal + self.eta * outside, 0.0, offset, vectors, less)

    def objective(self, omega: Omega, norms: Array) -> float:
        """Objective at Ω, given the norms of the residuals."""
        xp = array_namespace(norms)
        value = self._loss(norms) + self.lam * float(xp.sum(omega.column_norms))
        return value + self.eta * omega.nuclear_norm if self.eta > 0 else value

    def residual_norms(self, omega: Omega, offset: Array | None) -> Array:
        """Return ‖x_i - Ωx_i - v‖ for all samples."""
        residuals = self.data - omega.of_rows(self.data)
        if offset is not None:
            residuals = residuals - offset
        return array_namespace(residuals).linalg.vector_norm(residuals, axis=1)

    def best_offset(self, omega: Omega, quadratic: Quadratic) -> Array | None:
        """Return the best v for this Ω under the weights that led to it."""
        if self.loss != "samples+mean":
            return None
        total = quadratic.samples @ self.data
        weight = array_namespace(total).sum(quadratic.samples)
        return (total - omega.of_rows(total[None, :])[0, :]) / weight

    @property
    def _shift(self) -> float:
        return self.eta_share * self.eta if self.psd else 0.0

    def _loss(self, norms: Array) -> float:
        return float(array_namespace(norms).sum(norms**2 if self.loss == "squared" else norms))

    def _column_weights(self, norms: Array) -> Array:
        return self.lam * L21(1.0).weights(norms, self.smoothing) + self.ridge

    def _sample_weights(self, norms: Array) -> Array:
        if self.loss == "squared":
            return array_namespace(norms).ones_like(norms)
        return L21(1.0).weights(norms, self.residual_smoothing)
