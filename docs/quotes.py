"""Numbers that pages quote, and where they come from: ``python docs/quotes.py`` writes them anew.

It also writes the tables of pages that come from stored results (benchmarks/pages.py).

A quote is a sentence of a page with holes for its numbers, and what fills them from stored results
(benchmarks/RESULTS.json, benchmarks/results and history, docs/reproduction, mutation/score.json).
A test fails where the page says something else than its source; this script mends the page. Pages
that a script writes as a whole (evidence, sets, outliers, history, reproduction) need no quotes.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # to be run as a script, too

from benchmarks import quoted
from benchmarks.quoted import HIGHEST, ROOT, RULES, TOOLS

HOLE = r"{[^}]*}"
NUMBER = r"[+-]?\d+(?:\.\d+)?(?: \d{3})*"  # the end of a sentence is no part of it


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


QUOTES = (
    *(
        Quote(
            page,
            "Good stand-ins for the rest: 10 features predict {:.0f} % of the other 20 in new "
            "samples; 10 random ones predict {:.0f} ± {:.0f} %",
            lambda: quoted.breast_cancer(10)[:3],
        )
        for page in ("docs/start.md", "docs/selection.md")
    ),
    Quote(
        "docs/selection.md",
        "It keeps {} of 30 features of the breast-cancer table and {} of 64 of the digits",
        lambda: [quoted.breast_cancer("auto")[3], quoted.small("digits")["auto"]],
    ),
    Quote(
        "docs/selection.md",
        "three features predict {:.0f} % of the others from the raw values, {:.0f} % of their "
        "logarithms and {:.0f} % of their ranks",
        lambda: [100 * quoted.small("transforms")[way] for way in ("raw", "log", "rank")],
    ),
    Quote(
        "docs/selection.md",
        "which kept {} of 2 000 columns of random numbers",
        lambda: [quoted.small("noise")["kept"]],
    ),
    Quote(
        "docs/answers.md",
        "{} of 2 000 columns of random numbers account for 90 % of 60 samples",
        lambda: [quoted.small("noise")["kept"]],
    ),
    Quote(
        "docs/answers.md",
        "at most {:.0f} % of what was called significant was noise; of the features that are "
        "significantly correlated with another, {:.0f} % were where samples differ in their noise",
        quoted.false_ones,
    ),
    Quote(
        "docs/upgrading.md",
        "Of 2 000 columns of random numbers that kept {}",
        lambda: [quoted.small("noise")["kept"]],
    ),
    *(
        Quote(
            page,
            "It takes {:.1f} to {:.1f} times as long as a fit with the number given",
            quoted.auto_ratios,
        )
        for page in ("docs/answers.md", "docs/upgrading.md")
    ),
    Quote(
        "docs/convex.md",
        "On PIE with λ = η = 10 it stops at {:.1f}, the exact solver at {:.1f}",
        quoted.on_pie,
    ),
    Quote(
        "docs/choosing.md",
        "it loses {:.1f} and {:.1f} points, agreement alone {:.1f} and {:.1f}, rank alone {:.1f} "
        "and {:.1f}, the defaults {:.1f} and {:.1f}",
        quoted.held_out,
    ),
    Quote(
        "docs/choosing.md",
        "81 separate fits take {:.1f} times as long on digits, {:.1f} times on the breast-cancer "
        "table and {:.1f} times on colon",
        lambda: quoted.grid_costs("digits", "breast-cancer", "colon"),
    ),
    Quote(
        "docs/choosing.md",
        "62 samples dealt into two clusters at random would reach {:.1f} %",
        lambda: [quoted.by_chance(62)],
    ),
    Quote(
        "docs/choosing.md",
        "stability {:.2f}, of groups {:.2f}. Where no feature stands in for another, both are the "
        "same; in noise (100 × 200) both are {:.2f} (`python -m benchmarks.small stability`). The "
        "bound is strict: the 2 000 genes of colon make {} groups, and ten genes, picked on 31 of "
        "the 62 samples, are as unstable by groups ({:.2f}) as by themselves ({:.2f})",
        quoted.stabilities,
    ),
    Quote(
        "docs/components.md",
        "fits take {:.1f} to {:.1f} times as many iterations as twelve points, whose objective is "
        "between {:.2f} % below and {:.2f} % above",
        quoted.paths,
    ),
    Quote(
        "docs/components.md",
        "that is {:.0f} to {:.0f} times as fast as through p × p matrices",
        lambda: quoted.extent(quoted.components("joint_spaces").values()),
    ),
    Quote(
        "docs/components.md",
        "it stops sooner, but between {:.2f} % and {:.2f} % above the optimum",
        lambda: quoted.extent(quoted.components("against_growing_steps").values(), 100),
    ),
    Quote(
        "docs/graphs.md",
        "20 000 × 784 takes {:.0f} s of one core",
        lambda: [quoted.stored("results/neighbours.json")["mnist"]["seconds"]],
    ),
    Quote(
        "docs/graphs.md",
        "The standard error on Yale is at most {:.3f}",
        quoted.errors_of_faces,
    ),
    Quote(
        "docs/proofs.md",
        "the best set known ({:.2f} % of the variance for five pixels, {:.2f} % for ten)",
        quoted.open_sets,
    ),
    Quote(
        "docs/proofs.md",
        "is 4.2321; {:.5f} is attained",
        lambda: [quoted.one_component("arrhythmia", 5)],
    ),
    Quote(
        "docs/large.md",
        "{} bytes for an entry of a sparse one, {} for the name of a sample and {} for a feature",
        lambda: quoted.declared()["reading"],
    ),
    Quote(
        "docs/large.md",
        "which takes {} matrices as large as the scatter matrix",
        lambda: quoted.declared()["split"],
    ),
    Quote(
        "docs/large.md",
        "take {} such matrices, blocks included, and {} bytes for each sample",
        lambda: quoted.declared()["passes"],
    ),
    Quote("docs/large.md", "{} times the table", lambda: quoted.declared()["wide"]),
    Quote("docs/large.md", "each takes {} bytes that stay", lambda: quoted.declared()["column"]),
    Quote(
        "docs/large.md",
        "20 000 features would need {:.0f} GB",
        lambda: quoted.declared()["20 000 features"],
    ),
    Quote(
        "docs/large.md",
        "(`python -m benchmarks.annotated {} {} {}GB`): `select --transform log1p --features 50` "
        "of {} cells and {} genes in a `.h5ad` file of {:.2f} GB, one thread. Peak memory of the "
        "process {:.2f} GB; {:.0f} s of the processor, where reading the file once takes {:.1f} s",
        quoted.cells,
    ),
    Quote(
        "docs/selection.md",
        "which predict {:.0f} % of the other features in new samples; three random features "
        "predict {:.0f} %, and the three that the greedy rule keeps {:.0f} %",
        lambda: [*quoted.breast_cancer(3, "norm")[:2], quoted.breast_cancer(3)[0]],
    ),
    Quote(
        "docs/choosing.md",
        "it fails on digits with 10 ({:.1f} points) and on colon ({:.1f} and {:.1f})",
        lambda: [
            quoted.choice(name, "lost", "rank+agreement")
            for name in ("digits, 10", "colon, 20", "colon, 50")
        ],
    ),
    Quote(
        "docs/choosing.md",
        "one set of {} different ones reaches {:.1f} %; the next best reaches {:.1f} %",
        lambda: [
            len(quoted.choice("digits, 10", "sets")),
            *quoted.choice("digits, 10", "sets")[:2],
        ],
    ),
    Quote(
        "docs/choosing.md",
        "K-means on *all* features reaches {:.1f} %",
        lambda: [quoted.choice("colon, 20", "all features")],
    ),
    Quote(
        "docs/choosing.md",
        "({:.1f} when measured again)",
        lambda: [quoted.measured_again("defaults")],
    ),
    Quote(
        "docs/choosing.md", "Within {:.1f} points or better everywhere but", quoted.behind_by_norm
    ),
    Quote(
        "docs/choosing.md",
        "by norm the labels find sets with {:.1f} %",
        lambda: [quoted.choice("colon, 20", "best by norm")],
    ),
    Quote(
        "docs/components.md",
        "with the loss over samples it is {:.0f} times smaller",
        lambda: [quoted.subspace_errors("PCA")[0] / quoted.subspace_errors("JSPCA, samples")[0]],
    ),
    Quote(
        "docs/components.md",
        "| {:.2f} | {:.3f} | {:.2f} | {:.2f} |",
        lambda: quoted.subspace_errors(
            "PCA", "JSPCA, samples", "JSPCA, frobenius", "JSPCA, features"
        ),
    ),
    Quote(
        "docs/components.md",
        "{} instead of 152 of 186 loadings are zero, {} instead of 16 features go, {:.1f} instead "
        "of 27.6 % of the variance stay (PCA {:.1f} %). Fifty iterations are not convergence: "
        "after 100, 200, 500 and 2000, {}, {}, {} and {} features are gone",
        quoted.table_of_jspca,
    ),
    Quote(
        "docs/components.md",
        "with the penalties of the paper {}, {}, {}, {}, {}, {} nonzeros and adjusted variances of "
        "{:.1f}, {:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f} %",
        quoted.pitprops,
    ),
    Quote(
        "docs/proofs.md",
        "take {:.1f} to {:.1f} s of the processor, 200 samples of 100 000 take {:.0f} to {:.0f} s, "
        "and 100 samples of 1 000 000 take {:.0f} to {:.0f} s",
        quoted.many_features,
    ),
    Quote(
        "docs/gpu.md",
        "take the device {:.1f} times as long as one core for 8 rows and {:.1f} times for 16, and "
        "are {:.1f} times as fast there for 32, {:.1f} times for 64 and {:.1f} times for 128",
        quoted.batches,
    ),
    Quote(
        "docs/large.md",
        "SPCA-PSD takes {:.1f} s, CSPCA-PSD {:.1f} s, SPCA {:.1f} s and JSPCA {:.1f} s",
        quoted.a_million_on_a_device,
    ),
    Quote(
        "docs/benchmarks.md",
        "differs by {:.1f} ± {:.1f} points of accuracy from that on those of 0.1",
        quoted.clusters,
    ),
    Quote(
        "docs/benchmarks.md",
        "it takes {:.1f} to {:.1f} times as long as one of 0.1",
        quoted.slower_than_before,
    ),
    Quote(
        "CONTRIBUTING.md",
        "of {} such faults in the kernels that are new in 0.2 (`--same --per-file {} --seed {}`) "
        "{:.0f} % were noticed, and {:.0f} % of those that a test can notice. Of `<` in place of "
        "`<=` {:.0f} % are, of real numbers doubled {:.0f} %: most are tolerances",
        quoted.faults,
    ),
    Quote(
        "README.md",
        "over 13 datasets the top 50 predict {:.0f} % of the others in new samples, 50 *random* "
        "features {:.0f} %, jointsparse {:.0f} %",
        lambda: [
            quoted.mean_of(RULES, HIGHEST),
            quoted.mean_of(TOOLS, "random subsets"),
            quoted.mean_of(TOOLS, "jointsparse"),
        ],
    ),
    Quote(
        "docs/selection.md",
        "Measured on 13 datasets ([evidence](evidence.md)), the 50 features with the highest "
        "scores predict {:.0f} % of the others in new samples, 50 random features {:.0f} % and 50 "
        "greedy ones {:.0f} %",
        lambda: [
            quoted.mean_of(RULES, HIGHEST),
            quoted.mean_of(TOOLS, "random subsets"),
            quoted.mean_of(RULES, "GreedySelector()"),
        ],
    ),
    Quote(
        "docs/selection.md",
        "fifty features of the greedy rule {:.0f} % of the others, the fifty highest scores of the "
        "same model {:.0f} %",
        lambda: [quoted.mean_of(RULES, "GreedySelector()"), quoted.mean_of(RULES, HIGHEST)],
    ),
    Quote(
        "docs/selection.md",
        "two halves agree on {:.0f} % of fifty greedy features and on {:.0f} % of the fifty "
        "highest scores",
        lambda: [quoted.agreement("GreedySelector()"), quoted.agreement(HIGHEST)],
    ),
    Quote(
        "README.md",
        "Of {} [published claims](docs/reproduction/summary.md) {} come out, {} nearly, {} do not, "
        "{} cannot be tested",
        quoted.claims,
    ),
    Quote(
        "docs/choosing.md",
        "a point of the grid at random loses {:.1f} on average, the automatic choice {:.1f}",
        lambda: [quoted.lost("mean of the grid"), quoted.lost("rank+agreement")],
    ),
    Quote(
        "docs/choosing.md",
        "`SPCAPSD(n_clusters=c)` alone, one fit, loses {:.1f} points on average",
        lambda: [quoted.lost("defaults")],
    ),
    Quote(
        "docs/faq.md",
        "over 13 tables 50 features of largest variance predict {:.0f} % of the others, 50 kept by "
        "the default {:.0f} %",
        lambda: [quoted.mean_of(TOOLS, "largest variance"), quoted.mean_of(TOOLS, "jointsparse")],
    ),
    Quote(
        "docs/large.md",
        "Peak memory of the process {:.2f} GB; the whole fit took {:.1f} times as long as the bare "
        "read plus the matrix products",
        lambda: [quoted.streamed("peak"), quoted.streamed("ratio")],
    ),
    Quote("docs/architecture.md", "the counts: {} files in {} rooms", quoted.rooms),
    Quote(
        "docs/architecture.md",
        "{} ({} of them docstrings, {} empty), in {} files",
        quoted.house,
    ),
)


def main():
    from benchmarks import choice, history, pages

    for table in pages.tables():
        table.write()
    choice.main(["page"])
    history.write_page()
    for quote in QUOTES:
        path = ROOT / quote.page
        text = path.read_text(encoding="utf-8")
        mended = quote.mended(text)
        if mended != text:
            path.write_text(mended, encoding="utf-8")
            print(f"{quote.page}: {quote.text()}")


if __name__ == "__main__":
    main()
