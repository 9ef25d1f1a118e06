r"""An upper bound on what any k features can reach, rounding included.

.. math:: \max_v\ v^\top S v\quad\text{with } \|v\|_2 = 1,\ \|v\|_0\le k

**Certificate.** Let U be symmetric and B ≥ 0, both with zero diagonals, with
:math:`B_{ij}B_{ji}\ge U_{ij}^2`, and let :math:`t_i` be the sum of the k - 1 largest entries of row
i of B. Then every unit v with at most k nonzeros has

.. math:: v^\top S v \le \lambda_{\max}(S - U + \operatorname{diag} t).

*Proof.* Let H be the support. :math:`v^\top Uv \le \sum_{i<j} 2\sqrt{B_{ij}B_{ji}}\,|v_iv_j|
\le \sum_{i<j} (B_{ij}v_i^2 + B_{ji}v_j^2) = \sum_i v_i^2\sum_{j\in H\setminus i} B_{ij}
\le \sum_i v_i^2t_i`; add :math:`v^\top(S-U)v`. ∎ S need not be positive semidefinite.

Where v ≥ 0, :math:`U_{ij}<0` only lowers :math:`v^\top Uv`, and :math:`B_{ij}B_{ji}\ge
\max(U_{ij},0)^2` is enough. Where the support must hold the features of a set I, the sum
:math:`t_i` is that of :math:`B_{ij}` over j ∈ I and of the largest others.

**Rounding.** Nothing is taken on trust: B is raised by more than the rounding of S - U, the sums by
more than their own, and the eigenvalue is checked by a Cholesky factorisation. If that of a
symmetric A of order p runs to its end in floating point, then
:math:`\lambda_{\min}(A)\ge -\gamma/(1-\gamma)\operatorname{tr}A` with
:math:`\gamma = (p+1)u/(1-(p+1)u)` in any order of the sums (Higham, Accuracy and Stability of
Numerical Algorithms, theorems 10.3 and 10.5). Matrices are in a unit in which their largest entry
is near 1, so that underflow is below what is charged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf

from jointsparse.arrays import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

UNIT = float(np.finfo(np.float64).eps) / 2  # u, the rounding of one operation
SAFETY = 2.0  # times γ: BLAS may multiply by a rounded reciprocal where the theorem divides
UNDERFLOW = 1e-250  # above the sum of all that can underflow where entries are near 1


@dataclass(frozen=True)
class Certificate:
    """S - U + diag t, and from what it was made: enough to bound smaller problems too.

    Attributes
    ----------
    matrix : ndarray of shape (p, p)
        S - U with the diagonal of S.
    weights : ndarray of shape (p, p)
        B, raised by rounding; its diagonal is zero.
    k : int
        Number of nonzeros allowed.
    included : ndarray of bool, shape (p,)
        Features that must be in the support.
    """

    matrix: FloatArray
    weights: FloatArray
    k: int
    included: BoolArray

    @cached_property
    def rows(self) -> RowSums:
        """The sums t, for this problem and for those with one feature more or less."""
        return RowSums(self.weights, self.k, self.included)

    def bounded(self, sums: FloatArray) -> FloatArray:
        """Return S - U + diag t, rounded upwards, for the features that some support holds."""
        possible = np.isfinite(sums)
        if possible.all():
            matrix = self.matrix.copy()
        else:
            matrix, sums = self.matrix[np.ix_(possible, possible)], sums[possible]
        diagonal = np.diagonal(matrix) + sums
        # 8u: one addition, and the roundings made here.
        diagonal += 8 * UNIT * (np.abs(np.diagonal(matrix)) + np.abs(sums))
        matrix.flat[:: len(matrix) + 1] = diagonal
        return matrix

    @cached_property
    def value(self) -> float:
        """The bound."""
        return upper_eigenvalue(self.bounded(self.rows.total))


class RowSums:
    """The largest sums of rows of B over supports that hold what is included.

    Parameters
    ----------
    weights : ndarray of shape (m, p)
        Rows of B.
    k : int
        Number of features in a support.
    included : ndarray of bool, shape (p,)
        Features that are in every support.
    own : ndarray of shape (m,) or None
        Which feature each row belongs to; None: the first row to the first, and so on.

    Attributes
    ----------
    total : ndarray of shape (m,)
        t; minus infinity where no support holds the feature.
    """

    def __init__(
        self, weights: FloatArray, k: int, included: BoolArray, own: IntArray | None = None
    ) -> None:
        m, p = weights.shape
        self.own = np.arange(m) if own is None else own
        itself = np.arange(m), self.own
        self.weights = weights = weights.copy()
        weights[itself] = 0.0
        n_included = np.count_nonzero(included)
        beside = included[
            self.own
        ]  # those included have one place more, and one to compete with less
        self.free = k - 1 - n_included + beside
        rest = np.where(included, -1.0, weights)
        rest[itself] = -1.0  # a feature is not beside itself
        self.total = np.where(self.free >= 0, weights @ included, -np.inf)
        self.least = np.full(m, np.inf)  # the smallest term that another may replace
        self.next = np.zeros(m)  # the largest entry that is no term
        for free in np.unique(self.free[self.free >= 0]):
            rows = np.flatnonzero(self.free == free)
            available = p - 1 - n_included + beside[rows[0]]
            self._add_largest(rest[rows], rows, int(min(free, available)))
        # More than the rounding of a sum of k terms, and of one term exchanged.
        self.charge = 4 * (k + 4) * UNIT
        self.total += self.charge * np.maximum(self.total, 0.0)

    def _add_largest(self, rest: FloatArray, rows: IntArray, count: int) -> None:
        p = rest.shape[1]
        if count == 0:
            self.next[rows] = np.maximum(rest.max(axis=1), 0.0)
            return
        cut = p - count
        ordered = np.partition(rest, [max(cut - 1, 0), cut], axis=1)
        self.total[rows] += ordered[:, cut:].sum(axis=1)
        self.least[rows] = ordered[:, cut]
        self.next[rows] = np.maximum(ordered[:, cut - 1], 0.0) if cut else 0.0

    def with_feature(self, j: int) -> FloatArray:
        """Return t for supports that hold feature j too."""
        return self.with_each(np.array([j]))[:, 0]

    def with_each(self, features: IntArray) -> FloatArray:
        """Return t for supports that hold one more feature: a column for each."""
        entries = self.weights[:, features]
        least = np.where(np.isfinite(self.least), self.least, 0.0)
        base = self.total - least * (1 - self.charge)
        sums = base[:, None] + entries * (1 + self.charge)
        np.minimum(sums, self.total[:, None], out=sums)  # a forced term raises no sum
        sums[self.free <= 0] = -np.inf  # no place for another
        rows, columns = np.nonzero(self.own[:, None] == features)
        sums[rows, columns] = self.total[rows]
        return sums

    def without_feature(self, j: int) -> FloatArray:
        """Return t for supports that do not hold feature j."""
        entry = self.weights[:, j]
        swapped = self.total - entry * (1 - self.charge) + self.next * (1 + self.charge)
        sums = np.where(entry >= self.least, swapped, self.total)
        sums[self.own == j] = -np.inf
        return sums


def certificate(
    S: FloatArray,
    U: FloatArray,
    B: FloatArray,
    k: int,
    included: BoolArray,
    *,
    nonnegative: bool = False,
) -> Certificate:
    """Return a certificate made of any U and B: what does not fit is made to fit.

    Parameters
    ----------
    S : ndarray of shape (p, p)
        Symmetric to the digit, with its largest entry near 1.
    U, B : ndarray of shape (p, p)
        The parts of the certificate; U is cut to what B allows.
    k : int
        Number of nonzeros allowed.
    included : ndarray of bool, shape (p,)
        Features that must be in the support.
    nonnegative : bool
        Whether only v ≥ 0 are meant.
    """
    roots = np.sqrt(np.maximum(B, 0.0))
    allowed = roots * roots.T
    U = np.minimum((U + U.T) / 2, allowed)
    if not nonnegative:
        U = np.maximum(U, -allowed)
    matrix = S - U
    matrix.flat[:: len(S) + 1] = np.diagonal(S)
    # What was taken off is S - matrix, at most allowed·(1 + 4u) + u|matrix| (one-sided for v >= 0);
    # (b + a)(c + a) >= (√(bc) + a)² covers the second term, the factor the first.
    weights = (roots * roots + 4 * UNIT * np.abs(matrix)) * (1 + 16 * UNIT)
    weights.flat[:: len(S) + 1] = 0.0
    return Certificate(matrix, weights, k, included)


def upper_eigenvalue(matrix: FloatArray) -> float:
    """Return a proved upper bound on the largest eigenvalue, a little above it."""
    if len(matrix) == 0:
        return -np.inf
    if not np.isfinite(matrix).all():
        return np.inf
    largest = float(np.linalg.eigvalsh(matrix)[-1])
    size = max(float(np.max(np.abs(matrix))), abs(largest))
    slack = 4 * len(matrix) * UNIT * size + UNDERFLOW
    while not (bound := _proved_below(matrix, largest + slack)):
        slack *= 4
    return bound[0]


def is_below(matrix: FloatArray, level: float) -> bool:
    """Whether all eigenvalues are proved to be at most ``level``."""
    if len(matrix) == 0:
        return True
    if not np.isfinite(matrix).all():
        return False
    shift = level - _charge(matrix, level)
    bound = _proved_below(matrix, shift)
    return bool(bound) and bound[0] <= level


def _proved_below(matrix: FloatArray, shift: float) -> tuple[float, ...]:
    """Return a bound on the eigenvalues a little above ``shift``, if that holds; else nothing."""
    shifted = -matrix
    diagonal = shift - np.diagonal(matrix)
    if diagonal.min() <= 0:
        return ()
    shifted.flat[:: len(matrix) + 1] = diagonal
    if dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)[1] != 0:
        return ()
    return (shift + _charge(matrix, shift),)


def _charge(matrix: FloatArray, shift: float) -> float:
    """Return what rounding may hide: of the factorisation, of the shift and of this sum."""
    p = len(matrix)
    diagonal = np.abs(np.diagonal(matrix))
    trace = p * abs(shift) + float(diagonal.sum())
    rounded = 4 * UNIT * (abs(shift) + float(diagonal.max()))
    return SAFETY * 2 * (p + 2) * UNIT * trace + rounded + UNDERFLOW
