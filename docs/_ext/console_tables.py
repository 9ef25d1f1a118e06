"""Tables in what a command prints: they keep their columns, while sentences are broken.

On a narrow screen a table that is broken cannot be read, and a sentence that is not runs off. So
the lines of each table become one element, which scrolls by itself (``_static/site.css``).
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_BLOCK = re.compile(r'(<div class="highlight-console.*?<pre>)(.*?)(</pre>)', re.DOTALL)
_TABLE = re.compile(  # a rule with the lines before and after it, up to those without any text
    r'(?:<span class="go">(?=[^\n]*\S[^\n]*</span>)[^\n]+\n)*'
    r'<span class="go">\s*─{9,}[─\s]*</span>\n'
    r'(?:<span class="go">(?!\s*</span>)[^\n]+\n?)*'
)


def with_tables(page: str) -> str:
    """Return a page in which the tables of every block of output are elements of their own."""

    def told(block: re.Match[str]) -> str:
        tables = _TABLE.sub(
            lambda table: f'<span class="printed-table" tabindex="0">{table[0]}</span>', block[2]
        )
        return f"{block[1]}{tables}{block[3]}"

    return _BLOCK.sub(told, page)


def _on_page(
    app: Sphinx, name: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    if "body" in context:
        context["body"] = with_tables(context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Look at every page before it is written."""
    app.connect("html-page-context", _on_page)
    return {"parallel_read_safe": True}
