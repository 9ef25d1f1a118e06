r"""Eigenpairs of a symmetric matrix, a few vectors at a time: :math:`M = QTQ^\top`.

With T tridiagonal, all eigenvalues cost as much as a few products, and each eigenvector two more.
All vectors at once take three to four times as long as T itself; who asks for them gets them from
the same T, so that nothing is decomposed twice.
"""

from __future__ import annotations

import logging
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace, eigh

logger = logging.getLogger(__name__)

LEAST = 24  # rows below which all vectors at once take no longer than all values and a few vectors
# Of a matrix, more than one vector in so many come sooner all at once, if more are to come.
MANY = 6
AHEAD = 2  # one in so many more than are asked for: who asks twice often asks again
BLOCK = 64  # columns that LAPACK turns at once …
TRIANGLE = 65 * 64  # … and the room for the triangle of such a block


class Tridiagonal:
    """A symmetric matrix in memory as Q T Qᵀ.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric, finite, n at least 2, in float64; only one triangle is read. Overwritten.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.eigen.tridiagonal import Tridiagonal
    >>> X = np.random.default_rng(0).standard_normal((9, 5))
    >>> values, vectors = np.linalg.eigh(X.T @ X)
    >>> found = Tridiagonal(X.T @ X)
    >>> bool(np.allclose(found.values, values))
    True
    >>> bool(np.allclose(np.abs(found.leading(1, 3)), np.abs(vectors[:, [3, 2]])))
    True
    """

    def __init__(self, matrix: NDArray[Any]) -> None:
        self.size = len(matrix)
        self._reflectors, self._diagonal, self._beside, self._factors, _ = lapack.dsytrd(
            matrix.T, lower=1, lwork=_room(self.size), overwrite_a=1
        )
        self._known = np.empty((self.size, 0))
        self._all: NDArray[Any] | None = None

    @cached_property
    def values(self) -> NDArray[Any]:
        """All eigenvalues, ascending."""
        values, failed = lapack.dsterf(self._diagonal, self._beside)
        return self._checked(values, failed)

    def leading(self, first: int, last: int) -> NDArray[Any]:
        """Return eigenvectors first … last - 1, counted from the largest eigenvalue, as columns."""
        known = self._known.shape[1]
        if last > known:
            wanted = min(last + last // AHEAD, self.size)
            below = slice(self.size - wanted, self.size - known)
            found = self._turned(self._of_tridiagonal(below)[:, ::-1])
            self._known = np.hstack([self._known, found]) if known else found
        return self._known[:, first:last]

    def _of_tridiagonal(self, part: slice) -> NDArray[Any]:
        """Return some eigenvectors of T: few by inverse iteration, of many all at once."""
        if self._all is None and MANY * (self.size - part.start) <= self.size:
            whole = np.ones(self.size, dtype=np.int32)  # T is taken as one block …
            ends = np.full(self.size, self.size, dtype=np.int32)  # … that ends in its last row
            vectors, failed = lapack.dstein(
                self._diagonal, self._beside, self.values[part], whole, ends
            )
            if not failed:
                return np.asarray(vectors)
            logger.info("%d of %d eigenvectors: now all of them", vectors.shape[1], self.size)
        if self._all is None:
            self._all = self._all_of_tridiagonal()[1]
        return self._all[:, part]

    def everything(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return all eigenvalues, ascending, and all eigenvectors."""
        values, vectors = self._all_of_tridiagonal()
        return values, self._turned(vectors)

    def _all_of_tridiagonal(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Divide and conquer; the plain QR iteration where that does not converge."""
        values, vectors, failed = _divided(self._diagonal, self._beside)
        if failed:
            logger.info("all of %d eigenvectors: again by QR iteration", self.size)
            values, vectors, failed = lapack.dstev(self._diagonal, self._beside)
        return self._checked(values, failed), vectors

    def _turned(self, vectors: NDArray[Any]) -> NDArray[Any]:
        """Return Q times vectors."""
        n, count = self.size, vectors.shape[1]
        vectors = np.array(vectors, order="F")
        if count:
            # The reflectors begin one row further down than those of a QR factor. Seen from the
            # second number on, columns of the same length hold them where these would be.
            below = self._reflectors.T.reshape(-1)[1 : 1 + n * (n - 1)].reshape(n - 1, n).T
            room = BLOCK * count + TRIANGLE
            vectors[1:] = lapack.dormqr("L", "N", below, self._factors, vectors[1:], room)[0]
        return vectors

    def _checked(self, found: NDArray[Any], failed: int) -> NDArray[Any]:
        if failed or not np.isfinite(self._diagonal).all():
            raise np.linalg.LinAlgError("eigenvalues did not converge")
        return found


class KnownPairs:
    """All eigenpairs at once, or the leading ones, asked for in the same words.

    Parameters
    ----------
    values : array of shape (k,)
        Eigenvalues, ascending.
    vectors : array of shape (n, k)
        Eigenvectors, one per column; of any namespace.
    """

    def __init__(self, values: Array, vectors: Array) -> None:
        self.values, self.vectors = values, vectors

    def leading(self, first: int, last: int) -> Array:
        """Return eigenvectors first … last - 1, counted from the largest eigenvalue, as columns."""
        size = self.vectors.shape[1]
        few = self.vectors[:, size - last : size - first]
        return array_namespace(few).flip(few, axis=1)

    def everything(self) -> tuple[Array, Array]:
        """Return all eigenvalues, ascending, and all eigenvectors."""
        return self.values, self.vectors


Eigenpairs = KnownPairs | Tridiagonal


def eigenpairs(matrix: Array) -> Eigenpairs:
    """Decompose a symmetric matrix of any namespace; an array of NumPy is overwritten."""
    if type(matrix) is np.ndarray and len(matrix) >= LEAST:
        return Tridiagonal(matrix)
    return KnownPairs(*eigh(matrix))


def _divided(
    diagonal: NDArray[Any], beside: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Return all eigenpairs of T by divide and conquer, and whether that failed."""
    if hasattr(lapack, "dstevd"):
        return lapack.dstevd(diagonal, beside)
    # SciPy 1.15 has no dstevd. For a band of width one dsbevd gives the same numbers to the last
    # bit; it takes a third longer with the reduction to T, and one more square of memory.
    band = np.zeros((2, len(diagonal)))
    band[0], band[1, :-1] = diagonal, beside
    return lapack.dsbevd(band, lower=1)


@lru_cache(maxsize=256)
def _room(size: int) -> int:
    """Return the workspace with which LAPACK reduces a matrix in blocks."""
    return int(lapack.dsytrd_lwork(size, lower=1)[0])
