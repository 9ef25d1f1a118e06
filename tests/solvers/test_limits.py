"""Kernels at their limits: the last iteration allowed, ties, nothing at all, a basis too small."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from jointsparse.linalg import Spectrum
from jointsparse.operators.dense import DenseSamples
from jointsparse.penalties import soft_threshold
from jointsparse.solvers.components.joint import FeatureLoss, FrobeniusLoss, SampleLoss, solve_joint
from jointsparse.solvers.components.joint_published import solve_joint_published
from jointsparse.solvers.components.procrustes_steps import Extrapolation
from jointsparse.solvers.components.supports import _largest_first, _threshold_for
from jointsparse.solvers.convex import screening, stationarity
from jointsparse.solvers.convex.certificate import _value_at
from jointsparse.solvers.convex.low_rank_basis import Basis
from jointsparse.solvers.convex.model import ConvexModel, largest_lam
from jointsparse.solvers.convex.reweighted import mixture_of, solve_reweighted
from jointsparse.solvers.graph.neighbourhood import (
    _split_products,
    embedding_objective,
    residual_start,
    solve_neighbourhood,
)
from jointsparse.solvers.graph.quadratic_forms import DenseForm, ScatterForm, shares
from jointsparse.solvers.graph.reweighted_eigen import _Extrapolation, reweighted_passes
from jointsparse.solvers.products.gram import Gram, SampleGram
from jointsparse.solvers.regression import elastic_net
from jointsparse.solvers.regression import group as groups
from jointsparse.solvers.regression import subspace as subspace_regression
from jointsparse.solvers.regression.group_curvature import DenseCurvature
from jointsparse.solvers.regression.subspace_equality import solve_equality
from jointsparse.solvers.regression.subspace_reweighted import (
    solve_subspace_reweighted,
)
from jointsparse.solvers.samples import source as source_samples
from jointsparse.solvers.samples.geometric_median import (
    geometric_median,
    median_by_products,
    row_norms,
    typical_length,
)
from jointsparse.solvers.samples.source import SourceSamples, median_by_passes
from jointsparse.solvers.samples.weighted_pass import LinearFit
from jointsparse.solvers.samples.wide import WideModel
from jointsparse.solvers.solution import closed_form
from jointsparse.solvers.wide import scatter_access
from jointsparse.solvers.wide.convex import _duals, solve_wide
from jointsparse.solvers.wide.rounds import Rounds
from jointsparse.solvers.wide.scatter_access import DataScatter
from jointsparse.sources import as_source

NO_WEIGHTS = np.zeros(0)  # Newton's method alone looks at them


def data(seed, n, p):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, p)) + 0.5 * rng.standard_normal(
        (n, p)
    )
    X -= X.mean(axis=0)
    return X / np.linalg.norm(X)


# medians


def weiszfeld(points, centre):
    weights = 1 / np.linalg.norm(points - centre, axis=1)
    return weights @ points / weights.sum()


def test_single_steps_towards_a_median():
    points = data(0, 9, 4)
    first = weiszfeld(points, np.zeros(4))
    np.testing.assert_allclose(geometric_median(points, max_iter=1), first)
    np.testing.assert_allclose(median_by_products(DenseSamples(points), max_iter=1), first)
    second = weiszfeld(points, first)
    np.testing.assert_allclose(geometric_median(points, max_iter=2), second)
    np.testing.assert_allclose(median_by_products(DenseSamples(points), max_iter=2), second)
    np.testing.assert_allclose(geometric_median(points, first, max_iter=1), second)
    # a movement that is large enough to stop at
    np.testing.assert_allclose(geometric_median(points, tol=10.0), first)
    np.testing.assert_allclose(median_by_products(DenseSamples(points), tol=10.0), first)
    # and the first step that is shorter than a share of the mean distance
    centre, far = np.zeros(4), math.inf
    while far > 1e-3:
        new = weiszfeld(points, centre)
        far = np.linalg.norm(new - centre) / np.linalg.norm(points - centre, axis=1).mean()
        centre = new
    np.testing.assert_allclose(geometric_median(points, tol=1e-3), centre, rtol=1e-12)
    np.testing.assert_allclose(
        median_by_products(DenseSamples(points), tol=1e-3), centre, rtol=1e-9
    )
    whole = geometric_median(points)
    assert np.linalg.norm(whole - centre) > 1e-6
    np.testing.assert_allclose(median_by_products(DenseSamples(points)), whole, atol=1e-9)
    directions = (points - whole) / row_norms(points - whole)[:, None]
    np.testing.assert_allclose(directions.sum(axis=0), 0, atol=1e-7)


def test_medians_of_equal_points_and_lengths():
    assert not median_by_products(DenseSamples(np.zeros((3, 5)))).any()
    np.testing.assert_array_equal(geometric_median(np.full((3, 2), 4.0)), [4.0, 4.0])
    assert typical_length(np.array([1.0, 5.0, 2.0])) == 2
    assert typical_length(np.array([0.0, 0.0, 0.0, 8.0])) == 2  # the mean: most are nothing


def test_a_median_by_one_pass(monkeypatch):
    points = data(1, 9, 4) + 3
    monkeypatch.setattr(source_samples, "MOST_MEDIAN_STEPS", 1)
    centre = points.mean(axis=0)
    samples = SourceSamples(as_source(points), centre, np.ones(4, dtype=bool), 9, 1.0)
    np.testing.assert_allclose(
        median_by_passes(samples), weiszfeld(points - centre, np.zeros(4)), rtol=1e-6
    )


def test_samples_divided_by_a_number():
    points = data(2, 9, 4)
    samples = SourceSamples(as_source(points), np.zeros(4), np.ones(4, dtype=bool), 9, 3.0)
    half = samples.divided(2.0).divided(4.0)
    assert half.scale == 3.0 / 8
    assert half.unit == 8
    sums = half.weighted_pass(LinearFit(smoothing=0.0), scatter=True)
    np.testing.assert_allclose(sums.norms, np.linalg.norm(points, axis=1) / 8)


# screening


@pytest.mark.parametrize("passes", [0, 1])
def test_a_set_that_was_not_verified_proves_nothing(passes, monkeypatch):
    X = data(2, 8, 30) * np.geomspace(1, 0.03, 30)
    eta = 0.1 * np.linalg.norm(X, 2) ** 2
    lam = 0.3 * largest_lam(Spectrum.of(X.T @ X), eta)
    assert screening.static_screen(X, lam, eta).any()
    assert screening.static_screen_scatter(X.T @ X, lam, eta).any()
    monkeypatch.setattr(screening, "LARGEST_NUMBER_OF_PASSES", passes)
    assert not screening.static_screen(X, lam, eta).any()
    if passes == 0:
        assert not screening.static_screen_scatter(X.T @ X, lam, eta).any()


# the convex model


def test_closed_forms_have_a_history_of_one():
    X = data(3, 6, 15)
    total = 4 * np.sum(X**2)
    for lam, eta in ((0.0, 0.3), (1e3, 0.3)):
        solution = solve_wide(2 * X, lam, eta)
        assert solution.history == [solution.objective]
        assert solution.gap_history == [0.0]
        assert solution.n_iter == 1
        assert solution.converged
        assert solution.gap == 0
        assert solution.diagnostics["rounds"] == solution.diagnostics["basis size"] == 0
        assert solution.diagnostics["rank"] == solution.loadings.shape[1]
    assert solution.objective == pytest.approx(total)  # emptied
    assert solution.diagnostics["screened"] == 15
    assert solution.reason.startswith("the penalty empties the model")
    assert _duals(closed_form(np.zeros((2, 0)), 1.0, None), DenseSamples(X), screened=False) == []


def test_the_value_of_a_dual_point_where_nothing_is_left():
    S = np.diag([2.0, 1.0])
    model = ConvexModel.in_data_units(Spectrum.of(S), 0.3, 0.3)
    assert _value_at(model, np.eye(2), 0.7) == 0  # X - XΩ = 0
    assert _value_at(model, 3 * np.eye(2), 0.7) == 0  # a < 0
    half = np.eye(2) / 2  # a = 1, b = 1/4: best at c = 2, so the limit holds
    assert _value_at(model, half, 0.7) == pytest.approx(0.7 - 0.49 / 4)
    assert _value_at(model, 0 * half, 5.0) == 1  # a = 2, b = 1: best at c = 1


def test_reweighting_ends_at_its_limit():
    X = 10 * data(4, 12, 30)
    model = WideModel(X, 0.2, 0.2, free_mean=False)
    solution = solve_reweighted(model, tol=1e-12, max_iter=2)
    assert solution.n_iter == len(solution.history) == 2
    assert not solution.converged
    assert solution.reason.startswith("stopped at the iteration limit (2)")
    assert solution.objective == min(solution.history) == solution.history[-1]


def test_a_mixture_that_leads_too_far_is_the_newest_alone():
    wanted = [np.array([1.0, 1.0]), np.array([1.0, 1.0]), np.array([1e-3, 1e3])]
    changes = [np.array([1.0, 0.0]), np.array([-1.0, 1e-9]), np.array([5.0, 5.0])]
    found = mixture_of(wanted, changes)
    assert found == [0.0, 0.0, 1.0]
    ratios = [np.array([1.0, 1.1]), np.array([1.05, 1.0])]
    near = mixture_of(ratios, [np.array([0.2, 0.0]), np.array([0.0, 0.1])])
    # the shortest point of the line between (0.2, 0) and (0, 0.1)
    np.testing.assert_allclose(near, [0.2, 0.8], rtol=1e-6)


def test_working_sets_are_never_empty():
    X = data(5, 6, 20)
    rounds = Rounds(X, 10.0, 0.1, 1.0, 1e-6)
    kept = rounds._working_set(np.zeros((20, 0)))
    assert np.flatnonzero(kept).tolist() == [int(np.argmax(np.linalg.norm(X, axis=0)))]
    before = rounds.kept
    rounds.resume(np.zeros((20, 0)))
    assert rounds.kept is before
    assert not rounds.resumed


def test_the_chance_bound_of_lanczos(monkeypatch):
    X = data(6, 200, 40)
    scatter = DataScatter(DenseSamples(X), 1.0)
    _, vectors = np.linalg.eigh(X.T @ X)
    W = vectors[:, -3:]
    basis = Basis.rotated(W, X.T @ (X @ W))
    exact = np.linalg.eigvalsh(X @ X.T)[-4]
    found = scatter._lanczos_bound(basis)
    assert exact <= found <= exact / 0.9 * (1 + 1e-9)
    monkeypatch.setattr(scatter_access, "LARGEST_GRAM", 10)
    assert scatter.proved_bound(basis, 10.0) == pytest.approx(2 * found, rel=1e-9)
    assert scatter.proved_bound(basis, 2 * exact) is None
    monkeypatch.setattr(scatter_access, "LANCZOS_FAILURE", 1e-3)
    monkeypatch.setattr(scatter_access, "LANCZOS_SHORTFALL", 0.5)
    calls = []
    times = scatter.data.times
    monkeypatch.setattr(scatter.data, "times", lambda u: calls.append(1) or times(u))
    rough = scatter._lanczos_bound(basis)
    assert len(calls) == 8  # ((log(1.648 √200 / 1e-3) / √0.5) + 1) / 2, rounded up
    assert exact <= rough <= 2 * exact * (1 + 1e-9)


# regressions


def test_signs_that_go_round_in_circles_end(monkeypatch):
    monkeypatch.setattr(elastic_net, "MAX_SIGNS", -10)
    G, c = np.diag([0.5, 0.5]), np.array([0.4, 0.1])
    assert elastic_net._by_signs(G, c, 0.2, np.zeros(2), 1e-12) is None
    np.testing.assert_allclose(elastic_net._solve_block(G, c, 0.2, np.zeros(2), 1e-12), [0.4, 0])
    gram = Gram(np.diag([3.0, 1.0]))
    found = elastic_net.elastic_net(gram, np.array([0.3, 0.1]), ridge=0.5, penalty=0.0)
    np.testing.assert_allclose(found, [0.3 / 1.25, 0.1 / 0.75])


def test_regressions_that_empty_a_working_set_or_meet_rounding():
    S = np.eye(2) / 2
    A, steps = groups._solve_block(
        DenseCurvature(S), np.full((2, 1), 0.1), 0.2, np.full((2, 1), 5.0), 1e-12
    )
    assert not A.any()
    assert steps <= 2
    # S with a negative eigenvalue, as rounding makes it: the step is finite all the same.
    bad = np.array([[0.5, 0.6], [0.6, 0.5]])
    step = groups._newton(
        DenseCurvature(bad), np.array([[0.3], [0.2]]), 1e-6, np.array([[1.0], [1.0]])
    )
    assert np.isfinite(step).all()


@pytest.mark.parametrize("norm", ["l21", "l11"])
def test_a_subspace_regression_that_may_not_try_again(norm, monkeypatch):
    rng = np.random.default_rng(0)
    X, Y = data(7, 12, 30), np.linalg.qr(rng.standard_normal((12, 2)))[0]
    problem = subspace_regression.SubspaceProblem(Gram(X.T @ X), X.T @ Y, Y)
    monkeypatch.setattr(subspace_regression, "ATTEMPTS", 2)
    penalty = 0.3 * subspace_regression.emptying(problem, norm)
    solution = subspace_regression.solve_subspace(problem, penalty, norm, tol=1e-300)
    assert solution.n_iter == 2
    assert not solution.converged
    limited = solve_equality(problem, norm, tol=1e-300, max_iter=3)
    assert limited.n_iter == 3
    assert not limited.converged
    assert limited.objective == limited.history[-1] == min(limited.history)
    assert all(0 <= gap <= 1 for gap in limited.gap_history)


@pytest.mark.parametrize("penalty", [0.05, None])
def test_reweighted_subspaces_end_at_their_limit(penalty):
    rng = np.random.default_rng(0)
    X, Y = data(7, 12, 30), np.linalg.qr(rng.standard_normal((12, 2)))[0]
    problem = subspace_regression.SubspaceProblem(SampleGram(X), X.T @ Y, Y)
    solution = solve_subspace_reweighted(problem, penalty, "l21", tol=1e-300, max_iter=7)
    assert solution.n_iter == len(solution.history) == 7
    assert not solution.converged


def test_how_far_an_alternation_moves():
    frame = np.eye(5)[:, :4]
    space = SimpleNamespace(frame=frame)
    steps = Extrapolation(space)
    assert steps.residual == 0
    space.frame = frame + 0.5
    assert steps.residual == pytest.approx(0.5 * np.sqrt(20) / 2)  # of a length of √4


def test_largest_values_and_thresholds():
    values = np.array([3.0, 1.0, 2.0])
    assert _largest_first(values, 3).tolist() == [0, 2, 1]
    assert _largest_first(values, 2).tolist() == [0, 2]
    assert _largest_first(values, 0).size == 0
    assert _threshold_for(values, 3) == 0
    assert _threshold_for(values, 2) == 1  # two are above it
    assert _threshold_for(np.array([1.0, 1.0, 2.0]), 2) == 1  # a tie: none of them stays


def test_secular_norms_after_one_step(monkeypatch):
    monkeypatch.setattr(stationarity, "MOST_STEPS", 1)
    squares, tau = np.array([[1.0, 3.0]]), np.array([2.0, 5.0])
    inverse = 1 / 0.5
    terms = squares[0] * inverse**2
    total = terms.sum()
    first = (total**1.5 - total) / np.sum(terms * inverse * tau)
    np.testing.assert_allclose(stationarity.secular_norms(squares, tau, 0.5), [first])


# eigenspaces


def test_shares_of_tied_eigenvalues():
    values = np.array([1.0, 2.0, 2.0 + 1e-12, 2.0, 3.0])
    np.testing.assert_allclose(shares(values, 2, 1e-9), [1, 1 / 3, 1 / 3, 1 / 3, 0])
    np.testing.assert_allclose(shares(values, 4, 1e-9), [1, 1, 1, 1, 0])
    np.testing.assert_allclose(shares(values, 1, 1e-9), [1, 0, 0, 0, 0])


def test_all_of_a_tied_space_takes_part():
    n = 12
    same = DenseForm(np.zeros((n, n)))
    found = same.lowest(np.ones(n), 2, np.eye(n)[:, :2])  # more are tied than there are guards
    np.testing.assert_allclose(found.leverages, 2 / n)
    assert found.vectors.shape[1] == n
    X = np.zeros((10, 30))
    X[:, :10] = np.eye(10) - 0.1
    form = ScatterForm(X)
    space = form.lowest(np.full(30, 0.02), 2, np.random.default_rng(0).standard_normal((30, 2)))
    np.testing.assert_allclose(space.leverages[:10], 2 * 0.9 / 9, atol=1e-9)
    np.testing.assert_allclose(space.leverages[10:], 0, atol=1e-9)
    assert space.energy == pytest.approx(-2)


def test_extrapolation_of_leverages():
    def logs(*points):
        return [np.log(np.asarray(p) + 1e-10) for p in points]

    jump = _Extrapolation(1e-10, plain=2)
    a, b, c = np.array([0.5, 0.4]), np.array([0.4, 0.2]), np.array([0.35, 0.15])
    assert jump.next(a, b, NO_WEIGHTS) is b  # too early
    assert not jump.made
    found = jump.next(b, c, NO_WEIGHTS)
    l0, l1, l2 = logs(a, b, c)
    first, bend = l1 - l0, l2 - 2 * l1 + l0
    step = np.linalg.norm(first) / np.linalg.norm(bend)
    assert 1 < step < 4
    assert jump.made
    np.testing.assert_allclose(found, np.exp(l0 + 2 * step * first + step**2 * bend) - 1e-10)
    jump.take_back()
    assert (jump.made, jump.earlier, jump.reach) == (False, [], 2.0)
    jump.take_back()
    jump.take_back()
    assert jump.reach == 1.0
    # Steps that shorten fast: the step would be 1 or less, and nothing is extrapolated.
    jump = _Extrapolation(1e-10, plain=0)
    jump.next(np.array([0.5]), np.array([0.1]), NO_WEIGHTS)
    last = np.array([0.9])
    assert jump.next(np.array([0.1]), last, NO_WEIGHTS) is last
    assert not jump.made
    # Steps of equal length: as far as is allowed, and twice as far the next time.
    jump = _Extrapolation(1e-10, plain=0)
    jump.next(np.array([0.8]), np.array([0.4]), NO_WEIGHTS)
    far = jump.next(np.array([0.4]), np.array([0.2]) + 1e-12, NO_WEIGHTS)
    assert jump.reach == 8.0
    assert far.item() == pytest.approx(0.8 * 0.5**8, rel=1e-6)


def test_passes_begin_with_the_eigenvectors():
    S = np.diag([3.0, 2.0, 1.0])
    for penalty, change in ((0.0, 0.0), (0.5, 1.0)):
        at = next(reweighted_passes(DenseForm(-S), 1, penalty, 1.0))
        space, value, measure = at.space, at.objective, at.measure
        np.testing.assert_allclose(space.leverages, [1, 0, 0], atol=1e-12)
        assert value == pytest.approx(-3 + penalty * (1 + 2e-5), rel=1e-9)
        assert measure == change
    twins = np.array([0, 0, 1])
    space, *_ = next(reweighted_passes(DenseForm(-S), 1, 0.5, 1.0, twins))
    np.testing.assert_allclose(space.leverages, [0.5, 0.5, 0], atol=1e-12)


# joint sparse PCA


def test_losses_as_written():
    X = data(10, 15, 6)
    rng = np.random.default_rng(0)
    Q, P = 0.2 * rng.standard_normal((6, 2)), np.linalg.qr(rng.standard_normal((6, 2)))[0]
    gram = Gram(X.T @ X)
    frobenius = FrobeniusLoss(gram)
    assert frobenius.reweigh(Q, P, gram.apply(Q)) == pytest.approx(np.sum((X - X @ Q @ P.T) ** 2))
    features = FeatureLoss(gram)
    lengths = np.linalg.norm(X, axis=0)
    smoothing = 1e-6 / np.sqrt(6)
    np.testing.assert_allclose(
        features.scale[:, 0], np.sqrt(0.5 / np.sqrt(lengths**2 + smoothing**2)), rtol=1e-12
    )
    bar = features.scale * P
    found = features.reweigh(Q, bar, gram.apply(Q))
    columns = np.sqrt(np.sum((X - X @ Q @ P.T) ** 2, axis=0) + smoothing**2)
    assert found == pytest.approx(columns.sum())
    np.testing.assert_allclose(features.scale[:, 0], np.sqrt(0.5 / columns), rtol=1e-9)
    for wide in (False, True):
        samples = SampleLoss(X, wide=wide)
        found = samples.reweigh(Q, P, gram.apply(Q))
        rows = np.sqrt(np.sum((X - X @ Q @ P.T) ** 2, axis=1) + (1e-6 / np.sqrt(15)) ** 2)
        assert found == pytest.approx(rows.sum())
        assert samples.trace == pytest.approx(np.sum(0.5 / rows[:, None] * X**2))


def test_the_published_iteration_ends_where_it_stands_still():
    X = data(12, 20, 6)
    gram = Gram(25 * X.T @ X)
    solution = solve_joint_published(gram, 2, 0.5, tol=1e-3, max_iter=500)
    assert solution.converged
    assert 1 < solution.n_iter < 500
    longer = solve_joint_published(gram, 2, 0.5, tol=0.0, max_iter=solution.n_iter)
    np.testing.assert_array_equal(longer.loadings, solution.loadings)
    assert longer.history == solution.history
    Q, P = solution.loadings, solution.state
    columns = np.linalg.norm(5 * X - 5 * X @ Q @ P.T, axis=0)
    value = columns.sum() + 0.5 * np.linalg.norm(Q, axis=1).sum()
    assert solution.objective == pytest.approx(value, rel=1e-4)


def test_a_warm_start_is_taken_where_it_is_the_better_one():
    X = data(11, 20, 8)
    loss = FrobeniusLoss(Gram(X.T @ X))
    start = loss.start(2)
    cold = solve_joint(loss, start, 0.05, tol=1e-8, max_iter=200)
    warm = solve_joint(loss, start, 0.05, tol=1e-8, max_iter=200, warm=(cold.loadings, cold.state))
    assert warm.n_iter < cold.n_iter
    assert warm.history[0] <= cold.history[0]
    assert warm.objective == pytest.approx(cold.objective, rel=1e-9)
    nothing = np.zeros_like(cold.loadings)
    again = solve_joint(loss, start, 0.05, tol=1e-8, max_iter=200, warm=(nothing, cold.state))
    assert again.history == cold.history  # of zeros there is nothing to start from
    limited = solve_joint(loss, start, 0.05, tol=1e-12, max_iter=3)
    assert limited.n_iter == 3
    assert not limited.converged


# neighbourhood embedding


def test_the_published_iterations_of_rne():
    rng = np.random.default_rng(0)
    A, strength = rng.standard_normal((5, 4)), 0.7
    start = residual_start(np.abs(A).sum(axis=0), 2)
    order = np.argsort(np.abs(A).sum(axis=0))
    expected = np.full((4, 2), 0.01)
    expected[order[0], 0] = expected[order[1], 1] = 1.0
    np.testing.assert_array_equal(start, expected)
    # one iteration, written out
    plus, minus = (np.abs(A.T @ A) + A.T @ A) / 2, (np.abs(A.T @ A) - A.T @ A) / 2
    H, M, step = start.copy(), A @ start, 10.0
    for _ in range(30):
        H = H / np.linalg.norm(H, axis=0)
        pull = step * A.T @ M
        H = H * np.sqrt(
            (strength * H + np.maximum(pull, 0) + step * minus @ H)
            / (strength * H @ H.T @ H + np.maximum(-pull, 0) + step * plus @ H)
        )
    solution = solve_neighbourhood(A, start, strength=strength, tol=1e-3, max_iter=1)
    np.testing.assert_allclose(solution.loadings, H, rtol=1e-6, atol=1e-12)
    value = np.abs(A @ H).sum() + strength / 4 * np.sum((H.T @ H - np.eye(2)) ** 2)
    assert solution.objective == pytest.approx(value, rel=1e-6)
    assert embedding_objective(A @ H, H, strength) == pytest.approx(value)
    # the rule by which they stop
    long = solve_neighbourhood(A, start, strength=strength, tol=1e-3, max_iter=200)
    changes = np.abs(np.diff(long.history)) / np.abs(long.history[1:])
    assert long.converged
    assert 1 < long.n_iter < 200
    assert changes[-1] <= 1e-3
    assert np.all(changes[:-1] > 1e-3)


def test_both_splits_of_a_product_are_splits():
    rng = np.random.default_rng(1)
    for shape in ((6, 4), (3, 9), (3, 10)):
        A, H = rng.standard_normal(shape), rng.uniform(0, 1, (shape[1], 2))
        plus, minus = _split_products(A)(H)
        np.testing.assert_allclose(plus - minus, A.T @ A @ H, atol=1e-12)
        assert (plus >= 0).all()
        assert (minus >= 0).all()
        if shape[1] <= 3 * shape[0]:
            np.testing.assert_allclose(plus + minus, np.abs(A.T @ A) @ H, atol=1e-12)
        else:
            np.testing.assert_allclose(plus + minus, np.abs(A).T @ np.abs(A) @ H, atol=1e-12)


def test_soft_thresholds():
    np.testing.assert_array_equal(soft_threshold(np.array([2.0, -3.0, 0.5]), 1.0), [1, -2, 0])
