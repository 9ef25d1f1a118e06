import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from jointsparse import JSPCA, Moments
from jointsparse.metrics import explained_variance
from jointsparse.solvers.components import joint_steps

BREAST = load_breast_cancer()
X = StandardScaler().fit_transform(BREAST.data)
LOSSES = ("samples", "features", "frobenius")


@pytest.mark.slow  # the conformance tests run them with the defaults
@parametrize_with_checks(
    [
        JSPCA(loss="frobenius"),
        JSPCA(loss="features", n_components=1, max_iter=50),
        JSPCA(loss="features", solver="published", max_iter=20, tol=0),
    ]
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # rank; also ConvergenceWarning
        check(estimator)


def source_table(iterations):
    """Table 1 of source 000: 30 measurements and the diagnosis, d = 6, λ = 3."""
    table = np.column_stack([BREAST.data, BREAST.target]).astype(float)
    table = (table - table.mean(axis=0)) / table.std(axis=0, ddof=1) / np.sqrt(len(table) - 1)
    model = JSPCA(
        n_components=6,
        alpha=3.0,
        loss="features",
        solver="published",
        threshold=1e-2,
        penalty_scale="absolute",
        tol=0,
        max_iter=iterations,
    )
    return table, model.fit(table)


def test_the_source_s_table_as_far_as_it_can_be_reproduced():
    table, model = source_table(50)
    # Published: 152 of 186 zeros, 16 features removed, 27.6 % and 88 % of the variance.
    assert np.count_nonzero(model.projection_ == 0) == 146
    assert np.count_nonzero(~model.get_support()) == 15
    adjusted = explained_variance(table, model.components_, kind="adjusted").sum()
    assert round(100 * adjusted, 1) == 29.1
    assert round(100 * PCA(6).fit(table).explained_variance_ratio_.sum(), 1) == 88.2
    assert model.n_iter_ == 50
    assert model.converged_


def test_fifty_iterations_are_not_convergence():
    removed = [
        int(np.count_nonzero(~source_table(iterations)[1].get_support()))
        for iterations in (50, 100, 200, 500)
    ]
    assert removed == [15, 19, 21, 25]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e4])
def test_projection_and_recovery_are_in_the_units_of_the_data(loss, scale):
    data = scale * X[:100, :8]
    model = JSPCA(alpha=0.3, loss=loss, max_iter=5000).fit(data)
    centred = data - data.mean(axis=0)
    residual = centred - centred @ model.projection_ @ model.recovery_.T
    value = {
        "samples": np.linalg.norm(residual, axis=1).sum(),
        "features": np.linalg.norm(residual, axis=0).sum(),
        "frobenius": np.sum(residual**2),
    }[loss]
    value += model.alpha_ * np.linalg.norm(model.projection_, axis=1).sum()
    assert model.objective_ == pytest.approx(value, rel=1e-5)
    again = JSPCA(alpha=model.alpha_, penalty_scale="absolute", loss=loss, max_iter=5000).fit(data)
    np.testing.assert_allclose(again.components_, model.components_, atol=1e-6)
    if loss != "features":
        np.testing.assert_allclose(model.recovery_.T @ model.recovery_, np.eye(2), atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1e-3, 50.0])
def test_the_projection_is_optimal_for_alpha_in_the_units_of_the_data(loss, scale):
    data = scale * X[:, :10]
    model = JSPCA(alpha=0.3, loss=loss, tol=1e-9, max_iter=5000).fit(data)
    centred = data - data.mean(axis=0)
    Q, P = model.projection_, model.recovery_
    residual = centred - centred @ Q @ P.T
    rows, columns = np.ones(len(data)), np.ones(10)
    if loss == "samples":
        rows = 0.5 / np.linalg.norm(residual, axis=1)
    if loss == "features":
        columns = 0.5 / np.linalg.norm(residual, axis=0)
    S = (centred * rows[:, None]).T @ centred
    pull = 2 * np.linalg.norm(S @ (columns[:, None] * P - Q), axis=1)
    used = model.get_support()
    assert 2 <= used.sum() < 10
    np.testing.assert_allclose(pull[used], model.alpha_, rtol=1e-5)
    assert np.all(pull[~used] <= model.alpha_ * (1 + 1e-5))


def test_without_a_penalty_it_is_pca():
    model = JSPCA(n_components=3, alpha=0, loss="frobenius").fit(X)
    cosines = np.sum(model.components_ * PCA(3).fit(X).components_, axis=1)
    assert np.all(1 - np.abs(cosines) < 1e-10)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, PCA(3).fit(X).explained_variance_ratio_
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_are_exactly_zero_and_scores_uncorrelated(loss):
    model = JSPCA(n_components=3, alpha=0.3, loss=loss).fit(X)
    used = model.get_support()
    assert 3 <= used.sum() < 30
    assert np.all(model.components_[:, ~used] == 0)
    assert np.all(model.components_[:, used] != 0)
    correlation = np.corrcoef(model.transform(X).T)
    np.testing.assert_allclose(correlation, np.eye(3), atol=1e-7)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, explained_variance(X, model.components_), atol=1e-12
    )
    # With uncorrelated scores, two of the definitions of explained variance are plain sums.
    plain = np.var(model.transform(X), axis=0) / np.var(X, axis=0).sum()
    np.testing.assert_allclose(explained_variance(X, model.components_, kind="adjusted"), plain)


def largest_angle(one, other):
    cosines = np.linalg.svd(np.linalg.qr(one)[0].T @ np.linalg.qr(other)[0])[1]
    return np.sqrt(max(0.0, 1 - cosines.min() ** 2))


@pytest.mark.parametrize("seed", range(4))
def test_outlier_samples_do_little_harm(seed):
    rng = np.random.default_rng(seed)
    plane = np.zeros((40, 3))
    plane[:12] = np.linalg.qr(rng.standard_normal((12, 3)))[0]
    data = (rng.standard_normal((200, 3)) * [3, 2.5, 2]) @ plane.T
    data += 0.1 * rng.standard_normal(data.shape)
    data[:10] = 5 * rng.standard_normal((10, 40))
    robust = JSPCA(n_components=3).fit(data)
    assert largest_angle(PCA(3).fit(data).components_.T, plane) > 0.7
    assert largest_angle(robust.recovery_, plane) < 0.1
    assert largest_angle(robust.reconstruction_.T, plane) < 0.1
    assert robust.score(data[10:]) > 0.95
    # The source's own loss, over features, has no such protection.
    source = JSPCA(n_components=3, loss="features", max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert largest_angle(source.fit(data).recovery_, plane) > 0.7


@pytest.mark.parametrize("loss", LOSSES)
def test_nothing_of_size_p_by_p_is_formed_for_wide_data(loss):
    rng = np.random.default_rng(0)
    data = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 3000))
    data += rng.standard_normal((50, 3000))
    tracemalloc.start()
    model = JSPCA(alpha=0.3, loss=loss, tol=1e-3).fit(data)
    model.transform(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * 3000**2 * 8


@pytest.mark.slow
@pytest.mark.parametrize("method", ["JSPCA", "SPCA"])
def test_a_hundred_thousand_features_take_less_than_a_gigabyte(method):
    import jointsparse

    rng = np.random.default_rng(0)
    data = rng.standard_normal((200, 100_000), dtype=np.float32)
    data[:, :300] += 3 * (rng.standard_normal((200, 3)) @ rng.standard_normal((3, 300)))
    tracemalloc.start()
    model = getattr(jointsparse, method)(tol=1e-3).fit(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e9
    assert 0 < model.get_support().sum() < 100_000


def test_the_scatter_matrix_is_enough_without_sample_weights():
    for loss in ("frobenius", "features"):
        one = JSPCA(loss=loss).fit(X)
        other = JSPCA(loss=loss).fit_moments(Moments.from_scatter(np.cov(X.T), len(X)))
        np.testing.assert_allclose(one.components_, other.components_, atol=1e-5)
    with pytest.raises(ValueError, match="needs the samples themselves"):
        JSPCA().fit_moments(Moments.from_scatter(np.cov(X.T), len(X)))


def test_names_frames_sparse_and_float32():
    frame = pd.DataFrame(X, columns=BREAST.feature_names)
    model = JSPCA(alpha=0.3).set_output(transform="pandas").fit(frame)
    assert list(model.transform(frame).columns) == ["jspca0", "jspca1"]
    sparse = JSPCA(alpha=0.3).fit(sp.csr_matrix(X))
    np.testing.assert_allclose(sparse.components_, model.components_, atol=1e-8)
    single = JSPCA(alpha=0.3).fit(X.astype(np.float32))
    np.testing.assert_allclose(single.components_, model.components_, atol=1e-3)
    assert single.transform(X.astype(np.float32)).dtype == np.float32


def test_alpha_can_be_chosen_by_cross_validation():
    search = GridSearchCV(JSPCA(n_components=3), {"alpha": [0.05, 0.2, 0.6]}, cv=3).fit(X)
    assert search.best_params_["alpha"] == 0.05
    assert search.best_score_ > 0.6


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "squared"}, "loss='squared' is not one of 'samples'"),
        ({"solver": "fast"}, "solver='fast'"),
        ({"solver": "published"}, "loss='features'"),
        ({"threshold": 0.1}, "exact zeros"),
        ({"threshold": -1, "solver": "published", "loss": "features"}, "threshold=-1"),
        ({"alpha": 1.0}, "empties the model"),
        ({"n_components": 0}, "n_components=0"),
        ({"tol": -1}, "tol=-1"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        JSPCA(**parameters).fit(X)


def test_an_empty_model_says_so():
    with pytest.warns(UserWarning, match="every loading is zero; lower alpha"):
        model = JSPCA(alpha=1e9, penalty_scale="absolute").fit(X)
    assert not model.get_support().any()
    assert np.all(model.explained_variance_ratio_ == 0)
    np.testing.assert_array_equal(model.transform(X), np.zeros((569, 2)))


def test_features_that_are_nearly_left_out_are_used_in_single_precision_too():
    # Published rows come near zero and never to it: 1e-50 is a number of double precision only.
    rng = np.random.default_rng(4)
    data = (rng.standard_normal((16, 4)) @ rng.standard_normal((4, 12))).astype(np.float32)
    model = JSPCA(loss="features", solver="published", max_iter=200)
    double, single = model.fit(data.astype(float)).feature_scores_, model.fit(data).feature_scores_
    assert np.any((double > 0) & (double < np.finfo(np.float32).smallest_subnormal))
    np.testing.assert_array_equal(single > 0, double > 0)


def test_weights_that_go_in_turn_end_the_run():
    rng = np.random.default_rng(0)
    X = np.outer(rng.standard_normal(42), rng.standard_normal(35))  # one feature reproduces all
    with pytest.warns(ConvergenceWarning, match="weights that go in turn lead no further"):
        model = JSPCA(alpha=0.01, penalty_scale="absolute", loss="features").fit(X)
    assert model.n_iter_ < 500
    assert model.diagnostics_["optimality"] > model.diagnostics_["optimality_bound"]


@pytest.mark.parametrize("loss", ["samples", "frobenius"])
@pytest.mark.parametrize("shape", [(80, 40), (30, 120)])
def test_larger_steps_lead_to_the_same_optimum_and_never_up(loss, shape, monkeypatch):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    X += rng.standard_normal(shape)
    fast = JSPCA(n_components=2, loss=loss, tol=1e-6).fit(X)
    assert np.all(np.diff(fast.history_) <= 1e-12 * fast.history_[0])
    monkeypatch.setattr(joint_steps.Extrapolation, "step", lambda *pairs: None)
    plain = JSPCA(n_components=2, loss=loss, tol=1e-6).fit(X)
    assert fast.n_iter_ < plain.n_iter_
    assert fast.objective_ == pytest.approx(plain.objective_, rel=1e-10)
    np.testing.assert_allclose(fast.components_, plain.components_, atol=1e-4)


def test_where_larger_steps_lead_nowhere_small_ones_go_on(monkeypatch):
    X = np.random.default_rng(4).standard_normal((60, 30))
    X[:, :8] += 2 * np.random.default_rng(5).standard_normal((60, 1))
    expected = JSPCA(n_components=2).fit(X).objective_
    # A step that is none: nothing is gained by it for as long as it is tried.
    monkeypatch.setattr(joint_steps.Extrapolation, "step", lambda self, before, found: before)
    found = JSPCA(n_components=2).fit(X)
    assert found.converged_
    assert found.objective_ == pytest.approx(expected, rel=1e-8)
