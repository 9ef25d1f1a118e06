from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import ElasticNet

from jointsparse.moments import Moments
from jointsparse.penalties import soft_threshold
from jointsparse.solvers.products.gram import Gram, SampleGram, gram_of
from jointsparse.solvers.regression import elastic_net as kernel
from jointsparse.solvers.regression.elastic_net import elastic_net
from jointsparse.solvers.regression.elastic_net_batches import ElasticNets


def problem(seed, n=40, p=15):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) @ rng.standard_normal((4, p)) + 0.3 * rng.standard_normal(
        (n, p)
    )
    X -= X.mean(axis=0)
    return X, np.linalg.svd(X, full_matrices=False)[2][seed % 3]


@pytest.mark.parametrize(
    ("penalty", "ridge"), [(0.1, 0.01), (0.02, 1e-3), (0.3, 0), (5e-3, 0), (1e-3, 0.5)]
)
@pytest.mark.parametrize("seed", range(3))
def test_equals_scikit_learn(penalty, ridge, seed):
    X, a = problem(seed)
    gram = Gram(X.T @ X)
    scaled = X / np.sqrt(gram.trace)
    total = penalty + 2 * ridge
    reference = ElasticNet(
        alpha=total / (2 * len(X)),
        l1_ratio=penalty / total,
        fit_intercept=False,
        tol=1e-15,
        max_iter=10**6,
    ).fit(scaled, scaled @ a)
    b = elastic_net(gram, gram.apply(a), ridge=ridge, penalty=penalty)
    np.testing.assert_allclose(b, reference.coef_, atol=1e-8)
    np.testing.assert_array_equal(b != 0, reference.coef_ != 0)


@given(
    seed=st.integers(0, 10_000),
    penalty=st.floats(1e-4, 0.3),
    ridge=st.sampled_from([0, 1e-6, 1e-2]),
)
@settings(max_examples=40)
def test_optimality_conditions_from_any_start(seed, penalty, ridge):
    X, a = problem(seed, n=12, p=20)
    gram = SampleGram(X)
    c = gram.apply(a)
    start = np.random.default_rng(seed).standard_normal(20)
    b = elastic_net(gram, c, ridge=ridge, penalty=penalty, start=start)
    gradient = c - gram.apply(b) - ridge * b
    assert np.all(np.abs(gradient) <= penalty / 2 + 1e-10)
    active = b != 0
    np.testing.assert_allclose(gradient[active], penalty / 2 * np.sign(b[active]), atol=1e-10)


@pytest.mark.parametrize("shape", [(40, 15), (10, 30)])
def test_both_forms_agree(shape):
    X, a = problem(1, *shape)
    S, data = Gram(X.T @ X), SampleGram(X)
    features = np.array([3, 0, 7])
    np.testing.assert_allclose(S.trace, data.trace)
    np.testing.assert_allclose(S.diagonal, data.diagonal, atol=1e-14)
    np.testing.assert_allclose(S.columns(features), data.columns(features), atol=1e-14)
    np.testing.assert_allclose(S.block(features), data.block(features), atol=1e-14)
    c = S.apply(a)
    np.testing.assert_allclose(S.ridge_solve(c, 0.1), data.ridge_solve(c, 0.1), atol=1e-12)
    values, vectors = S.leading()
    thin_values, thin_vectors = data.leading()
    np.testing.assert_allclose(values, thin_values, atol=1e-12)
    np.testing.assert_allclose(np.abs(np.sum(vectors * thin_vectors, axis=0)), 1, atol=1e-8)
    one = elastic_net(S, c, ridge=1e-3, penalty=0.02)
    np.testing.assert_allclose(
        elastic_net(data, data.apply(a), ridge=1e-3, penalty=0.02), one, atol=1e-10
    )


def test_wide_samples_are_not_turned_into_a_scatter_matrix():
    X, _ = problem(0, 10, 30)
    assert isinstance(gram_of(Moments.from_data(X)), SampleGram)
    assert not isinstance(gram_of(Moments.from_data(X.T)), SampleGram)


@pytest.mark.parametrize("ridge", [0, 1e-2])
def test_equal_features_share_or_one_has_all(ridge):
    X, a = problem(0)
    X = np.column_stack([X, X])
    gram = Gram(X.T @ X)
    c = gram.apply(np.concatenate([a, a]))
    b = elastic_net(gram, c, ridge=ridge, penalty=0.02, start=np.full(30, 0.1))
    gradient = c - gram.apply(b) - ridge * b
    assert np.all(np.abs(gradient) <= 0.01 + 1e-10)
    if ridge:
        np.testing.assert_allclose(b[:15], b[15:], atol=1e-8)


def test_a_zero_target_has_a_zero_solution():
    gram = Gram(np.diag([2.0, 1.0]))
    assert not elastic_net(gram, np.zeros(2), ridge=0.1, penalty=0.1).any()


def test_limit_of_a_large_ridge_is_the_soft_threshold():
    X, a = problem(2)
    gram = Gram(X.T @ X)
    c = gram.apply(a)
    limit = soft_threshold(c, 0.02)
    b = elastic_net(gram, c, ridge=1e7, penalty=0.04) * (1 + 1e7)
    np.testing.assert_allclose(b, limit, atol=1e-6)
    assert 0 < np.count_nonzero(limit) < 15


def working_set(seed, p=4):
    """A positive definite G, c, half of a penalty, and the solution by trying all signs."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((8, p))
    G, c, half = X.T @ X / np.sum(X**2), rng.standard_normal(p) / 5, 0.1
    best, found = np.inf, None
    for signs in product((-1, 0, 1), repeat=p):
        signs = np.array(signs)
        active = np.flatnonzero(signs)
        b = np.zeros(p)
        b[active] = np.linalg.solve(G[np.ix_(active, active)], c[active] - half * signs[active])
        if np.all(b[active] * signs[active] > 0) and objective(G, c, half, b) < best:
            best, found = objective(G, c, half, b), b
    return G, c, half, found


def objective(G, c, half, b):
    return b @ G @ b - 2 * c @ b + 2 * half * np.abs(b).sum()


@pytest.mark.parametrize("seed", range(12))
def test_both_ways_of_solving_for_a_working_set(seed):
    G, c, half, expected = working_set(seed)
    rng = np.random.default_rng(seed)
    for start in (np.zeros(4), rng.standard_normal(4), -expected, expected):
        for way in (kernel._by_signs, kernel._by_descent, kernel._solve_block):
            found = way(G, c, half, start, 1e-12)
            np.testing.assert_allclose(found, expected, atol=1e-10)
            np.testing.assert_array_equal(found != 0, expected != 0)
    signs = np.sign(expected)
    np.testing.assert_allclose(kernel._with_signs(G, c, half, signs, 1e-12), expected, atol=1e-12)
    for j in range(4):
        for sign in {-1.0, 0.0, 1.0} - {signs[j]}:
            wrong = signs.copy()
            wrong[j] = sign
            assert kernel._with_signs(G, c, half, wrong, 1e-12) is None


def test_where_the_working_matrix_is_singular():
    G, c = np.full((2, 2), 0.5), np.array([0.4, 0.4])
    assert kernel._by_signs(G, c, 0.1, np.zeros(2), 1e-12) is None
    found = kernel._by_descent(G, c, 0.1, np.zeros(2), 1e-12)
    assert found.sum() == pytest.approx((0.4 - 0.1) / 0.5)  # however it is divided
    np.testing.assert_array_equal(found, kernel._solve_block(G, c, 0.1, np.zeros(2), 1e-12))
    assert kernel._with_signs(G, c, 0.1, np.ones(2), 1e-12) is None


def test_the_best_point_on_the_way():
    G, c, half = np.eye(2), np.array([2.0, 0.0]), 0.5
    solution, target = np.array([1.0, 1.0]), np.array([3.0, -1.0])
    wrong = np.array([False, True])
    # The way crosses zero in the second coordinate at (2, 0), value 4 - 8 + 2, against 10 - 12 + 4.
    found = kernel._best_on_way(G, c, half, solution, target, wrong)
    np.testing.assert_array_equal(found, [2.0, 0.0])
    # With a stronger pull the end of the way is the better one.
    found = kernel._best_on_way(G, np.array([9.0, -9.0]), half, solution, target, wrong)
    np.testing.assert_array_equal(found, target)


def test_factors_of_nearly_singular_matrices_are_refused():
    lower = np.array([[2.0, 0.0], [1.0, 3.0]])
    np.testing.assert_allclose(np.tril(kernel.cholesky(lower @ lower.T)), lower)
    assert kernel.cholesky(np.diag([1.0, -1.0])) is None
    assert kernel.cholesky(np.diag([1.0, 1e-14])) is None
    for unit in (1e-8, 1.0, 1e10):  # relative to the largest
        assert kernel.cholesky(unit * np.diag([1.0, 5e-13])) is not None
        assert kernel.cholesky(unit * np.diag([1.0, 5e-14])) is None
    right = np.array([2.0, 5.0])
    np.testing.assert_allclose(
        kernel.positive_solve(lower @ lower.T, right), np.linalg.solve(lower @ lower.T, right)
    )
    assert kernel.positive_solve(np.zeros((2, 2)), right) is None


@pytest.mark.parametrize("ridge", [0.0, 0.05])
def test_all_components_at_once_are_each_by_itself(ridge):
    X, _ = problem(3, n=40, p=12)
    gram = Gram(X.T @ X)
    C = gram.apply(np.linalg.svd(X, full_matrices=False)[2][:4].T)
    l1 = np.array([0.02, 0.0, 0.05, 0.02])
    nets = ElasticNets(gram, ridge, C.shape)
    B = np.zeros_like(C)
    for turn in range(3):
        columns = np.array([0, 1, 2]) if turn < 2 else np.array([2, 3])
        before = B.copy()
        shift = C * (1 + 0.03 * turn)
        B, image = nets.at_penalties(shift, B, l1, columns)
        np.testing.assert_allclose(image, gram.scatter @ B, atol=1e-14)
        for j in range(4):
            alone = elastic_net(gram, shift[:, j], ridge=ridge, penalty=l1[j])
            expected = alone if j in columns else before[:, j]
            np.testing.assert_allclose(B[:, j], expected, atol=1e-10)
    assert nets.sets[1] is None  # without a penalty, no features to remember
    known = nets.sets[2]
    np.testing.assert_array_equal(known.features, np.flatnonzero(B[:, 2]))
    np.testing.assert_array_equal(known.signs, np.sign(B[known.features, 2]))
    block = gram.scatter[np.ix_(known.features, known.features)]
    block = block + ridge * np.eye(len(block))
    c = np.arange(12) + 1.0
    right = c[known.features] - 0.3 * known.signs
    np.testing.assert_allclose(known.solve(c, 0.3), np.linalg.solve(block, right))
