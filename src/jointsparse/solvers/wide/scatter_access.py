r"""Scatter matrices as the low-rank solver sees them: a p × p matrix, or the samples themselves.

Both answer the same questions (:class:`~jointsparse.solvers.convex.low_rank_basis.Scatter`):
products with thin matrices, a basis W of the leading eigenvectors, and a proof that
:math:`2S_{RR}\preceq\beta I` on the complement R of range(W).

* A matrix (:class:`MatrixScatter`): eigenvectors from a block Krylov space, the proof by a Cholesky
  factorisation of βI - 2S_RR.
* Samples X with S = XᵀX and n ≪ p (:class:`DataScatter`): S_RR has the same nonzero eigenvalues as
  the n × n matrix :math:`XX^\top - (XW)(XW)^\top`, so eigenvectors and proof come from the Gram
  matrix of the samples. Where that is too large as well, the eigenvectors come from the Krylov
  space, and the bound from k Lanczos steps with a random start: their estimate ξ of the largest
  eigenvalue μ of an n × n matrix satisfies

  .. math:: P\big(\xi\le(1-\epsilon)\mu\big)\le 1.648\,\sqrt n\,e^{-\sqrt\epsilon\,(2k-1)}

  (Kuczyński and Woźniakowski, 1992), which the numbers below make 1e-12. It is the one place where
  a certificate rests on chance.
"""

from __future__ import annotations

import math

import numpy as np

from jointsparse.arrays import Array
from jointsparse.device import errors_raised
from jointsparse.eigen.orthonormal import orthonormalised, outside
from jointsparse.linalg import (
    add_to_diagonal,
    array_namespace,
    double,
    eigh,
    largest_eigenvalue,
    symmetric_part,
    unless_singular,
)
from jointsparse.operators.samples import Samples
from jointsparse.solvers.convex.low_rank_basis import Basis, Scatter

# Measured at η from 2 % to 10 % and λ from 0 to 2 % of tr S on three datasets (p = 256 to 784):
# values up to a third away from these hardly change the number of rounds and iterations.
BLOCK_SIZE = 12  # columns of one product with S
FIRST_STEPS = 4  # blocks before the first look at the eigenvalues
GUARDS = 2.0  # dimensions of the Krylov space for each eigenvector that is kept
FLOOR = 0.3  # eigenvectors with 2s above this share of η are kept
PROVED = 0.6  # β, as a share of η
# Where noise is all that lies below η, hundreds of its eigenvalues are near it, and with FLOOR the
# basis would hold them all. With this floor it holds those above the noise and few more, for a
# bound that is a little less sharp (100 × 20 000, five directions above the noise: 16 columns
# instead of 104, a gap of 2e-5 instead of 6e-6 after one round, a third of the time, a fifth of the
# memory). With so few directions anyway, or not many times as many, FLOOR it is.
NOISE_FLOOR = 0.95
FEW, MANY_TIMES = 32, 2
PROVED_ABOVE_NOISE = 0.96
LARGEST_GRAM = 3000  # samples: beyond, an n × n matrix and its eigenvectors cost more than products
LANCZOS_SHORTFALL = 0.1  # ε
LANCZOS_FAILURE = 1e-12


class MatrixScatter:
    """A scatter matrix that is at hand.

    Parameters
    ----------
    matrix : array of shape (n_features, n_features)
        S, in float64.
    total : float
        What it is divided by.
    """

    def __init__(self, matrix: Array, total: float) -> None:
        self.matrix, self.total, self.empty = matrix, total, matrix[:, :0]

    def times(self, columns: Array) -> Array:
        """Return S times a thin array."""
        return self.matrix @ columns / self.total

    def form_without(self, dropped: Array, factor: Array, images: Array, inner: Array) -> Array:
        """Return UᵀSU without some rows of U, from the products at hand."""
        lost = factor[dropped, :]
        cross = lost.T @ images[dropped, :]
        square = lost.T @ (self.matrix[dropped, :][:, dropped] @ lost) / self.total
        return inner - cross - cross.T + square

    def leading(self, eta: float, most: int) -> tuple[Basis, float] | None:
        """Return a basis of the leading eigenvectors, and β < η."""
        return leading_basis(self, eta, most)

    def proved_bound(self, basis: Basis, bound: float) -> float | None:
        """Return β if 2S_RR ⪯ βI is true."""
        return proved_bound(self.matrix, self.total, basis, bound)


class DataScatter:
    """The scatter matrix of samples, which is never formed.

    Parameters
    ----------
    data : Samples
        X, centred.
    total : float
        What S = XᵀX is divided by.

    Attributes
    ----------
    noise : bool
        Whether eigenvalues below η may be taken for noise where there are many.
    """

    def __init__(self, data: Samples, total: float) -> None:
        self.data, self.total, self.empty, self.noise = data, total, data.empty, True

    def times(self, columns: Array) -> Array:
        """Return S times a thin array."""
        return self.data.transposed_times(self.data.times(columns) / self.total)

    def form_without(self, dropped: Array, factor: Array, images: Array, inner: Array) -> Array:
        """Return UᵀSU without some rows of U."""
        xp = array_namespace(factor)
        kept = xp.where(dropped[:, None], xp.zeros_like(factor[:1, :]), factor)
        image = self.data.times(kept)
        return image.T @ image / self.total

    def leading(self, eta: float, most: int) -> tuple[Basis, float] | None:
        """Return a basis of the leading eigenvectors, and β < η.

        None if more than ``most`` eigenvectors would have to be kept, or if η is so small a share
        of the trace that rounding does not let any β below it be proved.
        """
        if self.data.shape[0] > LARGEST_GRAM:
            return leading_basis(self, eta, most)
        xp = array_namespace(self.empty)
        values, rows = eigh(self.data.gram() / self.total)
        floor = floor_of(values, eta) if self.noise else FLOOR
        kept = 2 * values > floor * eta
        if int(xp.sum(kept)) > most:
            return None
        weights = rows[:, kept] / xp.sqrt(values[kept] * self.total)
        # The Gram matrix leaves half of the digits of the faint ones: orthonormalised once more.
        vectors = orthonormalised(self.data.transposed_times(weights))
        basis = Basis.rotated(vectors, self.times(vectors))
        proved = PROVED if floor == FLOOR else PROVED_ABOVE_NOISE
        beta = self.proved_bound(basis, proved * eta)  # the floor times η, up to rounding
        return None if beta is None else (basis, beta)

    def proved_bound(self, basis: Basis, bound: float) -> float | None:
        """Return β if 2S_RR ⪯ βI is true: with the Gram matrix the smallest there is."""
        n = self.data.shape[0]
        if n > LARGEST_GRAM:
            found = 2 * self._lanczos_bound(basis)
        else:
            image = self.data.times(basis.vectors)
            found = 2 * largest_eigenvalue(self.data.gram() - image @ image.T) / self.total
        found += 8 * n * float(np.finfo(np.float64).eps)  # rounding of an n × n matrix of trace 1
        return found if found <= bound else None

    def _lanczos_bound(self, basis: Basis) -> float:
        """Bound the largest eigenvalue of X(I - WWᵀ)Xᵀ from above, but for a failure of 1e-12."""
        xp = array_namespace(basis.vectors)
        n = self.data.shape[0]
        odds = math.log(1.648 * math.sqrt(n) / LANCZOS_FAILURE)
        steps = min(n, math.ceil((odds / math.sqrt(LANCZOS_SHORTFALL) + 1) / 2))
        draws = np.random.default_rng(1).standard_normal((n, 1))
        vector = xp.asarray(draws / np.linalg.norm(draws), device=basis.vectors.device)
        space, images = [], []
        for _ in range(steps):
            space.append(vector)
            inside = self.data.transposed_times(vector) / math.sqrt(self.total)
            inside = inside - basis.vectors @ (basis.vectors.T @ inside)
            image = self.data.times(inside) / math.sqrt(self.total)
            images.append(image)
            known = xp.concat(space, axis=1)
            rest = image - known @ (known.T @ image)
            rest = rest - known @ (known.T @ rest)
            length = float(xp.linalg.vector_norm(rest))
            if length <= 1e-14:
                break
            vector = rest / length
        known = xp.concat(space, axis=1)
        inner = symmetric_part(known.T @ xp.concat(images, axis=1))
        return largest_eigenvalue(inner) / (1 - LANCZOS_SHORTFALL)


def floor_of(values: Array, eta: float) -> float:
    """Return the share of η above which eigenvectors are kept, given the eigenvalues of S."""
    xp = array_namespace(values)
    many, few = (int(xp.sum(2 * values > share * eta)) for share in (FLOOR, NOISE_FLOOR))
    return NOISE_FLOOR if many > max(FEW, MANY_TIMES * few) else FLOOR


def leading_basis(scatter: Scatter, eta: float, most: int) -> tuple[Basis, float] | None:
    """Return a basis W of the leading eigenvectors, and β < η with 2S_RR ⪯ βI.

    The Krylov space grows until the proof succeeds; at worst W is the whole space, where nothing is
    left to prove but that rounding is below η. None if it is not, or if more than ``most``
    eigenvectors would have to be kept.
    """
    space = Krylov(scatter)
    while True:
        basis = space.resolved(FLOOR * eta / 2, most)
        kept = 2 * basis.values > FLOOR * eta
        if int(array_namespace(kept).sum(kept)) > most:
            return None
        if space.dimension < scatter.empty.shape[0]:
            basis = Basis(basis.values[kept], basis.vectors[:, kept], basis.images[:, kept])
        beta = scatter.proved_bound(basis, PROVED * eta)
        if beta is not None:
            return basis, beta
        if space.dimension == scatter.empty.shape[0]:
            return None
        space.extend()


class Krylov:
    """The span of G, SG, S²G, … for a random G, with the images under S."""

    def __init__(self, scatter: Scatter) -> None:
        self.scatter, empty = scatter, double(scatter.empty)
        self._generator = np.random.default_rng(0)
        p = self._most = int(empty.shape[0])
        self._size = max(2, min(BLOCK_SIZE, p // (4 * FIRST_STEPS)))
        self.vectors = self.images = self._last = empty
        for _ in range(FIRST_STEPS):
            self._add_block()

    @property
    def dimension(self) -> int:
        """Number of columns."""
        return int(self.vectors.shape[1])

    def extend(self) -> None:
        """Enlarge the space by at least half."""
        aim = min(self._most, self.dimension + max(self.dimension // 2, 1))
        while self.dimension < aim:
            self._add_block()

    def resolved(self, level: float, most: int) -> Basis:
        """Enlarge until the eigenvalues above ``level`` (or ``most`` of them) are resolved."""
        while True:
            basis = Basis.rotated(self.vectors, self.images)
            count = int(array_namespace(basis.values).sum(basis.values > level))
            full = self.dimension == self._most
            if full or count > most or GUARDS * count <= self.dimension:
                return basis
            self.extend()

    def _add_block(self) -> None:
        xp = array_namespace(self.vectors)
        block = outside(self.vectors, self._last)
        if block.shape[1] == 0:  # at the start, or where the space has become invariant
            draws = self._generator.standard_normal((self._most, self._size))
            draws = xp.asarray(draws, device=self.vectors.device)
            block = outside(self.vectors, draws)
        self._last = self.scatter.times(block)
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
    with errors_raised(matrix):
        factor = unless_singular(xp.linalg.cholesky, matrix)
    if factor is None:
        return False
    return bool(xp.all(xp.isfinite(xp.linalg.diagonal(factor))))  # some return NaN instead
