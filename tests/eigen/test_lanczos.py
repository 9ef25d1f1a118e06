"""Leading eigenpairs of operators, and Ritz pairs of growing spaces."""

import numpy as np
import pytest

from jointsparse.eigen.lanczos import leading_pairs
from jointsparse.eigen.ritz import RitzBasis


def positive(size, seed=0):
    root = np.random.default_rng(seed).standard_normal((size, size))
    return root @ root.T


@pytest.mark.parametrize("room", [None, 5, 100])
@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_the_largest_pairs_are_those_of_the_whole(count, room):
    K = positive(6)
    values, vectors = leading_pairs(6, K.__matmul__, count, room if count < 5 else None)
    known = min(count, 5)  # all but one at most
    np.testing.assert_allclose(values, np.linalg.eigvalsh(K)[::-1][:known])
    np.testing.assert_allclose(K @ vectors, vectors * values, atol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(known), atol=1e-9)


@pytest.mark.parametrize("room", [10, 30])
def test_a_large_operator_is_multiplied_by_few_vectors(room):
    diagonal = np.r_[5.0, 4.0, 3.0, np.linspace(2, 1, 997)]
    products = []
    values, _ = leading_pairs(1000, lambda v: products.append(1) or diagonal * v, 3, room)
    np.testing.assert_allclose(values, [5, 4, 3])
    assert len(products) < 100


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("room", [0, 3, 100])
def test_ritz_values_are_those_of_the_matrix_within_the_space(largest, room):
    K, rng = positive(10), np.random.default_rng(1)
    ritz = RitzBasis(K.__matmul__, np.zeros(10), largest=largest, room=room)
    blocks = []
    for width in (2, 3, 1):
        blocks.append(rng.standard_normal((10, width)))
        assert ritz.extend(blocks[-1])
        basis = np.linalg.qr(np.hstack(blocks))[0]
        expected = np.linalg.eigvalsh(basis.T @ K @ basis)
        found = ritz.solve()
        np.testing.assert_allclose(found, expected[::-1] if largest else expected)
    assert ritz.used == 6
    assert not ritz.extend(np.hstack(blocks)[:, :2])  # nothing new
    assert ritz.used == 6
    assert ritz.extend(rng.standard_normal((10, 9)))  # there is room for four directions
    assert ritz.used == 10
    np.testing.assert_allclose(np.sort(ritz.solve()), np.linalg.eigvalsh(K))


def test_a_space_is_deepened_by_what_the_matrix_makes_of_its_newest_directions():
    K, start = positive(8), np.random.default_rng(2).standard_normal((8, 2))
    ritz = RitzBasis(K.__matmul__, np.zeros(8), largest=True)
    ritz.extend(start)
    assert ritz.deepen()
    assert ritz.deepen()
    krylov = np.linalg.qr(np.hstack([start, K @ start, K @ K @ start]))[0]
    expected = np.linalg.eigvalsh(krylov.T @ K @ krylov)[::-1]
    np.testing.assert_allclose(ritz.solve(), expected)
    ritz.deepen()
    assert ritz.used == 8
    assert not ritz.deepen()  # the whole space


def test_pairs_have_their_residuals_and_a_space_shrinks_to_them():
    K, rng = positive(9), np.random.default_rng(3)
    ritz = RitzBasis(K.__matmul__, np.zeros(9), largest=False)
    ritz.extend(rng.standard_normal((9, 5)))
    values = ritz.solve()
    found = ritz.pairs(2)
    np.testing.assert_allclose(found.values, values[:2])
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(
        found.residuals, K @ found.vectors - found.vectors * found.values, atol=1e-10
    )
    ritz.shrink()
    assert ritz.used == 2
    np.testing.assert_allclose(ritz.solve(), values[:2])
    assert ritz.extend(found.residuals)
    basis = np.linalg.qr(np.hstack([found.vectors, found.residuals]))[0]
    np.testing.assert_allclose(ritz.solve(), np.linalg.eigvalsh(basis.T @ K @ basis))
    assert ritz.deepen()  # K times what came last, not all of it
    assert ritz.used == 6
