"""Tables that Arrow reads and writes: delimited text, Parquet, Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from jointsparse.io.delimited import read_delimited
from jointsparse.io.errors import TableError, counted, listed, reading, shown, table_error
from jointsparse.io.formats import DELIMITERS, NUMBER, formula_safe
from jointsparse.io.table import Table, check_shape, distinct, find_label

if TYPE_CHECKING:
    import pyarrow as pa


def is_numeric(column: pa.ChunkedArray) -> bool:
    """Whether NumPy takes the column over as numbers."""
    return str(column.type).startswith(("int", "uint", "float", "double"))


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return an Arrow column as numbers that NumPy takes over, or as strings, or as it is."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = str(column.type)
    if kind.startswith(("null", "decimal", "halffloat")):
        return column.cast(pa.float64())
    if kind.startswith(("string", "large_string", "date", "time")):
        return column.cast(pa.string())
    return column.cast(pa.uint8()) if kind == "bool" else column


def _text_error(path: Path, columns: dict[str, pa.ChunkedArray]) -> TableError:
    """Say which columns are text, where, and which one may be meant as labels."""
    name, column = next(iter(columns.items()))
    # A column is text by one bad cell among numbers: that is the cell to show.
    cells = enumerate((str(cell.as_py() or "") for cell in column), start=1)
    row, cell = next((c for c in cells if c[1] and not NUMBER.fullmatch(c[1])), (1, "text"))
    where = f"first {cell[:60]!r} in data row {row} of column {shown(name)}"
    option = "leave them out with --drop-text"
    for name, column in columns.items():
        if str(column.type) == "string" and len(column.unique()) <= min(50, len(column) // 2):
            option += f", or keep one aside with --label {shown(name)}"
            break
    found = f"{counted(len(columns), 'text column')} ({listed(list(columns))})"
    return table_error(path, f"has {found}, {where}; {option}.")


def read_arrow(path: Path, kind: str, label: str | None, drop_text: bool) -> Table:
    """Read delimited text, Parquet or Arrow."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    with reading(path, pa.ArrowException), path.open("rb") as stream:
        if kind in DELIMITERS:
            arrow = read_delimited(path, kind)
        elif kind == "arrow":
            arrow = feather.read_table(stream)
        else:
            arrow = parquet.ParquetFile(stream).read()
        names, notes = distinct(arrow.column_names)
        columns = dict(zip(names, map(plain, arrow.columns), strict=True))
    labels = None
    if label is not None:
        aside = columns.pop(names[find_label(path, label, names)])
        with reading(path, pa.ArrowException):
            aside = aside if is_numeric(aside) else aside.cast(pa.string()).fill_null("")
        labels = np.array(aside.to_numpy(), dtype=None if is_numeric(aside) else str)
    check_shape(path, arrow.num_rows, len(names))
    text = {name: column for name, column in columns.items() if not is_numeric(column)}
    if text and not drop_text:
        raise _text_error(path, text)
    if text:
        notes.append(f"dropped {counted(len(text), 'text column')}: {listed(list(text))}")
    numeric = {name: column for name, column in columns.items() if name not in text}
    check_shape(path, arrow.num_rows, len(numeric))
    # The narrowest type that holds every column; an integer column with holes needs NaN.
    dtypes = {column.type.to_pandas_dtype() for column in numeric.values()}
    dtypes |= {np.float64 for c in numeric.values() if c.null_count and "int" in str(c.type)}
    values = np.empty((arrow.num_rows, len(numeric)), np.result_type(*dtypes), order="F")
    for j, column in enumerate(numeric.values()):
        values[:, j] = column.to_numpy()
    return Table(values, list(numeric), labels, label, notes)


def write_arrow(stream: BinaryIO, kind: str, table: Table) -> None:
    """Write a dense table as delimited text, Parquet or Arrow."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import feather, parquet

    guard = formula_safe if kind in DELIMITERS else str
    columns = [pa.array(table.values[:, j]) for j in range(len(table.names))]
    names = list(map(guard, table.names))
    if (labels := table.labels) is not None:
        columns.append(pa.array(list(map(guard, labels)) if labels.dtype.kind == "U" else labels))
        names.append(guard(table.label_name or "label"))
    arrow = pa.table(columns, names=names)
    if kind == "parquet":
        parquet.write_table(arrow, stream)
    elif kind == "arrow":
        feather.write_feather(arrow, stream)
    else:
        arrow_csv.write_csv(arrow, stream, arrow_csv.WriteOptions(delimiter=DELIMITERS[kind][0]))
