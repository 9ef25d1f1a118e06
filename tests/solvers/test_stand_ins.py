"""Which features stand in for one another, against all correlations."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from jointsparse import Moments
from jointsparse.solvers.picking import stand_ins
from jointsparse.solvers.picking.stand_ins import found_again, groups_of_stand_ins
from jointsparse.solvers.products.columns import feature_columns


def related(seed, n=40, p=30):
    """Features from copies to strangers, one of them constant."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, 4))[:, rng.integers(4, size=p)]
    X = factors * rng.choice([-1, 1], p) + rng.uniform(0, 1, p) * rng.standard_normal((n, p))
    X[:, rng.integers(p)] = 3.0
    return X * rng.uniform(0.1, 10, p)


def near(X):
    with np.errstate(invalid="ignore"):
        squares = np.nan_to_num(np.corrcoef(X.T)) ** 2
    return (squares >= 0.8) | np.eye(X.shape[1], dtype=bool)


@given(seed=st.integers(0, 10_000), wide=st.booleans(), sparse=st.booleans())
@settings(max_examples=25)
def test_found_again_is_counted_by_correlations(seed, wide, sparse):
    X = related(seed, n=20 if wide else 60)
    rng = np.random.default_rng(seed)
    sets = [rng.choice(30, rng.integers(0, 6), replace=False) for _ in range(4)]
    columns = feature_columns(Moments.from_data(sp.csr_array(X) if sparse else X))
    expected = np.mean([near(X)[kept].any(axis=0) for kept in sets], axis=0)
    np.testing.assert_array_equal(found_again(columns, np.arange(30), sets), expected)
    few = rng.permutation(30)[:5]
    np.testing.assert_array_equal(found_again(columns, few, sets), expected[few])


@pytest.mark.parametrize("leaders", [1, 4, 512])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=15)
def test_groups_are_those_of_one_leader_after_the_other(leaders, seed):
    X, order = related(seed), np.random.default_rng(seed).permutation(30)
    expected, number = np.full(30, -1), 0
    for feature in order:
        if expected[feature] < 0:
            expected[near(X)[feature] & (expected < 0)] = number
            number += 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stand_ins, "LEADERS", leaders)
        found = groups_of_stand_ins(feature_columns(Moments.from_data(X)), order)
    np.testing.assert_array_equal(found, expected)


def test_nothing_is_found_in_empty_sets():
    columns = feature_columns(Moments.from_data(related(0)))
    nothing = [np.empty(0, dtype=np.int64)] * 2
    assert found_again(columns, np.arange(3), nothing).tolist() == [0, 0, 0]


def test_a_single_feature_that_is_kept_every_time_is_found_with_its_copies():
    X = np.random.default_rng(0).standard_normal((40, 3))
    columns = feature_columns(Moments.from_data(np.hstack([X, -2 * X[:, :1]])))
    kept = [np.array([0]), np.array([0])]
    assert found_again(columns, np.arange(4), kept).tolist() == [1, 0, 0, 1]
