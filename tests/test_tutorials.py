"""What the tutorials and the tasks print is what their commands print."""

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
FOLDER, TASKS = DOCS / "tutorials", DOCS / "tasks"
TIMED = re.compile(r" (?:greedy|spca-psd|laplacian-score|jspca) .*\d\.\d\d ")  # of compare: seconds

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the docs are not beside the tests")


def module():
    spec = importlib.util.spec_from_file_location("tutorials_run", FOLDER / "run.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [f"tutorials/{name}" for name in ("genes", "sensors", "spectra")]
    + [f"tasks/{path.stem}" for path in sorted(TASKS.glob("*.md")) if path.stem != "index"],
)
def test_a_page_prints_what_its_commands_print(name):
    # What a search against the clock proves, and the last digits of a residual, depend on the
    # machine.
    def lines(text):
        return [
            line
            for line in text.split("\n")
            if not line.startswith(("the set  ", "a better set  ", "the model", "constraints  "))
            and not TIMED.match(line)
        ]

    assert lines(module().page(name)) == lines((DOCS / f"{name}.md").read_text(encoding="utf-8"))


def test_every_example_has_its_page():
    run = module()
    pages = {
        f"{path.parent.name}/{path.stem}" for path in (*FOLDER.glob("*.md"), *TASKS.glob("*.md"))
    }
    assert pages == {"tutorials/index", "tasks/index", *run.EXAMPLES}
    made = run.made("```console\n$ jointsparse --version\nold\n```", FOLDER)
    assert "old" not in made
    assert made.startswith("```console\n$ jointsparse --version\n")
