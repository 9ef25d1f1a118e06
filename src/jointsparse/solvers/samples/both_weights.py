r"""CSPCA-PSD and AW-SPCA-PSD without a rank penalty: samples and features are weighted at once.

.. math:: \min_{\Omega\succeq0,\,m}\ \sum_i \|(I-\Omega)(x_i-m)\|_2 + \lambda\sum_j\|\omega_j\|_2

(m = 0 for CSPCA, free for AW-SPCA, whose v is (I - Ω)m). Either norm is below a weighted square,
:math:`\|e\|\le\tfrac12(w\|e\|^2+1/w)`, and equal to it at w = 1/‖e‖. With weights w of the samples,
d of the features, and m the weighted mean, the best symmetric Ω solves

.. math:: A\Omega + \Omega A = 2S,\qquad A = S + \lambda D,\qquad
          S = \sum_i w_i(x_i-m)(x_i-m)^\top .

A is positive definite and S positive semidefinite, and therefore so is Ω: without a rank penalty
the cone takes care of itself. One eigendecomposition of A is all that a step needs,

.. math:: I - \Omega = 2\lambda\,B\Big[\frac{(B^\top DB)_{kl}}{a_k+a_l}\Big]B^\top,\qquad
          A = B\operatorname{diag}(a)B^\top ,

which also keeps the digits of small residuals. (The published iteration takes the same weights, but
projects the solution of a one-sided equation onto the cone, which is not the optimum; splitting
needs up to ten times as many steps.) The fixed-point iteration of the norms is accelerated.

**Certificate.** The dual is max ⟨P, X⟩ subject to ‖p_i‖ ≤ 1, Pᵀ1 = 0 where m is free, and
sym(PᵀX) ⪯ λ sym(V) for some V with columns of norm at most 1. A step has p_i = w_i e_i and
V = ΩD, for which the equation above says sym(PᵀX) = λ sym(V): all that is missing is that no row
and no column is too long, as a few are until weights that tend to infinity are settled, long after
the objective is. Dividing everything by the longest would be valid, and slow. Instead

* rows of P are cut to the average length of the columns, and their mean is taken off,
* V is changed so that its symmetric part is again sym(PᵀX)/λ, to the last digit,
* what is too long in a column is moved to the rows: V - Z + Zᵀ has the same symmetric part as V,
  whatever Z is. With Z = V diag(z) column j becomes shorter by the share z_j, while its entries are
  spread over all the other columns, to most of which they are orthogonal or nearly so.

The rest is divided by. On 9 298 × 256 the gap falls below 1e-4 in 8 steps instead of 26.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import Array
from jointsparse.device import like, to_host
from jointsparse.linalg import add_to_diagonal, array_namespace, column_norms, eigh
from jointsparse.solvers.convex.certificate import relative_gap
from jointsparse.solvers.convex.model import Reconstruction, capped_penalty, factor_on
from jointsparse.solvers.convex.reweighted import rounding_of_sums
from jointsparse.solvers.samples.geometric_median import row_norms
from jointsparse.solvers.solution import Solution, Trace

FIRST_LENGTH = 0.5  # of the columns of Ω, all of them
SMOOTHING = 0.01  # of the tolerance: norms below this share of their mean count as that
MEMORY = 5  # steps that are mixed
LARGEST_FACTOR = 3.0  # by which mixed norms may differ from the newest
GROWTH_ALLOWED = 2.0  # of the residual, after which a mixed step is taken back
# Share of the mean that is added to norms where their changes are compared: those of features that
# go to zero shrink by the same factor in every step, and must not outweigh the others.
NEAR_ZERO = 0.1
SETTLED = 1.0  # times the tolerance: relative change of the objective at which to certify
SMALL_PROBLEM = 2**13  # entries of a sample matrix: a proof costs next to nothing, in every step
SWEEPS = 20  # of the columns of V
ENOUGH = 0.02  # of the tolerance: columns that are too long by this much need no other sweep
WORTHWHILE = 0.7  # share of the gap to which some steps have to bring it
SHORT = 0.02  # share of the mean length below which columns of Ω that shrink are taken for zero
# Short columns, and residuals below this share of their mean, that grow by this factor are set to
# an estimate: mixing knows nothing of what is so much smaller than its errors, and has held some
# down for good.
SMALL_GROWING, GROWING = 0.1, 1.03
# The same, where more would cost too much: what rounding leaves of constant features.
NOTHING = 1e-9
SHRINKING = 0.95
ROUNDING = 1e-12  # of an objective
# Norms are of the size of 1, or of a share of it. Where all columns go to zero, nothing but this
# floor keeps what is divided by them, and squared, finite.
LEAST_NORM = 1e-30
TINY = float(np.finfo(np.float64).tiny)
# Samples at a time: enough for fast products, few enough to stay near the processor.
BLOCK_ENTRIES, BLOCK_ROWS = 2**17, 256
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class _Step:
    """The optimum for some weights.

    Attributes
    ----------
    weights : tuple of arrays of shape (n_samples,) and (n_features,)
        w and d.
    mean : array of shape (n_features,) or None
        m, where it is free.
    rest : array of shape (n_features, n_features)
        I - Ω.
    variances : array of shape (n_features,)
        Diagonal of S.
    norms, lengths : arrays of shape (n_samples,) and (n_features,)
        ‖e_i‖ and ‖ω_j‖.
    objective : float
        Of the model itself.
    """

    weights: tuple[Array, Array]
    mean: Array | None
    rest: Array
    variances: Array
    norms: Array
    lengths: Array
    objective: float

    @property
    def omega(self) -> Array:
        """Ω."""
        return add_to_diagonal(-self.rest, 1.0)


class _Model:
    """The problem in units in which Σ‖x_i‖ = 1; the samples are brought to them block by block."""

    def __init__(self, data: Array, lam: float, scale: float, *, free_mean: bool) -> None:
        self.data, self.unit, self.free_mean = data, 1 / scale, free_mean
        self.lam = capped_penalty(lam, scale)
        count, width = data.shape
        rows = max(BLOCK_ROWS, BLOCK_ENTRIES // width)
        self.blocks = [slice(first, first + rows) for first in range(0, count, rows)]

    def step(self, weights: tuple[Array, Array]) -> _Step:
        """Solve for these weights."""
        samples, features = weights
        xp = array_namespace(self.data)
        mean = None
        if self.free_mean:
            mean = ((samples / xp.sum(samples)) @ self.data) * self.unit
        roots = xp.sqrt(samples)[:, None]
        matrix = 0.0
        for block in self.blocks:
            rows = roots[block, :] * self._centred(block, mean)
            matrix = matrix + rows.T @ rows
        variances = xp.asarray(xp.linalg.diagonal(matrix), copy=True)
        values, basis = eigh(add_to_diagonal(matrix, self.lam * features))
        values = xp.where(values > 0, values, xp.max(values))  # rounding: no step can be certified
        inner = basis.T @ (features[:, None] * basis)
        inner *= 2 * self.lam / (values[:, None] + values)
        rest = basis @ inner @ basis.T
        rest = (rest + rest.T) / 2
        norms, lengths = self.norms(rest, mean)
        objective = float(xp.sum(norms)) + self.lam * float(xp.sum(lengths))
        return _Step(weights, mean, rest, variances, norms, lengths, objective)

    def norms(self, rest: Array, mean: Array | None) -> tuple[Array, Array]:
        """Return the norms of the residuals and of the columns of Ω, given I - Ω and the mean."""
        norms = [row_norms(self._centred(block, mean) @ rest) for block in self.blocks]
        lengths = column_norms(add_to_diagonal(-rest, 1.0))
        return array_namespace(rest).concat(norms), lengths

    def bound(self, step: _Step, tol: float) -> float:
        """Return a lower bound on the optimum, made from a step."""
        xp = array_namespace(self.data)
        samples, features = step.weights
        rows = samples * step.norms
        total_length = max(float(xp.sum(step.lengths)), TINY)
        level = float(xp.sum(features * step.lengths**2)) / total_length
        cut = samples * xp.where(rows > level, level / xp.where(rows > 0, rows, 1.0), 1.0)
        moment, total = 0 * step.rest, 0 * step.lengths
        mean = step.mean
        for block in self.blocks:
            centred = self._centred(block, mean)
            forces = cut[block, None] * (centred @ step.rest)
            moment = moment + forces.T @ centred
            total = total + xp.sum(forces, axis=0)
        longest_row = float(xp.max(cut * step.norms))
        distances = 1.0
        if mean is not None:
            count = self.data.shape[0]
            offset = total / count
            centre = xp.sum(self.data, axis=0) * self.unit - count * mean
            moment = moment - offset[:, None] * centre
            longest_row += float(xp.linalg.vector_norm(offset))
            distances += count * float(xp.linalg.vector_norm(mean))
        lost = rounding_of_sums(*self.data.shape) * longest_row * distances
        value = float(xp.linalg.trace(moment)) - lost
        pull = features * step.omega
        pull = (pull - pull.T + (moment + moment.T) / self.lam) / 2
        longest = shortest_pull(pull, step.lengths, longest_row, ENOUGH * tol)
        # Where nothing pulls, which is Ω = 0 with no residual left, zero is all that is proved.
        return max(0.0, value) / max(longest_row, longest + lost / self.lam, TINY)

    def _centred(self, block: slice, mean: Array | None) -> Array:
        rows = self.data[block, :] * self.unit
        if mean is not None:
            rows -= mean
        return rows


def shortest_pull(pull: Array, lengths: Array, goal: float, enough: float) -> float:
    """Return the largest norm of a column of V after moving what is too long to the rows.

    Parameters
    ----------
    pull : array of shape (n_features, n_features)
        V.
    lengths : array of shape (n_features,)
        Lengths of the columns of Ω. The mean norm of the columns of V, weighted by them, is what
        the largest cannot fall below by much.
    goal : float
        Norm below which nothing is gained.
    enough : float
        Share by which the largest may be above that.
    """
    xp = array_namespace(pull)
    found = math.inf
    for _ in range(SWEEPS):
        norms = column_norms(pull)
        found = min(found, float(xp.max(norms)))
        weighted = float(xp.sum(norms * lengths)) / max(float(xp.sum(lengths)), TINY)
        aim = max(goal, weighted)
        if found <= aim * (1 + enough):
            break
        excess = pull * xp.where(norms > aim, 1 - aim / xp.where(norms > 0, norms, 1.0), 0.0)
        pull = pull - excess + excess.T
    return found


def solve_both_weights(
    data: Array,
    lam: float,
    *,
    free_mean: bool = False,
    tol: float = 1e-4,
    max_iter: int = 1000,
    patience: int | None = None,
) -> Solution[Reconstruction]:
    """Solve AW-SPCA-PSD, or CSPCA-PSD without a rank penalty, to a certified relative gap.

    Parameters
    ----------
    data : array of shape (n_samples, n_features)
        X, centred, in double precision.
    lam : float
        Penalty in the units of the data; positive.
    free_mean : bool
        Whether the mean is free.
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Iteration limit: an iteration is one set of weights.
    patience : int or None
        Iterations without progress after which to give up, converged or not.

    Returns
    -------
    Solution
        As from :func:`~jointsparse.solvers.samples.cone.solve_samples`.
    """
    xp = array_namespace(data)
    distances = row_norms(data)
    scale = float(xp.sum(distances))
    model = _Model(data, lam, scale, free_mean=free_mean)
    count = int(data.shape[0])
    nothing = xp.zeros((data.shape[1], 0), dtype=data.dtype, device=data.device)
    best = _Point(1.0, nothing, 0 * data[0, :] if free_mean else None)
    trace = Trace(tol, max_iter, "duality gap", known=best.objective * scale)
    lengths = np.full(data.shape[1], FIRST_LENGTH)
    point = np.concatenate([to_host(distances) / scale, lengths])
    point = _floored(point, point, count, tol)
    mixing, small = _Mixing(count), math.prod(data.shape) <= SMALL_PROBLEM
    lower, gap = 0.0, 1.0
    before, lowest, least = math.inf, None, best.objective
    milestone = (0, math.inf)  # an iteration, and the gap that was reached then
    for iteration in range(1, max_iter + 1):
        inverse = like(1 / point, data)
        step = model.step((inverse[:count], inverse[count:]))
        lowest = step if lowest is None or step.objective < lowest.objective else lowest
        settled = abs(before - step.objective) <= SETTLED * tol * step.objective
        if settled or small or iteration == max_iter:
            lower = max(lower, model.bound(step, tol))
        gap = relative_gap(min(least, lowest.objective), lower)
        stuck = patience is not None and iteration - milestone[0] >= patience
        if gap <= tol or iteration == max_iter or stuck:
            best = _finished(model, best, lowest, min(lower / (1 - tol), least))
            gap = relative_gap(best.objective, lower)
        # Every matrix of a step is feasible, but for rounding.
        least = min(least, lowest.objective, best.objective)
        if trace.record(iteration, least * scale, gap=gap, measure=gap) or stuck:
            break
        if gap <= WORTHWHILE * milestone[1]:
            milestone = (iteration, gap)
        before = step.objective
        new = _next_norms(step, model.lam)
        new = _floored(new, new, count, tol)
        point = _floored(mixing.next(point, new), new, count, tol)
    gap = relative_gap(best.objective, lower)
    offset = None if best.offset is None else best.offset * scale
    state = Reconstruction(best.loadings, offset)
    diagnostics = {"rank": float(best.loadings.shape[1])}
    return trace.solution(best.loadings, best.objective * scale, gap, diagnostics, state)


@dataclass(frozen=True)
class _Point:
    """Ω = UUᵀ, with its objective and its v."""

    objective: float
    loadings: Array
    offset: Array | None

    @classmethod
    def of(cls, model: _Model, loadings: Array, mean: Array | None) -> _Point:
        xp = array_namespace(loadings)
        rest = add_to_diagonal(-(loadings @ loadings.T), 1.0)
        norms, lengths = model.norms(rest, mean)
        objective = float(xp.sum(norms)) + model.lam * float(xp.sum(lengths))
        return cls(objective, loadings, None if mean is None else rest @ mean)


def _finished(model: _Model, best: _Point, step: _Step, enough: float) -> _Point:
    """Return the best point, with as many zeros as leave the objective good enough.

    A principal submatrix of Ω stays positive semidefinite, so features may be left out at will.
    """
    xp = array_namespace(step.lengths)
    shrinking = step.weights[1] * step.lengths < SHRINKING
    mean = xp.mean(step.lengths)
    masks = [~((step.lengths < short * mean) & shrinking) for short in (SHORT, NOTHING)]
    if bool(xp.all(shrinking)):
        masks = [~shrinking, *masks]
    for kept in masks:
        point = _Point.of(model, factor_on(step.omega, kept), step.mean)
        if point.objective <= enough * (1 + ROUNDING):
            return point
        best = min(best, point, key=lambda one: one.objective)
    return best


def _next_norms(step: _Step, lam: float) -> Vector:
    """Return the norms that a step asks for; of the short ones, what they tend to.

    A short column pulls with ‖v_j‖ = d_j‖ω_j‖, however long it is. Below 1 it goes to zero. Above,
    it grows until its variance takes off what is too much: to about λ(‖v_j‖ - 1)/S_jj. So does a
    small residual, which pulls with w_i‖e_i‖, and at most by its leverage, of p/n in the mean.
    """
    norms, lengths = to_host(step.norms), to_host(step.lengths)
    rows, columns = (
        to_host(w * x) for w, x in zip(step.weights, (step.norms, step.lengths), strict=True)
    )
    leverage = min(1.0, len(lengths) / len(norms)) * float(np.mean(norms))
    variances = np.maximum(to_host(step.variances), TINY)
    guesses = (leverage * (rows - 1), lam * (columns - 1) / variances / 2)
    parts = []
    for sizes, pull, guess, share in zip(
        (norms, lengths), (rows, columns), guesses, (SMALL_GROWING, SHORT), strict=True
    ):
        short = share * float(np.mean(sizes))
        tends = np.maximum(sizes, np.minimum(sizes + guess, short))
        parts.append(np.where((sizes < short) & (pull > GROWING), tends, sizes))
    return np.concatenate(parts)


def _floored(norms: Vector, newest: Vector, count: int, tol: float) -> Vector:
    """Return norms of samples and columns that are not too far below the means of the newest."""
    share = SMOOTHING * tol
    floors = (share * float(np.mean(newest[:count])), share * float(np.mean(newest[count:])))
    parts = zip(np.split(norms, [count]), floors, strict=True)
    return np.concatenate([np.maximum(part, max(floor, LEAST_NORM)) for part, floor in parts])


class _Mixing:
    """Anderson's mixing of norms, in which no norm moves far.

    Parameters
    ----------
    count : int
        Samples: their norms come first, those of the columns after them.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.wanted: list[Vector] = []
        self.changes: list[Vector] = []
        self.plain: Vector | None = None
        self.before = math.inf

    def next(self, used: Vector, new: Vector) -> Vector:
        """Return the norms to try, given those that were used and those that came of them."""
        count = self.count
        counts = (count, new.shape[0] - count)
        means = np.repeat((np.mean(new[:count]), np.mean(new[count:])), counts)
        size = new + NEAR_ZERO * means
        change = new - used
        residual = float(np.linalg.norm(change / size))
        if self.plain is not None and residual > GROWTH_ALLOWED * self.before:
            plain = self.plain
            self.reset()
            return plain
        self.wanted = [*self.wanted, new][-MEMORY - 1 :]
        self.changes = [*self.changes, change][-MEMORY - 1 :]
        if len(self.wanted) == 1:
            return new
        self.plain, self.before = new, residual
        steps = np.diff(np.asarray(self.changes) / size, axis=0)
        normal = steps @ steps.T
        normal += (1e-10 * np.trace(normal) + TINY) * np.eye(len(steps))
        weights = np.linalg.solve(normal, steps @ (change / size))
        mixed = new - weights @ np.diff(np.asarray(self.wanted), axis=0)
        mixed = np.clip(mixed, new / LARGEST_FACTOR, new * LARGEST_FACTOR)
        short = new < np.repeat((SMALL_GROWING, SHORT), counts) * means
        return np.where(short & (new > GROWING * used), new, mixed)
