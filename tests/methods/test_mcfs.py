"""MCFS against dense eigenvectors and scikit-learn's lasso, and what it promises."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from sklearn.linear_model import LassoLars

from jointsparse import FSSL, MCFS
from jointsparse.methods import mcfs


def clusters(seed=0, n=60, p=10):
    """Three clusters seen by the first three features; the others are noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, :3] += 4 * rng.standard_normal((3, 3))[np.arange(n) % 3]
    return X


def by_hand(X, n_clusters, alpha, n_neighbors):
    """Return |a_jk|: neighbours by all distances, eigenvectors by LAPACK, lasso by LARS."""
    X = X - X.mean(axis=0)
    X = X / np.sqrt(np.mean(X**2))
    distances = cdist(X, X)
    np.fill_diagonal(distances, np.inf)
    G = np.zeros_like(distances)
    np.put_along_axis(G, np.argsort(distances, axis=1)[:, :n_neighbors], 1.0, axis=1)
    G = np.maximum(G, G.T)
    D = np.diag(G.sum(axis=1))
    values, vectors = eigh(D - G, D)
    assert values[1] > 1e-6, "the graph must be connected, or the eigenvectors are not unique"
    Y = vectors[:, 1 : n_clusters + 1]
    Y = Y - Y.mean(axis=0)
    Y /= np.linalg.norm(Y, axis=0)
    found = []
    for y in Y.T:
        penalty = alpha * np.max(np.abs(X.T @ y)) / len(X)
        found.append(LassoLars(alpha=penalty, fit_intercept=False).fit(X, y).coef_)
    return np.abs(np.array(found).T)


@pytest.mark.parametrize(("n", "p"), [(60, 10), (25, 60)])
@pytest.mark.parametrize("alpha", [0.03, 0.3])
def test_equals_dense_eigenvectors_and_lars(n, p, alpha):
    X = clusters(n=n, p=p)
    expected = by_hand(X, 4, alpha, n // 2)
    selector = MCFS(n_clusters=4, alpha=alpha, n_neighbors=n // 2, tol=1e-9).fit(X)
    np.testing.assert_allclose(np.abs(selector.loadings_), expected, atol=1e-6)
    np.testing.assert_allclose(selector.feature_scores_, expected.max(axis=1), atol=1e-6)
    assert selector.duality_gap_ <= 1e-9


def test_a_feature_of_one_cluster_beats_noise():
    selector = MCFS(n_clusters=2, n_features_to_select=3, rule="norm").fit(clusters())
    np.testing.assert_array_equal(np.flatnonzero(selector.get_support()), [0, 1, 2])


def test_one_function_is_fssl_with_the_same_penalty():
    X = clusters()
    one = MCFS(n_clusters=1, alpha=0.2, n_features_to_select="support", tol=1e-9).fit(X)
    other = FSSL(graph="lpp", norm="l11", n_components=1, n_neighbors=5, mu=5, tol=1e-9).fit(X)
    ratio = one.loadings_[:, 0] @ other.coefficients_[:, 0] / np.sum(other.coefficients_**2)
    np.testing.assert_allclose(
        one.loadings_, ratio * other.coefficients_, atol=1e-6 * np.abs(one.loadings_).max()
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"alpha": 1.0}, "alpha=1.0 is not a number between 0 and 1"),
        ({"alpha": "auto"}, "alpha='auto' is not"),
        ({"n_clusters": 0}, "n_clusters=0 is not a whole number of at least 1"),
        ({"weights": "other"}, "weights='other' is not one of"),
        ({"tol": 0}, "tol=0 is not"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        MCFS(**wrong).fit(clusters())


def test_functions_out_of_reach_of_the_features(monkeypatch):
    X = clusters()
    basis, _ = np.linalg.qr(np.column_stack([np.ones(len(X)), X, np.arange(len(X))]))
    monkeypatch.setattr(mcfs, "neighbour_targets", lambda data, graph, count: basis[:, -1:])
    with pytest.raises(ValueError, match="no feature varies with the 1 smoothest functions"):
        MCFS(n_clusters=1).fit(X)


def test_a_column_and_its_complement_share_their_coefficient():
    X = clusters() > 0
    X = np.column_stack([X, ~X[:, 1], X[:, 1], ~X[:, 2]])
    selector = MCFS(n_clusters=2).fit(X)
    loadings = selector.loadings_
    assert np.abs(loadings[1]).max() > 0
    np.testing.assert_allclose(loadings[[10, 11]], [-loadings[1], loadings[1]], atol=1e-15)
    np.testing.assert_allclose(loadings[12], -loadings[2], atol=1e-15)
    np.testing.assert_array_equal(selector.feature_scores_[[10, 12]], selector.feature_scores_[1:3])
