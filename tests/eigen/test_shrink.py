"""Singular values lowered by a threshold: those of a decomposition, however they are found."""

import numpy as np
import pytest

from jointsparse.eigen import shrink as module
from jointsparse.eigen.shrink import Shrink


def lowered(M, threshold):
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    return (U * np.maximum(s - threshold, 0)) @ Vt, int(np.sum(s > threshold))


def check(shrink, M, threshold, atol=1e-9):
    A, R = shrink(M, threshold)
    expected, rank = lowered(M, threshold)
    np.testing.assert_allclose(A @ R.T, expected, atol=atol)
    np.testing.assert_allclose(R.T @ R, np.eye(R.shape[1]), atol=1e-9)
    assert R.shape[1] == rank


def low_rank(rng, n=40, p=20, rank=3, noise=0.05):
    factors = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    return factors + noise * rng.standard_normal((n, p))


@pytest.mark.parametrize("threshold", [0.0, 0.1, 3.0, 1e3])
def test_small_matrices_are_decomposed(threshold):
    rng = np.random.default_rng(0)
    shrink = Shrink(20)
    for _ in range(3):
        check(shrink, low_rank(rng), threshold)
        assert shrink.basis is None


def test_matrices_that_settle_are_followed(monkeypatch):
    monkeypatch.setattr(module, "PARTIAL_FROM", 10)
    rng = np.random.default_rng(1)
    M, change = low_rank(rng, 120, 80), low_rank(rng, 120, 80)
    shrink = Shrink(80)
    decomposed, dense = [], shrink._dense
    monkeypatch.setattr(shrink, "_dense", lambda *given: decomposed.append(1) or dense(*given))
    for step in range(25):
        near = M + 0.3 * 0.3**step * change
        _, R = shrink(near, 1.0)
        np.testing.assert_allclose(R.T @ R, np.eye(R.shape[1]), atol=1e-8)
    check(shrink, near, 1.0, atol=1e-6)
    assert 1 <= len(decomposed) < 12
    assert shrink.basis.shape[1] >= 3


def test_directions_that_come_later_are_found(monkeypatch):
    monkeypatch.setattr(module, "PARTIAL_FROM", 10)
    rng = np.random.default_rng(2)
    M = low_rank(rng, 120, 80, rank=2, noise=0.01)
    more = np.outer(rng.standard_normal(120), rng.standard_normal(80))
    shrink = Shrink(80)
    for size in (0.0, 0.0, 0.01, 0.05, 0.2, 0.5, 1.0, *[1.0] * 12):
        shrink(M + size * more, 2.0)
    check(shrink, M + more, 2.0, atol=1e-6)


def test_wide_thresholds_leave_nothing_and_full_rank_is_decomposed(monkeypatch):
    monkeypatch.setattr(module, "PARTIAL_FROM", 10)
    rng = np.random.default_rng(3)
    M = rng.standard_normal((60, 30))
    shrink = Shrink(30)
    for _ in range(3):
        A, R = shrink(M, 1e6)
        assert A.shape[1] == R.shape[1] == 0
    full = Shrink(30)
    for _ in range(12):  # followed, as all directions matter
        found = full(M, 0.1)
        assert full.basis is None
    np.testing.assert_allclose(found[0] @ found[1].T, lowered(M, 0.1)[0], atol=1e-7)


def test_directions_that_only_seem_to_be_above_the_threshold_are_left_out():
    rng = np.random.default_rng(4)
    M = low_rank(rng, 300, 160, rank=3)
    squares, vectors = np.linalg.eigh(M.T @ M)
    for wrong in (1.0, 4.0):  # as values that are followed may be off
        shrink = Shrink(160)
        said = squares.copy()
        said[-4] = wrong * 2.0**2
        shrink.follow = lambda gram, said=said: (said, vectors)
        A, R = shrink(M, 2.0)
        assert R.shape[1] == 3
        np.testing.assert_allclose(A @ R.T, lowered(M, 2.0)[0], atol=1e-8)


@pytest.mark.parametrize(
    ("columns", "count", "width"),
    [
        (149, 3, None),  # small ones are decomposed
        (150, 3, 8),
        (150, 25, 30),  # a fifth of the columns
        (150, 26, None),
        (200, 33, 39),
    ],
)
def test_a_basis_has_a_few_directions_more_and_at_most_a_fifth_of_all(columns, count, width):
    rng = np.random.default_rng(columns + count)
    Q = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    values = np.where(np.arange(columns) < count, 3.0, 0.5)
    shrink = Shrink(columns)
    check(shrink, Q * values, 1.0)
    assert (None if shrink.basis is None else shrink.basis.shape[1]) == width


def test_a_basis_without_room_for_one_more_direction_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "PARTIAL_FROM", 10)
    monkeypatch.setattr(module, "PARTIAL_SHARE", 0.9)
    shrink = Shrink(20)
    values = np.where(np.arange(20) < 4, 3.0, 0.1)  # four, and five more
    shrink(np.diag(values), 1.0)
    for more, dense in ((7, False), (8, True)):
        found = shrink._partial(
            np.diag(np.where(np.arange(20) < more, 3.0, 0.1)), 1.0, np.eye(20)[:, :9]
        )
        assert (found is None) == dense
