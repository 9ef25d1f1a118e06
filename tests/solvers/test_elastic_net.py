import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import ElasticNet

from jointsparse.moments import Moments
from jointsparse.penalties import soft_threshold
from jointsparse.solvers.elastic_net import elastic_net
from jointsparse.solvers.gram import Gram, SampleGram, gram_of


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
