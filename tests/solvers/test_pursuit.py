import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jointsparse.eigen import shrink as shrinking
from jointsparse.numerics.projections import shrink_singular_values
from jointsparse.solvers import pursuit
from jointsparse.solvers.pursuit import solve_pursuit


def planted(n, p, rank, share, seed=0):
    """Low rank plus gross errors, all larger than the typical entry."""
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    E = np.where(rng.random((n, p)) < share, rng.uniform(1, 10, (n, p)), 0) * L.std()
    return L, E * rng.choice([-1, 1], (n, p))


def noisy(seed, n, p):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, p))
    return X + 0.3 * rng.standard_normal((n, p))


def value(L, E, lam):
    return np.linalg.svd(L, compute_uv=False).sum() + lam * np.abs(E).sum()


@pytest.mark.parametrize(
    ("n", "p", "rank", "share"),
    [(200, 200, 5, 0.05), (200, 200, 5, 0.1), (60, 400, 3, 0.1), (400, 60, 3, 0.1)],
)
def test_planted_parts_are_recovered(n, p, rank, share):
    L, E = planted(n, p, rank, share)
    solution = solve_pursuit(L + E, 1 / np.sqrt(max(n, p)), tol=1e-7, max_iter=1000)
    errors, scores = solution.state
    assert solution.converged
    assert np.linalg.norm(L + E - errors - L) < 1e-6 * np.linalg.norm(L)
    np.testing.assert_array_equal(errors != 0, E != 0)
    assert solution.loadings.shape == (p, rank)
    np.testing.assert_allclose(solution.loadings.T @ solution.loadings, np.eye(rank), atol=1e-10)
    np.testing.assert_allclose(scores @ solution.loadings.T, L, atol=1e-5)


@pytest.mark.parametrize(("n", "p"), [(12, 8), (8, 12), (10, 10)])
@pytest.mark.parametrize("factor", [0.7, 1.0, 1.5])
def test_optimum_is_that_of_a_general_solver(n, p, factor):
    X = noisy(n + p, n, p)
    X[1, 2] += 5
    lam = factor / np.sqrt(max(n, p))
    L = cp.Variable((n, p))
    problem = cp.Problem(cp.Minimize(cp.normNuc(L) + lam * cp.sum(cp.abs(X - L))))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    solution = solve_pursuit(X, lam, tol=1e-9, max_iter=20_000)
    assert solution.objective == pytest.approx(problem.value, rel=1e-7)
    distance = np.linalg.norm(X - solution.state[0] - L.value)
    assert distance < 1e-5 * np.linalg.norm(L.value)


@given(
    seed=st.integers(0, 1000),
    n=st.integers(2, 15),
    p=st.integers(1, 15),
    factor=st.sampled_from([0.5, 1.0, 2.0]),
    max_iter=st.sampled_from([1, 10, 37, 2000]),
    far=st.sampled_from([0.0, 1e3, 1e5, 1e8]),
)
@settings(max_examples=60)
def test_gap_bounds_the_distance_to_the_optimum_however_early_it_stops(
    seed, n, p, factor, max_iter, far
):
    X = noisy(seed, n, p)
    X[0] += far
    lam = factor / np.sqrt(max(n, p))
    early = solve_pursuit(X, lam, tol=1e-8, max_iter=max_iter)
    best = solve_pursuit(X, lam, tol=1e-9, max_iter=20_000)
    errors = early.state[0]
    assert early.objective == pytest.approx(value(X - errors, errors, lam), rel=1e-10)
    assert early.objective - best.objective <= early.gap * early.objective * (1 + 1e-9) + 1e-12
    assert best.objective <= early.objective * (1 + 1e-8)
    assert len(early.history) == len(early.gap_history) == early.n_iter


@pytest.mark.parametrize("shape", [(220, 260), (260, 220)])
def test_partial_and_dense_decompositions_agree(shape, monkeypatch):
    L, E = planted(*shape, 6, 0.05, seed=3)
    X, lam = L + E, 1 / np.sqrt(max(shape))
    dense_calls = []
    dense = shrinking.Shrink._dense
    monkeypatch.setattr(shrinking.Shrink, "_dense", lambda *a: dense_calls.append(1) or dense(*a))
    partial = solve_pursuit(X, lam, tol=1e-8, max_iter=400)
    few = len(dense_calls)
    monkeypatch.setattr(shrinking, "PARTIAL_FROM", 10**9)
    full = solve_pursuit(X, lam, tol=1e-8, max_iter=400)
    assert partial.converged
    assert 3 * few < partial.n_iter <= full.n_iter + 10
    assert partial.objective == pytest.approx(full.objective, rel=2e-8)
    np.testing.assert_allclose(partial.state[0], full.state[0], atol=1e-5)


@pytest.mark.parametrize("shape", [(150, 30), (30, 25)])
def test_how_large_an_outlier_is_changes_nothing_but_its_error(shape):
    X, lam = noisy(2, *shape), 1 / np.sqrt(max(shape))
    away = np.random.default_rng(5).standard_normal(shape[1])
    parts, iterations = [], []
    for size in (1e3, 1e6, 1e30):
        X[4] = size * away
        solution = solve_pursuit(X, lam, tol=1e-9, max_iter=2000)
        assert solution.converged
        assert solution.gap <= 1e-9
        errors = solution.state[0]
        assert solution.objective == pytest.approx(value(X - errors, errors, lam), rel=1e-9)
        parts.append((X - errors)[np.arange(shape[0]) != 4])
        iterations.append(solution.n_iter)
    for part in parts[1:]:
        np.testing.assert_allclose(part, parts[0], atol=1e-5)
    assert max(iterations) <= 2 * iterations[0]


def test_an_outlier_beyond_all_numbers_in_units_of_the_others_leaves_numbers():
    X = 1e-20 * noisy(2, 30, 8)
    X[4] = 1e300
    solution = solve_pursuit(X, 0.2, tol=1e-7, max_iter=500)
    assert np.isfinite(solution.objective)
    assert solution.gap <= 1e-7
    assert np.all(np.isfinite(solution.state[0]))


@pytest.mark.parametrize(("n", "p"), [(14, 9), (9, 14)])
def test_entries_that_are_no_errors_are_not_drawn_in_for_good(n, p):
    X = noisy(1, n, p)
    # As large as they are, these have rank one, and their signs tell nothing of errors.
    X[:3, :2] += 1e4 * np.outer([1.0, 2.0, 1.5], [1.0, 1.2])
    lam = 3 / np.sqrt(max(n, p))
    assert pursuit._limits(X)[1] < pursuit._limits(X)[0]
    solution = solve_pursuit(X, lam, tol=1e-7, max_iter=20_000)
    L = cp.Variable((n, p))
    problem = cp.Problem(cp.Minimize(cp.normNuc(L) + lam * cp.sum(cp.abs(X / 1e4 - L))))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert solution.converged
    assert solution.objective == pytest.approx(1e4 * problem.value, rel=2e-7)
    assert not np.any(solution.state[0][:3, :2])


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_scale_does_not_matter(scale):
    X = noisy(0, 20, 10)
    one, other = (solve_pursuit(c * X, 0.2, tol=1e-7, max_iter=500) for c in (1.0, scale))
    np.testing.assert_allclose(other.state[0] / scale, one.state[0], atol=1e-10)
    assert other.objective == pytest.approx(scale * one.objective)


@pytest.mark.parametrize("shape", [(7, 4), (4, 7)])
def test_singular_values_are_shrunk(shape):
    M = np.random.default_rng(0).standard_normal(shape)
    left, values, right = np.linalg.svd(M, full_matrices=False)
    expected = (left * np.clip(values - 1.5, 0, None)) @ right
    np.testing.assert_allclose(shrink_singular_values(M, 1.5), expected, atol=1e-10)


def test_singular_values_are_lowered_by_the_threshold(monkeypatch):
    monkeypatch.setattr(shrinking, "PARTIAL_FROM", 20)
    monkeypatch.setattr(shrinking, "PARTIAL_SHARE", 0.5)
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((30, 30)))[0] for _ in range(2))
    values = np.r_[8.0, 5.0, 2.5, np.full(27, 1e-3)]
    shrink = shrinking.Shrink(30)
    for threshold in (1.0, 1.0, 3.0, 0.5, 1.9, 1e-4):  # the last: more than the basis can hold
        M = (left * values) @ right.T
        A, R = shrink(M, threshold)
        kept = values > threshold
        assert A.shape[1] == kept.sum()
        np.testing.assert_allclose(A @ R.T, shrink_singular_values(M, threshold), atol=1e-5)
        np.testing.assert_allclose(R.T @ R, np.eye(kept.sum()), atol=1e-10)
        assert (shrink.basis is None) == (threshold < 1e-3)


def test_dual_values_are_those_of_points_made_feasible():
    rng = np.random.default_rng(1)
    X, Z = rng.standard_normal((2, 6, 4))
    for scale in (0.01, 1.0):
        dual = scale * Z
        outside = max(1.0, np.linalg.norm(dual, 2), np.abs(dual).max() / 0.4)
        assert pursuit._outside(dual, 0.4) == pytest.approx(outside)
    wide = solve_pursuit(X.T, 0.4, tol=1e-7, max_iter=2000)
    tall = solve_pursuit(X, 0.4, tol=1e-7, max_iter=2000)
    np.testing.assert_allclose(wide.state[0], tall.state[0].T, atol=1e-5)
    np.testing.assert_allclose(
        wide.state[1] @ wide.loadings.T, (tall.state[1] @ tall.loadings.T).T, atol=1e-5
    )
    np.testing.assert_allclose(
        wide.loadings.T @ wide.loadings, np.eye(wide.loadings.shape[1]), atol=1e-9
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parts_are_in_the_precision_of_the_samples(dtype):
    L, E = planted(60, 40, 2, 0.05)
    solution = solve_pursuit((L + E).astype(dtype), 1 / np.sqrt(60), tol=1e-4, max_iter=500)
    assert solution.converged
    assert {part.dtype for part in (solution.loadings, *solution.state)} == {np.dtype(dtype)}
