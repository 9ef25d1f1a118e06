"""Numbers that look measured are quotes, stand in tables that a script writes, or were reviewed.

A page may say "takes 3 s" only where ``docs/quotes.py`` or ``benchmarks/pages.py`` writes the 3.
Definitions, parameters and sizes of examples look alike: these stand below, with the reason.
"""

import re

import pytest
from test_quotes import ROOT, quotes

# Written as a whole by a script from what is stored.
WRITTEN = {"commands", "evidence", "history", "outliers", "sets"}
FOLDERS = ("docs", "docs/tasks", "docs/tutorials")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for folder in FOLDERS for page in sorted((ROOT / folder).glob("*.md"))),
]

UNITS = "s|ms|seconds?|minutes?|hours?|kB|MB|GB|%|×(?! ?\\d)|times|-fold|points|iterations|passes"
MEASURED = re.compile(rf"\d ?(?:{UNITS})(?![\w%])|(?<![\w.])\d*\.\d+")

# What may stand on any page: versions, references, and thresholds that words are defined by.
ANYWHERE = (
    r"\b0\.[12]\b(?! ?(?:%|×|s\b|ms\b|points|times|[MG]B))|Python 3\.11|SciPy 1\.12",
    r"(?:section|theorems) [\d.]+(?: and [\d.]+)?",
    r"90 % of what can be predicted|predict less than 10 %",
    r"false-discovery rate of 5 %|95 % interval",
    r"squared correlation (?:of|is) at least 0\.8(?:: either predicts 80 %)?",
)
# What was looked at, page by page: (why it is no measurement, or what holds it; pattern).
REVIEWED = {
    "CONTRIBUTING.md": [("demanded", r"95 % of the (?:lines|branches)")],
    "docs/answers.md": [("conventions", r"10 %, 50 % and 90 % are conventions")],
    "docs/choosing.md": [
        ("the grid", r"greedy rule, 81 points"),
        ("a parameter", r"at least 75 % of them"),
    ],
    "docs/components.md": [
        ("the paper's setting", r"under 5 % outlier|50 iterations\)|threshold of 0\.01 on Q"),
        ("tests/methods/test_jspca.py", r"a test holds 200 × 100 000 below 1 GB"),
    ],
    "docs/constraints.md": [("words of the output, as examples", r'"costs [^"]*points[^"]*"')],
    "docs/convex.md": [
        ("tests/solvers/test_convex_samples.py", r"eigenvalue −0\.059.*?objective 1\.3416"),
    ],
    "docs/differences.md": [("what a paper says", r"η of 1 to 10 %|50 iterations are convergence")],
    "docs/graphs.md": [("advice on a parameter", r"0\.03 to 3 is the useful range")],
    "docs/large.md": [
        ("tests/sources/test_memory.py", r"Tests hold all of them to 30 MB"),
        ("size of an example", r"\(4 GB\)|budget 1 GB|0\.5 % filled|would take 8 GB"),
    ],
    "docs/proofs.md": [
        ("size of an example", r"would take 0\.8 GB"),
        ("a promise", r"a gap of 15 % after ten seconds"),
        ("rounding of float64", r"p·1\.1e-16"),
    ],
    "docs/report.md": [
        ("a definition", r"at least 90 % of its variance"),
        ("a default", r"path with 24 points"),
        ("tests/test_report.py", r"has less than 3 MB"),
    ],
    "docs/samples.md": [
        ("arithmetic: 0.6²", r"with 40 % missing, two columns have 36 %"),
        ("when a warning comes", r"make up 99 % of the variance"),
    ],
    "docs/selection.md": [
        ("a parameter", r"account for 80 % of the variance|5 % of them \(\) may be false"),
    ],
    "docs/upgrading.md": [("a definition", r"account for 90 % of th(?:is|e) table")],
    "docs/tasks/large.md": [("size of an example", r"a table of 32 MB, and 16 MB to read it")],
    "docs/tutorials/sensors.md": [("how it was made", r"2 % of the readings missing, 0\.5 % wild")],
}


def typed(page):
    """Return the text of a page without what a script writes, without code and addresses."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"<!-- (.*?) -->.*?<!-- end of \1 -->", "", text, flags=re.DOTALL)
    for quote in quotes.QUOTES:
        if quote.page == page:
            text = quote.pattern.sub("", text)
    text = re.sub(r"^```.*?^```|^ {4}.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)


def measured_in(page):
    """Return what looks measured, with the words around it."""
    text = typed(page)
    for pattern in (*ANYWHERE, *(pattern for _, pattern in REVIEWED.get(page, ()))):
        text = re.sub(pattern.replace(" ", r"\s+"), "", text, flags=re.DOTALL)
    around = (
        text[max(0, found.start() - 60) : found.end() + 20] for found in MEASURED.finditer(text)
    )
    return [" ".join(words.split()) for words in around]


@pytest.mark.parametrize(
    "page",
    [str(page.relative_to(ROOT)) for page in PAGES if page.stem not in WRITTEN],
)
def test_a_number_that_looks_measured_has_a_source(page):
    assert not measured_in(page), "make it a quote (docs/quotes.py), or say here why it is none"


@pytest.mark.parametrize("page", REVIEWED)
def test_what_was_reviewed_still_stands_there(page):
    text = typed(page)
    gone = [p for _, p in REVIEWED[page] if not re.search(p.replace(" ", r"\s+"), text, re.DOTALL)]
    assert not gone, "the page has no such words any more: take them out here, too"


def test_what_looks_measured():
    looks = ("3 s", "0.5 ms", "20 %", "12 times", "4 × as fast", "47-fold", "Spearman .09")
    assert all(MEASURED.search(words) for words in looks)
    assert not any(MEASURED.search(words) for words in ("200 × 68", "k = 5", "3 samples", "10⁻⁵"))
