r"""Loadings with so many nonzeros: the best on their supports, and supports improved by swaps.

.. math:: \min_b\ (a-b)^\top S\,(a-b) + \lambda_2\|b\|_2^2\quad\text{with } \|b\|_0\le m

On one support that is a linear system. Without feature i of it the objective would rise by
:math:`b_i^2/(G^{-1})_{ii}`, G = S + λ₂I on the support; with a feature outside, whose gradient is
g, it would fall by at least :math:`g^2/(S_{ii}+\lambda_2)`. Features are exchanged where that
promises to gain, and only if it has gained. In the limit :math:`\lambda_2\to\infty` the m largest
entries of c = S a are the solution.
"""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.linalg import inverse_of_factor, length
from jointsparse.numerics.projections import polar
from jointsparse.solvers.products.gram import Gram
from jointsparse.solvers.regression.elastic_net import cholesky

MOST_SWAPS = 2  # features exchanged at once; then half as many, until the objective falls
GAIN = 1e-9  # relative fall of the objective that makes a swap worth while
QUIET = 2  # steps without a swap, after which none are tried before the loadings stand still


class Supports:
    """Supports of all components, for one A after another.

    Parameters
    ----------
    gram : Gram
        Scatter matrix of trace 1.
    ridge : float
        λ₂; infinity for the limit form.
    counts : ndarray of shape (n_components,)
        Number of nonzeros of each component.
    """

    def __init__(self, gram: Gram, ridge: float, counts: IntArray) -> None:
        self.gram, self.ridge, self.counts = gram, ridge, counts
        self.features: list[IntArray] = []
        self.inverses: list[Inverse] = []
        self.quiet = 0  # steps since the last swap
        self.swaps = 0

    @property
    def settled(self) -> bool:
        """Whether the supports have stood still for a while."""
        return self.quiet >= QUIET

    def step(
        self, C: FloatArray, B: FloatArray, columns: IntArray, *, search: bool
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return the best B for A (C = S A) in these columns, and S B where known.

        Without ``search`` the supports stay (in the limit form they follow A all the same).
        """
        if np.isinf(self.ridge):
            found = self._largest(C, columns)
            moved = not np.array_equal(found != 0, B != 0)
            self.quiet = 0 if moved else self.quiet + 1
            return found, None
        if not self.features:
            self._begin(C, B)
            scale = self.gram.diagonal + self.ridge
            self.reach = 1 / np.where(scale > 0, scale, np.inf)[:, None]
        found = np.zeros_like(B)
        for j in columns:
            features = self.features[j]
            found[features, j] = self.inverses[j].inverse @ C[features, j]
        image = self.gram.apply(found)
        if search:
            swapped = self._search(C, found, image, columns)
            self.quiet = 0 if swapped else self.quiet + 1
        return found, image

    def _largest(self, C: FloatArray, columns: IntArray) -> FloatArray:
        found = np.zeros_like(C)
        for j in columns:
            size = np.abs(C[:, j])
            kept = size > _threshold_for(size, int(self.counts[j]))
            found[kept, j] = C[kept, j]
        return found

    def _begin(self, C: FloatArray, B: FloatArray) -> None:
        """Take the features of B, or those that go with A best where there are not as many."""
        for j, count in enumerate(self.counts):
            known = np.flatnonzero(B[:, j])
            largest = np.argsort(-np.abs(C[:, j]), kind="stable")[:count]
            self.features.append(known if known.size == count else np.sort(largest))
            self.inverses.append(self._system(self.features[j]))

    def _search(
        self, C: FloatArray, found: FloatArray, image: FloatArray, columns: IntArray
    ) -> bool:
        """Exchange features of every component where that gains; change B and S B."""
        gains = (C - image) ** 2 * self.reach
        gains[found != 0] = 0.0
        most = gains.max(axis=0)
        before = self.swaps
        for j in columns:
            features, gain = self.features[j], gains[:, j]
            loss = found[features, j] ** 2 * self.inverses[j].weights
            if most[j] <= loss.min():
                continue
            gain[features] = 0.0  # also where a loading is zero
            leaving = np.argsort(loss, kind="stable")[:MOST_SWAPS]
            entering = _largest_first(gain, leaving.size)
            promising = gain[entering] > loss[leaving[: entering.size]]
            self._exchange(C[:, j], found[:, j], image[:, j], j, leaving, entering[promising])
        return self.swaps > before

    def _exchange(
        self,
        c: FloatArray,
        found: FloatArray,
        image: FloatArray,
        j: int,
        leaving: IntArray,
        entering: IntArray,
    ) -> None:
        """Exchange as many features of component j as gains; change b and S b."""
        features, swaps = self.features[j], entering.size
        least = (1 + GAIN) * float(found[features] @ c[features])
        while swaps > 0:
            other = features.copy()
            other[leaving[:swaps]] = entering[:swaps]
            other.sort()
            system = self._system(other)
            b = system.inverse @ c[other]
            if b @ c[other] > least:
                self.features[j], self.inverses[j] = other, system
                found[features] = 0.0
                found[other] = b
                image[:] = self.gram.apply(found)
                self.swaps += 1
                return
            swaps //= 2

    def _system(self, features: IntArray) -> Inverse:
        block = self.gram.block(features)
        block.flat[:: len(block) + 1] += self.ridge
        return Inverse(block)


class Inverse:
    """Inverse of G on one support, and the reciprocals of its diagonal."""

    def __init__(self, block: FloatArray) -> None:
        factor = cholesky(block)
        if factor is None:  # equal features, or more than the rank
            self.inverse = np.asarray(np.linalg.pinv(block, rcond=1e-12, hermitian=True))
        else:
            self.inverse = inverse_of_factor(factor)
        diagonal = np.diagonal(self.inverse)
        # Features that do not vary have none, and lose nothing.
        self.weights = np.divide(1.0, diagonal, out=np.zeros(len(block)), where=diagonal > 0)


def towards_axes(directions: FloatArray, spread: FloatArray) -> FloatArray:
    """Rotate directions so that each has few large entries (varimax); the widest comes first.

    Parameters
    ----------
    directions : ndarray of shape (n_features, n_components)
        Orthonormal columns: the principal components.
    spread : ndarray of shape (n_components,)
        Variance along each.
    """
    rotation = np.eye(directions.shape[1])
    for _ in range(50):
        turned = directions @ rotation
        pull = turned * turned
        pull = turned * (pull - pull.sum(axis=0) / len(pull))
        previous, rotation = rotation, polar(directions.T @ pull)
        if length(rotation - previous) <= 1e-3:  # it is a start
            break
    widths = spread @ rotation**2
    return directions @ rotation[:, np.argsort(-widths, kind="stable")]


def _largest_first(values: FloatArray, count: int) -> IntArray:
    """Return where the largest values are, the largest first."""
    if count < values.size:
        some = np.argpartition(-values, count)[:count]
    else:
        some = np.arange(values.size)
    return np.asarray(some[np.argsort(-values[some], kind="stable")])


def _threshold_for(sizes: FloatArray, count: int) -> float:
    """Return a threshold that leaves ``count`` sizes above it."""
    if count >= sizes.size:
        return 0.0
    place = sizes.size - count
    ordered = np.partition(sizes, [place - 1, place])
    below, above = float(ordered[place - 1]), float(ordered[place])
    # Values that differ by rounding only are a tie: none of them may stay by chance.
    return above if above <= below * (1 + 1e-9) else below
