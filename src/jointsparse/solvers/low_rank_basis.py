r"""A small basis that holds a low-rank optimum, and bounds that reach outside it.

W is p × m with orthonormal columns and WᵀSW = diag(s); R is the complement of its range. Two things
are asked of W:

* *Nothing outside can matter.* Ω acts only on directions in which S is larger than η/2. If W holds
  the leading eigenvectors of S, even roughly, then :math:`2S_{RR}\preceq\beta I` with β < η, which
  one Cholesky factorisation of βI - 2S_RR proves. Columns added later shrink R, so that the proof
  stands.
* *The optimum is inside.* It is not in the span of eigenvectors. With Ω = UUᵀ (orthogonal columns
  of length r_i), d_j = ‖Ωe_j‖ and :math:`A = S+\tfrac\lambda2\operatorname{diag}(1/d)` stationarity
  reads :math:`AU\,U^\top U + U(U^\top AU+\eta I) = 2SU`. In the coordinates that diagonalise the
  pencil (UᵀAU + ηI, UᵀU), with eigenvalues τ_i, the columns are

  .. math:: F_{ji} = \frac{d_j\,b_{ji}}{\lambda/2+\tau_i d_j},\qquad \|F_j\| = d_j,

  where b = SU(2I - UᵀU) in these coordinates. Given b, the second equation determines d, feature by
  feature, and says which features vanish: those with ‖b_j‖ ≤ λ/2.

**Bounds.** Any Ω = W Ω̃ Wᵀ and any λV = W·pull with columns of norm at most λ give
H = 2S - SΩ - ΩS - λ sym(V), which in blocks for range(W) and its complement R is

.. math:: H_{WW} = 2\operatorname{diag}(s) - \operatorname{diag}(s)\,\tilde\Omega
          - \tilde\Omega\operatorname{diag}(s) - \operatorname{sym}(\mathrm{pull}\,W),

.. math:: C = H_{RW} = (I-WW^\top)\big(SW(2I-\tilde\Omega) - \tfrac12\mathrm{pull}^\top\big),\qquad
          H_{RR} = 2S_{RR} \preceq \beta I .

With β < η, by the Schur complement, :math:`H\preceq(\eta+\mu)I` for μ ≥ 0 if
:math:`\hat H = H_{WW} + C^\top C/(\eta-\beta) \preceq (\eta+\mu)I`. Where it is not, the excess
goes to the multipliers: with λV + W E Wᵀ, E = (Ĥ - (η+μ)I)₊, it is. Then P = 2c(X - XΩ) and cV are
feasible for the dual (:mod:`~jointsparse.solvers.certificate`) for every

.. math:: 0 \le c \le \min\{1,\ \eta/(\eta+\mu),\ \lambda/\max_j\|\lambda v_j + WEw_j\|\},

w_j being row j of W, and their value is c·a - c²·b. The columns grow little,
because multipliers and excess are nearly orthogonal: this is sharper than adding δI to V. All of it
costs O(pm²). The columns of C·E span what W lacks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jointsparse.device import errors_raised
from jointsparse.linalg import (
    Array,
    add_to_diagonal,
    array_namespace,
    eigh,
    positive_part,
    symmetric_part,
)
from jointsparse.solvers.convex_model import ConvexModel

# Measured at η from 2 % to 10 % and λ from 0 to 2 % of tr S on three datasets (p = 256 to 784):
# values up to a third away from these hardly change the number of rounds and iterations.
BLOCK_SIZE = 12  # columns of one product with S
FIRST_STEPS = 4  # blocks before the first look at the eigenvalues
GUARDS = 2.0  # dimensions of the Krylov space for each eigenvector that is kept
FLOOR = 0.3  # eigenvectors with 2s above this share of η are kept
PROVED = 0.6  # β, as a share of η
NEWTON_STEPS = 6  # where the τ_i differ by up to 1000, they leave errors of 1e-6
LEAST_ANGLE = 1e-8  # columns closer than this to the basis are in it
FAINTEST = 1e-6  # smallest d_j, as a share of the largest
# Eigenvectors of Ĥ above this share of η are asked what W lacks: those of the optimum are at η.
# With 1 one run in six takes a round more, with 0.9 bases are larger for nothing.
LACKING = 0.97
SHIFTS = (0.0, 0.5, 1.0)  # μ as a share of the excess


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

    def enlarged(self, scatter: Array, trace: float, columns: Array) -> Basis:
        """Add the directions of ``columns`` that are new."""
        xp = array_namespace(columns)
        new = outside(self.vectors, columns)
        images = scatter @ new / trace
        return Basis.rotated(
            xp.concat([self.vectors, new], axis=1), xp.concat([self.images, images], axis=1)
        )


def leading_basis(
    scatter: Array, trace: float, eta: float, most: int
) -> tuple[Basis, float] | None:
    """Return a basis W of the leading eigenvectors of S / trace, and β < η with 2S_RR ⪯ βI.

    The Krylov space grows until the proof succeeds; at worst W is the whole space, where nothing is
    left to prove. None if more than ``most`` eigenvectors would have to be kept.
    """
    space = Krylov(scatter, trace)
    while True:
        basis = space.resolved(FLOOR * eta / 2, most)
        kept = 2 * basis.values > FLOOR * eta
        if int(array_namespace(kept).sum(kept)) > most:
            return None
        if space.dimension < scatter.shape[0]:
            basis = Basis(basis.values[kept], basis.vectors[:, kept], basis.images[:, kept])
        beta = proved_bound(scatter, trace, basis, PROVED * eta)
        if beta is not None:
            return basis, beta
        space.extend()


class Krylov:
    """The span of G, SG, S²G, … for a random G, with the images under S."""

    def __init__(self, scatter: Array, trace: float) -> None:
        self.scatter, self.trace = scatter, trace
        self._generator = np.random.default_rng(0)
        p = scatter.shape[0]
        self._size = max(2, min(BLOCK_SIZE, p // (4 * FIRST_STEPS)))
        self.vectors = self.images = self._last = scatter[:, :0]
        for _ in range(FIRST_STEPS):
            self._add_block()

    @property
    def dimension(self) -> int:
        """Number of columns."""
        return int(self.vectors.shape[1])

    def extend(self) -> None:
        """Enlarge the space by at least half."""
        aim = min(self.scatter.shape[0], self.dimension + max(self.dimension // 2, 1))
        while self.dimension < aim:
            self._add_block()

    def resolved(self, level: float, most: int) -> Basis:
        """Enlarge until the eigenvalues above ``level`` (or ``most`` of them) are resolved."""
        while True:
            basis = Basis.rotated(self.vectors, self.images)
            count = int(array_namespace(basis.values).sum(basis.values > level))
            full = self.dimension == self.scatter.shape[0]
            if full or count > most or GUARDS * count <= self.dimension:
                return basis
            self.extend()

    def _add_block(self) -> None:
        xp = array_namespace(self.scatter)
        block = outside(self.vectors, self._last)
        if block.shape[1] == 0:  # at the start, or where the space has become invariant
            draws = self._generator.standard_normal((self.scatter.shape[0], self._size))
            draws = xp.asarray(draws, dtype=self.scatter.dtype, device=self.scatter.device)
            block = outside(self.vectors, draws)
        self._last = self.scatter @ block / self.trace
        self.vectors = xp.concat([self.vectors, block], axis=1)
        self.images = xp.concat([self.images, self._last], axis=1)


def proved_bound(scatter: Array, trace: float, basis: Basis, bound: float) -> float | None:
    """Return β, up to rounding ``bound``, if 2S_RR ⪯ βI is true; None if the proof fails."""
    xp = array_namespace(scatter)
    p, m = basis.vectors.shape
    if m == p:
        return 0.0
    # (I - WWᵀ)S(I - WWᵀ) = S - WBᵀ - BWᵀ with B = SW - W diag(s)/2
    half = basis.images - basis.vectors * (basis.values / 2)
    matrix = half @ basis.vectors.T
    matrix = 2 * (matrix + matrix.T)
    matrix -= scatter * (2 / trace)
    add_to_diagonal(matrix, bound)
    if not _positive_definite(matrix):
        return None
    # Cholesky's backward error: (p + 1) eps times the trace, at most p β; the matrix's: a few p eps
    return bound + float(xp.finfo(scatter.dtype).eps) * p * ((p + 1) * bound + 8)


def _positive_definite(matrix: Array) -> bool:
    xp = array_namespace(matrix)
    try:
        with errors_raised(matrix):
            factor = xp.linalg.cholesky(matrix)
    except Exception as error:  # every library has its own class, but they agree on the name
        if type(error).__name__.lstrip("_") != "LinAlgError":
            raise
        return False
    return bool(xp.all(xp.isfinite(xp.linalg.diagonal(factor))))  # some return NaN instead


def outside(basis: Array, columns: Array) -> Array:
    """Return an orthonormal basis of what range(columns) has outside range(basis)."""
    xp = array_namespace(columns)
    lengths = xp.linalg.vector_norm(columns, axis=0)
    columns = columns[:, lengths > 0] / lengths[lengths > 0]
    for _ in range(2):  # the second pass removes what rounding left of the first
        if columns.shape[1] == 0:
            break
        columns = columns - basis @ (basis.T @ columns)
        values, rotation = eigh(columns.T @ columns)
        keep = values > LEAST_ANGLE**2
        columns = columns @ (rotation[:, keep] / xp.sqrt(values[keep]))
    return columns


def stationary_columns(factor: Array, images: Array, lam: float, eta: float) -> Array:
    """Return F for the current U: what W should hold if U is nearly optimal.

    ``factor`` is U (p × k, with orthogonal columns) and ``images`` is SU; lam is positive.
    """
    xp = array_namespace(factor)
    lengths = xp.linalg.vector_norm(factor, axis=0)
    norms = xp.linalg.vector_norm(factor * lengths, axis=1)
    norms = xp.clip(norms, 1e-9 * float(xp.max(norms)), None)
    pencil = factor.T @ images + lam / 2 * ((factor / norms[:, None]).T @ factor)
    pencil = add_to_diagonal(symmetric_part(pencil), eta) / (lengths[:, None] * lengths[None, :])
    tau, rotation = eigh(pencil)
    pulls = images @ (2 * rotation / lengths[:, None] - rotation * lengths[:, None])
    squares = pulls**2
    alive = xp.sum(squares, axis=1) > lam**2 / 4
    norms = xp.zeros_like(norms)
    norms[alive] = _feature_norms(squares[alive, :], tau, lam / 2)
    norms = xp.clip(norms, FAINTEST * float(xp.max(norms)), None)
    return pulls * (norms[:, None] / (lam / 2 + tau[None, :] * norms[:, None]))


def _feature_norms(squares: Array, tau: Array, half_lam: float) -> Array:
    r"""Solve :math:`\sum_i b_{ji}^2/(\lambda/2+\tau_i d_j)^2 = 1` for d_j > 0, given b².

    Newton's method on (sum)^(-1/2), which is concave: started at 0 it stays left of the root.
    """
    xp = array_namespace(squares)
    norms = xp.zeros_like(squares[:, 0])
    for _ in range(NEWTON_STEPS):
        inverse = 1 / (half_lam + tau * norms[:, None])
        terms = squares * inverse**2
        total = xp.sum(terms, axis=1)
        norms = norms + (total**1.5 - total) / xp.sum(terms * inverse * tau, axis=1)
    return norms


@dataclass(frozen=True)
class Certificate:
    """A lower bound on the optimum and the dual point behind it, on a scatter of trace 1.

    Attributes
    ----------
    value : float
        The bound.
    scale : float
        c. The point is P = 2c(X - XΩ) and λV = c · W · inside.
    pull, frame, lift : array of shape (m, n_features), (m, q), (q, n_features)
        λV before the excess was given to it, eigenvectors of the excess, what each of them gets.
    """

    value: float
    scale: float
    pull: Array
    frame: Array
    lift: Array

    @property
    def inside(self) -> Array:
        """Multipliers in coordinates of W: pull + EWᵀ."""
        return self.pull + self.frame @ self.lift


class DualPoint:
    """Bounds from an iterate: Ω̃ (m × m, symmetric) and λV = W·pull.

    Parameters
    ----------
    model : ConvexModel
        The model; its spectrum is (s, W).
    images : array of shape (n_features, m)
        SW.
    beta : float
        A number below eta with 2S_RR ⪯ βI.
    rotated, pull : array
        Ω̃ and pull (m × p, columns of norm at most λ).
    """

    def __init__(
        self, model: ConvexModel, images: Array, beta: float, rotated: Array, pull: Array
    ) -> None:
        s, self.vectors = model.spectrum.values, model.spectrum.vectors
        self.pull, self.lam, self.eta = pull, model.lam, model.eta
        linear, quadratic = model.smooth_terms(rotated)
        self.slope, self.curvature = 2 * (1 - linear), 1 - 2 * linear + quadratic  # a, b
        across = pull @ self.vectors
        half = -s[:, None] * rotated
        self.inner = add_to_diagonal(half + half.T - symmetric_part(across), 2 * s)
        held = add_to_diagonal(half, 2 * s) - across.T / 2  # the part of C's argument in range(W)
        self.coupling = images @ add_to_diagonal(-rotated, 2.0) - pull.T / 2 - self.vectors @ held
        outer = self.inner + self.coupling.T @ self.coupling / (model.eta - beta)
        self.values, self.directions = eigh(outer)  # of Ĥ

    def certificate(self) -> Certificate:
        """Return the bound on the optimum of the whole model."""
        return self._best(self.values, self.directions)

    def own_bound(self) -> float:
        """Return the bound on the optimum in this basis: as if C were zero."""
        return self._best(*eigh(self.inner)).value

    def missing(self) -> Array:
        """Return directions that W lacks: where H leaves range(W) for want of slack in it."""
        return self.coupling @ self.directions[:, self.values > LACKING * self.eta]

    def _best(self, values: Array, directions: Array) -> Certificate:
        """Give the excess over η + μ to the multipliers, for the best μ on a grid."""
        xp = array_namespace(values)
        above = values > self.eta
        excess, frame = (values[above] - self.eta)[:, None], directions[:, above]
        top = float(xp.max(excess)) if excess.shape[0] > 0 else 0.0
        seen, pulled = frame.T @ self.vectors.T, frame.T @ self.pull
        lengths = xp.sum(self.pull * self.pull, axis=0)
        # one row for each μ
        shifts = top * xp.asarray(SHIFTS, dtype=values.dtype, device=values.device)
        lifts = positive_part(excess - shifts[:, None, None])
        growth = xp.sum(lifts * seen * (2 * pulled + lifts * seen), axis=1)
        longest = xp.sqrt(xp.max(lengths + growth, axis=1))
        best = (0.0, 0.0, 0)  # c = 0
        for index in range(len(SHIFTS)):
            c = self.eta / (self.eta + float(shifts[index]))
            if float(longest[index]) > self.lam:
                c = min(c, self.lam / float(longest[index]))
            if self.curvature > 0:
                c = min(c, self.slope / (2 * self.curvature))
            c = max(c, 0.0)  # an early Ω may have a < 0
            best = max(best, (c * self.slope - c * c * self.curvature, c, index))
        value, c, index = best
        return Certificate(value, c, self.pull, frame, lifts[index, ...] * seen)
