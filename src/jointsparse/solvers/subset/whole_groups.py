"""Groups of features that are chosen as a whole: what they are made of, and better sets of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from jointsparse.arrays import IntArray
from jointsparse.solvers.subset.problem import SubsetProblem, independent
from jointsparse.solvers.subset.rules import Rules

Refill = Callable[[list[int]], IntArray]


def settled(problem: SubsetProblem, rules: Rules) -> SubsetProblem:
    """Return the problem without what the first features of a whole group determine of the others.

    The columns that stand for one category add up to a constant, so that the last of them is no
    direction of its own. Such features count and cost, and add nothing to their group: that is
    part of what a value, and a proof, are about.

    Parameters
    ----------
    problem : SubsetProblem
        Features and target.
    rules : Rules
        Constraints.
    """
    idle: list[int] = []
    for members in rules.wholes:
        first = independent(problem, members)
        others = np.array(sorted(set(members) - set(first)), dtype=np.int64)
        # What only seems to be determined may add something, and stays.
        idle += others[problem.determined(first, others)].tolist()
    if not idle:
        return problem
    columns = problem.columns.copy()
    columns[:, idle] = 0.0
    return replace(problem, columns=columns)


def units_of(features: IntArray, rules: Rules) -> list[list[int]]:
    """Return what an allowed set is made of: whole groups, and features by themselves."""
    inside = set(features.tolist())
    wholes = [list(members) for members in rules.wholes if inside.issuperset(members)]
    grouped = {feature for members in wholes for feature in members}
    fixed = set(rules.include)
    return wholes + [[f] for f in features.tolist() if f not in grouped and f not in fixed]


def without_each_unit(features: IntArray, rules: Rules, refill: Refill) -> list[IntArray]:
    """Return sets with one unit less, filled up again without it.

    Parameters
    ----------
    features : ndarray of int
        An allowed set.
    rules : Rules
        Constraints.
    refill : callable
        Returns a set that begins with the features given.
    """
    found = []
    for unit in units_of(features, rules):
        rest = [feature for feature in features.tolist() if feature not in unit]
        again = refill(rest)
        if not np.array_equal(np.sort(again), np.sort(features)):
            found.append(again)
    return found
