r"""The convex model of source 004, its value and the penalties that empty it.

.. math:: \min_{\Omega \succeq 0}\ \operatorname{tr} S - 2\langle S,\Omega\rangle
          + \operatorname{tr}(\Omega S \Omega) + \lambda\|\Omega\|_{2,1}
          + \eta\operatorname{tr}\Omega

(the first three terms are :math:`\|X - X\Omega\|_F^2` for centred X with scatter S = XᵀX).

Kernels hold Ω in the eigenbasis of S: with S = V diag(s) Vᵀ and Ω = V Ω̃ Vᵀ, every smooth term is
a sum over entries of Ω̃, and since column norms do not change under a rotation from the left,
:math:`\|\Omega\|_{2,1} = \|\tilde\Omega V^\top\|_{2,1}`: one product instead of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from jointsparse.arrays import Array
from jointsparse.linalg import Spectrum, array_namespace, positive_part
from jointsparse.numerics.projections import positive_eigenpairs
from jointsparse.penalties import L21

EMPTYING = 2.0  # times the trace of S, or Σ‖x_i‖: a λ or η of this size leaves nothing but Ω = 0


def capped_penalty(penalty: float, unit: float) -> float:
    """Return a penalty in this unit, tr S or Σ‖x_i‖, but no more than surely empties the model.

    Beyond, the optimum Ω = 0, its objective and its certificate stay what they are, while the
    numbers on the way there would lose their digits or overflow.
    """
    return min(penalty / unit, 2 * EMPTYING)


def first_share(values: Array, eta: float, lam: float) -> Array:
    """Return (s - η)₊ / (s + λ), how much of each eigenvector a first guess keeps.

    Without λ and where s = 0 it is 0.
    """
    xp = array_namespace(values)
    excess = positive_part(values - eta)
    return excess / xp.where(excess > 0, values + lam, xp.ones_like(values))


@dataclass(frozen=True)
class ConvexModel:
    """SPCA-PSD on data whose scatter matrix has trace 1.

    Attributes
    ----------
    spectrum : Spectrum
        Eigenvalues s and eigenvectors V of the scatter matrix.
    lam, eta : float
        Penalties in the units of the spectrum (already divided by the trace).
    """

    spectrum: Spectrum
    lam: float
    eta: float

    @classmethod
    def in_data_units(cls, spectrum: Spectrum, lam: float, eta: float) -> ConvexModel:
        """Build the model from penalties in the units of the scatter matrix."""
        unit = spectrum.trace
        return cls(spectrum, capped_penalty(lam, unit), capped_penalty(eta, unit))

    @property
    def penalty(self) -> L21:
        """The row-sparsity penalty."""
        return L21(self.lam)

    def smooth_terms(self, rotated: Array) -> tuple[float, float]:
        """Return ⟨S, Ω⟩ and tr(ΩSΩ) for a symmetric Ω given in the eigenbasis."""
        s = self.spectrum.values
        if type(rotated) is np.ndarray and type(s) is np.ndarray:
            squares = np.einsum("ij,ij->j", rotated, rotated)  # no temporary array
            return float(s @ rotated.diagonal()), float(s @ squares)
        xp = array_namespace(rotated)
        linear = float(xp.sum(s * xp.linalg.diagonal(rotated)))
        quadratic = float(xp.sum(s * xp.sum(rotated**2, axis=0)))
        return linear, quadratic

    def objective(self, rotated: Array, mixed: Array) -> float:
        """Objective at Ω, given Ω̃ = VᵀΩV and the mixed form VᵀΩ (for the column norms)."""
        xp = array_namespace(rotated)
        linear, quadratic = self.smooth_terms(rotated)
        trace = float(xp.linalg.trace(rotated))
        return 1 - 2 * linear + quadratic + self.penalty.value(mixed) + self.eta * trace

    def objective_of_factor(self, factor: Array) -> float:
        """Objective at Ω = UUᵀ."""
        xp = array_namespace(factor)
        s, vectors = self.spectrum.values, self.spectrum.vectors
        gram = factor.T @ factor
        rotated = vectors.T @ factor
        inner = (rotated * s[:, None]).T @ rotated  # Uᵀ S U
        linear = float(xp.linalg.trace(inner))
        quadratic = float(xp.sum(inner * gram))
        sparsity = self.lam * float(xp.sum(factor_scores(factor)))
        return 1 - 2 * linear + quadratic + sparsity + self.eta * float(xp.linalg.trace(gram))


@dataclass(frozen=True)
class Reconstruction:
    """How a solution reconstructs a sample: x ≈ Ωx + offset, with Ω = basis @ loadingsᵀ.

    Attributes
    ----------
    basis : array of shape (n_features, rank) or None
        None stands for the identity: then the loadings are Ωᵀ itself.
    offset : array of shape (n_features,) or None
        v, in the models that have one.
    """

    basis: Array | None
    offset: Array | None


def factor_scores(factor: Array) -> Array:
    """Column norms of Ω = UUᵀ: ‖Ωe_j‖² = u_jᵀ(UᵀU)u_j, without forming Ω."""
    xp = array_namespace(factor)
    squared = xp.sum((factor @ (factor.T @ factor)) * factor, axis=1)
    return xp.sqrt(positive_part(squared))


def factor_on(omega: Array, kept: Array) -> Array:
    """Return U with UUᵀ = Ω, for a PSD Ω that is zero outside the features ``kept``.

    The columns are orthogonal, the longest first; rows of other features are exactly zero.
    """
    xp = array_namespace(omega)
    p = kept.shape[0]
    block = omega if omega.shape[0] != p else omega[kept, :][:, kept]
    if block.shape[0] == 0:
        return xp.zeros((p, 0), dtype=omega.dtype, device=omega.device)
    values, vectors = positive_eigenpairs(block)
    # Eigenvalues at rounding level are zeros of a positive semidefinite matrix.
    rank = int(xp.sum(values > 1e-14 * xp.max(xp.abs(block))))
    values, vectors = xp.flip(values)[:rank], xp.flip(vectors, axis=1)[:, :rank]
    factor = xp.zeros((p, rank), dtype=omega.dtype, device=omega.device)
    factor[kept, :] = vectors * xp.sqrt(values)
    return factor


# The loss falls at Ω = 0 with the slope Q: 2S for the squared loss, the matrix of
# :func:`jointsparse.solvers.samples.model.emptying_data` for the others.
SQUARED_LOSS_SLOPE = 2.0


def largest_eta(spectrum: Spectrum, slope: float = SQUARED_LOSS_SLOPE) -> float:
    """Return the smallest eta that empties the model when lam = 0: λ_max(Q), Q = slope · S."""
    return slope * float(spectrum.values[-1]) * spectrum.trace


def largest_lam(spectrum: Spectrum, eta: float, slope: float = SQUARED_LOSS_SLOPE) -> float:
    """Return a lam that surely empties the model at this eta: max_j ‖[(Q - eta I)₊]_j‖.

    Without the cone and with eta = 0 it is the smallest such lam. On the cone that one is the value
    of a semidefinite programme and lies 1.3 to 1.6 times lower.
    """
    xp = array_namespace(spectrum.values)
    excess = positive_part(slope * spectrum.values - eta / spectrum.trace)
    squared = (spectrum.vectors**2) @ xp.astype(excess**2, spectrum.vectors.dtype)
    return math.sqrt(float(xp.max(squared))) * spectrum.trace


def nonempty_lam(data: Array, eta: float, slope: float = SQUARED_LOSS_SLOPE) -> float:
    r"""Return a lam that surely does not empty the model at this eta.

    A rank-one :math:`\Omega = t\,uu^\top` lowers the objective for small t whenever
    :math:`u^\top(Q-\eta I)u > \lambda\|u\|_1`, with ‖u‖ = 1. u runs through the leading
    eigenvectors of principal submatrices of Q on the features with the largest variance; the best
    of them comes to 0.84–0.97 of the exact bound.

    Parameters
    ----------
    data : array of shape (n_rows, n_features)
        F with FᵀF = S.
    eta : float
        Rank penalty, in data units.
    slope : float
        Q = slope · S.
    """
    xp = array_namespace(data)
    variances = xp.sum(data**2, axis=0)
    order = xp.argsort(-variances)
    best, size = 0.0, 1
    while True:
        block = data[:, order[:size]]
        _, singular, rows = xp.linalg.svd(block, full_matrices=False)
        gain = slope * float(singular[0]) ** 2 - eta
        best = max(best, gain / float(xp.sum(xp.abs(rows[0, :]))))
        if size == data.shape[1]:
            return max(best, 0.0)
        size = min(2 * size, data.shape[1])
