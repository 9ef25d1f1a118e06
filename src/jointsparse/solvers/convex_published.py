r"""The published algorithm of source 004 (Algorithm 1): closed form, then PSD projection.

Each iteration minimises the reweighted objective without the constraint and projects the result,

.. math:: w_j = \frac{1}{2\sqrt{\|\omega_j\|^2+\varepsilon_1}},\qquad
          \Omega \leftarrow \Big[\operatorname{sym}\big((S-\tfrac\eta2 I)
          (S+\lambda\operatorname{diag}(w)+\varepsilon_2 I)^{-1}\big)\Big]_+ .

Projecting the unconstrained minimiser is not the constrained minimiser: the objective may rise
between iterations, the limit lies above the optimum (0.1 to 8 % on real data) and no column
becomes exactly zero. It is kept so that the published tables can be reproduced; the exact solver
is :mod:`jointsparse.solvers.convex_splitting`.
"""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import array_namespace

from jointsparse.linalg import Array, Spectrum, add_to_diagonal, symmetric_part
from jointsparse.penalties import L21
from jointsparse.projections import positive_eigenpairs
from jointsparse.solvers.convex_model import ConvexModel, factor_scores
from jointsparse.solvers.solution import Solution, Trace


@dataclass(frozen=True)
class PublishedConstants:
    """Numbers that the algorithm needs and the model does not have.

    Attributes
    ----------
    smoothing : float
        ε₁, added to squared column norms.
    ridge_features, ridge_samples : float
        ε₂ on the diagonal, in the form for fewer features than samples and in the other one.
    absolute : bool
        Whether ridges and ``tol`` are in the units of the data (as the authors have them) or
        relative: ridges to the mean eigenvalue of S, ``tol`` to the objective.
    tol : float or None
        Change of the objective at which to stop; None leaves it to the caller.
    max_iter : int or None
        Iteration limit; None leaves it to the caller.
    """

    smoothing: float
    ridge_features: float
    ridge_samples: float
    absolute: bool
    tol: float | None = None
    max_iter: int | None = None


CONSTANTS = {
    # What the authors' program uses. The two ridges differ, so that its two forms solve different
    # problems, and its stopping rule depends on the scale of the data.
    "authors": PublishedConstants(2.0**-52, 1e-3, 1e-2, True, tol=1e-5, max_iter=100),
    # The paper only asks for "small positive numbers": here the same on every scale.
    "paper": PublishedConstants(1e-12, 1e-10, 1e-10, False),
}


def solve_published(
    spectrum: Spectrum,
    lam: float,
    eta: float,
    *,
    n_samples: int,
    start: Array,
    constants: PublishedConstants = CONSTANTS["authors"],
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> Solution:
    """Run the published algorithm.

    Parameters
    ----------
    spectrum : Spectrum
        Eigendecomposition of the scatter matrix.
    lam, eta : float
        Penalties in the units of the scatter matrix; lam must be positive.
    n_samples : int
        Number of samples: the form for p ≥ n is used when there are not more samples than
        features.
    start : array of shape (n_features,)
        Diagonal of the first Ω (the authors draw it at random).
    constants : PublishedConstants
        Smoothing, ridges and, where they are set, the stopping rule.
    tol, max_iter : float, int
        Stopping rule where the constants leave it open.

    Returns
    -------
    Solution
        Without a certificate: ``gap`` is None.
    """
    xp = array_namespace(spectrum.values)
    p = spectrum.values.shape[0]
    model = ConvexModel.in_data_units(spectrum, lam, eta)
    wide = p >= n_samples
    ridge = constants.ridge_samples if wide else constants.ridge_features
    ridge = ridge / spectrum.trace if constants.absolute else ridge / p
    closed_form = _SampleForm(spectrum) if wide else _FeatureForm(spectrum)
    trace = Trace(
        tol if constants.tol is None else constants.tol,
        max_iter if constants.max_iter is None else min(max_iter, constants.max_iter),
        "absolute change of the objective" if constants.absolute else "relative change",
    )
    norms = start
    factor = spectrum.vectors[:, :0]
    objective, iteration = float("inf"), 0
    for iteration in range(1, trace.max_iter + 1):
        diagonal = model.lam * L21(1.0).weights(norms, constants.smoothing) + ridge
        values, vectors = positive_eigenpairs(closed_form(diagonal, model.eta))
        factor = xp.flip(vectors * xp.sqrt(values), axis=1)
        norms = factor_scores(factor)
        previous, objective = objective, model.objective_of_factor(factor) * spectrum.trace
        change = abs(objective - previous)
        measure = change if constants.absolute else change / abs(objective)
        if trace.record(iteration, objective, measure=measure):
            break
    return Solution(
        loadings=factor,
        objective=objective,
        gap=None,
        history=trace.history,
        gap_history=[],
        n_iter=iteration,
        converged=trace.converged,
        reason=trace.reason,
        diagnostics={"rank": float(factor.shape[1])},
    )


class _FeatureForm:
    """Equation (17): one p × p solve."""

    def __init__(self, spectrum: Spectrum) -> None:
        self.scatter = (spectrum.vectors * spectrum.values) @ spectrum.vectors.T

    def __call__(self, diagonal: Array, eta: float) -> Array:
        xp = array_namespace(diagonal)
        left = add_to_diagonal(xp.asarray(self.scatter, copy=True), diagonal)
        right = add_to_diagonal(xp.asarray(self.scatter, copy=True), -eta / 2)
        return symmetric_part(xp.linalg.solve(left, right))


class _SampleForm:
    """Equation (20), the same by Woodbury's identity: one n × n solve.

    Any F with FᵀF = S serves as the data matrix; the rows of diag(√s)Vᵀ with s > 0 are the
    shortest one.
    """

    def __init__(self, spectrum: Spectrum) -> None:
        s = spectrum.values
        positive = s > 1e-15 * s[-1]
        xp = array_namespace(s)
        self.data = (spectrum.vectors[:, positive] * xp.sqrt(s[positive])).T

    def __call__(self, diagonal: Array, eta: float) -> Array:
        xp = array_namespace(diagonal)
        inverse = 1 / diagonal
        weighted = self.data * inverse
        inner = add_to_diagonal(weighted @ self.data.T, 1.0)
        product = weighted.T @ xp.linalg.solve(inner, self.data)
        half = (eta / 2) * inverse
        return add_to_diagonal(symmetric_part(product * (1 + half)), -half)
