"""What a selection is worth, beside other tools: ``python -m benchmarks.evidence [SECTION ...]``.

Sections: worth, words, exchange, swaps, extremes, others, noise, planted, auto, clusters; "page"
writes docs/evidence.md from what they stored. Every piece is stored as soon as it is measured, one
JSON file for each section in benchmarks/results, and a run that was stopped goes on where it was.
With ``--ours`` our own methods are measured again, and what is stored of other tools stays.

The datasets are read from the folder that JOINTSPARSE_DATA names. The other tools run in
environments of their own (``--environments``). Where JOINTSPARSE_BEFORE names a checkout of an
earlier version, that takes part too.
"""

import argparse
import sys
import time
import warnings
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # these sources, installed or not
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the tables of noise and of signal

import numpy as np

from benchmarks.common import NAMES, ROOT, table
from benchmarks.competitors import all_solvers
from benchmarks.environments import Environments, default_folder
from benchmarks.keeping import add, known
from benchmarks.measure import measure
from benchmarks.tasks import Problem, Task

RESULTS = ROOT / "benchmarks" / "results"
MOST_SAMPLES, MOST_FEATURES = 400, 3000  # so that every tool ends
SIZES = (10, 20, 50)
SWAP_SIZES = (3, 5, 10, 20, 50)
SLOW = "css"  # the environment of the one tool that takes minutes: measured size by size
CUTS = (0, 1)
JUDGES = ("ridge", "least squares")
UNITS = ("training half", "all samples")
AS_THEY_ARE = "as they are"  # units of columns that nobody scales
# Least squares on nearly as many features as samples explodes, whatever the features are.
MOST_REGRESSORS = 0.45
MORE_CUTS = tuple(range(2, 12))  # for the default now and before, whose difference is small
NOISE_DRAWS, STRUCTURE_DRAWS, PLANTED_DRAWS = 20, 200, 20
TESTED_DRAWS = 300  # the mean of twenty shares of false features is good to a point only
OURS = ("jointsparse", "jointsparse, GreedySelector")
NOW_AND_BEFORE = ("jointsparse", "jointsparse, before")
MOST_KEPT = 0.6  # share of the features of a small table that are kept at most
LOWER = 0.9  # of the noise edge: what scores would be if less were shrunk
RARE = 0.3  # share of a feature's squares in one sample from which it hangs on that sample
FIRST_SEED = 5000  # no draw that the tests, or the design, have looked at


def capped(name):
    """Return a dataset with at most 400 samples and 3 000 varying features, drawn once."""
    X, y = table(name, MOST_SAMPLES)
    return with_few_features(X), y


def with_few_features(X):
    varying = np.flatnonzero(X.std(axis=0) > 0)
    if varying.size > MOST_FEATURES:
        drawn = np.random.default_rng(0).permutation(varying)[:MOST_FEATURES]
        varying = np.sort(drawn)
    return X[:, varying]


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def halves(problem):
    """Return the halves of a dataset."""
    return halves_of(capped(problem.dataset)[0], problem.params.get("cuts", CUTS))


def halves_of(whole, cuts=CUTS, all_units=UNITS):
    """Every cut's two halves of the samples, in their own units, and the judge of each.

    Features that are constant in one of the halves have no unit there and are left out.
    """
    own = (lambda X: X) if AS_THEY_ARE in all_units else standardised
    data = {"_folds": {units: {} for units in all_units}}
    for cut in cuts:
        order = np.random.default_rng(cut).permutation(len(whole))
        one, other = np.sort(order[: len(whole) // 2]), np.sort(order[len(whole) // 2 :])
        X = whole[:, (whole[one].std(axis=0) > 0) & (whole[other].std(axis=0) > 0)]
        for half, train, test in ((1, one, other), (2, other, one)):
            name = f"{cut}{half}"
            data[f"X{name}"], data[f"raw_X{name}"] = own(X[train]), X[train]
            for units in all_units:
                data["_folds"][units][name] = judge_of(X, train, test, units)
    return data


def judge_of(X, train, test, units):
    """Return the judge: means and regressions from ``train``, errors from ``test``.

    The units in which errors are added up are the standard deviations of the training half or,
    where every feature is to count alike, of all samples: a pixel that hardly varies in one half
    can have nine tenths of the squares of the other. Or they stay what they are.
    """
    from jointsparse import Moments
    from jointsparse.solvers.picking.held_out import held_out_folds

    rows = np.concatenate([train, test])
    rows_of = {"training half": train, "all samples": slice(None)}
    scale = 1.0 if units == AS_THEY_ARE else X[rows_of[units]].std(axis=0)
    both = (X[rows] - X[train].mean(axis=0)) / scale
    parts = np.arange(train.size), np.arange(train.size, rows.size)
    return held_out_folds(Moments.from_data(both), *parts)[0]


def worth(data, params, result):
    """R² of the dropped features in the other half by both judges, for every size and unit."""
    quality = {}
    for units, folds in data["_folds"].items():
        for h in params["sizes"]:
            for judge in JUDGES:
                shares = [
                    share_in_new_samples(fold, result, half, h, ridge=judge == "ridge")
                    for half, fold in folds.items()
                ]
                if None not in shares:
                    quality[f"{units}: {judge} {h}"] = float(np.mean(shares))
    return quality


def share_in_new_samples(fold, result, half, h, *, ridge, of_all=False):
    """Return R² of one half's set (mean over draws); None where there is none of that size.

    Of the dropped features; with ``of_all`` of all features, of which the kept ones are known.
    """
    found = result.get(f"order{half}_{h}", result.get(f"order{half}"))
    if found is None or (not ridge and h >= MOST_REGRESSORS * fold.n_train):
        return None
    sets = [features[:h] for features in np.atleast_2d(found)]
    if any(np.unique(features).size < h for features in sets):
        return None
    judged = [fold.judge(features, ridge=ridge) for features in sets]
    return float(np.mean([1 - one.missed / fold.total if of_all else one.r2 for one in judged]))


WORTH = Task("evidence", "worth", "R² of the dropped features", lambda quick: [], halves, worth)


def halves_of_words(problem):
    """Return the halves of a table of word counts, which stay as they are."""
    from benchmarks.word_counts import word_counts

    counts = with_few_features(word_counts(problem.params["documents"])[0])
    return halves_of(counts, CUTS, (AS_THEY_ARE,))


def worth_of_words(data, params, result):
    """R² of the dropped words, and of all: what is left without "the" is another sum of squares."""
    quality = worth(data, params, result)
    for h in params["sizes"]:
        shares = [
            share_in_new_samples(fold, result, half, h, ridge=True, of_all=True)
            for half, fold in data["_folds"][AS_THEY_ARE].items()
        ]
        if None not in shares:
            quality[f"of all words: ridge {h}"] = float(np.mean(shares))
    return quality


WORDS = Task("evidence", "worth", "R² of words", lambda quick: [], halves_of_words, worth_of_words)


def whole(problem):
    return {"X": standardised(capped(problem.dataset)[0]), "_y": capped(problem.dataset)[1]}


def clusters(data, params, result):
    """Accuracy and NMI of K-means from five starts on the first features kept."""
    from jointsparse.metrics import clustering_scores

    quality = {}
    for h in params["sizes"]:
        kept = data["X"][:, result["order"][:h]]
        scores = clustering_scores(kept, data["_y"], n_repeats=5)
        quality |= {f"acc {h}": float(scores.accuracy.mean()), f"nmi {h}": float(scores.nmi.mean())}
    return quality


CLUSTERS = Task("evidence", "picks", "K-means on kept features", lambda quick: [], whole, clusters)


def by_tools(task, dataset, params, environments, *, limit, slow=False, only=None):
    """Return {tool: status, version and quality} of one piece; the slow tool by itself."""
    solvers = [
        solver
        for solver in all_solvers()
        if task.name in solver.tasks
        and (solver.environment == SLOW) == slow
        and (only is None or solver.name in only)
    ]
    problem = Problem("evidence", task.name, str(dataset), dataset, params)
    outcomes = measure(task, problem, solvers, environments, repeats=0, limit=limit)
    return {
        o.competitor: {"version": o.version, "status": o.status, "quality": o.quality}
        for o in outcomes
    }


def worth_pieces(environments, *, ours=False):
    params = {"h": max(SIZES), "sizes": list(SIZES)}
    limits = {"limit": 180, "only": OURS if ours else None}
    for name in NAMES:
        yield name, lambda name=name: by_tools(WORTH, name, params, environments, **limits)


def words_pieces(environments, *, ours=False):
    """Word counts that nobody scales: few words have most of the squares."""
    params = {"h": max(SIZES), "sizes": list(SIZES), "documents": MOST_SAMPLES}
    limits = {"limit": 180, "only": OURS if ours else None}
    yield "word counts", lambda: by_tools(WORDS, "word counts", params, environments, **limits)


def cuts_pieces(environments):
    """The default now and before, on ten other cuts."""
    params = {"h": max(SIZES), "sizes": list(SIZES), "cuts": list(MORE_CUTS)}
    limits = {"limit": 600, "only": NOW_AND_BEFORE}
    for name in NAMES:
        yield name, lambda name=name: by_tools(WORTH, name, params, environments, **limits)


def exchange_pieces(environments):
    """The exchange of CSS, four minutes for the four halves; after one that fails no larger."""

    def sizes(name):
        found = {}
        for h in SIZES:
            params = {"h": h, "sizes": [h]}
            one = by_tools(WORTH, name, params, environments, limit=240, slow=True)
            found[str(h)] = next(iter(one.values()))
            if found[str(h)]["status"] != "ok":
                break
        return found

    for name in NAMES:
        yield name, lambda name=name: sizes(name)


def swaps_pieces(_):
    """Sets before and after exchanges: selected in one half, worth in the other."""
    from jointsparse import SPCAPSD, SubsetSelector
    from jointsparse.solvers.subset.exchange import exchange
    from jointsparse.solvers.subset.problem import problem_of_columns

    def of_model(rule):
        return lambda X, h: quiet_fit(SPCAPSD(n_features_to_select=h, rule=rule), X).support_

    def greedily(X, h):
        return quiet_fit(SubsetSelector(n_features_to_select=h, search="greedy"), X).support_

    def exchanged(X, h):
        found = exchange(problem_of_columns(X), np.flatnonzero(greedily(X, h)))
        return np.isin(np.arange(X.shape[1]), found.features)

    rules = {
        "SPCAPSD, greedy": of_model("greedy"),
        "SPCAPSD, swap": of_model("swap"),
        "all features, greedy": greedily,
        "all features, swap": exchanged,
    }

    def of(name):
        data = halves(Problem("evidence", "worth", name, name))
        found = {}
        for rule, select in rules.items():
            start, sets = time.process_time(), {}
            for h in SWAP_SIZES:
                for key in (key for key in data if key.startswith("X")):
                    kept = np.flatnonzero(select(data[key], h))
                    sets[f"{key.replace('X', 'order')}_{h}"] = kept
            seconds = time.process_time() - start
            quality = worth(data, {"sizes": SWAP_SIZES}, sets)
            found[rule] = {"seconds": seconds, "quality": quality}
        return found

    for name in NAMES:
        yield name, lambda name=name: of(name)


def rules_pieces(_):
    """Our own rules and targets: in the other half, by clusters, and what two halves agree on."""
    from jointsparse import SPCAPSD, GreedySelector

    def rules(n_clusters):
        return {
            "GreedySelector()": GreedySelector(),
            "SPCAPSD()": SPCAPSD(),
            "SPCAPSD(n_clusters=c)": SPCAPSD(n_clusters=n_clusters),
            "GreedySelector(target='clusters', n_clusters=c)": GreedySelector(
                target="clusters", n_clusters=n_clusters
            ),
            "SPCAPSD(rule='norm')": SPCAPSD(rule="norm"),
            "SPCAPSD(rule='norm', eta=0.1, alpha=0.2)": SPCAPSD(rule="norm", eta=0.1, alpha=0.2),
        }

    def order(selector, X):
        selector.set_params(n_features_to_select=max(SIZES))
        return np.argsort(quiet_fit(selector, X).ranking_)[: max(SIZES)]

    def of(name):
        X, y = capped(name)
        data, found = halves_of(X), {}
        for rule, selector in rules(np.unique(y).size).items():
            orders = {
                key.replace("X", "order"): order(selector, data[key])
                for key in data
                if key.startswith("X")
            }
            both = [(orders[f"order{cut}1"], orders[f"order{cut}2"]) for cut in CUTS]
            kept = {"X": standardised(X), "_y": y}
            picks = clusters(kept, {"sizes": [10, 50]}, {"order": order(selector, kept["X"])})
            found[rule] = {
                "quality": worth(data, {"sizes": SIZES}, orders) | picks,
                "agree": float(np.mean([np.isin(a, b).mean() for a, b in both])),
            }
        return found

    for name in NAMES:
        yield name, lambda name=name: of(name)


def clusters_pieces(environments, *, ours=False):
    params = {"h": 50, "sizes": [10, 50]}
    limits = {"limit": 90, "only": OURS if ours else None}
    for name in NAMES:
        yield name, lambda name=name: by_tools(CLUSTERS, name, params, environments, **limits)


def quiet_fit(selector, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return selector.fit(X)


def others_pieces(_):
    """The greedy rule with and without what hangs on single samples, on tables it never saw."""
    from unittest.mock import patch

    from benchmarks.other_tables import other_tables
    from jointsparse import GreedySelector

    without = {"leverages": lambda moments: np.zeros(moments.n_features), "USUAL_KURTOSIS": 0.0}

    def orders(data, h):
        return {
            key.replace("X", "order"): np.argsort(model.ranking_)[:h]
            for key in data
            if key.startswith("X")
            for model in [quiet_fit(GreedySelector(n_features_to_select=h), data[key])]
        }

    def of(make):
        X = make()
        drawn = np.sort(np.random.default_rng(0).permutation(len(X))[:MOST_SAMPLES])
        data = halves_of(with_few_features(X[drawn]))
        n_features = data["X01"].shape[1]
        sizes = [h for h in SIZES if h <= MOST_KEPT * n_features]
        if not sizes:
            return {}
        found = {"with": orders(data, max(sizes))}
        with patch.multiple("jointsparse.selection.noise", **without):
            found["without"] = orders(data, max(sizes))
        return {rule: worth(data, {"sizes": sizes}, result) for rule, result in found.items()}

    for name, make in other_tables().items():
        yield name, lambda make=make: of(make)


def costliest_pick(data, half, order):
    """Return how much of R² the pick costs that costs most, and how far its values are out.

    By the ridge, all features counting alike; distances are in standard deviations of the half that
    was selected on, in that half and in the other one.
    """
    fold = data["_folds"]["all samples"][half]
    shares = [fold.judge(order[:h]).r2 for h in range(1, order.size + 1)]
    place = int(np.argmin(np.diff(shares))) + 1
    own = data[f"raw_X{half}"][:, order[place]]
    other = data[f"raw_X{half[0]}{3 - int(half[1])}"][:, order[place]]
    return {
        "pick": place + 1,
        "before": float(shares[place - 1]),
        "after": float(shares[place]),
        "farthest": float(np.abs(own - own.mean()).max() / own.std()),
        "farthest in new samples": float(np.abs(other - own.mean()).max() / own.std()),
    }


def extremes_pieces(_):
    """Why units and least squares matter: what hangs on one feature, and on one sample."""
    from jointsparse import SPCAPSD

    def of(name):
        data = halves(Problem("evidence", "worth", name, name))
        halves_of = [key for key in data if key.startswith("X")]
        heaviest, rare, costliest = [], [], []
        for key in halves_of:
            fold = data["_folds"]["training half"][key[1:]]
            squares = fold.squares(np.arange(data[key].shape[1]))
            heaviest.append(float(squares.max() / squares.sum()))
            model = quiet_fit(SPCAPSD(n_features_to_select=max(SIZES)), data[key])
            kept = data[key][:, model.support_] ** 2
            rare.append(int((kept.max(axis=0) > RARE * kept.sum(axis=0)).sum()))
            order = np.argsort(model.ranking_)[: SIZES[1]]
            costliest.append(costliest_pick(data, key[1:], order))
        return {
            "heaviest feature": heaviest,
            "kept that hang on one sample": rare,
            "costliest pick": costliest,
        }

    for name in NAMES:
        yield name, lambda name=name: of(name)


def noise_pieces(_):
    from test_significance import NOISE, SHAPES

    from jointsparse import SPCAPSD, GreedySelector, feature_significance

    def alarms(kind, shape):
        found = {"SPCAPSD": 0, "GreedySelector": 0, "draws": NOISE_DRAWS}
        found |= {"structure": 0, "structure_draws": STRUCTURE_DRAWS}
        for number in range(STRUCTURE_DRAWS):
            X = NOISE[kind](np.random.default_rng([FIRST_SEED + number, *shape]), shape)
            X = standardised(X[:, X.std(axis=0) > 0])
            tested = feature_significance(X)
            found["structure"] += int(tested.n_significant > 0 or tested.significant.any())
            if number >= NOISE_DRAWS:
                continue
            for selector in (SPCAPSD(), GreedySelector(n_features_to_select="auto")):
                kept = quiet_fit(selector, X).support_.any()
                found[type(selector).__name__] += int(kept)
        return found

    for kind in NOISE:
        for shape in SHAPES:
            yield f"{kind}/{shape[0]}x{shape[1]}", lambda k=kind, s=shape: alarms(k, s)


def planted_families():
    """Return the families of the tests, and three that no test has seen."""
    from test_significance import PLANTED

    from benchmarks.planted import FAMILIES

    return PLANTED | FAMILIES


def score_at(moments, share, power=2):
    """Return ‖ω_j‖ of SPCA-PSD at λ = 0 and η at a share of the noise edge; √ω_jj with power 1."""
    from jointsparse.significance import noise_edge

    spectrum = moments.thin_spectrum
    values = spectrum.values * spectrum.trace
    kept = values > share * noise_edge(moments).edge
    shrunk = 1 - share * noise_edge(moments).edge / values[kept]
    return np.sqrt((spectrum.vectors[:, kept] ** 2) @ shrunk**power)


def tested_pieces(_):
    """The test of features alone, and the model's scores in closed form, in many tables."""
    from sklearn.metrics import roc_auc_score

    from jointsparse import Moments, feature_significance

    families = planted_families()

    def tested(family):
        rows = []
        for seed in range(FIRST_SEED, FIRST_SEED + TESTED_DRAWS):
            X, signal = families[family](np.random.default_rng([seed, 8]))
            moments = Moments.from_data(X).standardised()  # of which some columns may be constant
            found = feature_significance(moments)
            chosen = found.significant
            weighted = moments
            if found.weighted:
                weighted = Moments.from_data(X, sample_weight=found.sample_weights).standardised()
            rows.append(
                {
                    "shares": float(roc_auc_score(signal, found.shares)),
                    "scores": float(roc_auc_score(signal, score_at(moments, 1.0))),
                    "loadings": float(roc_auc_score(signal, score_at(moments, 1.0, 1))),
                    "scores, lower": float(roc_auc_score(signal, score_at(moments, LOWER))),
                    "scores, weighted": float(roc_auc_score(signal, score_at(weighted, 1.0))),
                    "fdp": float((chosen & ~signal).sum() / max(1, chosen.sum())),
                    "power": float(chosen[signal].mean()),
                }
            )
        return {
            name: [float(np.mean(column)), float(np.std(column, ddof=1) / TESTED_DRAWS**0.5)]
            for name, column in ((name, [row[name] for row in rows]) for name in rows[0])
        }

    for family in families:
        yield family, lambda family=family: tested(family)


def planted_pieces(_):
    from sklearn.metrics import roc_auc_score

    from jointsparse import SPCAPSD

    families = planted_families()

    def found_in(family):
        rows = []
        for seed in range(FIRST_SEED, FIRST_SEED + PLANTED_DRAWS):
            X, signal = families[family](np.random.default_rng([seed, 7]))
            model = quiet_fit(SPCAPSD(), standardised(X))
            kept = model.support_
            rows.append(
                {
                    "auc of scores": float(roc_auc_score(signal, model.feature_scores_)),
                    "auc of ranking": float(roc_auc_score(signal, -model.ranking_)),
                    "kept": int(kept.sum()),
                    "kept_signal": int((kept & signal).sum()),
                    "verdict": model.selection_report_.verdict,
                }
            )
        return {"draws": rows}

    for family in families:
        yield family, lambda family=family: found_in(family)


def auto_pieces(_):
    from threadpoolctl import threadpool_limits

    from jointsparse import SPCAPSD

    def seconds(selector, X):
        start = time.process_time()
        quiet_fit(selector, X)
        return time.process_time() - start

    def compare(name):
        X = standardised(capped(name)[0])
        with threadpool_limits(1):
            auto = SPCAPSD()
            seconds(auto, X)  # the first of a process is slower
            kept = int(auto.support_.sum())
            given = SPCAPSD(n_features_to_select=max(kept, 1))
            pairs = [(seconds(SPCAPSD(), X), seconds(given, X)) for _ in range(3)]
            report = auto.selection_report_
        a, b = np.median(pairs, axis=0)
        return {
            "kept": kept,
            "of": X.shape[1],
            "samples": X.shape[0],
            "ratio": float(a / b),
            "r2": None if report.worth is None else report.worth.r2,
            "random": None if report.worth is None else float(report.worth.random.mean()),
            "verdict": report.verdict,
        }

    for name in NAMES:
        yield name, lambda name=name: compare(name)


SECTIONS = {
    "worth": worth_pieces,
    "words": words_pieces,
    "cuts": cuts_pieces,
    "exchange": exchange_pieces,
    "swaps": swaps_pieces,
    "rules": rules_pieces,
    "extremes": extremes_pieces,
    "others": others_pieces,
    "noise": noise_pieces,
    "tested": tested_pieces,
    "planted": planted_pieces,
    "auto": auto_pieces,
    "clusters": clusters_pieces,
}
WITH_OTHERS = ("worth", "words", "clusters")


def stored(section, folder=RESULTS):
    """Return what a section has stored so far."""
    return known(folder / f"{section}.json")


def run(section, environments, folder=RESULTS, out=print, part=(0, 1), *, ours=False):
    """Measure what a section has not stored yet; with ``part=(k, m)`` every m-th piece from k on.

    Several runs may share the pieces.
    With ``ours`` every piece is measured, and of sections with other tools our methods only.
    """
    path = folder / f"{section}.json"
    beside = {"ours": True} if ours and section in WITH_OTHERS else {}
    for name, piece in list(SECTIONS[section](environments, **beside))[part[0] :: part[1]]:
        if name in stored(section, folder) and not ours:
            continue
        start = time.perf_counter()
        add(path, name, piece(), to=dict.__or__ if beside else lambda before, found: found)
        out(f"{section}: {name} [{time.perf_counter() - start:.0f} s]")


def main(words=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=(*SECTIONS, "page", []))
    parser.add_argument("--environments", type=Path, default=default_folder())
    parser.add_argument("--no-install", action="store_true", help="make no environment")
    parser.add_argument("--ours", action="store_true", help="measure our own methods again")
    parser.add_argument("--part", default="0/1", help="K/M: every M-th piece, from the K-th on")
    options = parser.parse_args(words)
    part = tuple(map(int, options.part.split("/")))
    environments = Environments(options.environments, make=not options.no_install)
    for section in options.sections or (*SECTIONS, "page"):
        if section == "page":
            from benchmarks.evidence_page import write

            print(write(ROOT / "docs" / "evidence.md"))
        else:
            out = partial(print, flush=True)
            run(section, environments, out=out, part=part, ours=options.ours)


if __name__ == "__main__":
    main()
