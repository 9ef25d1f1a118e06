import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from oracles import greedy_by_refit
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from jointsparse import GreedySelector, Moments


def data(seed=0, n=40, p=15):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5)) @ rng.standard_normal((5, p))
    return X + 0.2 * rng.standard_normal((n, p))


@pytest.mark.parametrize(("n", "p"), [(40, 15), (12, 30)])
@pytest.mark.parametrize("target", ["reconstruction", "axes", "clusters"])
def test_each_target_is_the_greedy_refit_of_it(n, p, target):
    X = data(n=n, p=p)
    centred = X - X.mean(axis=0)
    _, lengths, axes = np.linalg.svd(centred, full_matrices=False)
    A = {
        "reconstruction": np.eye(p),
        "axes": axes[:3],
        "clusters": axes[:3] / lengths[:3, None],  # the whitened top axes
    }[target]
    parameters = {
        "reconstruction": {"target": "reconstruction"},
        "axes": {"n_components": 3},
        "clusters": {"target": "clusters", "n_clusters": 4},
    }[target]
    selector = GreedySelector(n_features_to_select=6, **parameters).fit(X)
    picks, left = greedy_by_refit(centred, A, 6)
    assert np.argsort(selector.ranking_)[:6].tolist() == picks
    np.testing.assert_allclose(selector.history_, left, atol=1e-8)
    assert selector.objective_ == pytest.approx(left[-1])
    wanted = centred @ A.T
    alone = ((centred.T @ wanted) ** 2).sum(axis=1) / (centred**2).sum(axis=0)
    np.testing.assert_allclose(selector.feature_scores_, alone / (wanted**2).sum())


def test_n_components_goes_before_n_clusters():
    X = data()
    a = GreedySelector(target="clusters", n_components=2).fit(X)
    for other in (3, 9):
        b = GreedySelector(target="clusters", n_components=2, n_clusters=other).fit(X)
        np.testing.assert_array_equal(a.ranking_, b.ranking_)
    c = GreedySelector(target="clusters", n_clusters=3).fit(X)
    np.testing.assert_array_equal(a.ranking_, c.ranking_)


def test_from_moments_and_from_sparse():
    X = data()
    expected = GreedySelector(n_features_to_select=5).fit(X)
    S = Moments.from_data(X).scatter
    again = GreedySelector(n_features_to_select=5).fit_moments(
        Moments.from_scatter(S, n_samples=40)
    )
    np.testing.assert_array_equal(again.support_, expected.support_)
    wide = np.where(np.random.default_rng(0).random((10, 60)) < 0.3, data(n=10, p=60), 0)
    np.testing.assert_array_equal(
        GreedySelector(n_features_to_select=5).fit(sp.csr_array(wide)).support_,
        GreedySelector(n_features_to_select=5).fit(wide).support_,
    )


def test_a_target_that_one_feature_explains_keeps_its_scores():
    X = np.linalg.qr(np.column_stack([np.ones(20), data(n=20, p=4)]))[0][:, 1:] * [3, 2, 1, 0.5]
    selector = GreedySelector(target="clusters", n_clusters=2, n_features_to_select=3).fit(X)
    np.testing.assert_allclose(selector.feature_scores_, [1, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(selector.history_, [0, 0, 0], atol=1e-12)
    assert selector.ranking_.tolist() == [1, 2, 3, 4]


def test_support_means_all_that_vary():
    X = data()
    X[:, 3] = 1.0
    selector = GreedySelector(n_features_to_select="support").fit(X)
    np.testing.assert_array_equal(selector.support_, np.arange(15) != 3)
    assert selector.n_iter_ == 0


def test_no_scatter_matrix_for_wide_data(monkeypatch):
    monkeypatch.setattr(Moments, "scatter", property(lambda self: pytest.fail("p × p")))
    for parameters in ({}, {"target": "clusters", "n_clusters": 3}):
        selector = GreedySelector(n_features_to_select=5, **parameters).fit(data(n=10, p=200))
        assert selector.support_.sum() == 5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"target": "all"}, "target='all' is not one of 'patterns', 'reconstruction', 'clusters'"),
        ({"target": "clusters"}, "target='clusters' needs n_clusters"),
        ({"n_clusters": 0}, "n_clusters=0 is not a whole number"),
        ({"n_components": 1.5}, "n_components=1.5 is not a whole number"),
        ({"tol": 0}, "tol=0 is not a number between 0 and 1"),
    ],
)
def test_wrong_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        GreedySelector(**parameters).fit(data())


@pytest.mark.slow
def test_wide_float32_data_add_less_than_a_gigabyte():
    code = """
import numpy as np
from benchmarks.worker import peak
from jointsparse import GreedySelector
X = np.random.default_rng(0).standard_normal((200, 100_000), dtype=np.float32)
before = peak()
GreedySelector(n_features_to_select=100).fit(X)
print((peak() - before) / 1024**2)
"""
    command, root = [sys.executable, "-c", code], Path(__file__).parents[2]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    assert float(run.stdout) < 1


def test_a_number_that_nobody_asked_for_is_not_why_it_stopped():
    table = StandardScaler().fit_transform(load_wine().data)
    assert "new samples call for" in GreedySelector().fit(table).stopping_reason_
    asked = GreedySelector(n_features_to_select=3).fit(table)
    assert asked.stopping_reason_ == "the number of features asked for is reached"
