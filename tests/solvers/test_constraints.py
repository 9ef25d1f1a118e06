"""Constraints: read as they are meant, refused where they contradict themselves."""

from itertools import combinations

import numpy as np
import pytest

from jointsparse.solvers.subset.constraints import Constraints, Rules

NAMES = ["a", "b", "c", "d"]


def allowed_sets(rules, p):
    sets = [c for k in range(p + 1) for c in combinations(range(p), k)]
    return [chosen for chosen in sets if rules.allows(list(chosen))]


def test_names_and_numbers_mean_the_same():
    by_name = Constraints(include=["b"], exclude=["d"], costs={"a": 2.0}, budget=1.0,
                          groups={"b": "x", "c": "x"}, max_per_group=1)  # fmt: skip
    by_number = Constraints(include=[1], exclude=[3], costs=[2.0, 0, 0, 0], budget=1.0,
                            groups=[None, "x", "x", None], max_per_group={"x": 1})  # fmt: skip
    one, other = by_name.resolve(4, NAMES), by_number.resolve(4)
    assert allowed_sets(one, 4) == allowed_sets(other, 4) == [(1,)]
    assert Constraints(include="b").resolve(4, NAMES).include == (1,)
    assert Constraints(include=2, exclude=np.int64(0)).resolve(4).include == (2,)


def test_sets_are_allowed_as_the_definition_says():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = 6
        costs, groups = rng.integers(0, 4, p), rng.integers(0, 3, p)
        include = rng.permutation(p)[: rng.integers(0, 2)].tolist()
        given = Constraints(include=include, costs=costs, budget=5, groups=groups, max_per_group=2)
        rules = given.resolve(p)
        for chosen in (c for k in range(p + 1) for c in combinations(range(p), k)):
            expected = (
                set(include) <= set(chosen)
                and costs[list(chosen)].sum() <= 5
                and all(np.sum(groups[list(chosen)] == g) <= 2 for g in range(3))
            )
            assert rules.allows(list(chosen)) == expected
            if expected:
                assert len(chosen) <= rules.most_features()
                more = rules.left_over(chosen)
                for other in set(range(p)) - set(chosen):
                    assert more[other] == rules.allows([*chosen, other])
                some = np.flatnonzero(more)
                together = rules.pairs(chosen, some)
                for i, j in combinations(range(some.size), 2):
                    assert together[i, j] == rules.allows([*chosen, some[i], some[j]])
                swaps = rules.swaps(np.array(chosen, dtype=np.int64))
                for place, new in np.ndindex(len(chosen), p):
                    rest = [*chosen[:place], *chosen[place + 1 :], new]
                    possible = new not in chosen and chosen[place] not in include
                    assert swaps[new, place] == (possible and rules.allows(rest))


def test_without_constraints_every_set_is_allowed():
    rules = Rules.none(3)
    assert len(allowed_sets(rules, 3)) == 8
    assert rules.most_features() == 3
    assert not rules.coupled


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"include": ["z"]}, "include: there is no feature 'z'"),
        ({"exclude": ["width of petals"]}, "exclude: there is no feature 'width of petals'"),
        ({"include": [4]}, "include has feature 4, but features are numbered from 0 to 3"),
        ({"exclude": [True]}, "exclude has True, neither a number nor a name"),
        ({"include": [0], "exclude": ["a"]}, "feature 'a' is in both include and exclude"),
        ({"costs": [1, 1, 1, 1]}, "costs and budget go together; budget is not given"),
        ({"budget": 3}, "costs and budget go together; costs is not given"),
        ({"costs": [1, 2], "budget": 3}, "costs has 2 entries for 4 features"),
        ({"costs": {"a": -1}, "budget": 3}, "costs of feature 'a' must be at least 0"),
        ({"costs": {"a": 1}, "budget": -3}, "budget must be at least 0"),
        ({"costs": {"a": "x"}, "budget": 3}, "costs has 'x', which is not a finite number"),
        ({"costs": {"a": 1}, "budget": np.inf}, "budget has inf, which is not a finite number"),
        ({"groups": {"a": 1}}, "groups and max_per_group go together; max_per_group is not"),
        ({"max_per_group": 1}, "groups and max_per_group go together; groups is not given"),
        ({"groups": {"a": 1}, "max_per_group": {2: 1}}, "max_per_group names 2, which is no group"),
        ({"groups": {"a": 1}, "max_per_group": 1.5}, "1.5, which is not a whole number of at"),
        (
            {"include": ["a"], "costs": {"a": 2}, "budget": 1},
            "include cost 2, more than the budget of 1; .*take 'a', which costs 2, out of include",
        ),
        (
            {"include": ["a", "b"], "groups": {"a": 1, "b": 1}, "max_per_group": 1},
            "are more than max_per_group allows of a group: 2 of 1, of which 1 may be in; raise "
            "max_per_group, or take 'a' out of include",
        ),
        ({"exclude": NAMES}, "exclude leaves no feature to keep: take some out of exclude"),
        (
            {"costs": [5, 4, 6, 7], "budget": 3},
            "the cheapest feature, 'b', costs 4, more than the budget of 3; .*: raise budget",
        ),
        (
            {"costs": [2, 2, 5, 7], "budget": 3, "groups": [1, 1, 2, 2], "whole_groups": True},
            "the cheapest group, that of 'a', costs 4, more than the budget of 3",
        ),
        ({"groups": [1] * 4, "max_per_group": 0}, "leave no feature to keep: raise it"),
        ({"whole_groups": True}, "groups and whole_groups go together; groups is not given"),
        ({"groups": {"a": 1}, "whole_groups": [2]}, "whole_groups names 2, which is no group"),
        (
            {"groups": {"a": 1}, "whole_groups": True, "max_per_group": 1},
            "the group 1 is chosen as a whole, so max_per_group has nothing to limit",
        ),
        (
            {"groups": [1, 1, 2, 2], "whole_groups": [1], "max_per_group": {1: 1}},
            "the group 1 is chosen as a whole",
        ),
        (
            {"groups": [1, 1, 2, 2], "whole_groups": [1], "include": ["a"], "exclude": ["b"]},
            "group 1 is chosen as a whole, but 'a' is in include and 'b' in exclude: give one",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(given, message):
    with pytest.raises(ValueError, match=message):
        Constraints(**given).resolve(4, NAMES)


def test_whole_groups_are_in_with_all_features_or_with_none():
    rules = Constraints(groups=["x", "x", "y", None], whole_groups=["x"]).resolve(4)
    assert allowed_sets(rules, 4) == [
        *[(), (2,), (3,), (0, 1), (2, 3), (0, 1, 2), (0, 1, 3), (0, 1, 2, 3)]
    ]
    assert rules.units == ((0, 1), (2,), (3,))
    assert rules.coupled
    assert rules.left_over([]).tolist() == [False, False, True, True]
    assert rules.room([3]).wholes == [(0, 1)]


def test_one_feature_takes_its_whole_group_along():
    groups = {"a": "x", "b": "x"}
    inside = Constraints(include=["b"], groups=groups, whole_groups=True).resolve(4, NAMES)
    assert inside.include == (1, 0)
    assert inside.wholes == ()
    outside = Constraints(exclude=["b"], groups=groups, whole_groups=True).resolve(4, NAMES)
    assert outside.allowed.tolist() == [False, False, True, True]


def test_whole_groups_and_caps_at_once():
    rules = Constraints(
        groups=["x", "x", "y", "y"],
        whole_groups=["x"],
        max_per_group=1,
        costs=[1, 1, 3, 0],
        budget=2,
    ).resolve(4)
    assert allowed_sets(rules, 4) == [(), (3,), (0, 1), (0, 1, 3)]
    assert rules.most_features() == 3


def test_what_joins_some_features_has_rules_of_its_own():
    given = Constraints(costs=[1, 2, 3, 4], budget=6, groups=[1, 1, 2, 2], max_per_group=1)
    after = given.resolve(4).after([1])
    for feature in range(4):
        assert after.allows([feature]) == (feature in (2, 3))
    assert after.budget == 4


def test_names_need_names():
    with pytest.raises(ValueError, match="the features have no names; use numbers from 0"):
        Constraints(include=["a"]).resolve(4)


def test_groups_without_a_limit_of_their_own_are_free():
    rules = Constraints(groups=[1, 1, 2, 2], max_per_group={1: 1}).resolve(4)
    assert rules.allows([0, 2, 3])
    assert not rules.allows([0, 1])


def test_what_costs_nothing_fits_into_no_budget():
    rules = Constraints(costs=[0.0, 1.0, 0.0], budget=0.0).resolve(3)
    assert rules.room().free.tolist() == [True, False, True]
    assert rules.allows([0, 2])
    assert not rules.allows([1])
    assert rules.most_features() == 2
    assert rules.room([0]).fits([2])
    assert not rules.room([0]).fits([1])
