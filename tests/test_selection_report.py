import copy
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

from jointsparse import SPCAPSD, GreedySelector, LaplacianScore, Moments, feature_significance
from jointsparse.methods.bases import worth
from jointsparse.selection_report import selection_report
from jointsparse.solvers.picking.held_out import choose_ridge

X = StandardScaler().fit_transform(load_breast_cancer().data)


def samples(seed, n, p):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 4)) @ rng.standard_normal((4, p)) + 0.3 * rng.standard_normal(
        (n, p)
    )


def test_the_ridge_is_that_of_generalised_cross_validation():
    rng = np.random.default_rng(0)
    Z, Y = rng.standard_normal((30, 8)), rng.standard_normal((30, 5))
    Z, Y = Z - Z.mean(axis=0), Y - Y.mean(axis=0)
    U, d, _ = np.linalg.svd(Z, full_matrices=False)
    found = choose_ridge(d**2, ((U.T @ Y) ** 2).sum(axis=1), (Y**2).sum(), 30)

    def gcv(ridge):
        hat = Z @ np.linalg.solve(Z.T @ Z + ridge * np.eye(8), Z.T)
        return ((Y - hat @ Y) ** 2).sum() / (29 - np.trace(hat)) ** 2

    grid = d.max() ** 2 * np.geomspace(1e-3, 1e2, 11)
    assert gcv(found) == pytest.approx(min(map(gcv, grid)))


def test_the_report():
    selector = SPCAPSD(n_features_to_select=6).fit(X)
    report = selector.selection_report_
    assert report is selector.selection_report_
    assert (report.n_kept, report.n_features) == (6, 30)
    assert report.r2 == pytest.approx(selector.selection_curve_[-1])
    ratios = PCA().fit(X).explained_variance_ratio_
    np.testing.assert_allclose(report.pca_curve, np.cumsum(ratios)[:6])
    assert report.pca_r2 == pytest.approx(ratios[:6].sum())
    assert report.own_share == pytest.approx(6 / 30)  # standardised
    assert report.random_r2_held_out.shape == (20,)
    assert np.mean(report.random_r2_held_out) < report.r2_held_out < report.ceiling
    assert report.r2_held_out < report.pca_r2_held_out
    assert report.held_out
    assert str(report) == report.verdict
    again = selector.selection_report(X)
    assert again.r2_held_out == pytest.approx(report.r2_held_out)
    assert report.verdict in again._repr_html_()
    wide = GreedySelector(n_features_to_select=6).fit(samples(1, 20, 100))
    assert 0 < wide.selection_report_.r2_held_out <= 1
    sparse = GreedySelector(n_features_to_select=6).fit(sp.csr_array(samples(1, 20, 100)))
    assert sparse.selection_report_.r2_held_out == pytest.approx(wide.selection_report_.r2_held_out)


def test_a_set_of_copies_is_no_better_than_chance():
    published = SPCAPSD(n_features_to_select=3, rule="norm").fit(X)
    report = published.selection_report_
    assert report.beaten_by > 5
    assert report.verdict.startswith("No better than random features: 3 features predict ")


def unrelated(**changes):
    """A report about a table with a factor in 12 of 200 features; parts of its worth replaced."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((300, 200))
    Z[:, :12] += rng.standard_normal((300, 1))
    report = GreedySelector(n_features_to_select=3).fit(Z).selection_report_
    return replace(report, worth=replace(report.worth, **changes))


def test_where_most_features_are_unrelated_chance_is_judged_among_the_others():
    report = unrelated()
    assert report.mostly_unrelated
    related = f"{report.n_significant} of 200 are not. Of the other {report.n_significant - 3} of"
    assert report.verdict.startswith(f"Most features are unrelated to the others; {related} these")
    # Ahead of all random sets by what it predicts of all features, but not of those that matter.
    lucky = np.linspace(0.0, 2 * report.worth.r2_significant, 20)
    chance = unrelated(r2=1.0, random_significant=lucky)
    assert chance.beaten_by == 10
    assert chance.verdict.startswith(
        f"No better than random features: of the other {report.n_significant - 3} that share "
        "something with others, the 3 kept predict "
    )


def test_most_features_are_not_called_unrelated_where_most_are_related():
    report = replace(unrelated(), n_significant=150)
    assert report.verdict.startswith(
        "Features predict little of each other: all others together "
        f"{100 * report.worth.ceiling:.0f} % of the dropped ones in new samples. Of the other 147 "
        "that share something with others, the 3 kept predict "
    )


def test_where_all_that_share_something_are_kept_nothing_is_said_of_none():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((300, 200))
    Z[:, :4] += 2 * rng.standard_normal((300, 1))
    report = GreedySelector(n_features_to_select=12).fit(Z).selection_report_
    assert report.n_kept_significant < report.n_kept
    assert report.n_related_dropped == report.n_significant - report.n_kept_significant
    every = replace(report, n_kept_significant=report.n_significant)
    assert every.of_related is None
    assert every.verdict == (
        f"Most features are unrelated to the others; the {report.n_significant} of 200 that share "
        "something are all kept."
    )


def test_good_stand_ins_for_some_are_not_called_good_for_all():
    report = unrelated(ceiling=0.4, coverage=0.95, r2=0.35, r2_significant=0.64)
    assert report.verdict.startswith(
        "Good stand-ins for features that share something: of the other "
        f"{report.n_significant - 3} that share something with others, the 3 kept predict 64 % in "
    )
    assert report.verdict.endswith("Of all others 35 %.")
    all_of_it = unrelated(ceiling=0.7, coverage=0.95, r2=0.62, r2_significant=0.64)
    assert all_of_it.verdict.startswith("Good stand-ins for the rest: 3 features predict 62 % of ")


def test_of_few_samples_what_any_features_account_for_is_said():
    X = np.random.default_rng(0).standard_normal((8, 40))
    X[:, :15] += 2 * np.random.default_rng(1).standard_normal((8, 1))
    said = [GreedySelector(n_features_to_select=k).fit(X).selection_report_.verdict for k in (7, 1)]
    assert said[0].startswith(
        "7 of 40 features account for 100 % of the variance in this table; with so few samples "
        "any 7 would. How well"
    )
    assert "of the variance in this table; 1 random one accounts for " in said[1]


def test_kept_features_that_share_nothing_are_not_counted_among_those_that_do():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((300, 200))
    Z[:, :12] += rng.standard_normal((300, 1))
    Z[:, 50] *= 9  # the largest variance, of noise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = SPCAPSD(n_features_to_select=4, rule="variance").fit(Z).selection_report_
    significant = feature_significance(Z).significant
    assert report.n_kept_significant == significant[report.kept].sum() < 4


def test_without_samples_the_figures_are_of_the_matrix():
    moments = Moments.from_scatter(X.T @ X, n_samples=len(X))
    selector = SPCAPSD(n_features_to_select=6).fit_moments(moments)
    report = selector.selection_report_
    assert not report.held_out
    assert np.isnan(report.r2_held_out)
    assert np.isnan(report.random_r2_held_out).all()
    assert report.r2 == pytest.approx(selector.selection_curve_[-1])
    assert "there are no samples to hold out" in report.verdict
    assert "in new samples" not in " ".join(report.rows)


def test_samples_that_change_after_fit_do_not_change_the_report():
    for data in (X.copy(), sp.csr_array(X), np.asfortranarray(X).astype(np.float32)):
        expected = SPCAPSD(n_features_to_select=6).fit(data).selection_report_
        mine = data.copy()
        selector = SPCAPSD(n_features_to_select=6).fit(mine)
        if sp.issparse(mine):
            mine.data[:] = 0
        else:
            mine[:] = 0
        found = selector.selection_report_
        assert found.r2 == pytest.approx(expected.r2, rel=1e-12)
        assert found.r2_held_out == pytest.approx(expected.r2_held_out, rel=1e-12)


def test_samples_are_not_kept_for_long(monkeypatch):
    selector = SPCAPSD(n_features_to_select=8).fit(X)
    assert "_remembered" in vars(selector)
    for copied in (pickle.loads(pickle.dumps(selector)), copy.deepcopy(selector)):
        assert "_remembered" not in vars(copied)
        with pytest.raises(AttributeError, match=r"use selection_report\(X\)"):
            copied.selection_report_
        assert copied.selection_report(X).r2 > 0.8
    assert len(pickle.dumps(selector)) < X.nbytes
    report = selector.selection_report_
    assert "_remembered" not in vars(selector)
    assert pickle.loads(pickle.dumps(selector)).selection_report_.r2 == report.r2
    assert selector.fit(X[:100]).selection_report_.r2 != report.r2
    # Of a table with too many entries some samples are kept, unless these are few.
    monkeypatch.setattr(worth, "REMEMBERED_ENTRIES", 300 * 30)
    selector.fit(X)
    with pytest.raises(AttributeError, match="no longer at hand"):
        selector.selection_report_
    monkeypatch.setattr(worth, "FEWEST_REMEMBERED", 200)
    assert selector.fit(X).selection_report_.worth.n_rows == 300
    monkeypatch.setattr(worth, "REMEMBERED_ENTRIES", 10)
    moments = Moments.from_scatter(X.T @ X, n_samples=len(X))
    assert not hasattr(selector.fit_moments(moments), "selection_report_")


NOISE = ["n_significant_", "noise_edge_", "feature_shares_", "feature_pvalues_", "significant_"]


def test_noise_is_told_when_asked_for_where_the_model_alone_decides(monkeypatch):
    found, model = feature_significance(X), LaplacianScore(n_features_to_select="support")
    expected = found.n_significant, found.noise_edge, found.shares, found.pvalues, found.significant

    def of(selector):
        return [getattr(selector, name) for name in NOISE]

    def same(selector):
        for name, told in zip(NOISE, expected, strict=True):
            np.testing.assert_array_equal(getattr(selector, name), told, strict=False)

    with pytest.raises(AttributeError, match="no attribute 'n_significant_'"):
        of(model)
    mine = X.copy()
    model.fit(mine)
    mine[:] = 0
    assert not set(NOISE) & set(vars(model))
    same(pickle.loads(pickle.dumps(model)))
    model.fit(X)
    same(copy.deepcopy(model))
    same(model.fit(X))
    assert set(NOISE) <= set(vars(model))
    model.fit(X).selection_report_
    assert set(NOISE) <= set(vars(model))
    same(model)
    # Of other samples, not those of before; at once where the set depends on it, or samples go.
    assert of(model.fit(X[:100]))[1] != expected[1]
    for chosen in (SPCAPSD(n_features_to_select=3).fit(X), SPCAPSD().fit(X)):
        assert set(NOISE) <= set(vars(chosen))
    monkeypatch.setattr(worth, "REMEMBERED_ENTRIES", 10)
    assert set(NOISE) <= set(vars(model.fit(X)))
    same(model)


def test_the_report_is_made_only_when_asked_for():
    selector = SPCAPSD().fit(X)
    selector._repr_html_()
    repr(selector)
    assert "selection_report_" not in vars(selector)
    assert hasattr(selector, "selection_report_")
    assert "selection_report_" in vars(selector)
    assert not hasattr(SPCAPSD(), "selection_report_")
    with pytest.raises(AttributeError, match="'SPCAPSD' object has no attribute 'worth_'"):
        selector.worth_


def test_nothing_kept_says_so():
    with pytest.warns(UserWarning, match="no feature has a nonzero score"):
        selector = SPCAPSD(alpha=0.99, eta=0.03, n_features_to_select="support").fit(X)
    report = selector.selection_report_
    assert (report.n_kept, report.own_share, report.worth) == (0, 0, None)
    assert report.emptied
    assert report.verdict.startswith("Nothing is kept: the penalties remove every feature")


def test_all_kept_leaves_nothing_to_predict():
    selector = SPCAPSD(n_features_to_select="support").fit(X)
    assert selector.support_.all()
    report = selector.selection_report_
    assert report.worth is None
    assert report.why_not == "every feature is kept"
    assert report.verdict == f"All {X.shape[1]} features are kept: there is nothing to predict."


@pytest.mark.parametrize(("n", "p"), [(60, 20), (15, 80)])
def test_stand_ins_are_the_forward_selection_for_each_dropped_feature(n, p):
    data = samples(3, n, p)
    data[:, 9] = 4.0
    kept = np.array([0, 2, 3, 5, 11])
    stand_ins = selection_report(Moments.from_data(data), kept).stand_ins
    assert stand_ins.dropped.tolist() == [j for j in range(p) if j not in kept]

    def r2(features, j):
        regression = LinearRegression().fit(data[:, features], data[:, j])
        return regression.score(data[:, features], data[:, j])

    for j in (1, 4, 19):
        chosen = []
        for feature, share in stand_ins.of(j):
            best = max(r2([*chosen, k], j) for k in kept if k not in chosen)
            chosen.append(feature)
            assert share == pytest.approx(r2(chosen, j)) == pytest.approx(best)
        assert len(chosen) == 3
        row = stand_ins.dropped.tolist().index(j)
        assert stand_ins.r2_all[row] == pytest.approx(r2(list(kept), j))
    assert stand_ins.of(9) == []
    assert np.isnan(stand_ins.r2_all[stand_ins.dropped.tolist().index(9)])
    with pytest.raises(KeyError, match="feature 2 was not dropped"):
        stand_ins.of(2)


def test_a_copy_is_its_own_stand_in():
    data = np.column_stack([samples(0, 30, 5), samples(0, 30, 5)[:, 2]])
    report = selection_report(Moments.from_data(data), [2, 3])
    feature, share = report.stand_ins.of(5)[0]
    assert (feature, share) == (2, pytest.approx(1))


def test_keeping_everything():
    selector = GreedySelector(n_features_to_select=1.0).fit(X)
    report = selector.selection_report_
    assert report.r2 == pytest.approx(1)
    assert report.stand_ins.dropped.size == 0
    assert report.verdict == "All 30 features are kept: there is nothing to predict."


def test_found_again_is_of_selections_that_were_repeated():
    selector = GreedySelector(n_features_to_select=5).fit(X)
    report = selector.selection_report_
    kept = np.flatnonzero(selector.support_)
    assert report.kept.tolist() == sorted(kept, key=lambda feature: selector.ranking_[feature])
    squares = np.corrcoef(X.T) ** 2
    cut = selector._cut(Moments.from_data(X))
    expected = [
        np.mean([squares[feature, picked.order[:5]].max() >= 0.8 for picked in cut.picked])
        for feature in report.kept
    ]
    np.testing.assert_allclose(report.found_again, expected)
    assert set(expected) - {1.0}  # not all of them are found every time
    assert np.isnan(selector.selection_report(X, new=True).found_again).all()
    moments = Moments.from_scatter(X.T @ X, n_samples=len(X))
    selector.fit_moments(moments)
    assert np.isnan(selector.selection_report_.found_again).all()
    assert selector.selection_report_.found_again.shape == (5,)
