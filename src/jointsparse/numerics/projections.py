"""Projections onto the constraint sets of the models, one function for each set."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from jointsparse.arrays import Array
from jointsparse.device import like, to_host
from jointsparse.linalg import array_namespace, eigh, positive_part

FAR_FROM_DEPENDENT = 1e-8  # least over largest squared singular value


def positive_eigenpairs(matrix: Array, shift: float = 0.0) -> tuple[Array, Array]:
    """Return the eigenpairs of ``matrix - shift * I`` whose eigenvalue is positive.

    They are the projection of that matrix onto the positive semidefinite cone, in factored form:
    ``(vectors * values) @ vectors.T``. With ``shift = step * eta`` this is also the proximal step
    of ``eta * trace`` on the cone.
    """
    xp = array_namespace(matrix)
    values, vectors = eigh(matrix)
    first = int(xp.sum(values <= shift))  # eigenvalues come in ascending order
    return values[first:] - shift, vectors[:, first:]


def from_eigenpairs(values: Array, vectors: Array) -> Array:
    """Return the matrix with these eigenpairs (all other eigenvalues zero)."""
    return (vectors * values) @ vectors.T


def singular_pairs_above(matrix: Array, threshold: float) -> tuple[Array, Array]:
    """Return the singular values above a threshold, ascending, and their right vectors.

    They come from the eigenvectors of MᵀM, at a quarter of the cost of a singular value
    decomposition; values far below the largest one are less accurate. The matrix should be tall.
    """
    xp = array_namespace(matrix)
    squares, vectors = eigh(matrix.T @ matrix)
    first = int(xp.sum(squares <= threshold**2))
    return xp.sqrt(squares[first:]), vectors[:, first:]


def shrink_singular_values(matrix: Array, threshold: float) -> Array:
    """Lower every singular value by ``threshold``, to zero where it is not larger.

    This is the proximal step of the nuclear norm. Only directions with a singular value above the
    threshold are needed, and those come accurately enough from :func:`singular_pairs_above`.
    """
    if matrix.shape[0] < matrix.shape[1]:
        return shrink_singular_values(matrix.T, threshold).T
    values, vectors = singular_pairs_above(matrix, threshold)
    return ((matrix @ vectors) * (1 - threshold / values)) @ vectors.T


def polar(matrix: Array) -> Array:
    """Return the matrix with orthonormal columns that is nearest to a tall one: U Vᵀ of its SVD."""
    # Where the matrix is small, finding out what kind of array it is would cost most of the time,
    # and so would what NumPy does around LAPACK.
    if isinstance(matrix, np.ndarray):
        failed = 1
        if matrix.dtype == np.float64 and matrix.size:  # of nothing, LAPACK prints a complaint
            left, _, right, failed = lapack.dgesdd(matrix, full_matrices=0)
        if failed:  # or another type
            left, _, right = np.linalg.svd(matrix, full_matrices=False)
        return np.asarray(left @ right)
    # On a device a singular value decomposition takes many launches for every column. Of a matrix
    # whose columns are far from dependent M(MᵀM)^(-1/2) is near, and one step of Newton's
    # iteration takes the rounding out, which is squared; otherwise a QR factorisation leaves a
    # small matrix, for the host.
    squares, axes = np.linalg.eigh(to_host(matrix.T @ matrix))
    if squares[0] > FAR_FROM_DEPENDENT * squares[-1]:
        near = matrix @ like((axes / np.sqrt(squares)) @ axes.T, matrix)
        left_over = to_host(near.T @ near)
        return near @ like(1.5 * np.eye(len(left_over)) - 0.5 * left_over, matrix)
    orthonormal, small = array_namespace(matrix).linalg.qr(matrix)
    return orthonormal @ like(polar(to_host(small)), matrix)


def project_rows_to_simplex(matrix: Array) -> Array:
    """Return, for every row, the nearest point with entries of at least 0 that sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.numerics.projections import project_rows_to_simplex
    >>> project_rows_to_simplex(np.array([[0.5, 0.5, -3.0], [2.0, 0.0, 0.0]])).tolist()
    [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]
    """
    xp = array_namespace(matrix)
    # The largest entry of a row moves to 0 first: adding a number to a row changes nothing, and
    # huge entries must not cancel digits of the sums.
    shifted = matrix - xp.max(matrix, axis=1, keepdims=True)
    ordered = xp.flip(xp.sort(shifted, axis=1), axis=1)
    excess = xp.cumulative_sum(ordered, axis=1) - 1
    place = xp.arange(1, matrix.shape[1] + 1, dtype=matrix.dtype, device=matrix.device)
    positive = ordered * place > excess
    count = xp.sum(xp.astype(positive, xp.int64), axis=1, keepdims=True)
    threshold = xp.take_along_axis(excess, count - 1, axis=1) / xp.astype(count, matrix.dtype)
    return positive_part(shifted - threshold)
