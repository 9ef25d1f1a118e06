"""What the bytes of a sheet allow its cells to be, whatever a reader takes for its tags.

This takes a fraction of the time of the reader. It counts too much: cells without a value, and what
only looks like a cell. Where that would not fit in memory, the tags are gone through one by one.
"""

from __future__ import annotations

import math
import re

from jointsparse.io.plain_text.extent import CELL_BYTES, FILLED_BYTES, TEXT_BYTES

LONGEST = 1 << 20  # bytes without a tag
TEXT_ENTRY = 64  # of a text that cells refer to, in the reader's list
_OVERLAP = 1 << 8  # bytes that a tag may have where there are more
_CELL = re.compile(rb"[<:]c[\s/>]")
_PLACED = b'<c r="'
_PLACE = re.compile(rb"r\s*=\s*[\"']([A-Za-z]+)([0-9]+)[\"']")
_SHARED = re.compile(rb"t\s*=\s*[\"']s[\"']")
_VALUE = re.compile(rb"[<:][vt](?:\s[^<>]*)?>[^<]")
_TEXT = re.compile(rb"[<:]si[\s/>]")
_PROMISED = re.compile(rb"uniqueCount\s*=\s*[\"'][\s+]*([0-9]+)")


class _Raw:
    """Bytes that come in pieces and are looked at between tags."""

    def __init__(self) -> None:
        self.bytes = 0
        self._rest = b""

    def take(self, piece: bytes) -> None:
        """Look at the next bytes, but for a tag that may go on."""
        self.bytes += len(piece)
        text = self._rest + piece
        cut = text.rfind(b"<")
        if cut < 1 and len(text) > LONGEST:
            cut = len(text) - _OVERLAP
        if cut > 0:
            self._look(text[:cut])
            text = text[cut:]
        self._rest = text

    def finish(self) -> None:
        """Look at the last bytes."""
        self._look(self._rest)
        self._rest = b""

    def _look(self, text: bytes) -> None:
        raise NotImplementedError


class RawStrings(_Raw):
    """The texts that cells refer to by their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self._count = self._open = self._promised = self.longest = 0

    def _look(self, text: bytes) -> None:
        sizes = list(map(len, _TEXT.split(text)))
        self._count += len(sizes) - 1
        sizes[0] += self._open
        self._open = sizes[-1]
        self.longest = max(self.longest, *sizes)
        # The reader takes memory for as many texts as there are said to be.
        self._promised = max(self._promised, *(int(n[:20]) for n in _PROMISED.findall(text)), 0)

    def needed(self) -> int:
        """Return the most that the reader takes for them."""
        return TEXT_ENTRY * max(self._count, self._promised) + 2 * self.bytes


class RawCells(_Raw):
    """The cells of a sheet."""

    def __init__(self) -> None:
        super().__init__()
        self._cells = self._shared = self._rows = self._columns = 0
        self._placed = True  # whether each cell says where it is
        self.anything = False

    def _look(self, text: bytes) -> None:
        begun = len(_CELL.findall(text))
        self._cells += begun
        self._placed = self._placed and begun == text.count(_PLACED)
        places = _PLACE.findall(text)
        for letters in {letters.upper() for letters, _ in places}:
            self._columns = max(self._columns, column_number(letters.decode()))
        if places:
            self._rows = max(self._rows, *(int(row[:20]) for _, row in places))
        self._shared += len(_SHARED.findall(text))
        self.anything = self.anything or _VALUE.search(text) is not None

    def needed(self, strings: RawStrings) -> float:
        """Return the most that the reader takes for the sheet and the texts."""
        if not self._placed:
            return math.inf
        text = self.bytes + self._shared * strings.longest
        needed = CELL_BYTES * self._rows * self._columns + FILLED_BYTES * self._cells
        return needed + TEXT_BYTES * text + strings.needed()


def column_number(letters: str) -> int:
    """Return the number of a column, the first of which is A.

    Examples
    --------
    >>> from jointsparse.io.plain_text.raw_cells import column_number
    >>> column_number("A"), column_number("XFD")
    (1, 16384)
    """
    number = 0
    for letter in letters[:20]:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number
