import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from jointsparse.solvers.nested_regression import explained_along


@given(st.integers(0, 1000))
def test_equals_regression_from_scratch(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 4)) @ rng.standard_normal((4, 8)) + 0.1 * rng.standard_normal(
        (30, 8)
    )
    X -= X.mean(axis=0)
    order = rng.permutation(8)
    S = X.T @ X
    curve = explained_along(lambda j: S[j], np.diagonal(S), order)
    for h in range(1, len(curve) + 1):
        kept = X[:, order[:h]]
        rest = X - LinearRegression(fit_intercept=False).fit(kept, X).predict(kept)
        np.testing.assert_allclose(curve[h - 1], 1 - (rest**2).sum() / (X**2).sum(), atol=1e-9)


def test_stops_at_the_target_and_ignores_copies():
    S = np.ones((3, 3)) * 2.0
    S[2] = S[:, 2] = 0
    S[2, 2] = 1.0
    np.testing.assert_allclose(
        explained_along(lambda j: S[j], np.diagonal(S), [0, 1, 2]), [0.8, 0.8, 1.0]
    )
    np.testing.assert_allclose(
        explained_along(lambda j: S[j], np.diagonal(S), [0, 1, 2], target=0.5), [0.8]
    )
