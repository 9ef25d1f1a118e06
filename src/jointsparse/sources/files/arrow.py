"""Tables in files that Arrow reads batch by batch: Parquet, Arrow and delimited text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.io.arrow import plain
from jointsparse.io.columns.layout import Layout
from jointsparse.io.columns.roles import assign_roles, find_column, is_number
from jointsparse.io.errors import TableError, listed, reading, shown, table_error
from jointsparse.io.formats import DELIMITERS
from jointsparse.io.ipc_footer import rows_of_batches
from jointsparse.io.limits import UNCOUNTED, check_memory, check_possible
from jointsparse.io.parquet_pages import check_description, description_bytes, open_pages
from jointsparse.io.plain_text.delimited import Header, read_header
from jointsparse.io.plain_text.numerals import is_numeral, numbers_in
from jointsparse.io.plain_text.pieces import bad_cell, parsed, pieces
from jointsparse.io.table import distinct
from jointsparse.io.versions import Versions
from jointsparse.sources.base import Block, Source
from jointsparse.sources.files.ipc import ipc_batches, ipc_bytes
from jointsparse.sources.refusals import check_at_once
from jointsparse.text import counted

if TYPE_CHECKING:
    import pyarrow as pa

READ_BUFFER = 1 << 16  # bytes of each column of a Parquet file that are fetched at a time
# Bytes of delimited text that are parsed at a time: a share of the memory, within limits.
TEXT_SHARE, LEAST_TEXT, TEXT_BLOCK = 128, 1 << 16, 1 << 22
TEXT_COPIES = 12  # of a piece of text: as text, where its cells begin, and as numbers
TEXT_COLUMN = 9000  # bytes that Arrow takes for every column of text, however short
# What Arrow's allocator holds for every thread that reads (5.3 MB measured with 8 threads, of text
# and of Parquet), and the parts of the memory of which all threads may take one.
THREAD_BYTES, THREADS_SHARE = 6 << 20, 4
WIDE_SHARE = 4  # parts of the memory, of which columns of text may take one
BATCH_SHARE = 8  # parts of the memory, of which a batch of an Arrow file may take one
# First rows by which columns are told apart, fewer of wide tables.
SAMPLE_ROWS, SAMPLE_ENTRIES = 4096, 1 << 20


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
    layout : Layout or None
        Which columns are no features, and how text is written.
    memory : int or None
        Bytes that a computation may take; None is half of what is free.
    """

    def __init__(
        self,
        files: Sequence[Path],
        kind: str,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        layout: Layout | None = None,
        memory: int | None = None,
    ) -> None:
        self.files = list(files)
        self.kind = kind
        self.name = name
        self.layout = layout or Layout()
        self.notes: list[str] = []
        self.memory = memory
        at_once = {"parquet": "open pages", "arrow": "columns of a batch"}
        self.read_at_once = at_once.get(kind, "rows and columns of text")
        self._versions = Versions(self.files)
        for file in self.files:
            if kind == "parquet":
                check_description(file, self.budget)
            elif kind in DELIMITERS:
                _check_width(file, len(self._headers[file].names), self.budget)
        schema = self._schema
        path = self.files[0]
        if columns is not None:
            for column in columns:
                find_column(path, column, schema.names, "columns")
            others = (set(schema.names) - set(columns)) - set(self.layout.carried)
            free = [name for name in schema.names if name not in others]
            layout = replace(self.layout, find_ids=False, drop=(), only=())
        else:
            free, layout = list(schema.names), self.layout
        free = self._without_empty(free)
        if kind not in DELIMITERS:  # of which the first rows take as much as all
            check_at_once(name, self.read_at_once, self._taken(free), self.budget)
        sample, whole = self._sample(free)
        self._numerals = {
            name for name in free if is_number(sample[name]) and _is_text(schema.field(name).type)
        }
        roles = assign_roles(Path(name), sample, layout, whole=whole)
        self.notes += roles.notes
        names = roles.features
        if columns is not None:
            names = [name for name in dict.fromkeys(columns) if name in set(names)]
        if not names:
            raise table_error(name, "has no numeric columns.")
        self.ids, self.labels = tuple(roles.ids), tuple(roles.labels)
        self._types = {name: sample[name].type.to_pandas_dtype() for name in names}
        self.__dict__.pop("_first_text", None)  # of no more use
        self._take(names)

    def _without_empty(self, names: list[str]) -> list[str]:
        """Leave out columns whose type says that there is no value; text tells the type later."""
        types = {name: str(self._schema.field(name).type) for name in names}
        empty = [name for name in names if types[name] == "null"]
        if not empty or self.kind in DELIMITERS:
            return names
        self.notes.append(f"left out {counted(len(empty), 'empty column')}: {listed(empty)}")
        return [name for name in names if name not in set(empty)]

    def _take(self, names: list[str]) -> None:
        """Read these features from now on."""
        self.feature_names = np.array(names, dtype=object)
        self.n_features = len(names)
        self.__dict__.pop("reading_bytes", None)  # of other features
        self.dtype = np.result_type(*(self._types[name] for name in names))

    def _sample(self, names: list[str]) -> tuple[dict[str, pa.ChunkedArray], bool]:
        """Return the first rows of some columns, and whether there are no more."""
        import pyarrow as pa

        file = self.files[0]
        rows = max(2, min(SAMPLE_ROWS, SAMPLE_ENTRIES // max(1, len(names))))
        schema = self._schema
        with reading(file, pa.ArrowException):
            if self.kind in DELIMITERS:
                first, more = self._first_text
                whole = len(self.files) == 1 and not more
            else:
                first, whole = next(self._batches_of(file, names, rows), None), False
            if first is None:
                first = pa.RecordBatch.from_pylist([], schema=schema)
            first = first.select(names)
            part = first if whole else first.slice(0, rows)
            found = part if isinstance(part, pa.Table) else pa.Table.from_batches([part])
            decimal = self._headers[file].decimal if self.kind in DELIMITERS else "."
            return {n: plain(c, decimal) for n, c in zip(names, found.columns, strict=True)}, whole

    @cached_property
    def _headers(self) -> dict[Path, Header]:
        """Headers of delimited text, repeated names made distinct."""
        headers = {}
        for file in self.files:
            with reading(file):
                header = read_header(file, self.kind, self.layout)
            names, notes = distinct(header.names)
            headers[file] = replace(header, names=names)
            notes = [*header.notes, *notes]
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
        from pyarrow import parquet

        if self.kind in DELIMITERS:
            header = self._headers[file]
            if file != self.files[0]:
                return pa.schema([(name, pa.float64()) for name in header.names])
            return self._first_text[0].schema
        with reading(file, pa.ArrowException):
            if self.kind == "parquet":
                schema = parquet.read_schema(file)
            else:
                with pa.OSFile(str(file)) as stream:
                    schema = pa.ipc.open_file(stream).schema
            schema.names  # noqa: B018 - decoded here, where damage is told in a sentence
            return schema

    @cached_property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Number of rows; text files do not say."""
        import pyarrow as pa
        from pyarrow import parquet

        if self.kind in DELIMITERS:
            return None
        with reading(self.files[0], pa.ArrowException):
            if self.kind == "parquet":
                rows = sum(parquet.read_metadata(file).num_rows for file in self.files)
            else:
                rows = sum(map(sum, self._batch_rows.values()))
        check_possible(Path(self.name), (rows, self.n_features), self.dtype.itemsize)
        return rows

    @cached_property
    def _batch_rows(self) -> dict[Path, list[int]]:
        """How many rows the batches of Arrow files have."""
        import pyarrow as pa

        found = {}
        for file in self.files:
            with reading(file, pa.ArrowException):
                found[file] = rows_of_batches(file)
        return found

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
        part = copy(self)
        part._take(names)
        return part

    def aside(self, name: str) -> NDArray[Any]:
        """Return a column that goes along with the samples."""
        values = [
            batch.column(0).to_numpy(zero_copy_only=False)
            for batch in self.batches([name], 1 << 16)
        ]
        joined = np.concatenate(values)
        if joined.dtype.kind in "biuf":
            return joined
        return np.array(["" if cell is None else str(cell) for cell in joined], dtype=str)

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield blocks of equal length, whatever the batches of the files are."""
        assert self.feature_names is not None
        rows = max(1, (entries or self.block_entries()) // self.n_features)
        block, filled, seen = self._empty(rows), 0, 0
        for batch in self.batches(self.feature_names.tolist(), rows):
            done, count = 0, batch.num_rows
            while done < count:
                more = min(rows - filled, count - done)
                block = _fill(block, filled, batch.slice(done, more))
                filled, done = filled + more, done + more
                if filled == rows:
                    yield block
                    block, filled = self._empty(rows), 0
            seen += count
            del batch  # which would stay in memory while the next one is read
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
            batches, seen = self._batches_of(file, list(names), rows), 0
            while True:
                try:
                    with reading(file, pa.ArrowException):
                        batch = next(batches, None)
                except TableError:
                    self._versions.check(file)  # that it changed is then the reason
                    raise
                if batch is None:
                    break
                count = batch.num_rows
                batch = self._numbers(file, batch.select(list(names)), seen)
                yield batch
                seen += count
                del batch  # which would stay in memory while the next one is read
            self._versions.check(file)

    def _batches_of(self, file: Path, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        from pyarrow import parquet

        if self.kind == "parquet":
            # Without buffers a whole column of a row group would be fetched at once.
            with parquet.ParquetFile(file, buffer_size=READ_BUFFER, pre_buffer=False) as stored:
                yield from stored.iter_batches(
                    batch_size=rows, columns=names, use_threads=self._threads
                )
        elif self.kind == "arrow":
            most = self.budget // BATCH_SHARE
            yield from ipc_batches(file, names, rows, most, self._batch_rows[file])
        else:
            types = {name: self._text_type(name) for name in names}
            header, seen = self._headers[file], 0
            for piece in self._pieces(file):
                table = parsed(file, header, piece, seen, types, threads=self._threads)
                for batch in table.combine_chunks().to_batches():
                    yield batch
                    seen += batch.num_rows

    def _pieces(self, file: Path) -> Iterator[bytes]:
        """Yield delimited text without the names, some whole rows at a time."""
        header = self._headers[file]
        with header.open(file) as stream:
            most = max(self.budget // 2, UNCOUNTED)
            yield from pieces(file, stream, header.lines, self._text_bytes, most)

    @property
    def _threads(self) -> bool:
        """Whether there is room for what Arrow holds for every thread that reads."""
        import pyarrow as pa

        return THREAD_BYTES * pa.cpu_count() <= self.budget // THREADS_SHARE

    @property
    def _text_bytes(self) -> int:
        return min(max(self.budget // TEXT_SHARE, LEAST_TEXT), TEXT_BLOCK)

    @cached_property
    def _first_text(self) -> tuple[pa.Table, bool]:
        """The first piece of delimited text, as what it seems to be, and whether more follows."""
        file = self.files[0]
        header = self._headers[file]
        found = self._pieces(file)
        first = next(found, b"")
        table = parsed(file, header, first, 0, threads=self._threads)
        return table, next(found, None) is not None

    def _taken(self, names: list[str]) -> int:
        """Return the bytes that reading some columns of Parquet or Arrow files takes."""
        taken = self._batch_bytes(names) if self.kind == "arrow" else self._page_bytes(names)
        return max(taken - UNCOUNTED, 0)

    def _page_bytes(self, names: list[str]) -> int:
        """Return those of the pages that are open while Parquet is read, and of the description."""
        import pyarrow as pa
        from pyarrow import parquet

        most = 0
        for file in self.files:
            with reading(file, pa.ArrowException):
                described = parquet.read_metadata(file)
                pages = open_pages(file, described, names, READ_BUFFER)
            most = max(most, pages + 2 * description_bytes(file))
        return most

    def _batch_bytes(self, names: list[str]) -> int:
        """Return those of batches, or of columns of a batch."""
        longest = max(max(rows, default=0) for rows in self._batch_rows.values())
        return ipc_bytes(self._schema, names, longest, self.budget // BATCH_SHARE)

    @cached_property
    def reading_bytes(self) -> int:
        """Bytes that reading takes beside the blocks."""
        if self.kind not in DELIMITERS:
            assert self.feature_names is not None
            return self._taken(self.feature_names.tolist())
        taken = TEXT_COPIES * self._text_bytes + TEXT_COLUMN * len(self._schema.names)
        return max(taken - UNCOUNTED, 0)

    def _numbers(self, file: Path, batch: pa.RecordBatch, seen: int) -> pa.RecordBatch:
        """Return a batch, behind some rows; text that is numbers in other writing is numbers."""
        import pyarrow as pa

        written = self._numerals.intersection(batch.schema.names) - {*self.ids, *self.labels}
        if not written:
            return batch
        decimal = self._headers[file].decimal if self.kind in DELIMITERS else "."
        columns = list(batch.columns)
        for place, name in enumerate(batch.schema.names):
            if name in written:
                found = numbers_in(pa.chunked_array([columns[place]]), decimal)
                if found is None and columns[place].null_count < len(batch):
                    raise _no_number(file, name, columns[place], decimal, seen)
                empty = pa.nulls(len(batch), pa.float64())
                columns[place] = empty if found is None else found.combine_chunks()
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def _text_type(self, name: str) -> pa.DataType:
        """Return the type as which a column of delimited text is read, in every file."""
        import pyarrow as pa

        if name in self.ids or name in self.labels or name in self._numerals:
            return pa.string()
        # Whatever the first rows look like: integers may become fractions further down.
        logical = pa.types.is_boolean(self._schema.field(name).type)
        return pa.bool_() if logical else pa.float64()


def too_wide(n_columns: int, budget: int) -> bool:
    """Whether a text has too many columns to be read in blocks within some memory."""
    needed = TEXT_COLUMN * n_columns
    return needed > UNCOUNTED and needed > budget // WIDE_SHARE


def _check_width(file: Path, n_columns: int, budget: int) -> None:
    if too_wide(n_columns, budget):
        needed, what = TEXT_COLUMN * n_columns, f"{n_columns} columns of text, read in blocks,"
        check_memory(file, what, needed, budget // WIDE_SHARE, WIDE_SHARE * needed)


def _fill(block: Block, filled: int, part: pa.RecordBatch) -> Block:
    """Copy a batch below the rows that are filled; integers with holes make the block float64."""
    for j, column in enumerate(part.columns):
        values = plain(column).to_numpy(zero_copy_only=False)
        if values.dtype.kind == "f" and block.dtype.kind != "f":
            block = block.astype(np.float64)
        block[filled : filled + len(values), j] = values
    return block


def _is_text(type_: pa.DataType) -> bool:
    return str(type_) in ("string", "large_string")


def _no_number(file: Path, name: str, column: pa.Array, decimal: str, seen: int) -> TableError:
    """Say which cell of a column of numbers in other writing is none."""
    cells = ((row, cell.as_py()) for row, cell in enumerate(column, start=seen + 1))
    row, cell = next((r, c) for r, c in cells if c is not None and not is_numeral(c, decimal))
    return bad_cell(file, cell, row, name)
