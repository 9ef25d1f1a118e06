"""Delimited text of many columns, one row at a time: each row is read as if it were a column.

Arrow takes 9 kB for every column of a text, however few rows there are; a row that is turned on its
side is one column.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jointsparse.io.errors import table_error
from jointsparse.io.formats import MISSING
from jointsparse.io.limits import CELL_BYTES, NAME_BYTES, check_memory
from jointsparse.io.plain_text.numerals import numbers_in, numeral
from jointsparse.io.plain_text.pieces import pieces

if TYPE_CHECKING:
    import pyarrow as pa

    from jointsparse.io.plain_text.delimited import Header

WIDE = 2000  # columns from which rows are read one at a time
NAMED_BYTES = 6 * NAME_BYTES  # of a column: its name in several lists, and the cells of a few rows
_PIECE = 1 << 20  # bytes of text at a time
_NEVER = "\x01"  # no delimiter: a row on its side is one column


class WideColumns(Mapping[str, "pa.ChunkedArray"]):
    """The columns of a wide text, made when they are asked for.

    Parameters
    ----------
    names : list of str
        All columns, in order.
    numbers : ndarray of shape (n_rows, n_columns)
        Those that are numbers, NaN where a cell is missing; anything in the others.
    others : dict of str to pyarrow.ChunkedArray
        Those that are not.
    """

    def __init__(self, names: list[str], numbers: np.ndarray, others: dict[str, Any]) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self.numbers, self._others = numbers, others

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        import pyarrow as pa

        if name in self._others:
            return self._others[name]
        values = np.ascontiguousarray(self.numbers[:, self._places[name]])
        return pa.chunked_array([pa.array(values, from_pandas=True)])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def matrix(self, names: list[str]) -> np.ndarray:
        """Return some columns of numbers side by side; no copy where they are all."""
        for name in self._others.keys() & set(names):  # truth values
            self.numbers[:, self._places[name]] = _floats(self._others[name])
        places = [self._places[name] for name in names]
        return self.numbers if len(places) == len(self) else self.numbers[:, places]


def read_wide(
    path: Path,
    header: Header,
    names: list[str],
    memory: int,
    plain: Callable[[Any], Any],
) -> WideColumns:
    """Read all of a delimited text of many columns.

    Parameters
    ----------
    path : Path
        The file.
    header : Header
        How it is written.
    names : list of str
        What its columns are called, each once.
    memory : int
        Bytes that it may take.
    plain : callable
        Makes numbers of an Arrow column that can be numbers.
    """
    width = len(names)
    check_memory(path, f"names of {width} columns", NAMED_BYTES * width, memory)
    rows: list[np.ndarray] = []
    text = np.zeros(width, dtype=bool)
    with header.open(path) as stream:
        for piece in pieces(path, stream, header.lines, _PIECE, max(memory // 4, _PIECE)):
            for cells in _rows(path, header, piece, width, len(rows)):
                values, no_number = _numbers(cells, header.decimal)
                text |= no_number
                rows.append(values)
                needed = (CELL_BYTES * len(rows) + NAMED_BYTES) * width
                check_memory(path, f"its first {len(rows)} rows", needed, memory)
    numbers = np.stack(rows) if rows else np.empty((0, width))
    rows.clear()
    others = _others(header, path, [names[place] for place in np.flatnonzero(text)], names)
    return WideColumns(names, numbers, {name: plain(column) for name, column in others.items()})


def _rows(path: Path, header: Header, piece: bytes, width: int, seen: int) -> Iterator[bytes]:
    """Yield the cells of each row, one below the other."""
    quoted = b'"' in piece
    delimiter = header.delimiter.encode()
    lines: Any = piece.splitlines()
    if quoted:
        text = piece.decode("utf-8", "replace").splitlines(keepends=True)
        lines = csv.reader(text, delimiter=header.delimiter)
    for line in lines:
        if not line or (not quoted and not line.strip()):
            continue
        count = len(line) if quoted else line.count(delimiter) + 1
        if count != width:
            if (line[0] if quoted else line[:1].decode("utf-8", "replace")).startswith("#"):
                continue
            raise table_error(
                path,
                f"has {count} cells in data row {seen + 1}, and {width} columns; mend that row (a "
                "text with a delimiter in it needs quotation marks).",
            )
        seen += 1
        if quoted:
            yield "\n".join(" ".join(cell.split("\n")) for cell in line).encode()
        else:
            yield line.replace(delimiter, b"\n")


def _numbers(cells: bytes, decimal: str) -> tuple[np.ndarray, np.ndarray]:
    """Return cells as numbers, NaN where one is missing or none, and which are none."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        found = _column(cells, pa.float64(), decimal)
        return _floats(found), np.zeros(len(found), dtype=bool)
    except pa.ArrowInvalid:
        texts = _column(cells, pa.string(), decimal)
    numeric = compute.fill_null(compute.match_substring_regex(texts, numeral(decimal)), False)
    values = np.full(len(texts), np.nan)
    fits = np.array(numeric.to_numpy(zero_copy_only=False), dtype=bool)
    numbers = numbers_in(pa.chunked_array([texts.filter(numeric)]), decimal)
    if numbers is not None:
        values[fits] = _floats(numbers)
    else:
        fits[:] = False
    return values, ~fits & np.array(texts.is_valid().to_numpy(zero_copy_only=False), dtype=bool)


def _column(cells: bytes, type_: Any, decimal: str) -> pa.Array:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    found = arrow_csv.read_csv(
        pa.BufferReader(cells + b"\n"),
        read_options=arrow_csv.ReadOptions(
            column_names=["cells"], block_size=len(cells) + 2, use_threads=False
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=_NEVER, ignore_empty_lines=False, quote_char=False
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types={"cells": type_},
            null_values=MISSING,
            strings_can_be_null=True,
            decimal_point=decimal,
        ),
    )
    return found.column(0).combine_chunks()


def _floats(column: Any) -> np.ndarray:
    import pyarrow as pa

    joined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(joined.to_numpy(zero_copy_only=False), dtype=np.float64)


def _others(header: Header, path: Path, wanted: list[str], names: list[str]) -> dict[str, Any]:
    """Return the columns that are not numbers, as Arrow finds them."""
    from pyarrow import csv as arrow_csv

    if not wanted:
        return {}
    options = header.options()
    options["read_options"].column_names = names  # distinct, in place of those that may repeat
    options["convert_options"].include_columns = wanted
    with header.open(path) as stream:
        table = arrow_csv.read_csv(stream, **options)
    return dict(zip(table.column_names, table.columns, strict=True))
