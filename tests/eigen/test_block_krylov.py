"""Largest eigenpairs by blocks: eigenvalues that are multiple, and starts that are too good."""

import numpy as np
import pytest

from jointsparse.eigen.block_krylov import largest_pairs, widened
from jointsparse.eigen.orthonormal import outside


def with_eigenvalues(values, seed=0):
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values),) * 2))[0]
    return (turn * values) @ turn.T, turn


@pytest.mark.parametrize("known", [0, 3, 6])
def test_multiple_eigenvalues_are_found_from_any_start(known):
    # A space of few dimensions holds all powers of such a matrix: what comes after it is rounding,
    # and must not become a direction.
    values = np.repeat([2.0, 1.0, 0.0], [8, 20, 32])
    matrix, turn = with_eigenvalues(values)
    start = widened(turn[:, :known], 8)
    products = []

    def apply(block):
        products.append(block.shape[1])
        return matrix @ block

    found = largest_pairs(apply, start, 6, tol=1e-12)
    assert found.converged
    np.testing.assert_allclose(found.values[:6], 2, rtol=1e-12)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(8), atol=1e-10)
    assert sum(products) <= 60


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_rounding_leaves_is_no_direction(dtype):
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.standard_normal((200, 30)))[0]
    held = basis @ rng.standard_normal((30, 6))
    noise = held - basis @ (basis.T @ held)  # next to nothing, in columns that are hardly apart
    added = outside(basis.astype(dtype), noise.astype(dtype))
    both = np.column_stack([basis, added])
    accuracy = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(both.T @ both, np.eye(both.shape[1]), atol=accuracy)
