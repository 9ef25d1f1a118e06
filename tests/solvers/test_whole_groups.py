"""Groups that are chosen as a whole: no bound is below the best set, by enumeration."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from subset_cases import KINDS, problem_and_value, random_rules

from jointsparse import Constraints
from jointsparse.solvers.subset.exchange import FoundSet, good_set, greedy_set
from jointsparse.solvers.subset.problem import problem_of_columns, set_value, span_of
from jointsparse.solvers.subset.search import SubsetSearch
from jointsparse.solvers.subset.whole_groups import settled, without_each_unit
from jointsparse.solvers.subset.whole_search import WholeSearch, search_for

NOTHING = FoundSet(np.zeros(0, dtype=np.int64), 0.0)


def case(seed, kind, largest=10):
    """Return a settled problem with whole groups, and the best set by enumeration."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, largest))
    size = int(rng.integers(1, p + 1))
    problem, referee = problem_and_value(rng, kind, p)
    rules = random_rules(rng, p, size, whole=True)
    problem = settled(problem, rules)
    sets = (c for k in range(size + 1) for c in combinations(range(p), k))
    values = []
    for chosen in (c for c in sets if rules.allows(list(c))):
        inside = [j for j in dict.fromkeys([*rules.include, *chosen]) if problem.live[j]]
        # What must be in comes first; the order of the others decides which of near copies count.
        fixed, free = inside[: len(rules.include)], inside[len(rules.include) :]
        orders = [free, free[::-1], rng.permutation(free).astype(int).tolist()]
        values.append(max(referee.value([*fixed, *order]) for order in orders))
    return problem, referee, size, rules, max(values, default=-np.inf)


def charge(problem, features):
    return problem.charge(span_of(problem, features).inverse_trace, max(len(features), 1))


def check(seed, kind, start=None):
    """Search to the end; no bound on the way may be below the best set."""
    problem, _, size, rules, best = case(seed, kind)
    if best == -np.inf or len(rules.include) > size:
        return False
    search = WholeSearch(problem, size, rules, start=start)
    assert search.bound >= best
    while not search.finished:
        search.run(max_nodes=1)
        assert search.bound >= best, (seed, kind)
    if start is None or search.best is not start:
        assert rules.allows(search.best.features)
        assert search.best.features.size <= size
    if search.proved:  # not where rounding hides what is left of a feature
        close = 2e-9 + 2 * charge(problem, search.best.features)
        assert search.best.value == pytest.approx(best, abs=close), (seed, kind)
    return search.proved


@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS), bad_start=st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_bound_is_below_the_best_set_at_any_node(seed, kind, bad_start):
    check(seed, kind, NOTHING if bad_start else None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_bound_is_below_the_best_set_in_hundreds_of_problems(kind):
    proved = [check(20_000 + seed, kind) for seed in range(150)]
    assert sum(proved) > (75 if kind not in ("hidden dependence", "amplified") else 20)


@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS))
@settings(max_examples=60, deadline=None)
def test_picks_and_exchanges_keep_to_the_rules(seed, kind):
    problem, _, size, rules, best = case(seed, kind)
    assume(len(rules.include) <= size)
    for found in (greedy_set(problem, size, rules), good_set(problem, size, rules)):
        assert rules.allows(found.features)
        assert found.features.size <= size
        assert found.value <= best + 2e-9 + 2 * charge(problem, found.features)


def categories(rng, n, levels):
    """Return the columns of a category, as many as it has levels."""
    return np.eye(levels)[rng.integers(0, levels, n)]


def test_columns_of_categories_are_proved_to_the_last_digit():
    rng = np.random.default_rng(0)
    X = np.hstack([rng.standard_normal((80, 5)), *(categories(rng, 80, k) for k in (3, 4, 2, 3))])
    X[:, :3] += X[:, 6:9]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    groups = [None] * 5 + ["a"] * 3 + ["b"] * 4 + ["c"] * 2 + ["d"] * 3
    rules = Constraints(groups=groups, whole_groups=True).resolve(17)
    problem = settled(problem_of_columns(X), rules)
    assert np.flatnonzero(~problem.live).tolist() == [7, 11, 13, 16]
    for size in (2, 5, 8):
        search = search_for(problem_of_columns(X), size, rules)
        assert isinstance(search, WholeSearch)
        search.run()
        assert search.proved
        assert rules.allows(search.best.features)
        sets = (
            [j for unit in some for j in unit]
            for k in range(1, size + 1)
            for some in combinations(rules.units, k)
        )
        best = max(set_value(problem, some) for some in sets if len(some) <= size)
        assert search.best.value == pytest.approx(best, abs=2e-9)
        # What a whole group adds is that of all its columns.
        assert set_value(problem_of_columns(X), search.best.features) == pytest.approx(best)


def test_equal_groups_and_single_features_are_the_same_problem():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 8)) @ rng.standard_normal((8, 8))
    problem = problem_of_columns(X)
    rules = Constraints(groups=list(range(8)), whole_groups=True).resolve(8)
    whole, plain = search_for(problem, 3, rules), SubsetSearch(problem, 3)
    whole.run()
    plain.run()
    assert whole.proved
    assert sorted(whole.best.features) == sorted(plain.best.features)
    inside, outside = whole.feature_bounds()
    assert np.all(inside[whole.best.features] >= whole.best.value)
    assert outside.shape == (8,)


def test_a_group_that_does_not_fit_is_not_in():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((30, 5))
    X[:, :3] *= 10
    rules = Constraints(groups=["x"] * 3 + [None] * 2, whole_groups=True).resolve(5)
    for size, expected in ((2, {3, 4}), (3, {0, 1, 2})):
        search = search_for(problem_of_columns(X), size, rules)
        search.run()
        assert search.proved
        assert set(search.best.features.tolist()) == expected


def test_groups_are_exchanged_for_others():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 12))
    X += 0.5 * rng.standard_normal((40, 12))
    problem = problem_of_columns(X - X.mean(axis=0))
    rules = Constraints(groups=[j // 3 for j in range(12)], whole_groups=True).resolve(12)
    picked, better = greedy_set(problem, 6, rules), good_set(problem, 6, rules)
    assert better.value > picked.value + 0.005
    assert better.swaps
    sets = ([j for unit in pair for j in unit] for pair in combinations(rules.units, 2))
    assert better.value == pytest.approx(max(set_value(problem, some) for some in sets))


def test_each_unit_leaves_once_and_what_is_filled_up_as_before_is_no_other_set():
    rules = Constraints(groups=[0, 0, 1, 1, 2, 3], whole_groups=True).resolve(6)
    start, begun = np.array([0, 1, 4, 5]), []

    def refill(rest):
        begun.append(rest)
        return np.array([4, 5, 2, 3] if 0 not in rest else [5, 4, 1, 0])

    found = without_each_unit(start, rules, refill)
    assert sorted(begun) == [[0, 1, 4], [0, 1, 5], [4, 5]]
    assert [again.tolist() for again in found] == [[4, 5, 2, 3]]


def test_a_search_goes_on_where_it_stopped():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 18))
    problem = problem_of_columns(X + rng.standard_normal((60, 18)))
    rules = Constraints(groups=[j // 2 for j in range(18)], whole_groups=True).resolve(18)
    whole, parts = search_for(problem, 8, rules), search_for(problem, 8, rules)
    whole.run()
    bounds = [parts.bound]
    while not parts.finished:
        parts.run(max_nodes=2)
        bounds.append(parts.bound)
    assert np.all(np.diff(bounds) <= 0)
    assert (parts.nodes, parts.bound) == (whole.nodes, whole.bound)
    assert whole.proved


def test_dependent_features_are_bounded_by_more_than_the_ceiling():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((40, 6)) * [3, 2, 1, 1, 0.3, 0.3]
    X = np.hstack([X, X[:, :1]])  # a copy
    problem = problem_of_columns(X - X.mean(axis=0))
    rules = Constraints(groups=["a", None, "b", "b", "c", "c", None], whole_groups=True).resolve(7)
    nothing = FoundSet(np.zeros(0, dtype=np.int64), 0.0)
    search = search_for(problem, 3, rules, start=nothing)
    search.run(max_nodes=1)
    weak = search.bounds_with[4]
    sets = ([4, 5, *more] for more in ([], [0], [1], [6]))
    assert max(set_value(problem, some) for some in sets) <= weak < search.bound - 0.05
    assert search.bounds_with[4] == search.bounds_with[5]
    search.run()
    assert search.proved
