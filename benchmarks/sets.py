"""Sets beside other programs: ``python -m benchmarks.sets [--environments FOLDER] [page]``.

The suite ``sets`` with its results in one JSON file, benchmarks/results/sets.json, so that the page
docs/sets.md can be written again without measuring. A run that was stopped goes on where it was;
with ``--fresh`` everything is measured again, and of tools that cannot be installed here what is
stored stays.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # these sources, installed or not

from benchmarks.common import ROOT
from benchmarks.competitors import all_solvers
from benchmarks.environments import Environments, default_folder
from benchmarks.measure import Outcome, measure
from benchmarks.suites.sets import GREEDY, PROOF, PROVED, TASKS, bars, gap_of
from benchmarks.tasks import OURS, by_name

RESULT = ROOT / "benchmarks" / "results" / "sets.json"
REPEATS, LIMIT = 1, 60.0
COLUMNS = {GREEDY: "greedy", OURS: "exchange", PROOF: "search"}
HEAD = """<!-- Written by `python -m benchmarks.sets page` from benchmarks/results/sets.json. -->
# Sets beside other programs

Which k features explain most of all features, by least squares in the same samples? Every program
gets the same standardised table (at most 2 000 samples) and the same k, runs with its defaults in a
process and an environment of its own, and is judged by one function. *Bound* is what no set of k
features explains, whatever found it: proved by `SubsetSelector(search="exact")` within ten seconds
of one thread; **bold** where the search has reached it, so that no better set exists. fastcan is
given as many principal components as features are to be kept. CSS is compiled from its source;
where that cannot be had, its results and its seconds are those of the last run that had it.

## Share of the variance explained, %

{values}

## Seconds of the processor, one thread

{seconds}

## What was promised

{bars}

On USPS 15 % take longer than ten seconds: where each bound ends, and why, is said in
[Proofs](proofs.md#sets-that-explain-most-of-all-features).
"""


def stored(path=RESULT):
    """Return {problem: [outcome, …]}."""
    found = json.loads(path.read_text()) if path.exists() else {}
    return {name: [Outcome(**one) for one in rows] for name, rows in found.items()}


def run(environments, path=RESULT, out=print, *, fresh=False):
    """Measure what has not been stored yet, or everything again."""
    for task in TASKS:
        solvers = [solver for solver in all_solvers() if task.name in solver.tasks]
        for problem in task.problems(False):
            found = stored(path)
            if problem.name in found and not fresh:
                continue
            earlier = by_name(found.get(problem.name, []))
            rows = measure(task, problem, solvers, environments, repeats=REPEATS, limit=LIMIT)
            found[problem.name] = [
                earlier.get(one.competitor, one) if one.status == "not installed" else one
                for one in rows
            ]
            plain = {name: [asdict(one) for one in rows] for name, rows in found.items()}
            path.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n")
            out(f"{problem.name}: " + "; ".join(line(one) for one in found[problem.name]))


def line(one):
    return f"{one.competitor} {one.status} {one.quality.get('value', float('nan')):.4f}"


def grid(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def page(outcomes):
    """Return the page."""
    names = dict.fromkeys(one.competitor for rows in outcomes.values() for one in rows)
    names = [*COLUMNS, *(name for name in names if name not in COLUMNS)]
    head = ["table", "features", *(COLUMNS.get(name, name) for name in names)]
    values, seconds = [], []
    for problem, rows in outcomes.items():
        here = by_name(rows)
        proof = here[PROOF]
        first = [problem, f"{proof.quality['features']:.0f}"]
        cells = [value_of(here.get(name)) for name in names]
        bound = f"{100 * proof.quality['bound']:.2f}"
        values.append([*first, *cells, f"**{bound}**" if gap_of(proof) <= PROVED else bound])
        seconds.append([*first, *(seconds_of(here.get(name)) for name in names)])
    words = {True: "met", False: "**missed**", None: "not measured"}
    kept = [
        [bar.promise.removeprefix("Sets: "), bar.found, words[bar.met]] for bar in bars(outcomes)
    ]
    return HEAD.format(
        values=grid([*head, "bound"], values),
        seconds=grid(head, seconds),
        bars=grid(["promise", "found", ""], kept),
    )


def value_of(one):
    return "–" if one is None or "value" not in one.quality else f"{100 * one.quality['value']:.2f}"


def seconds_of(one):
    return "–" if one is None or not one.seconds else f"{one.median:.2g}"


def main(words=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sets", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("page",), help="measure nothing")
    parser.add_argument("--environments", type=Path, default=default_folder())
    parser.add_argument("--no-install", action="store_true", help="make no environment")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    options = parser.parse_args(words)
    if options.what is None:
        environments = Environments(options.environments, make=not options.no_install)
        run(environments, out=lambda words: print(words, flush=True), fresh=options.fresh)
    target = ROOT / "docs" / "sets.md"
    target.write_text(page(stored()))
    print(target)


if __name__ == "__main__":
    main()
