"""Beyond the sources: the selection rules; and the datasets and measures of these studies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.experiments.claims import Claim, Outcome
from jointsparse.experiments.data import dataset
from jointsparse.experiments.papers.s004.shared import (
    Cases,
    Results,
    at_hand,
    fitted,
    sample_of,
)
from jointsparse.experiments.task import Experiment, Row
from jointsparse.methods.greedy_selector import GreedySelector
from jointsparse.methods.spca_psd import SPCAPSD
from jointsparse.metrics import clustering_scores
from jointsparse.moments import Moments
from jointsparse.solvers.picking.held_out import choose_ridge

BUNDLED = ("breast-cancer", "digits")
FOLDER = ("usps", "isolet", "mnist", "imm40", "pie", "orlraws10p", "yale", "coil20", "warppie10p")
BIOLOGY = ("allaml", "glioma", "tox171", "colon")
SAMPLES, FEATURES = 2000, 400  # larger data are thinned out to this, at random
COUNTS = (20, 50, 100)
ENOUGH = 5  # datasets for a verdict
TOO_FEW: dict[str, Any] = {
    "verdict": "not testable",
    "reason": "too few datasets for a verdict: run it without --quick and with JOINTSPARSE_DATA",
}
RIDGES = np.geomspace(1e-6, 1e2, 17)  # of the stored results; the library's begin at 1e-3


def names(quick: bool) -> list[str]:
    """Return the datasets of a run."""
    return list(BUNDLED) if quick else [*BUNDLED, *at_hand(FOLDER + BIOLOGY)]


@lru_cache(maxsize=2)
def thinned(name: str) -> tuple[FloatArray, NDArray[Any], Moments]:
    """Return at most 2000 samples of at most 400 features that vary, and their moments."""
    X, y = sample_of(*dataset(name), SAMPLES)
    if name in ("breast-cancer", "tox171"):  # measurements in units of their own
        X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
    varying = np.flatnonzero(X.std(axis=0) > 0)
    kept = np.sort(np.random.default_rng(0).permutation(varying)[:FEATURES])
    return X[:, kept], y, Moments.from_data(X[:, kept], copy=False)


def counts_for(n_features: int) -> list[int]:
    """Return the numbers of features to keep that make sense."""
    return [h for h in COUNTS if h <= n_features // 2] or [max(1, n_features // 4)]


def held_out(X: FloatArray, order: NDArray[Any], count: int) -> float:
    """Return R², in per cent, of all features from the first ones, on the other half of samples.

    The features were chosen on all samples; the regression is ridged, else a set about as large as
    the number of samples would fit their noise.
    """
    halves = np.random.default_rng(0).permutation(len(X))
    train, test = X[halves[: len(X) // 2]], X[halves[len(X) // 2 :]]
    mean = train.mean(axis=0)
    train, test = train - mean, test - mean
    lengths = np.linalg.norm(X[:, order[:count]] - mean[order[:count]], axis=0)
    left, values, right = np.linalg.svd(train[:, order[:count]] / lengths, full_matrices=False)
    along = left.T @ train
    seen, total = np.sum(along**2, axis=1), float(np.sum(train**2))
    ridge = choose_ridge(values**2, seen, total, len(train), RIDGES)
    weights = (right.T * (values / (values**2 + ridge))) @ along
    missed = test - (test[:, order[:count]] / lengths) @ weights
    return 100 * (1 - float(np.sum(missed**2) / np.sum(test**2)))


def accuracy(X: FloatArray, y: NDArray[Any], repeats: int) -> float:
    """Return the mean clustering accuracy in per cent."""
    return 100 * float(clustering_scores(X, y, n_repeats=repeats).accuracy.mean())


# The selection rules.

RULES = ("norm", "residual", "greedy")
OTHERS = ("reconstruction", "clusters", "variance", "random")
SKMATTER = {"CUR": "CUR", "FPS": "FPS"}


def _rule_cases(quick: bool) -> Cases:
    rules = [*RULES, *OTHERS, *(SKMATTER if find_spec("skmatter") else ())]
    repeats = 3 if quick else 10
    return [{"dataset": n, "rule": r, "repeats": repeats} for n in names(quick) for r in rules]


def _rule_rows(case: dict[str, Any]) -> list[Row]:
    X, y, data = thinned(case["dataset"])
    counts = counts_for(X.shape[1])
    rows: list[Row] = []
    for seed, order in enumerate(_rule_orders(case["rule"], X, y, data, max(counts))):
        for count in counts:
            acc = accuracy(X[:, order[:count]], y, case["repeats"])
            r2 = held_out(X, order, count)
            rows.append({"count": count, "seed": seed, "acc": acc, "r2": r2})
    return rows


def _rule_orders(
    rule: str, X: FloatArray, y: NDArray[Any], data: Moments, most: int
) -> Iterator[NDArray[Any]]:
    n_clusters = len(np.unique(y))
    if rule == "random":
        yield from (np.random.default_rng(seed).permutation(X.shape[1]) for seed in range(5))
    elif rule == "variance":
        yield np.argsort(-data.variances, kind="stable")
    elif rule in SKMATTER:
        feature_selection = import_module("skmatter.feature_selection")

        chooser = getattr(feature_selection, SKMATTER[rule])(n_to_select=most)
        yield np.asarray(chooser.fit(X - X.mean(axis=0)).selected_idx_)
    else:
        parameters: dict[str, Any] = {"n_clusters": n_clusters, "n_features_to_select": most}
        model: Any
        if rule in RULES:
            model = SPCAPSD(rule=rule, tol=1e-3, **parameters)
        else:
            model = GreedySelector(target=rule, n_features_to_select=most)
            if rule == "clusters":
                model.set_params(n_clusters=n_clusters)
        yield np.argsort(fitted(model, data)[0].ranking_)


def _judge_rules(results: Results) -> Outcome:
    found: dict[tuple[str, str], list[Row]] = {}
    for case, row in results:
        found.setdefault((case["dataset"], case["rule"]), []).append(row)
    datasets = list(dict.fromkeys(name for name, _ in found))
    rules = list(dict.fromkeys(rule for _, rule in found))
    mean = {
        (name, rule, key): float(np.mean([row[key] for row in rows]))
        for (name, rule), rows in found.items()
        for key in ("acc", "r2")
    }
    table, claims = [], []
    for rule in rules:
        there = [n for n in datasets if (n, rule, "acc") in mean and (n, "random", "acc") in mean]
        if not there:
            continue
        gains = [mean[(n, rule, "acc")] - mean[(n, "random", "acc")] for n in there]
        r2 = float(np.mean([mean[(n, rule, "r2")] for n in there]))
        acc = float(np.mean([mean[(n, rule, "acc")] for n in there]))
        error = float(np.std(gains, ddof=min(1, len(gains) - 1)) / np.sqrt(len(gains)))
        table.append((rule, acc, float(np.mean(gains)), error, r2, len(there)))
    lines = {line[0]: line for line in table}
    if "norm" in lines:
        _, acc, gain, error, r2, size = lines["norm"]
        chance = lines["random"][4]
        better = lines["greedy"][2] if "greedy" in lines else float("nan")
        claim = Claim(
            "the features with the largest norms are the best subset (000, 002, 004)",
            "discriminative features",
            f"ACC {gain:+.1f} ± {error:.1f} against random features, held-out R² {r2:.0f} % "
            f"against {chance:.0f} % ({size} datasets)",
            "not reproduced" if gain < 2 * error or r2 < chance else "reproduced",
            "features that share a component all score high: the set repeats itself; chosen "
            f"greedily from the same model: ACC {better:+.1f}",
        )
        claims.append(claim if size >= ENOUGH else replace(claim, **TOO_FEW))
    header = ("rule", "ACC", "ACC - random", "standard error", "held-out R², %", "datasets")
    notes = [
        "norm, residual, greedy: SPCA-PSD with the penalties that the number of clusters suggests; "
        "reconstruction, clusters: GreedySelector. Means over the datasets and "
        f"{', '.join(map(str, COUNTS))} kept features.",
    ]
    if not any(rule in SKMATTER for rule in rules):
        notes.append("CUR and FPS were left out: they need the package skmatter.")
    return Outcome(claims, [("Selection rules", header, table)], notes=notes)


EXPERIMENTS = (
    Experiment(
        "beyond-rules",
        "Selection rules: norm, residual, greedy, random, CUR and FPS",
        _rule_cases,
        _rule_rows,
        _judge_rules,
    ),
)
