import numpy as np
import pytest

from jointsparse.solvers.products.gram import Gram, SampleGram
from jointsparse.solvers.regression.group_curvature import (
    DenseCurvature,
    SampleCurvature,
    curvature_of,
)


def two_ways(n=8, p=30, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, p))
    X -= X.mean(axis=0)
    through = curvature_of(SampleGram(X), np.arange(p))
    dense = curvature_of(Gram(X.T @ X), np.arange(p))
    assert isinstance(through, SampleCurvature)
    assert isinstance(dense, DenseCurvature)
    return through, dense, X.T @ X / np.sum(X**2)


def test_products_through_the_samples_are_those_of_the_matrix():
    A = np.random.default_rng(1).standard_normal((30, 3))
    for curvature in two_ways()[:2]:
        S = two_ways()[2]
        np.testing.assert_allclose(curvature.times(A), S @ A, atol=1e-13)
        np.testing.assert_allclose(curvature.diagonal, np.diagonal(S), atol=1e-15)
        assert curvature.energy(A) == pytest.approx(np.sum(A * (S @ A)))
        assert curvature.bound == pytest.approx(np.linalg.norm(S))
        used = np.arange(30) % 4 > 0
        few = curvature.only(used)
        np.testing.assert_allclose(few.times(A[used]), S[np.ix_(used, used)] @ A[used], atol=1e-13)


@pytest.mark.parametrize("smallest", [1e-2, 1e-6, 1e-12])  # the last goes the explicit way
def test_shifted_inverse_is_that_of_numpy(smallest):
    rng = np.random.default_rng(2)
    heights = np.geomspace(smallest, 1.0, 30)
    units = rng.standard_normal((30, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    right = rng.standard_normal((30, 3))
    for curvature in two_ways()[:2]:
        M = two_ways()[2] + np.diag(heights)
        inverse = curvature.shifted_inverse(heights)
        solved = inverse.times(right)
        accuracy = 1e-13 / smallest  # M is as ill-conditioned as that
        np.testing.assert_allclose(M @ solved, right, atol=max(accuracy, 1e-12))
        bent = np.diag(1 / heights) - np.linalg.inv(M) * (units @ units.T)
        np.testing.assert_allclose(inverse.bent(units), bent, atol=accuracy / smallest, rtol=1e-6)


def test_few_of_many_features_become_a_matrix():
    through = two_ways()[0]
    assert isinstance(through.only(np.arange(30) < 6), DenseCurvature)
