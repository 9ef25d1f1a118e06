"""Bounds for many features, written out with p × p matrices; also in a basis that misses data."""

import math

import numpy as np
import pytest
from oracles import spca_psd_optimum

from jointsparse.solvers.wide.certificate import (
    Dropped,
    Frame,
    _largest,
    best_scale,
    lower_bound,
    objective_of_factor,
    relieved,
)


def data(seed, n, p):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, p))
    X += 0.5 * rng.standard_normal((n, p))
    X -= X.mean(axis=0)
    return X / np.linalg.norm(X)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_in_a_basis_that_misses_data(seed):
    """Everything written out with p × p matrices; H there exceeds what the basis shows of it."""
    rng = np.random.default_rng(seed)
    X, lam, eta = data(seed, 5, 12), 0.05, 0.1
    optimum, _ = spca_psd_optimum(X.T @ X, lam, eta)
    W = np.linalg.qr(rng.standard_normal((12, 3)))[0] @ np.diag([1.0, 2.0, 0.5])
    root = np.linalg.svd(W, full_matrices=False)
    axes = root[0] @ root[2]  # W(WᵀW)^(-1/2)
    Y = 0.3 * rng.standard_normal((3, 12))
    frame = Frame.of(X, W, Y)
    np.testing.assert_allclose(frame.image, X @ axes, atol=1e-12)
    missed = X - X @ axes @ axes.T
    np.testing.assert_allclose(frame.missed, missed @ missed.T, atol=1e-12)
    np.testing.assert_allclose(frame.coupling, Y @ axes, atol=1e-12)
    C = Y.T - axes @ (Y @ axes).T
    np.testing.assert_allclose(frame.escaped, C.T @ C, atol=1e-12)
    np.testing.assert_allclose(frame.squares, np.sum(Y**2, axis=0))
    np.testing.assert_allclose(frame.diagonal, np.sum(Y.T * axes, axis=1), atol=1e-12)
    np.testing.assert_allclose(frame.corrections, np.sum((C @ axes.T) ** 2, axis=0), atol=1e-12)
    np.testing.assert_allclose(frame.diagonal_corrections, np.sum(C * axes, axis=1), atol=1e-12)
    A = rng.standard_normal((3, 3))
    rotated = (A @ A.T) / 6
    kept = 9
    part = Frame.of(X[:, :kept], W[:kept], Y[:, :kept])
    for frame_, rest in ((frame, X[:, :0]), (part, X[:, kept:])):
        bound = lower_bound(frame_, rotated, rest, 1.0, lam, eta)
        assert bound.value <= optimum + 1e-9
        assert 0 <= bound.c <= bound.limit <= 1
    # feasibility of the very point, by its matrices
    bound = lower_bound(frame, rotated, X[:, :0], 1.0, lam, eta)
    S, omega = X.T @ X, axes @ rotated @ axes.T
    V = axes @ Y + bound.t * np.eye(12) - bound.theta * C @ axes.T
    H = 2 * S - S @ omega - omega @ S
    matrix = bound.limit * (H - lam * (V + V.T) / 2)
    assert np.linalg.eigvalsh(matrix)[-1] <= eta + 1e-10
    assert bound.limit * np.linalg.norm(V, axis=0).max() <= 1 + 1e-10
    a = 2 * (1 - np.sum(S * omega))
    b = np.sum((X - X @ omega) ** 2)
    assert bound.value == pytest.approx(bound.c * a - bound.c**2 * b)
    assert bound.c == pytest.approx(max(0.0, min(bound.limit, a / (2 * b))))


def test_features_outside_the_working_set_exactly():
    rng = np.random.default_rng(1)
    X, lam, eta = data(8, 5, 12), 0.07, 0.05
    W = np.linalg.qr(rng.standard_normal((8, 3)))[0]
    A = rng.standard_normal((3, 3))
    rotated = (A + A.T) / 5
    inside, rest = X[:, :8], X[:, 8:]
    found = Dropped.of(rest, Frame.of(inside, W, np.zeros((3, 8))), rotated, lam, eta)
    omega = W @ rotated @ W.T
    # what the basis misses of the features counts four times its square, as a bound
    missed = inside - inside @ W @ W.T
    image = W @ W.T @ (2 * np.eye(8) - omega) @ inside.T @ rest
    V = 2 / lam * image
    values, vectors = np.linalg.eigh(2 * rest.T @ rest)
    K = (vectors * np.maximum(values - eta, 0)) @ vectors.T / lam
    squares = np.sum(V**2, axis=0) + np.sum(K**2, axis=0)
    squares += 16 / lam**2 * np.sum((missed.T @ rest) ** 2, axis=0)
    np.testing.assert_allclose(found.squares, squares, rtol=1e-7)
    np.testing.assert_allclose(found.diagonal, np.diag(K), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_scale_is_that_of_a_fine_grid(seed):
    rng = np.random.default_rng(seed)
    top, lam, eta = rng.uniform(0.1, 1), rng.uniform(0.05, 0.5), rng.uniform(0.01, 0.3)
    squares, diagonal = rng.uniform(0, 0.8, 6), rng.uniform(-0.5, 0.5, 6)
    squares = np.maximum(squares, diagonal**2)
    c, t = best_scale(top, squares, diagonal, lam, eta)
    ts = np.linspace(0, top / lam, 20_001)
    rest = np.maximum(top - lam * ts, 1e-300)
    norms = np.max(squares + 2 * ts[:, None] * diagonal, axis=1) + ts**2
    grid = np.minimum(eta / rest, 1 / np.sqrt(np.maximum(norms, 1e-300)))
    assert c == pytest.approx(min(1.0, grid.max()), rel=1e-3)
    assert c * (top - lam * t) <= eta * (1 + 1e-9)
    assert c * math.sqrt(np.max(squares + 2 * t * diagonal) + t * t) <= 1 + 1e-9


def test_other_parts_of_the_bound():
    rng = np.random.default_rng(3)
    A, B = rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
    inside, escaped = A + A.T, B @ B.T
    C = np.linalg.cholesky(escaped).T
    block = np.block([[inside, -0.4 * C.T], [-0.4 * C, np.zeros((3, 3))]])
    assert _largest(inside, escaped, 0.4) == pytest.approx(np.linalg.eigvalsh(block)[-1])
    assert _largest(inside, escaped, 0.0) == pytest.approx(np.linalg.eigvalsh(inside)[-1])
    X, U = data(9, 5, 12), 0.3 * rng.standard_normal((12, 2))
    omega = U @ U.T
    value = np.sum((X - X @ omega) ** 2) + 0.1 * np.linalg.norm(omega, axis=0).sum()
    assert objective_of_factor(X, U, 1.0, 0.1, 0.2) == pytest.approx(value + 0.2 * np.trace(omega))
    _, sizes, right = np.linalg.svd(X, full_matrices=False)
    frame = Frame.of(X, right.T, np.zeros((5, 12)))
    start = np.zeros((5, 5))
    moved = relieved(frame, start, 0.1, 0.2)
    s = sizes**2
    excess = np.diag(np.maximum(2 * s - 0.2, 0.0))
    np.testing.assert_allclose(moved, excess / (s[:, None] + s + 1e-3 * 0.3), atol=1e-12)
