import logging

import numpy as np
import pytest
from oracles import large_are_slow, planted_problem, spca_psd_objective, spca_psd_optimum

from jointsparse.linalg import Spectrum
from jointsparse.solvers.convex.certificate import dual_value, dual_value_of_cone, relative_gap
from jointsparse.solvers.convex.model import (
    ConvexModel,
    factor_scores,
    largest_eta,
    largest_lam,
)
from jointsparse.solvers.convex.splitting import solve_splitting

# p from 5 to 40, λ and η from 0.1 % to 30 % of tr S (= 1)
RNG = np.random.default_rng(5)
PROBLEMS = [
    (int(p), seed, float(lam), float(eta))
    for seed, (p, lam, eta) in enumerate(
        zip(
            np.linspace(5, 40, 20).round(),
            np.exp(RNG.uniform(np.log(1e-3), np.log(0.3), 20)),
            np.exp(RNG.uniform(np.log(1e-3), np.log(0.3), 20)),
            strict=True,
        )
    )
]


@pytest.mark.parametrize(("p", "seed", "lam", "eta"), large_are_slow(PROBLEMS))
def test_equals_the_interior_point_optimum(p, seed, lam, eta):
    S, planted = planted_problem(p, seed)
    optimum, omega = spca_psd_optimum(S, lam, eta)
    solution = solve_splitting(Spectrum.of(S), lam, eta, tol=1e-6)

    assert solution.objective == pytest.approx(optimum, rel=1e-6)
    assert solution.gap <= 1e-5
    assert solution.converged
    # the certificate is never below the true distance to the optimum, at any iteration
    history, gaps = np.asarray(solution.history), np.asarray(solution.gap_history)
    assert np.all(history * gaps >= history - optimum - 1e-8)
    assert np.all(np.diff(history) <= 0)
    assert len(history) == solution.n_iter
    # the objective is that of the returned matrix, term by term
    U = solution.loadings
    assert solution.objective == pytest.approx(spca_psd_objective(S, U @ U.T, lam, eta), rel=1e-10)
    reference = np.linalg.norm(omega, axis=0)
    if np.array_equal(reference > 1e-4, planted):
        np.testing.assert_array_equal(factor_scores(U) > 0, planted)


def test_some_oracle_problem_recovers_the_planted_support():
    """The condition of the test above must not be empty."""
    hits = 0
    for p, seed, lam, eta in PROBLEMS:
        S, planted = planted_problem(p, seed)
        U = solve_splitting(Spectrum.of(S), lam, eta, tol=1e-6).loadings
        hits += np.array_equal(factor_scores(U) > 0, planted)
    assert hits >= 5


def test_dual_values_are_below_the_optimum_for_any_point():
    S, _ = planted_problem(10, 3)
    optimum, _ = spca_psd_optimum(S, 0.02, 0.01)
    spectrum = Spectrum.of(S)
    model = ConvexModel.in_data_units(spectrum, 0.02, 0.01)
    rng = np.random.default_rng(1)
    for scale in (0.0, 0.1, 1.0, 10.0):
        A = rng.standard_normal((10, 10)) * scale
        omega = (A + A.T) / 2
        V = rng.standard_normal((10, 10))
        V *= rng.uniform(0, 1, 10) / np.linalg.norm(V, axis=0)
        pull = 0.02 * spectrum.vectors.T @ V
        assert dual_value(model, omega, pull) <= optimum + 1e-9
        # H = G + R with G ⪯ ηI: any split of H does
        s = np.diag(spectrum.values)
        H = (
            2 * s
            - s @ omega
            - omega @ s
            - (pull @ spectrum.vectors + spectrum.vectors.T @ pull.T) / 2
        )
        values, vectors = np.linalg.eigh(H)
        G = (vectors * np.minimum(values, 0.01)) @ vectors.T
        assert dual_value_of_cone(model, omega, H - G) <= optimum + 1e-9


def test_relative_gap():
    assert relative_gap(2.0, 1.5) == 0.25
    assert relative_gap(1.0, 1.0 + 1e-17) == 0.0
    assert relative_gap(0.0, 0.0) == 0.0


@pytest.mark.parametrize("zero", ["lam", "eta"])
def test_one_penalty_may_be_zero(zero):
    S, _ = planted_problem(12, 4)
    lam, eta = (0.0, 0.05) if zero == "lam" else (0.01, 0.0)
    optimum, _ = spca_psd_optimum(S, lam, eta)
    solution = solve_splitting(Spectrum.of(S), lam, eta, tol=1e-6)
    assert solution.objective == pytest.approx(optimum, rel=1e-6)
    assert solution.gap <= 1e-6


def test_emptying_penalties():
    S, _ = planted_problem(15, 2)
    spectrum = Spectrum.of(S)
    eta_max = largest_eta(spectrum)
    assert solve_splitting(spectrum, 0.0, 1.001 * eta_max).loadings.shape == (15, 0)
    assert solve_splitting(spectrum, 0.0, 0.98 * eta_max, tol=1e-6).loadings.shape[1] > 0
    lam_max = largest_lam(spectrum, 0.1 * eta_max)
    empty = solve_splitting(spectrum, lam_max, 0.1 * eta_max)
    assert empty.loadings.shape == (15, 0)
    assert empty.objective == pytest.approx(np.trace(S))
    assert empty.gap <= 1e-4
    # the exact bound lies at most a factor 1.7 lower
    assert solve_splitting(spectrum, lam_max / 1.7, 0.1 * eta_max).loadings.shape[1] > 0


def test_units_of_the_data_do_not_matter():
    S, _ = planted_problem(15, 2)
    one = solve_splitting(Spectrum.of(S), 0.02, 0.03)
    other = solve_splitting(Spectrum.of(1e6 * S), 2e4, 3e4)
    np.testing.assert_allclose(factor_scores(one.loadings), factor_scores(other.loadings))
    assert other.objective == pytest.approx(1e6 * one.objective)
    assert one.n_iter == other.n_iter


def test_warm_start_saves_iterations_and_changes_nothing():
    S, _ = planted_problem(30, 7)
    spectrum = Spectrum.of(S)
    first = solve_splitting(spectrum, 0.02, 0.01, tol=1e-7, keep_state=True)
    again = solve_splitting(spectrum, 0.02, 0.01, tol=1e-6, start=first.state)
    assert again.n_iter <= 2
    near = solve_splitting(spectrum, 0.019, 0.01, tol=1e-7, start=first.state)
    cold = solve_splitting(spectrum, 0.019, 0.01, tol=1e-7)
    assert near.n_iter < cold.n_iter
    assert near.objective == pytest.approx(cold.objective, rel=1e-6)
    assert cold.state is None


def test_iteration_limit_is_reported_with_a_true_gap():
    S, _ = planted_problem(30, 7)
    optimum, _ = spca_psd_optimum(S, 0.02, 0.01)
    solution = solve_splitting(Spectrum.of(S), 0.02, 0.01, tol=1e-9, max_iter=4)
    assert not solution.converged
    assert solution.n_iter == 4
    assert "iteration limit (4)" in solution.reason
    assert solution.objective * (1 - solution.gap) <= optimum + 1e-9


def test_progress_is_logged(caplog):
    S, _ = planted_problem(10, 1)
    with caplog.at_level(logging.INFO, logger="jointsparse.solvers"):
        solution = solve_splitting(Spectrum.of(S), 0.02, 0.01)
    last = caplog.records[-1]
    assert last.iteration == solution.n_iter
    assert last.max_iter == 1000
    assert last.gap == pytest.approx(solution.gap, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "bound"), [("isolet", 8572.21), ("pie", 4772.19), ("usps", 4657.64)]
)
def test_benchmark_data_reach_the_known_optimum(benchmark_data, name, bound):
    X = benchmark_data(name)
    X = X - X.mean(axis=0)
    solution = solve_splitting(Spectrum.of(X.T @ X), 10.0, 10.0, tol=1e-5)
    assert solution.objective <= bound
    assert solution.gap <= 1e-5
