import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_wine

from jointsparse import AWSPCA, CSPCA, SPCAPSD, GreedySelector, Moments
from jointsparse.methods.bases.selector import Selector
from jointsparse.selection.choosing import Rule, Wanted, by_score, choose_features, wanted_features
from jointsparse.solvers.solution import Solution

DIGITS = load_digits().data


def blocks_of_copies(seed=0, n=80):
    """Four signals; 9, 5, 3 and 2 noisy copies of each: 19 features."""
    rng = np.random.default_rng(seed)
    signals = rng.standard_normal((n, 4)) * [2.0, 1.8, 1.6, 1.5]
    return signals[:, np.repeat(range(4), [9, 5, 3, 2])] + 0.1 * rng.standard_normal((n, 19))


def r2_of(X, features):
    X = X - X.mean(axis=0)
    basis = np.linalg.svd(X[:, features], full_matrices=False)[0] if len(features) else X[:, :0]
    return ((basis.T @ X) ** 2).sum() / (X**2).sum()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (3, Wanted(count=3)),
        (np.int64(3), Wanted(count=3)),
        (0.25, Wanted(count=5)),
        (1.0, Wanted(count=20)),
        ("auto", Wanted(auto=True)),
        ("r2>=0.75", Wanted(r2=0.75)),
        (" R2 >= .5 ", Wanted(r2=0.5)),
        ("r2>=1", Wanted(r2=1.0)),
        ("support", Wanted()),
    ],
)
def test_how_many(value, wanted):
    assert wanted_features(value, 20) == wanted


@pytest.mark.parametrize(
    "value", ["r2>=0", "r2>=1.1", "r2<0.5", "0.9", "most", True, None, 0.0, -0.5]
)
def test_how_many_is_refused(value):
    with pytest.raises(ValueError, match="is neither a number of features"):
        wanted_features(value, 20)


def test_greedy_keeps_one_of_each_and_norm_keeps_copies():
    X = blocks_of_copies()
    groups = np.repeat(range(4), [9, 5, 3, 2])
    for selector in (
        SPCAPSD(),
        GreedySelector(target="reconstruction"),
        GreedySelector(n_components=4),
    ):
        kept = selector.set_params(n_features_to_select=4).fit(X).get_support()
        assert sorted(groups[kept]) == [0, 1, 2, 3]
    norm = SPCAPSD(n_features_to_select=4, rule="norm").fit(X)
    assert len(set(groups[norm.get_support()])) < 4


@pytest.mark.parametrize("rule", ["greedy", "residual", "norm"])
@pytest.mark.parametrize("make", [SPCAPSD, CSPCA, AWSPCA])
def test_the_ranking_begins_with_the_kept_and_is_complete(make, rule):
    X = blocks_of_copies(1, n=40)
    selector = make(n_features_to_select=5, rule=rule).fit(X)
    assert sorted(selector.ranking_) == list(range(1, 20))
    np.testing.assert_array_equal(selector.support_, selector.ranking_ <= 5)
    order = np.argsort(selector.ranking_)
    for h in range(1, 6):
        assert selector.selection_curve_[h - 1] == pytest.approx(r2_of(X, order[:h]))
    if rule == "norm":
        assert np.all(np.diff(selector.feature_scores_[order]) <= 0)


@given(seed=st.integers(0, 1000), r2=st.floats(0.2, 0.99))
@settings(max_examples=20)
def test_a_target_r2_gives_the_smallest_prefix_that_reaches_it(seed, r2):
    X = np.random.default_rng(seed).standard_normal((30, 3)) @ np.random.default_rng(
        seed + 1
    ).standard_normal((3, 12))
    X += 0.5 * np.random.default_rng(seed + 2).standard_normal((30, 12))
    selector = GreedySelector(n_features_to_select=f"r2>={r2}").fit(X)
    kept = np.argsort(selector.ranking_)[: selector.support_.sum()]
    assert r2_of(X, kept) >= r2 - 1e-9
    assert r2_of(X, kept[:-1]) < r2
    whole = GreedySelector(n_features_to_select=12).fit(X)
    assert kept.tolist() == np.argsort(whole.ranking_)[: kept.size].tolist()


@pytest.mark.parametrize("shape", [(30, 12), (8, 20)])
def test_all_of_the_variance_can_be_asked_for(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    with pytest.warns(UserWarning, match="no structure beyond noise: ") as caught:
        selector = GreedySelector(n_features_to_select="r2>=1").fit(X)
    assert len(caught) == 1
    assert selector.support_.sum() == min(shape[0] - 1, shape[1])


def test_support_is_ordered_by_score_and_has_no_curve():
    selector = SPCAPSD(n_features_to_select="support").fit(DIGITS)
    np.testing.assert_array_equal(selector.support_, selector.feature_scores_ > 0)
    assert not hasattr(selector, "selection_curve_")
    assert np.all(np.diff(selector.feature_scores_[np.argsort(selector.ranking_)]) <= 0)


class ScoresOnly(Selector):
    """A method of others: it has scores, no model, and declares no rule."""

    def __init__(self, *, n_features_to_select="auto", scores=None):
        self.n_features_to_select = n_features_to_select
        self.scores = scores

    def _solve(self, moments):
        scores = moments.variances / moments.total_variance if self.scores is None else self.scores
        solution = Solution(np.empty((scores.size, 0)), 0.0, None, [], [], 0, True, "one step")
        return solution, np.asarray(scores, dtype=float)


def test_methods_with_scores_only_avoid_copies_too():
    X = blocks_of_copies()
    groups = np.repeat(range(4), [9, 5, 3, 2])
    selector = ScoresOnly(n_features_to_select=4).fit(X)
    assert selector.rule == "greedy"
    assert sorted(groups[selector.get_support()]) == [0, 1, 2, 3]
    # A score decides between equal gains, and zero rules a feature out.
    scores = np.ones(19)
    scores[:8] = 0
    assert groups[8] == 0
    kept = ScoresOnly(n_features_to_select=4, scores=scores).fit(X).get_support()
    assert kept[8]
    assert not kept[:8].any()
    assert ScoresOnly(n_features_to_select="r2>=0.9").fit(X).selection_curve_[-1] >= 0.9


def test_zero_scores_are_kept_last():
    X = blocks_of_copies()
    scores = (np.arange(19) < 3).astype(float)
    with pytest.warns(UserWarning, match="only 3 features have a nonzero score; the other 2"):
        selector = ScoresOnly(n_features_to_select=5, scores=scores).fit(X)
    assert set(np.flatnonzero(selector.ranking_ <= 3)) == {0, 1, 2}
    order = np.argsort(selector.ranking_)
    expected = [r2_of(X, order[:h]) for h in range(1, 6)]
    np.testing.assert_allclose(selector.selection_curve_, expected)
    with pytest.warns(UserWarning, match="no feature has a nonzero score"):
        selector = ScoresOnly(n_features_to_select=2, scores=np.zeros(19)).fit(X)
    # Nothing is known about the features: those that account for most are kept.
    groups = np.repeat(range(4), [9, 5, 3, 2])
    assert set(groups[selector.support_]) == {0, 1}
    assert selector.selection_curve_[-1] == pytest.approx(r2_of(X, selector.support_))
    with pytest.warns(
        UserWarning, match="the 3 features with a nonzero score account for .* not the"
    ):
        selector = ScoresOnly(scores=scores, n_features_to_select="r2>=0.9").fit(X)
    assert selector.support_.sum() == 3


def test_more_features_than_rank_begin_a_new_round():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, 40))
    selector = GreedySelector(n_features_to_select=12).fit(X)
    order = np.argsort(selector.ranking_)
    assert selector.support_.sum() == 12
    assert selector.selection_curve_[4] == pytest.approx(1)
    np.testing.assert_allclose(selector.selection_curve_[5:], selector.selection_curve_[4])
    # The second five explain everything once more.
    assert r2_of(X, order[5:10]) == pytest.approx(1)
    assert sorted(selector.ranking_) == list(range(1, 41))


def test_a_target_that_is_explained_is_followed_by_all_features():
    X = blocks_of_copies()
    moments = Moments.from_data(X)
    choice = choose_features(
        moments, np.ones(19), Wanted(count=5), Rule(target=lambda rows: rows[:, [18]])
    )
    assert choice.order[0] == 18
    assert choice.curve[-1] > 0.95


@pytest.mark.parametrize("rule", ["greedy", "residual", "norm"])
def test_all_inputs_select_alike(rule):
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((40, 12)) < 0.5, rng.standard_normal((40, 12)), 0)
    expected = SPCAPSD(n_features_to_select=5, rule=rule).fit(dense)
    for X in (sp.csr_array(dense), dense * 1e100, dense * 1e-100, dense + 5):
        ranking = SPCAPSD(n_features_to_select=5, rule=rule).fit(X).ranking_
        assert set(np.flatnonzero(ranking <= 5)) == set(np.flatnonzero(expected.support_))
    wide = GreedySelector(n_features_to_select=4)
    np.testing.assert_array_equal(
        wide.fit(dense.T).ranking_[:4], wide.fit(sp.csc_array(dense.T)).ranking_[:4]
    )


def test_scores_that_rounding_tells_apart_are_ranked_as_equal():
    noise = 1 + 1e-15 * np.random.default_rng(0).uniform(-9, 9, 6)
    scores = np.array([2.0, 1.0, 2.0, 0.0, 1.0, 2.0]) * noise
    variances = np.array([1.0, 3.0, 1.0, 5.0, 4.0, 2.0]) * noise
    assert by_score(scores, variances).tolist() == [5, 0, 2, 4, 1, 3]
    # A difference that is no rounding counts, and so does the smallest score beside none.
    assert by_score(np.array([1.0, 1.0 + 1e-6]), np.ones(2)).tolist() == [1, 0]
    assert by_score(np.array([0.0, 1e-200, 1.0]), np.ones(3)).tolist() == [2, 1, 0]


def test_tiers_that_are_the_same_are_one():
    first, more, everyone = (np.arange(6) < k for k in (2, 4, 6))

    def tiers(first, more, eligible):
        return [int(tier.sum()) for tier in Rule(first=first, significant=more).tiers(eligible)]

    assert tiers(first, more, everyone) == [2, 4, 6]
    assert tiers(more, more, everyone) == [4, 6]
    assert tiers(everyone, everyone, everyone) == [6]
    assert tiers(first & ~everyone, more, more) == [4]
    assert tiers(None, None, everyone) == [6]
    assert tiers(first, more, ~everyone) == [0]


def test_no_more_is_picked_where_the_first_hold_enough_of_the_target():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 12)) + 3 * rng.standard_normal((60, 1))
    moments, first = Moments.from_data(X), np.arange(12) < 6
    rule = Rule(significant=first, target_share=0.9)
    found = choose_features(moments, np.ones(12), Wanted(count=10), rule)
    alone = choose_features(moments, first.astype(float), Wanted(count=6), Rule(target_share=0.9))
    assert 0 < found.n_kept < 6
    np.testing.assert_array_equal(found.order[: found.n_kept], alone.order[: alone.n_kept])


def test_columns_of_very_different_size_are_named_as_the_cause():
    X = load_wine().data  # the proline of wines is a thousand times as large as their hue
    with pytest.warns(UserWarning, match="columns are of very different size.*standardise them"):
        SPCAPSD(n_features_to_select=4).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SPCAPSD(n_features_to_select=4, scale="standard").fit(X)
