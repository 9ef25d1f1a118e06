"""Parameters chosen without labels, measured: ``python -m benchmarks.choice SECTION``.

Section ``accuracy``: for each dataset a grid of 9 × 9 penalties of SPCA-PSD. The labels choose the
point with the best clustering accuracy (K-means on the kept features, 30 runs); the criteria choose
theirs without labels. What they lose, in points of accuracy, is kept in
benchmarks/results/choice.json. The best of 81 noisy numbers is partly luck, so the winner is also
measured again, with 30 other runs. Beside it stands the best of the same grid with the features of
the largest norms, the selection of the paper, again chosen with the labels.

Section ``held-out``: the same on a dataset that had no part in making the criteria, kept in
benchmarks/results/choice_held_out.json.

Section ``cost``: the time of the whole grid against that of 81 separate fits, kept in
benchmarks/results/choice_cost.json.

Section ``page`` writes the tables of docs/choosing.md from what is stored.

Datasets that are not bundled are read from the folder that JOINTSPARSE_DATA names. Several runs,
for different datasets or counts, may go on at once.
"""

import argparse
import time
import warnings
from dataclasses import replace

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from benchmarks.common import ROOT
from benchmarks.history import grid as markdown
from benchmarks.keeping import add, known
from jointsparse import SPCAPSD, Moments, choose_parameters
from jointsparse.datasets import available_datasets, load_dataset
from jointsparse.metrics import clustering_scores
from jointsparse.model_selection import criteria, grid, parameters
from jointsparse.selection.choosing import by_score

COUNTS = {"breast-cancer": (5, 10), "digits": (10, 20), "colon": (20, 50), "isolet": (50, 100)}
AUTOMATIC = "rank+agreement"
JUDGED = ("agreement", "silhouette", "rank", AUTOMATIC)
RESULTS = ROOT / "benchmarks" / "results" / "choice.json"
HELD_OUT = {"usps": (20, 50)}  # had no part in making the criteria; 800 of its samples
HELD_OUT_RESULTS = RESULTS.with_name("choice_held_out.json")
COSTS = RESULTS.with_name("choice_cost.json")
PAGE = ROOT / "docs" / "choosing.md"


def load(name):
    X, y = load_dataset(name)
    if name in HELD_OUT:
        rows = np.sort(np.random.default_rng(0).permutation(len(X))[:800])
        X, y = X[rows], y[rows]
    X = X[:, X.std(axis=0) > 0].astype(float)
    if name == "breast-cancer":  # measurements in units of their own
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, y, len(np.unique(y))


def nested(model, moments, n_clusters):
    """What "held-out" keeps: the one criterion that has to fit again, to parts of the samples."""
    model = clone(model).set_params(n_clusters=n_clusters)
    found = choose_parameters(model, moments, criterion="held-out")
    return np.flatnonzero(found.best_estimator.support_)


class Accuracy:
    """Mean accuracy of a set of features, computed once for each set and seed."""

    def __init__(self, X, y):
        self.X, self.y, self.known = X, y, {}

    def __call__(self, kept, seed=0):
        key = (kept.tobytes(), seed)
        if key not in self.known:
            scores = clustering_scores(self.X[:, kept], self.y, n_repeats=30, random_state=seed)
            self.known[key] = 100 * float(scores.accuracy.mean())
        return self.known[key]


def judged(points, criterion, moments, n_clusters):
    """The point that a criterion chooses: as choose_parameters does, but without new fits."""
    usable = [point for point in points if point.n_kept]
    near = [criteria.nearness_of_rank(point.rank, n_clusters) for point in usable]
    if criterion == "rank":
        usable = [replace(p, mean=n, error=0.0) for p, n in zip(usable, near, strict=True)]
        return parameters._best(tuple(usable), criterion)[0]
    if criterion == "rank+agreement":
        least = sorted(near, reverse=True)[-(-len(near) // parameters.SHORTLIST) - 1]
        usable = [point for point, n in zip(usable, near, strict=True) if n >= least]
    judge = criteria.KINDS[criterion.removeprefix("rank+")](
        moments, n_clusters, n_repeats=10, rows=np.arange(moments.n_samples), seed=0
    )
    known = {point.kept.tobytes(): judge.values(point.kept) for point in usable}
    measured = []
    for point in usable:
        values = known[point.kept.tobytes()]
        error = float(values.std(ddof=1) / np.sqrt(values.size))
        measured.append(replace(point, mean=float(values.mean()), error=error))
    return parameters._best(tuple(measured), criterion)[0]


def best_by_norm(moments, score, counts):
    """Best accuracy of the grid, chosen with the labels, of the features with the largest norms."""
    model = SPCAPSD(rule="norm", n_features_to_select="support", tol=1e-3, warm_start=True)
    orders = []
    for line in grid.lines_of(model, None):
        walker = clone(model)
        for point in line:
            scores = walker.set_params(**point).fit_moments(moments).feature_scores_
            if scores.any():
                orders.append(by_score(scores, moments.variances))
    return {count: max(score(np.sort(order[:count])) for order in orders) for count in counts}


def lost_on(name, count):
    """Return what each way to choose loses on one dataset, in points of accuracy."""
    X, y, n_clusters = load(name)
    moments, score = Moments.from_data(X), Accuracy(X, y)
    model = SPCAPSD(n_features_to_select=count, tol=1e-3)
    choice = choose_parameters(model, moments, n_clusters=n_clusters)
    points = [point for point in choice.points if point.n_kept]
    best = max(points, key=lambda point: score(point.kept))
    kept = {
        criterion: judged(choice.points, criterion, moments, n_clusters).kept
        for criterion in JUDGED
    }
    kept["held-out"] = nested(model, moments, n_clusters)
    defaults = SPCAPSD(n_features_to_select=count, n_clusters=n_clusters).fit_moments(moments)
    kept["defaults"] = np.flatnonzero(defaults.support_)
    top, again = score(best.kept), score(best.kept, 1)
    values = [score(point.kept) for point in points]
    sets = {point.kept.tobytes(): score(point.kept) for point in points}
    return {
        "best": top,
        "again": again,
        "lost": {key: top - score(features) for key, features in kept.items()},
        "lost again": {key: again - score(features, 1) for key, features in kept.items()},
        "mean of the grid": top - float(np.mean(values)),
        "sets": sorted(sets.values(), reverse=True),
        "all features": score(np.arange(X.shape[1])),
        "best by norm": best_by_norm(moments, score, [count])[count],
        "automatic": score(kept[AUTOMATIC]),
        "minutes": time.process_time() / 60,
    }


def accuracy(names, counts=()):
    for name in names:
        for count in COUNTS[name]:
            if not counts or count in counts:
                found = lost_on(name, count)
                add(RESULTS, f"{name}, {count}", found)
                words = ", ".join(f"{key} {value:.1f}" for key, value in found["lost"].items())
                print(f"{name}, {count}: best {found['best']:.1f}; lost by {words}", flush=True)


def held_out(names, counts=()):
    for name, sizes in HELD_OUT.items():
        for count in sizes:
            found = lost_on(name, count)
            add(HELD_OUT_RESULTS, f"{name}, {count}", found)
            print(f"{name}, {count}: {found['lost']}", flush=True)


def table(stored):
    """Return the losses as Markdown."""
    columns = ("held-out", *JUDGED, "defaults", "mean of the grid")
    heads = [f"{name} (auto)" if name == AUTOMATIC else name for name in columns]
    rows = []
    losses = {key: one["lost"] | {columns[-1]: one[columns[-1]]} for key, one in stored.items()}
    for key, one in stored.items():
        shown = [f"{losses[key][name]:.1f}" for name in columns]
        rows.append([*key.split(", "), f"{one['best']:.1f}", f"{one['again']:.1f}", *shown])
    means = [np.mean([lost[name] for lost in losses.values()]) for name in columns]
    rows.append(["mean", "", "", "", *(f"{mean:.1f}" for mean in means)])
    return markdown(["dataset", "features", "best", "again", *heads], rows)


def against_norms(stored):
    """Return the automatic choice beside the best set by norm, chosen with the labels."""
    heads = ["dataset", "features", "best by norm, with labels", "automatic choice, greedy rule"]
    rows = [
        [*key.split(", "), f"{one['best by norm']:.1f}", f"{one['automatic']:.1f}"]
        for key, one in stored.items()
    ]
    return markdown(heads, rows)


def stored_results():
    """Return what is stored, in the order of the datasets."""
    stored = known(RESULTS)
    keys = [f"{name}, {count}" for name, counts in COUNTS.items() for count in counts]
    return {key: stored[key] for key in keys if key in stored}


def page(text):
    """Return the page with the tables of the stored results between its marks."""
    for mark, make in (("losses", table), ("norms", against_norms)):
        begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{make(stored_results())}\n\n{end}{rest.split(end)[1]}"
    return text


def cost(names, counts=()):
    for name in names:
        X, _, n_clusters = load(name)
        model = SPCAPSD(n_features_to_select=COUNTS[name][-1])
        start = time.process_time()
        choice = choose_parameters(model, X, n_clusters=n_clusters, criterion="rank")
        together = time.process_time() - start
        some = choice.points[:: max(1, 81 // 27)]
        start = time.process_time()
        for point in some:
            SPCAPSD(n_features_to_select=COUNTS[name][-1], **point.params).fit(X)
        apart = (time.process_time() - start) * 81 / len(some)
        add(COSTS, name, {"together": together, "apart": apart})
        print(
            f"{name}: grid of 81 in {together:.1f} s, 81 separate fits in {apart:.1f} s "
            f"({apart / together:.1f} times as long)",
            flush=True,
        )


SECTIONS = {"accuracy": accuracy, "held-out": held_out, "cost": cost}


def main(words=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choice", description=__doc__)
    parser.add_argument("section", choices=(*SECTIONS, "page"))
    parser.add_argument("--dataset", choices=tuple(COUNTS), action="append")
    parser.add_argument("--count", type=int, action="append", help="only with so many features")
    options = parser.parse_args(words)
    if options.section == "page":
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        print(PAGE)
        return
    warnings.simplefilter("ignore")
    there = [name for name in COUNTS if name in available_datasets()]
    names = [name for name in there if not options.dataset or name in options.dataset]
    with threadpool_limits(1):  # threads that wait for each other would count as work
        SECTIONS[options.section](names, options.count or ())


if __name__ == "__main__":
    main()
