"""Every Python snippet of the user guide runs."""

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_run(page):
    text = page.read_text(encoding="utf-8")
    if "import dask" in text:
        pytest.importorskip("dask.array", reason="dask is not installed")
    for snippet in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(snippet, page.name, "exec"), {})
