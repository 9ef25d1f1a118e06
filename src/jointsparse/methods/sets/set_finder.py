"""How many features, and a first set of that size."""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.methods.sets.constraining import check_size
from jointsparse.selection.choosing import Wanted, by_score
from jointsparse.solvers.subset.exchange import (
    FoundSet,
    exchange,
    explained_curve,
    good_set,
    greedy_set,
    in_order,
)
from jointsparse.solvers.subset.problem import SubsetProblem, set_value
from jointsparse.solvers.subset.rules import Rules


class SetFinder:
    """Finds sets by greedy picks, and by exchanges unless only picks are wanted.

    Parameters
    ----------
    problem : SubsetProblem
        Features and target.
    rules : Rules
        Constraints.
    variances : ndarray of shape (n_features,)
        Variances of the features.
    greedy : bool
        Whether there are no exchanges.
    """

    def __init__(
        self, problem: SubsetProblem, rules: Rules, variances: FloatArray, *, greedy: bool
    ) -> None:
        self.problem, self.rules, self.variances = problem, rules, variances
        self.greedy = greedy
        self.scores = np.clip(problem.gains, 0.0, None)

    def find(self, wanted: Wanted, *, shrink: bool) -> FoundSet:
        """Return a set as large as it is wanted, or as the constraints let it be.

        Parameters
        ----------
        wanted : Wanted
            How many features.
        shrink : bool
            Whether the value of a set is what is wanted of it, so that exchanges may do with fewer.
        """
        include = self.rules.include
        if wanted.count is not None:
            check_size(self.rules, wanted.count)
            return self._of_size(min(wanted.count, self.rules.most_features()))
        live = self.problem.live & self.rules.allowed
        live[list(include)] = True
        if wanted.r2 is not None:
            return self._reaching(wanted.r2, shrink)
        if self.rules.coupled:
            return self._of_size(min(int(live.sum()), self.rules.most_features()))
        return self._found(np.flatnonzero(live))

    def most(self, wanted: Wanted, found: FoundSet) -> int:
        """Return how many features a set may have to be compared with the one that was found."""
        if wanted.count is not None:
            return wanted.count
        if wanted.r2 is None and self.rules.coupled:
            return max(self.rules.most_features(), found.features.size)
        return int(found.features.size)

    def _found(self, features: IntArray) -> FoundSet:
        return FoundSet(features, set_value(self.problem, features))

    def _of_size(self, size: int) -> FoundSet:
        found = (greedy_set if self.greedy else good_set)(self.problem, size, self.rules)
        return found if found.features.size == size else self._filled(found.features, size)

    def _filled(self, features: IntArray, size: int) -> FoundSet:
        """Add features that a set determines already: the best of those left over, in rounds.

        They add nothing in these samples, but average out noise in others.
        """
        chosen = features.tolist()
        while len(chosen) < size:
            free = self.rules.left_over(chosen) & self.problem.live
            if not free.any():
                break
            some = Rules(self.problem.n_features, (), free)
            for feature in greedy_set(self.problem, size - len(chosen), some).features.tolist():
                if self.rules.left_over(chosen)[feature]:
                    chosen.append(feature)
        for feature in by_score(self.scores, self.variances).tolist():
            if len(chosen) < size and self.rules.left_over(chosen)[feature]:
                chosen.append(feature)  # constant features, where nothing else is left
        return self._found(np.array(chosen, dtype=np.int64))

    def _reaching(self, r2: float, shrink: bool) -> FoundSet:
        """Return the smallest set found that explains a share of the variance of all features."""
        least, most, size = len(self.rules.include), self.rules.most_features(), 8
        while True:
            picks = greedy_set(self.problem, min(size, most), self.rules).features
            curve = explained_curve(self.problem, picks, self.variances)
            enough = np.flatnonzero(curve >= r2)
            if enough.size or picks.size < size:
                break
            size *= 2
        count = max(int(enough[0]) + 1 if enough.size else picks.size, least)
        found = self._found(self.rules.cut(picks, count))  # a group is kept as a whole
        if self.greedy:
            return found
        found = exchange(self.problem, found.features, self.rules)
        if self.rules.wholes:
            return found
        while shrink and enough.size and found.features.size > max(least, 1):
            fewer = self._without_weakest(found.features)
            if fewer.value < r2:
                break
            found = fewer
        order = in_order(self.problem, found.features)[0]
        reached = np.flatnonzero(explained_curve(self.problem, order, self.variances) >= r2)
        if least == 0 and reached.size and reached[0] + 1 < order.size:
            return self._found(order[: reached[0] + 1])
        return found

    def _without_weakest(self, features: IntArray) -> FoundSet:
        """Return the set without the last of its free members, after exchanges."""
        order = in_order(self.problem, features)[0]
        free = np.flatnonzero(~np.isin(order, self.rules.include))
        return exchange(self.problem, np.delete(order, free[-1]), self.rules)
