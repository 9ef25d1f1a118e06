"""Sparse samples give what the same dense ones give, and are never made dense."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sparse_text
from sklearn.base import clone

from jointsparse import JSPCA, SPCA, GreedySelector, Moments, SelectFeatures
from jointsparse.operators import sparse as sparse_operator
from jointsparse.operators.sparse import SparseSamples
from jointsparse.solvers.picking import residual
from jointsparse.solvers.products import columns as columns_module
from jointsparse.solvers.products import gram as gram_module
from jointsparse.solvers.products.gram import Gram, SampleGram, gram_of

N, P = 60, 400


def text_like(seed=0):
    return sparse_text.text_like(np.random.default_rng(seed), N, P).tocsr()


@pytest.fixture
def never_dense(monkeypatch):
    sparse_text.refuse_dense(monkeypatch, N * P / 2)
    monkeypatch.setattr("jointsparse.solvers.picking.pairs.ENTRIES_AT_ONCE", P * P // 10)
    # Blocks of a few rows or columns; by default all of these few would be one block.
    monkeypatch.setattr(sparse_operator, "PRODUCT_BLOCK", 32)
    monkeypatch.setattr(residual, "BLOCK_ENTRIES", 10 * P)


@pytest.fixture(params=[4096, 10], ids=["factorised", "iterative"])
def sizes(request, monkeypatch):
    """Whether n × n matrices are decomposed, or only products are used."""
    for module in (columns_module, gram_module):
        monkeypatch.setattr(module, "LARGEST_GRAM", request.param)


METHODS = [
    SPCA(n_components=3),
    SPCA(n_components=3, n_nonzero=10),
    SPCA(n_components=2, ridge=0.1, alpha=0.1),
    SPCA(n_components=2, ridge=0.1, alpha=0.0),
    JSPCA(n_components=3, loss="samples"),
    JSPCA(n_components=3, loss="frobenius"),
    JSPCA(n_components=3, loss="features"),
    JSPCA(n_components=3, loss="features", solver="published", max_iter=10),
]
SELECTORS = [
    GreedySelector(n_features_to_select=20),
    GreedySelector(n_features_to_select="r2>=0.6"),
    GreedySelector(n_features_to_select=10, n_components=3),
    SelectFeatures(SPCA(n_components=3), n_features_to_select=12),
]


@pytest.mark.parametrize("estimator", METHODS, ids=repr)
def test_components_equal_those_of_dense_samples(estimator, sizes, never_dense):
    matrix = text_like()
    dense = np.array([matrix[[i]].toarray()[0] for i in range(N)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = clone(estimator).fit(sp.csc_matrix(matrix)), clone(estimator).fit(dense)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-7)
    np.testing.assert_allclose(
        found.explained_variance_ratio_, expected.explained_variance_ratio_, atol=1e-8
    )
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-8)


@pytest.mark.parametrize("estimator", SELECTORS, ids=repr)
def test_selections_equal_those_of_dense_samples(estimator, sizes, never_dense):
    matrix = text_like(1)
    dense = np.array([matrix[[i]].toarray()[0] for i in range(N)])
    found, expected = clone(estimator).fit(matrix), clone(estimator).fit(dense)
    np.testing.assert_array_equal(found.support_, expected.support_)
    np.testing.assert_allclose(found.selection_curve_, expected.selection_curve_, atol=1e-9)
    one, other = found.selection_report_, expected.selection_report_
    for name in ("r2", "pca_r2", "r2_held_out", "pca_r2_held_out", "random_r2", "pca_curve"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-8)
    np.testing.assert_allclose(one.stand_ins.r2, other.stand_ins.r2, atol=1e-8)


def test_until_nothing_is_left_to_explain(never_dense):
    # The residual loses all its digits, and the kernel is computed anew.
    matrix = text_like(2)
    dense = np.array([matrix[[i]].toarray()[0] for i in range(N)])
    found = GreedySelector(n_features_to_select=70).fit(matrix)
    expected = GreedySelector(n_features_to_select=70).fit(dense)
    np.testing.assert_allclose(found.selection_curve_, expected.selection_curve_, atol=1e-9)


def test_the_spectrum_needs_no_dense_samples(never_dense):
    matrix = text_like()
    dense = np.array([matrix[[i]].toarray()[0] for i in range(N)])
    found, expected = (Moments.from_data(X).thin_spectrum for X in (matrix, dense))
    np.testing.assert_allclose(found.values, expected.values, atol=1e-13)
    projections = [s.vectors @ (s.vectors.T @ np.ones(P)) for s in (found, expected)]
    np.testing.assert_allclose(*projections, atol=1e-9)


def test_weights_of_samples():
    rng = np.random.default_rng(0)
    matrix = text_like()
    dense, weights = matrix.toarray(), rng.uniform(size=N)
    centred = dense - dense.mean(axis=0)
    gram = SampleGram(SparseSamples(matrix, dense.mean(axis=0)), weights)
    oracle = Gram((centred * weights[:, None]).T @ centred)
    some, right = np.array([3, 50, 7]), rng.standard_normal((P, 2))
    assert gram.trace == pytest.approx(oracle.trace)
    np.testing.assert_allclose(gram.diagonal, oracle.diagonal, atol=1e-14)
    np.testing.assert_allclose(gram.apply(right[:, 0]), oracle.apply(right[:, 0]), atol=1e-13)
    np.testing.assert_allclose(gram.columns(some), oracle.columns(some), atol=1e-13)
    np.testing.assert_allclose(gram.block(some), oracle.block(some), atol=1e-13)
    np.testing.assert_allclose(
        gram.ridge_solve(right, 0.2), oracle.ridge_solve(right, 0.2), atol=1e-10
    )
    lengths = rng.uniform(size=P)
    np.testing.assert_allclose(
        gram.reweighted_fit(right, lengths, 0.3),
        oracle.reweighted_fit(right, lengths, 0.3),
        atol=1e-10,
    )


def test_few_features_keep_a_scatter_matrix():
    assert type(gram_of(Moments.from_data(text_like()[:, :20]))) is Gram


@pytest.mark.slow
def test_text_of_20_000_documents_and_50_000_words():
    """The dense samples would take 8 GB; nothing here takes a tenth of it."""
    import tracemalloc

    rng = np.random.default_rng(0)
    topics = sp.random_array((8, 50_000), density=0.0016, rng=rng)
    member = sp.csr_array((rng.uniform(size=(20_000, 8)) < 0.125).astype(float))
    matrix = sp.csr_array(
        sp.random_array((20_000, 50_000), density=0.004, rng=rng) + 2 * member @ topics
    )
    tracemalloc.start()
    for estimator in (
        SelectFeatures(SPCA(n_components=4, n_nonzero=30), n_features_to_select=30),
        JSPCA(n_components=4, loss="frobenius"),
    ):
        estimator.fit(matrix)
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 0.8e9
    tracemalloc.stop()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_jspca_fits_some_sparse_samples_exactly_and_converges(seed):
    # A residual of nearly 0 by a difference of squares would have no digits, and its weight none.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 3)) @ rng.standard_normal((3, 30))
    X = (X + 0.4 * rng.standard_normal(X.shape)) * rng.uniform(0.5, 2, 30)
    X += np.where(rng.random(30) < 0.5, 3.0, 0.0)
    X[rng.random(X.shape) < 0.3] = 0.0
    found, expected = JSPCA().fit(sp.csr_array(X)), JSPCA().fit(X)
    assert found.converged_
    np.testing.assert_allclose(found.components_, expected.components_, rtol=0, atol=1e-8)
