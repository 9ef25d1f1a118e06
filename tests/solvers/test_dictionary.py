import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jointsparse.penalties import soft_threshold
from jointsparse.solvers.components.dictionary import _descend, _Point, solve_dictionary
from jointsparse.solvers.components.dictionary_root import Root


def make_root(seed, n=20, p=12, rank=4, noise=0.3):
    """diag(σ)Vᵀ of random data with trace 1, and the data."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    X += noise * rng.standard_normal((n, p))
    X -= X.mean(axis=0)
    X /= np.linalg.norm(X)
    _, values, right = np.linalg.svd(X, full_matrices=False)
    kept = values > 1e-8
    return values[kept, None] * right[kept], X


def objective(data, codes, atoms, lam):
    return 0.5 * np.sum((data - codes @ atoms.T) ** 2) + lam * np.abs(atoms).sum()


@given(
    seed=st.integers(0, 10_000),
    q=st.integers(1, 6),
    share=st.sampled_from([0.0, 0.02, 0.2, 0.5, 0.95]),
    shape=st.sampled_from([(20, 12), (8, 25)]),
)
@settings(max_examples=40)
def test_objective_never_rises_and_is_that_of_the_solution(seed, q, share, shape):
    root, _ = make_root(seed, *shape)
    lam = share * np.linalg.norm(root, axis=0).max()
    solution = solve_dictionary(root, q, lam, trace=3.0, tol=1e-9, max_iter=500)
    assert np.all(np.diff(solution.history) <= 1e-13)
    codes, atoms = solution.state
    assert np.all(np.linalg.norm(codes, axis=0) <= 1 + 1e-12)
    assert 3 * objective(root, codes, atoms, lam) == pytest.approx(solution.objective, abs=1e-12)
    assert solution.objective <= 1.5 + 1e-12  # that of D = 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_both_blocks_are_optimal_given_the_other(seed, share):
    root, _ = make_root(seed)
    lam = share * np.linalg.norm(root, axis=0).max()
    solution = solve_dictionary(root, 3, lam, tol=1e-15, max_iter=50_000)
    codes, atoms = solution.state
    residual = root - codes @ atoms.T
    # Atoms: the slope of the loss is λ sign(D) on the support, and at most λ outside.
    slope = residual.T @ codes
    support = atoms != 0
    np.testing.assert_allclose(slope[support], lam * np.sign(atoms[support]), atol=1e-7)
    assert np.all(np.abs(slope[~support]) <= lam + 1e-7)
    # Codes: the slope is an outward multiple of Y_k where ‖Y_k‖ = 1, and 0 inside the ball.
    outward = residual @ atoms
    multiple = np.sum(outward * codes, axis=0)
    assert np.all(multiple >= -1e-8)
    np.testing.assert_allclose(outward, codes * multiple, atol=1e-7)
    inside = np.linalg.norm(codes, axis=0) < 1 - 1e-6
    np.testing.assert_allclose(multiple[inside], 0, atol=1e-7)


def test_atoms_are_the_optimum_of_the_convex_problem_with_codes_fixed():
    root, _ = make_root(1)
    lam = 0.1 * np.linalg.norm(root, axis=0).max()
    codes, atoms = solve_dictionary(root, 3, lam, tol=1e-15, max_iter=50_000).state
    D = cp.Variable(atoms.shape)
    loss = cp.sum_squares(root - codes @ D.T) / 2 + lam * cp.sum(cp.abs(D))
    problem = cp.Problem(cp.Minimize(loss))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    np.testing.assert_allclose(atoms, D.value, atol=1e-6)


def test_codes_are_the_optimum_of_the_convex_problem_with_atoms_fixed():
    root, _ = make_root(2)
    lam = 0.1 * np.linalg.norm(root, axis=0).max()
    codes, atoms = solve_dictionary(root, 3, lam, tol=1e-15, max_iter=50_000).state
    Y = cp.Variable(codes.shape)
    problem = cp.Problem(
        cp.Minimize(cp.sum_squares(root - Y @ atoms.T)), [cp.norm(Y, 2, axis=0) <= 1]
    )
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    np.testing.assert_allclose(codes, Y.value, atol=1e-5)


@pytest.mark.parametrize("shape", [(30, 8), (8, 30)])
def test_the_root_stands_for_the_samples(shape):
    root, X = make_root(3, *shape)
    lam = 0.1 * np.linalg.norm(X, axis=0).max()
    solution = solve_dictionary(root, 3, lam, tol=1e-14, max_iter=20_000)
    codes, atoms = solution.state
    lifted = X @ np.linalg.pinv(root) @ codes  # Q of X = QR, times the codes
    np.testing.assert_allclose(np.linalg.norm(lifted, axis=0), np.linalg.norm(codes, axis=0))
    assert objective(X, lifted, atoms, lam) == pytest.approx(solution.objective)
    # No code outside the range of X does better, as it would if the reduction lost anything.
    Y = cp.Variable(lifted.shape)
    problem = cp.Problem(
        cp.Minimize(cp.sum_squares(X - Y @ atoms.T) / 2), [cp.norm(Y, 2, axis=0) <= 1]
    )
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert problem.value + lam * np.abs(atoms).sum() >= solution.objective - 1e-8


def test_without_penalty_it_is_the_best_approximation():
    root, _ = make_root(4)
    solution = solve_dictionary(root, 3, 0.0, tol=1e-12, max_iter=100)
    values = np.linalg.svd(root, compute_uv=False)
    assert solution.objective == pytest.approx(np.sum(values[3:] ** 2) / 2)


def test_an_empty_atom_comes_back_where_it_can_gain_and_only_there():
    # Four features that do not overlap; the last is short. Each alone is worth an atom.
    root = np.diag([0.7, 0.5, 0.45, 0.1])
    four = solve_dictionary(root, 4, 0.2, tol=1e-10, max_iter=200)
    assert np.any(four.loadings, axis=0).tolist().count(True) == 3
    assert four.diagnostics["empty_components"] == 1
    # The optimum is known: each length shrinks by λ.
    best = sum(0.5 * 0.2**2 + 0.2 * (s - 0.2) for s in (0.7, 0.5, 0.45)) + 0.5 * 0.1**2
    assert four.objective == pytest.approx(best)


def test_an_empty_atom_could_gain_nothing_from_any_code():
    empty_atoms = 0
    for seed in range(20):
        root, _ = make_root(seed, 30, 25, rank=8)
        lam = 0.85 * np.linalg.norm(root, axis=0).max()
        solution = solve_dictionary(root, 10, lam, tol=1e-12, max_iter=500)
        codes, atoms = solution.state
        if not np.all(np.any(atoms, axis=0)):
            empty_atoms += 1
            assert np.all(np.linalg.norm(root - codes @ atoms.T, axis=0) <= lam + 2e-6)
    assert empty_atoms > 5


def test_seeding_revives_atoms_that_the_principal_start_loses():
    # Columns of equal length along the axes, seen through a rotation that spreads each principal
    # component over all of them: every entry of the start is thresholded away.
    q = 4
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((q, q)))[0]
    root = np.sqrt([0.28, 0.26, 0.24, 0.22])[:, None] * rotation
    lam = 0.9 * np.linalg.norm(root, axis=0).min()
    start = _Point(np.eye(q), soft_threshold(root, lam), np.inf)
    assert not np.all(np.any(start.atoms, axis=1))
    end, _, diagnostics = _descend(Root(root), lam, start, 1.0, tol=1e-10, max_iter=500)
    assert diagnostics["reseeded"] > 0
    assert np.all(np.any(end.atoms, axis=1))


def test_stops_at_the_iteration_limit():
    root, _ = make_root(5)
    solution = solve_dictionary(root, 3, 0.01, tol=1e-15, max_iter=2)
    assert not solution.converged
    assert solution.n_iter == 2
