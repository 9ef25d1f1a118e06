"""Printing, as all commands do it.

Names of columns and files are data: they reach Rich only inside :class:`rich.text.Text`, never
as markup, and without control characters.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from jointsparse.text import visible

PROGRAM = "jointsparse"
SPOOLED = "standard-input"  # name of the file that holds what came from standard input
_SPOOL = re.compile(rf"[^\s'\"]*{PROGRAM}-[^\s/\\]+[/\\]{SPOOLED}(?:\.\w+)+")


@dataclass(frozen=True)
class Glyphs:
    """Characters for drawing, in Unicode or in ASCII."""

    tick: str
    ellipsis: str
    times: str
    separator: str
    arrow: str
    plus_minus: str

    @classmethod
    def for_console(cls, console: Console) -> "Glyphs":
        """Choose the characters that the console's encoding can show."""
        return UNICODE_GLYPHS if console.encoding.lower().startswith("utf") else ASCII_GLYPHS


UNICODE_GLYPHS = Glyphs("✔", "…", "×", " · ", "→", "±")
ASCII_GLYPHS = Glyphs("x", "...", "x", " | ", "->", "+-")


def output_console() -> Console:
    """Return the console for results (stdout)."""
    return _console(sys.stdout)


def error_console() -> Console:
    """Return the console for errors, warnings and progress (stderr)."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    # A name with an emoji must not end a run only because the terminal is an ASCII one.
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return Console(file=stream, highlight=False, markup=False, emoji=False)


def as_given(text: str, name: str = "standard input") -> str:
    """Return a text in which the file behind standard input has another name; it is soon gone."""
    return _SPOOL.sub(lambda _: name, text)


def print_error(message: str) -> None:
    """Print one error line on stderr."""
    sentence = one_line(as_given(message))
    if not sentence.endswith((".", "?", "!")):
        sentence += "."
    line = Text.assemble((f"{PROGRAM}: ", "bold red"), sentence)
    error_console().print(line, soft_wrap=True)


def print_note(message: str) -> None:
    """Print one line about what is going to happen to stderr."""
    error_console().print(Text(f"note: {one_line(message)}", "dim"), soft_wrap=True)


def print_warning(message: str) -> None:
    """Print one warning line on stderr."""
    error_console().print(
        Text(f"{PROGRAM}: warning: {one_line(message)}", "yellow"), soft_wrap=True
    )


def print_json(value: Any) -> None:
    """Print one JSON document on stdout; infinities and NaN become ``null``.

    It is written piece by piece: of a million features it would take more memory than they do.
    """
    utf8 = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    encoder = json.JSONEncoder(ensure_ascii=not utf8, indent=2, allow_nan=False)
    # A lone surrogate in a name has no encoding; its escape is valid JSON too.
    stream = _console(sys.stdout).file
    for piece in _json_pieces(value, encoder.encode, 2):
        stream.write(piece)
    stream.write("\n")


def _json_pieces(value: Any, encode: Callable[[Any], str], depth: int) -> Iterator[str]:
    """Yield a document as ``json.dumps`` has it, down to some depth one entry at a time."""
    inner = "\n" + "  " * (3 - depth)
    if depth == 0 or not isinstance(value, dict | list | Iterator) or not value:
        # In a text, ends of lines are written as escapes: these are between entries.
        yield encode(_plain(value)).replace("\n", inner[:-2])
        return
    named = isinstance(value, dict)
    entries: Iterable[Any] = value.items() if isinstance(value, dict) else (("", v) for v in value)
    before = "{" if named else "["
    for key, item in entries:  # at least one: of an iterator too
        yield before + inner + (f"{encode(str(key))}: " if named else "")
        yield from _json_pieces(item, encode, depth - 1)
        before = ","
    yield inner[:-2] + ("}" if named else "]")


def _plain(value: Any) -> Any:
    """Convert to what JSON knows: NumPy scalars and arrays too, other objects by ``repr``."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    return repr(value)


def one_line(text: str) -> str:
    """Return the text on one line, safe to print."""
    return visible(" ".join(text.split()))


def shorten_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """Cut the middle out so that the text takes at most ``width`` terminal cells.

    Long names of one table often differ only at their ends, so both ends stay.
    """
    if cell_len(text) <= width:
        return text
    room = max(width - cell_len(ellipsis), 0)
    tail = room // 2
    return _first_cells(text, room - tail) + ellipsis + _first_cells(text[::-1], tail)[::-1]


def _first_cells(text: str, width: int) -> str:
    taken = 0
    for position, character in enumerate(text):
        taken += cell_len(character)
        if taken > width:
            return text[:position]
    return text
