"""What constraints cost: between the two numbers, by enumeration."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subset_cases import Referee, table

from jointsparse import Constraints, Moments, SubsetSelector, certify_set, constraint_prices
from jointsparse.methods.sets.constraint_prices import ConstraintPrice, without_each

KINDS = ("plain", "few directions", "duplicated", "constant", "scaled", "integers", "dependent")


def best_of(referee, rules, size, p):
    sets = (c for k in range(size + 1) for c in combinations(range(p), k))
    allowed = [c for c in sets if rules.allows(list(c))]
    return max(referee.value([*rules.include, *(j for j in c if j not in rules.include)])
               for c in allowed)  # fmt: skip


@given(
    seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS), nodes=st.sampled_from([0, 1, None])
)
@settings(max_examples=25, deadline=None)
def test_no_price_lies_outside_its_two_numbers(seed, kind, nodes):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(4, 8))
    X = table(rng, kind, p)
    size = int(rng.integers(2, 4))
    constraints = Constraints(
        include=[int(rng.integers(p))],
        costs=rng.integers(0, 3, p).tolist(),
        budget=int(rng.integers(2, 5)),
        groups=rng.integers(0, 2, p).tolist(),
        max_per_group=int(rng.integers(1, 3)),
    )
    try:
        rules = constraints.resolve(p)
    except ValueError:
        return
    referee = Referee(X, X)
    inside = best_of(referee, rules, size, p)
    found = constraint_prices(X, constraints, size, max_nodes=nodes)
    lighter = list(without_each(constraints))
    assert [price.constraint for price in found] == [words for words, _ in lighter]
    for price, (_, other) in zip(found, lighter, strict=True):
        true = best_of(referee, other.resolve(p), size, p) - inside
        assert 0 <= price.at_least <= price.at_most
        assert price.at_least <= true + 1e-9
        assert price.at_most >= true - 1e-9


def structured():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4)) @ rng.standard_normal((4, 12))
    return X + 0.4 * rng.standard_normal((80, 12))


def test_names_are_those_of_the_features():
    frame = pd.DataFrame(structured(), columns=[f"gene{j}" for j in range(12)])
    constraints = Constraints(
        include=["gene3"], exclude=[0], groups=["a", "b"] * 6, max_per_group={"a": 1}
    )
    words = [price.constraint for price in constraint_prices(frame, constraints, 3)]
    assert words == [
        "keeping 'gene3'",
        "leaving out 'gene0'",
        "allowing at most 1 of 'a'",
        "all constraints together",
    ]


def test_many_features_are_priced_together():
    found = constraint_prices(structured(), Constraints(exclude=list(range(9))), 2)
    assert [price.constraint for price in found] == ["leaving out the 9 features asked for"]
    assert found[0].at_least > 0


def test_whole_groups_have_a_price():
    groups = ["a"] * 3 + ["b"] * 3 + [None] * 6
    both = Constraints(groups=groups, whole_groups=["a"], max_per_group=1)
    found = constraint_prices(Moments.from_data(structured()), both, 4)
    assert [price.constraint for price in found] == [
        "allowing at most 1 of each group",
        "choosing groups as a whole",
        "all constraints together",
    ]
    for price in found:
        assert price.at_most - price.at_least < 1e-6  # all are proved
    assert found[-1].at_least >= max(price.at_least for price in found[:-1]) - 1e-9
    only = constraint_prices(structured(), Constraints(groups=groups, whole_groups=True), 4)
    assert [price.constraint for price in only] == ["choosing groups as a whole"]


@pytest.mark.parametrize(
    ("price", "words"),
    [
        ((0.0, 1e-6), "keeping 'x' costs nothing, to 0.01 points of variance (proved for this"),
        ((0.0, 0.004), "keeping 'x' costs at most 0.40 points of variance (proved for this table)"),
        ((0.002, 0.009), "keeping 'x' costs 0.20 to 0.90 points of variance (proved"),
        ((0.002, 0.0020001), "keeping 'x' costs 0.20 points of variance (proved"),
    ],
)
def test_prices_in_words(price, words):
    assert str(ConstraintPrice("keeping 'x'", *price)).startswith(words)
    assert str(ConstraintPrice("all constraints together", *price)).startswith(
        words.replace("keeping 'x' costs", "all constraints together cost")
    )


@pytest.mark.parametrize("count", [0, 13, 2.5, True])
def test_a_count_that_is_none_is_refused(count):
    with pytest.raises(ValueError, match="is not a whole number between 1 and 12"):
        constraint_prices(structured(), Constraints(include=[1]), count)


def test_more_features_than_are_to_be_kept_are_refused():
    with pytest.raises(
        ValueError, match="include has 3 features, more than n_features_to_select=2"
    ):
        constraint_prices(structured(), Constraints(include=[1, 2, 3]), 2)


def test_a_proof_under_constraints_says_so():
    X, limits = structured(), Constraints(exclude=[0])
    assert "The best set of at most 3 of the 12 features that keeps to the constraints" in str(
        certify_set(X, [1, 2, 3], constraints=limits)
    )
    assert "The best set of at most 1 of the 12 features that keeps to the constraints" in str(
        certify_set(X, [1], constraints=limits)
    )
    assert "constraints" not in str(certify_set(X, [1, 2, 3]))
    best = SubsetSelector(n_features_to_select=2, search="exact", constraints=limits).fit(X)
    assert "that keeps to the constraints" in str(best.set_certificate_)
    assert "no set of at most 2 features that keeps to the constraints" in best.stopping_reason_
