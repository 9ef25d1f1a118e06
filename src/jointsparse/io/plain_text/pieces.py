"""Delimited text in pieces of whole rows: no more of it is in memory at a time.

Arrow's own streams read 32 pieces ahead, whatever the memory, and forget which row a piece begins
with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from jointsparse.io.budget import size_in_words
from jointsparse.io.errors import TableError, reading, shown, table_error

if TYPE_CHECKING:
    import pyarrow as pa

    from jointsparse.io.plain_text.delimited import Header

LONGEST = 1 << 24  # bytes of a row in which quotation marks are believed
_LINE_END = re.compile(rb"\r\n|\n|\r")
_CELL = re.compile(r"CSV column #(\d+)(?:: Row #(\d+))?.*invalid value '(.*)'", re.DOTALL)
_COUNT = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


def pieces(path: Path, stream: IO[bytes], lines: int, size: int, memory: int) -> Iterator[bytes]:
    """Yield a text, without its first lines, in pieces of whole rows.

    Parameters
    ----------
    path : Path
        The file, for messages.
    stream : file object
        The text as UTF-8.
    lines : int
        How many lines to leave out.
    size : int
        Bytes of a piece, about; a longer row is a piece by itself.
    memory : int
        Bytes that a row may have.
    """
    rest = b""
    while True:
        # As much again as is left over: a long row is not put together from many small parts.
        more = stream.read(max(size, len(rest)))
        text = rest + more
        if len(text) > memory:
            raise table_error(
                path,
                f"has a row of more than {size_in_words(memory)}, half of what may be used; if "
                "that is right, allow more memory.",
            )
        while lines and (found := _LINE_END.search(text)):
            if found.end() == len(text) and more and text.endswith(b"\r"):
                break  # perhaps half of an end
            text, lines = text[found.end() :], lines - 1
        end = len(text) if not more else 0 if lines else _end_of_rows(text)
        if end and not lines:
            yield text[:end]
        if not more:
            return
        rest = text[end:]


def _end_of_rows(text: bytes) -> int:
    """Return where the last row ends that is complete: behind a line end outside of quotes."""
    mark = b"\n" if b"\n" in text else b"\r"
    last = len(text) - (mark == b"\r")  # which may be half of an end
    open_quotes = text.count(b'"', 0, last) % 2
    first, end = text.rfind(mark, 0, last), last
    at = first
    while at >= 0:
        open_quotes ^= text.count(b'"', at, end) % 2
        if not open_quotes:
            return at + 1
        end, at = at, text.rfind(mark, 0, at)
    # A mark of inches, not of quotation, somewhere: the rows themselves tell what is wrong.
    return first + 1 if len(text) > LONGEST else 0


def parsed(
    path: Path,
    header: Header,
    piece: bytes,
    first: int,
    types: dict[str, pa.DataType] | None = None,
    *,
    threads: bool = True,
) -> pa.Table:
    """Return a piece of a text as a table.

    Parameters
    ----------
    path : Path
        The file, for messages.
    header : Header
        How it is written.
    piece : bytes
        Whole rows.
    first : int
        How many rows came before.
    types : dict or None
        Columns to take, with their types; None is all, with the types that they seem to have.
    threads : bool
        Whether to read on all cores.
    """
    import pyarrow as pa
    from pyarrow import csv

    def read(*, threads: bool) -> pa.Table:
        options = header.options(len(piece) + 1, behind_names=True)
        options["read_options"].use_threads = threads
        if types is not None:
            options["convert_options"].include_columns = list(types)
            options["convert_options"].column_types = types
        return csv.read_csv(pa.BufferReader(piece), **options)

    if not piece.strip():
        kinds = dict.fromkeys(header.names, pa.null()) if types is None else types
        return pa.schema(list(kinds.items())).empty_table()
    with reading(path, pa.ArrowException):
        try:
            return read(threads=threads)
        except pa.ArrowInvalid:
            # One thread is slower but counts the rows, so that its errors say which one is wrong.
            try:
                return read(threads=False)
            except pa.ArrowInvalid as error:
                raise _told(path, header, error, first) from error


def _told(path: Path, header: Header, error: Any, first: int) -> TableError:
    """Say which cell or row of the file Arrow's error is about."""
    text = str(error)
    if found := _COUNT.search(text):
        row, expected, cells = map(int, found.groups())
        return table_error(
            path,
            f"has {cells} cells in data row {first + row}, and {expected} columns; mend that row "
            "(a text with a delimiter in it needs quotation marks).",
        )
    found = _CELL.search(text)
    if found is None or found[2] is None:
        return table_error(path, f"cannot be read as a table: {text[:160]}.")
    name = header.names[int(found[1])]
    return bad_cell(path, found[3], first + int(found[2]), name)


def bad_cell(path: Path, cell: str, row: int, name: str) -> TableError:
    """Return the error of a cell that is no number in a column of numbers.

    Parameters
    ----------
    path : Path
        The file.
    cell : str
        What is there.
    row : int
        Number of the data row, counted from 1.
    name : str
        The column.
    """
    return table_error(
        path,
        f"has {cell[:60]!r} in data row {row} of column {shown(name)}, which holds numbers in the "
        "rows before; mend the cell, or leave the column out with ",
        f"drop={name[:60]!r}.",
        f"--drop {shown(name)}.",
    )
