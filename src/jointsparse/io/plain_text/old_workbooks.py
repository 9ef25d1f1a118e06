"""Workbooks of Excel before 2007 (.xls): what the reader will take is found out before it reads.

It reads all sheets at once, and takes memory for what the file says of itself: where a sheet ends,
how many sectors and texts there are. So the records are gone through first, in the same order.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from struct import unpack_from

from jointsparse.io.plain_text.extent import TEXT_BYTES, Extent, check_extent, check_part
from jointsparse.io.plain_text.raw_cells import TEXT_ENTRY

_STREAMS = ("Workbook", "Book", "WORKBOOK", "BOOK")  # in the order in which they are tried
_END = 0xFFFFFFFE  # of a chain of sectors
_RESERVED = 0xFFFFFFFA  # from here on no number of a sector
_NO_TABLE = 0xFFFFFFFC
_WHOLE = 1 << 62  # bytes of a stream that is read to its end
_CIRCLE = "its sectors follow each other in a circle"
_MINI, _SMALL = 64, 4096  # bytes of a small sector, and of a stream that is stored in larger ones
# Kinds of records.
_SHEET, _TEXTS, _SIZE, _LAST, _CONTINUED = 0x0085, 0x00FC, 0x0200, 0x000A, 0x003C
_FORMULA, _FORMULA_TEXT, _MANY, _NUMBERED_TEXT = 0x0006, 0x0207, 0x00BD, 0x00FD
_ONE = (0x0203, 0x0204, 0x00D6, 0x0205, 0x027E)  # a number, texts, true or false, a packed number
_ROWS, _COLUMNS = 1 << 16, 1 << 8
_LISTED_BYTES = 40  # of a cell in the list from which the rectangle is made
_KEPT_BYTES = 64  # of a cell of the rectangles of values and formulas, which stay for all sheets
_FORMULA_GROWTH = 16  # bytes of a formula as text, for each in the file, about


def checked_old(path: Path, memory: int) -> bytes:
    """Return the bytes of a workbook that takes no more memory than it may."""
    check_part(path, "the file", 4 * path.stat().st_size, memory)
    data = path.read_bytes()
    stream = _workbook(data)
    starts, texts = _contents(stream)
    promised = unpack_from("<I", texts[0], 4)[0] if texts else 0
    check_part(path, "the texts of its cells", TEXT_ENTRY * promised, memory)
    lengths = _lengths(texts)
    taken = TEXT_ENTRY * len(lengths) + sum(lengths)
    walked = 0
    for number, start in enumerate(starts, 1):
        sheet = _Sheet(stream, start, lengths)
        walked += sheet.end - start
        if walked > 2 * len(stream):
            raise ValueError("its sheets overlap")
        check_extent(path, f"number {number}", sheet.extent, taken + sheet.needed, memory)
        taken += sheet.kept
    return data


def _workbook(data: bytes) -> bytes:
    """Return the stream of the records from the file system inside the file."""
    shift = unpack_from("<H", data, 30)[0]
    if shift not in (9, 12):
        raise ValueError("it has sectors of another size than Excel writes")
    size = 1 << shift
    n_tables, first = unpack_from("<II", data, 44)
    mini_first, n_mini, more = unpack_from("<III", data, 60)
    sectors = data[size:]
    most = len(data) // size
    # The reader takes memory for as many as there are said to be.
    if n_tables > most or _MINI * n_mini > 4 * most + 2 * _MINI:
        raise ValueError("it promises more sectors than there are")
    listed = list(unpack_from("<109I", data, 76))
    while more < _RESERVED:
        listed += _numbers(_piece(sectors, more, size))
        more = listed.pop()
        if len(listed) > most + size:
            raise ValueError(_CIRCLE)
    tables = array("I")
    for one in listed:
        if one < _NO_TABLE:
            tables.extend(_numbers(_piece(sectors, one, size)))
    folder = _chain(sectors, size, first, tables, _WHOLE)
    entries = [_entry(folder, at, size) for at in range(0, len(folder), 128)]
    small, small_tables = b"", array("I")
    if n_mini:
        _, start, length = entries[0]
        small = _chain(sectors, size, start, tables, length)
        packed = _chain(sectors, size, mini_first, tables, n_mini * size)
        small_tables.extend(_numbers(packed))
    for wanted in _STREAMS:
        for name, start, length in entries:
            if name == wanted and length < _SMALL:
                return _chain(small, _MINI, start, small_tables, length)
            if name == wanted:
                return _chain(sectors, size, start, tables, length)
    raise ValueError("there is no workbook in it, or it is encrypted")


def _numbers(piece: bytes) -> tuple[int, ...]:
    return unpack_from(f"<{len(piece) // 4}I", piece)


def _piece(sectors: bytes, number: int, size: int) -> bytes:
    piece = sectors[number * size : (number + 1) * size]
    if not piece:
        raise ValueError("a sector is behind its end")
    return piece


def _chain(sectors: bytes, size: int, number: int, tables: array[int], length: int) -> bytes:
    """Return a stream of at most some length."""
    pieces: list[bytes] = []
    while number != _END and size * len(pieces) < length:
        if len(pieces) > len(sectors) // size + 1:
            raise ValueError(_CIRCLE)
        pieces.append(_piece(sectors, number, size))
        number = tables[number] if size * len(pieces) < length else _END
    return b"".join(pieces)[:length]


def _entry(folder: bytes, at: int, size: int) -> tuple[str, int, int]:
    """Return the name of a stream, where it starts, and its length."""
    name = folder[at : at + 64].decode("utf-16-le", "replace").partition("\0")[0]
    start, length = unpack_from("<II" if size == 512 else "<IQ", folder, at + 116)
    return name, start, length


def _records(stream: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Yield the kinds of records, where their content begins, and its size."""
    while at < len(stream):
        kind, size = unpack_from("<HH", stream, at)
        at += 4 + size
        if at > len(stream):
            raise ValueError("a record is cut off")
        yield kind, at - size, size


def _contents(stream: bytes) -> tuple[list[int], list[bytes]]:
    """Return where the sheets begin, and the record of texts with those that continue it."""
    starts: list[int] = []
    texts: list[bytes] = []
    before = 0
    for kind, at, size in _records(stream, 0):
        if kind == _SHEET:
            starts.append(unpack_from("<I", stream, at)[0])
        elif kind == _TEXTS:
            texts = [stream[at : at + size]]
        elif kind == _CONTINUED and before == _TEXTS:
            texts.append(stream[at : at + size])
            continue
        elif kind == _LAST:
            break
        before = kind
    if any(start >= len(stream) for start in starts):
        raise ValueError("a sheet begins behind its end")
    return starts, texts


def _lengths(pieces: list[bytes]) -> array[int]:
    """Return how many bytes the texts take that cells refer to by their numbers."""
    lengths = array("I")
    pieces = list(reversed(pieces))
    piece, at = pieces.pop() if pieces else b"", 8
    while at < len(piece) or pieces:
        if at >= len(piece):
            piece, at = pieces.pop(), 0
            if not piece:
                lengths.append(0)
                continue
        left, flags = unpack_from("<HB", piece, at)
        at += 3
        skipped, wide = 0, flags & 1
        lengths.append(left * (3 if wide else 2))
        if flags & 8:
            skipped += 4 * unpack_from("<H", piece, at)[0]
            at += 2
        if flags & 4:
            skipped += unpack_from("<I", piece, at)[0]
            at += 4
        while True:
            some = min((len(piece) - at) // (1 + wide), left)
            left, at = left - some, at + some * (1 + wide)
            if not left:
                break
            piece, at = pieces.pop(), 1
            wide = piece[0] & 1
        while skipped > len(piece) - at:
            skipped -= len(piece) - at
            piece, at = pieces.pop(), 0
        at += skipped
    return lengths


class _Sheet:
    """What the records of a sheet make the reader take."""

    def __init__(self, stream: bytes, start: int, lengths: array[int]) -> None:
        self.extent = Extent()
        self.end = start
        text = formulas = promised = 0
        for kind, at, size in _records(stream, start):
            self.end = at + size
            if kind in _ONE or kind in (_FORMULA, _NUMBERED_TEXT):
                row, column = unpack_from("<HH", stream, at)
                self.extent.add(row, column)
                text += size
                if kind == _FORMULA:
                    formulas += _FORMULA_GROWTH * size
                elif kind == _NUMBERED_TEXT:
                    number = unpack_from("<I", stream, at + 6)[0]
                    text += lengths[number] if number < len(lengths) else 0
            elif kind == _MANY:
                row, column = unpack_from("<HH", stream, at)
                for more in range((size - 6) // 6):
                    self.extent.add(row, column + more)
            elif kind in (_FORMULA_TEXT, _CONTINUED):
                text += 2 * size
            elif kind == _SIZE:
                promised = max(promised, _promised(stream, at, size))
            elif kind == _LAST:
                break
        rows, columns = self.extent.shape
        self.kept = _KEPT_BYTES * rows * columns + text + formulas
        self.needed = self.extent.needed() + TEXT_BYTES * text + formulas + promised
        self.needed += _KEPT_BYTES * rows * columns


def _promised(stream: bytes, at: int, size: int) -> int:
    """Return the bytes that the reader takes for the size that a sheet says it has."""
    first, last, left, right = unpack_from("<HHHH" if size == 10 else "<IIHH", stream, at)
    if not (last and right):
        return _LISTED_BYTES  # an empty sheet
    if left >= _COLUMNS or left > right:
        left = 0  # as the reader does
    if not (0 <= last - first <= _ROWS and right - left <= _COLUMNS):
        raise ValueError(f"a sheet says that its rows end at {last}, its columns at {right}")
    return _LISTED_BYTES * (last - first) * (right - left)
