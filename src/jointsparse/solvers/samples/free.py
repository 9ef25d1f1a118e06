r"""CSPCA and AW-SPCA without the cone, in the range of the data: no p × p matrix for p > n.

.. math:: \min_{\Omega,\,v}\ \sum_i \|x_i - \Omega x_i - v\|_2 + \lambda\|\Omega\|_{2,1}
          + \eta\,\|\Omega\|_*

Let B (p × r) be an orthonormal basis of range(Xᵀ). Projecting the columns of Ω and v onto it
shortens residuals, columns and singular values, so Ω = B Ω̂ with an r × p unknown Ω̂ is no
restriction. All norms are those of Ω̂. In the notation of
:mod:`~jointsparse.solvers.convex.loop` the blocks are the residuals E (n × r), Ω̂ for the nuclear
norm where η > 0, and Ω̂ for the columns. With S = B diag(s) Bᵀ and G the sum of what the blocks
of Ω̂ ask for, the common variable is

.. math:: \hat\Omega = \frac{G}{k} + \Big(K - \frac{GB}{k}\Big)B^\top,\qquad
          K = \big(\rho_E (X-E)^\top XB + \rho\,GB\big)\operatorname{diag}(\rho_E s + k\rho)^{-1},

k being the number of these blocks: it is the solution off range(X), corrected on it.

That is the second way. The first reweights the samples
(:mod:`~jointsparse.solvers.samples.weighted_split`), in features as they are unless p > n: half of
the iterations or fewer on eight tables with five pairs of penalties. Weights of samples that are
reproduced exactly grow without end; where they lead nowhere, residuals become a block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jointsparse.arrays import Array
from jointsparse.device import is_device_array
from jointsparse.eigen.shrink import Shrink
from jointsparse.linalg import (
    EPSILON,
    add_to_diagonal,
    array_namespace,
    column_norms,
    positive_part,
    solve_positive,
    solved_by_cholesky,
    unit_columns,
)
from jointsparse.penalties import L21
from jointsparse.solvers.convex.acceleration import Arrays
from jointsparse.solvers.convex.certificate import (
    dual_value_samples_free,
    dual_value_samples_shared,
    relative_gap,
)
from jointsparse.solvers.convex.loop import Copies, SplitProblem, run_splitting
from jointsparse.solvers.convex.model import Reconstruction, capped_penalty
from jointsparse.solvers.samples.geometric_median import row_norms
from jointsparse.solvers.samples.model import SampleModel, multipliers, step_sizes
from jointsparse.solvers.samples.weighted_split import WeightedBlocks
from jointsparse.solvers.solution import Solution, Trace, continued

SLACK = 0.05  # of the tolerance: by how much an objective may be overestimated to save its SVD
RANK = 1e-10  # of the largest singular value: smaller ones do not count
# Iterations with reweighted samples in which the gap has to fall by a third.
PATIENCE = 30
NEGLIGIBLE = 1e-14  # of the largest singular value: what rounding leaves of nothing


class FreeModel(SampleModel):
    """The model in the range of the data; Ω̂ is given by its rows in the basis, for all features."""

    def loss_and_columns(self, matrix: Array) -> float:
        """Return the objective at Ω̂ without the nuclear norm."""
        xp = array_namespace(matrix)
        residuals, _ = self.residuals(self.inner(matrix))
        return float(xp.sum(row_norms(residuals))) + L21(self.lam).value(matrix)

    def objective(self, matrix: Array, *, slack: float = 0.0) -> float:
        """Return the objective at Ω̂; or more than it, by at most that share of it.

        Columns of zeros, which are most of them as a rule, have no part in the nuclear norm.
        """
        xp = array_namespace(matrix)
        value = self.loss_and_columns(matrix)
        if self.eta == 0:
            return value
        matrix = matrix[:, xp.any(matrix != 0, axis=0)]
        if slack > 0:
            norm, most_above = nuclear_norm_bound(matrix)
            if self.eta * most_above <= slack * value:
                return value + self.eta * norm
        return value + self.eta * float(xp.sum(xp.linalg.svdvals(matrix)))


@dataclass(frozen=True)
class FreeCandidate:
    """A feasible Ω̂ = RLᵀ.

    Attributes
    ----------
    objective : float
        The objective, or a little more.
    loadings : array of shape (n_features, k)
        L.
    turn : array of shape (r, k) or None
        R, with orthonormal columns; None is the identity.
    """

    objective: float
    loadings: Array
    turn: Array = None

    @property
    def matrix(self) -> Array:
        """Ω̂."""
        return self.loadings.T if self.turn is None else self.turn @ self.loadings.T


class FreeBlocks:
    """Block 0: residuals. Then the nuclear norm, where there is one. Last: the columns."""

    def __init__(self, model: FreeModel, slack: float = 0.0) -> None:
        self.model, self.slack = model, slack
        self.shrink = Shrink(int(model.basis.shape[1]))
        self.spectral = model.eta > 0
        self.groups: tuple[tuple[int, ...], ...] = ((0,), (1, 2)) if self.spectral else ((0,), (1,))

    def start(self) -> tuple[Arrays, tuple[float, ...]]:
        """Start at the optimum of the squared loss with one weight for each sample."""
        m = self.model
        inner, residuals, forces, steps = m.first()
        matrix = inner @ m.basis.T
        pull = m.lam * unit_columns(matrix)
        targets: Arrays = (residuals + forces / steps[0],)
        if self.spectral:
            rest = (forces.T @ m.data) @ m.basis.T - pull
            targets += (matrix + rest / steps[1],)
        return (*targets, matrix + pull / steps[1]), steps

    def split(
        self, targets: Arrays, steps: tuple[float, ...], rescale: tuple[float, ...]
    ) -> Copies:
        """Proximal step of every block, then Ω̂ and v from all of them in closed form."""
        m, (rho_e, rho) = self.model, steps
        values: Arrays = (L21(1.0).prox(targets[0].T, 1 / rho_e).T,)
        if self.spectral:
            left, right = self.shrink(targets[1].T, m.eta / rho)
            values += (right @ left.T,)
        values += (L21(m.lam).prox(targets[-1], 1 / rho),)
        duals = multipliers(targets, values, rescale)
        rho_e, rho = rho_e * rescale[0], rho * rescale[1]

        xp = array_namespace(m.data)
        wanted = m.data - (values[0] - duals[0])
        offset = xp.mean(wanted, axis=0) if m.free_mean else 0.0
        asked = values[-1] - duals[-1]
        if self.spectral:
            asked = asked + values[1] - duals[1]
        blocks = len(targets) - 1
        inside = asked @ m.basis
        seen = rho_e * ((wanted - offset).T @ m.data) + rho * inside
        seen = seen / (rho_e * m.values + blocks * rho)
        matrix = asked / blocks + (seen - inside / blocks) @ m.basis.T
        residuals = m.data - m.data @ seen.T - offset
        agreed = (residuals, *(matrix,) * blocks)
        return Copies(agreed, values, duals, (rho_e, rho))

    def candidate(self, copies: Copies) -> FreeCandidate:
        """Take the columns' copy: its zeros are exact."""
        matrix = copies.values[-1]
        return FreeCandidate(self.model.objective(matrix, slack=self.slack), matrix.T)

    def lower_bound(self, copies: Copies, *, thorough: bool) -> float:
        """Certify with the multipliers of all blocks; there is only one way."""
        if thorough:
            return -math.inf
        m, (rho_e, rho) = self.model, copies.steps
        value, moment = m.dual(rho_e * copies.duals[0])
        spectral = rho * copies.duals[1] if self.spectral else None
        return dual_value_samples_free(
            value, moment @ m.basis.T, rho * copies.duals[-1], spectral, m.lam, m.eta
        )


class WeightedFree(WeightedBlocks):
    """Blocks with reweighted samples."""

    def __init__(self, model: FreeModel, tol: float) -> None:
        super().__init__(model, tol)
        self.free = model
        self.shrink = Shrink(int(model.data.shape[1]))
        self.factors: tuple[Array, Array] = (None, None)
        self.parts: tuple[float, Array, Array] = (0.0, None, None)  # of the last certificate

    def _spectral_step(self, target: Array, threshold: float) -> Array:
        self.factors = self.shrink(target.T, threshold)
        loadings, turn = self.factors
        return turn @ loadings.T

    def _solved(self, scatter: Array, asked: Array, rho: float, copies: int) -> tuple[Array, Array]:
        m = self.model
        inside = m.inner(asked)
        right = scatter + rho * inside.T
        shifted = add_to_diagonal(scatter, copies * rho)
        found = None if is_device_array(right) else solved_by_cholesky(shifted, right)
        seen = (solve_positive(shifted, right) if found is None else found).T
        if m.basis is None:
            return seen, seen
        return seen, asked / copies + m.outer(seen - inside / copies)

    def candidate(self, copies: Copies) -> FreeCandidate:
        """Take the copy of low rank, without the columns that are zero in the other.

        Its nuclear norm is at most the sum of the lengths of its factor's columns.
        """
        m, columns = self.free, copies.values[-1]
        xp = array_namespace(columns)
        if not self.spectral:
            return FreeCandidate(m.loss_and_columns(columns), columns.T)
        loadings, turn = self.factors
        kept = xp.any(columns != 0, axis=0)
        loadings = xp.where(kept[:, None], loadings, xp.zeros_like(loadings))
        norm = float(xp.sum(column_norms(loadings)))
        value = m.loss_and_columns(turn @ loadings.T) + m.eta * norm
        return FreeCandidate(value, loadings, turn)

    def lower_bound(self, copies: Copies, *, thorough: bool) -> float:
        """Certify with the forces of the residuals and the multiplier of the columns.

        A thorough one goes on from the last, of the same iterate.
        """
        m = self.model
        if not self.spectral:
            if thorough:
                return -math.inf
            value, moment = self.dual()
            pull = copies.duals[-1]
            return dual_value_samples_free(value, m.outer(moment), pull, None, m.lam, 0.0)
        if not thorough:
            value, moment = self.dual()
            self.parts = value, m.outer(moment), copies.steps[0] * copies.duals[-1]
        value, moment, pull = self.parts
        bound, pull = dual_value_samples_shared(value, moment, pull, m.lam, m.eta)
        self.parts = value, moment, pull
        return bound


def solve_samples_free(
    data: Array,
    lam: float,
    eta: float,
    *,
    free_mean: bool = False,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> Solution[Reconstruction]:
    """Solve CSPCA or AW-SPCA without the cone to a certified relative gap.

    Parameters
    ----------
    data : array of shape (n_samples, n_features)
        X, centred, in double precision.
    lam, eta : float
        Penalties in the units of the data; lam positive, eta at least 0.
    free_mean : bool
        Whether v is free.
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Iteration limit.

    Returns
    -------
    Solution
        ``loadings`` is L with Ω = BLᵀ and exactly zero rows for the features left out; ``state`` is
        a :class:`~jointsparse.solvers.convex.model.Reconstruction` with B and v.
    """
    scale = float(array_namespace(data).sum(row_norms(data)))
    limits = {"scale": scale, "tol": tol}
    wide = data.shape[1] > data.shape[0]
    model = free_model(data, lam, eta, scale, free_mean=free_mean, turned=wide)
    solution, left = None, max_iter
    if eta > 0 or not wide:  # without η, 100 × 800 numbers take half as long again reweighted
        blocks = WeightedFree(model, tol)
        solution = _solved(model, blocks, max_iter=max_iter, patience=PATIENCE, **limits)
        left -= solution.n_iter
        if solution.converged or left == 0:
            return solution
    if not wide:
        model = free_model(data, lam, eta, scale, free_mean=free_mean, turned=True)
    split = _solved(model, FreeBlocks(model, SLACK * tol), max_iter=left, patience=None, **limits)
    return split if solution is None else continued(solution, split, tol)


def _solved(
    model: FreeModel,
    blocks: SplitProblem,
    *,
    scale: float,
    tol: float,
    max_iter: int,
    patience: int | None,
) -> Solution[Reconstruction]:
    """Run the loop on some blocks."""
    xp = array_namespace(model.data)
    basis = model.basis
    if basis is None:
        basis = xp.eye(model.data.shape[1], dtype=model.data.dtype, device=model.data.device)
    nothing = xp.zeros_like(basis)
    empty = FreeCandidate(model.loss_and_columns(nothing.T), nothing)
    trace = Trace(tol, max_iter, "duality gap", known=empty.objective * scale)
    result = run_splitting(blocks, empty, trace, scale=scale, patience=patience)
    loadings, matrix = result.best.loadings, result.best.matrix
    lengths = xp.linalg.svdvals(loadings[xp.any(loadings != 0, axis=1), :])
    objective = model.loss_and_columns(matrix) + model.eta * float(xp.sum(lengths))
    gap = relative_gap(objective, result.lower_bound)
    _, offset = model.residuals(model.inner(matrix))
    turned = basis if result.best.turn is None else basis @ result.best.turn
    state = Reconstruction(turned, (basis @ offset) * scale)
    rank = int(xp.sum(lengths > RANK * lengths[0])) if lengths.shape[0] else 0
    diagnostics = {"rank": float(rank), **step_sizes(result.copies)}
    return trace.solution(loadings, objective * scale, gap, diagnostics, state)


def nuclear_norm_bound(matrix: Array) -> tuple[float, float]:
    """Return an upper bound on the sum of the singular values, and how far above it may be.

    The squares of the singular values are the eigenvalues of MMᵀ, each computed to a rounding error
    of ``δ`` at most; so √(value + δ) is no less than the singular value.
    """
    xp = array_namespace(matrix)
    rows, columns = matrix.shape
    squares = xp.linalg.eigvalsh(matrix.T @ matrix if rows > columns else matrix @ matrix.T)
    error = EPSILON * (rows + columns) * float(xp.sum(positive_part(squares)))
    above = float(xp.sum(xp.sqrt(positive_part(squares) + error)))
    return above, above - float(xp.sum(xp.sqrt(positive_part(squares - error))))


def free_model(
    data: Array, lam: float, eta: float, scale: float, *, free_mean: bool, turned: bool
) -> FreeModel:
    """Build the model from centred data, in the basis of their range or as they are."""
    rows, values, basis = range_of(data / scale) if turned else (data / scale, None, None)
    lam, eta = capped_penalty(lam, scale), capped_penalty(eta, scale)
    return FreeModel(rows, values, basis, lam, eta, free_mean)


def range_of(data: Array) -> tuple[Array, Array, Array]:
    """Return XB, s and B with XᵀX = B diag(s) Bᵀ and an orthonormal basis B of range(Xᵀ).

    All that is proved assumes that B is orthonormal. Through the Gram matrix of the samples, whose
    small eigenvalues are rounding, it is not (30 × 43, columns of 1e-6 to 1e6: off by 1e-6, and by
    4e-3 for float32); by orthogonal factors it is, to rounding, whatever the condition of X.
    """
    xp = array_namespace(data)
    wide = data.shape[1] > data.shape[0]
    outer, inner = xp.linalg.qr(data.T if wide else data)
    left, lengths, right = xp.linalg.svd(inner, full_matrices=False)
    there = lengths > NEGLIGIBLE * lengths[0]
    lengths = lengths[there]
    basis = outer @ left[:, there] if wide else right.T[:, there]
    return data @ basis, lengths**2, basis
