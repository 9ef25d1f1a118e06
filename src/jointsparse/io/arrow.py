"""Tables that Arrow reads and writes: delimited text, Parquet, Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from jointsparse.io.delimited import read_delimited
from jointsparse.io.errors import TableError, listed, reading, shown, table_error
from jointsparse.io.formats import DELIMITERS, NUMBER, formula_safe
from jointsparse.io.limits import CELL_BYTES, NAME_BYTES, check_memory
from jointsparse.io.table import Table, check_shape, distinct, find_label
from jointsparse.text import counted

if TYPE_CHECKING:
    import pyarrow as pa


def is_numeric(column: pa.ChunkedArray) -> bool:
    """Whether NumPy takes the column over as numbers."""
    return str(column.type).startswith(("int", "uint", "float", "double"))


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return an Arrow column as numbers that NumPy takes over, or as strings, or as it is."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        if not is_numeric(pa.array([], column.type.value_type)):
            return column  # text that repeats stays small this way
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
    cure, option = "leave them out with drop_text=True", "leave them out with --drop-text"
    for name, column in columns.items():
        if _is_text(column.type) and len(column.unique()) <= min(50, len(column) // 2):
            cure += f", or keep one aside with label={name[:60]!r}"
            option += f", or keep one aside with --label {shown(name)}"
            break
    found = f"{counted(len(columns), 'text column')} ({listed(list(columns))})"
    return table_error(path, f"has {found}, {where}; ", f"{cure}.", f"{option}.")


def _is_text(type_: pa.DataType) -> bool:
    return str(type_) == "string" or str(type_).startswith("dictionary<values=string")


def read_arrow(path: Path, kind: str, label: str | None, drop_text: bool, memory: int) -> Table:
    """Read delimited text, Parquet or Arrow."""
    import pyarrow as pa

    with reading(path, pa.ArrowException):
        if kind in DELIMITERS:
            arrow = read_delimited(path, kind, memory)
        elif kind == "arrow":
            arrow = _read_ipc(path, memory)
        else:
            arrow = _read_parquet(path, memory)
        names, notes = distinct(arrow.column_names)
        columns = dict(zip(names, map(plain, arrow.columns), strict=True))
    labels = None
    if label is not None:
        labels = _labels(path, columns.pop(names[find_label(path, label, names)]), memory)
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
    with reading(path):
        values = np.empty((arrow.num_rows, len(numeric)), np.result_type(*dtypes), order="F")
        for j, column in enumerate(numeric.values()):
            values[:, j] = column.to_numpy()
    return Table(values, list(numeric), labels, label, notes)


def _labels(path: Path, column: pa.ChunkedArray, memory: int) -> np.ndarray:
    """Return a column as labels; NumPy gives every text the room of the longest."""
    import pyarrow as pa
    from pyarrow import compute

    if is_numeric(column):
        return np.array(column.to_numpy())
    with reading(path, pa.ArrowException):
        packed = pa.types.is_dictionary(column.type)
        texts = column.unique() if packed else column
        longest = compute.max(compute.utf8_length(texts.cast(pa.string()))).as_py() or 0
        check_memory(path, "its labels", 8 * longest * len(column), memory)
        return np.array(column.cast(pa.string()).fill_null("").to_numpy(), dtype=str)


def _read_parquet(path: Path, memory: int) -> pa.Table:
    """Read batch by batch: a few bytes of a packed column stand for any number of rows."""
    import pyarrow as pa
    from pyarrow import parquet

    with path.open("rb") as stream:
        schema = parquet.ParquetFile(stream).schema_arrow
        texts = [field.name for field in schema if str(field.type) in ("string", "large_string")]
        stored = parquet.ParquetFile(stream, read_dictionary=texts)
        rows, columns = stored.metadata.num_rows, len(schema)
        _check_size(path, rows, columns, memory)
        batches, taken = [], 0
        for batch in stored.iter_batches(batch_size=_rows_at_once(columns)):
            batches.append(batch)
            taken += batch.nbytes
            check_memory(path, "the rows read so far", taken, memory)
        return pa.Table.from_batches(batches, schema=stored.schema_arrow)


def _read_ipc(path: Path, memory: int) -> pa.Table:
    """Read batch by batch, as the columns may be packed."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as stream:
        if stream.read(4) == b"FEA1":  # the first version of Feather, never packed
            from pyarrow import feather

            table = feather.read_table(str(path), memory_map=False)
            table.validate(full=True)
            return table
        stored = pa.ipc.open_file(stream)
        batches, taken = [], 0
        for number in range(stored.num_record_batches):
            batches.append(checked_batch(stored, number))
            taken += batches[-1].nbytes
            check_memory(path, "the rows read so far", taken, memory)
        table = pa.Table.from_batches(batches, schema=stored.schema)
    _check_size(path, table.num_rows, table.num_columns, memory)
    return table


def checked_batch(
    stored: pa.ipc.RecordBatchFileReader, number: int, names: list[str] | None = None
) -> pa.RecordBatch:
    """Return a batch of an Arrow file whose columns are as long as they say.

    Arrow itself believes the file, and would read what lies in memory behind shorter ones.

    Parameters
    ----------
    stored : pyarrow.ipc.RecordBatchFileReader
        The file.
    number : int
        Which batch.
    names : list of str or None
        Columns to take; None is all of them.
    """
    batch = stored.get_batch(number)
    batch = batch if names is None else batch.select(names)
    # Of numbers the sizes say all; of text, where each begins is believed too.
    batch.validate(full=not all(map(is_numeric, batch.columns)))
    return batch


def _check_size(path: Path, rows: int, columns: int, memory: int) -> None:
    what = f"{counted(rows, 'row')} of {counted(columns, 'column')}"
    check_memory(path, what, (CELL_BYTES * rows + NAME_BYTES) * columns, memory)


def _rows_at_once(columns: int) -> int:
    return max(1 << 10, (1 << 22) // max(columns, 1))


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
