import functools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import sample_loss_optimum

from jointsparse.linalg import Spectrum
from jointsparse.operators.dense import DenseSamples
from jointsparse.solvers.convex.model import largest_eta, largest_lam
from jointsparse.solvers.convex.reweighted import (
    LARGEST_FACTOR,
    mixed,
    mixture_of,
    sample_bound,
    solve_reweighted,
)
from jointsparse.solvers.samples import exact
from jointsparse.solvers.samples import streamed as streamed_module
from jointsparse.solvers.samples.cone import solve_samples
from jointsparse.solvers.samples.exact import reweighting_pays, solve_samples_on_cone
from jointsparse.solvers.samples.model import emptying_data
from jointsparse.solvers.samples.streamed import StreamedModel
from jointsparse.solvers.samples.weighted_pass import LinearFit, RowPasses, block_sums, summed
from jointsparse.solvers.samples.wide import WideModel


def sample(seed, n, p):
    rng = np.random.default_rng(seed)
    X = 0.3 * rng.standard_normal((n, p))
    X += rng.standard_normal((n, 2)) @ rng.standard_normal((2, p))
    return X - X.mean(axis=0)


def penalties(X, e, a, free_mean):
    slope = emptying_data(X, free_mean=free_mean)
    spectrum = Spectrum.of(slope.T @ slope)
    eta = 0.0 if free_mean else e * largest_eta(spectrum, 1.0)
    return a * largest_lam(spectrum, eta, 1.0), eta


def streamed(X, lam, eta, free_mean, source=RowPasses):
    scale = math.sqrt(np.sum(X**2) / len(X))
    return StreamedModel(source(X), lam, eta, free_mean=free_mean, scale=scale)


def wide(X, lam, eta, free_mean):
    return WideModel(X, lam, eta, free_mean=free_mean)


def objective(X, solution, lam, eta):
    """Objective of the returned matrix and offset, term by term."""
    omega = solution.loadings @ solution.loadings.T
    offset = 0.0 if solution.state.offset is None else solution.state.offset
    value = np.linalg.norm(X - X @ omega - offset, axis=1).sum()
    return value + lam * np.linalg.norm(omega, axis=0).sum() + eta * np.trace(omega)


@pytest.mark.parametrize("free_mean", [False, True], ids=["cspca-psd", "aw-spca-psd"])
@pytest.mark.parametrize(
    ("make", "n", "p"),
    [(streamed, 15, 7), (streamed, 6, 9), (wide, 6, 11)],
    ids=["streamed-15-7", "streamed-6-9", "wide-6-11"],
)
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_interior_point_optimum(make, n, p, seed, free_mean):
    X = sample(seed, n, p)
    rng = np.random.default_rng(seed)
    lam, eta = penalties(X, rng.uniform(0.02, 0.4), rng.uniform(0.05, 0.6), free_mean)
    optimum, _ = sample_loss_optimum(X, lam, eta, psd=True, free_mean=free_mean)
    solution = solve_reweighted(make(X, lam, eta, free_mean), tol=1e-5)
    assert solution.converged
    assert solution.gap <= 1e-5
    assert solution.objective == pytest.approx(optimum, rel=1e-5)
    assert solution.objective == pytest.approx(objective(X, solution, lam, eta), rel=1e-8)
    history, gaps = np.asarray(solution.history), np.asarray(solution.gap_history)
    assert np.all(history * gaps >= history - optimum - 1e-6 * optimum)
    assert np.all(np.diff(history) <= 0)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), free_mean=st.booleans(), spread=st.floats(0, 3))
def test_any_weights_give_a_valid_bound(seed, free_mean, spread):
    """However bad the weights, bound ≤ optimum ≤ objective; zero and repeated samples included."""
    rng = np.random.default_rng(seed)
    X = sample(seed, 6, 9)
    X[1] = X[0]
    X[2] = 0
    X -= X.mean(axis=0)
    lam, eta = penalties(X, rng.uniform(0.02, 0.4), rng.uniform(0.1, 0.7), free_mean)
    optimum, _ = sample_loss_optimum(X, lam, eta, psd=True, free_mean=free_mean)
    model = wide(X, lam, eta, free_mean)
    weights = np.exp(spread * rng.standard_normal(6)) / model.norms
    step = model.solve([1.0], weights, 10.0 ** rng.uniform(-6, -1), 200)
    assert 0 <= step.bound <= optimum * (1 + 1e-6)
    assert step.objective >= optimum * (1 - 1e-6)


@pytest.mark.parametrize(
    ("n", "p", "make"), [(400, 160, streamed), (200, 40, streamed), (60, 200, wide)]
)
def test_equals_splitting_and_needs_few_weighted_models(n, p, make):
    X = sample(5, n, p)
    lam, eta = penalties(X, 0.2, 0.3, False)
    ours = solve_reweighted(make(X, lam, eta, False))
    assert ours.gap <= 1e-4
    assert ours.n_iter <= 20
    other = solve_samples(X, Spectrum.of(X.T @ X), lam, eta)
    assert ours.objective == pytest.approx(other.objective, rel=2e-4)
    bounds = np.asarray(ours.history) * (1 - np.asarray(ours.gap_history))
    assert np.all(bounds <= other.objective)
    assert ours.objective == pytest.approx(objective(X, ours, lam, eta), rel=1e-8)


@pytest.mark.parametrize(
    ("n", "p", "free_mean", "kernel"),
    [
        (10, 20, False, "split"),
        (300, 150, False, "reweighted"),
        (30, 1200, False, "reweighted"),
        (30, 200, True, "both weights"),
        (1000, 20, True, "both weights"),
    ],
)
def test_the_solver_is_chosen_by_shape(n, p, free_mean, kernel):
    X = sample(5, n, p)
    lam, eta = penalties(X, 0.2, 0.3, free_mean)
    asked = []

    def spectrum():
        asked.append(True)
        return Spectrum.of(X.T @ X)

    solution = solve_samples_on_cone(X, lam, eta, free_mean=free_mean, spectrum=spectrum, tol=1e-2)
    assert reweighting_pays(n, p, eta) == (kernel == "reweighted")
    assert bool(asked) == (kernel == "split")
    assert ("iterations within" in solution.diagnostics) == (kernel == "reweighted")
    assert ("step size of residuals" in solution.diagnostics) == (kernel == "split")
    assert solution.gap <= 1e-2


def test_with_very_many_samples_splitting_goes_on_where_reweighting_stands_still(monkeypatch):
    X = sample(5, 60, 3)
    lam = penalties(X, 0.0, 0.2, True)[0]
    options = {"spectrum": lambda: Spectrum.of(X.T @ X), "free_mean": True}
    stopped = functools.partial(_stopped, exact.solve_both_weights)
    monkeypatch.setattr(exact, "solve_both_weights", stopped)
    alone = solve_samples_on_cone(X, lam, 0.0, **options)
    assert "iterations within" in alone.diagnostics
    assert alone.gap <= 1e-4
    monkeypatch.setattr(exact, "solve_reweighted", functools.partial(_given_up, solve_reweighted))
    both = solve_samples_on_cone(X, lam, 0.0, **options)
    assert "step size of residuals" in both.diagnostics
    assert both.gap <= 1e-4
    assert both.objective == pytest.approx(alone.objective, rel=2e-4)
    assert both.n_iter == len(both.history) > 2


def _stopped(solve, data, lam, *, max_iter, **options):
    return solve(data, lam, max_iter=1, **options)


def _given_up(solve, model, *, tol, max_iter):
    return solve(model, tol=tol, max_iter=2)


def test_a_gap_that_stays_ends_the_run():
    """Weighted models that are never solved cannot be certified: the run says so."""
    X = sample(0, 6, 20)
    model = wide(X, *penalties(X, 0.1, 0.1, False), False)
    step = model.solve([1.0], 1 / model.norms, 1e-1, 1)
    model.solve = lambda *_: step
    solution = solve_reweighted(model, tol=1e-9)
    assert not solution.converged
    assert solution.gap > 1e-9
    assert "did not lower the duality gap" in solution.reason


def test_outliers_zero_rows_and_units_do_not_matter():
    X = sample(3, 80, 500)
    X[0] *= 1e4
    X[1] = 0
    X -= np.median(X, axis=0)
    lam, eta = penalties(X, 0.2, 0.2, False)
    one = solve_reweighted(wide(X, lam, eta, False))
    other = solve_reweighted(wide(1e5 * X, 1e5 * lam, 1e5 * eta, False))
    assert one.gap <= 1e-4
    assert other.objective == pytest.approx(1e5 * one.objective, rel=2e-4)


def test_an_emptying_penalty_gives_nothing():
    for X, make in ((sample(0, 30, 200), wide), (sample(0, 300, 20), streamed)):
        lam, eta = penalties(X, 0.1, 1.01, False)
        solution = solve_reweighted(make(X, lam, eta, False), tol=1e-6)
        assert solution.loadings.shape[1] == 0 or not solution.loadings.any()
        assert solution.gap <= 1e-6
        assert solution.objective == pytest.approx(np.linalg.norm(X, axis=1).sum())


def test_many_features_need_no_square_matrix():
    rng = np.random.default_rng(0)
    n, p = 40, 8_000  # p × p would be 512 MB
    X = rng.standard_normal((n, p)).astype(np.float32)
    X[:, :50] += 20 * rng.standard_normal((n, 3)) @ rng.standard_normal((3, 50))
    X -= X.mean(axis=0)
    norms = np.linalg.norm(X, axis=1)
    rows = X / np.sqrt(norms)[:, None]
    spectrum = Spectrum.thin(rows)
    eta = 0.2 * largest_eta(spectrum, 1.0)
    lam = 0.1 * largest_lam(spectrum, eta, 1.0)
    tracemalloc.start()
    solution = solve_reweighted(wide(X, lam, eta, False), tol=1e-3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert solution.gap <= 1e-3
    assert solution.loadings.dtype == np.float32
    assert np.flatnonzero(solution.loadings.any(axis=1)).tolist() == list(range(50))
    assert peak < 50e6


class Blocks:
    """A source that hands out a few rows at a time and counts how often it is read."""

    def __init__(self, X):
        self.X, self.passes = X, 0

    def weighted_pass(self, fit, *, scatter=True):
        self.passes += 1
        parts = np.array_split(self.X, 7)
        return summed(block_sums(part, fit, scatter=scatter) for part in parts)


@pytest.mark.parametrize("free_mean", [False, True])
def test_one_pass_over_the_blocks_for_each_weighted_model(free_mean):
    X = sample(1, 200, 12)
    lam, eta = penalties(X, 0.1, 0.2, free_mean)
    model = streamed(X, lam, eta, free_mean, Blocks)
    solution = solve_reweighted(model)
    assert model.samples.passes == 1 + solution.n_iter
    whole = solve_reweighted(streamed(X, lam, eta, free_mean))
    assert solution.objective == pytest.approx(whole.objective, rel=1e-9)
    np.testing.assert_allclose(
        solution.loadings @ solution.loadings.T, whole.loadings @ whole.loadings.T, atol=1e-6
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 8))
def test_weighted_sums_are_those_of_the_residuals(seed, n, p):
    rng = np.random.default_rng(seed)
    X, mean = rng.standard_normal((n, p)), rng.standard_normal(p)
    Q, P, B = (rng.standard_normal((p, k)) for k in (2, 2, 3))
    R = rng.standard_normal((3, 3))
    fit = LinearFit(Q, P, mean=mean, smoothing=0.1, second=(B, R + R.T))
    residuals = (X - mean) @ (np.eye(p) - Q @ P.T)
    norms = np.sqrt((residuals**2).sum(axis=1) + 0.01)
    for source in (RowPasses(X), Blocks(X) if n >= 7 else RowPasses(X)):
        sums = source.weighted_pass(fit)
        np.testing.assert_allclose(sums.norms, norms)
        np.testing.assert_allclose(sums.scatter, (X / norms[:, None]).T @ X, atol=1e-10)
        np.testing.assert_allclose(sums.first, X.T @ (1 / norms), atol=1e-10)
        assert sums.weight == pytest.approx((1 / norms).sum())
        other = np.linalg.norm((X - mean) @ (np.eye(p) - B @ (R + R.T) @ B.T), axis=1)
        np.testing.assert_allclose(sums.second_norms, other)
    assert RowPasses(X).weighted_pass(fit, scatter=False).scatter is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("free_mean", [False, True])
def test_weighted_rows_are_products(dtype, free_mean):
    rng = np.random.default_rng(0)
    X = sample(0, 7, 30).astype(dtype)
    weights = rng.uniform(0.5, 2, 7)
    mean = weights @ X.astype(float) / weights.sum() if free_mean else None
    rows = (X.astype(float) - (0 if mean is None else mean)) * np.sqrt(weights / 2)[:, None]
    ours = DenseSamples(X).reweighted(weights / 2, mean)
    U, V = rng.standard_normal((30, 3)), rng.standard_normal((7, 2))
    np.testing.assert_allclose(ours.gram(), rows @ rows.T, atol=1e-10)
    np.testing.assert_allclose(ours.times(U), rows @ U, atol=1e-10)
    np.testing.assert_allclose(ours.transposed_times(V), rows.T @ V, atol=1e-10)
    np.testing.assert_allclose(ours.squared_lengths(), (rows**2).sum(axis=0), atol=1e-10)
    some = rng.uniform(size=30) < 0.4
    np.testing.assert_allclose(ours.columns(some).dense(), rows[:, some], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ours.dense(), rows, rtol=1e-6, atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 9))
def test_mixtures_stay_near_the_newest_weights(seed, count, n):
    rng = np.random.default_rng(seed)
    wanted = [np.exp(rng.standard_normal(n)) for _ in range(count)]
    changes = [rng.standard_normal(n) for _ in range(count)]
    mixture = mixture_of(wanted, changes)
    assert sum(mixture) == pytest.approx(1)
    ratio = sum(c * w for c, w in zip(mixture, wanted, strict=True)) / wanted[-1]
    assert np.all(ratio * LARGEST_FACTOR > 1)
    assert np.all(ratio < LARGEST_FACTOR)


@pytest.mark.parametrize(("n", "p"), [(30, 200), (300, 40)])
def test_tensors_give_the_same(n, p):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    X = sample(2, n, p)
    lam, eta = penalties(X, 0.2, 0.2, False)
    make = wide if p > n else streamed
    ours = solve_reweighted(make(X, lam, eta, False))
    scale = math.sqrt(np.sum(X**2) / n)
    tensor = torch.as_tensor(X)
    model = (
        WideModel(tensor, lam, eta, free_mean=False)
        if p > n
        else StreamedModel(RowPasses(tensor), lam, eta, free_mean=False, scale=scale)
    )
    theirs = solve_reweighted(model)
    assert isinstance(theirs.loadings, torch.Tensor)
    assert theirs.objective == pytest.approx(ours.objective, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["colon", "tox171", "allaml", "orlraws10p"])
def test_wide_data_are_certified(benchmark_data, name):
    X = benchmark_data(name)
    X = X - X.mean(axis=0)
    spectrum = Spectrum.thin(emptying_data(X, free_mean=False))
    eta = 0.1 * largest_eta(spectrum, 1.0)
    lam = 0.2 * largest_lam(spectrum, eta, 1.0)
    assert solve_reweighted(wide(X, lam, eta, False)).gap <= 1e-4


@pytest.mark.parametrize(
    ("shape", "eta", "pays"),
    [
        ((128, 256), 1.0, False),  # 2^15 entries: splitting takes no time
        ((128, 257), 1.0, True),
        ((65, 500), 1.0, False),
        ((2, 501), 1.0, True),  # few entries, and large matrices of features
        ((10, 1500), 0.0, False),  # weights of features, too
        ((375, 1500), 0.0, False),  # 4 features to a sample do not suffice yet
        ((375, 1501), 0.0, True),
        ((376, 1501), 0.0, False),
        ((1000, 50), 0.0, False),
    ],
)
def test_which_solver_pays(shape, eta, pays):
    assert reweighting_pays(*shape, eta) is pays


def test_bounds_of_shortened_dual_points():
    assert sample_bound(0.5, 3.0, 1.0) == 1.5
    assert sample_bound(0.5, 3.0, 4.0) == 0.75
    assert sample_bound(0.5, 3.0, 0.0) == 1.5
    assert sample_bound(0.5, -3.0, 1.0) == 0


def test_mixtures_of_weights():
    wanted = [np.array([1.0, 2.0]), np.array([2.0, 2.0]), np.array([2.0, 3.0])]
    changes = [np.array([1.0, 0.0]), np.array([-0.5, 0.1]), np.array([0.1, -0.1])]
    found = mixture_of(wanted[1:], changes[1:])
    assert sum(found) == pytest.approx(1)
    # the smallest change that a mixture of two can have, by looking at many
    sizes = [
        np.linalg.norm(t * changes[1] + (1 - t) * changes[2]) for t in np.linspace(-3, 3, 6001)
    ]
    mixed_change = found[0] * changes[1] + found[1] * changes[2]
    assert np.linalg.norm(mixed_change) == pytest.approx(min(sizes), rel=1e-5)
    np.testing.assert_allclose(mixed([0.25, 0.75], wanted[1:]), [2.0, 2.75])
    # a mixture far from the newest weights is not taken
    far = [np.array([1.0, 1.0]), np.array([1.0, 100.0])]
    alike = [np.array([1.0, 1.0]), np.array([1.0, 1.001])]
    assert mixture_of(far, alike) == [0.0, 1.0]


@pytest.mark.parametrize("free_mean", [False, True])
@pytest.mark.parametrize("make", [wide, streamed])
def test_the_empty_model_and_one_step_as_written(make, free_mean):
    X = sample(3, 12, 20)
    lam, eta = penalties(X, 0.1, 0.3, free_mean)
    model = make(X, lam, eta, free_mean)
    assert model.empty.objective == pytest.approx(np.linalg.norm(X, axis=1).sum())
    assert model.empty.bound == model.empty.iterations == 0
    assert model.empty.factor.shape == (20, 0)
    assert (model.empty.offset is None) == (not free_mean)
    if free_mean:  # that the objective belongs to
        assert model.empty.offset.tolist() == [0] * 20
    weights = 1 / model.norms
    step = model.solve([1.0], weights, 1e-9, 1000)
    U = step.factor
    omega = U @ U.T
    mean = weights @ X / weights.sum() if free_mean else np.zeros(20)
    residual = X - mean - (X - mean) @ omega
    norms = np.linalg.norm(residual, axis=1)
    value = norms.sum() + lam * np.linalg.norm(omega, axis=0).sum() + eta * np.trace(omega)
    assert step.objective == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(step.norms, np.hypot(norms, model.smoothing), rtol=1e-6)
    if free_mean:
        np.testing.assert_allclose(step.offset, mean - omega @ mean, atol=1e-9)
    else:
        assert step.offset is None
    optimum = sample_loss_optimum(X, lam, eta, psd=True, free_mean=free_mean)[0]
    assert 0 < step.bound <= optimum * (1 + 1e-6)
    assert step.bound >= 0.75 * optimum  # after the first weights already


@pytest.mark.parametrize("free_mean", [False, True])
def test_many_features_need_no_rank_penalty(free_mean, monkeypatch):
    """Without one no small basis holds the optimum: p × p matrices do."""
    monkeypatch.setattr(streamed_module, "SMALLEST_FOR_LOW_RANK", 10)
    X = sample(2, 40, 12)
    lam, eta = penalties(X, 0.0, 0.3, free_mean)
    assert eta == 0
    solution = solve_reweighted(streamed(X, lam, eta, free_mean), tol=1e-6, max_iter=50)
    assert solution.converged
    assert solution.objective == pytest.approx(objective(X, solution, lam, eta), rel=1e-6)
    optimum = sample_loss_optimum(X, lam, eta, psd=True, free_mean=free_mean)[0]
    assert solution.objective == pytest.approx(optimum, rel=1e-5)


def test_single_precision_is_not_asked_for_more_than_it_has(monkeypatch):
    from jointsparse.solvers.samples import wide as samples_wide

    X, asked = sample(4, 8, 15), []
    solve = samples_wide.solve_wide
    monkeypatch.setattr(
        samples_wide, "solve_wide", lambda *a, **k: asked.append(k["tol"]) or solve(*a, **k)
    )
    for data in (X, X.astype(np.float32)):
        model = WideModel(data, 0.3, 0.3, free_mean=False)
        model.solve([1.0], 1 / model.norms, 1e-9, 50)
    assert asked == [1e-9, 1e-7]


@pytest.mark.parametrize("free_mean", [False, True])
def test_samples_that_are_reproduced_to_rounding(free_mean):
    # Ω = I costs λp, 1e-8 of the distances, and residuals are as small: with weights of 1e6
    # the sums of a proof are rounded by as much as it says.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 12)) @ rng.standard_normal((12, 38))
    X = X[:, rng.integers(0, 38, 38)]
    X -= X.mean(axis=0)
    lam = 1e-8 * float(np.linalg.norm(X, axis=1).sum()) / 38
    solution = solve_samples_on_cone(
        X, lam, 0.0, spectrum=lambda: Spectrum.of(X.T @ X), free_mean=free_mean, tol=1e-4
    )
    assert solution.objective * (1 - solution.gap) <= lam * 38
    omega = solution.loadings @ solution.loadings.T
    lost = X @ (np.eye(38) - omega)
    if free_mean:
        lost = lost - np.median(lost, axis=0)  # whatever its best mean is, it is next to nothing
    penalty = lam * np.linalg.norm(omega, axis=1).sum()
    assert np.linalg.norm(lost, axis=1).sum() <= penalty
    assert penalty <= solution.objective * (1 + 1e-9) <= 1.01 * lam * 38


def test_weights_move_on_where_columns_differ_by_orders_of_magnitude():
    X = sample(2, 38, 6) / np.array([1, 1, 1e3, 1e4, 1e5, 1e6])
    lam, _ = penalties(X, 0.0, 1e-5, free_mean=True)
    solution = solve_reweighted(streamed(X, lam, 0.0, free_mean=True), tol=1e-4)
    # 505 in 37 models; 5660 where each was solved to its end, for the same gap.
    assert solution.diagnostics["iterations within"] < 2000
    assert solution.gap < 0.2


@pytest.mark.parametrize("n_features", [33, 140])
def test_a_small_table_is_split_wherever_it_is(n_features):
    X = sample(1, 15, n_features)
    lam, eta = penalties(X, 0.01, 0.05, free_mean=False)
    here = solve_samples_on_cone(X, lam, eta, spectrum=lambda: Spectrum.of(X.T @ X))
    elsewhere = solve_samples_on_cone(DenseSamples(X), lam, eta, spectrum=None)
    assert here.converged
    assert elsewhere.converged
    # Reweighting, which never sees a p x p matrix, says how many iterations are within.
    assert ("iterations within" in elsewhere.diagnostics) == (n_features > 128)
    np.testing.assert_allclose(elsewhere.objective, here.objective, rtol=2e-4)


def test_a_proof_from_sums_over_samples_counts_their_rounding():
    """Of 129 samples that four features reproduce a gap of 6e-9 was reported where it was 2e-6."""
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((129, 1)) @ rng.standard_normal((1, 4)) * 60)
    X = (X + (rng.random((129, 4)) < 0.1) * rng.integers(-9, 9, (129, 4))) * (
        rng.random((129, 4)) < 0.6
    )
    X -= X.mean(axis=0)
    solution = solve_reweighted(streamed(X, 0.01, 0.0, free_mean=True), tol=1e-10)
    assert solution.objective * (1 - solution.gap) <= 0.04  # what Ω = I costs


@pytest.mark.parametrize("free_mean", [False, True], ids=["cspca-psd", "aw-spca-psd"])
@pytest.mark.parametrize("seed", range(4))
def test_wide_objective_counts_residuals_that_cancel(seed, free_mean):
    """Of samples that one direction reproduces, √ε‖x‖ is left: not nothing beside the penalties."""
    rng = np.random.default_rng(seed)
    X = np.outer(rng.standard_normal(4), rng.standard_normal(25))
    X += 1e-10 * rng.standard_normal(X.shape)
    X -= X.mean(axis=0)
    model = wide(X, 1e-9, 0.0 if free_mean else 1e-9, free_mean)
    for weights in (1 / model.norms, np.full(4, 1e3)):
        step = model.solve([1.0], weights, 1e-6, 200)
        U = step.factor.astype(np.longdouble)
        offset = 0.0 if step.offset is None else step.offset
        omega = U @ U.T
        value = np.sqrt(np.sum((X - X @ omega - offset) ** 2, axis=1)).sum()
        value += 1e-9 * np.sqrt(np.sum(omega**2, axis=0)).sum() + model.eta * np.trace(omega)
        assert step.objective == pytest.approx(float(value), rel=1e-6)
