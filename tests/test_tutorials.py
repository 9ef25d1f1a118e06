"""What the tutorials print is what their commands print."""

import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the docs are not beside the tests")


def module():
    spec = importlib.util.spec_from_file_location("tutorials_run", FOLDER / "run.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["genes", "sensors", "spectra"])
def test_a_tutorial_prints_what_its_commands_print(name):
    # What a search against the clock proves, and the last digits of a residual, depend on the
    # machine.
    def lines(text):
        return [
            line for line in text.split("\n") if not line.startswith(("the set  ", "the model"))
        ]

    assert lines(module().page(name)) == lines((FOLDER / f"{name}.md").read_text(encoding="utf-8"))


def test_every_example_has_its_page():
    run = module()
    assert {path.stem for path in FOLDER.glob("*.md")} == {"index", *run.EXAMPLES}
    made = run.made("```console\n$ jointsparse --version\nold\n```", FOLDER)
    assert "old" not in made
    assert made.startswith("```console\n$ jointsparse --version\n")
