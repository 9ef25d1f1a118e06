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
candidate, moves the failing features to R, and repeats until none fails. (A feature that fails for
K hardly ever passes for a smaller K: moving the worse half of them only, in three times as many
passes, ended at the same set in each of 48 problems on four datasets.)

Everything is a quadratic form f_jᵀNf_j with n × n matrices N, in float64. Where most features are
short, few of them can fail: with ν₁ ≥ ν₂ ≥ … the eigenvalues of N and q_i its eigenvectors,

.. math:: f_j^\top N f_j \le \sum_{i\le r}(\nu_i-\nu_{r+1})(q_i^\top f_j)^2 + \nu_{r+1}\|f_j\|^2 ,

and only features with ν₁‖f_j‖² ≥ λ² have to be looked at, in r directions (ν₁ ≤ ‖N‖ serves as
well). Every number tested is at least the true one, so the proof stands.
"""

from __future__ import annotations

import math

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, double, eigh, positive_part
from jointsparse.numerics.projections import positive_eigenpairs
from jointsparse.operators.dense import operator_of
from jointsparse.operators.samples import Samples
from jointsparse.solvers.convex.model import capped_penalty

LARGEST_NUMBER_OF_PASSES = 100
# Rounding of a tested value, in units of tr S · ‖f_j‖²: far above what float64 can accumulate.
ROUNDING = 1e-12
LEFT_OVER = 0.01  # share of λ² that directions left out may add to a test


def static_screen(
    data: Array | Samples, lam: float, eta: float, *, candidates: Array | None = None
) -> Array:
    """Return which features are zero in every optimum, judged by the data alone.

    Parameters
    ----------
    data : array of shape (n, n_features) or Samples
        Any F with FᵀF = S.
    lam, eta : float
        Penalties in the units of S.
    candidates : array of bool, shape (n_features,), or None
        Where to look: those found for a larger λ, which saves most of the passes. None: all.
    """
    wide = operator_of(data)
    xp = array_namespace(wide.empty)
    if candidates is None:
        candidates = xp.ones(wide.shape[1], dtype=xp.bool, device=wide.empty.device)
    rest = wide.columns(~candidates).gram()
    return _self_consistent(wide, candidates, wide.gram() - rest, 16 * rest, 0.0, lam, eta)


def gap_safe_screen(
    data: Array | Samples, factor: Array, gap_abs: float, lam: float, eta: float
) -> Array:
    """Return which features are zero in every optimum, judged by a near-optimal point.

    Parameters
    ----------
    data : array of shape (n, n_features) or Samples
        Any F with FᵀF = S.
    factor : array of shape (n_features, rank)
        U with Ω̂ = UUᵀ. Only its zero rows can be proved zero.
    gap_abs : float
        Proven bound on how far the objective of Ω̂ is above the optimum.
    lam, eta : float
        Penalties in the units of S.
    """
    wide = operator_of(data)
    xp = array_namespace(wide.empty)
    support = xp.any(factor != 0, axis=1)
    rest, rows = wide.columns(support), double(factor[support, :])
    image, gram = rest.times(rows), rest.gram()
    # [(2I - Ω̂)S]_Rj = (2F_R - F_R Ω̂)ᵀ f_j, so its squared length is f_jᵀ N f_j with
    # N = 4 F_R F_Rᵀ - 4 YYᵀ + Y(UᵀU)Yᵀ, Y = FU.
    residual = 4 * (gram - image @ image.T) + image @ (rows.T @ rows) @ image.T
    slack = 2 * math.sqrt(max(gap_abs, 0.0))
    inner = wide.gram() - gram
    return _self_consistent(wide, ~support, inner, 4 * residual, slack, lam, eta)


def _self_consistent(
    data: Samples,
    candidates: Array,
    inner: Array,
    cross: Array,
    slack: float,
    lam: float,
    eta: float,
) -> Array:
    """Return a set K inside the candidates, all of which pass the test for this K.

    ``inner`` is F_K F_Kᵀ for K = all candidates and ``cross`` is 4N for the R that belongs to them;
    every feature f that moves from K to R, where Ω̂ is zero, adds 16 ffᵀ.
    """
    xp = array_namespace(data.empty)
    dropped = xp.asarray(candidates, copy=True)
    squares = data.squared_lengths()
    scale = ROUNDING * float(xp.linalg.trace(inner) + xp.linalg.trace(cross) / 16)
    for _ in range(LARGEST_NUMBER_OF_PASSES):
        suspects, tested = _tested(
            data, dropped, squares, cross, excess_form(inner, eta), slack, scale, lam
        )
        failing = tested >= lam**2
        if not bool(xp.any(failing)):
            return dropped
        moved = xp.zeros_like(dropped)
        moved[suspects[failing]] = True
        change = data.columns(moved).gram()
        inner, cross = inner - change, cross + 16 * change
        dropped = dropped & ~moved
    return xp.zeros_like(dropped)  # a set that was not verified proves nothing


def excess_form(gram: Array, eta: float) -> Array:
    """Return N with f_jᵀNf_j = ‖[(2S_KK - ηI)₊]_j‖², given the Gram matrix F_K F_Kᵀ.

    S_KK = F_KᵀF_K has eigenvectors F_Kᵀq/√s for the eigenpairs (s, q) of the Gram matrix.
    """
    xp = array_namespace(gram)
    values, vectors = eigh(gram)
    excess = positive_part(2 * values - eta)
    weights = excess**2 / xp.where(excess > 0, values, xp.ones_like(values))
    return (vectors * weights) @ vectors.T


def quadratic_forms(data: Array | Samples, matrix: Array) -> Array:
    """Return f_jᵀ N f_j for every feature, N positive semidefinite."""
    xp = array_namespace(matrix)
    values, vectors = eigh(matrix)
    there = values > ROUNDING * values[-1]  # often few
    return operator_of(data).squared_lengths(vectors[:, there] * xp.sqrt(values[there]))


def _leading_root(form: Array, level: float) -> tuple[float, Array]:
    """Return ν and V with N ⪯ VVᵀ + νI, where ν is at most ``level``."""
    xp = array_namespace(form)
    values, vectors = eigh(form)
    rest = int(xp.sum(values < level))
    tail = max(float(values[rest - 1]), 0.0) if rest > 0 else 0.0
    return tail, vectors[:, rest:] * xp.sqrt(positive_part(values[rest:] - tail))


def _tested(
    data: Samples,
    dropped: Array,
    squares: Array,
    cross: Array,
    excess: Array,
    slack: float,
    scale: float,
    lam: float,
) -> tuple[Array, Array]:
    """Return the features of K that may fail the test, and its left-hand side for each of them.

    With √g > 0 the two parts enter differently, so each has its own bound.
    """
    xp = array_namespace(data.empty)
    forms = [cross + excess] if slack == 0 else [cross, excess]
    tops = [float(xp.linalg.matrix_norm(form)) + scale for form in forms]  # at least ν₁
    most = tops[0] if slack == 0 else (math.sqrt(tops[0]) + slack) ** 2 + tops[1]
    suspects = xp.nonzero(dropped & (squares * most >= lam**2))[0]
    count = int(suspects.shape[0])
    if count == 0:
        return suspects, squares[:0]
    mask = xp.zeros_like(dropped)
    mask[suspects] = True
    part = data.columns(mask) if 2 * count < data.shape[1] else data
    lengths2 = squares[suspects]
    left_over = LEFT_OVER * lam**2 / float(xp.max(lengths2))
    bounds = []
    for form in forms:
        tail, root = _leading_root(form, left_over)
        found = part.squared_lengths(root)
        found = found[suspects] if part is data else found
        bounds.append(found + (tail + scale) * lengths2)
    if slack == 0:
        return suspects, bounds[0]
    return suspects, (xp.sqrt(bounds[0]) + slack * xp.sqrt(lengths2)) ** 2 + bounds[1]


def static_screen_scatter(scatter: Array, lam: float, eta: float) -> Array:
    """Return which features are zero in every optimum, judged by the scatter matrix alone.

    The test of the module docstring with Ω̂ = 0 reads 16‖S_Rj‖² + ‖[(2S_KK - ηI)₊]_j‖² < λ². The
    search starts from features whose column of S is not longer than λ: others hardly ever pass, and
    leaving them out keeps the eigendecompositions small.
    """
    xp = array_namespace(scatter)
    total = float(xp.linalg.trace(scatter))
    lam, eta = capped_penalty(lam, total), capped_penalty(eta, total)
    scatter = scatter / total  # squares must not overflow
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
