"""Delimited text: which character separates the columns, and what they are called."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from jointsparse.io.budget import size_in_words
from jointsparse.io.errors import READ_FAILURES, table_error
from jointsparse.io.formats import DELIMITERS, MISSING, NUMBER, open_input
from jointsparse.io.limits import HEADER_BYTES, Beginning, BoundedText, check_text_width
from jointsparse.io.table import check_shape

if TYPE_CHECKING:
    import pyarrow as pa

MOST_EMPTY_LINES = 10_000  # before the first row
_NO_NAME = frozenset(MISSING)


@dataclass(frozen=True)
class Header:
    """The first line of a delimited text.

    Attributes
    ----------
    delimiter : str
        What separates the columns.
    names : list of str
        What they are called; names may repeat.
    lines : int
        How many lines the header takes: a quoted name may span several.
    """

    delimiter: str
    names: list[str]
    lines: int

    def options(self, block_size: int = 1 << 24) -> dict[str, Any]:
        """Return how Arrow is to read what follows."""
        from pyarrow import csv as arrow_csv

        reading = arrow_csv.ReadOptions(column_names=self.names, skip_rows=self.lines)
        # A row must fit in one block, and a block in 31 bits.
        reading.block_size = min(max(block_size, 64 * len(self.names)), (1 << 31) - 1)
        return {
            "read_options": reading,
            "parse_options": arrow_csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True
            ),
            "convert_options": arrow_csv.ConvertOptions(
                null_values=MISSING, strings_can_be_null=True
            ),
        }


def read_header(path: Path, kind: str) -> Header:
    """Find the delimiter and the names of the columns."""
    # The last try is the first again: a single column. A wide header not split is a csv.Error.
    names: list[str] = []
    reason = ""
    for delimiter in (*DELIMITERS[kind], DELIMITERS[kind][0]):
        try:
            with open_input(path) as stream:
                reader = csv.reader(_first_lines(path, stream), delimiter=delimiter)
                names, lines, more = next(filter(None, reader), []), reader.line_num, any(reader)
        except csv.Error as error:
            names, reason = [], f" and numbers: {error}"
        if len(names) > 1:
            break
    if not names:
        raise table_error(path, f"has no readable line of column names{reason}.")
    check_text_width(path, len(names))
    if any(map(NUMBER.fullmatch, names)) and all(
        n in _NO_NAME or NUMBER.fullmatch(n) for n in names
    ):
        hint = "its first line is all numbers; add a line of column names"
        raise table_error(path, f"has no header row: {hint}.")
    check_shape(path, 2 if more else 0, len(names))
    return Header(delimiter, names, lines)


def _first_lines(path: Path, stream: IO[bytes]) -> Iterator[str]:
    """Yield lines as long as they may belong to the header or the first row."""
    empty = 0
    for line in io.TextIOWrapper(io.BufferedReader(Beginning(stream)), "utf-8-sig", newline=""):
        empty += line.isspace()
        if empty > MOST_EMPTY_LINES:
            raise table_error(path, f"begins with more than {MOST_EMPTY_LINES} empty lines.")
        yield line
    if stream.read(1):
        raise table_error(
            path,
            f"has no end of its first two rows within {size_in_words(HEADER_BYTES)}; a line of "
            "column names and lines of numbers are needed.",
        )


def read_delimited(path: Path, kind: str, memory: int) -> pa.Table:
    """Read all of a delimited text."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header = read_header(path, kind)
    options = header.options()
    # One thread is slower but counts the rows, so that its errors say which one is wrong.
    options["read_options"].use_threads = path.stat().st_size > 1 << 24
    with open_input(path) as stream:
        bounded = BoundedText(path, stream, header.delimiter, memory)
        table = arrow_csv.read_csv(bounded, **options)
    if any(pa.types.is_binary(column.type) for column in table.columns):
        raise table_error(path, READ_FAILURES[UnicodeDecodeError])
    return table
