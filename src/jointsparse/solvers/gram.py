"""The scatter matrix as the regression kernels use it: through itself, or through the samples."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import solve

from jointsparse.linalg import Spectrum
from jointsparse.moments import Moments

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Gram:
    """Scatter matrix divided by its trace, kept as a p × p array."""

    def __init__(self, scatter: FloatArray) -> None:
        self.trace = float(np.trace(scatter))
        self.scatter = scatter / self.trace

    @cached_property
    def diagonal(self) -> FloatArray:
        """Diagonal of S."""
        return np.diagonal(self.scatter)

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

    def reweighted_fit(self, wanted: FloatArray, lengths: FloatArray, penalty: float) -> FloatArray:
        """Return (S + penalty diag(1/lengths))⁻¹ S wanted; rows without length are zero."""
        roots = np.sqrt(lengths)[:, None]
        inner = roots * self.scatter * roots.T + penalty * np.eye(len(roots))
        right = roots * (self.scatter @ wanted)
        return roots * solve(inner, right, assume_a="pos", check_finite=False)

    def scaled(self, factors: FloatArray) -> Gram:
        """Return the scatter matrix of the features multiplied by factors."""
        return Gram(self.scatter * np.outer(factors, factors))

    def leading(self, count: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues (largest first) above rounding, and their eigenvectors.

        At least ``count`` of them, where that many are needed; all by default.
        """
        return _descending(Spectrum.of(self.scatter))

    def rank(self, found: int) -> int:
        """Return the rank, given how many eigenvalues above rounding were found."""
        return found


class SampleGram(Gram):
    """The same for XᵀX of centred samples; products go through X, nothing is p × p.

    Parameters
    ----------
    centred : ndarray of shape (n_samples, n_features)
        X. Kept as it is where it is float64.
    weights : ndarray of shape (n_samples,) or None
        Weights of the samples: then it is Xᵀ diag(weights) X. None: all are 1.
    """

    def __init__(self, centred: NDArray[np.floating], weights: FloatArray | None = None) -> None:
        self.samples = np.asarray(centred, dtype=np.float64)
        if weights is None:
            weights = np.ones(self.samples.shape[0])
        self.trace = float(weights @ np.einsum("ij,ij->i", self.samples, self.samples))
        self.weights = (weights / self.trace)[:, None]

    @cached_property
    def diagonal(self) -> FloatArray:
        """Diagonal of S; a pass over the samples that most uses can do without."""
        return np.asarray(self.weights[:, 0] @ self.samples**2)

    def apply(self, matrix: FloatArray) -> FloatArray:
        """Return S @ matrix."""
        weights = self.weights if matrix.ndim == 2 else self.weights[:, 0]
        return self.samples.T @ (weights * (self.samples @ matrix))

    def columns(self, features: IntArray) -> FloatArray:
        """Return S[:, features]."""
        return self.samples.T @ (self.weights * self.samples[:, features])

    def block(self, features: IntArray) -> FloatArray:
        """Return S[features, features]."""
        part = np.sqrt(self.weights) * self.samples[:, features]
        return part.T @ part

    def ridge_solve(self, right: FloatArray, ridge: float) -> FloatArray:
        """Return (S + ridge I)⁻¹ right, by the matrix inversion lemma."""
        data = np.sqrt(self.weights) * self.samples
        inner = data @ data.T + ridge * np.eye(data.shape[0])
        inverse = np.linalg.solve(inner, data @ right)
        return (right - data.T @ inverse) / ridge

    def reweighted_fit(self, wanted: FloatArray, lengths: FloatArray, penalty: float) -> FloatArray:
        """Return (S + penalty diag(1/lengths))⁻¹ S wanted; rows without length are zero."""
        data = np.sqrt(self.weights) * self.samples
        longer = data * lengths
        inner = longer @ data.T + penalty * np.eye(data.shape[0])
        return longer.T @ solve(inner, data @ wanted, assume_a="pos", check_finite=False)

    def scaled(self, factors: FloatArray) -> Gram:
        """Return the scatter matrix of the features multiplied by factors."""
        return SampleGram(self.samples * factors, self.weights[:, 0])

    def leading(self, count: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues (largest first) above rounding, and their eigenvectors."""
        return _descending(Spectrum.thin(np.sqrt(self.weights) * self.samples))


def gram_of(moments: Moments, *, sparse: bool = True) -> Gram:
    """Return the scatter matrix in the cheaper form: through the samples where p > n.

    Sparse samples stay sparse, unless the kernel needs them dense.
    """
    if moments.has_samples and moments.n_features > moments.n_samples:
        if sparse and sp.issparse(moments.data):
            from jointsparse.solvers.sparse_gram import SparseGram  # which builds on this

            live = moments.variances > 0
            return SparseGram(moments.data.multiply(live), np.where(live, moments.mean, 0.0))
        return SampleGram(moments.centred_data)
    return Gram(moments.scatter)


def equal_features(gram: Gram) -> list[IntArray]:
    """Return the groups of features that are equal to rounding (constant ones are left out).

    They are found by two random combinations of the columns of S: equal features agree in both.
    """
    probes = np.random.default_rng(0).standard_normal((gram.diagonal.size, 2))
    images = gram.apply(probes)
    order = np.argsort(images[:, 0], kind="stable")
    close = np.abs(np.diff(images[order], axis=0)) <= 1e-10 * np.max(np.abs(images), axis=0)
    joined = np.all(close, axis=1) & (gram.diagonal[order[1:]] > 0)
    runs = np.split(order, np.flatnonzero(~joined) + 1)
    return [run for run in runs if run.size > 1]


def _descending(spectrum: Spectrum) -> tuple[FloatArray, FloatArray]:
    values = np.asarray(spectrum.values)[::-1]
    rank = int(np.count_nonzero(values > 1e-12 * values[0]))
    return values[:rank], np.asarray(spectrum.vectors)[:, ::-1][:, :rank]
