r"""Row-sparse eigenvectors by reweighting: the kernel of SPCAFS, UDFS and SOGFS.

.. math:: \min_{W\in\mathbb R^{p\times m},\ W^\top W=I}\ \operatorname{tr}(W^\top A W)
          + g\sum_j (\|w_j\|^2+\varepsilon)^{q/2},\qquad 0<q\le1

(:math:`w_j` the rows). The penalty is concave in :math:`\|w_j\|^2`, so it lies below its tangents:
minimising with the tangent at the last W, an eigenproblem of A + g diag(weights), never raises the
objective. The first pass has equal weights, that is, the eigenvectors of A. Not convex: the limit
is a stationary point.

Only the projector WWᵀ matters, and where eigenvalues tie it is the mean over all choices
(:mod:`jointsparse.solvers.graph.quadratic_forms`). The argument above holds for such projectors
too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.graph.leverage_newton import NewtonSteps
from jointsparse.solvers.graph.quadratic_forms import QuadraticForm, Subspace
from jointsparse.solvers.graph.stationary_rows import stationary_leverages
from jointsparse.solvers.solution import Solution, Trace

SMOOTHING = 1e-10  # ε; at rounding level the weights would exceed what an eigensolver can resolve
# Passes as published before the first extrapolation. Of 120 random tables (30 to 140 features, 2 to
# 8 columns, all sorts of noise and penalties) 113 have the same minimum after 6 as after 30; three
# have a lower one, by up to 1.6 %, and four a higher one, by up to 0.16 %.
PLAIN = 6
AS_PUBLISHED = 30  # passes: who allows no more asks for those of the papers, of 12 to 30
STATIONARY = 1e-5  # relative gradient at which the search between passes stops: below tolerances
OUT = 10.0  # times the size of A and of the eigenvalues: features with a larger weight are out
NEGLIGIBLE = 1e-8  # ‖w_j‖² that smoothing leaves of a row that is zero


def solve_reweighted_eigen(
    form: QuadraticForm,
    count: int,
    *,
    penalty: float,
    power: float = 1.0,
    tol: float = 1e-6,
    max_iter: int = 200,
    twins: IntArray | None = None,
    smoothing: float = SMOOTHING,
) -> Solution[FloatArray]:
    """Minimise tr(WᵀAW) + g Σ‖w_j‖^q over W with ``count`` orthonormal columns.

    Parameters
    ----------
    form : QuadraticForm
        A.
    count : int
        Number of columns m.
    penalty, power : float
        g ≥ 0 and q.
    tol : float
        Largest change of a ‖w_j‖² (they lie between 0 and 1), and violation of the conditions of
        optimality (:class:`Pass`), at which to stop.
    max_iter : int
        Limit on the number of eigenproblems. Up to ``AS_PUBLISHED`` of them are made as published.
    twins : ndarray of shape (n_features,) or None
        Labels of features that are equal, see :func:`reweighted_passes`.
    smoothing : float
        ε.

    Returns
    -------
    Solution
        ``loadings`` are the eigenvectors, ``state`` are the leverages ‖w_j‖², which sum to m.
        ``objective`` is that of the loadings without smoothing, ``history`` with it.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.graph.quadratic_forms import DenseForm
    >>> from jointsparse.solvers.graph.reweighted_eigen import solve_reweighted_eigen
    >>> form = DenseForm(np.diag([1.0, 2.0, 3.0]))
    >>> solve_reweighted_eigen(form, 2, penalty=0.1).state.round(6).tolist()
    [1.0, 1.0, 0.0]
    """
    trace = Trace(tol, max_iter, "change of a score, or violation of the conditions of optimality,")
    plain = PLAIN if max_iter > AS_PUBLISHED else max_iter
    passes = reweighted_passes(form, count, penalty, power, twins, smoothing, plain)
    at = next(passes)
    while not trace.record(len(trace.history) + 1, at.objective, measure=at.measure):
        if len(trace.history) == max_iter:
            break
        at = next(passes)
    diagnostics = {
        "rows": float(np.count_nonzero(at.space.leverages > NEGLIGIBLE)),
        "optimality": at.violation,
        "optimality_bound": tol,
    }
    space = at.space._replace(vectors=with_accurate_rows(form, at))
    objective = space.energy + penalty * row_norms_sum(space, power)
    return trace.solution(space.vectors, objective, None, diagnostics, space.leverages)


class Pass(NamedTuple):
    """An eigenspace, its objective with smoothing, and how far it may be from stationary.

    ``change`` is the largest change of a leverage. ``violation`` is the length of the gradient of
    the smoothed objective along matrices with orthonormal columns, divided by that of the gradient
    of its penalty, 2‖DW‖ with D the diagonal of the weights. W is an eigenspace of A + diag(w) for
    the weights w before, so that only (D - diag(w))W is left of the former. ``weights`` are these.
    """

    space: Subspace
    objective: float
    change: float
    violation: float
    weights: FloatArray | None

    @property
    def measure(self) -> float:
        """What has to fall to the tolerance."""
        return max(self.change, self.violation)


def reweighted_passes(
    form: QuadraticForm,
    count: int,
    penalty: float,
    power: float,
    twins: IntArray | None = None,
    smoothing: float = SMOOTHING,
    plain: int = PLAIN,
) -> Iterator[Pass]:
    """Yield the eigenspace of every pass.

    Features with the same label in ``twins`` are equal, and so are their leverages; but it is an
    equality that rounding breaks, and that reweighting then drives apart. It is kept by force.

    After ``plain`` passes the next one starts from a stationary point nearby, found without
    eigenproblems (:mod:`jointsparse.solvers.graph.stationary_rows`). From there on, Newton's method
    says where a pass starts (:mod:`jointsparse.solvers.graph.leverage_newton`), which knows of
    smoothing and of all features; where so many of them stay that it takes too long, every third
    pass starts from leverages extrapolated from the two before. Such a start is taken back should
    it raise the objective.
    """
    space = _even(form.first(count), twins)
    unknown = 0.0 if penalty == 0 else 1.0
    best = Pass(space, _objective(space, penalty, power, smoothing), unknown, unknown, None)
    yield best
    newton = NewtonSteps(form.block, count, power, smoothing)
    at, jump = space.leverages, _Extrapolation(smoothing, plain, newton)
    passes = 0
    while True:
        weights = _weights(at, penalty, power, smoothing)
        trial = _even(form.lowest(weights, count, best.space.start), twins)
        value = _objective(trial, penalty, power, smoothing)
        if jump.made and value > best.objective:
            jump.take_back()
            at = best.space.leverages
        else:
            change = float(np.max(np.abs(trial.leverages - at)))
            own = _weights(trial.leverages, penalty, power, smoothing)
            best = Pass(trial, value, change, _violation(trial.vectors, own, weights), weights)
            passes += 1
            found = None
            # Not with equal features: rounding would tell them apart. With ties there is no one W.
            if passes == plain and twins is None and trial.vectors.shape[1] == count:
                model = (penalty, power, smoothing)
                found = stationary_leverages(form, trial.vectors, *model, STATIONARY)
            if found is None:
                at = _even_leverages(jump.next(at, trial.leverages, weights), twins)
            else:
                at, jump.made = found, True
        yield best


def _weights(leverages: FloatArray, penalty: float, power: float, smoothing: float) -> FloatArray:
    return penalty * (power / 2) * (leverages + smoothing) ** ((power - 2) / 2)


def _violation(W: FloatArray, own: FloatArray, weights: FloatArray) -> float:
    """Return ‖(I - WWᵀ)(D - diag(w))W‖ / ‖DW‖."""
    size = float(np.linalg.norm(own[:, None] * W))
    slope = (own - weights)[:, None] * W
    slope -= W @ (W.T @ slope)
    return float(np.linalg.norm(slope)) / size if size > 0 else 0.0


def with_accurate_rows(form: QuadraticForm, at: Pass) -> FloatArray:
    """Return the vectors with the rows of features that are out as small as they are.

    An eigensolver leaves 1e-16 of the longest row in all others, and the penalty of a row grows
    with a power of its length below 1: to the power ½, that is 1e-8. From (A + diag(w))v = θv
    follows v_j = -(Av)_j / (w_j - θ), to the relative rounding of Av where w_j is far above A, θ.
    """
    vectors = at.space.vectors
    if at.weights is None or vectors.shape[1] == 0:
        return vectors
    image = form.product(vectors)
    theta = np.sum(vectors * (image + at.weights[:, None] * vectors), axis=0)
    theta /= np.sum(vectors**2, axis=0)
    out = at.weights > OUT * (form.size + float(np.max(np.abs(theta))))
    found = vectors.copy()
    found[out] = -image[out] / (at.weights[out, None] - theta)
    return found


def row_norms_sum(space: Subspace, power: float) -> float:
    """Return Σ‖w_j‖^q of the vectors, or of the leverages where there are none."""
    known = space.vectors.shape[1] > 0
    squares = np.vecdot(space.vectors, space.vectors) if known else space.leverages
    return float(np.sum(squares ** (power / 2)))


class _Extrapolation:
    """Where to take the next tangent: at the last leverages, or beyond them.

    Newton's method says where. If it does not, three leverages in a row, as logarithms l₀, l₁, l₂,
    give the direction l₁ - l₀ and its change; the step along them is the one of a linear iteration
    (squared extrapolation).
    """

    def __init__(self, smoothing: float, plain: int, newton: NewtonSteps | None = None) -> None:
        self.plain, self.newton = plain, newton
        self.smoothing = smoothing
        self.passes = 0
        self.made = False
        self.reach = 4.0  # longest step; longer ones are tried where such do well
        self.earlier: list[FloatArray] = []

    def take_back(self) -> None:
        """Start anew after a step that went too far."""
        self.made, self.earlier, self.reach = False, [], max(1.0, self.reach / 2)
        if self.newton is not None:
            self.newton.went_too_far()

    def next(self, before: FloatArray, after: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the point after a pass from ``before``, with its weights, to ``after``."""
        self.passes += 1
        if self.newton is not None and self.passes >= self.plain:
            if self.made:
                self.newton.went_well()
            point = self.newton.point(before, after, weights)
            if point is not None:
                self.made, self.earlier = True, []
                return point
        self.made = False
        self.earlier.append(np.log(before + self.smoothing))
        if self.passes < self.plain or len(self.earlier) < 2:
            self.earlier = self.earlier[-1:]
            return after
        start, middle = self.earlier
        first, second = middle - start, np.log(after + self.smoothing) - middle
        self.earlier = []
        bend = second - first
        size = float(np.linalg.norm(bend))
        step = float(np.linalg.norm(first)) / size if size > 0 else 1.0
        if step <= 1:
            return after
        if step >= self.reach:
            step, self.reach = self.reach, 2 * self.reach
        self.made = True
        logarithm = start + 2 * step * first + step**2 * bend
        return np.clip(np.exp(np.minimum(logarithm, 0.0)) - self.smoothing, 0.0, 1.0)


def _even(space: Subspace, twins: IntArray | None) -> Subspace:
    """Return the space with the leverages of equal features averaged."""
    return space._replace(leverages=_even_leverages(space.leverages, twins))


def _even_leverages(leverages: FloatArray, twins: IntArray | None) -> FloatArray:
    if twins is None:
        return leverages
    sums = np.bincount(twins, weights=leverages)
    return np.asarray(sums[twins] / np.bincount(twins)[twins])


def _objective(space: Subspace, penalty: float, power: float, smoothing: float) -> float:
    return space.energy + penalty * float(np.sum((space.leverages + smoothing) ** (power / 2)))


def scores_of(leverages: FloatArray) -> FloatArray:
    """Return the leverages as scores: 0 where nothing but smoothing is left."""
    return np.where(leverages > NEGLIGIBLE, leverages, 0.0)
