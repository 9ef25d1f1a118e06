import numpy as np
import pytest

from jointsparse.solvers.components import procrustes_spaces
from jointsparse.solvers.components.procrustes import SparsePenalty, solve_alternating
from jointsparse.solvers.products.gram import Gram, SampleGram
from jointsparse.solvers.regression.elastic_net import elastic_net


def problem(seed, n=40, p=12):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p)) + 0.3 * rng.standard_normal(
        (n, p)
    )
    return X - X.mean(axis=0)


def solve(gram, ridge, l1, counts=None, **options):
    start = gram.leading()[1][:, : len(l1)]
    penalty = SparsePenalty(ridge, np.array(l1, dtype=float), counts)
    options = {"tol": 1e-9, "max_iter": 3000} | options
    return solve_alternating(gram, start, penalty, **options)


@pytest.mark.parametrize("ridge", [0.0, 1e-3, 1.0, np.inf])
@pytest.mark.parametrize("seed", range(4))
def test_the_objective_never_rises_and_is_that_of_the_result(ridge, seed):
    X = problem(seed)
    gram = Gram(X.T @ X)
    solution = solve(gram, ridge, [0.02, 0.02])
    assert np.all(np.diff(solution.history) <= 1e-12 * gram.trace)
    directions, B, l1 = solution.state
    A = directions()
    np.testing.assert_allclose(A.T @ A, np.eye(2), atol=1e-12)
    l1_term = np.sum(l1 * np.abs(B).sum(axis=0))
    if np.isinf(ridge):
        S = gram.scatter
        value = gram.trace * (np.sum(B**2) - 2 * np.sum(A * (S @ B))) + l1_term
    else:
        value = np.sum((X - X @ B @ A.T) ** 2) + ridge * gram.trace * np.sum(B**2) + l1_term
    assert solution.objective == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(np.linalg.norm(solution.loadings, axis=0), 1)


@pytest.mark.parametrize("ridge", [1e-3, np.inf])
@pytest.mark.parametrize("counts", [None, np.array([3, 4])])
def test_scatter_and_samples_give_the_same(ridge, counts):
    X = problem(1, 14, 20)
    one = solve(Gram(X.T @ X), ridge, [0.03, 0.03], counts, max_iter=30)
    other = solve(SampleGram(X), ridge, [0.03, 0.03], counts, max_iter=30)
    signs = np.sign(np.sum(one.loadings * other.loadings, axis=0))
    np.testing.assert_allclose(one.loadings, other.loadings * signs, atol=1e-10)
    np.testing.assert_allclose(one.state[0](), other.state[0]() * signs, atol=1e-9)


def test_features_that_stay_zero_are_not_looked_at(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2000))
    X[:, :20] += 3 * rng.standard_normal((40, 2)) @ rng.uniform(0.5, 1.5, (2, 20))
    gram, passes, back = SampleGram(X), [], SampleGram.back
    monkeypatch.setattr(SampleGram, "back", lambda self, rows: passes.append(1) or back(self, rows))
    start = gram.leading(2)[1]
    for share in (0.9, 0.6, 0.3):
        l1 = np.full(2, share * 2 * np.max(np.abs(gram.apply(start))))
        options = {"tol": 1e-9, "max_iter": 500}
        passes.clear()
        some = solve_alternating(gram, start, SparsePenalty(np.inf, l1), **options)
        looked = len(passes)
        with monkeypatch.context() as patch:
            patch.setattr(procrustes_spaces, "MOST", 0.0)
            every = solve_alternating(gram, start, SparsePenalty(np.inf, l1), **options)
        assert some.n_iter == every.n_iter
        assert looked - 1 < every.n_iter / 2  # one more pass tells whether the end is optimal
        np.testing.assert_allclose(some.loadings, every.loadings, atol=1e-12)
        np.testing.assert_allclose(some.state[0](), every.state[0](), atol=1e-10)
        assert some.objective == pytest.approx(every.objective, rel=1e-12)


def test_no_feature_is_left_out_that_can_have_a_loading_now(monkeypatch):
    """However few are copied at least: all that are above the threshold are looked at."""
    monkeypatch.setattr(procrustes_spaces, "FEWEST", 4)
    X = np.random.default_rng(0).standard_normal((40, 1000))
    X[:, :20] += 3 * np.random.default_rng(1).standard_normal((40, 1))
    gram = SampleGram(X)
    start = gram.leading(1)[1]
    l1 = np.full(1, 0.6 * 2 * np.max(np.abs(gram.apply(start))))
    found = solve_alternating(gram, start, SparsePenalty(np.inf, l1), tol=1e-9, max_iter=100)
    assert found.converged
    np.testing.assert_array_equal(np.flatnonzero(found.loadings), np.arange(20))


def test_an_empty_component_stays_empty():
    X = problem(0)
    solution = solve(Gram(X.T @ X), 0.0, [0.01, 10.0])
    assert not solution.loadings[:, 1].any()
    assert solution.diagnostics["empty_components"] == 1
    assert not solve(Gram(X.T @ X), 0.0, [10.0, 10.0]).loadings.any()


@pytest.mark.parametrize("beyond", [0.5, 1.01, 3.0])
def test_a_feature_is_looked_at_again_before_it_can_have_a_loading(beyond, monkeypatch):
    monkeypatch.setattr(procrustes_spaces, "FEWEST", 10)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 200))
    X -= X.mean(axis=0)
    gram = SampleGram(X)
    start = gram.leading(2)[1]
    C = gram.apply(start)
    thresholds = 1.2 * np.abs(C).max(axis=0)
    space = procrustes_spaces.SampleSpace(gram, start, thresholds)
    first, _ = space.correlation(np.zeros((200, 2)))
    assert len(first) == len(space.kept) < 50
    np.testing.assert_allclose(first, C[space.kept], atol=1e-14)
    # one that has a loading stays, however far it is from its threshold
    loaded = np.zeros((200, 2))
    farthest = int(np.argmin(np.max(np.abs(C), axis=1)))
    loaded[farthest, 1] = 1.0
    other = procrustes_spaces.SampleSpace(gram, start, thresholds)
    _, B = other.correlation(loaded)
    assert farthest in other.kept
    assert B[list(other.kept).index(farthest)].tolist() == [0, 1]
    # The feature left out that is nearest to its threshold, and X A moved straight towards it.
    room = (thresholds - np.abs(C)) / np.sqrt(gram.diagonal)[:, None]
    room[space.kept] = np.inf
    feature, component = np.unravel_index(np.argmin(room), room.shape)
    column = np.sqrt(gram.weights[:, 0]) * X[:, feature]
    towards = np.sign(C[feature, component]) * column / np.linalg.norm(column)
    space.inner = space.inner.copy()
    space.inner[:, component] += beyond * room[feature, component] * (space.rows.T @ towards)
    now = X.T @ (np.sqrt(gram.weights) * (space.rows @ space.inner))
    found, B = space.correlation(np.zeros((len(space.kept), 2)))
    features = np.arange(200) if space.kept is None else space.kept
    np.testing.assert_allclose(found, now[features], atol=1e-12)
    assert len(B) == len(features)
    can_load = np.flatnonzero(np.any(np.abs(now) > thresholds, axis=1))
    assert set(can_load) <= set(features)
    assert (feature in can_load) == (beyond > 1)


def test_one_component_without_a_penalty_and_no_ridge():
    """The other one is the elastic net of its own direction; this one is that direction."""
    X = problem(5)
    gram = Gram(X.T @ X)
    solution = solve(gram, 0.0, [0.05, 0.0])
    directions, B, l1 = solution.state
    A = directions()
    np.testing.assert_allclose(l1, [0.05 * gram.trace, 0.0])
    np.testing.assert_allclose(B[:, 1], A[:, 1], atol=1e-6)
    expected = elastic_net(gram, gram.scatter @ A[:, 0], ridge=0.0, penalty=0.05)
    np.testing.assert_allclose(B[:, 0], expected, atol=1e-6)
    assert 0 < np.count_nonzero(B[:, 0]) < 12
