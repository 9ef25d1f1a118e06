"""Nodes of the search for the best set: what they say of pairs, and where the search ends."""

import numpy as np
import pytest
from subset_cases import problem_and_value, random_rules, table

from jointsparse.solvers.subset import nodes as nodes_module
from jointsparse.solvers.subset.bounds import largest_without, top_sum
from jointsparse.solvers.subset.constraints import Rules
from jointsparse.solvers.subset.exchange import FoundSet
from jointsparse.solvers.subset.nodes import CompressedNodes, GramNodes, Table, TruncatedNode
from jointsparse.solvers.subset.pairs import bounds_by_pairs, gains_of_pairs
from jointsparse.solvers.subset.problem import (
    inverse_traces,
    problem_of_columns,
    problem_of_scatter,
    set_value,
)
from jointsparse.solvers.subset.search import SubsetSearch

INCLUDED = [[3, 0], [1, 4]]
CANDIDATES = np.array([[1, 5, 6, 8], [2, 7, 0, 9]])  # 9: there is no such feature


def related(seed, n=30, p=9):
    """Features with a factor in common, and 5 to 8 with another one."""
    rng = np.random.default_rng(seed)
    X = 1.5 * rng.standard_normal((n, 1)) * rng.choice([-1, 1], p) + rng.standard_normal((n, p))
    X[:, 5:] += 4 * rng.standard_normal((n, 1))
    return problem_of_columns(X - X.mean(axis=0))


def nodes_of(kind, problem):
    shared = Table(problem, 5, inverse_traces(problem, np.arange(problem.n_features)))
    return kind(shared, np.array(INCLUDED), CANDIDATES)


@pytest.mark.parametrize("kind", [CompressedNodes, GramNodes])
def test_pairs_add_what_they_add_to_the_set(kind):
    problem = related(0)
    nodes = nodes_of(kind, problem)
    both = gains_of_pairs(*nodes.pairs(), nodes.gains)
    for row, inside in enumerate(INCLUDED):
        assert nodes.value[row] == pytest.approx(set_value(problem, inside))
        there = [place for place in range(4) if CANDIDATES[row, place] < 9]
        for one in there:
            first = [*inside, CANDIDATES[row, one]]
            added = set_value(problem, first) - nodes.value[row]
            assert nodes.gains[row, one] == pytest.approx(added, abs=1e-12)
            for other in set(there) - {one}:
                value = set_value(problem, [*first, CANDIDATES[row, other]])
                assert nodes.value[row] + both[row, one, other] == pytest.approx(value)


@pytest.mark.parametrize("kind", [CompressedNodes, GramNodes])
@pytest.mark.parametrize("missing", [2, 3])
def test_bounds_from_pairs_are_those_of_their_definition(kind, missing):
    problem = related(1)
    nodes = nodes_of(kind, problem)
    good = CANDIDATES < 9
    rng = np.random.default_rng(2)
    bounds = rng.uniform(0.95, 1.0, CANDIDATES.shape)
    bounds[:, 0] = 0.3  # not below the largest bound of those that are not asked for
    wanted = good & (bounds > 0.5)
    tails = 0.01 * rng.random(CANDIDATES.shape)
    found = bounds_by_pairs(nodes, good, bounds, tails, wanted, missing)
    for row, inside in enumerate(INCLUDED):
        asked = np.flatnonzero(wanted[row])
        others = max(bounds[row, good[row] & ~wanted[row]], default=-np.inf)
        for place in range(4):
            expected = bounds[row, place]
            if place in asked:
                pairs = [
                    set_value(problem, [*inside, *CANDIDATES[row, [place, other]]])
                    + min(tails[row, place], tails[row, other])
                    for other in asked
                    if other != place
                ]
                rank = min(missing, int(good[row].sum())) - 1
                lower = sorted(pairs)[-rank] if rank <= len(pairs) else -np.inf
                expected = min(expected, max(lower, others))
            assert found[row, place] == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_eigenvalues_without_a_direction_are_close(seed):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((2, 6, 6))
    targets = root @ root.transpose(0, 2, 1)
    values, vectors = np.linalg.eigh(targets)
    x = rng.standard_normal((2, 6))
    x /= np.linalg.norm(x, axis=1)[:, None]
    shadows = np.einsum("bij,bi->bj", vectors, x)
    found = largest_without(values[::-1], shadows, np.array([1, 0]), 3)
    for row in range(2):
        off = np.eye(6) - np.outer(x[row], x[row])
        exact = np.linalg.eigvalsh(off @ targets[row] @ off)[:2:-1]
        assert np.all(found[row] >= exact - 1e-12)
        assert found[row].sum() == pytest.approx(exact.sum(), rel=5e-3)
    assert top_sum(np.array([[-2.0, -1.0, 3.0]]), 2).tolist() == [3.0]
    assert top_sum(np.array([[-2.0, 1.0, 3.0]]), 0).tolist() == [0.0]
    assert top_sum(np.array([[-2.0, 1.0, 3.0]]), 7).tolist() == [4.0]


NOTHING = FoundSet(np.zeros(0, dtype=np.int64), 0.0)


@pytest.mark.parametrize("which", ["compressed", "gram", "truncated"])
@pytest.mark.parametrize("kind", ["plain", "few directions", "integers", "scaled"])
@pytest.mark.parametrize("constrained", [False, True])
def test_the_best_set_is_found_and_proved_from_nothing(which, kind, constrained, monkeypatch):
    if which != "compressed":
        monkeypatch.setattr(nodes_module, "COMPRESSED_ROWS", 0)
        monkeypatch.setattr(nodes_module, "COMPRESSED_CANDIDATES", 0)
    if which == "truncated":
        monkeypatch.setattr(nodes_module, "KEPT_GRAM", 0)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        problem, referee = problem_and_value(rng, kind, 8)
        for size in (1, 2, 4):
            rules = random_rules(rng, 8, size) if constrained else Rules.none(8)
            search = SubsetSearch(problem, size, rules, start=NOTHING, joint=False)
            search.run()
            best, _ = referee.best(size, rules)
            assert search.proved
            assert search.best.value == pytest.approx(best, abs=2e-9)
            assert rules.allows(search.best.features)
            assert search.bound <= best + 1e-8


def test_fewer_candidates_than_features_wanted():
    X = table(np.random.default_rng(0), "plain", 4)
    problem = problem_of_scatter(X.T @ X)
    for size in (3, 4, 9):
        search = SubsetSearch(problem, size, start=NOTHING)
        search.run()
        assert search.proved
        assert search.best.features.size == min(size, 4)


def test_the_rounding_of_sums_grows_with_the_root_of_their_terms():
    X = table(np.random.default_rng(0), "plain", 4)
    few, many, most = (problem_of_scatter(X.T @ X, n_samples=n).accuracy for n in (1, 100, 10**6))
    assert few < many < most
    assert (most - few) / (many - few) == pytest.approx(999 / 9)
    assert few < 1e-14


@pytest.mark.parametrize("kind", [CompressedNodes, GramNodes, TruncatedNode])
def test_what_is_left_of_a_target_is_bounded_closely_by_every_kind_of_node(kind):
    problem = related(3)
    shared = Table(problem, 5, inverse_traces(problem, np.arange(9)))
    inside, candidates = [3, 0], np.array([1, 2, 4, 5, 6, 7, 8])
    nodes = kind(shared, np.array([inside]), candidates[None])
    values, shadows = nodes.spectrum()
    found = largest_without(values, shadows[0].T, np.zeros(7, dtype=np.int64), 3).sum(axis=1)
    for place, feature in enumerate(candidates):
        basis = np.linalg.qr(problem.columns[:, [*inside, feature]])[0]
        off = np.eye(len(basis)) - basis @ basis.T
        exact = np.linalg.eigvalsh(off @ problem.target @ off)[-3:].sum()
        assert exact - 1e-12 <= found[place] <= exact * 1.02
    # Without any direction: what is in is out of the target.
    basis = np.linalg.qr(problem.columns[:, inside])[0]
    off = np.eye(len(basis)) - basis @ basis.T
    exact = np.linalg.eigvalsh(off @ problem.target @ off)[-4:]
    np.testing.assert_allclose(values[0, -4:], exact, rtol=1e-9)


def test_what_is_not_among_the_leading_eigenvalues_is_bounded_by_the_next_one():
    # Half of the direction is outside of the eigenvectors that are kept; it raises the first value.
    values = np.concatenate([np.zeros(4), np.full(9, 0.5), [1.0]])
    direction = (np.eye(14)[13] + np.eye(14)[4]) / 2**0.5
    off = np.eye(14) - np.outer(direction, direction)
    exact = np.linalg.eigvalsh(off @ np.diag(values) @ off)[-1]
    found = largest_without(values[None], direction[None], np.zeros(1, dtype=np.int64), 1)
    assert exact == pytest.approx(0.75)
    assert exact <= found[0, 0] <= exact + 1e-3


@pytest.mark.parametrize("kept", [0, 2, 50])
def test_leading_eigenvectors_and_the_next_eigenvalue_bound_the_target(kept, monkeypatch):
    monkeypatch.setattr(nodes_module, "LEADING", kept)
    problem = related(4)
    axes, products, roots, next_one = Table(problem, 3).leading
    count = min(3 + kept, 30)
    assert axes.shape[1] == roots.size == count
    bound = (axes * roots**2) @ axes.T + next_one * np.eye(30)
    apart = np.linalg.eigvalsh(bound - problem.target)
    assert apart[0] >= -1e-12
    values = problem.spectrum[0]
    np.testing.assert_allclose(roots**2 + next_one, values[-count:], atol=1e-12)
    assert next_one == pytest.approx(values[-count - 1] if count < 30 else 0.0, abs=1e-12)
    np.testing.assert_allclose(products[:, :9], axes.T @ problem.columns, atol=1e-12)
    assert not products[:, 9].any()


def test_of_pairs_that_are_nearly_the_same_nothing_is_said():
    X = np.random.default_rng(6).standard_normal((30, 9))
    X[:, 5] = X[:, 1] + 1e-4 * X[:, 5]
    problem = problem_of_columns(X - X.mean(axis=0))
    nodes = nodes_of(CompressedNodes, problem)
    bounds = np.full(CANDIDATES.shape, 0.99)
    good = CANDIDATES < 9
    found = bounds_by_pairs(nodes, good, bounds, 0 * bounds, good, 2)
    assert found[0, 0] == found[0, 1] == 0.99  # the two: 1 and 5
    assert np.all(found[0, 2:] < 0.9)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_tables_of_any_unit_are_the_same_problem(unit):
    X = np.random.default_rng(5).standard_normal((20, 5)) * [1, 2, 3, 4, 1e-3]
    X -= X.mean(axis=0)
    for target in (None, X[:, :2] @ np.ones((2, 1))):
        plain = problem_of_columns(X, target)
        other = problem_of_columns(unit * X, None if target is None else unit * target)
        np.testing.assert_allclose(other.target, plain.target, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(other.columns, plain.columns, rtol=1e-12)
        assert plain.reachable == pytest.approx(1)


@pytest.mark.parametrize("kind", [CompressedNodes, GramNodes])
def test_nodes_with_fewer_candidates_see_no_more_of_the_target(kind):
    problem = related(5)
    shared = Table(problem, 5, inverse_traces(problem, np.arange(9)))
    both = kind(shared, np.array(INCLUDED), CANDIDATES).spectrum()[0][1]
    alone = kind(shared, np.array(INCLUDED[1:]), CANDIDATES[1:, :3]).spectrum()[0][0]
    np.testing.assert_allclose(both[-3:], alone[-3:], atol=1e-12)
    np.testing.assert_allclose(both.sum(), alone.sum(), atol=1e-12)


@pytest.mark.parametrize("kind", [CompressedNodes, GramNodes])
def test_charges_come_from_the_inverse_of_the_inner_products(kind):
    problem = related(6)
    nodes = nodes_of(kind, problem)
    for row, inside in enumerate(INCLUDED):
        columns = problem.columns[:, inside]
        assert nodes.inverse_trace[row] == pytest.approx(
            np.trace(np.linalg.inv(columns.T @ columns))
        )
        for place, feature in enumerate(CANDIDATES[row]):
            if feature < 9:
                columns = problem.columns[:, [*inside, feature]]
                known = np.trace(np.linalg.inv(columns.T @ columns))
                assert nodes.inverse_traces[row, place] == pytest.approx(known)
