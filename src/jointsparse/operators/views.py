r"""Weighted samples where they are known through products: sparse, in a file or on a cluster.

With s the weights divided by their sum, m = Xᵀs and T = diag(√w)(I - 1sᵀ), the rows
:math:`\sqrt{w_i}(x_i-m)` are TX, so that everything asked of them is a product with X, and their
Gram matrix is T(XXᵀ)Tᵀ.
"""

from __future__ import annotations

from typing import Any

from jointsparse.arrays import Array
from jointsparse.device import like
from jointsparse.linalg import array_namespace, double, positive_part
from jointsparse.operators.dense import DenseSamples
from jointsparse.operators.samples import Samples, reweighted_gram


class Reweighted(Samples):
    """The rows √w_i (x_i - m) of other samples.

    Parameters
    ----------
    source : Samples
        X, centred.
    weights : array of shape (n_samples,)
        w.
    mean : array of shape (n_features,) or None
        m, the weighted mean; None stands for zero.
    """

    def __init__(self, source: Samples, weights: Array, mean: Array | None = None) -> None:
        xp = array_namespace(weights)
        self.source, self.weights, self.mean = source, weights, mean
        self.roots, self.share = xp.sqrt(weights), weights / xp.sum(weights)
        self.shape, self.empty, self.dtype = source.shape, source.empty, source.empty.dtype
        self.home, self.is_sparse = source.home, source.is_sparse

    def times(self, columns: Array) -> Array:
        """Return TXU."""
        image = self.source.times(columns)
        if self.mean is not None:
            image = image - self.share @ image
        return image * self.roots[:, None]

    def transposed_times(self, rows: Array) -> Array:
        """Return (TX)ᵀV."""
        return self.source.transposed_times(self._back(rows))

    def combined(self, weights: Any) -> Array:
        """Return WTX."""
        return self.source.combined(self._back(weights.T).T)

    def _back(self, rows: Array) -> Array:
        """Return TᵀV."""
        scaled = rows * self.roots[:, None]
        if self.mean is None:
            return scaled
        return scaled - self.share[:, None] * self.xp.sum(scaled, axis=0)

    def squared_lengths(self, rows: Array | None = None) -> Array:
        """Return ‖Vᵀ(TX)_j‖² for every feature."""
        if rows is not None:
            return self.source.squared_lengths(self._back(rows))
        return self.weighted_squares(array_namespace(self.weights).ones_like(self.weights))

    def weighted_squares(self, weights: Array) -> Array:
        """Return the weighted sum of squares of every feature."""
        inner = weights * self.weights
        squares = self.source.weighted_squares(inner)
        if self.mean is None:
            return squares
        mixed = self.source.transposed_times(inner[:, None])[:, 0]
        return positive_part(squares - self.mean * (2 * mixed - self.xp.sum(inner) * self.mean))

    def row_squares(self) -> Array:
        """Return the squared length of every row."""
        squares = self.source.row_squares()
        if self.mean is not None:
            image = self.source.times(self.mean[:, None])[:, 0]
            squares = positive_part(squares - 2 * image + float(self.mean @ self.mean))
        return squares * self.weights

    def size(self) -> float:
        """Return the largest absolute value of an entry."""
        return DenseSamples(self.take(slice(None))).size()

    def powers(self) -> tuple[Array, Array]:
        """Return Σ_j x_ij² for every sample, and Σ_i x_ij⁴ for every feature."""
        return DenseSamples(self.take(slice(None))).powers()

    def _gram(self) -> Array:
        about_mean = self.mean is not None
        return reweighted_gram(self.source.gram(), self.weights, about_mean=about_mean)

    def scatter(self, weights: Array | None = None) -> Array:
        """Return Σ_i v_i y_i y_iᵀ of these rows."""
        total = self.weights if weights is None else self.weights * weights
        scatter = self.source.scatter(total)
        if self.mean is None:
            return scatter
        mixed = self.source.transposed_times(total[:, None]) * self.mean
        square = self.mean[:, None] * self.mean * self.xp.sum(total)
        return scatter - mixed - mixed.T + square

    def take(self, features: Any) -> Array:
        """Return few columns as an array in float64."""
        block = self.source.take(features)
        if self.mean is not None:
            here = features if isinstance(features, slice) else like(features, self.mean)
            block = block - self.mean[here]
        return block * self.roots[:, None]

    def rows(self, part: Any) -> Array:
        """Return some of these rows as an array in float64."""
        block = self.source.rows(part)
        if self.mean is not None:
            block = block - self.mean
        return block * self.roots[part][:, None]

    def columns(self, chosen: Array) -> Samples:
        """Return the rows of some features."""
        if bool(array_namespace(chosen).all(chosen)):
            return self
        mean = None if self.mean is None else self.mean[chosen]
        return self.source.columns(chosen).reweighted(self.weights, mean)

    def scaled(self, factors: Array) -> Samples:
        """Return the rows of features multiplied by factors."""
        mean = None if self.mean is None else self.mean * factors
        return self.source.scaled(factors).reweighted(self.weights, mean)

    def dense(self) -> Array:
        """Return the rows as an array."""
        rows = double(self.source.dense())
        if self.mean is not None:
            rows = rows - self.mean
        return self.xp.astype(rows * self.roots[:, None], self.dtype, copy=False)
