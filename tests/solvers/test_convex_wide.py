import logging

import numpy as np
import pytest
from oracles import spca_psd_objective, spca_psd_optimum

from jointsparse.linalg import Spectrum
from jointsparse.solvers.convex.model import factor_scores, largest_lam
from jointsparse.solvers.convex.screening import static_screen
from jointsparse.solvers.convex.splitting import solve_splitting
from jointsparse.solvers.convex.stationarity import Stationarity, secular_norms
from jointsparse.solvers.wide.basis import build_basis
from jointsparse.solvers.wide.certificate import Frame, best_scale, lower_bound
from jointsparse.solvers.wide.convex import solve_wide
from jointsparse.solvers.wide.rounds import Rounds


def wide_data(seed, n, p, planted=None):
    """X of trace 1 with a rank-3 signal on some of the features."""
    rng = np.random.default_rng(seed)
    k = p if planted is None else planted
    X = 0.3 * rng.standard_normal((n, p)) * 10 ** rng.uniform(-0.7, 0.0, p)
    X[:, :k] += rng.standard_normal((n, 3)) @ rng.standard_normal((3, k))
    X -= X.mean(axis=0)
    return X / np.linalg.norm(X)


RNG = np.random.default_rng(11)
PROBLEMS = [
    (seed, int(RNG.integers(4, 10)), int(RNG.integers(15, 36)), share, lam, eta)
    for seed, share, lam, eta in zip(
        range(12),
        [None, 8] * 6,
        np.exp(RNG.uniform(np.log(1e-3), np.log(0.1), 12)),
        np.exp(RNG.uniform(np.log(3e-3), np.log(0.3), 12)),
        strict=True,
    )
]


@pytest.mark.parametrize(("seed", "n", "p", "planted", "lam", "eta"), PROBLEMS)
def test_equals_the_interior_point_optimum(seed, n, p, planted, lam, eta):
    X = wide_data(seed, n, p, planted)
    S = X.T @ X
    optimum, omega = spca_psd_optimum(S, lam, eta)
    solution = solve_wide(X, lam, eta, tol=1e-5)
    U = solution.loadings

    assert solution.converged
    assert solution.gap <= 1e-5
    assert optimum * (1 - 1e-7) <= solution.objective <= optimum * (1 + 1.1e-5)
    assert solution.objective == pytest.approx(spca_psd_objective(S, U @ U.T, lam, eta), rel=1e-9)
    # the certificate is never below the true distance to the optimum, at any iteration
    history, gaps = np.asarray(solution.history), np.asarray(solution.gap_history)
    assert np.all(history * gaps >= history - optimum - 1e-8)
    assert len(history) == len(gaps) == solution.n_iter
    # columns are orthogonal, the longest first
    gram = U.T @ U
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9)
    assert np.all(np.diff(np.diag(gram)) <= 1e-12)
    # a feature that matters in the optimum is not left out
    scores = np.linalg.norm(omega, axis=0)
    assert np.all(scores[factor_scores(U) == 0] < 0.02)
    assert np.all(scores[static_screen(X, lam, eta)] < 1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_the_dense_solver(seed):
    X = wide_data(seed, 8 + seed, 60 + 18 * seed, [None, 25][seed % 2])
    spectrum = Spectrum.of(X.T @ X)
    eta = [0.01, 0.1][seed % 2]
    lam = [0.02, 0.1, 0.3][seed % 3] * largest_lam(spectrum, eta)
    dense = solve_splitting(spectrum, lam, eta, tol=1e-7)
    wide = solve_wide(X, lam, eta, tol=1e-6)
    assert wide.gap <= 1e-6
    assert wide.objective == pytest.approx(dense.objective, rel=1e-5)
    np.testing.assert_allclose(
        factor_scores(wide.loadings), factor_scores(dense.loadings), atol=0.02
    )


def dual_point(rounds, rotated, multiplier, bound):
    """P (p × n) and V (p × p) behind a bound, from its definition."""
    X, kept, basis = rounds.data, rounds.kept, rounds.basis
    p, c = X.shape[1], bound.c
    W, Y = np.zeros((p, basis.shape[1])), np.zeros((p, basis.shape[1]))
    W[kept], Y[kept] = basis, multiplier.T
    leaving = Y - W @ (W.T @ Y)
    V = W @ Y.T + bound.t * np.eye(p) - bound.theta * leaving @ W.T
    S, omega = X.T @ X, W @ rotated @ W.T
    V[np.ix_(kept, ~kept)] = (2 / rounds.lam) * ((2 * S - omega @ S)[np.ix_(kept, ~kept)])
    values, vectors = np.linalg.eigh(2 * S[np.ix_(~kept, ~kept)])
    excess = (vectors * np.clip(values - rounds.eta, 0, None)) @ vectors.T
    V[np.ix_(~kept, ~kept)] += excess / rounds.lam
    return 2 * c * (X.T - omega @ X.T), c * V


@pytest.mark.parametrize("seed", range(8))
def test_dual_point_is_feasible_and_has_the_value_claimed(seed):
    """Written out with p × p matrices, in every round, good or bad."""
    X = wide_data(seed, 6, 40 + 10 * seed, [None, 20][seed % 2])
    eta = 0.0 if seed == 7 else [0.003, 0.03, 0.2][seed % 3]
    lam = [0.03, 0.2][seed // 2 % 2] * largest_lam(Spectrum.of(X.T @ X), eta)
    rounds = Rounds(X, lam, eta, 1.0, 1e-7)
    smaller = dropped = 0
    for _ in range(6):
        rounds.solve_restricted(20)
        rounds.certify()
        smaller += rounds.basis.shape[1] < rounds.basis.shape[0]
        dropped += int(np.sum(~rounds.kept))
        for rotated, frame, bound in rounds.certificates:
            P, V = dual_point(rounds, rotated, frame.multiplier, bound)
            H = (P @ X + X.T @ P.T) / 2 - lam * (V + V.T) / 2
            assert np.linalg.eigvalsh(H)[-1] <= eta + 1e-10
            assert np.linalg.norm(V, axis=0).max() <= 1 + 1e-10
            value = np.sum(P * X.T) - np.sum(P**2) / 4
            assert value == pytest.approx(bound.value, abs=1e-10)
        rounds.choose_next()
    assert smaller > 0
    if seed in (1, 3):
        assert dropped > 0


def test_bound_holds_for_any_point():
    X = wide_data(3, 5, 24)
    optimum, _ = spca_psd_optimum(X.T @ X, 0.02, 0.05)
    rng = np.random.default_rng(0)
    _, W = build_basis(X, None, None, 0, 0.02, 0.05)
    m = W.shape[1]
    for scale in (0.0, 0.1, 1.0, 10.0):
        A = rng.standard_normal((m, m)) * scale
        Y = rng.standard_normal((m, 24)) * rng.choice([0.01, 1.0])
        assert lower_bound(Frame.of(X, W, Y), A + A.T, X[:, :0], 1.0, 0.02, 0.05).value <= optimum


def test_scale_never_exceeds_one():
    c, t = best_scale(0.3, np.full(5, 0.01), np.zeros(5), 0.1, 0.3)
    assert (c, t) == (1.0, 0.0)
    assert best_scale(0.1, np.full(5, 0.01), np.zeros(5), 0.1, 0.3) == (1.0, 0.0)  # room to spare
    c, t = best_scale(0.2, np.ones(5), np.zeros(5), 0.1, 0.0)
    assert t >= 2.0
    assert c == pytest.approx(1 / np.sqrt(5))


def test_secular_norms_solve_their_equation():
    rng = np.random.default_rng(2)
    squares, tau = rng.uniform(0, 2, (50, 3)), np.array([0.3, 1.0, 4.0])
    d = secular_norms(squares, tau, 0.9)
    total = np.sum(squares / (0.9 + tau * d[:, None]) ** 2, axis=1)
    np.testing.assert_allclose(total[d > 0], 1, atol=1e-9)
    assert np.all(total[d == 0] <= 1)
    assert np.any(d == 0)


def test_stationarity_reproduces_the_optimum():
    X = wide_data(4, 7, 50, 20)
    solution = solve_wide(X, 0.02, 0.05, tol=1e-9)
    U = solution.loadings
    scores = factor_scores(U)
    predicted = Stationarity.of(U, X.T @ (X @ U), 0.02, 0.05)
    np.testing.assert_allclose(predicted.norms, scores, atol=1e-4)
    V = predicted.multiplier(np.eye(50))
    assert np.linalg.norm(V, axis=0).max() <= 1 + 1e-9
    kept = scores > 0.01
    np.testing.assert_allclose(V[:, kept], (U @ U.T)[:, kept] / scores[kept], atol=1e-2)


def test_basis_is_orthonormal_and_holds_the_data():
    X = wide_data(4, 7, 50)
    U = solve_wide(X, 0.01, 0.05).loadings
    multiplier = np.random.default_rng(0).standard_normal((5, 50))
    multiplier[:, 12:] *= 1e-3
    for factor, slow in [(None, 0), (U, 0), (U, 1), (None, 3)]:
        s, W = build_basis(X, factor, multiplier, slow, 0.01, 0.05)
        np.testing.assert_allclose(W.T @ W, np.eye(W.shape[1]), atol=1e-12)
        np.testing.assert_allclose(W @ (W.T @ X.T), X.T, atol=1e-12)
        np.testing.assert_allclose(W.T @ (X.T @ X) @ W, np.diag(s), atol=1e-12)
    # unit vectors of features that the basis spans poorly, where rounds gain little
    sizes = [build_basis(X, None, multiplier, slow, 0.01, 0.05)[1].shape[1] for slow in (0, 1, 2)]
    assert sizes[0] == np.linalg.matrix_rank(X) < sizes[1] <= sizes[2]


def test_without_sparsity_penalty():
    X = wide_data(1, 6, 30)
    for eta in (0.0, 0.1):
        solution = solve_wide(X, 0.0, eta)
        assert solution.gap == 0.0
        optimum = spca_psd_optimum(X.T @ X, 0.0, eta)[0]
        assert solution.objective == pytest.approx(optimum, abs=1e-7)


def test_directions_of_rounding_have_no_part_in_a_closed_form():
    X = wide_data(3, 9, 30)
    X[5:] = X[:4]  # of rank 4, or 5 less the mean
    X -= X.mean(axis=0)
    solution = solve_wide(X, 0.0, 0.0)
    assert solution.loadings.shape[1] == np.linalg.matrix_rank(X)
    assert solution.objective == pytest.approx(0, abs=1e-14)
    rank = float(np.linalg.matrix_rank(X))
    expected = {"rank": rank, "screened": 0.0, "rounds": 0.0, "basis size": 0.0}
    assert solution.diagnostics == expected
    omega = solution.loadings @ solution.loadings.T
    np.testing.assert_allclose(X @ omega, X, atol=1e-10)


def test_an_empty_solution_adds_nothing_to_the_basis():
    X = wide_data(4, 6, 60)
    values, basis = build_basis(X, np.zeros((60, 0)), None, 0, 0.01, 0.01)
    assert basis.shape == (60, np.linalg.matrix_rank(X))
    np.testing.assert_allclose(np.sort(values)[::-1], np.linalg.svd(X)[1][:5] ** 2, atol=1e-12)


def test_without_rank_penalty():
    X = wide_data(2, 6, 30, 10)
    optimum, _ = spca_psd_optimum(X.T @ X, 0.02, 0.0)
    solution = solve_wide(X, 0.02, 0.0, tol=1e-5)
    assert solution.gap <= 1e-5
    assert solution.objective == pytest.approx(optimum, rel=1.1e-5)


def test_emptying_penalties():
    X = wide_data(2, 6, 30)
    lam = largest_lam(Spectrum.of(X.T @ X), 0.1)
    empty = solve_wide(X, 1.001 * lam, 0.1)
    assert empty.loadings.shape == (30, 0)
    assert empty.gap == 0.0
    assert empty.objective == pytest.approx(1.0)
    assert "empties the model" in empty.reason
    assert empty.diagnostics["screened"] == 30
    # not proved by the data alone, but by the certificate
    assert solve_wide(X, 0.97 * lam, 0.1).loadings.shape == (30, 0)
    assert solve_wide(X, lam / 1.7, 0.1).loadings.shape[1] > 0


def test_single_precision_keeps_the_certificate_true():
    for seed in range(4):
        X = wide_data(seed, 6, 34, [None, 12][seed % 2]).astype(np.float32)
        exact = X.astype(float)
        optimum, _ = spca_psd_optimum(exact.T @ exact, 0.02, 0.05)
        solution = solve_wide(X, 0.02, 0.05)
        assert solution.loadings.dtype == np.float32
        assert solution.gap <= 1e-4
        history, gaps = np.asarray(solution.history), np.asarray(solution.gap_history)
        assert np.all(history * gaps >= history - optimum - 1e-8)
        U = solution.loadings.astype(float)
        value = spca_psd_objective(exact.T @ exact, U @ U.T, 0.02, 0.05)
        assert solution.objective == pytest.approx(value, rel=1e-9)


def test_more_samples_than_features():
    X = wide_data(0, 60, 20)
    optimum, _ = spca_psd_optimum(X.T @ X, 0.02, 0.05)
    assert solve_wide(X, 0.02, 0.05, tol=1e-5).objective == pytest.approx(optimum, rel=1.1e-5)


def test_units_of_the_data_do_not_matter():
    X = wide_data(5, 8, 60, 20)
    one, other = solve_wide(X, 0.02, 0.03), solve_wide(1e3 * X, 2e4, 3e4)
    np.testing.assert_allclose(factor_scores(one.loadings), factor_scores(other.loadings))
    assert other.objective == pytest.approx(1e6 * one.objective)
    assert one.n_iter == other.n_iter


def test_start_saves_iterations_and_changes_nothing():
    X = wide_data(6, 10, 120)
    first = solve_wide(X, 0.012, 0.05, tol=1e-6, keep_state=True)
    cold = solve_wide(X, 0.011, 0.05, tol=1e-5)
    warm = solve_wide(X, 0.011, 0.05, tol=1e-5, start=first.state)
    assert warm.gap <= 1e-5
    assert warm.n_iter < cold.n_iter
    assert warm.objective == pytest.approx(cold.objective, rel=2e-5)
    assert warm.state is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_start_serves_other_working_sets_and_empty_models(dtype):
    X = wide_data(6, 10, 120).astype(dtype)
    state = None
    for lam in (0.2, 0.1, 0.03, 0.011, 0.05, 0.3):  # down and up again, empty at both ends
        solution = solve_wide(X, lam, 0.05, start=state, keep_state=True)
        assert solution.gap <= 1e-4
        assert solution.objective == pytest.approx(solve_wide(X, lam, 0.05).objective, rel=2e-4)
        state = solution.state


@pytest.mark.parametrize("eta", [1e-9, 1e-7])
def test_a_start_from_far_does_no_harm(eta):
    """Ten times weaker penalties: the solution before it is a worse start than none."""
    X = wide_data(3, 30, 400)
    state = None
    for lam in 10.0 ** np.arange(-2, -9, -1):
        cold = solve_wide(X, lam, eta, tol=1e-3, max_iter=200)
        warm = solve_wide(X, lam, eta, tol=1e-3, max_iter=200, start=state, keep_state=True)
        assert warm.gap <= 1e-3
        assert warm.n_iter <= cold.n_iter
        state = warm.state


def test_what_is_returned_is_no_worse_than_the_start():
    X = wide_data(3, 30, 400)
    first = solve_wide(X, 1.1e-3, 1e-3, tol=1e-8, keep_state=True)
    one_step = solve_wide(X, 1e-3, 1e-3, tol=1e-8, max_iter=1, start=first.state)
    assert not one_step.converged
    before = spca_psd_objective(X.T @ X, first.loadings @ first.loadings.T, 1e-3, 1e-3)
    assert first.loadings.shape[1] > 0
    assert one_step.objective <= before + 1e-12


def test_iteration_limit_is_reported_with_a_true_gap(caplog):
    X = wide_data(7, 8, 34, 15)
    optimum, _ = spca_psd_optimum(X.T @ X, 0.01, 0.02)
    with caplog.at_level(logging.INFO, logger="jointsparse.solvers"):
        solution = solve_wide(X, 0.01, 0.02, tol=1e-9, max_iter=7)
    assert not solution.converged
    assert solution.n_iter == 7
    assert "iteration limit (7)" in solution.reason
    assert solution.objective * (1 - solution.gap) <= optimum + 1e-9
    # one log record for each certificate, with the iterations counted over all rounds
    assert len(caplog.records) >= solution.diagnostics["rounds"]
    assert caplog.records[-1].iteration == 7


@pytest.mark.slow
@pytest.mark.parametrize("name", ["allaml", "orlraws10p"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_benchmark_data_are_certified(benchmark_data, name, dtype):
    X = benchmark_data(name)
    X = X - X.mean(axis=0)
    total = np.sum(X**2)
    solution = solve_wide(X.astype(dtype), 0.001 * total, 0.05 * total)
    assert solution.gap <= 1e-4
    known = {"allaml": 0.91030, "orlraws10p": 0.77202}[name]
    assert solution.objective == pytest.approx(known * total, rel=1.2e-4)
