"""Where each bound on a set of features ends: ``python -m benchmarks.bounds [page]``.

The 256 pixels of USPS with five and ten features are the sets that stay open. For each bound, its
gap to the best set known, and the seconds of the processor, one thread; kept in
benchmarks/results/bounds.json, for the table in docs/proofs.md.
"""

import sys
import time

from threadpoolctl import threadpool_limits

from benchmarks import keeping
from benchmarks.common import ROOT
from benchmarks.pages import Table, grid
from benchmarks.suites import sets
from benchmarks.tasks import by_name
from jointsparse import Moments
from jointsparse.methods.sets.subset_problem import subset_problem
from jointsparse.solvers.subset.bounds import components_bound
from jointsparse.solvers.subset.joint_bound import JointBound
from jointsparse.solvers.subset.rules import Rules
from jointsparse.solvers.subset.search import SubsetSearch

STORED = ROOT / "benchmarks" / "results" / "bounds.json"
DATASET, SIZES = "usps", (5, 10)
SEARCHED, STEPS = 10, 1500  # seconds of the search; steps of the joint relaxation and its parts
WORDS = {
    "components": "principal components",
    "search": f"search alone, {SEARCHED} s",
    "whole": "joint relaxation alone, until it stalls",
    "parts": "joint relaxation in parts",
}


def measured(X, k):
    """Return {bound: its gap, and the seconds after which it stood there}; and the best value."""
    problem = subset_problem(Moments.from_data(X), "features", None)
    ends = {"components": [components_bound(problem, k), 0.0]}
    begin = time.process_time()
    search = SubsetSearch(problem, k, joint=False)
    while not search.finished and time.process_time() - begin < SEARCHED:
        search.run(time_limit=1.0)
    ends["search"] = [search.bound, time.process_time() - begin]
    value = search.best.value
    begin = time.process_time()
    joint = JointBound.at_root(problem, k, Rules.none(problem.n_features))
    while not joint.finished and joint.steps < STEPS:
        joint.improve(value, lambda: False)
        if joint.n_parts > 1 and "whole" not in ends:
            ends["whole"] = [joint.best, time.process_time() - begin]
    ends["parts"] = [joint.best, time.process_time() - begin]
    return {"value": value} | {
        name: {"gap": bound / value - 1, "seconds": seconds}
        for name, (bound, seconds) in ends.items()
    }


def run():
    """Measure, and store."""
    for k in SIZES:
        problem = next(
            one for one in sets.problems(False) if one.dataset == DATASET and one.params["h"] == k
        )
        with threadpool_limits(1):
            found = measured(sets.load(problem)["X"], k)
        keeping.add(STORED, str(k), found)
        print(k, found, flush=True)


def lines():
    """Return the table of what is stored, in Markdown."""
    from benchmarks.sets import stored

    known, rows = keeping.known(STORED), []
    for name, words in WORDS.items():
        found = [known[str(k)][name] for k in SIZES]
        rows.append([words, *(f"{100 * one['gap']:.1f} %" for one in found)])
        if name in ("whole", "parts"):
            both = " and ".join(f"{one['seconds']:.0f}" for one in found)
            rows[-1][0] += f" ({both} s)"
    suite = [by_name(stored()[f"{DATASET}, k = {k}"])[sets.PROOF] for k in SIZES]
    both = [f"{100 * sets.gap_of(one):.1f} %" for one in suite]
    rows.insert(2, [f"search and joint relaxation, {SEARCHED} s", *both])
    return grid(["bound", *(f"{k} of 256" for k in SIZES)], rows)


TABLE = Table("docs/proofs.md", "bounds", lines)


if __name__ == "__main__":
    if sys.argv[1:] != ["page"]:
        run()
    TABLE.write()
