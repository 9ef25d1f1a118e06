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

from jointsparse import Moments
from jointsparse.datasets import load_pitprops
from jointsparse.methods.spca import SPCA
from jointsparse.metrics import explained_variance

FRAME = load_breast_cancer(as_frame=True).data
X = StandardScaler().fit_transform(FRAME)

PUBLISHED_PENALTIES = (0.06, 0.16, 0.1, 0.5, 0.5, 0.5)


@pytest.fixture(scope="module")
def pitprops():
    correlation, names, n_samples = load_pitprops()
    return Moments.from_scatter(correlation, n_samples, feature_names=names)


def published(pitprops, **parameters):
    model = SPCA(n_components=6, ridge=0, tol=1e-8, **parameters)
    return model.fit_moments(pitprops)


@pytest.mark.slow  # the conformance tests run them with the defaults
@parametrize_with_checks(
    [SPCA(), SPCA(n_nonzero=1), SPCA(ridge="inf", n_components=1), SPCA(alpha=0.01, ridge=0.1)]
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # rank, counts; also ConvergenceWarning
        check(estimator)


def test_pitprops_table(pitprops):
    eigenvalues = np.linalg.eigvalsh(pitprops.scatter)[::-1]
    known = [32.4, 18.3, 14.4, 8.5, 7.0, 6.3]
    np.testing.assert_allclose(100 * eigenvalues[:6] / 13, known, atol=0.06)


def test_pitprops_as_published(pitprops):
    model = published(pitprops, alpha=PUBLISHED_PENALTIES, penalty_scale="absolute")
    assert model.converged_
    assert np.count_nonzero(model.components_, axis=1).tolist() == [7, 4, 4, 1, 1, 1]
    adjusted = 100 * explained_variance(pitprops, model.components_, kind="adjusted")
    np.testing.assert_allclose(adjusted, [28.0, 14.0, 13.3, 7.4, 6.8, 6.2], atol=0.1)
    assert np.all(np.diff(model.history_) <= 1e-12)
    np.testing.assert_allclose(model.alpha_, PUBLISHED_PENALTIES)
    first = model.components_[0][[0, 1, 4, 6, 7, 8, 9]]
    np.testing.assert_allclose(first, [0.477, 0.476, -0.177, 0.25, 0.344, 0.416, 0.4], atol=0.007)


def test_pitprops_by_counts(pitprops):
    by_penalty = published(pitprops, alpha=PUBLISHED_PENALTIES, penalty_scale="absolute")
    by_count = published(pitprops, n_nonzero=[7, 4, 4, 1, 1, 1])
    assert np.count_nonzero(by_count.components_, axis=1).tolist() == [7, 4, 4, 1, 1, 1]
    # Other features than the published ones; what the search finds explains as much.
    ours, theirs = (
        explained_variance(pitprops, model.components_).sum() for model in (by_count, by_penalty)
    )
    assert ours > theirs - 5e-4
    assert not by_count.alpha_.any()


@pytest.mark.parametrize("ridge", [0, 1e-3, 10.0, "inf"])
@pytest.mark.parametrize("data", [X, X[:20]], ids=["tall", "wide"])
def test_without_penalty_it_is_pca(ridge, data):
    model = SPCA(n_components=3, alpha=0, ridge=ridge, tol=1e-12, max_iter=100_000).fit(data)
    pca = PCA(3).fit(data)
    cosines = np.abs(np.sum(model.components_ * pca.components_, axis=1))
    assert np.all(1 - cosines < 1e-10)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_)
    np.testing.assert_allclose(np.abs(model.transform(data)), np.abs(pca.transform(data)))
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(data)),
        pca.inverse_transform(pca.transform(data)),
        atol=1e-8,
    )


@pytest.mark.parametrize(
    "parameters", [{}, {"n_nonzero": 6}, {"ridge": 1e-3}, {"ridge": 0.1, "n_nonzero": [5, 9]}]
)
def test_samples_and_scatter_give_the_same(parameters):
    data = X[:15]
    one = SPCA(max_iter=30, **parameters)
    other = SPCA(max_iter=30, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one.fit(data)
        other.fit_moments(Moments.from_scatter(Moments.from_data(data).scatter, n_samples=15))
    np.testing.assert_allclose(one.components_, other.components_, atol=1e-10)
    np.testing.assert_allclose(one.feature_scores_, other.feature_scores_, atol=1e-10)


@pytest.mark.parametrize("parameters", [{}, {"n_nonzero": 20}, {"ridge": 0.01, "n_nonzero": 20}])
def test_wide_data_form_nothing_p_by_p(parameters):
    rng = np.random.default_rng(0)
    data = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 3000))
    data += rng.standard_normal((50, 3000))
    tracemalloc.start()
    model = SPCA(tol=1e-3, **parameters).fit(data)
    model.transform(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * 3000**2 * 8
    if parameters:
        assert np.count_nonzero(model.components_, axis=1).tolist() == [20, 20]


@pytest.mark.parametrize("ridge", ["auto", "inf"])
@pytest.mark.parametrize("wanted", [1, 5, 30])
def test_counts_are_exact(wanted, ridge):
    model = SPCA(n_components=3, n_nonzero=wanted, ridge=ridge).fit(X)
    assert np.count_nonzero(model.components_, axis=1).tolist() == [wanted] * 3


def test_fitted_attributes():
    model = SPCA(n_components=4, alpha=0.3).fit(X)
    assert model.converged_
    assert model.n_iter_ == len(model.history_)
    assert np.all(np.diff(model.history_) <= 1e-9)
    assert np.all(np.diff(model.explained_variance_ratio_) <= 0)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, explained_variance(X, model.components_)
    )
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)
    peaks = np.argmax(np.abs(model.components_), axis=1)
    assert np.all(model.components_[np.arange(4), peaks] > 0)
    assert sorted(model.ranking_) == list(range(1, 31))
    np.testing.assert_array_equal(model.get_support(), np.any(model.components_ != 0, axis=0))
    np.testing.assert_array_equal(
        model.get_support(indices=True), np.flatnonzero(model.get_support())
    )


def test_scores_do_not_depend_on_the_batch():
    model = SPCA().fit(X)
    alone = np.vstack([model.transform(row[None]) for row in X[:20]])
    np.testing.assert_allclose(alone, model.transform(X)[:20], atol=1e-12)


def test_way_back_and_score_are_least_squares():
    model = SPCA(n_components=3).fit(X)
    back = model.inverse_transform(model.transform(X))
    share = 1 - np.sum((X - back) ** 2) / np.sum((X - X.mean(axis=0)) ** 2)
    assert model.score(X) == pytest.approx(share)
    assert model.explained_variance_ratio_.sum() == pytest.approx(share)
    assert model.score(np.vstack([model.mean_, model.mean_])) == 1
    assert model.score(sp.csr_array(X)) == pytest.approx(share)
    with pytest.raises(ValueError, match="scores have 2 columns; 3 were expected"):
        model.inverse_transform(np.ones((4, 2)))


def test_cross_validation_chooses():
    grid = GridSearchCV(SPCA(tol=1e-3), {"n_components": [1, 3], "alpha": [0.1, 0.5]}, cv=3)
    assert grid.fit(X).best_params_["n_components"] == 3


def test_frames_sparse_and_float32():
    frame = pd.DataFrame(X, columns=FRAME.columns)
    model = SPCA().set_output(transform="pandas").fit(frame)
    assert list(model.transform(frame).columns) == ["spca0", "spca1"]
    assert list(model.feature_names_in_) == list(FRAME.columns)
    other = SPCA().fit(sp.csr_array(X))
    np.testing.assert_allclose(other.components_, model.components_, atol=1e-8)
    np.testing.assert_allclose(other.transform(sp.csr_array(X)), model.transform(frame), atol=1e-6)
    single = SPCA().fit(X.astype(np.float32))
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    model.fit_moments(Moments.from_data(X))
    assert not hasattr(model, "feature_names_in_")


def test_what_goes_wrong_is_told():
    with pytest.warns(UserWarning, match="component 2 is empty and stays zero; lower alpha"):
        model = SPCA(alpha=(1.0, 1e9), penalty_scale="absolute").fit(X)
    assert not model.components_[1].any()
    assert np.isfinite(model.transform(X)).all()
    with pytest.warns(ConvergenceWarning, match="iteration limit .* Raise max_iter"):
        SPCA(max_iter=1).fit(X)
    with pytest.warns(UserWarning, match="the data have rank 1: no more components"):
        assert SPCA().fit(np.outer(np.arange(5.0), [1, 2, 3])).n_components_ == 1
    with pytest.warns(UserWarning, match=r"not the \[1\] asked for: equal features"):
        SPCA(n_components=1, n_nonzero=1, ridge="inf").fit(np.outer(np.arange(5.0), [1, 2, 2]))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components=0 is not a whole number of at least 1"),
        ({"alpha": -1}, "alpha=-1 is neither"),
        ({"alpha": 1.5}, "alpha=1.5 empties the model"),
        ({"alpha": [0.1]}, "alpha has 1 values for n_components=2"),
        ({"n_nonzero": 31}, "n_nonzero=31 is not a whole number between 1 and"),
        ({"n_nonzero": [2, 2.5]}, "n_nonzero=2.5 is not"),
        ({"ridge": -1}, "ridge=-1 is neither"),
        ({"ridge": "much"}, "ridge='much' is neither"),
        ({"penalty_scale": "big"}, "penalty_scale='big' is not one of"),
        ({"tol": 0}, "tol=0 is not a number between 0 and 1"),
    ],
)
def test_wrong_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        SPCA(**parameters).fit(X)


def test_constant_data_are_refused():
    with pytest.raises(ValueError, match="every feature is constant"):
        SPCA().fit(np.ones((5, 3)))


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.25])
def test_turning_towards_the_axes_first_saves_alternations_and_costs_nothing(alpha, monkeypatch):
    X = load_breast_cancer().data
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    turned = SPCA(n_components=3, alpha=alpha).fit(X)
    monkeypatch.setattr("jointsparse.methods.spca.TURNING", 0.0)
    principal = SPCA(n_components=3, alpha=alpha).fit(X)
    assert turned.objective_ <= principal.objective_ * (1 + 1e-6)
    assert turned.n_iter_ < principal.n_iter_ / 2
