"""The ridge bound, against enumeration and the values of an independent prototype."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subset_cases import KINDS, problem_and_value, table

from jointsparse.solvers.subset.problem import problem_of_columns
from jointsparse.solvers.subset.ridge_bound import ridge_bound, ridge_value


def test_the_value_is_that_of_a_ridge_regression():
    X = table(np.random.default_rng(0), "plain", 6)
    X /= np.linalg.norm(X, axis=0)
    problem = problem_of_columns(X)
    kept = X[:, [1, 4]]
    coefficients = np.linalg.solve(kept.T @ kept + 0.5 * np.eye(2), kept.T @ X)
    # tr(T P^α): what the fit has in common with the target.
    assert ridge_value(problem, [1, 4], 0.5) == pytest.approx(
        np.sum(X * (kept @ coefficients)) / np.sum(X**2)
    )


@given(
    seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS), power=st.floats(-3, 3),
    steps=st.integers(1, 12),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_no_set_explains_more_than_any_tangent_says(seed, kind, power, steps):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 8))
    size, penalty = int(rng.integers(1, p + 1)), 10.0**power
    problem, _ = problem_and_value(rng, kind, p)
    bound, weights = ridge_bound(problem, size, penalty, steps=steps)
    assert weights.sum() <= size + 1e-9
    for chosen in combinations(range(p), size):
        assert ridge_value(problem, chosen, penalty) <= bound


def test_with_a_large_penalty_the_bound_is_nearly_attained():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 60))
    X += rng.standard_normal((20, 60))
    X -= X.mean(axis=0)
    problem = problem_of_columns(X / X.std(axis=0))
    bound, weights = ridge_bound(problem, 6, 10.0)
    chosen = np.argsort(weights)[-6:]
    assert ridge_value(problem, chosen, 10.0) <= bound <= 1.02 * ridge_value(problem, chosen, 10.0)
