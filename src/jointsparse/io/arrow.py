"""Tables that Arrow reads and writes: delimited text, Parquet, Arrow."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from jointsparse.io.columns.layout import Layout
from jointsparse.io.columns.onehot import indicators
from jointsparse.io.columns.roles import Columns, assign_roles, is_number, no_features
from jointsparse.io.errors import listed, reading
from jointsparse.io.formats import DELIMITERS, formula_safe
from jointsparse.io.limits import CELL_BYTES, NAME_BYTES, check_memory
from jointsparse.io.plain_text.delimited import read_delimited, read_header
from jointsparse.io.plain_text.numerals import numbers_in
from jointsparse.io.plain_text.wide import WIDE, WideColumns, read_wide
from jointsparse.io.table import Table, check_shape, distinct
from jointsparse.text import counted

if TYPE_CHECKING:
    import pyarrow as pa


def plain(column: pa.ChunkedArray, decimal: str = ".") -> pa.ChunkedArray:
    """Return an Arrow column as numbers that NumPy takes over, or as it is.

    Text is numbers where every cell is one, however it is written.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        if not is_number(pa.array([], column.type.value_type)):
            numbers = _packed_numbers(column, decimal)
            return column if numbers is None else numbers  # repeated text stays small this way
        column = column.cast(column.type.value_type)
    kind = str(column.type)
    if kind.startswith(("null", "decimal", "halffloat")):
        return column.cast(pa.float64())
    if kind.startswith(("string", "large_string")):
        numbers = numbers_in(column, decimal)
        return column.cast(pa.string()) if numbers is None else numbers
    return column.cast(pa.uint8()) if kind == "bool" else column


def _packed_numbers(column: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray | None:
    """Return text that is stored once for all its repetitions as numbers; None where it is none."""
    import pyarrow as pa

    if not str(column.type).startswith(("dictionary<values=string", "dictionary<values=large")):
        return None
    chunks, any_value = [], False
    for chunk in getattr(column, "chunks", [column]):
        if chunk.null_count == len(chunk):
            chunks.append(pa.nulls(len(chunk), pa.float64()))
            continue
        numbers = numbers_in(pa.chunked_array([chunk.dictionary]), decimal)
        if numbers is None:
            return None
        any_value = True
        chunks.append(numbers.combine_chunks().take(chunk.indices))
    return pa.chunked_array(chunks, pa.float64()) if any_value else None


def read_arrow(
    path: Path, kind: str, layout: Layout, memory: int, *, keep_empty: bool = False
) -> Table:
    """Read delimited text, a spreadsheet, Parquet or Arrow."""
    import pyarrow as pa

    with reading(path, pa.ArrowException):
        columns, n_rows, notes = _columns(path, kind, layout, memory)
    check_shape(path, n_rows, len(columns))
    roles = assign_roles(path, columns, layout, keep_empty=keep_empty)
    notes += roles.notes
    groups = {name: indicators(name, columns[name]) for name in roles.categories}
    if not roles.features and not groups:
        raise no_features(path, columns, layout)
    if isinstance(columns, WideColumns) and not groups:
        values = columns.matrix(roles.features)
    else:
        features = {name: columns[name] for name in roles.features}
        values = _matrix(path, n_rows, features, groups)
    every = [*roles.features, *(made for group in groups.values() for made in group)]
    if groups:
        every, again = distinct(every)
        notes.append(f"made columns of 0 and 1 of {listed(list(groups))}")
        notes += again
    carried = {name: _labels(path, columns[name], memory) for name in (*roles.ids, *roles.labels)}
    labels = [carried[name] for name in roles.labels]
    return Table(
        values,
        every,
        labels[0] if labels else None,
        layout.label,
        notes,
        {name: carried[name] for name in roles.ids},
        dict(zip(roles.labels[1:], labels[1:], strict=True)),
        {name: list(group) for name, group in groups.items()},
    )


def _columns(path: Path, kind: str, layout: Layout, memory: int) -> tuple[Columns, int, list[str]]:
    """Return the columns of a table by their names, the number of rows, and notes."""
    notes: list[str] = []
    decimal = layout.decimal or "."
    if kind in DELIMITERS:
        header = read_header(path, kind, layout, memory)
        if len(header.names) >= WIDE:
            names, renamed = distinct(header.names)
            wide = read_wide(path, header, names, memory, partial(plain, decimal=header.decimal))
            return wide, len(wide.numbers), [*header.notes, *renamed]
        arrow = read_delimited(path, header, memory)
        notes, decimal = list(header.notes), header.decimal
    elif kind == "arrow":
        arrow = _read_ipc(path, memory)
    else:
        arrow = _read_parquet(path, memory)
    names, renamed = distinct(arrow.column_names)
    columns = dict(zip(names, (plain(c, decimal) for c in arrow.columns), strict=True))
    return columns, arrow.num_rows, [*notes, *renamed]


def _matrix(
    path: Path,
    rows: int,
    features: dict[str, pa.ChunkedArray],
    groups: dict[str, dict[str, np.ndarray]],
) -> np.ndarray:
    """Return the columns side by side, as numbers."""
    # The narrowest type that holds every column; an integer column with holes needs NaN.
    dtypes = {column.type.to_pandas_dtype() for column in features.values()}
    dtypes |= {np.float64 for c in features.values() if c.null_count and "int" in str(c.type)}
    made = [column for group in groups.values() for column in group.values()]
    with reading(path):
        dtype = np.result_type(*(dtypes or {np.uint8}))
        values = np.empty((rows, len(features) + len(made)), dtype, order="F")
        for j, column in enumerate(features.values()):
            values[:, j] = column.to_numpy()
        for j, indicator in enumerate(made, start=len(features)):
            values[:, j] = indicator
    return values


def _labels(path: Path, column: pa.ChunkedArray, memory: int) -> np.ndarray:
    """Return a column as labels; NumPy gives every text the room of the longest."""
    import pyarrow as pa
    from pyarrow import compute

    if is_number(column):
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
    batch.validate(full=not all(map(is_number, batch.columns)))
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

    def carried(values: np.ndarray) -> pa.Array:
        return pa.array(list(map(guard, values)) if values.dtype.kind == "U" else values)

    columns = [*map(carried, table.ids.values())]
    columns += [pa.array(table.values[:, j]) for j in range(len(table.names))]
    columns += map(carried, table.all_labels.values())
    names = [*table.ids, *table.names, *table.all_labels]
    arrow = pa.table(columns, names=list(map(guard, names)))
    if kind == "parquet":
        parquet.write_table(arrow, stream)
    elif kind == "arrow":
        feather.write_feather(arrow, stream)
    else:
        arrow_csv.write_csv(arrow, stream, arrow_csv.WriteOptions(delimiter=DELIMITERS[kind][0]))
