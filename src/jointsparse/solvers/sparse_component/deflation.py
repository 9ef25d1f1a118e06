r"""Sparse components one after another, each with a proof about what the earlier ones left.

.. math:: v_j = \arg\max_v\ v^\top S_j v\quad\text{with } \|v\|_2 = 1,\ \|v\|_0\le k_j,\qquad
          S_1 = S,\quad S_{j+1} = (I-v_jv_j^\top)\,S_j\,(I-v_jv_j^\top) .

Each step takes exactly :math:`v_j^\top S_jv_j` off the trace. The proof of a component concerns its
deflated matrix :math:`S_j`, not the components jointly: other components together may explain more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.linalg import blocks
from jointsparse.solvers.sparse_component.entries import ScatterEntries
from jointsparse.solvers.sparse_component.solve import (
    Proof,
    power_of_two,
    prove_matrix,
    prove_samples,
)

NOTHING = 1e-12  # of the largest variance: what is left below this is rounding


@dataclass(frozen=True)
class ProvedComponents:
    """Components, and how much better each could be.

    Attributes
    ----------
    loadings : ndarray of shape (n_features, n_components)
        Unit vectors; fewer than asked for where nothing is left to explain.
    values, bounds : ndarray of shape (n_components,)
        vᵀSv of each, and what nothing exceeds, S being what the earlier ones left.
    proved : ndarray of bool, shape (n_components,)
        Whether value and bound are within the tolerance of each other.
    nodes : int
        Nodes of all searches.
    """

    loadings: FloatArray
    values: FloatArray
    bounds: FloatArray
    proved: NDArray[np.bool_]
    nodes: int


class Deflated:
    """S or the centred samples, without what components explain.

    Parameters
    ----------
    scatter : ndarray of shape (p, p) or None
        S; copied.
    centred : ndarray of shape (n, p) or None
        Centred samples in its place; copied.
    """

    def __init__(self, scatter: FloatArray | None, centred: FloatArray | None = None) -> None:
        self.scatter = None if scatter is None else scatter.copy()
        self.centred = None if centred is None else np.array(centred, dtype=np.float64)
        self.first = self.largest

    @property
    def largest(self) -> float:
        """The largest variance of a feature."""
        if self.scatter is not None:
            return float(np.max(np.diagonal(self.scatter)))
        assert self.centred is not None
        return max(
            float(np.max(np.einsum("ij,ij->j", part, part)))
            for part in (self.centred[:, columns] for columns in blocks(self.centred.shape[1]))
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing left but rounding."""
        return self.largest <= NOTHING * self.first

    def proof(self, k: int, tol: float) -> Proof:
        """Return the beginning of a proof about the best component of what is left."""
        nobody = np.zeros(0, dtype=np.int64)
        if self.scatter is not None:
            return prove_matrix(self.scatter, k, np.arange(len(self.scatter)), nobody, tol=tol)
        assert self.centred is not None
        samples = ScatterEntries(self.centred, power_of_two(self.largest))
        return prove_samples(samples, k, np.arange(samples.n_features), nobody, tol=tol)

    def project_out(self, v: FloatArray) -> None:
        """Take off what a component explains."""
        used = np.flatnonzero(v)
        if self.scatter is None:
            assert self.centred is not None
            part = self.centred[:, used]
            self.centred[:, used] = part - np.outer(part @ v[used], v[used])
            return
        image = self.scatter[:, used] @ v[used]
        half = image - 0.5 * float(v @ image) * v
        change = np.outer(v, half)
        self.scatter -= change + change.T


def components_by_deflation(
    left: Deflated, counts: Sequence[int], *, seconds: float, tol: float
) -> ProvedComponents:
    """Find components one after another.

    Parameters
    ----------
    left : Deflated
        What there is to explain; changed.
    counts : sequence of int
        Number of nonzeros of each component.
    seconds : float
        Time for each of them.
    tol : float
        Relative gap that counts as proved.
    """
    vectors, values, bounds, proved, nodes = [], [], [], [], 0
    for k in counts:
        if left.is_empty:
            break
        proof = left.proof(int(k), tol)
        proof.run(time_limit=seconds)
        v = np.zeros(proof.n_features)
        v[proof.best.features] = proof.best.loadings
        left.project_out(v)
        vectors.append(v)
        values.append(proof.best.value / proof.scale)
        bounds.append(proof.bound / proof.scale)
        proved.append(proof.proved)
        nodes += proof.nodes
    return ProvedComponents(
        np.column_stack(vectors), np.array(values), np.array(bounds), np.array(proved), nodes
    )
