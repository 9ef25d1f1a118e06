"""Regressions judged on held-out samples, against those of scikit-learn; features as columns."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge

from jointsparse import Moments, linalg
from jointsparse.solvers import held_out, sparse_columns
from jointsparse.solvers.columns import Columns, feature_columns, root_of_scatter
from jointsparse.solvers.held_out import (
    choose_ridge,
    cross_validation_folds,
    folds_of_halves,
    held_out_folds,
)
from jointsparse.solvers.remote_columns import RemoteColumns
from jointsparse.solvers.sparse_columns import ImplicitKernel, SparseColumns
from jointsparse.solvers.wide_data import DenseWide
from jointsparse.sources import as_source

RNG = np.random.default_rng(0)
WIDE = RNG.standard_normal((14, 3)) @ RNG.standard_normal((3, 20)) + RNG.standard_normal((14, 20))
TALL = np.vstack([WIDE, WIDE + RNG.standard_normal((14, 20))])[:, :9] + 4
SPARSE = WIDE * (np.abs(WIDE) > 1.5)


def ridge_by_leaving_out(X, Y):
    """The ridge of a grid with the smallest generalised cross-validation score, from scratch."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    best = (np.inf, None)
    top = np.linalg.norm(X, 2) ** 2
    for ridge in top * np.geomspace(1e-6, 1e2, 17):
        hat = X @ np.linalg.solve(X.T @ X + ridge * np.eye(X.shape[1]), X.T)
        freedom = len(X) - 1 - np.trace(hat)
        best = min(best, (np.sum((Y - hat @ Y) ** 2) / freedom**2, ridge))
    return best[1]


@pytest.mark.parametrize("data", [WIDE, TALL], ids=["wide", "tall"])
@pytest.mark.parametrize("features", [[4], [1, 7, 3], [0, 1, 2, 3, 4, 5]])
def test_missed_is_the_error_of_a_ridge_regression(data, features):
    half = len(data) // 2
    one, other = np.arange(half), np.arange(half, len(data))
    unit = np.sum((data - data.mean(axis=0)) ** 2)
    for fold, train, test in zip(
        held_out_folds(Moments.from_data(data), one, other),
        (one, other),
        (other, one),
        strict=True,
    ):
        # Regressors at unit length over both halves, around the mean of the training half.
        inside = data[:, features] - data[train][:, features].mean(axis=0)
        inside = inside / np.linalg.norm(inside, axis=0)
        ridge = ridge_by_leaving_out(inside[train], data[train])
        model = Ridge(alpha=ridge, solver="svd").fit(inside[train], data[train])
        missed = np.sum((data[test] - model.predict(inside[test])) ** 2) / unit
        total = np.sum((data[test] - data[train].mean(axis=0)) ** 2) / unit
        assert fold.missed(np.array(features)) == pytest.approx(missed)
        assert fold.total == pytest.approx(total)
        assert fold.r2(np.array(features)) == pytest.approx(1 - missed / total)


@pytest.mark.parametrize("data", [WIDE, TALL, sp.csr_array(SPARSE)], ids=["wide", "tall", "sparse"])
@pytest.mark.parametrize("count", [1, 3])
def test_principal_components_are_those_of_the_training_samples(data, count):
    dense = data.toarray() if sp.issparse(data) else data
    parts = np.array_split(RNG.permutation(len(dense)), 3)
    unit = np.sum((dense - dense.mean(axis=0)) ** 2)
    for fold, test in zip(
        cross_validation_folds(Moments.from_data(data), parts), parts, strict=True
    ):
        train = np.setdiff1d(np.arange(len(dense)), test)
        pca = PCA(count).fit(dense[train])
        rest = dense[test] - pca.inverse_transform(pca.transform(dense[test]))
        missed = np.sum(rest**2) / unit
        total = np.sum((dense[test] - dense[train].mean(axis=0)) ** 2) / unit
        assert fold.missed_by_pca(count) == pytest.approx(missed)
        assert fold.r2_of_pca(count) == pytest.approx(1 - missed / total)


def test_few_components_of_many_samples_are_found_alone(monkeypatch):
    parts = np.array_split(np.arange(14), 2)
    fold = cross_validation_folds(Moments.from_data(WIDE), parts)[0]
    expected = fold.missed_by_pca(2)
    monkeypatch.setattr(held_out, "MANY_ROWS", 3)
    monkeypatch.setattr(held_out, "FEW", 2)
    calls = []
    pairs = held_out.leading_pairs
    monkeypatch.setattr(held_out, "leading_pairs", lambda *a: calls.append(1) or pairs(*a))
    assert fold.missed_by_pca(2) == pytest.approx(expected)
    assert calls
    assert fold.missed_by_pca(6) >= -1e-12  # more than half of them: all at once
    assert len(calls) == 1


def test_features_without_spread_and_none_at_all_explain_nothing():
    for data in (WIDE.copy(), TALL.copy()):
        data[:, 2] = 3.0
        half = len(data) // 2
        fold, _ = held_out_folds(
            Moments.from_data(data), np.arange(half), np.arange(half, len(data))
        )
        assert fold.missed(np.array([2])) == pytest.approx(fold.total)
        assert fold.missed(np.array([2, 5])) == pytest.approx(fold.missed(np.array([5])))


def test_the_ridge_is_large_for_noise_and_small_for_signal():
    values = np.array([4.0, 2.0, 1.0])
    assert choose_ridge(values, np.array([4.0, 2.0, 1.0]), 7.0, 20) == pytest.approx(4e-6)
    assert choose_ridge(values, np.array([0.05, 0.05, 0.05]), 2.0, 20) == pytest.approx(400)
    assert choose_ridge(np.zeros(0), np.zeros(0), 1.0, 5) == pytest.approx(1e-6)


def columns_of_each_kind():
    yield Columns(WIDE - WIDE.mean(axis=0)), WIDE
    yield Columns((WIDE - WIDE.mean(axis=0)).astype(np.float32)), WIDE.astype(np.float32)
    centred = SPARSE - SPARSE.mean(axis=0)
    found = SparseColumns(sp.csr_array(SPARSE), SPARSE.mean(axis=0), np.sum(centred**2, axis=0))
    yield found, SPARSE
    yield RemoteColumns(DenseWide(SPARSE, SPARSE.mean(axis=0)), np.sum(centred**2, axis=0)), SPARSE


@pytest.mark.parametrize(
    ("columns", "data"), list(columns_of_each_kind()), ids=["double", "single", "sparse", "remote"]
)
def test_columns_are_the_centred_features_at_total_length_one(columns, data, monkeypatch):
    monkeypatch.setattr(linalg, "BLOCK", 6)
    monkeypatch.setattr(sparse_columns, "PRODUCT_BLOCK", 6)
    F = data.astype(float) - data.astype(float).mean(axis=0)
    near = {"atol": 1e-7 if data.dtype == np.float32 else 1e-14}
    total = np.sum(F**2)
    F = F / np.sqrt(total)
    V = RNG.standard_normal((3, 14))
    assert columns.total == pytest.approx(total)
    assert (columns.n_rows, columns.n_features) == (14, 20)
    np.testing.assert_allclose(columns.squares, np.sum(F**2, axis=0), **near)
    np.testing.assert_allclose(columns.take(np.array([7, 0])), F[:, [7, 0]], **near)
    np.testing.assert_allclose(columns.take(slice(2, 5)), F[:, 2:5], **near)
    np.testing.assert_allclose(columns.rows(slice(3, 9)), F[3:9], **near)
    np.testing.assert_allclose(columns.project(V), V @ F, **near)
    np.testing.assert_allclose(columns.inner(V.T, np.array([3, 11])), V @ F[:, [3, 11]], **near)
    np.testing.assert_allclose(columns.gram(), F @ F.T, **near)
    values, axes = columns.leading_axes(3)
    expected = np.linalg.eigvalsh(F @ F.T)[::-1]
    np.testing.assert_allclose(values[:3], expected[:3], rtol=1e-6)
    np.testing.assert_allclose(F @ F.T @ axes[:, :3], axes[:, :3] * values[:3], **near)
    np.testing.assert_allclose(columns.leading_values(2), expected[:2], rtol=1e-6)


def test_sparse_columns_by_products_alone(monkeypatch):
    columns, _ = list(columns_of_each_kind())[2]
    F = columns.take(slice(None))
    monkeypatch.setattr(sparse_columns, "LARGEST_GRAM", 5)
    monkeypatch.setattr(sparse_columns, "PRODUCT_BLOCK", 6)
    expected = np.linalg.eigvalsh(F @ F.T)[::-1]
    for count in (2, 7):  # few, and half of all
        values, axes = columns.leading_axes(count)
        np.testing.assert_allclose(values[:count], expected[:count], rtol=1e-10)
        shown = axes[:, :count] * values[:count]
        np.testing.assert_allclose(F @ F.T @ axes[:, :count], shown, atol=1e-12)
        np.testing.assert_allclose(columns.leading_values(count), expected[:count], rtol=1e-10)
    assert columns.leading_axes(2)[0].size == 2
    assert columns.leading_axes(7)[0].size == columns.leading_axes()[0].size == 14
    lengths = np.sum((F.T @ F) ** 2, axis=0)
    np.testing.assert_allclose(columns.scatter_lengths(), lengths, atol=1e-15)
    B = RNG.standard_normal((20, 2))
    np.testing.assert_allclose(columns.times(B), F @ B, atol=1e-14)
    V = RNG.standard_normal((14, 2))
    kernel = ImplicitKernel(columns, unit=2.0)
    np.testing.assert_allclose(kernel @ V, F @ F.T @ V / 2, atol=1e-14)
    np.testing.assert_allclose(kernel @ V[:, 0], F @ F.T @ V[:, 0] / 2, atol=1e-14)
    np.testing.assert_allclose(kernel.forms(), lengths / 2, atol=1e-15)
    np.testing.assert_allclose(ImplicitKernel(columns) @ V, F @ F.T @ V, atol=1e-14)
    factored = ImplicitKernel(columns, V, 4.0)
    np.testing.assert_allclose(factored @ V, V @ V.T @ V / 4, atol=1e-12)
    forms = np.diag(F.T @ V @ V.T @ F) / 4
    np.testing.assert_allclose(factored.forms(), forms, atol=1e-14)


def test_what_is_left_of_columns_elsewhere():
    columns, _ = list(columns_of_each_kind())[3]
    F = columns.take(slice(None))
    B = RNG.standard_normal((20, 2))
    np.testing.assert_allclose(columns.times(B), F @ B, atol=1e-14)
    span = np.linalg.qr(RNG.standard_normal((14, 3)))[0].T
    rest = F - span.T @ (span @ F)
    lengths, forms = columns.left_over(span, None)
    np.testing.assert_allclose(lengths, np.sum(rest**2, axis=0), atol=1e-14)
    assert not forms.any()
    factor = RNG.standard_normal((14, 4))
    lengths, forms = columns.left_over(span, factor @ factor.T)
    np.testing.assert_allclose(lengths, np.sum(rest**2, axis=0), atol=1e-14)
    np.testing.assert_allclose(forms, np.sum((factor.T @ rest) ** 2, axis=0), atol=1e-12)
    # a column that does not vary has nothing left, whatever rounding makes of it
    constant = SPARSE.copy()
    constant[:, 4] = 0.1
    squares = Moments.from_data(constant).variances
    columns = RemoteColumns(DenseWide(constant, constant.mean(axis=0)), squares)
    assert columns.left_over(span, np.eye(14))[0][4] == 0
    assert not columns.take(np.array([4])).any()


def test_constant_sparse_features_are_zero():
    data = SPARSE.copy()
    data[:, 4] = 0.1
    columns = feature_columns(Moments.from_data(sp.csr_array(data)))
    assert isinstance(columns, SparseColumns)
    assert not columns.take(np.array([4])).any()
    assert columns.squares[4] == 0


def test_the_root_of_a_scatter_matrix():
    S = np.zeros((6, 6))
    B = RNG.standard_normal((3, 5)) * [1, 1e6, 1e-6, 1, 1]
    S[:5, :5] = B.T @ B  # of rank 3, with a feature that does not vary
    root = root_of_scatter(S)
    assert root.shape == (3, 6)
    sizes = np.sqrt(np.outer(np.diag(S), np.diag(S)))
    assert np.all(np.abs(root.T @ root - S) <= 1e-12 * sizes)
    tall = feature_columns(Moments.from_data(TALL))
    assert tall.n_rows == 9
    assert feature_columns(Moments.from_data(TALL[:9])).n_rows == 8
    assert feature_columns(Moments.from_data(TALL[:8])).n_rows == 8


def test_folds_of_samples_that_are_not_at_hand():
    X = np.random.default_rng(5).standard_normal((60, 5)) * [1, 2, 3, 4, 5] + 2
    moments = Moments.from_source(as_source(X))
    assert moments.halves is not None
    one, other = folds_of_halves(moments)
    sizes = [half.n_samples for half in moments.halves]
    assert sum(sizes) == 60
    assert (one.n_train, other.n_train) == tuple(sizes)
    unit = moments.total_variance
    for fold, train, test in ((one, 0, 1), (other, 1, 0)):
        inside, outside = moments.halves[train], moments.halves[test]
        np.testing.assert_allclose(fold.train, inside.scatter / unit, atol=1e-12)
        shift = outside.mean - inside.mean
        around = outside.scatter + outside.n_samples * np.outer(shift, shift)
        np.testing.assert_allclose(fold.test, around / unit, atol=1e-12)
    assert len(held_out_folds(Moments.from_data(X), np.arange(30), np.arange(30, 60))) == 2


def test_many_rows(monkeypatch):
    X = sp.csr_array(np.eye(6))
    columns = sparse_columns.SparseColumns(X, np.zeros(6), np.ones(6))
    monkeypatch.setattr(sparse_columns, "LARGEST_GRAM", 6)
    assert not columns.many_rows
    monkeypatch.setattr(sparse_columns, "LARGEST_GRAM", 5)
    assert columns.many_rows
