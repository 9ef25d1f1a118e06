"""CSPCA and AW-SPCA with reweighted samples and a split matrix."""

import numpy as np
import pytest
from oracles import sample_loss_optimum

from jointsparse.linalg import Spectrum
from jointsparse.solvers.convex.certificate import dual_value_samples_shared
from jointsparse.solvers.convex.model import largest_eta, largest_lam
from jointsparse.solvers.samples import cone, exact, free
from jointsparse.solvers.samples.model import emptying_data


def sample(seed, n, p):
    rng = np.random.default_rng(seed)
    X = 0.3 * rng.standard_normal((n, p))
    X += rng.standard_normal((n, 2)) @ rng.standard_normal((2, p))
    return X - X.mean(axis=0)


def penalties(X, e, a):
    slope = emptying_data(X, free_mean=False)
    spectrum = Spectrum.of(slope.T @ slope)
    eta = e * largest_eta(spectrum, 1.0)
    return a * largest_lam(spectrum, eta, 1.0), eta


@pytest.mark.parametrize(("n", "p"), [(20, 6), (6, 14)])
@pytest.mark.parametrize("free_mean", [False, True])
def test_an_iteration_solves_its_equations(n, p, free_mean):
    """Ω(S + kρI) = S + ρG with the weights that were used; the norms are those of its residuals."""
    X = sample(0, n, p)
    X /= np.linalg.norm(X, axis=1).sum()
    model = free.free_model(X, 0.05, 0.04, 1.0, free_mean=free_mean, turned=p > n)
    blocks = free.WeightedFree(model, 1e-4)
    targets, steps = blocks.start()
    rng = np.random.default_rng(1)
    targets = (targets[0] * rng.uniform(0.5, 2.0, n), *targets[1:])
    copies = blocks.split(targets, steps, (2.0,))
    (rho,) = copies.steps
    assert rho == 2 * steps[0]
    basis = np.eye(p) if model.basis is None else model.basis
    norms = copies.values[0] / blocks.unit
    centred = X - (1 / norms) @ X / np.sum(1 / norms) if free_mean else X
    S = (centred / norms[:, None]).T @ centred
    omega = basis @ copies.agreed[1]
    asked = basis @ sum(z - y for z, y in zip(copies.values[1:], copies.duals[1:], strict=True))
    np.testing.assert_allclose(omega @ S + 2 * rho * omega, S + rho * asked, atol=1e-10)
    residuals = centred - centred @ omega.T
    np.testing.assert_allclose(
        copies.agreed[0] / blocks.unit, np.linalg.norm(residuals, axis=1), atol=1e-12
    )
    candidate = blocks.candidate(copies)
    exact = model.objective(candidate.matrix)
    assert exact <= candidate.objective * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_are_below_the_optimum_from_the_first_iteration_on(seed):
    X = sample(seed, 16, 7)
    X /= np.linalg.norm(X, axis=1).sum()
    lam, eta = penalties(X, 0.1, 0.2)
    optimum, _ = sample_loss_optimum(X, lam, eta, psd=False, free_mean=False)
    model = free.free_model(X, lam, eta, 1.0, free_mean=False, turned=False)
    blocks = free.WeightedFree(model, 1e-4)
    targets, steps = blocks.start()
    for _ in range(6):
        copies = blocks.split(targets, steps, (1.0,))
        plain = blocks.lower_bound(copies, thorough=False)
        thorough = blocks.lower_bound(copies, thorough=True)
        assert max(plain, thorough) <= optimum * (1 + 1e-7)
        targets = tuple(
            z + y + a - z
            for a, z, y in zip(copies.agreed, copies.values, copies.duals, strict=True)
        )
    assert max(plain, thorough) > 0.9 * optimum


@pytest.mark.parametrize("shape", [(5, 9), (9, 5)])
def test_any_v_gives_a_bound_whose_parts_are_feasible(shape):
    rng = np.random.default_rng(0)
    moment = rng.standard_normal(shape)
    pull = rng.standard_normal(shape)
    lam, eta = 0.5, 0.8
    bounds = []
    for _ in range(30):
        bound, pull = dual_value_samples_shared(1.0, moment, pull, lam, eta)
        # Divided by 1/bound, some V and Q that add up to the moment are short enough.
        rest = moment - pull
        assert np.linalg.norm(rest, 2) <= eta * (1 + 1e-12)
        assert bound >= 1 / max(1.0, np.linalg.norm(pull, axis=0).max() / lam) * (1 - 1e-12)
        bounds.append(bound)
    assert bounds[-1] >= bounds[0]


@pytest.mark.parametrize(("n", "p"), [(20, 6), (6, 14)])
def test_residuals_become_a_block_where_weights_lead_nowhere(n, p, monkeypatch):
    X = sample(3, n, p)
    lam, eta = penalties(X, 0.1, 0.2)
    whole = free.solve_samples_free(X, lam, eta, tol=1e-6)
    monkeypatch.setattr(free, "PATIENCE", 1)
    other = free.solve_samples_free(X, lam, eta, tol=1e-6)
    assert "step size of residuals" not in whole.diagnostics
    assert "step size of residuals" in other.diagnostics
    assert other.converged
    assert other.objective == pytest.approx(whole.objective, rel=2e-6)


def test_samples_that_are_reproduced_exactly():
    """Half of the samples are multiples of one feature, which is kept as it is."""
    rng = np.random.default_rng(0)
    X = 0.3 * rng.standard_normal((40, 6))
    X[:20] = 0.0
    X[:20, 2] = 10 * rng.standard_normal(20)
    lam, eta = penalties(X, 0.01, 0.01)
    solution = free.solve_samples_free(X, lam, eta, tol=1e-6)
    optimum, _ = sample_loss_optimum(X, lam, eta, psd=False, free_mean=False)
    assert solution.converged
    assert solution.objective == pytest.approx(optimum, rel=2e-6)


@pytest.mark.parametrize("seed", range(6))
def test_on_the_cone_it_equals_the_interior_point_optimum(seed):
    rng = np.random.default_rng(seed)
    X = sample(seed, 15, int(rng.integers(4, 9)))
    lam, eta = penalties(X, rng.uniform(0.02, 0.4), rng.uniform(0.02, 0.6))
    optimum, _ = sample_loss_optimum(X, lam, eta, psd=True, free_mean=False)
    solution = cone.solve_weighted_cone(X, lam, eta, tol=1e-6, max_iter=2000)
    assert solution.converged
    assert solution.objective == pytest.approx(optimum, rel=1e-5)
    history, gaps = np.asarray(solution.history), np.asarray(solution.gap_history)
    assert np.all(history * gaps >= history - optimum - 1e-6 * optimum)
    omega = solution.loadings @ solution.loadings.T
    value = np.linalg.norm(X - X @ omega, axis=1).sum() + eta * np.trace(omega)
    value += lam * np.linalg.norm(omega, axis=0).sum()
    assert solution.objective == pytest.approx(value, rel=1e-8)


def test_an_iteration_on_the_cone_solves_its_equation():
    X = sample(0, 20, 6)
    X /= np.linalg.norm(X, axis=1).sum()
    blocks = cone.WeightedCone(cone.ConeModel(X, None, None, 0.05, 0.04, False), 1e-4)
    targets, steps = blocks.start()
    copies = blocks.split(targets, steps, (0.5,))
    (rho,) = copies.steps
    S = (X / (copies.values[0] / blocks.unit)[:, None]).T @ X
    asked = sum(z - y for z, y in zip(copies.values[1:], copies.duals[1:], strict=True))
    A, omega = S + 2 * rho * np.eye(6), copies.agreed[1]
    np.testing.assert_allclose(A @ omega + omega @ A, 2 * S + rho * (asked + asked.T), atol=1e-12)
    below = copies.duals[1] + copies.duals[1].T
    assert rho * np.linalg.eigvalsh(below)[-1] / 2 <= 0.04 * (1 + 1e-12)


def test_tables_whose_optimum_has_many_directions_are_split(monkeypatch):
    """A small basis where it serves; both take more directions than it should have."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((230, 160)) + 3 * np.outer(rng.standard_normal(230), np.ones(160))
    X -= X.mean(axis=0)
    calls = []
    whole = exact.solve_weighted_cone
    monkeypatch.setattr(
        exact, "solve_weighted_cone", lambda *a, **k: calls.append(1) or whole(*a, **k)
    )
    options = {"spectrum": lambda: Spectrum.of(X.T @ X)}
    found = [exact.solve_samples_on_cone(X, *penalties(X, e, 0.1), **options) for e in (0.5, 0.003)]
    assert all(solution.converged for solution in found)
    assert found[0].diagnostics["rank"] < 40 < found[1].diagnostics["rank"]
    assert calls == [1]
    again = cone.solve_samples(X, Spectrum.of(X.T @ X), *penalties(X, 0.003, 0.1))
    assert found[1].objective == pytest.approx(again.objective, rel=2e-4)
