import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from jointsparse import Moments, RobustPCA
from jointsparse.metrics import explained_variance


def planted(n=80, p=60, rank=3, share=0.05, seed=0):
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p)) + rng.standard_normal(p)
    E = np.where(rng.random((n, p)) < share, rng.uniform(2, 30, (n, p)), 0)
    return L, E * rng.choice([-1, 1], (n, p))


L, E = planted()
X = L + E


@pytest.mark.slow  # the conformance tests run them with the defaults
@parametrize_with_checks([RobustPCA(n_components=1, alpha=2.0), RobustPCA(tol=1e-4)])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # empty low-rank part
        check(estimator)


@pytest.mark.parametrize(("n", "p", "share"), [(200, 200, 0.05), (100, 300, 0.1), (300, 100, 0.1)])
def test_planted_parts_are_recovered(n, p, share):
    low_rank, errors = planted(n, p, 5, share, seed=1)
    model = RobustPCA().fit(low_rank + errors)
    assert model.converged_
    assert model.rank_ == model.n_components_ == 5
    assert np.linalg.norm(model.low_rank_ - low_rank) < 1e-6 * np.linalg.norm(low_rank)
    np.testing.assert_array_equal(model.outlier_entries_, errors != 0)
    assert model.duality_gap_ <= 1e-7
    np.testing.assert_allclose(model.mean_, low_rank.mean(axis=0), atol=1e-4)
    axes = PCA(5).fit(low_rank).components_
    np.testing.assert_allclose(np.abs(np.sum(axes * model.components_, axis=1)), 1, atol=1e-8)


def test_the_parts_add_up_and_a_shift_moves_only_the_low_rank_one():
    model = RobustPCA().fit(X)
    np.testing.assert_allclose(model.low_rank_ + model.sparse_, X, rtol=1e-12)
    offset = 1e3 * np.random.default_rng(0).standard_normal(X.shape[1])
    moved = RobustPCA().fit(X + offset)
    np.testing.assert_allclose(moved.sparse_, model.sparse_, atol=1e-8)
    np.testing.assert_allclose(moved.low_rank_ - offset, model.low_rank_, atol=1e-8)
    np.testing.assert_allclose(moved.mean_ - offset, model.mean_, atol=1e-8)
    np.testing.assert_allclose(moved.feature_scores_, model.feature_scores_, atol=1e-8)


def test_report_names_the_errors_largest_first():
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(X.shape[1])])
    model = RobustPCA().fit(frame)
    rows = model.outlier_report(n_rows=None)
    assert len(rows) == np.count_nonzero(E)
    sizes = [abs(row.error) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    for row in rows[:5]:
        j = int(row.feature.removeprefix("gene"))
        assert row.value == pytest.approx(X[row.sample, j])
        assert row.error == pytest.approx(E[row.sample, j], abs=1e-4)
        assert row.expected == pytest.approx(L[row.sample, j], abs=1e-4)
    assert len(model.outlier_report()) == 20
    table = pd.DataFrame(model.outlier_report(kind="samples", n_rows=7))
    assert list(table.columns) == ["sample", "share", "n_entries", "worst_feature"]
    assert table["share"].is_monotonic_decreasing
    assert len(table) == 7
    worst = table.iloc[0]
    assert worst["n_entries"] == np.count_nonzero(E[worst["sample"]])
    assert worst["worst_feature"] == f"gene{np.argmax(np.abs(E[worst['sample']]))}"
    with pytest.raises(ValueError, match="kind='rows' is neither 'entries' nor 'samples'"):
        model.outlier_report(kind="rows")


def test_a_sample_that_does_not_belong_is_found():
    strange = L.copy()
    strange[9] += 5 * np.random.default_rng(5).standard_normal(L.shape[1])
    model = RobustPCA().fit(strange)
    assert np.argmax(model.outlier_samples_) == 9
    assert model.outlier_samples_[9] > 0.5
    assert np.delete(model.outlier_samples_, 9).max() < 0.01
    assert np.all(np.delete(model.outlier_samples_, 9) >= 0)


def test_components_resist_what_turns_those_of_pca():
    model = RobustPCA(n_components=3).fit(X)
    space = np.linalg.svd(L - L.mean(axis=0))[2][:3]
    ours = np.linalg.svd(model.components_ @ space.T, compute_uv=False).min()
    theirs = np.linalg.svd(PCA(3).fit(X).components_ @ space.T, compute_uv=False).min()
    assert ours > 1 - 1e-8
    assert theirs < 0.9
    np.testing.assert_allclose(model.inverse_transform(model.transform(L)), L, atol=1e-4)
    assert model.score(L) == pytest.approx(1, abs=1e-8)


def test_fitted_attributes():
    model = RobustPCA(n_components=2).fit(X)
    assert model.components_.shape == (2, X.shape[1])
    assert model.rank_ == 3
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-10)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, explained_variance(X, model.components_)
    )
    assert np.sum(model.feature_scores_**2) == pytest.approx(1)
    assert model.alpha_ == pytest.approx(1 / np.sqrt(80))
    assert len(model.gap_history_) == len(model.history_) == model.n_iter_
    assert model.gap_history_[-1] == model.duality_gap_
    assert np.all(np.isfinite(model.history_))  # before the first look it is that of (0, X)
    centred = X - np.median(X, axis=0)
    assert model.history_[0] == pytest.approx(model.alpha_ * np.abs(centred).sum())
    value = np.linalg.svd(model.low_rank_ - np.median(X, axis=0), compute_uv=False).sum()
    value += model.alpha_ * np.abs(model.sparse_).sum()
    assert model.objective_ == pytest.approx(value)


def test_sparse_input_and_moments_of_samples():
    model = RobustPCA().fit(X)
    for other in (
        RobustPCA().fit(sp.csr_array(X)),
        RobustPCA().fit_moments(Moments.from_data(X)),
    ):
        np.testing.assert_allclose(other.sparse_, model.sparse_, atol=1e-8)
    with pytest.raises(ValueError, match="needs the samples themselves"):
        RobustPCA().fit_moments(Moments.from_scatter(np.eye(3), n_samples=9))


def test_wide_data_form_nothing_p_by_p():
    low_rank, errors = planted(40, 4000, 2, 0.02)
    tracemalloc.start()
    RobustPCA(tol=1e-3).fit(low_rank + errors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * 4000**2 * 8


def test_what_goes_wrong_is_told():
    with pytest.warns(ConvergenceWarning, match="iteration limit .* certified relative gap"):
        RobustPCA(max_iter=1).fit(X)
    with pytest.warns(UserWarning, match="the low-rank part is empty; raise alpha"):
        empty = RobustPCA(alpha=0.1).fit(X)
    assert empty.rank_ == 0
    assert not empty.components_.any()
    assert np.isfinite(empty.transform(X)).all()
    with pytest.warns(UserWarning, match="the low-rank part has only 3 components"):
        assert RobustPCA(n_components=9).fit(X).n_components_ == 3


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components=0 is not a whole number of at least 1"),
        ({"alpha": 0}, "alpha=0 is neither a number above 0 nor 'auto'"),
        ({"alpha": "much"}, "alpha='much' is neither"),
        ({"tol": 0}, "tol=0 is not a number between 0 and 1"),
    ],
)
def test_wrong_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        RobustPCA(**parameters).fit(X)
