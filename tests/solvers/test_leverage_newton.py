"""Newton's steps towards leverages that reproduce themselves."""

from itertools import pairwise

import numpy as np
import pytest

from jointsparse.solvers.graph import leverage_newton
from jointsparse.solvers.graph.leverage_newton import NewtonSteps

SMOOTHING = 1e-10


def form(p=8, seed=0, size=10.0):
    """Return a form that outweighs the penalty, so that every feature is in use."""
    A = np.random.default_rng(seed).standard_normal((p, p))
    return size * (A + A.T)


def weights_at(x, power):
    return power / 2 * (x + SMOOTHING) ** (power / 2 - 1)


def one_pass(A, x, count, power):
    """Return the leverages of the lowest eigenvectors of A + diag(weights)."""
    vectors = np.linalg.eigh(A + np.diag(weights_at(x, power)))[1][:, :count]
    return np.sum(vectors**2, axis=1)


def steps_of(A, count, power):
    return NewtonSteps(lambda used: A[np.ix_(used, used)], count, power, SMOOTHING)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_steps_converge_quadratically(count, power):
    A = form(seed=2)
    if count == 1:
        A = -np.abs(A)  # a first eigenvector without zeros
    newton, x = steps_of(A, count, power), np.full(8, count / 8)
    newton.reach = leverage_newton.LONGEST_REACH
    for _ in range(2):
        x = one_pass(A, x, count, power)
    errors = []
    for _ in range(4):
        after = one_pass(A, x, count, power)
        errors.append(np.max(np.abs(after - x)))
        x = newton.point(x, after, weights_at(x, power))
    assert errors[0] > 1e-6
    assert errors[-1] < 1e-14
    for before, later in pairwise(errors):
        assert later <= 2 * before**2 + 1e-14
    assert x.sum() == pytest.approx(count)


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_with_the_shortest_reach_a_step_is_a_pass(power):
    A, x = form(seed=1), np.random.default_rng(1).uniform(0.1, 0.4, 8)
    newton = steps_of(A, 2, power)
    for _ in range(5):
        newton.went_too_far()
    after = one_pass(A, x, 2, power)
    np.testing.assert_allclose(newton.point(x, after, weights_at(x, power)), after, rtol=1e-9)
    newton.went_well()
    further = newton.point(x, after, weights_at(x, power))
    start, end = (np.log(part + SMOOTHING) for part in (x, after))
    assert np.linalg.norm(np.log(further + SMOOTHING) - start) > 1.01 * np.linalg.norm(end - start)


def test_the_reach_grows_and_falls_within_its_limits():
    newton = steps_of(form(), 1, 1.0)
    first = newton.reach
    newton.went_well()
    assert newton.reach > first
    newton.went_too_far()
    assert newton.reach < first
    for _ in range(60):
        newton.went_well()
    assert newton.reach == leverage_newton.LONGEST_REACH


def test_there_is_no_step_where_nothing_can_be_chosen_or_eigenvectors_are_not_known():
    x = np.full(4, 0.5)
    alike = steps_of(np.zeros((4, 4)), 2, 1.0)  # equal eigenvalues: any vectors are eigenvectors
    assert alike.point(x, x, weights_at(x, 1.0)) is None
    few = np.array([1.0, 1.0, 0.0, 0.0])  # as many features as eigenvectors
    assert steps_of(form(4), 2, 1.0).point(few, few, weights_at(few, 1.0)) is None


def test_there_is_no_step_with_too_many_features(monkeypatch):
    A, x = form(), np.full(8, 0.25)
    after = one_pass(A, x, 2, 1.0)
    for most, some in ((7, False), (8, True)):
        monkeypatch.setattr(leverage_newton, "MOST", most)
        found = steps_of(A, 2, 1.0).point(x, after, weights_at(x, 1.0))
        assert (found is not None) == some


def test_features_that_are_out_stay_out():
    A = form()
    A[5:, :5] = A[:5, 5:] = 0.0
    A[5:, 5:] = 2000 * np.eye(3)  # three features that have nothing to do with the others
    x = np.full(8, 0.25)
    newton = steps_of(A, 2, 1.0)
    for _ in range(8):
        after = one_pass(A, x, 2, 1.0)
        x = newton.point(x, after, weights_at(x, 1.0))
    assert np.all(x[5:] < 1e-9)
    assert x.sum() == pytest.approx(2)
    np.testing.assert_allclose(one_pass(A, x, 2, 1.0), x, atol=1e-9)
