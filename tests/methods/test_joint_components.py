"""The function ``joint_components``: what goes in, what comes out, in which words."""

import itertools

import numpy as np
import pandas as pd
import pytest

from jointsparse import Moments, joint_components, sparse_component
from jointsparse.datasets import load_pitprops

CORRELATIONS = load_pitprops()[0]


def pitprops(k=5, n_components=2, **options):
    return joint_components(CORRELATIONS, k, n_components, is_scatter=True, **options)


def best_value(S, k, r):
    supports = itertools.combinations(range(len(S)), k)
    return max(np.linalg.eigvalsh(S[np.ix_(H, H)])[-r:].sum() for H in supports)


@pytest.mark.parametrize("r", [1, 2, 3])
def test_it_is_the_best_of_all_sets(r):
    found = pitprops(4, r)
    V = found.components
    assert found.proved
    assert found.gap <= 1e-6
    assert found.value == pytest.approx(best_value(CORRELATIONS, 4, r), rel=1e-6)
    assert np.trace(V @ CORRELATIONS @ V.T) == pytest.approx(found.value)
    assert np.allclose(V @ V.T, np.eye(r))
    assert found.features.size == 4
    assert found.bound >= found.value
    variances = np.diagonal(V @ CORRELATIONS @ V.T)
    assert np.all(np.diff(variances) <= 0)


def test_one_component_is_that_of_the_other_function():
    one, other = pitprops(5, 1), sparse_component(CORRELATIONS, 5, is_scatter=True)
    assert np.allclose(one.components[0], other.vector)


def test_common_features_explain_no_more_than_components_with_features_of_their_own():
    assert pitprops(5, 2).value <= 2 * sparse_component(CORRELATIONS, 5, is_scatter=True).bound


def test_conditions_names_and_words():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((40, 7)), columns=list("abcdefg"))
    found = joint_components(X, 3, 2, include=["g"], exclude=["a"])
    assert 6 in found.features
    assert 0 not in found.features
    assert "with 2 components" in str(found)
    assert "that meet the conditions" in str(found)
    again = joint_components(Moments.from_data(X), 3, 2, include=["g"], exclude=["a"])
    assert again.value == pytest.approx(found.value)


def test_a_search_can_be_stopped_and_improved():
    first = pitprops(6, 2, max_nodes=0)
    assert not first.proved
    assert "Whether better ones exist is not known" in str(first)
    last = first.improve(time_limit=None)
    assert last.proved
    assert last.bound <= first.bound
    assert first.nodes == 0


@pytest.mark.parametrize("n_components", [0, 6, 1.5])
def test_a_number_of_components_that_makes_no_sense_is_refused(n_components):
    with pytest.raises(ValueError, match="n_components="):
        pitprops(5, n_components)
