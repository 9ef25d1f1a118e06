import numpy as np
import published
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from jointsparse.eigen.block_krylov import largest_pairs, widened
from jointsparse.eigen.orthonormal import orthonormal_rows
from jointsparse.eigen.ties import shares
from jointsparse.graphs.laplacian import affinity, laplacian, symmetrised
from jointsparse.graphs.neighbours import nearest_neighbours
from jointsparse.operators.sparse import SparseSamples
from jointsparse.solvers.graph import adaptive as adaptive_graph
from jointsparse.solvers.graph import (
    neighbourhood,
    quadratic_forms,
    reweighted_eigen,
    stationary_rows,
)
from jointsparse.solvers.graph.adaptive import component_indicators, solve_adaptive_graph
from jointsparse.solvers.graph.leverage_newton import NewtonSteps
from jointsparse.solvers.graph.light_features import LightFeatures
from jointsparse.solvers.graph.neighbourhood import residual_start, solve_neighbourhood
from jointsparse.solvers.graph.quadratic_forms import (
    DenseForm,
    LaplacianForm,
    ScatterForm,
    form_of,
    laplacian_product,
)
from jointsparse.solvers.graph.reweighted_eigen import (
    SMOOTHING,
    _Extrapolation,
    reweighted_passes,
    scores_of,
    solve_reweighted_eigen,
)
from jointsparse.solvers.graph.sparse_form import SparseScatterForm
from jointsparse.solvers.graph.stationary_rows import _Search, stationary_leverages
from jointsparse.solvers.products.gram import SampleGram

NO_WEIGHTS = np.zeros(0)  # Newton's method alone looks at them

seeds = st.integers(0, 10_000)


def wide(seed, n=12, p=60):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p)) + rng.standard_normal((n, p))
    return X - X.mean(axis=0)


def penalty(A, m, power, relative=0.3):
    p = len(A)
    return relative * abs(np.trace(A)) * m / p / (p ** (1 - power / 2) * m ** (power / 2))


@pytest.mark.parametrize("power", [1.0, 0.5])
@given(seed=seeds, relative=st.sampled_from([0.03, 0.3, 3.0]))
@settings(max_examples=4)
def test_wide_forms_give_what_the_matrix_gives(power, seed, relative):
    X = wide(seed)
    L = laplacian(affinity(X, 3))
    for form, A in (
        (LaplacianForm(X, L), X.T @ L.toarray() @ X),
        (ScatterForm(X), -X.T @ X),
    ):
        g = penalty(A, 4, power, relative)
        parameters = {"penalty": g, "power": power, "tol": 1e-7, "max_iter": 60}
        one = solve_reweighted_eigen(form, 4, **parameters)
        other = solve_reweighted_eigen(DenseForm(A), 4, **parameters)
        np.testing.assert_allclose(one.state, other.state, atol=1e-6)
        assert one.objective == pytest.approx(other.objective, rel=1e-8)
        assert one.state.sum() == pytest.approx(4)


def test_the_inverse_alone_suffices_where_a_matrix_would_be_too_large(monkeypatch):
    monkeypatch.setattr(quadratic_forms, "DENSE_UP_TO", 0)
    X = wide(1, n=20, p=300)
    L = laplacian(affinity(X, 3))
    A = X.T @ L.toarray() @ X
    for form, matrix in ((LaplacianForm(X, L), A), (ScatterForm(X), -X.T @ X)):
        g = penalty(matrix, 5, 1.0)
        one = solve_reweighted_eigen(form, 5, penalty=g, max_iter=10, tol=1e-12)
        other = solve_reweighted_eigen(DenseForm(matrix), 5, penalty=g, max_iter=10, tol=1e-12)
        np.testing.assert_allclose(one.state, other.state, atol=1e-7)


def test_more_columns_than_samples_leave_the_matrix():
    X = wide(0, n=10, p=14)
    L = laplacian(affinity(X, 3))
    assert isinstance(form_of(X, L, 4), DenseForm)
    assert isinstance(form_of(X, L, 3), LaplacianForm)


@given(seed=seeds, power=st.sampled_from([1.0, 0.5, 0.2]))
@settings(max_examples=15)
def test_passes_are_those_of_the_papers(seed, power):
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((9, 9))
    A = B @ B.T
    expected, _ = published.reweighted(A, 0.5, 3, power, 6, 1e-10)
    found = solve_reweighted_eigen(DenseForm(A), 3, penalty=0.5, power=power, tol=0.0, max_iter=6)
    np.testing.assert_allclose(found.state, expected, atol=1e-7)
    assert np.all(np.diff(found.history) <= 1e-9 * np.abs(found.history[:-1]))
    assert found.n_iter == 6


def test_ties_share_the_space():
    np.testing.assert_allclose(
        shares(np.array([0.0, 1.0, 1.0, 1.0, 2.0]), 2, 1e-9), [1, 1 / 3, 1 / 3, 1 / 3, 0]
    )
    # three equal features: whichever way they are combined, they have the same leverage
    found = solve_reweighted_eigen(DenseForm(np.diag([1.0, 1.0, 1.0, 3.0])), 1, penalty=0.0)
    np.testing.assert_allclose(found.state, [1 / 3, 1 / 3, 1 / 3, 0], atol=1e-12)
    assert found.converged
    assert found.n_iter == 1


def test_equal_features_stay_equal():
    X = wide(5, n=40, p=6)
    X = np.column_stack([X, X[:, 0], X[:, 0]])
    A = -X.T @ X
    twins = np.array([0, 1, 2, 3, 4, 5, 0, 0])
    found = solve_reweighted_eigen(
        DenseForm(A), 2, penalty=penalty(A, 2, 0.5, 3.0), power=0.5, twins=twins, tol=1e-9
    )
    assert found.state[0] == found.state[6] == found.state[7]


def test_multiple_eigenvalues_are_found_from_a_block():
    values = np.r_[np.full(4, 3.0), np.linspace(2.9, 0.1, 196)]
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((200, 200)))[0]
    T = (rotation * values) @ rotation.T
    pairs = largest_pairs(lambda V: T @ V, widened(np.empty((200, 0)), 8), 5)
    assert pairs.converged
    np.testing.assert_allclose(pairs.values[:5], values[:5], atol=1e-10)
    np.testing.assert_allclose(
        T @ pairs.vectors[:, :5], pairs.vectors[:, :5] * values[:5], atol=1e-8
    )
    assert not largest_pairs(
        lambda V: T @ V, widened(np.empty((200, 0)), 8), 5, max_restarts=1
    ).converged


@pytest.mark.parametrize("way", ["dense", "factor", "product"])
@pytest.mark.parametrize("count", [2, 3, 6])
def test_indicators_are_the_lowest_eigenvectors(way, count, monkeypatch):
    monkeypatch.setattr(adaptive_graph, "DENSE_UP_TO", 1000 if way == "dense" else 0)
    monkeypatch.setattr(adaptive_graph, "FACTOR_UP_TO", 1000 if way == "factor" else 0)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 2)) + 20 * (np.arange(150) % 3)[:, None]
    graph = affinity(X, 8)
    assert sp.csgraph.connected_components(graph)[0] == 3
    F = component_indicators(graph, count, laplacian(graph))
    vectors = np.linalg.eigh(laplacian(graph).toarray())[1]
    projector = vectors[:, :count] @ vectors[:, :count].T
    if count < 3:  # of three components any two could be taken: all of them, two thirds each
        projector = vectors[:, :3] @ vectors[:, :3].T * 2 / 3
    np.testing.assert_allclose(F @ F.T, projector, atol=1e-6)


def test_both_splits_of_the_neighbourhood_embedding_choose_alike(monkeypatch):
    A = wide(3, n=15, p=40)
    start = residual_start(np.abs(A).sum(axis=0), 4)
    square = solve_neighbourhood(A, start, strength=1e3, tol=1e-12, max_iter=50)
    monkeypatch.setattr(neighbourhood, "SQUARE_UP_TO", 0)
    factored = solve_neighbourhood(A, start, strength=1e3, tol=1e-12, max_iter=50)
    chosen = np.argsort(-np.sum(square.loadings**2, axis=1))[:4]
    again = np.argsort(-np.sum(factored.loadings**2, axis=1))[:4]
    assert set(chosen) == set(again)
    best_selection = np.sort(np.abs(A).sum(axis=0))[:4].sum()
    assert max(factored.objective, square.objective) < best_selection


def test_extrapolation_of_a_linear_iteration_lands_on_its_limit():
    # Logarithms that approach a limit by half each time: the step of squared extrapolation is 2.
    limit, rate = np.log([0.5, 0.2, 0.01]), 0.5
    points = [np.exp(limit + rate**k * np.array([-2.0, -1.0, 1.0])) for k in range(3)]
    jump = _Extrapolation(0.0, plain=0)
    assert jump.next(points[0], points[1], NO_WEIGHTS) is points[1]
    assert not jump.made
    np.testing.assert_allclose(
        jump.next(points[1], points[2], NO_WEIGHTS), np.exp(limit), rtol=1e-10
    )
    assert jump.made
    # not before the plain passes are over
    patient = _Extrapolation(0.0, plain=3)
    assert patient.next(points[0], points[1], NO_WEIGHTS) is points[1]
    assert patient.next(points[1], points[2], NO_WEIGHTS) is points[2]
    assert not patient.made


def test_a_long_step_is_cut_and_a_bad_one_halves_the_next():
    limit, rate = np.log([0.5, 0.2]), 0.99  # asks for a step of 100
    points = [np.exp(limit + rate**k * np.array([-2.0, -1.0])) for k in range(3)]
    jump = _Extrapolation(0.0, plain=0)
    jump.next(points[0], points[1], NO_WEIGHTS)
    far = np.log(jump.next(points[1], points[2], NO_WEIGHTS))
    first, second = np.diff([np.log(point) for point in points], axis=0)
    np.testing.assert_allclose(far, np.log(points[0]) + 8 * first + 16 * (second - first))
    assert jump.reach == 8  # it was needed: a longer one may be tried next
    for reach in (4, 2, 1, 1):
        jump.take_back()
        assert jump.reach == reach
        assert not jump.made
    assert not jump.earlier


def steps_of(A, count=2, power=1.0):
    return NewtonSteps(DenseForm(A).block, count, power, SMOOTHING)


def a_pass(A, x, penalty=0.3, power=1.0, count=2):
    """Return the leverages after a pass, and the weights of it."""
    weights = penalty * (power / 2) * (x + SMOOTHING) ** ((power - 2) / 2)
    vectors = np.linalg.eigh(A + np.diag(weights))[1][:, :count]
    return np.sum(vectors**2, axis=1), weights


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_newton_knows_the_derivative_of_a_pass(power):
    # With all multiples allowed, one step solves the linear equation; differences say which.
    rng = np.random.default_rng(4)
    root = rng.standard_normal((30, 6))
    A = root.T @ root / 30
    x = a_pass(A, np.full(6, 1 / 3), power=power)[0]
    at, h = np.log(x + SMOOTHING), 1e-6

    def image(logarithm):
        after = a_pass(A, np.exp(logarithm) - SMOOTHING, power=power)[0]
        return np.log(after + SMOOTHING)

    T = np.column_stack([(image(at + h * e) - image(at - h * e)) / (2 * h) for e in np.eye(6)])
    assert np.max(np.linalg.eigvals(T).real) < 0.9  # no part is cut
    wanted = at + np.linalg.solve(np.eye(6) - T, image(at) - at)
    after, weights = a_pass(A, x, power=power)
    steps = steps_of(A, power=power)
    steps.reach = 1e4
    found = steps.point(x, after, weights)
    np.testing.assert_allclose(np.log(found + SMOOTHING), np.minimum(wanted, 0), atol=1e-6)


def test_newton_steps_are_cut_and_refused_where_they_say_nothing():
    A = np.diag([1.0, 2.0, 3.0, 9.0]) + 0.2
    x = np.full(4, 0.5)
    after, weights = a_pass(A, x)
    steps = steps_of(A)
    steps.reach = 1.0  # nothing beyond the pass itself
    np.testing.assert_allclose(steps.point(x, after, weights), after, rtol=1e-9)
    steps.went_well()
    assert steps.reach == 2
    steps.went_too_far()
    assert steps.reach == 1
    few = np.array([0.9, 0.9, 0.0, 0.0])  # no more than vectors: nothing to choose between
    assert steps.point(few, few, weights) is None
    same = steps_of(np.zeros((4, 4)))  # eigenvalues that tie: N is not known
    assert same.point(x, x, np.ones(4)) is None


def test_a_bad_newton_step_is_taken_back(monkeypatch):
    A = np.cov(np.random.default_rng(2).standard_normal((50, 8)), rowvar=False)
    sure = solve_reweighted_eigen(DenseForm(A), 2, penalty=0.3, tol=1e-9, max_iter=500)
    taken_back = []
    monkeypatch.setattr(NewtonSteps, "went_too_far", lambda self: taken_back.append(self))
    monkeypatch.setattr(NewtonSteps, "point", lambda self, before, after, w: np.full(8, 0.25))
    monkeypatch.setattr(reweighted_eigen, "stationary_leverages", lambda *given: None)
    passes = reweighted_passes(DenseForm(A), 2, 0.3, 1.0, plain=3)
    values = [next(passes).objective for _ in range(400)]
    assert taken_back
    assert np.all(np.diff(values) <= 1e-15)
    assert values[-1] == pytest.approx(sure.history[-1], rel=1e-6)


def penalised(A, W, penalty, power):
    """Return the objective with smoothing, and its gradient over that of the penalty."""
    squares = np.sum(W**2, axis=1) + SMOOTHING
    weights = penalty * power / 2 * squares ** (power / 2 - 1)
    slope = (A + np.diag(weights)) @ W
    slope -= W @ (W.T @ slope)
    size = np.linalg.norm(weights[:, None] * W)
    return np.sum(W * (A @ W)) + penalty * np.sum(squares ** (power / 2)), np.linalg.norm(
        slope
    ) / size


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("seed", range(4))
def test_the_stationary_point_is_one_and_lower(seed, sign, power):
    root = np.random.default_rng(seed).standard_normal((40, 12))
    A = sign * root.T @ root / 40
    W = np.linalg.eigh(A)[1][:, :3]
    start, _ = penalised(A, W, 0.4, power)
    search = _Search(DenseForm(A), np.arange(12), W, (0.4, power, SMOOTHING))
    for _ in range(200):
        slope = search.slope()
        if slope.relative <= 1e-9 or not search.step(slope):
            break
    found = np.zeros((12, 3))
    found[search.used] = search.at.vectors.T
    np.testing.assert_allclose(found.T @ found, np.eye(3), atol=1e-12)
    end, slope = penalised(A[np.ix_(search.used, search.used)], found[search.used], 0.4, power)
    assert slope <= 1e-6
    assert end < start
    # The search from there goes nowhere, and a pass from there comes back to it.
    leverages = stationary_leverages(DenseForm(A), found, 0.4, power, SMOOTHING, 1e-6)
    if leverages is not None:
        weights = 0.4 * power / 2 * (leverages + SMOOTHING) ** (power / 2 - 1)
        again = DenseForm(A).lowest(weights, 3, found).leverages
        np.testing.assert_allclose(again, leverages, atol=1e-4)


def test_a_row_that_was_left_out_comes_back():
    # The third feature goes with the first two: without it, W costs more than its row.
    A = 2 * np.eye(3) - np.ones((3, 3)) + 0.9
    search = _Search(DenseForm(A), np.arange(2), np.eye(3)[:, :1], (0.1, 1.0, SMOOTHING))
    search.at = search._point(np.array([[0.6, 0.8]]))
    before = search.at.objective
    assert search.bring_back() == (2 * np.linalg.norm(A[2, :2] @ [0.6, 0.8]) > 0.1)
    assert search.used.tolist() == [0, 1, 2]
    assert search.at.objective < before
    search.power = 0.5  # a kink of infinite slope
    search.used = np.arange(2)
    assert not search.bring_back()


def test_rows_that_depend_have_no_basis_and_shifts_reach_below_all_eigenvalues():
    rows = np.random.default_rng(0).standard_normal((2, 5))
    basis = orthonormal_rows(rows)
    np.testing.assert_allclose(basis @ basis.T, np.eye(2), atol=1e-14)
    np.testing.assert_allclose((rows @ basis.T) @ basis, rows, atol=1e-14)
    assert orthonormal_rows(np.vstack([rows, rows[:1] + rows[1:]])) is None
    K = np.diag([-50.0, 1.0, 2.0])
    factor = np.tril(stationary_rows._factor(K, np.array([[2.0]])))
    lowered = factor @ factor.T - K
    np.testing.assert_allclose(lowered, lowered[0, 0] * np.eye(3), atol=1e-12)
    assert lowered[0, 0] > 50
    K[1, 1] = -np.inf
    assert stationary_rows._factor(K, np.array([[2.0]])) is None


def test_a_bad_stationary_point_is_taken_back(monkeypatch):
    A = np.cov(np.random.default_rng(2).standard_normal((50, 8)), rowvar=False)
    sure = solve_reweighted_eigen(DenseForm(A), 2, penalty=0.3, tol=1e-9, max_iter=500)
    calls = []
    monkeypatch.setattr(
        reweighted_eigen, "stationary_leverages", lambda *given: calls.append(1) or np.full(8, 0.25)
    )
    found = solve_reweighted_eigen(DenseForm(A), 2, penalty=0.3, tol=1e-9, max_iter=500)
    assert calls == [1]
    assert np.all(np.diff(found.history) <= 1e-14)
    assert found.objective == pytest.approx(sure.objective, rel=1e-9)


def test_few_or_too_many_rows_are_left_to_the_passes(monkeypatch):
    form, W = DenseForm(np.diag([1.0, 2.0, 3.0])), np.eye(3)[:, :2]
    assert stationary_leverages(form, W, 0.1, 1.0, SMOOTHING, 1e-6) is None
    monkeypatch.setattr(stationary_rows, "MOST_ROWS", 2)
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 2)))[0]
    assert stationary_leverages(form, turned, 0.1, 1.0, SMOOTHING, 1e-6) is None


def light_problem(seed, heaviest):
    """Return a matrix of norm 1 and weights, those of 14 features far above it."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((40, 20))
    A = root.T @ root
    weights = np.concatenate([rng.uniform(0.01, 0.2, 6), heaviest * rng.uniform(1, 9, 14)])
    return A / np.linalg.norm(A, 2), rng.permutation(weights)


@pytest.mark.parametrize("heaviest", [3e3, 1e5, 1e9])
@pytest.mark.parametrize("seed", range(4))
def test_features_that_are_out_are_eliminated_without_error(seed, heaviest):
    A, weights = light_problem(seed, heaviest)
    values, vectors = LightFeatures(A, 1.0).lowest(weights, 2, 5)
    # Products of quadruple precision judge: a dense eigensolver loses the digits of small values.
    exact, V = A.astype(np.longdouble), vectors.astype(np.longdouble)
    residual = exact @ V + weights[:, None] * V - V * values
    scaled = np.abs(residual) / np.maximum(1.0, weights)[:, None]
    assert np.max(scaled[:, :2]) < 1e-11
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=1e-11)
    dense = np.linalg.eigvalsh(A + np.diag(weights))[:5]
    np.testing.assert_allclose(values, dense, atol=1e-13 * weights.max() + 1e-10)
    again = LightFeatures(A, 1.0).lowest(weights, 2, 5)[0]
    np.testing.assert_array_equal(again, values)


def test_elimination_is_refused_where_it_would_not_do():
    A, weights = light_problem(0, 1e5)
    light = LightFeatures(A, 1.0)
    assert light.lowest(weights, 2, 7) is None  # of which there are six
    assert light.lowest(np.minimum(weights, 500.0), 2, 5) is None  # not far enough
    assert light.lowest(np.where(weights > 1, weights, 0.1), 2, 5) is not None
    tied = LightFeatures(np.zeros((20, 20)) + 1e-3, 0.02)
    assert tied.lowest(np.where(weights > 1, weights, 0.1), 2, 5) is None  # equal eigenvalues
    few = np.where(np.arange(20) < 13, 0.1, 1e5)
    assert light.lowest(few, 2, 5) is None  # so many light ones that nothing is saved


def test_scores_without_smoothing():
    np.testing.assert_array_equal(scores_of(np.array([0.5, 1e-8, 2e-8])), [0.5, 0, 2e-8])


def test_the_objective_of_a_learned_graph_is_that_of_its_parts():
    X = wide(2, n=25, p=6)
    candidates = nearest_neighbours(X, 4)[0]
    weights = np.full(candidates.shape, 0.25)
    options = {"n_clusters": 2, "n_components": 2, "strength": 0.7, "penalty": 0.3, "power": 0.5}
    found = solve_adaptive_graph(X, candidates, weights, **options, tol=1e-8, max_iter=1)
    leverages, rows, trade = found.state
    assert trade == 0.7  # the λ of the objective, not that of a next iteration
    L = laplacian(symmetrised(rows, combine="mean")).toarray()
    W = found.loadings
    np.testing.assert_allclose(np.sum(W**2, axis=1), leverages, atol=1e-10)
    value = np.trace(W.T @ X.T @ L @ X @ W) + 0.3 * np.sum(leverages**0.25)
    value += 0.7 / 2 * np.sum(rows.toarray() ** 2)
    value += 0.7 * np.linalg.eigvalsh(L)[:2].sum()  # that of the best F
    assert found.objective == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(rows.sum(axis=1), 1)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_eigenspaces_do_not_depend_on_the_unit(unit):
    X = wide(7)
    X[6:] = X[:6]  # directions of rounding
    X -= X.mean(axis=0)
    L = laplacian(affinity(wide(7), 3))
    for one, other in (
        (ScatterForm(X), ScatterForm(unit * X)),
        (LaplacianForm(X, L), LaplacianForm(unit * X, L)),
        (DenseForm(X.T @ X), DenseForm(unit**2 * X.T @ X)),
    ):
        first, second = one.first(3), other.first(3)
        np.testing.assert_allclose(second.leverages, first.leverages, atol=1e-9)
        assert second.energy == pytest.approx(unit**2 * first.energy, abs=1e-9 * unit**2)
        assert second.vectors.shape == first.vectors.shape
        weights = np.linspace(0.1, 3.0, 60)
        near, far = (
            form.lowest(scale * weights, 3, np.empty((60, 0)))
            for form, scale in ((one, 1.0), (other, unit**2))
        )
        np.testing.assert_allclose(far.leverages, near.leverages, atol=1e-7)


def test_rows_of_features_that_are_out_are_as_small_as_they_are():
    # Two parts that share nothing. 1e-16 of rounding would be 1e-8 of a row's penalty.
    rng = np.random.default_rng(3)
    both = np.linalg.qr(rng.standard_normal((12, 10)))[0]
    strong = both[:, :2] @ rng.standard_normal((2, 6))
    X = np.column_stack([strong, 0.1 * both[:, 2:] @ rng.standard_normal((8, 24))])
    X /= np.linalg.norm(X)
    g = penalty(-X.T @ X, 2, 0.5, 1.0)
    products = SparseScatterForm(SampleGram(SparseSamples(sp.csr_array(X), np.zeros(30))))
    for form in (ScatterForm(X), DenseForm(-X.T @ X), products):
        found = solve_reweighted_eigen(form, 2, penalty=g, power=0.5, tol=1e-6)
        lengths = np.linalg.norm(found.loadings, axis=1)
        assert lengths[6:].max() < 1e-19
        energy = -np.sum((X @ found.loadings) ** 2)
        value = energy + g * np.sum(lengths[:6] ** 0.5)
        assert found.objective == pytest.approx(value, rel=1e-10)


def test_a_penalty_that_outweighs_the_data_leaves_loadings_as_they_are():
    # All weights are far above A: none of them is far above the eigenvalues.
    X = wide(2, n=10, p=20)
    for form in (ScatterForm(X), DenseForm(-X.T @ X)):
        for g in (1e3, 1e9, 1e15):
            found = solve_reweighted_eigen(form, 3, penalty=g * np.sum(X**2), tol=1e-6)
            W = np.asarray(found.loadings)
            np.testing.assert_allclose(W.T @ W, np.eye(3), atol=1e-8)
            assert np.isfinite(found.objective)


@pytest.mark.parametrize("features", [1, 127, 128, 129, 300])
def test_the_triangle_of_a_form_that_is_computed_is_both(features):
    rng = np.random.default_rng(features)
    X, root = rng.standard_normal((40, features)), rng.standard_normal((40, 40))
    matrix = sp.csr_array(root @ root.T)
    found = laplacian_product(X, matrix)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(found, X.T @ (root @ root.T) @ X, atol=1e-10 * np.max(found))


@pytest.mark.parametrize("penalty", [1e-178, 1e-300])
def test_next_to_no_penalty_leaves_the_eigenvectors_as_they_are(penalty):
    """The square of such a weight is 0, and rows divided by it were no numbers."""
    A = np.diag([1.0, 1.2, 3.0, 4.0, 5.0])
    A[3, 0] = A[0, 3] = 0.5
    A[4, 1] = A[1, 4] = 0.3
    start = np.linalg.eigh(A)[1][:, :2]
    with np.errstate(all="raise", under="ignore"):
        found = stationary_leverages(DenseForm(A), start, penalty, 1.0, 1e-10, 1e-8)
    assert found == pytest.approx(np.sum(start**2, axis=1), abs=1e-9)
