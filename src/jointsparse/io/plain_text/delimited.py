"""Delimited text: its characters, what separates the columns, and what they are called."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from jointsparse.io.budget import available_memory, size_in_words
from jointsparse.io.columns.layout import Layout
from jointsparse.io.errors import READ_FAILURES, table_error
from jointsparse.io.formats import DELIMITERS, MISSING, NUMBER
from jointsparse.io.limits import HEADER_BYTES, Beginning, BoundedText, check_text_width
from jointsparse.io.plain_text.encodings import UTF8, check_encoding, find_encoding, open_text
from jointsparse.io.plain_text.numerals import decimal_of, is_numeral
from jointsparse.io.plain_text.sheets import sheet_as_text
from jointsparse.io.table import check_shape

if TYPE_CHECKING:
    import pyarrow as pa

MOST_EMPTY_LINES = 10_000  # before the first row
SAMPLE_ROWS = 200  # from which the decimals are told
SAMPLE_CELLS = 1 << 16
COMMENT = "#"
JOINED = "_"  # between the names in two rows of names
_NO_NAME = frozenset(MISSING)
# Numbers without an order all rise or fall in one of n!/2 lines: one of 20 000 for 8, and of 3 for
# 3, where there is an empty cell above row names as well.
LEAST_RISING, LEAST_BESIDE_ROW_NAMES = 8, 3


@dataclass(frozen=True)
class Header:
    """The beginning of a delimited text, and how the rest is written.

    Attributes
    ----------
    delimiter : str
        What separates the columns.
    names : list of str
        What they are called; names may repeat.
    lines : int
        How many lines come before the data: comments, and names, which may span several.
    encoding : str
        How characters are written.
    decimal : str
        What stands before the decimals.
    notes : list of str
        Sentences about what was found.
    sheet : bytes or None
        The text itself, where it is that of a spreadsheet.
    """

    delimiter: str
    names: list[str]
    lines: int
    encoding: str = UTF8
    decimal: str = "."
    notes: list[str] = field(default_factory=list)
    sheet: bytes | None = field(default=None, repr=False)

    def open(self, path: Path) -> Any:
        """Open the text as UTF-8."""
        return open_text(path, self.encoding) if self.sheet is None else io.BytesIO(self.sheet)

    def options(self, block_size: int = 1 << 24, *, behind_names: bool = False) -> dict[str, Any]:
        """Return how Arrow is to read the text, or what comes behind the names."""
        from pyarrow import csv as arrow_csv

        lines = 0 if behind_names else self.lines
        reading = arrow_csv.ReadOptions(column_names=self.names, skip_rows=lines)
        # A row must fit in one block, and a block in 31 bits.
        reading.block_size = min(max(block_size, 64 * len(self.names)), (1 << 31) - 1)
        parsing = arrow_csv.ParseOptions(
            delimiter=self.delimiter,
            newlines_in_values=True,
            invalid_row_handler=_comments_skipped,
        )
        return {
            "read_options": reading,
            "parse_options": parsing,
            "convert_options": arrow_csv.ConvertOptions(
                null_values=MISSING, strings_can_be_null=True, decimal_point=self.decimal
            ),
        }


def _comments_skipped(row: Any) -> str:
    return "skip" if row.text.startswith(COMMENT) else "error"


def read_header(
    path: Path, kind: str, layout: Layout | None = None, memory: int | None = None
) -> Header:
    """Find out how a text is written, and the names of its columns."""
    layout = layout or Layout()
    sheet, notes = None, list[str]()
    if kind == "sheet":
        allowed = available_memory() if memory is None else memory
        sheet, notes = sheet_as_text(path, layout.dataset, allowed)
        encoding = UTF8
    elif layout.encoding is not None:
        encoding = check_encoding(path, layout.encoding)
    else:
        encoding = find_encoding(path)
        if encoding != UTF8:
            notes.append(f"read as {encoding} text, since it is not UTF-8")
    blank = Header("", [], 0, encoding, notes=notes, sheet=sheet)
    # The last try is the first again: a single column. A wide header not split is a csv.Error.
    rows: list[_Row] = []
    reason = ""
    for delimiter in (*DELIMITERS[kind], DELIMITERS[kind][0]):
        try:
            with blank.open(path) as stream:
                rows = _first_rows(path, stream, delimiter)
        except csv.Error as error:
            rows, reason = [], f" and numbers: {error}"
        if rows and len(rows[0].cells) > 1:
            break
    if not rows:
        raise table_error(path, f"has no readable line of column names{reason}.")
    decimal = layout.decimal or _decimal(rows[1:], delimiter)
    if decimal == "," and layout.decimal is None:
        notes.append("read with decimal commas")
    names, used = _names(rows, decimal, notes)
    check_text_width(path, len(names))
    if _all_numbers(names) and not _are_names(names, rows, used, notes):
        hint = "its first line is all numbers; add a line of column names, or put a letter before "
        hint += "each where these numbers are names, such as wavelengths or years"
        raise table_error(path, f"has no header row: {hint}.")
    check_shape(path, 2 if rows[used:] else 0, len(names))
    return Header(delimiter, names, rows[used - 1].end, encoding, decimal, notes, sheet)


@dataclass(frozen=True)
class _Row:
    """The cells of a row, and the number of the line behind it."""

    cells: list[str]
    end: int


def _first_rows(path: Path, stream: IO[bytes], delimiter: str) -> list[_Row]:
    """Return the row of names and some rows behind it, without the comments before them."""
    rows: list[_Row] = []
    comment: _Row | None = None
    cells = 0
    reader = csv.reader(_first_lines(path, stream, rows), delimiter=delimiter)
    while len(rows) < SAMPLE_ROWS and (cells < SAMPLE_CELLS or len(rows) < 3):
        try:
            row = next(filter(None, reader), None)
        except csv.Error:
            if len(rows) < 2:
                raise
            break  # what is wrong there is said when it is read
        if row is None:
            break
        if row[0].startswith(COMMENT) and not rows:
            comment = _Row(row, reader.line_num)
            continue
        cells += len(row)
        rows.append(_Row(row, reader.line_num))
    # Some programs mark the line of names as a comment.
    if comment is not None and rows and _names_of(comment.cells, rows[0].cells):
        first = comment.cells[0].lstrip(COMMENT).strip()
        rows.insert(0, _Row([first, *comment.cells[1:]], comment.end))
    return rows


def _names_of(comment: list[str], row: list[str]) -> bool:
    """Whether a comment names the columns of the row behind it."""
    return len(comment) == len(row) and len(row) > 1 and any(map(NUMBER.fullmatch, row))


def _decimal(rows: list[_Row], delimiter: str) -> str:
    return decimal_of((cell for row in rows for cell in row.cells), delimiter)


def _names(rows: list[_Row], decimal: str, notes: list[str]) -> tuple[list[str], int]:
    """Return the names of the columns, and how many rows they take."""
    names = rows[0].cells
    used = 1
    if len(rows) > 2 and _second_names(names, rows[1].cells, rows[2].cells, decimal):
        below = rows[1].cells
        names = [
            JOINED.join(filter(None, map(str.strip, pair)))
            for pair in zip(names, below, strict=True)
        ]
        used = 2
        notes.append(f"joined two rows of column names, as in {names[-1]!r}")
    # Programs such as R leave out the name of the column of row names.
    if len(rows) > used and len(rows[used].cells) == len(names) + 1 and rows[used].cells[-1]:
        names = ["", *names]
    return names, used


def _all_numbers(names: list[str]) -> bool:
    return any(map(NUMBER.fullmatch, names)) and all(
        name in _NO_NAME or NUMBER.fullmatch(name) for name in names
    )


def _are_names(names: list[str], rows: list[_Row], used: int, notes: list[str]) -> bool:
    """Whether a line of numbers is one of names all the same, such as wavelengths or years.

    It is where row names stand below an empty cell, or where its numbers rise or fall.
    """
    behind = [row.cells for row in rows[used:]]
    if len(names) > len(rows[0].cells):
        return True  # R leaves out the name of the row names
    row_names = not names[0].strip() and bool(behind) and all(cells[0].strip() for cells in behind)
    if row_names and not all(NUMBER.fullmatch(cells[0]) for cells in behind):
        return True
    least = LEAST_BESIDE_ROW_NAMES if row_names else LEAST_RISING
    named = names[1:] if row_names else names
    if len(named) < least or not _rise(named) or any(map(_rise, behind)):
        return False
    notes.append(
        f"the first line, whose numbers rise or fall from column to column ({named[0]}, "
        f"{named[1]}, …), is taken for the names of the columns"
    )
    return True


def _rise(cells: list[str]) -> bool:
    """Whether cells are numbers that only rise, or only fall."""
    if not all(map(NUMBER.fullmatch, cells)):
        return False
    pairs = list(pairwise(map(float, cells)))
    return all(a < b for a, b in pairs) or all(a > b for a, b in pairs)


def _second_names(names: list[str], below: list[str], row: list[str], decimal: str) -> bool:
    """Whether the row below the names has more of them: text above numbers."""
    if not len(names) == len(below) == len(row):
        return False
    text = [cell not in _NO_NAME and not is_numeral(cell, decimal) for cell in below]
    numbers = [is_numeral(cell, decimal) for cell in row]
    if any(is_numeral(cell, decimal) for cell in below) or any(map(NUMBER.fullmatch, names)):
        return False
    above = sum(t and n for t, n in zip(text, numbers, strict=True))
    return 2 * above > len(names)


def _first_lines(path: Path, stream: IO[bytes], rows: list[_Row]) -> Iterator[str]:
    """Yield lines as long as they may belong to the header or the first rows."""
    empty = 0
    for line in io.TextIOWrapper(io.BufferedReader(Beginning(stream)), "utf-8-sig", newline=""):
        empty += line.isspace()
        if empty > MOST_EMPTY_LINES:
            raise table_error(path, f"begins with more than {MOST_EMPTY_LINES} empty lines.")
        yield line
    if len(rows) < 2 and stream.read(1):
        raise table_error(
            path,
            f"has no end of its first two rows within {size_in_words(HEADER_BYTES)}; a line of "
            "column names and lines of numbers are needed.",
        )


def read_delimited(path: Path, header: Header, memory: int) -> pa.Table:
    """Read all of a delimited text, or of a spreadsheet."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    options = header.options()
    # One thread is slower but counts the rows, so that its errors say which one is wrong.
    options["read_options"].use_threads = path.stat().st_size > 1 << 24
    with header.open(path) as stream:
        bounded = BoundedText(path, stream, header.delimiter, memory)
        table = arrow_csv.read_csv(bounded, **options)
    if any(pa.types.is_binary(column.type) for column in table.columns):
        raise table_error(path, READ_FAILURES[UnicodeDecodeError])
    return table
