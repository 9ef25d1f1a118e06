"""Samples in portions give what one fit to all of them gives."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from jointsparse import (
    FSSL,
    SPCA,
    SPCAPSD,
    GreedySelector,
    Moments,
    SelectFeatures,
    load_model,
    registry,
    save_model,
)
from jointsparse.sources.in_memory import ArraySource

METHODS = registry.methods()
FROM_SCATTER = [name for name, method in METHODS.items() if method.scatter_only]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 10)) + 3
X[:, :4] += 2 * RNG.standard_normal((90, 1))
X[:, 4:7] += 1.5 * RNG.standard_normal((90, 1))
PORTIONS = (X[:31], X[31:33], X[33:])


def in_portions(estimator):
    for portion in PORTIONS:
        estimator.partial_fit(portion)
    return estimator


@pytest.mark.parametrize("name", FROM_SCATTER)
def test_portions_equal_one_fit(name):
    found = in_portions(METHODS[name].make())
    other = METHODS[name].make().fit_moments(Moments.from_source(ArraySource(X)))
    np.testing.assert_allclose(found.feature_scores_, other.feature_scores_, atol=1e-6)
    np.testing.assert_array_equal(found.get_support(), other.get_support())
    assert found.n_samples_seen_ == 90
    if hasattr(found, "selection_report"):
        np.testing.assert_allclose(
            found.selection_report_.worth.r2, other.selection_report_.worth.r2, atol=1e-6
        )


def test_a_number_of_features_is_chosen_as_from_all_samples():
    found = in_portions(SPCAPSD(alpha=0.3, eta=0.1, n_features_to_select=3))
    other = SPCAPSD(alpha=0.3, eta=0.1, n_features_to_select=3).fit(X)
    np.testing.assert_array_equal(found.get_support(), other.get_support())
    np.testing.assert_allclose(found.feature_scores_, other.feature_scores_, atol=1e-3)


def test_components_and_wrappers_take_portions():
    found = in_portions(SelectFeatures(SPCA(n_components=2), n_features_to_select=3))
    other = SelectFeatures(SPCA(n_components=2), n_features_to_select=3).fit(X)
    np.testing.assert_array_equal(found.ranking_[:3], other.ranking_[:3])
    pca = in_portions(FSSL(graph="pca"))
    np.testing.assert_allclose(
        np.abs(pca.components_), np.abs(FSSL(graph="pca").fit(X).components_), atol=1e-5
    )


@pytest.mark.parametrize("name", sorted(set(METHODS) - set(FROM_SCATTER)))
def test_methods_that_look_at_samples_have_none(name):
    estimator = METHODS[name].make()
    assert not hasattr(estimator, "partial_fit")
    with pytest.raises(AttributeError) as caught:
        estimator.partial_fit(X)
    assert "looks at the samples themselves" in f"{caught.value} {caught.value.__cause__}"


def test_weights_of_a_portion_are_copies():
    weights = np.random.default_rng(1).integers(0, 3, 59)
    # All features are the target: patterns are not told from noise where samples were weighted.
    method = GreedySelector(target="reconstruction", n_features_to_select=3)
    found = clone(method).partial_fit(X[:31]).partial_fit(X[31:], sample_weight=weights)
    copies = np.repeat(X[31:], weights, axis=0)
    other = clone(method).partial_fit(X[:31]).partial_fit(copies)
    np.testing.assert_array_equal(found.feature_scores_, other.feature_scores_)


@pytest.mark.parametrize("saved", ["pickle", "skops"])
def test_a_saved_model_goes_on(saved, tmp_path):
    first = GreedySelector(scale="standard").partial_fit(pd.DataFrame(X[:31]).add_prefix("x"))
    if saved == "pickle":
        first = pickle.loads(pickle.dumps(first))
    else:
        save_model(first, tmp_path / "model.skops")
        first = load_model(tmp_path / "model.skops")
    found = first.partial_fit(pd.DataFrame(X[31:]).add_prefix("x"))
    other = GreedySelector(scale="standard").partial_fit(X[:31]).partial_fit(X[31:])
    np.testing.assert_allclose(found.feature_scores_, other.feature_scores_, rtol=1e-12)
    assert found.feature_names_in_.tolist() == [f"x{j}" for j in range(10)]


def test_a_source_is_a_portion_and_a_tensor_too(tmp_path):
    np.save(tmp_path / "x.npy", X[31:])
    found = GreedySelector().partial_fit(X[:31]).partial_fit(tmp_path / "x.npy")
    np.testing.assert_allclose(
        found.feature_scores_, in_portions(GreedySelector()).feature_scores_, atol=1e-12
    )
    torch = pytest.importorskip("torch")
    again = GreedySelector().partial_fit(torch.asarray(X[:31])).partial_fit(X[31:])
    np.testing.assert_allclose(found.feature_scores_, again.feature_scores_, atol=1e-12)


def test_fit_begins_anew_and_portions_after_it_too():
    selector = in_portions(GreedySelector())
    selector.fit(X)
    assert not hasattr(selector, "n_samples_seen_")
    with pytest.warns(UserWarning, match="partial_fit begins anew here"):
        selector.partial_fit(X)
    assert selector.n_samples_seen_ == 90


def test_other_features_and_missing_values_are_refused():
    selector = GreedySelector().partial_fit(X)
    with pytest.raises(ValueError, match="features"):
        selector.partial_fit(X[:, :5])
    assert selector.n_samples_seen_ == 90  # a call that fails leaves everything as it was
    with pytest.raises(ValueError, match="depends on samples that are still to come"):
        GreedySelector(missing="mean").partial_fit(X)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        GreedySelector().partial_fit(X[:1])
