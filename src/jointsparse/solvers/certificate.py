r"""Lower bounds on the optimum: what turns a solution into a certified one.

The dual of the model (see :mod:`jointsparse.solvers.convex_model`) is

.. math:: \max_{P,\,V}\ \langle P, X\rangle - \tfrac14\|P\|_F^2 \quad\text{s.t.}\quad
          \operatorname{sym}(P^\top X) - \lambda\operatorname{sym}(V) \preceq \eta I,\ \|v_j\|\le 1.

*Any* symmetric Ω and *any* V with columns of norm at most 1 give a feasible point after shrinking.
Put H = 2S - SΩ - ΩS - λ sym(V) and δ = max(0, λ_max(H) - η). Then P = 2c(X - XΩ) and
V' = c(V + δ/(η+λ) I) are feasible for every c between 0 and (η+λ)/(η+λ+δ):

* the columns of V' have norm at most c(1 + δ/(η+λ)) ≤ 1,
* c(η + δ) ≤ η + cλδ/(η+λ), which is the matrix inequality,

and their dual value is c·a - c²·b with a = 2(tr S - ⟨S,Ω⟩) and b = ‖X - XΩ‖². The best c is
a/(2b), clipped to that interval. Nothing is assumed about how good Ω and V are.

For the losses that sum over samples (:mod:`jointsparse.solvers.convex_samples`) the dual is

.. math:: \max_P\ \langle P, X\rangle \quad\text{s.t.}\quad \|p_i\|\le 1,\quad
          P^\top X = \lambda V + \eta Q,\ \|v_j\|\le 1,\ \|Q\|_{op}\le 1

(on the cone: sym(PᵀX) - λ sym(V) ⪯ ηI; with a free mean also Pᵀ1 = 0), and any P with short enough
rows becomes feasible by shrinking it.
"""

from __future__ import annotations

from array_api_compat import array_namespace

from jointsparse.linalg import (
    Array,
    add_to_diagonal,
    column_norms,
    largest_eigenvalue,
    symmetric_part,
)
from jointsparse.solvers.convex_model import ConvexModel


def dual_value(model: ConvexModel, rotated: Array, multiplier: Array) -> float:
    """Return a proven lower bound on the optimal objective.

    Parameters
    ----------
    model : ConvexModel
        The problem, on a scatter matrix of trace 1.
    rotated : array of shape (n_features, n_features)
        Any symmetric Ω in the eigenbasis of S.
    multiplier : array of shape (n_features, n_features)
        λ sym(V) in the eigenbasis of S, where V has columns of norm at most 1.
    """
    s = model.spectrum.values
    half = s[:, None] * rotated
    dual_matrix = add_to_diagonal(-half - half.T - multiplier, 2 * s)
    excess = max(0.0, largest_eigenvalue(dual_matrix) - model.eta)
    linear, quadratic = model.smooth_terms(rotated)
    a = 2 * (1 - linear)
    b = 1 - 2 * linear + quadratic
    budget = model.eta + model.lam
    c = budget / (budget + excess)
    if b > 0:
        c = min(c, a / (2 * b))
    c = max(c, 0.0)  # an early Ω may have a < 0: then 0 is the honest bound
    return c * a - c * c * b


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
    vectors: Array,
    lam: float,
    eta: float,
) -> float:
    """Return a lower bound for the loss over samples without the cone.

    Parameters
    ----------
    value : float
        ⟨P, X⟩, where the rows of P have norm at most 1.
    moment : array
        PᵀX in the basis ``vectors``.
    pull : array
        λV, mixed: rows in the basis, columns of norm at most λ belong to features.
    spectral : array or None
        ηQ in the basis, of operator norm at most η; None where η = 0.
    vectors : array
        Orthonormal basis.
    lam, eta : float
        Penalties; lam positive.
    """
    xp = array_namespace(moment)
    if spectral is None:
        return value / max(1.0, float(xp.max(column_norms(moment @ vectors.T))) / lam)
    missing = moment - pull @ vectors - spectral
    # PᵀX = λV + ηQ must hold exactly: what is missing goes to V, to Q, or to both. Each choice is
    # valid; which is best depends on the ratio of the penalties.
    best = 0.0
    for share in (0.0, 1.0, lam / (lam + eta)):
        columns = float(xp.max(column_norms(pull + share * (missing @ vectors.T)))) / lam
        operator = float(xp.linalg.matrix_norm(spectral + (1 - share) * missing, ord=2)) / eta
        best = max(best, value / max(1.0, columns, operator))
    return best


def relative_gap(objective: float, lower_bound: float) -> float:
    """Return (objective - lower bound) / objective, at least 0."""
    return max(0.0, objective - lower_bound) / objective if objective > 0 else 0.0
