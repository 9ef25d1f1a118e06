"""Small examples that pages quote: ``python -m benchmarks.small [EXAMPLE ...]``, a minute.

What each of them gives is kept in benchmarks/results/small.json; ``docs/quotes.py`` reads it there.
"""

import sys
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from benchmarks import keeping
from benchmarks.common import ROOT, has_data, table

STORED = ROOT / "benchmarks" / "results" / "small.json"


def digits():
    """How many pixels "auto" keeps."""
    from jointsparse import SPCAPSD

    X = load_digits().data
    X = StandardScaler().fit_transform(X[:, X.std(axis=0) > 0])
    return {"auto": int(SPCAPSD().fit(X).get_support().sum()), "of": load_digits().data.shape[1]}


def noise():
    """How many columns of random numbers account for nine tenths of few samples."""
    from jointsparse import GreedySelector

    X = np.random.default_rng(0).standard_normal((60, 2000))
    model = GreedySelector(n_features_to_select="r2>=0.9", target="reconstruction").fit(X)
    return {"kept": int(model.get_support().sum())}


def transforms():
    """Log-normal columns that share two factors: raw, as logarithms, as ranks."""
    from jointsparse import SPCAPSD
    from jointsparse.ranks import normal_scores

    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 2)) @ rng.standard_normal((2, 20)) + rng.standard_normal(
        (120, 20)
    )
    ways = {"raw": np.exp(2 * X), "log": np.log1p(np.exp(2 * X)), "rank": normal_scores(X)}
    model = SPCAPSD(n_features_to_select=3)
    return {
        name: model.fit(StandardScaler().fit_transform(Z)).selection_report_.worth.r2
        for name, Z in ways.items()
    }


def stability():
    """Stability of features and of groups that stand in for one another."""
    from jointsparse import GreedySelector, stability_selection

    rng = np.random.default_rng(0)
    copies = np.repeat(rng.standard_normal((200, 8)), 6, axis=1)
    copies = copies + 0.2 * rng.standard_normal((200, 48))
    tables = {
        "copies": (np.hstack([copies, rng.standard_normal((200, 20))]), 8),
        "noise": (rng.standard_normal((100, 200)), 8),
    }
    if has_data():
        tables["colon"] = (table("colon")[0], 10)
    found = {}
    for name, (X, count) in tables.items():
        model = GreedySelector(n_features_to_select=count)
        one = stability_selection(model, X, n_subsamples=20)
        groups = len(np.unique(one.groups))
        found[name] = {"features": one.stability, "by_group": one.group_stability, "groups": groups}
    return found


EXAMPLES = {f.__name__: f for f in (digits, noise, transforms, stability)}


def main(names):
    warnings.simplefilter("ignore")
    for name in names or EXAMPLES:
        found = EXAMPLES[name]()
        keeping.add(STORED, name, found)
        print(name, found, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
