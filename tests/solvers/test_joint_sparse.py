import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import group_lasso_optimum

from jointsparse.operators.sparse import SparseSamples
from jointsparse.solvers.components.joint import (
    FeatureLoss,
    FrobeniusLoss,
    SampleLoss,
    emptying_joint_penalty,
    solve_joint,
)
from jointsparse.solvers.components.joint_published import solve_joint_published
from jointsparse.solvers.products.gram import Gram, SampleGram
from jointsparse.solvers.samples.passed import PassedSampleLoss
from jointsparse.solvers.samples.sparse import SparseSampleLoss
from jointsparse.solvers.samples.weighted_pass import RowPasses

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


def sample_losses(X):
    """The loss over samples in every form: p × p sums, samples, another unit, sparse, passes."""

    class Passed(RowPasses):
        n_samples = len(X)

    raw = X + 0.01 * np.arange(X.shape[1])
    yield SampleLoss(X, wide=False)
    yield SampleLoss(X, wide=True)
    yield SampleLoss(8 * X, wide=False, shrink=1 / 8)
    yield SampleLoss(8 * X, wide=True, shrink=1 / 8)
    yield SparseSampleLoss(SampleGram(SparseSamples(sp.csr_array(8 * raw), 8 * raw.mean(axis=0))))
    yield PassedSampleLoss(Passed(X))


def test_every_form_of_the_loss_over_samples_agrees():
    X = data(3, 9, 14)
    rng = np.random.default_rng(0)
    Q, P = rng.standard_normal((14, 2)) / 5, np.linalg.qr(rng.standard_normal((14, 2)))[0]
    for loss in sample_losses(X):
        assert (loss.descends, loss.power, loss.unit, loss.scale) == (True, 0.5, 0.5, 1.0)
        for residuals in (X, X - X @ Q @ P.T):
            norms = np.linalg.norm(residuals, axis=1)
            S = X.T @ (0.5 / norms[:, None] * X)
            assert loss.trace == pytest.approx(np.trace(S), rel=1e-6)
            np.testing.assert_allclose(loss.gram.apply(np.eye(14)), S / np.trace(S), atol=1e-6)
            first = loss.start(1)[:, 0]
            assert first @ S @ first == pytest.approx(np.linalg.eigvalsh(S)[-1], rel=1e-6)
            value = loss.reweigh(Q, P, loss.gram.apply(Q))
            missed = np.linalg.norm(X - X @ Q @ P.T, axis=1).sum()
            assert value == pytest.approx(missed, rel=1e-6)


def test_other_losses_are_what_they_say():
    X = data(4)
    rng = np.random.default_rng(1)
    Q, P = rng.standard_normal((12, 2)) / 5, np.linalg.qr(rng.standard_normal((12, 2)))[0]
    for gram in (Gram(X.T @ X), SampleGram(X)):
        frobenius = FrobeniusLoss(gram)
        value = frobenius.reweigh(Q, P, gram.apply(Q))
        assert value == pytest.approx(np.sum((X - X @ Q @ P.T) ** 2))
        features = FeatureLoss(gram)
        lengths = np.linalg.norm(X, axis=0)
        np.testing.assert_allclose(features.scale[:, 0], np.sqrt(0.5 / lengths), rtol=1e-6)
        scaled = X * features.scale[:, 0]
        first = features.start(1)[:, 0]
        assert np.linalg.norm(scaled @ first) == pytest.approx(np.linalg.norm(scaled, 2))
        value = features.reweigh(Q, features.scale * P, gram.apply(Q))
        assert value == pytest.approx(np.linalg.norm(X - X @ Q @ P.T, axis=0).sum(), rel=1e-6)
        assert not features.descends


def test_the_published_objective_is_that_of_its_result():
    X = 3 * data(5)
    found = solve_joint_published(Gram(X.T @ X), 2, 0.4, tol=0.0, max_iter=7)
    Q, P = found.loadings, found.state
    value = np.linalg.norm(X - X @ Q @ P.T, axis=0).sum() + 0.4 * np.linalg.norm(Q, axis=1).sum()
    assert found.objective == found.history[-1] == pytest.approx(value, rel=1e-6)
    assert found.n_iter == 7
    empty = solve_joint_published(Gram(X.T @ X), 2, 1e9, tol=1e-8, max_iter=50)
    assert np.abs(empty.loadings).max() < 1e-3
