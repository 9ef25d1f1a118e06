"""The set of k features that explains most of all: its value beside every rival's, and a bound."""

import numpy as np

from benchmarks.common import has_data, table
from benchmarks.tasks import OURS, Bar, Metric, Problem, Task, by_name

PROOF = f"{OURS}, with a proof"
GREEDY = f"{OURS}, greedy"
PROVED = 1e-8  # relative gap of what counts as proved
MOST_SAMPLES = 2000
CASES = {"breast_cancer": (5, 10), "digits": (5, 10, 20)}
MORE_CASES = {"usps": (3, 5, 10), "isolet": (5, 10, 50)}
# Seconds of one thread in which the best set is to be proved, as promised.
SECONDS = {("breast_cancer", 10): 5.0, ("breast_cancer", 5): 0.3, ("digits", 5): 6.0}
SECONDS |= {("usps", 3): 5.0}
OPEN = ((100, 0.08), (617, 0.15))  # features up to which a gap is promised, k ≤ 10


def problems(quick):
    cases = {"wine": (3,)} if quick else CASES | (MORE_CASES if has_data() else {})
    return [
        Problem("sets", "set", f"{name}, k = {k}", name, {"h": k, "sizes": [k]})
        for name, sizes in cases.items()
        for k in sizes
    ]


def load(problem):
    X, _ = table(problem.dataset, MOST_SAMPLES)
    X = X[:, X.std(axis=0) > 0]
    return {"X": (X - X.mean(axis=0)) / X.std(axis=0)}


def explained(X, features):
    """Return the share of the variance of all features that some explain, by least squares."""
    basis, triangle = np.linalg.qr(X[:, features])
    kept = np.abs(np.diagonal(triangle)) > 1e-9 * np.abs(triangle).max()
    if not kept.all():  # some determine others
        basis = np.linalg.svd(X[:, features], full_matrices=False)
        basis = basis[0][:, basis[1] > 1e-9 * basis[1][0]]
    return float(np.sum((basis.T @ X) ** 2) / np.sum(X**2))


def evaluate(data, params, result):
    """The share explained and the proven bound; nothing where a rival found no such set."""
    k = params["h"]
    found = result.get(f"order_{k}", result.get("order"))
    if found is None or np.unique(found[:k]).size < k:
        return {}
    bound = float(result["bound"]) if "bound" in result else params.get("bound")
    value = explained(data["X"], found[:k])
    size = {"features": float(data["X"].shape[1]), "k": float(k)}
    return {"value": value} | size | ({} if bound is None else {"bound": bound})


def lead(data, params, result):
    return {"bound": float(result["bound"])}


def bars(outcomes):
    return [ahead(outcomes), *proofs(outcomes), *gaps(outcomes), doubling(outcomes)]


def ahead(outcomes):
    """No rival's set explains more than ours."""
    losses, count = [], 0
    for problem, rows in outcomes.items():
        here = by_name(rows)
        ours = max((here[n].quality.get("value", 0) for n in (OURS, PROOF) if n in here), default=0)
        for name, outcome in here.items():
            if not name.startswith(OURS) and "value" in outcome.quality:
                count += 1
                if outcome.quality["value"] > ours + 1e-9:
                    more = 100 * (outcome.quality["value"] - ours)
                    losses.append(f"{name} on {problem} by {more:.2g} points")
    words = "; ".join(losses) or f"nowhere ahead, {count} comparisons"
    return Bar("Sets: no other tool explains more at equal k", words, not losses if count else None)


def proofs(outcomes):
    for (name, k), seconds in SECONDS.items():
        one = by_name(outcomes.get(f"{name}, k = {k}", [])).get(PROOF)
        promise = f"Sets: {name}, k = {k}, proved within {seconds:g} s"
        if one is None:
            yield Bar(promise, "not measured", None)
            continue
        done = gap_of(one) <= PROVED
        words = f"{one.median:.2g} s" if done else f"{100 * gap_of(one):.1f} % are open"
        yield Bar(promise, words, done and one.median <= seconds)


def gaps(outcomes):
    least = 0
    for most, limit in OPEN:
        found = {}
        for problem, rows in outcomes.items():
            one = by_name(rows).get(PROOF)
            if one and least < one.quality["features"] <= most and one.quality["k"] <= 10:
                found[problem] = gap_of(one)
        promise = (
            f"Sets: {least + 1} to {most} features, k ≤ 10: a gap of at most {100 * limit:g} %"
        )
        words = ", ".join(f"{name}: {100 * gap:.1f} %" for name, gap in found.items())
        met = all(gap <= limit for gap in found.values()) if found else None
        yield Bar(f"{promise} after 10 s", words or "not measured", met)
        least = most


def doubling(outcomes):
    here = by_name(outcomes.get("isolet, k = 50", []))
    promise = "Sets: isolet, k = 50: exchanges take at most as long as the greedy picks again"
    if OURS not in here or GREEDY not in here:
        return Bar(promise, "not measured", None)
    ratio = here[OURS].median / here[GREEDY].median
    return Bar(promise, f"{ratio:.2f} times the greedy run in all", ratio <= 2)


def gap_of(outcome):
    return outcome.quality["bound"] / outcome.quality["value"] - 1


TASKS = (
    Task(
        suite="sets",
        name="set",
        title="Sets: share of all features explained at equal k",
        problems=problems,
        load=load,
        evaluate=evaluate,
        metric=Metric("value", higher_is_better=True, same=1e-6),
        leader=PROOF,
        lead=lead,
        bars=bars,
        notes="*bound*: what no set of as many features explains, proved within ten seconds.",
    ),
)
