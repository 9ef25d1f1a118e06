r"""The fixed-point iteration of principal component pursuit: what happens between decompositions.

With :math:`U=\operatorname{clip}(T,\pm b)`, b = λ/μ, and S the shrinking of singular values, one
step is

.. math:: f = \omega\,\big(X + U - T - S(X + 2U - T)\big),\qquad g = T + f,

and the next T is a combination of the last g by Anderson's method, with the safeguards of
:mod:`~jointsparse.solvers.convex.acceleration`. :class:`Steps` does it with the arrays of any
namespace. :class:`StepsInParts` is for large NumPy arrays, of which each operation by itself runs
through memory once: it keeps the last f and g as rows of two matrices and does all that belongs
together part by part, in place, while the part is in the cache. With :math:`s_{ij}=\langle
f_i,f_j\rangle`, the products of the differences that Anderson's method asks for are differences of
s, so that the differences need neither memory nor a pass of their own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace
from jointsparse.running.cores import threads
from jointsparse.running.threads import LONG_PART, in_parts
from jointsparse.solvers.convex.acceleration import (
    GROWTH_ALLOWED,
    LONGEST_STEP,
    Anderson,
    solved_weights,
)

RELAXATION = 1.6
ROUNDING = 1e-15  # of ‖f‖²: products of differences that are less than this are rounding

Vector = NDArray[np.float64]


class Steps:
    """The iteration in any namespace.

    Parameters
    ----------
    data : array of shape (n, p)
        X.
    bound : float
        b; it goes with the step, and :meth:`change` changes both.
    memory : int
        Number of earlier steps to combine; 0 makes plain steps.
    """

    def __init__(self, data: Array, bound: float, memory: int) -> None:
        xp = array_namespace(data)
        self.data, self.bound = data, bound
        self.T = xp.zeros_like(data)  # U + E: the multipliers are what the threshold leaves of it
        self.U = xp.zeros_like(data)
        self.M: Any = None
        self.accelerator = Anderson(memory)

    def point(self) -> Array:
        """Return X + 2U - T, whose singular values are to be shrunk."""
        # In place: for large data, fresh memory costs more than the arithmetic.
        self.M = self.U + self.U
        self.M -= self.T
        self.M += self.data
        return self.M

    def advance(self, A: Array, R: Array) -> None:
        """Go on to the next T, given the factors of what shrinking has left of the point."""
        M, self.M = self.M, None
        M -= self.U
        M -= A @ R.T
        M *= RELAXATION
        (self.T,) = self.accelerator.step((self.T,), (M,))
        self.U = array_namespace(M).clip(self.T, -self.bound, self.bound)

    def parts(self) -> tuple[Array, Array]:
        """Return U and E = T - U, the soft threshold: exactly 0 where nothing was clipped."""
        return self.U, self.T - self.U

    def change(self, factor: float) -> None:
        """Divide the bound and U by a factor; E stays."""
        E = self.T - self.U
        self.bound /= factor
        self.U /= factor
        self.T = E + self.U
        self.accelerator.reset()


class StepsInParts:
    """The same iteration for NumPy arrays, part by part and in place.

    Parameters
    ----------
    data : ndarray of shape (n, p)
        X, in rows.
    bound, memory
        As for :class:`Steps`.
    """

    def __init__(self, data: NDArray[np.float64], bound: float, memory: int) -> None:
        self.shape, self.bound, self.memory = data.shape, bound, memory
        self.data = data.reshape(-1)
        self.T = np.zeros(data.size)
        self.M = np.empty(data.size)  # the point, and then what shrinking leaves of it
        # Rows of f and g in turn; memory that is not written to yet is not taken.
        self.f, self.g = np.empty((2, memory + 1 if memory else 0, data.size))
        self.products = np.empty((memory + 1, memory + 1))
        self.reset()

    def reset(self) -> None:
        """Forget earlier steps, as is due when the map changes."""
        self.rows: list[int] = []  # of earlier steps, the last one at the end
        self.bold = False  # whether the last step was combined, so that it may be taken back
        self.residual_before = math.inf

    def point(self) -> Array:
        """Return X + 2U - T, whose singular values are to be shrunk."""

        def points(part: slice) -> None:
            M, T = self.M[part], self.T[part]
            np.clip(T, -self.bound, self.bound, out=M)
            M += M
            M -= T
            M += self.data[part]

        self._each(points)
        return self.M.reshape(self.shape)

    def advance(self, A: Array, R: Array) -> None:
        """Go on to the next T, given the factors of what shrinking has left of the point."""
        np.matmul(A, R.T, out=self.M.reshape(self.shape))
        if self.memory == 0:
            self._each(self._plain_step)
            return
        row = self.rows[0] if len(self.rows) > self.memory else len(self.rows)
        rows = [*self.rows[max(0, len(self.rows) - self.memory) :], row]
        self._each(lambda part: self._residual(part, row))
        kept = len(rows)  # rows are filled from the first on
        self.products[row, :kept] = self.products[:kept, row] = self.f[:kept] @ self.f[row]
        residual = math.sqrt(self.products[row, row])
        if self.bold and residual > GROWTH_ALLOWED * self.residual_before:
            self._take(self.rows[-1])
            self.reset()
            return
        self.rows = rows
        if len(rows) == 1:
            self._take(row)
            return
        np.matmul(self._weights(), self.g[:kept], out=self.T)
        apart = sum(self._each(lambda part: _squared_distance(self.T[part], self.g[row, part])))
        if math.sqrt(float(apart)) > LONGEST_STEP * residual:
            self._take(row)
            self.reset()
            return
        self.bold, self.residual_before = True, residual

    def parts(self) -> tuple[Array, Array]:
        """Return U and E = T - U, the soft threshold: exactly 0 where nothing was clipped."""
        U, E = np.empty((2, self.T.size))

        def split(part: slice) -> None:
            np.clip(self.T[part], -self.bound, self.bound, out=U[part])
            np.subtract(self.T[part], U[part], out=E[part])

        self._each(split)
        return U.reshape(self.shape), E.reshape(self.shape)

    def change(self, factor: float) -> None:
        """Divide the bound and U by a factor; E stays."""

        def changed(part: slice) -> None:
            U = np.clip(self.T[part], -self.bound, self.bound)
            U *= 1 - 1 / factor
            self.T[part] -= U

        self._each(changed)
        self.bound /= factor
        self.reset()

    def _residual(self, part: slice, row: int) -> None:
        """Put f and g into their rows."""
        f = self._step(part, self.f[row, part])
        np.add(self.T[part], f, out=self.g[row, part])

    def _plain_step(self, part: slice) -> None:
        self.T[part] += self._step(part, None)

    def _step(self, part: slice, out: Vector | None) -> Vector:
        T = self.T[part]
        f = np.clip(T, -self.bound, self.bound, out=out)
        f -= T
        f += self.data[part]
        f -= self.M[part]
        f *= RELAXATION
        return f

    def _weights(self) -> Vector:
        """Return the weights of the rows of g, which add up to 1.

        With D the matrix of differences of neighbours, γ solves (D s Dᵀ) γ = D s e, e the last
        unit vector, and the weights are e - Dᵀγ.
        """
        products = self.products[np.ix_(self.rows, self.rows)]
        differences = np.diff(np.eye(len(self.rows)), axis=0)
        normal = differences @ products @ differences.T
        normal.flat[:: len(normal) + 1] += ROUNDING * products.diagonal().max()
        weights = np.zeros(len(self.rows))
        weights[self.rows] = -solved_weights(normal, differences @ products[:, -1]) @ differences
        weights[self.rows[-1]] += 1
        return weights

    def _take(self, row: int) -> None:
        def copied(part: slice) -> None:
            self.T[part] = self.g[row, part]

        self._each(copied)

    def _each(self, work: Any) -> list[Any]:
        return in_parts(work, self.T.size, part=LONG_PART, workers=threads())


def _squared_distance(a: Vector, b: Vector) -> float:
    apart = a - b
    # BLAS would start threads of its own, in each of those that share the parts.
    return float(np.einsum("i,i->", apart, apart))


def steps(data: Array, bound: float, memory: int) -> Steps | StepsInParts:
    """Return the iteration that suits an array."""
    if type(data) is np.ndarray and data.dtype == np.float64:
        return StepsInParts(data, bound, memory)
    return Steps(data, bound, memory)
