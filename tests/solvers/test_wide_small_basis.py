"""Many features through products only: the small basis, its proof, sparse data, the fall-back."""

import numpy as np
import pytest
import scipy.sparse as sp
from oracles import spca_psd_objective

from jointsparse.linalg import Spectrum
from jointsparse.operators.dense import DenseSamples
from jointsparse.operators.sparse import SparseSamples
from jointsparse.solvers.convex import low_rank as convex_low_rank
from jointsparse.solvers.convex.low_rank import RestrictedLoss
from jointsparse.solvers.convex.model import factor_scores, largest_eta, largest_lam
from jointsparse.solvers.convex.splitting import solve_splitting
from jointsparse.solvers.wide import convex as convex_wide
from jointsparse.solvers.wide import penalties as wide_penalties
from jointsparse.solvers.wide import scatter_access
from jointsparse.solvers.wide.convex import TooManyDirectionsError, check_memory, solve_wide
from jointsparse.solvers.wide.penalties import largest_lam_wide, leading_eigenvalues
from jointsparse.solvers.wide.rounds import solve_in_full_range
from jointsparse.solvers.wide.scatter_access import DataScatter


def wide_data(seed, n, p, planted):
    """X of trace 1 with a rank-3 signal on some of the features."""
    rng = np.random.default_rng(seed)
    X = 0.3 * rng.standard_normal((n, p)) * 10 ** rng.uniform(-0.7, 0.0, p)
    X[:, :planted] += rng.standard_normal((n, 3)) @ rng.standard_normal((3, planted))
    X -= X.mean(axis=0)
    return X / np.linalg.norm(X)


def test_dual_points_are_feasible_for_all_features(monkeypatch):
    """Written out with p × p matrices; what was screened is put back as the docstring says."""
    X = wide_data(0, 12, 90, 40)
    lam, eta = 0.02, 0.05
    points = []
    original = RestrictedLoss.dual_point

    def spy(self, copies):
        point = original(self, copies)
        points.append((self, self.consistent(copies), point.certificate()))
        return point

    monkeypatch.setattr(RestrictedLoss, "dual_point", spy)
    solution = solve_wide(X, lam, eta, tol=1e-6)
    assert solution.gap <= 1e-6
    alive = ~solution.proved_zero
    assert 0 < alive.sum() < 90
    kept = X[:, alive]
    assert any(loss.vectors.shape[1] < alive.sum() for loss, _, _ in points)
    for loss, rotated, found in points:
        omega = loss.vectors @ rotated @ loss.vectors.T
        P = 2 * found.scale * (kept - kept @ omega)
        pull = found.scale * loss.vectors @ found.inside
        assert np.linalg.norm(pull, axis=0).max() <= lam * (1 + 1e-9)
        matrix = P.T @ kept - pull
        assert np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1] <= eta * (1 + 1e-9)
        reduced = np.sum(P * kept) - np.sum(P**2) / 4
        # features that are zero in every optimum add their variance, and the bound no more
        assert found.value <= reduced + 1 - np.sum(kept**2) + 1e-10


@pytest.mark.parametrize("n_limit", [6000, 3])
def test_what_lies_outside_the_basis_is_proved(monkeypatch, n_limit):
    monkeypatch.setattr(scatter_access, "LARGEST_GRAM", n_limit)
    X = wide_data(1, 30, 200, 100)
    basis, beta = DataScatter(DenseSamples(X), 1.0).leading(0.05, 200)
    W = basis.vectors
    rest = X - X @ W @ W.T
    top = 2 * np.linalg.norm(rest, 2) ** 2
    assert top <= beta < 0.05
    if n_limit == 6000:
        assert beta == pytest.approx(top, rel=1e-6, abs=1e-12)
    np.testing.assert_allclose(W.T @ W, np.eye(basis.size), atol=1e-12)
    np.testing.assert_allclose(basis.images, X.T @ (X @ W), atol=1e-12)
    assert DataScatter(DenseSamples(X), 1.0).leading(0.05, 1) is None
    assert DataScatter(DenseSamples(X), 1.0).proved_bound(basis, 0.5 * top) is None


@pytest.mark.parametrize("n_limit", [6000, 3])
def test_sparse_data_give_what_dense_data_give(monkeypatch, n_limit):
    for module in (scatter_access, convex_wide, wide_penalties):
        monkeypatch.setattr(module, "LARGEST_GRAM", n_limit)
    rng = np.random.default_rng(2)
    R = rng.poisson(0.3, (25, 150)) * 1.0
    R[:, :30] += np.outer(rng.poisson(2.0, 25), rng.random(30) < 0.7)
    X = R - R.mean(axis=0)
    data = SparseSamples(sp.csr_array(R), R.mean(axis=0))
    spectrum = Spectrum.of(X.T @ X)
    eta = 0.1 * largest_eta(spectrum)
    assert 2 * leading_eigenvalues(data, 1)[0] == pytest.approx(largest_eta(spectrum), rel=1e-5)
    assert largest_lam_wide(data, eta) == pytest.approx(largest_lam(spectrum, eta), rel=1e-3)
    lam = 0.1 * largest_lam(spectrum, eta)
    exact = solve_splitting(spectrum, lam, eta, tol=1e-7)
    solution = solve_wide(data, lam, eta, tol=1e-6)
    assert solution.gap <= 1e-6
    assert solution.objective == pytest.approx(exact.objective, rel=2e-6)
    assert solution.objective * (1 - solution.gap) <= exact.objective * (1 + 1e-12)
    np.testing.assert_allclose(
        factor_scores(solution.loadings), factor_scores(exact.loadings), atol=0.02
    )


def test_eigenvalues_from_products_alone(monkeypatch):
    X = wide_data(3, 60, 300, 200)
    expected = np.linalg.svd(X, compute_uv=False) ** 2
    np.testing.assert_allclose(leading_eigenvalues(DenseSamples(X), 4), expected[:4])
    monkeypatch.setattr(wide_penalties, "LARGEST_GRAM", 3)
    np.testing.assert_allclose(leading_eigenvalues(DenseSamples(X), 4), expected[:4], rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_full_range_takes_over_where_the_small_basis_stalls(monkeypatch, dtype):
    X = wide_data(4, 10, 80, 50).astype(dtype)
    exact = X.astype(float)
    optimum = solve_splitting(Spectrum.of(exact.T @ exact), 0.01, 0.02, tol=1e-8).objective
    monkeypatch.setattr(convex_low_rank, "MOST_ROUNDS", 1)
    asked = []

    def spy(*args, first, **kwargs):
        asked.append(first)
        return solve_in_full_range(*args, first=first, **kwargs)

    monkeypatch.setattr(convex_wide, "solve_in_full_range", spy)
    solution = solve_wide(X, 0.01, 0.02, tol=1e-5, keep_state=True)
    assert len(asked) == 1
    assert not asked[0].converged
    assert solution.gap <= 1e-5
    assert solution.n_iter == len(solution.history) > asked[0].n_iter
    assert np.all(np.diff(solution.history) <= 1e-9)
    assert solution.objective == pytest.approx(optimum, rel=1.1e-5)
    # the state of such a run serves as well
    monkeypatch.undo()
    warm = solve_wide(X, 0.009, 0.02, start=solution.state)
    assert warm.gap <= 1e-4


@pytest.mark.parametrize(("lam", "eta"), [(2e-4, 1e-8), (1e-6, 1e-7), (1e-7, 1e-6)])
def test_a_tiny_eta_is_proved_in_a_basis_that_does_not_outgrow_the_samples(monkeypatch, lam, eta):
    """A bound that divides by η would ask for ever more columns, and prove nothing meanwhile."""
    X = wide_data(12, 40, 300, 120)
    sizes = []
    original = RestrictedLoss.dual_point

    def spy(self, copies):
        point = original(self, copies)
        sizes.append(self.vectors.shape[1])
        return point

    monkeypatch.setattr(RestrictedLoss, "dual_point", spy)
    solution = solve_wide(X, lam, eta)
    assert solution.converged
    assert solution.gap <= 1e-4
    assert max(sizes) <= convex_wide.LARGEST_OF_SAMPLES * 40
    # neither bound is above what the other way reaches
    other = solve_in_full_range(X, lam, eta, 1.0, tol=1e-4, max_iter=1000)
    assert other.gap <= 1e-4
    assert solution.objective * (1 - solution.gap) <= other.objective * (1 + 1e-9)
    assert other.objective * (1 - other.gap) <= solution.objective * (1 + 1e-9)


def test_what_leaves_the_basis_is_taken_out_by_the_multipliers_where_eta_is_small(monkeypatch):
    X = wide_data(13, 30, 400, 200)
    found = []
    original = RestrictedLoss.dual_point

    def spy(self, copies):
        point = original(self, copies)
        found.append((point.certificate().value, point.uncoupled().value, point.own_bound()))
        return point

    monkeypatch.setattr(RestrictedLoss, "dual_point", spy)
    solve_wide(X, 2e-3, 1e-7)
    assert all(one <= own * (1 + 1e-9) for *both, own in found for one in both)
    coupled, uncoupled, own = (max(bounds) for bounds in zip(*found, strict=True))
    assert coupled < 0.5 * own
    assert uncoupled > 0.9 * own


def test_full_range_alone():
    X = wide_data(5, 8, 60, 30)
    optimum = solve_splitting(Spectrum.of(X.T @ X), 0.02, 0.05, tol=1e-8).objective
    solution = solve_in_full_range(X, 0.02, 0.05, 1.0, tol=1e-5, max_iter=1000)
    assert solution.gap <= 1e-5
    assert solution.objective == pytest.approx(optimum, rel=1.1e-5)
    U = solution.loadings
    value = spca_psd_objective(X.T @ X, U @ U.T, 0.02, 0.05)
    assert solution.objective == pytest.approx(value, rel=1e-9)


def test_too_many_directions_are_refused_before_anything_is_made(monkeypatch):
    X = wide_data(6, 40, 400, 200)
    data = DenseSamples(X)
    eta = 1e-5
    monkeypatch.setattr(convex_wide, "bytes_to_use", lambda data: 40 * 400 * 128)  # 40 columns
    with pytest.raises(TooManyDirectionsError, match="directions matter") as raised:
        check_memory(data, eta)
    assert raised.value.count == 39  # all there are of centred data
    assert raised.value.eta > eta
    check_memory(data, raised.value.eta)  # the advice is good …
    with pytest.raises(TooManyDirectionsError):
        check_memory(data, 0.2 * raised.value.eta)  # … and not far from what is needed
    with pytest.raises(TooManyDirectionsError):
        solve_wide(X, 1e-6, eta)
    # what screening takes out does not count
    lam = 0.5 * largest_lam(Spectrum.of(X.T @ X), eta)
    assert solve_wide(X, lam, eta).gap <= 1e-4


def test_the_same_data_are_not_decomposed_twice(monkeypatch):
    X = wide_data(7, 20, 150, 150)
    first = solve_wide(X, 1e-3, 0.05, keep_state=True)
    assert not first.proved_zero.any()
    calls = []
    original = DataScatter.leading
    monkeypatch.setattr(DataScatter, "leading", lambda *args: calls.append(1) or original(*args))
    warm = solve_wide(X, 9e-4, 0.05, start=first.state, keep_state=True)
    assert warm.gap <= 1e-4
    assert not calls
    assert solve_wide(2 * X, 3.6e-3, 0.2, start=warm.state).gap <= 1e-4
    assert calls


def test_other_array_libraries():
    torch = pytest.importorskip("torch")
    X = wide_data(8, 15, 120, 40)
    expected = solve_wide(X, 0.01, 0.05)
    for dtype in (torch.float64, torch.float32):
        tensor = torch.asarray(X, dtype=dtype)
        found = solve_wide(tensor, 0.01, 0.05, keep_state=True)
        assert isinstance(found.loadings, torch.Tensor)
        assert found.loadings.dtype == dtype
        assert found.gap <= 1e-4
        assert found.objective == pytest.approx(expected.objective, rel=1e-4)
        again = solve_wide(tensor, 0.009, 0.05, start=found.state)
        assert again.gap <= 1e-4
    assert solve_wide(torch.asarray(X), 0.01, 0.0).gap <= 1e-4


@pytest.mark.parametrize("n_limit", [3, scatter_access.LARGEST_GRAM])
def test_an_eta_below_the_rounding_of_the_trace_is_left_to_the_full_range(monkeypatch, n_limit):
    # Nothing can be proved about what is outside a basis: 2S_RR ⪯ βI is known to 8 n eps only.
    for module in (scatter_access, convex_wide, wide_penalties):
        monkeypatch.setattr(module, "LARGEST_GRAM", n_limit)
    data = np.random.default_rng(0).standard_normal((6, 15))
    data[0] *= 1e9
    data -= data.mean(axis=0)
    total = np.sum(data**2)
    eta = total * 1e-15
    assert DataScatter(DenseSamples(data), total).leading(eta / total, 15) is None
    solution = solve_wide(data, 1e-3 * total, eta, tol=1e-4)
    assert solution.converged
    assert solution.gap <= 1e-4
    omega = solution.loadings @ solution.loadings.T
    value = spca_psd_objective(data.T @ data, omega, 1e-3 * total, eta)
    assert value == pytest.approx(solution.objective, rel=1e-6)


def above_noise(n=60, p=2000, seed=0):
    """Three directions, and noise as strong, whose eigenvalues are all just below those."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p))
    X += rng.standard_normal((n, p))
    X -= X.mean(axis=0)
    noise = np.linalg.eigvalsh(X @ X.T)[-4]
    return X, 2.1 * noise, 0.002 * np.sum(X**2)


def test_noise_below_eta_does_not_enter_the_basis(monkeypatch):
    X, eta, lam = above_noise()
    small = solve_wide(X, lam, eta)
    monkeypatch.setattr(scatter_access, "FEW", 10**9)
    large = solve_wide(X, lam, eta)
    assert small.converged
    assert large.converged
    assert small.diagnostics["basis size"] < large.diagnostics["basis size"] / 2
    apart = abs(small.objective - large.objective)
    assert apart <= max(small.gap, large.gap) * large.objective


def test_all_directions_follow_where_those_above_the_noise_are_not_enough(monkeypatch):
    X, eta, lam = above_noise()
    exact = solve_wide(X, lam, eta, tol=1e-7)
    with monkeypatch.context() as patch:
        patch.setattr(convex_low_rank, "MOST_ROUNDS", 1)
        forced = solve_wide(X, lam, eta, tol=1e-6)
    assert forced.converged
    assert forced.diagnostics["basis size"] > 60
    assert forced.n_iter == len(forced.history) == len(forced.gap_history)
    assert exact.objective * (1 - 1e-9) <= forced.objective
    assert forced.objective <= exact.objective * (1 + 1e-6)
