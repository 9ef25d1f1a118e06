"""Wide data in single precision: the same answers, sums in double precision, no copies."""

import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone

from jointsparse import AWSPCA, CSPCA, JSPCA, SPCA, GreedySelector
from jointsparse.operators.dense import DenseSamples
from jointsparse.solvers.products.equal_features import equal_features
from jointsparse.solvers.products.gram import Gram, SampleGram


def planted(n, p, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)).astype(np.float32)
    X[:, :20] += 4 * rng.standard_normal((n, 2)) @ rng.uniform(0.5, 1.5, (2, 20))
    return X


@pytest.fixture(scope="module")
def grams():
    X = planted(30, 9000)  # more than two blocks of features
    weights = np.random.default_rng(1).uniform(0.5, 2, 30)
    return SampleGram(X, weights), SampleGram(X.astype(np.float64), weights), X, weights


def test_the_data_are_kept_as_they_came(grams):
    single, _, X, _ = grams
    assert single.samples.array is X


def test_products_are_those_of_the_scatter_matrix(grams):
    single, double, X, weights = grams
    exact = X.astype(np.float64)
    trace = float(weights @ np.sum(exact**2, axis=1))
    assert single.trace == pytest.approx(trace, rel=1e-13)
    np.testing.assert_allclose(DenseSamples(X).row_squares(), np.sum(exact**2, axis=1), rtol=1e-13)
    rng = np.random.default_rng(2)
    full, sparse = rng.standard_normal((9000, 3)), np.zeros((9000, 3))
    sparse[[5, 4100, 8999]] = 1.0
    for matrix in (full, sparse, full[:, 0]):
        wanted = exact.T @ ((weights * (exact @ matrix).T).T) / trace
        for gram in (single, double):
            np.testing.assert_allclose(gram.apply(matrix), wanted, atol=1e-13)
    np.testing.assert_allclose(single.diagonal, weights @ exact**2 / trace, atol=1e-15)
    features = np.array([1, 4097, 8000])
    block = (exact[:, features].T * weights) @ exact[:, features] / trace
    for _ in range(2):  # the second from memory
        np.testing.assert_allclose(single.block(features), block, atol=1e-15)
        single.block(features)[:] = 0.0
    np.testing.assert_allclose(single.columns(features)[features], block, atol=1e-15)


@pytest.mark.parametrize("form", [0, 1])
def test_solves_and_eigenvectors(grams, form):
    X, weights = grams[2][:, :200].astype(np.float64), grams[3]
    kept = X.astype(np.float32) if form == 0 else X
    gram, dense = SampleGram(kept, weights), Gram((X.T * weights) @ X)
    rng = np.random.default_rng(3)
    right, lengths = rng.standard_normal((200, 2)), rng.uniform(0, 1, 200)
    np.testing.assert_allclose(
        gram.ridge_solve(right, 0.1), dense.ridge_solve(right, 0.1), atol=1e-10
    )
    np.testing.assert_allclose(
        gram.reweighted_fit(right, lengths, 0.1),
        dense.reweighted_fit(right, lengths, 0.1),
        atol=1e-10,
    )
    for one, other in (
        (gram.leading(3)[1], dense.leading(3)[1]),
        (gram.leading_scaled(lengths, 3), dense.leading_scaled(lengths, 3)),
    ):
        np.testing.assert_allclose(np.abs(one.T @ other), np.eye(3), atol=1e-9)
    assert gram.leading(0)[0].size == 30


def test_equal_features_are_found_in_blocks():
    X = planted(20, 9000)
    X[:, 8000] = X[:, 30]
    X[:, [100, 5000]] = X[:, [7]]
    groups = sorted(sorted(group.features.tolist()) for group in equal_features(SampleGram(X)))
    assert groups == [[7, 100, 5000], [30, 8000]]


@pytest.mark.parametrize(
    "model",
    [
        SPCA(alpha=0.5),
        SPCA(n_nonzero=10),
        SPCA(alpha=0.1, ridge=0.01),
        JSPCA(alpha=0.3),
        JSPCA(alpha=0.3, loss="frobenius"),
        JSPCA(alpha=0.3, loss="features"),
    ],
)
def test_single_and_double_precision_agree(model):
    X = planted(40, 600)
    single = model.fit(X).components_.copy()
    # The centred data are rounded to single precision; everything after that is not.
    np.testing.assert_allclose(model.fit(X.astype(np.float64)).components_, single, atol=2e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        SPCA(n_components=3, max_iter=3),
        JSPCA(n_components=3, max_iter=3, tol=0.0),
        JSPCA(n_components=3, loss="frobenius", max_iter=3, tol=0.0),
        JSPCA(n_components=3, loss="features", max_iter=3, tol=0.0),
    ],
)
def test_memory_is_one_copy_in_single_precision(model):
    X = planted(100, 60_000)
    tracemalloc.start()
    model.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    factors = 20 * 60_000 * 3 * 8  # A, B and their like: features × components
    assert peak < X.nbytes + factors + 2**26  # two blocks in double precision


def test_small_samples_next_to_an_outlier_are_picked_as_in_double_precision():
    # The features differ by less than rounding the mean to single precision leaves of them.
    rng = np.random.default_rng(1)
    for _ in range(5):
        X = rng.standard_normal((12, 3)) @ rng.standard_normal((3, 30))
        X[0] *= 1e5
        X = X.astype(np.float32)
        selector = GreedySelector(n_features_to_select=4)
        found, expected = clone(selector).fit(X), clone(selector).fit(X.astype(np.float64))
        np.testing.assert_array_equal(found.ranking_, expected.ranking_)


@pytest.mark.parametrize("method", [CSPCA(psd=False), AWSPCA(psd=False)])
def test_samples_used_in_double_precision_are_centred_in_it(method):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 8))
    X += 0.1 * rng.standard_normal((20, 8))
    X = (X + 1000.0).astype(np.float32)
    method = clone(method).set_params(n_features_to_select=3)
    found, expected = clone(method).fit(X), clone(method).fit(X.astype(np.float64))
    np.testing.assert_allclose(found.feature_scores_, expected.feature_scores_, rtol=1e-7)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)
