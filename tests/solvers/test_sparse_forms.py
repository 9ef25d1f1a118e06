"""Forms that reach sparse or weighted samples through products, against dense NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from jointsparse import SPCAFS
from jointsparse.eigen import inverse_root
from jointsparse.eigen import ritz as ritz_basis
from jointsparse.eigen.block_krylov import widened
from jointsparse.eigen.inverse_root import inverse_root_times
from jointsparse.io import budget
from jointsparse.methods import spcafs
from jointsparse.operators.dense import DenseSamples
from jointsparse.operators.sparse import SparseSamples
from jointsparse.operators.views import Reweighted
from jointsparse.solvers.components.dictionary_root import Root
from jointsparse.solvers.graph import sparse_form
from jointsparse.solvers.graph.quadratic_forms import DenseForm, ScatterForm
from jointsparse.solvers.graph.smoothness import solve_smoothness
from jointsparse.solvers.graph.sparse_form import SparseScatterForm
from jointsparse.solvers.products import gram as gram_module
from jointsparse.solvers.products.gram import SampleGram
from jointsparse.solvers.regression.subspace import SubspaceProblem, penalised_gap
from jointsparse.solvers.samples import wide as samples_wide
from jointsparse.solvers.wide import convex as convex_wide
from jointsparse.solvers.wide import penalties as wide_penalties
from jointsparse.solvers.wide import scatter_access
from jointsparse.solvers.wide.convex import TooManyDirectionsError, solve_wide

N, P = 14, 25


def counts(seed=0, n=N, p=P):
    rng = np.random.default_rng(seed)
    return rng.poisson(2.0, (n, p)) * (rng.random((n, p)) < 0.4) * rng.choice([0.5, 1.0, 3.0], p)


def pair(seed=0):
    """The scatter matrix of sparse samples, and the samples themselves at a trace of 1."""
    R = counts(seed)
    X = R - R.mean(axis=0)
    return SampleGram(SparseSamples(sp.csr_array(R), R.mean(axis=0))), X / np.linalg.norm(X)


# A^(-1/2) b


def operator(seed, n, spread):
    axes = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    values = np.geomspace(1, spread, n)
    return (axes * values) @ axes.T, axes, values


@pytest.mark.parametrize("n", [1, 5, 40])
def test_the_inverse_root_is_that_of_a_decomposition(n):
    A, axes, values = operator(n, n, 1e-4)
    B = np.random.default_rng(n).standard_normal((n, 3))
    B[:, 1] = 0.0
    found = inverse_root_times(A.__matmul__, B, smallest=1e-12)
    expected = (axes / np.sqrt(values)) @ axes.T @ B
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    assert not found[:, 1].any()


def test_small_eigenvalues_are_left_out_and_few_directions_are_enough():
    A, axes, values = operator(0, 12, 1e-6)
    b = axes @ np.ones((12, 1))
    found = axes.T @ inverse_root_times(A.__matmul__, b, smallest=1e-3)
    large = values > 1e-3
    np.testing.assert_allclose(found[large, 0], values[large] ** -0.5, rtol=1e-6)
    calls = []

    def product(v):
        calls.append(v)
        return A @ v

    found = inverse_root_times(product, axes[:, [2, 5]] @ [[1.0], [3.0]], smallest=1e-9)
    assert len(calls) == 2  # the space of two eigenvectors is exhausted after two steps
    np.testing.assert_allclose(
        axes.T @ found, (axes.T @ found) * np.eye(12)[:, [2, 5]].sum(1)[:, None], atol=1e-9
    )
    np.testing.assert_allclose(
        found.T @ axes[:, [2, 5]], [[values[2] ** -0.5, 3 * values[5] ** -0.5]]
    )


def test_it_stops_where_the_answer_stands_still(monkeypatch):
    A, axes, values = operator(1, 300, 0.5)
    b = axes @ np.ones((300, 1))
    calls = []

    def product(v):
        calls.append(v)
        return A @ v

    found = inverse_root_times(product, b, smallest=1e-9)
    assert len(calls) in (20, 30)  # a condition number of 2: about a digit for each step
    np.testing.assert_allclose(found, (axes / np.sqrt(values)) @ axes.T @ b, rtol=1e-8)
    calls.clear()
    monkeypatch.setattr(inverse_root, "MOST_STEPS", 5)
    rough = inverse_root_times(product, b, smallest=1e-9)
    assert len(calls) == 5
    assert 1e-8 < np.linalg.norm(rough - found) < 0.05 * np.linalg.norm(found)


# the lowest eigenspaces of -S + diag(w)


@pytest.mark.parametrize("spread", [0.0, 3.0])
@pytest.mark.parametrize("count", [1, 3])
def test_eigenspaces_from_products(count, spread):
    gram, X = pair()
    dense, form = DenseForm(-X.T @ X), SparseScatterForm(gram)
    one, other = dense.first(count), form.first(count)
    np.testing.assert_allclose(other.leverages, one.leverages, atol=1e-8)
    assert other.energy == pytest.approx(one.energy)
    weights = 0.01 * np.exp(spread * np.random.default_rng(1).standard_normal(P))
    start = np.random.default_rng(2).standard_normal((P, 2))
    one, other = dense.lowest(weights, count, start), form.lowest(weights, count, start)
    np.testing.assert_allclose(other.leverages, one.leverages, atol=1e-7)
    assert other.energy == pytest.approx(one.energy, abs=1e-9)
    assert other.leverages.sum() == pytest.approx(count)
    np.testing.assert_allclose(
        other.vectors @ other.vectors.T, one.vectors @ one.vectors.T, atol=1e-6
    )
    assert other.start.shape[1] >= count + 4


def test_tied_eigenvalues_are_all_found():
    R = np.eye(12)[:, :9]  # features that are alike: 8 equal eigenvalues
    gram, dense = SampleGram(SparseSamples(sp.csr_array(R), R.mean(axis=0))), R - R.mean(axis=0)
    form = SparseScatterForm(gram)
    weights = np.full(9, 0.02)
    space = form.lowest(weights, 2, np.random.default_rng(0).standard_normal((9, 2)))
    whole = DenseForm(-dense.T @ dense / np.sum(dense**2)).lowest(weights, 2, np.eye(9)[:, :2])
    np.testing.assert_allclose(space.leverages, whole.leverages, atol=1e-8)
    assert space.leverages.sum() == pytest.approx(2)


@pytest.mark.parametrize("seed", [1, 4, 9])
def test_combinations_of_equal_features_that_are_zero_are_eigenvectors_too(seed, monkeypatch):
    monkeypatch.setattr(spcafs, "DENSE_UP_TO", 0)
    rng = np.random.default_rng(seed)
    X = np.outer(rng.standard_normal(17), rng.standard_normal(30))
    X = (X + 0.1 * rng.standard_normal((17, 30)))[:, rng.integers(0, 12, 30)]
    model = SPCAFS(n_components=2, n_features_to_select=5)
    expected = clone(model).fit(X)
    found = clone(model).fit(sp.csr_array(X))
    np.testing.assert_allclose(found.feature_scores_, expected.feature_scores_, atol=1e-9)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)


def test_eigenvalues_that_hardly_differ_next_to_a_large_one_are_told_apart():
    rng = np.random.default_rng(4)
    R = rng.standard_normal((30, 60))
    R[0] *= 1e3  # the others are 1e-6 of it
    R -= R.mean(axis=0)
    R /= np.linalg.norm(R)
    form = SparseScatterForm(SampleGram(SparseSamples(sp.csr_array(R), np.zeros(60))))
    weights = 1e-5 * rng.uniform(1, 2, 60)
    dense = DenseForm(-R.T @ R)
    start = rng.standard_normal((60, 4))
    found, expected = form.lowest(weights, 4, start), dense.lowest(weights, 4, start)
    np.testing.assert_allclose(found.leverages, expected.leverages, atol=1e-8)


@pytest.mark.parametrize("size", [1e-5, 1e-7])
def test_principal_spaces_next_to_a_large_eigenvalue(size):
    # Those of 1e-10 and of 1e-14 tie; the latter are zero, and no part of the space.
    rng = np.random.default_rng(5)
    rows, _ = np.linalg.qr(rng.standard_normal((40, 30)))
    sizes = np.concatenate([[1.0], np.full(20, size), np.zeros(9)])
    left, _ = np.linalg.qr(rng.standard_normal((30, 30)))
    R = (left * sizes) @ rows.T
    dense = ScatterForm(R)
    form = SparseScatterForm(SampleGram(SparseSamples(sp.csr_array(R), np.zeros(40))))
    if size < 1e-6:
        for one in (dense, form):
            np.testing.assert_allclose(one.first(1).leverages, rows[:, 0] ** 2, atol=1e-9)
        return
    whole = rows[:, 0] ** 2 + np.sum(rows[:, 1:21] ** 2, axis=1) * 4 / 20
    for one in (dense, form):
        found = one.first(5)
        np.testing.assert_allclose(found.leverages, whole, atol=1e-5)
        assert found.leverages.sum() == pytest.approx(5, abs=1e-5)


def test_a_basis_that_grows_too_wide_shrinks(monkeypatch):
    gram, X = pair(3)
    weights = 0.005 * np.exp(np.random.default_rng(3).standard_normal(P))
    expected = DenseForm(-X.T @ X).lowest(weights, 2, np.eye(P)[:, :2])
    widths = []
    outside = ritz_basis.outside
    monkeypatch.setattr(sparse_form, "WIDEST", 2)
    monkeypatch.setattr(
        ritz_basis, "outside", lambda basis, b: widths.append(basis.shape[1]) or outside(basis, b)
    )
    found = SparseScatterForm(gram).lowest(weights, 2, np.eye(P)[:, :2])
    np.testing.assert_allclose(found.leverages, expected.leverages, atol=1e-7)
    assert max(widths) <= 2 * 6  # guards and all: six pairs
    monkeypatch.setattr(sparse_form, "MOST_STEPS", 1)
    start = widened(np.eye(P)[:, :2], 6)
    values, vectors = SparseScatterForm(gram)._davidson(weights, 2, start)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(6), atol=1e-12)
    ritz = np.linalg.eigvalsh(vectors.T @ (X.T @ X - np.diag(weights)) @ vectors)[::-1]
    np.testing.assert_allclose(values, ritz, atol=1e-12)  # of the start, as no more was allowed


# scatter matrices of sparse samples


@pytest.mark.parametrize("largest", [4096, 3])
def test_every_operation_on_a_sparse_scatter_matrix(largest, monkeypatch):
    monkeypatch.setattr(gram_module, "LARGEST_GRAM", largest)
    R = counts(4)
    w = np.random.default_rng(0).uniform(0.5, 2, N)
    C = R - R.mean(axis=0)
    for weights in (None, w):
        gram = SampleGram(SparseSamples(sp.csr_array(R), R.mean(axis=0)), weights)
        X = C if weights is None else np.sqrt(w)[:, None] * C
        assert gram.trace == pytest.approx(np.sum(X**2))
        S = X.T @ X / np.sum(X**2)
        U = np.random.default_rng(1).standard_normal((P, 3))
        features = np.array([4, 1, 9])
        np.testing.assert_allclose(gram.apply(U), S @ U, atol=1e-12)
        np.testing.assert_allclose(gram.apply(U[:, 0]), S @ U[:, 0], atol=1e-12)
        np.testing.assert_allclose(gram.diagonal, np.diag(S), atol=1e-12)
        np.testing.assert_allclose(gram.columns(features), S[:, features], atol=1e-12)
        np.testing.assert_allclose(gram.block(features), S[np.ix_(features, features)], atol=1e-12)
        np.testing.assert_allclose(
            gram.ridge_solve(U, 0.3), np.linalg.solve(S + 0.3 * np.eye(P), U), atol=1e-9
        )
        lengths = np.random.default_rng(2).uniform(0.1, 2, P)
        lengths[3] = 0.0
        fit = gram.reweighted_fit(U, lengths, 0.2)
        live = lengths > 0
        inner = S[np.ix_(live, live)] + 0.2 * np.diag(1 / lengths[live])
        np.testing.assert_allclose(fit[live], np.linalg.solve(inner, (S @ U)[live]), atol=1e-9)
        assert not fit[3].any()
        values, vectors = gram.leading(2)
        expected = np.linalg.eigvalsh(S)[::-1]
        np.testing.assert_allclose(values[:2], expected[:2])
        np.testing.assert_allclose(S @ vectors, vectors * values[:2], atol=1e-9)
        factors = np.random.default_rng(5).uniform(0.5, 2, P)
        scaled = S * np.outer(factors, factors)
        first = gram.leading_scaled(factors, 1)[:, 0]
        assert abs(first @ np.linalg.eigh(scaled)[1][:, -1]) == pytest.approx(1)
        assert gram.rank(5) == (5 if largest > N else N - 1)
    other = SampleGram(SparseSamples(sp.csr_array(R), R.mean(axis=0))).weighted(w)
    np.testing.assert_allclose(other.apply(U), S @ U, atol=1e-12)


def test_the_roots_of_a_dictionary():
    gram, X = pair(5)
    left, sizes, right = np.linalg.svd(X, full_matrices=False)
    codes = (gram.image(gram.leading(3)[1]) / sizes[:3]).T
    dense, sparse = Root(sizes[:, None] * right), Root(gram.samples, gram.trace**-0.5, codes)
    np.testing.assert_allclose(sparse.squares, dense.squares, atol=1e-12)
    atoms = np.random.default_rng(0).standard_normal((2, P))
    np.testing.assert_allclose(sparse.to_codes(atoms), atoms @ X.T, atol=1e-12)
    np.testing.assert_allclose(dense.to_codes(atoms), atoms @ right.T * sizes, atol=1e-12)
    codes = np.random.default_rng(1).standard_normal((2, N))
    np.testing.assert_allclose(sparse.to_atoms(codes), codes @ X, atol=1e-12)
    np.testing.assert_allclose(dense.to_atoms(codes), codes * sizes @ right, atol=1e-12)
    np.testing.assert_allclose(sparse.column(7), X[:, 7], atol=1e-12)
    np.testing.assert_allclose(dense.column(7), sizes * right[:, 7])
    for root in (dense, sparse):
        vectors, image = root.principal(3)
        np.testing.assert_allclose(vectors @ vectors.T, np.eye(3), atol=1e-9)
        np.testing.assert_allclose(image, root.to_atoms(vectors), atol=1e-12)
        np.testing.assert_allclose(np.linalg.norm(image, axis=1), sizes[:3])
    assert np.abs(left[:, :3].T @ sparse.principal(3)[0].T).diagonal() == pytest.approx(np.ones(3))


def test_smoothness_of_sparse_features():
    R = counts(6)
    R[:, 0], R[:, 1] = 3.0, np.arange(N) + 1.0  # constant; without a zero
    rng = np.random.default_rng(0)
    G = np.triu(rng.random((N, N)) < 0.4, 1) * rng.uniform(0.5, 2, (N, N))
    G = G + G.T
    D = np.diag(G.sum(axis=1))
    expected = []
    for f in R.T:
        f = f - (f @ D.sum(axis=1)) / D.sum()
        expected.append(f @ (D - G) @ f / (f @ D @ f) if np.ptp(f) > 1e-9 else np.inf)
    graph = sp.csr_array(G)
    for block in (2**22, 5 * N):
        samples = SparseSamples(sp.csr_array(R), R.mean(axis=0))
        for data in (samples, R):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("jointsparse.solvers.graph.smoothness.BLOCK_ENTRIES", block)
                solution = solve_smoothness(data, graph)
            np.testing.assert_allclose(solution.state, expected, rtol=1e-9)
            assert solution.objective == pytest.approx(np.mean(expected[1:]))
            assert solution.loadings.shape == (P, 0)


def test_features_that_are_all_constant_have_no_smoothness():
    graph = sp.csr_array(np.ones((3, 3)) - np.eye(3))
    solution = solve_smoothness(np.ones((3, 2)), graph)
    assert np.isinf(solution.state).all()
    assert solution.objective == 0


def test_the_gap_of_a_subspace_fit_to_sparse_samples():
    gram, X = pair(7)
    rng = np.random.default_rng(0)
    Y = np.linalg.qr(rng.standard_normal((N, 2)))[0]
    A = 0.1 * rng.standard_normal((P, 2))
    problem = SubspaceProblem(gram, X.T @ Y, targets=Y)
    objective, gap = penalised_gap(problem, A, 0.3, "l21")
    assert objective == pytest.approx(
        np.sum((Y - X @ A) ** 2) + 0.3 * np.linalg.norm(A, axis=1).sum()
    )
    R = Y - X @ A
    length = 0.15 / np.linalg.norm(X.T @ R, axis=1).max()
    length = min(length, np.sum(Y * R) / np.sum(R * R))
    dual = np.sum(Y * Y) - np.sum((Y - length * R) ** 2)
    assert gap == pytest.approx((objective - dual) / objective)


# rows √(w/2)(x - m)


@pytest.mark.parametrize("shifted", [False, True])
def test_weighted_rows_in_every_form(shifted, monkeypatch):
    R = counts(8)
    X = R - R.mean(axis=0)
    w = np.random.default_rng(0).uniform(0.5, 2, N)
    mean = w @ X / w.sum() if shifted else None
    rows = np.sqrt(w / 2)[:, None] * (X - mean if shifted else X)
    rng = np.random.default_rng(1)
    U, V, other = rng.standard_normal((P, 2)), rng.standard_normal((N, 2)), rng.uniform(0, 1, N)
    chosen = rng.random(P) < 0.5
    sparse = SparseSamples(sp.csr_array(R), R.mean(axis=0))
    forms = [
        sparse.reweighted(w / 2, mean),
        Reweighted(DenseSamples(X), w / 2, mean),
        DenseSamples(X).reweighted(w / 2, mean),
        DenseSamples(R, R.mean(axis=0)).reweighted(w / 2, mean),
    ]
    for form in forms:
        for part, here, columns in (
            (form, rows, U),
            (form.columns(chosen), rows[:, chosen], U[chosen]),
        ):
            np.testing.assert_allclose(part.times(columns), here @ columns, atol=1e-12)
            np.testing.assert_allclose(part.transposed_times(V), here.T @ V, atol=1e-12)
            np.testing.assert_allclose(part.squared_lengths(), np.sum(here**2, axis=0), atol=1e-12)
            images = np.sum((here.T @ V) ** 2, axis=1)
            np.testing.assert_allclose(part.squared_lengths(V), images, atol=1e-12)
            np.testing.assert_allclose(part.weighted_squares(other), other @ here**2, atol=1e-12)
            np.testing.assert_allclose(part.row_squares(), np.sum(here**2, axis=1), atol=1e-12)
            np.testing.assert_allclose(part.gram(), here @ here.T, atol=1e-12)
            np.testing.assert_allclose(part.dense(), here, atol=1e-12)
        assert form.columns(np.ones(P, dtype=bool)) is form
        np.testing.assert_allclose(samples_wide.squared_rows(form), np.sum(rows**2, axis=1))
    monkeypatch.setattr(samples_wide, "LARGEST_GRAM", 3)
    np.testing.assert_allclose(samples_wide.squared_rows(forms[0]), np.sum(rows**2, axis=1))


# where there is no room


def test_too_many_directions_of_data_known_by_products(monkeypatch):
    R = np.random.default_rng(9).standard_normal((30, 60))
    X = R - R.mean(axis=0)
    for module in (convex_wide, scatter_access, wide_penalties):
        monkeypatch.setattr(module, "LARGEST_GRAM", 10)
    data = SparseSamples(sp.csr_array(R), R.mean(axis=0))
    entry = 8 * 6 + 8 * 10  # bytes of the arrays with one row for each feature
    monkeypatch.setattr(convex_wide, "bytes_to_use", lambda data: entry * 60 * 8)  # eight columns
    total = np.sum(X**2)
    with pytest.raises(TooManyDirectionsError) as refusal:
        solve_wide(data, 1e-3 * total, 0.0)
    assert refusal.value.count == 4
    needed = entry * 60 * 2 * 30 / (3 / 4) + 450 * 60  # and 450 for what is told of each feature
    assert refusal.value.gigabytes == pytest.approx(needed / 1e9)
    fourth = np.linalg.eigvalsh(X @ X.T)[-4]
    assert refusal.value.eta == pytest.approx(2 * fourth / 0.3 * 1.001, rel=1e-4)


def test_the_penalty_that_makes_room(monkeypatch):
    X = np.random.default_rng(11).standard_normal((20, 60))
    X -= X.mean(axis=0)
    entry = 8 * 6 + 8 * 10
    monkeypatch.setattr(convex_wide, "bytes_to_use", lambda data: entry * 60 * 12)  # twelve columns
    values = np.linalg.eigvalsh(X @ X.T)
    with pytest.raises(TooManyDirectionsError) as refusal:
        convex_wide.check_memory(DenseSamples(X), 1e-6)
    assert refusal.value.count == 19
    needed = entry * 60 * 38 / (3 / 4) + 450 * 60 + 3 * X.nbytes
    assert refusal.value.gigabytes == pytest.approx(needed / 1e9)
    eta = refusal.value.eta
    assert eta <= 2 * values[-1] * (1 + 1e-5)  # noise: nothing is left where so little fits
    convex_wide.check_memory(DenseSamples(X), eta)
    with pytest.raises(TooManyDirectionsError):  # and is the smallest that fits
        convex_wide.check_memory(DenseSamples(X), 0.99 * eta)
    monkeypatch.setattr(convex_wide, "bytes_to_use", lambda data: entry * 60 * 40)
    convex_wide.check_memory(DenseSamples(X), 1e-6)  # there is room for all


def test_a_basis_may_take_what_is_allowed_and_free(monkeypatch):
    X = np.random.default_rng(11).standard_normal((20, 60))
    data = DenseSamples(X - X.mean(axis=0))
    with budget.limited_to("80kB"):
        assert convex_wide.bytes_to_use(data) == 3 * 2**22  # of what all may take
        monkeypatch.setattr(budget, "LEAST_ALLOWED", 0)
        left = 80_000 - 3 * X.nbytes - 450 * 60  # beside the samples, and what is told of features
        assert convex_wide.bytes_to_use(data) == 3 * left // 4
        with pytest.raises(TooManyDirectionsError):
            convex_wide.check_memory(data, 1e-6)
    convex_wide.check_memory(data, 1e-6)  # the limit ends with its block
    asked = []
    monkeypatch.setattr(budget, "available_memory", lambda: asked.append(1) or 8 * 10**9)
    assert convex_wide.bytes_to_use(data) == 75_000_000  # so little that the system is not asked
    assert not asked
    many = np.lib.stride_tricks.as_strided(X, (20, 10**6), (480, 0))  # a million equal columns
    assert convex_wide.bytes_to_use(DenseSamples(many)) == 6 * 10**9
    with budget.limited_to("1GB"):
        left = 10**9 - 3 * 20 * 8 * 10**6 - 450 * 10**6
        assert convex_wide.bytes_to_use(DenseSamples(many)) == 3 * left // 4


def test_eigenvalues_that_settle_early(monkeypatch):
    rng = np.random.default_rng(10)
    X = rng.standard_normal((60, 3)) * [9, 7, 5] @ rng.standard_normal((3, 90))
    X += 0.01 * rng.standard_normal(X.shape)
    monkeypatch.setattr(wide_penalties, "LARGEST_GRAM", 10)
    found = wide_penalties.leading_eigenvalues(DenseSamples(X), 2)
    np.testing.assert_allclose(found, np.linalg.eigvalsh(X @ X.T)[::-1][:2], rtol=1e-6)
