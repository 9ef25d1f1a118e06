r"""The lowest eigenpairs of K = A + diag(w) where many weights are so large that features are out.

With i the light features and o the heavy ones, of weights D, let K₀ be K with :math:`A_{oo}`
replaced by a, which no eigenvalue of A is below. What is left of K₀ where the heavy features are
eliminated at a number σ below D + a,

.. math:: S = A_{ii} + W_i - A_{io}(D + a - \sigma)^{-1}A_{oi} ,

has as many eigenvalues below σ as K₀ (Sylvester's law of inertia), and none of these is above that
of K₀, as S falls with σ. As :math:`K_0\preceq K`, an eigenvalue of K is not below the one of S, or
not below σ. The eigenvectors u of S, lifted to :math:`(u, -(D+a-\sigma)^{-1}A_{oi}u)`, are nearly
those of K. Rayleigh-Ritz finds what is missing, on a basis that is extended by the inverse of the
same elimination times the residuals: a product with A in every step, and one or two do. Ritz values
are not below the eigenvalues; so none of these is missed where Ritz value m is below what bounds
eigenvalue m + 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv, dpotrf, dtrtrs

from jointsparse.arrays import FloatArray
from jointsparse.eigen.orthonormal import orthonormal_rows
from jointsparse.linalg import add_to_diagonal, eigh, lowest_eigenpairs, symmetric_part

# Times the norm of A: from there on a feature is heavy; or from a tenth of the largest weight on,
# where that is less, but still above the norm. With 1 there are half as many steps again, with 100
# large tables have no heavy features (factors and noise, 300 by 150 to 2000 by 1000 numbers).
FAR = 10.0
LARGEST_SHARE = 0.6  # of the features: with more light ones little is saved
ACCURATE = 1e-10  # angle between a wanted vector and the wanted space: residual over distance …
ROUNDING = 4 * float(np.finfo(np.float64).eps)  # … but for this share of norm and eigenvalues
MOST_STEPS = 8  # extensions of the basis; more take longer than one decomposition


class RitzElimination:
    """The lowest eigenpairs of A + diag(w), for one w after another.

    Parameters
    ----------
    matrix : ndarray of shape (n_features, n_features)
        A, symmetric.
    least : float
        A number that none of its eigenvalues is below.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.graph.ritz_elimination import RitzElimination
    >>> A = np.cov(np.random.default_rng(0).standard_normal((5, 40)))
    >>> weights = np.array([1.0, 2.0, 3.0, 1e6, 1e6])
    >>> values, _ = RitzElimination(A, 0.0).lowest(weights, 1, 2, 4.0)
    >>> bool(np.allclose(values, np.linalg.eigvalsh(A + np.diag(weights))[:2], rtol=1e-12))
    True
    """

    def __init__(self, matrix: FloatArray, least: float) -> None:
        self.matrix, self.least = matrix, least
        self.norm = float(np.linalg.norm(matrix))
        self._heavy: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self._light = np.zeros(0, dtype=np.int64)
        self._rows = self._own = self._missed = matrix[:0]

    def lowest(
        self, weights: FloatArray, count: int, width: int, shift: float
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return eigenpairs, the first ``count`` accurate; None where it would not do.

        They are ``width``, or as many as there are light features. ``shift`` is σ, which should be
        above eigenvalue ``count``.
        """
        far = weights + (self.least - shift)
        heavy = far >= max(self.norm, min(FAR * self.norm, float(far.max()) / FAR))
        n_light = weights.size - int(np.count_nonzero(heavy))
        if not count < n_light <= LARGEST_SHARE * weights.size:
            return None
        width = min(width, n_light)
        self._divide(heavy)
        reduced = _Reduced(self._rows, self._own, self._light, weights, far, heavy, width)
        basis = orthonormal_rows(reduced.lifted(reduced.axes.T))
        if basis is None:
            return None
        # What was missing for the weights before is most of what is missing for these.
        if self._missed.any():
            more = _outside(basis, self._missed)
            basis = basis if more is None else np.concatenate([basis, more])
        images = basis @ self.matrix + basis * weights
        below = float(2 * reduced.values[0] - reduced.values[-1])
        for _ in range(MOST_STEPS):
            pairs = _graded(basis @ images.T, below, width)
            if pairs is None:
                return None
            values, turn = pairs
            vectors = turn @ basis
            residuals = turn[:count] @ images - values[:count, None] * vectors[:count]
            # An error of a feature is its residual over its weight, where that is large.
            scale = self.norm + float(abs(values[0]) + abs(values[-1]))
            errors = residuals * (scale / (scale + weights))
            allowed = ACCURATE * (values[count] - values[:count]) + ROUNDING * scale
            late = np.vecdot(errors, errors) > allowed**2
            if not late.any():
                self._missed = turn[:count, width:] @ basis[width:]
                bound = min(float(reduced.values[count]), shift)
                return (values, vectors.T) if values[count - 1] < bound else None
            more = _outside(basis, reduced.solved(residuals[late], count))
            if more is None:
                return None
            basis = np.concatenate([basis, more])
            images = np.concatenate([images, more @ self.matrix + more * weights])
        return None

    def _divide(self, heavy: NDArray[np.bool_]) -> None:
        """Have the rows of A that belong to light features."""
        if not np.array_equal(heavy, self._heavy):
            self._heavy, self._light = heavy, np.flatnonzero(~heavy)
            self._rows = self.matrix[self._light]
            self._own = self._rows[:, self._light]


class _Reduced:
    """K₀ without its heavy features, and what follows of vectors of the light ones, in rows."""

    def __init__(
        self,
        rows: FloatArray,
        own: FloatArray,
        light: NDArray[np.int64],
        weights: FloatArray,
        far: FloatArray,
        heavy: NDArray[np.bool_],
        width: int,
    ) -> None:
        self.light = light
        self.inverse = np.where(heavy, 1 / np.where(heavy, far, 1.0), 0.0)
        self.scaled = rows * self.inverse
        self.matrix = add_to_diagonal(symmetric_part(own - self.scaled @ rows.T), weights[light])
        values, axes = lowest_eigenpairs(self.matrix, width)
        self.values, self.axes = values[:width], axes[:, :width]

    def lifted(self, rows: FloatArray) -> FloatArray:
        """Return vectors of all features that K₀ - σ takes to such of light ones."""
        found = -rows @ self.scaled
        found[:, self.light] = rows
        return found

    def solved(self, residuals: FloatArray, count: int) -> FloatArray:
        """Return about (K - θ)⁻¹ times the residuals, with θ in the middle of those wanted.

        The lowest eigenvectors of S have eigenvalues on both sides of it, and are in the basis
        already: moved up, they leave a matrix that is positive definite.
        """
        middle = float(self.values[0] + self.values[count - 1]) / 2
        up = 2 * float(self.values[-1] - self.values[0])
        system = add_to_diagonal(self.matrix + (up * self.axes) @ self.axes.T, -middle)
        right = residuals[:, self.light] - residuals @ self.scaled.T
        solution = dposv(system, right.T, overwrite_a=1)[1]
        return self.lifted(solution.T) + residuals * self.inverse


def _graded(inner: FloatArray, below: float, count: int) -> tuple[FloatArray, FloatArray] | None:
    """Return the lowest eigenvalues of a small matrix, and the eigenvectors in rows.

    Directions of heavy features have large entries in it, the rounding of which would be that of
    the lowest eigenvalues. Those of the inverse have theirs: of the matrix less a number ``below``
    all of them, with its diagonal brought to 1.
    """
    lowered = add_to_diagonal(inner, -below)
    root = 1 / np.sqrt(lowered.diagonal())
    factor, failed = dpotrf((lowered * root * root[:, None]).T, lower=1)
    if failed:
        return None
    half = dtrtrs(factor, np.diag(root), lower=1)[0]
    found, turn = eigh(half @ half.T)
    found, turn = found[::-1][:count], turn[:, ::-1][:, :count]
    return below + 1 / found, (turn / np.sqrt(found)).T @ half


def _outside(basis: FloatArray, more: FloatArray) -> FloatArray | None:
    """Return orthonormal rows of what is outside the basis; None where they depend."""
    for _ in range(2):  # the second time for what rounding left
        more = more / np.sqrt(np.vecdot(more, more))[:, None]
        more = more - (more @ basis.T) @ basis
    return orthonormal_rows(more)
