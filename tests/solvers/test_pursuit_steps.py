import numpy as np
import pytest

from jointsparse.numerics.projections import shrink_singular_values
from jointsparse.solvers import pursuit, pursuit_steps
from jointsparse.solvers.convex import acceleration
from jointsparse.solvers.pursuit_steps import Steps, StepsInParts


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Parts of 100 entries, which two threads share."""
    monkeypatch.setattr(pursuit_steps, "LONG_PART", 100)
    monkeypatch.setattr(pursuit_steps, "threads", lambda: 2)


def table(n=30, p=20):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, p))
    X += 0.1 * rng.standard_normal((n, p))
    return X / np.abs(X).max()


def advanced(iterate, n, threshold=2.0):
    for _ in range(n):
        L = shrink_singular_values(iterate.point().copy(), threshold)
        iterate.advance(L, np.eye(L.shape[1]))
    return [np.asarray(part) for part in iterate.parts()]


@pytest.mark.parametrize("memory", [0, 1, 4])
def test_steps_in_parts_are_those_of_whole_arrays(memory):
    X = table()
    whole, in_parts = Steps(X, 0.05, memory), StepsInParts(X, 0.05, memory)
    for n, factor in ((1, 1.0), (12, 2.0), (9, 0.5), (3, 1.0)):
        for found, expected in zip(advanced(in_parts, n), advanced(whole, n), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)
        for iterate in (whole, in_parts):
            iterate.change(factor)
        assert in_parts.bound == whole.bound
    U, E = in_parts.parts()
    assert 0 < np.count_nonzero(E) < E.size
    assert np.all((E == 0) | (np.abs(U) == in_parts.bound))


def test_a_change_of_the_bound_keeps_the_errors():
    iterate = StepsInParts(table(), 0.05, 4)
    U, E = advanced(iterate, 5)
    iterate.change(4.0)
    after_U, after_E = iterate.parts()
    np.testing.assert_allclose(after_U, U / 4, rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(after_E, E, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["GROWTH_ALLOWED", "LONGEST_STEP"])
def test_safeguards_are_those_of_whole_arrays(monkeypatch, name):
    """Where no growth, or no long step, is allowed, steps are taken back, and the same ones."""
    X = table()
    free = advanced(StepsInParts(X, 0.05, 4), 15)[0]
    for module in (acceleration, pursuit_steps):
        monkeypatch.setattr(module, name, {"GROWTH_ALLOWED": 0.5, "LONGEST_STEP": 0.2}[name])
    found = advanced(StepsInParts(X, 0.05, 4), 15)[0]
    np.testing.assert_allclose(found, advanced(Steps(X, 0.05, 4), 15)[0], rtol=0, atol=1e-7)
    assert np.abs(found - free).max() > 1e-6


def test_steps_that_are_all_alike_are_not_followed_out_of_all_proportion():
    iterate = StepsInParts(np.ones((4, 3)), 1e9, 4)
    for _ in range(6):  # f = 1.6 (1 - 0) every time: T = U
        iterate.point()
        iterate.advance(np.zeros((4, 1)), np.zeros((3, 1)))
    assert np.abs(iterate.T).max() < 100


def test_the_step_leaps_once_the_noise_holds_still_and_is_doubled_afterwards():
    aim = pursuit._Aim(100)
    factors = [aim.factor(1e-3, noise) for noise in (1.0, 0.1, 0.09, 0.09, 0.06, 0.05)]
    assert factors == [2.0, 1.0, 16.0, 2.0, 1.0, 2.0]
    near = pursuit._Aim(100)
    near.factor(0.02, 1.0)
    assert near.factor(0.02, 1.0) == pytest.approx(2.5)  # to the aim, and no further
    assert pursuit._Aim(10_000).factor(0.03, 1.0) == 0.5
    assert pursuit._Aim(100).factor(0.03, 1.0) == 1.0
