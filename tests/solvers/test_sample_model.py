"""Parts of the models whose loss sums the lengths of residuals."""

from types import SimpleNamespace

import numpy as np
import pytest

from jointsparse.solvers.samples.geometric_median import geometric_median
from jointsparse.solvers.samples.model import (
    SampleModel,
    emptying_data,
    multipliers,
    step_sizes,
)


def model(free_mean, seed=0, n=15, p=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * [3, 1, 1, 0.5]
    X[0] *= 6
    X -= X.mean(axis=0)
    X /= np.linalg.norm(X, axis=1).sum()
    values, basis = np.linalg.eigh(X.T @ X)
    return SampleModel(X @ basis, values, basis, 0.2, 0.1, free_mean)


@pytest.mark.parametrize("free_mean", [False, True])
def test_residuals_have_the_best_offset(free_mean):
    found = model(free_mean)
    inner = 0.3 * np.eye(4) + 0.01 * np.random.default_rng(1).standard_normal((4, 4))
    residuals, offset = found.residuals(inner)
    np.testing.assert_allclose(residuals + offset, found.data - found.data @ inner.T, atol=1e-15)
    if not free_mean:
        assert not offset.any()
        return
    length = np.linalg.norm(residuals, axis=1).sum()
    for other in 1e-3 * np.random.default_rng(2).standard_normal((20, 4)):
        assert length <= np.linalg.norm(residuals - other, axis=1).sum()


@pytest.mark.parametrize("free_mean", [False, True])
def test_any_multipliers_bound_the_loss(free_mean):
    found, rng = model(free_mean), np.random.default_rng(3)
    for size in (0.1, 1.0, 5.0):
        value, moment = found.dual(size * rng.standard_normal(found.data.shape))
        for spread in (0.0, 0.5, 2.0):
            omega = spread * rng.standard_normal((4, 4))
            residuals, _ = found.residuals(omega)
            loss = np.linalg.norm(residuals, axis=1).sum()
            assert value - np.sum(moment * omega) <= loss + 1e-12
    # Directions of the residuals attain it where v is not free.
    if not free_mean:
        omega = 0.2 * np.eye(4)
        residuals, _ = found.residuals(omega)
        lengths = np.linalg.norm(residuals, axis=1)
        value, moment = found.dual(residuals / lengths[:, None])
        assert value - np.sum(moment * omega) == pytest.approx(lengths.sum())


@pytest.mark.parametrize("free_mean", [False, True])
def test_the_slope_at_zero_is_that_of_the_loss(free_mean):
    X = model(free_mean).data
    X[3] = 0.0  # a sample without a direction
    root = emptying_data(X, free_mean=free_mean)
    centre = geometric_median(X) if free_mean else np.zeros(4)
    expected = np.zeros((4, 4))
    for x in X - centre:
        if x.any():
            expected += np.outer(x, x) / np.linalg.norm(x)
    np.testing.assert_allclose(root.T @ root, expected, atol=1e-12)


@pytest.mark.parametrize("free_mean", [False, True])
def test_the_start_has_residuals_and_their_directions(free_mean):
    found = model(free_mean)
    inner, residuals, forces, steps = found.first()
    np.testing.assert_allclose(residuals, found.residuals(inner)[0])
    np.testing.assert_allclose(np.linalg.norm(forces, axis=1), 1)
    assert np.sum(forces * residuals) == pytest.approx(np.linalg.norm(residuals, axis=1).sum())
    # Ω of a start is positive semidefinite and no larger than the identity, and better than none.
    values = np.linalg.eigvalsh(inner)
    assert values[0] >= -1e-12
    assert values[-1] <= 1
    assert min(steps) > 0
    assert steps[1] == pytest.approx(found.lam + found.eta)


def test_a_residual_of_length_zero_has_no_direction():
    found = model(free_mean=False)
    found.data[3] = 0.0
    _, residuals, forces, _ = found.first()
    assert not residuals[3].any()
    assert not forces[3].any()
    np.testing.assert_allclose(np.linalg.norm(np.delete(forces, 3, axis=0), axis=1), 1)


def test_multipliers_change_with_the_step_sizes_and_not_otherwise():
    rng = np.random.default_rng(4)
    targets, values = rng.standard_normal((2, 3, 2, 2))
    plain = multipliers(tuple(targets), tuple(values), (1.0, 1.0))
    np.testing.assert_allclose(plain, targets - values)
    moved = multipliers(tuple(targets), tuple(values), (2.0, 4.0))
    for one, other, factor in zip(plain, moved, (2, 4, 4), strict=True):
        np.testing.assert_allclose(factor * other, one)
    sizes = step_sizes(SimpleNamespace(steps=(3.0, 5.0)))
    assert sizes == {"step size of residuals": 3.0, "step size of the matrix": 5.0}
