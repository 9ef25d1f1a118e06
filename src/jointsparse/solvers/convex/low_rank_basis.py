r"""A small basis that holds a low-rank optimum, and bounds that reach outside it.

W is p × m with orthonormal columns and WᵀSW = diag(s); R is the complement of its range. Two things
are asked of W:

* *Nothing outside can matter.* Ω acts only on directions in which S is larger than η/2. If W holds
  the leading eigenvectors of S, even roughly, then :math:`2S_{RR}\preceq\beta I` with β < η, which
  can be proved (:mod:`~jointsparse.solvers.wide.scatter_access`). Columns added later shrink R, so
  that the proof stands.
* *The optimum is inside.* It is not in the span of eigenvectors, but close to that of the columns
  that stationarity predicts from the last solution
  (:mod:`~jointsparse.solvers.convex.stationarity`).

**Bounds.** Any Ω = W Ω̃ Wᵀ and any λV = W·pull with columns of norm at most λ give
H = 2S - SΩ - ΩS - λ sym(V), which in blocks for range(W) and its complement R is

.. math:: H_{WW} = 2\operatorname{diag}(s) - \operatorname{diag}(s)\,\tilde\Omega
          - \tilde\Omega\operatorname{diag}(s) - \operatorname{sym}(\mathrm{pull}\,W),

.. math:: C = H_{RW} = (I-WW^\top)\big(SW(2I-\tilde\Omega) - \tfrac12\mathrm{pull}^\top\big),\qquad
          H_{RR} = 2S_{RR} \preceq \beta I .

With β < η, by the Schur complement, :math:`H\preceq(\eta+\mu)I` for μ ≥ 0 if
:math:`\hat H = H_{WW} + C^\top C/(\eta-\beta) \preceq (\eta+\mu)I`. Where it is not, the excess
goes to the multipliers: with λV + W E Wᵀ, E = (Ĥ - (η+μ)I)₊, it is. Then P = 2c(X - XΩ) and cV are
feasible for the dual (:mod:`~jointsparse.solvers.convex.certificate`) for every

.. math:: 0 \le c \le \min\{1,\ \eta/(\eta+\mu),\ \lambda/\max_j\|\lambda v_j + WEw_j\|\},

w_j being row j of W, and their value is c·a - c²·b. The columns grow little,
because multipliers and excess are nearly orthogonal: this is sharper than adding δI to V. The
columns of C·E span what W lacks.

Where η is small against λ, CᵀC/(η-β) is far too large, and no basis that is worth its columns would
make C small enough. There the multipliers take C out of H. C has rows in R and columns in range(W),
so that λV + 2CWᵀ changes no block of H but that one, which becomes 0: H_WW alone has to be at most
η + μ, and the new part is orthogonal to the old one,

.. math:: \|\lambda v_j + WEw_j + 2Cw_j\|^2 = \|\lambda v_j + WEw_j\|^2 + 4\|Cw_j\|^2 ,

a loss of second order without η in a denominator. (On orlraws10p at η = 1e-3 and λ = 10 in the
units of the data, 198 columns of W prove 0.2959 of tr S in this way, and 0.0096 in the other; the
optimum is 0.2960.) All of it costs O(pm²).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from jointsparse.arrays import Array
from jointsparse.eigen.orthonormal import outside
from jointsparse.linalg import (
    add_to_diagonal,
    array_namespace,
    double,
    eigh,
    positive_part,
    symmetric_part,
)
from jointsparse.solvers.convex.model import ConvexModel

# Eigenvectors of Ĥ above this share of η are asked what W lacks: those of the optimum are at η.
# With 1 one run in six takes a round more, with 0.9 bases are larger for nothing.
LACKING = 0.97
SHIFTS = (0.0, 0.5, 1.0)  # μ as a share of the excess


class Scatter(Protocol):
    """A scatter matrix S divided by a number, which a low-rank solver need not see as a matrix."""

    total: float
    """What S is divided by: its trace, or more where features were left out that are zero."""
    empty: Array
    """A p × 0 array in the dtype that multipliers are stored in."""

    def times(self, columns: Array) -> Array:
        """Return S times a thin p × k array, in float64."""
        ...

    def form_without(self, dropped: Array, factor: Array, images: Array, inner: Array) -> Array:
        """Return UᵀSU for U without the rows ``dropped``, given U, SU and UᵀSU with them."""
        ...

    def leading(self, eta: float, most: int) -> tuple[Basis, float] | None:
        """Return a basis of the leading eigenvectors, and β < η with 2S_RR ⪯ βI.

        None if more than ``most`` eigenvectors would have to be kept.
        """
        ...

    def proved_bound(self, basis: Basis, bound: float) -> float | None:
        """Return β, about ``bound`` or less, if 2S_RR ⪯ βI is true; None if the proof fails."""
        ...


@dataclass(frozen=True)
class Basis:
    """An orthonormal W with WᵀSW = diag(values), where S is a scatter matrix of trace 1.

    Attributes
    ----------
    values : array of shape (m,)
        s, ascending.
    vectors, images : array of shape (n_features, m)
        W and SW.
    """

    values: Array
    vectors: Array
    images: Array

    @property
    def size(self) -> int:
        """Number of columns."""
        return int(self.values.shape[0])

    @classmethod
    def rotated(cls, vectors: Array, images: Array) -> Basis:
        """Rotate an orthonormal basis and its images under S."""
        values, rotation = eigh(symmetric_part(vectors.T @ images))
        return cls(positive_part(values), vectors @ rotation, images @ rotation)

    def enlarged(self, scatter: Scatter, columns: Array) -> Basis:
        """Add the directions of ``columns`` that are new."""
        xp = array_namespace(columns)
        new = outside(self.vectors, columns)
        images = scatter.times(new)
        return Basis.rotated(
            xp.concat([self.vectors, new], axis=1), xp.concat([self.images, images], axis=1)
        )


@dataclass(frozen=True)
class Certificate:
    """A lower bound on the optimum and the dual point behind it, on a scatter of trace 1.

    Attributes
    ----------
    value : float
        The bound.
    scale : float
        c. The point is P = 2c(X - XΩ) and λV = c · (W · inside + 2CWᵀ).
    limit : float
        The largest c for which P is feasible, if need be with another share of the excess.
    pull, frame, lift : array of shape (m, n_features), (m, q), (q, n_features)
        λV before the excess was given to it, eigenvectors of the excess, what each of them gets.
    coupling : array of shape (n_features, m) or None
        C, where the multipliers take it out of H; None where they do not.
    """

    value: float
    scale: float
    limit: float
    pull: Array
    frame: Array
    lift: Array
    coupling: Array | None = None

    @property
    def inside(self) -> Array:
        """Multipliers in coordinates of W: pull + EWᵀ."""
        return self.pull + self.frame @ self.lift


class DualPoint:
    """Bounds from an iterate: Ω̃ (m × m, symmetric) and λV = W·pull.

    Parameters
    ----------
    model : ConvexModel
        The model in this basis.
    basis : Basis
        s, W and SW, in float64 even where the model works in float32.
    beta : float
        A number below eta with 2S_RR ⪯ βI.
    rotated, pull : array
        Ω̃ and pull (m × p, columns of norm at most λ).
    """

    def __init__(
        self, model: ConvexModel, basis: Basis, beta: float, rotated: Array, pull: Array
    ) -> None:
        s, self.vectors = basis.values, basis.vectors
        pull, images = double(pull), basis.images
        self.rotated, self.pull, self.lam, self.eta = rotated, pull, model.lam, model.eta
        linear, quadratic = model.smooth_terms(rotated)
        self.slope, self.curvature = 2 * (1 - linear), 1 - 2 * linear + quadratic  # a, b
        across = pull @ self.vectors
        half = -s[:, None] * rotated
        self.inner = add_to_diagonal(half + half.T - symmetric_part(across), 2 * s)
        held = add_to_diagonal(half, 2 * s) - across.T / 2  # the part of C's argument in range(W)
        self.coupling = images @ add_to_diagonal(-rotated, 2.0) - pull.T / 2 - self.vectors @ held
        self._form = self.coupling.T @ self.coupling
        self.values, self.directions = eigh(self.inner + self._form / (model.eta - beta))  # of Ĥ

    def certificate(self) -> Certificate:
        """Return the bound on the optimum of the whole model, with C left in H."""
        return self._best(self.values, self.directions, self._squares)

    def uncoupled(self) -> Certificate:
        """Return the bound on the optimum of the whole model, with C taken out of H."""
        xp = array_namespace(self._form)
        added = 4 * xp.sum((self.vectors @ self._form) * self.vectors, axis=1)
        found = self._best(*self._inner_pairs, self._squares + added)
        return replace(found, coupling=self.coupling)

    def own_bound(self) -> float:
        """Return the bound on the optimum in this basis: as if C were zero."""
        return self._best(*self._inner_pairs, self._squares).value

    def missing(self) -> Array:
        """Return directions that W lacks: where H leaves range(W) for want of slack in it."""
        return self.coupling @ self.directions[:, self.values > LACKING * self.eta]

    @cached_property
    def _squares(self) -> Array:
        """‖λv_j‖²."""
        return array_namespace(self.pull).sum(self.pull * self.pull, axis=0)

    @cached_property
    def _inner_pairs(self) -> tuple[Array, Array]:
        return eigh(self.inner)

    def _best(self, values: Array, directions: Array, squares: Array) -> Certificate:
        """Give the excess over η + μ to the multipliers, for the best μ on a grid.

        ``squares`` are their squared lengths before, with what is orthogonal to range(W).
        """
        xp = array_namespace(values)
        above = values > self.eta
        excess, frame = (values[above] - self.eta)[:, None], directions[:, above]
        top = float(xp.max(excess)) if excess.shape[0] > 0 else 0.0
        seen, pulled = frame.T @ self.vectors.T, frame.T @ self.pull
        # one row for each μ
        shifts = top * xp.asarray(SHIFTS, dtype=values.dtype, device=values.device)
        lifts = positive_part(excess - shifts[:, None, None])
        growth = xp.sum(lifts * seen * (2 * pulled + lifts * seen), axis=1)
        longest = xp.sqrt(xp.max(squares + growth, axis=1))
        best, limit = (0.0, 0.0, 0), 0.0  # c = 0
        for index in range(len(SHIFTS)):
            c = self.eta / (self.eta + float(shifts[index]))
            if float(longest[index]) > self.lam:
                c = min(c, self.lam / float(longest[index]))
            limit = max(limit, min(c, 1.0))
            if self.curvature > 0:
                c = min(c, self.slope / (2 * self.curvature))
            c = max(c, 0.0)  # an early Ω may have a < 0
            best = max(best, (c * self.slope - c * c * self.curvature, c, index))
        value, c, index = best
        return Certificate(value, c, limit, self.pull, frame, lifts[index, ...] * seen)
