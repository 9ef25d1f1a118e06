import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import group_lasso_optimum

from jointsparse.solvers.gram import Gram, SampleGram
from jointsparse.solvers.joint_published import solve_joint_published
from jointsparse.solvers.joint_sparse import (
    FeatureLoss,
    FrobeniusLoss,
    SampleLoss,
    emptying_joint_penalty,
    solve_joint,
)

LOSSES = ("samples", "features", "frobenius")


def data(seed, n=30, p=12):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p)) + rng.standard_normal((n, p))
    X -= X.mean(axis=0)
    return X / np.linalg.norm(X)


def make(loss, X, *, wide):
    if loss == "samples":
        return SampleLoss(X, wide=wide)
    gram = SampleGram(X) if wide else Gram(X.T @ X)
    return FrobeniusLoss(gram) if loss == "frobenius" else FeatureLoss(gram)


def solve(loss, X, share, *, wide=False, k=2, tol=1e-8, max_iter=2000):
    model = make(loss, X, wide=wide)
    start = model.start(k)
    lam = share * emptying_joint_penalty(model, start)
    return solve_joint(model, start, lam, tol=tol, max_iter=max_iter), lam


@pytest.mark.parametrize("loss", ["samples", "frobenius"])
@given(
    seed=st.integers(0, 10_000),
    share=st.sampled_from([0.0, 1e-9, 1e-3, 0.03, 0.2, 0.8]),
    n=st.integers(4, 30),
    p=st.integers(2, 20),
    k=st.integers(1, 3),
)
@settings(max_examples=30, deadline=None)
def test_the_objective_never_rises(loss, seed, share, n, p, k):
    solution, _ = solve(loss, data(seed, n, p), share, wide=p > n, k=min(k, p, n - 1), max_iter=60)
    # Beside the loss of the empty model, which is at most the root of n here: a model that fits
    # all samples exactly has nothing but rounding left.
    assert np.all(np.diff(solution.history) <= 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", [(30, 12), (15, 40)])
def test_both_spaces_agree(loss, shape):
    X = data(1, *shape)
    dense, lam = solve(loss, X, 0.2, wide=False, tol=1e-12)
    wide, same = solve(loss, X, 0.2, wide=True, tol=1e-12)
    assert lam == pytest.approx(same, rel=1e-10)
    # Signs of the starting components are free.
    sign = np.sign(np.sum(dense.loadings * wide.loadings, axis=0))
    np.testing.assert_allclose(wide.loadings * sign, dense.loadings, atol=1e-10)
    assert wide.objective == pytest.approx(dense.objective, rel=1e-10)


def test_both_spaces_agree_as_published():
    X = data(2, 15, 40)
    dense = solve_joint_published(Gram(X.T @ X), 3, 0.05, tol=0.0, max_iter=30)
    wide = solve_joint_published(SampleGram(X), 3, 0.05, tol=0.0, max_iter=30)
    sign = np.sign(np.sum(dense.loadings * wide.loadings, axis=0))
    np.testing.assert_allclose(wide.loadings * sign, dense.loadings, atol=1e-10)
    assert len(dense.history) == 30


@pytest.mark.parametrize("loss", ["samples", "frobenius"])
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_the_projection_is_the_group_lasso_of_its_recovery(loss, share):
    X = data(3)
    solution, lam = solve(loss, X, share, tol=1e-10, max_iter=5000)
    Q, P = solution.loadings, solution.state
    weights = np.ones(len(X))
    if loss == "samples":
        weights = 0.5 / np.linalg.norm(X - X @ Q @ P.T, axis=1)
    roots = np.sqrt(weights)[:, None]
    _, best = group_lasso_optimum(roots * X, roots * X @ P, lam)
    np.testing.assert_allclose(Q, best, atol=1e-6)
    norms = np.linalg.norm(best, axis=1)
    np.testing.assert_array_equal(Q.any(axis=1), norms > 1e-5 * norms.max())
    # And the recovery is the best for the projection: M = PᵀSQ is symmetric and positive.
    inner = P.T @ (roots * X).T @ (roots * X) @ Q
    np.testing.assert_allclose(inner, inner.T, atol=1e-8)
    assert np.linalg.eigvalsh((inner + inner.T) / 2).min() > -1e-12
    np.testing.assert_allclose(P.T @ P, np.eye(2), atol=1e-12)


def test_the_value_is_the_loss_as_written():
    X = data(4)
    for loss in LOSSES:
        solution, lam = solve(loss, X, 0.2)
        residual = X - X @ solution.loadings @ solution.state.T
        value = {
            "samples": np.linalg.norm(residual, axis=1).sum(),
            "features": np.linalg.norm(residual, axis=0).sum(),
            "frobenius": np.sum(residual**2),
        }[loss]
        value += lam * np.linalg.norm(solution.loadings, axis=1).sum()
        assert solution.objective == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_emptying_penalty_is_sharp_at_the_start(loss):
    X = data(5)
    assert not solve(loss, X, 1.0 + 1e-9, max_iter=1)[0].loadings.any()
    assert solve(loss, X, 0.99, max_iter=3)[0].loadings.any()


def test_features_of_the_published_form_keep_its_constraint():
    X = data(6)
    gram = Gram(X.T @ X)
    before = solve_joint_published(gram, 2, 0.05, tol=0.0, max_iter=9)
    after = solve_joint_published(gram, 2, 0.05, tol=0.0, max_iter=10)
    residual = np.linalg.norm(X - X @ before.loadings @ before.state.T, axis=0)
    P = after.state
    np.testing.assert_allclose(P.T @ (P / (2 * residual)[:, None]), np.eye(2), atol=1e-6)
