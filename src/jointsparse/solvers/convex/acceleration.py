r"""Anderson acceleration of a fixed-point iteration x ← g(x), with a safeguard.

From the last steps, the combination of them is taken whose residual would vanish if g were affine:

.. math:: x_{k+1} = g_k - \sum_i \gamma_i\,\Delta g_i,\qquad
          \gamma = \arg\min \big\|f_k - \sum_i \gamma_i\,\Delta f_i\big\|,\qquad f_k = g_k - x_k .

Where g is not affine enough the step is taken back: if the residual after it is larger than twice
the one before, the plain step g_k is made instead and the memory is emptied. So it is where the
combination leads out of all proportion: where every plain step is the same, as far from the optimum
of a loss that grows linearly, Δf is rounding, and the residual there is no larger than here. The
splitting solvers need about a third of the iterations with it, on hard problems.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from jointsparse.arrays import Array
from jointsparse.device import is_device_array, to_host
from jointsparse.linalg import array_namespace

GROWTH_ALLOWED = 2.0
# Times the residual. Of six difficult problems (one outlier, columns of 1e-12 to 1e12) splitting
# alone solves two with 1e5 and with 1e2, three with 1e4 and four with 1e3.
LONGEST_STEP = 1e3
SMALL = 2**14  # entries on a device: below, a copy of all steps costs less than a call for each
TINY = float(np.finfo(float).tiny)

Arrays = tuple[Array, ...]


class Anderson:
    """Accelerator for an x made of several arrays.

    Parameters
    ----------
    memory : int
        Number of earlier steps to combine; 0 makes plain steps.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.reset()

    def reset(self) -> None:
        """Forget everything, as is due when g changes."""
        self._previous: tuple[Arrays, Arrays] | None = None
        self._steps: list[tuple[Arrays, Arrays]] = []
        self._products: list[list[float]] = []  # ⟨Δf_i, Δf_j⟩
        self._plain: Arrays | None = None
        self._residual_before = math.inf

    def step(self, x: Arrays, f: Arrays) -> Arrays:
        """Return the next x, given x and the residual f = g(x) - x."""
        g = _sum(x, f)
        del x  # which may be large, and is not needed any more
        if self.memory == 0:
            return g
        residual = math.sqrt(_inners(f, [f])[0])
        if self._plain is not None and residual > GROWTH_ALLOWED * self._residual_before:
            plain = self._plain
            self.reset()
            return plain
        if self._previous is not None:
            self._make_room()
            g_before, f_before = self._previous
            self._previous = None
            dg = _difference(g, g_before)
            del g_before  # before the other difference takes as much
            self._remember(dg, _difference(f, f_before))
            del dg, f_before
        self._previous = (g, f)
        if not self._steps:
            self._plain = None
            return g
        combined = self._combine(g, f)
        if _distance(combined, g) > LONGEST_STEP * residual:
            self.reset()
            return g
        self._plain, self._residual_before = g, residual
        return combined

    def _make_room(self) -> None:
        """Forget the oldest step where there are as many as may be remembered."""
        if len(self._steps) == self.memory:
            self._steps = self._steps[1:]
            self._products = [row[1:] for row in self._products[1:]]

    def _remember(self, dg: Arrays, df: Arrays) -> None:
        self._steps.append((dg, df))
        new = _inners(df, [earlier for _, earlier in self._steps])
        self._products = [[*row, value] for row, value in zip(self._products, new, strict=False)]
        self._products.append(new)

    def _combine(self, g: Arrays, f: Arrays) -> Arrays:
        right = np.asarray(_inners(f, [df for _, df in self._steps]))
        weights = solved_weights(np.array(self._products), right)
        combined: list[Array] = []
        for number, part in enumerate(g):
            for weight, (dg, _) in zip(weights, self._steps, strict=True):
                part = part - float(weight) * dg[number]
            combined.append(part)
        return tuple(combined)


class AndersonOfOne(Anderson):
    """The same for an x that is one NumPy array: earlier steps are rows of a matrix.

    Where the array is small, a product with that matrix takes hardly longer than with one row.
    """

    def reset(self) -> None:
        """Forget everything, as is due when g changes."""
        super().reset()
        self._made = 0  # steps remembered so far, of which the last few are kept

    def _remember(self, dg: Arrays, df: Arrays) -> None:
        if self._made == 0:
            self._dg, self._df = np.empty((2, self.memory, df[0].size))
            self._inner = np.empty((self.memory, self.memory))
        row = self._made % self.memory
        self._made += 1
        self._steps = [(dg, df)]  # there are some
        self._dg[row], self._df[row] = dg[0].ravel(), df[0].ravel()
        kept = min(self._made, self.memory)
        self._inner[row, :kept] = self._inner[:kept, row] = self._df[:kept] @ self._df[row]

    def _combine(self, g: Arrays, f: Arrays) -> Arrays:
        kept = min(self._made, self.memory)
        right = self._df[:kept] @ f[0].ravel()
        weights = solved_weights(self._inner[:kept, :kept].copy(), right)
        return (g[0] - (weights @ self._dg[:kept]).reshape(g[0].shape),)


def solved_weights(normal: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return γ from the normal equations, which are changed."""
    # Steps that point the same way make this singular; the shift picks the smallest weights.
    diagonal = normal.reshape(-1)[:: len(right) + 1]
    diagonal += 1e-10 * diagonal.sum() + TINY  # positive even when nothing moves
    # By LAPACK itself: of a few equations, the wrapper takes several times as long as they do.
    _, _, weights, failed = lapack.dgesv(normal, right)
    return np.asarray(np.linalg.solve(normal, right) if failed else weights)


def _sum(a: Arrays, b: Arrays) -> Arrays:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _difference(a: Arrays, b: Arrays) -> Arrays:
    return tuple(x - y for x, y in zip(a, b, strict=True))


def _distance(a: Arrays, b: Arrays) -> float:
    """Return how far apart two are; on the host with the difference of one array at a time."""
    if all(isinstance(x, np.ndarray) for x in a):
        pairs = zip(a, b, strict=True)
        return math.sqrt(float(sum(_squared_norm(x - y) for x, y in pairs)))
    apart = _difference(a, b)
    return math.sqrt(_inners(apart, [apart])[0])


def _squared_norm(array: Array) -> Any:
    return np.vdot(array, array)


def _inners(a: Arrays, others: list[Arrays]) -> list[float]:
    """Return the inner products with several, which a device is asked for all at once."""
    if len(a) == 1 and isinstance(a[0], np.ndarray):
        return [float(np.vdot(a[0], b[0])) for b in others]
    if all(isinstance(x, np.ndarray) for x in a):
        return [float(sum(np.vdot(x, y) for x, y in zip(a, b, strict=True))) for b in others]
    xp = array_namespace(*a)
    flat = [xp.reshape(x, (-1,)) for x in a]
    rows = [[xp.reshape(y, (-1,)) for y in b] for b in others]
    if sum(x.shape[0] for x in flat) <= SMALL:
        parts = [xp.stack(each) for each in zip(*rows, strict=True)]
        found = sum(part @ x for part, x in zip(parts, flat, strict=True))
    else:
        found = xp.stack([sum(map(xp.vecdot, flat, b)) for b in rows])
    if is_device_array(found):
        found = to_host(found).tolist()
    return [float(value) for value in found]
