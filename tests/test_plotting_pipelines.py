"""Displays take pipelines: what is drawn is that of the last step."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jointsparse import (
    SPCA,
    SPCAPSD,
    GreedySelector,
    SelectFeatures,
    choose_parameters,
    compare_methods,
    plotting,
    regularization_path,
    stability_selection,
)


@pytest.fixture(scope="module")
def frame():
    data = load_breast_cancer(as_frame=True).data
    return data.iloc[:120, :12]


@pytest.fixture(scope="module")
def scaled(frame):
    return (frame - frame.mean()) / frame.std(ddof=0)


SELECTOR = SPCAPSD(n_features_to_select=3)
WRAPPED = SelectFeatures(SPCA(n_components=2), n_features_to_select=3)
# display: what it needs besides the estimator, and what it draws
DISPLAYS = {
    "SelectionCurveDisplay": (lambda X: {"X": X}, "curve"),
    "FeatureScoresDisplay": (lambda X: {}, "feature_scores"),
    "ConvergenceDisplay": (lambda X: {}, "objective"),
    "FeatureMapDisplay": (lambda X: {"image_shape": (3, 4)}, "support"),
    "PathDisplay": (lambda X: {"X": X, "alphas": [0.9, 0.3]}, "feature_scores"),
    "LoadingsDisplay": (lambda X: {}, "components"),
    "BiplotDisplay": (lambda X: {"X": X}, "components"),
}
COMPONENTS = ("LoadingsDisplay", "BiplotDisplay")


def test_every_display_of_an_estimator_is_here():
    known = {
        name for name in plotting.__all__ if hasattr(getattr(plotting, name), "from_estimator")
    }
    assert known == set(DISPLAYS)


@pytest.mark.parametrize("name", DISPLAYS)
@pytest.mark.parametrize("kind", ["selector", "wrapper"])
def test_a_pipeline_is_drawn_as_its_last_step(name, kind, frame, scaled):
    options, drawn = DISPLAYS[name]
    final = SPCA(n_components=2) if name in COMPONENTS else SELECTOR
    if kind == "wrapper":
        if name in (*COMPONENTS, "PathDisplay"):
            pytest.skip("a wrapper has neither components nor a penalty of its own")
        final = WRAPPED
    display = getattr(plotting, name)
    pipeline = make_pipeline(StandardScaler(), clone(final)).fit(frame)
    alone = clone(final).fit(scaled)
    found = display.from_estimator(pipeline, **options(frame))
    expected = display.from_estimator(alone, **options(scaled))
    np.testing.assert_allclose(
        np.asarray(getattr(found, drawn), dtype=float),
        np.asarray(getattr(expected, drawn), dtype=float),
        atol=1e-8,
    )
    if hasattr(found, "feature_names"):
        assert list(found.feature_names) == list(expected.feature_names)


@pytest.mark.parametrize("name", [n for n in DISPLAYS if n != "PathDisplay"])
def test_what_is_not_fitted_or_no_estimator_is_told_so(name, frame):
    options, _ = DISPLAYS[name]
    display = getattr(plotting, name)
    with pytest.raises(NotFittedError):
        display.from_estimator(make_pipeline(StandardScaler(), clone(SELECTOR)), **options(frame))
    with pytest.raises(TypeError, match=r"not DataFrame$"):
        display.from_estimator(frame, **options(frame))


def test_fitted_but_without_what_is_drawn(scaled):
    display = plotting.SelectionCurveDisplay
    with pytest.raises(ValueError, match="PCA has no selection_curve_"):
        display.from_estimator(PCA().fit(scaled))
    whole = SPCAPSD(n_features_to_select="support").fit(scaled)
    with pytest.raises(ValueError, match="'support' takes the set as the model made it"):
        display.from_estimator(whole)


def test_samples_in_the_place_of_the_method_are_told_so(frame):
    assert isinstance(frame, pd.DataFrame)
    for swapped in (
        lambda: compare_methods(frame, [GreedySelector()], n_features_to_select=2),
        lambda: compare_methods([GreedySelector()], frame, n_features_to_select=2),
        lambda: regularization_path(frame, SPCAPSD()),
        lambda: choose_parameters(frame, SPCAPSD()),
        lambda: stability_selection(frame, SPCAPSD()),
    ):
        with pytest.raises(TypeError, match=r"DataFrame|got list") as refused:
            swapped()
        assert len(str(refused.value)) < 250
