r"""Rayleigh-Ritz on a growing basis: what every eigensolver here does, whatever makes it grow.

With an orthonormal basis V of some space, the eigenpairs of :math:`V^\top KV = Y\Theta Y^\top` make
the Ritz pairs (θ, Vy), which are the best that the space has, with residuals (KV)y - θVy. The
solvers differ in the directions that they add:

* :mod:`~jointsparse.eigen.block_krylov`: K times the newest ones;
* :mod:`~jointsparse.eigen.davidson` and
  :class:`~jointsparse.solvers.graph.sparse_form.SparseScatterForm`: residuals over a diagonal;
* :mod:`~jointsparse.eigen.shifted_davidson`: residuals through a shifted inverse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jointsparse.arrays import Array
from jointsparse.eigen.orthonormal import outside
from jointsparse.linalg import array_namespace, eigh, symmetric_part


class RitzPairs(NamedTuple):
    """Ritz values, their vectors and the residuals of these, in columns."""

    values: Array
    vectors: Array
    residuals: Array


class RitzBasis:
    """An orthonormal basis V, KV, and the inner products of the two.

    Vectors are kept in rows, so that the basis grows and shrinks by contiguous pieces; what is
    given and returned has them in columns.

    Parameters
    ----------
    apply : callable
        Multiplies a block of columns by the symmetric operator K.
    model : array of shape (n,)
        Of the namespace, the type and the device of all vectors.
    largest : bool
        Whether Ritz pairs begin with the largest, or with the lowest.
    room : int
        How many vectors to have room for; more are found room for when they come.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.eigen.ritz import RitzBasis
    >>> K = np.diag([1.0, 2.0, 5.0])
    >>> ritz = RitzBasis(K.__matmul__, np.zeros(3), largest=True)
    >>> ritz.extend(np.eye(3)[:, 1:])
    True
    >>> ritz.solve().tolist()
    [5.0, 2.0]
    """

    def __init__(
        self, apply: Callable[[Array], Array], model: Array, *, largest: bool, room: int = 0
    ) -> None:
        self.apply, self.largest = apply, largest
        self.used = self._newest = 0
        self._basis = self._images = model[None, :][:0, :]
        self._inner = self._basis[:, :0]
        self._make_room(min(room, model.shape[0]))

    @property
    def _vectors(self) -> Array:
        """V, in columns."""
        return self._basis[: self.used, :].T

    def extend(self, block: Array) -> bool:
        """Add directions; False where the basis has all of them already."""
        old = self.used
        block = outside(self._vectors, block)[:, : block.shape[0] - old]
        used = old + block.shape[1]
        self._make_room(used)
        self._basis[old:used, :] = block.T
        self._images[old:used, :] = self.apply(block).T
        corner = self._basis[:used, :] @ self._images[old:used, :].T
        self._inner[:used, old:used] = corner
        self._inner[old:used, :used] = corner.T
        self._newest, self.used = old, used
        return used > old

    def deepen(self) -> bool:
        """Add K times the directions that were added last, the newest block of a Krylov space.

        What the basis has of them is taken off first: of vectors that are nearly eigenvectors very
        little else is left, and that is what matters.
        """
        part = slice(self._newest, self.used)
        known = self._inner[part, : self.used] @ self._basis[: self.used, :]
        return self.extend((self._images[part, :] - known).T)

    def solve(self) -> Array:
        """Return all Ritz values, in the order wanted."""
        values, turn = eigh(symmetric_part(self._inner[: self.used, : self.used]))
        if self.largest:
            xp = array_namespace(values)
            values, turn = xp.flip(values), xp.flip(turn, axis=1)
        self._values, self._turn = values, turn
        return values

    def pairs(self, count: int) -> RitzPairs:
        """Return the first Ritz pairs; :meth:`solve` goes before."""
        values, turn = self._values[:count], self._turn[:, :count].T
        vectors = turn @ self._basis[: self.used, :]
        images = turn @ self._images[: self.used, :]
        self._kept = values, vectors, images
        return RitzPairs(values, vectors.T, (images - values[:, None] * vectors).T)

    def shrink(self) -> None:
        """Start anew from the pairs that were returned last."""
        values, vectors, images = self._kept
        xp, kept = array_namespace(values), values.shape[0]
        self._basis[:kept, :], self._images[:kept, :] = vectors, images
        diagonal = xp.eye(kept, dtype=values.dtype, device=values.device) * values
        self._inner[:kept, :kept] = diagonal
        self._newest, self.used = 0, kept

    def _make_room(self, size: int) -> None:
        """Have arrays of so many rows, and of some more where they have to be copied."""
        if size <= self._basis.shape[0]:
            return
        n, used = self._basis.shape[1], self.used
        rows = min(max(2 * used, size), n)
        self._basis = _larger(self._basis[:used, :], (rows, n))
        self._images = _larger(self._images[:used, :], (rows, n))
        self._inner = _larger(self._inner[:used, :used], (rows, rows))


def _larger(array: Array, shape: tuple[int, int]) -> Array:
    """Return an array of another shape that begins with this one."""
    larger = array_namespace(array).empty(shape, dtype=array.dtype, device=array.device)
    larger[: array.shape[0], : array.shape[1]] = array
    return larger
