"""Features as part of patterns that were found without them."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import false_discovery_control, kstest

from jointsparse import Moments
from jointsparse.solvers.picking import feature_test
from jointsparse.solvers.picking.feature_test import (
    beyond_doubt,
    discoveries,
    leave_one_out,
    shares_and_pvalues,
)
from jointsparse.solvers.picking.patterns import patterns_of


def planted(seed, n, p, sizes, loading=1.0):
    """Features that share a factor in groups, and others of noise; standardised."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    start = 0
    for size in sizes:
        X[:, start : start + size] += loading * rng.standard_normal((n, 1))
        start += size
    X -= X.mean(axis=0)
    return X / X.std(axis=0)


def brute_force(X, count):
    """Return the share of each feature along the leading directions of all others."""
    found = np.empty(X.shape[1])
    for j in range(X.shape[1]):
        U = np.linalg.svd(np.delete(X, j, axis=1), full_matrices=False)[0][:, :count]
        found[j] = np.sum((U.T @ X[:, j]) ** 2) / np.sum(X[:, j] ** 2)
    return found


@pytest.mark.parametrize("shape", [(60, 30), (40, 100)])
def test_leaving_a_feature_out_agrees_with_doing_it(shape):
    close, signal_close, raw = [], [], []
    for seed in range(12):
        X = planted(seed, *shape, [10])
        patterns = patterns_of(Moments.from_data(X), standardised=True)
        found, exact = leave_one_out(patterns, 1), brute_force(X, 1)
        close.append((found[10:].mean(), exact[10:].mean()))
        signal_close.append((found[:10].mean(), exact[:10].mean()))
        raw.append(patterns.images(1)[10:].sum(axis=1).mean() / shape[0])
    noise, signal = np.mean(close, axis=0), np.mean(signal_close, axis=0)
    assert noise[0] == pytest.approx(noise[1], rel=0.05)
    assert signal[0] == pytest.approx(signal[1], rel=0.03)
    assert np.mean(raw) > 1.3 * noise[1]  # what it would be with the feature in


def test_noise_features_have_uniform_pvalues_and_share_nothing_on_average():
    pvalues, raw_shares = [], []
    for seed in range(15):
        X = planted(seed, 100, 200, [25, 25])
        patterns = patterns_of(Moments.from_data(X), standardised=True)
        pvalues.append(shares_and_pvalues(patterns, 2)[1][50:])
        T = leave_one_out(patterns, 2)[50:]
        raw_shares.append(np.mean(1 - (1 - T) * 99 / 97))
    assert kstest(np.concatenate(pvalues), "uniform").pvalue > 1e-3
    assert abs(np.mean(raw_shares)) < 0.002


@pytest.mark.parametrize(("shape", "sizes"), [((60, 30), [10]), ((40, 100), [20, 15, 10])])
def test_newtons_steps_end_where_repetition_would(shape, sizes, monkeypatch):
    patterns = patterns_of(Moments.from_data(planted(2, *shape, sizes)), standardised=True)
    found = leave_one_out(patterns, len(sizes))
    monkeypatch.setattr(feature_test, "STEPS", 0)
    monkeypatch.setattr(feature_test, "SETTLED", 1e-15)
    monkeypatch.setattr(feature_test, "ROUNDS", 1000)
    np.testing.assert_allclose(found, leave_one_out(patterns, len(sizes)), rtol=0, atol=1e-11)


@pytest.mark.parametrize("shape", [(60, 30), (40, 100)])
@pytest.mark.parametrize("count", [1, 3])
def test_equal_eigenvalues_are_as_good_as_their_number_and_mean(shape, count):
    whole = patterns_of(Moments.from_data(planted(0, *shape, [10])), standardised=True)
    lead, rest = whole.values[:4], whole.values[4:]
    one_by_one = replace(whole, values=np.r_[lead, np.full(rest.size, rest.mean())])
    by_mean = replace(whole, values=lead, others=(rest.size, rest.mean()))
    found = leave_one_out(by_mean, count)
    np.testing.assert_allclose(found, leave_one_out(one_by_one, count), rtol=0, atol=1e-12)


def test_a_signal_shares_what_the_others_know_of_its_factor():
    X = planted(1, 2000, 30, [10])
    patterns = patterns_of(Moments.from_data(X), standardised=True)
    shares, pvalues = shares_and_pvalues(patterns, 1)
    # Half of a feature is factor, of which nine others of that kind know nine tenths.
    assert shares[:10].mean() == pytest.approx(0.5 * 0.9, abs=0.03)
    assert np.all(pvalues[:10] < 1e-10)


def test_copies_share_everything():
    X = planted(1, 500, 30, [])
    X[:, 1:6] = X[:, :1] * [1, -1, 1, -1, 1]
    patterns = patterns_of(Moments.from_data(X), standardised=True)
    shares = shares_and_pvalues(patterns, 1)[0]
    assert np.all(shares[:6] > 0.98)
    assert np.all(shares[6:] < 0.1)


def test_the_unit_of_a_table_changes_no_share():
    X = planted(3, 60, 20, [8])
    shares = [
        leave_one_out(patterns_of(Moments.from_data(X * unit), standardised=False), 1)
        for unit in (1.0, 1e-3, 1e4)
    ]
    np.testing.assert_allclose(shares[1:], [shares[0]] * 2, rtol=1e-6)


def test_no_pattern_means_no_share():
    patterns = patterns_of(Moments.from_data(planted(0, 50, 10, [])), standardised=True)
    shares, pvalues = shares_and_pvalues(patterns, 0)
    assert not shares.any()
    assert (pvalues == 1).all()


def test_equal_eigenvalues_at_the_limit_leave_numbers():
    X = np.kron(np.eye(4), np.ones((5, 3)))  # three patterns of one strength
    patterns = patterns_of(Moments.from_data(X), standardised=True)
    shares, pvalues = shares_and_pvalues(patterns, 2)
    assert np.isfinite(shares).all()
    assert np.isfinite(pvalues).all()


@pytest.mark.parametrize("fdr", [0.01, 0.05, 0.3])
def test_discoveries_are_those_of_benjamini_and_hochberg(fdr):
    rng = np.random.default_rng(0)
    for size in (1, 2, 50):
        pvalues = rng.random(size) ** rng.integers(1, 6, size)
        expected = false_discovery_control(pvalues) <= fdr
        np.testing.assert_array_equal(discoveries(pvalues, fdr), expected)
    assert not discoveries(np.ones(4), fdr).any()


@pytest.mark.parametrize("level", [0.05, 0.5])
def test_what_is_beyond_doubt_is_what_the_closed_test_rejects(level):
    # Holm's rule is the closed test of Bonferroni's: all sets that hold a hypothesis are rejected.
    rng = np.random.default_rng(0)
    for size in (1, 2, 5):
        pvalues = rng.random(size) ** 3
        subsets = [
            np.array(one) for k in range(1, size + 1) for one in combinations(range(size), k)
        ]
        expected = [
            all(pvalues[some].min() <= level / some.size for some in subsets if j in some)
            for j in range(size)
        ]
        assert beyond_doubt(pvalues, level).tolist() == expected
    assert beyond_doubt(np.zeros(3), level).all()
    assert not beyond_doubt(np.ones(3), level).any()
