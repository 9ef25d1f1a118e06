"""The scatter matrix as the regression kernels use it: through itself, or through the samples."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import to_host
from jointsparse.linalg import (
    Spectrum,
    blocks,
    by_cholesky,
    double,
    lowest_eigenpairs,
    solve_positive,
)
from jointsparse.moments import Moments

MANY = 8  # times so many eigenvectors is more than all: then all are computed
NOTHING = 1e-12  # of the largest eigenvalue: below, one is rounding
FEW = 0.3  # share of the rows: below, a product over these rows alone is faster


class Gram:
    """Scatter matrix divided by its trace, kept as a p × p array."""

    _pairs: tuple[FloatArray, FloatArray] | None = None  # some eigenvalues and vectors
    _asked = 0  # how many were asked for

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
        return self.scatter[features[:, None], features]

    def root(self, features: IntArray) -> FloatArray | None:
        """Return R with RᵀR = S[features, features], a row for each sample; None: not known."""
        return None

    def ridge_solve(self, right: FloatArray, ridge: float) -> FloatArray:
        """Return (S + ridge I)⁻¹ right."""
        shifted = self.scatter + ridge * np.eye(right.shape[0])
        return np.asarray(solve_positive(shifted, right))

    def reweighted_fit(self, wanted: FloatArray, lengths: FloatArray, penalty: float) -> FloatArray:
        """Return (S + penalty diag(1/lengths))⁻¹ S wanted; rows without length are zero."""
        roots = np.sqrt(lengths)[:, None]
        inner = roots * self.scatter * roots.T + penalty * np.eye(len(roots))
        right = roots * (self.scatter @ wanted)
        return roots * solve_positive(inner, right, by_cholesky)

    def leading(self, count: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues (largest first) above rounding, and their eigenvectors.

        Parameters
        ----------
        count : int or None
            Number of eigenvectors wanted, and the least number of eigenvalues; None: all.
        """
        values, vectors = self._spectrum if count is None else self._few(max(count, 1))
        return values, vectors[:, :count].copy()

    def rank(self, found: int) -> int:
        """Return the rank, given how many eigenvalues above rounding were found."""
        if self._pairs is None or "_spectrum" in self.__dict__:
            return found
        # Where all features that vary are independent, that costs less to see than to count.
        live = self.diagonal > 0
        block = self.scatter.copy() if live.all() else self.scatter[np.ix_(live, live)]
        block.flat[:: len(block) + 1] -= NOTHING * self._pairs[0][0]
        failed = dpotrf(block.T, clean=0, overwrite_a=1)[1]
        return self._spectrum[0].size if failed else len(block)

    def leading_scaled(self, factors: FloatArray, count: int) -> FloatArray:
        """Return the first eigenvectors for the features multiplied by factors."""
        return Gram(self.scatter * np.outer(factors, factors)).leading(count)[1]

    def _few(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return so many eigenvalues and eigenvectors; all where they are known, or nearly all."""
        if "_spectrum" in self.__dict__ or MANY * count > len(self.scatter):
            return self._spectrum
        if self._pairs is None or self._asked < count:
            values, vectors = lowest_eigenpairs(-self.scatter, count)
            self._pairs = _descending(-values[::-1], vectors[:, ::-1])
            self._asked = count
        return self._pairs

    @cached_property
    def _spectrum(self) -> tuple[FloatArray, FloatArray]:
        spectrum = Spectrum.of(self.scatter)
        values, vectors = _descending(np.asarray(spectrum.values), np.asarray(spectrum.vectors))
        return values, vectors


class SampleGram(Gram):
    """The same for XᵀX of centred samples; products go through X, nothing is p × p.

    X is kept as it came: of single precision, blocks of it are converted, and all sums are in
    double precision.

    Parameters
    ----------
    centred : ndarray of shape (n_samples, n_features)
        X, in single or double precision.
    weights : ndarray of shape (n_samples,) or None
        Weights of the samples: then it is Xᵀ diag(weights) X. None: all are 1.
    squares : ndarray of shape (n_samples,) or None
        Squared length of each sample, where it is known.
    """

    def __init__(
        self,
        centred: NDArray[np.floating],
        weights: FloatArray | None = None,
        squares: FloatArray | None = None,
    ) -> None:
        self.samples = _floating(centred)
        if squares is None:
            squares = row_squares(self.samples)
        if weights is None:
            weights = np.ones(self.samples.shape[0])
        self.trace = float(weights @ squares)
        self.weights = (weights / self.trace)[:, None]
        # What was asked for last: an alternation often asks for the same again.
        self._block: tuple[IntArray, FloatArray] | None = None
        self._last: tuple[IntArray, FloatArray] | None = None

    @cached_property
    def diagonal(self) -> FloatArray:
        """Diagonal of S; a pass over the samples that most uses can do without."""
        result = np.empty(self.samples.shape[1])
        for part in self._parts():
            result[part] = self.weights[:, 0] @ double(self.samples[:, part]) ** 2
        return result

    def apply(self, matrix: FloatArray) -> FloatArray:
        """Return S @ matrix."""
        weights = self.weights if matrix.ndim == 2 else self.weights[:, 0]
        return self.back(weights * self.image(matrix))

    def image(self, matrix: FloatArray) -> FloatArray:
        """Return X @ matrix; rows of zeros cost nothing."""
        used = np.flatnonzero(matrix if matrix.ndim == 1 else matrix.any(axis=1))
        if used.size <= FEW * matrix.shape[0]:
            return np.asarray(self._taken(used) @ matrix[used])
        total = np.zeros((self.samples.shape[0], *matrix.shape[1:]))
        for part in self._parts():
            total += double(self.samples[:, part]) @ matrix[part]
        return total

    def back(self, rows: FloatArray) -> FloatArray:
        """Return Xᵀ @ rows."""
        if self.samples.dtype == np.float64:
            return np.asarray(self.samples.T @ rows)
        result = np.empty((self.samples.shape[1], *rows.shape[1:]))
        for part in self._parts():
            result[part] = double(self.samples[:, part]).T @ rows
        return result

    def columns(self, features: IntArray) -> FloatArray:
        """Return S[:, features]."""
        return self.back(self.weights * double(self.samples[:, features]))

    def block(self, features: IntArray) -> FloatArray:
        """Return S[features, features]."""
        if self._block is None or not np.array_equal(self._block[0], features):
            part = self._taken(features)
            self._block = features, part.T @ (self.weights * part)
        return self._block[1].copy()

    def root(self, features: IntArray) -> FloatArray:
        """Return R with RᵀR = S[features, features], of one row for each sample."""
        return np.asarray(np.sqrt(self.weights) * self._taken(features))

    def ridge_solve(self, right: FloatArray, ridge: float) -> FloatArray:
        """Return (S + ridge I)⁻¹ right, by the matrix inversion lemma."""
        inner = self._between_rows() + ridge * np.eye(self.samples.shape[0])
        roots = np.sqrt(self.weights) if right.ndim == 2 else np.sqrt(self.weights[:, 0])
        inverse = solve_positive(inner, roots * self.image(right))
        return (right - self.back(roots * inverse)) / ridge

    def reweighted_fit(self, wanted: FloatArray, lengths: FloatArray, penalty: float) -> FloatArray:
        """Return (S + penalty diag(1/lengths))⁻¹ S wanted; rows without length are zero."""
        inner = self._between_rows(lengths) + penalty * np.eye(self.samples.shape[0])
        roots = np.sqrt(self.weights)
        right = roots * self.image(wanted)
        solved = solve_positive(inner, right, by_cholesky)
        return lengths[:, None] * self.back(roots * solved)

    def leading(self, count: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues (largest first) above rounding, and their eigenvectors.

        Parameters
        ----------
        count : int or None
            Number of eigenvectors wanted; None: as many as eigenvalues, n × p numbers.
        """
        values, rows = self.rows
        return values, self._eigenvectors(values[:count], rows[:, :count])

    def leading_scaled(self, factors: FloatArray, count: int) -> FloatArray:
        """Return the first eigenvectors for the features multiplied by factors."""
        size = self.samples.shape[0]
        wanted = (max(0, size - count), size - 1)
        values, rows = eigh(self._between_rows(factors**2), subset_by_index=wanted)
        values, rows = _descending(values, rows)
        return factors[:, None] * self._eigenvectors(values, rows)

    @cached_property
    def rows(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues of S and, for each, its unit vector over the samples: XV = U diag(√value)."""
        return _descending(*np.linalg.eigh(self._between_rows()))

    def _taken(self, features: IntArray) -> FloatArray:
        """Return some columns of X."""
        if self._last is None or not np.array_equal(self._last[0], features):
            self._last = features, double(self.samples.take(features, axis=1))
        return self._last[1]

    def _eigenvectors(self, values: FloatArray, rows: FloatArray) -> FloatArray:
        return self.back(np.sqrt(self.weights) * rows / np.sqrt(values))

    def _between_rows(self, lengths: FloatArray | None = None) -> FloatArray:
        """Return the n × n matrix X diag(lengths) Xᵀ of the weighted samples."""
        total = np.zeros((self.samples.shape[0], self.samples.shape[0]))
        for part in self._parts():
            block = double(self.samples[:, part])
            # A product with its own transpose costs half.
            total += block @ block.T if lengths is None else (block * lengths[part]) @ block.T
        roots = np.sqrt(self.weights)
        total *= roots
        total *= roots.T
        return total

    def _parts(self) -> Iterator[slice]:
        """Blocks of features; all at once where nothing has to be converted."""
        width = self.samples.shape[1]
        return blocks(width) if self.samples.dtype == np.float32 else iter([slice(0, width)])


def gram_of(moments: Moments, *, sparse: bool = True) -> Gram:
    """Return the scatter matrix in the cheaper form: through the samples where p > n.

    It stays with the moments, and its eigenvectors with it: a path needs them at every point.
    Sparse samples stay sparse, unless the kernel needs them dense: for a basis of their span, which
    it makes in double precision. There the samples are too.
    """
    wide = moments.is_wide
    in_double = wide and not sparse
    sparse = sparse and wide and sp.issparse(moments.data)
    key = "sparse gram" if sparse else "gram in double" if in_double else "gram"
    if key not in moments.cache:
        if sparse:
            from jointsparse.solvers.products.sparse_gram import SparseGram  # which builds on this

            live = moments.variances > 0
            gram: Gram = SparseGram(moments.data.multiply(live), np.where(live, moments.mean, 0.0))
        elif in_double:
            gram = SampleGram(centred_in_double(moments))
        else:
            gram = SampleGram(moments.centred_data) if wide else Gram(moments.scatter)
        moments.cache[key] = gram
    cached: Gram = moments.cache[key]
    return cached


def centred_in_double(moments: Moments) -> FloatArray:
    """Return the centred samples in double precision.

    The mean of single precision samples is no number of single precision: ``centred_data``, which
    are, differ from these by 6e-8 of the largest. Next to an outlier that can be all there is.
    """
    data = moments.data
    dense = data.toarray() if sp.issparse(data) else np.asarray(to_host(data))
    if dense.dtype != np.float32:
        return double(moments.centred_data)
    centred: FloatArray = double(dense) - moments.mean
    centred[:, moments.variances == 0] = 0.0
    return centred


def equal_features(gram: Gram) -> list[IntArray]:
    """Return the groups of features that are equal to rounding (constant ones are left out).

    They are found by two random combinations of the columns of S: equal features agree in both.
    """
    probes = np.random.default_rng(0).standard_normal((gram.diagonal.size, 2))
    images = gram.apply(probes)
    order = np.argsort(images[:, 0], kind="stable")
    close = np.abs(np.diff(images[order], axis=0)) <= 1e-10 * np.max(np.abs(images), axis=0)
    joined = np.all(close, axis=1) & (gram.diagonal[order[1:]] > 0)
    pairs = np.flatnonzero(joined)  # of neighbours in this order
    if pairs.size == 0:
        return []
    runs = np.split(pairs, np.flatnonzero(np.diff(pairs) > 1) + 1)
    return [order[run[0] : run[-1] + 2] for run in runs]


def row_squares(samples: NDArray[np.floating]) -> FloatArray:
    """Return the squared length of every row, in double precision."""
    total = np.zeros(samples.shape[0])
    for part in blocks(samples.shape[1]):
        block = double(samples[:, part])
        total += np.einsum("ij,ij->i", block, block)
    return total


def _descending(values: FloatArray, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = int(np.count_nonzero(values > NOTHING * values[0]))
    return values[:rank], vectors[:, :rank]


def _floating(samples: NDArray[Any]) -> NDArray[np.floating]:
    return samples if samples.dtype == np.float32 else np.asarray(samples, dtype=np.float64)
