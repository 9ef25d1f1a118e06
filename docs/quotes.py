"""Numbers that pages quote, and where they come from: ``python docs/quotes.py`` writes them anew.

A quote is a sentence of a page with holes for its numbers, and what fills them from stored results
(benchmarks/RESULTS.json, benchmarks/results, docs/reproduction/summary.json, mutation/score.json).
A test fails where the page says something else than its source; this script mends the page. Pages
that a script writes as a whole (evidence, sets, outliers, history, reproduction) need no quotes.
"""

import ast
import json
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
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


QUOTES = (
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
