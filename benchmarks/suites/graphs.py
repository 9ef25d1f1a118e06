"""Methods on graphs: the same scores, sooner."""

import numpy as np
from scipy.stats import spearmanr

from benchmarks.common import has_data, table
from benchmarks.tasks import OURS, Bar, Metric, Problem, Task, ratios

AGREEMENT = Metric("agreement", higher_is_better=True, same=1.0)  # with ours: no rank is the truth


def laplacian_problems(quick):
    if quick or not has_data():
        places = [("digits", 120 if quick else 500), *([] if quick else [("digits", 1797)])]
    else:
        places = [("mnist", n) for n in (500, 2000, 5000)]
    return [
        Problem("graphs", "laplacian-score", f"{name}, {n} samples", (name, n), MODEL)
        for name, n in places
    ]


MODEL = {"model": "laplacian-score"}


def udfs_problems(quick):
    places = [("factors", 60, 20)] if quick else [("factors", 500, 200), ("factors", 1000, 500)]
    if has_data() and not quick:
        places.append(("mnist", 1000, 500))
    return [
        Problem("graphs", "udfs", f"{name}, {n} × {p}", (name, n, p), {"model": "udfs"})
        for name, n, p in places
    ]


def graph_data(problem):
    name, n, *features = problem.dataset
    if name == "factors":
        rng, p = np.random.default_rng(0), features[0]
        signal = rng.standard_normal((n, 5)) @ rng.standard_normal((5, p))
        return {"X": signal + rng.standard_normal((n, p))}
    X, _ = table(name, n)
    if features:
        X = X[:, np.sort(np.argsort(-X.std(axis=0), kind="stable")[: features[0]])]
    return {"X": X[:, X.std(axis=0) > 0]}


def our_scores(data, params, result):
    return {"scores": result["scores"].tolist()}


def agreement(data, params, result):
    """Rank correlation with our scores; a rival without scores has none."""
    if "scores" not in result or result["scores"].size != data["X"].shape[1]:
        return {}
    return {"agreement": float(spearmanr(params["scores"], result["scores"]).statistic)}


def faster(promise, rivals, least):
    def bars(outcomes):
        made = []
        for rival in rivals:
            found = ratios(outcomes, rival)
            words = ", ".join(f"{name}: {ratio:.0f}×" for name, ratio in found.items())
            met = all(ratio >= least for ratio in found.values()) if found else None
            made.append(Bar(f"{promise} {rival}", words or "not measured", met))
        return made

    return bars


TASKS = (
    Task(
        suite="graphs",
        name="laplacian-score",
        title="Laplacian score",
        problems=laplacian_problems,
        load=graph_data,
        evaluate=agreement,
        metric=AGREEMENT,
        leader=OURS,
        lead=our_scores,
        bars=faster(
            "Laplacian score: 5 times faster than",
            ("skfeature Laplacian score", "ITMO_FS Laplacian score"),
            5,
        ),
        notes="Agreement is the rank correlation with jointsparse's scores; "
        "their graph has self-loops.",
    ),
    Task(
        suite="graphs",
        name="udfs",
        title="UDFS",
        problems=udfs_problems,
        load=graph_data,
        evaluate=agreement,
        metric=AGREEMENT,
        leader=OURS,
        lead=our_scores,
        bars=faster("UDFS: 20 times faster than", ("skfeature UDFS", "ITMO_FS UDFS"), 20),
        notes="Equal numbers of clusters and neighbours; every program has its own stopping rule.",
    ),
)
