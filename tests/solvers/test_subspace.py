import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import frobenius_optimum, group_lasso_optimum, smallest_coefficients
from sklearn.linear_model import Lasso, MultiTaskLasso

from jointsparse.solvers.products.gram import Gram, SampleGram
from jointsparse.solvers.regression.subspace import (
    SubspaceProblem,
    emptying,
    penalised_gap,
    solve_subspace,
)
from jointsparse.solvers.regression.subspace_equality import solve_equality
from jointsparse.solvers.regression.subspace_norms import NORMS, norm_of
from jointsparse.solvers.regression.subspace_reweighted import _pass, solve_subspace_reweighted

WIDE = {"n": 12, "p": 40}
TALL = {"n": 40, "p": 10}


def problem(seed, n=12, p=40, k=3):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, k))
    X -= X.mean(axis=0)
    X /= np.linalg.norm(X)
    Y -= Y.mean(axis=0)
    Y /= np.linalg.norm(Y)
    gram = SampleGram(X) if p > n else Gram(X.T @ X)
    return X, Y, SubspaceProblem(gram, X.T @ Y, Y)


def objective(X, Y, A, lam, norm):
    return np.sum((Y - X @ A) ** 2) + lam * norm_of(A, norm)


@pytest.mark.parametrize("shape", [WIDE, TALL])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
def test_l21_is_the_multi_task_lasso(shape, share):
    X, Y, subspace = problem(1, **shape)
    lam = share * emptying(subspace, "l21")
    fit = solve_subspace(subspace, lam, "l21")
    best, _ = group_lasso_optimum(X, Y, lam)
    # α = 1/(2nμ), μ = 1/λ.
    rival = MultiTaskLasso(lam / 2 / len(X), fit_intercept=False, tol=1e-13, max_iter=200_000)
    A = rival.fit(X, Y).coef_.T
    assert fit.objective == pytest.approx(best, rel=1e-7)
    assert fit.objective == pytest.approx(objective(X, Y, fit.loadings, lam, "l21"), rel=1e-9)
    assert fit.gap <= 1e-6
    np.testing.assert_allclose(fit.loadings, A, atol=1e-6 * np.abs(A).max())
    np.testing.assert_array_equal(fit.loadings.any(axis=1), A.any(axis=1))


@pytest.mark.parametrize("shape", [WIDE, TALL])
def test_l11_is_a_lasso_for_each_target(shape):
    X, Y, subspace = problem(2, **shape)
    lam = 0.1 * emptying(subspace, "l11")
    fit = solve_subspace(subspace, lam, "l11")
    rival = Lasso(lam / 2 / len(X), fit_intercept=False, tol=1e-14, max_iter=500_000)
    A = np.column_stack([rival.fit(X, column).coef_ for column in Y.T])
    assert fit.gap <= 1e-6
    np.testing.assert_allclose(fit.loadings, A, atol=1e-6 * np.abs(A).max())
    np.testing.assert_array_equal(fit.loadings != 0, A != 0)


@pytest.mark.parametrize("shape", [WIDE, TALL])
@pytest.mark.parametrize("share", [0.7, 0.05])
def test_fro_is_not_squared(shape, share):
    X, Y, subspace = problem(3, **shape)
    lam = share * emptying(subspace, "fro")
    fit = solve_subspace(subspace, lam, "fro")
    best, A = frobenius_optimum(X, Y, lam)
    assert fit.objective == pytest.approx(best, rel=1e-7)
    assert fit.gap <= 1e-9
    np.testing.assert_allclose(fit.loadings, A, atol=1e-4 * np.abs(A).max())


@pytest.mark.parametrize("norm", NORMS)
def test_just_above_the_emptying_penalty_nothing_is_left(norm):
    _, _, subspace = problem(4)
    largest = emptying(subspace, norm)
    assert not solve_subspace(subspace, 1.0001 * largest, norm).loadings.any()
    assert solve_subspace(subspace, 0.999 * largest, norm).loadings.any()


@given(seed=st.integers(0, 10_000), share=st.floats(1e-3, 0.99), norm=st.sampled_from(NORMS))
@settings(max_examples=20, deadline=None)
def test_the_gap_is_small_and_true(seed, share, norm):
    X, Y, subspace = problem(seed, n=8, p=9, k=2)
    lam = share * emptying(subspace, norm)
    fit = solve_subspace(subspace, lam, norm)
    assert fit.gap <= 1e-6
    rival = solve_subspace_reweighted(subspace, lam, norm, tol=1e-7, max_iter=500)
    value = objective(X, Y, rival.loadings, lam, norm)
    assert rival.objective == pytest.approx(value, rel=1e-9)
    # No point is below the optimum by more than the gap allows.
    assert value >= fit.objective * (1 - fit.gap) * (1 - 1e-12)


@pytest.mark.parametrize("norm", ["l21", "l11"])
@pytest.mark.parametrize("shape", [WIDE, {"n": 6, "p": 60, "k": 2}, {"n": 15, "p": 18, "k": 1}])
def test_equality_has_the_optimum_of_cvxpy_and_its_zeros(norm, shape):
    X, Y, subspace = problem(5, **shape)
    fit = solve_equality(subspace, norm, tol=1e-8)
    best, A = smallest_coefficients(X, Y, norm)
    assert fit.converged
    assert fit.gap <= 1e-8
    assert fit.objective == pytest.approx(best, rel=1e-7)
    np.testing.assert_allclose(X @ fit.loadings, Y, atol=1e-12)
    small = 1e-5 * np.abs(A).max()
    np.testing.assert_array_equal(np.abs(fit.loadings) > small, np.abs(A) > small)
    assert np.count_nonzero(fit.loadings.any(axis=1)) < X.shape[1]


def test_the_limit_of_large_mu_is_equality():
    _, _, subspace = problem(6)
    lam = 1e-6 * emptying(subspace, "l21")
    penalised = solve_subspace(subspace, lam, "l21").loadings
    exact = solve_equality(subspace, "l21", tol=1e-9).loadings
    np.testing.assert_allclose(penalised, exact, atol=1e-4 * np.abs(exact).max())


def test_equality_of_smallest_frobenius_norm_is_the_pseudo_inverse():
    X, Y, subspace = problem(7)
    expected = np.linalg.pinv(X) @ Y
    np.testing.assert_allclose(solve_equality(subspace, "fro").loadings, expected, atol=1e-10)


def test_equality_without_solution_is_least_squares():
    X, Y, subspace = problem(8, **TALL)
    expected = np.linalg.lstsq(X, Y, rcond=None)[0]
    np.testing.assert_allclose(solve_equality(subspace, "l21").loadings, expected, atol=1e-10)
    missed = np.linalg.norm(Y - X @ expected)
    assert subspace.missed == pytest.approx(missed, rel=1e-10)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", [WIDE, TALL])
def test_reweighting_falls_to_the_exact_solution(norm, shape):
    _, _, subspace = problem(9, **shape)
    lam = 0.1 * emptying(subspace, norm)
    exact = solve_subspace(subspace, lam, norm)
    source = solve_subspace_reweighted(subspace, lam, norm, tol=1e-9, max_iter=5000)
    assert np.all(np.diff(source.history) <= 1e-12)
    assert source.objective == pytest.approx(exact.objective, rel=1e-6)
    largest = np.abs(exact.loadings).max()
    np.testing.assert_allclose(source.loadings, exact.loadings, atol=1e-3 * largest)


@pytest.mark.parametrize("norm", NORMS)
def test_reweighting_falls_to_the_exact_solution_of_the_constraint(norm):
    X, Y, subspace = problem(10)
    exact = solve_equality(subspace, norm, tol=1e-9)
    source = solve_subspace_reweighted(subspace, None, norm, tol=1e-9, max_iter=5000)
    assert np.all(np.diff(source.history) <= 1e-9)
    assert source.objective == pytest.approx(exact.objective, rel=1e-5)
    np.testing.assert_allclose(X @ source.loadings, Y, atol=1e-7)


def test_equation_17_of_the_source_needs_half_of_its_constant():
    X, Y, subspace = problem(11)
    lam = 0.1 * emptying(subspace, "l21")
    optimum = solve_subspace(subspace, lam, "l21").objective

    def fixed_point(constant):
        lengths = np.ones((X.shape[1], 1))
        for _ in range(1000):
            A = _pass(X, Y, lengths, 2 * constant)  # it adds half of its last argument
            lengths = np.linalg.norm(A, axis=1, keepdims=True)
        return objective(X, Y, A, lam, "l21")

    assert fixed_point(lam / 2) == pytest.approx(optimum, rel=1e-6)
    assert fixed_point(lam) > 1.02 * optimum


def test_equal_features_have_equal_rows():
    rng = np.random.default_rng(12)
    X = rng.standard_normal((10, 20))
    X = np.column_stack([X, X[:, :3]])
    X -= X.mean(axis=0)
    X /= np.linalg.norm(X)
    Y = rng.standard_normal((10, 2))
    Y -= Y.mean(axis=0)
    Y /= np.linalg.norm(Y)
    subspace = SubspaceProblem(SampleGram(X), X.T @ Y, Y)
    for norm in NORMS:
        lam = 0.05 * emptying(subspace, norm)
        for fit in (solve_subspace(subspace, lam, norm), solve_equality(subspace, norm)):
            assert fit.gap <= 1e-6
            np.testing.assert_allclose(fit.loadings[:3], fit.loadings[20:], atol=1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_objectives_of_good_fits_keep_their_digits(norm):
    # Where X fits Y exactly, the loss is lost in the difference of numbers near 1.
    X, Y, subspace = problem(4)
    A = np.linalg.lstsq(X, Y, rcond=None)[0]
    lam = 1e-13
    value, gap = penalised_gap(subspace, A, lam, norm)
    assert value == pytest.approx(lam * norm_of(A, norm), rel=1e-9)
    assert 0 <= gap <= 1
    other, _ = penalised_gap(SubspaceProblem(Gram(X.T @ X), X.T @ Y, None), A / 2, 0.1, norm)
    assert other == pytest.approx(objective(X, Y, A / 2, 0.1, norm), rel=1e-10)


@pytest.mark.parametrize("limit", [1, 3])
def test_the_iteration_limit_is_kept(limit):
    _, _, subspace = problem(5)
    found = solve_equality(subspace, "l21", tol=1e-15, max_iter=limit)
    assert found.n_iter == limit
    assert not found.converged
    assert 0 < found.gap < 1


def test_targets_that_nothing_explains_end_reweighting_at_once():
    _, _, subspace = problem(6)
    none = SubspaceProblem(subspace.gram, np.zeros((40, 3)), np.zeros((12, 3)))
    for penalty in (None, 0.1):
        found = solve_subspace_reweighted(none, penalty, "l21", tol=1e-8, max_iter=50)
        assert found.converged
        assert found.n_iter == 1
        assert not found.loadings.any()
