"""How searches for the best set go, their relaxations and starts (``ways.py``)."""

import numpy as np
import pytest
from ways import Setting, Ways, total

from jointsparse.solvers.subset import (
    bounds,
    exchange,
    joint_bound,
    joint_certificate,
    joint_relaxation,
    nodes,
    problem,
    ridge_bound,
    whole_groups,
    whole_search,
)
from jointsparse.solvers.subset import search as subset_search
from jointsparse.solvers.subset.constraints import Constraints, Rules

KERNELS = (nodes, subset_search, joint_bound, joint_relaxation, whole_search, exchange, problem)
KERNELS += (bounds, joint_certificate, ridge_bound)
NOTHING = exchange.FoundSet(np.zeros(0, dtype=np.int64), 0.0)


def subset_case(setting, shape, limits, wide, outcomes):
    X = setting.data(*shape)
    factor = np.random.default_rng(1).standard_normal((shape[1], outcomes)) if outcomes else None
    rules = Rules.none(shape[1]) if limits is None else Constraints(**limits).resolve(shape[1])
    if wide:
        return problem.problem_of_columns(X, X if factor is None else X @ factor), rules
    return problem.problem_of_scatter(X.T @ X, factor, len(X)), rules


def subset(
    setting,
    size=5,
    shape=(40, 16),
    limits=None,
    *,
    most=80,
    coarse=False,
    wide=False,
    outcomes=0,
    joint=False,
    start=NOTHING,
    **constants,
):
    """Search for a set, from nothing by default, so that there is something to do."""
    setting.change(KERNELS, constants, coarse=coarse)
    case, rules = subset_case(setting, shape, limits, wide, outcomes)
    if rules.wholes:
        case = whole_groups.settled(case, rules)
        found = whole_search.WholeSearch(case, size, rules, start=start, joint=joint)
    else:
        found = subset_search.SubsetSearch(case, size, rules, start=start, joint=joint)
    found.run(max_nodes=most)
    way = found.nodes, found.work, found.closed, found.bound, *map(total, found.feature_bounds())
    if not joint:
        return way
    joint = found._joint
    return (*way, joint.steps, joint.n_parts, joint.work, joint.best)


def relaxed(setting, size=4, shape=(40, 14), limits=None, coarse=False, steps=60, **constants):
    """Make steps of the joint relaxation of sets, then of that without three features."""
    setting.change(KERNELS, constants, coarse=coarse)
    case, rules = subset_case(setting, shape, limits, False, 0)
    frame = joint_certificate.frame_of(case, size, rules)
    relaxation = joint_relaxation.Relaxation(frame)
    found = []
    for _ in range(2):
        for step in range(1, steps + 1):
            relaxation.step()
            if step % 15 == 0:
                relaxation.adapt()
        proof = joint_certificate.certify(relaxation.frame, relaxation.multipliers())
        both = total(proof.bounds_with), total(proof.bounds_without)
        found += [relaxation.penalty, proof.bound, *both, float(relaxation.weights.max())]
        without = np.arange(shape[1]) % 5 == 1
        smaller = joint_certificate.frame_of(case, size, rules, without=without)
        relaxation = relaxation.restricted(smaller)
    return tuple(found)


def found_sets(setting, size=5, shape=(40, 16), limits=None, wide=False, outcomes=0, **constants):
    """Find sets without a proof."""
    setting.change(KERNELS, constants)
    setting.count(exchange._Swaps, "_best")
    setting.count(exchange._Greedy, "take")
    case, rules = subset_case(setting, shape, limits, wide, outcomes)
    greedy = exchange.greedy_set(case, size, rules)
    good = exchange.good_set(case, size, rules)
    order, values, following = exchange.in_order(case, good.features)
    curve = exchange.explained_curve(case, order, np.arange(1.0, shape[1] + 1))
    way = greedy.value, good.value, good.swaps, setting.calls
    return (*way, total(values), total(following), total(curve))


def ridge(setting, size=5, shape=(40, 16), penalty=0.5, coarse=False, wide=False, steps=60):
    setting.change(KERNELS, {}, coarse=coarse)
    case, _ = subset_case(setting, shape, None, wide, 0)
    bound, weights = ridge_bound.ridge_bound(case, size, penalty, steps=steps)
    return bound, total(weights**2), ridge_bound.ridge_value(case, range(size), penalty)


GROUPS = {"groups": [j % 5 for j in range(16)], "max_per_group": 2}
PRICES = {"costs": [1.0 + j % 4 for j in range(16)], "budget": 11.0}
WHOLE = {"groups": [j // 3 for j in range(16)], "whole_groups": [0, 2, 4]}
BOUND = {"include": [3, 7], "exclude": [1, 2]}
EARLY = {"FIRST": 0, "PARTS_AFTER": 0.0, "STALL": 0.2}  # the joint bound has its turn at once

CASES = {
    # name: (what is run, and with what)
    "sets": (subset, {}),
    "sets of three": (subset, {"size": 3}),
    "sets, coarse": (subset, {"coarse": True}),
    "sets of three, coarse": (subset, {"size": 3, "coarse": True}),
    "sets of two, coarse": (subset, {"size": 2, "coarse": True, "most": 30}),
    "sets of one, coarse": (subset, {"size": 1, "coarse": True}),
    "sets by inner products, coarse": (
        subset,
        {"coarse": True, "COMPRESSED_ROWS": 4, "COMPRESSED_CANDIDATES": 4, "LEADING": 4},
    ),
    "sets without inner products, coarse": (
        subset,
        {
            "coarse": True,
            "COMPRESSED_ROWS": 4,
            "COMPRESSED_CANDIDATES": 4,
            "LEADING": 4,
            "KEPT_GRAM": 4,
        },
    ),
    "sets without inner products, compressed": (
        subset,
        {"size": 3, "coarse": True, "KEPT_GRAM": 4},
    ),
    "sets, wide": (subset, {"shape": (10, 24), "wide": True, "coarse": True}),
    "sets, wide, outcomes": (
        subset,
        {"shape": (14, 24), "wide": True, "outcomes": 2, "coarse": True},
    ),
    "sets, outcomes": (subset, {"outcomes": 3, "size": 4}),
    "sets, one node at a time": (subset, {"MOST_AT_ONCE": 1, "most": 40}),
    "sets, included": (subset, {"limits": BOUND, "coarse": True}),
    "sets, groups": (subset, {"limits": GROUPS, "coarse": True}),
    "sets, prices": (subset, {"limits": PRICES, "coarse": True}),
    "sets, from a good one": (subset, {"start": None, "most": 200, "coarse": True}),
    "sets, whole groups": (subset, {"limits": WHOLE, "coarse": True}),
    "sets, whole groups, wide": (
        subset,
        {"limits": WHOLE, "shape": (10, 16), "wide": True, "size": 7, "coarse": True},
    ),
    "sets, jointly": (subset, {"joint": True, "most": 150, **EARLY}),
    "sets, jointly, coarse": (
        subset,
        {"size": 3, "joint": True, "coarse": True, "most": 60, **EARLY},
    ),
    "sets, jointly, little room": (
        subset,
        {"joint": True, "most": 60, "MOST_BYTES": 262144, "MOST_PARTS": 20, **EARLY},
    ),
    "sets, jointly, groups": (subset, {"joint": True, "limits": GROUPS, "most": 60, **EARLY}),
    "sets, jointly, patient": (subset, {"joint": True, "most": 150, "FIRST": 1}),
    "relaxation of sets": (relaxed, {}),
    "relaxation of sets, coarse": (relaxed, {"coarse": True}),
    "relaxation of sets, few steps": (relaxed, {"steps": 15, "size": 2}),
    "relaxation of sets, included": (
        relaxed,
        {"limits": {"include": [3], "exclude": [2]}, "coarse": True},
    ),
    "relaxation of sets, groups": (
        relaxed,
        {"limits": {"groups": [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3], "max_per_group": 1}},
    ),
    "relaxation of sets, one each": (relaxed, {"size": 1}),
    "relaxation of sets, adapted": (relaxed, {"MUCH": 1}),
    "relaxation of sets, many features": (relaxed, {"size": 2, "FEW": 7, "SPARSE": 3, "MUCH": 2}),
    "good sets": (found_sets, {}),
    "good sets, wide": (found_sets, {"size": 6, "shape": (10, 24), "wide": True}),
    "good sets, groups": (found_sets, {"limits": GROUPS}),
    "good sets, prices": (found_sets, {"limits": PRICES}),
    "good sets, whole groups": (found_sets, {"limits": WHOLE, "size": 7}),
    "good sets, included": (found_sets, {"limits": BOUND, "outcomes": 2}),
    "good sets, few starts": (found_sets, {"size": 9, "STARTS_UP_TO": 8}),
    "good sets, no starts": (found_sets, {"size": 9, "STARTS_UP_TO": 8, "FEW_STARTS_WORK": 11663}),
    "ridge": (ridge, {}),
    "ridge, coarse": (ridge, {"coarse": True}),
    "ridge, wide, coarse": (
        ridge,
        {"coarse": True, "wide": True, "shape": (10, 20), "penalty": 0.1, "steps": 5},
    ),
}


WAYS = Ways(CASES, __file__)


@pytest.mark.parametrize("name", CASES)
def test_no_search_goes_another_way(name, monkeypatch):
    WAYS.compare(name, Setting(monkeypatch))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_rounding_changes_no_way(name, seed, monkeypatch):
    WAYS.compare(name, Setting(monkeypatch, seed))


if __name__ == "__main__":
    WAYS.accept()
