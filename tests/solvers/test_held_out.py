"""Regressions judged on held-out samples, against those of scikit-learn; features as columns."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, Ridge

from jointsparse import Moments, linalg
from jointsparse.operators import sparse as sparse_operator
from jointsparse.operators.dense import DenseSamples
from jointsparse.operators.sparse import SparseSamples
from jointsparse.solvers.picking import held_out
from jointsparse.solvers.picking.held_out import (
    choose_ridge,
    cross_validation_folds,
    folds_of_halves,
    held_out_folds,
)
from jointsparse.solvers.picking.row_targets import ImplicitKernel
from jointsparse.solvers.products import columns as columns_module
from jointsparse.solvers.products.columns import Columns, feature_columns, root_of_scatter
from jointsparse.sources import as_source

RNG = np.random.default_rng(0)
WIDE = RNG.standard_normal((14, 3)) @ RNG.standard_normal((3, 20)) + RNG.standard_normal((14, 20))
TALL = np.vstack([WIDE, WIDE + RNG.standard_normal((14, 20))])[:, :9] + 4
SPARSE = WIDE * (np.abs(WIDE) > 1.5)


def elsewhere(samples):
    """Samples that say they are in a file: whatever is asked of them is a pass."""
    samples.home = "file"
    return samples


def ridge_by_leaving_out(X, Y):
    """The ridge of a grid with the smallest generalised cross-validation score, from scratch."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    best = (np.inf, None)
    top = np.linalg.norm(X, 2) ** 2
    for ridge in top * np.geomspace(1e-3, 1e2, 11):
        hat = X @ np.linalg.solve(X.T @ X + ridge * np.eye(X.shape[1]), X.T)
        freedom = len(X) - 1 - np.trace(hat)
        best = min(best, (np.sum((Y - hat @ Y) ** 2) / freedom**2, ridge))
    return best[1]


@pytest.mark.parametrize("some", [False, True], ids=["all", "some"])
@pytest.mark.parametrize("data", [WIDE, TALL], ids=["wide", "tall"])
@pytest.mark.parametrize("features", [[4], [1, 7, 3], [0, 1, 2, 3, 4, 5]])
def test_dropped_features_are_judged_by_a_ridge_regression(data, features, some):
    half = len(data) // 2
    parts = [np.arange(half, len(data)), np.arange(half)]
    p = data.shape[1]
    inside = np.ones(p, dtype=bool)
    if some:
        inside[[1, 6, 8]] = False  # one of them is kept in two of the three cases
    dropped = np.setdiff1d(np.flatnonzero(inside), features)
    outside = np.setdiff1d(np.flatnonzero(~inside), features)
    unit = np.sum((data - data.mean(axis=0)) ** 2)
    folds = cross_validation_folds(Moments.from_data(data), parts, [inside, inside])
    for fold, train, test in zip(folds, parts[::-1], parts, strict=True):
        # Regressors at unit length over both halves, around the mean of the training half.
        around = data - data[train].mean(axis=0)
        known = around[:, features] / np.linalg.norm(around[:, features], axis=0)
        ridge = ridge_by_leaving_out(known[train], data[train][:, dropped])
        model = Ridge(alpha=ridge, solver="svd").fit(known[train], data[train][:, dropped])
        predicted = model.predict(known[test]).reshape(len(test), -1)
        missed = np.sum((data[test][:, dropped] - predicted) ** 2) / unit
        judged = fold.judge(np.array(features))
        squares = np.sum(around[test] ** 2, axis=0) / unit
        assert judged.missed_inside == pytest.approx(missed)
        assert judged.total_inside == pytest.approx(squares[dropped].sum())
        assert judged.missed == pytest.approx(missed + squares[outside].sum())
        assert judged.total == pytest.approx(squares[dropped].sum() + squares[outside].sum())
        assert fold.r2(np.array(features)) == pytest.approx(1 - judged.missed / judged.total)
        # without a ridge, plain least squares
        line = LinearRegression().fit(known[train], data[train][:, dropped])
        predicted = line.predict(known[test]).reshape(len(test), -1)
        missed = np.sum((data[test][:, dropped] - predicted) ** 2) / unit
        assert fold.judge(np.array(features), ridge=False).missed_inside == pytest.approx(missed)


@pytest.mark.parametrize("data", [WIDE, TALL, sp.csr_array(SPARSE)], ids=["wide", "tall", "sparse"])
@pytest.mark.parametrize("count", [1, 3])
def test_principal_components_are_those_of_the_training_samples(data, count):
    dense = data.toarray() if sp.issparse(data) else data
    parts = np.array_split(RNG.permutation(len(dense)), 3)
    for fold, test in zip(
        cross_validation_folds(Moments.from_data(data), parts), parts, strict=True
    ):
        train = np.setdiff1d(np.arange(len(dense)), test)
        pca = PCA(count).fit(dense[train])
        rest = dense[test] - pca.inverse_transform(pca.transform(dense[test]))
        around = dense[test] - dense[train].mean(axis=0)
        assert fold.r2_of_pca(count) == pytest.approx(1 - np.sum(rest**2) / np.sum(around**2))
        others = np.setdiff1d(np.arange(dense.shape[1]), [2, 5])
        share = 1 - np.sum(rest[:, others] ** 2) / np.sum(around[:, others] ** 2)
        assert fold.r2_of_pca(count, np.array([2, 5])) == pytest.approx(share)


def test_few_components_of_many_samples_are_found_alone(monkeypatch):
    parts = np.array_split(np.arange(14), 2)
    fold = cross_validation_folds(Moments.from_data(WIDE), parts)[0]
    expected = fold.r2_of_pca(2)
    monkeypatch.setattr(held_out, "MANY_ROWS", 3)
    monkeypatch.setattr(held_out, "FEW", 2)
    calls = []
    pairs = held_out.leading_pairs
    monkeypatch.setattr(held_out, "leading_pairs", lambda *a: calls.append(1) or pairs(*a))
    assert fold.r2_of_pca(2) == pytest.approx(expected)
    assert calls
    assert fold.r2_of_pca(6) <= 1 + 1e-12  # more than half of them: all at once
    assert len(calls) == 1


@pytest.mark.parametrize("data", [WIDE, TALL, sp.csr_array(SPARSE)], ids=["wide", "tall", "sparse"])
def test_the_ceiling_is_a_ridge_regression_of_each_feature_on_all_others(data):
    dense = data.toarray() if sp.issparse(data) else data
    inside = np.ones(dense.shape[1], dtype=bool)
    inside[[0, 4]] = False
    among = np.flatnonzero(inside)
    parts = np.array_split(np.arange(len(dense)), 2)
    unit = np.sum((dense - dense.mean(axis=0)) ** 2)
    asked = among[[5, 0, 2]]
    folds = cross_validation_folds(Moments.from_data(data), parts, [inside, inside])
    for fold, test in zip(folds, parts, strict=True):
        train = np.setdiff1d(np.arange(len(dense)), test)
        found = fold.leave_one_out(asked)
        around = dense - dense[train].mean(axis=0)
        top = np.linalg.norm(around[train][:, among], 2) ** 2
        for row, share in enumerate(held_out.CEILING_RIDGES):
            for column, feature in enumerate(asked):
                others = np.setdiff1d(among, feature)
                model = Ridge(alpha=share * top, fit_intercept=False, solver="svd")
                model.fit(around[train][:, others], around[train][:, feature])
                error = around[test][:, feature] - model.predict(around[test][:, others])
                assert found[row, column] == pytest.approx(np.sum(error**2) / unit, rel=1e-8)


def test_features_without_spread_and_none_at_all_predict_nothing():
    for data in (WIDE.copy(), TALL.copy()):
        data[:, 2] = 3.0
        half = len(data) // 2
        fold, _ = held_out_folds(
            Moments.from_data(data), np.arange(half), np.arange(half, len(data))
        )
        assert fold.r2(np.array([2])) == pytest.approx(0, abs=1e-12)
        assert fold.r2(np.array([], dtype=np.int64)) == 0
        both, one = fold.judge(np.array([2, 5])), fold.judge(np.array([5]))
        assert both.missed == pytest.approx(one.missed)
        everything = fold.judge(np.arange(data.shape[1]))
        assert (everything.r2, everything.r2_inside) == (0, 0)  # nothing is dropped


def test_the_ridge_is_large_for_noise_and_small_for_signal():
    values = np.array([4.0, 2.0, 1.0])
    assert choose_ridge(values, np.array([4.0, 2.0, 1.0]), 7.0, 20) == pytest.approx(4e-3)
    assert choose_ridge(values, np.array([0.05, 0.05, 0.05]), 2.0, 20) == pytest.approx(400)
    assert choose_ridge(np.zeros(0), np.zeros(0), 1.0, 5) == pytest.approx(1e-3)


def columns_of_each_kind():
    yield Columns(WIDE - WIDE.mean(axis=0)), WIDE
    yield Columns((WIDE - WIDE.mean(axis=0)).astype(np.float32)), WIDE.astype(np.float32)
    centred = SPARSE - SPARSE.mean(axis=0)
    found = Columns(
        SparseSamples(sp.csr_array(SPARSE), SPARSE.mean(axis=0)), np.sum(centred**2, axis=0)
    )
    yield found, SPARSE
    yield (
        Columns(elsewhere(DenseSamples(SPARSE, SPARSE.mean(axis=0))), np.sum(centred**2, axis=0)),
        SPARSE,
    )


@pytest.mark.parametrize(
    ("columns", "data"), list(columns_of_each_kind()), ids=["double", "single", "sparse", "remote"]
)
def test_columns_are_the_centred_features_at_total_length_one(columns, data, monkeypatch):
    monkeypatch.setattr(linalg, "BLOCK", 6)
    monkeypatch.setattr(sparse_operator, "PRODUCT_BLOCK", 6)
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
    monkeypatch.setattr(columns_module, "LARGEST_GRAM", 5)
    monkeypatch.setattr(sparse_operator, "PRODUCT_BLOCK", 6)
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
    np.testing.assert_allclose(
        columns.samples.scatter_lengths() * columns.scale**4, lengths, atol=1e-15
    )
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
    factor = RNG.standard_normal((14, 4))
    lengths, forms = columns.left_over(span, factor @ factor.T)
    np.testing.assert_allclose(lengths, np.sum(rest**2, axis=0), atol=1e-14)
    np.testing.assert_allclose(forms, np.sum((factor.T @ rest) ** 2, axis=0), atol=1e-12)
    # a column that does not vary has nothing left, whatever rounding makes of it
    constant = SPARSE.copy()
    constant[:, 4] = 0.1
    squares = Moments.from_data(constant).variances
    columns = Columns(elsewhere(DenseSamples(constant, constant.mean(axis=0))), squares)
    assert columns.left_over(span, np.eye(14))[0][4] == 0
    assert not columns.take(np.array([4])).any()


def test_constant_sparse_features_are_zero():
    data = SPARSE.copy()
    data[:, 4] = 0.1
    columns = feature_columns(Moments.from_data(sp.csr_array(data)))
    assert columns.samples.is_sparse
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
    columns = Columns(SparseSamples(X, np.zeros(6)), np.ones(6))
    monkeypatch.setattr(columns_module, "LARGEST_GRAM", 6)
    assert not columns.many_rows
    monkeypatch.setattr(columns_module, "LARGEST_GRAM", 5)
    assert columns.many_rows
