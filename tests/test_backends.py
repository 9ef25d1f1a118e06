"""Kernels on every array library that is installed: the answers of NumPy, and arrays in kind."""

import numpy as np
import pytest
import scipy.sparse as sp

from jointsparse import Moments, feature_significance
from jointsparse.device import free_bytes, like, numbers, to_host
from jointsparse.graphs.discriminant import local_grams
from jointsparse.graphs.laplacian import affinity, laplacian
from jointsparse.graphs.neighbours import nearest_neighbours, neighbour_sets
from jointsparse.graphs.reconstruction import reconstructed, reconstruction_weights
from jointsparse.graphs.sparse_samples import combined, times
from jointsparse.graphs.targets import _filled, class_targets, neighbour_targets
from jointsparse.linalg import (
    add_to_diagonal,
    columns_near_one,
    columns_near_one_there,
    inner_product,
    inverse_of_positive,
    length,
    less_product,
    row_lengths,
    rows_in_use,
    solve_lower,
    solved_by_cholesky,
)
from jointsparse.numerics.projections import polar
from jointsparse.solvers.components.dictionary_root import Root
from jointsparse.solvers.components.joint import SampleLoss
from jointsparse.solvers.components.procrustes import SparsePenalty, solve_alternating
from jointsparse.solvers.graph.device_form import DeviceForm, device_product
from jointsparse.solvers.graph.quadratic_forms import DenseForm, laplacian_product
from jointsparse.solvers.graph.smoothness import solve_smoothness
from jointsparse.solvers.picking import feature_test, patterns, residual
from jointsparse.solvers.picking.greedy import select_greedily
from jointsparse.solvers.picking.row_targets import Projection
from jointsparse.solvers.products.columns import Columns
from jointsparse.solvers.products.gram import Gram, SampleGram, gram_of
from jointsparse.solvers.regression import group
from jointsparse.solvers.regression.group import group_regression
from jointsparse.solvers.regression.group_curvature import curvature_of

close = np.testing.assert_allclose


def draws(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def positive(size, seed=0):
    root = draws(size + 3, size, seed=seed)
    return root.T @ root


def test_small_algebra(backend):
    A, S = draws(7, 3), positive(5)
    close(to_host(row_lengths(backend.array(A))), np.linalg.norm(A, axis=1))
    assert inner_product(backend.array(A), backend.array(A)) == pytest.approx(np.sum(A**2))
    assert length(backend.array(A)) == pytest.approx(np.linalg.norm(A))
    A[2] = 0
    assert to_host(rows_in_use(backend.array(A))).tolist() == [True, True, False] + 4 * [True]
    close(to_host(inverse_of_positive(backend.array(S.copy()))) @ S, np.eye(5), atol=1e-10)
    assert inverse_of_positive(backend.array(np.diag([1.0, -1.0]))) is None
    right = draws(5)
    solution = solved_by_cholesky(backend.array(S), backend.array(right))
    close(S @ to_host(solution), right, atol=1e-10)
    assert solved_by_cholesky(backend.array(-S), backend.array(right)) is None
    for b in (right, draws(5, 2)):
        a = draws(5, *b.shape[1:], seed=1)
        found = less_product(backend.array(a), backend.array(S), backend.array(b))
        close(to_host(found), a - S @ b, atol=1e-13)
    lower = np.linalg.cholesky(S)
    solution = solve_lower(backend.array(lower), backend.array(draws(5, 2)))
    close(lower @ to_host(solution), draws(5, 2), atol=1e-12)
    close(to_host(add_to_diagonal(backend.array(S.copy()), 2.0)), S + 2 * np.eye(5))


@pytest.mark.parametrize("dependent", [0.0, 1e-9, 1.0])
def test_the_nearest_orthonormal_columns(backend, dependent):
    """By the Gram matrix where columns are far from dependent, by QR where they are not."""
    A = draws(40, 3)
    A[:, 2] = A[:, 1] + dependent * A[:, 2]
    found = to_host(polar(backend.array(A)))
    close(found.T @ found, np.eye(3), atol=1e-14)
    left, _, right = np.linalg.svd(A, full_matrices=False)
    if dependent:  # otherwise one of many
        close(found, left @ right, atol=1e-14 if dependent == 1 else 1e-6)


def test_numbers_come_together(backend):
    a = backend.array(np.array([1.5, -2.0]))
    xp = backend.xp
    assert numbers(xp.max(a), xp.min(a)) == [1.5, -2.0]
    assert numbers(xp.max(a), xp.argmin(a), xp.any(a > 1)) == [1.5, 1.0, 1.0]
    assert free_bytes(a) >= 0


def test_columns_in_units_of_their_own(tensors):
    A = draws(6, 4) * np.array([1e-300, 1.0, 1e200, 0.0])
    np.testing.assert_array_equal(
        to_host(columns_near_one_there(tensors.array(A))), columns_near_one(A)
    )


@pytest.fixture(params=["scatter matrix", "samples", "single precision", "weighted"])
def grams(request, tensors):
    """Return the same scatter matrix on the host and on a device."""
    X = draws(9, 30) if request.param != "scatter matrix" else draws(30, 9)
    X -= X.mean(axis=0)
    X[:, 3] = 0.0
    if request.param == "scatter matrix":
        return Gram(X.T @ X), Gram(tensors.array(X.T @ X)), tensors
    if request.param == "single precision":
        X = X.astype(np.float32)
    if request.param == "weighted":
        weights = np.linspace(0.5, 2, len(X))
        return (
            SampleGram(X, weights),
            SampleGram(tensors.array(X), tensors.array(weights)),
            tensors,
        )
    return SampleGram(X), SampleGram(tensors.array(X)), tensors


def test_a_scatter_matrix_on_a_device_answers_in_kind(grams):
    host, there, tensors = grams
    p = host.diagonal.size
    assert there.trace == pytest.approx(host.trace)
    close(there.diagonal, host.diagonal, atol=1e-12)
    A, B, few = draws(p, 2), draws(p, 2, seed=1), np.array([1, 4, 2])
    sparse = np.where(np.arange(p)[:, None] < 2, A, 0.0)
    lengths = np.abs(draws(p)) + 0.1
    for question in (A, sparse, A[:, 0]):
        close(there.apply(question), host.apply(question), atol=1e-12)
        found = there.apply(tensors.array(question))
        assert tensors.owns(found)
        close(to_host(found), host.apply(question), atol=1e-12)
        close(there.ridge_solve(question, 0.1), host.ridge_solve(question, 0.1), atol=1e-9)
    for found, known in zip(there.apply_both(A, B), host.apply_both(A, B), strict=True):
        close(found, known, atol=1e-12)
    both = there.apply_both(tensors.array(A), tensors.array(B))
    assert all(map(tensors.owns, both))
    close(there.columns(few), host.columns(few), atol=1e-12)
    close(there.block(few), host.block(few), atol=1e-12)
    close(there.block(few), host.block(few), atol=1e-12)  # the one that is kept
    assert tensors.owns(there.block(tensors.array(few)))
    close(there.reweighted_fit(A, lengths, 0.2), host.reweighted_fit(A, lengths, 0.2), atol=1e-9)
    values, vectors = there.leading(2)
    known_values, known = host.leading(2)
    close(values[:2], known_values[:2], rtol=1e-10)
    close(np.abs(vectors), np.abs(known), atol=1e-8)
    close(
        np.abs(there.leading_scaled(lengths, 1)), np.abs(host.leading_scaled(lengths, 1)), atol=1e-8
    )
    assert there.rank(values.size) == host.rank(host.leading()[0].size)
    values, vectors = there.principal()
    root = to_host(vectors) * np.sqrt(values)
    close(root @ root.T @ A, host.apply(A), atol=1e-10)


def test_samples_on_a_device(grams):
    host, there, _ = grams
    if not isinstance(host, SampleGram):
        pytest.skip("the scatter matrix is all there is")
    A, few = draws(30, 2), np.array([5, 2])
    rows = draws(9, 2)
    close(there.image(A), host.image(A), atol=1e-12)
    close(there.plain_image(A), host.plain_image(A), atol=1e-12)
    close(there.back(rows), host.back(rows), atol=1e-12)
    close(to_host(there.sample_columns(few)), host.sample_columns(few), atol=1e-12)
    close(there.root(few), host.root(few), atol=1e-12)
    close(to_host(there.weights), host.weights)
    close(there.rows[0], host.rows[0], rtol=1e-9)
    other = np.linspace(1, 2, 9)
    close(there.weighted(other).apply(A), host.weighted(other).apply(A), atol=1e-12)
    there.known_images = ((A, np.zeros((9, 2))),)  # what a caller says is believed
    assert not there.plain_image(A).any()


@pytest.mark.parametrize("weight", [0.2, 0.9])
def test_sparse_loadings_of_many_features_stay_on_their_device(tensors, weight):
    X = draws(20, 1000)
    X[:, :50] += 3 * draws(20, 2) @ draws(2, 50)
    host, there = SampleGram(X), SampleGram(tensors.array(X))
    start = host.leading(2)[1]
    unit = 2 * np.abs(host.apply(start)).max(axis=0).min()
    penalty = SparsePenalty(np.inf, np.full(2, weight * unit))
    options = {"tol": 1e-9, "max_iter": 500}
    known = solve_alternating(host, start, penalty, **options)
    found = solve_alternating(there, tensors.array(start), penalty, **options)
    assert tensors.owns(found.loadings)
    assert found.n_iter == known.n_iter
    close(to_host(found.loadings), known.loadings, atol=1e-9)
    close(found.state[0](), known.state[0](), atol=1e-9)
    assert found.objective == pytest.approx(known.objective, rel=1e-10)
    assert found.diagnostics["optimality"] < 1e-6


@pytest.mark.parametrize("features", [128, 0], ids=["sets by the host", "sets there"])
@pytest.mark.parametrize("entries", [2**14, 0], ids=["rows by the host", "rows there"])
@pytest.mark.parametrize("wide", [False, True])
def test_row_sparse_regression(tensors, wide, entries, features, monkeypatch):
    monkeypatch.setattr(group, "FEW_ENTRIES", entries)
    monkeypatch.setattr(group, "FEW_FEATURES", features)
    X = draws(12, 40) if wide else draws(60, 20)
    Y = X[:, :3] @ draws(3, 2) + 0.1 * draws(len(X), 2)
    C, target = X.T @ Y, float(np.sum(Y**2))
    S = X.T @ X
    gram = SampleGram(X) if wide else Gram(S)
    there = SampleGram(tensors.array(X)) if wide else Gram(tensors.array(S))
    unit = gram.trace
    for penalty in (0.5, 0.05):
        lam = penalty * 2 * np.linalg.norm(C, axis=1).max() / unit
        known = group_regression(gram, C / unit, target=target / unit, penalty=lam)
        found = group_regression(there, C / unit, target=target / unit, penalty=lam)
        close(found.coefficients, known.coefficients, atol=1e-7)
        assert found.gap < 1e-8
        moved = group_regression(
            there, tensors.array(C / unit), target=target / unit, penalty=lam,
            start=tensors.array(known.coefficients),
        )  # fmt: skip
        assert tensors.owns(moved.coefficients)
        close(to_host(moved.coefficients), known.coefficients, atol=1e-7)
    features = tensors.array(np.arange(X.shape[1]))
    curvature = curvature_of(there, features)
    inverse = curvature.shifted_inverse(tensors.array(np.full(X.shape[1], 0.3)))
    shifted = S / unit + 0.3 * np.eye(X.shape[1])
    close(to_host(inverse.times(tensors.array(shifted))), np.eye(X.shape[1]), atol=1e-9)


def test_residuals_of_few_digits_are_computed_themselves(tensors):
    """A sample that is fitted to nine digits: a difference of squares would leave none."""
    X = np.outer(draws(6), draws(30)) + 1e-9 * draws(6, 30, seed=2)
    P = np.linalg.svd(X)[2][:1].T
    for data, array in ((X, np.asarray), (tensors.array(X), tensors.array)):
        loss = SampleLoss(data, wide=True)
        found = loss._left(((array(P), array(X @ P)), (array(P), array(X @ P))))
        close(to_host(found), np.sum((X - X @ P @ P.T) ** 2, axis=1), rtol=1e-5)


@pytest.mark.parametrize("count", [1, 3, 40])
def test_neighbours(tensors, count):
    X = draws(40, 3)
    known, distances = nearest_neighbours(X, count)
    found, apart = nearest_neighbours(tensors.array(X), count)
    np.testing.assert_array_equal(found, known)
    close(apart, distances, rtol=1e-9)
    sets = neighbour_sets(tensors.array(X), count)
    np.testing.assert_array_equal(np.sort(sets), np.sort(known))


def test_neighbours_that_tie(tensors, monkeypatch):
    """Whole numbers: many samples at the same distance, more than are looked at first."""
    monkeypatch.setattr("jointsparse.graphs.device_neighbours.BLOCK_ENTRIES", 700)  # several blocks
    X = np.random.default_rng(0).integers(0, 3, (90, 3)).astype(float)
    known, distances = nearest_neighbours(X, 4)
    found, apart = nearest_neighbours(tensors.array(X + 1e6), 4)
    np.testing.assert_array_equal(found, known)
    close(apart, distances, atol=1e-6)
    np.testing.assert_array_equal(np.sort(neighbour_sets(tensors.array(X), 4)), np.sort(known))


@pytest.mark.parametrize("weights", ["binary", "heat", "cosine"])
def test_graphs_and_what_follows_from_them(tensors, weights):
    X = draws(50, 6)
    X -= X.mean(axis=0)
    X[:, 2] = 0.0
    there = tensors.array(X)
    graph, found = affinity(X, 4, weights=weights), affinity(there, 4, weights=weights)
    close(found.toarray(), graph.toarray(), atol=1e-9)
    close(solve_smoothness(there, graph).state, solve_smoothness(X, graph).state, rtol=1e-9)
    close(to_host(_filled(graph, there)), graph.toarray())
    close(
        np.abs(neighbour_targets(there, graph, 2)),
        np.abs(neighbour_targets(X, graph, 2)),
        atol=1e-8,
    )
    labels = np.arange(50) % 3
    close(np.abs(class_targets(there, labels)), np.abs(class_targets(X, labels)), atol=1e-8)


def test_embeddings_on_an_accelerator(tensors, monkeypatch):
    """A dense decomposition there, of more samples than would be decomposed here."""
    import jointsparse.graphs.targets as module

    X = draws(60, 5)
    graph = affinity(X, 4)
    known = neighbour_targets(X, graph, 2)
    monkeypatch.setattr(module, "SMALL", 10)
    monkeypatch.setattr(module, "on_accelerator", lambda data: True)
    close(np.abs(neighbour_targets(tensors.array(X), graph, 2)), np.abs(known), atol=1e-8)


def test_reconstruction_from_neighbours(tensors, monkeypatch):
    monkeypatch.setattr("jointsparse.graphs.reconstruction.DEVICE_ENTRIES", 60)  # several blocks
    X = draws(20, 5)
    X[3] = X[4] = X[5]  # neighbours that equal the sample
    there, neighbours = tensors.array(X), neighbour_sets(X, 2)
    known = reconstruction_weights(X, neighbours, ridge=1e-3)
    found = reconstruction_weights(there, neighbours, ridge=1e-3)
    close(found.toarray(), known.toarray(), atol=1e-10)
    close(to_host(reconstructed(there, found)), reconstructed(X, known), atol=1e-10)


def test_products_with_samples(tensors, monkeypatch):
    monkeypatch.setattr("jointsparse.graphs.sparse_samples.DENSE_ENTRIES", 50)  # several blocks
    X, A, W = draws(20, 4), draws(4, 2), sp.random_array((7, 20), density=0.3, rng=0).tocsr()
    close(times(tensors.array(X), A), X @ A)
    close(combined(W, tensors.array(X)), W @ X)
    close(combined(W.toarray(), tensors.array(X)), W @ X)


def test_quadratic_forms(tensors):
    S = positive(12)
    weights = np.linspace(0.1, 3, 12)
    known, found = DenseForm(S), DeviceForm(tensors.array(S))
    assert found.size == pytest.approx(known.size)
    for one, other in (
        (known.first(3), found.first(3)),
        (known.lowest(weights, 3, S[:, :0]), found.lowest(weights, 3, S[:, :0])),
    ):
        close(other.leverages, one.leverages, atol=1e-9)
        assert other.energy == pytest.approx(one.energy)
        close(np.abs(other.vectors), np.abs(one.vectors), atol=1e-8)
    some = np.array([1, 0, 3])
    close(found.block(some), S[np.ix_(some, some)])
    close(found.product(S[:, :2]), S @ S[:, :2])
    for unit in (1e-12, 1e12):  # what ties does not depend on it
        close(DeviceForm(tensors.array(unit * S)).first(3).leverages, known.first(3).leverages)


@pytest.mark.parametrize("entries", [100, 1])  # blocks of some rows, or of one
def test_forms_of_graphs(entries, tensors, monkeypatch):
    monkeypatch.setattr("jointsparse.solvers.graph.device_form.DENSE_ENTRIES", entries)
    X = draws(30, 4)
    matrix = laplacian(affinity(X, 3))
    close(to_host(device_product(tensors.array(X), matrix)), laplacian_product(X, matrix))


def test_neighbourhoods_of_samples(tensors):
    X = draws(30, 4)
    members = np.column_stack([np.arange(30), neighbour_sets(X, 3)])
    close(local_grams(tensors.array(X), members), local_grams(X, members), atol=1e-12)


def test_scores_of_components_wherever_their_loadings_are(tensors):
    X, loadings = draws(12, 4), draws(4, 2)
    for small in (loadings, tensors.array(loadings)):
        found = Projection(small)(tensors.array(X))
        assert tensors.owns(found)
        close(to_host(found), X @ loadings)


@pytest.mark.parametrize("few", [residual.FEW, 0])
def test_picks_whoever_follows_what_is_left(tensors, few, monkeypatch):
    """By the host or the device; of near-copies next to nothing is left, and is computed anew."""
    monkeypatch.setattr(residual, "FEW", few)
    X = np.repeat(draws(40, 3), 5, axis=1)
    X += 2e-4 * draws(*X.shape, seed=1)
    X -= X.mean(axis=0)
    for options in (
        {}, {"noise": np.full(15, 1e-5), "near": 0.05}, {"criterion": "residual"},
        {"weights": np.linspace(1, 2, 15), "given": (3, 4)},
    ):  # fmt: skip
        known, found = (
            select_greedily(Columns(data), n_picks=12, **options) for data in (X, tensors.array(X))
        )
        assert found.picks.tolist() == known.picks.tolist()
        close(found.gains, known.gains, rtol=1e-6, atol=1e-15)
        close(found.left, known.left, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("shape", [(60, 40), (50, 80)])
@pytest.mark.parametrize("by_host", [True, False])
def test_the_noise_of_few_and_of_many_features(tensors, shape, by_host, monkeypatch):
    if not by_host:
        monkeypatch.setattr(patterns, "FEW", 0)
        monkeypatch.setattr(feature_test, "FEW_ENTRIES", 0)
    X = draws(*shape)
    X[:, :12] += 2 * draws(shape[0], 2, seed=1) @ draws(2, 12, seed=2)
    X[:, 3] = 1.0
    known, found = (feature_significance(data) for data in (X, tensors.array(X)))
    assert found.n_significant == known.n_significant > 0
    close(found.noise_edge, known.noise_edge, rtol=1e-9)
    close(found.shares, known.shares, atol=1e-9)
    close(found.pvalues, known.pvalues, rtol=1e-6, atol=1e-15)
    close(found.sample_heterogeneity, known.sample_heterogeneity, atol=1e-9)


def test_roots_of_dictionaries(tensors):
    R = draws(5, 9)
    known, found = Root(R), Root(tensors.array(R))
    close(found.squares, known.squares)
    close(found.to_atoms(draws(2, 5)), known.to_atoms(draws(2, 5)))
    close(found.to_codes(draws(2, 9)), known.to_codes(draws(2, 9)))
    close(found.column(3), known.column(3))
    for one, other in zip(found.principal(2), known.principal(2), strict=True):
        close(one, other)


def test_moments_know_their_scatter_matrix_where_it_is(tensors):
    for shape in ((30, 8), (8, 30)):
        X = draws(*shape)
        gram = gram_of(Moments.from_data(tensors.array(X)))
        known = gram_of(Moments.from_data(X))
        A = draws(shape[1], 2)
        close(gram.apply(A), known.apply(A), atol=1e-12)
        assert tensors.owns(gram.here(A))
        assert tensors.owns(like(A, gram.here(A)))
        wanted = gram_of(Moments.from_data(tensors.array(X)), sparse=False)
        close(wanted.apply(A), known.apply(A), atol=1e-12)
