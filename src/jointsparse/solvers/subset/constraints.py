"""Which sets are allowed, as users say it: features by name or number, prices, groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.subset.rules import Rules

__all__ = ["Constraints", "Rules"]


@dataclass(frozen=True)
class Constraints:
    """Which sets of features are allowed.

    A set H of at most k features is allowed if it contains all of ``include`` and none of
    ``exclude``, if its prices add up to no more than ``budget``, if it has no more than
    ``max_per_group`` features of each group, and if it has of each whole group all features or
    none. An excluded feature is still to be explained.

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
    whole_groups : bool or sequence, default=False
        Groups that are chosen as a whole, such as the columns that stand for one category: True
        for all groups, or their names; ``max_per_group`` is for the others. One feature in
        ``include`` takes its whole group in, one in ``exclude`` keeps it out. Each of its features
        counts.

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
    whole_groups: bool | Sequence[Any] = False

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
        find = Finder(n_features, names)
        include = list(dict.fromkeys(find(entry, "include") for entry in several(self.include)))
        allowed = np.ones(n_features, dtype=bool)
        for entry in several(self.exclude):
            allowed[find(entry, "exclude")] = False
        both = [feature for feature in include if not allowed[feature]]
        if both:
            raise ValueError(f"feature {find.shown(both[0])} is in both include and exclude")
        costs, budget = self._prices(find)
        grouping = self._grouping(find)
        wholes = grouping.close(include, allowed, find)
        groups, most = grouping.caps()
        rules = Rules(n_features, tuple(include), allowed, costs, budget, groups, most, wholes)
        if not rules.allows(rules.include):
            raise ValueError(self._too_much(rules, grouping, find))
        if not rules.include and not any(rules.room().fits(unit) for unit in rules.units):
            raise ValueError(self._nothing(rules, find))
        return rules

    def _prices(self, find: Finder) -> tuple[FloatArray | None, float]:
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

    def _grouping(self, find: Finder) -> _Grouping:
        whole = self.whole_groups
        some_whole = whole if isinstance(whole, bool) else len(several(whole)) > 0
        if self.groups is None:
            given = "whole_groups" if some_whole else "max_per_group"
            if some_whole or self.max_per_group is not None:
                raise ValueError(f"groups and {given} go together; groups is not given")
            return _Grouping([None] * find.n_features, {}, ())
        if self.max_per_group is None and not some_whole:
            raise ValueError(
                "groups and max_per_group go together; max_per_group is not given, nor whole_groups"
            )
        of = find.each(self.groups, "groups", None, lambda value, _: value)
        names = list(dict.fromkeys(value for value in of if value is not None))
        whole_ones = names if whole is True else [] if whole is False else several(whole)
        limits = self.max_per_group
        limit_of = dict(limits) if isinstance(limits, Mapping) else {}
        for parameter, known in (("whole_groups", whole_ones), ("max_per_group", limit_of)):
            for name in known:
                if name not in names:
                    raise ValueError(f"{parameter} names {name!r}, which is no group")
        others = [name for name in names if name not in whole_ones]
        both = [name for name in limit_of if name in whole_ones]
        if both or (limits is not None and not others):
            name = both[0] if both else names[0] if names else "none"
            raise ValueError(
                f"the group {name!r} is chosen as a whole, so max_per_group has nothing to limit: "
                "take it out of max_per_group or of whole_groups"
            )
        if limits is not None and not isinstance(limits, Mapping):
            limit_of = dict.fromkeys(others, limits)
        counts = {name: _count(limit, "max_per_group") for name, limit in limit_of.items()}
        return _Grouping(of, counts, tuple(whole_ones))

    def _too_much(self, rules: Rules, grouping: _Grouping, find: Finder) -> str:
        """Say why the included features are more than is allowed, and what to do."""
        inside = list(rules.include)
        if rules.costs is not None and rules.costs[inside].sum() > rules.limit:
            dearest = max(inside, key=lambda j: float(rules.costs[j]))  # type: ignore[index]
            return (
                f"the features in include cost {rules.costs[inside].sum():g}, more than the budget "
                f"of {rules.budget:g}; no set is allowed: raise budget, or take "
                f"{find.shown(dearest)}, which costs {rules.costs[dearest]:g}, out of include"
            )
        name, count = grouping.overfull(inside)
        first = next(j for j in inside if grouping.of[j] == name)
        return (
            f"the features in include are more than max_per_group allows of a group: {count} of "
            f"{name!r}, of which {grouping.limits[name]} may be in; raise max_per_group, or take "
            f"{find.shown(first)} out of include"
        )

    def _nothing(self, rules: Rules, find: Finder) -> str:
        """Say why no feature may be in, and what to do."""
        if not rules.allowed.any():
            return "exclude leaves no feature to keep: take some out of exclude"
        if rules.costs is not None:
            costs = rules.costs
            unit = min(rules.units, key=lambda members: float(costs[list(members)].sum()))
            what = f"the cheapest feature, {find.shown(unit[0])},"
            if len(unit) > 1:
                what = f"the cheapest group, that of {find.shown(unit[0])},"
            price = float(costs[list(unit)].sum())
            if price > rules.limit:
                return (
                    f"{what} costs {price:g}, more than the budget of {rules.budget:g}; no set is "
                    "allowed: raise budget"
                )
        return "max_per_group and the other constraints leave no feature to keep: raise it"


@dataclass(frozen=True)
class _Grouping:
    """The group of each feature, how many of a group may be in, and which are whole."""

    of: list[Any]
    limits: dict[Any, int]
    whole: tuple[Any, ...]

    def members(self, name: Any) -> list[int]:
        return [feature for feature, group in enumerate(self.of) if group == name]

    def caps(self) -> tuple[IntArray | None, IntArray | None]:
        """Return the number of each feature's group, and how many of each may be in."""
        if not self.limits:
            return None, None
        number = {name: place for place, name in enumerate(self.limits)}
        groups = [-1 if name is None else number.get(name, -1) for name in self.of]
        return np.array(groups, dtype=np.int64), np.array(list(self.limits.values()), np.int64)

    def close(
        self, include: list[int], allowed: NDArray[np.bool_], find: Finder
    ) -> tuple[tuple[int, ...], ...]:
        """Take whole groups in, or keep them out, with one of their features; return the rest."""
        free = []
        for name in self.whole:
            members = self.members(name)
            inside = [feature for feature in members if feature in include]
            outside = [feature for feature in members if not allowed[feature]]
            if inside and outside:
                raise ValueError(
                    f"the group {name!r} is chosen as a whole, but {find.shown(inside[0])} is in "
                    f"include and {find.shown(outside[0])} in exclude: give one of them"
                )
            if inside:
                include += [feature for feature in members if feature not in include]
            elif outside:
                allowed[members] = False
            else:
                free.append(tuple(members))
        return tuple(free)

    def overfull(self, inside: list[int]) -> tuple[Any, int]:
        """Return a group of which more is in than may be, and how many are."""
        counts = {name: sum(self.of[j] == name for j in inside) for name in self.limits}
        return next((name, n) for name, n in counts.items() if n > self.limits[name])


class Finder:
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
                near = get_close_matches(entry, self.number, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ValueError(f"{parameter}: there is no feature {entry!r}{hint}")
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
        values = [read(value, parameter) for value in several(given)]
        if len(values) != self.n_features:
            raise ValueError(
                f"{parameter} has {len(values)} entries for {self.n_features} features"
            )
        return values


def several(value: Any) -> list[Any]:
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
