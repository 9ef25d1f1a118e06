import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import group_lasso_optimum
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import MultiTaskLasso
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from jointsparse import FSSL, Moments, regularization_path
from jointsparse.metrics import explained_variance
from jointsparse.solvers.regression.subspace_norms import norm_of

IRIS, BREAST = load_iris(), load_breast_cancer()
X, NAMES = StandardScaler().fit_transform(BREAST.data), BREAST.target_names[BREAST.target]
DIGITS, DIGIT = (array[:60] for array in load_digits(return_X_y=True))  # constant pixels, 60 < 64


@pytest.mark.slow  # the conformance tests run them with the defaults
@parametrize_with_checks(
    [
        FSSL(graph="pca", norm="l11"),
        FSSL(graph="lpp", norm="fro"),
        FSSL(solver="reweighted", max_iter=20, tol=0),
        FSSL(constraint="equality"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # no solution of XA = Y
        check(estimator)


@pytest.mark.parametrize("mu", [3, 30])
@pytest.mark.parametrize(("data", "labels"), [(DIGITS, DIGIT), (X[:, :12], NAMES)])
def test_lda_is_the_multi_task_lasso_on_class_targets(data, labels, mu):
    model = FSSL(graph="lda", mu=mu).fit(data, labels)
    centred = data - data.mean(axis=0)
    Y = model.targets_
    assert Y.shape == (len(data), np.unique(labels).size - 1)
    np.testing.assert_allclose(Y.T @ Y, np.eye(Y.shape[1]), atol=1e-12)
    largest = np.linalg.norm(centred.T @ Y, axis=1).max()
    assert model.mu_min_ == pytest.approx(1 / (2 * largest))
    assert model.mu_ == pytest.approx(mu * model.mu_min_)
    rival = MultiTaskLasso(
        1 / (2 * len(data) * model.mu_), fit_intercept=False, tol=1e-12, max_iter=100_000
    )
    A = rival.fit(centred, Y).coef_.T
    np.testing.assert_allclose(model.coefficients_, A, atol=1e-6 * np.abs(A).max())
    np.testing.assert_array_equal(model.get_support(), A.any(axis=1))
    best, _ = group_lasso_optimum(centred, Y, 1 / model.mu_)
    assert model.objective_ == pytest.approx(model.mu_ * best, rel=1e-6)
    assert model.duality_gap_ <= 1e-6


@pytest.mark.parametrize("graph", ["lda", "lpp", "pca"])
@pytest.mark.parametrize("norm", ["l21", "l11", "fro"])
@pytest.mark.parametrize("constraint", ["penalised", "equality"])
@pytest.mark.parametrize("scale", [300.0])
def test_everything_is_in_the_units_of_the_data(graph, norm, constraint, scale):
    data = scale * DIGITS[:20]
    model = FSSL(graph=graph, norm=norm, constraint=constraint, mu=5).fit(data, DIGIT[:20])
    centred = data - data.mean(axis=0)
    A, Y = model.coefficients_, model.targets_
    np.testing.assert_array_equal(model.components_, A.T)
    np.testing.assert_allclose(model.transform(data), centred @ A, atol=1e-10)
    missed = np.linalg.norm(centred @ A - Y)
    assert model.residual_ == pytest.approx(missed / np.linalg.norm(Y), rel=1e-8, abs=1e-12)
    value = norm_of(A, norm)
    if constraint == "equality":
        assert model.residual_ < 1e-10
    else:
        value += model.mu_ * missed**2
        again = FSSL(graph=graph, norm=norm, mu=model.mu_, penalty_scale="absolute")
        again.fit(data, DIGIT[:20])
        np.testing.assert_allclose(again.coefficients_, A, atol=1e-6 * np.abs(A).max())
    assert model.objective_ == pytest.approx(value, rel=1e-9)
    assert model.duality_gap_ <= 1e-6
    expected = np.linalg.norm(A, axis=1) / np.linalg.norm(A)
    np.testing.assert_allclose(model.feature_scores_, expected)
    ratio = explained_variance(data, model.components_)
    np.testing.assert_allclose(model.explained_variance_ratio_, ratio, atol=1e-10)
    constant = data.std(axis=0) == 0
    assert constant.any()
    assert not model.get_support()[constant].any()
    if norm != "fro":
        assert model.get_support().sum() < (~constant).sum()


def test_two_classes_of_strings_give_one_component():
    model = FSSL(mu=5).fit(X, NAMES)
    assert model.graph_ == "lda"
    assert model.components_.shape == (1, 30)
    first = model.targets_[NAMES == "benign"]
    np.testing.assert_allclose(first, first.mean())
    numbers = FSSL(mu=5).fit(X, BREAST.target.astype(float))
    np.testing.assert_allclose(numbers.coefficients_, model.coefficients_)


def test_auto_is_lpp_without_classes():
    for y in (None, IRIS.data[:, 0], np.zeros(150)):
        assert FSSL().fit(IRIS.data, y).graph_ == "lpp"
    with_y = FSSL(graph="lpp").fit(IRIS.data, IRIS.target)
    np.testing.assert_array_equal(with_y.coefficients_, FSSL().fit(IRIS.data).coefficients_)


def test_lpp_tells_disconnected_clusters_apart():
    rng = np.random.default_rng(0)
    data = rng.standard_normal((90, 10))
    cluster = np.repeat([0, 1, 2], 30)
    data[:, 4] += 40 * (cluster == 1)
    data[:, 7] += 60 * (cluster == 2)
    model = FSSL(graph="lpp", mu=3).fit(data)
    np.testing.assert_array_equal(np.flatnonzero(model.get_support()), [4, 7])
    scores = model.transform(data)
    assert KNeighborsClassifier(1).fit(scores[::2], cluster[::2]).score(scores, cluster) == 1


def test_pca_graph_tends_to_the_principal_components():
    model = FSSL(graph="pca", n_components=3, mu=1e6).fit(X)
    vectors = np.linalg.svd(X - X.mean(axis=0))[2][:3]
    cosines = np.abs(np.sum(model.components_ * vectors, axis=1))
    np.testing.assert_allclose(cosines, 1, atol=1e-4)
    assert 0 < FSSL(graph="pca", mu=3).fit(X).get_support().sum() < 30


def test_other_classes_of_the_same_moments_give_other_targets():
    moments = Moments.from_data(X)
    other = np.roll(NAMES, 7)
    expected = FSSL(graph="lda", mu=4).fit(X, other)
    FSSL(graph="lda", mu=4).fit_moments(moments, NAMES)
    model = FSSL(graph="lda", mu=4).fit_moments(moments, other)
    np.testing.assert_array_equal(model.targets_, expected.targets_)
    np.testing.assert_array_equal(model.coefficients_, expected.coefficients_)
    # Classes belong to the call they were given in.
    assert FSSL().fit_moments(moments).graph_ == "lpp"
    with pytest.raises(ValueError, match="needs the classes"):
        FSSL(graph="lda").fit_moments(moments)
    # Those that came with the samples stay with their moments, and can be replaced.
    labelled = FSSL().moments_of(X, NAMES)
    assert FSSL(mu=4).fit_moments(labelled).graph_ == "lda"
    again = FSSL(mu=4).fit_moments(labelled, other)
    np.testing.assert_array_equal(again.targets_, expected.targets_)
    scatter = Moments.from_scatter(X.T @ X, n_samples=len(X))
    with pytest.raises(ValueError, match="needs the samples themselves"):
        FSSL(graph="lda").fit_moments(scatter, NAMES)


def test_moments_with_other_classes_do_not_share_what_is_added_later():
    moments = Moments.from_data(X[:200])
    labelled = moments.with_labels(NAMES[:200])
    moments.partial_fit(X[200:])
    first = FSSL(graph="lda").fit_moments(labelled)
    assert moments.labels is None
    FSSL(graph="pca").fit_moments(moments)
    np.testing.assert_array_equal(first.mean_, X[:200].mean(axis=0))
    whole = FSSL(graph="pca").fit(X)
    model = FSSL(graph="pca").fit_moments(moments)
    np.testing.assert_allclose(model.objective_, whole.objective_)


def test_a_path_of_moments_heeds_the_classes():
    path = regularization_path(FSSL(), Moments.from_data(X), NAMES, alphas=[0.5, 0.1])
    same = regularization_path(FSSL(), X, NAMES, alphas=[0.5, 0.1])
    np.testing.assert_array_equal(path.feature_scores, same.feature_scores)


def test_moments_are_enough_for_the_pca_graph_only():
    moments = Moments.from_scatter(X.T @ X, n_samples=len(X))
    model = FSSL(graph="pca", mu=4).fit_moments(moments)
    whole = FSSL(graph="pca", mu=4).fit(X)
    np.testing.assert_allclose(model.coefficients_, whole.coefficients_, atol=1e-8)
    assert model.residual_ == pytest.approx(whole.residual_, rel=1e-6)
    assert not hasattr(model, "targets_")
    with pytest.raises(ValueError, match="needs the samples themselves"):
        FSSL().fit_moments(moments)
    with pytest.raises(ValueError, match=r"needs the classes of the samples: fit\(X, y\)"):
        FSSL(graph="lda").fit_moments(moments)
    from_data = FSSL(graph="lpp").fit_moments(Moments.from_data(X))
    np.testing.assert_allclose(from_data.coefficients_, FSSL(graph="lpp").fit(X).coefficients_)


def test_single_precision_is_as_good_where_the_constraint_is_exact():
    single = FSSL(constraint="equality").fit(DIGITS[:20].astype(np.float32), DIGIT[:20])
    double = FSSL(constraint="equality").fit(DIGITS[:20], DIGIT[:20])
    assert single.residual_ < 1e-5
    np.testing.assert_array_equal(single.get_support(), double.get_support())


def test_equality_without_solution_says_so():
    with pytest.warns(UserWarning, match=r"XA = Y has no solution: \d+\.\d% of the targets"):
        model = FSSL(constraint="equality").fit(IRIS.data, IRIS.target)
    expected = np.linalg.lstsq(IRIS.data - IRIS.data.mean(axis=0), model.targets_, rcond=None)[0]
    np.testing.assert_allclose(model.coefficients_, expected, atol=1e-8)


def test_the_source_s_algorithm_comes_close_but_has_no_zeros():
    exact = FSSL(mu=10).fit(DIGITS, DIGIT)
    source = FSSL(mu=10, solver="reweighted", tol=1e-7, max_iter=5000).fit(DIGITS, DIGIT)
    assert source.objective_ == pytest.approx(exact.objective_, rel=1e-5)
    assert np.all(np.diff(source.history_) <= 1e-9 * source.objective_)
    assert source.get_support().sum() > exact.get_support().sum()
    assert not hasattr(source, "duality_gap_")
    with pytest.warns(ConvergenceWarning, match="relative change of A"):
        FSSL(solver="reweighted", max_iter=3).fit(DIGITS, DIGIT)


def test_more_mu_keeps_more_features():
    counts = [FSSL(mu=mu).fit(X, NAMES).get_support().sum() for mu in (1.01, 3, 10, 100)]
    assert counts[0] == 1
    assert counts == sorted(counts)
    with pytest.warns(UserWarning, match="every coefficient is zero; raise mu above"):
        FSSL(mu=1e-6, penalty_scale="absolute").fit(X, NAMES)


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({"graph": "lda"}, None, "fit\\(X, y\\)"),
        ({"graph": "lda"}, IRIS.data[:, 0], "y is continuous"),
        ({"graph": "lda"}, np.full(150, np.nan), "y has missing values"),
        ({"graph": "lda"}, np.zeros(150), "one class"),
        ({"graph": "lda"}, np.zeros(149), "inconsistent numbers of samples"),
        ({"graph": "umap"}, None, "graph='umap' is not one of"),
        ({"mu": 0.5}, None, "mu=0.5 gives A = 0"),
        ({"mu": "large"}, None, "mu='large' is neither"),
        ({"mu": -1, "penalty_scale": "absolute"}, None, "mu=-1 is neither"),
        ({"n_components": 0}, None, "n_components=0 is not"),
        ({"n_neighbors": 0}, None, "n_neighbors=0 is not"),
        ({"tol": 0}, None, "tol=0 is not"),
    ],
)
def test_wrong_parameters_are_named(parameters, y, message):
    with pytest.raises(ValueError, match=message):
        FSSL(**parameters).fit(IRIS.data, y)


def test_targets_out_of_reach_are_an_error():
    data = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    with pytest.raises(ValueError, match="no feature varies with the targets of graph='lda'"):
        FSSL().fit(data, ["a", "a", "b", "b"])


def test_more_components_than_targets_is_told():
    with pytest.warns(UserWarning, match="only 2 targets"):
        model = FSSL(n_components=5).fit(IRIS.data, IRIS.target)
    assert model.n_components_ == 2
    assert FSSL(n_components=1).fit(IRIS.data, IRIS.target).n_components_ == 1


def test_in_a_grid_search_with_data_frames():
    frame = pd.DataFrame(IRIS.data, columns=IRIS.feature_names)
    search = GridSearchCV(
        make_pipeline(FSSL(graph="lda"), KNeighborsClassifier(1)), {"fssl__mu": [2, 20]}, cv=3
    ).fit(frame, IRIS.target_names[IRIS.target])
    assert search.best_score_ > 0.9
    out = FSSL().set_output(transform="pandas").fit_transform(frame, IRIS.target)
    assert list(out.columns) == ["fssl0", "fssl1"]


def test_few_pixels_tell_digits_apart():
    if "JOINTSPARSE_DATA" not in os.environ:
        pytest.skip("JOINTSPARSE_DATA does not name the folder with the datasets")
    data = np.load(Path(os.environ["JOINTSPARSE_DATA"]) / "mnist.npz", allow_pickle=False)
    kept = np.isin(data["y"], (1, 9))
    pixels, digit = data["X"][kept] / 255.0, data["y"][kept]
    results, used = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        train = np.zeros(digit.size, dtype=bool)
        for label in (1, 9):
            train[rng.choice(np.flatnonzero(digit == label), 30, replace=False)] = True
        model = FSSL(graph="lda", mu=20, penalty_scale="absolute").fit(pixels[train], digit[train])
        scores = model.transform(pixels)
        nearest = KNeighborsClassifier(1).fit(scores[train], digit[train])
        results.append(nearest.score(scores[~train], digit[~train]))
        used.append(model.get_support().sum())
    # Published with a dense solution: .985; the sparse optimum: .973 with 39 of 784 pixels.
    assert np.mean(results) == pytest.approx(0.973, abs=0.015)
    assert np.mean(used) == pytest.approx(39, abs=4)


VARIANTS = [
    {"constraint": "equality"},
    {"constraint": "equality", "norm": "l11"},
    {"norm": "l11"},
    {"norm": "fro"},
    {"graph": "pca"},
    {"weights": "heat"},
    {"weights": "cosine", "n_components": 3},
    {"solver": "reweighted", "max_iter": 30},
]


@pytest.mark.parametrize("supervised", [True, False])
@pytest.mark.parametrize("parameters", VARIANTS, ids=str)
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([1e-100, 1.0, 1e100]))
@settings(max_examples=4, deadline=None)
@pytest.mark.filterwarnings("ignore")
def test_order_scale_and_copies_of_features_do_not_matter(parameters, supervised, seed, scale):
    rng = np.random.default_rng(seed)
    n, p = rng.integers(4, 15), rng.integers(2, 25)
    data = rng.standard_normal((n, 2)) @ rng.standard_normal((2, p))
    data += 0.5 * rng.standard_normal((n, p))
    data = np.column_stack([data, np.ones(n), data[:, 0]])
    y = rng.permutation(np.arange(n) % 3) if supervised else None
    scores = FSSL(**parameters).fit(data, y).feature_scores_
    features, samples = rng.permutation(p + 2), rng.permutation(n)
    moved = scale * data[np.ix_(samples, features)] + scale
    again = FSSL(**parameters).fit(moved, None if y is None else y[samples]).feature_scores_
    np.testing.assert_allclose(again, scores[features], atol=1e-5)
    assert scores[p] == 0
    assert scores[0] == pytest.approx(scores[p + 1], abs=1e-9)


def test_columns_of_a_kernel_matrix_are_landmarks():
    samples, y = make_moons(400, noise=0.1, random_state=0)
    candidates = samples[::2]
    model = FSSL(graph="lda").fit(rbf_kernel(samples, candidates, gamma=2), y)
    assert 2 <= model.get_support().sum() <= 20
    new, truth = make_moons(1000, noise=0.1, random_state=1)
    scores = model.transform(rbf_kernel(new, candidates, gamma=2))[:, 0]
    linear = FSSL(graph="lda").fit(samples, y).transform(new)[:, 0]
    assert max(np.mean((scores > 0) == truth), np.mean((scores < 0) == truth)) > 0.97
    assert max(np.mean((linear > 0) == truth), np.mean((linear < 0) == truth)) < 0.92


@pytest.mark.parametrize("size", [1e-40, 1e36])
def test_loadings_that_single_precision_cannot_hold_are_kept_in_double(size):
    """They are the inverse of the data, and were infinite for float32 samples of 1e-40."""
    rng = np.random.default_rng(0)
    X = (size * rng.standard_normal((40, 3)) @ rng.standard_normal((3, 8))).astype(np.float32)
    found = FSSL(mu=10.0, n_components=2, norm="l11").fit(X)
    twin = FSSL(mu=10.0, n_components=2, norm="l11").fit(X.astype(np.float64))
    np.testing.assert_allclose(found.feature_scores_, twin.feature_scores_, atol=1e-5)
    assert np.all(np.isfinite(found.components_))
    assert np.all(np.isfinite(found.reconstruction_))
    scores = found.transform(X)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(
        scores, twin.transform(X.astype(np.float64)), atol=1e-4 * np.abs(scores).max()
    )


@pytest.mark.parametrize("form", [np.asarray, sp.csc_array])
def test_an_outlier_does_not_hide_single_precision_samples(form):
    # The mean of such samples is none of single precision: centred in it, they are off by 6e-8 of
    # the outlier, which exact constraints would be fitted to.
    rng = np.random.default_rng(2)
    data = rng.standard_normal((14, 4)) @ rng.standard_normal((4, 40))
    data[3] *= 1e6
    data = data.astype(np.float32)
    y = np.arange(14) % 3
    model = FSSL(constraint="equality", graph="lda", norm="l11")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the classes are no linear functions of 4 directions
        double = clone(model).fit(data.astype(np.float64), y)
        single = clone(model).fit(form(data), y)
    assert single.objective_ == pytest.approx(double.objective_, rel=1e-6)
    np.testing.assert_allclose(single.feature_scores_, double.feature_scores_, atol=1e-5)


def test_sparse_columns_with_a_mean_far_from_zero_keep_their_digits():
    # Divided before they are centred, 1e12 would leave them nine digits, and the equality six.
    rng = np.random.default_rng(3)
    X = rng.standard_normal((15, 4)) @ rng.standard_normal((4, 16))
    X = (X + 0.01 * rng.standard_normal(X.shape)) * np.logspace(0, 5, 16) + np.logspace(6, 13, 16)
    model = FSSL(graph="pca", constraint="equality", n_components=2)
    dense, sparse = (model.fit(data).feature_scores_.copy() for data in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse, dense, atol=1e-9)
