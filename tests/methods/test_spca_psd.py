import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from oracles import planted_problem, spca_psd_optimum
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jointsparse import SPCAPSD, Moments
from jointsparse.methods.reading import wide_samples
from jointsparse.operators.dense import DenseSamples
from jointsparse.significance import noise_edge
from jointsparse.solvers.wide import convex as convex_wide

FRAME = load_breast_cancer(as_frame=True).data
X = StandardScaler().fit_transform(FRAME)


def test_fitted_attributes():
    selector = SPCAPSD().fit(X)
    assert selector.duality_gap_ <= 1e-4
    assert selector.converged_
    assert selector.n_iter_ == len(selector.history_) == len(selector.gap_history_)
    assert np.all(np.diff(selector.history_) <= 0)
    assert sorted(selector.ranking_) == list(range(1, 31))
    published = SPCAPSD(rule="norm").fit(X)
    order = np.argsort(published.ranking_)
    assert np.all(np.diff(published.feature_scores_[order]) <= 0)
    np.testing.assert_array_equal(published.feature_scores_, selector.feature_scores_)
    omega = selector.loadings_ @ selector.loadings_.T
    np.testing.assert_allclose(np.linalg.norm(omega, axis=0), selector.feature_scores_, rtol=1e-8)
    assert "reached the tolerance" in selector.stopping_reason_


@pytest.mark.parametrize("rule", ["greedy", "residual", "norm"])
def test_a_share_of_the_variance_keeps_the_fewest_that_account_for_it(rule):
    selector = SPCAPSD(rule=rule, n_features_to_select="r2>=0.9").fit(X)
    curve = selector.selection_curve_
    assert len(curve) == selector.support_.sum()
    assert curve[-1] >= 0.9 > curve[-2]
    kept = X[:, selector.support_]
    rest = X - kept @ np.linalg.lstsq(kept, X, rcond=None)[0]
    assert 1 - (rest**2).sum() / (X**2).sum() == pytest.approx(curve[-1])
    np.testing.assert_array_equal(selector.support_, selector.ranking_ <= len(curve))


@pytest.mark.parametrize(("wanted", "kept"), [(5, 5), (1, 1), (30, 30), (0.2, 6), (1.0, 30)])
def test_counts_and_shares(wanted, kept):
    selector = SPCAPSD(n_features_to_select=wanted).fit(X)
    assert selector.get_support().sum() == kept
    assert selector.transform(X).shape == (len(X), kept)


def test_support_means_the_exact_nonzeros():
    S, planted = planted_problem(20, 3)
    selector = SPCAPSD(alpha=0.1, eta=0.05, n_features_to_select="support")
    selector.fit_moments(Moments.from_scatter(S, n_samples=60))
    np.testing.assert_array_equal(selector.support_, planted)
    assert np.all(selector.feature_scores_[~planted] == 0)


@pytest.mark.parametrize("scale", ["relative", "trace", "absolute"])
def test_penalty_scales_agree_with_the_oracle(scale):
    S, _ = planted_problem(12, 1)
    S = 40 * S
    moments = Moments.from_scatter(S, n_samples=60)
    s1 = np.linalg.eigvalsh(S)[-1]
    selector = SPCAPSD(alpha=0.03, eta=0.05, penalty_scale=scale, tol=1e-6).fit_moments(moments)
    expected_eta = {"relative": 0.05 * 2 * s1, "trace": 0.05 * np.trace(S), "absolute": 0.05}
    assert selector.eta_ == pytest.approx(expected_eta[scale])
    values, vectors = np.linalg.eigh(2 * S - selector.eta_ * np.eye(12))
    excess = (vectors * np.maximum(values, 0)) @ vectors.T
    lam_hi = np.linalg.norm(excess, axis=0).max()
    expected_lam = {"relative": 0.03 * lam_hi, "trace": 0.03 * np.trace(S), "absolute": 0.03}
    assert selector.alpha_ == pytest.approx(expected_lam[scale])
    optimum, _ = spca_psd_optimum(S, selector.alpha_, selector.eta_)
    assert selector.objective_ == pytest.approx(optimum, rel=1e-6)


def test_auto_is_relative_on_every_scale():
    edge = noise_edge(Moments.from_data(X))
    largest = np.linalg.eigvalsh(X.T @ X)[-1]
    share = max(edge.edge / largest, 0.01)
    a = SPCAPSD(penalty_scale="absolute").fit(X)
    b = SPCAPSD(alpha=0.02, eta=share).fit(X)
    assert a.eta_ == pytest.approx(2 * share * largest)
    assert (a.alpha_, a.eta_) == pytest.approx((b.alpha_, b.eta_))
    c, d = SPCAPSD(eta=0.03).fit(X), SPCAPSD(eta=0.03, alpha=0.1).fit(X)
    assert c.alpha_ == d.alpha_
    noise = np.random.default_rng(0).standard_normal((50, 10))
    with pytest.warns(UserWarning, match="no structure beyond noise"):
        e = SPCAPSD().fit(noise)
    with pytest.warns(UserWarning, match="no structure beyond noise"):
        f = SPCAPSD(alpha=0.1, eta=0.03).fit(noise)
    assert (e.alpha_, e.eta_) == (f.alpha_, f.eta_)


@pytest.mark.parametrize("clusters", [2, 4, 200])
def test_the_number_of_clusters_sets_the_penalties(clusters):
    selector = SPCAPSD(n_clusters=clusters).fit(X)
    s = np.append(np.linalg.eigvalsh(X.T @ X)[::-1], np.zeros(200))
    share = np.clip(np.sqrt(s[clusters - 2] * s[clusters - 1]) / s[0], 1e-4, 0.5)
    assert selector.eta_ == pytest.approx(share * 2 * s[0])
    same = SPCAPSD(alpha=0.02, eta=share).fit(X)
    assert selector.alpha_ == pytest.approx(same.alpha_)
    if clusters < 10:
        assert abs(selector.loadings_.shape[1] - (clusters - 1)) <= 1
    fixed = SPCAPSD(alpha=0.3, eta=0.2, n_clusters=clusters).fit(X)
    assert fixed.alpha_ == SPCAPSD(alpha=0.3, eta=0.2).fit(X).alpha_


def test_sparse_frame_and_float32_inputs_agree():
    rng = np.random.default_rng(0)
    data = np.where(rng.random((60, 12)) < 0.4, rng.standard_normal((60, 12)), 0)
    dense = SPCAPSD().fit(data)
    np.testing.assert_allclose(
        SPCAPSD().fit(sp.csr_array(data)).feature_scores_, dense.feature_scores_, atol=1e-8
    )
    single = SPCAPSD().fit(data.astype(np.float32))
    np.testing.assert_allclose(single.feature_scores_, dense.feature_scores_, atol=1e-4)
    assert single.transform(data.astype(np.float32)).dtype == np.float32


def test_names_go_in_and_come_out():
    frame = pd.DataFrame(X, columns=FRAME.columns)
    selector = SPCAPSD(n_features_to_select=4).set_output(transform="pandas").fit(frame)
    names = list(FRAME.columns[selector.get_support()])
    assert list(selector.get_feature_names_out()) == names
    assert list(selector.transform(frame).columns) == names


def test_fit_moments_equals_fit_and_forgets_old_names():
    frame = pd.DataFrame(X, columns=FRAME.columns)
    fitted = SPCAPSD().fit(frame)
    from_moments = SPCAPSD().fit_moments(Moments.from_data(frame))
    np.testing.assert_allclose(from_moments.feature_scores_, fitted.feature_scores_)
    assert list(from_moments.feature_names_in_) == list(FRAME.columns)
    from_moments.fit_moments(Moments.from_data(X))
    assert not hasattr(from_moments, "feature_names_in_")
    np.testing.assert_array_equal(from_moments.transform(X), fitted.transform(frame))


def test_x_is_never_modified():
    for data in (X.copy(), np.asfortranarray(X), sp.csr_array(X)):
        before = data.copy()
        SPCAPSD().fit(data).transform(data)
        assert abs(data - before).sum() == 0


def test_warm_start():
    selector = SPCAPSD(warm_start=True, tol=1e-6).fit(X)
    first = selector.n_iter_
    assert selector.fit(X).n_iter_ < first
    assert selector.fit(X[:, :10]).n_features_in_ == 10  # other features: a cold start


def test_works_in_a_grid_search():
    data = load_breast_cancer()
    pipeline = make_pipeline(
        StandardScaler(), SPCAPSD(n_features_to_select=5), KNeighborsClassifier()
    )
    grid = GridSearchCV(pipeline, {"spcapsd__alpha": [0.05, 0.3]}, cv=3)
    assert grid.fit(data.data, data.target).best_score_ > 0.85


def test_published_solver():
    selector = SPCAPSD(solver="published").fit(X)
    exact = SPCAPSD(tol=1e-6).fit(X)
    assert selector.objective_ > exact.objective_
    assert not hasattr(selector, "duality_gap_")
    a, b = (SPCAPSD(solver="published", random_state=3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(a.feature_scores_, b.feature_scores_)
    relative = SPCAPSD(solver="published", constants="paper", tol=1e-8).fit(X)
    np.testing.assert_allclose(relative.feature_scores_, selector.feature_scores_, rtol=1e-3)


@pytest.mark.parametrize("shape", [(40, 60), (60, 30), (20, 200)])
def test_every_exact_solver_finds_the_same_optimum(shape):
    rng = np.random.default_rng(1)
    data = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    data += 0.5 * rng.standard_normal(shape)
    objectives = []
    for solver in ("exact", "splitting", "factored"):
        selector = SPCAPSD(solver=solver, alpha=0.3, tol=1e-5).fit(data)
        assert selector.duality_gap_ <= 1e-5
        assert np.all(np.diff(selector.history_) <= 0)
        assert selector.feature_scores_.shape == (shape[1],)
        objectives.append(selector.objective_)
    np.testing.assert_allclose(objectives, objectives[0], rtol=2e-5)


def test_proved_zeros_are_zero():
    S, planted = planted_problem(40, 1)
    selector = SPCAPSD(alpha=0.1, eta=0.05).fit_moments(Moments.from_scatter(S, n_samples=60))
    assert selector.proved_zero_.any()
    assert not selector.feature_scores_[selector.proved_zero_].any()
    assert not (selector.proved_zero_ & planted).any()


def test_wide_data_never_form_a_scatter_matrix(monkeypatch):
    rng = np.random.default_rng(0)
    data = rng.standard_normal((15, 500)) + 3 * rng.standard_normal((15, 1))
    monkeypatch.setattr(Moments, "scatter", property(lambda self: pytest.fail("p × p")))
    selector = SPCAPSD().fit(data)
    assert selector.support_.any()
    assert SPCAPSD(solver="published").fit(data).support_.any()


def test_wide_warm_start():
    rng = np.random.default_rng(0)
    data = rng.standard_normal((15, 500)) + 3 * rng.standard_normal((15, 1))
    selector = SPCAPSD(warm_start=True, alpha=0.2).fit(data)
    cold = selector.set_params(alpha=0.18).fit(data).objective_
    assert cold == pytest.approx(SPCAPSD(alpha=0.18).fit(data).objective_, rel=2e-4)
    selector.fit(data[:, :450])  # other features: a cold start


def test_not_converging_warns():
    with pytest.warns(ConvergenceWarning, match="iteration limit .* Raise max_iter"):
        SPCAPSD(max_iter=2, tol=1e-8).fit(X)


def test_an_empty_model_warns_and_names_the_penalty():
    with pytest.warns(UserWarning, match="alpha=0.99 empties the model; every alpha up to") as w:
        selector = SPCAPSD(alpha=0.99).fit(X)
    assert not selector.support_.any()
    named = float(re.search(r"up to ([\d.]+)", str(w[0].message)).group(1))
    assert SPCAPSD(alpha=0.99 * named, tol=1e-5).fit(X).support_.any()
    # the bound that the relative scale is made of lies at most a factor 1.7 above
    assert named > 1 / 1.7


def test_a_model_that_is_empty_within_the_tolerance_is_not_told_to_be_nonempty():
    rng = np.random.default_rng(0)
    loud = np.column_stack([1000 * rng.standard_normal(60), rng.standard_normal((60, 3))])
    with pytest.warns(UserWarning, match=r"nothing is left within tol=0.0001; lower alpha") as w:
        SPCAPSD(alpha=0.999, eta=0.1).fit(loud)
    assert "every alpha up to" not in str(w[0].message)


@pytest.mark.parametrize("wanted", [4, 7, 10])
def test_count_finds_the_penalty_with_exactly_that_support(wanted):
    S, _ = planted_problem(20, 3)
    selector = SPCAPSD(alpha="count", eta=0.05, n_features_to_select=wanted, tol=1e-6)
    selector.fit_moments(Moments.from_scatter(S, n_samples=60))
    assert np.count_nonzero(selector.feature_scores_) == wanted
    assert selector.support_.sum() == wanted
    again = SPCAPSD(alpha=selector.alpha_, eta=selector.eta_, penalty_scale="absolute", tol=1e-6)
    again.fit_moments(Moments.from_scatter(S, n_samples=60))
    assert again.objective_ == pytest.approx(selector.objective_, rel=2e-6)


def test_count_says_when_no_penalty_fits():
    S, _ = planted_problem(20, 3)
    selector = SPCAPSD(alpha="count", eta=0.05, n_features_to_select=2, tol=1e-6)
    with pytest.warns(UserWarning, match="exactly 2 features; the nearest has 4"):
        selector.fit_moments(Moments.from_scatter(S, n_samples=60))


def test_eta_alone_can_empty_the_model():
    moments = Moments.from_scatter(np.diag([3.0, 2.0, 1.0]), n_samples=9)
    selector = SPCAPSD(alpha=1e-3, eta=6.1, penalty_scale="absolute")
    with pytest.warns(UserWarning, match="eta=6.1 alone empties the model, lower it"):
        selector.fit_moments(moments)


def test_asking_for_more_than_the_nonzero_features_warns():
    S, planted = planted_problem(20, 3)
    selector = SPCAPSD(alpha=0.1, eta=0.05, n_features_to_select=12)
    with pytest.warns(UserWarning, match="only 10 features have a nonzero score; the other 2"):
        selector.fit_moments(Moments.from_scatter(S, n_samples=60))
    assert selector.support_.sum() == 12
    assert selector.support_[planted].all()


def test_refitting_leaves_nothing_stale():
    selector = SPCAPSD().fit(X)
    selector.set_params(solver="published", n_features_to_select="support").fit(X)
    for attribute in ("duality_gap_", "gap_history_", "selection_curve_"):
        assert not hasattr(selector, attribute)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1}, "alpha=-1 is neither a number of at least 0 nor 'auto'"),
        ({"eta": "much"}, "eta='much' is neither"),
        ({"alpha": float("nan")}, "alpha=nan is neither"),
        ({"alpha": 10}, "alpha=10 empties the model: on the relative scale"),
        ({"alpha": 0, "eta": 0}, "alpha and eta cannot both be 0"),
        ({"alpha": 0, "solver": "published"}, "alpha must be positive"),
        ({"penalty_scale": "big"}, "penalty_scale='big' is not one of 'relative', 'trace'"),
        ({"solver": "fast"}, "solver='fast' is not one of 'exact', 'splitting'"),
        ({"alpha": "count"}, "alpha='count' looks for the penalty .* got 'auto'"),
        ({"alpha": "count", "solver": "published"}, "alpha='count' needs exact zeros"),
        ({"constants": "mine"}, "constants='mine' is neither"),
        ({"tol": 0}, "tol=0 is not a number between 0 and 1"),
        ({"tol": "small"}, "tol='small' is not a number"),
        ({"max_iter": 0}, "max_iter=0 is not a whole number of at least 1"),
        ({"max_iter": 2.5}, "max_iter=2.5 is not a whole number"),
        ({"n_features_to_select": 31}, "31 is not between 1 and the number of features, 30"),
        ({"n_features_to_select": 0}, "0 is not between 1 and"),
        ({"n_features_to_select": 1.5}, "n_features_to_select=1.5 is neither"),
        ({"n_features_to_select": "most"}, "n_features_to_select='most' is neither"),
        ({"n_features_to_select": True}, "n_features_to_select=True is neither"),
        ({"n_features_to_select": "r2>=1.5"}, "n_features_to_select='r2>=1.5' is neither"),
        ({"rule": "best"}, "rule='best' is not one of 'greedy', 'residual', 'norm'"),
        ({"n_clusters": 0}, "n_clusters=0 is neither None nor a whole number"),
        ({"n_clusters": 2.5}, "n_clusters=2.5 is neither None nor a whole number"),
    ],
)
def test_wrong_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        SPCAPSD(**parameters).fit(X)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.ones((5, 3)), "every feature is constant"),
        (np.full((5, 3), 0.1), "every feature is constant"),
        (X[:1], "minimum of 2 is required"),
        (np.where(X > 5, np.nan, X), "NaN"),
        (np.where(X > 5, np.inf, X), "infinity"),
        (np.ones(5), "2D array"),
        (np.empty((0, 3)), "0 sample"),
    ],
)
def test_wrong_data_are_refused(data, message):
    with pytest.raises(ValueError, match=message):
        SPCAPSD().fit(data)


def wide_counts(seed=0, n=30, p=500):
    """Sparse counts with a group of features that vary together."""
    rng = np.random.default_rng(seed)
    R = rng.poisson(0.2, (n, p)) * 1.0
    R[:, :40] += np.outer(rng.poisson(2.0, n), rng.random(40) < 0.8)
    return R


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_matrix])
def test_wide_sparse_data_are_never_made_dense(monkeypatch, make):
    R = wide_counts()
    dense = SPCAPSD(alpha=0.1, eta=0.1, n_features_to_select="support").fit(R)
    for kind in (sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix):

        def small_only(self, *args, original=kind.toarray, **kwargs):
            assert self.shape[0] * self.shape[1] < R.size
            return original(self, *args, **kwargs)

        monkeypatch.setattr(kind, "toarray", small_only)
    sparse = SPCAPSD(alpha=0.1, eta=0.1, n_features_to_select="support").fit(make(R))
    assert sparse.duality_gap_ <= 1e-4
    assert (sparse.alpha_, sparse.eta_) == pytest.approx((dense.alpha_, dense.eta_), rel=1e-9)
    np.testing.assert_allclose(sparse.feature_scores_, dense.feature_scores_, atol=1e-7)
    np.testing.assert_array_equal(sparse.support_, dense.support_)


def test_large_data_are_centred_on_the_way(monkeypatch):
    R = wide_counts().astype(np.float32)
    copied = SPCAPSD(alpha=0.1, eta=0.1, n_features_to_select="support").fit(R)
    monkeypatch.setattr(wide_samples, "LARGEST_COPY", 10)
    moments = Moments.from_data(R)
    implicit = SPCAPSD(alpha=0.1, eta=0.1, n_features_to_select="support").fit_moments(moments)
    assert "centred_data" not in vars(moments)
    assert implicit.duality_gap_ <= 1e-4
    np.testing.assert_allclose(implicit.feature_scores_, copied.feature_scores_, atol=1e-4)


@pytest.mark.parametrize("scale", ["relative", "trace", "absolute"])
def test_an_eta_that_needs_too_much_memory_is_refused_with_one_that_does_not(monkeypatch, scale):
    X = np.random.default_rng(1).standard_normal((60, 600))
    unit = {"relative": 1.0, "trace": 1 / 30, "absolute": 600.0}[scale]
    monkeypatch.setattr(convex_wide, "bytes_to_use", lambda data: 60 * 600 * 128)
    model = SPCAPSD(alpha=1e-5 * unit, eta=1e-3 * unit, penalty_scale=scale)
    with pytest.raises(
        ValueError, match=r"directions matter.* at 600 features: use eta="
    ) as raised:
        model.fit(X)
    advised = float(re.search(r"use eta=([\d.e+-]+) or more", str(raised.value))[1])
    assert advised > 1e-3 * unit
    used = model.emptying_penalty(Moments.from_data(X))[1]["eta"]
    convex_wide.check_memory(DenseSamples(X - X.mean(axis=0)), advised * used / (1e-3 * unit))


@pytest.mark.parametrize("scale", ["relative", "trace", "absolute"])
def test_no_eta_is_advised_that_would_empty_the_model(monkeypatch, scale):
    X = np.random.default_rng(1).standard_normal((60, 600))
    unit = {"relative": 1.0, "trace": 1 / 30, "absolute": 600.0}[scale]
    monkeypatch.setattr(convex_wide, "bytes_to_use", lambda data: 600 * 128)
    model = SPCAPSD(alpha=1e-5 * unit, eta=1e-3 * unit, penalty_scale=scale)
    with pytest.raises(ValueError, match=r"allow so much, since no eta") as raised:
        model.fit(X)
    assert "use eta=" not in str(raised.value)


def test_advice_on_an_empty_model_of_many_features(monkeypatch):
    X = wide_counts()
    with pytest.warns(UserWarning, match="empties the model; every alpha up to"):
        whole = SPCAPSD(alpha=0.95, eta=0.5).fit(X)
    assert not whole.support_.any()
    monkeypatch.setattr(wide_samples, "MOST_ADVISED", 50)
    with pytest.warns(UserWarning, match="empties the model; every alpha up to"):
        SPCAPSD(alpha=0.95, eta=0.5).fit(X)
