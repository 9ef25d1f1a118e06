r"""The largest eigenpairs of a symmetric operator, from a block of starting vectors.

Rayleigh-Ritz on the block Krylov space span(V, TV, T²V, …), restarted with its best vectors; the
space is deepened where that goes slowly. A block is needed for two reasons: eigenvalues may be
multiple, of which a single vector sees one copy, and a sequence of similar operators starts from
the vectors of the one before, which makes it a matter of a few products. The vectors beyond those
wanted, the guards, show where the wanted ones end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.eigen.ritz import RitzBasis

SHALLOW, DEEP = 3, 32  # blocks in the space, at first and at most
SLOW = 0.1  # a restart that leaves more than this share of the residual calls for a deeper space
GUARD_TOL = 1e-3  # relative residual at which the first guard is believed


class Pairs(NamedTuple):
    """Eigenvalues in descending order, eigenvectors, and whether the wanted ones are accurate."""

    values: FloatArray
    vectors: FloatArray
    converged: bool


def widened(start: FloatArray, width: int) -> FloatArray:
    """Return ``width`` vectors: those given, then the same random ones every time."""
    if start.shape[1] >= width:
        return start[:, :width]
    rng = np.random.default_rng(0)
    extra = rng.standard_normal((start.shape[0], width - start.shape[1]))
    return np.column_stack([start, extra])


def largest_pairs(
    apply: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    count: int,
    *,
    tol: float = 1e-10,
    max_restarts: int = 60,
) -> Pairs:
    """Return as many eigenpairs as ``start`` has columns, the first ``count`` accurately.

    Parameters
    ----------
    apply : callable
        Multiplies a block of vectors by the operator, which is positive semidefinite.
    start : ndarray of shape (n, width)
        Vectors to start from; ``width`` above ``count`` gives guards.
    count : int
        Number of pairs whose residual must reach ``tol``.
    tol : float
        Norm of the residual, relative to the largest eigenvalue.
    max_restarts : int
        Limit on the number of restarts.
    """
    n, width = start.shape
    deepest = max(1, min(DEEP, n // width))
    depth, before = min(SHALLOW, deepest), np.inf
    ritz = RitzBasis(apply, start[:, 0], largest=True)
    ritz.extend(start)
    if ritz.used < width:  # vectors that depend on each other
        ritz.extend(widened(start[:, :0], width - ritz.used))
    for _ in range(max_restarts):
        while ritz.used < depth * width and ritz.deepen():
            pass
        ritz.solve()
        values, vectors, residuals = ritz.pairs(width)
        residual = np.linalg.norm(residuals, axis=0) / abs(values[0])
        if np.all(residual[:count] <= tol) and np.all(residual[count : count + 1] <= GUARD_TOL):
            return Pairs(values, vectors, True)
        worst = float(np.max(residual[:count]))
        if worst > SLOW * before:
            depth = min(2 * depth, deepest)
        before = worst
        ritz.shrink()
    return Pairs(values, vectors, False)
