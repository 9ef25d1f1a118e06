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
        ({"include": ["z"]}, "include names the feature 'z', which there is not"),
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
        ({"include": ["a"], "costs": {"a": 2}, "budget": 1}, "cost more than the budget"),
        (
            {"include": ["a", "b"], "groups": {"a": 1, "b": 1}, "max_per_group": 1},
            "are more than max_per_group allows of a group",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(given, message):
    with pytest.raises(ValueError, match=message):
        Constraints(**given).resolve(4, NAMES)


def test_names_need_names():
    with pytest.raises(ValueError, match="the features have no names; use numbers from 0"):
        Constraints(include=["a"]).resolve(4)


def test_groups_without_a_limit_of_their_own_are_free():
    rules = Constraints(groups=[1, 1, 2, 2], max_per_group={1: 1}).resolve(4)
    assert rules.allows([0, 2, 3])
    assert not rules.allows([0, 1])
