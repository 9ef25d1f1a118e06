r"""Lower bounds on the optimum: what turns a solution into a certified one.

The dual of the model (see :mod:`jointsparse.solvers.convex.model`) is

.. math:: \max_{P,\,V}\ \langle P, X\rangle - \tfrac14\|P\|_F^2 \quad\text{s.t.}\quad
          \operatorname{sym}(P^\top X) - \lambda\operatorname{sym}(V) \preceq \eta I,\ \|v_j\|\le 1.

*Any* symmetric Ω and *any* V with columns of norm at most 1 give a feasible point after shrinking.
Put H = 2S - SΩ - ΩS - λ sym(V) and δ = max(0, λ_max(H) - η). Then P = 2c(X - XΩ) and
V' = c(V + δ/(η+λ) I) are feasible for every c between 0 and (η+λ)/(η+λ+δ):

* the columns of V' have norm at most c(1 + δ/(η+λ)) ≤ 1,
* c(η + δ) ≤ η + cλδ/(η+λ), which is the matrix inequality,

and their dual value is c·a - c²·b with a = 2(tr S - ⟨S,Ω⟩) and b = ‖X - XΩ‖². The best c is
a/(2b), clipped to that interval. Nothing is assumed about how good Ω and V are
(:func:`dual_value`).

A splitting solver knows more: a symmetric G ⪯ ηI (the multiplier of the cone) with
H = G + R, where R is small. Moving Ω by Δ with SΔ + ΔS = R removes R from H without any
eigendecomposition. In the eigenbasis of S that is Δ_ij = R_ij/(s_i+s_j); where the denominator is
too small, it is raised by ε and what is left of R counts with its Frobenius norm
(:func:`dual_value_of_cone`). This bound is cheap and, where S has no tiny eigenvalues, two orders
of magnitude tighter.

For the losses that sum over samples (:mod:`jointsparse.solvers.samples.cone`) the dual is

.. math:: \max_P\ \langle P, X\rangle \quad\text{s.t.}\quad \|p_i\|\le 1,\quad
          P^\top X = \lambda V + \eta Q,\ \|v_j\|\le 1,\ \|Q\|_{op}\le 1

(on the cone: sym(PᵀX) - λ sym(V) ⪯ ηI; with a free mean also Pᵀ1 = 0), and any P with short enough
rows becomes feasible by shrinking it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from jointsparse.arrays import Array
from jointsparse.eigen.tridiagonal import eigenpairs
from jointsparse.linalg import (
    EPSILON,
    STRIP,
    add_to_diagonal,
    array_namespace,
    column_norms,
    largest_eigenvalue,
    length,
    positive_part,
    strips,
    symmetric_part,
)
from jointsparse.numerics.projections import positive_eigenpairs
from jointsparse.solvers.convex.model import ConvexModel


class MatrixDual(NamedTuple):
    """A dual point P = 2c(X - XΩ), feasible for any c from 0 to ``limit``, with Ω = W Ω̃ Wᵀ."""

    basis: Array
    rotated: Array
    limit: float


def dual_value(model: ConvexModel, rotated: Array, pull: Array) -> float:
    """Return a proven lower bound on the optimal objective.

    Parameters
    ----------
    model : ConvexModel
        The problem, on a scatter matrix of trace 1.
    rotated : array of shape (n_features, n_features)
        Any symmetric Ω in the eigenbasis of S.
    pull : array of shape (n_features, n_features)
        λV, mixed (rows in the eigenbasis): columns of norm at most λ.
    """
    xp = array_namespace(rotated)
    s, vectors, lam, eta = model.spectrum.values, model.spectrum.vectors, model.lam, model.eta
    half = s[:, None] * rotated
    dual_matrix = -half
    dual_matrix -= half.T
    del half
    dual_matrix -= symmetric_part(pull @ vectors)
    add_to_diagonal(dual_matrix, 2 * s)
    spare = _spare_diagonal(pull, vectors, lam)
    if float(xp.max(spare)) > 1e-9 * lam:
        dual_matrix -= vectors.T @ (spare[:, None] * vectors)
    # Adding (H - ηI)₊/λ to V makes H ⪯ ηI. Where H exceeds η, its eigenvectors are nearly
    # orthogonal to the columns of V, which therefore grow to second order only.
    excess, directions = positive_eigenpairs(dual_matrix, eta)
    del dual_matrix
    correction = (directions * excess) @ (directions.T @ vectors.T)
    correction += pull
    longest = _longest_column(correction, spare, vectors)
    c = lam / longest if longest > lam else 1.0
    # The uniform correction of the module docstring; the better of the two counts.
    largest = float(excess[-1]) if excess.shape[0] else 0.0
    c = max(c, (eta + lam) / (eta + lam + largest)) if lam > 0 else eta / (eta + largest)
    return _value_at(model, rotated, c)


# Raised denominators, in units of η + λ: small keeps less of R, large keeps Δ shorter.
_RAISES = (1e-5, 1e-3)


def dual_value_of_cone(model: ConvexModel, rotated: Array, remainder: Array) -> float:
    """Return a proven lower bound on the optimal objective, without an eigendecomposition.

    Parameters
    ----------
    model : ConvexModel
        The problem, on a scatter matrix of trace 1.
    rotated : array of shape (n_features, n_features)
        A symmetric Ω in the eigenbasis of S.
    remainder : array of shape (n_features, n_features)
        R = H - G in the eigenbasis, where H is that of Ω and of a V with columns of norm at most
        1, and G ⪯ ηI.
    """
    budget = model.eta + model.lam
    best = 0.0
    for raise_by in _RAISES:
        move = consistent_move(model, remainder, raise_by)
        left = raise_by * budget * length(move)
        move += rotated
        best = max(best, _value_at(model, move, budget / (budget + left)))
        del move  # before the next one comes
    return best


def dual_point_of_cone(model: ConvexModel, rotated: Array, remainder: Array) -> MatrixDual:
    """Return the dual point of the smallest raise, given as to :func:`dual_value_of_cone`."""
    budget, raise_by = model.eta + model.lam, min(_RAISES)
    move = consistent_move(model, remainder, raise_by)
    left = raise_by * budget * length(move)
    limit = budget / (budget + left)
    return MatrixDual(model.spectrum.vectors, symmetric_part(rotated + move), limit)


def consistent_move(model: ConvexModel, remainder: Array, raise_by: float) -> Array:
    """Return Δ with SΔ + ΔS + ε Δ = R, ε = raise_by · (η + λ)."""
    s = model.spectrum.values
    raised = s + raise_by * (model.eta + model.lam)
    if remainder.shape[0] * remainder.shape[1] <= STRIP:
        return remainder / (s[:, None] + raised[None, :])
    move = array_namespace(remainder).empty_like(remainder)
    for part in strips(*remainder.shape):  # without a matrix of denominators
        move[part, :] = remainder[part, :] / (s[part, None] + raised[None, :])
    return move


def _value_at(model: ConvexModel, rotated: Array, c: float) -> float:
    """Return the dual value c·a - c²·b at Ω for the best c up to the given one."""
    linear, quadratic = model.smooth_terms(rotated)
    a = 2 * (1 - linear)
    b = 1 - 2 * linear + quadratic
    if b > 0:
        c = min(c, a / (2 * b))
    c = max(c, 0.0)  # an early Ω may have a < 0: then 0 is the honest bound
    return c * a - c * c * b


def _longest_column(pull: Array, spare: Array, vectors: Array) -> float:
    """Largest norm of a column of λV (mixed) with ``spare`` added to its diagonal."""
    xp = array_namespace(pull)
    squared = xp.sum(pull**2, axis=0) + 2 * spare * xp.sum(pull * vectors.T, axis=0) + spare**2
    return math.sqrt(float(xp.max(squared)))


def _spare_diagonal(pull: Array, vectors: Array, lam: float) -> Array:
    """Return how much may be added to each diagonal entry of λV before its column is too long.

    Features that are zero in the solution have short columns; lengthening them along the diagonal
    costs nothing and lowers H exactly where borderline features would push it above η.
    """
    xp = array_namespace(pull)
    diagonal = xp.sum(pull * vectors.T, axis=0)
    room = positive_part(lam**2 - xp.sum(pull**2, axis=0))
    return positive_part(xp.sqrt(diagonal**2 + room) - diagonal)


def dual_value_samples_cone(value: float, matrix: Array, lam: float, eta: float) -> float:
    """Return a lower bound for the loss over samples on the cone.

    Parameters
    ----------
    value : float
        ⟨P, X⟩, where the rows of P have norm at most 1.
    matrix : array
        PᵀX - λV in any orthonormal basis, where the columns of V have norm at most 1.
    lam, eta : float
        Penalties, not both 0.
    """
    excess = max(0.0, largest_eigenvalue(symmetric_part(matrix)) - eta)
    return value * (eta + lam) / (eta + lam + excess)


def dual_value_samples_free(
    value: float,
    moment: Array,
    pull: Array,
    spectral: Array | None,
    lam: float,
    eta: float,
) -> float:
    """Return a lower bound for the loss over samples without the cone.

    Parameters
    ----------
    value : float
        ⟨P, X⟩, where the rows of P have norm at most 1.
    moment : array of shape (rank, n_features)
        BᵀPᵀX for an orthonormal basis B of range(Xᵀ), which holds the columns of Pᵀ.
    pull : array of shape (rank, n_features)
        λBᵀV: columns of norm at most λ.
    spectral : array of shape (rank, n_features) or None
        ηBᵀQ, of operator norm at most η; None where η = 0.
    lam, eta : float
        Penalties; lam positive.
    """
    xp = array_namespace(moment)
    if spectral is None:
        return value / max(1.0, float(xp.max(column_norms(moment))) / lam)
    missing = moment - pull - spectral
    # PᵀX = λV + ηQ must hold exactly: what is missing goes to V, to Q, or to both. Each choice is
    # valid; which is best depends on the ratio of the penalties.
    best = 0.0
    for share in (1.0, lam / (lam + eta), 0.0):
        columns = float(xp.max(column_norms(pull + share * missing))) / lam
        if value / max(1.0, columns) > best:  # the other norm is dear, and only makes it less
            operator = operator_norm(spectral + (1 - share) * missing) / eta
            best = max(best, value / max(1.0, columns, operator))
    return best


def dual_value_samples_shared(
    value: float, moment: Array, pull: Array, lam: float, eta: float
) -> tuple[float, Array]:
    """Return a lower bound like :func:`dual_value_samples_free`, and a better V for another one.

    With Q = (PᵀX - λV)/η, either PᵀX is divided by ‖Q‖, or what Q has too much goes to V, of which
    that may make some columns too long. These, cut, are what is returned: alternating between the
    two constraints is how a common point of convex sets is found.

    Parameters
    ----------
    value, moment, pull, lam, eta
        As there; eta is positive.
    """
    xp = array_namespace(moment)
    pull = pull * (lam / xp.clip(column_norms(pull), lam, None))
    rest = moment - pull
    tall = rest.shape[0] > rest.shape[1]
    rest = rest if tall else rest.T
    # Few are too long as a rule: their vectors cost a part of all, and all values come with them.
    pairs = eigenpairs(rest.T @ rest)
    squares = pairs.values
    # What rounding may add to any of the squares, as in the bound on nuclear norms.
    rounding = EPSILON * sum(rest.shape) * float(xp.sum(positive_part(squares)))
    largest = math.sqrt(max(0.0, float(squares[-1]) + rounding))
    best = value / max(1.0, largest / eta)
    count = int(xp.sum(xp.astype(squares > eta**2, xp.int64)))
    axes, long = pairs.leading(0, count), xp.flip(squares)[:count]
    excess = ((rest @ axes) * (1 - eta / xp.sqrt(long))) @ axes.T
    pull = pull + (excess if tall else excess.T)
    clipped = math.sqrt(eta**2 + rounding) / eta
    return max(best, value / max(clipped, float(xp.max(column_norms(pull))) / lam)), pull


def operator_norm(matrix: Array) -> float:
    """Return the largest singular value, to rounding: from the products of the shorter side.

    That costs a fourth of a singular value decomposition, and only small values lose digits.
    """
    tall = matrix.shape[0] > matrix.shape[1]
    largest = largest_eigenvalue(matrix.T @ matrix if tall else matrix @ matrix.T)
    return math.sqrt(max(largest, 0.0))


def relative_gap(objective: float, lower_bound: float) -> float:
    """Return (objective - lower bound) / objective, at least 0."""
    return max(0.0, objective - lower_bound) / objective if objective > 0 else 0.0
