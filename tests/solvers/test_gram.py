"""The scatter matrix in its three forms: each agrees with the p × p matrix of plain NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp

from jointsparse import Moments, linalg
from jointsparse.operators.dense import DenseSamples
from jointsparse.operators.sparse import SparseSamples
from jointsparse.solvers.products import columns as columns_module
from jointsparse.solvers.products import gram as gram_module
from jointsparse.solvers.products.equal_features import equal_features
from jointsparse.solvers.products.gram import Gram, SampleGram, gram_of

RNG = np.random.default_rng(0)
N, P = 7, 11
X = RNG.standard_normal((N, P)) * (RNG.random((N, P)) < 0.7) + 0.3 * (np.arange(P) % 2)
CENTRED = X - X.mean(axis=0)
WEIGHTS = RNG.uniform(0.5, 2.0, N)


def scatter(weights=None):
    S = CENTRED.T @ (CENTRED if weights is None else weights[:, None] * CENTRED)
    return S / np.trace(S)


def forms():
    yield "matrix", Gram(3 * scatter()), scatter()
    yield "samples", SampleGram(CENTRED), scatter()
    yield "weighted samples", SampleGram(CENTRED, WEIGHTS), scatter(WEIGHTS)
    yield "sparse", SampleGram(SparseSamples(sp.csr_array(X), X.mean(axis=0))), scatter()
    weighted = SampleGram(SparseSamples(sp.csr_array(X), X.mean(axis=0))).weighted(WEIGHTS)
    yield "weighted sparse", weighted, scatter(WEIGHTS)


each_form = pytest.mark.parametrize(
    ("found", "S"), [form[1:] for form in forms()], ids=[form[0] for form in forms()]
)


@each_form
def test_parts_and_products(found, S):
    some = np.array([8, 1, 5])
    B = RNG.standard_normal((P, 3))
    np.testing.assert_allclose(found.diagonal, np.diag(S), atol=1e-14)
    np.testing.assert_allclose(found.apply(B), S @ B, atol=1e-14)
    np.testing.assert_allclose(found.apply(B[:, 0]), S @ B[:, 0], atol=1e-14)
    np.testing.assert_allclose(found.columns(some), S[:, some], atol=1e-14)
    np.testing.assert_allclose(found.block(some), S[np.ix_(some, some)], atol=1e-14)
    again = found.block(some)
    again += 1  # the caller's own
    np.testing.assert_allclose(found.block(some), S[np.ix_(some, some)], atol=1e-14)
    np.testing.assert_allclose(found.block(some[:2]), S[np.ix_(some[:2], some[:2])], atol=1e-14)
    few = np.zeros((P, 2))
    few[4] = 1, 2
    np.testing.assert_allclose(found.apply(few), S @ few, atol=1e-14)


@each_form
def test_linear_systems(found, S):
    B = RNG.standard_normal((P, 2))
    expected = np.linalg.solve(S + 0.07 * np.eye(P), B)
    np.testing.assert_allclose(found.ridge_solve(B, 0.07), expected, rtol=1e-9, atol=1e-9)
    alone = found.ridge_solve(B[:, 0], 0.07)
    np.testing.assert_allclose(alone, expected[:, 0], rtol=1e-9, atol=1e-9)
    lengths = RNG.uniform(0.1, 2.0, P)
    lengths[3] = 0
    live = lengths > 0
    inner = S[np.ix_(live, live)] + 0.07 * np.diag(1 / lengths[live])
    fit = found.reweighted_fit(B, lengths, 0.07)
    np.testing.assert_allclose(fit[live], np.linalg.solve(inner, S[live] @ B), atol=1e-12)
    assert not fit[3].any()


@each_form
def test_leading_eigenvectors(found, S):
    values, vectors = found.leading(2)
    expected = np.linalg.eigvalsh(S)[::-1]
    assert values.size == found.rank(values.size) == np.linalg.matrix_rank(S)
    np.testing.assert_allclose(values, expected[: values.size], atol=1e-13)
    assert vectors.shape == (P, 2)
    np.testing.assert_allclose(S @ vectors, vectors * values[:2], atol=1e-13)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(2), atol=1e-12)
    assert found.leading()[1].shape == (P, values.size)
    factors = RNG.uniform(0.5, 2.0, P)
    scaled = found.leading_scaled(factors, 3)
    M = S * np.outer(factors, factors)
    np.testing.assert_allclose(scaled.T @ scaled, np.eye(3), atol=1e-12)
    wanted = np.linalg.eigvalsh(M)[::-1][:3]
    np.testing.assert_allclose(scaled.T @ M @ scaled, np.diag(wanted), atol=1e-13)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_single_precision_is_summed_in_double_in_blocks(weights, monkeypatch):
    monkeypatch.setattr(linalg, "BLOCK", 4)
    single = CENTRED.astype(np.float32)
    found, same = SampleGram(single, weights), SampleGram(single.astype(float), weights)
    B, some = RNG.standard_normal((P, 2)), np.array([9, 2])
    assert found.trace == pytest.approx(same.trace, rel=1e-14)
    np.testing.assert_allclose(found.diagonal, same.diagonal, rtol=1e-13)
    np.testing.assert_allclose(found.apply(B), same.apply(B), atol=1e-14)
    np.testing.assert_allclose(found.columns(some), same.columns(some), atol=1e-14)
    np.testing.assert_allclose(found.ridge_solve(B, 0.1), same.ridge_solve(B, 0.1), atol=1e-12)
    np.testing.assert_allclose(found.leading(1)[0], same.leading(1)[0], rtol=1e-12)
    lengths = np.arange(P) / P
    fits = [gram.reweighted_fit(B, lengths, 0.1) for gram in (found, same)]
    np.testing.assert_allclose(*fits, atol=1e-12)
    np.testing.assert_allclose(
        DenseSamples(single).row_squares(), np.sum(single.astype(float) ** 2, axis=1)
    )


def test_known_squared_lengths_are_taken_as_they_are():
    assert SampleGram(CENTRED, squares=np.full(N, 2.0)).trace == 2 * N


def test_many_sparse_samples_are_not_factorised(monkeypatch):
    # As if there were too many of them for a matrix of their products.
    some = SampleGram(SparseSamples(sp.csr_array(X), X.mean(axis=0)), WEIGHTS)
    B, lengths = RNG.standard_normal((P, 2)), RNG.uniform(0.1, 2.0, P)
    expected = some.ridge_solve(B, 0.2), some.reweighted_fit(B, lengths, 0.2), some.leading()[0]
    for module in (gram_module, columns_module):
        monkeypatch.setattr(module, "LARGEST_GRAM", N - 1)
    many = SampleGram(SparseSamples(sp.csr_array(X), X.mean(axis=0)), WEIGHTS)
    np.testing.assert_allclose(many.ridge_solve(B, 0.2), expected[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(many.reweighted_fit(B, lengths, 0.2), expected[1], atol=1e-10)
    for count in (2, 4, 1):
        values, vectors = many.leading(count)
        np.testing.assert_allclose(values[:count], expected[2][:count], rtol=1e-10)
        S = scatter(WEIGHTS)
        np.testing.assert_allclose(S @ vectors, vectors * values[:count], atol=1e-10)
    assert many.rank(2) == N - 1
    constant = SampleGram(
        SparseSamples(sp.csr_array(X[:, :4] * [1, 0, 1, 0]), X.mean(axis=0)[:4] * [1, 0, 1, 0])
    )
    assert constant.rank(1) == 2


def test_the_cheaper_form_is_taken_and_kept():
    wide, tall = Moments.from_data(X), Moments.from_data(X[:, :N])
    assert type(gram_of(wide)) is SampleGram
    assert gram_of(wide) is gram_of(wide)
    assert type(gram_of(tall)) is Gram
    assert type(gram_of(Moments.from_scatter(np.eye(3), 2))) is Gram
    constant = X.copy()
    constant[:, 2] = 0.1
    sparse = Moments.from_data(sp.csr_array(constant))
    assert gram_of(sparse).of_sparse
    assert type(gram_of(sparse, sparse=False)) is SampleGram
    assert gram_of(sparse).diagonal[2] == 0
    dense = gram_of(Moments.from_data(constant))
    np.testing.assert_allclose(gram_of(sparse).apply(np.eye(P)), dense.apply(np.eye(P)), atol=1e-14)


def test_equal_features_are_found_in_groups():
    data = RNG.standard_normal((20, 9))
    data[:, 6] = data[:, 1]
    data[:, 8] = data[:, 1]
    data[:, 3] = 1.0 - data[:, 2]  # opposite
    data[:, [0, 5]] = 1.0  # constant: left out
    for found in (Gram(np.cov(data.T)), SampleGram(data - data.mean(axis=0))):
        groups = equal_features(found)
        assert sorted(sorted(group.features.tolist()) for group in groups) == [[1, 6, 8], [2, 3]]
        for features, signs in groups:
            centred = signs * (data - data.mean(axis=0))[:, features]
            np.testing.assert_allclose(centred - centred[:, [0]], 0, atol=1e-14)
    assert equal_features(Gram(np.diag([1.0, 2.0, 3.0]))) == []


def test_directions_of_rounding_are_left_out():
    values, vectors = gram_module._descending(np.array([0.0, 1e-13, 1e-11, 1.0]), np.eye(4))
    np.testing.assert_array_equal(values, [1.0, 1e-11])
    np.testing.assert_array_equal(vectors, np.eye(4)[:, [3, 2]])


def test_equal_and_opposite_features_are_found_and_no_others():
    X = np.random.default_rng(3).standard_normal((9, 4))
    X -= X.mean(axis=0)
    columns = [X[:, 0], X[:, 1], -X[:, 0], X[:, 2], X[:, 1], X[:, 0], 0 * X[:, 0], 0 * X[:, 0]]
    columns += [X[:, 2] * (1 + 1e-6), X[:, 3], -X[:, 3]]  # a near copy is none
    table = np.column_stack(columns)
    found = equal_features(Gram(table.T @ table))
    groups = {tuple(sorted(group.features.tolist())) for group in found}
    assert groups == {(0, 2, 5), (1, 4), (9, 10)}
    for features, signs in found:
        turned = table[:, features] * signs
        np.testing.assert_allclose(turned, turned[:, :1] @ np.ones((1, len(features))))
