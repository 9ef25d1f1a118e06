r"""Nodes of the search: some features are in, some are candidates, the others are out.

With I in, f(H) = f(I) + f'(H \ I), where f' is the same problem for the residuals
x'_c = x_c - P_I x_c and the target (I - P_I)T(I - P_I). Where a feature is out, only the span of
the candidates matters: every node is a smaller problem of the same kind. Three ways to it:

* **compressed**: an orthonormal basis of everything that is in or may come in, by one QR
  factorisation. All of the target that matters, and nothing else: the sharpest. Many at a time.
* **inner products** alone, where the best set is computed outright, or where there are many
  candidates in many dimensions: the target is then seen through its leading eigenvectors,
  T ⪯ V₁(Λ₁-β)V₁ᵀ + βI, so that the cost does not grow with r². Many at a time.
* **truncated**: the same one node at a time, where there are too many features for a table of all
  inner products.

All arrays have the nodes along their first axis; nodes with fewer candidates than others are filled
up with columns of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.subset.problem import DETERMINED, SubsetProblem

COMPRESSED_ROWS = 128  # up to here an eigendecomposition of the whole target costs little
COMPRESSED_CANDIDATES = 16  # with so few, the compressed target is sharper and as cheap
LEADING = 16  # eigenvectors of the target beyond k that are kept where not all are
KEPT_GRAM = 1500  # features up to which all inner products are kept: 18 MB
AT_ONCE = 2**17  # entries of the columns of one batch of nodes: 1 MB
MOST_AT_ONCE = 64  # nodes of a batch: more gain nothing, and leave the order of the bounds


@dataclass(frozen=True)
class Table:
    """A problem with what all nodes need of it, computed once."""

    problem: SubsetProblem
    size: int
    traces: FloatArray | None = None  # diagonal of C⁻¹ of all features; None where dependent

    @cached_property
    def span_charge(self) -> float:
        """What rounding may do to the span of candidates: as much as to that of the worst set."""
        if self.traces is None:
            return 0.0  # nothing is left out of the space then
        worst = np.sort(self.traces)[-self.size :].sum()
        return float(self.problem.charge(float(worst), self.size))

    @cached_property
    def padded(self) -> FloatArray:
        """The columns as rows, and one of zeros at the end."""
        rows, count = self.problem.columns.shape
        return np.vstack([self.problem.columns.T, np.zeros((min(count, 1), rows))])

    @cached_property
    def leading(self) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Return V₁, its products with the columns, √(Λ₁ - β) and β."""
        values, vectors = self.problem.spectrum
        count = min(values.size, self.size + LEADING)
        rest = values.size - count
        next_one = max(float(values[rest - 1]), 0.0) if rest else 0.0
        roots = np.sqrt(np.maximum(values[rest:] - next_one, 0.0))
        axes = vectors[:, rest:]
        return axes, axes.T @ self.padded.T, roots, next_one

    @cached_property
    def gram(self) -> tuple[FloatArray, FloatArray]:
        """X̂ᵀX̂ and X̂ᵀTX̂ with a last row and column of zeros."""
        columns = self.padded.T
        return columns.T @ columns, columns.T @ (self.problem.target @ columns)

    def keeps_gram(self) -> bool:
        """Whether all inner products are kept."""
        return self.problem.n_features <= KEPT_GRAM

    def compresses(self, n_candidates: int) -> bool:
        """Whether nodes with that many candidates are compressed."""
        few_rows = len(self.problem.columns) <= COMPRESSED_ROWS
        few = self.traces is not None and n_candidates <= COMPRESSED_CANDIDATES
        return few_rows or few

    def at_once(self, n_candidates: int, *, last: bool) -> int:
        """Return how many nodes with at most that many candidates are looked at together."""
        entries = len(self.problem.columns) * (self.size + n_candidates)
        if self._by_gram(n_candidates, last=last):
            entries = n_candidates**2
        elif not self.compresses(n_candidates):
            return 1
        return int(np.clip(AT_ONCE // max(entries, 1), 1, MOST_AT_ONCE))

    def _by_gram(self, n_candidates: int, *, last: bool) -> bool:
        return self.keeps_gram() and (last or not self.compresses(n_candidates))

    def nodes(
        self, included: Sequence[Sequence[int]], candidates: Sequence[IntArray], *, last: bool
    ) -> Nodes:
        """Return some nodes with equally many features that are in.

        The last ones have no children: inner products are all that is asked of them.
        """
        most = max(part.size for part in candidates)
        filled = np.full((len(candidates), most), self.problem.n_features, dtype=np.int64)
        for row, part in zip(filled, candidates, strict=True):
            row[: part.size] = part
        kind: type[Nodes] = CompressedNodes if self.compresses(most) else TruncatedNode
        if self._by_gram(most, last=last):
            kind = GramNodes
        return kind(self, np.array(included, dtype=np.int64).reshape(len(candidates), -1), filled)


class Nodes:
    """What is common to both kinds of nodes.

    Attributes
    ----------
    value : ndarray of shape (b,)
        f of what is in.
    left : ndarray of shape (b, c)
        Squared lengths of the residuals of the candidates.
    loads : ndarray of shape (b, c)
        1 + squared length of the coefficients of a candidate on what is in.
    inverse_trace : ndarray of shape (b,)
        tr C⁻¹ of what is in.
    gains : ndarray of shape (b, c)
        What each candidate would add.
    """

    value: FloatArray
    left: FloatArray
    loads: FloatArray
    inverse_trace: FloatArray
    gains: FloatArray
    span_charge = 0.0

    def __init__(self, table: Table, included: IntArray, candidates: IntArray) -> None:
        self.table, self.included, self.candidates = table, included, candidates
        self.depth = included.shape[1]
        self._find_residuals()
        self.lengths = np.sqrt(np.maximum(self.left, 0.0))
        # Rounding: a residual below this is none, and its inverse would be infinite.
        self._inverse = 1 / np.maximum(self.lengths, np.sqrt(DETERMINED / 4))
        self.gains = np.maximum(self.gains, 0.0) * self._inverse**2

    def _find_residuals(self) -> None:
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues of (a bound on) the targets, and shadows of unit residuals on them.

        The shadows are (b, r, c).
        """
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def pairs(self, places: IntArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return inner products of unit residuals (b, c, c), plain and through the targets.

        With ``places`` (b, w) those of some candidates of each node only.
        """
        raise NotImplementedError  # pragma: no cover - asked only of those that define it

    @cached_property
    def inverse_traces(self) -> FloatArray:
        """Tr C⁻¹ of what is in together with each candidate."""
        return np.asarray(self.inverse_trace[:, None] + self.loads * self._inverse**2)

    @cached_property
    def good(self) -> NDArray[np.bool_]:
        """Which candidates are good for their node.

        Of the others what is in leaves too little, or so little that rounding may be most of it.
        """
        error = 2 * (self.depth + 1) * self.table.problem.accuracy * self.loads
        good = (self.left > 4 * error) & (self.left >= DETERMINED / 2)
        return np.asarray(good & (self.candidates < self.table.problem.n_features))

    def _leading_spectrum(
        self, basis: FloatArray, shares: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues of targets that are at least the nodes', and shadows.

        With W = √(Λ₁-β) V₁ᵀ(I - P_I), the bound is WᵀW + βI: eigenvalues of WWᵀ are enough, and an
        eigenvector u of it stands for Wᵀu/√λ.
        """
        axes, products, roots, next_one = self.table.leading
        inside = axes.T @ basis
        scaled = inside * roots[:, None]
        values, vectors = np.linalg.eigh(np.diag(roots**2) - scaled @ scaled.transpose(0, 2, 1))
        values = np.maximum(values, 0.0)
        residual = products[:, self.candidates].transpose(1, 0, 2) - inside @ shares
        images = vectors.transpose(0, 2, 1) @ (residual * self._inverse[:, None] * roots[:, None])
        safe = np.where(values > 0, values, np.inf)
        return values + next_one, images / np.sqrt(safe)[:, :, None]

    def _find_loads(self, triangle: FloatArray, shares: FloatArray) -> None:
        """Find the loads from the coefficients R⁻¹·shares, and tr (RᵀR)⁻¹."""
        inverse = np.linalg.inv(triangle)
        coefficients = inverse @ shares
        self.loads = 1 + np.einsum("bij,bij->bj", coefficients, coefficients)
        self.inverse_trace = np.einsum("bij,bij->b", inverse, inverse)


class CompressedNodes(Nodes):
    """Nodes in orthonormal bases of their included features and candidates."""

    def _find_residuals(self) -> None:
        problem, depth = self.table.problem, self.depth
        features = np.concatenate([self.included, self.candidates], axis=1)
        columns = self.table.padded[features].transpose(0, 2, 1)
        # Of dependent candidates rounding decides what the span is: the whole space is kept then.
        whole = self.table.traces is None
        self.span_charge = self.table.span_charge
        basis, triangle = np.linalg.qr(columns, mode="complete" if whole else "reduced")
        within = basis.transpose(0, 2, 1) @ (problem.target @ basis)
        self._columns = np.ascontiguousarray(triangle[:, depth:, depth:])
        # Basis vectors that stand for no candidate: those of the columns of zeros.
        real = np.sum(self.candidates < problem.n_features, axis=1)
        used = (np.arange(self._columns.shape[1]) < real[:, None]) | whole
        self._target = within[:, depth:, depth:] * (used[:, :, None] & used[:, None, :])
        self._images = self._target @ self._columns
        self.left = np.einsum("bij,bij->bj", self._columns, self._columns)
        self.gains = np.einsum("bij,bij->bj", self._columns, self._images)
        self._find_loads(triangle[:, :depth, :depth], triangle[:, :depth, depth:])
        self.value = np.einsum("bii->b", within[:, :depth, :depth])

    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Return the eigenvalues of the compressed targets, and shadows."""
        values, vectors = np.linalg.eigh(self._target)
        unit = self._columns * self._inverse[:, None, :]
        return values, vectors.transpose(0, 2, 1) @ unit

    def pairs(self, places: IntArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return inner products of unit residuals, plain and through the target."""
        unit = self._columns * self._inverse[:, None, :]
        images = self._images * self._inverse[:, None, :]
        if places is not None:
            unit, images = (np.take_along_axis(a, places[:, None, :], 2) for a in (unit, images))
        across = unit.transpose(0, 2, 1)
        return across @ unit, across @ images


class TruncatedNode(Nodes):
    """One node that sees the target through its leading eigenvectors."""

    def _find_residuals(self) -> None:
        problem, candidates = self.table.problem, self.candidates[0]
        self._basis, triangle = np.linalg.qr(problem.columns[:, self.included[0]])
        # Of all features: that is faster than to copy the columns of the candidates.
        self._shares = (self._basis.T @ problem.columns)[:, candidates]
        self._through = (self._basis.T @ problem.images)[:, candidates]
        self._inside = self._basis.T @ problem.target @ self._basis
        self.left = (1 - np.einsum("ij,ij->j", self._shares, self._shares))[None]
        image = self._inside @ self._shares - 2 * self._through
        gains = problem.gains[candidates] + np.einsum("ij,ij->j", self._shares, image)
        self.gains = gains[None]
        self._find_loads(triangle[None], self._shares[None])
        self.value = np.trace(self._inside)[None]

    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues of a target that is at least the node's, and shadows."""
        return self._leading_spectrum(self._basis[None], self._shares[None])


class GramNodes(Nodes):
    """Nodes through inner products alone."""

    def _find_residuals(self) -> None:
        inner, images = self.table.gram
        inside, outside = self.included[:, :, None], self.candidates[:, None, :]
        self._basis, triangle = np.linalg.qr(self.table.padded[self.included].transpose(0, 2, 1))
        inverse = np.linalg.inv(triangle).transpose(0, 2, 1)
        shares = inverse @ inner[inside, outside]
        through = inverse @ images[inside, outside]
        within = inverse @ images[inside, self.included[:, None, :]] @ inverse.transpose(0, 2, 1)
        self._shares = shares
        # Σ = X̂ᵀ(I - P)T(I - P)X̂ = X̂ᵀTX̂ - sᵀh - hᵀs with h = through - ½ within·s.
        self._half = through - 0.5 * within @ shares
        self.left = inner[self.candidates, self.candidates] - np.einsum(
            "bij,bij->bj", shares, shares
        )
        self.gains = images[self.candidates, self.candidates] - 2 * np.einsum(
            "bij,bij->bj", shares, self._half
        )
        self._find_loads(triangle, shares)
        self.value = np.einsum("bii->b", within)

    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues of targets that are at least the nodes', and shadows."""
        return self._leading_spectrum(self._basis, self._shares)

    def pairs(self, places: IntArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return inner products of unit residuals, plain and through the target."""
        inner, images = self.table.gram
        chosen, scales, shares, half = self.candidates, self._inverse, self._shares, self._half
        if places is not None:
            chosen = np.take_along_axis(chosen, places, 1)
            scales = np.take_along_axis(scales, places, 1)
            shares, half = (np.take_along_axis(a, places[:, None, :], 2) for a in (shares, half))
        one, other = chosen[:, :, None], chosen[:, None, :]
        across = shares.transpose(0, 2, 1)
        scale = scales[:, :, None] * scales[:, None, :]
        cross = across @ half
        plain = (inner[one, other] - across @ shares) * scale
        return plain, (images[one, other] - cross - cross.transpose(0, 2, 1)) * scale
