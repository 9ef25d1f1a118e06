"""K-means from many starts at once does what scikit-learn's does from each of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs

from jointsparse.experiments.lloyd import lloyd_labels


def _one_by_one(X, starts, max_iter=100):
    runs = [KMeans(len(s), init=s, n_init=1, max_iter=max_iter).fit(X) for s in starts]
    return np.array([run.labels_ for run in runs])


def _digits(count):
    """Return digits; whole numbers have ties between centres, which rounding decides."""
    return load_digits().data[:count] / 16 + np.random.default_rng(0).normal(0, 1e-3, (count, 64))


def _starts(X, runs, clusters, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([X[rng.choice(len(X), clusters, replace=False)] for _ in range(runs)])


def _tensor(X):
    return pytest.importorskip("torch").asarray(X)


@pytest.mark.parametrize("home", [np.asarray, _tensor], ids=["host", "device"])
@pytest.mark.parametrize("clusters", [1, 2, 10])
@pytest.mark.parametrize("max_iter", [1, 2, 100])
def test_labels_are_those_of_scikit_learn(clusters, max_iter, home):
    X = _digits(600)
    starts = _starts(X, 8, clusters)
    expected = _one_by_one(X, starts, max_iter)
    np.testing.assert_array_equal(lloyd_labels(home(X), starts, max_iter=max_iter), expected)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), clusters=st.integers(2, 6), offset=st.sampled_from([0.0, 1e4]))
def test_far_data_and_any_number_of_clusters(seed, clusters, offset):
    X, _ = make_blobs(60, n_features=3, centers=4, random_state=seed)
    starts = _starts(X, 5, clusters, seed)
    expected = _one_by_one(X, starts)
    np.testing.assert_array_equal(lloyd_labels(X + offset, starts + offset), expected)


@pytest.mark.parametrize("home", [np.asarray, _tensor], ids=["host", "device"])
def test_a_cluster_that_becomes_empty_takes_the_farthest_sample(home):
    X = np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 5.0], [5.0, 5.3], [9.0, 0.0]])
    starts = np.array([[[0.0, 0.0], [5.0, 5.0], [1e6, 1e6]], [[1e6, 0.0], [-1e6, 0.0], [2.0, 2.0]]])
    np.testing.assert_array_equal(lloyd_labels(home(X), starts), _one_by_one(X, starts))


def test_runs_do_not_depend_on_each_other():
    X = _digits(300)
    starts = _starts(X, 6, 7)
    together = lloyd_labels(X, starts)
    alone = np.concatenate([lloyd_labels(X, s[None]) for s in starts])
    np.testing.assert_array_equal(together, alone)
