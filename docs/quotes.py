"""Numbers that pages quote, and where they come from: ``python docs/quotes.py`` writes them anew.

A quote is a sentence of a page with holes for its numbers, and what fills them from stored results
(benchmarks/RESULTS.json, benchmarks/results and history, docs/reproduction, mutation/score.json).
A test fails where the page says something else than its source; this script mends the page. Pages
that a script writes as a whole (evidence, sets, outliers, history, reproduction) need no quotes.
"""

import ast
import json
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "jointsparse"
HOLE = r"{[^}]*}"
NUMBER = r"[+-]?[\d.]+(?: \d{3})*"


@dataclass(frozen=True)
class Quote:
    """A sentence of a page; ``{}`` and the like are holes, filled by what ``values`` returns."""

    page: str
    sentence: str
    values: Callable[[], list[float]]

    def text(self):
        """Return the sentence as the stored results have it."""
        return self.sentence.format(*self.values())

    @property
    def pattern(self):
        """What finds the sentence in its page, whatever its numbers and line breaks are."""
        pieces = [words(piece) for piece in re.split(HOLE, self.sentence)]
        return re.compile(f"({NUMBER})".join(pieces))

    def found(self, page_text):
        """Return the sentence as the page has it, on one line, or None."""
        match = self.pattern.search(page_text)
        return match and " ".join(match.group().split())

    def mended(self, page_text):
        """Return the page's text with the numbers of the source."""
        match = self.pattern.search(page_text)
        if match is None:
            raise LookupError(f"{self.page} has no sentence like: {self.sentence}")
        fresh = self.pattern.fullmatch(self.text())
        text, shift = match.group(), match.start()
        for group in range(len(match.groups()), 0, -1):
            start, end = (place - shift for place in match.span(group))
            text = text[:start] + fresh.group(group) + text[end:]
        return page_text[: match.start()] + text + page_text[match.end() :]


def words(piece):
    """Return a pattern for some words that a page may break over lines."""
    return r"\s+".join(re.escape(word) for word in re.split(r"\s+", piece))


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


def slower_than_before():
    """Return how much longer a fit takes than one of 0.1, least and most over tools that stayed."""
    task = "Kept features: accuracy of K-means"
    old, new = (stored(f"history/{version}.json")["ratios"][task] for version in ("0.1.0", "0.2.0"))
    same = [name for name in new if name.startswith(("skfeature", "skmatter"))]
    ratios = [old[name] / new[name] for name in same if name in old]
    return [min(ratios), max(ratios)]


@cache
def breast_cancer(rule):
    """Return what three features of the table predict, and three random ones, in percent."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    from jointsparse import SPCAPSD

    X = StandardScaler().fit_transform(load_breast_cancer().data)
    worth = SPCAPSD(n_features_to_select=3, rule=rule).fit(X).selection_report_.worth
    return 100 * worth.r2, 100 * worth.random.mean()


QUOTES = (
    Quote(
        "docs/selection.md",
        "which predict {:.0f} % of the other features in new samples; three random features "
        "predict {:.0f} %, and the three that the greedy rule keeps {:.0f} %",
        lambda: [*breast_cancer("norm"), breast_cancer("greedy")[0]],
    ),
    Quote(
        "docs/choosing.md",
        "it fails on digits with 10 ({:.1f} points) and on colon ({:.1f} and {:.1f})",
        lambda: [
            choice(name, "lost", "rank+agreement")
            for name in ("digits, 10", "colon, 20", "colon, 50")
        ],
    ),
    Quote(
        "docs/choosing.md",
        "one set of {} different ones reaches {:.1f} %; the next best reaches {:.1f} %",
        lambda: [len(choice("digits, 10", "sets")), *choice("digits, 10", "sets")[:2]],
    ),
    Quote(
        "docs/choosing.md",
        "K-means on *all* features reaches {:.1f} %",
        lambda: [choice("colon, 20", "all features")],
    ),
    Quote(
        "docs/choosing.md",
        "({:.1f} when measured again)",
        lambda: [measured_again("defaults")],
    ),
    Quote("docs/choosing.md", "Within {:.1f} points or better everywhere but", behind_by_norm),
    Quote(
        "docs/choosing.md",
        "by norm the labels find sets with {:.1f} %",
        lambda: [choice("colon, 20", "best by norm")],
    ),
    Quote(
        "docs/components.md",
        "with the loss over samples it is {:.0f} times smaller",
        lambda: [subspace_errors("PCA")[0] / subspace_errors("JSPCA, samples")[0]],
    ),
    Quote(
        "docs/components.md",
        "| {:.2f} | {:.3f} | {:.2f} | {:.2f} |",
        lambda: subspace_errors("PCA", "JSPCA, samples", "JSPCA, frobenius", "JSPCA, features"),
    ),
    Quote(
        "docs/components.md",
        "{} instead of 152 of 186 loadings are zero, {} instead of 16 features go, {:.1f} instead "
        "of 27.6 % of the variance stay (PCA {:.1f} %). Fifty iterations are not convergence: "
        "after 100, 200, 500 and 2000, {}, {}, {} and {} features are gone",
        table_of_jspca,
    ),
    Quote(
        "docs/components.md",
        "with the penalties of the paper {}, {}, {}, {}, {}, {} nonzeros and adjusted variances of "
        "{:.1f}, {:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f} %",
        pitprops,
    ),
    Quote(
        "docs/proofs.md",
        "take {:.1f} to {:.1f} s of the processor, 200 samples of 100 000 take {:.0f} to {:.0f} s, "
        "and 100 samples of 1 000 000 take {:.0f} to {:.0f} s",
        many_features,
    ),
    Quote(
        "docs/gpu.md",
        "take the device {:.1f} times as long as one core for 8 rows and {:.1f} times for 16, and "
        "are {:.1f} times as fast there for 32, {:.1f} times for 64 and {:.1f} times for 128",
        batches,
    ),
    Quote(
        "docs/large.md",
        "SPCA-PSD takes {:.1f} s, CSPCA-PSD {:.1f} s, SPCA {:.1f} s and JSPCA {:.1f} s",
        a_million_on_a_device,
    ),
    Quote(
        "docs/benchmarks.md",
        "differs by {:.1f} ± {:.1f} points of accuracy from that on those of 0.1",
        clusters,
    ),
    Quote(
        "docs/benchmarks.md",
        "it takes {:.1f} to {:.1f} times as long as one of 0.1",
        slower_than_before,
    ),
    Quote(
        "CONTRIBUTING.md",
        "of {} such faults in the kernels that are new in 0.2 (`--same --per-file {} --seed {}`) "
        "{:.0f} % were noticed, and {:.0f} % of those that a test can notice. Of `<` in place of "
        "`<=` {:.0f} % are, of real numbers doubled {:.0f} %: most are tolerances",
        faults,
    ),
    Quote(
        "README.md",
        "over 13 datasets the top 50 predict {:.0f} % of the others in new samples, 50 *random* "
        "features {:.0f} %, jointsparse {:.0f} %",
        lambda: [
            mean_of(RULES, HIGHEST),
            mean_of(TOOLS, "random subsets"),
            mean_of(TOOLS, "jointsparse"),
        ],
    ),
    Quote(
        "docs/selection.md",
        "Measured on 13 datasets ([evidence](evidence.md)), the 50 features with the highest "
        "scores predict {:.0f} % of the others in new samples, 50 random features {:.0f} % and 50 "
        "greedy ones {:.0f} %",
        lambda: [
            mean_of(RULES, HIGHEST),
            mean_of(TOOLS, "random subsets"),
            mean_of(RULES, "GreedySelector()"),
        ],
    ),
    Quote(
        "docs/selection.md",
        "fifty features of the greedy rule {:.0f} % of the others, the fifty highest scores of the "
        "same model {:.0f} %",
        lambda: [mean_of(RULES, "GreedySelector()"), mean_of(RULES, HIGHEST)],
    ),
    Quote(
        "docs/selection.md",
        "two halves agree on {:.0f} % of fifty greedy features and on {:.0f} % of the fifty "
        "highest scores",
        lambda: [agreement("GreedySelector()"), agreement(HIGHEST)],
    ),
    Quote(
        "README.md",
        "Of {} [published claims](docs/reproduction/summary.md) {} come out, {} nearly, {} do not, "
        "{} cannot be tested",
        claims,
    ),
    Quote(
        "docs/choosing.md",
        "a point of the grid at random loses {:.1f} on average, the automatic choice {:.1f}",
        lambda: [lost("mean of the grid"), lost("rank+agreement")],
    ),
    Quote(
        "docs/choosing.md",
        "`SPCAPSD(n_clusters=c)` alone, one fit, loses {:.1f} points on average",
        lambda: [lost("defaults")],
    ),
    Quote(
        "docs/faq.md",
        "over 13 tables 50 features of largest variance predict {:.0f} % of the others, 50 kept by "
        "the default {:.0f} %",
        lambda: [mean_of(TOOLS, "largest variance"), mean_of(TOOLS, "jointsparse")],
    ),
    Quote(
        "docs/large.md",
        "Peak memory of the process {:.2f} GB; the whole fit took {:.1f} times as long as the bare "
        "read plus the matrix products",
        lambda: [streamed("peak"), streamed("ratio")],
    ),
    Quote("docs/architecture.md", "the counts: {} files in {} rooms", rooms),
    Quote(
        "docs/architecture.md",
        "{} ({} of them docstrings, {} empty), in {} files",
        house,
    ),
)


def main():
    for quote in QUOTES:
        path = ROOT / quote.page
        text = path.read_text(encoding="utf-8")
        mended = quote.mended(text)
        if mended != text:
            path.write_text(mended, encoding="utf-8")
            print(f"{quote.page}: {quote.text()}")


if __name__ == "__main__":
    main()
