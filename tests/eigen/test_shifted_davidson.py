"""The lowest eigenpairs of A + diag(w), against the full decomposition by LAPACK."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jointsparse.eigen import shifted_davidson
from jointsparse.eigen.block_krylov import Pairs, widened
from jointsparse.eigen.shifted_davidson import lowest_pairs
from jointsparse.graphs.laplacian import affinity, laplacian
from jointsparse.solvers.graph import adaptive as adaptive_graph
from jointsparse.solvers.graph import quadratic_forms
from jointsparse.solvers.graph.adaptive import solve_adaptive_graph
from jointsparse.solvers.graph.quadratic_forms import (
    DenseForm,
    LaplacianForm,
    ScatterForm,
    laplacian_product,
)


def samples(seed, n=20, p=300):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p)) + rng.standard_normal((n, p))
    return (X - X.mean(axis=0)) / np.sqrt(n)


def forms(X):
    L = laplacian(affinity(X, 3))
    return (LaplacianForm(X, L), X.T @ L.toarray() @ X), (ScatterForm(X), -X.T @ X)


def weights_of(kind, rng, p):
    """As they are in the first pass, in later ones, and at the end, with q = 1/2."""
    if kind == "nearly equal":
        return 0.02 * (1 + 0.02 * rng.random(p))
    if kind == "spread":
        return 10.0 ** rng.uniform(-4, 3, p)
    leverages = np.where(np.arange(p) < 9, rng.uniform(0.2, 0.9, p), 1e-16)
    return 1e-3 * (rng.permutation(leverages) + 1e-10) ** -0.75


@pytest.mark.parametrize("kind", ["nearly equal", "spread", "settled"])
@given(seed=st.integers(0, 10_000), count=st.integers(1, 6), warm=st.booleans())
@settings(max_examples=8)
def test_leverages_are_those_of_the_full_decomposition(kind, seed, count, warm):
    rng = np.random.default_rng(seed)
    X = samples(seed)
    weights = weights_of(kind, rng, 300)
    for form, A in forms(X):
        values, vectors = np.linalg.eigh(A + np.diag(weights))
        exact = np.sum(vectors[:, :count] ** 2, axis=1)
        # What rounding of a matrix with such entries may do to the oracle.
        slack = 1e-15 * np.linalg.norm(A + np.diag(weights)) / (values[count] - values[count - 1])
        start = np.empty((300, 0))
        if warm:
            start = form.lowest(weights * rng.uniform(0.8, 1.2, 300), count, start).start
        found = form.lowest(weights, count, start)
        np.testing.assert_allclose(found.leverages, exact, atol=1e-8 + 10 * slack)
        energy = np.trace(vectors[:, :count].T @ A @ vectors[:, :count])
        assert found.energy == pytest.approx(energy, abs=(1e-8 + 10 * slack) * np.linalg.norm(A))
        np.testing.assert_allclose(
            found.vectors.T @ found.vectors, np.eye(count), atol=1e-10, rtol=0
        )


@pytest.mark.parametrize("copies", [3, 12])
def test_ties_are_complete_however_many_there_are(copies):
    """Features that no sample has, with equal weights: as many equal eigenvalues."""
    X = samples(0)
    X[:, :copies] = 0
    weights = np.full(300, 2.0)
    weights[:copies] = 0.5
    for form, A in forms(X):
        values = np.linalg.eigvalsh(A + np.diag(weights))
        low = int(np.sum(values < 0.5 - 1e-6))
        found = form.lowest(weights, low + 2, np.empty((300, 0)))
        np.testing.assert_allclose(found.leverages[:copies], 2 / copies, atol=1e-9)
        assert found.leverages.sum() == pytest.approx(low + 2)
        assert found.vectors.shape[1] == low + copies


def test_eigenvalues_that_hardly_differ_need_few_steps():
    """Where the inverse of A + diag(w) alone takes hundreds of products."""
    X = samples(1, n=30, p=3000)
    form = LaplacianForm(X, laplacian(affinity(X, 3)))
    weights = form.size * (1 + 0.01 * np.random.default_rng(0).random(3000))
    products, shifts = [], []

    def product(block):
        products.append(block.shape[1])
        return form.product(block)

    def solver(shift):
        shifts.append(shift)
        return form._inverse(weights - shift)

    shift = form._below(weights, 5)
    start = widened(np.empty((3000, 0)), 9)
    pairs = lowest_pairs(product, solver, weights, start, 5, shift=shift, size=form.size)
    assert pairs.converged
    assert len(products) < 60
    assert len(shifts) < 25
    assert shift == shifts[0] < pairs.values[0] < pairs.values[5] < 1.005 * pairs.values[0]
    residuals = product(pairs.vectors) + weights[:, None] * pairs.vectors
    residuals -= pairs.vectors * pairs.values
    lengths = np.linalg.norm(residuals[:, :5], axis=0)
    assert np.all(lengths <= 1e-8 * (pairs.values[5] - pairs.values[:5]))
    # None below them was missed: the matrix less a number between has as many negative eigenvalues.
    between = (pairs.values[4] + pairs.values[5]) / 2
    inner = np.eye(len(form.rows)) + (form.rows / (weights - between)) @ form.rows.T
    negative = np.sum(np.linalg.eigvalsh(inner) < 0)
    assert np.sum(weights < between) - negative == 5


def test_the_first_shift_is_below_all_eigenvalues():
    rng = np.random.default_rng(3)
    for weights in (np.full(300, 0.3), rng.random(300) + 0.1, weights_of("settled", rng, 300)):
        for form, A in forms(samples(3)):
            lowest = np.linalg.eigvalsh(A + np.diag(weights))[0]
            assert form._below(weights, 4) < lowest


def test_one_eigenvalue_far_below_does_not_hide_the_others():
    X = samples(4)
    weights = np.full(300, 1e3) + np.arange(300)
    weights[7] = 1e-9
    X[:, 7] = 0
    for form, _ in forms(X)[:1]:
        found = form.lowest(weights, 1, np.empty((300, 0)))
        np.testing.assert_allclose(found.leverages, np.arange(300) == 7, atol=1e-12)
        assert found.start.shape[1] == 1 + quadratic_forms.GUARDS


def test_where_steps_do_not_suffice_the_matrix_is_decomposed(monkeypatch):
    X = samples(5)
    weights = np.random.default_rng(5).random(300) + 0.1
    (form, A), _ = forms(X)
    expected = DenseForm(A).lowest(weights, 3, np.empty((300, 0)))

    def hopeless(product, solver, weights, start, count, **options):
        return Pairs(np.zeros(start.shape[1]), start, False)

    monkeypatch.setattr(quadratic_forms, "lowest_pairs", hopeless)
    found = form.lowest(weights, 3, np.empty((300, 0)))
    np.testing.assert_allclose(found.leverages, expected.leverages, atol=1e-9)


def test_a_start_that_has_nothing_of_an_eigenvector_does_not_hide_it():
    X = samples(7)
    X[:, :40] = 0  # features that no sample has: the unit vectors are eigenvectors
    weights = np.r_[np.linspace(0.01, 0.02, 40), np.full(260, 50.0)]
    form = LaplacianForm(X, laplacian(affinity(X[:, 40:], 3)))
    start = np.eye(300)[:, 10:16]
    found = form.lowest(weights, 2, start)
    np.testing.assert_allclose(found.leverages, np.arange(300) < 2, atol=1e-9)


def test_too_few_steps_are_told(monkeypatch):
    (form, _), _ = forms(samples(6))
    weights = weights_of("spread", np.random.default_rng(6), 300)
    options = {"shift": form._below(weights, 4), "size": form.size}
    start = widened(np.empty((300, 0)), 8)

    def run(steps):
        return lowest_pairs(
            form.product,
            lambda shift: form._inverse(weights - shift),
            weights,
            start,
            4,
            max_steps=steps,
            **options,
        )

    assert not run(1).converged
    assert run(100).converged
    # A basis that shrinks more often comes to the same values.
    monkeypatch.setattr(shifted_davidson, "WIDEST", 2)
    np.testing.assert_allclose(run(100).values[:4], run(200).values[:4], rtol=1e-12)


def test_a_learned_graph_is_the_same_with_the_matrix(monkeypatch):
    """All alternations of SOGFS on wide data, with LAPACK in place of the wide form."""
    from jointsparse.graphs.neighbours import nearest_neighbours

    rng = np.random.default_rng(8)
    X = samples(8, n=36, p=200)
    X[:, :20] += 0.5 * (np.arange(36) % 3)[:, None] * rng.standard_normal(20)
    X -= X.mean(axis=0)
    X /= np.linalg.norm(X, axis=0)
    candidates = nearest_neighbours(X, 5)[0]
    weights = np.full(candidates.shape, 0.2)
    options = {"n_clusters": 3, "n_components": 2, "strength": 0.5, "power": 0.5, "tol": 1e-4}
    for penalty in (1e-4, 1e-2, 1.0):
        one = solve_adaptive_graph(X, candidates, weights, penalty=penalty, max_iter=4, **options)
        with monkeypatch.context() as patch:
            patch.setattr(
                adaptive_graph,
                "form_of",
                lambda data, matrix, count: _first_of_wide(data, matrix),
            )
            other = solve_adaptive_graph(
                X, candidates, weights, penalty=penalty, max_iter=4, **options
            )
        assert one.n_iter == other.n_iter
        np.testing.assert_allclose(one.state[0], other.state[0], atol=1e-6)
        assert one.objective == pytest.approx(other.objective, rel=1e-6)


def _first_of_wide(data, matrix):
    form = DenseForm(laplacian_product(data, matrix))
    form.first = LaplacianForm(data, matrix).first
    return form
