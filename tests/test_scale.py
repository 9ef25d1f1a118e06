"""Columns of different units: scaled as the command line does, or remarked on."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.decomposition import PCA
from sklearn.preprocessing import RobustScaler, StandardScaler

from jointsparse import SPCA, GreedySelector, Moments, SelectFeatures, open_source, registry

METHODS = registry.methods()
SELECTORS = [name for name, method in METHODS.items() if method.kind == "selector"]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 8)) + 3
X[:, :4] += 2 * RNG.standard_normal((60, 1))
UNEQUAL = X * 10.0 ** np.arange(-2, 6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scale", ["standard", "robust"])
@pytest.mark.parametrize("name", SELECTORS)
def test_scale_is_what_the_scaler_does(name, scale):
    scaler = StandardScaler() if scale == "standard" else RobustScaler()
    found = METHODS[name].make(scale=scale).fit(UNEQUAL)
    other = METHODS[name].make().fit(scaler.fit_transform(UNEQUAL))
    np.testing.assert_allclose(found.feature_scores_, other.feature_scores_, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found.get_support(), other.get_support())
    kept = found.transform(UNEQUAL)
    np.testing.assert_array_equal(kept, UNEQUAL[:, found.get_support()])  # as they came
    assert found.selection_report(UNEQUAL).verdict == found.selection_report_.verdict


@pytest.mark.parametrize("inner", [SPCA(n_components=2), PCA(n_components=2)])
def test_wrapped_methods_are_scaled_too(inner):
    found = SelectFeatures(inner, n_features_to_select=3, scale="standard").fit(UNEQUAL)
    scaled = StandardScaler().fit_transform(UNEQUAL)
    other = SelectFeatures(inner, n_features_to_select=3).fit(scaled)
    np.testing.assert_array_equal(found.get_support(), other.get_support())


def test_moments_files_and_sparse_samples_are_scaled(tmp_path):
    np.save(tmp_path / "x.npy", UNEQUAL)
    wanted = GreedySelector(n_features_to_select=3).fit(StandardScaler().fit_transform(UNEQUAL))
    for given in (open_source(tmp_path / "x.npy"), sp.csr_array(UNEQUAL)):
        found = GreedySelector(n_features_to_select=3, scale="standard").fit(given)
        np.testing.assert_array_equal(found.get_support(), wanted.get_support())
    moments = Moments.from_source(open_source(tmp_path / "x.npy"))
    found = GreedySelector(n_features_to_select=3, scale="standard").fit_moments(moments)
    np.testing.assert_array_equal(found.get_support(), wanted.get_support())


def test_what_quartiles_need_is_said(tmp_path):
    np.save(tmp_path / "x.npy", UNEQUAL)
    robust = GreedySelector(scale="robust")
    for given, words in (
        (open_source(tmp_path / "x.npy"), "is read in blocks; use scale='standard'"),
        (sp.csr_array(UNEQUAL), "needs dense samples"),
    ):
        with pytest.raises(ValueError, match=words):
            robust.fit(given)
    with pytest.raises(ValueError, match="needs the samples themselves"):
        robust.fit_moments(Moments.from_scatter(np.eye(4), 20))
    with pytest.raises(ValueError, match="scale='unit' is not one of None, 'standard', 'robust'"):
        GreedySelector(scale="unit").fit(X)


def test_columns_that_differ_by_a_thousand_are_remarked_on():
    data = load_breast_cancer(as_frame=True).data
    with pytest.warns(UserWarning, match="'worst area' varies .* scale='standard'"):
        GreedySelector(n_features_to_select=2).fit(data)
    with pytest.warns(UserWarning, match="the columns differ in scale"):
        SelectFeatures(SPCA(n_components=2), n_features_to_select=2).fit(data)


def test_the_remark_is_rare():
    data = load_breast_cancer().data
    quiet = [
        lambda: GreedySelector(n_features_to_select=2).fit(X),
        lambda: GreedySelector(n_features_to_select=2).fit(load_iris().data),
        lambda: GreedySelector(n_features_to_select=2, scale="standard").fit(data),
    ]
    for fit in quiet:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit()
