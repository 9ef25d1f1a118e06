"""How a search for the best set runs: nodes, time, callbacks, and where its bound comes from."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_wine

from jointsparse.solvers.subset import search as search_module
from jointsparse.solvers.subset.bounds import components_bound
from jointsparse.solvers.subset.constraints import Constraints, Rules
from jointsparse.solvers.subset.exchange import FoundSet
from jointsparse.solvers.subset.problem import problem_of_columns, problem_of_scatter, set_value
from jointsparse.solvers.subset.search import SubsetSearch

NOTHING = FoundSet(np.zeros(0, dtype=np.int64), 0.0)


def hard(p=30, seed=0):
    X = np.random.default_rng(seed).standard_normal((200, p))
    return problem_of_scatter(np.corrcoef(X, rowvar=False))


class Clock:
    """A clock that goes on by so many seconds with every look at it."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def perf_counter(self):
        self.now += self.step
        return self.now


def test_nodes_are_counted_and_limited():
    search = SubsetSearch(hard(), 4, joint=False)
    assert (search.nodes, search.seconds, search.work) == (0, 0.0, 0.0)
    for limit in (1, 1, 5, 40):
        before = search.nodes
        search.run(max_nodes=limit)
        assert search.nodes == before + limit
    search.run(max_nodes=0)
    assert search.nodes == 47


def test_time_is_limited_and_added_up(monkeypatch):
    search = SubsetSearch(hard(60), 6, joint=False)
    clock = Clock(0.05)
    monkeypatch.setattr(search_module, "time", clock)
    for count in (1, 2, 3):
        before = clock.now
        search.run(time_limit=1.0)
        assert 1.0 <= clock.now - before <= 1.2
        assert count <= search.seconds <= 1.2 * count
        assert not search.finished
    nodes = search.nodes
    search.run(time_limit=0.0)
    assert search.nodes == nodes


def test_a_callback_is_called_now_and_then_and_at_the_end(monkeypatch):
    search = SubsetSearch(hard(60), 6, joint=False)
    clock, said = Clock(0.03), []
    monkeypatch.setattr(search_module, "time", clock)
    search.run(time_limit=2.0, callback=lambda progress: said.append((clock.now, progress)))
    times = [now for now, _ in said]
    assert 8 <= len(said) <= 21
    assert all(0.1 <= later - before <= 0.2 for before, later in pairwise(times[:-1]))
    assert said[-1][1] == search.progress
    assert search.progress == (search.best.value, search.bound, search.nodes, search.seconds)
    assert all(one.bound >= other.bound for (_, one), (_, other) in pairwise(said))
    calls = []

    def stop(progress):
        calls.append(progress)
        return True

    before = search.nodes
    search.run(callback=stop)
    assert len(calls) == 2  # once to stop, once at the end
    assert search.nodes > before


def test_the_bound_is_first_that_of_principal_components():
    problem = hard()
    search = SubsetSearch(problem, 3, joint=False)
    assert search.bound_method == "principal components"
    assert search.bound == pytest.approx(components_bound(problem, 3))
    search.run()
    assert search.bound_method == "search"
    assert search.proved
    assert search.bound <= search.best.value + search.tol


def test_the_bound_may_be_what_all_allowed_features_explain():
    X = np.random.default_rng(1).standard_normal((40, 8)) @ np.diag([1, 1, 1, 3, 3, 3, 3, 3.0])
    problem = problem_of_columns(X - X.mean(axis=0))
    rules = Constraints(exclude=[3, 4, 5, 6, 7]).resolve(8)
    search = SubsetSearch(problem, 2, rules, start=NOTHING, joint=False)
    assert search.bound_method == "all features that may be kept"
    everything = set_value(problem, [0, 1, 2])
    assert everything <= search.bound <= everything + 1e-9
    search.run()
    assert search.proved
    # All of them explain everything, and no share is above 1.
    assert SubsetSearch(problem, 8, start=NOTHING, joint=False).bound <= 1


def test_bounds_with_and_without_each_feature_hold_and_tell_something():
    problem = problem_of_scatter(np.corrcoef(load_wine().data, rowvar=False))
    search = SubsetSearch(problem, 4)
    search.run()
    inside, outside = search.feature_bounds()
    kept = np.isin(np.arange(13), search.best.features)
    assert np.all(inside[kept] >= search.best.value)
    assert np.all(outside[~kept] >= search.best.value)
    assert np.all(inside >= search.best.value - 1e-9) or np.any(inside[~kept] < search.best.value)
    joint = SubsetSearch(problem, 4, joint=True)
    joint._improve_joint(np.inf)  # not due: nothing happens
    assert joint.bound_method == "principal components"
    joint.work = 1e30
    for _ in range(30):
        joint._improve_joint(np.inf)
    assert joint.bound_method == "joint relaxation"
    with_it, without_it = joint.feature_bounds()
    assert np.all(np.isfinite(with_it))
    assert np.all(with_it[kept] >= search.best.value)
    assert np.all(without_it[~kept] >= search.best.value)
    assert joint.bound < SubsetSearch(problem, 4, joint=False).bound


@pytest.mark.parametrize("size", [1, 2, 3])
def test_features_that_must_be_in_and_add_nothing_count(size):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 6))
    X[:, 1] = 2 * X[:, 0]  # determined by the first
    problem = problem_of_columns(X - X.mean(axis=0))
    rules = Constraints(include=[0, 1][:size]).resolve(6)
    search = SubsetSearch(problem, size, rules, start=NOTHING)
    search.run()
    assert search.proved
    assert search.best.features.size == size
    others = [[0, 1, j] for j in range(2, 6)] if size == 3 else [[0, 1][:size]]
    assert search.best.value == pytest.approx(max(set_value(problem, one) for one in others))


def test_better_sets_than_the_first_are_kept_with_their_exact_value():
    problem = hard(12)
    search = SubsetSearch(problem, 3, start=NOTHING, joint=False)
    values = [search.best.value]
    while not search.finished:
        search.run(max_nodes=1)
        values.append(search.best.value)
        assert search.best.value == set_value(problem, search.best.features)
    assert all(one <= other for one, other in pairwise(values))
    assert Rules.none(12).allows(search.best.features)
