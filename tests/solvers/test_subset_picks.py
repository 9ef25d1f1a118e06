"""Greedy picks, exchanges and beginnings: each by what it says it computes."""

from itertools import combinations

import numpy as np
import pytest

from jointsparse.solvers.subset import exchange as module
from jointsparse.solvers.subset.constraints import Constraints, Rules
from jointsparse.solvers.subset.exchange import (
    _Greedy,
    _starts,
    _Swaps,
    exchange,
    explained_curve,
    good_set,
    greedy_set,
    in_order,
    spread_sets,
)
from jointsparse.solvers.subset.problem import problem_of_columns, set_value


def related(seed=0, n=30, p=9, target=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p)) + rng.standard_normal((n, p))
    X *= rng.uniform(0.5, 3, p)
    X -= X.mean(axis=0)
    Y = None if target is None else X @ rng.standard_normal((p, target))
    return X, problem_of_columns(X, Y)


@pytest.mark.parametrize("target", [None, 2])
def test_picks_add_what_they_add_to_the_set(target):
    _, problem = related(target=target)
    run = _Greedy(problem)
    for feature in (4, 0, 7):
        before = set_value(problem, run.picks) if run.picks else 0.0
        free = ~np.isin(np.arange(9), run.picks)
        gains = [set_value(problem, [*run.picks, j]) - before if free[j] else 0.0 for j in range(9)]
        np.testing.assert_allclose(run.scores(free), gains, atol=1e-12)
        run.take(feature)
        assert run.gain == pytest.approx(set_value(problem, run.picks) - before)
    basis = np.linalg.qr(problem.columns[:, run.picks])[0]
    left = problem.columns - basis @ (basis.T @ problem.columns)
    np.testing.assert_allclose(run.left, np.sum(left**2, axis=0), atol=1e-12)
    run.take(4)  # determined: it is a pick, and adds nothing
    assert run.gain == 0
    assert run.picks == [4, 0, 7, 4]
    assert len(run.basis) == 3


@pytest.mark.parametrize("target", [None, 1])
def test_every_greedy_pick_is_the_best_of_its_step(target):
    for seed in range(4):
        _, problem = related(seed, target=target)
        found = greedy_set(problem, 5)
        for place in range(5):
            before = found.features[:place].tolist()
            values = [set_value(problem, [*before, j]) for j in range(9) if j not in before]
            here = set_value(problem, found.features[: place + 1])
            assert here == pytest.approx(max(values), abs=1e-12)
        assert found.value == set_value(problem, found.features)
        start = greedy_set(problem, 4, start=[8, 2])
        assert start.features[:2].tolist() == [8, 2]
        assert start.features.size == 4


def test_every_exchange_is_worth_what_it_adds():
    for seed in range(4):
        _, problem = related(seed)
        chosen = np.array([1, 5, 6])
        swaps = _Swaps(problem, chosen.copy(), Rules.none(9), np.zeros(0, dtype=np.int64))
        inverse = np.linalg.inv(swaps.inner[chosen])
        changes = swaps._changes(inverse, swaps.images[chosen], np.diagonal(inverse))
        value = set_value(problem, chosen)
        for feature in set(range(9)) - set(chosen.tolist()):
            for place in range(3):
                swapped = chosen.copy()
                swapped[place] = feature
                added = set_value(problem, swapped) - value
                assert changes[feature, place] == pytest.approx(added, abs=1e-9)
                assert changes[feature, place] <= added  # less what rounding may be
        allowed = swaps._allowed()
        assert not allowed[chosen].any()
        assert allowed.sum() == 6 * 3
        best = max(
            (set_value(problem, [*rest, j]), tuple(sorted([*rest, j])))
            for rest in combinations(chosen.tolist(), 2)
            for j in set(range(9)) - set(chosen.tolist())
        )
        if best[0] > value + module.GAIN:
            assert swaps.make_best()
            assert tuple(sorted(swaps.chosen.tolist())) == best[1]
            assert swaps.made == 1
            np.testing.assert_allclose(
                swaps.inner, problem.columns.T @ problem.columns[:, swaps.chosen], atol=1e-12
            )
            np.testing.assert_allclose(
                swaps.images, problem.images.T @ problem.columns[:, swaps.chosen], atol=1e-12
            )


def test_what_must_be_in_is_not_exchanged():
    _, problem = related(1)
    rules = Constraints(include=[8], exclude=[0]).resolve(9)
    found = exchange(problem, [8, 1, 2], rules)
    assert found.features[0] == 8
    assert 0 not in found.features
    others = [(8, *pair) for pair in combinations(range(1, 8), 2)]
    swaps = [one for one in others if len(set(one) & set(found.features.tolist())) == 2]
    assert all(set_value(problem, one) <= found.value + 1e-9 for one in swaps)
    assert found.swaps > 0


def test_a_set_in_order_has_the_values_of_its_beginnings():
    _, problem = related(2)
    order, values, more = in_order(problem, [7, 3, 1, 5])
    assert sorted(order.tolist()) == [1, 3, 5, 7]
    for place in range(4):
        assert values[place] == pytest.approx(set_value(problem, order[: place + 1]))
        rest = [set_value(problem, [*order[:place], j]) for j in order[place:]]
        assert values[place] == pytest.approx(max(rest))
    for j in range(9):
        added = 0.0 if j in order else set_value(problem, [*order, j]) - values[-1]
        assert more[j] == pytest.approx(added, abs=1e-12)


def test_the_curve_is_the_variance_that_regressions_explain():
    X, problem = related(3)
    order = np.array([5, 0, 8, 2])
    curve = explained_curve(problem, order, np.sum(X**2, axis=0))
    for place in range(4):
        some = X[:, order[: place + 1]]
        left = X - some @ np.linalg.lstsq(some, X, rcond=None)[0]
        assert curve[place] == pytest.approx(1 - np.sum(left**2) / np.sum(X**2))
    assert explained_curve(problem, order[:0], np.ones(9)).size == 0


def test_beginnings_are_spread_over_all_features_by_their_gains():
    _, problem = related(4, p=12)
    found = spread_sets(problem, 3, Rules.none(12), 4)
    assert len(found) == 4
    rank = np.argsort(np.argsort(-problem.gains))
    for some in found:
        assert len(set(some.tolist())) == 3
        # One of each third: of the largest gains, of the middle ones, of the smallest.
        assert sorted(rank[some] // 4) == [0, 1, 2]
    assert len({tuple(sorted(some.tolist())) for some in found}) == 4
    rules = Constraints(include=[3], exclude=[0], groups=[0] * 6 + [1] * 6, max_per_group=2)
    resolved = rules.resolve(12)
    for some in spread_sets(problem, 4, resolved, 3):
        assert some[0] == 3
        assert resolved.allows(some)
    assert spread_sets(problem, 12, Rules.none(12), 4) == []
    assert spread_sets(problem, 0, Rules.none(12), 4) == []


def test_more_beginnings_where_they_take_no_time():
    assert _starts(50, 20) == module.STARTS
    assert _starts(50, 21) == module.FEW_STARTS < module.STARTS
    assert _starts(10**9, 21) == 0


def test_a_good_set_is_no_worse_than_any_of_its_beginnings():
    for seed in range(3):
        _, problem = related(seed, p=12)
        found = good_set(problem, 4)
        sets = [greedy_set(problem, 4).features, *spread_sets(problem, 4, Rules.none(12), 10)]
        assert all(found.value >= exchange(problem, some).value - 1e-9 for some in sets)
        best = max(set_value(problem, some) for some in combinations(range(12), 4))
        assert found.value == pytest.approx(best)
