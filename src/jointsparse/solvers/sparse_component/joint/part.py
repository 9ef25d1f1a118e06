"""One node of the search for several components while it is looked at."""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.solvers.sparse_component.joint.bound import JointRelaxation, upper_sum
from jointsparse.solvers.sparse_component.joint.primal import best_jointly_on, exchanged_jointly
from jointsparse.solvers.sparse_component.open_part import Node, OpenPart
from jointsparse.solvers.sparse_component.primal import Component, largest
from jointsparse.solvers.sparse_component.problem import Problem

CHUNKS = (20, 20, 20, 40, 50, 60, 80, 100)  # steps between two looks at the bound


class JointPart(OpenPart):
    """A node of the search for several components; attributes as those of :class:`OpenPart`."""

    earliest = 60

    def __init__(self, problem: Problem, node: Node, best: Component, r: int) -> None:
        super().__init__(problem, node, best)
        self.r = r

    def _is_done(self) -> bool:
        """Solve what needs no relaxation; return whether that was all."""
        k = self.problem.k
        if k not in (self.candidates.size, self.included.size):
            return False
        features = self.candidates if self.candidates.size == k else self.included
        self._offer(best_jointly_on(self.problem.S, features, self.r))
        self._close(upper_sum(self.problem.part(features), self.r))
        return True

    def _relax(self, deadline: float | None) -> bool:
        """Bound what is left; return whether there is now less of it."""
        part, mask = self.problem.part(self.candidates), self.mask
        relaxation = JointRelaxation(part, self.problem.k, self.r, mask, self.start)
        shrunk = self._advance(relaxation, CHUNKS, deadline)
        if shrunk is not None:
            return shrunk
        features = largest(relaxation.z, self.problem.k, mask, nonnegative=True)
        rounded = exchanged_jointly(part, features, self.r, mask)
        self._offer(best_jointly_on(self.problem.S, self.candidates[rounded.features], self.r))
        return self._shrink()

    def _shrink(self) -> bool:
        """Let candidates leave, or be included; return whether any were."""
        mask, level, found = self.mask, self.level, self.certificate
        useless = ~mask & (found.with_each() <= level)
        return self._leave(useless, ~mask & (found.without_each() <= level))

    def _halves(self) -> tuple[int, FloatArray]:
        """Return the candidate to branch on, and the bounds without it and with it."""
        chances = np.where(self.mask, np.inf, self.relaxation.z)
        j = int(np.argmin(np.abs(chances - 0.5)))
        found = self.certificate
        return j, np.array([found.without_each()[j], found.with_each()[j]])
