r"""The scatter matrix as the regression kernels use it: through itself, or through the samples.

.. math:: S = X^\top\operatorname{diag}(w)X

X, or S itself, stays where it is, on the host or on a device, and so does everything of its size:
products, blocks, eigenvectors. Answers are of the kind of the questions: a kernel that keeps its
p × k arrays on the host asks with NumPy arrays and gets such, one that keeps them on the device
moves nothing.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrf
from scipy.sparse.linalg import LinearOperator, cg

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.eigen.lanczos import LARGEST_GRAM, leading_pairs
from jointsparse.linalg import (
    add_to_diagonal,
    array_namespace,
    by_cholesky,
    diagonal,
    double,
    eigh,
    lowest_eigenpairs,
    solve_positive,
)
from jointsparse.moments import Moments
from jointsparse.numerics.rows import rows_in_use
from jointsparse.operators.dense import operator_of
from jointsparse.operators.samples import Samples
from jointsparse.operators.sparse import live_columns
from jointsparse.running.workspace import Slot

MANY = 8  # times so many eigenvectors is more than all: then all are computed
SMALL = 2**15  # entries of samples that are converted to double precision at no cost
CONVERTED = 2**21  # entries of samples that are converted once, 16 MB, not for every product
NOTHING = 1e-12  # of the largest eigenvalue: below, one is rounding
MOST_PAIRS = 12  # eigenpairs where nobody says how many are needed and there are too many for all
ACCURATE = 1e-13  # relative residual of linear systems with too many samples to factorise
FEW = 0.3  # share of the rows: below, a product over these rows alone is faster


class Gram:
    """Scatter matrix divided by its trace, kept as a p × p array of any library."""

    samples: Samples | None = None  # where S is known through them
    _pairs: tuple[FloatArray, Array] | None = None  # some eigenvalues and vectors
    _asked = 0  # how many were asked for

    def __init__(self, scatter: Array) -> None:
        self.trace = float(diagonal(scatter).sum())
        self.scatter = scatter / self.trace
        self._place(scatter)

    def _place(self, model: Array) -> None:
        """Remember where the matrix is."""
        self._model = model
        self.on_host = not is_device_array(model)

    def here(self, array: Any) -> Array:
        """Return an array where the matrix is."""
        return array if self.on_host or is_device_array(array) else like(array, self._model)

    def in_kind(self, answer: Array, question: Any) -> Array:
        """Return an answer on the device where the question was there, as NumPy otherwise."""
        return answer if self.on_host or is_device_array(question) else to_host(answer)

    @property
    def through_samples(self) -> SampleGram | None:
        """The matrix itself, where products go through the samples."""
        return None

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
        """Diagonal of S, on the host."""
        return to_host(diagonal(self.scatter))

    def apply(self, matrix: Array) -> Array:
        """Return S @ matrix."""
        return self.in_kind(self.scatter @ self.here(matrix), matrix)

    def apply_both(self, one: Array, other: Array) -> tuple[Array, Array]:
        """Return S @ one and S @ other, in one pass over S."""
        images = self.apply(array_namespace(one).concat([one, other], axis=1))
        return images[:, : one.shape[1]], images[:, one.shape[1] :]

    def image(self, matrix: Array) -> Array:
        """Return R matrix, with RᵀR = S but for eigenvalues that are rounding."""
        values, vectors = self._spectrum
        roots = self.here(np.sqrt(values))[:, None]
        return self.in_kind(roots * (vectors.T @ self.here(matrix)), matrix)

    def back(self, rows: Array) -> Array:
        """Return Rᵀ rows."""
        values, vectors = self._spectrum
        return self.in_kind((vectors * self.here(np.sqrt(values))) @ self.here(rows), rows)

    def columns(self, features: Array) -> Array:
        """Return S[:, features]."""
        return self.in_kind(self.scatter[:, self.here(features)], features)

    def block(self, features: Array) -> Array:
        """Return S[features, features]."""
        chosen = self.here(features)
        return self.in_kind(self.scatter[chosen[:, None], chosen], features)

    def root(self, features: Array) -> Array | None:
        """Return R with RᵀR = S[features, features], a row for each sample; None: not known."""
        return None

    def ridge_solve(self, right: Array, ridge: float) -> Array:
        """Return (S + ridge I)⁻¹ right."""
        return self.in_kind(solve_positive(shifted(self.scatter, ridge), self.here(right)), right)

    def reweighted_fit(self, wanted: Array, lengths: Array, penalty: float) -> Array:
        """Return (S + penalty diag(1/lengths))⁻¹ S wanted; rows without length are zero."""
        roots = self.here(lengths)[:, None] ** 0.5
        inner = add_to_diagonal(roots * self.scatter * roots.T, penalty)
        right = roots * (self.scatter @ self.here(wanted))
        return self.in_kind(roots * self._solved(inner, right), wanted)

    def _solved(self, matrix: Array, right: Array) -> Array:
        """Solve with a positive definite matrix, by Cholesky where SciPy has it."""
        return solve_positive(matrix, right, by_cholesky if self.on_host else None)

    def leading(self, count: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues (largest first) above rounding, and their eigenvectors; on the host.

        Parameters
        ----------
        count : int or None
            Number of eigenvectors wanted, and the least number of eigenvalues; None: all.
        """
        values, vectors = self.principal(count)
        return values, to_host(vectors).copy()

    def principal(self, count: int | None = None) -> tuple[FloatArray, Array]:
        """Return the same with the eigenvectors where S is."""
        values, vectors = self._spectrum if count is None else self._few(max(count, 1))
        return values, vectors[:, :count]

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

    def leading_scaled(self, factors: Array, count: int) -> FloatArray:
        """Return the first eigenvectors for the features multiplied by factors."""
        scale = self.here(factors)
        return Gram(self.scatter * (scale[:, None] * scale)).leading(count)[1]

    def _few(self, count: int) -> tuple[FloatArray, Array]:
        """Return so many eigenpairs; all where they are known, nearly all, or cost no more."""
        if "_spectrum" in self.__dict__ or MANY * count > self.scatter.shape[0] or not self.on_host:
            return self._spectrum
        if self._pairs is None or self._asked < count:
            values, vectors = lowest_eigenpairs(-self.scatter, count)
            self._pairs = _descending(-values[::-1], vectors[:, ::-1])
            self._asked = count
        return self._pairs

    @cached_property
    def _spectrum(self) -> tuple[FloatArray, Array]:
        return _descending(*eigh(self.scatter))


class SampleGram(Gram):
    """The same for Xᵀ diag(w) X of centred samples; products go through X, nothing is p × p.

    Parameters
    ----------
    data : array of shape (n_samples, n_features) or Samples
        X. All sums are in double precision, whatever it is kept in.
    weights : array of shape (n_samples,) or None
        w; None: all are 1.
    squares : array of shape (n_samples,) or None
        Squared length of each sample, where it is known.
    """

    samples: Samples
    # Some matrices with X @ matrix, for a caller that knows them.
    known_images: tuple[tuple[Array, Array], ...] = ()

    def __init__(
        self, data: Any, weights: Array | None = None, squares: Array | None = None
    ) -> None:
        self.samples = operator_of(data)
        self._place(self.samples.empty)
        if squares is not None:
            self.squares = squares
        xp = self.samples.xp
        weights = xp.ones_like(self.squares) if weights is None else self.here(weights)
        self.trace = float(weights @ self.squares)
        self.weights = (weights / self.trace)[:, None]
        self.roots = xp.sqrt(self.weights)
        # What was asked for last: an alternation often asks for the same again.
        self._block: tuple[Array, Array] | None = None
        self._last: tuple[Array, Array] | None = None

    @property
    def through_samples(self) -> SampleGram:
        """The matrix itself."""
        return self

    @cached_property
    def squares(self) -> Array:
        """Squared length of each sample, where they are."""
        if self.on_host:
            return self.samples.row_squares()
        return self.samples.xp.linalg.diagonal(self.samples.gram())  # asked for anyway

    @cached_property
    def squared_lengths(self) -> Array:
        """Diagonal of S where X is; a pass over the samples that most uses can do without."""
        return self.samples.weighted_squares(self.weights[:, 0])

    @cached_property
    def diagonal(self) -> FloatArray:
        """The same on the host."""
        return to_host(self.squared_lengths)

    def weighted(self, weights: Array) -> SampleGram:
        """Return the scatter matrix of the same samples with other weights."""
        return SampleGram(self.samples, weights, self.squares)

    def apply(self, matrix: Array) -> Array:
        """Return S @ matrix."""
        here = self.here(matrix)
        thin = here.reshape(here.shape[0], -1)
        image = self.samples.transposed_times(self.weights * self.plain_image(thin))
        return self.in_kind(image.reshape(here.shape), matrix)

    def image(self, matrix: Array) -> Array:
        """Return √w X matrix."""
        return self.in_kind(self.roots * self.here(self.plain_image(matrix)), matrix)

    def apply_both(self, one: Array, other: Array) -> tuple[Array, Array]:
        """Return S @ one and S @ other, in one pass over X for the two products with Xᵀ."""
        rows = [self.here(self.plain_image(matrix)) for matrix in (one, other)]
        images = self.samples.transposed_times(self.weights * self.samples.xp.concat(rows, axis=1))
        images = self.in_kind(images, one)
        return images[:, : one.shape[1]], images[:, one.shape[1] :]

    def plain_image(self, matrix: Array) -> Array:
        """Return X matrix, without weights; of an array, rows of zeros cost nothing."""
        for known, image in self.known_images:
            if known is matrix:
                return image
        here = self.here(matrix)
        full = type(here) is np.ndarray and np.count_nonzero(here) > FEW * here.size
        if self.of_array and not full:
            xp = self.samples.xp
            used = xp.nonzero(rows_in_use(here))[0]
            if used.shape[0] <= FEW * here.shape[0]:
                return self.in_kind(self._taken(used) @ here[used, :], matrix)
        return self.in_kind(self.samples.times(here), matrix)

    def back(self, rows: Array) -> Array:
        """Return (√w X)ᵀ rows."""
        return self.in_kind(self.samples.transposed_times(self.roots * self.here(rows)), rows)

    def sample_columns(self, features: Array | slice) -> Array:
        """Return some columns of √w X, as an array where the samples are."""
        return self.roots * self.samples.take(features)

    def columns(self, features: Array) -> Array:
        """Return S[:, features]."""
        few = self.weights * self.samples.take(features)
        return self.in_kind(self.samples.transposed_times(few), features)

    def block(self, features: Array) -> Array:
        """Return S[features, features]."""
        if not self.of_array:
            return self.samples.block(features, self.weights[:, 0])
        chosen = self.here(features)
        if self._block is None or not _equal(self._block[0], chosen):
            part = self._taken(chosen)
            self._block = chosen, part.T @ (self.weights * part)
        return self.in_kind(self.samples.xp.asarray(self._block[1], copy=True), features)

    def root(self, features: Array) -> Array | None:
        """Return R with RᵀR = S[features, features], a row for each sample; None: too large."""
        if not self.of_array:
            return None
        return self.in_kind(self.roots * self._taken(self.here(features)), features)

    def ridge_solve(self, right: Array, ridge: float) -> Array:
        """Return (S + ridge I)⁻¹ right, by the matrix inversion lemma."""
        here = self.here(right)
        thin = here.reshape(here.shape[0], -1)
        found = (thin - self.back(self._row_solve(None, self.image(thin), ridge))) / ridge
        return self.in_kind(found.reshape(here.shape), right)

    def reweighted_fit(self, wanted: Array, lengths: Array, penalty: float) -> Array:
        """Return (S + penalty diag(1/lengths))⁻¹ S wanted; rows without length are zero."""
        scale = self.here(lengths)
        inverse = self._row_solve(scale, self.image(self.here(wanted)), penalty)
        return self.in_kind(scale[:, None] * self.back(inverse), wanted)

    def principal(self, count: int | None = None) -> tuple[FloatArray, Array]:
        """Return eigenvalues (largest first) above rounding, and eigenvectors where X is.

        None is as many vectors as eigenvalues, n × p numbers; of very many sparse samples there
        are not many more eigenvalues than vectors asked for.
        """
        values, rows = self._some_rows(count) if self._too_many else self.rows
        rows = rows[:, :count]
        return values, self._eigenvectors(values[: rows.shape[1]], rows)

    def leading_scaled(self, factors: Array, count: int) -> FloatArray:
        """Return the first eigenvectors for the features multiplied by factors."""
        scale = self.here(factors)
        if self._too_many:
            return SampleGram(self.samples.scaled(scale), self.weights[:, 0]).leading(count)[1]
        size, between = self.samples.shape[0], self._between_rows(scale**2)
        if self.on_host:  # where some cost less than all
            wanted = (max(0, size - count), size - 1)
            values, rows = _descending(*scipy.linalg.eigh(between, subset_by_index=wanted))
        else:
            values, rows = _descending(*eigh(between))
        return to_host(scale[:, None] * self._eigenvectors(values[:count], rows[:, :count]))

    @cached_property
    def rows(self) -> tuple[FloatArray, Array]:
        """Eigenvalues of S and, where X is, unit vectors over the samples: XV = U diag(√value)."""
        return _descending(*eigh(self._between_rows()))

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

    def _taken(self, features: Array) -> Array:
        """Return some columns of X, where they are."""
        if self._last is None or not _equal(self._last[0], features):
            self._last = features, self.samples.take(features)
        return self._last[1]

    def _eigenvectors(self, values: FloatArray, rows: Array) -> Array:
        """Return eigenvectors over the features, where they are."""
        return self.samples.transposed_times(self.roots * rows / self.here(np.sqrt(values)))

    def _between_rows(self, lengths: Array | None = None) -> Array:
        """Return the n × n matrix √w X diag(lengths) Xᵀ √w."""
        samples = self.samples if lengths is None else self.samples.scaled(lengths**0.5)
        total = samples.gram() * self.roots
        total *= self.roots.T
        return total

    def _row_solve(self, lengths: Array | None, right: Array, ridge: float) -> Array:
        """Return (√w X diag(lengths) Xᵀ √w + ridge I)⁻¹ right, in the space of the samples."""
        n = self.samples.shape[0]
        if not self._too_many:
            inner = add_to_diagonal(self._between_rows(lengths), ridge)
            return solve_positive(inner, right) if lengths is None else self._solved(inner, right)
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
        if not wide:
            return Gram(moments.native.scatter)
        centred = double_where_held(moments) if in_double else moments.native.centred_data
        once = type(centred) is np.ndarray and centred.size <= CONVERTED
        return SampleGram(double(centred) if once else centred)

    return moments.workspace.kept(GRAM, make, (sparse, in_double))


def root_of(gram: Gram, moments: Moments) -> Gram:
    """Return S through the samples, where they are here: S itself has lost digits of its root."""
    if gram.through_samples is not None or not moments.has_samples or moments.elsewhere:
        return gram
    if sp.issparse(moments.data):
        data = moments.data.astype(np.float64)
        return SampleGram(live_columns(data, moments.mean, moments.variances))
    return SampleGram(double_where_held(moments))


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


def shifted(matrix: Array, ridge: float) -> Array:
    """Return a matrix with a number added to its diagonal, which is fresh."""
    return add_to_diagonal(array_namespace(matrix).asarray(matrix, copy=True), ridge)


def _equal(one: Array, other: Array) -> bool:
    if one is other:
        return True
    return one.shape == other.shape and bool(array_namespace(one).all(one == other))


def _descending(values: Array, vectors: Array) -> tuple[FloatArray, Array]:
    """Return the eigenvalues above rounding, largest first, on the host, and their vectors."""
    found = to_host(values)[::-1]
    rank = int(np.count_nonzero(found > NOTHING * found[0]))
    xp = array_namespace(vectors)
    return found[:rank], xp.flip(vectors[:, vectors.shape[1] - rank :], axis=1)
