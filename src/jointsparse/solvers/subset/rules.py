"""Which sets are allowed, with features as numbers: what must be in, prices, caps, whole groups.

Without whole groups every subset of an allowed set that keeps the included features is allowed too;
the search among single features relies on it. Whole groups have a search of their own
(:mod:`whole_search`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray

BUDGET_ROUNDING = 1e-12  # share of the budget by which a sum of prices may exceed it
NO_LIMIT = np.iinfo(np.int64).max  # of features that are in no group
FREE = 1e-12  # share of the budget that what is free counts as, where gains are divided by prices


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
    wholes : tuple of tuple of int
        Groups that are in with all their features or with none; no feature is in two of them, and
        all of a group may be in. What is included, or may not be in, is in none.
    """

    n_features: int
    include: tuple[int, ...]
    allowed: NDArray[np.bool_]
    costs: FloatArray | None = None
    budget: float = np.inf
    groups: IntArray | None = None
    most: IntArray | None = None
    wholes: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def none(cls, n_features: int) -> Rules:
        """Allow every set."""
        return cls(n_features, (), np.ones(n_features, dtype=bool))

    @property
    def coupled(self) -> bool:
        """Whether some features cannot be in because others are, or are not."""
        return self.costs is not None or self.groups is not None or bool(self.wholes)

    @property
    def limit(self) -> float:
        """The budget, with what sums of prices may be off by."""
        return self.budget * (1 + BUDGET_ROUNDING)

    @cached_property
    def prices(self) -> FloatArray:
        """What gains are divided by to be compared: prices, with a little for what is free."""
        if self.costs is None:
            return np.ones(self.n_features)
        return self.costs + FREE * (self.budget or 1.0)

    @cached_property
    def alone(self) -> NDArray[np.bool_]:
        """Which features may be in by themselves: those of no whole group."""
        mask = self.allowed.copy()
        for members in self.wholes:
            mask[list(members)] = False
        return mask

    @cached_property
    def units(self) -> tuple[tuple[int, ...], ...]:
        """What can be chosen: whole groups, and features by themselves."""
        single = self.alone.copy()
        single[list(self.include)] = False
        return (*self.wholes, *((int(feature),) for feature in np.flatnonzero(single)))

    def room(self, chosen: Sequence[int] | IntArray = ()) -> Room:
        """Return what may join some features."""
        return Room(self, chosen)

    def left_over(self, chosen: Sequence[int] | IntArray) -> NDArray[np.bool_]:
        """Return which features may join a set by themselves."""
        return self.room(chosen).free

    def after(self, chosen: Sequence[int] | IntArray) -> Rules:
        """Return the rules for what joins some features, these left out."""
        room = self.room(chosen)
        inside = set(np.asarray(chosen).tolist())
        return replace(
            self,
            include=(),
            allowed=self.allowed & ~room.taken,
            budget=max(self.budget - room.spent, 0.0),
            most=None if self.most is None else np.maximum(self.most - room.used, 0),
            wholes=tuple(members for members in self.wholes if not inside & set(members)),
        )

    def cut(self, chosen: IntArray, count: int) -> IntArray:
        """Return the first few of an allowed set, with the rest of groups that are whole."""
        begun = set(chosen[:count].tolist())
        whole = {j for members in self.wholes if begun & set(members) for j in members}
        more = [j for j in chosen[count:].tolist() if j in whole or j in self.include]
        return np.concatenate([chosen[:count], np.array(more, dtype=np.int64)])

    def pairs(self, chosen: Sequence[int] | IntArray, candidates: IntArray) -> NDArray[np.bool_]:
        """Return which pairs of candidates, each allowed by itself, may join together."""
        chosen = np.asarray(chosen, dtype=np.int64)
        good = ~np.eye(candidates.size, dtype=bool)
        if self.costs is not None:
            prices = self.costs[candidates]
            good &= self.costs[chosen].sum() + prices[:, None] + prices <= self.limit
        if self.groups is not None:
            kind = self.groups[candidates]
            alike = (kind[:, None] == kind) & (kind >= 0)
            good &= ~alike | (self.room(chosen).of_groups[kind] > 1)
        return good

    def swaps(self, chosen: IntArray) -> NDArray[np.bool_]:
        """Return which feature (row) may take the place of which chosen one (column)."""
        good = np.empty((self.n_features, chosen.size), dtype=bool)
        for place in range(chosen.size):
            feature = int(chosen[place])
            if feature in self.include or not self.alone[feature]:
                good[:, place] = False
                continue
            good[:, place] = self.left_over(np.delete(chosen, place))
        good[chosen, :] = False
        return good

    def allows(self, chosen: Sequence[int] | IntArray) -> bool:
        """Whether a set keeps to the constraints."""
        members = np.asarray(chosen, dtype=np.int64)
        inside = set(members.tolist())
        if not self.allowed[members].all() or not set(self.include) <= inside:
            return False
        if self.costs is not None and self.costs[members].sum() > self.limit:
            return False
        if any(0 < len(inside & set(whole)) < len(whole) for whole in self.wholes):
            return False
        return self.groups is None or bool(np.all(self.room(members).of_groups >= 0))

    def most_features(self) -> int:
        """Return a number that no allowed set exceeds."""
        count = int(self.allowed.sum())
        if self.costs is not None:
            inside = list(self.include)
            others = self.allowed.copy()
            others[inside] = False
            spent = np.cumsum(np.append(self.costs[inside].sum(), np.sort(self.costs[others])))
            count = min(count, len(inside) + int(np.sum(spent[1:] <= self.limit)))
        if self.groups is not None and self.most is not None:
            numbers = self.groups[self.allowed]
            sizes = np.bincount(numbers[numbers >= 0], minlength=self.most.size)
            count = min(count, int(np.minimum(sizes, self.most).sum() + np.sum(numbers < 0)))
        return count


class Room:
    """What may join the features chosen so far.

    Parameters
    ----------
    rules : Rules
        Constraints.
    chosen : sequence of int
        Features that are in.
    """

    def __init__(self, rules: Rules, chosen: Sequence[int] | IntArray = ()) -> None:
        self.rules = rules
        self.taken = np.zeros(rules.n_features, dtype=bool)
        self.spent = 0.0
        self.used = np.zeros(0 if rules.most is None else rules.most.size, dtype=np.int64)
        self.take(chosen)

    def take(self, features: Sequence[int] | IntArray) -> None:
        """Take features in."""
        members = np.asarray(features, dtype=np.int64)
        self.taken[members] = True
        if self.rules.costs is not None:
            self.spent += float(self.rules.costs[members].sum())
        if self.rules.groups is not None:
            numbers = self.rules.groups[members]
            self.used += np.bincount(numbers[numbers >= 0], minlength=self.used.size)

    @property
    def of_groups(self) -> IntArray:
        """How many more of each group may be in; the last entry is for no group."""
        assert self.rules.most is not None  # as groups are given
        return np.append(self.rules.most - self.used, NO_LIMIT)

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which features may join by themselves."""
        rules = self.rules
        free = rules.alone & ~self.taken
        if rules.costs is not None:
            free &= self.spent + rules.costs <= rules.limit
        if rules.groups is not None:
            free &= self.of_groups[rules.groups] > 0
        return free

    def fits(self, unit: Sequence[int]) -> bool:
        """Whether a whole group, or a feature of none, may join."""
        rules, members = self.rules, list(unit)
        if self.taken[members].any() or not rules.allowed[members].all():
            return False
        if rules.costs is not None and self.spent + rules.costs[members].sum() > rules.limit:
            return False
        return rules.groups is None or bool(np.all(self.of_groups[rules.groups[members]] > 0))

    @property
    def wholes(self) -> list[tuple[int, ...]]:
        """Which whole groups may join."""
        return [members for members in self.rules.wholes if self.fits(members)]
