"""Words that people read: plain, and the same for the same thing."""

import ast
import re
from pathlib import Path

import pytest

import jointsparse

ROOT = Path(__file__).parents[1]
SOURCE = Path(jointsparse.__file__).parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks/RESULTS.md"]
# Combative, inside or stiff: what to say instead is beside it.
WORDS = {
    r"\brivals?\b": "other tools, or the name of the tool",
    r"\bcompetitors?\b(?!/)": "other tools, or the name of the tool",
    r"\brefuted\b": "not reproduced",
    r"\bours\b": "jointsparse, here",
    r"to show to a colleague": "to share",
    r"the version and leave\b": "show the version",
    r"that any method keeps": "say what was measured",
    r"\bheld-out variance explained\b": "predict … of the other features in new samples",
}
# The upgrade note names what a word was before.
QUOTED = {"upgrading.md": {r"\brefuted\b", r"\bours\b"}}


def found_in(text, known=()):
    """Return the words of a text that have plainer ones."""
    return [
        f"{match[0]!r}: say {instead}"
        for word, instead in WORDS.items()
        if word not in known
        for match in re.finditer(word, text, re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_pages_are_in_plain_words(page):
    if not page.exists():
        pytest.skip("the pages are not beside the tests")
    text = page.read_text(encoding="utf-8")
    # Folders and options are called what they are called.
    text = re.sub(r"`[^`]*`", "", text) if page.name != "upgrading.md" else text
    assert not found_in(text, QUOTED.get(page.name, ()))


def test_sentences_of_the_program_are_in_plain_words():
    wrong = []
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                wrong += [f"{file.name}: {words}" for words in found_in(node.value)]
    for file in (SOURCE / "report" / "templates").iterdir():
        wrong += [f"{file.name}: {words}" for words in found_in(file.read_text(encoding="utf-8"))]
    assert not wrong


def test_the_test_finds_what_it_is_for():
    assert found_in("Side by side with the rivals") == [
        "'rivals': say other tools, or the name of the tool"
    ]
    assert not found_in("hours of courses")
