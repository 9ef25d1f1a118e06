"""Write docs/commands.md, the reference of the command line: ``python docs/commands.py``."""

import enum
import re
import types
import typing
from dataclasses import MISSING, fields
from pathlib import Path

from typer.models import OptionInfo

from jointsparse.cli.commands import compare, path, reproduce, select, transform

PAGE = Path(__file__).parent / "commands.md"
HEAD = """\
# Commands

`jointsparse COMMAND --help` shows the same. `jointsparse methods` lists the methods, and
`jointsparse report RUN.json` makes a page of what `--json` printed. `docs/commands.py` writes this
page.
"""
COMMANDS = {
    "select": (select.SelectOptions, select.HELP),
    "compare": (compare.CompareOptions, compare.HELP),
    "path": (path.PathOptions, path.HELP),
    "transform": (transform.TransformOptions, transform.HELP),
    "reproduce": (reproduce.ReproduceOptions, reproduce.HELP),
}


def page():
    """Return the page."""
    return HEAD + "".join(section(name, *known) for name, known in COMMANDS.items())


def section(name, kind, about):
    """Return one command: its arguments, and its options by panel."""
    hints = typing.get_type_hints(kind, include_extras=True)
    known = [(field, *typing.get_args(hints[field.name])[:2]) for field in fields(kind)]
    given = [one for one in known if not isinstance(one[2], OptionInfo)]
    options = [one for one in known if isinstance(one[2], OptionInfo) and not one[2].hidden]
    words = " ".join(f"[{metavar(field, info)}]" for field, _, info in given)
    text = f"\n## {name}\n\n{plain(about)}\n\n    jointsparse {name} {words} [OPTIONS]\n"
    for field, _, info in given:
        text += f"\n`{metavar(field, info)}`: {plain(info.help)}\n"
    for panel in dict.fromkeys(info.rich_help_panel or "Options" for _, _, info in options):
        text += f"\n### {name}: {panel}\n\n| option | what it does |\n|---|---|\n"
        for field, hint, info in options:
            if (info.rich_help_panel or "Options") == panel:
                text += f"| {written(field, hint, info)} | {plain(info.help)}{default(field)} |\n"
    return text


def metavar(field, info):
    """Return what stands for a value."""
    return (info.metavar or field.name).upper()


def written(field, hint, info):
    """Return how an option is written."""
    # In an annotation Typer takes what stands first, else a default, for the name.
    names = [str(n) for n in (info.default, *(info.param_decls or ())) if str(n)[:1] == "-"]
    text = ", ".join(f"`{name}`" for name in names)
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if bool in parts:
        return text
    choices = [part for part in parts if isinstance(part, type) and issubclass(part, enum.Enum)]
    if choices:
        return f"{text} " + " \\| ".join(str(choice.value) for choice in choices[0])
    return f"{text} {metavar(field, info)}"


def default(field):
    """Return the value that an option has without being given, where it says something."""
    value = field.default
    if value is MISSING or value is None or isinstance(value, bool):
        return ""
    return f" Default: {getattr(value, 'value', value)}."


def plain(text):
    """Return a text on one line, safe in a table."""
    return re.sub(r"([|*_<])", r"\\\1", re.sub(r"\s+", " ", text or "").strip())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
