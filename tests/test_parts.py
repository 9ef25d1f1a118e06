"""Problems put together from parts: the library's, and some that a user brings along."""

from dataclasses import dataclass
from itertools import combinations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from jointsparse import CSPCA, SPCAPSD, Moments, load_model, save_model, solve
from jointsparse.losses import SampleNormLoss, SquaredLoss
from jointsparse.penalties import L1, L21, ElasticNet, L2p, Nuclear, Trace
from jointsparse.solvers import Exact, Factored, Published, Solution, Splitting
from jointsparse.solvers.convex.composed import _Blocks


def table(n=40, p=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, p)) + 0.3 * rng.standard_normal(
        (n, p)
    )
    return X - X.mean(0)


def cvx(penalty, Omega):
    """Return a penalty in the words of another program."""
    k = penalty.strength
    if isinstance(penalty, L21):
        return k * cp.sum(cp.norm(Omega, axis=0)), []
    if isinstance(penalty, L1):
        return k * cp.sum(cp.abs(Omega)), []
    if isinstance(penalty, ElasticNet):
        return (
            k * penalty.ratio * cp.sum(cp.abs(Omega))
            + k * (1 - penalty.ratio) / 2 * cp.sum_squares(Omega),
            [],
        )
    if isinstance(penalty, Nuclear):
        return k * cp.normNuc(Omega), []
    return k * cp.trace(Omega), [Omega >> 0]


def optimum(X, penalties):
    p = X.shape[1]
    on_cone = any(isinstance(penalty, Trace) for penalty in penalties)
    Omega = cp.Variable((p, p), symmetric=on_cone)
    terms, rules = zip(*(cvx(penalty, Omega) for penalty in penalties), strict=True)
    objective = cp.sum_squares(X - X @ Omega.T) + sum(terms)
    problem = cp.Problem(cp.Minimize(objective), [rule for part in rules for rule in part])
    return problem.solve(solver="CLARABEL")


PARTS = (L21(4.0), L1(1.5), ElasticNet(2.0, ratio=0.6), Nuclear(5.0), Trace(6.0))
MIXES = [
    mix
    for count in (1, 2, 3)
    for mix in combinations(PARTS, count)
    if not {Nuclear, Trace} <= {type(part) for part in mix}
]


@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: "+".join(type(p).__name__ for p in mix))
def test_every_mix_of_penalties_has_the_optimum_of_cvxpy(mix):
    X = table()
    found = solve(X, penalties=mix, solver=Splitting(tol=1e-6, max_iter=5000))
    best = optimum(X, mix)
    assert found.converged, found.reason
    assert found.objective == pytest.approx(best, rel=3e-6)
    assert found.objective * (1 - found.gap) <= best * (1 + 1e-7)


@pytest.mark.parametrize("mix", MIXES[::3], ids=str)
def test_loadings_stand_for_the_matrix_whose_objective_is_told(mix):
    X = table(seed=4)
    found = solve(X, penalties=mix, solver=Splitting(tol=1e-6, max_iter=5000))
    symmetric = any(isinstance(penalty, Trace) for penalty in mix)
    U = found.loadings
    omega = U @ U.T if symmetric else U.T
    value = np.sum((X - X @ omega.T) ** 2) + sum(penalty.value(omega) for penalty in mix)
    assert value == pytest.approx(found.objective, rel=1e-6)
    assert ("rank" in found.diagnostics) == symmetric


@pytest.mark.parametrize("mix", MIXES[::5], ids=str)
@pytest.mark.parametrize("iterations", [1, 2, 5, 20])
def test_the_bound_is_a_bound_however_early_it_stops(mix, iterations):
    X = table(seed=3)
    found = solve(X, penalties=mix, solver=Splitting(tol=1e-9, max_iter=iterations))
    best = optimum(X, mix)
    assert found.objective * (1 - found.gap) <= best * (1 + 1e-7)
    assert found.objective >= best * (1 - 1e-7)


@given(st.integers(0, 2**31), st.sampled_from(PARTS))
@settings(max_examples=60, deadline=None)
def test_polars_and_conjugates_bound_what_a_penalty_can_be(seed, penalty):
    rng = np.random.default_rng(seed)
    omega, matrix = rng.standard_normal((2, 4, 4))
    if isinstance(penalty, Trace):
        omega = omega @ omega.T
    product = float(np.sum(omega * matrix))
    if hasattr(penalty, "conjugate"):
        assert product <= penalty.value(omega) + penalty.conjugate(matrix) + 1e-9
    else:
        assert product <= penalty.polar(matrix) * penalty.value(omega) + 1e-9


@given(st.integers(0, 2**31), st.sampled_from(PARTS), st.floats(0.01, 3.0))
@settings(max_examples=60, deadline=None)
def test_a_proximal_step_is_better_than_what_lies_around_it(seed, penalty, step):
    rng = np.random.default_rng(seed)
    target = rng.standard_normal((4, 4))
    if isinstance(penalty, Trace):
        target = target + target.T
    near = penalty.prox(target, step)

    def value(omega):
        return 0.5 * np.sum((omega - target) ** 2) + step * penalty.value(omega)

    for size in (1e-3, 0.1, 1.0):
        other = near + size * rng.standard_normal((4, 4))
        if isinstance(penalty, Trace):
            other = penalty.prox(other + other.T, 0.0)
        assert value(near) <= value(other) + 1e-9


def test_the_named_model_and_its_parts_are_one():
    X = table(60, 8)
    selector = SPCAPSD(alpha=0.2, eta=0.2, n_features_to_select="support", tol=1e-8).fit(X)
    parts = (L21(selector.alpha_), Trace(selector.eta_))
    for solver in ("auto", "exact", Splitting(tol=1e-8), Factored(tol=1e-8), Exact(tol=1e-8)):
        found = solve(X, penalties=parts, solver=solver)
        assert isinstance(found, Solution)
        assert found.objective == pytest.approx(selector.objective_, rel=2e-4)
    centred = X - X.mean(axis=0)
    for moments in (Moments.from_data(X), Moments.from_scatter(centred.T @ centred, len(X))):
        from_moments = solve(moments, penalties=parts, solver=Factored(tol=1e-8))
        assert from_moments.objective == pytest.approx(selector.objective_, rel=1e-7)


def test_a_path_starts_from_the_last_solution():
    X = table(60, 8)
    first = solve(X, penalties=(L21(9.0), Trace(5.0)), solver=Factored())
    second = solve(X, penalties=(L21(8.0), Trace(5.0)), solver=Factored(), start=first.state)
    assert second.gap < 1e-4


@pytest.mark.parametrize("solver", [Splitting(tol=1e-8), Factored(tol=1e-8), Exact(tol=1e-8)])
def test_an_estimator_takes_a_solver_with_its_own_tolerance(solver, tmp_path):
    X = table(60, 8)
    selector = SPCAPSD(alpha=0.2, eta=0.2, n_features_to_select=3, solver=solver)
    again = clone(selector).fit(X)
    assert again.duality_gap_ <= 1e-8
    assert again.objective_ == pytest.approx(
        SPCAPSD(alpha=0.2, eta=0.2, n_features_to_select=3, tol=1e-8).fit(X).objective_, rel=1e-7
    )
    save_model(again, tmp_path / "model.skops")
    assert load_model(tmp_path / "model.skops").solver == solver


@pytest.mark.parametrize("psd", [True, False])
def test_the_sample_loss_by_parts_is_cspca(psd):
    X = table(40, 6)
    by_name = CSPCA(alpha=0.2, eta=0.2, psd=psd, n_features_to_select=3, tol=1e-6).fit(X)
    by_parts = clone(by_name).set_params(solver=Splitting(tol=1e-6)).fit(X)
    assert by_parts.objective_ == pytest.approx(by_name.objective_, rel=2e-6)
    rank = Trace(by_name.eta_) if psd else Nuclear(by_name.eta_)
    found = solve(X, loss=SampleNormLoss(), penalties=(L21(by_name.alpha_), rank))
    assert found.objective == pytest.approx(by_name.objective_, rel=2e-4)


def test_published_has_no_proof():
    found = solve(table(), penalties=(L21(4.0), Trace(6.0)), solver=Published(constants="paper"))
    assert found.gap is None
    best = optimum(table(), (L21(4.0), Trace(6.0)))
    assert best <= found.objective <= 1.2 * best


# What a user brings along: nothing below is imported from inside the package.


@dataclass
class PricedColumns:
    """A price for each feature: sum_j c_j ||m_j||, with the three methods and nothing else."""

    prices: np.ndarray

    def value(self, matrix):
        return float(self.prices @ np.linalg.norm(matrix, axis=0))

    def prox(self, matrix, step):
        norms = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
        return matrix * np.maximum(1 - step * self.prices / norms, 0)

    def polar(self, matrix):
        return float(np.max(np.linalg.norm(matrix, axis=0) / self.prices))


@dataclass
class ProximalGradient:
    """Slope of the loss, step of the one penalty, and so on: a solver of twelve lines."""

    steps: int = 3000
    requires = ("prox",)

    def solve(self, loss, penalties, *, start=None):
        (penalty,) = penalties
        omega = np.zeros((loss.n_features, loss.n_features)) if start is None else start
        history = []
        for _ in range(self.steps):
            omega = penalty.prox(omega - loss.gradient(omega) / loss.lipschitz, 1 / loss.lipschitz)
            history.append(loss.value(omega) + penalty.value(omega))
        return Solution(
            loadings=omega.T,
            objective=history[-1],
            gap=None,
            history=history,
            gap_history=[],
            n_iter=self.steps,
            converged=True,
            reason=f"{self.steps} steps",
        )


def test_a_penalty_of_the_users_own_is_solved_with_a_proof():
    X = table()
    prices = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    found = solve(X, penalties=(PricedColumns(prices), Trace(2.0)), solver=Splitting(tol=1e-6))
    assert found.converged
    Omega = cp.Variable((6, 6), symmetric=True)
    objective = (
        cp.sum_squares(X - X @ Omega) + prices @ cp.norm(Omega, axis=0) + 2.0 * cp.trace(Omega)
    )
    best = cp.Problem(cp.Minimize(objective), [Omega >> 0]).solve(solver="CLARABEL")
    assert found.objective == pytest.approx(best, rel=3e-6)


def test_a_solver_of_the_users_own_finds_the_same_optimum():
    X, penalty = table(), L21(4.0)
    own = solve(X, penalties=(penalty,), solver=ProximalGradient())
    assert own.objective == pytest.approx(solve(X, penalties=(penalty,)).objective, rel=1e-4)


def test_a_solver_of_the_users_own_serves_an_estimator():
    class Zero:
        requires = ()

        def solve(self, loss, penalties, *, start=None):
            value = loss.value(np.zeros((loss.n_features,) * 2))
            return Solution(np.zeros((loss.n_features, 1)), value, None, [value], [], 1, True, "0")

    X = table()
    selector = SPCAPSD(alpha=0.2, eta=0.2, n_features_to_select=2, solver=Zero())
    with pytest.warns(UserWarning, match="SPCAPSD"):
        selector.fit(X)
    assert selector.objective_ == pytest.approx(np.sum(X**2))


def test_what_cannot_be_done_is_said():
    X = table()
    with pytest.raises(TypeError, match=r"Splitting calls prox\(\) of every penalty, and L2p"):
        solve(X, penalties=(L2p(1.0),))
    with pytest.raises(TypeError, match="Factored takes SquaredLoss with the penalties L21 and"):
        solve(X, penalties=(L1(1.0),), solver="factored")
    with pytest.raises(TypeError, match="takes the penalties L21"):
        solve(X, loss=SampleNormLoss(), penalties=(L1(1.0),))
    with pytest.raises(TypeError, match="with a free mean"):
        solve(X, loss=SampleNormLoss(free_mean=True), penalties=(L21(1.0), Trace(1.0)))
    with pytest.raises(ValueError, match="needs a penalty"):
        solve(X, penalties=())
    with pytest.raises(ValueError, match="solver='fast' is not one of"):
        solve(X, penalties=(L1(1.0),), solver="fast")
    with pytest.raises(ValueError, match="solver=3 is not one of"):
        SPCAPSD(solver=3).fit(X)
    with pytest.raises(ValueError, match="need the samples"):
        SampleNormLoss().on(Moments.from_scatter(X.T @ X, 40))
    with pytest.raises(ValueError, match="for 1 use L21"):
        L2p(1.0, power=1.0)
    with pytest.raises(ValueError, match="use L1"):
        ElasticNet(1.0, ratio=1.0)

    class Other:
        def on(self, moments):
            return self

    with pytest.raises(TypeError, match="Splitting takes SquaredLoss or SampleNormLoss, not Other"):
        solve(X, loss=Other(), penalties=(L1(1.0),))


def test_a_strength_of_zero_is_no_penalty():
    zero = np.zeros((3, 3))
    for penalty in (L21(0.0), L1(0.0), Nuclear(0.0), Trace(0.0)):
        assert penalty.polar(zero) == 0
        assert penalty.polar(np.eye(3)) == float("inf")
    for penalties in ((L1(0.0),), (L21(0.0),), (L21(0.0), Trace(0.0))):
        for solver in ("auto", "splitting") + ("exact", "factored") * (len(penalties) - 1):
            found = solve(table(), penalties=penalties, solver=solver)
            assert found.converged
            assert found.objective == pytest.approx(0, abs=1e-9)  # every sample is reproduced
    assert Trace(1.0).value(-np.eye(3)) == float("inf")
    assert Trace(1.0).value(np.triu(np.ones((3, 3)))) == float("inf")


@pytest.mark.parametrize(
    "parts", [(L21(2.0), L21(3.0), Trace(4.0)), (L21(5.0), Trace(1.0), Trace(3.0))], ids=str
)
def test_penalties_of_one_kind_add_up(parts):
    X = table()
    found = solve(X, penalties=parts, solver=Splitting(tol=1e-6, max_iter=5000))
    whole = solve(X, penalties=(L21(5.0), Trace(4.0)), solver=Splitting(tol=1e-8))
    assert found.converged
    assert found.objective == pytest.approx(whole.objective, rel=3e-6)
    with pytest.raises(TypeError, match="Factored takes SquaredLoss with the penalties L21 and"):
        solve(X, penalties=parts, solver="factored")


def test_a_free_mean_goes_with_the_cone_alone():
    X = table(30, 5, seed=2)
    X[:3] += 4.0  # a few samples that pull the mean
    X -= X.mean(axis=0)
    loss = SampleNormLoss(free_mean=True)
    cone, free = (
        solve(X, loss=loss, penalties=parts, solver=Splitting(tol=1e-6))
        for parts in ((L21(8.0), Trace(0.0)), (L21(8.0),))
    )
    held = solve(X, loss=SampleNormLoss(), penalties=(L21(8.0), Trace(0.0)))
    assert cone.gap <= 1e-6
    assert free.gap <= 1e-6
    assert free.objective <= cone.objective * (1 + 1e-6) <= held.objective * (1 - 1e-4)


def test_the_slope_of_the_squared_loss():
    loss = SquaredLoss().on(Moments.from_data(table()))
    rng = np.random.default_rng(1)
    omega, direction = rng.standard_normal((2, 6, 6))
    slope = (loss.value(omega + 1e-6 * direction) - loss.value(omega - 1e-6 * direction)) / 2e-6
    assert slope == pytest.approx(float(np.sum(loss.gradient(omega) * direction)), rel=1e-6)
    for symmetric in (True, False):
        centre = omega + omega.T if symmetric else omega
        near = loss.nearest(centre, 3.0, symmetric=symmetric)
        rest = loss.gradient(near) + 3.0 * (near - centre)
        rest = rest + rest.T if symmetric else rest
        np.testing.assert_allclose(rest, 0, atol=1e-9)


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_another_step_size_leaves_the_multipliers_as_they_are(factor):
    loss = SquaredLoss().on(Moments.from_data(table()))
    blocks = _Blocks(loss, (L21(4.0), L1(1.5), Trace(6.0)))
    (first, *_), (rho,) = blocks.start()
    targets = tuple(first + 0.1 * k * np.eye(6) for k in range(3))
    plain, moved = (blocks.split(targets, (rho,), (by,)) for by in (1.0, factor))
    assert moved.steps[0] == pytest.approx(factor * rho)
    for one, other in zip(plain.duals, moved.duals, strict=True):
        np.testing.assert_allclose(moved.steps[0] * other, plain.steps[0] * one, rtol=1e-12)
