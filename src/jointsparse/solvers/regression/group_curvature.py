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

from jointsparse.arrays import Array
from jointsparse.linalg import (
    add_to_diagonal,
    array_namespace,
    cholesky,
    column_products,
    diagonal,
    inner_product,
    inverse_by_eigenpairs,
    inverse_of_positive,
    length,
    solve_lower,
)
from jointsparse.solvers.products.gram import Gram

JITTER = 1e-14  # of the largest variance: keeps a singular S positive where λ is next to nothing
WIDE = 1.5  # features for each sample: above, the samples are the shorter way
STEEP = 1e7  # of the largest variance over h: above, too many digits would cancel on that way


class ShiftedInverse(Protocol):
    """M⁻¹."""

    def times(self, matrix: Array) -> Array:
        """Return M⁻¹ @ matrix."""

    def bent(self, units: Array) -> Array:
        """Return diag(1/h) - M⁻¹ ∘ UUᵀ for rows of U that have length 1."""


class Curvature(Protocol):
    """S on some features."""

    @property
    def diagonal(self) -> Array:
        """Diagonal of S."""

    @property
    def bound(self) -> float:
        """The Frobenius norm: not below the largest eigenvalue, and cheap."""

    def times(self, matrix: Array) -> Array:
        """Return S @ matrix."""

    def energy(self, matrix: Array) -> float:
        """Return ⟨A, S A⟩."""

    def only(self, used: Array) -> Curvature:
        """Return S on some of the features."""

    def shifted_inverse(self, heights: Array) -> ShiftedInverse:
        """Return (S + diag(heights))⁻¹."""


def curvature_of(gram: Gram, features: Array) -> Curvature:
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
    samples = gram.samples
    few = samples is not None and features.shape[0] <= WIDE * samples.shape[0]
    root = None if few else gram.root(features)
    return DenseCurvature(gram.block(features)) if root is None else SampleCurvature(root)


class DenseCurvature:
    """S as a matrix."""

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix
        self.diagonal = diagonal(matrix)

    @property
    def bound(self) -> float:
        """The Frobenius norm: not below the largest eigenvalue, and cheap."""
        return length(self.matrix)

    def times(self, matrix: Array) -> Array:
        """Return S @ matrix."""
        return self.matrix @ matrix

    def energy(self, matrix: Array) -> float:
        """Return ⟨A, S A⟩."""
        return inner_product(matrix, self.matrix @ matrix)

    def only(self, used: Array) -> DenseCurvature:
        """Return S on some of the features."""
        return DenseCurvature(self.matrix[used, :][:, used])

    def shifted_inverse(self, heights: Array) -> ShiftedInverse:
        """Return (S + diag(heights))⁻¹."""
        return ExplicitInverse(self.matrix, heights)


class SampleCurvature:
    """S = RᵀR, through R."""

    def __init__(self, root: Array) -> None:
        self.root = root
        self.diagonal = column_products(root, root)

    @property
    def bound(self) -> float:
        """The Frobenius norm: not below the largest eigenvalue, and cheap."""
        return length(self.root @ self.root.T)

    def times(self, matrix: Array) -> Array:
        """Return S @ matrix."""
        return self.root.T @ (self.root @ matrix)

    def energy(self, matrix: Array) -> float:
        """Return ⟨A, S A⟩."""
        image = self.root @ matrix
        return inner_product(image, image)

    def only(self, used: Array) -> Curvature:
        """Return S on some of the features."""
        root = self.root[:, used]
        few = root.shape[1] <= WIDE * root.shape[0]
        return DenseCurvature(root.T @ root) if few else SampleCurvature(root)

    def shifted_inverse(self, heights: Array) -> ShiftedInverse:
        """Return (S + diag(heights))⁻¹."""
        if float(self.diagonal.max()) <= STEEP * float(heights.min()):
            return SampleInverse(self.root, heights)
        return ExplicitInverse(self.root.T @ self.root, heights)


class ExplicitInverse:
    """M⁻¹ as a matrix."""

    def __init__(self, S: Array, heights: Array) -> None:
        self.heights = heights
        xp = array_namespace(S)
        jitter = JITTER * diagonal(S).max()
        M = add_to_diagonal(xp.asarray(S, copy=True), heights + jitter)
        inverse = inverse_of_positive(M)
        if inverse is None:  # S has negative eigenvalues, by rounding
            inverse = inverse_by_eigenpairs(add_to_diagonal(xp.asarray(S, copy=True), heights))
        self.inverse = inverse

    def times(self, matrix: Array) -> Array:
        """Return M⁻¹ @ matrix."""
        return self.inverse @ matrix

    def bent(self, units: Array) -> Array:
        """Return diag(1/h) - M⁻¹ ∘ UUᵀ."""
        return add_to_diagonal(self.inverse * (units @ -units.T), 1 / self.heights)


class SampleInverse:
    """M⁻¹ = D - WᵀW."""

    def __init__(self, root: Array, heights: Array) -> None:
        self.spread = 1 / heights[:, None]
        lengths = self.spread[:, 0] ** 0.5
        scaled = root * lengths
        # A product with its own transpose costs half.
        inner = add_to_diagonal(scaled @ scaled.T, 1.0)
        self.whitened = solve_lower(cholesky(inner), scaled * lengths)

    def times(self, matrix: Array) -> Array:
        """Return M⁻¹ @ matrix."""
        return self.spread * matrix - self.whitened.T @ (self.whitened @ matrix)

    def bent(self, units: Array) -> Array:
        """Return diag(1/h) - M⁻¹ ∘ UUᵀ: the diagonal of UUᵀ is 1, so D goes."""
        result = self.whitened.T @ self.whitened
        result *= units @ units.T
        return result
