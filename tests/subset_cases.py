"""Small subset problems of every awkward kind, and their answers by enumeration in long double."""

from itertools import combinations

import numpy as np

from jointsparse.solvers.subset.constraints import Constraints, Rules
from jointsparse.solvers.subset.problem import (
    DETERMINED,
    problem_of_columns,
    problem_of_scatter,
)

KINDS = (
    "plain",
    "few directions",
    "duplicated",
    "dependent",
    "constant",
    "near copies",
    "one-hot",
    "scaled",
    "integers",
    "wide",
    "ill-conditioned",
    "hidden dependence",
    "scaled near copies",
    "amplified",
)


def table(rng, kind, p):
    """Return centred samples: n × p."""
    n = p + int(rng.integers(1, 20)) if kind != "wide" else max(2, p // 2)
    X = rng.standard_normal((n, p))
    if kind == "few directions":
        rank = int(rng.integers(1, p + 1))
        X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
        X += 10.0 ** rng.integers(-3, 1) * rng.standard_normal((n, p))
    elif kind == "duplicated":
        X = X[:, rng.integers(0, max(p // 2, 1), p)] * rng.choice([-1.0, 1.0, 3.0], p)
    elif kind == "dependent" and p > 2:
        X[:, -1] = X[:, :-1] @ rng.integers(-1, 2, p - 1)
    elif kind == "constant":
        X[:, rng.integers(p)] = 5.0
    elif kind == "near copies" and p > 1:
        X[:, -1] = X[:, 0] + 10.0 ** -rng.integers(1, 7) * X[:, -1]
    elif kind == "one-hot":
        X = np.eye(p)[rng.integers(0, p, n)]
        X[:p] = np.eye(p)[:n]
    elif kind == "integers":
        X = rng.integers(-2, 3, (n, p)).astype(float)
        X[0], X[1] = 1.0, -1.0
    elif kind == "ill-conditioned":
        X = np.linspace(0, 1, n)[:, None] ** np.arange(1, p + 1)  # powers of one variable
        X += 10.0 ** -rng.integers(3, 12) * rng.standard_normal((n, p))
    elif kind == "hidden dependence" and p > 2:
        X[:, -1] = X[:, :-1].sum(axis=1) + 10.0 ** -rng.uniform(3, 9) * rng.standard_normal(n)
    elif kind == "amplified" and p > 2:  # the difference of two near copies is nearly a third
        noise = 10.0 ** -rng.uniform(4, 7) * rng.standard_normal(n)
        X[:, 1] = X[:, 0] + 10.0 ** -rng.uniform(2, 4) * X[:, 2]
        X[:, 2] += noise
    elif kind == "scaled near copies":
        copies = 10.0 ** -rng.uniform(2, 8, p) * rng.standard_normal((n, p))
        X = X[:, rng.integers(0, p, p)] + copies
    if kind in ("scaled", "scaled near copies"):
        X = X * 10.0 ** rng.integers(-8, 9, p)
    return X - X.mean(axis=0)


def problem_and_value(rng, kind, p):
    """Return a problem, and the value of any set in long double."""
    X = table(rng, kind, p)
    factor = None
    if rng.random() < 0.4:
        factor = rng.standard_normal((p, int(rng.integers(1, 4))))
    target = X if factor is None else X @ factor
    if kind == "wide" or rng.random() < 0.3:
        problem = problem_of_columns(X, target)
    else:
        problem = problem_of_scatter(X.T @ X, factor, len(X))
    return problem, Referee(X, target)


class Referee:
    """Values of sets in long double: by orthogonalisation, twice."""

    def __init__(self, X, target):
        self.columns = X.astype(np.longdouble)
        self.columns = self.columns / np.maximum(
            np.sqrt((self.columns**2).sum(axis=0)), np.longdouble(1e-300)
        )
        target = target.astype(np.longdouble)
        self.target = target / (np.sqrt((target**2).sum()) or 1)

    def value(self, features):
        """Return the largest value of a subset without determined features, found greedily."""
        basis = []
        # Features that the rest determines leave; what is left of each is found for each order.
        for feature in features:
            column = self.columns[:, feature]
            for _ in range(2):
                for axis in basis:
                    column = column - axis * (axis @ column)
            left = column @ column
            if left > 2 * DETERMINED:
                basis.append(column / np.sqrt(left))
        return min(float(sum(((axis @ self.target) ** 2).sum() for axis in basis)), 1.0)

    def best(self, size, rules=None):
        """Return the largest value of a set of at most that many features, and the set."""
        p = self.columns.shape[1]
        rules = rules or Rules.none(p)
        sets = (c for k in range(size + 1) for c in combinations(range(p), k))
        sets = [c for c in sets if rules.allows(list(c))]
        if not sets:
            return -np.inf, None
        # What must be in comes first: what that determines adds nothing.
        values = [self.value(dict.fromkeys([*rules.include, *c])) for c in sets]
        return max(values), sets[int(np.argmax(values))]


def random_rules(rng, p, size, *, whole=False):
    """Return constraints of every kind, in any combination; none where they contradict."""
    order, given = rng.permutation(p), {}
    if rng.random() < 0.5:
        given["include"] = order[: int(rng.integers(0, min(size, 2) + 1))].tolist()
    if rng.random() < 0.5:
        given["exclude"] = order[max(p - 2, 2) :].tolist()
    if rng.random() < 0.5:
        given["costs"] = rng.integers(0, 5, p).astype(float).tolist()
        given["budget"] = float(rng.integers(1, 9))
    if rng.random() < 0.5:
        given["groups"] = rng.integers(0, 3, p).tolist()
        given["max_per_group"] = int(rng.integers(1, 3))
    if whole:
        given["groups"] = rng.integers(0, max(p // 2, 2), p).tolist()
        given["whole_groups"] = sorted(set(given["groups"]))[: int(rng.integers(1, 4))]
        if set(given["whole_groups"]) == set(given["groups"]):
            given.pop("max_per_group", None)
    try:
        return Constraints(**given).resolve(p)
    except ValueError:
        return Rules.none(p)
