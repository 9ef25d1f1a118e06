import numpy as np
import pytest

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
    follow = FollowedEigenpairs()
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
    follow = FollowedEigenpairs()
    follow((basis * np.r_[np.ones(6), np.full(6, 5.0)]) @ basis.T)
    turned = basis @ np.linalg.qr(np.eye(12) + 0.01 * rng.standard_normal((12, 12)))[0]
    G = (turned * np.r_[1 + 0.01 * np.arange(6), np.full(6, 5.0)]) @ turned.T
    for _ in range(40):
        values, vectors = follow(G)
    np.testing.assert_allclose(G @ vectors, vectors * values, atol=1e-8)


def test_matrices_that_have_nothing_in_common_are_decomposed(decomposed):
    rng = np.random.default_rng(2)
    follow = FollowedEigenpairs()
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
        follow = FollowedEigenpairs()
        follow(A)
        values, vectors = follow(A + size * change)
        errors.append(np.max(np.abs(np.sort(values) - np.linalg.eigvalsh(A + size * change))))
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=size**2)
    assert len(decomposed) == 2
    assert errors[1] < 1e-7
    assert errors[0] / errors[1] > 500  # of the third order
