"""What pages quote from stored results: numbers for the holes of ``docs/quotes.py``.

Each function reads benchmarks/RESULTS.json, benchmarks/results, benchmarks/history,
docs/reproduction or mutation/score.json, asks the sources of the package for what they declare, or
repeats a fit of a moment.
"""

import ast
import json
import math
import statistics
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "jointsparse"


def stored(name):
    return json.loads((ROOT / "benchmarks" / name).read_text(encoding="utf-8"))


RULES, TOOLS = "results/rules.json", "results/worth.json"
HIGHEST = "SPCAPSD(rule='norm')"


def mean_of(source, who, metric="all samples: ridge 50"):
    """Return a mean over the tables, in percent; by default the R² of what 50 features predict."""
    tables = stored(source).values()
    return 100 * statistics.mean(table[who]["quality"][metric] for table in tables)


def agreement(who):
    """Return how many of 50 features two halves agree on, in percent, mean over the tables."""
    return 100 * statistics.mean(table[who]["agree"] for table in stored(RULES).values())


def lost(column):
    """Return the points of accuracy that a way to choose without labels loses, on average."""
    tables = stored("results/choice.json").values()
    return statistics.mean((one["lost"] | one)[column] for one in tables)


def claims():
    """Return how many published claims there are, and how many have each verdict.

    Questions that the papers leave open ("beyond") are not published claims.
    """
    path = ROOT / "docs" / "reproduction" / "summary.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    experiments = [one for name, one in stored.items() if not name.startswith("beyond")]
    verdicts = ("reproduced", "close", "not reproduced", "not testable")
    counts = [sum(one["claims"][verdict] for one in experiments) for verdict in verdicts]
    return [sum(counts), *counts]


def house():
    """Return how many lines the sources have, docstrings and empty ones of them, and files.

    Lines in hundreds: a page need not follow every commit.
    """
    texts = [path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py")]
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documented = [
        node.body[0]
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kinds) and ast.get_docstring(node) is not None
    ]
    lines = [line for text in texts for line in text.splitlines()]
    docstrings = sum(one.end_lineno - one.lineno + 1 for one in documented)
    counts = (len(lines), docstrings, sum(not line.strip() for line in lines))
    return [*(f"{round(count, -2):,}".replace(",", " ") for count in counts), len(texts)]


def rooms():
    """Return how many files and folders the sources have."""
    files = list(SOURCES.rglob("*.py"))
    return [len(files), len({path.parent for path in files})]


def streamed(name):
    """Return a number of the fit to files that do not fit in memory."""
    return stored("results/streaming.json")["5000000 x 200"][name]


def faults():
    """Return what became of the faults that were put into the code, shares in percent.

    How many there were, how they were chosen, what share was noticed, and of those that a test can
    notice; then of "<" in place of "<=", and of real numbers doubled.
    """
    path = ROOT / "mutation" / "score.json"
    score = json.loads(path.read_text(encoding="utf-8"))
    chosen = [score["tried"], score["per_file"], score["seed"]]
    kinds = (score["kinds"][kind] for kind in ("< and <=, > and >=", "real number doubled"))
    noticed = [100 * kind["noticed"] / sum(kind.values()) for kind in kinds]
    return [*chosen, 100 * score["raw"], 100 * score["after_review"], *noticed]


def choice(table, *keys):
    """Return a number of the choice without labels: one table, and where it stands there."""
    found = stored("results/choice.json")[table]
    for key in keys:
        found = found[key]
    return found


def measured_again(way):
    """Return the points lost on average when the best set is measured with other runs."""
    tables = stored("results/choice.json").values()
    return statistics.mean(one["lost again"][way] for one in tables)


def behind_by_norm():
    """Return by how much the automatic choice is behind the best by norm, but for colon."""
    tables = stored("results/choice.json")
    others = [one for name, one in tables.items() if not name.startswith("colon")]
    return [max(one["best by norm"] - one["automatic"] for one in others)]


def rows_of(experiment):
    """Return {what was asked, in order: the rows found} of an experiment."""
    path = ROOT / "docs" / "reproduction" / f"{experiment}.json"
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
    return {tuple(one["case"].values()): one["rows"] for run in runs for one in run["tasks"]}


def subspace_errors(*methods):
    """Return the median error of each method beside outlier samples."""
    found = rows_of("000-outliers").values()
    return [statistics.median(rows[0][method] for rows in found) for method in methods]


def table_of_jspca():
    """Return what Table 1 of JSPCA comes to after 50 iterations, and features gone after more."""
    found = rows_of("000-table1")
    first = found[50,][0]
    after = [found[count,][0]["removed"] for count in (100, 200, 500, 2000)]
    return [*(first[name] for name in ("zeros", "removed", "variance", "pca")), *after]


def pitprops():
    """Return nonzeros and adjusted variances of the components by the paper's penalties."""
    rows = rows_of("001-pitprops")["penalties",]
    return [*(row["nonzeros"] for row in rows), *(row["adjusted"] for row in rows)]


def many_features():
    """Return least and most seconds for each number of features, few first."""
    found = {}
    for one in stored("results/l0_large.json").values():
        found.setdefault(one["features"], []).append(one["seconds"])
    return [extreme(found[count]) for count in sorted(found) for extreme in (min, max)]


def batches():
    """Return how many times as long, or as fast, a device is with batches of nodes."""
    found = stored("results/gpu_joint.json")
    sizes = [found[f"batches {rows}"] for rows in (8, 16, 32, 64, 128)]
    faster = [(one["eigh, host"] + one["QR, host"]) / (one["eigh"] + one["QR"]) for one in sizes]
    return [1 / faster[0], 1 / faster[1], *faster[2:]]


def a_million_on_a_device():
    """Return the seconds of each method for a million features on a GPU."""
    rows = [one for one in stored("results/gpu.json") if "1000000" in one["table"]]
    seconds = {one["method"]: one["device_s"] for one in rows}
    return [seconds[name] for name in ("spca-psd", "cspca-psd", "spca", "jspca")]


def clusters():
    """Return points of K-means between the defaults of 0.2 and 0.1, and their standard error."""
    tables = stored("results/clusters.json").values()
    now, before = (
        [100 * one[who]["quality"]["acc 50"] for one in tables]
        for who in ("jointsparse", "jointsparse, before")
    )
    differences = [a - b for a, b in zip(now, before, strict=True)]
    error = statistics.stdev(differences) / len(differences) ** 0.5
    return [round(statistics.mean(differences), 1) + 0.0, error]  # no -0.0


def false_ones():
    """Return the largest share of noise in what is called significant, in percent.

    By jointsparse, over all families; then by the largest correlations, where samples are unequal.
    """
    rows = stored("RESULTS.json")["tasks"][
        "Planted tables: share of noise in what is called significant"
    ]
    ours = [one["jointsparse"]["quality"]["false"] for one in rows.values()]
    other = rows["unequal samples"]["largest correlations"]["quality"]["false"]
    return [100 * max(ours), 100 * other]


def slower_than_before():
    """Return how much longer a fit takes than one of 0.1, least and most over tools that stayed."""
    task = "Kept features: accuracy of K-means"
    old, new = (stored(f"history/{version}.json")["ratios"][task] for version in ("0.1.0", "0.2.0"))
    same = [name for name in new if name.startswith(("skfeature", "skmatter"))]
    ratios = [old[name] / new[name] for name in same if name in old]
    return [min(ratios), max(ratios)]


@cache
def breast_cancer(count=3, rule="greedy"):
    """Return what so many features of the table predict and random ones, in percent, ± and kept."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    from jointsparse import SPCAPSD

    X = StandardScaler().fit_transform(load_breast_cancer().data)
    model = SPCAPSD(n_features_to_select=count, rule=rule).fit(X)
    worth = model.selection_report_.worth
    shares = (worth.r2, worth.random.mean(), worth.random.std())
    return [*(100 * share for share in shares), int(model.get_support().sum())]


def declared():
    """Return what reading and methods say that they take: bytes, matrices, times the table."""
    from jointsparse.io.limits import BYTES_OF_FEATURE
    from jointsparse.methods.bases.sample_loss import PASSED_MATRICES, WIDE_COPIES
    from jointsparse.methods.reading import plan
    from jointsparse.solvers.convex.splitting import MATRICES

    return {
        "reading": [plan.ENTRY_BYTES, plan.NAME_BYTES, plan.FEATURE_BYTES],
        "split": [MATRICES],
        "passes": [PASSED_MATRICES, plan.PASSED_BYTES],
        "wide": [WIDE_COPIES],
        "column": [BYTES_OF_FEATURE],
        "20 000 features": [MATRICES * 8 * 20_000**2 / 1e9],
    }


def spaced(count):
    """Return a whole number with its thousands apart."""
    return f"{count:,}".replace(",", " ")


def cells():
    """Return size, command, peak and seconds of the largest table of cells."""
    one = max(stored("results/annotated.json").values(), key=lambda one: one["file"])
    command = [one["cells"], one["genes"], one["memory"].removesuffix("GB")]
    sizes = [spaced(one["cells"]), spaced(one["genes"]), one["file"] / 1e9]
    select, read = one["select"], one["read"]
    return [*command, *sizes, select["peak"] / 1e9, select["seconds"], read["seconds"]]


def components(section):
    """Return what a section of ``benchmarks.components`` found."""
    return stored("results/component_methods.json")[section]


def paths():
    """Return how many times as many iterations single fits take, and % below and above them."""
    rows = [one for one in components("paths") if one["method"] == "SPCA"]
    ratios = [apart / along for along, apart in (one["iterations"] for one in rows)]
    below, above = zip(*(one["above"] for one in rows), strict=True)
    return [min(ratios), max(ratios), -100 * min(below) + 0.0, 100 * max(above)]


def extent(values, scale=1):
    """Return the smallest and the largest."""
    values = [scale * value for value in values]
    return [min(values), max(values)]


def auto_ratios():
    """Return how many times as long "auto" takes as a given number, least and most."""
    return extent(one["ratio"] for one in stored("results/auto.json").values())


def by_chance(samples):
    """Return the accuracy of two random clusters, in percent: E max(a, n - a)/n, a of n heads."""
    heads = (math.comb(samples, a) * max(a, samples - a) for a in range(samples + 1))
    return 100 * sum(heads) / 2**samples / samples


def held_out():
    """Return the points lost on usps, 20 and 50 features, by four ways to choose."""
    found = stored("results/choice_held_out.json").values()
    ways = ("rank+agreement", "agreement", "rank", "defaults")
    return [one["lost"][way] for way in ways for one in found]


def grid_costs(*names):
    """Return how many times as long separate fits take as a grid."""
    found = stored("results/choice_cost.json")
    return [found[name]["apart"] / found[name]["together"] for name in names]


def small(example):
    """Return what a small example gave."""
    return stored("results/small.json")[example]


def stabilities():
    """Return the stability of noisy copies and of their groups, of noise, of colon; its groups."""
    found = small("stability")
    copies, noise, colon = (found[name] for name in ("copies", "noise", "colon"))
    both = [copies["features"], copies["by_group"], noise["features"]]
    return [*both, spaced(colon["groups"]), colon["by_group"], colon["features"]]


def open_sets():
    """Return what the best sets of USPS that are known account for, in percent."""
    return [100 * one["value"] for one in stored("results/bounds.json").values()]


def one_component(data, k):
    """Return the value of the best component with k features."""
    rows = stored("results/l0.json")
    return next(one["value"] for one in rows if (one["data"], one["k"]) == (data, k))


def on_pie():
    """Return where the published algorithm stops, and the exact solver."""
    found = stored("RESULTS.json")["tasks"]["SPCA-PSD, certified gap 1e-4"]["pie, λ 10, η 10"]
    names = ("jointsparse, published algorithm", "jointsparse")
    return [found[name]["quality"]["objective"] for name in names]


def errors_of_faces():
    """Return the largest standard error of FSSL's accuracies on yale."""
    rows = stored("results/fssl.json")["yale"].values()
    return [max(one["error"] for sizes in rows for one in sizes.values())]
