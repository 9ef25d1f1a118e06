"""Samples written block by block: files that appear whole or not at all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from jointsparse.io import StrPath, atomic_path, check_writable_format
from jointsparse.io.columns.roles import is_number
from jointsparse.io.errors import table_error
from jointsparse.io.formats import DELIMITERS, formula_safe, kind_of, open_output
from jointsparse.sources.base import Block, Source
from jointsparse.sources.files.arrow import ArrowSource

if TYPE_CHECKING:
    import pyarrow as pa


def write_source(path: StrPath, source: Source, beside: Source | None = None) -> None:
    """Write all samples, never more than a block of them in memory.

    Parameters
    ----------
    path : path-like
        A Parquet, Arrow, CSV or TSV (also .gz) file, or .npy where the number of rows is known.
    source : Source
        Samples; columns without a name are called x1, x2, ….
    beside : Source or None
        Where IDs and labels come from, which are written before and behind the samples, except to
        .npy; None is the same source.
    """
    check_streamed_format(path)
    if kind_of(Path(path)) == "npy":
        _write_npy(path, source)
        return
    names = source.feature_names
    if names is None:
        width = len(str(source.n_features))
        names = np.array([f"x{j:0{width}d}" for j in range(1, source.n_features + 1)])
    beside = beside or source
    before = {name: beside.aside(name) for name in beside.ids}
    behind = {name: beside.aside(name) for name in beside.labels}
    _write_batches(path, _with_aside(source, names, before, behind))


def _with_aside(
    source: Source, names: Any, before: dict[str, Any], behind: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Yield the samples with what goes along with them."""
    import pyarrow as pa

    start = 0
    every = [*before, *names, *behind]
    for block in source.blocks():
        part = slice(start, start + block.shape[0])
        dense = block if isinstance(block, np.ndarray) else block.toarray()  # one block
        columns = [pa.array(column[part]) for column in before.values()]
        columns += [pa.array(np.ascontiguousarray(column)) for column in dense.T]
        columns += [pa.array(column[part]) for column in behind.values()]
        yield pa.RecordBatch.from_arrays(columns, names=every)
        start = part.stop


def write_columns(
    path: StrPath,
    table: ArrowSource,
    columns: Sequence[str],
    change: Callable[[Block], Block] | None = None,
) -> None:
    """Write some columns of a table as they are in its files, between its IDs and its labels.

    Parameters
    ----------
    path : path-like
        A Parquet, Arrow, CSV or TSV (also .gz) file.
    table : ArrowSource
        The table.
    columns : sequence of str
        Names of the columns.
    change : callable or None
        What is done to the values first, block by block, such as filling what is missing.
    """
    check_streamed_format(path)
    rows = max(1, table.block_entries() // table.n_features)
    batches = table.batches([*table.ids, *columns, *table.labels], rows)
    if change is not None:
        part = slice(len(table.ids), len(table.ids) + len(columns))
        batches = (_changed(batch, part, change) for batch in batches)
    _write_batches(path, batches)


def check_streamed_format(path: StrPath) -> None:
    """Raise `TableError` early if samples cannot be written to `path` block by block."""
    check_writable_format(path)
    kind = kind_of(Path(path))
    if kind in ("npz", "mtx") or (kind == "npy" and str(path).lower().endswith(".gz")):
        raise table_error(
            path,
            "cannot be written in blocks; write .parquet, .arrow, .csv or .tsv instead.",
        )


def _changed(
    batch: pa.RecordBatch, part: slice, change: Callable[[Block], Block]
) -> pa.RecordBatch:
    """Return a batch with some of its columns changed where they are missing."""
    import pyarrow as pa

    values = [column.to_numpy(zero_copy_only=False) for column in batch.columns[part]]
    changed = change(np.stack([column.astype(np.float64) for column in values], axis=1))
    columns = list(batch.columns)
    columns[part] = [
        pa.array(new) if old.null_count or (is_number(old) and np.isnan(value).any()) else old
        for new, old, value in zip(changed.T, batch.columns[part], values, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _write_batches(path: StrPath, batches: Iterator[pa.RecordBatch]) -> None:
    first = next(batches, None)
    if first is None:
        raise table_error(path, "was not written: there are no rows.")
    kind = kind_of(Path(path))
    with atomic_path(path) as temporary, open_output(temporary) as stream:
        guarded = _guarded if kind in DELIMITERS else _as_it_is
        first = guarded(first)
        with _writer(stream, kind, first.schema) as writer:
            for batch in itertools.chain([first], map(guarded, batches)):
                writer.write_batch(batch.cast(first.schema))


def _writer(stream: BinaryIO, kind: str, schema: pa.Schema) -> Any:
    import pyarrow as pa
    from pyarrow import csv, parquet

    if kind == "parquet":
        return parquet.ParquetWriter(stream, schema)
    if kind == "arrow":
        return pa.ipc.new_file(stream, schema)
    options = csv.WriteOptions(delimiter=DELIMITERS[kind][0])
    return csv.CSVWriter(stream, schema, write_options=options)


def _as_it_is(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def _guarded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Put an apostrophe before text that a spreadsheet would run as a formula."""
    import pyarrow as pa

    columns = []
    for column in batch.columns:
        if not is_number(column) and pa.types.is_string(column.type):
            cells = (cell.as_py() for cell in column)
            column = pa.array(
                [None if cell is None else formula_safe(cell) for cell in cells], pa.string()
            )
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=list(map(formula_safe, batch.schema.names)))


def _write_npy(path: StrPath, source: Source) -> None:
    if source.n_samples is None:
        raise table_error(
            path,
            "cannot be written in blocks, as it begins with the number of rows; "
            "write .parquet, .arrow or .csv instead.",
        )
    shape = (source.n_samples, source.n_features)
    with atomic_path(path) as temporary:
        values = np.lib.format.open_memmap(temporary, mode="w+", dtype=source.dtype, shape=shape)
        start = 0
        for block in source.blocks():
            dense = block if isinstance(block, np.ndarray) else block.toarray()
            values[start : start + len(dense)] = dense
            start += len(dense)
        values.flush()
