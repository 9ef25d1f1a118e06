"""Parameters chosen without labels, measured: ``python -m benchmarks.choice [SECTION ...]``.

Section ``accuracy``: for each dataset a grid of 9 × 9 penalties of SPCA-PSD. The labels choose the
point with the best clustering accuracy (K-means on the kept features, 30 runs); the criteria choose
theirs without labels. Printed is what they lose, in points of accuracy. The best of 81 noisy
numbers is partly luck, so the winner is also measured again, with 30 other runs. Beside it stands
the best of the same grid with the features of the largest norms, the selection of the paper, again
chosen with the labels.

Section ``cost``: the time of the whole grid against that of 81 separate fits.

Datasets that are not bundled are read from the folder that JOINTSPARSE_DATA names. Name datasets
after the section to run only those.
"""

import sys
import time
import warnings
from dataclasses import replace

import numpy as np
from sklearn.base import clone

from jointsparse import SPCAPSD, Moments, choose_parameters
from jointsparse.datasets import available_datasets, load_dataset
from jointsparse.metrics import clustering_scores
from jointsparse.model_selection import criteria, grid, parameters
from jointsparse.selection import by_score

warnings.simplefilter("ignore")

COUNTS = {"breast-cancer": (5, 10), "digits": (10, 20), "colon": (20, 50), "isolet": (50, 100)}
BOUND = 3.0  # points of accuracy that may be lost
JUDGED = ("agreement", "silhouette", "rank", "rank+agreement")


def load(name):
    X, y = load_dataset(name)
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


def accuracy(names):
    losses, failures = {}, []
    columns = ("held-out", *JUDGED, "defaults", "mean of grid", "auto, against the best by norm")
    print(f"| dataset | features | best, with labels | measured again | {' | '.join(columns)} |")
    print("|---" * (4 + len(columns)) + "|", flush=True)
    for name in names:
        X, y, n_clusters = load(name)
        moments, score = Moments.from_data(X), Accuracy(X, y)
        by_norm = best_by_norm(moments, score, COUNTS[name])
        for count in COUNTS[name]:
            model = SPCAPSD(n_features_to_select=count, tol=1e-3)
            choice = choose_parameters(model, moments, n_clusters=n_clusters)
            points = [point for point in choice.points if point.n_kept]
            best = max(points, key=lambda point: score(point.kept))
            top = score(best.kept)
            line = {}
            for criterion in JUDGED:
                chosen = judged(choice.points, criterion, moments, n_clusters)
                line[criterion] = chosen.kept
            line["held-out"] = nested(model, moments, n_clusters)
            defaults = SPCAPSD(n_features_to_select=count, n_clusters=n_clusters).fit_moments(
                moments
            )
            line["defaults"] = np.flatnonzero(defaults.support_)
            lost = {key: top - score(kept) for key, kept in line.items()}
            lost["mean of grid"] = top - float(np.mean([score(point.kept) for point in points]))
            lost[columns[-1]] = by_norm[count] - score(line["rank+agreement"])
            again = score(best.kept, 1)
            lost_again = {key: again - score(kept, 1) for key, kept in line.items()}
            cells = [f"{lost[key]:.1f}" for key in columns]
            print(
                f"| {name} | {count} | {top:.1f} | {again:.1f} | {' | '.join(cells)} |", flush=True
            )
            for key in columns:
                losses.setdefault(key, []).append((lost[key], lost_again.get(key, np.nan)))
                if key == "rank+agreement" and lost[key] > BOUND:
                    failures.append(f"{name} with {count} features: {lost[key]:.1f} points")
    print()
    for key in columns:
        values, again = np.array(losses[key]).T
        print(
            f"{key:16s} mean loss {values.mean():.1f}, largest {values.max():.1f}, within "
            f"{BOUND:g} points in {np.sum(values <= BOUND)} of {values.size}; "
            f"measured again {again.mean():.1f}"
        )
    print("\nautomatic choice beyond the bound:", "; ".join(failures) or "nowhere")
    print(f"processor time {time.process_time() / 60:.1f} minutes")


def cost(names):
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
        print(
            f"{name}: grid of 81 in {together:.1f} s, 81 separate fits in {apart:.1f} s "
            f"({apart / together:.1f} times as long)",
            flush=True,
        )


SECTIONS = {"accuracy": accuracy, "cost": cost}


def main():
    there = [name for name in COUNTS if name in available_datasets()]
    asked = sys.argv[1:]
    names = [name for name in there if name in asked] or there
    for section in [name for name in SECTIONS if name in asked] or SECTIONS:
        print(f"== {section}", flush=True)
        SECTIONS[section](names)


if __name__ == "__main__":
    main()
