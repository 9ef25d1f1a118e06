"""The directive ``{methods}``: the table of methods, as the registry has it."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx

from jointsparse import registry


class MethodTable(Directive):
    """List every method: name, class, what it does, when to use it, its source."""

    def run(self) -> list[nodes.Node]:
        """Return the table; names link to the reference."""
        lines = [
            ".. list-table::",
            "   :header-rows: 1",
            "   :widths: 16 16 36 36",
            "",
            "   * - name",
            "     - class",
            "     - what it does",
            "     - use it when",
        ]
        for method in registry.methods().values():
            made: Any = method.make()
            lines += [
                f"   * - ``{method.name}``",
                f"     - :class:`~jointsparse.{type(made).__name__}`",
                f"     - {method.summary}",
                f"     - {method.when}",
            ]
        parent = nodes.Element()
        self.state.nested_parse(StringList(lines, source="registry"), self.content_offset, parent)
        return parent.children


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx about the directive."""
    app.add_directive("methods", MethodTable)
    return {"parallel_read_safe": True}
