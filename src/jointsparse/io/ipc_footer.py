"""How many rows the batches of an Arrow file have, from what the file says about them.

Arrow tells only once a batch, or some columns of it, have been read. The end of the file says where
each batch begins, and the head of a batch how many rows it has; both are tables of FlatBuffers: a
position of 32 bits leads to a table, which begins with the way back to a list of where its fields
are.
"""

from __future__ import annotations

from pathlib import Path
from struct import error as StructError  # noqa: N812 - it is a class
from struct import unpack_from
from typing import IO

_MAGIC = b"ARROW1"
_END = 4 + len(_MAGIC)  # bytes behind the footer: its length, and the magic number
_CONTINUED = 0xFFFFFFFF  # what heads of batches begin with since Arrow 0.15
_BATCHES, _BLOCK = 3, 24  # the field of the footer that lists batches; bytes of each entry
_HEADER, _ROWS = 2, 0  # the field of a message that is about the batch, and that of its length
_LONGEST_HEAD = 1 << 26  # bytes; that of a batch takes 50 for every column


class FooterError(ValueError):
    """An Arrow file whose description of itself cannot be read."""


def rows_of_batches(path: Path) -> list[int]:
    """Return how many rows the batches of an Arrow file have; no column is read."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            return [_rows(stream, *place, size) for place in _places(stream, size)]
    except (StructError, IndexError) as error:
        raise FooterError("where its batches are cannot be told") from error


def _places(stream: IO[bytes], size: int) -> list[tuple[int, int]]:
    """Return where the heads of the batches begin, and how long they are."""
    stream.seek(max(size - _END, 0))
    end = stream.read(_END)
    length = unpack_from("<i", end)[0]
    if not end.endswith(_MAGIC) or not 0 < length <= size - _END:
        raise FooterError("it has no footer")
    stream.seek(size - _END - length)
    footer = stream.read(length)
    batches = _field(footer, _root(footer), _BATCHES)
    if batches is None:
        return []
    at = _follow(footer, batches)
    count = unpack_from("<I", footer, at)[0]
    if count * _BLOCK > length:
        raise FooterError("it lists more batches than it has room for")
    return [unpack_from("<qi", footer, at + 4 + _BLOCK * number) for number in range(count)]


def _rows(stream: IO[bytes], place: int, length: int, size: int) -> int:
    if not 0 <= place < size or not 0 < length <= _LONGEST_HEAD:
        raise FooterError("a batch begins nowhere")
    stream.seek(place)
    head = stream.read(length)
    head = head[8 if unpack_from("<I", head)[0] == _CONTINUED else 4 :]
    batch = _field(head, _root(head), _HEADER)
    if batch is None:
        raise FooterError("a batch is none")
    rows = _field(head, _follow(head, batch), _ROWS)
    found = 0 if rows is None else int(unpack_from("<q", head, rows)[0])
    if found < 0:
        raise FooterError(f"a batch has {found} rows")
    return found


def _root(buffer: bytes) -> int:
    return _follow(buffer, 0)


def _follow(buffer: bytes, at: int) -> int:
    return at + int(unpack_from("<I", buffer, at)[0])


def _field(buffer: bytes, table: int, number: int) -> int | None:
    """Return where a field of a table is; None where it is left out."""
    fields = table - int(unpack_from("<i", buffer, table)[0])
    if fields < 0:  # which Python would count from the end
        raise FooterError("a table lies outside of it")
    if 4 + 2 * number >= unpack_from("<H", buffer, fields)[0]:
        return None
    offset = int(unpack_from("<H", buffer, fields + 4 + 2 * number)[0])
    return table + offset if offset else None
