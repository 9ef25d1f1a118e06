"""Which sets are allowed: features that must or must not be in, budgets, at most so many of a kind.

With a set allowed, every subset of it that keeps the included features is allowed too; the search
relies on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray

BUDGET_ROUNDING = 1e-12  # share of the budget by which a sum of prices may exceed it


@dataclass(frozen=True)
class Rules:
    """Constraints of a problem with numbered features.

    Attributes
    ----------
    n_features : int
        Number of features.
    include : tuple of int
        Features that must be in.
    allowed : ndarray of bool
        Features that may be in; what is included is.
    costs : ndarray or None
        Price of each feature, at least 0.
    budget : float
        What a set may cost.
    groups : ndarray of int or None
        Number of the group of each feature; -1 for none.
    most : ndarray of int or None
        How many features of each group may be in.
    """

    n_features: int
    include: tuple[int, ...]
    allowed: NDArray[np.bool_]
    costs: FloatArray | None = None
    budget: float = np.inf
    groups: IntArray | None = None
    most: IntArray | None = None

    @classmethod
    def none(cls, n_features: int) -> Rules:
        """Allow every set."""
        return cls(n_features, (), np.ones(n_features, dtype=bool))

    @property
    def coupled(self) -> bool:
        """Whether some features cannot be in because others are."""
        return self.costs is not None or self.groups is not None

    @property
    def _limit(self) -> float:
        return self.budget * (1 + BUDGET_ROUNDING)

    def left_over(self, chosen: Sequence[int] | IntArray) -> NDArray[np.bool_]:
        """Return which features may join a set that is allowed."""
        chosen = np.asarray(chosen, dtype=np.int64)
        free = self.allowed.copy()
        free[chosen] = False
        if self.costs is not None:
            free &= self.costs[chosen].sum() + self.costs <= self._limit
        if self.groups is not None and self.most is not None:
            free &= self._room(chosen)[self.groups] > 0
        return free

    def _room(self, chosen: IntArray) -> IntArray:
        """Return how many more of each group may be in; the last entry is for no group."""
        assert self.groups is not None
        assert self.most is not None
        numbers = self.groups[chosen]
        used = np.bincount(numbers[numbers >= 0], minlength=self.most.size)
        return np.append(self.most - used, np.iinfo(np.int64).max)

    def pairs(self, chosen: Sequence[int] | IntArray, candidates: IntArray) -> NDArray[np.bool_]:
        """Return which pairs of candidates, each allowed by itself, may join together."""
        chosen = np.asarray(chosen, dtype=np.int64)
        good = ~np.eye(candidates.size, dtype=bool)
        if self.costs is not None:
            prices = self.costs[candidates]
            good &= self.costs[chosen].sum() + prices[:, None] + prices <= self._limit
        if self.groups is not None:
            kind = self.groups[candidates]
            alike = (kind[:, None] == kind) & (kind >= 0)
            good &= ~alike | (self._room(chosen)[kind] > 1)
        return good

    def swaps(self, chosen: IntArray) -> NDArray[np.bool_]:
        """Return which feature (row) may take the place of which chosen one (column)."""
        good = np.empty((self.n_features, chosen.size), dtype=bool)
        for place in range(chosen.size):
            if int(chosen[place]) in self.include:
                good[:, place] = False
                continue
            good[:, place] = self.left_over(np.delete(chosen, place))
        good[chosen, :] = False
        return good

    def allows(self, chosen: Sequence[int] | IntArray) -> bool:
        """Whether a set keeps to the constraints."""
        members = np.asarray(chosen, dtype=np.int64)
        if not self.allowed[members].all() or not set(self.include) <= set(members.tolist()):
            return False
        if self.costs is not None and self.costs[members].sum() > self._limit:
            return False
        return self.groups is None or bool(np.all(self._room(members) >= 0))

    def most_features(self) -> int:
        """Return a number that no allowed set exceeds."""
        count = int(self.allowed.sum())
        if self.costs is not None:
            inside = list(self.include)
            others = self.allowed.copy()
            others[inside] = False
            spent = np.cumsum(np.append(self.costs[inside].sum(), np.sort(self.costs[others])))
            count = min(count, len(inside) + int(np.sum(spent[1:] <= self._limit)))
        if self.groups is not None and self.most is not None:
            numbers = self.groups[self.allowed]
            sizes = np.bincount(numbers[numbers >= 0], minlength=self.most.size)
            count = min(count, int(np.minimum(sizes, self.most).sum() + np.sum(numbers < 0)))
        return count


@dataclass(frozen=True)
class Constraints:
    """Which sets of features are allowed.

    A set H of at most k features is allowed if it contains all of ``include`` and none of
    ``exclude``, if its prices add up to no more than ``budget``, and if it has no more than
    ``max_per_group`` features of each group. An excluded feature is still to be explained.

    Parameters
    ----------
    include : sequence of int or str, default=()
        Features that must be in the set, by number or by name.
    exclude : sequence of int or str, default=()
        Features that must not be in the set.
    costs : sequence of float, mapping or None, default=None
        Price of every feature, at least 0; or {feature: price}, others being free.
    budget : float or None, default=None
        What the set may cost at most; goes with ``costs``.
    groups : sequence, mapping or None, default=None
        The group of every feature, a number or a name, None for no group; or {feature: group}.
    max_per_group : int, mapping or None, default=None
        How many features of a group may be in the set; or {group: number}. Goes with ``groups``.

    Examples
    --------
    >>> from jointsparse import Constraints
    >>> panel = Constraints(include=["TP53"], exclude=["ACTB"], groups={"A1": "a", "A2": "a"},
    ...                     max_per_group=1)
    >>> rules = panel.resolve(4, ["TP53", "A1", "ACTB", "A2"])
    >>> rules.allows([0, 1]), rules.allows([0, 1, 3]), rules.allows([1])
    (True, False, False)
    """

    include: Sequence[Any] = ()
    exclude: Sequence[Any] = ()
    costs: Sequence[float] | Mapping[Any, float] | None = None
    budget: float | None = None
    groups: Sequence[Any] | Mapping[Any, Any] | None = None
    max_per_group: int | Mapping[Any, int] | None = None

    def resolve(self, n_features: int, names: Sequence[Any] | None = None) -> Rules:
        """Return the constraints with features as numbers.

        Parameters
        ----------
        n_features : int
            Number of features.
        names : sequence of str or None
            Their names, where they have any.

        Returns
        -------
        Rules
        """
        find = _Finder(n_features, names)
        include = tuple(dict.fromkeys(find(entry, "include") for entry in _several(self.include)))
        allowed = np.ones(n_features, dtype=bool)
        for entry in _several(self.exclude):
            allowed[find(entry, "exclude")] = False
        both = [feature for feature in include if not allowed[feature]]
        if both:
            raise ValueError(f"feature {find.shown(both[0])} is in both include and exclude")
        costs, budget = self._prices(find)
        groups, most = self._groups(find)
        rules = Rules(n_features, include, allowed, costs, budget, groups, most)
        if not rules.allows(include):
            what = "cost more than the budget"
            if costs is None or costs[list(include)].sum() <= budget:
                what = "are more than max_per_group allows of a group"
            raise ValueError(f"the features in include {what}; no set is allowed")
        return rules

    def _prices(self, find: _Finder) -> tuple[FloatArray | None, float]:
        if self.costs is None and self.budget is None:
            return None, np.inf
        if self.costs is None or self.budget is None:
            missing = "costs" if self.costs is None else "budget"
            raise ValueError(f"costs and budget go together; {missing} is not given")
        budget = _number(self.budget, "budget")
        costs = np.array(find.each(self.costs, "costs", 0.0, _number), dtype=np.float64)
        wrong = np.flatnonzero(costs < 0)
        if wrong.size or budget < 0:
            where = f"costs of feature {find.shown(int(wrong[0]))}" if wrong.size else "budget"
            raise ValueError(f"the {where} must be at least 0")
        return costs, budget

    def _groups(self, find: _Finder) -> tuple[IntArray | None, IntArray | None]:
        if self.groups is None and self.max_per_group is None:
            return None, None
        if self.groups is None or self.max_per_group is None:
            missing = "groups" if self.groups is None else "max_per_group"
            raise ValueError(f"groups and max_per_group go together; {missing} is not given")
        given = find.each(self.groups, "groups", None, lambda value, _: value)
        names = list(dict.fromkeys(value for value in given if value is not None))
        limits = self.max_per_group
        if isinstance(limits, Mapping):
            unknown = [name for name in limits if name not in names]
            if unknown:
                raise ValueError(f"max_per_group names {unknown[0]!r}, which is no group")
        limit_of = limits if isinstance(limits, Mapping) else dict.fromkeys(names, limits)
        most = [
            _count(limit_of[name], "max_per_group") if name in limit_of else len(given)
            for name in names
        ]
        number = {name: place for place, name in enumerate(names)}
        groups = [-1 if value is None else number[value] for value in given]
        return np.array(groups, dtype=np.int64), np.array(most, dtype=np.int64)


class _Finder:
    """Finds features by number or by name, and says what is wrong otherwise."""

    def __init__(self, n_features: int, names: Sequence[Any] | None) -> None:
        self.n_features = n_features
        self.names = None if names is None else [str(name) for name in names]
        self.number = {} if self.names is None else {n: k for k, n in enumerate(self.names)}

    def __call__(self, entry: Any, parameter: str) -> int:
        if isinstance(entry, str):
            if self.names is None:
                raise ValueError(
                    f"{parameter} names the feature {entry!r}, but the features have no names; "
                    "use numbers from 0, or data with column names"
                )
            if entry not in self.number:
                raise ValueError(f"{parameter} names the feature {entry!r}, which there is not")
            return self.number[entry]
        if isinstance(entry, bool | np.bool_) or not isinstance(entry, int | np.integer):
            raise ValueError(f"{parameter} has {entry!r}, neither a number nor a name of a feature")
        if not 0 <= entry < self.n_features:
            raise ValueError(
                f"{parameter} has feature {entry}, but features are numbered from 0 to "
                f"{self.n_features - 1}"
            )
        return int(entry)

    def shown(self, feature: int) -> str:
        return str(feature) if self.names is None else repr(self.names[feature])

    def each(self, given: Any, parameter: str, default: Any, read: Any) -> list[Any]:
        """Return one value for each feature, from a sequence or from {feature: value}."""
        if isinstance(given, Mapping):
            values = [default] * self.n_features
            for entry, value in given.items():
                values[self(entry, parameter)] = read(value, parameter)
            return values
        values = [read(value, parameter) for value in _several(given)]
        if len(values) != self.n_features:
            raise ValueError(
                f"{parameter} has {len(values)} entries for {self.n_features} features"
            )
        return values


def _several(value: Any) -> list[Any]:
    if isinstance(value, str | bytes | int | np.integer):
        return [value]  # one feature, given as it is
    return list(value)


def _number(value: Any, parameter: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(f"{parameter} has {value!r}, which is not a finite number")
    return number


def _count(value: Any, parameter: str) -> int:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < 0:
        raise ValueError(f"{parameter} has {value!r}, which is not a whole number of at least 0")
    return int(value)
