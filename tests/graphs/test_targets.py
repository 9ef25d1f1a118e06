import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from jointsparse.graphs import targets as module
from jointsparse.graphs.laplacian import affinity, degrees
from jointsparse.graphs.targets import class_targets, neighbour_targets
from jointsparse.operators.sparse import SparseSamples


def samples(seed, n=40, p=6):
    X = np.random.default_rng(seed).standard_normal((n, p))
    return X - X.mean(axis=0)


def rayleigh(graph, Y):
    """yᵀGy / yᵀDy of targets made orthogonal to 1 in the metric of D again."""
    weights = degrees(graph)
    Y = Y - weights @ Y / weights.sum()
    return np.sum(Y * (graph @ Y), axis=0) / np.sum(weights[:, None] * Y**2, axis=0)


@pytest.mark.parametrize("labels", [["b", "a"], ["z", "x", "y"], [3, -1, 7, 0]])
def test_class_targets_span_the_centred_indicators(labels):
    y = np.random.default_rng(0).choice(labels, 40)
    X = samples(0)
    Y = class_targets(X, y)
    indicators = (y[:, None] == np.unique(y)).astype(float)
    indicators -= indicators.mean(axis=0)
    assert Y.shape == (40, len(labels) - 1)
    np.testing.assert_allclose(Y.T @ Y, np.eye(Y.shape[1]), atol=1e-12)
    np.testing.assert_allclose(Y.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(Y @ (Y.T @ indicators), indicators, atol=1e-12)
    spread = np.linalg.norm(X.T @ Y, axis=0)
    assert np.all(np.diff(spread) < 0)
    np.testing.assert_allclose(class_targets(X, y, 1), Y[:, :1])


def test_class_targets_do_not_depend_on_the_names_of_the_classes():
    X, y = samples(1), np.random.default_rng(1).integers(0, 4, 40)
    Y, other = class_targets(X, y), class_targets(X, np.array(["d", "a", "c", "b"])[y])
    np.testing.assert_allclose(np.abs(np.sum(Y * other, axis=0)), 1, atol=1e-10)


@pytest.mark.parametrize("weights", ["binary", "heat"])
@pytest.mark.parametrize("small", [0, 200])
def test_neighbour_targets_are_the_generalised_eigenvectors(weights, small, monkeypatch):
    monkeypatch.setattr(module, "SMALL", small)  # 0: by Lanczos
    X = samples(2, n=60, p=2)
    graph = affinity(X, 5, weights=weights)
    assert connected_components(graph)[0] == 1
    D = np.diag(degrees(graph))
    values = scipy.linalg.eigh(graph.toarray(), D, eigvals_only=True)[::-1]
    Y = neighbour_targets(X, graph, 3)
    np.testing.assert_allclose(rayleigh(graph, Y), values[1:4], atol=1e-10)
    np.testing.assert_allclose(Y.mean(axis=0), 0, atol=1e-14)


@pytest.mark.parametrize("small", [0, 200])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_components_of_the_graph_come_first(count, small, monkeypatch):
    monkeypatch.setattr(module, "SMALL", small)
    X = samples(3, n=60, p=2)
    X[20:40, 0] += 50
    X[40:, 1] += 80  # three clusters
    X -= X.mean(axis=0)
    graph = affinity(X, 4)
    n_components, member = connected_components(graph)
    assert n_components == 3
    Y = neighbour_targets(X, graph, count)
    assert Y.shape == (60, count)
    for place in range(min(count, 2)):
        for cluster in range(3):
            np.testing.assert_allclose(np.ptp(Y[member == cluster, place]), 0, atol=1e-12)
    quotients = rayleigh(graph, Y)
    np.testing.assert_allclose(quotients[:2], 1, atol=1e-12)
    assert np.all(quotients[2:] < 1 - 1e-6)
    weights = degrees(graph)
    free = Y - weights @ Y / weights.sum()
    gram = free.T @ (weights[:, None] * free)
    np.testing.assert_allclose(gram, np.eye(count), atol=1e-10)


@given(seed=st.integers(0, 10_000), n=st.integers(3, 9))
@settings(max_examples=30)
def test_tied_targets_do_not_depend_on_the_order_of_the_samples(seed, n):
    # With so few samples the graph is complete or nearly so: many eigenvalues are equal.
    X = samples(seed, n=n)
    order = np.random.default_rng(seed).permutation(n)
    Y = neighbour_targets(X, affinity(X, 5), 2)
    moved = neighbour_targets(X[order], affinity(X[order], 5), 2)
    np.testing.assert_allclose(Y[order] @ Y[order].T, moved @ moved.T, atol=1e-8)


def test_an_isolated_sample_is_a_component():
    graph = sp.csr_array(np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]]))
    X = np.array([[1.0], [1.0], [-2.0]])
    Y = neighbour_targets(X, graph, 1)
    np.testing.assert_allclose(Y[0], Y[1])
    assert abs(Y[2, 0] - Y[0, 0]) > 0.1


def test_eigenvalues_at_either_end_are_told_from_those_of_components(monkeypatch):
    # Pairs of samples: 1 for the component, -1 within it. Triangles have -1/2 twice.
    pair, triangle = np.ones((2, 2)) - np.eye(2), np.ones((3, 3)) - np.eye(3)
    graph = sp.csr_array(sp.block_diag([pair, pair, triangle, triangle]))
    X = samples(4, n=10, p=20)
    expected = neighbour_targets(X, graph, 7)
    monkeypatch.setattr(module, "SMALL", 0)
    Y = neighbour_targets(X, graph, 7)
    assert Y.shape == (10, 7)
    np.testing.assert_allclose(rayleigh(graph, Y), [1, 1, 1, -0.5, -0.5, -0.5, -0.5], atol=1e-10)
    np.testing.assert_allclose(Y @ Y.T, expected @ expected.T, atol=1e-10)


def test_one_target_within_pairs_is_found_by_products(monkeypatch):
    monkeypatch.setattr(module, "SMALL", 0)
    pair = np.ones((2, 2)) - np.eye(2)
    graph = sp.csr_array(sp.block_diag([pair] * 8))
    X = samples(5, n=16, p=20)
    Y = neighbour_targets(X, graph, 8)  # seven are constant on pairs, the last is not
    np.testing.assert_allclose(rayleigh(graph, Y), [*[1] * 7, -1], atol=1e-10)


def test_what_neither_graph_nor_data_prefer_does_not_depend_on_rounding():
    # Seven samples that differ from all others, each in a feature of its own: any three
    # combinations of them are as good. The first samples lead.
    X = np.zeros((30, 7))
    X[np.arange(5, 26, 3), np.arange(7)] = 1.0
    centre = X.mean(axis=0)
    graph = affinity(X - centre, 1)
    Y = neighbour_targets(X - centre, graph, 3)
    assert np.linalg.matrix_rank(Y) == 3
    sparse = neighbour_targets(SparseSamples(sp.csr_array(X), centre), graph, 3)
    np.testing.assert_allclose(sparse, Y, atol=1e-12)
    for seed in range(5):
        noise = 1e-15 * np.random.default_rng(seed).standard_normal(X.shape)
        np.testing.assert_allclose(neighbour_targets(X - centre + noise, graph, 3), Y, atol=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 30))
def test_leading_samples_turn_a_basis_and_change_nothing_of_its_span(seed, width, more):
    rows = np.random.default_rng(seed).standard_normal((width + more, width))
    rotation = module._one_sample_each(np.linalg.qr(rows)[0], width)
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(width), atol=1e-10)
