"""Robust columns, centres and rules against independent answers, and what outliers can do."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from outlier_cases import SIGNAL, angle, outlier_table
from scipy.optimize import minimize
from scipy.stats import median_abs_deviation
from scipy.stats import norm as normal
from scipy.stats import t as student

from jointsparse import (
    JSPCA,
    SPCA,
    SPCAPSD,
    GreedySelector,
    Moments,
    SelectFeatures,
    SubsetSelector,
    feature_significance,
)
from jointsparse.robust import learning
from jointsparse.robust.centre import geometric_median
from jointsparse.robust.columns import HUGE, column_scales, standardised, typical
from jointsparse.robust.learning import _caution, _factors, learn, made_robust, rows_to_learn
from jointsparse.robust.rule import FAR
from jointsparse.robust.wrapping import BEND, GROSS, HEIGHT, STEEPNESS, wrapped


@pytest.fixture
def rng():
    return np.random.default_rng(20)


def mean_distance(points, centre):
    return np.linalg.norm(points - centre, axis=1).mean()


def test_the_geometric_median_is_the_one_of_a_general_minimiser(rng):
    points = rng.standard_normal((41, 3)) * [1, 5, 0.2]
    points[:6] += 50
    found = geometric_median(points, np.zeros(3))
    other = minimize(
        lambda m: mean_distance(points, m), np.median(points, axis=0), method="BFGS", tol=1e-12
    )
    assert found.slope <= 1e-7
    assert mean_distance(points, found.point) <= other.fun * (1 + 1e-12)
    np.testing.assert_allclose(found.point, other.x, atol=1e-5)


def test_a_sample_that_is_the_median_itself_is_recognised(rng):
    points = np.vstack([np.zeros((3, 2)), [[1.0, 0], [-1, 0.1], [0, 1], [0.2, -1]]])
    found = geometric_median(points, np.zeros(2))
    assert found.n_iter == 0
    assert found.slope == 0
    np.testing.assert_array_equal(found.point, 0)


def test_a_sample_that_is_passed_on_the_way_does_not_hold_the_median(rng):
    points = rng.standard_normal((30, 2)) + 3
    points[0] = 0  # where it starts
    found = geometric_median(points, points[0])
    assert found.slope <= 1e-7
    assert np.linalg.norm(found.point) > 1


def test_every_step_towards_the_median_is_weiszfeld_s_and_goes_down(rng):
    points = rng.standard_normal((25, 3)) * [1, 4, 0.5]
    before = start = np.array([1.0, -2.0, 0.5])
    for step in range(1, 8):
        weights = 1 / np.linalg.norm(points - before, axis=1)
        found = geometric_median(points, start, max_iter=step)
        np.testing.assert_allclose(found.point, weights @ points / weights.sum(), rtol=1e-9)
        assert mean_distance(points, found.point) < mean_distance(points, before)
        before = found.point
        units = points - before
        units /= np.linalg.norm(units, axis=1)[:, None]
        assert found.slope == pytest.approx(np.linalg.norm(units.mean(axis=0)))


def test_the_slope_bounds_how_far_the_median_can_be_from_its_best(rng):
    points = rng.standard_normal((60, 5))
    early = geometric_median(points, np.full(5, 2.0), max_iter=3)
    best = geometric_median(points, np.zeros(5), tol=1e-12)
    gap = mean_distance(points, early.point) - mean_distance(points, best.point)
    assert early.n_iter == 3
    # f is convex: f(m) - f(m*) <= slope × distance
    assert 0 < gap <= early.slope * np.linalg.norm(early.point - best.point) * (1 + 1e-9)


def test_scales_of_continuous_columns_are_those_of_the_definition(rng):
    values = rng.standard_normal((201, 6)) * [1, 2, 3, 10, 0.1, 1e-5] + 7
    values[:9, 3] = 1e5
    found = column_scales(values)
    median = np.median(values, axis=0)
    distances = np.abs(values - median)
    middle = [np.median(column[column > 0]) / 0.6744897501960817 for column in distances.T]
    quarter = np.sort(distances, axis=0)[150] / 1.1503493803760083
    np.testing.assert_allclose(found.unit, np.maximum(middle, quarter))
    size = distances / found.unit
    psi = np.where(size <= 1.5, size, 1.540793 * np.tanh(0.8622731 * (4 - size)))
    psi = np.where(size > 4, 0, psi)
    weights = np.where(size <= 1.5, 1, psi / np.maximum(size, 1))
    step = (psi * np.sign(values - median)).sum(axis=0) / weights.sum(axis=0)
    np.testing.assert_allclose(found.location, median + found.unit * step)
    np.testing.assert_allclose(found.deviation[0] / values[:, 0].std(), 0.86, atol=0.12)


def test_values_on_one_side_move_the_location_less_than_the_median(rng):
    values = rng.standard_normal((500, 4))
    values[:100] += 30
    assert np.all(np.median(values, axis=0) > 0.2)
    assert np.all(np.abs(column_scales(values).location) < 0.15)


@pytest.mark.parametrize(("ties", "moves"), [(0, True), (40, True), (49, True), (60, False)])
def test_the_location_is_the_median_where_half_of_the_values_equal_it(rng, ties, moves):
    values = np.sort(rng.exponential(size=101))
    values = np.where(np.abs(np.arange(101) - 50) <= ties / 2, values[50], values)
    found = column_scales(values[:, None])
    assert (found.location[0] != values[50]) == moves
    if moves:  # one step of the estimator that bends what is far
        z = (values - values[50]) / found.unit[0]
        bent = wrapped(z)
        slopes = np.where(np.abs(z) < BEND, 1.0, bent / np.where(z == 0, 1.0, z))
        expected = values[50] + found.unit[0] * bent.sum() / slopes.sum()
        assert found.location[0] == pytest.approx(expected)


def test_columns_without_a_median_deviation_have_a_scale(rng):
    counts = rng.poisson(0.05, (400, 30)).astype(float)
    found = column_scales(counts)
    assert np.all(median_abs_deviation(counts, axis=0) == 0)
    live = counts.std(axis=0) > 0
    assert np.all(found.deviation[live] > 0)
    assert np.all(wrapped(standardised(counts, found.location, found.unit))[counts == 1] > 0)


def test_a_group_of_values_away_from_a_narrow_majority_is_not_taken_for_gross(rng):
    column = np.concatenate([rng.normal(0, 1e-3, 110), rng.normal(100, 20, 90)])[:, None]
    found = column_scales(column)
    kept = wrapped(standardised(column, found.location, found.unit))
    assert np.mean(kept[110:] != 0) > 0.9


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_gross_values_move_the_scales_by_a_bounded_factor(rng, share):
    values = rng.standard_normal((400, 5))
    clean = column_scales(values)
    values[: int(share * 400)] = 1e6
    found = column_scales(values)
    assert np.all(found.unit < 2.5 * clean.unit)
    assert np.all(np.abs(found.location) < 0.6)


def test_constant_columns_and_rounding_are_no_spread():
    values = np.column_stack([np.full(50, 0.1), 1e8 + 1e-9 * np.arange(50), np.arange(50.0)])
    found = column_scales(values)
    assert found.deviation[0] == found.deviation[1] == 0 < found.deviation[2]
    made, _ = made_robust(values, "cells")
    assert not made[:, :2].any()


def test_wrapping_is_continuous_bounded_and_odd():
    z = np.linspace(-6, 6, 4001)
    psi = wrapped(z)
    np.testing.assert_allclose(psi, -psi[::-1], atol=1e-12)
    assert np.abs(np.diff(psi)).max() < 0.02
    np.testing.assert_allclose(HEIGHT * np.tanh(STEEPNESS * (GROSS - BEND)), BEND, rtol=1e-6)
    assert np.all(psi[np.abs(z) > GROSS] == 0)
    assert wrapped(np.array([-BEND, BEND])).tolist() == [-BEND, BEND]  # what is usual stays
    assert wrapped(np.array([np.inf, -np.inf])).tolist() == [0, 0]


@pytest.mark.parametrize("kind", ["samples", "cells"])
def test_values_of_any_size_leave_finite_numbers(rng, kind):
    values = rng.standard_normal((60, 8))
    values[0], values[1, 2], values[2] = 1e300, -1.7e308, 1e-310
    made, how = made_robust(values, kind)
    assert np.all(np.isfinite(made))
    assert np.all(np.isfinite(how.scores))
    assert how.outliers[0]
    assert np.abs(made).max() <= HUGE


@pytest.mark.parametrize("kind", ["samples", "cells"])
def test_sparse_samples_stay_sparse_and_say_the_same(rng, kind):
    dense = rng.poisson(0.4, (150, 20)) * rng.integers(1, 4, (150, 20)) * 1.0
    dense[3, 4] = 500
    dense[:, 0] += 2  # a column whose median is not 0
    matrix = sp.csr_matrix(dense)
    made, how = made_robust(matrix, kind)
    assert sp.issparse(made)
    assert made.nnz <= matrix.nnz
    if kind == "cells":
        other, same = made_robust(dense, kind)
        np.testing.assert_allclose(how.scores, same.scores)
        full = made.toarray()
        np.testing.assert_allclose(full - full.mean(axis=0), other - other.mean(axis=0), atol=1e-9)
        gross = how.rule.gross(matrix)
        assert sp.issparse(gross)
        np.testing.assert_array_equal(gross.toarray(), how.rule.gross(dense) & (dense != 0))
        assert gross.toarray()[3, 4]
    else:  # about zero: lengths and columns by hand
        rule = how.rule
        assert not rule.location.any()
        lengths = np.linalg.norm(dense / rule.deviation, axis=1)
        np.testing.assert_allclose(how.scores, (lengths ** (2 / 3) - rule.length) / rule.spread)
        np.testing.assert_allclose(made.toarray(), rule.apply(dense), atol=1e-12)


@pytest.mark.parametrize("kind", ["samples", "cells"])
def test_sparse_samples_nearer_to_the_centre_than_all_others_have_lower_scores(rng, kind):
    dense = rng.poisson(0.4, (150, 20)) * rng.integers(1, 4, (150, 20)) * 1.0
    rule = made_robust(sp.csr_matrix(dense), kind)[1].rule
    few = np.zeros((4, 20))  # a row of zeros, and others of one small entry
    few[[1, 2, 3], [0, 5, 9]] = 1e-3, 1e-2, 0.1
    found = rule.scores(sp.csr_matrix(few))
    np.testing.assert_allclose(found, rule.scores(few), rtol=1e-9)
    assert np.all(np.diff(found) > 0)


def test_a_rule_of_dense_samples_refuses_sparse_ones(rng):
    rule = learn(rng.standard_normal((50, 4)) + 3, "samples")
    with pytest.raises(ValueError, match="would become dense"):
        rule.apply(sp.eye(4, format="csr"))


def test_many_samples_are_represented_by_some(rng, monkeypatch):
    values = rng.standard_normal((3000, 10))
    whole = learn(values, "samples")
    monkeypatch.setattr("jointsparse.robust.learning.LEARNED_ENTRIES", 15_000)
    assert rows_to_learn(3000, 10).size == 1500
    part = learn(values, "samples")
    assert not np.array_equal(part.location, whole.location)
    np.testing.assert_allclose(part.unit, whole.unit, rtol=0.15)
    np.testing.assert_allclose(part.length, whole.length, rtol=0.02)


def test_all_samples_are_learned_from_up_to_64_megabytes():
    assert rows_to_learn(20_000, 400) is None
    some = rows_to_learn(10**6, 1000)
    assert 7 * 2**20 < some.size * 1000 <= 8 * 2**20
    assert np.all(np.diff(some) > 0)
    assert rows_to_learn(2000, 10**6).size == 1000  # in any case
    assert rows_to_learn(10**5, 100, budget=2**24).size < rows_to_learn(10**5, 100).size


def test_as_many_samples_are_learned_from_as_there_is_room_for():
    assert rows_to_learn(8388, 1000) is None
    assert rows_to_learn(8389, 1000).size == 8388
    # Six copies of eight bytes each.
    assert rows_to_learn(2001, 10, budget=6 * 8 * 10 * 2001) is None
    assert rows_to_learn(2001, 10, budget=6 * 8 * 10 * 2001 - 1).size == 2000
    assert rows_to_learn(1001, 10, budget=0).size == 1000


class Told:
    """A source that knows its size and its budget, and has nothing else."""

    name, n_samples, n_features = "a table", 100, 10

    def __init__(self, budget):
        self.budget = budget

    def finite(self):
        return self

    def rows(self, rows):
        return np.random.default_rng(0).standard_normal((rows.size, self.n_features))


def test_samples_that_medians_do_not_fit_of_are_refused():
    assert learning.learn_from(Told(6 * 8 * 1000), "cells").location.shape == (10,)
    with pytest.raises(ValueError, match="medians of 100 rows of them need"):
        learning.learn_from(Told(6 * 8 * 1000 - 1), "cells")
    values = np.zeros((10, 10))
    assert not learning._too_large(values, 3 * 8 * 100)
    assert learning._too_large(values, 3 * 8 * 100 - 1)


def test_weights_are_those_of_the_scores():
    # Scores of lengths d: (d^(2/3) - 4) / 0.5. Beyond a score of 1 they are brought back, and from
    # 2.807 to 5 they fade.
    rule = learn(np.random.default_rng(0).standard_normal((50, 2)), "samples")
    rule = replace(rule, length=4.0, spread=0.5)
    scores = np.array([-7.9, 0.0, 1.0, 2.0, FAR, 3.0, 4.5, 5.0, 6.0])
    lengths = (4 + 0.5 * scores) ** 1.5
    rows = lengths[:, None] * [0.6, -0.8]
    np.testing.assert_allclose(rule._score(lengths), scores, atol=1e-12)
    fading = np.array([1, 1, 1, 1, 1, 2 / 2.193, 0.5 / 2.193, 0, 0])
    expected = np.minimum(4.5**1.5 / lengths, 1) * fading
    np.testing.assert_allclose(rule.weights(rows), expected, atol=1e-12)
    assert rule.weights(np.zeros((1, 2))).tolist() == [1]
    for length in (0.2, 1.0):
        short = replace(rule, length=length, spread=0.1)
        assert short.weights(np.zeros((1, 2))).tolist() == [1]
    signs = replace(rule, signs=True)
    np.testing.assert_allclose(signs.weights(rows), 1 / lengths)
    assert signs.weights(np.zeros((1, 2))).tolist() == [0]


def test_samples_of_one_length_are_no_outliers():
    values = np.vstack([np.eye(6), -np.eye(6)])
    _, how = made_robust(values, "samples")
    assert not how.outliers.any()
    assert typical(np.ones(5)) == (1.0, 1.0)


CLEAN = [(20, 50), (50, 5), (50, 300), (200, 20), (1000, 40)]


@pytest.mark.parametrize("kind", ["samples", "cells"])
@pytest.mark.parametrize(("n", "p"), CLEAN)
def test_at_most_one_in_a_hundred_clean_samples_is_called_an_outlier(kind, n, p):
    called, cells = [], []
    for seed in range(max(10, 3000 // n)):
        random = np.random.default_rng(seed)
        mixing = random.standard_normal((p, 3)) * (seed % 3)  # independent and dependent columns
        values = random.standard_normal((n, 3)) @ mixing.T + random.standard_normal((n, p))
        _, how = made_robust(values, kind)
        called.append(how.outliers.mean())
        cells.append(how.rule.gross(values).mean())
    assert np.mean(called) <= 0.01
    assert np.mean(cells) <= 0.001


@pytest.mark.parametrize("kind", ["samples", "cells"])
def test_far_samples_are_called_outliers(kind):
    table = outlier_table("shift 10", 0, share=0.2)
    _, how = made_robust(table.values, kind)
    np.testing.assert_array_equal(np.flatnonzero(how.outliers), np.arange(table.n_outliers))
    assert how.scores[: table.n_outliers].min() > FAR


CASES = [
    ("noise 8", "samples", 0.2),
    ("noise 30", "samples", 0.05),
    ("all 30", "samples", 0.2),
    ("shift 10", "samples", 0.2),
    ("shift 100", "samples", 0.2),
    ("one 1e6", "samples", 0.05),
    ("tails", "samples", 0.05),
    ("cells 30", "cells", 0.05),
]


@pytest.mark.parametrize(("kind", "robust", "share"), CASES)
@pytest.mark.parametrize("method", [SPCAPSD, GreedySelector])
def test_the_right_features_are_found_among_outliers(kind, robust, share, method):
    found = []
    for seed in range(4):
        table = outlier_table(kind, seed, share=share)
        selector = method(n_features_to_select=SIGNAL, robust=robust).fit(table.values)
        found.append(selector.get_support()[:SIGNAL].sum())
    assert np.mean(found) >= SIGNAL - 0.5
    assert selector.outlier_scores_.shape == (table.values.shape[0],)
    assert selector.robust_step_.kind == robust


def test_left_out_samples_are_no_pattern_of_their_own():
    # They stand at the centre, which must be the middle of the others.
    values = np.random.default_rng(3).standard_normal((200, 60))
    values[:40] += 10
    for kind in ("samples", "cells"):
        made, how = made_robust(values, kind)
        assert np.flatnonzero(how.outliers).tolist()[:40] == list(range(40))
        apart = made[40:].mean(axis=0) - made[:40].mean(axis=0)
        assert np.linalg.norm(apart) / np.sqrt(60) < 0.15


NOISE = {
    "clean": lambda X, rng: X,
    "shift": lambda X, rng: np.where(np.arange(len(X))[:, None] < len(X) // 10, X + 30, X),
    "tails": lambda X, rng: X / np.sqrt(rng.chisquare(2, len(X)) / 2)[:, None],
    "cells": lambda X, rng: np.where(rng.random(X.shape) < 0.05, 30.0, X),
}


@pytest.mark.parametrize("robust", ["samples", "cells"])
@pytest.mark.parametrize("kind", NOISE)
def test_noise_with_outliers_has_no_structure(kind, robust):
    if (kind, robust) == ("cells", "samples"):
        pytest.skip("not what it is meant for")
    alarms = []
    for seed in range(20):
        rng = np.random.default_rng([seed, 5])
        X = NOISE[kind](rng.standard_normal((90, 40)) * np.exp(rng.standard_normal(40)), rng)
        found = feature_significance(made_robust(X, robust)[0])
        alarms.append(found.n_significant > 0)
    assert np.mean(alarms) <= 0.05


def test_the_plain_fit_fails_where_the_robust_one_does_not():
    # What the tests above show could be the table's merit: it is not.
    table = outlier_table("shift 10", 1, share=0.2)
    plain = SPCAPSD(n_features_to_select=SIGNAL).fit(table.values)
    assert plain.get_support()[:SIGNAL].sum() <= 4


@pytest.mark.parametrize("method", [SPCA, JSPCA])
@pytest.mark.parametrize(("kind", "robust"), [("shift 30", "samples"), ("cells 30", "cells")])
def test_components_of_robust_samples_are_near_the_true_ones(method, kind, robust):
    table = outlier_table(kind, 2, share=0.1, noise=0.25)
    clean = method(n_components=2, alpha=0.01).fit(outlier_table("clean", 2, noise=0.25).values)
    plain = method(n_components=2, alpha=0.01).fit(table.values)
    model = method(n_components=2, alpha=0.01, robust=robust).fit(table.values)
    best = angle(clean.components_.T, table.directions)  # as near as clean samples get
    assert angle(model.components_.T, table.directions) < best + 5
    assert angle(plain.components_.T, table.directions) > best + 30


def test_components_keep_the_units_of_the_columns(rng):
    basis = np.linalg.qr(rng.standard_normal((40, 3)))[0]
    values = rng.standard_normal((300, 3)) * [5, 4, 3] @ basis.T
    values += 0.3 * rng.standard_normal((300, 40)) + 100
    values[:15] += 10
    for method in (SPCA(n_components=3, alpha=1e-5), JSPCA(n_components=3, alpha=1e-4)):
        best = method.fit(values[15:]).score(values[15:])
        plain = angle(method.fit(values).components_.T, basis)
        model = method.set_params(robust="samples").fit(values)
        assert angle(model.components_.T, basis) < 5 < 60 < plain
        assert model.score(values[15:]) > best - 0.005
        scores = model.transform(values)
        np.testing.assert_allclose(scores, (values - model.mean_) @ model.components_.T)
        assert np.abs(model.mean_ - 100).max() < 1
        again = method.set_params(robust=None).fit(values)
        assert not hasattr(again, "outlier_scores_")


def test_robust_does_not_depend_on_the_units_of_the_columns(rng):
    table = outlier_table("shift 30", 4, share=0.1)
    factors = 10.0 ** rng.integers(-6, 6, table.values.shape[1])
    one = GreedySelector(n_features_to_select=6, robust="samples").fit(table.values)
    other = GreedySelector(n_features_to_select=6, robust="samples").fit(table.values * factors)
    np.testing.assert_array_equal(one.ranking_[:6], other.ranking_[:6])
    np.testing.assert_allclose(one.outlier_scores_, other.outlier_scores_, rtol=1e-8)


def test_moments_of_robust_samples_fit_as_the_samples_do():
    table = outlier_table("all 30", 5, share=0.1)
    moments = Moments.from_data(table.values, robust="samples")
    direct = SPCAPSD(n_features_to_select=8, robust="samples").fit(table.values)
    for robust in (None, "samples"):
        # A method that was not asked for anything robust takes the columns in their units.
        given = moments.standardised() if robust is None else moments
        method = SPCAPSD(n_features_to_select=8, robust=robust).fit_moments(given)
        np.testing.assert_array_equal(method.ranking_, direct.ranking_)
    np.testing.assert_allclose(method.outlier_scores_, direct.outlier_scores_)
    components = SPCA(robust="samples").fit(table.values).components_
    for model in (SPCA(), SPCA(robust="samples")):
        np.testing.assert_allclose(model.fit_moments(moments).components_, components, atol=1e-6)
    plain = Moments.from_data(table.values)
    later = SPCAPSD(n_features_to_select=8, robust="samples").fit_moments(plain)
    np.testing.assert_array_equal(later.ranking_, direct.ranking_)
    with pytest.raises(ValueError, match="choose one of the two"):
        SPCAPSD(robust="cells").fit_moments(moments)
    with pytest.raises(ValueError, match="needs the samples"):
        SPCAPSD(robust="cells").fit_moments(Moments.from_scatter(plain.scatter, 200))


def test_more_samples_are_taken_as_those_before():
    table = outlier_table("shift 30", 9, share=0.1)
    moments = Moments.from_data(table.values[:150], robust="samples")
    rule = learn(table.values[:150], "samples")
    more = rule.apply(table.values[150:] + 1e6, comparable=False)
    first = rule.apply(table.values[:150], comparable=False)
    moments.partial_fit(table.values[150:170] + 1e6).partial_fit(table.values[170:] + 1e6)
    expected = Moments.from_data(np.vstack([first, more]))
    np.testing.assert_allclose(moments.scatter, expected.scatter, atol=1e-8)
    fitted = SPCAPSD(n_features_to_select=8, robust="samples").fit_moments(moments)
    assert fitted.outliers_[150:].all()
    assert fitted.outlier_scores_.size == 200
    halves = [Moments.from_data(half, robust="cells") for half in np.split(table.values, 2)]
    both = SPCAPSD(n_features_to_select=8, robust="cells").fit_moments(halves[0] + halves[1])
    assert both.get_support()[:SIGNAL].sum() >= 7
    assert both.outlier_scores_.size == 200
    for robust in (None, "samples"):
        other = Moments.from_data(table.values, robust=robust)
        with pytest.raises(ValueError, match="in the same way only"):
            halves[0] + other


def test_a_wrong_value_of_robust_is_refused():
    X = outlier_table("clean", 0).values
    for attempt in (SPCAPSD(robust="rows"), SPCA(robust=1)):
        with pytest.raises(ValueError, match="is not one of None, 'samples', 'cells'"):
            attempt.fit(X)
    with pytest.raises(ValueError, match="is not one of None"):
        Moments.from_data(X, robust="median")


def test_a_selector_made_of_a_robust_method_is_robust_too():
    table = outlier_table("shift 30", 6, share=0.2)
    selector = SelectFeatures(SPCA(n_components=2, robust="samples"), n_features_to_select=8)
    selector.fit(table.values)
    assert selector.get_support()[:SIGNAL].all()
    np.testing.assert_array_equal(np.flatnonzero(selector.outliers_), np.arange(table.n_outliers))
    assert selector.n_significant_ == 2
    moments = selector.fit_moments(Moments.from_data(table.values))
    assert moments.get_support()[:SIGNAL].all()
    assert selector.robust == "samples"
    plain = SelectFeatures(SPCA(n_components=2), n_features_to_select=8).fit(table.values)
    assert not hasattr(plain, "outlier_scores_")


def test_what_a_robust_set_is_worth_is_measured_on_robust_samples():
    table = outlier_table("all 30", 7, share=0.1)
    selector = SubsetSelector(n_features_to_select=4, robust="samples", target="patterns")
    selector.fit(table.values)
    known = selector.selection_report_
    again = selector.selection_report(table.values)
    np.testing.assert_allclose(known.r2, again.r2)
    assert not known.extremes
    clean = outlier_table("clean", 8).values
    assert selector.selection_report(clean, new=True).worth is not None


def test_columns_that_count_for_nothing_are_divided_by_one(rng):
    rule = learn(rng.standard_normal((50, 4)), "cells")
    rule = replace(rule, deviation=np.array([2.0, 0.0, 3.0, 0.0]), factors=np.array([4.0, 1, 0, 0]))
    assert rule.scale.tolist() == [0.5, 1, 1, 1]


def test_differences_beyond_all_numbers_have_a_finite_unit():
    values = np.array([[-1.7e308], [1.7e308], [-1.6e308], [1.6e308]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = column_scales(values)
    assert np.isfinite(found.unit).all()
    assert (found.unit > 0).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_factors_bring_columns_to_one_whatever_the_unit(rng, sparse):
    values = rng.standard_normal((50, 4)) * [1.0, 2.0, 0.5, 0.0]
    for unit in (1e-7, 1.0, 1e7):
        table = unit * values
        found = _factors(sp.csr_array(table) if sparse else table)
        np.testing.assert_allclose(found[:3] * table[:, :3].std(axis=0), 1)
        assert found[3] == 0
    # A column that hardly varies is stretched, but not to the length of the others.
    faint = values[:, :3] * [1, 1, 1e-6]
    assert _factors(faint)[2] * faint[:, 2].std() < 0.1
    deviations = faint.std(axis=0)
    np.testing.assert_allclose(_factors(faint)[2], 4 / np.median(deviations))
    nearly = values[:, :3] * [1, 1, 1e-9]  # not above rounding
    assert _factors(nearly)[2] == 0
    assert _factors(np.zeros((5, 2))).tolist() == [0, 0]


@pytest.mark.parametrize("kind", ["samples", "cells"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_tables_are_made_robust_block_by_block(rng, kind, dtype, monkeypatch):
    values = (rng.standard_normal((60, 4)) + np.arange(4)).astype(dtype)
    values[:3] *= 50
    whole, how = made_robust(values, kind)
    monkeypatch.setattr("jointsparse.robust.learning.BLOCK_ENTRIES", 50)
    parts, again = made_robust(values, kind)
    assert parts.dtype == whole.dtype == dtype
    np.testing.assert_allclose(parts, whole, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(again.scores, how.scores, rtol=1e-6)


@pytest.mark.parametrize("n_samples", [2, 5, 30, 1000])
def test_few_samples_are_judged_with_the_quantile_of_as_many_degrees(n_samples):
    # A median deviation of Gaussian samples is as precise as a deviation of 37 % of them.
    degrees = max(0.37 * (n_samples - 1), 1.0)
    expected = student.ppf(normal.cdf(FAR), degrees) / FAR
    assert _caution(n_samples) == pytest.approx(expected, rel=0.01)
    assert _caution(n_samples) > _caution(10 * n_samples) > 1


def test_a_single_sample_has_a_location_and_no_spread():
    found = column_scales(np.array([[1.0, -2.0, 0.0]]))
    assert found.location.tolist() == [1, -2, 0]
    assert found.unit.tolist() == [1, 1, 1]
    assert not found.deviation.any()
