import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from oracles import greedy_by_refit
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA, SparsePCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from jointsparse import SPCA, SPCAPSD, SelectFeatures
from jointsparse.methods.bases import choosing
from jointsparse.selection import choosing as selection

DATA = load_breast_cancer(as_frame=True)
X = StandardScaler().fit_transform(DATA.data)


@parametrize_with_checks([SelectFeatures(PCA(n_components=1), n_features_to_select=1)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_it_explains_the_component_scores(monkeypatch):
    monkeypatch.setattr(choosing, "NOISE_WEIGHT", 0.0)
    monkeypatch.setattr(selection, "NEAR", 0.0)
    selector = SelectFeatures(PCA(3), n_features_to_select=5).fit(X)
    picks, _ = greedy_by_refit(X, PCA(3).fit(X).components_, 5)
    assert np.argsort(selector.ranking_)[:5].tolist() == picks
    assert selector.support_.sum() == 5
    np.testing.assert_allclose(
        selector.feature_scores_, np.linalg.norm(selector.estimator_.components_, axis=0)
    )
    np.testing.assert_array_equal(selector.transform(X), X[:, selector.support_])


def test_the_rule_norm_takes_the_longest_loadings():
    selector = SelectFeatures(SPCA(n_components=3), n_features_to_select=6, rule="norm").fit(X)
    scores = SPCA(n_components=3).fit(X).feature_scores_
    assert set(np.flatnonzero(selector.support_)) == set(np.argsort(-scores)[:6])


def test_support_is_what_has_a_loading():
    model = SPCA(n_components=2, n_nonzero=3)
    selector = SelectFeatures(model, n_features_to_select="support").fit(X)
    np.testing.assert_array_equal(selector.support_, model.fit(X).get_support())


def test_a_pipeline_as_the_method_and_around_it():
    outside = make_pipeline(StandardScaler(), SelectFeatures(PCA(3), n_features_to_select=5))
    inside = SelectFeatures(make_pipeline(StandardScaler(), PCA(3)), n_features_to_select=5)
    raw = DATA.data.to_numpy()
    expected = outside.fit(raw)[-1]
    inside.fit(raw)
    np.testing.assert_array_equal(inside.ranking_, expected.ranking_)
    np.testing.assert_array_equal(inside.transform(raw), raw[:, expected.support_])
    assert inside.selection_report(raw).r2 == pytest.approx(expected.selection_report_.r2)
    alone = SelectFeatures(make_pipeline(PCA(3)), n_features_to_select=5).fit(X)
    np.testing.assert_array_equal(alone.support_, expected.support_)


def test_names_and_output():
    frame = pd.DataFrame(X, columns=DATA.data.columns)
    selector = SelectFeatures(SPCA(), n_features_to_select=4).set_output(transform="pandas")
    names = list(frame.columns[selector.fit(frame).get_support()])
    assert (
        list(selector.transform(frame).columns) == names == list(selector.get_feature_names_out())
    )
    assert list(selector.estimator_.feature_names_in_) == list(frame.columns)


def test_parameters_of_the_method_can_be_searched():
    pipeline = make_pipeline(SelectFeatures(PCA(), n_features_to_select=5), KNeighborsClassifier())
    grid = GridSearchCV(pipeline, {"selectfeatures__estimator__n_components": [1, 4]}, cv=3)
    assert grid.fit(X, DATA.target).best_score_ > 0.85


def test_other_kinds_of_methods():
    sparse = sp.csr_array(np.where(np.abs(X) > 1, X, 0))
    assert SelectFeatures(TruncatedSVD(2), n_features_to_select=3).fit(sparse).support_.sum() == 3
    assert SelectFeatures(SparsePCA(2, max_iter=5), n_features_to_select=3).fit(X)
    fitted = PCA(2).fit(X)
    frozen = SelectFeatures(FrozenEstimator(fitted), n_features_to_select=3).fit(X[:50])
    np.testing.assert_array_equal(frozen.estimator_.components_, fitted.components_)
    scores = SelectFeatures(SPCAPSD(), n_features_to_select=3).fit(X)
    np.testing.assert_array_equal(scores.feature_scores_, SPCAPSD().fit(X).feature_scores_)
    assert clone(scores).get_params()["estimator"].get_params() == SPCAPSD().get_params()


def test_refusals_name_the_reason():
    with pytest.raises(ValueError, match="LinearDiscriminantAnalysis has neither components_ nor"):
        SelectFeatures(LinearDiscriminantAnalysis()).fit(X, DATA.target)
    with pytest.raises(ValueError, match="turn 30 features into 496"):
        SelectFeatures(make_pipeline(PolynomialFeatures(), PCA())).fit(X)
    with pytest.raises(ValueError, match="rule='x' is not one of"):
        SelectFeatures(PCA(), rule="x").fit(X)
    with pytest.raises(ValueError, match="every feature is constant"):
        SelectFeatures(PCA()).fit(np.ones((5, 3)))
