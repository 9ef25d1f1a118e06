"""Snippets of the user guide run, and links inside the repository lead somewhere."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
LINKING = [
    *PAGES,
    *(
        page
        for folder in ("reproduction", "tasks", "tutorials")
        for page in sorted((ROOT / "docs" / folder).glob("*.md"))
    ),
    *ROOT.glob("*.md"),
]
MADE_BY_SPHINX = ("auto_examples/",)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_run(page):
    text = page.read_text(encoding="utf-8")
    if "import dask" in text:
        pytest.importorskip("dask.array", reason="dask is not installed")
    for snippet in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        if "import torch" in snippet:
            pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")
        exec(compile(snippet, page.name, "exec"), {})


@pytest.mark.parametrize("page", LINKING, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    inside = [t for t in targets if t and "://" not in t and not t.startswith(MADE_BY_SPHINX)]
    missing = [target for target in inside if not (page.parent / target).exists()]
    assert not missing


def test_the_page_of_commands_is_that_of_the_options():
    spec = importlib.util.spec_from_file_location("commands_page", ROOT / "docs" / "commands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.page() == module.PAGE.read_text(encoding="utf-8"), "run python docs/commands.py"
    shown = set(re.findall(r"`(--[a-z0-9-]+)`", module.page()))
    assert {"--id", "--robust", "--budget", "--prove", "--skip-slow"} <= shown


def test_tables_that_a_command_prints_scroll_and_sentences_do_not():
    pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install '.[docs]'")
    path = ROOT / "docs" / "_ext" / "console_tables.py"
    spec = importlib.util.spec_from_file_location("console_tables", path)
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    lines = ["A verdict.", " rank   feature", f" {'─' * 20}", "    1   heat", "", "… 3 more"]
    spans = [f'<span class="go">{line}</span>' if line else "" for line in lines]
    spans.insert(1, "")
    block = '<div class="highlight-console notranslate"><div><pre>{}</pre></div></div>'
    page = "<p>─────────────</p>" + block.format("\n".join(spans) + "\n")
    made = tables.with_tables(page)
    assert re.sub(r"<span class=\"printed[^>]*>|(?<=\n)</span>", "", made) == page
    (inside,) = re.findall(
        r'<span class="printed-table" tabindex="0">(.*?\n)</span>', made, re.DOTALL
    )
    assert re.sub("<[^>]*>", "", inside).splitlines() == lines[1:4]
