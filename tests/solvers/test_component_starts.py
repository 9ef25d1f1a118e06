"""Good supports, units and tolerances of sparse components."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from jointsparse.solvers.sparse_component import open_part
from jointsparse.solvers.sparse_component import part as part_module
from jointsparse.solvers.sparse_component import search as search_module
from jointsparse.solvers.sparse_component.deflation import Deflated
from jointsparse.solvers.sparse_component.entries import ScatterEntries
from jointsparse.solvers.sparse_component.gershgorin import (
    NARROWEST,
    better_weights,
    eliminate,
)
from jointsparse.solvers.sparse_component.joint.primal import best_jointly_on, exchanged_jointly
from jointsparse.solvers.sparse_component.many_features import ManyFeatures
from jointsparse.solvers.sparse_component.primal import (
    AXES,
    STARTS,
    _starts,
    best_on,
    exchanged,
    largest,
    truncated_power,
)
from jointsparse.solvers.sparse_component.problem import Problem
from jointsparse.solvers.sparse_component.search import JointSearch, Search
from jointsparse.solvers.sparse_component.solve import power_of_two

NOBODY = np.zeros(0, dtype=np.int64)


def scatter(seed, p=9):
    X = np.random.default_rng(seed).standard_normal((2 * p, p))
    S = X.T @ X
    return S * power_of_two(float(np.max(np.abs(S))))


def as_mask(included, p):
    mask = np.zeros(p, dtype=bool)
    mask[list(included)] = True
    return mask


def swaps(features, included, p):
    for leaving in set(features) - set(included):
        for entering in set(range(p)) - set(features):
            yield np.array([entering if j == leaving else j for j in features])


@pytest.mark.parametrize("included", [(), (8,)])
def test_no_single_exchange_improves_a_component(included):
    for seed in range(6):
        S, mask = scatter(seed), as_mask(included, 9)
        start = largest(np.random.default_rng(seed).random(9), 4, mask, nonnegative=True)
        assert set(included) <= set(start)
        found = exchanged(S, start, mask)
        assert found.value >= best_on(S, start).value
        for other in swaps(found.features.tolist(), included, 9):
            assert best_on(S, other).value <= found.value * (1 + 1e-9)
        first = np.linalg.eigvalsh(S[np.ix_(found.features, found.features)])[-1]
        assert found.value == pytest.approx(first)


@pytest.mark.parametrize("every", [False, True])
def test_no_single_exchange_improves_several_components(every):
    for seed in range(4):
        S, mask = scatter(seed), as_mask((8,), 9)
        start = largest(np.random.default_rng(seed).random(9), 4, mask, nonnegative=True)
        found = exchanged_jointly(S, start, 2, mask, every=every)
        assert 8 in found.features
        values = np.linalg.eigvalsh(S[np.ix_(found.features, found.features)])
        assert found.value == pytest.approx(values[-2:].sum())
        np.testing.assert_allclose(found.loadings.T @ found.loadings, np.eye(2), atol=1e-12)
        for other in swaps(found.features.tolist(), (8,), 9):
            assert best_jointly_on(S, other, 2).value <= found.value * (1 + 1e-9)


def test_a_power_iteration_ends_where_it_stands_still():
    for seed in range(6):
        S, mask = scatter(seed), as_mask((2,), 9)
        features = truncated_power(S, np.random.default_rng(seed).random(9), 3, mask)
        loadings = best_on(S, features).loadings
        moved = largest(S[:, features] @ loadings, 3, mask, nonnegative=False)
        np.testing.assert_array_equal(moved, features)


def worst(found, S, k):
    """Return the worst support in place of a good one."""
    return min(
        (found(S, np.array(some)) for some in itertools.combinations(range(len(S)), k)),
        key=lambda component: component.value,
    )


def spiked(p=10, k=3):
    X = np.random.default_rng(0).standard_normal((40, p))
    X[:, :k] += 2 * np.random.default_rng(1).standard_normal((40, 1))
    X -= X.mean(axis=0)
    S = X.T @ X
    return S * power_of_two(float(np.max(np.abs(S))))


def test_a_relaxation_points_to_the_best_component(monkeypatch):
    S = spiked()
    best = Search(S, 3, NOBODY).best
    poor = worst(best_on, S, 3)
    monkeypatch.setattr(search_module, "good_component", lambda *_, **__: poor)
    search = Search(S, 3, NOBODY)
    assert search.best.value == poor.value
    search.run(max_nodes=1)
    assert search.best.features.tolist() == best.features.tolist()
    search.run()
    assert search.proved
    assert search.best.value == pytest.approx(best.value)


def test_a_relaxation_points_to_the_best_components(monkeypatch):
    S = spiked()
    best = JointSearch(S, 4, 2, NOBODY).best
    poor = worst(lambda S, features: best_jointly_on(S, features, 2), S, 4)
    monkeypatch.setattr(search_module, "good_components", lambda *_, **__: poor)
    search = JointSearch(S, 4, 2, NOBODY)
    search.run(max_nodes=1)
    assert search.best.value >= 0.98 * best.value
    search.run()
    assert search.proved
    assert search.best.value == pytest.approx(best.value)


@pytest.mark.parametrize("size", [5e-324, 1e-300, 0.3, 0.5, 1.0, 7.0, 1e9, 1e300])
def test_a_power_of_two_brings_any_size_near_one(size):
    factor = power_of_two(size)
    assert np.frexp(factor)[0] == 0.5
    if 1e-300 <= size <= 1e300:
        assert 0.5 <= size * factor <= 1
    assert size * factor <= 1
    assert power_of_two(0.0) == 1


@pytest.mark.parametrize("value", [0.0, 0.2, -0.3])
def test_a_tolerance_has_the_unit_of_the_matrix(value):
    S = 0.25 * np.eye(3)
    plain = Problem(S, 2, False, 1e-3)
    for unit in (2.0**-20, 2.0**20):
        other = Problem(unit * S, 2, False, 1e-3)
        assert other.goal(unit * value) == pytest.approx(unit * plain.goal(value), rel=1e-12)
        assert other.level(unit * value) == pytest.approx(unit * plain.level(value), rel=1e-12)
    assert value < plain.level(value) < plain.goal(value)
    assert plain.goal(value) - value >= 1e-3 * abs(value) * (1 - 1e-9)
    charged = Problem(S, 2, False, 1e-3, error=0.125)
    assert charged.level(value) == pytest.approx(plain.level(value) - 0.125)
    assert Problem(0 * S, 2, False, 1e-3).goal(0.0) > 0


def test_a_component_takes_its_value_off_the_trace():
    S = scatter(3)
    X = np.linalg.cholesky(S).T
    v = np.zeros(9)
    v[[1, 4, 5]] = [0.6, 0.0, -0.8]
    by_scatter, by_samples = Deflated(S), Deflated(None, X)
    for left in (by_scatter, by_samples):
        assert left.largest == pytest.approx(np.max(np.diagonal(S)))
        left.project_out(v)
        assert not left.is_empty
    off = np.eye(9) - np.outer(v, v)
    np.testing.assert_allclose(by_scatter.scatter, off @ S @ off, atol=1e-12)
    np.testing.assert_allclose(by_samples.centred.T @ by_samples.centred, off @ S @ off, atol=1e-12)
    assert np.trace(S) - np.trace(by_scatter.scatter) == pytest.approx(v @ S @ v)
    for unit in (1e-9, 1.0, 1e9):
        alone = Deflated(unit * np.outer(v, v))
        assert not alone.is_empty
        alone.project_out(v)
        assert alone.is_empty
        faint = Deflated(unit * np.diag([1.0, 1e-10]))
        faint.project_out(np.array([1.0, 0.0]))
        assert not faint.is_empty


@pytest.mark.parametrize("joint", [False, True])
def test_a_node_that_is_interrupted_stays_open(joint, monkeypatch):
    S = spiked()
    poor = worst(lambda S, features: best_jointly_on(S, features, 1), S, 3)
    truth = (JointSearch(S, 3, 1, NOBODY) if joint else Search(S, 3, NOBODY)).best.value
    with monkeypatch.context() as late:
        late.setattr(search_module, "good_component", lambda *_, **__: poor)
        late.setattr(search_module, "good_components", lambda *_, **__: poor)
        for module in (open_part, part_module):
            late.setattr(module, "is_late", lambda deadline: True)
        late.setattr("jointsparse.solvers.sparse_component.part.CHUNKS", (2,))
        late.setattr("jointsparse.solvers.sparse_component.joint.part.CHUNKS", (2,))
        search = JointSearch(S, 3, 1, NOBODY) if joint else Search(S, 3, NOBODY)
        search.run(max_nodes=1)
        assert search.n_open == 1
        assert search.bound >= truth
        assert not search.proved
    search.run()
    assert search.proved
    assert search.best.value == pytest.approx(truth)


@pytest.mark.parametrize("p", [3, 5, 6, 7])
def test_what_needs_no_search_is_still_bounded_with_its_rounding(p):
    # Ones: the first eigenvalue is p, and the sum of all is the trace.
    unit = 2.0**-3
    for seed in range(4):
        X = np.random.default_rng(seed).standard_normal((p, p))
        S = (X + X.T) * unit
        exact = sum(Fraction(value) for value in np.diagonal(S))
        for tol in (1e-6, 1e-17):  # proved as it is, and looked at
            joint = JointSearch(S, p, p, NOBODY, tol=tol)
            joint.run()
            assert joint.n_open == 0 or joint.proved
            assert Fraction(joint.bound) >= exact
            assert joint.bound == pytest.approx(float(exact))
    for tol in (1e-6, 1e-17):
        one = Search(np.ones((p, p)) * unit, p, NOBODY, tol=tol)
        one.run()
        assert p * unit <= one.bound <= p * unit * (1 + 1e-12)


def test_both_signs_count_unless_it_is_said():
    S = np.array([[1.0, -0.9, 0.0], [-0.9, 1.0, 0.0], [0.0, 0.0, 1.2]])
    kept, bound = eliminate(S, 2, as_mask((), 3), 1.5)
    assert kept.tolist() == [0, 1]
    assert bound >= 1.9
    kept, _ = eliminate(S, 2, as_mask((), 3), 1.5, nonnegative=True)
    assert kept.size == 0


def test_the_last_feature_is_the_best_of_all_that_may_come(monkeypatch):
    S = spiked()
    for k, included in ((3, [5, 8]), (4, [0, 6, 9])):
        every = [np.array([*included, j]) for j in range(10) if j not in included]
        values = [best_on(S, some).value for some in every]
        poor = best_on(S, every[int(np.argmin(values))])
        monkeypatch.setattr(search_module, "good_component", lambda *_, poor=poor, **__: poor)
        search = Search(S, k, np.array(included))
        search.run()
        assert search.proved
        assert search.best.value == pytest.approx(max(values))
        assert search.bound >= max(values)


def test_weights_of_discs_move_towards_the_larger_discs():
    weights, radii = np.array([1.0, 0.5, 0.25]), np.array([2.0, 1.0, -np.inf])
    found = better_weights(weights, radii)
    assert found.max() == 1
    assert found[1] == pytest.approx(0.5 * 0.5**0.5)  # half of the way
    assert found[2] == NARROWEST**0.5 * 0.25
    assert np.all(better_weights(1e-9 * weights, radii) >= NARROWEST)


def test_the_rounding_of_the_matrix_is_charged_to_the_bound():
    S = spiked()
    exact = Search(S, 3, NOBODY)
    charged = Search(S, 3, NOBODY, error=1e-3)
    for search in (exact, charged):
        search.run()
    assert exact.proved
    assert charged.bound >= exact.best.value + 1e-3
    assert charged.bound <= exact.bound + 1.1e-3


def test_the_room_for_states_is_counted(monkeypatch):
    monkeypatch.setattr("jointsparse.solvers.sparse_component.part.CHUNKS", (2,))
    monkeypatch.setattr("jointsparse.solvers.sparse_component.part.OTHER_CHUNKS", ())
    search = Search(scatter(1, p=14), 5, NOBODY, tol=1e-9)
    seen = 0
    for _ in range(8):
        search.run(max_nodes=1)
        kept = sum(node.start.n_numbers for node in search._heap if node.start is not None)
        assert search._state_numbers == kept
        seen = max(seen, kept)
    assert seen > 0


def test_one_feature_of_many_is_the_one_that_varies_most():
    X = np.random.default_rng(0).standard_normal((30, 6)) * [5, 1, 1, 1, 1, 2]
    many = ManyFeatures(ScatterEntries(X), 1, np.arange(6), NOBODY, nonnegative=False)
    assert many.best.features.tolist() == [0]
    assert many.best.value == pytest.approx(np.sum(X[:, 0] ** 2))


def test_a_last_support_is_still_to_be_looked_at():
    S = spiked()
    problem = Problem(S, 3, False, 1e-6)
    node = open_part.Node((-5.0, 1), np.arange(4), NOBODY)
    out, none = as_mask((3,), 4), as_mask((), 4)
    part = part_module.Part(problem, node, worst(best_on, S, 3))
    assert part._leave(out, none)
    assert part.candidates.tolist() == [0, 1, 2]  # three are left, and may be better
    assert part.bound == 5.0
    part = part_module.Part(problem, node, worst(best_on, S, 3))
    assert part._leave(as_mask((0, 3), 4), none)
    assert part.bound == part.level  # two are left: no support at all
    part = part_module.Part(problem, node, worst(best_on, S, 3))
    assert part._leave(none, as_mask((0, 1, 2), 4))
    assert part.included.tolist() == [0, 1, 2]
    assert part.bound == 5.0
    assert not part._leave(none, none)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_features_with_the_largest_entries_that_may_go_together_are_starts(nonnegative):
    S = np.eye(40)
    S[39, 36:39] = S[36:39, 39] = 0.3
    S[0, 1:4] = S[1:4, 0] = -0.4  # of no use where loadings may not be negative
    starts = [start.tolist() for start in _starts(S, 3, nonnegative=nonnegative)]
    rows = starts[AXES * (2 if nonnegative else 1) : -1]
    assert len(rows) == STARTS
    assert rows[0] == S[39 if nonnegative else 0].tolist()
