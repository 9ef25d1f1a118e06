import numpy as np
import published
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from jointsparse.graphs import laplacian as laplacian_module
from jointsparse.graphs import neighbours as module
from jointsparse.graphs.adaptive import initial_weights
from jointsparse.graphs.discriminant import discriminant_matrix
from jointsparse.graphs.laplacian import affinity, degrees, laplacian
from jointsparse.graphs.neighbours import TIE, nearest_neighbours, neighbour_sets
from jointsparse.graphs.reconstruction import reconstruction_weights
from jointsparse.numerics.projections import project_rows_to_simplex
from jointsparse.operators.sparse import SparseSamples

seeds = st.integers(0, 10_000)
kinds = st.sampled_from(["generic", "twice", "lattice", "outlier", "shifted"])


def samples(seed, kind="generic", n=30, p=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    if kind == "twice":
        return np.repeat(X, 2, axis=0)
    if kind == "lattice":
        return rng.integers(0, 3, size=(n, p)).astype(float)
    if kind == "outlier":
        X[n // 2] *= 1e9
    return X + 1e6 if kind == "shifted" else X


@given(seed=seeds, kind=kinds, count=st.sampled_from([1, 4, 29, 200]))
@settings(max_examples=25)
def test_neighbours_are_the_nearest_others(seed, kind, count):
    X = samples(seed, kind)
    indices, distances = nearest_neighbours(X, count)
    count = min(count, len(X) - 1)
    expected = np.sort(published.distances(X) + np.diag(np.full(len(X), np.inf)), axis=1)
    assert indices.shape == distances.shape == (len(X), count)
    assert not np.any(indices == np.arange(len(X))[:, None])
    assert all(len(set(row)) == count for row in indices.tolist())
    np.testing.assert_allclose(distances, expected[:, :count], rtol=1e-6, atol=1e-12)


@given(seed=seeds)
@settings(max_examples=10)
def test_ties_go_to_the_lowest_index(seed):
    X = samples(seed, "lattice")
    D = published.distances(X)
    np.fill_diagonal(D, np.inf)
    nearest = np.argsort(D, axis=1, kind="stable")[:, :4]
    found, _ = nearest_neighbours(X + 0.1, 4)  # 0.1 makes differences inexact
    np.testing.assert_array_equal(np.sort(found), np.sort(nearest))


def test_equal_samples_are_neighbours_and_none_is_its_own():
    X = np.array([[0.0], [0.0], [0.0], [5.0]])
    indices, distances = nearest_neighbours(X, 2)
    assert indices.tolist() == [[1, 2], [0, 2], [0, 1], [0, 1]]
    assert distances.tolist() == [[0, 0], [0, 0], [0, 0], [25, 25]]


@pytest.mark.parametrize("kind", ["generic", "twice", "outlier", "shifted", "clusters"])
def test_single_precision_rules_nobody_out_wrongly(kind, monkeypatch):
    monkeypatch.setattr(module, "SMALLEST_SINGLE", 0)
    X = samples(0, kind, n=400, p=20)
    if kind == "clusters":  # far closer than single precision can tell
        X = 1e5 * (np.arange(400) % 4)[:, None] + 1e-6 * X
    _, distances = nearest_neighbours(X, 5)
    reference, _ = NearestNeighbors(n_neighbors=6, algorithm="kd_tree").fit(X).kneighbors(X)
    np.testing.assert_allclose(np.sqrt(distances), reference[:, 1:], rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_neighbours_do_not_depend_on_the_scale(scale):
    X = samples(3)
    np.testing.assert_array_equal(nearest_neighbours(scale * X, 5)[0], nearest_neighbours(X, 5)[0])


@pytest.mark.parametrize("weights", ["binary", "heat", "cosine"])
@pytest.mark.parametrize("n", [2, 7, 60])
def test_graphs_of_few_samples_are_those_of_many(weights, n, monkeypatch):
    X = np.random.default_rng(n).standard_normal((n, 3))
    X[: n // 3] = X[0]
    few = affinity(X, 5, weights=weights)
    monkeypatch.setattr(laplacian_module, "SMALL", 0)
    many = affinity(X, 5, weights=weights)
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(few, part), getattr(many, part))


@pytest.mark.parametrize("weights", ["binary", "heat", "cosine"])
@given(seed=seeds, kind=kinds)
@settings(max_examples=20)
def test_affinities_are_symmetric_without_loops(weights, seed, kind):
    X = samples(seed, kind)
    graph = affinity(X, 5, weights=weights)
    dense = graph.toarray()
    np.testing.assert_array_equal(dense, dense.T)
    assert np.all(np.diagonal(dense) == 0)
    assert np.all((dense >= 0) & (dense <= 1 + 1e-12))
    assert graph.nnz <= 2 * 5 * len(X)
    L = laplacian(graph)
    np.testing.assert_allclose(L @ np.ones(len(X)), 0, atol=1e-12)
    assert np.linalg.eigvalsh(L.toarray()).min() > -1e-12
    if weights == "binary":
        distances = np.sort(published.distances(X), axis=1)
        tied = distances[:, 6] <= distances[:, 5] * (1 + 4 * TIE)  # the index decides
        if not tied.any():
            np.testing.assert_array_equal(dense, published.binary_graph(X, 5) > 0)
        assert degrees(graph).min() >= 5


def test_heat_weights_by_their_formula():
    X = samples(1)
    binary, heat = affinity(X, 4), affinity(X, 4, weights="heat", width=0.7)
    expected = binary.toarray() * np.exp(-published.distances(X) / (2 * 0.7**2))
    np.testing.assert_allclose(heat.toarray(), expected, atol=1e-15)
    default = affinity(X, 4, weights="heat")
    width = np.median(np.sqrt(nearest_neighbours(X, 4)[1]))
    np.testing.assert_allclose(
        default.data, affinity(X, 4, weights="heat", width=float(width)).data, rtol=1e-9
    )


@given(seed=seeds, kind=kinds, k=st.sampled_from([1, 5, 100]), p=st.sampled_from([1, 3, 50]))
@settings(max_examples=30)
def test_discriminant_matrix_is_sparse_positive_and_kills_constants(seed, kind, k, p):
    X = samples(seed, kind, p=p)
    X = X / np.sqrt(np.mean(X**2))
    near, _ = nearest_neighbours(X, k)
    L, trace = discriminant_matrix(X, near, ridge=1.0)
    size = np.abs(L.data).max()
    rounding = 1e-13 * size * k * np.sum(X**2)  # of the second: its terms cancel
    np.testing.assert_allclose(trace, np.sum(X * (L @ X)), rtol=1e-9, atol=rounding)
    np.testing.assert_allclose(L @ np.ones(len(X)), 0, atol=1e-10 * size * len(X))
    np.testing.assert_allclose((L - L.T).toarray(), 0, atol=1e-12 * size)
    assert np.linalg.eigvalsh(L.toarray()).min() > -1e-9 * size


@pytest.mark.parametrize("p", [2, 4, 30])  # fewer features than neighbours too
def test_discriminant_matrix_by_its_formula(p):
    X = samples(2, p=p)
    near, _ = nearest_neighbours(X, 5)
    L, _ = discriminant_matrix(X, near, ridge=0.3, relative=False)
    np.testing.assert_allclose(L.toarray(), published.udfs_matrix(X, 5, 0.3), atol=1e-12)


def test_of_samples_that_tie_the_index_decides_whatever_the_accuracy_of_the_products():
    """The fourth is farther by 4e-13: a tie, which sparse products, exact there, ruled out."""
    X = np.zeros((6, 3))
    X[1:, 0] = 1.0
    X[1, 1] = 2e-6 * 0.3
    X[5, 2] = 1.0
    for samples_ in (X, SparseSamples(sp.csr_array(X), X.mean(axis=0))):
        near, _ = nearest_neighbours(samples_, 2)
        assert near[0].tolist() == [1, 2]
    assert sorted(neighbour_sets(X, 2)[0].tolist()) == [1, 2]


def test_neighbours_that_are_all_equal_have_no_discriminant_energy():
    """The rounding of their mean was taken for a unit: a ridge of 1e-33, and a trace of 1e+17."""
    X = np.repeat([[0.1, 0.7], [0.3, 0.2]], [17, 11], axis=0)
    near, _ = nearest_neighbours(X, 5)
    L, trace = discriminant_matrix(X, near, ridge=1.0)
    assert trace == 0
    assert np.abs(L.data).max() < 20


@given(seed=seeds, kind=kinds, k=st.sampled_from([1, 5, 100]))
@settings(max_examples=30)
def test_reconstruction_weights_sum_to_one(seed, kind, k):
    X = samples(seed, kind)
    near, _ = nearest_neighbours(X, k)
    weights = reconstruction_weights(X, near)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-9)
    assert np.all(np.isfinite(weights.data))


def test_reconstruction_weights_by_their_formula():
    X = samples(4, p=10)
    near, _ = nearest_neighbours(X, 5)
    ours = reconstruction_weights(X, near, ridge=1e-3).toarray()
    np.testing.assert_allclose(ours, published.lle(X, 5, 1e-3), atol=1e-10)


@given(seed=seeds, size=st.sampled_from([1e-8, 1.0, 1e8]))
@settings(max_examples=20)
def test_projection_onto_the_simplex(seed, size):
    V = size * np.random.default_rng(seed).standard_normal((6, 5))
    P = project_rows_to_simplex(V)
    assert np.all(P >= 0)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_allclose(P, [published.simplex(v) for v in V], atol=1e-7 * max(size, 1))
    np.testing.assert_allclose(project_rows_to_simplex(P), P, atol=1e-15)


@given(seed=seeds, kind=kinds)
@settings(max_examples=20)
def test_first_weights_are_points_of_the_simplex(seed, kind):
    _, distances = nearest_neighbours(samples(seed, kind), 6)
    weights, strength = initial_weights(distances, 5)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert np.all(weights >= -1e-12)
    assert np.isfinite(strength)
    assert strength > 0
    same, _ = initial_weights(np.full((2, 4), 3.0), 3)
    np.testing.assert_allclose(same, 1 / 3)


def test_the_graph_never_becomes_dense():
    X = samples(0, n=3000, p=3)
    near, _ = nearest_neighbours(X, 5)
    for matrix in (affinity(X, 5), discriminant_matrix(X, near, ridge=1.0)[0]):
        assert sp.issparse(matrix)
        assert matrix.nnz <= 3000 * 36


@pytest.mark.parametrize("n", [30, 1200])  # double and single precision
@pytest.mark.parametrize("repeated", [False, True])
def test_sets_of_neighbours_are_those_of_the_ordered_ones(n, repeated):
    rng = np.random.default_rng(n)
    data = rng.standard_normal((n, 12))
    if repeated:
        data[n // 2 :] = data[: n - n // 2]  # every sample has a twin at distance 0
        data[:5] = data[0]  # and some have more than there is room for
    sets = neighbour_sets(data, 3)
    ordered, _ = nearest_neighbours(data, 3)
    np.testing.assert_array_equal(np.sort(sets, axis=1), np.sort(ordered, axis=1))
