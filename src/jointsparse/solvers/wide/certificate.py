r"""Lower bounds on the optimum for problems with many more features than samples.

The dual of the model is stated in :mod:`~jointsparse.solvers.convex.certificate`. A dual point is
made from *any* symmetric Ω = W Ω̃ Wᵀ on a working set R of the features, and *any* multiplier with
columns v_j = Wy_j, without ever forming a p × p matrix. Let Y be the m × |R| matrix of the y_j and
C = Yᵀ - W(YW)ᵀ the part of it that leaves the basis. On R,

.. math:: P = 2c\,(X - X\Omega),\qquad V' = c\,(WY + tI - \theta\,C W^\top),

.. math:: c\,\big(\lambda_{\max}(H) - \lambda t\big) \le \eta,\qquad
          c\,\|v_j + t e_j - \theta C w_j\| \le 1,

with H = 2S - SΩ - ΩS - λ sym(WY - θCWᵀ) is feasible, and its value is ca - c²b with
a = 2(tr S - ⟨S,Ω⟩) and b = ‖X - XΩ‖². Two things make it sharper than the general certificate: the
norms are evaluated, not bounded by 1 + t; and θ = 1 removes the part of sym(V) that couples the
basis with its complement, at a cost of second order in the norms.

Features K outside the working set are covered by V_RK = (2/λ)[(2I-Ω)S]_RK, V_KR = 0,
V_KK = (2S_KK - ηI)₊/λ and p_j = 2x_j (see :mod:`~jointsparse.solvers.convex.screening`): the matrix
condition on K then holds for every c ≤ 1, and only the norms ‖v_j‖ can cost anything. So the
working set may be chosen by any heuristic. c stays at most 1, because the norms would allow more
where no multiplier is active, but that condition on K would not.

Rounding: W may be stored in float32. Everything is then stated for W̃ = W(WᵀW)^(-1/2), which is
orthonormal, and the part E of X that W̃ misses is measured and added to λ_max(H); sums are
accumulated in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from jointsparse.arrays import Array
from jointsparse.linalg import (
    array_namespace,
    blocks,
    double,
    eigh,
    largest_eigenvalue,
    long_product,
    positive_part,
    symmetric_part,
)
from jointsparse.numerics.projections import from_eigenpairs, positive_eigenpairs
from jointsparse.solvers.convex.screening import excess_form, quadratic_forms

RAISE = 1e-3  # added to eigenvalues of S before a division by them, in units of η + λ


class Bound(NamedTuple):
    """A lower bound and the dual point that gives it; c could be as large as ``limit``."""

    value: float
    c: float
    t: float
    theta: float
    limit: float = 0.0


class SampleDual(NamedTuple):
    """A dual point as the samples see it: P = 2c(X - XΩ) for any c from 0 to ``limit``.

    ``linear`` and ``quadratic`` are x_iᵀΩx_i and ‖Ωx_i‖², which give the norm of every row of P.
    """

    limit: float
    linear: Array
    quadratic: Array

    @classmethod
    def of(cls, image: Array, rotated: Array, limit: float, *, screened: bool) -> SampleDual:
        """Take Ω = W Ω̃ Wᵀ, given XW; ``screened``: whether features left beforehand.

        Those are covered for any Ω between 0 and 4I (see
        :mod:`~jointsparse.solvers.convex.screening`).
        """
        xp = array_namespace(rotated)
        if screened and rotated.shape[0] > 0:
            values = xp.linalg.eigvalsh(rotated)
            limit = limit / (1 + max(0.0, -float(values[0]), float(values[-1]) - 4) / 2)
        mapped = image @ rotated
        return cls(limit, xp.sum(mapped * image, axis=1), xp.sum(mapped**2, axis=1))


@dataclass(frozen=True)
class Frame:
    """What the dual points need of the arrays with one row for each feature of the working set.

    Attributes
    ----------
    image : array of shape (n, m)
        XW̃.
    missed : array of shape (n, n)
        EEᵀ, with E = X - XW̃W̃ᵀ.
    multiplier : array of shape (m, p)
        Y.
    coupling : array of shape (m, m)
        YW̃.
    escaped : array of shape (m, m)
        CᵀC.
    squares, diagonal : array of shape (p,)
        ‖y_j‖² and V_jj = ⟨y_j, w̃_j⟩.
    corrections, diagonal_corrections : array of shape (p,)
        ‖Cw̃_j‖² and ⟨c_j, w̃_j⟩.
    """

    image: Array
    missed: Array
    multiplier: Array
    coupling: Array
    escaped: Array
    squares: Array
    diagonal: Array
    corrections: Array
    diagonal_corrections: Array

    @classmethod
    def of(cls, data: Array, basis: Array, multiplier: Array) -> Frame:
        """Summarise X (n × p), W (p × m) and Y (m × p) in two passes over the features."""
        xp = array_namespace(data)
        p, m = basis.shape
        root = _inverse_root(long_product(basis.T, basis))
        image = long_product(data, basis) @ root
        coupling = long_product(multiplier, basis) @ root
        missed = xp.zeros((data.shape[0],) * 2, dtype=xp.float64, device=data.device)
        escaped = xp.zeros((m, m), dtype=xp.float64, device=data.device)
        squares, diagonal, shift, length = (
            xp.empty(p, dtype=xp.float64, device=data.device) for _ in range(4)
        )
        for part in blocks(p):
            rows, dual = double(basis[part, :]) @ root, double(multiplier[:, part]).T
            error = double(data[:, part]) - image @ rows.T
            leaving = dual - rows @ coupling.T
            missed += error @ error.T
            escaped += leaving.T @ leaving
            squares[part], diagonal[part] = xp.sum(dual**2, axis=1), xp.sum(dual * rows, axis=1)
            shift[part] = xp.sum(leaving * rows, axis=1)
        form = root @ escaped @ root
        for part in blocks(p):
            rows = double(basis[part, :])
            length[part] = xp.sum((rows @ form) * rows, axis=1)
        return cls(image, missed, multiplier, coupling, escaped, squares, diagonal, length, shift)


@dataclass(frozen=True)
class Dropped:
    """Norms ‖v_j‖² and diagonal V_jj of the dual point on the features outside the working set."""

    squares: Array
    diagonal: Array

    @classmethod
    def of(cls, data: Array, frame: Frame, rotated: Array, lam: float, eta: float) -> Dropped:
        """Extend the dual point of Ω̃ to the columns of X in ``data``."""
        xp = array_namespace(data)
        gram = long_product(data, data.T)
        pull = _pull(frame, rotated)
        cross = 4 * (pull.T @ pull + 4 * frame.missed)
        values, vectors = eigh(gram)
        excess = positive_part(2 * values - eta)
        weights = excess / xp.where(excess > 0, values, xp.ones_like(values))
        return cls(
            quadratic_forms(data, (cross + excess_form(gram, eta)) / lam**2),
            quadratic_forms(data, (vectors * (weights / lam)) @ vectors.T),
        )


def lower_bound(
    frame: Frame, rotated: Array, rest: Array, trace: float, lam: float, eta: float
) -> Bound:
    """Return a proven lower bound on the optimum.

    Parameters
    ----------
    frame : Frame
        Working set, basis and multiplier.
    rotated : array of shape (m, m)
        Ω̃, symmetric.
    rest : array of shape (n, n_dropped)
        Columns of X outside the working set, if any.
    trace : float
        tr S over all features, dropped ones included.
    lam, eta : float
        Penalties in the units of S; lam positive.
    """
    xp = array_namespace(rotated)
    scatter = frame.image.T @ frame.image
    linear = float(xp.sum(scatter * rotated))
    quadratic = float(xp.sum((scatter @ rotated) * rotated))
    a, b = 2 * (trace - linear), trace - 2 * linear + quadratic
    inside = _inside(frame, scatter, rotated, lam)
    pull = _pull(frame, rotated)
    lost = math.sqrt(max(largest_eigenvalue(pull @ frame.missed @ pull.T), 0.0))
    lost += 2 * max(largest_eigenvalue(frame.missed), 0.0)
    dropped = Dropped.of(rest, frame, rotated, lam, eta)
    best = Bound(0.0, 0.0, 0.0, 0.0)
    for theta in (1.0, 0.5, 0.0):
        # Outside the basis and what couples with it H vanishes: its largest eigenvalue is >= 0.
        top = max(_largest(inside, frame.escaped, lam / 2 * (1 - theta)), 0.0) + lost
        squares = frame.squares + theta**2 * frame.corrections
        diagonal = frame.diagonal - theta * frame.diagonal_corrections
        if rest.shape[1] > 0:
            squares = xp.concat([squares, dropped.squares])
            diagonal = xp.concat([diagonal, dropped.diagonal])
        limit, t = best_scale(top, squares, diagonal, lam, eta)
        c = max(0.0, min(limit, a / (2 * b)) if b > 0 else limit)  # a smaller c stays feasible
        best = max(best, Bound(c * a - c * c * b, c, t, theta, limit))
    return best


def relieved(frame: Frame, rotated: Array, lam: float, eta: float) -> Array:
    """Return Ω̃ + Δ with SΔ + ΔS ≈ (H - ηI)₊ in the basis: what H exceeds η by is moved to Ω.

    That costs little where S is large; elsewhere Δ is kept short.
    """
    xp = array_namespace(rotated)
    scatter = frame.image.T @ frame.image
    excess = from_eigenpairs(*positive_eigenpairs(_inside(frame, scatter, rotated, lam), eta))
    s = xp.linalg.diagonal(scatter)
    return rotated + excess / (s[:, None] + (s + RAISE * (eta + lam))[None, :])


def best_scale(
    top: float, squares: Array, diagonal: Array, lam: float, eta: float
) -> tuple[float, float]:
    """Return the largest c ≤ 1, and its t, that make the dual point feasible.

    c(λ_max - λt) ≤ η allows more with larger t, c‖v_j + te_j‖ ≤ 1 less (beyond its peak): bisection
    finds where they cross. Any t gives a valid c, so an inexact crossing costs accuracy, not truth.
    """
    xp = array_namespace(squares)

    def by_matrix(t: float) -> float:
        rest = top - lam * t
        return eta / rest if rest > 0 else math.inf

    def by_norms(t: float) -> float:
        return 1 / math.sqrt(max(float(xp.max(squares + 2 * t * diagonal)) + t * t, 1e-300))

    low, high = 0.0, top / lam * (1 + 1e-12)  # rounded up: with eta = 0 only t >= top/lam will do
    best = max((min(by_matrix(t), by_norms(t)), t) for t in (0.0, high, max(top - eta, 0.0) / lam))
    if by_matrix(0.0) < 1:
        for _ in range(50):
            t = (low + high) / 2
            matrix, norms = by_matrix(t), by_norms(t)
            best = max(best, (min(matrix, norms), t))
            low, high = (t, high) if matrix < norms else (low, t)
    return min(best[0], 1.0), best[1]


def objective_of_factor(data: Array, factor: Array, trace: float, lam: float, eta: float) -> float:
    """Objective at Ω = UUᵀ, in float64 from X and U whatever their dtype."""
    xp = array_namespace(data)
    gram = long_product(factor.T, factor)
    image = long_product(data, factor)
    inner = image.T @ image
    sparsity = 0.0
    for part in blocks(factor.shape[0]):
        rows = double(factor[part, :])
        squares = xp.sum((rows @ gram) * rows, axis=1)
        sparsity += float(xp.sum(xp.sqrt(positive_part(squares))))
    smooth = trace - 2 * float(xp.linalg.trace(inner)) + float(xp.sum(inner * gram))
    return smooth + lam * sparsity + eta * float(xp.linalg.trace(gram))


def _inside(frame: Frame, scatter: Array, rotated: Array, lam: float) -> Array:
    """H in the basis."""
    half = scatter @ rotated
    return 2 * scatter - half - half.T - lam * symmetric_part(frame.coupling)


def _pull(frame: Frame, rotated: Array) -> Array:
    """W̃ᵀ(2I - Ω)Xᵀ, m × n: what couples a feature outside the basis with the basis."""
    return 2 * frame.image.T - rotated @ frame.image.T


def _largest(inside: Array, escaped: Array, coupling: float) -> float:
    """Largest eigenvalue of H: ``inside`` the basis, coupled with its complement by -coupling·C."""
    xp = array_namespace(inside)
    if coupling == 0:
        return largest_eigenvalue(inside)
    values, vectors = eigh(escaped)
    root = (vectors * xp.sqrt(positive_part(values))) @ vectors.T
    off = -coupling * root
    upper = xp.concat([inside, off], axis=1)
    lower = xp.concat([off, xp.zeros_like(off)], axis=1)
    return largest_eigenvalue(xp.concat([upper, lower], axis=0))


def _inverse_root(gram: Array) -> Array:
    xp = array_namespace(gram)
    values, vectors = eigh(gram)
    return (vectors / xp.sqrt(values)) @ vectors.T
