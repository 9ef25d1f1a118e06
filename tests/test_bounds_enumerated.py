"""No bound is below an allowed set of at most k features: all of them, in long double.

The values here are those of plain regressions on the table as it is given. A feature counts unless
the others leave nothing of it but the rounding of its own entries, however near a copy it is.
"""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from jointsparse import (
    Constraints,
    GreedySelector,
    Moments,
    SubsetSelector,
    certify_set,
    compare_methods,
)
from jointsparse.cli.main import app

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # sets smaller than asked for
NOTHING = 1e-26  # squared share of a feature that is rounding of its entries
KINDS = ("plain", "near copies", "near sums", "copies", "categories", "offset", "wide")


def centred(X):
    X = np.asarray(X).astype(np.longdouble)
    X = X - X.mean(axis=0)
    return X - X.mean(axis=0)


def values_of_sets(X, target, k):
    """Yield every set of at most k features with the share of the target that it explains."""
    X, target = centred(X), centred(target)
    target = target / np.sqrt(np.sum(target**2))
    lengths = np.sqrt(np.sum(X**2, axis=0))
    X = X / np.where(lengths > 0, lengths, 1)

    def grown(features, basis, value):
        yield features, value
        if len(features) == k:
            return
        for feature in range(features[-1] + 1 if features else 0, X.shape[1]):
            left = X[:, feature]
            for _ in range(3):
                left = left - basis.T @ (basis @ left)
            squares = left @ left
            if squares <= NOTHING:
                yield from grown([*features, feature], basis, value)
                continue
            axis = left / np.sqrt(squares)
            gain = np.sum((axis @ target) ** 2)
            yield from grown([*features, feature], np.vstack([basis, axis]), value + gain)

    yield from grown([], np.zeros((0, len(X)), np.longdouble), np.longdouble(0))


def best_of(X, target, k, rules):
    """Return the largest value of an allowed set of at most k features, and all allowed sets."""
    allowed = [(value, some) for some, value in values_of_sets(X, target, k) if rules.allows(some)]
    best = max((value for value, _ in allowed), default=-np.inf)
    return min(best, np.longdouble(1)), [some for _, some in allowed]  # a share, but for rounding


def table(rng, kind, p):
    n = int(rng.integers(3, p)) if kind == "wide" and p > 3 else p + int(rng.integers(3, 30))
    rank = int(rng.integers(1, p + 1))
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    X += 10.0 ** rng.uniform(-2, 0.5) * rng.standard_normal((n, p))
    some = rng.choice(p, int(rng.integers(1, p // 2 + 1)), replace=False)
    for j in some.tolist():
        i, size = int((j + rng.integers(1, p)) % p), 10.0 ** -rng.uniform(1, 9)
        # What tells a near copy from the other feature may be what the others have in common.
        little = size * (X[:, int(rng.integers(p))] + rng.standard_normal(n))
        if kind == "near copies":
            X[:, j] = X[:, i] + little
        elif kind == "near sums":
            X[:, j] = X[:, [f for f in range(p) if f not in some]].sum(axis=1) + little
        elif kind == "copies":
            X[:, j] = rng.choice([-1.0, 1.0, 3.0]) * X[:, i]
    if kind == "categories":
        levels = int(rng.integers(2, p + 1))
        X[:, :levels] = np.eye(levels)[rng.integers(0, levels, n)]
    if kind == "offset":
        X += 1e6 * rng.standard_normal(p)
    if rng.random() < 0.3:
        X *= 10.0 ** rng.integers(-5, 6, p)
    return X


def limits(rng, p, k):
    """Return constraints of every kind, in any combination that is not a contradiction."""
    while True:
        order, given = rng.permutation(p).tolist(), {}
        if rng.random() < 0.4:
            given["include"] = order[: int(rng.integers(1, min(k, 2) + 1))]
        if rng.random() < 0.4:
            given["exclude"] = order[max(p - int(rng.integers(1, 3)), 2) :]
        if rng.random() < 0.5:
            given["costs"] = rng.integers(0, 6, p).astype(float).tolist()
            given["budget"] = float(rng.integers(1, 13))
        kind = rng.integers(4)
        if kind:
            names = np.append(rng.integers(0, 3, p - 1), 0).tolist()
            given["groups"] = [None if rng.random() < 0.3 else name for name in names]
        if kind == 1:
            given["max_per_group"] = int(rng.integers(1, 3))
        if kind == 2:
            given["whole_groups"] = True
        if kind == 3:
            given["whole_groups"], given["max_per_group"] = [0], {1: 1}
        try:
            constraints = Constraints(**given)
            constraints.resolve(p)
        except ValueError:
            continue
        return constraints


def check(seed):
    """Compare all bounds of one problem with enumeration; return whether the best was proved."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(3, 10))
    k = int(rng.integers(1, p + 1))
    X = table(rng, KINDS[seed % len(KINDS)], p)
    outcomes = X[:, rng.integers(0, p, 2)] @ rng.standard_normal((2, 2))
    outcomes = outcomes / (np.abs(outcomes).max() or 1) + 0.3 * rng.standard_normal((len(X), 2))
    target, y, what = ("features", None, X) if seed % 3 else ("outcomes", outcomes, outcomes)
    constraints = limits(rng, p, k)
    rules = constraints.resolve(p)
    best, sets = best_of(X, what, k, rules)
    proved = False
    for search, nodes in (("greedy", None), ("swap", None), ("exact", 3), ("exact", None)):
        selector = SubsetSelector(
            n_features_to_select=k,
            search=search,
            target=target,
            constraints=constraints,
            max_nodes=nodes,
            time_limit=None,
        )
        try:
            selector.fit(X, y)
        except ValueError as error:
            if "n_features_to_select=" not in str(error):
                raise
            return False  # not even the smallest set fits
        assert rules.allows(np.flatnonzero(selector.support_))
        assert selector.set_bound_ >= best, (seed, search)
        if selector.proved_optimal_:
            assert selector.set_value_ >= best - selector.tol, (seed, search)
        proved = selector.proved_optimal_
    some = [one for one in sets if one]
    given = some[int(rng.integers(len(some)))]
    for nodes in (0, None):
        options = {"constraints": constraints, "max_nodes": nodes, "time_limit": None}
        found = certify_set(X, given, y=y, target=target, n_features_to_select=k, **options)
        assert found.bound >= best, seed
        assert not found.proved or found.value >= best - found.tol, seed
        if target == "features":
            moments = Moments.from_scatter(np.asarray(centred(X).T @ centred(X), float), len(X))
            assert certify_set(moments, given, n_features_to_select=k, **options).bound >= best
        smaller = best_of(X, what, len(given), rules)[0]
        assert certify_set(X, given, y=y, target=target, **options).bound >= smaller, seed
    return proved


@pytest.mark.parametrize("seed", range(28))
def test_no_bound_is_below_an_allowed_set(seed):
    check(seed)


@pytest.mark.slow
def test_no_bound_is_below_an_allowed_set_in_hundreds_of_problems():
    proved = [check(1_000 + seed) for seed in range(400)]
    assert sum(proved) > 200


def correlated(rng, n, p):
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p))
    return X + 0.5 * rng.standard_normal((n, p))


@pytest.mark.parametrize("search", ["greedy", "swap", "exact"])
def test_the_bound_is_about_as_many_features_as_were_asked_for(search):
    constraints = Constraints(groups=["a", "a", "b", "b", None, None], whole_groups=True)
    for seed in range(20):
        X = correlated(np.random.default_rng(seed), 60, 6)
        best, _ = best_of(X, X, 3, constraints.resolve(6))
        selector = SubsetSelector(n_features_to_select=3, search=search, constraints=constraints)
        selector.fit(X)
        assert selector.set_bound_ >= best
        if search == "exact":
            assert selector.set_value_ == pytest.approx(float(best), abs=1e-9)
            assert "of at most 3 features that keeps to" in selector.stopping_reason_
        words = str(selector.set_certificate_)
        assert "set of at most 3 of the 6 features that keeps to the constraints" in words


def test_a_certificate_is_about_as_many_features_as_it_is_asked_for():
    X = correlated(np.random.default_rng(0), 60, 6)
    for most in (2, 3, 6):
        best, _ = best_of(X, X, most, Constraints().resolve(6))
        found = certify_set(X, [0, 1], n_features_to_select=most)
        assert best <= found.bound <= best + 1e-9
        assert found.k == most
    assert "The best set of at most 3 of the 6 features accounts for" in str(
        certify_set(X, [0, 1], n_features_to_select=3)
    )
    for wrong in (1, 7, 2.5):
        with pytest.raises(ValueError, match="is not a whole number between 2, the size of the se"):
            certify_set(X, [0, 1], n_features_to_select=wrong)


def dear_pair(method, **parameters):
    """Return a table of which a greedy rule buys two features where three are worth more."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X = correlated(rng, 60, 8)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        prices = rng.integers(1, 6, 8).astype(float).tolist()
        rules = (limits := Constraints(costs=prices, budget=8.0)).resolve(8)
        best, _ = best_of(X, X, 3, rules)
        greedy = method(n_features_to_select=3, constraints=limits, **parameters).fit(X)
        if greedy.support_.sum() == 2 and best > best_of(X, X, 2, rules)[0] + 0.02:
            return X, limits, best
    raise AssertionError("no such table")


def test_the_command_line_proves_about_all_that_the_budget_buys(tmp_path):
    X, limits, best = dear_pair(GreedySelector)
    data, costs = tmp_path / "table.csv", tmp_path / "costs.csv"
    np.savetxt(data, X, delimiter=",", header=",".join("abcdefgh"), comments="")
    lines = [f"{name},{price}" for name, price in zip("abcdefgh", limits.costs, strict=True)]
    costs.write_text("\n".join(["feature,cost", *lines]))
    asked = ["--features", "3", "--costs", str(costs), "--budget", "8", "--prove", "20", "--json"]
    kept = set()
    for method in ("greedy", "subset", "laplacian-score"):
        found = CliRunner().invoke(app, ["select", str(data), "--method", method, *asked])
        record = json.loads(found.stdout)
        kept.add(len(record["kept"]))
        assert record["set"]["bound"] >= best
        assert record["set"]["most"] == 3
        assert record["set"]["proved"] == (record["set"]["value"] >= best - 1e-9)
        words = "set of at most 3 of the 8 features that keeps to the constraints"
        assert words in record["set"]["words"]
    assert 2 in kept


def test_a_comparison_is_about_as_many_features_as_were_asked_for():
    X, limits, best = dear_pair(SubsetSelector, search="greedy")
    methods = {"greedy": SubsetSelector(search="greedy", constraints=limits)}
    found = compare_methods(methods, X, n_features_to_select=3, n_subsamples=2)
    found = found.proved(X, constraints=limits, time_limit=20)
    assert len(found.results[0].kept) == 2
    assert best <= found.set_bound <= best + 1e-8
    assert "no set of at most 3 of the 8 features that keeps to the constraints can" in found.proof
    assert found.share_of_best(found.results[0]) != "100"


@pytest.mark.parametrize("size", [1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10])
def test_a_near_copy_may_be_what_makes_the_best_set(size):
    """The difference of the first two is what all others have besides them."""
    rng = np.random.default_rng(0)
    one, other = rng.standard_normal((2, 60))
    signs = 3 * [(1, 1), (1, -1), (2, 1), (1, 2)]
    X = [one, one + size * other]
    X += [a * one + b * other + rng.standard_normal(60) for a, b in signs]
    X = np.column_stack(X)
    best, _ = best_of(X, X, 2, Constraints().resolve(14))
    without, _ = best_of(X, X, 2, Constraints(exclude=[1]).resolve(14))
    assert best > without + 0.01
    for search in ("swap", "exact"):
        selector = SubsetSelector(n_features_to_select=2, search=search).fit(X)
        assert selector.set_bound_ >= best
        assert selector.set_value_ >= best - 1e-9 or not selector.proved_optimal_
    if size <= 1e-5:  # else the set is found
        assert "nearly determine others" in selector.stopping_reason_


def test_offsets_cost_no_bound_its_digits():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((60, 6))
        y = X[:, :3].sum(axis=1, keepdims=True) + rng.standard_normal((60, 1))
        X, y = X + 1e6, y + 1e6
        best, _ = best_of(X, y, 3, Constraints().resolve(6))
        for scale in (None, "standard"):
            selector = SubsetSelector(
                n_features_to_select=3, search="exact", target="outcomes", scale=scale
            ).fit(X, y)
            assert selector.set_bound_ >= best
            assert selector.set_bound_ <= best + 1e-7
        assert certify_set(X, [0, 1, 2], y=y, target="outcomes").bound >= best
