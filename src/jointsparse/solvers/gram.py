"""The scatter matrix as the regression kernels use it: through itself, or through the samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jointsparse.linalg import Spectrum
from jointsparse.moments import Moments

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Gram:
    """Scatter matrix divided by its trace, kept as a p × p array."""

    def __init__(self, scatter: FloatArray) -> None:
        self.trace = float(np.trace(scatter))
        self.scatter = scatter / self.trace
        self.diagonal = np.diagonal(self.scatter)

    def apply(self, matrix: FloatArray) -> FloatArray:
        """Return S @ matrix."""
        return self.scatter @ matrix

    def columns(self, features: IntArray) -> FloatArray:
        """Return S[:, features]."""
        return self.scatter[:, features]

    def block(self, features: IntArray) -> FloatArray:
        """Return S[features, features]."""
        return self.scatter[np.ix_(features, features)]

    def ridge_solve(self, right: FloatArray, ridge: float) -> FloatArray:
        """Return (S + ridge I)⁻¹ right."""
        shifted = self.scatter + ridge * np.eye(right.shape[0])
        return np.asarray(np.linalg.solve(shifted, right))

    def leading(self) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues (largest first) above rounding, and their eigenvectors."""
        return _descending(Spectrum.of(self.scatter))


class SampleGram(Gram):
    """The same for XᵀX of centred samples; products go through X, nothing is p × p."""

    def __init__(self, centred: NDArray[np.floating]) -> None:
        data = np.asarray(centred, dtype=np.float64)
        self.trace = float(np.einsum("ij,ij->", data, data))
        self.data = data / np.sqrt(self.trace)
        self.diagonal = np.einsum("ij,ij->j", self.data, self.data)

    def apply(self, matrix: FloatArray) -> FloatArray:
        """Return S @ matrix."""
        return self.data.T @ (self.data @ matrix)

    def columns(self, features: IntArray) -> FloatArray:
        """Return S[:, features]."""
        return self.data.T @ self.data[:, features]

    def block(self, features: IntArray) -> FloatArray:
        """Return S[features, features]."""
        part = self.data[:, features]
        return part.T @ part

    def ridge_solve(self, right: FloatArray, ridge: float) -> FloatArray:
        """Return (S + ridge I)⁻¹ right, by the matrix inversion lemma."""
        inner = self.data @ self.data.T + ridge * np.eye(self.data.shape[0])
        inverse = np.linalg.solve(inner, self.data @ right)
        return (right - self.data.T @ inverse) / ridge

    def leading(self) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues (largest first) above rounding, and their eigenvectors."""
        return _descending(Spectrum.thin(self.data))


def gram_of(moments: Moments) -> Gram:
    """Return the scatter matrix in the cheaper form: through the samples where p > n."""
    if moments.has_samples and moments.n_features > moments.n_samples:
        return SampleGram(moments.centred_data)
    return Gram(moments.scatter)


def _descending(spectrum: Spectrum) -> tuple[FloatArray, FloatArray]:
    values = np.asarray(spectrum.values)[::-1]
    rank = int(np.count_nonzero(values > 1e-12 * values[0]))
    return values[:rank], np.asarray(spectrum.vectors)[:, ::-1][:, :rank]
