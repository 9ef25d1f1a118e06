r"""The elastic nets of all components at once, for one A after another.

From one alternation to the next, signs rarely change. While they do not, a solution is a linear
system whose Cholesky factor is known, and one product with S for all components tells whether the
signs are still right. Where they are not, :func:`elastic_net` goes on from the last solution.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrs

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.elastic_net import ROUNDING, cholesky, elastic_net
from jointsparse.solvers.gram import Gram


class SignedSet:
    """Features with signs, and the Cholesky factor of G = S + λ₂I on them."""

    def __init__(self, gram: Gram, ridge: float, solution: FloatArray) -> None:
        self.features = np.flatnonzero(solution)
        self.signs = np.sign(solution[self.features])
        block = gram.block(self.features)
        block.flat[:: len(block) + 1] += ridge
        self.factor = cholesky(block) if self.features.size else None

    def solve(self, right: FloatArray) -> FloatArray:
        """Return G⁻¹ right; only where G is not singular."""
        return np.asarray(dpotrs(self.factor, right, lower=1)[0])


class ElasticNets:
    """Solutions for C = S A, column by column.

    Parameters
    ----------
    gram : Gram
        Scatter matrix of trace 1.
    ridge : float
        λ₂, finite.
    count : int
        Number of components.
    """

    def __init__(self, gram: Gram, ridge: float, count: int) -> None:
        self.gram, self.ridge = gram, ridge
        self.sets: list[SignedSet | None] = [None] * count

    def at_penalties(
        self, C: FloatArray, B: FloatArray, l1: FloatArray, columns: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the solutions for these λ₁ in these columns of B, and S B."""
        found = B.copy()
        wrong = np.zeros(B.shape[1], dtype=bool)
        free = columns[l1[columns] == 0]
        if free.size:  # all features at once; no matrix of theirs where p > n
            found[:, free] = self.gram.ridge_solve(C[:, free], self.ridge)
        columns = columns[l1[columns] > 0]
        for j in columns:
            known, half = self.sets[j], l1[j] / 2
            wrong[j] = known is None or known.factor is None
            if known is None or wrong[j]:
                continue
            part = known.solve(C[known.features, j] - half * known.signs)
            wrong[j] = bool((part * known.signs <= 0).any())
            found[:, j] = 0.0
            found[known.features, j] = part
        image = self.gram.apply(found)
        slack = ROUNDING * np.maximum(np.abs(C).max(axis=0), l1 / 2)
        outside = np.abs(C - image) > l1 / 2 + slack
        wrong |= np.any(outside & (found == 0), axis=0)
        for j in columns[wrong[columns]]:
            found[:, j] = elastic_net(
                self.gram, C[:, j], ridge=self.ridge, penalty=float(l1[j]), start=B[:, j]
            )
            self.sets[j] = SignedSet(self.gram, self.ridge, found[:, j])
            image[:, j] = self.gram.apply(found[:, j])
        return found, image
