"""The largest eigenvalue of noise, in closed form and against simulated spectra."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard

from jointsparse import Moments
from jointsparse.solvers.picking import noise_edge
from jointsparse.solvers.picking.noise_edge import (
    TRACY_WIDOM_95,
    Edge,
    sample_levels,
    separable_edge,
    sequential_edge,
)
from jointsparse.solvers.picking.patterns import patterns_of

EQUAL = np.ones(1)


@pytest.mark.parametrize(
    ("n", "p"), [(1, 1), (2, 1), (3, 5), (100, 400), (50, 50), (10**6, 2), (3, 10**6)]
)
def test_equal_variances_have_the_edge_and_the_unit_of_johnstone(n, p):
    edge = separable_edge(np.full(7, 2.0), EQUAL, n_rows=n, n_columns=p)
    assert edge.bulk == pytest.approx(2 * (n**0.5 + p**0.5) ** 2, rel=1e-12)
    unit = 2 * (n**0.5 + p**0.5) * (n**-0.5 + p**-0.5) ** (1 / 3)
    assert edge.unit == pytest.approx(unit, rel=1e-10)
    assert edge.upper == pytest.approx(edge.bulk + TRACY_WIDOM_95 * edge.unit)


def simple_edge(variances, n, p):
    """Minimise z(h) = n/h + κ Σ d/(1 - dh) on a fine grid: another way to the number."""
    d = variances / variances.max()
    h = 1 / (1 + np.geomspace(1e-6, 1e6, 400_001))
    z = n / h
    for value, count in zip(*np.unique(d, return_counts=True), strict=True):
        z = z + p / d.size * count * value / (1 - value * h)
    at = int(np.argmin(z))
    best = h[at]
    second = 2 * n / best**3 + 2 * p / d.size * np.sum((d / (1 - d * best)) ** 3)
    return variances.max() * z[at], variances.max() * (second / 2) ** (1 / 3)


@pytest.mark.parametrize("n", [5, 100, 3000])
def test_different_variances_with_equal_samples_equal_the_simple_formula(n):
    variances = np.repeat([0.1, 1.0, 5.0], [30, 50, 4])
    edge = separable_edge(variances, EQUAL, n_rows=n, n_columns=80)
    same = separable_edge(variances, np.ones(40), n_rows=n, n_columns=80)
    bulk, unit = simple_edge(variances, n, 80)
    assert edge.bulk == pytest.approx(bulk, rel=1e-8)
    assert edge.unit == pytest.approx(unit, rel=1e-4)  # the grid's place of the minimum
    assert same.bulk == pytest.approx(edge.bulk, rel=1e-12)
    assert same.unit == pytest.approx(edge.unit, rel=1e-9)


@given(st.integers(0, 10**6))
def test_features_and_samples_play_the_same_part(seed):
    # XᵀX and XXᵀ have the same eigenvalues.
    rng = np.random.default_rng(seed)
    n, p = rng.integers(1, 60, 2)
    d, a = rng.lognormal(0, rng.uniform(0, 3), p), rng.lognormal(0, rng.uniform(0, 3), n)
    rows, columns = n * rng.uniform(0.1, 1), p * rng.uniform(0.1, 1)
    one = separable_edge(d, a, n_rows=rows, n_columns=columns)
    other = separable_edge(a, d, n_rows=columns, n_columns=rows)
    assert one.bulk == pytest.approx(other.bulk, rel=1e-9)
    assert one.unit == pytest.approx(other.unit, rel=1e-5)
    assert one.unit > 0
    scaled = separable_edge(1e9 * d, a, n_rows=rows, n_columns=columns)
    assert scaled.upper == pytest.approx(1e9 * one.upper, rel=1e-9)


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_no_other_place_of_the_curve_is_lower(seed):
    rng = np.random.default_rng(seed)
    n, p = rng.integers(1, 40, 2)
    d, a = rng.lognormal(0, 1.5, p), rng.lognormal(0, 1.5, n)
    edge = separable_edge(d, a, n_rows=n, n_columns=p)
    for h in (1 - np.geomspace(1e-3, 0.999, 15)) / d.max():
        value = float(np.sum(d * h / (1 - d * h)))
        low, high = 0.0, 1 / a.max()
        for _ in range(200):
            u = (low + high) / 2
            low, high = (u, high) if np.sum(a * u / (1 - a * u)) < value else (low, u)
        assert value / (low * h) >= edge.bulk * (1 - 1e-9)


def test_two_variances_and_two_levels_agree_with_simulated_spectra():
    rng = np.random.default_rng(3)
    n, p = 120, 200
    d, a = np.repeat([1.0, 4.0], [150, 50]), np.repeat([0.5, 2.0], [80, 40])
    roots = np.sqrt(a)[:, None] * np.sqrt(d)
    largest = [
        np.linalg.eigvalsh((x := roots * rng.standard_normal((n, p))) @ x.T)[-1] for _ in range(400)
    ]
    edge = separable_edge(d, a, n_rows=n, n_columns=p)
    assert edge.upper == pytest.approx(np.quantile(largest, 0.95), rel=0.03)
    # The unit is that of the law, whose standard deviation is 1.268: not a factor fitted here.
    assert edge.unit == pytest.approx(np.std(largest) / 1.268, rel=0.15)


@pytest.mark.parametrize("spread", [0.1, 1, 6, 12])
def test_newton_and_the_bracket_find_the_same_edge(spread, monkeypatch):
    rng = np.random.default_rng(int(10 * spread))
    tables = [np.exp(spread * rng.standard_normal(size)) for size in (1, 7, 60, 40)]
    tables[2][0] *= 1e15
    levels = [a / a.mean() for a in tables[::-1]]
    pairs = list(zip(tables, levels, strict=True))
    fast = [separable_edge(d, a, n_rows=a.size - 0.5, n_columns=d.size) for d, a in pairs]
    monkeypatch.setattr(noise_edge, "NEWTON_STEPS", 0)  # it does not come to an end
    for (d, a), found in zip(pairs, fast, strict=True):
        sure = separable_edge(d, a, n_rows=a.size - 0.5, n_columns=d.size)
        assert found.bulk == pytest.approx(sure.bulk, rel=1e-11)
        assert found.unit == pytest.approx(sure.unit, rel=1e-6)


def test_no_noise_has_no_edge():
    assert separable_edge(np.zeros(4), EQUAL, n_rows=3, n_columns=4) == Edge(0.0, 0.0)
    assert separable_edge(np.zeros(0), EQUAL, n_rows=3, n_columns=0) == Edge(0.0, 0.0)


def test_a_loud_feature_or_sample_among_quiet_ones_has_the_last_word():
    # Its own squared length, up to what the others add: far above the edge of the others.
    loud = np.ones(100)
    loud[0] = 1e6
    one = separable_edge(loud, EQUAL, n_rows=50, n_columns=100)
    other = separable_edge(np.ones(50), loud, n_rows=100, n_columns=50)
    assert 50e6 < one.bulk < 2 * 50e6
    assert one.bulk == pytest.approx(other.bulk)


def test_levels_of_equal_gaussian_samples_are_drawn_to_one():
    rng = np.random.default_rng(0)
    rows = rng.chisquare(100, 400)
    levels, spread = sample_levels(rows, 2 / 100, 2 / 100)
    assert np.std(levels) < 0.3 * np.std(rows / rows.mean())
    assert spread < 0.06
    loud = np.concatenate([rows, [1600.0]])
    levels, spread = sample_levels(loud, 2 / 100, 2 / 100)
    assert levels[-1] == pytest.approx(1600 / loud.mean(), rel=0.05)
    assert np.std(levels[:-1]) < 0.1 + np.std(rows / rows.mean())


def test_levels_that_differ_are_kept_and_their_spread_is_told():
    rng = np.random.default_rng(0)
    true = rng.lognormal(0, 0.5, 500)
    levels, spread = sample_levels(true * rng.chisquare(200, 500), 2 / 200, 2 / 200)
    assert np.corrcoef(levels, true)[0, 1] > 0.95
    assert spread == pytest.approx(np.std(true) / true.mean(), rel=0.1)
    # Entries with heavy tails explain such differences; the levels stay, the spread does not.
    heavy, none = sample_levels(true * rng.chisquare(200, 500), 2 / 200, 1.0)
    assert none == 0.0
    assert np.std(heavy) > 0.4


@pytest.mark.parametrize("rows", [np.zeros(5), np.ones(5), np.ones(1)])
def test_samples_that_do_not_differ_have_equal_levels(rows):
    levels, spread = sample_levels(rows, 0.1, 0.1)
    assert levels.tolist() == [1.0]
    assert spread == 0.0


def test_patterns_are_counted_one_stage_after_the_other():
    # A strong pattern raises the noise edge so much that a weak one is seen without it only.
    rng = np.random.default_rng(5)
    X = rng.standard_normal((200, 100))
    X[:, :60] += 6 * rng.standard_normal((200, 1))
    X[:, 60:75] += rng.standard_normal((200, 1))
    patterns = patterns_of(Moments.from_data(X), standardised=False)
    first = separable_edge(patterns.squares / 199, EQUAL, n_rows=199, n_columns=100)
    assert patterns.values[1] < first.upper
    found = sequential_edge(patterns)
    assert found.n_patterns == 2
    assert not found.limited
    assert patterns.values[1] > found.edge > patterns.values[2]
    assert found.noise[:60].mean() == pytest.approx(1.0, rel=0.1)
    assert found.noise[75:].mean() == pytest.approx(1.0, rel=0.1)


def test_at_most_half_of_the_directions_are_patterns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 8)) * 4.0 ** -np.arange(8) @ hadamard(8)
    patterns = patterns_of(Moments.from_data(X), standardised=False)
    found = sequential_edge(patterns)
    assert found.n_patterns == 4
    assert found.limited
    assert found.edge == pytest.approx(patterns.values[4])
    assert math.isfinite(found.edge)


def series(seed=0):
    rng = np.random.default_rng(seed)
    return noise_edge._Series(rng.uniform(0.1, 1, 7) ** 2, 1.7)


@pytest.mark.parametrize("delta", [1e-3, 0.3, 20.0])
def test_a_series_its_elasticity_and_its_slopes_are_those_of_the_function(delta):
    found = series()

    def value(d):
        y = 1 / (found.largest + d)
        return 1.7 * np.sum(found.coefficients * y / (1 - found.coefficients * y))

    def slope(function, at, step=1e-5):
        """In the logarithm of δ."""
        return (function(at * math.exp(step)) - function(at * math.exp(-step))) / (2 * step)

    def in_y(d):
        return -math.log(found.largest + d)

    def elasticity(d):
        return slope(lambda x: math.log(value(x)), d) / slope(in_y, d)

    known = found.elasticity(delta)
    assert known[0] == pytest.approx(value(delta))
    assert known[1] == pytest.approx(elasticity(delta), rel=1e-6)
    log, elastic, value_x, elastic_x = found.with_slopes(delta)
    assert log == pytest.approx(math.log(value(delta)))
    assert elastic == pytest.approx(1 / known[1])
    assert value_x == pytest.approx(slope(lambda d: math.log(value(d)), delta), rel=1e-6)
    inverse = slope(lambda d: 1 / found.elasticity(d)[1], delta)
    assert elastic_x == pytest.approx(inverse, rel=1e-5)
    assert found.delta_at(value(delta)) == pytest.approx(delta, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_newton_needs_few_steps(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    one = noise_edge._Series(rng.uniform(0.2, 1, 30), 2.0)
    other = noise_edge._Series(rng.uniform(0.5, 1.5, 20), 1.0)
    monkeypatch.setattr(noise_edge, "NEWTON_STEPS", 7)
    found = noise_edge._by_newton(one, other)
    assert found is not None
    np.testing.assert_allclose(found, noise_edge._by_bracket(one, other), rtol=1e-5)
    # The edge is the least of f over y₁y₂ along f₁(y₁) = f₂(y₂) = f.
    value = found[0] * found[2]
    for factor in (0.99, 1.0, 1.01):
        deltas = [each.delta_at(factor * value) for each in (one, other)]
        place = (one.largest + deltas[0]) * (other.largest + deltas[1])
        assert factor * value * place >= found[0] * (1 - 1e-9)


@pytest.mark.parametrize("root", [-7.3, -0.2, 0.0, 0.9, 12.0])
def test_the_root_of_an_increasing_function_is_found_in_few_steps(root):
    calls = []

    def function(x):
        calls.append(x)
        return math.tanh(0.7 * (x - root)) + 0.1 * math.tanh(x - root) ** 3

    found = noise_edge._increasing_root(function, 1.0)
    assert abs(function(found)) <= noise_edge.PRECISION
    assert found == pytest.approx(root, abs=1e-6)
    assert len(calls) <= 12 + abs(root)


def test_sums_of_two_series_at_once_are_those_of_each():
    one, other = series(), series(seed=1)
    equal = noise_edge._Series(np.full(6, 0.4), 2.0)
    for pair in ((one, other), (equal, other)):
        alone = [each.sums(delta) for each, delta in zip(pair, (0.3, 2.0), strict=True)]
        np.testing.assert_allclose(noise_edge._Pair(*pair).sums(0.3, 2.0), alone, rtol=1e-12)
        np.testing.assert_allclose(noise_edge._OneByOne(*pair).sums(0.3, 2.0), alone, rtol=1e-12)
