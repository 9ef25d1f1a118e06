"""One node of the search for one component: bounded, shrunk, and closed or cut in two."""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.sparse_component.bound_admm import Relaxation
from jointsparse.solvers.sparse_component.certificate import (
    BoolArray,
    Certificate,
    is_below,
    upper_eigenvalue,
)
from jointsparse.solvers.sparse_component.gershgorin import eliminate
from jointsparse.solvers.sparse_component.joint.bound import JointRelaxation
from jointsparse.solvers.sparse_component.nonnegative import bound_on_faces
from jointsparse.solvers.sparse_component.open_part import OpenPart, is_late
from jointsparse.solvers.sparse_component.primal import best_on, exchanged, largest

CHUNKS = (20, 20, 20, 40, 50, 60, 80, 100, 120, 140, 160)  # steps between two looks at the bound
SHRINK_AT = (40, 100, 210, 390, 650)  # steps after which the certificate is asked what may leave
OTHER_CHUNKS = (40, 60, 100)  # steps between two looks at the other bound
WORTH = 0.05  # share of the candidates that must leave for the relaxation to begin anew
CLEAR = 1e-9  # of k times the largest entry: an eigenvalue so far below the level is below it


class Part(OpenPart):
    """A node of the search for one component; attributes as those of :class:`OpenPart`."""

    earliest = 100

    def _is_done(self) -> bool:
        """Do what needs no relaxation; return whether that was all."""
        return not self._shrink_by_rows() or self._is_small()

    def _offer_on(self, features: IntArray) -> None:
        self._offer(best_on(self.problem.S, features, nonnegative=self.problem.nonnegative))

    def _shrink_by_rows(self) -> bool:
        """Let candidates leave by the rows of S; return whether anything is left."""
        problem = self.problem
        part = problem.part(self.candidates)
        kept, bound = eliminate(
            part, problem.k, self.mask, self.level, nonnegative=problem.nonnegative
        )
        self._lower(bound)
        if kept.size == 0:
            self._close(self.bound)
            return False
        self._keep(kept)
        return True

    def _is_small(self) -> bool:
        """Solve what needs no relaxation; return whether that was all."""
        k, S = self.problem.k, self.problem.S
        if self.candidates.size == k:
            self._solve(self.candidates)
        elif self.included.size == k:
            self._solve(self.included)
        elif self.included.size == k - 1:
            free = self.candidates[~self.mask]
            sets = np.column_stack([np.tile(self.included, (free.size, 1)), free])
            values = np.linalg.eigvalsh(S[sets[:, :, None], sets[:, None, :]])[:, -1]
            for i in np.argsort(-values, kind="stable"):
                if values[i] <= self.level - CLEAR * k * self.problem.size:
                    break
                self._solve(sets[i])
            self._close(self.level)
        else:
            return False
        return True

    def _solve(self, features: IntArray) -> None:
        """Close one support."""
        self._offer_on(features)
        bound = upper_eigenvalue(self.problem.part(features))
        if self.problem.nonnegative and bound > self.level:
            bound = bound_on_faces(self.problem.part(np.sort(features)), self.level)
        self._close(bound)

    def _relax(self, deadline: float | None) -> bool:
        """Bound what is left; return whether there is now less of it."""
        problem = self.problem
        relaxation = Relaxation(
            problem.part(self.candidates),
            problem.k,
            self.mask,
            nonnegative=problem.nonnegative,
            start=self.start,
        )
        shrunk = self._advance(relaxation, CHUNKS, deadline)
        if shrunk is not None:
            return shrunk
        self._round(relaxation.chances())
        return self._shrink_by_certificate(0.0) or self._relax_otherwise(deadline)

    def _round(self, chances: FloatArray) -> None:
        """Look whether the relaxation points to a better support."""
        problem = self.problem
        part = problem.part(self.candidates)
        features = largest(chances, problem.k, self.mask, nonnegative=True)
        found = exchanged(part, features, self.mask, nonnegative=problem.nonnegative)
        self._offer_on(self.candidates[found.features])

    def _shrink(self) -> bool:
        """Let candidates leave by the certificate now and then: it is dear to ask."""
        return self.relaxation.steps in SHRINK_AT and self._shrink_by_certificate(WORTH)

    def _shrink_by_certificate(self, worth: float) -> bool:
        """Let candidates leave, or be included, by the best certificate; whether any were."""
        useless = proved_useless(self.certificate, self.level)
        needed = proved_needed(self.certificate, self.level)
        return self._leave(useless, needed, worth)

    def _relax_otherwise(self, deadline: float | None) -> bool:
        """Try the bound that is made for several components; return whether there is now less.

        It is better where the best component uses hardly more features than it needs, and as a
        proof it is as good.
        """
        mask = self.mask
        relaxation = JointRelaxation(self.problem.part(self.candidates), self.problem.k, 1, mask)
        for chunk in OTHER_CHUNKS:
            relaxation.advance(chunk, deadline)
            found = relaxation.certificate()
            self._lower(found.value)
            if self.bound <= self.level or is_late(deadline):
                return False
            level = self.level
            useless = ~mask & (found.with_each() <= level)
            if self._leave(useless, ~mask & (found.without_each() <= level)):
                return True
            if found.value > self.certificate.value:
                break
        return False

    def _halves(self) -> tuple[int, FloatArray]:
        """Return the candidate to branch on, and the bounds without it and with it."""
        chances = self.relaxation.chances()
        chances[self.mask] = np.inf
        j = int(np.argmin(np.abs(chances - 0.5)))
        rows = self.certificate.rows
        sums = rows.without_feature(j), rows.with_feature(j)
        return j, np.array([upper_eigenvalue(self.certificate.bounded(one)) for one in sums])


def proved_useless(found: Certificate, level: float) -> BoolArray:
    """Return which features no support better than ``level`` holds."""
    free = np.flatnonzero(~found.included)
    useless = np.zeros(len(found.matrix), dtype=bool)
    sums = found.rows.with_each(free)
    # Where a vector already shows a larger value, no factorisation is needed.
    hopeful = _below_on_eigenvectors(found, sums, level)
    for position in np.flatnonzero(hopeful):
        useless[free[position]] = is_below(found.bounded(sums[:, position]), level)
    return useless


def proved_needed(found: Certificate, level: float) -> BoolArray:
    """Return which features every support better than ``level`` holds."""
    free = np.flatnonzero(~found.included)
    needed = np.zeros(len(found.matrix), dtype=bool)
    sums = np.column_stack([found.rows.without_feature(int(j)) for j in free])
    hopeful = _below_on_eigenvectors(found, sums, level)
    for position in np.flatnonzero(hopeful):
        needed[free[position]] = is_below(found.bounded(sums[:, position]), level)
    return needed


def _below_on_eigenvectors(found: Certificate, sums: FloatArray, level: float) -> BoolArray:
    """Return for which columns of sums a few vectors leave it possible that all is below."""
    matrix = found.bounded(found.rows.total)
    if len(matrix) < len(sums):  # some features have no place; their rows are none
        return np.ones(sums.shape[1], dtype=bool)
    vectors = np.linalg.eigh(matrix)[1][:, -3:]
    base = found.matrix @ vectors
    hopeful = np.ones(sums.shape[1], dtype=bool)
    present = np.isfinite(sums)
    finite = np.where(present, sums, 0.0)
    for q, image in zip(vectors.T, base.T, strict=True):
        squares = q * q
        # With rows left out, the vector is cut; the cross terms are bounded by dropping the test.
        whole = present.all(axis=0)
        quotient = float(q @ image) + squares @ finite
        hopeful &= ~whole | (quotient <= level)
        for position in np.flatnonzero(~whole & hopeful):
            cut = np.where(present[:, position], q, 0.0)
            length = float(cut @ cut)
            if length > 0:
                value = float(cut @ found.matrix @ cut) + (cut * cut) @ finite[:, position]
                hopeful[position] = value / length <= level
    return hopeful
