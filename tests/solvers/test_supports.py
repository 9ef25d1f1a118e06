from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jointsparse.solvers.components.procrustes import SparsePenalty, solve_alternating
from jointsparse.solvers.components.supports import Supports, towards_axes
from jointsparse.solvers.products.gram import Gram, SampleGram


def samples(seed, n=40, p=10, rank=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    X += 0.5 * rng.standard_normal((n, p))
    return X - X.mean(axis=0)


def counted(gram, ridge, counts, **options):
    values, start = gram.leading(len(counts))
    start = towards_axes(start, values[: len(counts)])
    penalty = SparsePenalty(ridge, np.zeros(len(counts)), np.array(counts))
    return solve_alternating(gram, start, penalty, **{"tol": 1e-9, "max_iter": 3000} | options)


def loss_on(S, ridge, c, support):
    """The least bᵀ(S + ridge)b - 2cᵀb on a support, by a dense solve."""
    support = list(support)
    G = S[np.ix_(support, support)] + ridge * np.eye(len(support))
    return -c[support] @ np.linalg.solve(G, c[support])


@pytest.mark.parametrize("ridge", [1e-3, 0.1])
@pytest.mark.parametrize("seed", range(6))
def test_no_swap_of_one_feature_would_gain(ridge, seed):
    X = samples(seed)
    gram = Gram(X.T @ X)
    solution = counted(gram, ridge, [3, 4])
    directions, B, _ = solution.state
    A = directions()
    assert solution.converged
    C = gram.scatter @ A
    every, found = [], []
    for j, count in enumerate([3, 4]):
        support = np.flatnonzero(B[:, j])
        assert support.size == count
        found.append(loss_on(gram.scatter, ridge, C[:, j], support))
        b = np.linalg.solve(
            gram.scatter[np.ix_(support, support)] + ridge * np.eye(count), C[support, j]
        )
        np.testing.assert_allclose(B[support, j], b, atol=1e-6)
        every.append(
            min(loss_on(gram.scatter, ridge, C[:, j], s) for s in combinations(range(10), count))
        )
    # Swaps need not find the best of all supports; here they come within five per cent of it.
    assert sum(found) <= 0.95 * sum(every)


@given(seed=st.integers(0, 1000), ridge=st.sampled_from([1e-3, 0.1, np.inf]))
@settings(max_examples=25, deadline=None)
def test_counts_are_kept_and_the_objective_never_rises(seed, ridge):
    X = samples(seed, p=12)
    gram = Gram(X.T @ X)
    solution = counted(gram, ridge, [2, 5, 3])
    assert np.count_nonzero(solution.loadings, axis=0).tolist() == [2, 5, 3]
    assert np.all(np.diff(solution.history) <= 1e-12 * gram.trace)
    directions, B, l1 = solution.state
    A = directions()
    np.testing.assert_allclose(A.T @ A, np.eye(3), atol=1e-10)
    assert not l1.any()
    if np.isfinite(ridge):
        value = np.sum((X - X @ B @ A.T) ** 2) + ridge * gram.trace * np.sum(B**2)
        assert solution.objective == pytest.approx(value, rel=1e-9)


def test_the_limit_form_keeps_the_largest_entries():
    X = samples(1)
    gram = Gram(X.T @ X)
    solution = counted(gram, np.inf, [3, 4])
    directions, B, _ = solution.state
    A = directions()
    C = gram.scatter @ A
    for j, count in enumerate([3, 4]):
        largest = np.sort(np.argsort(-np.abs(C[:, j]))[:count])
        np.testing.assert_array_equal(np.flatnonzero(B[:, j]), largest)
        np.testing.assert_allclose(B[largest, j], C[largest, j], atol=1e-7)


@pytest.mark.parametrize("ridge", [1e-2, np.inf])
def test_scatter_and_samples_give_the_same(ridge):
    X = samples(2, n=9, p=25)
    one = counted(Gram(X.T @ X), ridge, [4, 4])
    other = counted(SampleGram(X), ridge, [4, 4])
    signs = np.sign(np.sum(one.loadings * other.loadings, axis=0))
    np.testing.assert_allclose(one.loadings, other.loadings * signs, atol=1e-7)


def test_equal_features_and_more_than_the_rank():
    X = samples(3, n=5, p=4)
    X = np.column_stack([X, X, np.zeros(5)])
    gram = Gram(X.T @ X)
    solution = counted(gram, 0.0, [9, 8], max_iter=50)
    assert np.isfinite(solution.loadings).all()
    assert not solution.loadings[8].any()  # does not vary


def test_swaps_are_made_only_where_they_gain():
    X = samples(4)
    gram = Gram(X.T @ X)
    supports = Supports(gram, 1e-3, np.array([3]))
    C = gram.apply(gram.leading(1)[1])
    before = np.inf
    for _ in range(10):
        B, _ = supports.step(C, np.zeros_like(C), np.array([0]), search=True)
        now = -float(C[:, 0] @ B[:, 0])
        assert now <= before + 1e-15
        before = now
    assert supports.settled
    assert np.count_nonzero(B) == 3


def test_the_rotation_keeps_the_span_and_finds_the_blocks():
    rng = np.random.default_rng(0)
    simple = np.zeros((12, 3))
    for j in range(3):
        simple[4 * j : 4 * j + 4, j] = 0.5
    mixed = simple @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
    turned = towards_axes(mixed, np.ones(3))
    np.testing.assert_allclose(turned @ turned.T, mixed @ mixed.T, atol=1e-12)
    np.testing.assert_allclose(np.sort(np.abs(turned.T @ simple).max(axis=0)), 1, atol=1e-6)
