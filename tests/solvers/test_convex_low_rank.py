import numpy as np
import pytest
from oracles import large_are_slow, planted_problem, spca_psd_objective, spca_psd_optimum

from jointsparse.eigen.orthonormal import outside
from jointsparse.linalg import Spectrum
from jointsparse.solvers.convex import low_rank as convex_low_rank
from jointsparse.solvers.convex.low_rank import RestrictedLoss, solve_low_rank
from jointsparse.solvers.convex.low_rank_basis import Basis, DualPoint
from jointsparse.solvers.convex.model import ConvexModel, factor_scores, largest_eta, largest_lam
from jointsparse.solvers.convex.splitting import solve_splitting
from jointsparse.solvers.convex.stationarity import Stationarity
from jointsparse.solvers.wide import scatter_access
from jointsparse.solvers.wide.scatter_access import (
    Krylov,
    MatrixScatter,
    leading_basis,
    proved_bound,
)

RNG = np.random.default_rng(11)
PROBLEMS = [
    (int(p), seed, float(lam), float(eta))
    for seed, (p, lam, eta) in enumerate(
        zip(
            np.linspace(6, 36, 12).round(),
            np.exp(RNG.uniform(np.log(1e-3), np.log(0.1), 12)),
            np.exp(RNG.uniform(np.log(1e-2), np.log(0.3), 12)),
            strict=True,
        )
    )
]


def decaying_scatter(p, seed, decay=1.0, sparse=0):
    """Scatter matrix of trace 1 with eigenvalues like 1/i^decay; the last features are noise."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((p, p)))[0]
    scales = np.ones(p)
    scales[p - sparse :] = 0.05
    X = (Q * np.arange(1, p + 1) ** (-decay / 2)).T * scales
    S = X.T @ X
    return S / np.trace(S)


@pytest.fixture
def dual_points(monkeypatch):
    """Every dual point that a solver makes, with what it is a point of."""
    points = []
    original = RestrictedLoss.dual_point

    def spy(self, copies):
        point = original(self, copies)
        points.append((self, self.consistent(copies), point))
        return point

    monkeypatch.setattr(RestrictedLoss, "dual_point", spy)
    return points


def assert_dual_feasible(S, lam, eta, vectors, rotated, certificate):
    """Rebuild P and V without any structure: feasible, and of the value that was claimed."""
    values, eigenvectors = np.linalg.eigh(S)
    X = np.sqrt(np.clip(values, 0, None))[:, None] * eigenvectors.T
    omega = vectors @ rotated @ vectors.T
    P = 2 * certificate.scale * (X - X @ omega)
    pull = certificate.scale * vectors @ certificate.inside  # λV
    if certificate.coupling is not None:
        pull += 2 * certificate.scale * certificate.coupling @ vectors.T
    assert np.linalg.norm(pull, axis=0).max() <= lam * (1 + 1e-10) + 1e-14
    matrix = P.T @ X - pull
    assert np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1] <= eta * (1 + 1e-9)
    value = np.sum(P * X) - np.sum(P**2) / 4
    assert value == pytest.approx(certificate.value, abs=1e-11)


@pytest.mark.parametrize(("p", "seed", "lam", "eta"), large_are_slow(PROBLEMS))
def test_equals_the_interior_point_optimum(p, seed, lam, eta):
    S, _ = planted_problem(p, seed)
    optimum, _ = spca_psd_optimum(S, lam, eta)
    solution = solve_low_rank(S, lam, eta, tol=1e-6)

    assert solution.converged
    assert solution.gap <= 1e-6
    assert solution.objective == pytest.approx(optimum, rel=2e-6)
    history, gaps = np.asarray(solution.history), np.asarray(solution.gap_history)
    assert np.all(history * gaps >= history - optimum - 1e-8)
    assert np.all(np.diff(history) <= 1e-12)
    assert len(history) == len(gaps) == solution.n_iter
    U = solution.loadings
    assert solution.objective == pytest.approx(spca_psd_objective(S, U @ U.T, lam, eta), rel=1e-10)


@pytest.mark.parametrize("units", [1.0, 1e6, 1e-6])
@pytest.mark.parametrize(
    ("p", "decay", "sparse", "lam", "eta"),
    [
        (100, 1.0, 0, 0.002, 0.05),
        (150, 1.0, 80, 0.01, 0.05),
        (150, 2.0, 80, 0.05, 0.02),
        (200, 1.0, 0, 0.01, 0.02),
        (200, 1.5, 150, 0.02, 0.1),
        (200, 1.0, 100, 1e-5, 0.05),
    ],
)
def test_agrees_with_the_full_solver(p, decay, sparse, lam, eta, units):
    S = units * decaying_scatter(p, seed=p, decay=decay, sparse=sparse)
    lam, eta = units * lam, units * eta
    exact = solve_splitting(Spectrum.of(S), lam, eta, tol=1e-7)
    solution = solve_low_rank(S, lam, eta)

    assert solution.converged
    assert solution.gap <= 1e-4
    assert (1 - 1e-7) * exact.objective <= solution.objective
    assert solution.objective * (1 - solution.gap) <= exact.objective * (1 + 1e-12)
    U = solution.loadings
    assert np.linalg.norm(U.T @ U - np.diag(np.sum(U**2, axis=0))) < 1e-8
    assert np.all(np.diff(np.sum(U**2, axis=0)) <= 1e-12)
    # zeros are exact, and at this gap nearly all of those of the optimum
    zero, zero_exact = (factor_scores(x) == 0 for x in (U, exact.loadings))
    assert np.sum(zero & zero_exact) >= 0.95 * np.sum(zero_exact)
    assert np.sum(zero & ~zero_exact) <= 0.05 * p
    assert solution.diagnostics["basis size"] < p / 2 + 30


@pytest.mark.parametrize("share", [0.5, 0.7, 0.85, 0.99])
def test_near_the_penalty_that_empties_the_model(share):
    S = decaying_scatter(120, seed=3, sparse=40)
    spectrum = Spectrum.of(S)
    lam = share * largest_lam(spectrum, 0.05)
    exact = solve_splitting(spectrum, lam, 0.05, tol=1e-6)
    solution = solve_low_rank(S, lam, 0.05)
    assert solution.converged
    assert solution.objective * (1 - solution.gap) <= exact.objective * (1 + 1e-12)
    assert solution.objective == pytest.approx(exact.objective, rel=1.1e-4)


def test_without_sparsity_the_optimum_has_a_closed_form():
    S = decaying_scatter(120, seed=4)
    s, V = np.linalg.eigh(S)
    weights = np.clip(1 - 0.04 / (2 * np.clip(s, 1e-12, None)), 0, None)
    solution = solve_low_rank(S, 0.0, 0.04, tol=1e-8)
    assert solution.converged
    assert solution.loadings.shape[1] == np.sum(weights > 0)
    omega = solution.loadings @ solution.loadings.T
    np.testing.assert_allclose(omega, (V * weights) @ V.T, atol=1e-3)
    optimum = spca_psd_objective(S, (V * weights) @ V.T, 0.0, 0.04)
    assert solution.objective == pytest.approx(optimum, rel=2e-8)


def test_penalties_that_empty_the_model():
    S = decaying_scatter(100, seed=5)
    spectrum = Spectrum.of(S)
    for lam, eta in [
        (1.01 * largest_lam(spectrum, 0.05), 0.05),
        (0.01, 1.01 * largest_eta(spectrum)),
        (0.01, 10 * largest_eta(spectrum)),
        (0.0, 1.01 * largest_eta(spectrum)),
    ]:
        solution = solve_low_rank(S, lam, eta)
        assert solution.converged
        assert solution.loadings.shape == (100, 0)
        assert solution.objective == pytest.approx(1.0)
        assert solution.gap <= 1e-4


@pytest.mark.parametrize(
    ("lam", "eta", "sparse"), [(0.01, 0.05, 50), (0.002, 0.02, 0), (0.0, 0.05, 0), (0.2, 0.05, 0)]
)
def test_the_dual_points_are_feasible(dual_points, lam, eta, sparse):
    S = decaying_scatter(150, seed=6, sparse=sparse)
    solution = solve_low_rank(S, lam, eta)
    assert len(dual_points) >= 1
    for loss, rotated, point in dual_points:
        assert loss.vectors.shape[1] < 150  # there is something outside
        assert_dual_feasible(S, lam, eta, loss.vectors, rotated, point.certificate())
        assert_dual_feasible(S, lam, eta, loss.vectors, rotated, point.uncoupled())
    best = max(
        max(point.certificate().value, point.uncoupled().value) for _, _, point in dual_points
    )
    assert solution.gap == pytest.approx((solution.objective - best) / solution.objective)


@pytest.mark.parametrize("size", [0.01, 0.3, 2.0])
def test_dual_points_of_arbitrary_iterates_are_feasible(size):
    """The bound assumes nothing about how good the iterate is."""
    S = decaying_scatter(60, seed=7)
    lam, eta = 0.01, 0.08
    basis, beta = leading_basis(MatrixScatter(S, 1.0), eta, 60)
    assert basis.size < 60
    optimum = solve_splitting(Spectrum.of(S), lam, eta, tol=1e-8).objective
    model = ConvexModel(Spectrum(basis.values, basis.vectors, 1.0), lam, eta)
    rng = np.random.default_rng(8)
    for _ in range(20):
        rotated = size * rng.standard_normal((basis.size, basis.size))
        rotated = (rotated + rotated.T) / 2
        pull = rng.standard_normal((basis.size, 60))
        pull *= lam * rng.random(60) / np.linalg.norm(pull, axis=0)
        point = DualPoint(model, basis, beta, rotated, pull)
        for found in (point.certificate(), point.uncoupled()):
            assert found.value <= optimum * (1 + 1e-12)
            assert_dual_feasible(S, lam, eta, basis.vectors, rotated, found)


def test_scatters_at_the_edge():
    # rank one with constant features, equal eigenvalues, one and two features
    u = np.r_[np.arange(1.0, 41.0), np.zeros(20)]
    small = np.array([[0.7, 0.1], [0.1, 0.3]])
    for S, lam, eta, optimum in [
        (np.outer(u, u) / (u @ u), 0.001, 0.1, None),
        (np.eye(80) / 80, 0.001, 0.05, 1.0),
        (np.ones((1, 1)), 0.1, 0.1, 0.19),  # min over ω of (1 - ω)² + 0.2 ω
        (small, 0.05, 0.1, None),
    ]:
        if optimum is None:
            optimum = solve_splitting(Spectrum.of(S), lam, eta, tol=1e-7).objective
        solution = solve_low_rank(S, lam, eta)
        assert solution.converged
        assert solution.objective * (1 - solution.gap) <= optimum * (1 + 1e-12)
        assert solution.objective == pytest.approx(optimum, rel=1.1e-4)


def test_says_so_when_the_rank_is_not_low(monkeypatch):
    S = decaying_scatter(60, seed=9, decay=0.5)
    monkeypatch.setattr(convex_low_rank, "LARGEST_ALWAYS", 10)
    solution = solve_low_rank(S, 1e-4, 1e-3)
    assert not solution.converged
    assert "too many directions matter" in solution.reason
    assert solution.gap == 1.0  # of Ω = 0, proved by nothing
    assert solution.loadings.shape == (60, 0)


def test_says_so_when_the_basis_grows_too_large(monkeypatch):
    S = decaying_scatter(150, seed=10, sparse=80)
    monkeypatch.setattr(convex_low_rank, "LARGEST_SHARE", 0.0)
    monkeypatch.setattr(convex_low_rank, "LARGEST_ALWAYS", 60)
    solution = solve_low_rank(S, 0.01, 0.05, tol=1e-10)
    assert not solution.converged
    assert "too many directions matter" in solution.reason
    assert solution.diagnostics["rounds"] >= 1
    assert solution.gap < 0.01  # what was reached is returned


def test_limits_on_rounds_and_iterations(monkeypatch):
    S = decaying_scatter(150, seed=10, sparse=80)
    optimum = solve_splitting(Spectrum.of(S), 0.01, 0.05, tol=1e-7).objective
    short = solve_low_rank(S, 0.01, 0.05, tol=1e-9, max_iter=7)
    assert short.n_iter == 7
    assert "iteration limit" in short.reason
    monkeypatch.setattr(convex_low_rank, "MOST_ROUNDS", 1)
    one = solve_low_rank(S, 0.01, 0.05, tol=1e-9)
    assert one.diagnostics["rounds"] == 1
    assert "rounds were not enough" in one.reason
    for solution in (short, one):
        assert not solution.converged
        assert solution.objective * (1 - solution.gap) <= optimum <= solution.objective


def test_penalties_are_checked():
    for lam, eta in [(0.1, 0.0), (-0.1, 0.1)]:
        with pytest.raises(ValueError, match="eta must be positive"):
            solve_low_rank(np.eye(3), lam, eta)


def test_what_lies_outside_the_basis_is_proved():
    S = decaying_scatter(100, seed=13)
    basis, beta = leading_basis(MatrixScatter(S, 1.0), 0.05, 100)
    rest = np.eye(100) - basis.vectors @ basis.vectors.T
    top = np.linalg.eigvalsh(2 * rest @ S @ rest)[-1]
    assert top <= beta < 0.05
    np.testing.assert_allclose(basis.vectors.T @ basis.vectors, np.eye(basis.size), atol=1e-12)
    np.testing.assert_allclose(
        basis.vectors.T @ S @ basis.vectors, np.diag(basis.values), atol=1e-12
    )
    np.testing.assert_allclose(basis.images, S @ basis.vectors, atol=1e-12)
    assert proved_bound(S, 1.0, basis, 1.001 * top) >= top
    assert proved_bound(S, 1.0, basis, 0.999 * top) is None
    assert leading_basis(MatrixScatter(S, 1.0), 0.05, 3) is None


def test_a_failed_proof_enlarges_the_basis(monkeypatch):
    S = decaying_scatter(100, seed=14)
    asked = []
    original = proved_bound

    def fail_once(*args):
        asked.append(args[2].size)
        return None if len(asked) == 1 else original(*args)

    monkeypatch.setattr(scatter_access, "proved_bound", fail_once)
    basis, _ = leading_basis(MatrixScatter(S, 1.0), 0.05, 100)
    assert len(asked) == 2
    assert basis.size >= asked[0]


def test_other_errors_of_the_factorisation_are_not_swallowed(monkeypatch):
    S = decaying_scatter(30, seed=15)
    basis = Krylov(MatrixScatter(S, 1.0)).resolved(0.05, 30)
    monkeypatch.setattr(scatter_access.np.linalg, "cholesky", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        proved_bound(S, 1.0, basis, 0.5)


def test_directions_already_in_the_basis_are_not_added():
    rng = np.random.default_rng(16)
    W = np.linalg.qr(rng.standard_normal((20, 5)))[0]
    new = rng.standard_normal((20, 2))
    columns = np.c_[W @ rng.standard_normal((5, 3)), np.zeros(20), new, new @ np.ones(2)]
    added = outside(W, columns)
    assert added.shape == (20, 2)
    np.testing.assert_allclose(np.c_[W, added].T @ np.c_[W, added], np.eye(7), atol=1e-12)
    assert outside(W, W).shape == (20, 0)
    S = decaying_scatter(20, seed=17)
    basis = Basis.rotated(W, S @ W)
    assert basis.enlarged(MatrixScatter(S, 1.0), W[:, :0]).size == 5


def test_stationary_columns_span_the_optimum():
    S = decaying_scatter(60, seed=18, sparse=20)
    lam, eta = 0.02, 0.05
    U = solve_splitting(Spectrum.of(S), lam, eta, tol=1e-10).loadings
    U = U[:, np.linalg.norm(U, axis=0) > 1e-3]
    F = Stationarity.of(U, S @ U, lam, eta).columns()
    assert outside(np.linalg.qr(F)[0], U).shape == U.shape  # rounding apart …
    rest = U - F @ np.linalg.lstsq(F, U, rcond=None)[0]
    assert np.linalg.norm(rest) < 1e-3 * np.linalg.norm(U)  # … the same space
    np.testing.assert_allclose(np.linalg.norm(F, axis=1), factor_scores(U), atol=1e-3)


def test_other_array_libraries_and_single_precision():
    S = decaying_scatter(80, seed=19, sparse=30)
    expected = solve_low_rank(S, 0.01, 0.05)
    single = solve_low_rank(S.astype(np.float32), 0.01, 0.05)
    assert single.loadings.dtype == np.float64
    assert single.objective == pytest.approx(expected.objective, rel=1e-4)
    torch = pytest.importorskip("torch")
    other = solve_low_rank(torch.asarray(S), 0.01, 0.05)
    assert isinstance(other.loadings, torch.Tensor)
    assert other.objective == pytest.approx(expected.objective, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["usps", "isolet", "mnist", "pie"])
@pytest.mark.parametrize(
    ("lam", "eta"),
    [(0.005, 0.05), (0.0005, 0.05), (0.02, 0.05), (0.01, 0.1), (0.001, 0.01), (0.0, 0.05)],
)
def test_benchmark_data(benchmark_data, dual_points, name, lam, eta):
    X = benchmark_data(name)
    X = X - X.mean(axis=0)
    S = X.T @ X
    total = np.trace(S)
    solution = solve_low_rank(S, lam * total, eta * total)
    assert solution.converged
    assert solution.gap <= 1e-4
    U = solution.loadings
    objective = spca_psd_objective(S / total, U @ U.T, lam, eta)
    assert solution.objective == pytest.approx(objective * total, rel=1e-10)
    points = [
        (loss, rotated, found)
        for loss, rotated, point in dual_points
        for found in (point.certificate(), point.uncoupled())
    ]
    loss, rotated, best = max(points, key=lambda point: point[2].value)
    assert_dual_feasible(S / total, lam, eta, loss.vectors, rotated, best)
    assert objective - best.value <= 1.0001e-4 * objective
