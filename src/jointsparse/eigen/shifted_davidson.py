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
from jointsparse.eigen.block_krylov import Pairs
from jointsparse.eigen.ritz import RitzBasis
from jointsparse.eigen.ties import later_tie

Operator = Callable[[FloatArray], FloatArray]

ACCURATE = 1e-9  # angle between a wanted vector and the wanted space: residual over distance
GUARD = 1e-4  # the same for the first guard: farther from one, it might hide a wanted one
ROUNDING = 1e-12  # residual, relative to the sizes of A and the eigenvalues, that may be rounding
STALLED = 0.5  # … and is, where a step leaves more than this share of it
SLOW = 0.1  # a step that leaves more than this share of the error calls for another shift
LOCATED = 0.1  # residual over distance at which the shift may move to a pair
ASIDE = 0.05  # of that distance: how far below the pair the shift then lies
WIDEST = 7  # times the pairs: columns of the basis at most; with more it shrinks to them


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
    width = start.shape[1]
    search = RitzBasis(
        lambda block: product(block) + weights[:, None] * block,
        weights,
        largest=False,
        room=WIDEST * width,
    )
    search.extend(solve(start))
    if search.used < width:  # one eigenvalue so far below all others hides them
        search.extend(start)
    before = np.inf
    for _ in range(max_steps):
        search.solve()
        values, vectors, residuals = search.pairs(width)
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
        if search.used + int(late.sum()) > WIDEST * width and search.used > width:
            search.shrink()
        if not search.extend(solve(residuals[:, late])):
            break  # what is missing is rounding
    else:
        return Pairs(values, vectors, False)
    return Pairs(values, vectors, True)


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
