"""The loop of the splitting solvers and the small parts they are made of."""

import math

import numpy as np
import pytest
from oracles import planted_problem

from jointsparse import linalg
from jointsparse.eigen.orthonormal import orthonormalised, outside
from jointsparse.linalg import Spectrum
from jointsparse.operators.dense import DenseSamples
from jointsparse.solvers.convex import loop as splitting
from jointsparse.solvers.convex.low_rank_basis import Basis
from jointsparse.solvers.convex.splitting import solve_splitting
from jointsparse.solvers.wide.scatter_access import (
    LANCZOS_SHORTFALL,
    DataScatter,
    Krylov,
    MatrixScatter,
    proved_bound,
)

RNG = np.random.default_rng(0)


def test_the_plain_iteration_converges_too(monkeypatch):
    monkeypatch.setattr(splitting, "ACCELERATION_MEMORY", 0)
    iterations = []
    for seed in range(4):
        S, _ = planted_problem(12, seed)
        solution = solve_splitting(Spectrum.of(S), 0.02, 0.02, tol=1e-5, max_iter=400)
        assert solution.converged
        iterations.append(solution.n_iter)
    assert max(iterations) < 150


def test_few_iterations_are_enough_with_acceleration():
    counts = []
    for seed in range(6):
        S, _ = planted_problem(20, seed)
        counts.append(solve_splitting(Spectrum.of(S), 0.02, 0.02, tol=1e-4).n_iter)
    assert np.median(counts) <= 15


@pytest.mark.parametrize("p", [12, 80])  # looked at in every iteration, and only when it is due
def test_no_iteration_beyond_the_limit(p):
    S, _ = planted_problem(p, 0)
    solution = solve_splitting(Spectrum.of(S), 1e-3, 1e-3, tol=1e-14, max_iter=6)
    assert solution.n_iter == len(solution.history) == len(solution.gap_history) == 6
    assert not solution.converged
    assert solution.gap == pytest.approx(solution.gap_history[-1], rel=1e-6)


def test_step_sizes_follow_the_residuals():
    assert splitting._rescaling(3.1, 1.0) == 2.0
    assert splitting._rescaling(3.0, 1.0) == 1.0
    assert splitting._rescaling(1.0, 3.0) == 1.0
    assert splitting._rescaling(1.0, 3.1) == 0.5


def test_memory_of_the_accelerator():
    targets = (np.zeros((10, 10)), np.zeros((5, 4)))
    assert splitting._entries(targets) == 120
    assert splitting._memory(targets, 2 * 8 * 120 * 3) == 3
    assert splitting._memory(targets, 2 * 8 * 120 * 3 - 1) == 2
    assert splitting._memory(targets, 2**30) == 5


def test_pauses_between_certificates():
    # Not known yet: a factor of five in each iteration; 70 % of the time expected, at most three.
    assert splitting._pause(None, 4, 1e-4 * 5**2, 1e-4) == 1
    assert splitting._pause(None, 4, 1e-4 * 5**3, 1e-4) == 2
    assert splitting._pause(None, 4, 1.0, 1e-4) == 3
    # a factor of 10 in two iterations: two more for the factor of 10 that is missing
    assert splitting._pause((4, 1e-2), 6, 1e-3, 1e-4) == 1
    assert splitting._pause((4, 1e-2), 8, 1e-3, 1e-4) == 3
    assert splitting._pause((4, 1e-3), 6, 1e-2, 1e-4) == 2  # it rose: as if not known


def test_residuals_are_relative_and_by_group():
    class Problem:
        groups = ((0, 1), (2,))

    agreed = (np.full(3, 2.0), np.full(1, 2.0), np.ones(4))
    values = (np.full(3, 1.0), np.full(1, 1.0), np.full(4, 3.0))
    duals = (np.full(3, 5.0), np.zeros(1), np.full(4, 0.5))
    copies = splitting.Copies(agreed, values, duals, (1.0, 1.0))
    before = (np.full(3, 1.0), np.full(1, 2.0), np.zeros(4))
    (one, other) = splitting.residuals(Problem, copies, before)
    assert one == pytest.approx((2 / 4, math.sqrt(3) / (5 * math.sqrt(3))))
    assert other == pytest.approx((4 / 6, 2 / 1))
    assert splitting.residuals(Problem, copies, None)[0][1] == math.inf


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_columns_have_outside_a_basis(dtype, monkeypatch):
    monkeypatch.setattr(linalg, "BLOCK", 7)
    basis = np.linalg.qr(RNG.standard_normal((40, 3)))[0].astype(dtype)
    columns = RNG.standard_normal((40, 4)).astype(dtype)
    columns[:, 1] = basis[:, 0]  # inside already
    columns[:, 2] = 0
    columns[:, 3] *= 1e-6
    found = outside(basis, columns)
    near = 1e-5 if dtype == np.float32 else 1e-12
    assert found.dtype == dtype
    assert found.shape == (40, 2)
    np.testing.assert_allclose(found.T @ found, np.eye(2), atol=near)
    assert np.abs(basis.T @ found).max() < near
    rest = columns[:, [0, 3]] / np.linalg.norm(columns[:, [0, 3]], axis=0)
    both = np.hstack([basis, found])
    np.testing.assert_allclose(both @ (both.T @ rest), rest, atol=near)
    assert outside(basis, basis).shape == (40, 0)
    # columns whose first entries are zero are as long as the others
    late = np.zeros((40, 1), dtype=dtype)
    late[30:] = 1
    assert outside(basis, late).shape == (40, 1)


def test_short_directions_are_left_out():
    columns = np.diag([2.0, 1.0, 1e-3])
    assert orthonormalised(columns).shape == (3, 3)
    assert orthonormalised(columns, 1e-5).shape == (3, 2)


def spread_samples(n=30, p=80):
    X = RNG.standard_normal((n, p)) * np.geomspace(1, 0.05, n)[:, None]
    return X - X.mean(axis=0)


def test_bounds_on_what_a_basis_leaves(monkeypatch):
    X = spread_samples()
    total = float(np.sum(X**2))
    S = X.T @ X / total
    data = DataScatter(DenseSamples(X), total)
    for kept in (0, 3):
        W = np.linalg.eigh(S)[1][:, ::-1][:, :kept]
        basis = Basis.rotated(W, S @ W)
        rest = np.eye(80) - W @ W.T
        largest = np.linalg.eigvalsh(rest @ S @ rest)[-1]
        exact = data.proved_bound(basis, 10.0)
        assert 2 * largest <= exact <= 2 * largest + 1e-10
        assert data.proved_bound(basis, 1.99 * largest) is None
        estimate = data._lanczos_bound(basis)
        assert largest <= estimate <= largest / (1 - LANCZOS_SHORTFALL) + 1e-10
        found = proved_bound(X.T @ X, total, basis, 2.01 * largest)
        assert 2.01 * largest <= found <= 2.02 * largest
        assert proved_bound(X.T @ X, total, basis, 1.99 * largest) is None
    everything = np.linalg.qr(RNG.standard_normal((80, 80)))[0]
    assert proved_bound(X.T @ X, total, Basis.rotated(everything, S @ everything), 0.0) == 0


def test_the_estimate_stops_where_nothing_is_left():
    X = RNG.standard_normal((30, 2)) @ RNG.standard_normal((2, 80))  # of rank 2
    total = float(np.sum(X**2))
    nothing = Basis(np.empty(0), np.empty((80, 0)), np.empty((80, 0)))
    largest = np.linalg.norm(X, 2) ** 2 / total
    estimate = DataScatter(DenseSamples(X), total)._lanczos_bound(nothing)
    assert estimate == pytest.approx(largest / (1 - LANCZOS_SHORTFALL), rel=1e-9)


@pytest.mark.parametrize("form", ["matrix", "samples", "many samples"])
def test_leading_bases(form, monkeypatch):
    X = spread_samples()
    total = float(np.sum(X**2))
    S = X.T @ X / total
    values = np.linalg.eigvalsh(S)[::-1]
    if form == "many samples":
        monkeypatch.setattr("jointsparse.solvers.wide.scatter_access.LARGEST_GRAM", 5)
    scatter = (
        MatrixScatter(X.T @ X, total) if form == "matrix" else DataScatter(DenseSamples(X), total)
    )
    B = RNG.standard_normal((80, 2))
    np.testing.assert_allclose(scatter.times(B), S @ B, atol=1e-13)
    eta = 0.2
    basis, beta = scatter.leading(eta, 25)
    W = basis.vectors
    np.testing.assert_allclose(W.T @ W, np.eye(W.shape[1]), atol=1e-9)
    np.testing.assert_allclose(basis.images, S @ W, atol=1e-9)
    rest = np.eye(80) - W @ W.T
    assert 2 * np.linalg.eigvalsh(rest @ S @ rest)[-1] <= beta < eta
    wanted = int(np.sum(2 * values > 0.6 * eta))
    assert wanted <= W.shape[1] <= 2 * int(np.sum(2 * values > 0.3 * eta)) + 1
    assert scatter.leading(eta, wanted - 1) is None
    # UᵀSU without some rows of U
    dropped = np.arange(80) < 30
    full = scatter.form_without(dropped, B, S @ B, B.T @ S @ B)
    np.testing.assert_allclose(full, (B * ~dropped[:, None]).T @ S @ (B * ~dropped[:, None]))


def test_a_krylov_space_grows_to_everything():
    S = np.diag([3.0, 2.0, 1.0, 0.0, 0.0, 0.0])
    space = Krylov(MatrixScatter(S, 6.0))
    while space.dimension < 6:
        before = space.dimension
        space.extend()
        assert space.dimension > before
    np.testing.assert_allclose(space.vectors.T @ space.vectors, np.eye(6), atol=1e-10)
    np.testing.assert_allclose(space.images, S @ space.vectors / 6, atol=1e-12)
    resolved = space.resolved(0.1, 6)
    np.testing.assert_allclose(np.sort(resolved.values), [0, 0, 0, 1 / 6, 1 / 3, 1 / 2], atol=1e-12)
