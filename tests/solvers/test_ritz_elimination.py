"""Eigenpairs where most features are out: Rayleigh-Ritz after their elimination."""

import numpy as np
import pytest

from jointsparse.solvers.graph import quadratic_forms, ritz_elimination
from jointsparse.solvers.graph.quadratic_forms import DenseForm
from jointsparse.solvers.graph.reweighted_eigen import solve_reweighted_eigen
from jointsparse.solvers.graph.ritz_elimination import RitzElimination


def light_problem(seed, heaviest):
    """Return a matrix of norm 1 and weights, those of 14 features far above it."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((40, 20))
    A = root.T @ root
    weights = np.concatenate([rng.uniform(0.01, 0.2, 6), heaviest * rng.uniform(1, 9, 14)])
    return A / np.linalg.norm(A, 2), rng.permutation(weights)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("heaviest", [8.0, 3e3, 1e5, 1e9])
@pytest.mark.parametrize("seed", range(3))
def test_features_that_are_out_are_eliminated_without_error(seed, heaviest, sign):
    A, weights = light_problem(seed, heaviest)
    A, least = sign * A, min(0.0, sign)
    values, vectors = RitzElimination(A, least).lowest(weights, 2, 5, 1.0)
    # Products of quadruple precision judge: a dense eigensolver loses the digits of small values.
    exact, V = A.astype(np.longdouble), vectors.astype(np.longdouble)
    residual = exact @ V + weights[:, None] * V - V * values
    scaled = np.abs(residual) / np.maximum(1.0, weights)[:, None]
    assert np.max(scaled[:, :2]) < (1e-11 if heaviest > 8 and sign > 0 else 1e-10)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=1e-11)
    dense = np.linalg.eigvalsh(A + np.diag(weights))[:5]
    np.testing.assert_allclose(values[:2], dense[:2], atol=1e-13 * weights.max() + 1e-14)
    again = RitzElimination(A, least).lowest(weights, 2, 5, 1.0)[0]
    np.testing.assert_array_equal(again, values)


def test_elimination_is_refused_where_it_would_not_do(monkeypatch):
    A, weights = light_problem(0, 1e5)
    light = RitzElimination(A, 0.0)
    assert light.lowest(weights, 6, 7, 1.0) is None  # of which there are six
    assert light.lowest(weights, 2, 7, 1.0)[0].size == 6
    assert light.lowest(np.minimum(weights, 1.0), 2, 5, 1.0) is None  # not far enough
    equal = np.where(weights > 1, weights, 0.1)
    values = light.lowest(equal, 2, 5, 1.0)[0]
    assert light.lowest(equal, 2, 5, 0.99 * values[1]) is None  # others might be above the shift
    tied = RitzElimination(np.zeros((20, 20)) + 1e-3, 0.0)
    assert tied.lowest(equal, 2, 5, 1.0) is None  # equal eigenvalues
    few = np.where(np.arange(20) < 13, 0.1, 1e5)
    assert light.lowest(few, 2, 5, 1.0) is None  # so many light ones that nothing is saved
    monkeypatch.setattr(ritz_elimination, "MOST_STEPS", 1)
    assert light.lowest(light_problem(0, 8.0)[1], 2, 5, 1.0) is None  # not accurate at once


def test_no_eigenvalue_is_missed_by_elimination():
    # Two heavy features whose entry of A takes an eigenvalue of K down to those of light ones.
    A = np.zeros((10, 10))
    A[8:, 8:] = -50.0
    weights = np.array([0.1, 0.2, 0.3, 0.4, 120.0, 120.0, 120.0, 120.0, 100.15, 100.15])
    least = float(np.linalg.eigvalsh(A)[0])
    found = RitzElimination(A, least).lowest(weights, 2, 3, 1.0)
    lowest = np.linalg.eigvalsh(A + np.diag(weights))[:2]
    assert found is None or np.allclose(found[0][:2], lowest)


def test_passes_go_the_same_way_with_and_without_elimination(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 120))
    X += rng.standard_normal((200, 120))
    A = X.T @ X / 200
    parameters = {"penalty": 0.1, "power": 0.5, "max_iter": 30, "tol": 1e-12}
    monkeypatch.setattr(quadratic_forms, "MANY", 1000)
    whole = solve_reweighted_eigen(DenseForm(A), 3, **parameters)
    monkeypatch.setattr(quadratic_forms, "MANY", 50)
    monkeypatch.setattr(quadratic_forms, "FEW", 50)
    used = []
    lowest = RitzElimination.lowest

    def noted(*given):
        used.append(lowest(*given))
        return used[-1]

    monkeypatch.setattr(RitzElimination, "lowest", noted)
    found = solve_reweighted_eigen(DenseForm(A), 3, **parameters)
    assert sum(pairs is not None for pairs in used) > 10
    np.testing.assert_allclose(found.state, whole.state, atol=1e-8)
    np.testing.assert_allclose(found.history, whole.history, rtol=1e-9)
