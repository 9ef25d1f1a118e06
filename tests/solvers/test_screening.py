import numpy as np
import pytest

from jointsparse.linalg import Spectrum
from jointsparse.solvers.convex.model import factor_scores, largest_lam
from jointsparse.solvers.convex.screening import (
    _leading_root,
    excess_form,
    gap_safe_screen,
    quadratic_forms,
    static_screen,
    static_screen_scatter,
)
from jointsparse.solvers.convex.splitting import solve_splitting


def wide_problem(seed, most_features=60):
    """Random X with features of very different size, and penalties over several decades."""
    rng = np.random.default_rng(seed)
    n, p, k = rng.integers(4, 12), rng.integers(13, most_features), rng.integers(1, 6)
    X = rng.standard_normal((n, k)) @ rng.standard_normal((k, p)) * rng.choice([0.3, 1, 3])
    X = (X + rng.standard_normal((n, p))) * 10 ** rng.uniform(-1, 0.3, p)
    X -= X.mean(axis=0)
    eta = 2 * np.linalg.norm(X, 2) ** 2 * 10 ** rng.uniform(-3, -0.2)
    lam = largest_lam(Spectrum.of(X.T @ X), eta) * 10 ** rng.uniform(-2, 0)
    return X, lam, eta


def check_safety(seed):
    X, lam, eta = wide_problem(seed)
    optimum = solve_splitting(Spectrum.of(X.T @ X), lam, eta, tol=1e-9, max_iter=3000)
    assert optimum.gap < 1e-7
    clearly_nonzero = factor_scores(optimum.loadings) > 1e-5
    static = static_screen(X, lam, eta)
    assert not np.any(static & clearly_nonzero)
    rough = solve_splitting(Spectrum.of(X.T @ X), lam, eta, tol=1e-3)
    safe = gap_safe_screen(X, rough.loadings, rough.gap * rough.objective, lam, eta)
    assert not np.any(safe & clearly_nonzero)
    assert not np.any(safe & np.any(rough.loadings != 0, axis=1))
    return int(static.sum()), int(safe.sum()), int((~clearly_nonzero).sum())


def check_many(seeds):
    found = np.sum([check_safety(seed) for seed in seeds], axis=0)
    assert found[0] > 0.3 * found[2]  # safe, but not by proving nothing
    assert found[1] > 0.3 * found[2]


def test_no_feature_of_an_optimum_is_proved_zero():
    check_many(range(20))


@pytest.mark.slow
def test_no_feature_of_many_optima_is_proved_zero():
    check_many(range(1000, 1150))


def test_static_screen_is_self_consistent():
    """Every feature of K passes the test of this K, written out with p × p matrices."""
    for seed in range(10):
        X, lam, eta = wide_problem(seed)
        K = static_screen(X, lam, eta)
        S = X.T @ X
        values, vectors = np.linalg.eigh(2 * S[np.ix_(K, K)])
        excess = (vectors * np.clip(values - eta, 0, None)) @ vectors.T
        tested = 16 * np.sum(S[np.ix_(~K, K)] ** 2, axis=0) + np.sum(excess**2, axis=0)
        assert np.all(tested < lam**2)


def test_gap_safe_screen_is_self_consistent():
    proved = 0
    for seed in range(10):
        X, lam, eta = wide_problem(seed)
        U = solve_splitting(Spectrum.of(X.T @ X), lam, eta, tol=1e-4).loadings
        gap = 1e-5 * np.sum(X**2)
        K = gap_safe_screen(X, U, gap, lam, eta)
        S = X.T @ X
        values, vectors = np.linalg.eigh(2 * S[np.ix_(K, K)])
        excess = (vectors * np.clip(values - eta, 0, None)) @ vectors.T
        cross = np.linalg.norm((2 * S - U @ (U.T @ S))[np.ix_(~K, K)], axis=0)
        lengths = np.linalg.norm(X[:, K], axis=0)
        tested = 4 * (cross + np.sqrt(gap) * lengths) ** 2 + np.sum(excess**2, axis=0)
        assert np.all(tested < lam**2)
        proved += K.sum()
    assert proved > 0


def screened_by_hand(S, candidates, omega, gap, lam, eta):
    """The search of the module's text with p × p matrices: failing features leave, all at once."""
    K = candidates.copy()
    lengths = np.sqrt(np.diag(S))
    while K.any():
        values, vectors = np.linalg.eigh(2 * S[np.ix_(K, K)])
        excess = (vectors * np.clip(values - eta, 0, None)) @ vectors.T
        cross = np.linalg.norm((2 * S - omega @ S)[np.ix_(~K, K)], axis=0)
        tested = 4 * (cross + np.sqrt(gap) * lengths[K]) ** 2 + np.sum(excess**2, axis=0)
        failing = tested >= lam**2
        if not failing.any():
            break
        K[np.flatnonzero(K)[failing]] = False
    return K


@pytest.mark.parametrize("seed", range(8))
def test_as_much_is_proved_as_by_hand(seed):
    # What the test adds for rounding and for directions left out is at most 1 % of λ².
    X, lam, eta = wide_problem(seed)
    S = X.T @ X
    U = solve_splitting(Spectrum.of(S), lam, eta, tol=1e-4).loadings
    gap = 1e-6 * np.sum(X**2)
    unused = ~np.any(U != 0, axis=1)
    found = gap_safe_screen(X, U, gap, lam, eta)
    assert not np.any(found & ~screened_by_hand(S, unused, U @ U.T, gap, lam, eta))
    surely = screened_by_hand(S, unused, U @ U.T, gap, np.sqrt(0.97) * lam, eta)
    assert not np.any(surely & ~found)
    nothing = np.zeros_like(S)
    anyone = np.ones(len(S), dtype=bool)
    # without a solution: ‖[(2I - Ω')S]_Rj‖ ≤ 2‖S_Rj‖ is all that is known
    for screen in (static_screen(X, lam, eta), static_screen_scatter(S, lam, eta)):
        assert not np.any(screen & ~screened_by_hand(S, anyone, nothing, 0.0, lam, eta))
    surely = screened_by_hand(S, anyone, nothing, 0.0, np.sqrt(0.97) * lam, eta)
    assert not np.any(surely & ~static_screen(X, lam, eta))
    part = np.arange(len(S)) % 2 == 0
    assert not np.any(static_screen(X, lam, eta, candidates=part) & ~part)


def test_quadratic_forms_of_features():
    X, _, eta = wide_problem(1)
    form = excess_form(X @ X.T, eta)
    values, vectors = np.linalg.eigh(2 * X.T @ X)
    excess = (vectors * np.clip(values - eta, 0, None)) @ vectors.T
    expected = np.sum(excess**2, axis=0)
    np.testing.assert_allclose(np.einsum("ij,ik,kj->j", X, form, X), expected, atol=1e-8)
    np.testing.assert_allclose(quadratic_forms(X, form), expected, rtol=1e-6, atol=1e-8)


def test_only_the_scatter_matrix_matters():
    X, lam, eta = wide_problem(3)
    values, vectors = np.linalg.eigh(X.T @ X)
    root = np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T
    np.testing.assert_array_equal(static_screen(X, lam, eta), static_screen(root, lam, eta))


def test_limits():
    X, _, eta = wide_problem(5)
    lam = largest_lam(Spectrum.of(X.T @ X), eta)
    assert static_screen(X, 1.001 * lam, eta).all()
    assert not static_screen(X, 1e-6 * lam, eta).any()
    everything = np.eye(X.shape[1])
    assert not gap_safe_screen(X, everything, 0.0, lam, eta).any()
    nothing = np.zeros((X.shape[1], 0))
    assert gap_safe_screen(X, nothing, 0.0, 1.001 * lam, eta).all()
    assert static_screen(X.astype(np.float32), 1.001 * lam, eta).all()


@pytest.mark.slow
def test_few_features_of_tox171_are_left(benchmark_data):
    X = benchmark_data("tox171")
    X = X - X.mean(axis=0)
    lam, eta = relative_penalties(X, 0.2, 0.1)
    assert np.sum(~static_screen(X, lam, eta)) < 200


def relative_penalties(X, alpha, eta):
    """λ and η from shares of the values that empty the model, without a p × p matrix."""
    s, Q = np.linalg.eigh(X @ X.T)
    eta = eta * 2 * s[-1]
    above = 2 * s > eta
    columns = (X.T @ Q[:, above]) / np.sqrt(s[above]) * (2 * s[above] - eta)
    return alpha * np.linalg.norm(columns, axis=1).max(), eta


@pytest.mark.parametrize("level", [0.0, 0.5, 2.5, 100.0])
def test_a_leading_root_and_a_multiple_of_the_identity_are_above_the_form(level):
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
    values = np.array([-1e-15, 0.3, 1.0, 2.0, 9.0])
    form = (rotation * values) @ rotation.T
    tail, root = _leading_root(form, level)
    assert 0 <= tail <= level
    assert root.shape[1] == np.sum(values >= level)
    above = root @ root.T + tail * np.eye(5) - form
    assert np.linalg.eigvalsh(above)[0] >= -1e-12
    # and no further above than the tail
    assert np.linalg.eigvalsh(above)[-1] <= tail + 1e-12
