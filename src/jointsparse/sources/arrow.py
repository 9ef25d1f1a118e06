"""Tables in files that Arrow reads batch by batch: Parquet, Arrow and delimited text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jointsparse.io.arrow import checked_batch, is_numeric, plain
from jointsparse.io.delimited import Header, read_header
from jointsparse.io.errors import listed, reading, shown, table_error
from jointsparse.io.formats import DELIMITERS, open_input
from jointsparse.io.limits import check_possible
from jointsparse.io.table import distinct, find_label
from jointsparse.io.versions import Versions
from jointsparse.sources.base import Block, Source
from jointsparse.text import counted

if TYPE_CHECKING:
    import pyarrow as pa

READ_BUFFER = 1 << 18  # bytes of each column of a Parquet file that are fetched at a time
TEXT_BLOCK = 1 << 24  # bytes of delimited text that are parsed at a time


class ArrowSource(Source):
    """One file, or several with the same columns, read one after the other.

    Parameters
    ----------
    files : sequence of Path
        Parquet, Arrow or delimited text, all of one kind.
    kind : str
        Which kind.
    name : str
        What messages call them.
    columns : sequence of str or None
        Columns to read; None is all that hold numbers.
    label : str or None
        Column to leave out, kept for :meth:`batches`.
    drop_text : bool
        Leave columns that are not numbers out instead of refusing them.
    """

    def __init__(
        self,
        files: Sequence[Path],
        kind: str,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        label: str | None = None,
        drop_text: bool = False,
    ) -> None:
        self.files = list(files)
        self.kind = kind
        self.name = name
        self.label = label
        self.notes: list[str] = []
        self._versions = Versions(self.files)
        schema = self._schema
        path = self.files[0]
        names = list(schema.names)
        if label is not None:
            find_label(path, label, names)
        if columns is not None:
            known = set(names)
            for column in columns:
                if column not in known:
                    find_label(path, column, names, wanted_for="columns")
            names = list(columns)
        names = [name for name in names if name != label]
        # Text tells the type of a column later; elsewhere this one stands for rows without a byte.
        empty = [name for name in names if str(schema.field(name).type) == "null"]
        if empty and kind not in DELIMITERS:
            count = f"{counted(len(empty), 'column')} without a single value ({listed(empty)})"
            raise table_error(path, f"has {count}; drop them in the file.")
        types = {name: _number_type(schema.field(name).type) for name in names}
        text = [name for name in names if types[name] is None]
        if text and not drop_text:
            raise table_error(
                name,
                f"has {_text_columns(text)}; leave them out with ",
                f"drop_text=True, or keep one aside with label={text[0][:60]!r}.",
                f"--drop-text, or keep one aside with --label {shown(text[0])}.",
            )
        if text:
            self.notes.append(f"dropped {_text_columns(text)}")
        names = [name for name in names if types[name] is not None]
        if not names:
            raise table_error(name, "has no numeric columns.")
        self.feature_names = np.array(names, dtype=object)
        self.n_features = len(names)
        self.dtype = np.result_type(*(types[name] for name in names))

    @cached_property
    def _headers(self) -> dict[Path, Header]:
        """Headers of delimited text, repeated names made distinct."""
        headers = {}
        for file in self.files:
            with reading(file):
                header = read_header(file, self.kind)
            names, notes = distinct(header.names)
            headers[file] = replace(header, names=names)
            self.notes.extend(note for note in notes if note not in self.notes)
        return headers

    @cached_property
    def _schema(self) -> pa.Schema:
        """Schema of the first file, for which all the others are checked."""
        schemas = [self._schema_of(file) for file in self.files]
        first = schemas[0]
        repeated = [name for name, count in Counter(first.names).items() if count > 1]
        if repeated:
            raise table_error(
                self.files[0], f"has several columns {shown(repeated[0])}; rename all but one."
            )
        for file, schema in zip(self.files, schemas, strict=True):
            if missing := sorted(set(first.names) - set(schema.names)):
                raise table_error(
                    file, f"has no column {listed(missing)}, unlike {self.files[0].name}."
                )
        return first

    def _schema_of(self, file: Path) -> pa.Schema:
        import pyarrow as pa
        from pyarrow import csv, parquet

        if self.kind in DELIMITERS:
            header = self._headers[file]
            if file != self.files[0]:
                return pa.schema([(name, pa.float64()) for name in header.names])
            with reading(file, pa.ArrowException), open_input(file) as stream:
                return csv.open_csv(stream, **header.options(TEXT_BLOCK)).schema
        with reading(file, pa.ArrowException):
            if self.kind == "parquet":
                return parquet.read_schema(file)
            with pa.OSFile(str(file)) as stream:
                return pa.ipc.open_file(stream).schema

    @cached_property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Number of rows; text files do not say."""
        import pyarrow as pa
        from pyarrow import dataset, parquet

        if self.kind in DELIMITERS:
            return None
        with reading(self.files[0], pa.ArrowException):
            if self.kind == "parquet":
                rows = sum(parquet.read_metadata(file).num_rows for file in self.files)
            else:
                rows = int(dataset.dataset(self.files, format="ipc").count_rows())
        check_possible(Path(self.name), (rows, self.n_features), self.dtype.itemsize)
        return rows

    @property
    def most_samples(self) -> int | None:
        """How many rows there are at most: in plain text, a number has two characters or more."""
        if self.n_samples is not None:
            return self.n_samples
        if any(file.suffix.lower() == ".gz" for file in self.files):
            return None
        try:
            characters = sum(file.stat().st_size for file in self.files)
        except OSError:  # gone since it was opened, as reading it says
            return None
        return characters // (2 * self.n_features) + len(self.files)

    def columns(self, indices: Any) -> Source:
        """Return the source of some columns; the others are not read at all."""
        assert self.feature_names is not None
        names = self.feature_names[indices].tolist()
        self._versions.check()
        if not names:  # of which only the number of rows is left to read
            return super().columns(indices)
        part = ArrowSource(self.files, self.kind, self.name, columns=names, label=self.label)
        part._versions = self._versions
        part.memory = self.memory
        return part

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield blocks of equal length, whatever the batches of the files are."""
        assert self.feature_names is not None
        rows = max(1, (entries or self.block_entries()) // self.n_features)
        block, filled, seen = self._empty(rows), 0, 0
        for batch in self.batches(self.feature_names.tolist(), rows):
            done, seen = 0, seen + batch.num_rows
            while done < batch.num_rows:
                part = batch.slice(done, rows - filled)
                block = _fill(block, filled, part)
                filled, done = filled + part.num_rows, done + part.num_rows
                if filled == rows:
                    yield block
                    block, filled = self._empty(rows), 0
        if filled:
            yield block[:filled]
        if self.n_samples not in (None, seen):
            raise table_error(
                self.name, f"is damaged: it says to have {self.n_samples} rows, and has {seen}."
            )

    def _empty(self, rows: int) -> Block:
        # By columns, as Arrow has them: filled without strides.
        return np.empty((rows, self.n_features), dtype=self.dtype, order="F")

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield Arrow batches of some columns (the label may be one), at most ``rows`` long."""
        import pyarrow as pa

        for file in self.files:
            # Each pass reads the same file as the first: what was found in one holds in the other.
            self._versions.check(file)
            batches = self._batches_of(file, list(names), rows)
            while True:
                with reading(file, pa.ArrowException):
                    batch = next(batches, None)
                if batch is None:
                    break
                yield batch.select(list(names))
            self._versions.check(file)

    def _batches_of(self, file: Path, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import csv, parquet

        if self.kind == "parquet":
            # Without buffers a whole column of a row group would be fetched at once.
            with parquet.ParquetFile(file, buffer_size=READ_BUFFER, pre_buffer=False) as stored:
                yield from stored.iter_batches(batch_size=rows, columns=names)
        elif self.kind == "arrow":
            with pa.OSFile(str(file)) as stream:
                stored = pa.ipc.open_file(stream)
                for number in range(stored.num_record_batches):
                    yield checked_batch(stored, number, names)
        else:
            options = self._headers[file].options(TEXT_BLOCK)
            converting = options["convert_options"]
            converting.include_columns = names
            converting.column_types = {name: self._text_type(name) for name in names}
            # One thread is slower but counts the rows, so that its errors say which one is wrong.
            options["read_options"].use_threads = file.stat().st_size > 1 << 24
            with open_input(file) as stream, csv.open_csv(stream, **options) as batches:
                yield from batches

    def _text_type(self, name: str) -> pa.DataType:
        """Return the type as which a column of delimited text is read, in every file."""
        import pyarrow as pa

        if name == self.label:
            return pa.string()
        # Whatever the first rows look like: integers may become fractions further down.
        logical = pa.types.is_boolean(self._schema.field(name).type)
        return pa.bool_() if logical else pa.float64()


def _fill(block: Block, filled: int, part: pa.RecordBatch) -> Block:
    """Copy a batch below the rows that are filled; integers with holes make the block float64."""
    for j, column in enumerate(part.columns):
        values = plain(column).to_numpy(zero_copy_only=False)
        if values.dtype.kind == "f" and block.dtype.kind != "f":
            block = block.astype(np.float64)
        block[filled : filled + len(values), j] = values
    return block


def _number_type(type_: pa.DataType) -> Any:
    """Return the NumPy type of a column, None where it holds no numbers."""
    import pyarrow as pa

    empty = plain(pa.array([], type_))
    return empty.type.to_pandas_dtype() if is_numeric(empty) else None


def _text_columns(names: Sequence[str]) -> str:
    return f"{counted(len(names), 'text column')}: {listed(names)}"
