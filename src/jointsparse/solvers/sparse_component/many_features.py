r"""Features that are in no better support, where S is too large to form.

The discs of ``gershgorin.py`` from blocks of rows. Of rows that cannot reach the level even if all
their entries were as large as they can be, :math:`|S_{ij}|\le\|x_i\|\|x_j\|`, nothing is computed:
they let every feature leave. Where the variances of few features stand out, these are nearly all
rows, and the cost is that of some products with the samples; otherwise it is that of S, in time
though not in memory.

The entry (i, j) may be computed twice and come out twice; the smaller one in size counts as the
entry. It too is within the rounding that :meth:`ScatterEntries.error` charges to every bound.
"""

from __future__ import annotations

import time

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.sparse_component.certificate import UNIT
from jointsparse.solvers.sparse_component.entries import ScatterEntries
from jointsparse.solvers.sparse_component.gershgorin import Rows, better_weights
from jointsparse.solvers.sparse_component.primal import Component, best_on, largest

BLOCK_NUMBERS = 2**22  # entries of S formed at a time, 32 MB
FIRST = 12  # features to start a power iteration from, those with the largest discs
STEPS = 60  # of one power iteration
AXIS_STEPS = 30  # towards the first principal component, to start from


class ManyFeatures:
    """Elimination by products with the samples.

    Parameters
    ----------
    samples : ScatterEntries
        Products with the samples.
    k : int
        Number of features in a support.
    candidates, included : ndarray
        Features that may be in the support, and those that must be.
    nonnegative : bool
        Whether only v ≥ 0 are meant.
    """

    def __init__(
        self,
        samples: ScatterEntries,
        k: int,
        candidates: IntArray,
        included: IntArray,
        *,
        nonnegative: bool,
    ) -> None:
        self.samples, self.k, self.nonnegative = samples, k, nonnegative
        self.kept, self.included = candidates, included
        self.radii = samples.diagonal[candidates]  # how promising a feature is
        self.weights = np.ones(candidates.size)  # w of the next discs
        self.error = samples.error(k)
        top = np.sort(samples.lengths[candidates] ** 2)[-k:]
        self.bound = float(top.sum()) * (1 + 4 * (k + 4) * UNIT)  # the trace of the largest part
        self.best = self._first()

    def _first(self) -> Component:
        """Return a component from the features that vary most and from the principal axis."""
        samples = self.samples
        start = np.zeros(samples.n_features)
        start[self.kept] = samples.diagonal[self.kept]
        found = self._power(start)
        everything = np.arange(samples.n_features)
        x = samples.lengths * (1 + np.arange(samples.n_features) % 7)  # no symmetry survives
        for _ in range(AXIS_STEPS):
            image = samples.image(everything, x)
            length = np.linalg.norm(image)
            if length == 0:
                return found
            x = samples.back(image / length)
        return max(found, self._power(x), self._power(-x), key=lambda c: c.value)

    def improve(self) -> None:
        """Start from the features with the largest discs too."""
        for position in np.argsort(-self.radii, kind="stable")[:FIRST]:
            feature = self.kept[position : position + 1]
            start = self.samples.back(self.samples.image(feature, np.ones(1)))
            found = self._power(start)
            if found.value > self.best.value:
                self.best = found

    def _power(self, start: FloatArray) -> Component:
        """Return where a truncated power iteration ends."""
        forced = np.isin(self.kept, self.included)
        x, features = start, np.zeros(0, dtype=np.int64)
        best: Component | None = None
        for _ in range(STEPS):
            chosen = largest(x[self.kept], self.k, forced, nonnegative=self.nonnegative)
            moved = self.kept[chosen]
            if np.array_equal(moved, features):
                break
            features = moved
            block = self.samples.square(features)
            found = best_on(block, np.arange(features.size), nonnegative=self.nonnegative)
            if best is None or found.value > best.value:
                best = Component(found.value, features, found.loadings)
            x = self.samples.back(self.samples.image(features, found.loadings))
        assert best is not None
        return best

    def shrink(self, level: float, deadline: float | None) -> bool:
        """Let features leave that are in no support better than ``level``.

        Returns whether all rows were looked at in time; where they were not, none leave.
        """
        below = level - self.error
        kept, weights = self.kept, self.weights
        forced = np.isin(kept, self.included)
        self.radii = self._reach(self.samples.lengths[kept])
        loud = np.flatnonzero(self.radii > below)
        blocking = np.full(kept.size, -np.inf)  # the largest row with each feature in the support
        size = max(1, BLOCK_NUMBERS // kept.size)
        for first in range(0, loud.size, size):
            if deadline is not None and time.perf_counter() >= deadline:
                return False
            own = loud[first : first + size]
            block = self.samples.entries(kept[own], kept)
            rows = Rows(
                block, kept.size, self.k, forced, weights, own, nonnegative=self.nonnegative
            )
            np.maximum(blocking, rows.with_each().max(axis=0), out=blocking)
            self.radii[own] = rows.radii
        self.bound = min(self.bound, max(float(self.radii.max()) + self.error, level))
        self.weights = better_weights(weights, self.radii)
        stay = forced | (blocking > below)
        if np.count_nonzero(stay) < self.k:
            stay[:] = False  # every support holds a feature that is in no better one
        self.kept, self.radii, self.weights = kept[stay], self.radii[stay], self.weights[stay]
        return True

    def _reach(self, lengths: FloatArray) -> FloatArray:
        """Return what no row can exceed, by the lengths of the columns alone."""
        weighted = lengths * self.weights
        k = min(self.k, lengths.size)
        top = float(np.partition(weighted, lengths.size - k)[-k:].sum())
        # The k largest hold the feature itself, or a larger one in its place.
        others = np.maximum(top - weighted, 0.0) + 8 * k * UNIT * top
        return lengths**2 + lengths / self.weights * others * (1 + 8 * UNIT)
