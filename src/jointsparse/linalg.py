"""Linear algebra shared by the kernels; every function runs on any array namespace.

Fast LAPACK routines give up on a few matrices that slower ones decompose; what then takes over is
here too, and is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import array_api_compat.numpy as numpy_namespace
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from array_api_compat import array_namespace as any_namespace
from numpy.typing import NDArray

from jointsparse.arrays import Array
from jointsparse.device import errors_raised, like, on_accelerator, to_host

logger = logging.getLogger(__name__)


STRIP = 2**15  # entries of a matrix that are worked on at a time, where no copy is to be made
BLOCK = 4096  # features converted to float64 at a time where the data are kept in float32
NOISE = 1e-10  # columns shorter than this share of the longest are rounding
RANK = 1e-12  # eigenvalues below this share of the largest are rounding
EPSILON = float(np.finfo(np.float64).eps)
SMALL = 256  # rows of a matrix for which it is kept which entries are in its lower triangle
HOST_EIGH = 128  # rows up to which LAPACK on the host is faster than a GPU, transfers included


def array_namespace(*arrays: Array) -> Any:
    """Return the array functions for these arrays.

    For NumPy at once: small problems call this hundreds of times in a few milliseconds.
    """
    for array in arrays:
        if type(array) is not np.ndarray:
            return any_namespace(*arrays)
    return numpy_namespace


@dataclass(frozen=True)
class Spectrum:
    """Eigendecomposition S = V diag(values) Vᵀ of a scatter matrix divided by its trace.

    Attributes
    ----------
    values : array of shape (rank,)
        Eigenvalues in ascending order, at least 0, summing to 1.
    vectors : array of shape (n_features, rank)
        Orthonormal eigenvectors, one per column. All of them, or (thin) those that matter.
    trace : float
        Trace of the scatter matrix before the division.
    """

    values: Array
    vectors: Array
    trace: float

    @classmethod
    def of(cls, scatter: Array) -> Spectrum:
        """Decompose a symmetric positive semidefinite matrix that is not zero."""
        xp = array_namespace(scatter)
        trace = float(xp.linalg.trace(scatter))
        values, vectors = eigh(scatter / trace)
        return cls(positive_part(values), vectors, trace)

    @classmethod
    def thin(cls, data: Array) -> Spectrum:
        """Decompose S = dataᵀ data through the Gram matrix of the rows: no p × p matrix.

        Only eigenvectors with an eigenvalue above rounding are returned, at most one for each row.
        """
        xp = array_namespace(data)
        return cls.of_rows(
            long_product(data, data.T), lambda rows: data.T @ xp.astype(rows, data.dtype)
        )

    @classmethod
    def of_rows(cls, gram: Array, transposed_times: Callable[[Array], Array]) -> Spectrum:
        """Decompose S = XᵀX, given the Gram matrix XXᵀ of the rows and products with Xᵀ."""
        xp = array_namespace(gram)
        trace = float(xp.linalg.trace(gram))
        values, rows = eigh(gram / trace)
        positive = values > 1e-12 * values[-1]
        values, rows = values[positive], rows[:, positive]
        return cls(values, transposed_times(rows / xp.sqrt(values * trace)), trace)

    def on_host(self) -> Spectrum:
        """Return the same as NumPy arrays."""
        return Spectrum(to_host(self.values), to_host(self.vectors), self.trace)


def eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and eigenvectors of a symmetric matrix.

    A small matrix on a GPU is sent to the host and back: the GPU's solver works column by column,
    and a kernel launch for each of them takes longer than the arithmetic.
    """
    if matrix.shape[0] <= HOST_EIGH and on_accelerator(matrix):
        values, vectors = np.linalg.eigh(to_host(matrix))
        return like(values, matrix), like(vectors, matrix)
    if type(matrix) is np.ndarray:
        return _host_eigh(matrix)
    values, vectors = array_namespace(matrix).linalg.eigh(matrix)
    return values, vectors


def correlation_spectrum(scatter: Array) -> tuple[Array, Array, Array]:
    """Return the lengths of the features, and the eigenpairs of their correlation matrix."""
    xp = array_namespace(scatter)
    lengths = xp.sqrt(positive_part(xp.linalg.diagonal(scatter)))
    inverse = xp.where(lengths > 0, 1 / xp.where(lengths > 0, lengths, 1.0), 0.0)
    return lengths, *eigh(scatter * inverse[:, None] * inverse)


def _host_eigh(matrix: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Divide and conquer; the plain QR iteration where that does not converge."""
    try:
        values, vectors = np.linalg.eigh(matrix)
    except np.linalg.LinAlgError as error:
        if not np.isfinite(matrix).all():
            raise
        logger.info("eigh of %d rows: %s; again by QR iteration", len(matrix), error)
        values, vectors = scipy.linalg.eigh(matrix, driver="ev")
    return values, vectors


def lowest_eigenpairs(matrix: NDArray[Any], count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return at least the ``count`` lowest eigenvalues, ascending, and their vectors, on the host.

    Some of them cost less than all; but the method for some (relatively robust representations)
    gives up where many eigenvalues are equal to rounding, and then all are computed.
    """
    if count >= len(matrix):
        return _host_eigh(matrix)
    try:
        values, vectors = scipy.linalg.eigh(
            matrix, subset_by_index=[0, count - 1], check_finite=False
        )
    except np.linalg.LinAlgError as error:
        logger.info("%d of %d eigenpairs: %s; now all of them", count, len(matrix), error)
        return _host_eigh(matrix)
    return values, vectors


def inverse_by_eigenpairs(matrix: Array) -> Array:
    """Return the inverse of a matrix that is positive definite but for rounding.

    For where a Cholesky factorisation with a jitter fails: eigenvalues below 1e-12 of the largest
    count as that, so that the inverse is positive definite and has digits.
    """
    xp = array_namespace(matrix)
    size = int(matrix.shape[0])
    logger.info("a matrix of %d rows is not positive definite; its eigenpairs serve", size)
    values, vectors = eigh(matrix)
    return (vectors / xp.clip(values, RANK * float(values[-1]), None)) @ vectors.T


def inverse_of_factor(factor: NDArray[Any]) -> NDArray[Any]:
    """Return the inverse of LLᵀ, given L in the lower triangle; the factor is overwritten.

    By LAPACK itself: for matrices that are small and many, a wrapper costs as much as they do.
    """
    found = scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
    lower = _lower(len(found)) if len(found) <= SMALL else np.tri(len(found), dtype=bool)
    return np.where(lower, found, found.T)


@lru_cache(maxsize=64)
def _lower(size: int) -> NDArray[np.bool_]:
    """Return which entries are in the lower triangle, of which small ones are asked for often."""
    return np.tri(size, dtype=bool)


def cholesky(matrix: Array, *, overwrite: bool = False) -> Array | None:
    """Return L of a symmetric matrix LLᵀ in the lower triangle; None where there is none."""
    if type(matrix) is np.ndarray:
        factor, failed = scipy.linalg.lapack.dpotrf(
            matrix.T, lower=True, clean=False, overwrite_a=overwrite
        )
        return None if failed else factor
    with errors_raised(matrix):
        return unless_singular(array_namespace(matrix).linalg.cholesky, matrix)


def solve_lower(factor: Array, right: Array) -> Array:
    """Return L⁻¹ right, given L in the lower triangle of an array."""
    if type(factor) is np.ndarray:
        return np.asarray(scipy.linalg.lapack.dtrtrs(factor, right, lower=1)[0])
    xp = array_namespace(factor)
    if hasattr(xp.linalg, "solve_triangular"):
        return xp.linalg.solve_triangular(factor, right, upper=False)
    return xp.linalg.solve(xp.tril(factor), right)


def inverse_of_positive(matrix: Array) -> Array | None:
    """Return the inverse of a positive definite matrix, which is overwritten; None for others."""
    factor = cholesky(matrix, overwrite=True)
    if factor is None:
        return None
    if type(factor) is np.ndarray:
        return inverse_of_factor(factor)
    xp = array_namespace(factor)
    if hasattr(xp, "cholesky_inverse"):
        return xp.cholesky_inverse(factor)
    eye = xp.eye(factor.shape[0], dtype=factor.dtype, device=factor.device)
    lower = solve_lower(factor, eye)
    return lower.T @ lower


def solved_by_cholesky(matrix: Array, right: Array) -> Array | None:
    """Return M⁻¹ right for a vector; None where the matrix is not positive definite."""
    if type(matrix) is np.ndarray:
        _, solution, failed = scipy.linalg.lapack.dposv(matrix, right, overwrite_a=True)
        return None if failed else np.asarray(solution)
    factor = cholesky(matrix)
    if factor is None:
        return None
    xp = array_namespace(matrix)
    if hasattr(xp, "cholesky_solve"):
        return xp.cholesky_solve(right[:, None], factor)[:, 0]
    return xp.linalg.solve(matrix, right[:, None])[:, 0]


def solve_positive(
    matrix: Array, right: Array, solver: Callable[..., Array] | None = None
) -> Array:
    """Solve with a matrix that is positive definite but for rounding.

    By ``solver(matrix, right)``, the namespace's own without one. Where that finds the matrix
    singular, again with a jitter of rounding on the diagonal, and at last by its eigenpairs that
    are not rounding: the shortest of the nearest solutions.
    """
    xp = array_namespace(matrix)
    solver = solver or xp.linalg.solve
    solution = unless_singular(solver, matrix, right)
    if solution is not None:
        return solution
    size = int(matrix.shape[0])
    jitter = size * EPSILON * float(xp.max(abs(xp.linalg.diagonal(matrix))))
    logger.info("a matrix of %d rows is singular; again with a jitter of %.2g", size, jitter)
    shifted = add_to_diagonal(xp.asarray(matrix, copy=True), jitter)
    solution = unless_singular(solver, shifted, right)
    if solution is not None:
        return solution
    logger.info("a matrix of %d rows is not positive definite; its eigenpairs serve", size)
    values, vectors = eigh(symmetric_part(matrix))
    kept = values > RANK * values[-1]
    vectors = vectors[:, kept] / xp.sqrt(values[kept])
    return vectors @ (vectors.T @ right)


def by_cholesky(matrix: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Solve with a positive definite matrix, on the host."""
    return np.asarray(scipy.linalg.solve(matrix, right, assume_a="pos", check_finite=False))


def unless_singular(function: Callable[..., Array], *arguments: Array) -> Array | None:
    """Return ``function(*arguments)``; None where a matrix is at fault, not the program.

    The libraries have classes of errors of their own for that, with one name.
    """
    try:
        return function(*arguments)
    except Exception as error:
        if type(error).__name__.lstrip("_") != "LinAlgError":
            raise
        return None


def positive_part(array: Array) -> Array:
    """Return max(x, 0) entry by entry; several times faster than a portable ``clip``."""
    return (array + abs(array)) / 2


def diagonal(matrix: Array) -> Array:
    """Return the diagonal of a square matrix; for NumPy at once."""
    if type(matrix) is np.ndarray:
        return matrix.diagonal()
    return array_namespace(matrix).linalg.diagonal(matrix)


def less_product(array: Array, left: Array, right: Array) -> Array:
    """Return ``array - left @ right`` for a matrix or vector; by PyTorch in one operation."""
    if type(array) is np.ndarray or not hasattr(array, "addmm"):
        return array - left @ right
    add = array.addmv if right.ndim == 1 else array.addmm
    return add(left, right, alpha=-1)


def symmetric_part(matrix: Array) -> Array:
    """Return (M + Mᵀ)/2."""
    total = matrix + matrix.T
    if type(total) is np.ndarray and total.dtype.kind == "f":
        total /= 2  # in place: no second array of this size
        return total
    return total / 2


def row_lengths(matrix: Array) -> Array:
    """Euclidean norm of every row; several times faster than the general one."""
    if type(matrix) is np.ndarray:
        return np.sqrt(np.vecdot(matrix, matrix))
    xp = array_namespace(matrix)
    return xp.sqrt(xp.vecdot(matrix, matrix))


def inner_product(left: Array, right: Array) -> float:
    """Sum of the products of the entries of two arrays of one shape."""
    if type(left) is np.ndarray:
        return float(np.vdot(left, right))
    return float(array_namespace(left).sum(left * right))


def length(matrix: Array) -> float:
    """Root of the sum of the squared entries."""
    return inner_product(matrix, matrix) ** 0.5


def rows_in_use(matrix: Array) -> Array:
    """Return which rows are not zero."""
    if type(matrix) is np.ndarray:
        return matrix.any(axis=1)
    return array_namespace(matrix).any(matrix != 0, axis=1)


def column_norms(matrix: Array) -> Array:
    """Euclidean norm of every column."""
    if type(matrix) is np.ndarray:
        return np.sqrt(np.einsum("ij,ij->j", matrix, matrix))
    xp = array_namespace(matrix)
    return xp.linalg.vector_norm(matrix, axis=0)


def unit_columns(matrix: Array) -> Array:
    """Return the columns at length 1; those that are nothing but rounding as they are.

    A column of noise at length 1 would be as large as the others, and another one in every library
    and for every order of the samples.
    """
    xp = array_namespace(matrix)
    norms = column_norms(matrix)
    noise = norms <= max(NOISE, 8 * xp.finfo(norms.dtype).eps) * xp.max(norms)
    return matrix / xp.where(noise, xp.ones_like(norms), norms)


def columns_near_one(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return every column times the power of two that brings its largest entry to 1/2 … 1.

    No digit changes, and sums of squares neither underflow nor overflow, however much the scales
    of the columns differ.
    """
    exponents = np.frexp(np.max(np.abs(matrix), axis=0, initial=0.0))[1]
    factors = np.ldexp(matrix.dtype.type(1), -exponents)
    if np.isfinite(factors).all() and factors.all():
        return matrix * factors  # the same, a tenth of the time
    return np.ldexp(matrix, -exponents)


def columns_near_one_there(matrix: Array) -> Array:
    """Return the same of a matrix on a device."""
    xp = array_namespace(matrix)
    exponents = np.frexp(to_host(xp.max(abs(matrix), axis=0)))[1]
    # In two steps: the factor itself must not overflow.
    half = exponents // 2
    return (
        matrix * like(np.ldexp(1.0, -half), matrix) * like(np.ldexp(1.0, half - exponents), matrix)
    )


def column_medians(matrix: Array) -> Array:
    """Median of every column."""
    if type(matrix) is np.ndarray:
        return np.median(matrix, axis=0)
    ordered = array_namespace(matrix).sort(matrix, axis=0)
    count = int(matrix.shape[0])
    return (ordered[(count - 1) // 2, :] + ordered[count // 2, :]) / 2


def column_products(left: Array, right: Array) -> Array:
    """Inner product of every column of one matrix with the same column of another."""
    if type(left) is np.ndarray:
        return np.einsum("ij,ij->j", left, right)  # no temporary array
    return array_namespace(left).sum(left * right, axis=0)


def submatrix(matrix: Array, rows: Any, columns: Any) -> Array:
    """Return some rows and columns, given by NumPy arrays of their numbers."""
    return matrix[like(rows, matrix), :][:, like(columns, matrix)]


def add_to_diagonal(matrix: Array, values: Array) -> Array:
    """Add a vector (or a number) to the diagonal of a square matrix, in place."""
    if type(matrix) is np.ndarray and matrix.flags.c_contiguous:
        matrix.reshape(-1)[:: matrix.shape[0] + 1] += values
        return matrix
    xp = array_namespace(matrix)
    index = xp.arange(matrix.shape[0], device=matrix.device)
    matrix[index, index] += values
    return matrix


def largest_eigenvalue(matrix: Array) -> float:
    """Largest eigenvalue of a symmetric matrix, to rounding (no iterative estimate)."""
    xp = array_namespace(matrix)
    return float(xp.linalg.eigvalsh(matrix)[-1])


def blocks(length: int) -> Iterator[slice]:
    """Cut ``range(length)`` into slices of at most ``BLOCK``."""
    for first in range(0, length, BLOCK):
        yield slice(first, min(first + BLOCK, length))


def strips(rows: int, columns: int) -> Iterator[slice]:
    """Cut the rows of a matrix into slices that stay in the cache."""
    step = max(1, STRIP // max(1, columns))
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def double(array: Array) -> Array:
    """Return the array in float64; itself where it is."""
    if type(array) is np.ndarray and array.dtype == np.float64:
        return array
    xp = array_namespace(array)
    return array if array.dtype == xp.float64 else xp.astype(array, xp.float64)


def long_product(left: Array, right: Array) -> Array:
    """Return ``left @ right`` in float64 for a long inner axis, block by block."""
    xp = array_namespace(left)
    if left.dtype == right.dtype == xp.float64:
        return left @ right
    total = xp.zeros((left.shape[0], right.shape[1]), dtype=xp.float64, device=left.device)
    for part in blocks(left.shape[1]):
        total += double(left[:, part]) @ double(right[part, :])
    return total


def tall_product(tall: Array, small: Array) -> Array:
    """Return ``tall @ small`` in the dtype of ``tall``, but computed in float64 by blocks."""
    xp = array_namespace(tall)
    if tall.dtype == small.dtype == xp.float64:
        return tall @ small
    shape = (tall.shape[0], small.shape[1])
    result = xp.empty(shape, dtype=tall.dtype, device=tall.device)
    for part in blocks(shape[0]):
        result[part, :] = xp.astype(double(tall[part, :]) @ double(small), tall.dtype)
    return result


def sum_of_squares(matrix: Array) -> float:
    """Sum of the squared entries, in float64."""
    xp = array_namespace(matrix)
    return sum(float(xp.sum(double(matrix[:, part]) ** 2)) for part in blocks(matrix.shape[1]))


def columns_of(data: Array, mask: Array) -> Array:
    """Return the columns of a mask; no copy where it is all of them."""
    xp = array_namespace(data)
    return data if bool(xp.all(mask)) else data[:, mask]


def without_offsets(matrix: Any, mean: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """Take the mean off the columns of a sparse matrix that have no zero; return what is left.

    R - 1μᵀ stays the same matrix. Centring on the way, XXᵀ = RRᵀ - …, costs as many digits as μ²
    is larger than the variance, which is much only for a column without zeros; and such a column
    stays as sparse as it is.
    """
    if not np.any(mean):
        return matrix, mean
    columns = matrix.tocsc()
    if not columns.has_canonical_format:
        columns = columns.copy()
        columns.sum_duplicates()
    stored = np.diff(columns.indptr)
    shift = np.where(stored == matrix.shape[0], mean, 0.0)
    if not np.any(shift):
        return matrix, mean
    values = columns.data - np.repeat(shift, stored)
    shifted = sp.csc_array((values, columns.indices, columns.indptr), shape=matrix.shape)
    return shifted, mean - shift


def root_of_scatter(data: Array) -> Array:
    """Return a p × p root of XᵀX, which is all that the model knows of X."""
    xp = array_namespace(data)
    values, vectors = eigh(double(data.T) @ double(data))
    return xp.sqrt(positive_part(values))[:, None] * vectors.T
