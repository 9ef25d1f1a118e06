"""Numbers that pages quote, and where they come from: ``python docs/quotes.py`` writes them anew.

A quote is a sentence of a page with holes for its numbers, and what fills them from stored results
(benchmarks/RESULTS.json, benchmarks/results, docs/reproduction/summary.json). A test fails
where the page says something else than its source; this script mends the page. Pages that a
script writes as a whole (evidence, sets, outliers, history, reproduction) need no quotes.
"""

import json
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
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


def mean_shares(*tools):
    """Mean over the datasets of what 50 kept features explain of new samples, in percent."""
    problems = stored("RESULTS.json")["tasks"][
        "Kept features: R² of all features on held-out samples"
    ]
    return [
        100 * statistics.mean(problem[tool]["quality"]["r2"] for problem in problems.values())
        for tool in tools
    ]


def predicted(*tools):
    """Mean over the tables of what 50 kept features predict of the others, by ridge, in percent."""
    problems = stored("results/worth.json").values()
    return [
        100 * statistics.mean(one[tool]["quality"]["training half: ridge 50"] for one in problems)
        for tool in tools
    ]


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


QUOTES = (
    Quote(
        "README.md",
        "over 13 datasets the top 50 account for {:.0f} % of new samples, 50 *random* features "
        "{:.0f} %, jointsparse {:.0f} %",
        lambda: mean_shares("skfeature Laplacian score", "random subsets", "jointsparse"),
    ),
    Quote(
        "README.md",
        "Of {} [published claims](docs/reproduction/summary.md) {} come out, {} nearly, {} do not, "
        "{} cannot be tested",
        claims,
    ),
    Quote(
        "docs/faq.md",
        "over 13 tables 50 features of largest variance predict {:.0f} % of the others, 50 kept by "
        "the default {:.0f} %",
        lambda: predicted("largest variance", "jointsparse"),
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
