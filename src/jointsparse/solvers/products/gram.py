"""The scatter matrix as the regression kernels use it: through itself, or through the samples."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf
from scipy.sparse.linalg import LinearOperator, cg

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import is_device_array, to_host
from jointsparse.linalg import (
    Spectrum,
    array_namespace,
    by_cholesky,
    double,
    lowest_eigenpairs,
    solve_positive,
)
from jointsparse.moments import Moments
from jointsparse.operators.dense import operator_of
from jointsparse.operators.samples import Samples
from jointsparse.operators.sparse import live_columns
from jointsparse.solvers.eigen.lanczos import LARGEST_GRAM, leading_pairs
from jointsparse.workspace import Slot

MANY = 8  # times so many eigenvectors is more than all: then all are computed
SMALL = 2**15  # entries of samples that are converted to double precision at no cost
NOTHING = 1e-12  # of the largest eigenvalue: below, one is rounding
MOST_PAIRS = 12  # eigenpairs where nobody says how many are needed and there are too many for all
ACCURATE = 1e-13  # relative residual of linear systems with too many samples to factorise
FEW = 0.3  # share of the rows: below, a product over these rows alone is faster


class Gram:
    """Scatter matrix divided by its trace, kept as a p × p array."""

    samples: Samples | None = None  # where S is known through them
    _pairs: tuple[FloatArray, FloatArray] | None = None  # some eigenvalues and vectors
    _asked = 0  # how many were asked for

    def __init__(self, scatter: FloatArray) -> None:
        self.trace = float(np.trace(scatter))
        self.scatter = scatter / self.trace

    def here(self, array: Array) -> Array:
        """Return an array where the matrix is: on the host."""
        return array

    @property
    def of_array(self) -> bool:
        """Whether S is that of samples in an array."""
        return self.samples is not None and self.samples.is_array

    @property
    def of_sparse(self) -> bool:
        """Whether S is that of sparse samples."""
        return self.samples is not None and self.samples.is_sparse

    @cached_property
    def diagonal(self) -> FloatArray:
        """Diagonal of S."""
        return np.diagonal(self.scatter)

    def apply(self, matrix: FloatArray) -> FloatArray:
        """Return S @ matrix."""
        return self.scatter @ matrix

    def apply_both(self, one: Array, other: Array) -> tuple[Array, Array]:
        """Return S @ one and S @ other, in one pass over S."""
        images = self.apply(array_namespace(one).concat([one, other], axis=1))
        return images[:, : one.shape[1]], images[:, one.shape[1] :]

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

    def principal(self) -> tuple[FloatArray, Array]:
        """Return all eigenvalues above rounding, largest first, and eigenvectors where S is."""
        return self.leading()

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
    """The same for Xᵀ diag(w) X of centred samples; products go through X, nothing is p × p.

    Parameters
    ----------
    data : array of shape (n_samples, n_features) or Samples
        X. All sums are in double precision, whatever it is kept in.
    weights : ndarray of shape (n_samples,) or None
        w; None: all are 1.
    squares : ndarray of shape (n_samples,) or None
        Squared length of each sample, where it is known.
    """

    samples: Samples
    # Some matrices with X @ matrix, for a caller that knows them.
    known_images: tuple[tuple[Array, Array], ...] = ()

    def __init__(
        self,
        data: Any,
        weights: FloatArray | None = None,
        squares: FloatArray | None = None,
    ) -> None:
        self.samples = operator_of(data)
        if squares is not None:
            self.squares = squares
        if weights is None:
            weights = np.ones(self.samples.shape[0])
        self.trace = float(weights @ self.squares)
        self.weights = (weights / self.trace)[:, None]
        self.roots = np.sqrt(self.weights)
        # What was asked for last: an alternation often asks for the same again.
        self._block: tuple[IntArray, FloatArray] | None = None
        self._last: tuple[IntArray, FloatArray] | None = None

    @cached_property
    def squares(self) -> FloatArray:
        """Squared length of each sample."""
        return np.asarray(self.samples.row_squares())

    @cached_property
    def diagonal(self) -> FloatArray:
        """Diagonal of S; a pass over the samples that most uses can do without."""
        return np.asarray(self.samples.weighted_squares(self.weights[:, 0]))

    def weighted(self, weights: FloatArray) -> SampleGram:
        """Return the scatter matrix of the same samples with other weights."""
        return SampleGram(self.samples, weights, self.squares)

    def apply(self, matrix: FloatArray) -> FloatArray:
        """Return S @ matrix."""
        thin = matrix.reshape(len(matrix), -1)
        image = self.samples.transposed_times(self.weights * self.plain_image(thin))
        return np.asarray(image.reshape(matrix.shape))

    def image(self, matrix: FloatArray) -> FloatArray:
        """Return √w X matrix."""
        return np.asarray(self.roots * self.plain_image(matrix))

    def apply_both(self, one: Array, other: Array) -> tuple[Array, Array]:
        """Return S @ one and S @ other, in one pass over X for the two products with Xᵀ."""
        rows = np.concatenate([self.plain_image(one), self.plain_image(other)], axis=1)
        images = np.asarray(self.samples.transposed_times(self.weights * rows))
        return images[:, : one.shape[1]], images[:, one.shape[1] :]

    def plain_image(self, matrix: FloatArray) -> FloatArray:
        """Return X matrix, without weights; of an array, rows of zeros cost nothing."""
        for known, image in self.known_images:
            if known is matrix:
                return image
        if self.of_array:
            used = np.flatnonzero(matrix.any(axis=1))
            if used.size <= FEW * matrix.shape[0]:
                return np.asarray(self._taken(used) @ matrix[used])
        return np.asarray(self.samples.times(matrix))

    def back(self, rows: FloatArray) -> FloatArray:
        """Return (√w X)ᵀ rows."""
        return np.asarray(self.samples.transposed_times(self.roots * rows))

    def sample_columns(self, features: IntArray | slice) -> FloatArray:
        """Return some columns of √w X, as an array."""
        return np.asarray(self.roots * self.samples.take(features))

    def columns(self, features: IntArray) -> FloatArray:
        """Return S[:, features]."""
        few = self.weights * self.samples.take(features)
        return np.asarray(self.samples.transposed_times(few))

    def block(self, features: IntArray) -> FloatArray:
        """Return S[features, features]."""
        if not self.of_array:
            return np.asarray(self.samples.block(features, self.weights[:, 0]))
        if self._block is None or not np.array_equal(self._block[0], features):
            part = self._taken(features)
            self._block = features, part.T @ (self.weights * part)
        return self._block[1].copy()

    def root(self, features: IntArray) -> FloatArray | None:
        """Return R with RᵀR = S[features, features], a row for each sample; None: too large."""
        return np.asarray(self.roots * self._taken(features)) if self.of_array else None

    def ridge_solve(self, right: FloatArray, ridge: float) -> FloatArray:
        """Return (S + ridge I)⁻¹ right, by the matrix inversion lemma."""
        thin = right.reshape(len(right), -1)
        inverse = self._row_solve(None, self.image(thin), ridge)
        found = (thin - self.back(inverse)) / ridge
        return np.asarray(found.reshape(right.shape))

    def reweighted_fit(self, wanted: FloatArray, lengths: FloatArray, penalty: float) -> FloatArray:
        """Return (S + penalty diag(1/lengths))⁻¹ S wanted; rows without length are zero."""
        inverse = self._row_solve(lengths, self.image(wanted), penalty)
        return np.asarray(lengths[:, None] * self.back(inverse))

    def leading(self, count: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues (largest first) above rounding, and their eigenvectors.

        Parameters
        ----------
        count : int or None
            Number of eigenvectors wanted; None: as many as eigenvalues, n × p numbers. Of very many
            sparse samples there are not many more eigenvalues either.
        """
        values, rows = self._some_rows(count) if self._too_many else self.rows
        rows = rows[:, :count]
        return values, self._eigenvectors(values[: rows.shape[1]], rows)

    def leading_scaled(self, factors: FloatArray, count: int) -> FloatArray:
        """Return the first eigenvectors for the features multiplied by factors."""
        if self._too_many:
            return SampleGram(self.samples.scaled(factors), self.weights[:, 0]).leading(count)[1]
        size = self.samples.shape[0]
        wanted = (max(0, size - count), size - 1)
        values, rows = eigh(self._between_rows(factors**2), subset_by_index=wanted)
        values, rows = _descending(values, rows)
        return factors[:, None] * self._eigenvectors(values, rows)

    @cached_property
    def rows(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues of S and, for each, its unit vector over the samples: XV = U diag(√value)."""
        return _descending(*np.linalg.eigh(self._between_rows()))

    def rank(self, found: int) -> int:
        """Return the rank: as many as were found, or what it can be where not all were."""
        n = self.samples.shape[0]
        return min(n - 1, int(np.count_nonzero(self.diagonal))) if self._too_many else found

    @property
    def _too_many(self) -> bool:
        """Whether there are too many samples to decompose the matrix of their products."""
        return self.of_sparse and self.samples.shape[0] > LARGEST_GRAM

    def _some_rows(self, count: int | None) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues of S and unit vectors over the samples; no more than are needed.

        Those of noise lie close together and take long.
        """
        wanted = MOST_PAIRS if count is None else max(count, 1)
        if self._pairs is None or self._pairs[0].size < wanted:
            self._pairs = leading_pairs(self.samples.shape[0], self._rows_and_back, wanted)
        values, rows = self._pairs
        large = values > NOTHING * values[0]
        return values[large], rows[:, large]

    def _rows_and_back(self, vectors: FloatArray) -> FloatArray:
        thin = vectors.reshape(len(vectors), -1)
        return np.asarray(self.image(self.back(thin)).reshape(vectors.shape))

    def _taken(self, features: IntArray) -> FloatArray:
        """Return some columns of X."""
        if self._last is None or not np.array_equal(self._last[0], features):
            self._last = features, np.asarray(self.samples.take(features))
        return self._last[1]

    def _eigenvectors(self, values: FloatArray, rows: FloatArray) -> FloatArray:
        return np.asarray(self.samples.transposed_times(self.roots * rows / np.sqrt(values)))

    def _between_rows(self, lengths: FloatArray | None = None) -> FloatArray:
        """Return the n × n matrix √w X diag(lengths) Xᵀ √w."""
        samples = self.samples if lengths is None else self.samples.scaled(np.sqrt(lengths))
        total = samples.gram() * self.roots
        total *= self.roots.T
        return np.asarray(total)

    def _row_solve(self, lengths: FloatArray | None, right: FloatArray, ridge: float) -> FloatArray:
        """Return (√w X diag(lengths) Xᵀ √w + ridge I)⁻¹ right, in the space of the samples."""
        n = self.samples.shape[0]
        if not self._too_many:
            inner = self._between_rows(lengths) + ridge * np.eye(n)
            solver = None if lengths is None else by_cholesky
            return np.asarray(solve_positive(inner, right, solver))
        factors = np.ones((1, 1)) if lengths is None else lengths[:, None]

        def product(vector: FloatArray) -> FloatArray:
            back = factors * self.back(vector.reshape(n, -1))
            return np.asarray(self.image(back).ravel() + ridge * vector)

        operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
        columns = [cg(operator, column, rtol=ACCURATE)[0] for column in right.T]
        return np.stack(columns, axis=1)


GRAM: Slot[Gram] = Slot("gram")


def gram_of(moments: Moments, *, sparse: bool = True) -> Gram:
    """Return the scatter matrix in the cheaper form: through the samples where p > n.

    It stays with the moments, and its eigenvectors with it: a path needs them at every point.
    Sparse samples stay sparse, unless the kernel needs them dense: for a basis of their span, which
    it makes in double precision. There the samples are too.
    """
    wide = moments.is_wide
    in_double = wide and not sparse
    sparse = sparse and wide and sp.issparse(moments.data)

    def make() -> Gram:
        if sparse:
            data = moments.data.astype(np.float64)
            return SampleGram(live_columns(data, moments.mean, moments.variances))
        if is_device_array(moments.data):
            from jointsparse.solvers.products.device_gram import device_gram  # which builds on this

            return device_gram(moments, wide=wide, in_double=in_double)
        if in_double:
            return SampleGram(centred_in_double(moments))
        return SampleGram(moments.centred_data) if wide else Gram(moments.scatter)

    return moments.workspace.kept(GRAM, make, (sparse, in_double))


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


def double_where_held(moments: Moments) -> Array:
    """Return the centred samples in double precision, tensors on their device."""
    if is_device_array(moments.data):
        return moments.native.centred_as(array_namespace(moments.data).float64)
    return centred_in_double(moments)


def centred_where_held(moments: Moments) -> Array:
    """Return the centred samples where they are held, in double precision if they are small.

    Single precision saves memory where there is much to save; elsewhere it only costs digits.
    """
    if moments.n_samples * moments.n_features > SMALL:
        return moments.native.centred_data
    return double_where_held(moments)


class EqualFeatures(NamedTuple):
    """Features that are equal but for the sign: ``signs * columns`` are all the same."""

    features: IntArray
    signs: FloatArray


def equal_features(gram: Gram) -> list[EqualFeatures]:
    """Return the groups of features that are equal to rounding, or opposite; no constant ones.

    They are found by two random combinations of the columns of S: equal features agree in both,
    opposite ones (a column of yes and no, and its complement) in both but for the same sign.
    """
    probes = np.random.default_rng(0).standard_normal((gram.diagonal.size, 2))
    images = gram.apply(probes)
    signs = np.where(images[:, 0] < 0, -1.0, 1.0)
    images = signs[:, None] * images
    order = np.argsort(images[:, 0], kind="stable")
    close = np.abs(np.diff(images[order], axis=0)) <= 1e-10 * np.max(np.abs(images), axis=0)
    joined = np.all(close, axis=1) & (gram.diagonal[order[1:]] > 0)
    pairs = np.flatnonzero(joined)  # of neighbours in this order
    if pairs.size == 0:
        return []
    runs = np.split(pairs, np.flatnonzero(np.diff(pairs) > 1) + 1)
    groups = [order[run[0] : run[-1] + 2] for run in runs]
    return [EqualFeatures(group, signs[group]) for group in groups]


def _descending(values: FloatArray, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = int(np.count_nonzero(values > NOTHING * values[0]))
    return values[:rank], vectors[:, :rank]
