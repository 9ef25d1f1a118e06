"""Planted features behind missing values: ``python -m benchmarks --suite missing``.

Of 100 columns 20 carry four patterns, five each (half of a column's variance is its pattern); the
others are noise. Values are missing at random. Four features are kept, one for each pattern in the
best case. Measured in 20 tables of each size:

* recovery: share of the four patterns of which a feature is kept;
* found: share of the 20 planted columns that are significant;
* false: share of the significant columns that are noise.

In tables of another kind ("pure") 5 of 40 columns are five factors with little noise, and 35 are
mixtures of these with much: the best five are known. Measured are the share of these five that is
kept of 150 samples, and by how much the share of the variance that the kept account for differs
from what it is without holes.

Dropping every row with a hole leaves too few rows where many columns have holes. Results go to
``benchmarks/results/missing.json``, and from there into docs/samples.md ("page" does only that);
what is there is not measured again.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np

from benchmarks.pages import Table, grid
from jointsparse import GreedySelector

STORED = Path(__file__).parent / "results" / "missing.json"
N_FEATURES, N_PATTERNS, GROUP = 100, 4, 5
SAMPLES = (150, 600)
SHARES = (0.05, 0.2, 0.4)
N_TABLES = 20
WAYS = ("complete", "drop rows", "mean", "pairwise", "em")
WORDS = {
    "complete": "nothing missing",
    "drop rows": "rows with a hole dropped",
    "mean": '`missing="mean"`',
    "pairwise": '`missing="pairwise"`',
    "em": '`missing="em"`',
}


def planted(seed, n_samples, share):
    """Return a table, and the same with holes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, N_FEATURES))
    for pattern in range(N_PATTERNS):
        X[:, GROUP * pattern : GROUP * (pattern + 1)] += rng.standard_normal((n_samples, 1))
    return X, np.where(rng.random(X.shape) < share, np.nan, X)


def measured(way, X, holed):
    """Return recovery, found and false of one table; nothing recovered where no fit is possible."""
    selector = fitted(way, X, holed, N_PATTERNS)
    if selector is None:
        return 0.0, 0.0, 0.0
    kept = selector.get_support(indices=True)
    groups = {int(j) // GROUP for j in kept if j < N_PATTERNS * GROUP}
    significant = np.flatnonzero(selector.significant_)
    true = significant < N_PATTERNS * GROUP
    return (
        len(groups) / N_PATTERNS,
        float(true.sum()) / (N_PATTERNS * GROUP),
        float((~true).sum()) / max(significant.size, 1),
    )


def pure(seed, share, n_samples=150, n_features=40, n_factors=5):
    """Return a table with five pure columns, and the same with holes."""
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((n_factors, n_features)) / np.sqrt(n_factors)
    loadings[:, :n_factors] = np.eye(n_factors)
    noise = np.where(np.arange(n_features) < n_factors, 0.1, 1.0)
    X = rng.standard_normal((n_samples, n_factors)) @ loadings
    X += noise * rng.standard_normal(X.shape)
    X /= X.std(axis=0)
    return X, np.where(rng.random(X.shape) < share, np.nan, X)


def fitted(way, X, holed, count):
    """Return a selector fitted in one of the ways; None where too few rows are left."""
    table = {"complete": X, "drop rows": holed[~np.isnan(holed).any(axis=1)]}.get(way, holed)
    if len(table) < 3:
        return None
    missing = way if way in ("mean", "pairwise", "em") else "error"
    return GreedySelector(n_features_to_select=count, missing=missing).fit(table)


def store(found):
    """Keep what was measured so far."""
    STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def run_pure(found):
    """Measure the tables with pure columns."""
    for share in SHARES:
        tables = [pure(seed, share) for seed in range(N_TABLES)]
        if all(f"pure {share} {way}" in found for way in WAYS):
            continue
        wholes = [fitted("complete", *table, 5).selection_curve_[-1] for table in tables]
        for way in WAYS:
            if f"pure {share} {way}" in found:
                continue
            selectors = [fitted(way, *table, 5) for table in tables]
            kept = [0.0 if s is None else float(s.get_support()[:5].mean()) for s in selectors]
            pairs = zip(selectors, wholes, strict=True)
            errors = [abs(s.selection_curve_[-1] - whole) for s, whole in pairs if s is not None]
            found[f"pure {share} {way}"] = {
                "recovery": round(float(np.mean(kept)), 4),
                "error": round(float(np.mean(errors)), 4) if errors else None,
            }
            print("pure", share, way, found[f"pure {share} {way}"], flush=True)
            store(found)


def run():
    """Measure what is not stored yet, and store it."""
    found = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_pure(found)
    for n_samples in SAMPLES:
        for share in SHARES:
            tables = [planted(seed, n_samples, share) for seed in range(N_TABLES)]
            for way in WAYS:
                if f"{n_samples} {share} {way}" in found:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    values = np.array([measured(way, *table) for table in tables])
                mean = values.mean(axis=0)
                names = ("recovery", "found", "false")
                found[f"{n_samples} {share} {way}"] = {
                    name: round(float(value), 4) for name, value in zip(names, mean, strict=True)
                }
                print(n_samples, share, way, mean.round(3), flush=True)
                store(found)


def known():
    return json.loads(STORED.read_text(encoding="utf-8"))


def best_five():
    """Return the table of the tables with pure columns, in Markdown."""
    found, rows = known(), []
    for way in WAYS:
        cells = []
        for share in SHARES:
            one = found[f"pure {share} {way}"]
            error = "–" if one["error"] is None else f"{100 * one['error']:.1f}"
            cells.append(f"{100 * one['recovery']:.0f} / {error}")
        rows.append([WORDS[way], *cells])
    heads = (f"{100 * share:.0f} % missing" for share in SHARES)
    return grid(["kept of the best five / error of the share", *heads], rows)


def patterns():
    """Return the table of the tables with patterns, in Markdown."""
    found, rows = known(), []
    for way in WAYS:
        cells = []
        for n_samples in SAMPLES:
            for share in SHARES:
                one = found[f"{n_samples} {share} {way}"]
                numbers = (one[name] for name in ("recovery", "found", "false"))
                cells.append(" / ".join(f"{100 * number:.0f}" for number in numbers))
        rows.append([WORDS[way], *cells])
    heads = (f"n = {n}, {100 * share:.0f} %" for n in SAMPLES for share in SHARES)
    return grid(["recovery / found / false", *heads], rows)


TABLES = (
    Table("docs/samples.md", "missing, the best five", best_five),
    Table("docs/samples.md", "missing, patterns", patterns),
)


def main(words=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks --suite missing")
    parser.add_argument("what", nargs="?", choices=("page",), help="measure nothing")
    parser.add_argument("--quick", action="store_true", help="one table, nothing is stored")
    options = parser.parse_args(words)
    if options.quick:
        for way in WAYS:
            recovery, found, false = measured(way, *planted(0, SAMPLES[0], SHARES[0]))
            print(f"{way}: recovery {recovery:.2f}, found {found:.2f}, false {false:.2f}")
        return
    if options.what is None:
        run()
    for table in TABLES:
        table.write()


if __name__ == "__main__":
    main()
