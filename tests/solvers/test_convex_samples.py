from dataclasses import replace

import numpy as np
import pytest
from oracles import sample_loss_optimum

from jointsparse.linalg import Spectrum
from jointsparse.solvers.convex.certificate import operator_norm
from jointsparse.solvers.convex.model import largest_eta, largest_lam
from jointsparse.solvers.samples import cone as convex_samples
from jointsparse.solvers.samples.cone import solve_samples
from jointsparse.solvers.samples.free import nuclear_norm_bound, range_of, solve_samples_free
from jointsparse.solvers.samples.geometric_median import geometric_median
from jointsparse.solvers.samples.model import emptying_data

MODELS = [
    pytest.param(True, False, id="cspca-psd"),
    pytest.param(False, False, id="cspca"),
    pytest.param(True, True, id="aw-spca-psd"),
    pytest.param(False, True, id="aw-spca"),
]


def sample(seed, n=15, p=None):
    rng = np.random.default_rng(seed)
    p = p or int(rng.integers(4, 9))
    X = 0.3 * rng.standard_normal((n, p)) + rng.standard_normal((n, 2)) @ rng.standard_normal(
        (2, p)
    )
    return X - X.mean(axis=0)


def penalties(X, e, a, free_mean):
    slope = emptying_data(X, free_mean=free_mean)
    spectrum = Spectrum.of(slope.T @ slope)
    eta = 0.0 if free_mean else e * largest_eta(spectrum, 1.0)
    return a * largest_lam(spectrum, eta, 1.0), eta


def solve(X, lam, eta, psd, free_mean, **options):
    if not psd:
        return solve_samples_free(X, lam, eta, free_mean=free_mean, **options)
    return solve_samples(X, Spectrum.of(X.T @ X), lam, eta, free_mean=free_mean, **options)


def omega_of(solution):
    return solution.state.basis @ solution.loadings.T


@pytest.mark.parametrize(("psd", "free_mean"), MODELS)
@pytest.mark.parametrize("seed", range(10))
def test_equals_the_interior_point_optimum(seed, psd, free_mean):
    X = sample(seed)
    rng = np.random.default_rng(seed)
    lam, eta = penalties(X, rng.uniform(0.02, 0.4), rng.uniform(0.02, 0.6), free_mean)
    optimum, _ = sample_loss_optimum(X, lam, eta, psd=psd, free_mean=free_mean)
    solution = solve(X, lam, eta, psd, free_mean, tol=1e-6, max_iter=5000)
    assert solution.objective == pytest.approx(optimum, rel=1e-5)
    assert solution.gap <= 1e-6
    history, gaps = np.asarray(solution.history), np.asarray(solution.gap_history)
    assert np.all(history * gaps >= history - optimum - 1e-6 * optimum)
    assert np.all(np.diff(history) <= 0)
    # the objective is that of the returned matrix and offset, term by term
    omega, offset = omega_of(solution), solution.state.offset
    value = np.linalg.norm(X - X @ omega.T - offset, axis=1).sum()
    value += lam * np.linalg.norm(omega, axis=0).sum() + eta * np.linalg.norm(omega, "nuc")
    assert solution.objective == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("eta", [0.0, 0.5])
def test_the_optimum_without_the_cone_need_not_lie_on_it(eta):
    """Appendix A of source 004 claims that it does."""
    X = np.array([[2.0, 1.0], [-2.0, -1.0]])
    free = solve(X, 1.0, eta, False, False, tol=1e-7)
    np.testing.assert_allclose(omega_of(free), [[1, 0], [0.5, 0]], atol=1e-3)
    cone = solve(X, 1.0, eta, True, False, tol=1e-7)
    assert free.objective < 0.95 * cone.objective
    if eta == 0:
        assert free.objective == pytest.approx(np.sqrt(1.25), rel=1e-5)
        np.testing.assert_allclose(omega_of(cone), [[0.8, 0.4], [0.4, 0.2]], atol=1e-3)
        assert cone.objective == pytest.approx(1.341641, rel=1e-5)


@pytest.mark.parametrize(("psd", "free_mean"), MODELS)
def test_emptying_penalties(psd, free_mean):
    X = sample(3, n=25, p=8)
    lam, eta = penalties(X, 0.1, 1.0, free_mean)
    empty = solve(X, 1.002 * lam, eta, psd, free_mean, tol=1e-6)
    assert not empty.loadings.any()
    assert empty.gap <= 1e-6
    assert solve(X, 0.5 * lam, eta, psd, free_mean, tol=1e-6).loadings.any()
    if not psd and eta == 0:  # there the bound is exact
        assert solve(X, 0.98 * lam, eta, psd, free_mean, tol=1e-7).loadings.any()


@pytest.mark.parametrize(("psd", "free_mean"), MODELS)
def test_units_do_not_matter_and_wide_data_work(psd, free_mean):
    X = sample(1, n=8, p=14)
    lam, eta = penalties(X, 0.1, 0.2, free_mean)
    one = solve(X, lam, eta, psd, free_mean)
    other = solve(1e5 * X, 1e5 * lam, 1e5 * eta, psd, free_mean)
    np.testing.assert_allclose(omega_of(one), omega_of(other), atol=1e-6)
    assert one.gap <= 1e-4


def test_without_the_cone_no_more_directions_are_used_than_there_are():
    X = sample(2, n=7, p=30)
    lam, eta = penalties(X, 0.1, 0.3, False)
    solution = solve(X, lam, eta, False, False)
    rank = int(solution.diagnostics["rank"])
    assert solution.loadings.shape == solution.state.basis.shape == (30, rank)
    assert rank <= 6  # of seven centred samples
    assert solve(X, lam, 0.0, False, False).loadings.shape == (30, 6)


@pytest.mark.parametrize("shape", [(30, 43), (43, 30), (20, 20), (1, 5), (5, 1)])
def test_the_basis_of_the_range_is_orthonormal_whatever_the_condition(shape):
    """Through the Gram matrix it was off by 1e-6, and by 4e-3 for float32 samples."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape) * 10.0 ** rng.uniform(-6, 6, shape[1])
    rows, values, basis = range_of(X)
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-13)
    np.testing.assert_allclose(rows @ basis.T, X, atol=1e-13 * np.abs(X).max())
    np.testing.assert_allclose(rows.T @ rows, np.diag(values), atol=1e-13 * values.max())


def test_geometric_median():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((41, 3))
    points[0] = 1e6
    centre = geometric_median(points)
    assert np.linalg.norm(centre) < 1
    directions = (points - centre) / np.linalg.norm(points - centre, axis=1)[:, None]
    np.testing.assert_allclose(directions.sum(axis=0), 0, atol=1e-3)
    np.testing.assert_array_equal(geometric_median(np.ones((4, 2))), [1, 1])
    # a point that coincides with the start is passed
    cross = np.array([[0.0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])
    np.testing.assert_allclose(geometric_median(cross), 0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("isolet", "usps", "yale"),
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("pie", "imm40")),
    ],
)
@pytest.mark.parametrize(("psd", "free_mean"), MODELS)
def test_benchmark_data_are_certified(benchmark_data, name, psd, free_mean):
    X = benchmark_data(name)
    X = X - X.mean(axis=0)
    lam, eta = penalties(X, 0.1, 0.2, free_mean)
    assert solve(X, lam, eta, psd, free_mean, tol=1e-3).gap <= 1e-3


@pytest.mark.parametrize("free_mean", [False, True])
def test_the_bound_of_an_iterate_as_written(free_mean):
    """P = ρY, centred where the mean is free, its rows at most 1 long; then shrunk."""
    X = sample(3, n=10, p=5)
    spectrum = Spectrum.of(X.T @ X)
    W = np.asarray(spectrum.vectors)
    lam, eta = 0.4, 0.3
    model = convex_samples.ConeModel(X @ W, np.sum((X @ W) ** 2, axis=0), W, lam, eta, free_mean)
    blocks = convex_samples._Blocks(model)
    targets, steps = blocks.start()
    copies = blocks.split(targets, steps, (1.0, 1.0))
    rng = np.random.default_rng(0)
    duals = tuple(y + 0.3 * rng.standard_normal(y.shape) + 0.2 for y in copies.duals)
    found = blocks.lower_bound(replace(copies, duals=duals), thorough=False)
    P = copies.steps[0] * duals[0] @ W.T
    if free_mean:
        P = P - P.mean(axis=0)
    P = P / max(1.0, np.linalg.norm(P, axis=1).max())
    V = W @ (copies.steps[1] * duals[2])
    matrix = P.T @ X - V
    excess = max(0.0, np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1] - eta)
    expected = np.sum(P * X) * (eta + lam) / (eta + lam + excess)
    assert found == pytest.approx(expected)
    assert blocks.lower_bound(copies, thorough=True) == -np.inf
    # of the iterate itself, whose multipliers are feasible, it is below the optimum
    optimum = sample_loss_optimum(X, lam, eta, psd=True, free_mean=free_mean)[0]
    assert blocks.lower_bound(copies, thorough=False) <= optimum * (1 + 1e-5)


@pytest.mark.parametrize("rank", [3, 30])
def test_bounds_on_nuclear_norms_hold_and_are_close(rank):
    rng = np.random.default_rng(rank)
    M = rng.standard_normal((30, rank)) @ rng.standard_normal((rank, 80))
    exact = np.linalg.svd(M, compute_uv=False).sum()
    above, most = nuclear_norm_bound(M)
    assert exact <= above <= exact + most
    assert most < 1e-4 * exact


def test_operator_norms_are_those_of_the_decomposition():
    rng = np.random.default_rng(0)
    for shape in ((20, 7), (7, 20), (9, 9)):
        M = rng.standard_normal(shape)
        assert operator_norm(M) == pytest.approx(np.linalg.norm(M, 2), rel=1e-12)
