"""Lower bounds: never above the optimum, and never below the plain bound that they improve on."""

from types import SimpleNamespace

import numpy as np
import pytest
from oracles import planted_problem, sample_loss_optimum, spca_psd_optimum

from jointsparse.linalg import Spectrum
from jointsparse.solvers.convex.certificate import (
    consistent_move,
    dual_point_of_cone,
    dual_value,
    dual_value_of_cone,
    dual_value_samples_cone,
    dual_value_samples_free,
    relative_gap,
)
from jointsparse.solvers.convex.low_rank_basis import SHIFTS, Basis, DualPoint
from jointsparse.solvers.convex.model import (
    ConvexModel,
    factor_on,
    factor_scores,
    largest_lam,
    nonempty_lam,
)
from jointsparse.solvers.convex.stationarity import Stationarity, secular_norms
from jointsparse.solvers.wide import certificate as wide_certificate

LAM, ETA = 0.03, 0.02
RNG = np.random.default_rng(0)
S, _ = planted_problem(8, 1)
OPTIMUM, OMEGA = spca_psd_optimum(S, LAM, ETA)
SPECTRUM = Spectrum.of(3 * S)
MODEL = ConvexModel.in_data_units(SPECTRUM, 3 * LAM, 3 * ETA)
VECTORS = SPECTRUM.vectors


def symmetric(A):
    return (A + A.T) / 2


def plain_bound(omega, V, budget=ETA + LAM):
    """The bound of the module's text, with p × p matrices in the basis of the features."""
    H = 2 * S - S @ omega - omega @ S - LAM * symmetric(V)
    delta = max(0.0, np.linalg.eigvalsh(H)[-1] - ETA)
    a = 2 * (np.trace(S) - np.sum(S * omega))
    b = np.trace(S) - 2 * np.sum(S * omega) + np.trace(omega @ S @ omega)
    c = min(budget / (budget + delta), max(a / (2 * b), 0.0))
    return c * a - c**2 * b


def points():
    unit = OMEGA / np.maximum(np.linalg.norm(OMEGA, axis=0), 1e-9)
    for near in (0.0, 1e-3, 0.1, 1.0):
        A = near * symmetric(RNG.standard_normal((8, 8)))
        V = unit + near * RNG.standard_normal((8, 8))
        yield OMEGA + A, V / np.maximum(1.0, np.linalg.norm(V, axis=0))
    for shorter, share in ((0.9, 1.0), (0.95, 0.5), (0.98, 1.0)):
        yield shorter * OMEGA, share * unit
    yield np.zeros((8, 8)), np.zeros((8, 8))
    yield 5 * np.eye(8), np.zeros((8, 8))  # where nothing but 0 can be proved


@pytest.mark.parametrize(("omega", "V"), list(points()))
def test_bounds_lie_between_the_plain_one_and_the_optimum(omega, V):
    rotated = VECTORS.T @ omega @ VECTORS
    found = dual_value(MODEL, rotated, LAM * VECTORS.T @ V)
    assert max(plain_bound(omega, V), 0.0) - 1e-12 <= found <= OPTIMUM + 1e-7
    whole = Basis(SPECTRUM.values, VECTORS, S @ VECTORS)
    point = DualPoint(MODEL, whole, 0.0, rotated, LAM * VECTORS.T @ V)
    certificate = point.certificate()
    assert certificate.value >= max(plain_bound(omega, V, ETA), 0.0) - 1e-12
    assert certificate.value <= OPTIMUM + 1e-7
    assert point.own_bound() == pytest.approx(certificate.value, abs=1e-9)  # nothing is outside
    assert certificate.scale <= certificate.limit <= 1
    excess = max(0.0, np.linalg.eigvalsh(point.inner)[-1] - ETA)
    if excess > 0:  # for every share of the excess that V may take, something must be shortened
        assert certificate.limit < 1
    else:
        assert certificate.limit == 1
    # the best of a few shares of the excess, with every column written out
    values, frame = np.linalg.eigh(point.inner)
    excess = np.maximum(values - ETA, 0.0)
    bounds = [0.0]
    for shift in excess.max() * np.asarray(SHIFTS):
        lift = (frame * np.maximum(excess - shift, 0.0)) @ frame.T @ VECTORS.T
        longest = np.linalg.norm(LAM * VECTORS.T @ V + lift, axis=0).max()
        c = min(
            ETA / (ETA + shift), LAM / max(longest, LAM / 2), point.slope / (2 * point.curvature)
        )
        bounds.append(max(c, 0.0) * point.slope - max(c, 0.0) ** 2 * point.curvature)
    assert certificate.value == pytest.approx(max(bounds), rel=1e-6, abs=1e-12)
    multipliers = certificate.scale * certificate.inside
    assert np.linalg.norm(multipliers, axis=0).max() <= LAM + 1e-12
    H = 2 * S - S @ omega - omega @ S - LAM * symmetric(V)
    values, axes = np.linalg.eigh(H)
    G = (axes * np.minimum(values, ETA)) @ axes.T
    remainder = VECTORS.T @ (H - G) @ VECTORS
    assert dual_value_of_cone(MODEL, rotated, remainder) <= OPTIMUM + 1e-7
    dual = dual_point_of_cone(MODEL, rotated, remainder)
    moved = dual.basis @ dual.rotated @ dual.basis.T
    np.testing.assert_allclose(moved, moved.T, atol=1e-12)
    # P = 2c(X - XΩ) is feasible with V' = c(V + δ/(η+λ) I), see the module's text
    c = dual.limit
    slack = 2 * S - S @ moved - moved @ S
    V_feasible = c * V + (1 - c) * np.eye(8)
    matrix = c * slack - LAM * symmetric(V_feasible)
    assert np.linalg.eigvalsh(matrix)[-1] <= ETA + 1e-12


def test_one_direction_above_is_not_given_to_the_multipliers_where_they_are_short():
    s = SPECTRUM.values
    eta = 2.2 * float(s[-2])  # only the largest eigenvalue of 2S is above
    assert 2 * s[-1] > eta > 2 * s[-2]
    model = ConvexModel.in_data_units(SPECTRUM, 3e-6, 3 * eta)
    nothing = np.zeros((8, 8))
    point = DualPoint(model, Basis(s, VECTORS, S @ VECTORS), 0.0, nothing, nothing)
    # Ω = V = 0, shortened by c = η/(2s₁): the value is 2c - c², as tr S = 1
    c = eta / (2 * s[-1])
    assert point.certificate().value == pytest.approx(2 * c - c**2, rel=1e-3)


def test_the_bound_is_tight_at_the_optimum():
    lam, eta = 1e-4, 1e-3
    optimum, omega = spca_psd_optimum(S, lam, eta)
    lengths = np.linalg.norm(omega, axis=0)
    assert np.all(lengths > 1e-3)  # no feature vanishes: then V is known
    model = ConvexModel.in_data_units(SPECTRUM, 3 * lam, 3 * eta)
    found = dual_value(model, VECTORS.T @ omega @ VECTORS, lam * VECTORS.T @ (omega / lengths))
    assert optimum * (1 - 1e-5) <= found <= optimum * (1 + 1e-6)


@pytest.mark.parametrize("more", [1.05, 1.2, 1.45])
def test_a_good_point_of_smaller_penalties_proves_no_more_than_it_should(more):
    optimum, _ = spca_psd_optimum(S, more * LAM, more * ETA)
    model = ConvexModel.in_data_units(SPECTRUM, 3 * more * LAM, 3 * more * ETA)
    for shorter in (0.99, 1.0):
        for share in (0.5, 0.9, 1.0):
            V = share * OMEGA / np.maximum(np.linalg.norm(OMEGA, axis=0), 1e-9)
            rotated = VECTORS.T @ (shorter * OMEGA) @ VECTORS
            found = dual_value(model, rotated, more * LAM * VECTORS.T @ V)
            assert 0 < found <= optimum + 1e-7


def test_features_outside_the_working_set(monkeypatch):
    X = RNG.standard_normal((5, 9)) / 10
    lam, eta = 0.3, 0.05
    monkeypatch.setattr(wide_certificate, "_pull", lambda frame, rotated: np.zeros((2, 5)))
    frame = SimpleNamespace(missed=np.zeros((5, 5)))
    found = wide_certificate.Dropped.of(X, frame, np.zeros((2, 2)), lam, eta)
    values, vectors = np.linalg.eigh(2 * X.T @ X)
    V = (vectors * np.maximum(values - eta, 0)) @ vectors.T / lam
    np.testing.assert_allclose(found.diagonal, np.diag(V), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.squares, np.sum(V**2, axis=0), rtol=1e-6, atol=1e-9)


def test_a_consistent_move_solves_its_equation():
    R = symmetric(RNG.standard_normal((8, 8)))
    s = np.diag(SPECTRUM.values)
    move = consistent_move(MODEL, R, 0.01)
    shift = 0.01 * (ETA + LAM)
    np.testing.assert_allclose(s @ move + move @ s + shift * move, R, atol=1e-12)


@pytest.mark.parametrize("eta", [0.0, 0.4])
def test_bounds_for_the_sum_over_samples(eta):
    X = RNG.standard_normal((6, 4))
    lam = 0.5
    cone = sample_loss_optimum(X, lam, eta, psd=True, free_mean=False)[0]
    free = sample_loss_optimum(X, lam, eta, psd=False, free_mean=False)[0]
    for trial in range(10):
        P = RNG.standard_normal((6, 4))
        P /= np.maximum(1.0, np.linalg.norm(P, axis=1))[:, None]
        if trial < 5:
            P = X / np.linalg.norm(X, axis=1)[:, None]  # the dual point of Ω = 0
        V = RNG.standard_normal((4, 4))
        V /= np.linalg.norm(V, axis=0) * RNG.uniform(1, 2, 4)
        value, moment = float(np.sum(P * X)), P.T @ X
        found = dual_value_samples_cone(value, moment - lam * V, lam, eta)
        excess = max(0.0, np.linalg.eigvalsh(symmetric(moment - lam * V))[-1] - eta)
        assert found == pytest.approx(value * (eta + lam) / (eta + lam + excess))
        assert found <= cone + 1e-6
        Q = RNG.standard_normal((4, 4))
        Q *= eta / np.linalg.norm(Q, 2)
        found = dual_value_samples_free(value, moment, lam * V, Q if eta else None, lam, eta)
        assert found <= free + 1e-6
        if eta == 0:
            simple = value / max(1.0, np.linalg.norm(moment, axis=0).max() / lam)
            assert found == pytest.approx(simple)
            continue
        # never worse than giving what is missing to V, to Q, or to both by their penalties
        missing = moment - lam * V - Q
        for share in (0.0, 1.0, lam / (lam + eta)):
            columns = np.linalg.norm(lam * V + share * missing, axis=0).max() / lam
            operator = np.linalg.norm(Q + (1 - share) * missing, 2) / eta
            assert found >= value / max(1.0, columns, operator) - 1e-12


def test_relative_gaps():
    assert relative_gap(4.0, 3.0) == 0.25
    assert relative_gap(4.0, 5.0) == 0
    assert relative_gap(0.0, -1.0) == 0


def test_factors_and_their_scores():
    U = RNG.standard_normal((5, 2))
    omega = U @ U.T
    np.testing.assert_allclose(factor_scores(U), np.linalg.norm(omega, axis=0))
    kept = np.array([True, False, True, True, False, True, True])
    whole = np.zeros((7, 7))
    whole[np.ix_(kept, kept)] = omega
    for given in (omega, whole):
        factor = factor_on(given, kept)
        assert factor.shape == (7, 2)
        np.testing.assert_allclose(factor @ factor.T, whole, atol=1e-12)
        lengths = np.linalg.norm(factor, axis=0)
        assert lengths[0] > lengths[1]
        assert not factor[~kept].any()
    assert factor_on(np.zeros((3, 3)), np.zeros(3, dtype=bool)).shape == (3, 0)


def test_penalties_that_empty_the_model_and_that_do_not():
    X = RNG.standard_normal((20, 5)) * [3, 1, 1, 2, 1]
    spectrum = Spectrum.of(X.T @ X)
    for eta in (0.0, 10.0):
        Q = 2 * X.T @ X - eta * np.eye(5)
        values, vectors = np.linalg.eigh(Q)
        positive = (vectors * np.maximum(values, 0)) @ vectors.T
        most = largest_lam(spectrum, eta)
        assert most == pytest.approx(np.linalg.norm(positive, axis=0).max())
        least = nonempty_lam(X, eta)
        assert 0.5 * most < least < most
        # the gain of leading eigenvectors on the 1, 2, 4 and all 5 features of largest variance
        gains = []
        for size in (1, 2, 4, 5):
            top = np.argsort(-np.sum(X**2, axis=0))[:size]
            values, vectors = np.linalg.eigh(Q[np.ix_(top, top)])
            gains.append(values[-1] / np.abs(vectors[:, -1]).sum())
        assert least == pytest.approx(max(gains))
    assert nonempty_lam(X, 1e9) == 0


def test_secular_equations_are_solved():
    squares, tau = RNG.uniform(0.1, 4.0, (6, 3)), np.array([0.5, 1.0, 100.0])
    squares[2] = 0.01
    norms = secular_norms(squares, tau, 0.5)
    assert norms[2] == 0
    alive = norms > 0
    assert alive.sum() == 5
    sums = np.sum(squares / (0.5 + tau * norms[:, None]) ** 2, axis=1)
    np.testing.assert_allclose(sums[alive], 1, rtol=1e-9)
    assert not secular_norms(np.full((2, 3), 1e-3), tau, 0.5).any()


def test_stationarity_reproduces_an_optimum():
    kept = np.linalg.norm(OMEGA, axis=0) > 1e-5
    U = factor_on(OMEGA[np.ix_(kept, kept)], kept)
    found = Stationarity.of(U, S @ U, LAM, ETA)
    np.testing.assert_allclose(found.norms[kept], factor_scores(U)[kept], rtol=2e-2)
    V = found.axes @ found.multiplier(found.axes)
    lengths = np.linalg.norm(V, axis=0)
    np.testing.assert_allclose(lengths[kept], 1, rtol=1e-6)
    assert np.all(lengths <= 1 + 1e-6)
    columns = OMEGA[:, kept] / np.linalg.norm(OMEGA[:, kept], axis=0)
    np.testing.assert_allclose(V[:, kept], columns, atol=0.05)
    np.testing.assert_allclose(found.axes.T @ found.axes, np.eye(found.axes.shape[1]), atol=1e-9)
    # columns of F span those of Ω
    F = found.columns()
    rest = OMEGA - F @ np.linalg.lstsq(F, OMEGA, rcond=None)[0]
    assert np.linalg.norm(rest) < 0.02 * np.linalg.norm(OMEGA)
