"""``jointsparse methods``: what there is, and when to use it."""

from collections.abc import Iterable
from typing import Annotated

import typer
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from jointsparse.cli.display.console import Glyphs, output_console, print_json
from jointsparse.methods import registry
from jointsparse.methods.registry import Method

HELP = "List the methods: what each does, when to use it and where it comes from."

# Five columns of sentences are unreadable on a narrow terminal.
_TABLE_WIDTH = 120


def methods(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """List the registered methods."""
    known = registry.methods().values()
    if as_json:
        print_json([_record(method) for method in known])
        return
    console = output_console()
    console.print(_as_table(known) if console.width >= _TABLE_WIDTH else _as_list(known, console))


def _record(method: Method) -> dict[str, str]:
    return {
        "name": method.name,
        "kind": method.kind,
        "summary": method.summary,
        "when": method.when,
        "source": method.source,
    }


def _as_table(known: Iterable[Method]) -> RichTable:
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("kind", no_wrap=True)
    for title in ("what it does", "when to use it", "source"):
        table.add_column(title, ratio=1)
    for method in known:
        table.add_row(*(Text(value) for value in _record(method).values()))
        table.add_row()
    return table


def _as_list(known: Iterable[Method], console: Console) -> Group:
    separator = Glyphs.for_console(console).separator
    parts: list[RenderableType] = []
    for method in known:
        parts += [
            Text.assemble((method.name, "bold"), separator, method.kind),
            Padding(Text(method.summary), (0, 0, 0, 2)),
            Padding(Text.assemble(("use it: ", "dim"), method.when), (0, 0, 0, 2)),
            Padding(Text.assemble(("source: ", "dim"), method.source), (0, 0, 1, 2)),
        ]
    return Group(*parts)
