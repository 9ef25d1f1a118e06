import numpy as np
import pytest
from scipy.optimize import brentq

from jointsparse.eigen import followed
from jointsparse.eigen.followed import FollowedEigenpairs


@pytest.fixture
def decomposed(monkeypatch):
    """Count the matrices that are decomposed."""
    calls, eigh = [], followed.eigh
    monkeypatch.setattr(followed, "eigh", lambda matrix: calls.append(1) or eigh(matrix))
    return calls


def symmetric(rng, size):
    A = rng.standard_normal((size, size))
    return A + A.T


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_pairs_of_a_matrix_that_settles_become_exact_without_decompositions(library, decomposed):
    convert = np.asarray
    if library == "torch":
        convert = pytest.importorskip("torch").as_tensor
    rng = np.random.default_rng(0)
    A, change = symmetric(rng, 60), symmetric(rng, 60)
    follow = FollowedEigenpairs(0.3)
    for step in range(25):
        G = A + 0.3 * 0.4**step * change
        values, vectors = map(np.asarray, follow(convert(G)))
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(60), atol=1e-9)
    assert 0 < 2 * len(decomposed) < 25
    np.testing.assert_allclose((vectors * values) @ vectors.T, G, atol=1e-8)
    np.testing.assert_allclose(np.sort(values), np.linalg.eigvalsh(G), atol=1e-10)


def test_equal_eigenvalues_that_come_apart_are_told_apart():
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    follow = FollowedEigenpairs(0.3)
    follow((basis * np.r_[np.ones(6), np.full(6, 5.0)]) @ basis.T)
    turned = basis @ np.linalg.qr(np.eye(12) + 0.01 * rng.standard_normal((12, 12)))[0]
    G = (turned * np.r_[1 + 0.01 * np.arange(6), np.full(6, 5.0)]) @ turned.T
    for _ in range(40):
        values, vectors = follow(G)
    np.testing.assert_allclose(G @ vectors, vectors * values, atol=1e-8)


def test_matrices_that_have_nothing_in_common_are_decomposed(decomposed):
    rng = np.random.default_rng(2)
    follow = FollowedEigenpairs(0.3)
    for _ in range(30):
        G = symmetric(rng, 40)
        values, vectors = follow(G)
        np.testing.assert_allclose((vectors * values) @ vectors.T, G, atol=1e-10)
    assert len(decomposed) == 30


def test_values_after_a_turn_are_exact_to_the_second_order(decomposed):
    rng = np.random.default_rng(3)
    A, change = np.diag(np.arange(1.0, 9.0)), symmetric(rng, 8)
    errors = []
    for size in (1e-2, 1e-3):
        follow = FollowedEigenpairs(0.3)
        follow(A)
        values, vectors = follow(A + size * change)
        errors.append(np.max(np.abs(np.sort(values) - np.linalg.eigvalsh(A + size * change))))
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=size**2)
    assert len(decomposed) == 2
    assert errors[1] < 1e-7
    assert errors[0] / errors[1] > 500  # of the third order


def test_a_turn_is_that_of_the_formula(decomposed):
    rng = np.random.default_rng(4)
    follow = FollowedEigenpairs(0.3)
    _, V = follow(np.diag([1.0, 2.0, 2.3, 5.0, 9.0]))
    G = np.diag([1.0, 2.0, 2.3, 5.0, 9.0]) + 0.02 * symmetric(rng, 5)
    B = V.T @ G @ V
    Y = np.zeros((5, 5))
    for i in range(5):
        for j in range(5):
            apart = B[j, j] - B[i, i]
            Y[i, j] = 0.0 if i == j else B[i, j] * apart / (apart**2 + 4 * B[i, j] ** 2)
    turned = V @ (np.eye(5) + Y + Y @ Y / 2)
    turned = 1.5 * turned - 0.5 * turned @ turned.T @ turned
    values, vectors = follow(G)
    np.testing.assert_allclose(vectors, turned, atol=1e-14)
    np.testing.assert_allclose(values, np.diagonal(B) + np.sum(Y * B, axis=0), atol=1e-14)
    assert len(decomposed) == 1


@pytest.mark.parametrize(("share", "turns"), [(0.99, True), (1.01, False)])
def test_turns_end_where_second_orders_are_no_longer_small(share, turns, decomposed):
    """Three values at distance 1 with a coupling c: Y has c / (1 + 4c²) and c / (2 + 2c²)."""

    def mean_square(c):
        return 2 * (2 * (c / (1 + 4 * c**2)) ** 2 + (c / (2 + 2 * c**2)) ** 2) / 3

    coupling = brentq(lambda c: mean_square(c) - (share * 0.3) ** 2, 0, 0.5)
    follow = FollowedEigenpairs(0.3)
    values = np.diag([1.0, 2.0, 3.0])
    follow(values)
    follow(values + coupling * (1 - np.eye(3)))
    assert len(decomposed) == (1 if turns else 2)


def test_small_turns_are_not_made_orthonormal_again(monkeypatch):
    """They stay orthonormal to rounding below a size of 1e-5, and are made so again above."""
    made, orthonormal = [], followed._orthonormal
    monkeypatch.setattr(followed, "_orthonormal", lambda V: made.append(1) or orthonormal(V))
    for coupling, again in ((0.69e-5, 0), (0.72e-5, 1)):
        follow = FollowedEigenpairs(0.3)
        follow(np.diag([1.0, 2.0]))
        _, V = follow(np.array([[1.0, coupling], [coupling, 2.0]]))
        y = coupling / (1 + 4 * coupling**2)
        turn = np.array([[1 - y**2 / 2, y], [-y, 1 - y**2 / 2]])
        np.testing.assert_allclose(np.abs(V), np.abs(turn), rtol=0, atol=2e-16)
        assert len(made) == again


def test_after_an_attempt_that_failed_one_is_left_out(monkeypatch):
    rng = np.random.default_rng(5)
    follow = FollowedEigenpairs(0.3)
    calls, attempts, turned = [], [], follow._turned
    monkeypatch.setattr(follow, "_turned", lambda G: attempts.append(len(calls)) or turned(G))
    for _ in range(35):
        calls.append(1)
        follow(symmetric(rng, 40))
    assert attempts == list(range(2, 36, 2))


def test_vectors_are_orthonormal_after_the_largest_turns():
    rng = np.random.default_rng(8)
    follow, turned = FollowedEigenpairs(0.3), 0
    matrix = np.diag(np.arange(60.0))
    follow(matrix)
    for _ in range(20):
        matrix = matrix + 0.6 * symmetric(rng, 60) / 60**0.5
        before = follow.vectors
        _, V = follow(matrix)
        size = np.linalg.norm(before.T @ V - np.eye(60)) / 60**0.5
        turned += 0.15 < size < 0.35  # beyond what one correction would do for
        np.testing.assert_allclose(V.T @ V, np.eye(60), rtol=0, atol=1e-11)
    assert turned > 5


def test_turns_by_parts_are_those_of_the_formula(monkeypatch):
    monkeypatch.setattr(followed, "LONG_PART", 64)
    monkeypatch.setattr(followed, "threads", lambda: 2)
    coupling = symmetric(np.random.default_rng(9), 30)
    values = np.diagonal(coupling)
    apart = values[None, :] - values[:, None]
    expected = coupling * apart / (apart**2 + 4 * coupling**2)
    turn, size, added = followed._turn(coupling, values)
    np.testing.assert_allclose(turn, expected, rtol=1e-12, atol=1e-15)
    assert size == pytest.approx(np.linalg.norm(expected))
    np.testing.assert_allclose(added, (expected * coupling).sum(axis=0), rtol=1e-10)


def test_small_vectors_do_not_take_up_the_largest_ones_by_many_small_turns():
    rng = np.random.default_rng(4)
    basis = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    values = np.r_[np.full(4, 1e8) * np.arange(1, 5), np.linspace(0.5, 3, 36)]
    follow = FollowedEigenpairs(0.3)
    for _ in range(200):
        basis = np.linalg.qr(basis + 3e-5 * rng.standard_normal((40, 40)))[0]
        vectors = follow((basis * values) @ basis.T)[1]
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(40), rtol=0, atol=2e-14)
