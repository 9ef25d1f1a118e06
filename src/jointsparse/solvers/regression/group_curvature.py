r"""The scatter matrix on a working set of the group lasso: products, and the inverse when shifted.

Newton steps need the inverse of M = S + diag(h), h > 0. Of the features in the working set there
may be many more than samples. With S = RᵀR, R of one row for each sample, and D = diag(1/h), the
matrix inversion lemma says

.. math:: M^{-1} = D - W^\top W ,\qquad W = L^{-1} R D ,\qquad LL^\top = I + R D R^\top .

Then S itself is never formed, nothing of its size is inverted, and D - M⁻¹ is known without a
difference.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtrs

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.linalg import inverse_by_eigenpairs, inverse_of_factor
from jointsparse.solvers.products.gram import Gram

JITTER = 1e-14  # of the largest variance: keeps a singular S positive where λ is next to nothing
WIDE = 1.5  # features for each sample: above, the samples are the shorter way
STEEP = 1e7  # of the largest variance over h: above, too many digits would cancel on that way


class ShiftedInverse(Protocol):
    """M⁻¹."""

    def times(self, matrix: FloatArray) -> FloatArray:
        """Return M⁻¹ @ matrix."""

    def bent(self, units: FloatArray) -> FloatArray:
        """Return diag(1/h) - M⁻¹ ∘ UUᵀ for rows of U that have length 1."""


class Curvature(Protocol):
    """S on some features."""

    @property
    def diagonal(self) -> FloatArray:
        """Diagonal of S."""

    @property
    def bound(self) -> float:
        """The Frobenius norm: not below the largest eigenvalue, and cheap."""

    def times(self, matrix: FloatArray) -> FloatArray:
        """Return S @ matrix."""

    def energy(self, matrix: FloatArray) -> float:
        """Return ⟨A, S A⟩."""

    def only(self, used: NDArray[np.bool_]) -> Curvature:
        """Return S on some of the features."""

    def shifted_inverse(self, heights: FloatArray) -> ShiftedInverse:
        """Return (S + diag(heights))⁻¹."""


def curvature_of(gram: Gram, features: IntArray) -> Curvature:
    """Return S on some features, through the samples where those are fewer.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.products.gram import SampleGram
    >>> from jointsparse.solvers.regression.group_curvature import curvature_of
    >>> gram = SampleGram(np.array([[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]]))
    >>> S = curvature_of(gram, np.arange(3))
    >>> inverse = S.shifted_inverse(np.array([1.0, 2.0, 4.0]))
    >>> bool(np.allclose(inverse.times(S.times(np.eye(3)) + np.diag([1.0, 2.0, 4.0])), np.eye(3)))
    True
    """
    root = gram.root(features)
    if root is not None and features.size > WIDE * len(root):
        return SampleCurvature(root)
    return DenseCurvature(gram.block(features))


class DenseCurvature:
    """S as a matrix."""

    def __init__(self, matrix: FloatArray) -> None:
        self.matrix = matrix
        self.diagonal = np.diagonal(matrix)

    @property
    def bound(self) -> float:
        """The Frobenius norm: not below the largest eigenvalue, and cheap."""
        return float(np.linalg.norm(self.matrix))

    def times(self, matrix: FloatArray) -> FloatArray:
        """Return S @ matrix."""
        return self.matrix @ matrix

    def energy(self, matrix: FloatArray) -> float:
        """Return ⟨A, S A⟩."""
        return float(np.vdot(matrix, self.matrix @ matrix))

    def only(self, used: NDArray[np.bool_]) -> DenseCurvature:
        """Return S on some of the features."""
        return DenseCurvature(self.matrix[np.ix_(used, used)])

    def shifted_inverse(self, heights: FloatArray) -> ShiftedInverse:
        """Return (S + diag(heights))⁻¹."""
        return ExplicitInverse(self.matrix, heights)


class SampleCurvature:
    """S = RᵀR, through R."""

    def __init__(self, root: FloatArray) -> None:
        self.root = root
        self.diagonal = np.einsum("ij,ij->j", root, root)

    @property
    def bound(self) -> float:
        """The Frobenius norm: not below the largest eigenvalue, and cheap."""
        return float(np.linalg.norm(self.root @ self.root.T))

    def times(self, matrix: FloatArray) -> FloatArray:
        """Return S @ matrix."""
        return self.root.T @ (self.root @ matrix)

    def energy(self, matrix: FloatArray) -> float:
        """Return ⟨A, S A⟩."""
        image = self.root @ matrix
        return float(np.vdot(image, image))

    def only(self, used: NDArray[np.bool_]) -> Curvature:
        """Return S on some of the features."""
        root = self.root.compress(used, axis=1)
        few = root.shape[1] <= WIDE * len(root)
        return DenseCurvature(root.T @ root) if few else SampleCurvature(root)

    def shifted_inverse(self, heights: FloatArray) -> ShiftedInverse:
        """Return (S + diag(heights))⁻¹."""
        if np.max(self.diagonal) <= STEEP * np.min(heights):
            return SampleInverse(self.root, heights)
        return ExplicitInverse(self.root.T @ self.root, heights)


class ExplicitInverse:
    """M⁻¹ as a matrix."""

    def __init__(self, S: FloatArray, heights: FloatArray) -> None:
        self.heights = heights
        M = S.copy()
        M.flat[:: len(M) + 1] += heights + JITTER * float(np.max(np.diagonal(S)))
        inverse = _inverse(M)
        if inverse is None:  # S has negative eigenvalues, by rounding
            inverse = inverse_by_eigenpairs(S + np.diag(heights))
        self.inverse = inverse

    def times(self, matrix: FloatArray) -> FloatArray:
        """Return M⁻¹ @ matrix."""
        return self.inverse @ matrix

    def bent(self, units: FloatArray) -> FloatArray:
        """Return diag(1/h) - M⁻¹ ∘ UUᵀ."""
        result = self.inverse * (units @ -units.T)
        result.flat[:: len(result) + 1] += 1 / self.heights
        return result


class SampleInverse:
    """M⁻¹ = D - WᵀW."""

    def __init__(self, root: FloatArray, heights: FloatArray) -> None:
        self.spread = 1 / heights[:, None]
        lengths = np.sqrt(self.spread[:, 0])
        scaled = root * lengths
        inner = scaled @ scaled.T  # a product with its own transpose costs half
        inner.flat[:: len(inner) + 1] += 1.0
        factor, _ = dpotrf(inner, lower=True, clean=False)
        self.whitened = dtrtrs(factor, scaled * lengths, lower=1)[0]

    def times(self, matrix: FloatArray) -> FloatArray:
        """Return M⁻¹ @ matrix."""
        return self.spread * matrix - self.whitened.T @ (self.whitened @ matrix)

    def bent(self, units: FloatArray) -> FloatArray:
        """Return diag(1/h) - M⁻¹ ∘ UUᵀ: the diagonal of UUᵀ is 1, so D goes."""
        result = self.whitened.T @ self.whitened
        result *= units @ units.T
        return result


def _inverse(matrix: FloatArray) -> FloatArray | None:
    """Return the inverse of a positive definite matrix, which is overwritten; None for others."""
    factor, failed = dpotrf(matrix.T, lower=True, clean=False, overwrite_a=True)
    return None if failed else inverse_of_factor(factor)
