"""What every method of the registry promises."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from jointsparse import registry

METHODS = registry.methods()


def equal_but_for_the_order(estimator):
    """Iterations end within their tolerance; the checks shuffle samples and compare to 1e-9.

    After some 340 iterations that rounding led another way the objectives agree to the last digit,
    and the loadings to 2e-8. In one order test_weights.py finds no difference at all.
    """
    if type(estimator).__name__ != "JSPCA":
        return {}
    kinds = ("dense", "sparse")
    why = "equal to the tolerance of the fit"
    return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in kinds}


@parametrize_with_checks(
    [method.make() for method in METHODS.values()], expected_failed_checks=equal_but_for_the_order
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(params=list(METHODS))
def estimator(request):
    return METHODS[request.param].make()


each_method = pytest.mark.parametrize("name", list(METHODS))
seeds = st.integers(0, 10_000)
few = settings(max_examples=5)  # for each of the methods, each fitted twice


def data(seed, n=None, p=None):
    rng = np.random.default_rng(seed)
    n, p = n or rng.integers(2, 40), p or rng.integers(1, 15)
    rank = rng.integers(1, 4)
    signal = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    return signal + 0.3 * rng.standard_normal((n, p))


def fitted(name, X, **given):
    # As accurate as it gets: what is tested is the limit, reached or not.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator = METHODS[name].make().set_params(**given)
        if "tol" in estimator.get_params():  # closed forms have none
            estimator.set_params(tol=1e-9)
        return estimator.fit(X)


def scores_of(name, X, **given):
    """Return the scores of such a fit, which in methods that iterate know nothing of the set.

    So the set has one feature: how many there are to be would take three more fits.
    """
    if {"tol", "n_features_to_select"} <= METHODS[name].make().get_params().keys():
        given["n_features_to_select"] = 1
    return fitted(name, X, **given).feature_scores_


def same_scores(one, other, tol=1e-4):
    np.testing.assert_allclose(one, other, atol=tol * max(one.max(), 1e-300))


@each_method
@given(seed=seeds)
@few
def test_permuting_features_permutes_scores(name, seed):
    X = data(seed)
    order = np.random.default_rng(seed).permutation(X.shape[1])
    same_scores(scores_of(name, X)[order], scores_of(name, X[:, order]))


@each_method
@given(seed=seeds)
@few
def test_permuting_samples_changes_nothing(name, seed):
    X = data(seed)
    order = np.random.default_rng(seed).permutation(X.shape[0])
    same_scores(scores_of(name, X), scores_of(name, X[order]))


@each_method
@given(seed=seeds, shift=st.floats(-1e3, 1e3))
@few
def test_shifting_changes_nothing(name, seed, shift):
    X = data(seed)
    same_scores(scores_of(name, X), scores_of(name, X + shift))


@each_method
@given(seed=seeds, scale=st.sampled_from([1e-100, 1e-8, 3.0, 1e8, 1e100]))
@few
def test_scaling_changes_nothing(name, seed, scale):
    X = data(seed)
    same_scores(scores_of(name, X), scores_of(name, scale * X))


@pytest.mark.parametrize("name", [m.name for m in METHODS.values() if m.uses == "moments"])
@given(seed=seeds)
@few
def test_duplicated_samples_change_nothing(name, seed):
    # The penalty of the pursuit, 1/√max(n, p), follows the number of samples only where n ≥ p.
    X = data(seed, n=20) if name == "robust-pca" else data(seed)
    twice = np.vstack([X, X])
    # Twice as many samples are more evidence: what is noise, and with it "auto", changes.
    given = {"eta": 0.03} if "eta" in METHODS[name].make().get_params() else {}
    given |= {"target": "reconstruction"} if name == "greedy" else {}
    same_scores(scores_of(name, X, **given), scores_of(name, twice, **given))


@each_method
@given(seed=seeds)
@few
def test_constant_features_score_zero_and_last(name, seed):
    X = data(seed, p=6)
    X[:, 2] = 7.0
    estimator = fitted(name, X)
    assert estimator.feature_scores_[2] == 0
    assert estimator.ranking_[2] == 6
    assert not estimator.get_support()[2]


@each_method
@given(seed=seeds)
@few
def test_duplicated_features_score_alike(name, seed):
    X = data(seed, n=20, p=6)
    scores = scores_of(name, np.column_stack([X, X[:, 0]]))
    same_scores(scores[[0]], scores[[6]])


@each_method
@pytest.mark.parametrize(("n", "p"), [(2, 1), (2, 5), (30, 1), (5, 40), (3, 3)])
def test_extreme_shapes(name, n, p):
    estimator = fitted(name, data(0, n=n, p=p))
    assert np.all(np.isfinite(estimator.feature_scores_))
    assert estimator.feature_scores_.shape == (p,)
    assert sorted(estimator.ranking_) == list(range(1, p + 1))


@each_method
def test_x_is_not_modified_and_results_repeat(name):
    X = data(1, n=30, p=8)
    before = X.copy()
    estimator = METHODS[name].make()
    first = estimator.fit(X).feature_scores_
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(clone(estimator).fit(X).feature_scores_, first)


def test_fitted_attributes(estimator):
    estimator.fit(data(0, n=30, p=8))
    for attribute in ("feature_scores_", "ranking_", "n_iter_", "converged_", "history_"):
        assert hasattr(estimator, attribute)
    assert len(estimator.history_) == estimator.n_iter_
    assert np.isfinite(estimator.objective_)


@pytest.mark.parametrize(
    "name", [name for name, method in METHODS.items() if method.kind == "selector"]
)
def test_selectors_keep_a_set_and_know_its_worth(name):
    X = data(3, n=40, p=12)
    selector = METHODS[name].make().set_params(n_features_to_select="r2>=0.9").fit(X)
    kept = np.argsort(selector.ranking_)[: selector.support_.sum()]
    np.testing.assert_array_equal(np.sort(kept), np.flatnonzero(selector.support_))
    basis = np.linalg.qr((X - X.mean(axis=0))[:, kept])[0]
    explained = np.cumsum(((basis.T @ (X - X.mean(axis=0))) ** 2).sum(axis=1))
    np.testing.assert_allclose(
        selector.selection_curve_, explained / ((X - X.mean(axis=0)) ** 2).sum()
    )
    assert selector.selection_curve_[-1] >= 0.9
    assert kept.size == 1 or selector.selection_curve_[-2] < 0.9
    report = selector.selection_report_
    assert report.r2 == pytest.approx(selector.selection_curve_[-1])
    assert report.stand_ins.dropped.size == 12 - kept.size


def test_registry_describes_every_method():
    for name, method in METHODS.items():
        assert name == method.name == name.lower()
        assert method.kind in ("selector", "components")
        assert method.uses in ("moments", "graph")
        assert method.summary.endswith(".")
        assert method.when.endswith(".")
        assert method.source
