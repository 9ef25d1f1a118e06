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
"""

from __future__ import annotations

from jointsparse.linalg import Array, add_to_diagonal, largest_eigenvalue
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


def relative_gap(objective: float, lower_bound: float) -> float:
    """Return (objective - lower bound) / objective, at least 0."""
    return max(0.0, objective - lower_bound) / objective if objective > 0 else 0.0
