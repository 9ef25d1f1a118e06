"""Matrices that others computed: those that are scatter matrices pass, no other is certified."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from jointsparse import SPCA, SPCAPSD, GreedySelector, Moments
from jointsparse.datasets import load_pitprops
from jointsparse.numerics.semidefinite import (
    IndefiniteError,
    _at_unit_diagonal,
    check_semidefinite,
    checked_scatter,
    nearest_scatter,
)

INDEFINITE = np.array([[1.0, 5.0], [5.0, 1.0]])


def pairwise_correlations(seed=0, n=12, p=8, missing=0.4):
    """Return correlations of which each was computed from other samples."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p)) + 0.1 * rng.standard_normal(
        (n, p)
    )
    X[rng.random(X.shape) < missing] = np.nan
    R = pd.DataFrame(X).corr(min_periods=3).fillna(0.0).to_numpy(copy=True)
    np.fill_diagonal(R, 1.0)
    assert np.linalg.eigvalsh(R)[0] < -0.1
    return R


def test_an_indefinite_matrix_is_refused_with_its_smallest_eigenvalue_and_the_cure():
    with pytest.raises(ValueError, match=r"-0\.67 times the largest.*repair='nearest'") as caught:
        Moments.from_scatter(INDEFINITE, 10)
    assert caught.value.smallest == pytest.approx(-4 / 6)
    with pytest.raises(IndefiniteError, match="no negative eigenvalue"):
        Moments.from_scatter(pairwise_correlations(), 12)
    with pytest.raises(IndefiniteError, match="no negative eigenvalue"):
        Moments(10, np.zeros(2), INDEFINITE)


@pytest.mark.parametrize("scale", [1e-200, 1e-20, 1.0, 1e20, 1e200])
def test_no_unit_hides_it(scale):
    """Beside features of any size, and in any unit."""
    matrix = np.eye(4)
    matrix[:2, :2] = INDEFINITE
    factors = np.array([scale, scale, 1.0, 1.0]) ** 0.5
    with pytest.raises(IndefiniteError):
        Moments.from_scatter(matrix * factors * factors[:, None], 10)
    with pytest.raises(IndefiniteError):
        Moments.from_scatter(matrix * scale, 10)


def test_what_does_not_vary_varies_with_nothing():
    with pytest.raises(IndefiniteError):
        Moments.from_scatter([[1.0, 0.5], [0.5, 0.0]], 10)
    with pytest.raises(IndefiniteError):
        Moments.from_scatter([[1.0, 1.0], [1.0, 1e-320]], 10)
    assert Moments.from_scatter([[1.0, 1e-13], [1e-13, 0.0]], 10).scatter.tolist() == [
        [1, 0],
        [0, 0],
    ]
    assert Moments.from_scatter(np.zeros((2, 2)), 10).total_variance == 0


@pytest.mark.parametrize("p", [3, 30, 300])
@pytest.mark.parametrize("n", [4, 40, 2000])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_rounding_is_no_negative_eigenvalue(n, p, offset):
    """Covariances and correlations of fewer samples than features have many eigenvalues near 0."""
    rng = np.random.default_rng(n + p)
    X = rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-9, 9, p) * (1 + offset)
    X[:, 0] = X[:, 1] + X[:, 2]
    single = (X / X.std(axis=0)).astype(np.float32)
    single -= single.mean(axis=0)
    for S in (np.cov(X.T), np.corrcoef(X.T), pd.DataFrame(X).corr(), single.T @ single):
        assert Moments.from_scatter(S, n).repair_change == 0.0


@pytest.mark.parametrize(("n", "counted"), [(1, 1), (50, 50), (10_000, 10_000), (40_000, 10_000)])
def test_rounding_grows_with_the_roots_of_samples_and_features(n, counted):
    """Eigenvalues -e and 2 + e of a matrix in which numbers have four digits."""
    allowed = 8 * 1e-4 * (2 * counted) ** 0.5
    for share in (0.99, 1.01):
        off = 1 + share * allowed
        matrix = np.array([[1.0, off], [off, 1.0]])
        if share < 1:
            check_semidefinite(matrix, n, 1e-4)
        else:
            with pytest.raises(IndefiniteError):
                check_semidefinite(matrix, n, 1e-4)


def test_the_factorisation_has_its_own_rounding():
    eps = np.finfo(float).eps
    p = 300
    matrix = np.ones((p, p))  # one eigenvalue p, all others 0
    allowed = 8 * eps * p**0.5 + 8 * p * eps * p
    for share in (0.9, 1.1):
        scaled = (1 + share * allowed) * matrix
        np.fill_diagonal(scaled, 1.0)
        if share < 1:
            check_semidefinite(scaled, 1, eps)
        else:
            with pytest.raises(IndefiniteError):
                check_semidefinite(scaled, 1, eps)


@pytest.mark.parametrize(
    ("dtype", "limit"), [(np.float64, 1e-8), (np.float32, 8 * float(np.finfo(np.float32).eps))]
)
def test_mirrored_entries_may_differ_by_rounding(dtype, limit):
    for share in (0.9, 1.15):
        matrix = np.diag([4.0, 1.0, 4.0]).astype(dtype)
        matrix[0, 1] = share * limit * 4
        if share < 1:
            found = checked_scatter(matrix, 10).scatter
            assert found[0, 1] == found[1, 0] == pytest.approx(share * limit * 2)
        else:
            with pytest.raises(ValueError, match="two mirrored entries differ by"):
                checked_scatter(matrix, 10)


def test_what_does_not_vary_is_looked_at_in_the_largest_unit():
    found = _at_unit_diagonal(np.array([[4.0, 1.0, 3.0], [1.0, 1.0, 0.5], [3.0, 0.5, 0.0]]))
    np.testing.assert_allclose(found, [[1, 0.5, 0.75], [0.5, 1, 0.25], [0.75, 0.25, 0]])
    assert not _at_unit_diagonal(np.zeros((2, 2))).any()


def test_ones_on_the_diagonal_are_kept_also_where_they_were_rounded():
    for off, kept in ((0.9e-6, True), (1.1e-6, False)):
        matrix = INDEFINITE.copy()
        matrix[0, 0] += off
        assert np.all(np.diagonal(nearest_scatter(matrix)) == 1) == kept


@pytest.mark.parametrize("seed", range(5))
def test_three_digits_are_not_rounding(seed):
    X = np.random.default_rng(seed).standard_normal((10, 30))
    R = np.corrcoef(X.T)
    Moments.from_scatter(R, 10)
    for dtype in (np.float64, np.float32):
        with pytest.raises(IndefiniteError):
            Moments.from_scatter(R.round(3).astype(dtype), 10)
    assert 0 < Moments.from_scatter(R.round(3), 10, repair="nearest").repair_change < 2e-3


def test_the_published_pitprops_pass_as_they_are():
    correlations, names, n_samples = load_pitprops()
    moments = Moments.from_scatter(correlations, n_samples, feature_names=names)
    np.testing.assert_array_equal(moments.scatter, correlations)


def positive(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0)) @ vectors.T


def nearest_correlations_by_the_dual(matrix):
    """The minimiser of ½‖(A + diag y)₊‖² - Σy gives S = (A + diag y)₊ (Qi and Sun, 2006)."""

    def dual(y):
        S = positive(matrix + np.diag(y))
        return 0.5 * np.sum(S**2) - y.sum(), np.diagonal(S) - 1

    found = minimize(dual, np.zeros(len(matrix)), jac=True, method="BFGS", options={"gtol": 1e-9})
    bound = np.sqrt(np.sum(matrix**2) - 2 * found.fun)  # no correlation matrix is nearer than this
    return positive(matrix + np.diag(found.x)), bound


@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_correlation_matrix_is_the_nearest(seed):
    matrix = pairwise_correlations(seed)
    moments = Moments.from_scatter(matrix, 12, repair="nearest")
    expected, bound = nearest_correlations_by_the_dual(matrix)
    np.testing.assert_allclose(moments.scatter, expected, atol=1e-7)
    distance = np.linalg.norm(moments.scatter - matrix)
    assert distance <= bound * (1 + 1e-8)
    assert moments.repair_change == pytest.approx(distance / np.linalg.norm(matrix), rel=1e-9)
    assert np.linalg.eigvalsh(moments.scatter)[0] > -1e-14
    np.testing.assert_array_equal(np.diagonal(moments.scatter), 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_covariance_matrix_is_the_nearest(seed):
    """S ⪰ 0, S - A ⪰ 0 and ⟨S, S - A⟩ = 0 hold at the nearest matrix and nowhere else."""
    scales = 10.0 ** np.random.default_rng(seed).uniform(-3, 3, 8)
    matrix = pairwise_correlations(seed) * scales * scales[:, None]
    moments = Moments.from_scatter(matrix, 12, repair="nearest")
    S, size = moments.scatter, np.linalg.norm(matrix)
    assert np.linalg.eigvalsh(S)[0] > -1e-14 * size
    assert np.linalg.eigvalsh(S - matrix)[0] > -1e-14 * size
    assert abs(np.sum(S * (S - matrix))) < 1e-13 * size**2
    assert moments.repair_change == pytest.approx(np.linalg.norm(S - matrix) / size, rel=1e-9)


def test_higham_s_own_example():
    """The nearest correlation matrix of the tridiagonal one on page 334 of his paper."""
    found = nearest_scatter(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]))
    expected = [[1, 0.7607, 0.1573], [0.7607, 1, 0.7607], [0.1573, 0.7607, 1]]
    np.testing.assert_allclose(found, expected, atol=5e-5)


def test_a_good_matrix_is_not_repaired():
    S = np.cov(np.random.default_rng(0).standard_normal((9, 20)).T)
    before = S.copy()
    moments = Moments.from_scatter(S, 9, repair="nearest")
    np.testing.assert_array_equal(moments.scatter, (S + S.T) / 2)
    assert moments.repair_change == 0.0
    np.testing.assert_array_equal(S, before)
    indefinite = INDEFINITE.copy()
    Moments.from_scatter(indefinite, 9, repair="nearest")
    np.testing.assert_array_equal(indefinite, INDEFINITE)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_no_objective_of_a_matrix_that_passes_is_negative(seed):
    """Whatever random symmetric matrix: refused, or every method's answer makes sense."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 7))
    A = rng.standard_normal((p, p))
    S = A @ A.T - rng.choice([0.0, 0.01, 1.0]) * np.eye(p)
    S = (S + S.T) / 2
    indefinite = np.linalg.eigvalsh(S)[0] < -1e-9 or np.diagonal(S).min() < 0
    if indefinite:
        with pytest.raises(ValueError, match="scatter matrix has no negative"):
            Moments.from_scatter(S, 50)
        if np.diagonal(S).min() < 0:
            return
    moments = Moments.from_scatter(S, 50, repair="nearest")
    if moments.total_variance == 0:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SPCAPSD().fit_moments(moments)
        share = SPCA(n_components=1).fit_moments(moments).explained_variance_ratio_
        curve = GreedySelector(n_features_to_select=p).fit_moments(moments).selection_curve_
    assert model.objective_ >= 0
    assert 0 <= model.duality_gap_ < 1
    assert np.all((share >= 0) & (share <= 1 + 1e-12))
    assert np.all((curve >= -1e-12) & (curve <= 1 + 1e-9))


def test_sums_and_multiples_of_scatter_matrices_are_some():
    moments = Moments.from_scatter(np.corrcoef(np.random.default_rng(0).random((4, 9)).T), 4)
    for made in (moments + moments, moments.scaled(np.linspace(-2, 2, 9)), moments.standardised()):
        check_semidefinite(made.scatter, made.n_samples)
    with pytest.raises(ValueError, match="factors has a value that is missing or infinite"):
        moments.scaled(np.full(9, np.nan))
    with pytest.raises(TypeError):
        moments - moments  # what is left would not be a scatter matrix


@pytest.mark.parametrize("n_samples", [0, -3, 2.5, "ten", None])
def test_a_count_is_a_count(n_samples):
    with pytest.raises(ValueError, match=r"n_samples=.*is not a whole number of at least 1"):
        Moments.from_scatter(np.eye(2), n_samples)


def test_other_refusals():
    with pytest.raises(ValueError, match="repair='best' is neither None nor 'nearest'"):
        Moments.from_scatter(np.eye(2), 5, repair="best")
    with pytest.raises(ValueError, match="square; got 2 rows and 3 columns"):
        Moments(5, np.zeros(3), np.ones((2, 3)))
    with pytest.raises(ValueError, match="no entry that is missing or infinite"):
        Moments(5, np.zeros(2), np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match="square; got 3 rows and 1 columns"):
        Moments(5, np.zeros(3), np.ones(3))
    with pytest.raises(ValueError, match="contains NaN"):
        Moments.from_scatter(np.ma.masked_equal(np.eye(2), 0), 5)
    names = ["a", "b"]
    frame = pd.DataFrame(np.eye(2), columns=names, index=names)
    assert list(Moments.from_scatter(frame, 5).feature_names) == names
    assert list(Moments.from_scatter(frame, 5, feature_names=["x", "y"]).feature_names) == [
        "x",
        "y",
    ]
