"""The selection repeated in parts of the samples: what is judged, what is not seen, how many."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from test_significance import PLANTED

from jointsparse import (
    CSPCA,
    FSSL,
    SPCAPSD,
    Constraints,
    GreedySelector,
    LaplacianScore,
    Moments,
    SelectFeatures,
    SubsetSelector,
    feature_significance,
    open_source,
    trials,
)
from jointsparse.methods.bases import choosing
from jointsparse.solvers.picking.held_out import cross_validation_folds
from jointsparse.trials import (
    Curve,
    Picked,
    Trials,
    _why_not,
    choose_count,
    cut_and_pick,
    fixed_cut,
    sizes_up_to,
)


def one_factor(seed=0, n=300, p=60, members=15):
    """A factor in some features, noise in the others; standardised."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, :members] += rng.standard_normal((n, 1))
    return (X - X.mean(axis=0)) / X.std(axis=0)


def noise(seed=0, n=60, p=100):
    return np.random.default_rng(seed).standard_normal((n, p))


@pytest.mark.parametrize(
    "selector",
    [SPCAPSD(), GreedySelector(), LaplacianScore(), SelectFeatures(PCA(2)), SPCAPSD(rule="norm")],
    ids=lambda s: type(s).__name__ + getattr(s, "rule", ""),
)
def test_auto_keeps_only_signal_and_nothing_of_noise(selector):
    kept = np.flatnonzero(selector.fit(one_factor()).get_support())
    assert 1 <= kept.size <= 10
    assert kept.max() < 15
    with pytest.warns(UserWarning, match="no structure beyond noise: nothing is kept") as caught:
        selector.fit(noise())
    assert len(caught) == 1
    assert not selector.support_.any()
    assert selector.selection_report_.verdict == "No structure beyond noise: nothing is kept."


@pytest.mark.parametrize("constraints", [None, Constraints(exclude=[3])])
def test_where_nothing_is_kept_what_shares_something_still_comes_first(constraints, monkeypatch):
    monkeypatch.setattr(choosing, "choose_count", lambda curve: 0)
    X, _ = PLANTED["unequal noise"](np.random.default_rng([0, 7]))
    model = SPCAPSD(constraints=constraints, scale="standard")
    with pytest.warns(UserWarning, match="no set that was tried predicts the other"):
        model.fit(X)
    assert not model.support_.any()
    first = np.argsort(model.ranking_)
    count = int(model.significant_.sum())
    assert count > 20
    assert model.significant_[first[:count]].all()
    scores = model.feature_scores_[first]
    assert (np.diff(scores[:count]) <= 0).all()
    assert (np.diff(scores[count:]) <= 0).all()
    # By score alone noise would come between: loud samples rule the model.
    assert scores[:count].min() < scores[count:].max()


@pytest.mark.parametrize("selector", [SPCAPSD(), GreedySelector(n_features_to_select="auto")])
@pytest.mark.parametrize("seed", [1, 2, 3, 9])
@pytest.mark.parametrize("family", ["chains of 25 in 400", "unequal noise"])
def test_auto_keeps_no_noise_that_only_seems_to_share_something(selector, family, seed):
    X, signal = PLANTED[family](np.random.default_rng([seed, 7]))
    selector.fit((X - X.mean(axis=0)) / X.std(axis=0))
    assert selector.support_.any()
    assert not (selector.support_ & ~signal).any()


def test_a_number_is_judged_as_that_many_where_fewer_have_a_score():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 40))
    X[:, :6] += 5 * rng.standard_normal((90, 1))
    with pytest.warns(UserWarning, match="have a nonzero score; the other"):
        selector = SPCAPSD(n_features_to_select=12, alpha=0.5, eta=0.5).fit(X)
    cut = selector._cut(Moments.from_data(X))
    assert min(picked.order.size for picked in cut.picked) >= 12  # more are for the curve


def test_a_count_keeps_that_many_of_noise_with_the_same_verdict():
    with pytest.warns(UserWarning, match="the 5 kept are no better than random features"):
        selector = SPCAPSD(n_features_to_select=5).fit(noise())
    assert selector.support_.sum() == 5
    report = selector.selection_report_
    assert report.verdict.startswith("No structure beyond noise: the 5 kept are no better")
    assert report.r2_held_out < 0.05


@pytest.mark.parametrize("n_samples", [300, 40])
def test_the_values_of_a_part_do_not_change_what_is_picked_without_it(n_samples):
    X = one_factor(n=n_samples)
    first = SPCAPSD()._cut(Moments.from_data(X))
    changed = X.copy()
    rows = first.parts[1]
    changed[rows] = np.random.default_rng(1).permuted(changed[rows], axis=0)
    second = SPCAPSD()._cut(Moments.from_data(changed))
    np.testing.assert_array_equal(first.picked[1].order, second.picked[1].order)
    np.testing.assert_array_equal(first.picked[1].significant, second.picked[1].significant)
    assert any(not np.array_equal(first.picked[k].order, second.picked[k].order) for k in (0, 2))


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_parts_are_disjoint_and_what_is_picked_is_what_a_fit_picks(scaled, single):
    X = one_factor()
    if not scaled:
        X = X * np.random.default_rng(1).uniform(0.5, 2, X.shape[1])
    if single:
        X = X.astype(np.float32)
    cut = GreedySelector()._cut(Moments.from_data(X))
    assert sorted(np.concatenate(cut.parts).tolist()) == list(range(len(X)))
    for part, picked in zip(cut.parts, cut.picked, strict=True):
        train = np.setdiff1d(np.arange(len(X)), part)
        # Columns that were standardised with all samples are with those that are left.
        unit = X[train].std(axis=0) if scaled else 1.0
        again = GreedySelector(n_features_to_select=5).fit(X[train] / unit)
        assert np.argsort(again.ranking_)[:5].tolist() == picked.order[:5].tolist()
        np.testing.assert_array_equal(
            picked.significant, feature_significance(X[train]).significant
        )


def test_large_tables_take_part_with_some_samples(monkeypatch):
    monkeypatch.setattr(trials, "MOST_ROWS", 90)
    X = one_factor()
    selector = GreedySelector(n_features_to_select=3).fit(X)
    assert selector.selection_report_.worth.n_rows == 90
    wide = X[:, :].T.copy()
    report = GreedySelector(n_features_to_select=3).fit(wide).selection_report_
    assert report.worth is None or report.worth.n_rows <= 90


def test_at_most_4500_samples_take_part_in_three_parts():
    rows = trials.rows_that_take_part(5000)
    assert np.unique(rows).size == rows.size == 4500
    assert np.sort(trials.rows_that_take_part(4500)).tolist() == list(range(4500))
    parts = trials.cut_into_parts(rows)
    assert [part.size for part in parts] == [1500] * 3
    assert np.array_equal(np.sort(np.concatenate(parts)), np.sort(rows))


@pytest.mark.parametrize(("n", "reason"), [(8, "8 samples are too few to hold some out"), (9, "")])
def test_nine_samples_are_the_fewest(n, reason):
    assert _why_not(Moments.from_data(noise(n=n, p=4))) == reason


@pytest.mark.parametrize("difference", [0.9e-5, 1.1e-5])
def test_columns_of_one_length_have_one_in_every_part(difference):
    X = one_factor(n=60, p=4, members=2)
    X[:, 1] *= 1 - difference / 2
    X[:, 3] = 1.0
    whole = Moments.from_data(X)
    part = Moments.from_data(X[:40])
    found = trials._scaled_alike(part, whole).variances
    if difference > 1e-5:
        np.testing.assert_array_equal(found, part.variances)
    else:
        np.testing.assert_allclose(found[:3], whole.variances[:3].mean() * 40 / 60, rtol=1e-5)
    assert found[3] == pytest.approx(0, abs=1e-20)


@pytest.mark.parametrize("shape", [(300, 60), (45, 60)])
def test_worth_is_the_sum_over_the_folds(shape):
    X = one_factor(n=shape[0])
    moments = Moments.from_data(X)
    cut = GreedySelector()._cut(moments)
    found = Trials(moments, cut).worth(4)
    inside = [picked.significant for picked in cut.picked]
    folds = cross_validation_folds(moments, cut.parts, inside)
    judged = [f.judge(p.order[:4]) for f, p in zip(folds, cut.picked, strict=True)]
    missed, total = sum(j.missed for j in judged), sum(j.total for j in judged)
    assert found.r2 == pytest.approx(1 - missed / total)
    shares = [j.r2 for j in judged]
    assert found.error == pytest.approx(np.std(shares, ddof=1) / np.sqrt(3))
    rng = np.random.default_rng(0)
    sets = [rng.choice(60, 4, replace=False) for _ in range(20)]
    chance = [[f.judge(some) for f in folds] for some in sets]
    by_chance = [1 - sum(j.missed for j in c) / sum(j.total for j in c) for c in chance]
    np.testing.assert_allclose(found.random, by_chance)
    shared = [1 - sum(j.missed_inside for j in c) / sum(j.total_inside for j in c) for c in chance]
    np.testing.assert_allclose(found.random_significant, shared)
    assert found.r2_significant > found.r2
    assert found.n_folds == 3
    # what all others predict, feature by feature, at the best of the ridges
    errors = [f.leave_one_out(np.flatnonzero(f.inside)) for f in folds]
    best = np.argmin(sum(e.sum(axis=1) for e in errors))
    gains = [
        dict(
            zip(
                np.flatnonzero(f.inside), f.squares(np.flatnonzero(f.inside)) - e[best], strict=True
            )
        )
        for f, e in zip(folds, errors, strict=True)
    ]
    at_all = sum(sum(gain.values()) for gain in gains)
    kept = sum(gain[j] for gain, p in zip(gains, cut.picked, strict=True) for j in p.order[:4])
    assert found.ceiling == pytest.approx((at_all - kept) / total)
    predicted = sum(j.total_inside - j.missed_inside for j in judged)
    assert found.coverage == pytest.approx((kept + predicted) / at_all)
    # as many principal components, of what is dropped in each fold
    own = [f.total - f.squares(p.order[:4]).sum() for f, p in zip(folds, cut.picked, strict=True)]
    by_pca = [f.r2_of_pca(4, p.order[:4]) for f, p in zip(folds, cut.picked, strict=True)]
    assert found.pca == pytest.approx(np.average(by_pca, weights=own))
    assert found.pca > found.r2
    assert found.n_rows == shape[0]
    curve = Trials(moments, cut).curve()
    np.testing.assert_array_equal(curve.sizes, Trials(moments, cut).curve(0).sizes)
    place = np.flatnonzero(curve.sizes == 3)[0]
    assert curve.r2[place] == pytest.approx(Trials(moments, cut).worth(3).r2)
    assert curve.coverage[place] == pytest.approx(Trials(moments, cut).worth(3).coverage)


def test_the_ceiling_is_estimated_from_some_features(monkeypatch):
    X = one_factor(n=120, p=80, members=60)
    moments = Moments.from_data(X)
    cut = GreedySelector()._cut(moments)
    exact = Trials(moments, cut).worth(3)
    monkeypatch.setattr(trials, "N_FOR_CEILING", 25)
    rough = Trials(moments, cut).worth(3)
    assert rough.ceiling == pytest.approx(exact.ceiling, rel=0.2)
    assert rough.ceiling != exact.ceiling


def test_sparse_streamed_and_halves_of_moments():
    X = one_factor() * (np.abs(one_factor()) > 0.6)
    dense = GreedySelector().fit(X)
    sparse = GreedySelector().fit(sp.csr_array(X))
    np.testing.assert_array_equal(sparse.support_, dense.support_)
    found = sparse.selection_report_.worth
    assert found.r2 == pytest.approx(dense.selection_report_.worth.r2)
    whole = Moments.from_source(as_streamed(X))
    streamed = GreedySelector().fit_moments(whole)
    assert streamed.support_.any()
    assert np.flatnonzero(streamed.support_).max() < 15
    report = streamed.selection_report_
    assert (report.worth.n_folds, report.worth.n_rows) == (2, 300)
    assert report.worth.r2_significant > 0.2


def as_streamed(X):
    from jointsparse.sources import as_source

    return as_source(X)


def test_new_samples_judge_the_set_as_it_is():
    X = one_factor(n=600)
    selector = GreedySelector(n_features_to_select=4).fit(X[:300])
    new = X[300:]
    report = selector.selection_report(new, new=True)
    kept = np.argsort(selector.ranking_)[:4]
    moments = Moments.from_data(new)
    cut = fixed_cut(moments, np.sort(kept), feature_significance(new).significant)
    assert report.r2_held_out == pytest.approx(Trials(moments, cut).worth(4).r2)
    assert report.r2_held_out > 0


def test_where_nothing_can_be_held_out_the_table_itself_decides():
    X = one_factor()
    moments = Moments.from_scatter(X.T @ X, n_samples=300)
    selector = GreedySelector().fit_moments(moments)
    assert selector.selection_curve_[-1] >= 0.9 > selector.selection_curve_[-2]
    refused = cut_and_pick(Moments.from_data(X), refuse)
    assert refused.why_not == "the method refuses a part of the samples (too few samples)"
    few = GreedySelector(n_features_to_select=2).fit(X[:8, :15])
    assert few.selection_report_.worth is None
    assert few.selection_report_.why_not == "8 samples are too few to hold some out"


def refuse(moments, rows):
    raise ValueError("too few samples")


def test_supervised_components_see_the_labels_of_their_part():
    X = one_factor()
    y = (X[:, :15].mean(axis=1) > 0).astype(int)
    selector = SelectFeatures(FSSL(graph="lda")).fit(X, y)
    assert selector.support_.any()
    assert selector.selection_report_.worth is not None
    given = SelectFeatures(FSSL(graph="lda"), n_features_to_select=3).fit(X, y)
    assert given.selection_report(X, y).worth is not None
    assert given.selection_report(X).worth is None  # it cannot be repeated without labels


def test_structure_that_predicts_nothing_keeps_nothing(monkeypatch):
    monkeypatch.setattr(trials.Judged, "r2", property(lambda self: -0.1))
    with pytest.warns(UserWarning, match="no set that was tried predicts the other"):
        selector = GreedySelector().fit(one_factor())
    assert not selector.support_.any()
    assert selector.selection_report_.verdict.startswith(
        "Nothing is kept: the table has 1 independent pattern, but no set"
    )


def test_no_warning_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SPCAPSD().fit(one_factor())


@pytest.mark.parametrize(
    ("r2", "error", "coverage", "count"),
    [
        ([0.1, 0.3, 0.4, 0.41], 0.02, [0.2, 0.5, 0.8, 0.85], 3),  # within one standard error
        ([0.1, 0.3, 0.4, 0.41], 0.001, [0.2, 0.5, 0.95, 1.0], 3),  # covered
        ([0.1, 0.3, 0.4, 0.41], 0.001, [0.2, 0.5, 0.8, 0.85], 5),
        ([0.1, 0.3, 0.4, 0.41], 0.3, [1.0, 1.0, 1.0, 1.0], 0),  # not above nothing
        ([-0.1, -0.2, -0.3, -0.4], 0.01, [np.nan] * 4, 0),
    ],
)
def test_how_many_are_kept(r2, error, coverage, count):
    curve = Curve(np.array([1, 2, 3, 5]), np.array(r2), np.full(4, error), np.array(coverage))
    assert choose_count(curve) == count


def test_no_pick_is_no_feature():
    empty = np.empty(0)
    assert choose_count(Curve(empty.astype(int), empty, empty, empty)) == 0


@given(most=st.integers(1, 5000))
@settings(max_examples=50, deadline=None)
def test_sizes_grow_by_half_and_end_with_the_last(most):
    sizes = sizes_up_to(most)
    assert sizes[0] == 1
    assert sizes[-1] == most
    assert np.all(np.diff(sizes) > 0)
    assert np.all(sizes[1:] <= 2 * sizes[:-1])


def test_a_number_that_is_asked_for_is_the_number_that_is_judged():
    """Also where fewer features account for nearly all of the target."""
    X = one_factor(members=40)
    selector = GreedySelector(n_features_to_select=25).fit(X)
    cut = selector._cut(Moments.from_data(X))
    assert all(picked.order.size >= 25 for picked in cut.picked)
    as_many = replace(cut, picked=tuple(Picked(p.order[:25], p.significant) for p in cut.picked))
    assert selector.selection_report_.worth.r2 == Trials(Moments.from_data(X), as_many).worth(25).r2
    open_count = GreedySelector(n_features_to_select="auto")._cut(Moments.from_data(X))
    assert all(picked.order.size != 25 for picked in open_count.picked)


def test_sizes_beyond_what_covers_the_predictable_are_not_judged():
    X = one_factor(members=40)
    moments = Moments.from_data(X)
    trials_of = Trials(moments, GreedySelector(n_features_to_select="auto")._cut(moments))
    curve = trials_of.curve()
    assert curve.coverage[-1] >= trials.COVERED
    assert (curve.coverage[:-1] < trials.COVERED).all()
    assert curve.sizes[-1] < max(order.size for order in trials_of.orders)


@pytest.mark.parametrize("rule", ["greedy", "norm", "residual"])
@pytest.mark.parametrize("k", [3, 8])
def test_the_curve_goes_on_to_twice_the_number_that_is_kept(rule, k, monkeypatch):
    """And what is said of the kept number is what is said without going on."""
    import jointsparse.methods.bases.choosing as choosing

    X = one_factor(members=40)
    selector = SPCAPSD(n_features_to_select=k, rule=rule)
    further = selector.fit(X).selection_report_
    monkeypatch.setattr(choosing, "MOST_BEYOND", 0)
    short = selector.fit(X).selection_report_
    assert short.curve.sizes[-1] == k
    assert further.curve.sizes[-1] == 2 * k
    assert {k, 2 * k} <= set(further.curve.sizes.tolist())
    assert further.worth.r2 == short.worth.r2
    assert further.worth.coverage == short.worth.coverage
    np.testing.assert_array_equal(further.found_again, short.found_again)
    np.testing.assert_array_equal(further.curve.r2[: short.curve.sizes.size], short.curve.r2)


def test_the_curve_of_auto_goes_on_and_ends_before_nothing_is_left_to_predict():
    X = one_factor(members=40)
    report = GreedySelector().fit(X).selection_report_
    assert report.n_kept < report.curve.sizes[-1] <= max(2 * report.n_kept, 40)
    few = X[:, :6]
    nearly_all = GreedySelector(n_features_to_select=5).fit(few).selection_report_
    assert nearly_all.curve.sizes[-1] == 5  # of six: with all there is nothing to predict
    assert nearly_all.curve.r2[-1] == nearly_all.worth.r2


@pytest.mark.parametrize("make", [SPCAPSD, GreedySelector, SubsetSelector])
def test_few_picks_at_a_time_make_the_same_choice(make, monkeypatch):
    import jointsparse.methods.bases.choosing as module

    rng = np.random.default_rng(4)
    X = rng.standard_normal((120, 6)) @ rng.standard_normal((6, 40))
    X += 0.8 * rng.standard_normal(X.shape)
    whole = make().fit(X)
    for first in (1, 2, 7):
        monkeypatch.setattr(module, "FIRST_PICKS", first)
        monkeypatch.setattr(module, "PICKS_PER_PATTERN", 0)
        parts = make().fit(X)
        np.testing.assert_array_equal(parts.support_, whole.support_)
        assert parts.selection_report_.worth.r2 == whole.selection_report_.worth.r2


def test_the_report_of_a_long_table_judges_the_trials_of_the_fit(monkeypatch):
    import jointsparse.methods.bases.worth as module

    rng = np.random.default_rng(5)
    X = rng.standard_normal((3 * trials.MOST_ROWS, 1)) + rng.standard_normal(
        (3 * trials.MOST_ROWS, 6)
    )
    selector = GreedySelector().fit(X)
    asked = []
    monkeypatch.setattr(module.SelectionWorth, "_cut", lambda *_: asked.append(1))
    assert selector.selection_report_.worth.n_rows == trials.MOST_ROWS
    assert not asked


def test_why_nothing_is_held_out_is_said():
    X = one_factor()
    centred = X - X.mean(axis=0)
    assert _why_not(Moments.from_data(X)) == ""
    sums = Moments.from_scatter(centred.T @ centred, len(X))
    assert _why_not(sums) == "there are no samples to hold out"
    assert "too few" in _why_not(Moments.from_data(X[:3]))
    elsewhere = SimpleNamespace(
        n_samples=300, origin=None, halves=None, has_samples=True, elsewhere=True
    )
    assert "do not fit in memory" in _why_not(elsewhere)


def test_a_single_feature_of_noise_is_spoken_of_as_one():
    X = np.random.default_rng(0).standard_normal((60, 12))
    with pytest.warns(UserWarning, match="the 1 kept is no better than random features"):
        selector = SPCAPSD(n_features_to_select=1).fit(X)
    verdict = selector.selection_report_.verdict
    assert "the 1 kept is no better than random features (it predicts " in verdict


def test_of_too_few_samples_nothing_is_said_of_random_features():
    X = np.random.default_rng(0).standard_normal((5, 12))
    with pytest.warns(UserWarning, match="5 samples show strong structure only"):
        verdict = SPCAPSD(n_features_to_select=3).fit(X).selection_report_.verdict
    assert "nothing speaks for the 3 kept rather than others" in verdict
    assert verdict.endswith("is not known: 5 samples are too few to hold some out.")
    with pytest.warns(UserWarning, match="5 samples show strong structure only"):
        assert not SPCAPSD().fit(X).support_.any()
    with pytest.warns(UserWarning, match="no structure beyond noise: every feature is kept$"):
        selector = SPCAPSD(n_features_to_select=1).fit(np.arange(40.0)[:, None] % 7)
    verdict = selector.selection_report_.verdict
    assert verdict.endswith("the only feature is kept, and there is nothing to predict.")


def test_samples_read_in_blocks_are_not_taken_apart_for_methods_that_look_at_each(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3)) @ rng.standard_normal((3, 20))
    np.save(tmp_path / "x.npy", X + rng.standard_normal(X.shape))
    source = open_source(tmp_path / "x.npy", memory="600kB")
    model = CSPCA(n_features_to_select=3).fit(source)
    words = str(model.selection_report(source))
    assert "allow more memory" in words
    assert "Moments" not in words
