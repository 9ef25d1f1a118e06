"""Whole groups in the greedy kernel: scored as the definition says, in every container."""

import numpy as np
import pytest
import scipy.sparse as sp

from jointsparse import Constraints
from jointsparse.operators.dense import DenseSamples
from jointsparse.operators.sparse import SparseSamples
from jointsparse.solvers.picking.greedy import select_greedily
from jointsparse.solvers.picking.greedy_groups import group_score
from jointsparse.solvers.picking.row_targets import Projection
from jointsparse.solvers.products.columns import Columns

GROUPS = ["a"] * 3 + ["b"] * 2 + [None] * 13


def elsewhere(samples):
    """Samples that say they are in a file: whatever is asked of them is a pass."""
    samples.home = "file"
    return samples


def table(seed=0, n=12, p=18):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p)) + 0.4 * rng.standard_normal(
        (n, p)
    )
    X[:, :3] *= 2
    return X - X.mean(axis=0)


def explained(X, features):
    """Return the share of all squares that a regression on some features accounts for."""
    some = X[:, list(features)]
    left = X - some @ np.linalg.lstsq(some, X, rcond=None)[0]
    return 1 - np.sum(left**2) / np.sum(X**2)


@pytest.mark.parametrize("per_price", [False, True])
def test_a_group_is_picked_for_what_its_features_add_together(per_price):
    for seed in range(20):
        X = table(seed)
        prices = np.random.default_rng(seed).integers(1, 5, 18)
        rules = Constraints(
            groups=GROUPS, whole_groups=True, costs=prices, budget=int(prices.sum())
        ).resolve(18)
        weight = prices if per_price else np.ones(18)
        picked = []
        while len(picked) < 6:
            units = [u for u in rules.units if u[0] not in picked and len(u) <= 6 - len(picked)]
            before = explained(X, picked) if picked else 0.0
            gains = [
                (explained(X, [*picked, *unit]) - before) / weight[list(unit)].sum()
                for unit in units
            ]
            picked += units[int(np.argmax(gains))]
        found = select_greedily(Columns(X), n_picks=6, rules=rules, per_price=per_price)
        assert found.picks.tolist() == picked


@pytest.mark.parametrize("criterion", ["gain", "residual"])
@pytest.mark.parametrize("target", [None, Projection(np.eye(18)[:, :4])])
def test_all_containers_pick_the_same(criterion, target):
    rules = Constraints(
        groups=GROUPS, whole_groups=True, costs=[1, 2] * 9, budget=9, exclude=[7]
    ).resolve(18)
    weights = np.linspace(0.5, 1, 18)
    for seed in range(5):
        X = table(seed)
        options = {"n_picks": 6, "target": target, "criterion": criterion, "weights": weights}
        options |= {"rules": rules, "per_price": True}
        expected = select_greedily(Columns(X), **options)
        assert rules.allows(expected.picks)
        squares = np.sum(X**2, axis=0)
        remote = Columns(elsewhere(DenseSamples(X)), squares)
        sparse = Columns(SparseSamples(sp.csc_array(X), np.zeros(18)), squares)
        for columns in (remote, sparse):
            found = select_greedily(columns, **options)
            assert found.picks.tolist() == expected.picks.tolist()
            np.testing.assert_allclose(found.curve, expected.curve, atol=1e-10)


def test_what_is_given_is_taken_with_the_rest_of_its_group():
    X = table()
    rules = Constraints(include=[9], groups=GROUPS, whole_groups=True).resolve(18)
    order = [0, 1, 2, 9, 10]
    found = select_greedily(Columns(X), n_picks=5, given=order, rules=rules, r2=1e-6)
    assert found.picks.tolist() == [0, 1, 2, 9]


@pytest.mark.parametrize("gains", [True, False])
def test_the_score_of_a_group_is_that_of_its_definition(gains):
    rng = np.random.default_rng(5)
    block, root = rng.standard_normal((8, 4)), rng.standard_normal((8, 3))
    block[:, 2] = block[:, 0] - 2 * block[:, 1]  # determined by those before it
    features, kernel = [6, 1, 4, 0], root @ root.T
    below, weights, prices = rng.uniform(0.5, 2, (3, 7))
    total = 0.0
    for place, feature in enumerate(features):
        if place == 2:
            continue
        before = block[:, :place]
        column = block[:, place]
        if place:
            column = column - before @ np.linalg.lstsq(before, column, rcond=None)[0]
        left = column @ column
        score = column @ kernel @ column / (left + below[feature])
        total += weights[feature] * (score if gains else left / below[feature])
    arguments = (block, features, kernel if gains else None)
    options = {"floor": np.full(7, 1e-9), "below": below, "weights": weights}
    found = group_score(*arguments, **options, prices=None)
    assert found == pytest.approx(total / 4)
    found = group_score(*arguments, **options, prices=prices)
    assert found == pytest.approx(total / prices[features].sum())
    if gains:  # a target that nothing of the group reaches
        assert group_score(block, features, -kernel, **options, prices=None) == 0
