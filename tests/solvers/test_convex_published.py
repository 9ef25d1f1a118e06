import numpy as np
import pytest
from oracles import planted_problem, spca_psd_objective, spca_psd_optimum

from jointsparse.linalg import Spectrum
from jointsparse.solvers.convex_model import factor_scores
from jointsparse.solvers.convex_published import CONSTANTS, PublishedConstants, solve_published

SMALL = PublishedConstants(1e-12, 1e-9, 1e-9, absolute=True)


def printed_algorithm(S, lam, eta, constants, n_iter):
    """Algorithm 1 of source 004 as printed, with dense diagonal matrices."""
    p = len(S)
    omega = np.eye(p)
    for _ in range(n_iter):
        W = np.diag(1 / (2 * np.sqrt((omega**2).sum(axis=0) + constants.smoothing)))
        inverse = np.linalg.inv(S + lam * W + constants.ridge_features * np.eye(p))
        M = (S - eta / 2 * np.eye(p)) @ inverse
        values, vectors = np.linalg.eigh((M + M.T) / 2)
        omega = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
    return omega


@pytest.mark.parametrize("form", ["features", "samples"])
def test_both_forms_follow_the_printed_algorithm(form):
    S, _ = planted_problem(12, 0)
    S = 50 * S
    expected = printed_algorithm(S, 0.5, 0.3, SMALL, 7)
    solution = solve_published(
        Spectrum.of(S),
        0.5,
        0.3,
        n_samples=60 if form == "features" else 12,
        start=np.ones(12),
        constants=SMALL,
        tol=0.0,
        max_iter=7,
    )
    U = solution.loadings
    np.testing.assert_allclose(U @ U.T, expected, atol=1e-8)
    assert solution.objective == pytest.approx(spca_psd_objective(S, expected, 0.5, 0.3), rel=1e-8)
    assert solution.n_iter == len(solution.history) == 7
    assert solution.gap is None
    assert not solution.converged


def test_stops_above_the_optimum_without_exact_zeros():
    """What the paper claims and does not hold: see the module docstring."""
    S, planted = planted_problem(20, 3)
    optimum, _ = spca_psd_optimum(S, 0.05, 0.05)
    solution = solve_published(
        Spectrum.of(S), 0.05, 0.05, n_samples=60, start=np.ones(20), constants=CONSTANTS["paper"]
    )
    assert solution.objective > 1.001 * optimum
    assert np.all(factor_scores(solution.loadings) > 0)
    assert not planted.all()


def test_paper_constants_do_not_depend_on_the_scale_of_the_data():
    S, _ = planted_problem(20, 3)
    runs = [
        solve_published(
            Spectrum.of(c * S),
            c * 0.05,
            c * 0.05,
            n_samples=60,
            start=np.ones(20),
            constants=CONSTANTS["paper"],
        )
        for c in (1.0, 1e6)
    ]
    assert runs[0].n_iter == runs[1].n_iter
    np.testing.assert_allclose(*(factor_scores(r.loadings) for r in runs), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "objective", "iterations"),
    [("isolet", 8634.520, 14), ("pie", 5166.463, 17), ("usps", 4659.069, 12)],
)
def test_authors_constants_reproduce_their_runs(benchmark_data, name, objective, iterations):
    X = benchmark_data(name)
    n, p = X.shape
    X = X - X.mean(axis=0)
    solution = solve_published(Spectrum.of(X.T @ X), 10, 10, n_samples=n, start=np.ones(p))
    assert solution.objective == pytest.approx(objective, rel=1e-4)
    assert abs(solution.n_iter - iterations) <= 2
