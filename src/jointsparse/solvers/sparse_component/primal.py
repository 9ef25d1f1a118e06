r"""Good supports: truncated power iterations from many starts, then exchanges of features.

On one support H the best v is the first eigenvector of :math:`S_{HH}`; with v ≥ 0 that too, where
its entries have one sign, and otherwise the best has fewer features. From a support, the entries of
S v say which features would gain most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.linalg import eigh, lowest_eigenpairs
from jointsparse.solvers.sparse_component.certificate import BoolArray

STARTS = 24  # columns of S to start from, those of the largest sums
AXES = 4  # principal components to start from
POWER_STEPS = 100  # of one truncated power iteration; most take fewer than ten
ENTERING, LEAVING = 16, 6  # features tried in an exchange
GAIN = 1e-12  # relative gain that makes an exchange worth while


@dataclass(frozen=True)
class Component:
    """A feasible component: a value that is attained, and by what.

    Attributes
    ----------
    value : float
        vᵀSv.
    features : ndarray
        Support, ascending: k features, of which some may have a zero loading.
    loadings : ndarray
        v on the support.
    """

    value: float
    features: IntArray
    loadings: FloatArray


def best_on(S: FloatArray, features: IntArray, *, nonnegative: bool = False) -> Component:
    """Return the best component on a support (where v ≥ 0: a good one)."""
    features = np.sort(features)
    block = S[features[:, None], features]
    v = eigh(block)[1][:, -1]
    v = v * np.sign(v[np.argmax(np.abs(v))])
    if nonnegative and np.any(v < 0):
        v = _nonnegative_on(block, v)
    return Component(float(v @ block @ v), features, v)


def _nonnegative_on(block: FloatArray, v: FloatArray) -> FloatArray:
    """Return a good v ≥ 0: power iterations kept at v ≥ 0, from several starts."""
    size = len(block)
    shift = np.maximum(-np.linalg.eigvalsh(block)[0], 0.0)  # then no step lowers the value
    shifted = block + shift * np.eye(size)
    starts = [np.maximum(v, 0.0), np.maximum(-v, 0.0), np.abs(v), *np.eye(size)]
    best, found = -np.inf, np.eye(size)[int(np.argmax(np.diagonal(block)))]
    for start in starts:
        if not start.any():
            continue
        w = start / np.linalg.norm(start)
        for _ in range(POWER_STEPS):
            moved = np.maximum(shifted @ w, 0.0)
            length = np.linalg.norm(moved)
            if length == 0 or np.abs(moved / length - w).max() < 1e-12:
                break
            w = moved / length
        w = _polished(block, w)
        if (value := float(w @ block @ w)) > best:
            best, found = value, w
    return found


def _polished(block: FloatArray, w: FloatArray) -> FloatArray:
    """Return the first eigenvector on the support of w, where it is positive and better."""
    kept = np.flatnonzero(w > 1e-9)
    v = eigh(block[np.ix_(kept, kept)])[1][:, -1]
    v = v if v.sum() >= 0 else -v
    if np.all(v >= 0):
        w = np.zeros_like(w)
        w[kept] = v
    return w


def good_component(
    S: FloatArray, k: int, included: BoolArray, *, nonnegative: bool = False
) -> Component:
    """Return the best component that many starts lead to."""
    p = len(S)
    if k >= p:
        return best_on(S, np.arange(p), nonnegative=nonnegative)
    seen: set[tuple[int, ...]] = set()
    best: Component | None = None
    for start in _starts(S, k, nonnegative=nonnegative):
        features = truncated_power(S, start, k, included, nonnegative=nonnegative)
        key = tuple(features.tolist())
        if key in seen:
            continue
        seen.add(key)
        found = exchanged(S, features, included, nonnegative=nonnegative)
        if best is None or found.value > best.value:
            best = found
    assert best is not None
    return best


def _starts(S: FloatArray, k: int, *, nonnegative: bool) -> list[FloatArray]:
    """Return directions to start from."""
    p = len(S)
    axes = lowest_eigenpairs(-S, min(AXES, p))[1].T
    entries = np.maximum(S, 0.0) if nonnegative else np.abs(S)
    sums = np.sort(entries, axis=1)[:, -k:].sum(axis=1)
    order = np.argsort(-sums, kind="stable")[:STARTS]
    widest = np.zeros(p)
    widest[np.argsort(-np.diagonal(S), kind="stable")[:k]] = 1.0
    signed = [sign * axis for axis in axes for sign in ((1, -1) if nonnegative else (1,))]
    return [*signed, *S[order], widest]


def largest(x: FloatArray, k: int, included: BoolArray, *, nonnegative: bool) -> IntArray:
    """Return the support of the k largest entries that holds what is included, ascending."""
    size = np.where(included, np.inf, x if nonnegative else np.abs(x))
    return np.sort(np.argsort(-size, kind="stable")[:k])


def truncated_power(
    S: FloatArray, start: FloatArray, k: int, included: BoolArray, *, nonnegative: bool = False
) -> IntArray:
    """Return the support at which the truncated power iteration stands still."""
    features = largest(start, k, included, nonnegative=nonnegative)
    for _ in range(POWER_STEPS):
        found = best_on(S, features, nonnegative=nonnegative)
        moved = largest(S[:, features] @ found.loadings, k, included, nonnegative=nonnegative)
        if np.array_equal(moved, features):
            break
        features = moved
    return features


def exchanged(
    S: FloatArray, features: IntArray, included: BoolArray, *, nonnegative: bool = False
) -> Component:
    """Exchange one feature for another as long as that gains."""
    best = best_on(S, features, nonnegative=nonnegative)
    improved = True
    while improved:
        improved = False
        gains = S[:, best.features] @ best.loadings
        gains = gains if nonnegative else np.abs(gains)
        gains[best.features] = -np.inf
        entering = np.argsort(-gains, kind="stable")[: min(ENTERING, len(S) - best.features.size)]
        free = np.flatnonzero(~included[best.features])
        weakest = free[np.argsort(np.abs(best.loadings[free]), kind="stable")[:LEAVING]]
        for leaving in weakest:
            found = _best_entering(S, best, int(leaving), entering, nonnegative=nonnegative)
            if found.value > best.value + GAIN * abs(best.value):
                best, improved = found, True
                break
    return best


def _best_entering(
    S: FloatArray, best: Component, leaving: int, entering: IntArray, *, nonnegative: bool
) -> Component:
    """Return the best component after one feature left and one of several came in."""
    rest = np.delete(best.features, leaving)
    sets = np.column_stack([np.tile(rest, (entering.size, 1)), entering])
    if sets.shape[0] == 0:
        return best
    values = np.linalg.eigvalsh(S[sets[:, :, None], sets[:, None, :]])[:, -1]
    if not nonnegative:
        return best_on(S, sets[int(np.argmax(values))])
    promising = np.flatnonzero(values > best.value)
    return max(
        (best_on(S, sets[i], nonnegative=True) for i in promising),
        key=lambda found: found.value,
        default=best,
    )
