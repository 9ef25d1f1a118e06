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

FAST, PLAIN = "by relatively robust representations", "by QR iteration"
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

    @cached_property
    def values(self) -> NDArray[Any]:
        """All eigenvalues, ascending."""
        values, failed = lapack.dsterf(self._diagonal, self._beside)
        return self._checked(values, failed)

    def leading(self, first: int, last: int) -> NDArray[Any]:
        """Return eigenvectors first … last - 1, counted from the largest eigenvalue, as columns."""
        known = self._known.shape[1]
        if last > known:
            self._known = np.hstack([self._known, self._found(known, last)])
        return self._known[:, first:last]

    def _found(self, first: int, last: int) -> NDArray[Any]:
        count = last - first
        beside = np.append(self._beside, 0.0)  # one more entry, for LAPACK to work in
        found, _, vectors, failed = lapack.dstemr(
            self._diagonal, beside, 2, 0.0, 0.0, self.size - last + 1, self.size - first
        )
        if failed or found != count:
            logger.info("%d of %d eigenvectors: not %s", count, self.size, FAST)
            _, vectors, failed = lapack.dstev(self._diagonal, self._beside)
            self._checked(vectors, failed)
            return self._turned(vectors[:, self.size - last : self.size - first][:, ::-1])
        return self._turned(vectors[:, :count][:, ::-1])

    def everything(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return all eigenvalues, ascending, and all eigenvectors, by divide and conquer."""
        values, vectors, failed = lapack.dstevd(self._diagonal, self._beside)
        if failed:
            logger.info("all of %d eigenvectors: again %s", self.size, PLAIN)
            values, vectors, failed = lapack.dstev(self._diagonal, self._beside)
        return self._checked(values, failed), self._turned(vectors)

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


@lru_cache(maxsize=256)
def _room(size: int) -> int:
    """Return the workspace with which LAPACK reduces a matrix in blocks."""
    return int(lapack.dsytrd_lwork(size, lower=1)[0])
