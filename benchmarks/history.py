"""How counts and ratios moved between versions: ``python -m benchmarks.history`` writes the page.

``python -m benchmarks --store`` keeps one file for each version in benchmarks/history: the counted
operations of benchmarks/operations.json, which do not depend on the machine, and for every task the
ratio of each competitor's time to ours, which hardly does. Seconds are not kept: they would compare
machines.
"""

import json
from pathlib import Path

import numpy as np

from benchmarks.common import ROOT
from benchmarks.tasks import OURS

FOLDER = Path(__file__).with_name("history")
OPERATIONS = Path(__file__).with_name("operations.json")
PAGE = ROOT / "docs" / "history.md"
MOVED = 1.2  # smaller changes of a ratio of times are noise of a machine with other work
HEAD = """<!-- Written by `python -m benchmarks.history` from benchmarks/history. -->
# From version to version

What `python -m benchmarks --store` kept of each version. *Operations* are counted on fifteen small
fixed problems and do not depend on the machine: fewer are better. *Ratios* are the other tool's
time over that of jointsparse, the median over the problems of a task, each within one run: more is
better. Ratios of different versions come from different runs; changes below a fifth say nothing.
What is empty was not measured for that version.

Where *time against features*, *time after the moments* and *kept features* fit jointsparse as it
comes, 0.2 solves another problem than 0.1, and takes longer for it: its own penalties are smaller
([what is new about them](upgrading.md)), so that more features stay in the model.
"""


def entry(results, operations, version):
    """Return what is kept of one version: counts, ratios of time, promises.

    Of tasks that were measured with it: the results may have others of earlier versions.
    """
    measured = results["measured"]
    own = [title for title in measured if measured[title]["versions"]["jointsparse"] == version]
    return {
        "version": version,
        "about": measured[own[-1]] if own else {"versions": {"jointsparse": version}},
        "operations": operations,
        "ratios": {title: ratios(results["tasks"][title]) for title in own},
        "promises": [one for one in results["promises"] if one["task"] in own],
    }


def ratios(problems):
    """Return {competitor: median over the problems of its time over ours}."""
    found = {}
    for outcomes in problems.values():
        ours = outcomes.get(OURS, {})
        for name, outcome in outcomes.items():
            both = ours.get("seconds") and outcome["seconds"]
            if name != OURS and both and ours["status"] == outcome["status"] == "ok":
                found.setdefault(name, []).append(outcome["seconds"] / ours["seconds"])
    return {name: float(np.median(values)) for name, values in found.items()}


def keep(results_path, version, folder=FOLDER):
    """Keep the results of a version; return the file."""
    results = json.loads(Path(results_path).read_text(encoding="utf-8"))
    kept = entry(results, json.loads(OPERATIONS.read_text(encoding="utf-8")), version)
    folder.mkdir(exist_ok=True)
    path = folder / f"{kept['version']}.json"
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def versions(folder=FOLDER):
    """Return what is kept, oldest version first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    return sorted(found, key=lambda kept: numbers(kept["version"]))


def numbers(version):
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def write_page(folder=FOLDER, page=PAGE):
    """Write the page of all versions; return it."""
    kept = versions(folder)
    names = [one["version"] for one in kept]
    parts = [HEAD, "## Operations", operations_table(kept, names)]
    parts += ["## Ratios", ratio_table(kept, names), "## Promises", promise_table(kept, names)]
    page.write_text("\n\n".join(part.rstrip() for part in parts) + "\n", encoding="utf-8")
    return page


def operations_table(kept, names):
    counted = dict.fromkeys(
        (problem, what)
        for one in kept
        for problem, counts in one["operations"].items()
        for what in counts
    )
    rows = []
    for problem, what in counted:
        values = [one["operations"].get(problem, {}).get(what) for one in kept]
        rows.append([problem, what, *map(count_words, values), change(values[-2:])])
    return grid(["problem", "counted", *names, "last change"], rows)


def count_words(value):
    return "" if value is None else f"{value:,.0f}".replace(",", " ")


def change(pair):
    """Return how a count moved in the last version, in words."""
    if len(pair) < 2 or None in pair or not pair[0] or pair[0] == pair[1]:
        return ""
    return f"{pair[1] / pair[0] - 1:+.0%}".replace("%", " %")


def ratio_table(kept, names):
    pairs = dict.fromkeys(
        (task, rival) for one in kept for task, found in one["ratios"].items() for rival in found
    )
    rows = []
    for task, rival in pairs:
        values = [one["ratios"].get(task, {}).get(rival) for one in kept]
        words = ["" if value is None else f"{value:.2g} ×" for value in values]
        rows.append([task, rival, *words, moved(values[-2:])])
    return grid(["task", "beside", *names, "last change"], rows)


def moved(pair):
    if len(pair) < 2 or None in pair or 1 / MOVED <= pair[1] / pair[0] <= MOVED:
        return ""
    return "faster" if pair[1] > pair[0] else "**slower**"


def promise_table(kept, names):
    words = {True: "met", False: "**missed**", None: "not measured"}
    said = dict.fromkeys(promise["promise"] for one in kept for promise in one["promises"])
    rows = []
    for text in said:
        met = [{p["promise"]: p["met"] for p in one["promises"]} for one in kept]
        rows.append([text, *("" if text not in one else words[one[text]] for one in met)])
    return grid(["promise", *names], rows)


def grid(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


if __name__ == "__main__":
    print(write_page())
