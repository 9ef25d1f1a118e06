"""Arrow files, in batches that fit: a batch that is too large is read some columns at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jointsparse.io.arrow import checked_batch

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT_BYTES = 64  # of a cell that is no number, about
POOL_COPIES = 3  # of what is unpacked at a time: packed, unpacked, and kept by the memory pool


def ipc_batches(
    file: Path, names: list[str], rows: int, most: int, lengths: list[int]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow file.

    A stored batch can only be unpacked whole, but column by column. One that is larger than
    allowed is passed over again for every run of rows that is made of it.

    Parameters
    ----------
    file : Path
        The file.
    names : list of str
        Columns to take.
    rows : int
        How many rows of a large batch to take at a time, or more.
    most : int
        Bytes of a batch that may be in memory, once as it is stored and once as rows of it.
    lengths : list of int
        How many rows its batches have.
    """
    import pyarrow as pa

    if not names:
        return
    with pa.OSFile(str(file)) as stream:
        every = _reader(stream, names)
        width = sum(_bytes(field.type) for field in every.schema)
        for number, length in enumerate(lengths):
            if length * width <= most:
                yield checked_batch(every, number, names)
                continue
            groups = [
                _reader(stream, group)
                for group in _groups(every.schema, names, most // (2 * length))
            ]
            at_once = max(rows, most // width)
            for start in range(0, length, at_once):
                parts = [part for group in groups for part in _rows(group, number, start, at_once)]
                yield pa.RecordBatch.from_arrays(parts, names=names)
                del parts  # which are in a block now, while the next ones are read


def ipc_bytes(schema: Any, names: list[str], length: int, most: int) -> int:
    """Return what :func:`ipc_batches` takes for batches of so many rows, at most.

    A batch, or some columns of it, packed and unpacked, with what the memory pool keeps of the
    ones before; and the rows that are made of these, twice.
    """
    sizes = [length * _bytes(schema.field(name).type) for name in names]
    if sum(sizes) <= most:
        return POOL_COPIES * sum(sizes)
    return POOL_COPIES * max(most // 2, *sizes) + 2 * most


def _reader(stream: Any, names: list[str]) -> Any:
    """Return what reads some columns of a file, and nothing of the others."""
    import pyarrow as pa

    schema = pa.ipc.open_file(stream).schema
    places = [schema.get_field_index(name) for name in names]
    # Every thread would keep some memory of its own.
    options = pa.ipc.IpcReadOptions(included_fields=places, use_threads=False)
    return pa.ipc.open_file(stream, options=options)


def _groups(schema: Any, names: list[str], most: int) -> Iterator[list[str]]:
    """Yield runs of columns whose cells in one row take no more than so many bytes, or one."""
    group, size = list[str](), 0
    for name in names:
        more = _bytes(schema.field(name).type)
        if group and size + more > most:
            yield group
            group, size = [], 0
        group, size = [*group, name], size + more
    yield group


def _bytes(type_: Any) -> int:
    try:
        return max(1, int(type_.bit_width) // 8)
    except ValueError:
        return _TEXT_BYTES


def _rows(group: Any, number: int, start: int, count: int) -> list[Any]:
    """Return some rows of a batch, which do not keep the others in memory."""
    import pyarrow as pa

    batch = checked_batch(group, number, group.schema.names)
    columns = [column.slice(start, count) for column in batch.columns]
    copies = [pa.concat_arrays([column, column.slice(0, 0)]) for column in columns]
    del batch, columns
    # What is freed stays with the thread that read it, and others would take more.
    pa.default_memory_pool().release_unused()
    return copies
