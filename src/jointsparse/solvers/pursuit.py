r"""Principal component pursuit: a matrix as low rank plus sparse, with a proof of optimality.

.. math:: \min_{L,E}\ \|L\|_* + \lambda\|E\|_1\quad\text{such that}\quad L + E = X

by the alternating direction method on the augmented Lagrangian, over-relaxed:

.. math::
    L &\leftarrow \text{singular values of } X - E + U \text{ lowered by } 1/\mu ,\\
    E &\leftarrow \text{soft threshold of } X - \hat L + U \text{ at } \lambda/\mu ,\qquad
        \hat L = \omega L + (1-\omega)(X - E_{\text{old}}),\\
    U &\leftarrow U + X - \hat L - E .

The whole of it is a map of the one matrix T = U + E, whose fixed point is wanted; its steps are
combined by Anderson's method. (The usual *inexact* variant raises μ geometrically; that always ends
soon, but elsewhere: up to 0.5 % above the optimum on the data of ``benchmarks/components.py``.)

**Step.** Where every entry has noise of size σ, the threshold λ/μ has to be of that size, and
signal or gross errors say nothing about it: μ is moved towards 1/(20 σ), or 1/(√n σ) where n > 400,
with σ from the median of |X - L|, as long as that has settled. Beside the rule of equal residuals
this takes a fourth of the iterations with noise of 1 % of the signal, a half with noise of 10 %,
and as many without noise.

**Certificate.** The dual problem is :math:`\max\langle X,Z\rangle` over :math:`\|Z\|_2\le1`,
:math:`\|Z\|_\infty\le\lambda`. Z = μU meets the second constraint by construction; divided by
:math:`\max(1,\|Z\|_2)`, with the norm from a dense eigendecomposition, it meets both. The primal
point is (X - E, E), which is feasible and has the exact zeros of the threshold; what is left of
L + E = X at the end is in L.

**Entries far beyond the rest** are drawn in while it iterates
(:mod:`~jointsparse.solvers.pursuit_far`); bounds are those of the matrix as it came.

**Decompositions.** Singular values are lowered by :mod:`~jointsparse.eigen.shrink`, which
goes on from the singular vectors of the iteration before. It cannot spoil the certificate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jointsparse.arrays import Array
from jointsparse.eigen.shrink import Shrink
from jointsparse.linalg import array_namespace, column_norms
from jointsparse.solvers.pursuit_far import FarEntries
from jointsparse.solvers.pursuit_steps import steps
from jointsparse.solvers.solution import Solution, Trace

# Of eigenvectors that are followed. 1000 × 400 samples decompose 41 matrices with 0.1, 19 with 0.3
# and 11 with 0.5, in as many iterations; CSPCA, whose steps must be more accurate, takes more of
# them with 0.3 than with 0.1, and a fourth longer.
LARGEST_TURN = 0.3
CHECK_EVERY = 10  # iterations between two certificates, each as dear as one iteration or two
# Of 0.025, 0.05 and 0.1 the best for noise of 0.1 % to 100 % of the signal in 400 × 200 numbers. In
# larger tables at most 1/√n, so that with the usual λ the threshold is no smaller than the noise:
# 1500 × 300 numbers with noise of 1 % and 5 % gross errors take 120 iterations, and 300 do not do
# with 0.05.
NOISE_TIMES_STEP = 0.05
MEDIAN_OF_NOISE = 0.6745  # of |x| where x is normal with variance 1
CHANGE = 2.0  # factor on the step where it is further than that from its aim
SETTLED = 0.7  # of the noise at the last certificate: falling faster, it is no noise yet
STEADY = 0.8  # the same, for a leap
LEAP = 16.0  # with noise of 1 % and 5 % gross errors 110 iterations in place of 140; 64: no fewer
CHANGE_UNTIL = 120  # iterations; afterwards the step stays, as the proof of convergence needs
EARLIER_STEPS = 4  # ten need nearly as many iterations
EARLIER_BYTES = 2**30
NEGLIGIBLE = 1e-8  # of the largest number: less than the gaps that are asked for
SAMPLED_ROWS = 200  # or more, of which the median of the noise is taken
# Entries may be so many times as large as the one that three quarters are smaller than, and larger
# ones are drawn in. With one sample of 150 × 30 or 300 × 200 a million times as large as the others
# it takes 230 and 680 iterations (30: 160 and 250; 1000: 400 and 920; not drawn in: 5000 do not
# do). The lower it is, the more tables have such entries that are no errors, and begin twice.
FARTHEST, USUAL = 300.0, 0.75
NOT_BELOW = 1e-100  # of the largest entry, which is to be a number in units of the limit
SURE = 1e-4  # gap from which on entries that are no errors are known not to be


def solve_pursuit(
    X: Array, penalty: float, *, tol: float, max_iter: int
) -> Solution[tuple[Array, Array]]:
    """Split a matrix into low rank plus sparse.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        The matrix; not zero.
    penalty : float
        λ > 0.
    tol : float
        Certified relative gap at which to stop.
    max_iter : int
        Limit on the number of iterations.

    Returns
    -------
    Solution
        ``loadings`` is the orthonormal basis R (n_features × rank) of the rows of L, largest
        singular value first. ``state`` is (E, A) with A Rᵀ = L up to the tolerance. ``objective``
        and ``gap`` belong to the pair (X - E, E).

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.pursuit import solve_pursuit
    >>> X = np.outer(np.arange(1.0, 9.0), np.ones(8))
    >>> X[2, 3] += 50
    >>> solution = solve_pursuit(X, 1 / np.sqrt(8), tol=1e-8, max_iter=1000)
    >>> errors, _ = solution.state
    >>> np.argwhere(errors).tolist(), round(errors[2, 3], 4), solution.loadings.shape
    ([[2, 3]], np.float64(50.0), (8, 1))
    """
    xp = array_namespace(X)
    largest, limit = _limits(X)
    way = _Way(X, penalty, largest, limit)
    # Before the first certificate the pair (0, X) is known.
    known = penalty * float(xp.sum(xp.abs(X / largest))) * largest
    run = Trace(tol, max_iter, "certified relative gap", known=known)
    for iteration in range(1, max_iter + 1):
        way.advance()
        if iteration % CHECK_EVERY != 0 and iteration != max_iter:
            continue
        found = way.judged(tol, exactly=iteration == max_iter)
        measure = max(found.gap, found.gap_drawn_in)
        if run.record(iteration, found.primal * way.far.unit, gap=found.gap, measure=measure):
            break
        if found.gap_drawn_in <= max(tol, SURE) and not way.far.is_kept(found.errors):
            way = _Way(X, penalty, largest, largest)  # with the entries as they are
        else:
            way.adapt()
    loadings, state = way.result(found.errors)
    diagnostics = {"rank": float(loadings.shape[1])}
    return run.solution(loadings, run.history[-1], found.gap, diagnostics, state)


@dataclass(frozen=True)
class _Judged:
    """What is known of an iterate: the pair (X - E, E), and the dual point that belongs to it.

    Attributes
    ----------
    errors : array of shape (n, p)
        E, of the entries drawn in.
    primal, gap : float
        Objective of X, in units, and certified relative gap.
    gap_drawn_in : float
        That of X with entries drawn in.
    """

    errors: Array
    primal: float
    gap: float
    gap_drawn_in: float


class _Way:
    """The iteration from its beginning, for X with entries that are drawn in to a limit."""

    def __init__(self, X: Array, penalty: float, largest: float, limit: float) -> None:
        xp = array_namespace(X)
        self.wide, self.penalty = X.shape[0] < X.shape[1], penalty
        self.far = FarEntries(X.T if self.wide else X, largest, limit)
        data = self.data = self.far.data
        self.weighty = _weighty(data)
        self.step = math.prod(self.weighty(data).shape) / (4 * float(xp.sum(xp.abs(data))))
        self.shrink = Shrink(int(data.shape[1]), LARGEST_TURN)
        memory = earlier_steps(data.shape[0] * data.shape[1])
        self.iterate = steps(data, penalty / self.step, memory)
        self.aim = _Aim(data.shape[0])
        self.iterations = 0

    def advance(self) -> None:
        """Make one iteration."""
        self.A, self.R = self.shrink(self.iterate.point(), 1 / self.step)
        self.iterate.advance(self.A, self.R)
        self.iterations += 1

    def judged(self, tol: float, *, exactly: bool) -> _Judged:
        """Return the certificate of now."""
        xp, far = array_namespace(self.data), self.far
        U, E = self.iterate.parts()
        self.missed = self.data - self.A @ self.R.T
        Z = self.step * U
        inside = 1 / _outside(Z, self.penalty)
        dual = float(xp.sum(self.data * Z)) * inside
        # (L, X - L) is feasible too, and the norm of L is known: the dearer norm of X - E is
        # computed only where this one says that it is time.
        errors, norm = self.missed, float(xp.sum(column_norms(self.A)))
        primal = norm + self.penalty * float(xp.sum(xp.abs(errors)))
        if primal - dual <= 2 * tol * primal or exactly:
            errors, norm = E, _nuclear_norm(self.data - E)
            primal = norm + self.penalty * float(xp.sum(xp.abs(errors)))
        whole = primal + self.penalty * far.added_norm(errors)
        gap = max(0.0, whole - dual - inside * far.added_product(Z)) / whole
        return _Judged(E, whole, gap, max(0.0, primal - dual) / primal)

    def adapt(self) -> None:
        """Move the step towards its aim."""
        size = array_namespace(self.data).abs(self.weighty(self.missed))
        factor = self.aim.factor(self.step, _quantile(size, 0.5) / MEDIAN_OF_NOISE)
        if factor != 1 and self.iterations <= CHANGE_UNTIL:
            self.step *= factor
            self.iterate.change(factor)

    def result(self, errors: Array) -> tuple[Array, tuple[Array, Array]]:
        """Return R and (E, A) in the units of X."""
        A, R = _ordered(self.A, self.R)
        self.far.add_to(errors)
        if self.wide:
            A, R, errors = _transposed(A, R, errors)
        return R, (errors * self.far.unit, A * self.far.unit)


def _limits(X: Array) -> tuple[float, float]:
    """Return the size of the largest entry, and how large entries may be in the iteration."""
    xp = array_namespace(X)
    sizes = xp.abs(X)
    largest = float(xp.max(sizes))
    usual = _quantile(sizes, USUAL)
    limit = max(FARTHEST * usual, NOT_BELOW * largest)
    return largest, limit if usual > 0 and limit < largest else largest


def earlier_steps(entries: int) -> int:
    """Return how many steps of that many numbers are kept to be combined."""
    return min(EARLIER_STEPS, EARLIER_BYTES // (16 * entries))


def _weighty(data: Array) -> Callable[[Array], Array]:
    """Return what takes the rows and columns that are not all but nothing beside the largest.

    Of many constant features the median would tell a noise of 0, and the step would grow and grow.
    """
    xp = array_namespace(data)
    sizes = xp.abs(data)
    rows, columns = (xp.max(sizes, axis=axis) > NEGLIGIBLE for axis in (1, 0))
    if bool(xp.all(rows)) and bool(xp.all(columns)):
        return lambda matrix: matrix
    places = (xp.nonzero(rows)[0], xp.nonzero(columns)[0])
    return lambda matrix: xp.take(xp.take(matrix, places[0], axis=0), places[1], axis=1)


class _Aim:
    """Moves the step towards what the noise calls for.

    A step that is far too small is not only doubled: once the noise holds still for the first time,
    the step leaps. A second leap could follow a noise that falls only because the step has grown,
    as where the low-rank part takes all of the noise, and would have no end.
    """

    def __init__(self, longer_side: int) -> None:
        self.aim = min(NOISE_TIMES_STEP, longer_side**-0.5)
        self.noise = 0.0
        self.may_leap = True

    def factor(self, step: float, noise: float) -> float:
        """Return the factor on the step, given the noise of now."""
        last, self.noise = self.noise, noise
        ratio = step * noise / self.aim
        if ratio > CHANGE:
            return 1 / CHANGE
        if ratio >= 1 / CHANGE or noise <= SETTLED * last:
            return 1.0
        if self.may_leap and last > 0 and noise > STEADY * last:
            self.may_leap = False
            return min(LEAP, 1 / ratio)
        return CHANGE


def _ordered(A: Array, R: Array) -> tuple[Array, Array]:
    """Return the factors of A Rᵀ with orthogonal columns in A, the longest first."""
    xp = array_namespace(A)
    if A.shape[1] == 0:
        return A, R
    left, lengths, turn = xp.linalg.svd(A, full_matrices=False)
    return left * lengths, R @ turn.T


def _transposed(A: Array, R: Array, E: Array) -> tuple[Array, Array, Array]:
    """Return the factors of the transpose; the columns of A are orthogonal."""
    norms = column_norms(A)
    return R * norms, A / norms, array_namespace(E).asarray(E.T, copy=True)


def _outside(Z: Array, penalty: float) -> float:
    """Return what a dual point has to be divided by."""
    xp = array_namespace(Z)
    largest = float(xp.linalg.eigvalsh(Z.T @ Z)[-1])
    return max(1.0, max(largest, 0.0) ** 0.5, float(xp.max(xp.abs(Z))) / penalty)


def _nuclear_norm(matrix: Array) -> float:
    xp = array_namespace(matrix)
    return float(xp.sum(xp.linalg.svdvals(matrix)))


def _quantile(matrix: Array, share: float) -> float:
    """Return the number that a share of the entries of some rows are below."""
    xp = array_namespace(matrix)
    flat = xp.reshape(matrix[:: max(1, matrix.shape[0] // SAMPLED_ROWS)], (-1,))
    place = int(share * flat.shape[0])
    if type(flat) is np.ndarray:
        return float(np.partition(flat, place)[place])  # an eighth of the time of sorting
    return float(xp.sort(flat)[place])
