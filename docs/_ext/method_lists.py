"""What the pages say of all methods, as the registry has it: nothing to edit for a new one.

``methods`` is the table of all methods, ``method-reference`` the summary of the classes of one
kind, with a page for each.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.ext.autosummary import Autosummary
from sphinx.ext.autosummary.generate import generate_autosummary_docs

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
            lines += [
                f"   * - ``{method.name}``",
                f"     - :class:`~jointsparse.{method.class_name}`",
                f"     - {method.summary}",
                f"     - {method.when}",
            ]
        parent = nodes.Element()
        self.state.nested_parse(StringList(lines, source="registry"), self.content_offset, parent)
        return parent.children


def classes(kind: str) -> list[str]:
    """Return the classes of a kind, in the order of the registry, each once."""
    known = registry.methods().values()
    return list(dict.fromkeys(m.class_name for m in known if m.kind == kind))


class MethodReference(Autosummary):
    """Summarise the classes of one kind, and those named in the content after them."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Return the summary; its pages are made beforehand, by ``make_pages``."""
        self.options.update(toctree="generated", nosignatures=None)
        self.content = StringList([*classes(self.arguments[0]), *self.content], source="registry")
        return super().run()


def make_pages(app: Sphinx) -> None:
    """Write the stub of every method; autosummary itself only sees names that stand in a page."""
    names = [*classes("selector"), *classes("components")]
    lines = [".. currentmodule:: jointsparse", "", ".. autosummary::", "   :toctree:", ""]
    with TemporaryDirectory() as folder:
        listed = Path(folder, "methods.rst")
        listed.write_text("\n".join([*lines, *(f"   {name}" for name in names)]), encoding="utf-8")
        generate_autosummary_docs([str(listed)], str(app.srcdir / "generated"), app=app)


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx about the directives."""
    app.add_directive("methods", MethodTable)
    app.add_directive("method-reference", MethodReference)
    app.connect("builder-inited", make_pages)
    return {"parallel_read_safe": True}
