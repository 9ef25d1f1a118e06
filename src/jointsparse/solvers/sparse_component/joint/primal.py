"""Good supports for several components: truncated subspace iterations, then exchanges."""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.linalg import eigh
from jointsparse.solvers.sparse_component.certificate import BoolArray
from jointsparse.solvers.sparse_component.primal import GAIN, POWER_STEPS, Component, largest

STARTS = 12  # sums of columns of S to start from
ENTERING, LEAVING = 16, 6  # features tried in an exchange


def best_jointly_on(S: FloatArray, features: IntArray, r: int) -> Component:
    """Return the best r components on a support; loadings are k × r, the first comes first."""
    features = np.sort(features)
    block = S[features[:, None], features]
    V = eigh(block)[1][:, : -r - 1 : -1]
    return Component(float(np.sum(V * (block @ V))), features, V)


def good_components(S: FloatArray, k: int, r: int, included: BoolArray) -> Component:
    """Return the best components that many starts lead to."""
    seen: set[tuple[int, ...]] = set()
    best: Component | None = None
    for start in _starts(S, r):
        features = _truncated(S, start, k, r, included)
        if tuple(features) in seen:
            continue
        seen.add(tuple(features))
        found = exchanged_jointly(S, features, r, included)
        if best is None or found.value > best.value:
            best = found
    assert best is not None
    return exchanged_jointly(S, best.features, r, included, every=True)


def _starts(S: FloatArray, r: int) -> list[FloatArray]:
    """Return sizes of features to start from: of principal subspaces, and of columns of S."""
    axes = eigh(S)[1][:, ::-1]
    sizes = [np.linalg.norm(axes[:, :m], axis=1) for m in range(1, min(2 * r, len(S)) + 1)]
    order = np.argsort(-np.linalg.norm(S, axis=1), kind="stable")[:STARTS]
    return [*sizes, *np.abs(S[order]), np.diagonal(S)]


def _truncated(S: FloatArray, sizes: FloatArray, k: int, r: int, included: BoolArray) -> IntArray:
    features = largest(sizes, k, included, nonnegative=True)
    for _ in range(POWER_STEPS):
        found = best_jointly_on(S, features, r)
        sizes = np.linalg.norm(S[:, features] @ found.loadings, axis=1)
        moved = largest(sizes, k, included, nonnegative=True)
        if np.array_equal(moved, features):
            break
        features = moved
    return features


def exchanged_jointly(
    S: FloatArray, features: IntArray, r: int, included: BoolArray, *, every: bool = False
) -> Component:
    """Exchange one feature for another as long as that gains; try the likeliest, or every pair."""
    n_entering, n_leaving = (len(S), len(S)) if every else (ENTERING, LEAVING)
    best = best_jointly_on(S, features, r)
    improved = True
    while improved:
        improved = False
        gains = np.linalg.norm(S[:, best.features] @ best.loadings, axis=1)
        gains[best.features] = -np.inf
        entering = np.argsort(-gains, kind="stable")[: min(n_entering, len(S) - best.features.size)]
        free = np.flatnonzero(~included[best.features])
        sizes = np.linalg.norm(best.loadings[free], axis=1)
        for leaving in free[np.argsort(sizes, kind="stable")[:n_leaving]]:
            rest = np.delete(best.features, leaving)
            sets = np.column_stack([np.tile(rest, (entering.size, 1)), entering])
            values = np.linalg.eigvalsh(S[sets[:, :, None], sets[:, None, :]])[:, -r:].sum(axis=1)
            if values.size and values.max() > best.value + GAIN * abs(best.value):
                best, improved = best_jointly_on(S, sets[int(np.argmax(values))], r), True
                break
    return best
