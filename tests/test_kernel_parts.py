"""Penalties, projections and linear algebra: the parts that kernels are made of."""

import cvxpy as cp
import numpy as np
import pytest

from jointsparse.linalg import Spectrum, add_to_diagonal, column_norms, largest_eigenvalue
from jointsparse.numerics.projections import from_eigenpairs, positive_eigenpairs
from jointsparse.penalties import L21

RNG = np.random.default_rng(0)
SYMMETRIC = (lambda M: M + M.T)(RNG.standard_normal((6, 6)))


def test_l21_prox_is_the_proximal_operator():
    M = RNG.standard_normal((4, 5))
    Z = cp.Variable((4, 5))
    penalty = L21(0.9)
    objective = cp.sum_squares(Z - M) / 2 + 0.5 * 0.9 * cp.sum(cp.norm(Z, 2, axis=0))
    cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(penalty.prox(M, 0.5), Z.value, atol=1e-7)
    assert penalty.value(M) == pytest.approx(0.9 * np.linalg.norm(M, axis=0).sum())


def test_l21_prox_gives_exact_zeros_and_no_nan():
    M = np.array([[3.0, 0.1, 0.0], [4.0, 0.0, 0.0]])
    np.testing.assert_allclose(L21(1.0).prox(M, 1.0), [[2.4, 0, 0], [3.2, 0, 0]])
    assert L21(1.0).prox(M, 1.0)[0, 1] == 0


def test_l21_weights_majorise_the_norm():
    norms = np.array([2.0, 0.5])
    w = L21(1.0).weights(norms, 0.0)
    other = np.linspace(0.01, 5, 50)[:, None]
    # ‖m‖ ≤ w‖m‖² + ‖m₀‖/2 with equality at m₀: what makes reweighting a descent
    assert np.all(w * other**2 + norms / 2 >= other - 1e-12)
    np.testing.assert_allclose(w * norms**2 + norms / 2, norms)


@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_positive_eigenpairs_are_the_nearest_positive_semidefinite_matrix(shift):
    Z = cp.Variable((6, 6), PSD=True)
    cp.Problem(cp.Minimize(cp.sum_squares(Z - SYMMETRIC + shift * np.eye(6)))).solve(
        solver=cp.CLARABEL
    )
    ours = from_eigenpairs(*positive_eigenpairs(SYMMETRIC, shift))
    np.testing.assert_allclose(ours, Z.value, atol=1e-5)


def test_spectrum_rebuilds_the_matrix():
    S = SYMMETRIC @ SYMMETRIC
    spectrum = Spectrum.of(S)
    assert spectrum.values.sum() == pytest.approx(1)
    rebuilt = (spectrum.vectors * spectrum.values) @ spectrum.vectors.T * spectrum.trace
    np.testing.assert_allclose(rebuilt, S, rtol=1e-10, atol=1e-10)


def test_small_helpers():
    assert largest_eigenvalue(SYMMETRIC) == pytest.approx(np.linalg.eigvalsh(SYMMETRIC).max())
    np.testing.assert_allclose(column_norms(SYMMETRIC), np.linalg.norm(SYMMETRIC, axis=0))
    np.testing.assert_allclose(
        add_to_diagonal(np.zeros((2, 2)), np.array([1, 2])), [[1, 0], [0, 2]]
    )
