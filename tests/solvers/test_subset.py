"""The best set: every value and every bound at every moment, against enumeration in long double."""

import pickle
from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from subset_cases import KINDS, Referee, problem_and_value, random_rules, table

from jointsparse import Moments
from jointsparse.solvers.picking.greedy import select_greedily
from jointsparse.solvers.picking.row_targets import Projection
from jointsparse.solvers.products.columns import feature_columns
from jointsparse.solvers.subset import exchange as exchange_module
from jointsparse.solvers.subset import nodes as nodes_module
from jointsparse.solvers.subset import search as search_module
from jointsparse.solvers.subset.bounds import components_bound, largest_without, top_sum
from jointsparse.solvers.subset.constraints import Constraints, Rules
from jointsparse.solvers.subset.exchange import (
    FoundSet,
    exchange,
    good_set,
    greedy_set,
    in_order,
    spread_sets,
)
from jointsparse.solvers.subset.nodes import CompressedNodes, GramNodes, Table, TruncatedNode
from jointsparse.solvers.subset.picks import exchange_picks
from jointsparse.solvers.subset.problem import (
    problem_of_columns,
    problem_of_scatter,
    set_value,
    span_of,
)
from jointsparse.solvers.subset.search import SubsetSearch

seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(KINDS)


def case(seed, kind, constrained, largest=9):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, largest))
    size = int(rng.integers(1, p + 1))
    problem, referee = problem_and_value(rng, kind, p)
    rules = random_rules(rng, p, size) if constrained else Rules.none(p)
    return problem, referee, size, rules


def charge(problem, features):
    """Return what rounding may have done to the value of a set of near copies."""
    return problem.charge(span_of(problem, features).inverse_trace, max(len(features), 1))


def correlations(data):
    return np.corrcoef(data, rowvar=False)


@given(seed=seeds, kind=kinds, constrained=st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_bound_is_below_the_best_set_at_any_node(seed, kind, constrained):
    problem, referee, size, rules = case(seed, kind, constrained)
    best, _ = referee.best(size, rules)
    search = SubsetSearch(problem, size, rules)
    assert search.bound >= best
    while not search.finished:
        search.run(max_nodes=1)
        assert search.bound >= best
    assert rules.allows(search.best.features)
    assert search.best.features.size <= size
    close = 2e-9 + 2 * charge(problem, search.best.features)
    if search.proved:  # not where rounding hides what is left of a feature
        assert search.best.value == pytest.approx(best, abs=close)
    assert search.best.value == pytest.approx(referee.value(search.best.features), abs=close)


@pytest.mark.slow
@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_no_bound_is_below_the_best_set_in_hundreds_of_problems(kind, constrained):
    for seed in range(100):
        problem, referee, size, rules = case(10_000 + seed, kind, constrained)
        best, _ = referee.best(size, rules)
        search = SubsetSearch(problem, size, rules)
        while not search.finished:
            assert search.bound >= best
            search.run(max_nodes=1)
        assert search.bound >= best
        if search.proved:
            assert search.best.value >= best - 2e-9 - 2 * charge(problem, search.best.features)


@given(seed=seeds, kind=kinds)
@settings(max_examples=50, deadline=None)
def test_a_bad_start_changes_nothing_but_the_work(seed, kind):
    problem, referee, size, _ = case(seed, kind, False)
    worst = FoundSet(np.zeros(0, dtype=np.int64), 0.0)
    search = SubsetSearch(problem, size, start=worst)
    search.run()
    best, _ = referee.best(size)
    assert search.bound >= best
    close = 2e-9 + 2 * charge(problem, search.best.features)
    if search.proved:  # not where rounding hides what is left of a feature
        assert search.best.value == pytest.approx(best, abs=close)


@given(seed=seeds, kind=kinds)
@settings(max_examples=40, deadline=None)
def test_truncated_nodes_bound_every_set_too(seed, kind):
    problem, referee, size, _ = case(seed, kind, False)
    best, _ = referee.best(size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes_module, "COMPRESSED_ROWS", 0)
        patch.setattr(nodes_module, "COMPRESSED_CANDIDATES", 0)
        patch.setattr(nodes_module, "LEADING", 13)
        patch.setattr(nodes_module, "KEPT_GRAM", 0)
        search = SubsetSearch(problem, size, start=FoundSet(np.zeros(0, dtype=np.int64), 0.0))
        while not search.finished:
            search.run(max_nodes=1)
            assert search.bound >= best
    close = 2e-9 + 2 * charge(problem, search.best.features)
    if search.proved:  # not where rounding hides what is left of a feature
        assert search.best.value == pytest.approx(best, abs=close)


@pytest.mark.parametrize("kind", ["plain", "few directions", "integers"])
def test_the_three_kinds_of_nodes_agree(kind):
    rng = np.random.default_rng(5)
    problem = problem_of_columns(table(rng, kind, 9))
    included, candidates = [[3, 0], [1, 4]], [np.array([1, 5, 6, 8]), np.array([2, 7, 0])]
    shared = Table(problem, 5)
    arguments = np.array(included), np.array([[1, 5, 6, 8], [2, 7, 0, 9]])
    plain = CompressedNodes(shared, *arguments)
    inner = GramNodes(shared, *arguments)
    for name in ("value", "left", "loads", "inverse_trace"):
        np.testing.assert_allclose(getattr(plain, name), getattr(inner, name), rtol=1e-7, atol=1e-9)
    for row, features in enumerate(included):
        one = TruncatedNode(shared, np.array([features]), candidates[row][None])
        count = candidates[row].size
        charges = problem.charge(one.inverse_traces[0], 3)
        for other in (plain, inner):
            assert np.all(np.abs(one.gains[0] - other.gains[row, :count]) <= charges)
        for place, feature in enumerate(candidates[row]):
            gain = set_value(problem, [*features, feature]) - set_value(problem, features)
            assert abs(one.gains[0, place] - gain) <= charges[place]
        np.testing.assert_allclose(
            top_sum(one.spectrum()[0], 2)[0] + 1e-12 >= top_sum(plain.spectrum()[0], 2)[row], True
        )


@given(seed=seeds, kind=kinds)
@settings(max_examples=60, deadline=None)
def test_interlacing_bounds_every_set_that_contains_the_feature(seed, kind):
    problem, referee, size, _ = case(seed, kind, False)
    values, vectors = problem.spectrum
    live = np.flatnonzero(problem.live)
    owners = np.zeros(live.size, dtype=np.int64)
    shadows = (vectors.T @ problem.columns[:, live]).T
    sums = largest_without(values[None], shadows, owners, size - 1).sum(axis=1)
    bounds = problem.gains[live] + sums + problem.charge(1.0, 1)
    for place, feature in enumerate(live):
        others = [other for other in live if other != feature]
        sets = combinations(others, min(size - 1, len(others)))
        assert bounds[place] >= max(referee.value([feature, *rest]) for rest in sets)
    assert components_bound(problem, size) >= referee.best(size)[0]


@given(seed=seeds, kind=kinds, ambition=st.sampled_from([0.0, 0.5, 0.9]), by_gram=st.booleans())
@settings(max_examples=20, deadline=None)
def test_bounds_from_pairs_hold_for_every_set(seed, kind, ambition, by_gram):
    problem, referee, size, _ = case(seed, kind, False)
    best, _ = referee.best(size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "AMBITION", ambition)
        if by_gram:
            patch.setattr(nodes_module, "COMPRESSED_ROWS", 0)
            patch.setattr(nodes_module, "COMPRESSED_CANDIDATES", 0)
        nothing = FoundSet(np.zeros(0, dtype=np.int64), 0.0)
        search = SubsetSearch(problem, size, start=nothing, joint=False)
        while not search.finished:
            search.run(max_nodes=1)
            assert search.bound >= best
            for feature in np.flatnonzero(np.isfinite(search.bounds_with)):
                others = [other for other in range(problem.n_features) if other != feature]
                sets = combinations(others, min(size - 1, len(others)))
                most = max(referee.value([feature, *rest]) for rest in sets)
                assert search.bounds_with[feature] >= most
    close = 2e-9 + 2 * charge(problem, search.best.features)
    if search.proved:
        assert search.best.value == pytest.approx(best, abs=close)


def test_pairs_lower_what_interlacing_says():
    X = load_digits().data
    X = X[:, X.std(axis=0) > 0]
    problem = problem_of_scatter(correlations(X), n_samples=len(X))
    plain = SubsetSearch(problem, 5, joint=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "AMBITION", 1.0)  # no candidate is worth it
        plain.run(max_nodes=40)
    pairs = SubsetSearch(problem, 5, joint=False)
    pairs.run(max_nodes=40)
    assert pairs.bound < plain.bound - 5e-3


def test_eigenvalues_without_a_direction_are_bounded_where_some_are_equal_or_zero():
    values = np.array([[0.0, 0.0, 0.2, 0.2, 0.5, 0.5, 1.0]])
    for direction in (np.eye(7)[6], np.eye(7)[0], np.ones(7) / 7**0.5, np.eye(7)[4]):
        left = np.eye(7) - np.outer(direction, direction)
        exact = np.linalg.eigvalsh(left @ np.diag(values[0]) @ left)[::-1]
        for count in (0, 1, 4, 7, 9):
            owner = np.zeros(1, dtype=np.int64)
            found = largest_without(values, direction[None], owner, count)[0]
            assert found.shape == (count,)
            known = min(count, 7)
            assert np.all(found[:known] >= exact[:known] - 1e-15)
            assert np.all(found[:known] <= exact[:known] + 0.6 / 2**10)


def test_few_eigenvalues_give_a_larger_sum_never_a_smaller_one():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((40, 40)) * np.linspace(3, 0.1, 40)
    target = root.T @ root
    values, vectors = np.linalg.eigh(target)
    x = rng.standard_normal(40)
    x /= np.linalg.norm(x)
    off = np.eye(40) - np.outer(x, x)
    exact = np.linalg.eigvalsh(off @ target @ off)[-5:].sum()
    owner = np.zeros(1, dtype=np.int64)
    bound = largest_without(values[None], (vectors.T @ x)[None], owner, 5).sum(axis=1)
    assert exact - 1e-9 <= bound[0] <= min(values[-5:].sum(), 1.02 * exact)


@given(seed=seeds, kind=kinds, constrained=st.booleans())
@settings(max_examples=60, deadline=None)
def test_an_exchange_never_loses_and_keeps_to_the_rules(seed, kind, constrained):
    problem, referee, size, rules = case(seed, kind, constrained)
    start = greedy_set(problem, size, rules)
    found = exchange(problem, start.features, rules)
    assert found.value >= start.value
    assert rules.allows(found.features)
    close = 1e-9 + charge(problem, found.features)
    assert found.value == pytest.approx(referee.value(found.features), abs=close)
    assert good_set(problem, size, rules).value >= found.value - 1e-12


def test_after_an_exchange_no_single_swap_is_better():
    data = load_wine().data
    problem = problem_of_scatter(correlations(data))
    for size in (2, 4, 7):
        found = exchange(problem, np.arange(size))
        inside = found.features.tolist()
        for place in range(size):
            for other in set(range(13)) - set(inside):
                swapped = [*inside[:place], other, *inside[place + 1 :]]
                assert set_value(problem, swapped) <= found.value + 1e-9


def test_more_beginnings_find_better_sets_whatever_the_order_of_the_features():
    X = load_digits().data
    S = correlations(X[:, X.std(axis=0) > 0])
    order = np.random.default_rng(0).permutation(len(S))
    problem, turned = (problem_of_scatter(T) for T in (S, S[np.ix_(order, order)]))
    one, more = (good_set(problem, 10, starts=starts) for starts in (0, 10))
    assert more.value > one.value + 4e-3
    same = good_set(turned, 10, starts=10)
    assert sorted(order[same.features]) == sorted(more.features)
    included = Rules(len(S), (3,), np.arange(len(S)) != 5)
    for features in spread_sets(problem, 4, included, 3):
        assert included.allows(features)
        assert np.unique(features).size == 4
    assert spread_sets(problem, 1, included, 3) == []


def test_large_sets_have_a_few_beginnings_and_very_large_ones_none():
    X = load_digits().data
    problem = problem_of_scatter(correlations(X[:, X.std(axis=0) > 0]))
    none, few = (good_set(problem, 50, starts=starts) for starts in (0, 3))
    assert few.value > none.value + 2e-4
    assert good_set(problem, 50).features.tolist() == few.features.tolist()
    with patch.object(exchange_module, "FEW_STARTS_WORK", 61 * 50**3 - 1):
        assert good_set(problem, 50).features.tolist() == none.features.tolist()


def test_the_exchange_leaves_a_set_with_the_same_feature_twice_as_it_is():
    problem = problem_of_scatter(correlations(load_wine().data))
    assert exchange(problem, [3, 3]).features.tolist() == [3, 3]


def test_published_values_of_breast_cancer_and_wine():
    # Values of proofs.md, found and proved by an independent prototype.
    breast = problem_of_scatter(correlations(load_breast_cancer().data))
    assert greedy_set(breast, 5).value == pytest.approx(0.7529, abs=5e-5)
    search = SubsetSearch(breast, 5)
    search.run()
    assert search.proved
    assert search.best.value == pytest.approx(0.78221457, abs=1e-8)
    assert search.bound_method == "search"
    wine = SubsetSearch(problem_of_scatter(correlations(load_wine().data)), 5)
    wine.run()
    assert wine.proved
    assert wine.best.value == pytest.approx(0.7136293, abs=1e-7)


def test_a_search_in_pieces_is_the_same_as_one_run():
    problem = problem_of_scatter(correlations(load_breast_cancer().data))
    whole, pieces = SubsetSearch(problem, 6), SubsetSearch(problem, 6)
    whole.run(max_nodes=600)
    for _ in range(6):
        pieces.run(max_nodes=100)
    # Pieces end in the middle of a batch of nodes, so only the number of nodes is the same ...
    assert whole.nodes == pieces.nodes == 600
    whole.run()
    pieces = pickle.loads(pickle.dumps(pieces))
    pieces.run()
    # ... and the answer.
    assert whole.proved
    assert pieces.proved
    assert whole.best.value == pytest.approx(pieces.best.value, abs=1e-9)


def test_limits_and_callbacks_stop_the_search_with_a_valid_bound():
    problem = problem_of_scatter(correlations(load_breast_cancer().data))
    search = SubsetSearch(problem, 10)
    search.run(time_limit=0.0)
    assert search.nodes == 0
    assert not search.proved
    assert search.bound_method in ("principal components", "joint relaxation")
    seen = []
    search.run(max_nodes=50, callback=seen.append)
    assert search.nodes == 50
    assert seen[-1].nodes == 50
    assert seen[-1].bound >= 0.92229
    assert search.seconds > 0
    search.run(callback=lambda progress: True)
    assert not search.proved


def test_one_feature_all_features_and_more_than_there_are():
    problem = problem_of_scatter(correlations(load_wine().data))
    one = SubsetSearch(problem, 1)
    one.run()
    assert one.best.features.tolist() == [int(np.argmax(problem.gains))]
    for size in (13, 99):
        everything = SubsetSearch(problem, size)
        everything.run()
        assert everything.proved
        assert everything.best.value == pytest.approx(1, abs=1e-12)


def test_scale_and_order_of_the_features_change_nothing():
    data = load_wine().data
    scatter = np.cov(data, rowvar=False)
    order = np.random.default_rng(0).permutation(13)
    searches = [
        SubsetSearch(problem_of_scatter(S), 4)
        for S in (scatter, 1e12 * scatter, scatter[np.ix_(order, order)])
    ]
    for search in searches:
        search.run()
    first, scaled, shuffled = (search.best for search in searches)
    assert sorted(first.features) == sorted(scaled.features)
    assert sorted(first.features) == sorted(order[shuffled.features])
    assert first.value == pytest.approx(shuffled.value, abs=1e-12)


def test_values_of_near_copies_are_charged_with_what_rounding_may_have_done():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 6))
    X[:, 5] = X[:, 0] + 1e-4 * rng.standard_normal(60)
    X -= X.mean(axis=0)
    problem, referee = problem_of_scatter(X.T @ X), Referee(X, X)
    features = [0, 5, 2]
    span = span_of(problem, features)
    error = abs(set_value(problem, features) - referee.value(features))
    assert 0 < error <= problem.charge(span.inverse_trace, 3)
    assert problem.charge(span.inverse_trace, 3) < 1e-5


def test_determined_features_add_nothing():
    X = np.random.default_rng(0).standard_normal((20, 4))
    X = np.column_stack([X, X[:, 0], X[:, 1] + X[:, 2]])
    X -= X.mean(axis=0)
    for problem in (problem_of_scatter(X.T @ X), problem_of_columns(X)):
        assert set_value(problem, [0, 4]) == pytest.approx(set_value(problem, [0]))
        assert set_value(problem, [1, 2, 5]) == pytest.approx(set_value(problem, [1, 2]))
        assert set_value(problem, range(6)) == pytest.approx(1)
        assert set_value(problem, []) == 0


def test_outcomes_are_explained_by_features_only():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((50, 6))
    y = X[:, [1]] + X[:, [4]] + 0.1 * rng.standard_normal((50, 1))
    X, y = X - X.mean(axis=0), y - y.mean(axis=0)
    problem = problem_of_columns(X, y)
    search = SubsetSearch(problem, 2)
    search.run()
    assert sorted(search.best.features) == [1, 4]
    coefficients, *_ = np.linalg.lstsq(X[:, [1, 4]], y, rcond=None)
    left = np.sum((y - X[:, [1, 4]] @ coefficients) ** 2) / np.sum(y**2)
    assert search.best.value == pytest.approx(1 - left)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", ["all features", "array", "callable"])
def test_picks_of_the_greedy_rule_are_exchanged_on_its_own_target(kind, wide):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((12, 30) if wide else (60, 14))
    X[:, 1:8] += 2 * rng.standard_normal((len(X), 2)) @ rng.standard_normal((2, 7))
    moments = Moments.from_data(X)
    columns = feature_columns(moments)
    A = rng.standard_normal((X.shape[1], 3))
    target = {
        "all features": None,
        "array": columns.rows(slice(None)) @ A,
        "callable": Projection(A),
    }[kind]
    picks = select_greedily(columns, n_picks=4, target=target).picks
    candidates = np.ones(X.shape[1], dtype=bool)
    candidates[[0, 5]] = False
    candidates[picks] = True
    rules = Rules(X.shape[1], (), candidates)
    found = exchange_picks(columns, picks, target=target, rules=rules)
    centred = X - X.mean(axis=0)
    referee = Referee(centred, centred if target is None else centred @ A)
    assert found.features.size == 4
    assert candidates[found.features].all()
    assert found.value == pytest.approx(referee.value(found.features))
    assert found.value >= referee.value(picks) - 1e-12
    rules = Rules(X.shape[1], tuple(picks[:3]), candidates)
    locked = exchange_picks(columns, picks, target=target, rules=rules)
    assert set(picks[:3]) <= set(locked.features)


def test_what_rounding_hides_is_bounded_with_its_node_for_ever():
    # Given two near copies, the third feature is their difference, ten thousand times enlarged: how
    # much of it is left cannot be said, so no set with all three is looked into.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    X[:, 1] = X[:, 0] + 1e-4 * X[:, 2]
    X[:, 2] += 1e-5 * rng.standard_normal(40)
    X -= X.mean(axis=0)
    rules = Rules(5, (0, 1), np.ones(5, dtype=bool))
    problem, referee = problem_of_scatter(X.T @ X, None, 40), Referee(X, X)
    node = Table(problem, 3).nodes([[0, 1]], [np.array([2, 3, 4])], last=True)
    assert node.good.tolist() == [[False, True, True]]
    search = SubsetSearch(problem, 3, rules)
    search.run()
    assert search.finished
    assert search.bound >= referee.best(3, rules)[0]
    assert not search.proved


@pytest.mark.parametrize("seed", range(20))
def test_sets_that_explain_everything_are_not_exchanged(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((9, 5)) @ rng.standard_normal((5, 52))
    problem = problem_of_columns(X - X.mean(axis=0))
    picks = greedy_set(problem, 26)  # five, which determine all others
    assert picks.value == pytest.approx(1.0, abs=1e-12)
    found = exchange(problem, picks.features)
    assert found.features.tolist() == picks.features.tolist()


def test_features_that_others_determine_come_last_and_add_nothing():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    X = np.column_stack([X, X[:, 0] + X[:, 1], 2 * X[:, 2]])
    problem = problem_of_columns(X - X.mean(axis=0))
    order, values, more = in_order(problem, [0, 1, 4, 2, 5])
    assert len(order) == len(values) == 5
    assert sorted(order.tolist()) == [0, 1, 2, 4, 5]
    assert values[2] == values[3] == values[4]  # three of them span all five
    assert np.all(np.diff(values[:3]) > 0)
    assert np.flatnonzero(more).tolist() == [3]
    assert values[4] + more[3] == pytest.approx(set_value(problem, [0, 1, 2, 3]))


def test_many_cheap_features_are_weighed_against_a_dear_one():
    # By itself the dear feature is the best; without it the budget buys all the others.
    X = np.eye(12)[:, :11] * np.append(3.0, np.full(10, 1.2))
    problem = problem_of_columns(X - X.mean(axis=0))
    rules = Constraints(costs=[10.0] + [1.0] * 10, budget=10.0).resolve(11)
    dear = greedy_set(problem, 10, rules)
    assert dear.features.tolist() == [0]
    assert exchange(problem, dear.features, rules).features.tolist() == [0]
    assert sorted(greedy_set(problem, 10, rules, per_price=True).features) == list(range(1, 11))
    found = good_set(problem, 10, rules, starts=0)
    assert sorted(found.features.tolist()) == list(range(1, 11))
    assert found.value > dear.value
