import pickle
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import StandardScaler

from jointsparse import (
    Constraints,
    GreedySelector,
    Moments,
    SubsetSelector,
    certify_set,
    load_model,
    save_model,
)
from jointsparse.methods.sets.set_certificate import set_words

WINE = StandardScaler().fit_transform(load_wine().data)


def data(seed=0, n=40, p=9):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) @ rng.standard_normal((4, p))
    return X + 0.5 * rng.standard_normal((n, p))


def share(X, Y, features):
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    fit = X[:, features] @ np.linalg.lstsq(X[:, features], Y, rcond=None)[0]
    return np.sum(fit**2) / np.sum(Y**2)


def best(X, Y, size):
    sets = [list(c) for c in combinations(range(X.shape[1]), size)]
    values = [share(X, Y, c) for c in sets]
    return max(values), sets[int(np.argmax(values))]


def kept(selector):
    return np.flatnonzero(selector.support_).tolist()


def targets(X):
    rng = np.random.default_rng(1)
    y = X[:, [2, 5]] + 0.3 * rng.standard_normal((len(X), 2))
    A = rng.standard_normal((2, X.shape[1]))
    centred = X - X.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
    return {
        "features": ({}, None, X),
        "outcomes": ({"target": "outcomes"}, y, y),
        "array": ({"target": A}, None, centred @ A.T),
        "components": ({"n_components": 2}, None, centred @ axes.T),
    }


@pytest.mark.parametrize(("n", "p"), [(40, 9), (7, 9)])
@pytest.mark.parametrize("name", ["features", "outcomes", "array", "components"])
def test_the_best_set_for_each_target_is_that_of_enumeration(name, n, p):
    X = data(n=n, p=p)
    parameters, y, Y = targets(X)[name]
    selector = SubsetSelector(n_features_to_select=3, search="exact", **parameters).fit(X, y)
    value, features = best(X, Y, 3)
    assert kept(selector) == features
    assert selector.set_value_ == pytest.approx(value)
    assert selector.set_bound_ >= selector.set_value_
    assert selector.proved_optimal_
    assert selector.objective_ == pytest.approx(1 - value)
    alone = [share(X, Y, [j]) for j in range(p)]
    np.testing.assert_allclose(selector.feature_scores_, alone)
    order = np.argsort(selector.ranking_)[:3].tolist()
    left = [1 - share(X, Y, order[: k + 1]) for k in range(3)]
    np.testing.assert_allclose(selector.history_, left, atol=1e-12)
    curve = [share(X, X, order[: k + 1]) for k in range(3)]
    np.testing.assert_allclose(selector.selection_curve_, curve)


def test_each_search_is_at_least_as_good_as_the_one_before():
    X = StandardScaler().fit_transform(load_breast_cancer().data)
    greedy, swap, exact = (
        SubsetSelector(n_features_to_select=5, search=search).fit(X)
        for search in ("greedy", "swap", "exact")
    )
    plain = GreedySelector(target="reconstruction", n_features_to_select=5)
    assert kept(greedy) == kept(plain.fit(X))
    assert greedy.set_value_ == pytest.approx(0.7529, abs=5e-5)
    assert swap.set_value_ == pytest.approx(0.7822, abs=5e-5)
    assert exact.set_value_ == pytest.approx(0.7822, abs=5e-5)
    assert greedy.set_bound_ >= exact.set_bound_ >= exact.set_value_
    assert greedy.set_gap_ == pytest.approx(greedy.set_bound_ / greedy.set_value_ - 1)
    assert not swap.proved_optimal_
    assert swap.stopping_reason_ == "no exchange of one feature is better"
    swap.improve(time_limit=None)
    assert swap.proved_optimal_
    assert kept(swap) == kept(exact)
    assert "No 5 of the 30 account for more (proved" in str(swap.set_certificate_)
    assert swap.stopping_reason_ == exact.stopping_reason_
    assert exact.stopping_reason_ == "no set of as many features is better (proved for this table)"
    assert greedy.stopping_reason_ == "every feature was the best one at its turn"
    points = np.ceil(1e4 * (greedy.set_bound_ - greedy.set_value_)) / 100
    assert f"do more than {points:.2f} points better" in str(greedy.set_certificate_)


def test_prices_are_those_of_searches_without_the_feature():
    selector = SubsetSelector(n_features_to_select=3, search="exact").fit(WINE)
    prices = selector.price_of_leaving_out()
    for feature in range(13):
        if not selector.support_[feature]:
            assert np.isnan(prices[feature]).all()
            continue
        others = [j for j in range(13) if j != feature]
        value, _ = max(
            ((share(WINE, WINE, list(c)), c) for c in combinations(others, 3)), key=lambda v: v[0]
        )
        loss = selector.set_value_ - value
        assert prices[feature, 0] - 1e-9 <= loss <= prices[feature, 1] + 1e-9
        assert prices[feature, 1] - prices[feature, 0] < 1e-8
    assert selector.price_of_leaving_out_ is prices
    selector.fit(WINE)
    assert not hasattr(selector, "price_of_leaving_out_")


def test_features_proved_in_or_out_are_in_all_or_none_of_the_best_sets():
    X = data(3, n=60, p=8)
    X[:, 7] = np.random.default_rng(0).standard_normal(60) * 0.05
    X[:, 0] *= 20
    selector = SubsetSelector(n_features_to_select=3, search="exact").fit(X)
    assert selector.forced_out_[7]
    assert not np.any(selector.forced_out_ & selector.support_)
    assert not np.any(selector.forced_in_ & ~selector.support_)
    for feature in np.flatnonzero(selector.forced_out_):
        sets = (c for c in combinations(range(8), 3) if feature in c)
        assert max(share(X, X, list(c)) for c in sets) < selector.set_value_


def test_constraints_by_name_are_kept_to_and_proved():
    frame = pd.DataFrame(WINE, columns=load_wine().feature_names)
    prices = {name: 1.0 + k % 3 for k, name in enumerate(frame.columns)}
    groups = {name: k % 2 for k, name in enumerate(frame.columns)}
    constraints = Constraints(
        include=["ash"], exclude=["hue", "flavanoids"], costs=prices, budget=7.0, groups=groups,
        max_per_group=3,
    )  # fmt: skip
    selector = SubsetSelector(n_features_to_select=4, search="exact", constraints=constraints).fit(
        frame
    )
    rules = constraints.resolve(13, list(frame.columns))
    sets = [c for k in range(5) for c in combinations(range(13), k) if rules.allows(list(c))]
    values = [share(WINE, WINE, list(c)) for c in sets]
    assert selector.set_value_ == pytest.approx(max(values))
    assert tuple(kept(selector)) == sets[int(np.argmax(values))]
    assert selector.proved_optimal_
    prices = selector.price_of_leaving_out()
    assert np.isnan(prices[list(frame.columns).index("ash")]).all()
    assert clone(selector).get_params()["constraints"] == constraints


def test_groups_and_budgets_also_hold_for_other_ways_to_say_how_many():
    constraints = Constraints(costs=[1.0] * 13, budget=4.0)
    for wanted, message in (
        ("r2>=0.9", r"the 4 features that the constraints allow account for .*, not the 90% asked"),
        (9, "the constraints allow 4 features at most, not the 9 asked for"),
    ):
        selector = SubsetSelector(n_features_to_select=wanted, constraints=constraints)
        with pytest.warns(UserWarning, match=message):
            selector.fit(WINE)
        assert selector.support_.sum() == 4
    selector = SubsetSelector(n_features_to_select="support", constraints=constraints).fit(WINE)
    assert selector.support_.sum() == 4
    excluded = Constraints(exclude=[0, 1])
    selector = SubsetSelector(n_features_to_select="support", constraints=excluded).fit(WINE)
    assert kept(selector) == list(range(2, 13))
    included = Constraints(include=[2, 1, 0])
    selector = SubsetSelector(n_features_to_select="r2>=0.1", constraints=included).fit(WINE)
    assert kept(selector) == [0, 1, 2]


@pytest.mark.parametrize("search", ["greedy", "swap"])
def test_a_share_of_the_variance_is_reached_with_few_features(search):
    X = StandardScaler().fit_transform(load_breast_cancer().data)
    selector = SubsetSelector(n_features_to_select="r2>=0.9", search=search).fit(X)
    greedy = GreedySelector(n_features_to_select="r2>=0.9").fit(X)
    assert selector.selection_curve_[-1] >= 0.9 > selector.selection_curve_[-2]
    assert selector.support_.sum() == greedy.support_.sum() - (search == "swap")
    other = SubsetSelector(n_features_to_select="r2>=0.6", n_components=2, search=search).fit(X)
    assert other.selection_curve_[-1] >= 0.6


def test_more_features_than_the_rank_and_constant_ones():
    X = data(n=6, p=9)
    X[:, 4] = 3.0
    with pytest.warns(UserWarning, match="no structure beyond noise: every feature is kept"):
        selector = SubsetSelector(n_features_to_select=9).fit(X)
    assert selector.support_.all()
    assert selector.ranking_[4] == 9
    with pytest.warns(UserWarning, match="no structure beyond noise: nothing speaks for the 7"):
        selector = SubsetSelector(n_features_to_select=7).fit(X)
    assert selector.support_.sum() == 7
    assert selector.set_value_ == pytest.approx(1)
    assert selector.proved_optimal_


def test_moments_samples_and_sparse_samples_give_the_same_set():
    X = np.maximum(data(n=50), 0)
    selector = SubsetSelector(n_features_to_select=4, search="exact")
    expected = kept(selector.fit(X))
    assert kept(selector.fit_moments(Moments.from_data(X))) == expected
    S = np.cov(X, rowvar=False)
    assert kept(selector.fit_moments(Moments.from_scatter(S, 50))) == expected
    assert kept(selector.fit(sp.csr_matrix(X))) == expected
    assert kept(selector.fit(X.astype(np.float32))) == expected
    outcomes = SubsetSelector(n_features_to_select=2, target="outcomes")
    y = X[:, 3] + 0.1 * X[:, 5]
    wanted = kept(outcomes.fit(X, y))
    assert wanted == [3, 5]
    assert kept(outcomes.fit(sp.csr_matrix(X), y)) == wanted


def test_improve_reports_progress_and_stops_where_it_is_told():
    X = StandardScaler().fit_transform(load_breast_cancer().data)
    selector = SubsetSelector(n_features_to_select=10).fit(X)
    seen = []
    selector.improve(max_nodes=300, callback=seen.append)
    assert selector.search_nodes_ == 301
    assert seen[-1].value == selector.set_value_
    assert seen[-1].bound == selector.set_bound_
    assert selector.search_seconds_ > 0
    assert selector.stopping_reason_ == "the search ended at its limit, after 301 nodes"
    assert selector.bound_method_ in ("search", "joint relaxation")
    report = selector.selection_report_
    assert report.r2 == pytest.approx(selector.selection_curve_[-1])


def test_a_saved_model_keeps_the_proof_and_not_the_search(tmp_path):
    constraints = Constraints(include=(1,), costs={0: 2.0}, budget=3.0)
    selector = SubsetSelector(n_features_to_select=3, constraints=constraints).fit(WINE)
    save_model(selector, tmp_path / "m.skops")
    for loaded in (load_model(tmp_path / "m.skops"), pickle.loads(pickle.dumps(selector))):
        assert loaded.set_bound_ == selector.set_bound_
        assert loaded.constraints == constraints
        np.testing.assert_array_equal(loaded.transform(WINE), selector.transform(WINE))
        with pytest.raises(ValueError, match="fit again to go on with it"):
            loaded.improve()


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({"search": "best"}, None, "search='best' is not one of"),
        ({"target": "noise"}, None, "target='noise' is neither 'features'"),
        ({"target": "outcomes"}, None, r"needs the outcomes: use fit\(X, y\)"),
        ({"target": "outcomes"}, ["a"] * 40, "outcomes are numbers"),
        ({"target": "outcomes"}, np.ones(7), "y has 7 rows, but X has 40"),
        ({"target": "outcomes"}, np.ones(40), "the outcomes are constant"),
        ({"target": "outcomes"}, np.full(40, np.nan), "y has missing or infinite values"),
        ({"target": np.ones((2, 3))}, None, "target has 3 columns, but there are 9 features"),
        ({"target": np.zeros((2, 9))}, None, "target must be finite, and not zero"),
        ({"target": np.array([["a"] * 9])}, None, "or an array of numbers"),
        ({"n_components": 0}, None, "n_components=0 is not a whole number of at least 1"),
        ({"constraints": {"include": [1]}}, None, "is no Constraints object"),
        ({"time_limit": "1"}, None, "time_limit='1' is neither a number of seconds nor None"),
        ({"max_nodes": 1.5}, None, "max_nodes=1.5 is neither a whole number nor None"),
        ({"constraints": Constraints(include=[0, 1, 2]), "n_features_to_select": 2}, None,
         "include has 3 features, more than n_features_to_select=2"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_words(parameters, y, message):
    with pytest.raises(ValueError, match=message):
        SubsetSelector(**parameters).fit(data(), y)


def test_outcomes_are_not_part_of_moments():
    with pytest.raises(ValueError, match=r"use fit\(X, y\)"):
        SubsetSelector(target="outcomes").fit_moments(Moments.from_data(data()))


class TestCertifySet:
    def test_any_set_is_judged_against_all_of_its_size(self):
        value, features = best(WINE, WINE, 3)
        for chosen in combinations(range(13), 3):
            if sum(chosen) % 11:
                continue
            proof = certify_set(WINE, chosen)
            assert proof.value == pytest.approx(share(WINE, WINE, list(chosen)))
            assert value <= proof.bound <= value + 1e-8
            assert proof.gap == pytest.approx(proof.bound / proof.value - 1)
            assert proof.proved == (list(chosen) == features)
            assert proof.best_features.tolist() == features
            assert proof.best_value == pytest.approx(value)

    def test_a_bound_is_not_rounded_down(self):
        words = partial(set_words, 0.754449, size=5, n_features=30, tol=1e-9, what="the variance")
        assert "more than 2.78 points better, 78.23 % (proved)" in words(0.782211)
        assert "A set that accounts for 78.22 % was found" in words(0.79, better=0.782211)
        assert "(found and proved): less than 0.01 points more" in words(0.75446, better=0.75446)
        assert "points better, 100.00 %" in words(1 + 1e-12)

    def test_names_masks_and_moments(self):
        frame = pd.DataFrame(WINE, columns=load_wine().feature_names)
        mask = np.zeros(13, dtype=bool)
        mask[[0, 4]] = True
        proofs = [
            certify_set(frame, ["magnesium", "alcohol"]),
            certify_set(WINE, mask),
            certify_set(Moments.from_data(WINE), np.array([4, 0])),
        ]
        assert len({round(proof.bound, 9) for proof in proofs}) == 1
        assert all(proof.features.tolist() == [0, 4] for proof in proofs)

    def test_words(self):
        value, features = best(WINE, WINE, 4)
        proved = str(certify_set(WINE, features))
        assert proved == (
            f"These 4 features account for {100 * value:.2f} % of the variance in this table. No 4 "
            "of the 13 account for more (proved, tolerance 1e-09). The proof is about this table, "
            "not about new data."
        )
        found = str(certify_set(WINE, [0, 1, 2, 3]))
        better = value - share(WINE, WINE, [0, 1, 2, 3])
        assert (
            f"The best 4 of the 13 account for {100 * value:.2f} % (found and proved): "
            f"{100 * better:.2f} points more." in found
        )
        opened = certify_set(WINE, features, max_nodes=0)
        assert not opened.proved
        assert opened.method == "principal components"
        points, bound = (np.ceil(1e4 * x) / 100 for x in (opened.bound - value, opened.bound))
        assert (
            f"No other 4 of the 13 do more than {points:.2f} points better, {bound:.2f} % "
            "(proved). Whether a better set exists is not known." in str(opened)
        )
        one = str(certify_set(WINE, [6], n_components=1))
        assert one.startswith("This feature accounts for")
        assert "of the first principal component in this table" in one
        two = certify_set(WINE, [6], n_components=2)
        assert "of the first 2 principal components in this table" in str(two)
        assert "of the given components" in str(certify_set(WINE, [6], target=np.ones((1, 13))))
        y = WINE[:, 0] * 2
        outcome = certify_set(WINE, [0], y=y, target="outcomes")
        assert "accounts for 100.00 % of the outcomes in this table" in str(outcome)

    def test_a_set_that_explains_nothing(self):
        X = np.array([[1.0, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]])
        proof = certify_set(X, [2], target=np.array([[1.0, 0, 0]]), max_nodes=0)
        assert proof.value == 0
        assert proof.gap == np.inf
        assert "100.00 points" in str(proof)

    @pytest.mark.parametrize(
        ("features", "options", "message"),
        [
            ([], {}, "features is empty"),
            ([13], {}, "features has feature 13, but features are numbered from 0 to 12"),
            ("ash", {}, "features names the feature 'ash', but the features have no names"),
            (np.ones(3, dtype=bool), {}, "a mask of 3 entries for 13"),
            ([0], {"constraints": Constraints(exclude=[0])}, "does not keep to the constraints"),
            ([0], {"target": "outcomes"}, "needs the outcomes"),
            ([0], {"ridge": 0}, "ridge=0 is neither a positive number nor None"),
        ],
    )
    def test_what_makes_no_sense_is_refused_in_words(self, features, options, message):
        with pytest.raises(ValueError, match=message):
            certify_set(WINE, features, **options)

    def test_a_name_that_is_nearly_right_is_named(self):
        frame = load_wine(as_frame=True).data
        with pytest.raises(ValueError, match="features: there is no feature 'alcool'; did you"):
            certify_set(frame, ["ash", "alcool"])
        twice, once = (certify_set(frame, some, max_nodes=1) for some in (["ash", 2], "ash"))
        assert twice.features.tolist() == once.features.tolist() == [2]

    def test_outcomes_need_samples(self):
        with pytest.raises(ValueError, match="needs the samples themselves"):
            certify_set(Moments.from_scatter(np.eye(3), 10), [0], target="outcomes", y=np.ones(10))

    def test_more_features_than_samples_by_ridge_regression(self):
        X = data(n=10, p=60)
        X /= X.std(axis=0)
        features = kept(SubsetSelector(n_features_to_select=5, search="greedy").fit(X))
        plain, ridge = (certify_set(X, features, ridge=r, max_nodes=1) for r in (None, 3.0))
        assert plain.value > ridge.value
        centred = X - X.mean(axis=0)
        unit = (centred / np.linalg.norm(centred, axis=0))[:, features]
        fit = unit @ np.linalg.solve(unit.T @ unit + 3.0 * np.eye(5), unit.T @ centred)
        assert ridge.value == pytest.approx(np.sum(fit * centred) / np.sum(centred**2))
        assert 0 < ridge.gap < 0.2
        assert ridge.method == "ridge relaxation"
        assert "of the variance (by ridge regression) in this table" in str(ridge)


def test_auto_keeps_what_new_samples_call_for_and_nothing_of_noise():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 40))
    X[:, :10] += rng.standard_normal((300, 1))
    for search in ("greedy", "swap"):
        selector = SubsetSelector(search=search, target="patterns").fit(X)
        chosen = np.flatnonzero(selector.support_)
        assert 1 <= chosen.size <= 9
        assert chosen.max() < 10
        assert selector.selection_report_.worth.r2_significant > 0.2
        assert selector.set_value_ <= selector.set_bound_
    noise = rng.standard_normal((60, 20))
    with pytest.warns(UserWarning, match="no structure beyond noise: nothing is kept"):
        selector = SubsetSelector().fit(noise)
    assert not selector.support_.any()
    assert (selector.set_value_, selector.set_bound_, selector.proved_optimal_) == (0, 0, True)
    with pytest.raises(ValueError, match="fit again"):
        selector.improve()
    with pytest.raises(ValueError, match="there is no structure beyond noise"):
        SubsetSelector(target="patterns", n_features_to_select=3).fit(noise)


def test_outcomes_are_judged_with_the_samples_of_their_part():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 12)) + rng.standard_normal((200, 1))
    y = X[:, [2, 5]] @ np.array([1.0, -1.0])
    selector = SubsetSelector(target="outcomes", n_features_to_select=2).fit(X, y)
    assert kept(selector) == [2, 5]
    assert selector.selection_report_.worth is not None
    automatic = SubsetSelector(target="outcomes").fit(X, y)
    assert automatic.support_.any()


def rankings_of_copies(X, **parameters):
    """Return the rankings of one table in three guises, which round differently."""
    copies = (X, 3 * X, np.asfortranarray(X[::-1]))
    return [SubsetSelector(**parameters).fit(table).ranking_ for table in copies]


def test_the_order_of_features_that_would_all_complete_the_set_is_no_rounding():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((9, 3)) @ rng.standard_normal((3, 40))  # after 2 any other will do
    first, *others = rankings_of_copies(X, n_features_to_select=2, n_components=3)
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_the_order_of_features_that_add_nothing_is_that_of_their_variances():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 12))
    X = np.linalg.qr(X - X.mean(axis=0))[0] * np.r_[100, 90, np.linspace(1, 2, 10)]
    for ranking in rankings_of_copies(X, n_features_to_select=2, n_components=2):
        assert ranking.tolist() == [1, 2, *range(12, 2, -1)]
