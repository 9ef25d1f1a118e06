"""Constraints on every selector: obeyed by every rule, in every container, whatever the count."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from jointsparse import (
    SPCA,
    SPCAPSD,
    Constraints,
    GreedySelector,
    LaplacianScore,
    Moments,
    SelectFeatures,
    SubsetSelector,
    compare_methods,
    stability_selection,
)
from jointsparse.methods import registry
from jointsparse.selection.choosing import RULES, Rule, Wanted, choose_features
from jointsparse.selection.constrained import choose_allowed
from jointsparse.solvers.subset.rules import Rules

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # sets smaller than asked for
P = 12
GROUPS = ["a"] * 3 + ["b"] * 3 + ["c"] * 2 + [None] * 4
CASES = {
    "include": Constraints(include=[9, 2]),
    "exclude": Constraints(exclude=[0, 5]),
    "budget": Constraints(costs=[3, 1, 2, 5, 1, 1, 4, 2, 1, 1, 2, 3], budget=6),
    "groups": Constraints(groups=GROUPS, max_per_group=1),
    "whole": Constraints(groups=GROUPS, whole_groups=True),
    "all": Constraints(
        include=[9],
        exclude=[8],
        costs=[2, 1, 1, 2, 1, 1, 1, 2, 1, 1, 2, 1],
        budget=8,
        groups=GROUPS,
        max_per_group={"b": 1},
        whole_groups=["a", "c"],
    ),
}


def structured(n=60, p=P, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p))
    X += 0.5 * rng.standard_normal((n, p))
    return (X - X.mean(axis=0)) / X.std(axis=0)


X = structured()
NAMES = [f"gene{j}" for j in range(P)]


def kept(selector):
    return np.flatnonzero(selector.get_support())


def make(name, **parameters):
    method = registry.methods()[name]
    if method.kind == "selector":
        return method.make(**parameters)
    return SelectFeatures(method.make(), **parameters)


@pytest.mark.parametrize("case", ["include", "all"])
@pytest.mark.parametrize("name", sorted(registry.methods()))
def test_every_method_obeys(name, case):
    if name == "fssl":
        pytest.skip("needs classes")
    constraints = CASES[case]
    selector = make(name, n_features_to_select=5, constraints=constraints)
    selector.fit(X)
    rules = constraints.resolve(P)
    assert rules.allows(kept(selector))
    assert 1 <= kept(selector).size <= 5
    ranks = selector.ranking_[kept(selector)]
    assert sorted(ranks) == list(range(1, ranks.size + 1))
    if case == "include":
        assert kept(selector).size == 5
    assert selector.selection_curve_.size == kept(selector).size
    assert np.all(np.diff(selector.selection_curve_) >= 0)


@pytest.mark.parametrize("wanted", [4, "auto", "support", "r2>=0.6"])
@pytest.mark.parametrize("case", [case for case in CASES if case != "exclude"])
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_obeys_whatever_the_count(rule, case, wanted):
    constraints = CASES[case]
    model = SPCAPSD(alpha=0.05, n_features_to_select=wanted, rule=rule, constraints=constraints)
    model.fit(X)
    rules = constraints.resolve(P)
    assert rules.allows(kept(model))
    if wanted == "r2>=0.6" and case != "budget":
        assert model.selection_curve_[-1] >= 0.6
    scores = LaplacianScore(rule=rule, n_features_to_select=wanted, constraints=constraints)
    assert rules.allows(kept(scores.fit(X)))


def test_no_constraints_change_nothing():
    moments = Moments.from_data(X)
    scores = SPCAPSD(alpha=0.1).fit(X).feature_scores_
    for rule in RULES:
        for wanted in (Wanted(count=4), Wanted(r2=0.7), Wanted(), Wanted(count=P)):
            plain = choose_features(moments, scores, wanted, Rule(rule))
            free = choose_allowed(moments, scores, wanted, Rule(rule), Rules.none(P))
            np.testing.assert_array_equal(plain.order, free.order)
            assert plain.n_kept == free.n_kept


def test_excluded_features_are_still_to_be_explained():
    rng = np.random.default_rng(3)
    one, other = rng.standard_normal((2, 200))
    copies = [one + 0.1 * rng.standard_normal(200) for _ in range(4)]
    data = np.column_stack([*copies, other, one + 0.8 * rng.standard_normal(200)])
    out = Constraints(exclude=[0, 1, 2, 3])
    # What is left stands in for the four that may not be kept, before what explains itself only.
    for selector in (
        GreedySelector(target="reconstruction", n_features_to_select=1, constraints=out),
        SubsetSelector(n_features_to_select=1, constraints=out),
    ):
        assert kept(selector.fit(data)).tolist() == [5]


@pytest.mark.parametrize("make", [GreedySelector, SPCAPSD, SubsetSelector])
def test_names_are_known_in_every_part_of_the_samples(make):
    frame = pd.DataFrame(X, columns=NAMES)
    constraints = Constraints(include=["gene9"], exclude=["gene0"], costs={"gene1": 5.0}, budget=4)
    selector = make(constraints=constraints).fit(frame)  # "auto": the selection is repeated
    assert "gene9" in selector.get_feature_names_out()
    assert not {"gene0", "gene1"} & set(selector.get_feature_names_out())
    assert selector.selection_report_.worth is not None, selector.selection_report_.why_not
    with pytest.raises(ValueError, match="the features have no names"):
        make(constraints=constraints).fit(X)


def test_other_functions_keep_to_them():
    frame = pd.DataFrame(X, columns=NAMES)
    constraints = Constraints(exclude=["gene0"], include=["gene3"])
    selector = GreedySelector(n_features_to_select=4, constraints=constraints)
    found = stability_selection(selector, frame, n_subsamples=4, random_state=0)
    assert found.frequencies[0] == 0
    assert found.frequencies[3] == 1
    both = {"one": selector, "two": SelectFeatures(SPCA(n_components=2), constraints=constraints)}
    compared = compare_methods(both, frame, n_features_to_select=4, n_subsamples=2)
    for result in compared.results:
        assert not result.error
        assert 3 in result.kept
        assert 0 not in result.kept


@pytest.mark.parametrize("case", CASES)
def test_sparse_samples_and_moments_give_the_same(case):
    constraints = CASES[case]
    rng = np.random.default_rng(5)
    data = np.where(rng.random((9, P)) < 0.5, rng.standard_normal((9, P)), 0.0)
    for samples in (X, data):  # few features, and more than samples
        dense = GreedySelector(n_features_to_select=5, constraints=constraints).fit(samples)
        other = clone(dense).fit(sp.csr_array(samples))
        np.testing.assert_array_equal(dense.support_, other.support_)
    whole = GreedySelector(n_features_to_select=5, constraints=constraints).fit(X)
    moments = clone(whole).fit_moments(Moments.from_scatter(X.T @ X, len(X)))
    assert constraints.resolve(P).allows(kept(moments))


def test_tensors_obey():
    torch = pytest.importorskip("torch")
    for constraints in CASES.values():
        host = GreedySelector(n_features_to_select=5, constraints=constraints).fit(X)
        there = clone(host).fit(torch.from_numpy(X))
        np.testing.assert_array_equal(host.support_, there.support_)


def brute_value(features):
    some = X[:, list(features)]
    left = X - some @ np.linalg.lstsq(some, X, rcond=None)[0]
    return 1 - np.sum(left**2) / np.sum(X**2)


def test_prices_neither_favour_cheap_features_nor_dear_ones():
    # One dear feature is worth more than all cheap ones together: the guard keeps it.
    rng = np.random.default_rng(0)
    signal = rng.standard_normal(300)
    data = np.column_stack([signal * 3, *(0.1 * rng.standard_normal(300) for _ in range(5))])
    dear = Constraints(costs=[10, 1, 1, 1, 1, 1], budget=10)
    selector = GreedySelector(
        target="reconstruction", n_features_to_select=5, constraints=dear
    ).fit(data)
    assert 0 in kept(selector)
    # And where many cheap ones do more than one dear one, they are kept.
    cheap = Constraints(costs=[9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], budget=9)
    selector = GreedySelector(
        target="reconstruction", n_features_to_select=9, constraints=cheap
    ).fit(X)
    sets = [s for k in (1, 5, 9) for s in combinations(range(P), k)]
    rules = cheap.resolve(P)
    best = max(brute_value(s) for s in sets if rules.allows(list(s)))
    assert brute_value(kept(selector)) >= 0.95 * best


def test_a_free_feature_and_no_budget_at_all():
    selector = GreedySelector(
        n_features_to_select=3, constraints=Constraints(costs={0: 1.0}, budget=0)
    ).fit(X)
    assert kept(selector).size == 3
    assert 0 not in kept(selector)


def test_noise_keeps_what_must_be_kept():
    noise = np.random.default_rng(0).standard_normal((50, 6))
    for selector in (
        GreedySelector(constraints=Constraints(include=[4])),
        SPCAPSD(constraints=Constraints(include=[4])),
        SubsetSelector(constraints=Constraints(include=[4])),
    ):
        with pytest.warns(UserWarning, match="only what must be kept is"):
            selector.fit(noise)
        assert kept(selector).tolist() == [4]


@pytest.mark.parametrize(
    ("wanted", "constraints", "message"),
    [
        (9, Constraints(costs=[1] * P, budget=4), "allow 4 features at most, not the 9 asked for"),
        (
            "r2>=0.99",
            Constraints(exclude=list(range(2, P))),
            "the 2 features that the constraints allow account for .* not the 99% asked for",
        ),
        (
            5,
            Constraints(groups=["a"] * 4 + ["b"] * 4 + ["c"] * 4, whole_groups=True),
            "4 features are kept, not the 5 asked for: no other fits",
        ),
    ],
)
def test_what_is_less_than_asked_for_is_said(wanted, constraints, message):
    for make in (GreedySelector, SubsetSelector, LaplacianScore):
        with pytest.warns(UserWarning, match=message):
            make(n_features_to_select=wanted, constraints=constraints).fit(X)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (
            Constraints(include=[0, 1, 2]),
            "include has 3 features, more than n_features_to_select=2",
        ),
        (
            Constraints(groups=["a"] * 6 + ["b"] * 6, whole_groups=True),
            "n_features_to_select=2 is less than the smallest of the groups .* has 6 features",
        ),
        ({"include": [1]}, "is no Constraints object"),
    ],
)
def test_what_cannot_be_is_refused_before_the_fit(constraints, message):
    for make in (GreedySelector, SPCAPSD, SubsetSelector):
        with pytest.raises(ValueError, match=message):
            make(n_features_to_select=2, constraints=constraints).fit(X)


def test_support_keeps_what_may_be_kept():
    data = X * np.linspace(0.2, 3, P)
    model = SPCAPSD(alpha=0.5, n_features_to_select="support").fit(data)
    support = kept(model)
    assert 2 <= support.size < P
    out, must = int(support[0]), next(j for j in range(P) if j not in support)
    limited = clone(model).set_params(constraints=Constraints(include=[must], exclude=[out]))
    assert set(kept(limited.fit(data))) == (set(support) - {out}) | {must}


def test_whole_groups_of_categories():
    rng = np.random.default_rng(1)
    kind, size = rng.integers(0, 3, 90), rng.integers(0, 4, 90)
    data = np.column_stack(
        [
            *(np.eye(3)[kind]).T,
            *(np.eye(4)[size]).T,
            *(np.eye(3)[kind] @ rng.standard_normal((3, 4)) + 0.3 * rng.standard_normal((90, 4))).T,
        ]
    )
    groups = ["kind"] * 3 + ["size"] * 4 + [None] * 4
    constraints = Constraints(groups=groups, whole_groups=True)
    for rule in RULES:
        model = SPCAPSD(n_features_to_select=5, rule=rule, constraints=constraints).fit(data)
        assert constraints.resolve(11).allows(kept(model))
    exact = SubsetSelector(n_features_to_select=5, search="exact", constraints=constraints).fit(
        data
    )
    assert exact.proved_optimal_
    assert constraints.resolve(11).allows(kept(exact))
    r2 = SubsetSelector(n_features_to_select="r2>=0.5", constraints=constraints).fit(data)
    assert constraints.resolve(11).allows(kept(r2))
    prices = exact.price_of_leaving_out()
    members = kept(exact)
    assert np.all(prices[members, 0] <= prices[members, 1])


def test_an_empty_model_keeps_what_must_be_kept():
    empty = {"alpha": 0.99, "eta": 0.5, "n_features_to_select": "r2>=0.5"}
    for include in ([], [3]):
        limits = Constraints(include=include, exclude=[0])
        with pytest.warns(UserWarning, match="no feature that may be kept has a nonzero score"):
            model = SPCAPSD(**empty, constraints=limits).fit(X)
        assert kept(model).tolist() == include


def test_a_group_that_the_count_has_no_room_for_leaves_features_alone():
    groups = ["a"] * 6 + [None] * 6
    limits = Constraints(groups=groups, whole_groups=True, exclude=list(range(6, 11)))
    for rule in RULES:
        model = SPCAPSD(n_features_to_select=3, rule=rule, constraints=limits).fit(X)
        assert kept(model).tolist() == [11]


def test_a_budget_ends_the_rules_that_know_no_gain():
    limits = Constraints(costs=[4, 1, 1, 1] * 3, budget=5)
    scores = np.arange(P, 0, -1.0)
    moments = Moments.from_data(X)
    choice = choose_allowed(moments, scores, Wanted(count=6), Rule("norm"), limits.resolve(P))
    assert sorted(choice.order[: choice.n_kept]) == [0, 1]  # best first, as long as they fit
