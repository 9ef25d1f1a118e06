r"""The lowest eigenpairs of K = A + diag(w), by a Davidson method whose shift follows them.

Rayleigh-Ritz on a growing orthonormal basis, which every step extends by

.. math:: (K-\sigma)^{-1}(Kv_i-\theta_iv_i)\qquad\text{for all pairs that are not accurate yet.}

Thousands of weights that are nearly equal make eigenvalues that differ by 1e-4 of themselves and
less, and an inverse with σ below all of them hardly tells those apart. Where that is slow, σ moves
up to the pair that lacks most; a few steps do then. Systems need not be solved accurately, as pairs
are judged by their residuals.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.solvers.eigen.block_krylov import Pairs
from jointsparse.solvers.eigen.orthonormal import outside
from jointsparse.solvers.eigen.ties import later_tie

Operator = Callable[[FloatArray], FloatArray]

ACCURATE = 1e-9  # angle between a wanted vector and the wanted space: residual over distance
GUARD = 1e-4  # the same for the first guard: farther from one, it might hide a wanted one
ROUNDING = 1e-12  # residual, relative to the sizes of A and the eigenvalues, that may be rounding
STALLED = 0.5  # … and is, where a step leaves more than this share of it
SLOW = 0.1  # a step that leaves more than this share of the error calls for another shift
LOCATED = 0.1  # residual over distance at which the shift may move to a pair
ASIDE = 0.05  # of that distance: how far below the pair the shift then lies
WIDEST = 6  # times the pairs: columns of the basis, before it shrinks to them


def lowest_pairs(
    product: Operator,
    solver: Callable[[float], Operator],
    weights: FloatArray,
    start: FloatArray,
    count: int,
    *,
    shift: float,
    size: float,
    max_steps: int = 200,
) -> Pairs:
    """Return as many eigenpairs as ``start`` has columns, the first ``count`` accurately.

    Accurate are also those that tie with number ``count``; where all of them do, more columns are
    needed to see the end of the tie, and the pairs are returned as they are.

    Parameters
    ----------
    product : callable
        Multiplies a block by A.
    solver : callable
        Given σ, returns what multiplies a block by about (K - σ)⁻¹.
    weights : ndarray of shape (n_features,)
        w.
    start : ndarray of shape (n_features, width)
        Vectors to start from; ``width`` above ``count`` gives guards.
    count : int
        Number of wanted pairs.
    shift : float
        The first σ, below all eigenvalues.
    size : float
        Largest modulus of the eigenvalues of A.
    max_steps : int
        Limit on the number of extensions of the basis.

    Returns
    -------
    Pairs
        Eigenvalues in ascending order.
    """
    at, solve = shift, solver(shift)
    search = _Search(product, weights, start.shape[1])
    search.extend(solve(start))
    if search.used < start.shape[1]:  # one eigenvalue so far below all others hides them
        search.extend(start)
    before = np.inf
    for _ in range(max_steps):
        values, residuals = search.pairs()
        end = int(np.count_nonzero(values <= values[count - 1] + later_tie(values, count)))
        if end == values.size:
            break
        # An error of a feature is its residual over its weight, where that is large; undivided,
        # its rounding alone would exceed any tolerance.
        scale = size + float(np.max(np.abs(values)))
        errors = np.linalg.norm(residuals * (scale / (scale + weights))[:, None], axis=0)
        distances = values[end] - values[:end]
        late = np.zeros(values.size, dtype=bool)
        late[:end] = errors[:end] > ACCURATE * distances
        late[end] = errors[end] > GUARD * distances[-1]
        if not late.any():
            break
        lacking = np.where(late[:end], errors[:end] / distances, 0.0)
        if lacking.max() > STALLED * before and np.all(errors[late] < ROUNDING * scale):
            break
        if lacking.max() > SLOW * before:
            wished = _next_shift(values, distances, lacking, shift)
            if wished != at:
                at, solve = wished, solver(wished)
        before = float(lacking.max())
        if not search.extend(solve(residuals[:, late])):
            break  # what is missing is rounding
    else:
        return Pairs(search.values, search.vectors, False)
    return Pairs(search.values, search.vectors, True)


def _next_shift(
    values: FloatArray, distances: FloatArray, lacking: FloatArray, first: float
) -> float:
    """Return a shift just below the pair that lacks most among those that are located."""
    located = np.where(lacking < LOCATED, lacking, 0.0)
    if not lacking.any():
        located[-1] = 1.0  # nothing but a guard, which is the next one to the last
    if not located.any():
        return first
    worst = int(np.argmax(located))
    return float(values[worst] - ASIDE * distances[worst])


class _Search:
    """A basis, K times the basis, and the inner products of the two."""

    def __init__(self, product: Operator, weights: FloatArray, width: int) -> None:
        self.product, self.weights, self.width = product, weights, width
        shape = (weights.size, min((WIDEST + 1) * width, weights.size))
        self.basis, self.images = np.empty(shape, order="F"), np.empty(shape, order="F")
        self.inner = np.empty((shape[1], shape[1]))
        self.used = 0

    def extend(self, block: FloatArray) -> bool:
        """Add directions; False where the basis has all of them already."""
        if self.used + block.shape[1] > self.basis.shape[1] and self.used > self.width:
            self._shrink()
        old = self.used
        block = outside(self.basis[:, :old], block)[:, : self.basis.shape[1] - old]
        self.used = used = old + block.shape[1]
        self.basis[:, old:used] = block
        self.images[:, old:used] = self.product(block) + self.weights[:, None] * block
        corner = self.basis[:, :used].T @ self.images[:, old:used]
        self.inner[:used, old:used] = corner
        self.inner[old:used, :used] = corner.T
        return used > old

    def pairs(self) -> tuple[FloatArray, FloatArray]:
        """Return the lowest Ritz values and the residuals of their vectors."""
        inner = self.inner[: self.used, : self.used]
        values, turn = np.linalg.eigh((inner + inner.T) / 2)
        self.values, turn = values[: self.width], turn[:, : self.width]
        self.vectors = self.basis[:, : self.used] @ turn
        self.turned = self.images[:, : self.used] @ turn
        return self.values, self.turned - self.vectors * self.values

    def _shrink(self) -> None:
        """Start anew from the pairs."""
        self.used = kept = self.values.size
        self.basis[:, :kept], self.images[:, :kept] = self.vectors, self.turned
        self.inner[:kept, :kept] = np.diag(self.values)
