"""Independent answers to compare with: general-purpose solvers and brute force."""

import cvxpy as cp
import numpy as np
import pytest


def spca_psd_optimum(S, lam, eta):
    """Optimum of problem (14) of source 004 by an interior-point method: objective and Ω."""
    p = len(S)
    values, vectors = np.linalg.eigh(S)
    F = (vectors * np.sqrt(np.clip(values, 0, None))).T  # FᵀF = S, as good as the data
    omega = cp.Variable((p, p), PSD=True)
    objective = (
        cp.sum_squares(F - F @ omega)
        + lam * cp.sum(cp.norm(omega, 2, axis=0))
        + eta * cp.trace(omega)
    )
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9, tol_feas=1e-9)
    return problem.value, omega.value


def large_are_slow(problems, largest=30):
    """Mark the problems of more than so many features: interior points take seconds for each."""
    slow = pytest.mark.slow
    return [pytest.param(*args, marks=slow if args[0] > largest else ()) for args in problems]


def spca_psd_objective(S, omega, lam, eta):
    """Objective of problem (14), term by term as printed."""
    return (
        np.trace(S)
        - 2 * np.trace(S @ omega)
        + np.trace(omega @ S @ omega)
        + lam * np.linalg.norm(omega, axis=0).sum()
        + eta * np.trace(omega)
    )


def planted_problem(p, seed, n=60, noise=0.05):
    """Scatter matrix of trace 1 whose first half of the features carries a rank-3 signal."""
    rng = np.random.default_rng(seed)
    k = max(2, p // 2)
    X = noise * rng.standard_normal((n, p))
    X[:, :k] += rng.standard_normal((n, min(3, k))) @ rng.standard_normal((min(3, k), k))
    X -= X.mean(axis=0)
    S = X.T @ X
    return S / np.trace(S), np.arange(p) < k


def sample_loss_optimum(X, lam, eta, *, psd, free_mean):
    """Optimum of CSPCA and AW-SPCA (problems 36 to 39 of source 004): objective and Ω."""
    p = X.shape[1]
    omega = cp.Variable((p, p), PSD=True) if psd else cp.Variable((p, p))
    offset = cp.Variable((1, p)) if free_mean else np.zeros((1, p))
    residuals = X - X @ omega.T - np.ones((len(X), 1)) @ offset
    objective = cp.sum(cp.norm(residuals, 2, axis=1)) + lam * cp.sum(cp.norm(omega, 2, axis=0))
    if eta:
        objective += eta * (cp.trace(omega) if psd else cp.normNuc(omega))
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9, tol_feas=1e-9)
    return problem.value, omega.value


def group_lasso_optimum(X, Y, lam):
    """Optimum of ‖Y - XA‖² + λ Σ‖rows of A‖: objective and A."""
    A = cp.Variable((X.shape[1], Y.shape[1]))
    unit = 1e3 / np.linalg.norm(Y)  # absolute tolerances of the solver must be small beside it
    loss = cp.sum_squares(unit * Y - unit * X @ A)
    problem = cp.Problem(cp.Minimize(loss + unit**2 * lam * cp.sum(cp.norm(A, 2, axis=1))))
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-13, tol_gap_abs=1e-10, tol_feas=1e-11)
    return problem.value / unit**2, A.value


def greedy_by_refit(X, A, n_picks):
    """Greedy choice, XAᵀ fitted anew for every candidate: picks and the share left after each."""
    Y = X @ A.T
    picks, left = [], [1.0]
    for _ in range(n_picks):
        shares = np.full(X.shape[1], np.inf)
        for j in set(range(X.shape[1])) - set(picks):
            basis = np.linalg.qr(X[:, [*picks, j]])[0]
            rest = Y - basis @ (basis.T @ Y)
            shares[j] = (rest**2).sum() / (Y**2).sum()
        gains = left[-1] - shares
        picks.append(int(np.argmax(gains >= (1 - 1e-8) * gains.max())))
        left.append(shares[picks[-1]])
    return picks, np.array(left[1:])


def smallest_coefficients(X, Y, norm):
    """Optimum of min Ω(A) over XA = Y: Ω and A."""
    A = cp.Variable((X.shape[1], Y.shape[1]))
    objective = cp.sum(cp.norm(A, 2, axis=1)) if norm == "l21" else cp.sum(cp.abs(A))
    problem = cp.Problem(cp.Minimize(objective), [X @ A == Y])
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-10, tol_gap_abs=1e-10, tol_feas=1e-10)
    return problem.value, A.value


def frobenius_optimum(X, Y, lam):
    """Optimum of ‖Y - XA‖² + λ‖A‖_F: objective and A."""
    A = cp.Variable((X.shape[1], Y.shape[1]))
    problem = cp.Problem(cp.Minimize(cp.sum_squares(Y - X @ A) + lam * cp.norm(A, "fro")))
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-10, tol_gap_abs=1e-10, tol_feas=1e-10)
    return problem.value, A.value
