"""AW-SPCA-PSD, and CSPCA-PSD without a rank penalty, by weights of samples and features."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import sample_loss_optimum

from jointsparse.linalg import Spectrum
from jointsparse.solvers.convex.model import largest_lam
from jointsparse.solvers.samples import both_weights, exact
from jointsparse.solvers.samples.both_weights import shortest_pull, solve_both_weights
from jointsparse.solvers.samples.cone import solve_samples
from jointsparse.solvers.samples.exact import solve_samples_on_cone
from jointsparse.solvers.samples.model import emptying_data


def sample(seed, n, p):
    rng = np.random.default_rng(seed)
    X = 0.3 * rng.standard_normal((n, p))
    X += rng.standard_normal((n, 2)) @ rng.standard_normal((2, p))
    return X - X.mean(axis=0)


def penalty(X, share, free_mean):
    slope = emptying_data(X, free_mean=free_mean)
    return share * largest_lam(Spectrum.of(slope.T @ slope), 0.0, 1.0)


def objective(X, solution, lam):
    omega = solution.loadings @ solution.loadings.T
    offset = 0.0 if solution.state.offset is None else solution.state.offset
    value = np.linalg.norm(X - X @ omega - offset, axis=1).sum()
    return value + lam * np.linalg.norm(omega, axis=0).sum()


def model_of(X, lam, free_mean):
    scale = float(np.linalg.norm(X, axis=1).sum())
    return both_weights._Model(X, lam, scale, free_mean=free_mean), scale


@pytest.mark.parametrize("free_mean", [False, True], ids=["cspca-psd", "aw-spca-psd"])
@pytest.mark.parametrize(("n", "p"), [(15, 7), (6, 9)])
@pytest.mark.parametrize("seed", range(4))
def test_equals_the_interior_point_optimum(n, p, seed, free_mean):
    X = sample(seed, n, p)
    lam = penalty(X, np.random.default_rng(seed).uniform(0.05, 0.6), free_mean)
    optimum, _ = sample_loss_optimum(X, lam, 0.0, psd=True, free_mean=free_mean)
    solution = solve_both_weights(X, lam, free_mean=free_mean, tol=1e-6)
    assert solution.converged
    assert solution.gap <= 1e-6
    assert solution.objective == pytest.approx(optimum, rel=2e-6)
    assert solution.objective == pytest.approx(objective(X, solution, lam), rel=1e-9)
    history, gaps = np.asarray(solution.history), np.asarray(solution.gap_history)
    assert np.all(history * gaps >= history - optimum - 1e-6 * optimum)
    assert np.all(np.diff(history) <= 0)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), free_mean=st.booleans(), spread=st.floats(0, 2))
def test_any_weights_give_a_valid_bound(seed, free_mean, spread):
    """However bad the weights, bound ≤ optimum ≤ objective; zero and repeated samples included."""
    rng = np.random.default_rng(seed)
    X = sample(seed, 8, 6)
    X[1] = X[0]
    X[2] = 0
    X -= X.mean(axis=0)
    lam = penalty(X, rng.uniform(0.05, 1.2), free_mean)
    optimum, _ = sample_loss_optimum(X, lam, 0.0, psd=True, free_mean=free_mean)
    model, scale = model_of(X, lam, free_mean)
    weights = [np.exp(spread * rng.standard_normal(size)) for size in X.shape]
    step = model.step((weights[0] * len(X), weights[1] / 0.3))
    assert np.linalg.eigvalsh(step.omega)[0] >= -1e-12
    assert 0 <= model.bound(step, 1e-4) * scale <= optimum * (1 + 1e-6)
    assert step.objective * scale >= optimum * (1 - 1e-6)


@pytest.mark.parametrize("free_mean", [False, True])
def test_a_step_solves_its_equation_in_blocks_of_samples_too(free_mean, monkeypatch):
    X = sample(3, 50, 8)
    rng = np.random.default_rng(0)
    weights = (rng.uniform(20, 90, 50), rng.uniform(1, 9, 8))
    model, scale = model_of(X, penalty(X, 0.2, free_mean), free_mean)
    step = model.step(weights)
    mean = weights[0] @ X / weights[0].sum() / scale if free_mean else np.zeros(8)
    rows = X / scale - mean
    S = (rows.T * weights[0]) @ rows
    A = S + model.lam * np.diag(weights[1])
    np.testing.assert_allclose(A @ step.omega + step.omega @ A, 2 * S, atol=1e-12 * np.trace(A))
    np.testing.assert_allclose(step.variances, np.diag(S), rtol=1e-12)
    np.testing.assert_allclose(step.norms, np.linalg.norm(rows @ step.rest, axis=1), rtol=1e-9)
    monkeypatch.setattr(both_weights, "BLOCK_ENTRIES", 1)
    monkeypatch.setattr(both_weights, "BLOCK_ROWS", 7)
    parts, _ = model_of(X, penalty(X, 0.2, free_mean), free_mean)
    assert len(parts.blocks) == 8
    np.testing.assert_allclose(parts.step(weights).omega, step.omega, atol=1e-12)
    assert parts.bound(step, 1e-4) == pytest.approx(model.bound(step, 1e-4), rel=1e-12)


def test_what_is_too_long_in_a_column_is_spread_over_the_others():
    rng = np.random.default_rng(1)
    pull = rng.standard_normal((200, 200))
    pull /= np.linalg.norm(pull, axis=0)
    assert shortest_pull(pull, np.ones(200), 1.0, 1e-9) == pytest.approx(1.0)
    pull[:, 3] *= 1.5
    assert 1.0 <= shortest_pull(pull, np.ones(200), 1.0, 1e-9) < 1.02
    # A diagonal matrix is symmetric, and has nowhere to go.
    assert shortest_pull(np.diag([1.0, 2.0]), np.ones(2), 1.0, 1e-9) == 2.0


def test_where_all_columns_went_to_zero_the_bound_is_still_a_bound():
    """A fit whose optimum is Ω = 0 comes to lengths that are 0 in floating point."""
    X = sample(3, 12, 5)
    lam = 100 * penalty(X, 1.0, True)
    model, _ = model_of(X, lam, True)
    step = model.step((np.ones(12), np.ones(5)))
    gone = replace(step, rest=np.eye(5), norms=model.norms(np.eye(5), step.mean)[0])
    gone = replace(gone, lengths=np.zeros(5), objective=float(gone.norms.sum()))
    assert 0 <= model.bound(gone, 1e-4) <= solve_both_weights(X, lam, free_mean=True).objective


@pytest.mark.parametrize(("n", "p", "share"), [(300, 60, 0.2), (80, 160, 0.2), (200, 100, 0.4)])
def test_equals_splitting_in_few_steps(n, p, share):
    X = sample(5, n, p)
    lam = penalty(X, share, True)
    ours = solve_both_weights(X, lam, free_mean=True)
    other = solve_samples(X, Spectrum.of(X.T @ X), lam, 0.0, free_mean=True)
    assert ours.gap <= 1e-4
    assert ours.n_iter <= 20 < other.n_iter
    assert ours.objective == pytest.approx(other.objective, rel=2e-4)
    bounds = np.asarray(ours.history) * (1 - np.asarray(ours.gap_history))
    assert np.all(bounds <= other.objective * (1 + 1e-12))


def test_features_without_a_share_are_exactly_zero():
    rng = np.random.default_rng(2)
    X = 0.1 * rng.standard_normal((120, 30))
    X[:, :10] += 3 * rng.standard_normal((120, 2)) @ rng.standard_normal((2, 10))
    X -= X.mean(axis=0)
    for tol in (1e-4, 1e-7):
        solution = solve_both_weights(X, penalty(X, 0.3, True), free_mean=True, tol=tol)
        assert solution.gap <= tol
        np.testing.assert_array_equal(np.any(solution.loadings != 0, axis=1), np.arange(30) < 10)


def test_constant_features_are_exactly_zero_whatever_the_tolerance():
    X = sample(6, 40, 12)
    X[:, 4] = 0
    for tol in (1e-2, 1e-4, 1e-8):
        solution = solve_both_weights(X, penalty(X, 0.05, True), free_mean=True, tol=tol)
        np.testing.assert_array_equal(np.all(solution.loadings == 0, axis=1), np.arange(12) == 4)


@pytest.mark.parametrize("free_mean", [False, True])
def test_a_penalty_that_empties_the_model(free_mean):
    X = sample(4, 40, 12)
    solution = solve_both_weights(X, penalty(X, 1.5, free_mean), free_mean=free_mean)
    assert solution.gap <= 1e-4
    assert solution.loadings.shape == (12, 0)


def test_other_kernels_go_on_where_weights_stand_still(monkeypatch):
    X = sample(5, 60, 6)
    lam = penalty(X, 0.2, True)
    options = {"spectrum": lambda: Spectrum.of(X.T @ X), "free_mean": True}
    alone = solve_samples_on_cone(X, lam, 0.0, **options)
    assert "step size of residuals" not in alone.diagnostics
    given_up = functools.partial(_limited, solve_both_weights)
    monkeypatch.setattr(exact, "solve_both_weights", given_up)
    more = solve_samples_on_cone(X, lam, 0.0, **options)
    assert "step size of residuals" in more.diagnostics
    assert more.gap <= 1e-4
    assert more.objective == pytest.approx(alone.objective, rel=2e-4)
    assert more.n_iter == len(more.history) == len(more.gap_history) > 2


def _limited(solve, data, lam, *, max_iter, **options):
    return solve(data, lam, max_iter=2, **options)


def test_patience_ends_the_run(monkeypatch):
    X = sample(5, 60, 6)
    monkeypatch.setattr(both_weights._Model, "bound", lambda *_: 0.0)
    solution = solve_both_weights(X, penalty(X, 0.2, True), free_mean=True, patience=7)
    assert not solution.converged
    assert solution.n_iter == 8
    assert solution.gap == 1.0
    assert solution.objective == pytest.approx(objective(X, solution, penalty(X, 0.2, True)))


def linear_map(seed=0, size=9):
    """Return a map with one fixed point that plain steps approach slowly, and that point."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((size, size)))[0]
    fixed = rng.uniform(1, 2, size)
    matrix = (turn * np.linspace(0.2, 0.95, size)) @ turn.T
    return lambda x: fixed + matrix @ (x - fixed), fixed


def test_mixing_is_much_faster_than_plain_steps():
    step, fixed = linear_map()
    mixing = both_weights._Mixing(4)
    plain = mixed = fixed * np.random.default_rng(1).uniform(0.9, 1.1, 9)
    errors = []
    for _ in range(25):
        plain, mixed = step(plain), mixing.next(mixed, step(mixed))
        errors.append(np.max(np.abs(mixed - fixed)))
    assert errors[-1] < 1e-7
    assert errors[-1] < 1e-4 * np.max(np.abs(plain - fixed))
    assert len(mixing.wanted) == len(mixing.changes) == both_weights.MEMORY + 1


def test_mixing_goes_no_further_than_it_may_and_back_where_it_went_wrong():
    mixing = both_weights._Mixing(2)
    first, second = np.full(4, 2.0), np.full(4, 3.0)
    np.testing.assert_array_equal(mixing.next(np.ones(4), first), first)  # nothing to mix with
    # Steps that hardly change point far away: to 1 + 1 + 1 + …
    mixed = mixing.next(first, second - 1e-6)
    np.testing.assert_allclose(mixed, both_weights.LARGEST_FACTOR * (second - 1e-6))
    # What came of it is worse: back to the last plain step, and everything is forgotten.
    np.testing.assert_array_equal(mixing.next(mixed, mixed + 1e3 * mixed), second - 1e-6)
    assert mixing.plain is None
    assert mixing.wanted == []
    np.testing.assert_array_equal(mixing.next(second, first), first)


def test_short_norms_that_grow_are_not_mixed():
    mixing = both_weights._Mixing(2)
    used = np.array([1.0, 1.0, 1.0, 1e-4])
    mixing.next(0.9 * used, used)
    new = np.array([1.05, 1.02, 1.0, 2e-4])  # the last grows, and is short
    mixed = mixing.next(used, new)
    assert mixed[3] == new[3]
    assert np.all(mixed[:2] != new[:2])


def test_norms_have_a_floor_of_their_own_kind():
    norms, newest = np.array([1e-12, 2.0, 1e-12, 5.0]), np.array([1.0, 3.0, 100.0, 300.0])
    found = both_weights._floored(norms, newest, 2, 1e-2)
    share = both_weights.SMOOTHING * 1e-2
    np.testing.assert_allclose(found, [share * 2, 2, share * 200, 5])


def test_short_columns_and_small_residuals_go_where_they_tend_to():
    X = sample(7, 40, 6)
    lam = penalty(X, 0.1, False)
    model, scale = model_of(X, lam, False)
    norms = np.linalg.norm(X, axis=1) / scale
    lengths = np.full(6, 0.5)
    plain = model.step((1 / norms, 1 / lengths))
    asked = both_weights._next_norms(plain, model.lam)
    np.testing.assert_allclose(asked, np.concatenate([plain.norms, plain.lengths]), rtol=1e-9)
    lengths[2] = 1e-6  # held down, though it belongs to the model
    step = model.step((1 / norms, 1 / lengths))
    pull = step.lengths[2] / lengths[2]
    assert pull > both_weights.GROWING
    wanted = step.lengths[2] + model.lam * (pull - 1) / step.variances[2] / 2
    limit = both_weights.SHORT * np.mean(step.lengths)
    asked = both_weights._next_norms(step, model.lam)
    assert asked[40 + 2] == pytest.approx(min(wanted, limit))
    assert asked[40 + 2] > 10 * step.lengths[2]
    varied = replace(step, variances=1e4 * step.variances)  # what varies so much grows less
    wanted = step.lengths[2] + model.lam * (pull - 1) / varied.variances[2] / 2
    assert step.lengths[2] < wanted < limit
    assert both_weights._next_norms(varied, model.lam)[40 + 2] == pytest.approx(wanted)
    norms[5] = 1e-7  # a residual that is held down
    step = model.step((1 / norms, np.full(6, 2.0)))
    pull = step.norms[5] / norms[5]
    assert pull > both_weights.GROWING
    leverage = 6 / 40 * np.mean(step.norms)
    limit = both_weights.SMALL_GROWING * np.mean(step.norms)
    wanted = max(step.norms[5], min(step.norms[5] + leverage * (pull - 1), limit))
    assert both_weights._next_norms(step, model.lam)[5] == pytest.approx(wanted)


@pytest.mark.parametrize("free_mean", [False, True])
def test_few_weights_are_tried(free_mean):
    for seed in range(3):
        X = sample(seed, 50, 12)
        solution = solve_both_weights(X, penalty(X, 0.3, free_mean), free_mean=free_mean)
        assert solution.gap <= 1e-4
        assert solution.n_iter <= 13
