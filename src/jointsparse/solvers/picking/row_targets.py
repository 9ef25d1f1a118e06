"""What the greedy kernel is to explain, and products with the rows of the features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import is_device_array, like
from jointsparse.linalg import blocks
from jointsparse.solvers.products.columns import Columns

# Either XAᵀ itself (m × q), or what turns a block of rows of X (k × p) into rows of it (k × q).
Target = Array | Callable[[Array], Array]

BLOCK_ENTRIES = 2**21  # entries of a block converted to float64: 16 MB


def row_gram(columns: Columns, off: Callable[[Array], Array] = lambda block: block) -> Array:
    """Return XXᵀ, with something taken off the columns first."""
    if columns.samples.is_elsewhere:
        return off(off(columns.gram()).T)
    parts = (off(columns.take(part)) for part in blocks(columns.n_features))
    return sum(block @ block.T for block in parts)


def row_axes(columns: Columns, smallest: float, count: int | None = None) -> tuple[Array, Array]:
    """Return eigenvalues of XXᵀ, largest first, above a share of the largest; and eigenvectors.

    At least ``count`` of them, where no more are needed; all by default.
    """
    values, axes = columns.leading_axes(count)
    large = values > smallest * values[0]
    return values[large], axes[:, large]


@dataclass(frozen=True)
class Projection:
    """The target X @ loadings: the scores of components."""

    loadings: Array

    def __call__(self, rows: Array) -> Array:
        """Return the scores of a block of rows."""
        small = self.loadings
        return rows @ (small if is_device_array(small) else like(small, rows))


def row_products(columns: Columns, transform: Callable[[Array], Array]) -> Array:
    """Apply something to all rows of X, block by block; one product where that is all it takes."""
    if isinstance(transform, Projection) and not columns.samples.is_array:
        return columns.times(transform.loadings)
    step = max(1, BLOCK_ENTRIES // columns.n_features)
    starts = range(0, columns.n_rows, step)
    return columns.xp.concat([transform(columns.rows(slice(k, k + step))) for k in starts])


class ImplicitKernel:
    """The kernel K = F Fᵀ of the greedy target through products: nothing is m × m.

    Parameters
    ----------
    columns : Columns
        The features, sparse.
    factor : ndarray of shape (m, q) or None
        F; None is F = X.
    unit : float
        What K is divided by.
    """

    def __init__(
        self, columns: Columns, factor: FloatArray | None = None, unit: float = 1.0
    ) -> None:
        self.columns, self.factor, self.unit = columns, factor, unit

    def __matmul__(self, vectors: FloatArray) -> FloatArray:
        if self.factor is not None:
            return np.asarray(self.factor @ (self.factor.T @ vectors)) / self.unit
        return np.asarray(self.columns.squared(vectors)) / self.unit

    def forms(self) -> FloatArray:
        """Return x_jᵀKx_j for every feature."""
        if self.factor is None:
            lengths = self.columns.samples.scatter_lengths()
            return np.asarray(lengths) * self.columns.scale**4 / self.unit
        images = self.columns.inner(self.factor, slice(None))
        return np.asarray(np.sum(images**2, axis=0)) / self.unit
