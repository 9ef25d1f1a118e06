"""Formulas as MathML, which browsers draw by themselves: pages need no network and no script."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _displayed(translator: HTML5Translator, node: nodes.math_block) -> None:
    formula = convert(node.astext(), display="block")
    translator.body.append(f'<div class="formula">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Replace the way that formulas are written."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_inline, None), block_renderers=(_displayed, None)
    )
    return {"parallel_read_safe": True}
