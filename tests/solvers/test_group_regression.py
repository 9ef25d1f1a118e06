from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import group_lasso_optimum
from sklearn.linear_model import MultiTaskLasso

from jointsparse.linalg import inverse_of_positive
from jointsparse.solvers.products.equal_features import equal_features
from jointsparse.solvers.products.gram import Gram, SampleGram
from jointsparse.solvers.regression import group as kernel
from jointsparse.solvers.regression.group import (
    emptying_penalty,
    group_regression,
    share_equally,
)
from jointsparse.solvers.regression.group_curvature import DenseCurvature


def problem(seed, n=30, p=12, k=3, true=4):
    """Data with a sum of squares of 1, targets made from a few features, noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p)) + rng.standard_normal((n, p))
    X -= X.mean(axis=0)
    X /= np.linalg.norm(X)
    A = np.zeros((p, k))
    A[: min(true, p)] = rng.standard_normal((min(true, p), k))
    return X, X @ A + 0.05 * rng.standard_normal((n, k))


def solve(X, Y, share, gram=None, **options):
    C = X.T @ Y
    lam = share * emptying_penalty(C)
    gram = Gram(X.T @ X) if gram is None else gram
    return group_regression(gram, C, target=float(np.sum(Y * Y)), penalty=lam, **options), lam


def objective(X, Y, A, lam):
    return np.sum((Y - X @ A) ** 2) + lam * np.linalg.norm(A, axis=1).sum()


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("shape", [{}, {"n": 10, "p": 20}, {"k": 1}])
def test_equals_the_optimum_of_cvxpy_with_the_same_zero_rows(share, shape):
    X, Y = problem(1, **shape)
    fit, lam = solve(X, Y, share)
    best, A = group_lasso_optimum(X, Y, lam)
    assert fit.objective == pytest.approx(best, rel=1e-8)
    np.testing.assert_allclose(fit.coefficients, A, atol=1e-6 * np.abs(A).max())
    norms = np.linalg.norm(A, axis=1)
    np.testing.assert_array_equal(fit.coefficients.any(axis=1), norms > 1e-5 * norms.max())


@pytest.mark.parametrize("shape", [{"n": 60, "p": 30}, {"n": 40, "p": 200}])
def test_equals_multi_task_lasso(shape):
    X, Y = problem(2, **shape)
    fit, lam = solve(X, Y, 0.05)
    rival = MultiTaskLasso(lam / 2 / len(X), fit_intercept=False, tol=1e-12, max_iter=100_000)
    A = rival.fit(X, Y).coef_.T
    np.testing.assert_allclose(fit.coefficients, A, atol=1e-7 * np.abs(A).max())
    np.testing.assert_array_equal(fit.coefficients.any(axis=1), A.any(axis=1))


@given(seed=st.integers(0, 10_000), share=st.floats(1e-3, 0.99), tol=st.sampled_from([1e-2, 1e-9]))
@settings(max_examples=40, deadline=None)
def test_objective_and_gap_are_true(seed, share, tol):
    X, Y = problem(seed, p=8, k=2)
    rough, lam = solve(X, Y, share, tol=tol)
    exact, _ = solve(X, Y, share, tol=1e-12)
    assert rough.objective == pytest.approx(objective(X, Y, rough.coefficients, lam), rel=1e-9)
    assert rough.objective - exact.objective <= rough.gap * rough.objective + 1e-12
    assert exact.gap <= 1e-9


def test_samples_give_the_same_as_their_scatter_matrix():
    X, Y = problem(3, n=20, p=60)
    dense, _ = solve(X, Y, 0.05, tol=1e-12)
    wide, _ = solve(X, Y, 0.05, gram=SampleGram(X), tol=1e-12)
    np.testing.assert_allclose(dense.coefficients, wide.coefficients, atol=1e-10)


def test_weighted_samples_are_samples_times_roots_of_weights():
    X, _ = problem(4)
    weights = np.random.default_rng(0).uniform(0.1, 2, len(X))
    weighted = SampleGram(X, weights)
    S = (X * weights[:, None]).T @ X
    M = np.random.default_rng(1).standard_normal((X.shape[1], 2))
    np.testing.assert_allclose(weighted.apply(M) * weighted.trace, S @ M)
    np.testing.assert_allclose(
        weighted.block(np.array([0, 3])) * weighted.trace, S[[0, 3]][:, [0, 3]]
    )
    np.testing.assert_allclose(weighted.diagonal * weighted.trace, np.diag(S))
    assert weighted.trace == pytest.approx(np.trace(S))


def test_the_emptying_penalty_is_sharp():
    X, Y = problem(5)
    assert not solve(X, Y, 1.0)[0].coefficients.any()
    assert solve(X, Y, 0.999)[0].coefficients.any(axis=1).sum() == 1


def test_a_warm_start_leads_to_the_same_solution():
    X, Y = problem(6, p=40)
    cold, _ = solve(X, Y, 0.05)
    warm, _ = solve(X, Y, 0.05, start=solve(X, Y, 0.1)[0].coefficients)
    np.testing.assert_allclose(warm.coefficients, cold.coefficients, atol=1e-9)
    assert solve(X, Y, 0.05, start=cold.coefficients)[0].n_steps == 0


def test_targets_without_noise_and_dependent_features_end():
    X, _ = problem(7, n=8, p=30)
    X = np.column_stack([X, X[:, :10]])
    fit, _ = solve(X / np.linalg.norm(X), X[:, :2], 1e-4)
    assert np.all(np.isfinite(fit.coefficients))
    assert fit.gap < 1e-6


def test_features_that_agree_in_one_probe_alone_are_not_equal():
    images = np.array([[1.0, 2.0], [1.0, 3.0], [-4.0, 5.0], [4.0, -5.0]])
    gram = SimpleNamespace(diagonal=np.ones(4), apply=lambda probes: images)
    (found,) = equal_features(gram)
    assert found.features.tolist() == [2, 3]
    assert found.signs.tolist() == [-1, 1]


def test_equal_features_are_found_and_share():
    X, Y = problem(8)
    X = np.column_stack([X, -X[:, 2], np.zeros(len(X)), X[:, [2, 5]], np.zeros(len(X))])
    groups = sorted(sorted(group.features.tolist()) for group in equal_features(Gram(X.T @ X)))
    assert groups == [[2, 12, 14], [5, 15]]
    fit, lam = solve(X / np.linalg.norm(X), Y, 0.1)
    before = objective(X / np.linalg.norm(X), Y, fit.coefficients, lam)
    shared = share_equally(fit.coefficients, equal_features(Gram(X.T @ X)))
    assert objective(X / np.linalg.norm(X), Y, shared, lam) <= before * (1 + 1e-12)
    np.testing.assert_array_equal(shared[2], shared[14])
    np.testing.assert_array_equal(shared[2], -shared[12])


def block(seed, p=5, k=3):
    """S, C and rows A that are not zero, for one working set."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, p))
    S = X.T @ X / np.sum(X**2)
    return S, rng.standard_normal((p, k)) / 5, rng.standard_normal((p, k)) / 3


def value_of(S, C, half, A):
    return np.trace(A.T @ S @ A) - 2 * np.sum(A * C) + 2 * half * np.linalg.norm(A, axis=1).sum()


def hessian(S, half, A):
    """Half of the Hessian of the objective at A, row by row."""
    k = A.shape[1]
    H = np.kron(S, np.eye(k))
    for i, row in enumerate(A):
        length = np.linalg.norm(row)
        bend = half / length * (np.eye(k) - np.outer(row, row) / length**2)
        H[i * k : i * k + k, i * k : i * k + k] += bend
    return H


@pytest.mark.parametrize("seed", range(4))
def test_a_newton_step_is_newtons(seed):
    S, C, _ = block(seed)
    half = 0.01
    A = np.linalg.solve(S + 0.05 * np.eye(5), C)  # near enough for a whole step
    for _ in range(3):
        A = kernel._newton(DenseCurvature(S), C, half, A)
    gradient = S @ A - C + half * A / np.linalg.norm(A, axis=1)[:, None]
    step = np.linalg.solve(hessian(S, half, A), -gradient.ravel()).reshape(A.shape)
    np.testing.assert_allclose(
        kernel._newton(DenseCurvature(S), C, half, A) - A, step, rtol=1e-4, atol=1e-13
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("half", [0.003, 0.03, 0.2])
def test_a_newton_step_never_climbs(seed, half):
    """From far away, where the whole step may be a bad one."""
    S, C, A = block(seed)
    for size in (1e-3, 1.0, 1e3):
        before = value_of(S, C, half, size * A)
        lengths = np.linalg.norm(size * A, axis=1)
        safe = np.linalg.solve(S + np.diag(half / lengths), C)
        after = value_of(S, C, half, kernel._newton(DenseCurvature(S), C, half, size * A))
        assert after <= before + 1e-12
        # Half of what was promised, or no worse than the least of a quadratic function above.
        gradient = size * S @ A - C + half * size * A / lengths[:, None]
        step = np.linalg.solve(hessian(S, half, size * A), -gradient.ravel()).reshape(A.shape)
        promised = np.sum(gradient * step)
        assert after <= max(value_of(S, C, half, safe), before + 0.5 * promised) + 1e-9


def test_the_parts_of_the_stopping_rule():
    S, C, A = block(1)
    half = 0.05
    residual = C - S @ A
    assert kernel._value(A, C, residual, half) == pytest.approx(value_of(S, C, half, A))
    assert kernel._block_value(DenseCurvature(S), C, half, A) == pytest.approx(
        value_of(S, C, half, A)
    )
    units = A / np.linalg.norm(A, axis=1)[:, None]
    missed = np.linalg.norm(residual - half * units, axis=1).max()
    assert kernel._violation(A, residual, half) == pytest.approx(missed)
    assert kernel._violation(A[:0], residual[:0], half) == 0
    assert kernel._falls(1.0, 1.1)
    assert not kernel._falls(1.0, 1.0)
    assert not kernel._falls(-1.0, -1.0 + 1e-16)
    assert kernel._falls(-1.0, np.inf)


def test_who_enters():
    excess = np.array([0.0, 3.0, 1.0, -1.0, 3.0 * (1 - 1e-12), 0.5, 2.0])
    assert kernel._largest(excess, 0.5, 10)[0].tolist() == [1, 2, 4, 6]  # above, not at
    assert kernel._largest(excess, 0.5, 4)[0].tolist() == [1, 2, 4, 6]
    assert kernel._largest(excess, 0.5, 3)[0].tolist() == [1, 4, 6]
    assert kernel._largest(excess, 0.5, 1)[0].tolist() == [1, 4]  # ties together
    assert kernel._largest(excess, 5.0, 1)[0].size == 0


def test_rows_are_shrunk_and_turn_no_further_than_zero():
    A = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    np.testing.assert_allclose(kernel._shrink_rows(A, 1.0), [[2.4, 3.2], [0, 0], [0, 0]])
    ahead = np.array([[-1.0, 0.5], [0.1, 0.2], [1.0, 1.0]])
    np.testing.assert_allclose(
        kernel._stopped_at_zero(ahead, A), [[0, 0], [0.1, 0.2], [0, 0]]
    )  # 3 · (-1) + 4 · 0.5 < 0; a row of zeros stays one


def test_weak_rows_leave_only_where_that_helps():
    S, half = np.eye(3) / 3, 0.1
    C = np.array([[0.05], [0.3], [0.0]])
    A = np.array([[0.2], [0.6], [0.0]])  # alone, the first is (0.05 - 0.1)₊ = 0
    found = kernel._without_weak(DenseCurvature(S), C, half, A)
    np.testing.assert_array_equal(found, [[0.0], [0.6], [0.0]])
    best = np.array([[0.0], [0.6], [0.0]])
    assert kernel._without_weak(DenseCurvature(S), C, half, best) is best
    # Three equal features: each would be zero without the others, but not all of them.
    alike, C = np.full((3, 1), 1 / 6), np.full((3, 1), 0.45)
    assert 0.45 - 2 / 3 / 6 < 0.35
    assert kernel._without_weak(DenseCurvature(np.full((3, 3), 1 / 3)), C, 0.35, alike) is alike


def test_a_safe_step_is_stretched_while_that_helps():
    S, C, half = np.array([[1.0]]), np.array([[8.0]]), 0.5
    A, safe = np.array([[0.5]]), np.array([[1.0]])
    # value a² - 16a + a: least at 7.5; the steps lead to 1, 1.5, 2.5, 4.5, 8.5, 16.5, …
    assert kernel._stretched(DenseCurvature(S), C, half, A, safe).item() == 8.5
    assert kernel._stretched(DenseCurvature(S), np.array([[0.5]]), half, A, safe).item() == 1.0


def test_inverses():
    S, _, _ = block(2)
    np.testing.assert_allclose(inverse_of_positive(S.copy()) @ S, np.eye(5), atol=1e-10)
    assert inverse_of_positive(np.diag([1.0, -1.0])) is None


@pytest.mark.parametrize("seed", range(5))
def test_the_dual_point_is_the_best_along_its_ray(seed):
    X, Y = problem(seed, p=6, k=2)
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((6, 2)) * (0.1, 1.0, 3.0, 0.0, 1.0)[seed]
    lam = 0.3 * emptying_penalty(X.T @ Y)
    R = Y - X @ A
    found, gap = kernel._certified(A, X.T @ Y, X.T @ R, float(np.sum(Y * Y)), lam / 2)
    assert found == pytest.approx(objective(X, Y, A, lam))
    longest = lam / 2 / np.linalg.norm(X.T @ R, axis=1).max()
    lengths = np.append(np.linspace(0, longest, 4001), longest)
    duals = np.sum(Y * Y) - [np.sum((Y - length * R) ** 2) for length in lengths]
    assert gap == pytest.approx((found - max(duals)) / found, abs=1e-6)


def test_certificates_at_the_edges():
    certified = kernel.certified
    assert certified(0.0, 0.0, half=0.1, size=0.0, steepest=0.0) == (0.0, 0.0)
    assert certified(4.0, 0.0, half=0.1, size=0.0, steepest=0.0) == (4.0, 0.0)
    # a perfect fit: the dual is 2 · length · inner, length at most 1
    assert certified(0.0, 0.3, half=0.1, size=4.0, steepest=0.05) == (0.8, pytest.approx(0.25))
    value, gap = certified(1.0, 0.5, half=0.5, size=2.0, steepest=2.0)
    assert (value, gap) == (3.0, pytest.approx((3 - 0.25 * (3 - 0.25)) / 3))


def test_penalties_next_to_nothing_and_few_working_sets(monkeypatch):
    X, Y = problem(9, n=12, p=30)
    fit, _ = solve(X, Y, 1e-9)
    np.testing.assert_allclose(X @ fit.coefficients, Y - Y.mean(axis=0), atol=1e-6)
    monkeypatch.setattr(kernel, "MAX_NEWTON", 1)
    monkeypatch.setattr(kernel, "MOST_EXHAUSTED", 2)
    assert solve(X, Y, 0.01)[0].n_steps == 2  # two sets that took all of their one step
