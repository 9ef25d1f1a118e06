import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, SparsePCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from jointsparse import DictionarySPCA, Moments
from jointsparse.metrics import explained_variance

DIGITS = load_digits().data


@pytest.mark.slow  # the conformance tests run them with the defaults
@parametrize_with_checks([DictionarySPCA(n_components=1, alpha=0.5), DictionarySPCA(alpha=0)])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # rank
        check(estimator)


def compare(X, q, share):
    lam = share * np.linalg.norm(X - X.mean(axis=0), axis=0).max()
    theirs = SparsePCA(q, alpha=lam, ridge_alpha=0, method="cd").fit(X)  # the same λ
    ours = DictionarySPCA(n_components=q, alpha=share).fit(X)
    assert ours.alpha_ == pytest.approx(lam)
    assert ours.converged_
    return ours, theirs.error_[-1]


@pytest.mark.parametrize("share", [0.1, 0.17, 0.25])
def test_objective_at_most_that_of_scikit_learn(share):
    ours, theirs = compare(DIGITS, 10, share)
    assert ours.objective_ <= theirs * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.004, 0.02])
def test_objective_at_most_that_of_scikit_learn_where_few_loadings_are_zero(share):
    ours, theirs = compare(DIGITS, 10, share)
    assert ours.objective_ <= theirs * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("share", [pytest.param(0.02, marks=pytest.mark.exhaustive), 0.1, 0.17])
def test_objective_at_most_that_of_scikit_learn_on_faces(benchmark_data, share):
    ours, theirs = compare(benchmark_data("yale"), 10, share)
    assert ours.objective_ <= theirs * (1 + 1e-9)


@pytest.mark.parametrize("data", [DIGITS, DIGITS[:40]], ids=["tall", "wide"])
def test_without_penalty_it_spans_the_principal_components(data):
    model = DictionarySPCA(n_components=4, alpha=0).fit(data)
    pca = PCA(4).fit(data)
    cosines = np.linalg.svd(model.components_ @ pca.components_.T, compute_uv=False)
    assert np.all(1 - cosines < 1e-10)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_)


def test_a_small_penalty_changes_the_span_little():
    model = DictionarySPCA(n_components=4, alpha=1e-6).fit(DIGITS)
    cosines = np.linalg.svd(
        np.linalg.qr(model.components_.T)[0].T @ PCA(4).fit(DIGITS).components_.T,
        compute_uv=False,
    )
    assert np.all(1 - cosines < 1e-6)


@pytest.mark.parametrize("data", [DIGITS, DIGITS[:40]], ids=["tall", "wide"])
def test_samples_and_scatter_give_the_same(data):
    one = DictionarySPCA(n_components=3, tol=1e-12, max_iter=20_000).fit(data)
    scatter = Moments.from_data(data).scatter
    other = DictionarySPCA(n_components=3, tol=1e-12, max_iter=20_000)
    other.fit_moments(Moments.from_scatter(scatter, n_samples=len(data)))
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-10)
    np.testing.assert_allclose(one.components_, other.components_, atol=1e-4)


def test_the_largest_penalty_is_the_one_that_empties_the_model():
    longest = np.linalg.norm(DIGITS - DIGITS.mean(axis=0), axis=0).max()
    below = DictionarySPCA(alpha=0.999 * longest, penalty_scale="absolute", tol=1e-12)
    with pytest.warns(UserWarning, match="1 of 2 components are empty"):
        below.fit(DIGITS)
    assert np.count_nonzero(below.components_) == 1
    above = DictionarySPCA(alpha=1.001 * longest, penalty_scale="absolute")
    with pytest.warns(UserWarning, match="2 of 2 components are empty: .* lower alpha"):
        above.fit(DIGITS)
    assert not above.components_.any()
    total = np.sum((DIGITS - DIGITS.mean(axis=0)) ** 2)
    assert above.objective_ == pytest.approx(total / 2)


def test_penalty_scales_agree():
    total = np.sum((DIGITS - DIGITS.mean(axis=0)) ** 2)
    relative = DictionarySPCA(alpha=0.2).fit(DIGITS)
    for scale, unit in (("absolute", 1.0), ("trace", np.sqrt(total))):
        other = DictionarySPCA(alpha=relative.alpha_ / unit, penalty_scale=scale).fit(DIGITS)
        np.testing.assert_allclose(other.components_, relative.components_, atol=1e-6)


def test_fitted_attributes():
    model = DictionarySPCA(n_components=5).fit(DIGITS)
    assert model.converged_
    assert model.n_iter_ == len(model.history_)
    assert np.all(np.diff(model.history_) <= 1e-9 * model.history_[0])
    assert model.objective_ == model.history_[-1]
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, explained_variance(DIGITS, model.components_)
    )
    np.testing.assert_array_equal(model.get_support(), np.any(model.components_ != 0, axis=0))
    frame = pd.DataFrame(DIGITS, columns=[f"pixel{j}" for j in range(64)])
    named = DictionarySPCA(n_components=5).set_output(transform="pandas").fit(frame)
    assert named.transform(frame).columns[0] == "dictionaryspca0"


def test_wide_data_form_nothing_p_by_p():
    rng = np.random.default_rng(0)
    data = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 3000))
    data += rng.standard_normal((50, 3000))
    tracemalloc.start()
    DictionarySPCA(tol=1e-4).fit(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * 3000**2 * 8


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_objective_counts_what_is_small_beside_the_rest(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    X[:, :2] *= 2e6
    model = DictionarySPCA(n_components=2, alpha=1e-13, penalty_scale="relative").fit(X)
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    least = np.sum(values[2:] ** 2) / 2  # what no two components reproduce
    assert least * (1 - 1e-6) <= model.objective_ <= 1.1 * least


def test_what_goes_wrong_is_told():
    with pytest.warns(ConvergenceWarning, match="iteration limit .* Raise max_iter"):
        DictionarySPCA(max_iter=1).fit(DIGITS)
    with pytest.warns(UserWarning, match="the data have rank 1: no more components"):
        assert DictionarySPCA().fit(np.outer(np.arange(5.0), [1, 2, 3])).n_components_ == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components=0 is not a whole number of at least 1"),
        ({"alpha": -1}, "alpha=-1 is neither"),
        ({"alpha": 1.5}, "alpha=1.5 empties the model"),
        ({"penalty_scale": "big"}, "penalty_scale='big' is not one of"),
        ({"tol": 0}, "tol=0 is not a number between 0 and 1"),
        ({"max_iter": 0}, "max_iter=0 is not a whole number"),
    ],
)
def test_wrong_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        DictionarySPCA(**parameters).fit(DIGITS)
