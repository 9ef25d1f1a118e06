r"""The k features that explain most of a target: the problem, and what a set is worth.

Features are unit columns x_1 … x_p of X̂ (r × p), the target is a positive semidefinite T (r × r)
whose whole trace, also the part no feature reaches, is 1. With P_H the projection on the span of
the columns of a set H,

.. math:: f(H) = \operatorname{tr}(P_H T), \qquad \max_{|H| \le k} f(H) .

Nothing but inner products of the columns matters, so X̂ may be any root of the correlation matrix.

**What a proof is about.** A feature of a set of which the others leave less than ``DETERMINED`` is
not counted in its *value*. Where features must be in, they come first: what they determine adds
nothing to them. A *bound* holds with such features: they are left out of it only where the samples
show that the others determine them to the last digits, ``EXACT``. Inner products cannot show that,
and where they are all that is known such sets are bounded with their node. All values and bounds
are those of the inner products as given, in exact arithmetic; what double precision may have cost
is charged to the bounds. With C the inner products of a set and E what
rounding did to them, f changes by at most

.. math:: |\operatorname{tr}(E\,C^{-1} X_H^\top T X_H C^{-1})| \le \|E\|\,\|T\|\,
          \operatorname{tr} C^{-1} .
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dpstrf

from jointsparse.arrays import FloatArray, IntArray

EPS = float(np.finfo(np.float64).eps)
DETERMINED = 1e-9  # share of a feature below which it does not count beside the others of its set
# Share below which they determine it: the rounding of the entries of a table, and of their QR
# factorisation, leaves some 1e-31 of a feature that is a sum of others.
EXACT = 1e-26


@dataclass(frozen=True)
class SubsetProblem:
    """Unit columns, a target of trace at most 1, and how exact the inner products are.

    Attributes
    ----------
    columns : ndarray of shape (r, p)
        Unit columns; zeros where a feature is constant.
    target : ndarray of shape (r, r)
        Target T.
    accuracy : float
        Largest error of an inner product of two unit columns.
    home : array or None
        An array on the accelerator where the samples are; None where they are on the host.
    rotated : callable or None
        Returns the unit columns in other coordinates, every entry exact to rounding; None where
        only inner products are known, of which the roots of what they lose are what is left.
    """

    columns: FloatArray
    target: FloatArray
    accuracy: float
    home: Any = None
    rotated: Callable[[], FloatArray | None] | None = None

    @property
    def n_features(self) -> int:
        """Number of features p."""
        return int(self.columns.shape[1])

    @cached_property
    def live(self) -> NDArray[np.bool_]:
        """Which features vary."""
        return np.any(self.columns != 0, axis=0)

    @cached_property
    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues of the target, smallest first, and eigenvectors."""
        values, vectors = np.linalg.eigh(self.target)
        return values, vectors

    @cached_property
    def reachable(self) -> float:
        """Trace of the target: what all features together explain."""
        return float(np.trace(self.target))

    @cached_property
    def norm(self) -> float:
        """Largest eigenvalue of the target."""
        return float(max(self.spectrum[0][-1], 0.0)) if self.target.size else 0.0

    @cached_property
    def images(self) -> FloatArray:
        """T X̂."""
        return self.target @ self.columns

    @cached_property
    def gains(self) -> FloatArray:
        """What each feature explains by itself: x_jᵀ T x_j."""
        return np.einsum("ij,ij->j", self.columns, self.images)

    @cached_property
    def rounding(self) -> float:
        """What computing sums of eigenvalues and products of this size may cost, at trace 1.

        The errors of LAPACK's symmetric eigensolvers and of matrix products are modest multiples of
        size · eps · norm; the norm is at most the trace.
        """
        return 8 * sum(self.columns.shape) * EPS

    def determined(
        self, inside: Sequence[int] | IntArray, others: IntArray, after: IntArray | None = None
    ) -> NDArray[np.bool_]:
        """Return which features some others determine, as far as the samples show it.

        Parameters
        ----------
        inside : sequence of int
            Features none of which the others determine.
        others : ndarray of int
            The features in question.
        after : ndarray of int or None
            For each of these one more feature that is in.
        """
        columns = None if self.rotated is None else self.rotated()
        if columns is None or others.size == 0:
            return np.zeros(others.size, dtype=bool)
        basis = np.linalg.qr(columns[:, np.asarray(inside, dtype=np.int64)])[0]

        def left_of(features: IntArray) -> FloatArray:
            left = columns[:, features]
            for _ in range(2):  # so that none of what is in stays
                left = left - basis @ (basis.T @ left)
            return left

        left = left_of(others)
        if after is not None:
            first = left_of(after)
            first = first / np.maximum(np.linalg.norm(first, axis=0), EXACT)
            for _ in range(2):
                left = left - first * np.einsum("ij,ij->j", first, left)
        return np.asarray(np.einsum("ij,ij->j", left, left) <= EXACT)

    def charge(self, inverse_trace: float | FloatArray, size: int) -> float | FloatArray:
        """Return what rounding may have done to f of a set of that size, given tr C⁻¹."""
        return self.rounding + 2 * size * self.accuracy * self.norm * inverse_trace


def root_of_correlations(correlations: FloatArray) -> tuple[FloatArray, float]:
    """Return R with RᵀR = C for a correlation matrix, and the largest error of an entry.

    A pivoted Cholesky factor that ends where the rest is rounding; what it leaves is counted.
    """
    size = len(correlations)
    level = 4 * max(size, 1) * EPS
    factor, pivots, rank, _ = dpstrf(correlations, tol=level, lower=0)
    root = np.zeros((rank, size))
    root[:, pivots - 1] = np.triu(factor)[:rank]
    left = np.diagonal(correlations) - np.einsum("ij,ij->j", root, root)
    return root, float(np.max(np.abs(left), initial=0.0)) + (rank + 1) * EPS


def problem_of_scatter(
    scatter: FloatArray,
    factor: FloatArray | None = None,
    n_samples: int = 1,
    rotated: Callable[[], FloatArray | None] | None = None,
) -> SubsetProblem:
    """Return the problem of a scatter matrix S.

    Parameters
    ----------
    scatter : ndarray of shape (p, p)
        S = XᵀX.
    factor : ndarray of shape (p, q) or None
        The target is the columns of X @ factor; None is all features.
    n_samples : int
        How many samples S was summed over: rounding of such sums grows with the root of that.
    rotated : callable or None
        Returns the unit columns exactly, see :class:`SubsetProblem`.
    """
    lengths = np.sqrt(np.clip(np.diagonal(scatter), 0.0, None))
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    correlations = scatter * inverse[:, None] * inverse
    root, accuracy = root_of_correlations(correlations)
    image = root * lengths if factor is None else root @ (lengths[:, None] * factor)
    return _problem(root, image, accuracy + n_samples**0.5 * EPS, rotated)


def problem_of_outcomes(
    scatter: FloatArray,
    cross: FloatArray,
    squares: FloatArray,
    n_samples: int = 1,
    rotated: Callable[[], FloatArray | None] | None = None,
) -> SubsetProblem:
    """Return the problem of features that shall explain outcomes Y, from sums alone.

    Parameters
    ----------
    scatter : ndarray of shape (p, p)
        XᵀX.
    cross : ndarray of shape (p, q)
        XᵀY.
    squares : ndarray of shape (q, q)
        YᵀY.
    n_samples : int
        How many samples these were summed over.
    rotated : callable or None
        Returns the unit columns exactly, see :class:`SubsetProblem`.
    """
    count = len(scatter)
    both = np.block([[scatter, cross], [cross.T, squares]])
    factor = np.eye(len(both))[:, count:]
    problem = problem_of_scatter(both, factor, n_samples)
    columns = problem.columns[:, :count]
    return SubsetProblem(columns, problem.target, problem.accuracy, rotated=rotated)


def problem_of_columns(columns: FloatArray, target: FloatArray | None = None) -> SubsetProblem:
    """Return the problem of centred samples with fewer rows than columns.

    Parameters
    ----------
    columns : ndarray of shape (n, p)
        The features.
    target : ndarray of shape (n, q) or None
        What is to be explained, column by column; None is the features themselves.
    """
    largest = np.max(np.abs(columns), axis=0, initial=0.0)
    scaled = columns / np.where(largest > 0, largest, 1.0)  # squares of any scale
    lengths = np.sqrt(np.einsum("ij,ij->j", scaled, scaled))
    unit = scaled / np.where(lengths > 0, lengths, 1.0)
    image = columns if target is None else target
    return _problem(unit, image, (len(columns) + 1) * EPS, partial(np.asarray, unit))


def _problem(
    unit: FloatArray,
    image: FloatArray,
    accuracy: float,
    rotated: Callable[[], FloatArray | None] | None,
) -> SubsetProblem:
    """Return the problem with the target image·imageᵀ, divided by its total."""
    largest = float(np.max(np.abs(image), initial=0.0)) or 1.0
    image = image / largest
    squares = float(np.sum(image**2)) or 1.0
    return SubsetProblem(unit, image @ image.T / squares, accuracy, rotated=rotated)


@dataclass(frozen=True)
class Span:
    """The span of some features.

    Attributes
    ----------
    basis : ndarray of shape (r, rank)
        Orthonormal columns.
    kept : ndarray of int
        Places of the features that span it; the others are determined by them.
    inverse_trace : float
        tr C⁻¹ of those.
    """

    basis: FloatArray
    kept: IntArray
    inverse_trace: float


def span_of(problem: SubsetProblem, features: Sequence[int] | IntArray) -> Span:
    """Return the span of some features; those that others determine are left out."""
    chosen = problem.columns[:, np.asarray(features, dtype=np.int64)]
    basis, triangle, order = orthonormal_basis(chosen)
    inverse = np.linalg.inv(triangle)
    return Span(basis, order, float(np.sum(inverse**2)))


def orthonormal_basis(columns: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return a basis of the span of columns of at most unit length, a triangle and its columns.

    What others leave less than ``DETERMINED`` of is left out.
    """
    if columns.size == 0:
        return np.zeros((len(columns), 0)), np.zeros((0, 0)), np.zeros(0, dtype=np.int64)
    basis, triangle, order = qr(columns, mode="economic", pivoting=True, check_finite=False)
    rank = int(np.sum(np.diagonal(triangle) ** 2 > DETERMINED))
    return basis[:, :rank], triangle[:rank, :rank], order[:rank].astype(np.int64)


def independent(problem: SubsetProblem, features: Sequence[int]) -> tuple[int, ...]:
    """Return the features that those before them do not determine."""
    basis = np.zeros((len(problem.columns), 0))
    kept = []
    for feature in features:
        left = problem.columns[:, feature]
        for _ in range(2):  # so that none of the others stays
            left = left - basis @ (basis.T @ left)
        squares = float(left @ left)
        if squares > DETERMINED:
            kept.append(feature)
            basis = np.column_stack([basis, left / squares**0.5])
    return tuple(kept)


def inverse_traces(problem: SubsetProblem, features: IntArray) -> FloatArray | None:
    """Return the diagonal of C⁻¹: 1 / what all the others leave of each feature.

    None where some of them determine others, or nearly so.
    """
    if features.size > len(problem.columns):
        return None
    triangle = np.linalg.qr(problem.columns[:, features], mode="r")
    if np.min(np.diagonal(triangle) ** 2, initial=1.0) < DETERMINED:
        return None
    inverse = solve_triangular(triangle, np.eye(features.size))
    traces: FloatArray = np.einsum("ij,ij->i", inverse, inverse)
    return traces if np.max(traces, initial=0.0) * DETERMINED < 0.5 else None


def set_value(problem: SubsetProblem, features: Sequence[int] | IntArray) -> float:
    """Return f of a set: the share of the target that it explains."""
    basis = span_of(problem, features).basis
    value = float(np.einsum("ij,ij->", basis, problem.target @ basis))
    return min(max(value, 0.0), 1.0)  # rounding
