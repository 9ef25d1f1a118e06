"""Approximate neighbours: what the descent finds is ordered exactly; what it misses is found."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from jointsparse import MCFS, RNE, UDFS, LaplacianScore
from jointsparse.graphs import neighbours
from jointsparse.graphs.neighbours import nearest_neighbours, neighbour_sets

METHODS = (LaplacianScore, MCFS, UDFS, RNE)


class Descent:
    """Stands for pynndescent: lists that are right, but out of order and with holes in some."""

    def __init__(self, data, *, n_neighbors, random_state):
        assert (data.dtype, random_state) == (np.float32, 0)
        found = nearest_neighbours(data.astype(float), n_neighbors - 1)[0]
        lists = np.column_stack([np.arange(len(data)), found])[:, ::-1].copy()
        lists[7, 2:] = -1
        self.neighbor_graph = (lists, None)


@pytest.fixture
def descent(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynndescent", SimpleNamespace(NNDescent=Descent))
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", 50)


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 6))
    X[40:, :2] += 4
    X[3] = X[4]  # equal samples are neighbours of each other, none of itself
    return X


def test_what_is_found_is_ordered_by_exact_distances(descent, samples):
    indices, distances = nearest_neighbours(samples, 5)
    found, lengths = nearest_neighbours(samples, 5, search="approximate")
    np.testing.assert_array_equal(found, indices)
    np.testing.assert_allclose(lengths, distances, rtol=1e-12)
    sets = neighbour_sets(samples, 5, search="approximate")
    np.testing.assert_array_equal(np.sort(sets), np.sort(indices))


@pytest.mark.parametrize("method", METHODS)
def test_methods_take_it(descent, samples, method):
    exact = method(n_features_to_select=2).fit(samples)
    found = method(n_features_to_select=2, search="approximate").fit(samples)
    np.testing.assert_allclose(found.feature_scores_, exact.feature_scores_, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_search_that_is_none(samples, method):
    with pytest.raises(ValueError, match="search='fast' is neither 'exact' nor 'approximate'"):
        method(search="fast").fit(samples)


def test_without_the_package(samples, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", 50)
    with pytest.raises(ValueError, match=r"pip install 'jointsparse\[neighbours\]'"):
        LaplacianScore(search="approximate").fit(samples)
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", 120)  # few samples do not need it
    LaplacianScore(search="approximate").fit(samples)


def test_the_package_is_not_loaded_without_need():
    code = (
        "import sys, numpy as np; from jointsparse import LaplacianScore;"
        "LaplacianScore().fit(np.eye(9)[:, :4] + np.arange(9)[:, None]);"
        "assert not {'numba', 'pynndescent'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_most_neighbours_are_found():
    pytest.importorskip("pynndescent")
    rng = np.random.default_rng(1)
    X = rng.standard_normal((12_000, 4)) @ rng.standard_normal((4, 20))
    X += 0.5 * rng.standard_normal(X.shape)
    exact = nearest_neighbours(X, 5)[0]
    found = nearest_neighbours(X, 5, search="approximate")[0]
    np.testing.assert_array_equal(found, nearest_neighbours(X, 5, search="approximate")[0])
    shared = [np.intersect1d(one, other).size for one, other in zip(exact, found, strict=True)]
    assert np.mean(shared) / 5 > 0.97
