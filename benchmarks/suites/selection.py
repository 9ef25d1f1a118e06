"""What kept features are worth: R² in new samples, clusters, stability; labels choose nothing."""

import numpy as np

from benchmarks.common import NAMES, has_data, table
from benchmarks.tasks import OURS, Bar, Metric, Problem, Task, by_name

NOT_SUBSETS = ("PCA, h components (no subset)",)
MOST_SAMPLES = 2000


def problems_of(task):
    def problems(quick):
        names = ("wine",) if quick else NAMES if has_data() else ("breast_cancer", "digits")
        params = {"h": 5 if quick else 20 if not has_data() else 50}
        return [Problem("selection", task, name, name, params) for name in names]

    return problems


def varying(name):
    X, y = table(name, MOST_SAMPLES)
    X = X[:, X.std(axis=0) > 0]
    if name in ("wine", "breast_cancer"):
        X = X / X.std(axis=0)
    return X - X.mean(axis=0), y


def halves(problem):
    """Two halves of the samples; what is chosen on one is judged on the other."""
    X, _ = varying(problem.dataset)
    order = np.random.default_rng(0).permutation(len(X))
    one, other = order[: len(X) // 2], order[len(X) // 2 :]
    return {
        "X1": X[one] - X[one].mean(axis=0),
        "X2": X[other] - X[other].mean(axis=0),
        "_X": X,
        "_one": one,
        "_other": other,
    }


def held_out(data, params, result):
    """R² of the dropped features in the other half, mean of both ways; what both agree on."""
    from jointsparse import Moments
    from jointsparse.solvers.picking.held_out import held_out_folds

    X, one, other, h = data["_X"], data["_one"], data["_other"], params["h"]
    moments = Moments.from_data(X)
    shares = []
    for key, train, test in (("order1", one, other), ("order2", other, one)):
        fold, _ = held_out_folds(moments, train, test)
        if "components" in result:
            shares.append(fold.r2_of_pca(h))
        else:
            orders = np.atleast_2d(result[key])[:, :h]
            shares.append(float(np.mean([fold.r2(order) for order in orders])))
    quality = {"r2": float(np.mean(shares))}
    if "components" not in result:
        pairs = zip(np.atleast_2d(result["order1"]), np.atleast_2d(result["order2"]), strict=True)
        stable = [stability(X.shape[1], a[:h], b[:h]) for a, b in pairs]
        quality["stability"] = float(np.mean(stable))
    return quality


def stability(p, first, second):
    from jointsparse.metrics import selection_stability

    supports = np.zeros((2, p), dtype=bool)
    supports[0, first] = supports[1, second] = True
    return selection_stability(supports)[0]


def whole(problem):
    X, y = varying(problem.dataset)
    return {"X": X, "_y": y}


def clusters(data, params, result):
    """K-means on the kept features against the classes: means of ten runs."""
    from jointsparse.metrics import clustering_scores

    orders = np.atleast_2d(result["order"])[:5, : params["h"]]
    scores = {"acc": [], "nmi": [], "ari": []}
    for order in orders:
        summary = clustering_scores(
            data["X"][:, order], data["_y"], n_repeats=10 if len(orders) == 1 else 4
        ).summary()
        for short, long in (("acc", "accuracy"), ("nmi", "nmi"), ("ari", "ari")):
            scores[short].append(summary[long][0])
    return {name: float(np.mean(values)) for name, values in scores.items()}


def means(outcomes, metric):
    """Return {competitor: mean over the problems}, for those that finished all of them."""
    found = {}
    for rows in outcomes.values():
        for name, outcome in by_name(rows).items():
            found.setdefault(name, []).append(outcome.quality.get(metric))
    complete = {
        name: values
        for name, values in found.items()
        if len(values) == len(outcomes) and None not in values
    }
    return {name: float(np.mean(values)) for name, values in complete.items()}


def mean_bar(promise, metric):
    def bars(outcomes):
        mean = means(outcomes, metric)
        if OURS not in mean:
            return [Bar(promise, "not measured", None)]
        rivals = {
            name: value
            for name, value in mean.items()
            if not name.startswith(OURS) and name not in NOT_SUBSETS
        }
        order = sorted(mean, key=lambda name: -mean[name])
        words = ", ".join(f"{name} {100 * mean[name]:.1f}" for name in order)
        words = f"{words} (mean over {len(outcomes)} datasets, %)"
        # Of a rival that did not finish everywhere: the mean over what it finished.
        for name in sorted({o.competitor for rows in outcomes.values() for o in rows} - set(mean)):
            pairs = [
                (by_name(rows)[OURS].quality[metric], by_name(rows)[name].quality[metric])
                for rows in outcomes.values()
                if name in by_name(rows) and metric in by_name(rows)[name].quality
            ]
            if pairs:
                ours, theirs = 100 * np.mean(pairs, axis=0)
                words += f"; on {len(pairs)} of {len(outcomes)}: {name} {theirs:.1f}, "
                words += f"{OURS} {ours:.1f}"
        return [Bar(promise, words, mean[OURS] >= max(rivals.values()))]

    return bars


def cluster_bars(outcomes):
    return [
        bar
        for name, metric in (("accuracy", "acc"), ("NMI", "nmi"), ("ARI", "ari"))
        for bar in mean_bar(f"Clusters: mean {name} at least that of every other tool", metric)(
            outcomes
        )
    ]


def quality_bars(outcomes):
    promise = (
        "Kept features, h = 50: mean R² of the dropped ones in new samples at least that of every "
        "other tool, CUR and FPS included"
    )
    bars = mean_bar(promise, "r2")(outcomes)
    promise = "Kept features: stability at least that of every other tool"
    return bars + mean_bar(promise, "stability")(outcomes)


TASKS = (
    Task(
        suite="selection",
        name="reconstruction",
        title="Kept features: R² of the dropped ones in new samples",
        problems=problems_of("reconstruction"),
        load=halves,
        evaluate=held_out,
        metric=Metric("r2", higher_is_better=True, same=1e-3),
        bars=quality_bars,
    ),
    Task(
        suite="selection",
        name="clusters",
        title="Kept features: accuracy of K-means",
        problems=problems_of("clusters"),
        load=whole,
        evaluate=clusters,
        metric=Metric("acc", higher_is_better=True, same=5e-3),
        bars=cluster_bars,
    ),
)
