"""What reading a Parquet file takes beside the rows themselves: its description, and open pages.

Every column that is read has a page open, unpacked and packed, and its dictionary. The description
at the end of the file does not tell how large pages are; the head of each page does, in the compact
encoding of Thrift.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from jointsparse.io.errors import reading
from jointsparse.io.limits import UNCOUNTED, check_memory

DESCRIPTION_COPIES = 10  # of the description as it is stored, while it is in memory: measured 9
USUAL_PAGE = 1 << 20  # bytes up to which writers fill a page that is not the first
_HEAD = 32  # bytes of a page's head in which its sizes are
_INTEGER = 0x15  # a field of 32 bits whose number is one above that of the last


def description_bytes(path: Path) -> int:
    """Return what the description of a file takes in memory, about; 0 where it has none."""
    with reading(path), path.open("rb") as stream:
        size = stream.seek(0, 2)
        if size < 12:
            return 0
        stream.seek(size - 8)
        stored = int.from_bytes(stream.read(4), "little")
    return DESCRIPTION_COPIES * min(stored, size)


def check_description(path: Path, memory: int) -> None:
    """Refuse a file of which the description alone takes more than the memory."""
    needed = description_bytes(path)
    if needed > UNCOUNTED:
        check_memory(path, "the descriptions of its row groups", needed, memory, 5 * needed)


def open_pages(path: Path, metadata: Any, names: Sequence[str], buffer: int) -> int:
    """Return the bytes of the pages that are open at a time while some columns are read.

    Parameters
    ----------
    path : Path
        The file.
    metadata : pyarrow.parquet.FileMetaData
        Its description.
    names : sequence of str
        Columns.
    buffer : int
        Bytes of each that are fetched at a time.
    """
    if metadata.num_row_groups == 0:
        return 0
    groups = range(metadata.num_row_groups)
    largest = max(groups, key=lambda g: metadata.row_group(g).total_byte_size)
    group, wanted, total = metadata.row_group(largest), set(names), 0
    with reading(path), path.open("rb") as stream:
        for number in range(metadata.num_columns):
            column = group.column(number)
            if column.path_in_schema.partition(".")[0] not in wanted:
                continue
            stored, unpacked = column.total_compressed_size, column.total_uncompressed_size
            page, values = _page(stream, column.data_page_offset)
            if column.has_dictionary_page:
                # Once the dictionary is full, pages hold the values themselves.
                page = max(page, min(USUAL_PAGE, 8 * values))
                total += 2 * min(unpacked, _page(stream, column.dictionary_page_offset)[0])
            total += min(page, unpacked) + min(page, stored) + min(buffer, stored)
    return total


def _page(stream: IO[bytes], offset: int | None) -> tuple[int, int]:
    """Return the size of a page when it is unpacked, and how many values it holds.

    A head that cannot be read is that of a page of the usual size.
    """
    if offset is None:
        return USUAL_PAGE, USUAL_PAGE
    stream.seek(offset)
    head = stream.read(_HEAD)
    numbers, at = _integers(head, 0)  # kind, size, size when packed, perhaps a sum for checking
    inside, _ = _integers(head, at + 1)  # behind the mark of what is special about its kind
    if len(numbers) < 3:
        return USUAL_PAGE, USUAL_PAGE
    return max(numbers[1], 0), max(inside[0], 0) if inside else USUAL_PAGE


def _integers(head: bytes, at: int) -> tuple[list[int], int]:
    """Return the integers in fields that follow each other, and where they end."""
    found = list[int]()
    while at < len(head) and head[at] == _INTEGER:
        at, shift, number = at + 1, 0, 0
        while at < len(head):
            byte = head[at]
            number |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                break
        found.append((number >> 1) ^ -(number & 1))
    return found, at
