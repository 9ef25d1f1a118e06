r"""The elastic nets of all components at once, for one A after another.

From one alternation to the next, signs rarely change. While they do not, a solution is a linear
system whose Cholesky factor is known, and one product with S for all components tells whether the
signs are still right. Where they are not, all wrong ones change at once, a few times; where that
does not end, :func:`elastic_net` goes on from the last solution.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrs

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.products.gram import Gram
from jointsparse.solvers.regression.elastic_net import ROUNDING, cholesky, elastic_net

PIVOTS = 8  # sets of signs tried before they are looked for one by one


class SignedSet:
    """Features with signs, and the Cholesky factor of G = S + λ₂I on them."""

    def __init__(self, gram: Gram, ridge: float, signs: FloatArray) -> None:
        self.features = signs.nonzero()[0]
        self.signs = signs[self.features]
        block = gram.block(self.features)
        block.flat[:: len(block) + 1] += ridge
        self.factor = cholesky(block) if self.features.size else None

    def solve(self, c: FloatArray, half: float) -> FloatArray:
        """Return G⁻¹(c - half × signs) on the features; only where G is not singular."""
        right = c[self.features] - half * self.signs
        return np.asarray(dpotrs(self.factor, right, lower=1)[0])


class ElasticNets:
    """Solutions for C = S A, column by column.

    Parameters
    ----------
    gram : Gram
        Scatter matrix of trace 1.
    ridge : float
        λ₂, finite.
    shape : tuple of (int, int)
        Number of features and of components.
    """

    def __init__(self, gram: Gram, ridge: float, shape: tuple[int, int]) -> None:
        self.gram, self.ridge = gram, ridge
        self.sets: list[SignedSet | None] = [None] * shape[1]
        self.signs = np.zeros(shape)  # of all sets

    def at_penalties(
        self, C: FloatArray, B: FloatArray, l1: FloatArray, columns: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the solutions for these λ₁ in these columns of B, and S B."""
        found, half = B.copy(), l1 / 2
        free = columns[l1[columns] == 0]
        if free.size:  # all features at once; no matrix of theirs where p > n
            found[:, free] = self.gram.ridge_solve(C[:, free], self.ridge)
            columns = columns[l1[columns] > 0]
        for j in columns:
            known = self.sets[j]
            found[:, j] = 0.0
            if known is not None:
                found[known.features, j] = known.solve(C[:, j], half[j])
        image = self.gram.apply(found)
        limits = half + ROUNDING * np.maximum(np.abs(C).max(axis=0), half)
        wrong = np.any(_wrong(self.signs, found, np.abs(C - image) > limits), axis=0)
        for j in columns:
            if wrong[j] or self.sets[j] is None:
                found[:, j], image[:, j] = self._by_pivots(
                    j, C[:, j], found[:, j], image[:, j], half[j], limits[j], B[:, j]
                )
        return found, image

    def _by_pivots(
        self,
        j: int,
        c: FloatArray,
        b: FloatArray,
        image: FloatArray,
        half: float,
        limit: float,
        start: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Return one solution and S times it, from one that has some signs wrong.

        Features whose sign is wrong leave and those that are missed enter, all at once. Where that
        does not end soon, for it need not, the safe way is taken.
        """
        signs = self.signs[:, j].copy()
        for _ in range(PIVOTS):
            rest = c - image
            size = np.where(signs == 0, np.abs(rest), 0.0)
            signs[b * signs <= 0] = 0.0
            missed = (size > limit).nonzero()[0]
            most = max(10, int(np.count_nonzero(signs)))
            if missed.size > most:  # one that enters explains others, which then need not
                missed = missed[np.argsort(-size[missed], kind="stable")[:most]]
            signs[missed] = np.sign(rest[missed])
            known = SignedSet(self.gram, self.ridge, signs)
            if known.factor is None:
                break
            b = np.zeros(c.size)
            b[known.features] = known.solve(c, half)
            image = self.gram.apply(b)
            if not _wrong(signs, b, np.abs(c - image) > limit).any():
                return self._keep(j, known, signs, b, image)
        b = elastic_net(self.gram, c, ridge=self.ridge, penalty=2 * half, start=start)
        signs = np.sign(b)
        known = SignedSet(self.gram, self.ridge, signs)
        return self._keep(j, known, signs, b, self.gram.apply(b))

    def _keep(
        self, j: int, known: SignedSet, signs: FloatArray, b: FloatArray, image: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        singular = known.factor is None  # or there is none
        self.sets[j] = None if singular else known
        self.signs[:, j] = 0.0 if singular else signs
        return b, image


def _wrong(signs: FloatArray, b: FloatArray, over: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where a sign is not that of the loading, or a feature without sign is missed."""
    return np.where(signs == 0, over, b * signs <= 0)
