"""The function ``sparse_component``: what goes in, what comes out, in which words."""

import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from jointsparse import Moments, sparse_component
from jointsparse.datasets import load_pitprops

CORRELATIONS = np.asarray(load_pitprops()[0], dtype=float)


def table(n=50, p=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 3
    X[:, :3] += 2 * rng.standard_normal((n, 1))
    return X


def pitprops(k=5, **options):
    return sparse_component(CORRELATIONS, k, is_scatter=True, **options)


def test_the_result_attains_its_value_and_its_bound_is_above():
    found = pitprops()
    v = found.vector
    assert np.linalg.norm(v) == pytest.approx(1)
    assert v @ CORRELATIONS @ v == pytest.approx(found.value, rel=1e-12)
    assert found.value == pytest.approx(3.40615, abs=1e-5)
    assert found.value <= found.bound <= found.value * (1 + 1e-6)
    assert found.gap <= found.tol
    assert found.proved
    assert found.features.tolist() == np.flatnonzero(v).tolist()
    assert found.share == pytest.approx(found.value / 13)
    assert v[np.argmax(np.abs(v))] > 0
    assert not set(found.eliminated) & set(found.features)


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        pitprops().value = 0.0


@pytest.mark.parametrize("as_what", [np.asarray, pd.DataFrame, sp.csr_array, list])
def test_samples_and_their_moments_say_the_same(as_what):
    X = table()
    expected = sparse_component(Moments.from_data(X), 3)
    found = sparse_component(as_what(X.tolist() if as_what is list else X), 3)
    assert found.features.tolist() == expected.features.tolist() == [0, 1, 2]
    assert found.value == pytest.approx(expected.value)
    centred = X - X.mean(axis=0)
    assert found.value == pytest.approx(np.sum((centred @ found.vector) ** 2))


def test_a_square_symmetric_table_is_refused_until_it_is_said_what_it_is():
    kinds = (np.asarray, np.ndarray.tolist, pd.DataFrame, sp.csr_array)
    for S in (kind(CORRELATIONS) for kind in kinds):
        with pytest.raises(ValueError, match="is_scatter=True"):
            sparse_component(S, 3)
    samples = sparse_component(CORRELATIONS, 3, is_scatter=False)
    matrix = sparse_component(Moments.from_scatter(CORRELATIONS, 180), 3)
    assert samples.value != pytest.approx(matrix.value)
    assert matrix.value == pytest.approx(pitprops(3).value)
    square = np.random.default_rng(0).standard_normal((6, 6))
    assert sparse_component(square, 2).proved


def test_text_in_a_square_table_is_named_by_whoever_reads_it():
    with pytest.raises(ValueError, match="contains text, 'a'"):
        sparse_component(np.array([["a", "b"], ["c", "d"]]), 1)


def test_moments_need_no_word_on_what_they_are():
    with pytest.raises(ValueError, match="leave is_scatter at None"):
        sparse_component(Moments.from_data(table()), 2, is_scatter=True)


def test_features_that_must_be_in_or_out():
    free = pitprops()
    j = int(free.features[0])
    assert j not in pitprops(exclude=[j]).features
    assert pitprops(exclude=[j]).value < free.value
    other = int(np.setdiff1d(np.arange(13), free.features)[0])
    forced = pitprops(include=[other])
    assert other in forced.features
    assert forced.value < free.value
    assert forced.proved


def test_names_stand_for_features():
    frame = pd.DataFrame(table(), columns=list("abcdefgh"))
    found = sparse_component(frame, 3, include=["h"], exclude="a")
    assert 7 in found.features
    assert 0 not in found.features
    assert found.feature_names[7] == "h"
    assert str(found).startswith("3 of 8 features (b, c, h) reach ")
    said = str(found)
    assert "No other 3 features that meet the conditions do more than" in said
    points = float(said.split("do more than ")[1].split(" points better")[0])
    assert points / 100 >= (found.bound - found.value) / (found.value / found.share)


def test_many_names_are_not_all_listed():
    assert "and 2 more)" in str(pitprops(12))


def test_loadings_that_must_not_be_negative():
    S = np.array([[1.0, -0.9, 0.2], [-0.9, 1.0, 0.1], [0.2, 0.1, 1.0]])
    free = sparse_component(S, 2, is_scatter=True)
    found = sparse_component(S, 2, is_scatter=True, nonnegative=True)
    assert free.value == pytest.approx(1.9)
    assert found.value == pytest.approx(1.2)
    assert found.vector.min() >= 0
    assert found.proved


@pytest.mark.parametrize("k", [1, 13])
def test_one_feature_and_all_features(k):
    found = pitprops(k)
    expected = np.linalg.eigvalsh(CORRELATIONS)[-1] if k == 13 else 1.0
    assert found.value == pytest.approx(expected)
    assert found.proved


def test_a_search_can_be_stopped_and_improved(monkeypatch):
    monkeypatch.setattr("jointsparse.solvers.sparse_component.part.CHUNKS", (2,))
    first = pitprops(6, max_nodes=0)
    assert not first.proved
    assert first.nodes == 0
    assert "not known" in str(first)
    assert "improve()" in str(first)
    seen = []
    second = first.improve(max_nodes=1, callback=seen.append)
    assert (first.nodes, second.nodes, len(seen)) == (0, 1, 1)
    last = pickle.loads(pickle.dumps(second)).improve(time_limit=None)
    assert last.proved
    assert first.bound >= second.bound >= last.bound
    whole = pitprops(6)
    assert last.bound == whole.bound
    assert last.seconds >= second.seconds
    assert "proved for this table" in str(last)


def test_progress_is_in_the_unit_of_the_table():
    seen = []
    found = sparse_component(
        CORRELATIONS * 1e6, 10, is_scatter=True, callback=lambda progress: seen.append(progress)
    )
    assert seen[-1].value == pytest.approx(found.value)
    assert seen[-1].bound == pytest.approx(found.bound)
    assert found.value == pytest.approx(1e6 * 4.17264, rel=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_many_features_go_by_products_with_the_samples(sparse, monkeypatch):
    expected = sparse_component(table(p=30), 3)
    monkeypatch.setattr("jointsparse.methods.sets.sparse_component.MOST_DENSE", 10)
    monkeypatch.setattr("jointsparse.solvers.sparse_component.solve.MOST_DENSE", 10)
    X = table(p=30)
    seen = []
    found = sparse_component(sp.csr_array(X) if sparse else X, 3, callback=seen.append)
    assert found.proved
    assert found.features.tolist() == expected.features.tolist()
    assert found.value == pytest.approx(expected.value)
    assert seen
    stopped = sparse_component(X, 3, time_limit=0.0)
    assert stopped.bound >= found.value
    assert stopped.nodes == 0
    assert stopped.eliminated.size == 0
    assert stopped.improve(max_nodes=0).bound == stopped.bound
    assert stopped.improve().value == pytest.approx(found.value)
    halted = sparse_component(X, 3, callback=lambda progress: True)
    assert halted.value <= halted.bound


def test_many_features_of_which_none_can_leave_keep_a_bound(monkeypatch):
    monkeypatch.setattr("jointsparse.methods.sets.sparse_component.MOST_DENSE", 5)
    monkeypatch.setattr("jointsparse.solvers.sparse_component.solve.MOST_DENSE", 5)
    X = np.random.default_rng(0).standard_normal((12, 30))
    found = sparse_component(X, 6)
    centred = X - X.mean(axis=0)
    exact = sparse_component(centred.T @ centred, 6, is_scatter=True)
    assert not found.proved
    assert found.bound >= exact.value
    assert found.value <= exact.bound


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": 0}, "k=0 is not a whole number between 1 and the number of features, 8"),
        ({"k": 9}, "k=9"),
        ({"k": 2.0}, "k=2.0"),
        ({"k": 8, "exclude": [0]}, "7 of 8 that are not excluded"),
        ({"k": 1, "include": [0, 1]}, "include has 2 features, more than k=1"),
        ({"include": [1], "exclude": [1]}, "feature 1 is in include and in exclude"),
        ({"include": [8]}, "include: 8 is neither a name nor a number of one of the 8 features"),
        ({"include": ["x"]}, "they have no names"),
        ({"time_limit": -1}, "time_limit=-1"),
        ({"max_nodes": 1.5}, "max_nodes=1.5"),
        ({"tol": 1.0}, "tol=1.0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(options, words):
    with pytest.raises(ValueError, match=words):
        sparse_component(table(), options.pop("k", 3), **options)


def test_an_unknown_name_is_named():
    frame = pd.DataFrame(table(), columns=list("abcdefgh"))
    with pytest.raises(ValueError, match="there is no such feature"):
        sparse_component(frame, 2, exclude=["z"])


def test_a_table_without_variance_is_refused():
    with pytest.raises(ValueError, match="every feature is constant"):
        sparse_component(np.ones((5, 3)), 1)
