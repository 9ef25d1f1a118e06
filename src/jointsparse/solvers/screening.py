r"""Safe screening: features proved to be zero in every optimum of the convex model.

Let K be a set of features, R the others, S = FᵀF with columns f_j of F. Suppose every j in K
satisfies, *for this K* (self-consistency),

.. math:: 4\,\big(\|[(2I-\hat\Omega)S]_{Rj}\| + \sqrt{g}\,\|f_j\|\big)^2
          + \|[(2S_{KK}-\eta I)_+]_j\|^2 < \lambda^2 ,

where Ω̂ is a feasible point supported on R whose objective is at most g above the optimum. Then
every optimum is zero on K.

*Why.* Let Ω' solve the model on the features R alone, with dual point (P, V). Extend it by
V_RK = (2/λ)[(2I-Ω')S]_RK, V_KR = 0, V_KK = (2S_KK - ηI)₊/λ and p_j = 2f_j on K. The slack matrix
of the dual becomes block diagonal: its block on R is the one that was positive semidefinite
already, its block on K is ηI - 2S_KK + (2S_KK - ηI)₊ ⪰ 0. The extended point is therefore feasible
as soon as ‖v_j‖ ≤ 1 on K; it proves that Ω', with zeros added, is optimal for all features; and
where ‖v_j‖ < 1, complementary slackness makes column j zero in every optimum. Ω' is not known, but

* 0 ⪯ Ω' ⪯ I, so ‖[(2I-Ω')S]_Rj‖ ≤ 2‖S_Rj‖: the test with Ω̂ = 0 and g = 0, needing no solution;
* ‖F(Ω̂-Ω')‖ ≤ √g by strong convexity of the loss: the test as written.

The argument uses all of K at once, hence the self-consistency: features that pass for one K may
fail for the smaller K that is left when others have failed. The search below starts with every
candidate, moves the worse half of the failing features to R, and repeats until none fails.

Everything is a quadratic form f_jᵀNf_j with n × n matrices N, in float64.
"""

from __future__ import annotations

import math

from jointsparse.linalg import (
    Array,
    add_to_diagonal,
    array_namespace,
    blocks,
    double,
    long_product,
    positive_part,
)
from jointsparse.projections import positive_eigenpairs

LARGEST_NUMBER_OF_PASSES = 100
# Rounding of a tested value, in units of tr S · ‖f_j‖²: far above what float64 can accumulate.
ROUNDING = 1e-12


def static_screen(data: Array, lam: float, eta: float, *, candidates: Array | None = None) -> Array:
    """Return which features are zero in every optimum, judged by the data alone.

    Parameters
    ----------
    data : array of shape (n, n_features)
        Any F with FᵀF = S.
    lam, eta : float
        Penalties in the units of S.
    candidates : array of bool, shape (n_features,), or None
        Where to look: those found for a larger λ, which saves most of the passes. None: all.
    """
    xp = array_namespace(data)
    if candidates is None:
        candidates = xp.ones(data.shape[1], dtype=xp.bool, device=data.device)
    rest = data[:, ~candidates]
    return _self_consistent(data, candidates, 16 * long_product(rest, rest.T), 0.0, lam, eta)


def gap_safe_screen(data: Array, factor: Array, gap_abs: float, lam: float, eta: float) -> Array:
    """Return which features are zero in every optimum, judged by a near-optimal point.

    Parameters
    ----------
    data : array of shape (n, n_features)
        Any F with FᵀF = S.
    factor : array of shape (n_features, rank)
        U with Ω̂ = UUᵀ. Only its zero rows can be proved zero.
    gap_abs : float
        Proven bound on how far the objective of Ω̂ is above the optimum.
    lam, eta : float
        Penalties in the units of S.
    """
    xp = array_namespace(data)
    support = xp.any(factor != 0, axis=1)
    rest, rows = data[:, support], factor[support, :]
    image = long_product(rest, rows)
    overlap = long_product(rows.T, rows)
    # [(2I - Ω̂)S]_Rj = (2F_R - F_R Ω̂)ᵀ f_j, so its squared length is f_jᵀ N f_j with
    # N = 4 F_R F_Rᵀ - 4 YYᵀ + Y(UᵀU)Yᵀ, Y = FU.
    residual = 4 * (long_product(rest, rest.T) - image @ image.T) + image @ overlap @ image.T
    slack = 2 * math.sqrt(max(gap_abs, 0.0))
    return _self_consistent(data, ~support, 4 * residual, slack, lam, eta)


def _self_consistent(
    data: Array, candidates: Array, cross: Array, slack: float, lam: float, eta: float
) -> Array:
    """Return a set K inside the candidates, all of which pass the test for this K.

    ``cross`` is 4N for the R that belongs to all candidates; every feature f that moves from K
    to R, where Ω̂ is zero, adds 16 ffᵀ.
    """
    xp = array_namespace(data)
    dropped = xp.asarray(candidates, copy=True)
    columns = data[:, dropped]
    inner = long_product(columns, columns.T)
    scale = ROUNDING * float(xp.linalg.trace(inner) + xp.linalg.trace(cross) / 16)
    for _ in range(LARGEST_NUMBER_OF_PASSES):
        tested = _tested(columns, cross, excess_form(inner, eta), slack, scale)
        failing = int(xp.sum(tested >= lam**2))
        if failing == 0:
            return dropped
        worst = xp.argsort(tested, descending=True)[: (failing + 1) // 2]
        moved = columns[:, worst]
        change = long_product(moved, moved.T)
        inner, cross = inner - change, cross + 16 * change
        dropped[xp.nonzero(dropped)[0][worst]] = False
        columns = data[:, dropped]
    return xp.zeros_like(dropped)  # a set that was not verified proves nothing


def excess_form(gram: Array, eta: float) -> Array:
    """Return N with f_jᵀNf_j = ‖[(2S_KK - ηI)₊]_j‖², given the Gram matrix F_K F_Kᵀ.

    S_KK = F_KᵀF_K has eigenvectors F_Kᵀq/√s for the eigenpairs (s, q) of the Gram matrix.
    """
    xp = array_namespace(gram)
    values, vectors = xp.linalg.eigh(gram)
    excess = positive_part(2 * values - eta)
    weights = excess**2 / xp.where(excess > 0, values, xp.ones_like(values))
    return (vectors * weights) @ vectors.T


def quadratic_forms(columns: Array, matrix: Array) -> Array:
    """Return f_jᵀ N f_j for every column."""
    xp = array_namespace(columns)
    result = xp.empty(columns.shape[1], dtype=xp.float64, device=columns.device)
    for part in blocks(columns.shape[1]):
        block = double(columns[:, part])
        result[part] = xp.sum(block * (matrix @ block), axis=0)
    return positive_part(result)


def _tested(columns: Array, cross: Array, excess: Array, slack: float, scale: float) -> Array:
    """Left-hand side of the test for every feature of K, plus what rounding may have taken."""
    xp = array_namespace(columns)
    if slack == 0:
        return quadratic_forms(columns, add_to_diagonal(cross + excess, scale))
    identity = xp.eye(cross.shape[0], dtype=xp.float64, device=cross.device)
    lengths = xp.sqrt(quadratic_forms(columns, identity))
    pull = xp.sqrt(quadratic_forms(columns, add_to_diagonal(1.0 * cross, scale)))
    return (pull + slack * lengths) ** 2 + quadratic_forms(columns, excess)


def static_screen_scatter(scatter: Array, lam: float, eta: float) -> Array:
    """Return which features are zero in every optimum, judged by the scatter matrix alone.

    The test of the module docstring with Ω̂ = 0 reads 16‖S_Rj‖² + ‖[(2S_KK - ηI)₊]_j‖² < λ². The
    search starts from features whose column of S is not longer than λ: others hardly ever pass, and
    leaving them out keeps the eigendecompositions small.
    """
    xp = array_namespace(scatter)
    total = float(xp.linalg.trace(scatter))
    scatter, lam, eta = scatter / total, lam / total, eta / total  # squares must not overflow
    squares = scatter**2
    length2 = xp.sum(squares, axis=0)
    kept_out = xp.nonzero(length2 < lam**2)[0]
    scale = ROUNDING * float(xp.max(length2))
    for _ in range(LARGEST_NUMBER_OF_PASSES):
        if kept_out.shape[0] == 0:
            break
        inside = xp.sum(squares[kept_out, :][:, kept_out], axis=0)
        outside = positive_part(length2[kept_out] - inside)
        if bool(xp.all(16 * outside + 4 * inside + scale < lam**2)):
            break  # (2S_KK - ηI)₊ is smaller than 2S_KK: no eigendecomposition needed
        tested = 16 * outside + scale
        if 4 * float(xp.sum(inside)) > eta**2:  # otherwise 2S_KK is below ηI by its norm alone
            excess, vectors = positive_eigenpairs(2 * scatter[kept_out, :][:, kept_out], eta)
            tested = tested + (vectors**2) @ (excess**2)
        failing = int(xp.sum(tested >= lam**2))
        if failing == 0:
            break
        order = xp.argsort(tested)
        kept_out = kept_out[xp.sort(order[: kept_out.shape[0] - (failing + 1) // 2])]
    else:
        kept_out = kept_out[:0]  # a set that was not verified proves nothing
    screened = xp.zeros(scatter.shape[0], dtype=xp.bool, device=scatter.device)
    screened[kept_out] = True
    return screened
