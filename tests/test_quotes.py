"""Every number that a page quotes is the one that is stored."""

import importlib.util
import json
from pathlib import Path

import pytest

from benchmarks import choice, history

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("quotes_in_docs", ROOT / "docs" / "quotes.py")
quotes = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(quotes)


@pytest.mark.parametrize("quote", quotes.QUOTES, ids=lambda quote: quote.sentence[:40])
def test_a_page_quotes_what_is_stored(quote):
    page = (ROOT / quote.page).read_text(encoding="utf-8")
    assert quote.found(page) == quote.text(), "python docs/quotes.py mends it"


def test_a_quote_is_mended_where_the_page_breaks_it_over_lines():
    quote = quotes.Quote("x.md", "keeps {:.0f} of {} in {:.1f} s", lambda: [7, 30, 1.25])
    page = "It\nkeeps 12\nof 30 in 0.7 s, and 12 more."
    assert quote.found(page) == "keeps 12 of 30 in 0.7 s"
    assert quote.mended(page) == "It\nkeeps 7\nof 30 in 1.2 s, and 12 more."
    assert quote.found("keeps few of 30 in 0.7 s") is None
    at_the_end = quotes.Quote("x.md", "is {:.2f}", lambda: [0.12])
    assert at_the_end.mended("It is 0.1. So it is.") == "It is 0.12. So it is."
    with pytest.raises(LookupError, match=r"x\.md has no sentence like: keeps"):
        quote.mended("nothing")


def test_the_page_of_versions_is_what_is_stored(tmp_path):
    page = history.write_page(page=tmp_path / "history.md")
    assert page.read_text(encoding="utf-8") == history.PAGE.read_text(encoding="utf-8")


def test_the_tables_of_choosing_are_what_is_stored():
    text = choice.PAGE.read_text(encoding="utf-8")
    assert choice.page(text) == text, "python -m benchmarks.choice page mends it"


def outcome(seconds, status="ok"):
    return {"seconds": seconds, "memory": 1.0, "quality": {}, "status": status}


OLDER = {"versions": {"jointsparse": "0.8.0"}}  # what a task was measured with, and not again


def results(version, theirs):
    problems = {
        "a": {"jointsparse": outcome(2.0), "other": outcome(theirs)},
        "b": {"jointsparse": outcome(1.0), "other": outcome(None, "timeout")},
    }
    met = [{"task": "T", "promise": "twice as fast", "found": "", "met": theirs > 4}]
    older = [{"task": "U", "promise": "small", "found": "", "met": True}]
    return {
        "measured": {"T": {"versions": {"jointsparse": version}}, "U": OLDER},
        "promises": met + older,
        "tasks": {"T": problems, "U": problems},
    }


def test_versions_are_kept_and_compared(tmp_path):
    for version, theirs in (("0.9.0", 8.0), ("0.10.0", 3.0)):
        path = tmp_path / "RESULTS.json"
        path.write_text(json.dumps(results(version, theirs)))
        history.keep(path, version, tmp_path / "kept")
    kept = history.versions(tmp_path / "kept")
    assert [one["version"] for one in kept] == ["0.9.0", "0.10.0"]
    assert kept[0]["ratios"] == {"T": {"other": 4.0}}  # "b" has no time of theirs
    assert [one["promise"] for one in kept[0]["promises"]] == ["twice as fast"]
    text = history.write_page(tmp_path / "kept", tmp_path / "page.md").read_text()
    assert "| T | other | 4 × | 1.5 × | **slower** |" in text
    assert "| twice as fast | met | **missed** |" in text


def test_changes_of_counts():
    assert history.change([100, 150]) == "+50 %"
    assert history.change([100, 100]) == history.change([None, 3]) == history.change([3]) == ""
