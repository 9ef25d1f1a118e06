import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import group_lasso_optimum
from sklearn.linear_model import MultiTaskLasso

from jointsparse.solvers.gram import Gram, SampleGram, equal_features
from jointsparse.solvers.group_regression import (
    emptying_penalty,
    group_regression,
    share_equally,
)


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


def test_equal_features_are_found_and_share():
    X, Y = problem(8)
    X = np.column_stack([X, X[:, 2], np.zeros(len(X)), X[:, [2, 5]], np.zeros(len(X))])
    groups = sorted(sorted(group.tolist()) for group in equal_features(Gram(X.T @ X)))
    assert groups == [[2, 12, 14], [5, 15]]
    fit, lam = solve(X / np.linalg.norm(X), Y, 0.1)
    before = objective(X / np.linalg.norm(X), Y, fit.coefficients, lam)
    shared = share_equally(fit.coefficients, equal_features(Gram(X.T @ X)))
    assert objective(X / np.linalg.norm(X), Y, shared, lam) <= before * (1 + 1e-12)
    np.testing.assert_array_equal(shared[2], shared[14])
