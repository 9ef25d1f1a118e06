import numpy as np
import pytest
from oracles import planted_problem, spca_psd_objective, spca_psd_optimum

from jointsparse.linalg import Spectrum
from jointsparse.solvers.convex import exact as convex_exact
from jointsparse.solvers.convex.exact import solve_scatter
from jointsparse.solvers.convex.model import factor_scores
from jointsparse.solvers.convex.screening import static_screen_scatter
from jointsparse.solvers.convex.splitting import solve_splitting


def solve(S, lam, eta, **options):
    return solve_scatter(S, lam, eta, spectrum=lambda: Spectrum.of(S), **options)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("lam", "eta"), [(0.02, 0.01), (0.1, 0.05), (0.003, 0.1)])
def test_screening_changes_nothing_but_the_work(seed, lam, eta):
    S, _ = planted_problem(16, seed)
    optimum, omega = spca_psd_optimum(S, lam, eta)
    solution = solve(S, lam, eta, tol=1e-6)
    U = solution.loadings
    assert solution.objective == pytest.approx(optimum, rel=1e-6)
    assert solution.objective == pytest.approx(spca_psd_objective(S, U @ U.T, lam, eta), rel=1e-10)
    assert solution.gap <= 1e-6
    history, gaps = np.asarray(solution.history), np.asarray(solution.gap_history)
    assert np.all(history * gaps >= history - optimum - 1e-8)
    assert np.all(np.linalg.norm(omega, axis=0)[solution.proved_zero] < 1e-5)
    assert not factor_scores(U)[solution.proved_zero].any()


def test_screening_finds_most_of_the_noise():
    S, planted = planted_problem(40, 1)
    assert static_screen_scatter(S, 0.02, 0.01)[~planted].mean() > 0.5


def test_everything_screened():
    S, _ = planted_problem(10, 0)
    solution = solve(S, 5.0, 0.1)
    assert solution.loadings.shape == (10, 0)
    assert solution.gap == 0
    assert solution.objective == pytest.approx(np.trace(S))
    assert (solution.history, solution.gap_history) == ([solution.objective], [0.0])
    assert solution.n_iter == 1
    assert solution.converged
    assert solution.diagnostics == {"rank": 0.0, "screened": 10.0}
    assert "empty the model" in solution.reason
    assert solution.proved_zero.all()


def test_states_move_between_sets_of_features():
    S, _ = planted_problem(30, 7)
    first = solve(S, 0.04, 0.01, tol=1e-6, keep_state=True)
    warm = solve(S, 0.0005, 0.01, tol=1e-6, start=first.state, keep_state=True)
    cold = solve_splitting(Spectrum.of(S), 0.0005, 0.01, tol=1e-6)
    assert first.proved_zero.sum() != warm.proved_zero.sum()
    assert warm.objective == pytest.approx(cold.objective, rel=2e-6)
    near = solve(S, 0.00045, 0.01, tol=1e-6, start=warm.state)
    assert near.n_iter < cold.n_iter
    # a state of other data is of no use and does no harm
    small = S[:10, :10]
    assert solve(small, 0.03, 0.01, start=warm.state).gap <= 1e-4


def test_many_features_are_solved_in_a_small_basis(monkeypatch):
    S, _ = planted_problem(40, 2)
    cold = solve(S, 0.01, 0.1, tol=1e-6)
    monkeypatch.setattr(convex_exact, "SMALLEST_FOR_LOW_RANK", 40)
    small = solve(S, 0.01, 0.1, tol=1e-6, keep_state=True)
    assert isinstance(small.state, convex_exact.LowRankState)
    assert small.dual is None
    assert small.objective == pytest.approx(cold.objective, rel=2e-6)
    np.testing.assert_array_equal(small.proved_zero, cold.proved_zero)
    assert solve(S, 0.01, 0.1).state is None
    warm = solve(S, 0.009, 0.1, tol=1e-6, start=small.state)
    assert warm.gap <= 1e-6
    # Where that basis does not serve, the matrix itself does.
    monkeypatch.setattr(convex_exact, "LOW_RANK_SHARE", 0.0)
    full = solve(S, 0.01, 0.1, tol=1e-6, keep_state=True)
    assert isinstance(full.state, convex_exact.ExactState)
    assert full.objective == pytest.approx(cold.objective, rel=2e-6)
    without = solve(S, 0.01, 0.0, tol=1e-5, keep_state=True)
    assert isinstance(without.state, convex_exact.ExactState)
