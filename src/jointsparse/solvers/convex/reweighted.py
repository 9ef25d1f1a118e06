r"""Exact solution of CSPCA-PSD and AW-SPCA-PSD by reweighting the samples, with a certificate.

.. math:: \min_{\Omega\succeq0,\,m}\ \sum_i \|(I-\Omega)(x_i-m)\|_2 + \lambda\|\Omega\|_{2,1}
          + \eta\operatorname{tr}\Omega

(m = 0 for CSPCA, free for AW-SPCA, whose v is (I - Ω)m). Since
:math:`\|e\| \le \tfrac12(w\|e\|^2 + 1/w)` with equality at w = 1/‖e‖, fixed weights leave the
squared-loss model on the rows :math:`\sqrt{w_i/2}\,(x_i-m)`, where m is the weighted mean. That
model is solved exactly, in whatever way suits the shape (:class:`WeightedModel`), and the weights
follow, until the solution is certified.

**Certificate.** The dual of the model is max ⟨P, X⟩ subject to ‖p_i‖ ≤ 1, Pᵀ1 = 0 where m is free,
and the constraints on sym(PᵀX) that the squared-loss model has, too
(:mod:`~jointsparse.solvers.convex.certificate`). A dual point of the *weighted* model, made from
any symmetric Ω', reads p_i = c w_i e'_i with e'_i = (I - Ω')(x_i - m) in the units of the samples,
for every c up to some limit. So

.. math:: \min\Big\{\text{limit},\ \frac1{\max_i w_i\|e_i'\|}\Big\}\ \sum_i w_i\langle e_i',x_i-m
          \rangle

is a lower bound on the optimum, whatever the weights. It is first-order sharp: the error of the
norms enters it as it is, while the objective has the square of it. The weighted models are
therefore solved to the square of the gap (a warm start makes that cheap), and the fixed-point
iteration of the weights is accelerated (Anderson's mixing, :func:`mixture_of`). The mixture is
one of weights, not of their logarithms, so that sums over samples can be mixed like them.

A sample that the model reconstructs exactly would get an infinite weight: norms are smoothed,
:math:`\sqrt{\|e\|^2+\varepsilon^2}` with ε = 10⁻⁶ of the mean distance, which loosens the
certificate by less than that and leaves it valid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace
from jointsparse.solvers.convex.certificate import relative_gap
from jointsparse.solvers.convex.model import Reconstruction
from jointsparse.solvers.solution import Solution, Trace

DOUBLE_ROUNDING = 2.0**-53
SMOOTHING = 1e-6  # of the mean distance
MEMORY = 4  # weights that are mixed
LARGEST_FACTOR = 3.0  # by which mixed weights may differ from the newest
FIRST_TOLERANCE = 1e-3  # gap of the first weighted model
ACCURACY = 0.3  # of the weighted models: the square of this share of the gap …
LEAST_TOLERANCE = 1e-11  # … but not below this
WORTHWHILE = 0.7  # a step that leaves more of the gap than this, with weights that stand still, …
STANDSTILL = 0.3  # … (they change less than this share of the gap) needs more accuracy …
SHARPEN = 0.1  # … by this factor
LONGEST = 1000  # iterations within one weighted model
# Weighted models in which the gap has to fall to WORTHWHILE of what it was, or iterations within
# them: thirty models of ordinary tables take hundreds, those that lead nowhere took 16 000.
PATIENCE = 30
PATIENCE_WITHIN = 3000


@dataclass(frozen=True)
class Step:
    """What one weighted model gives for the model itself.

    Attributes
    ----------
    objective : float
        Objective at Ω = UUᵀ and the mean of the weights.
    bound : float
        Lower bound on the optimum.
    norms : array of shape (n_samples,)
        Smoothed norms of the residuals there.
    factor : array of shape (n_features, rank)
        U.
    offset : array of shape (n_features,) or None
        v, where the mean is free.
    iterations : int
        Iterations made.
    """

    objective: float
    bound: float
    norms: Array
    factor: Array
    offset: Array | None
    iterations: int


class WeightedModel(Protocol):
    """The model for given weights, in one of its forms."""

    norms: Array
    """Smoothed distances of the samples from the first centre: the first weights are 1/norms."""
    empty: Step
    """Ω = 0."""

    def solve(self, mixture: list[float], weights: Array, tol: float, max_iter: int) -> Step:
        """Solve with weights that are this mixture of the inverse norms of the last steps."""
        ...


def solve_reweighted(
    model: WeightedModel, *, tol: float = 1e-4, max_iter: int = 1000
) -> Solution[Reconstruction]:
    """Reweight until the relative duality gap is at most ``tol``.

    Parameters
    ----------
    model : WeightedModel
        :class:`~jointsparse.solvers.samples.wide.WideModel` or
        :class:`~jointsparse.solvers.samples.streamed.StreamedModel`.
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Limit on the weighted models: an iteration is one set of weights.

    Returns
    -------
    Solution
        ``loadings`` is U with Ω = UUᵀ and exactly zero rows for the features left out; ``state`` is
        a :class:`~jointsparse.solvers.convex.model.Reconstruction` with U and v.
    """
    best, bound, gap = model.empty, 0.0, math.inf
    trace = Trace(tol, max_iter, "duality gap", known=best.objective)
    weights, mixture = 1 / model.norms, [1.0]
    wanted: list[Array] = []  # weights that the last steps ask for, …
    changes: list[Array] = []  # … and their relative difference from those that were used
    accuracy, within = FIRST_TOLERANCE, 0  # iterations within the weighted models
    milestone, since = math.inf, 0  # a gap, and the weighted models since it was reached …
    reached = 0  # … and the iterations within them until then
    lost = False
    for iteration in range(1, max_iter + 1):
        step = model.solve(mixture, weights, accuracy, LONGEST)
        within += step.iterations
        best, bound = min(best, step, key=lambda s: s.objective), max(bound, step.bound)
        before, gap = gap, relative_gap(best.objective, bound)
        if trace.record(iteration, best.objective, gap=gap, measure=gap):
            break
        since += 1
        if gap <= WORTHWHILE * milestone:
            milestone, since, reached = gap, 0, within
        lost = since == PATIENCE or within - reached > PATIENCE_WITHIN
        if lost:
            break
        new = 1 / step.norms
        change = (new - weights) / new
        size = _root_mean_square(change)
        if changes and size > _root_mean_square(changes[-1]):
            wanted, changes = [], []  # the last mixture was no good
        wanted, changes = [*wanted, new][-MEMORY:], [*changes, change][-MEMORY:]
        mixture = mixture_of(wanted, changes)
        weights = mixed(mixture, wanted)
        sharper = accuracy * SHARPEN if gap > WORTHWHILE * before else math.inf
        accuracy = min((ACCURACY * gap) ** 2, FIRST_TOLERANCE)
        if size < STANDSTILL * gap:
            accuracy = min(accuracy, sharper)
        accuracy = max(accuracy, LEAST_TOLERANCE)
    diagnostics = {"rank": float(best.factor.shape[1]), "iterations within": float(within)}
    state = Reconstruction(best.factor, best.offset)
    solution = trace.solution(best.factor, best.objective, gap, diagnostics, state)
    if not lost:
        return solution
    reason = f"{since} weighted models did not lower the duality gap {gap:.1e} to {tol:.1e}"
    return replace(solution, reason=reason)


def mixture_of(wanted: list[Array], changes: list[Array]) -> list[float]:
    """Return coefficients, summing to 1, that make the mixed change as small as possible.

    Only as many of the last weights are mixed (0 for the others) as keep the result near the
    newest.
    """
    xp = array_namespace(*wanted)
    for first in range(len(wanted) - 1):
        columns = changes[first:]
        products = [[float(xp.vecdot(a, b)) for b in columns] for a in columns]
        normal = np.asarray(products)
        normal = normal + (1e-10 * np.trace(normal) + np.finfo(float).tiny) * np.eye(len(columns))
        solved = np.linalg.solve(normal, np.ones(len(columns)))
        found = [0.0] * first + [float(part) for part in solved / solved.sum()]
        ratio = mixed(found, wanted) / wanted[-1]
        if LARGEST_FACTOR * float(xp.min(ratio)) > 1 and float(xp.max(ratio)) < LARGEST_FACTOR:
            return found
    return [0.0] * (len(wanted) - 1) + [1.0]


def sample_bound(limit: float, value: float, longest: float) -> float:
    """Return the bound of the module docstring: ⟨P, X⟩ at c = 1 and the largest norm of its rows.

    A dual point of a weighted model stays feasible when it is made shorter.
    """
    c = min(limit, 1 / longest) if longest > 0 else limit
    return max(0.0, c * value)


def rounding_of_sums(n_samples: int, n_features: int) -> float:
    """Return the share that the rounding of ⟨P, X⟩ may have of the sum it is the rest of.

    Every product of the sums over samples, and of those over features, is rounded, and every sum.
    """
    return 2 * (n_samples + n_features) * DOUBLE_ROUNDING


def rounded_limit(limit: float, whole: float, budget: float, shape: tuple[int, ...]) -> float:
    """Return the largest c that keeps a dual point feasible whatever rounding did to its matrix.

    The matrix that has to stay below η is a difference of products of the weighted samples, each
    rounded by ε√(np) of their total. That much on its diagonal costs what any excess over η does
    (see :mod:`~jointsparse.solvers.convex.certificate`); huge weights make it more than the
    penalties.

    Parameters
    ----------
    limit : float
        The largest c without rounding.
    whole : float
        Σ w_i ‖x_i‖².
    budget : float
        λ + η.
    shape : tuple of int
        Numbers n of samples and p of features.
    """
    excess = 2 * DOUBLE_ROUNDING * math.sqrt(math.prod(shape)) * whole
    return limit * budget / (budget + excess)


def mixed(mixture: list[float], parts: list[Any]) -> Any:
    """Return the sum of parts with these coefficients."""
    total: Any = 0.0
    for coefficient, part in zip(mixture, parts, strict=True):
        if coefficient != 0:
            total = total + coefficient * part
    return total


def _root_mean_square(values: Array) -> float:
    xp = array_namespace(values)
    return math.sqrt(float(xp.mean(values**2)))
