"""What a file may take: refused before the memory is taken, whatever its header promises."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import IO, Any

from jointsparse.io.budget import enough, size_in_words
from jointsparse.io.errors import table_error

NAME_BYTES = 100  # of a column's name and what refers to it, about
CELL_BYTES = 16  # a number in its column, and once more in the matrix
HEADER_BYTES = 1 << 26  # of delimited text, with the first row; a million columns take half
MOST_TEXT_COLUMNS = 1 << 20  # of delimited text; so many take half a minute
MOST_BYTES = 2**63 - 1  # that a file can have
# Bytes beside the numbers themselves that are not counted: the process varies by as much.
UNCOUNTED = 1 << 21
# Of a feature without a name, beside its numbers: scores, tests, ranks. Measured 330 to 400.
BYTES_OF_FEATURE = 450
_PIECE = 1 << 24


def check_memory(path: Path, what: str, needed: int, memory: int, would_do: int = 0) -> None:
    """Refuse what takes more memory than it may.

    Parameters
    ----------
    path : Path
        The file.
    what : str
        What takes it.
    needed, memory : int
        How much it takes, and may take.
    would_do : int
        How much would do for all of the work; 0 where that is not known.
    """
    if needed > memory:
        sentence = (
            f"does not fit in memory: {what} take {size_in_words(needed)}, and "
            f"{size_in_words(memory)} may be used"
        )
        if not would_do:
            raise table_error(path, f"{sentence}.")
        raise table_error(
            path,
            f"{sentence}; allow more with ",
            f'memory="{enough(would_do)}".',
            f"--memory {enough(would_do)}.",
        )


def check_possible(path: Path, shape: tuple[int, ...], size: int) -> None:
    """Refuse an array that no file can hold; the shape is what the file says of itself."""
    if min(shape) < 0 or math.prod(shape) * size > MOST_BYTES:
        raise table_error(path, f"is damaged: it says the shape {shape}, which no file can hold.")


def read_bounded(path: Path, stream: IO[bytes], most: int) -> bytes:
    """Read all of a stream, perhaps one that is being unpacked, unless it is longer than that."""
    pieces: list[bytes] = []
    size = 0
    while piece := stream.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        check_memory(path, f"its first {size_in_words(size)} of text", size, most)
    return b"".join(pieces)


def check_text_width(path: Path, columns: int) -> None:
    """Refuse delimited text of more columns than can be read in reasonable time."""
    if columns > MOST_TEXT_COLUMNS:
        raise table_error(
            path,
            f"has {columns} columns, and at most {MOST_TEXT_COLUMNS} are read from text; write "
            ".npy or .mtx instead.",
        )


class Beginning(io.RawIOBase):
    """The first bytes of a stream, where a header has to be."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._left = stream, HEADER_BYTES

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill some of the buffer."""
        piece = self._stream.read(min(len(buffer), self._left))
        buffer[: len(piece)] = piece
        self._left -= len(piece)
        return len(piece)


class BoundedText(io.RawIOBase):
    """Delimited text that stops being read once its cells take more memory than they may.

    A few kilobytes of .gz unpack to gigabytes of text, and a byte of text becomes several of
    numbers: the cells are counted as they pass.
    """

    def __init__(self, path: Path, stream: IO[bytes], delimiter: str, memory: int) -> None:
        self._path, self._stream, self._memory = path, stream, memory
        self._delimiter = delimiter.encode()
        self._cells = self._bytes = 0

    def readable(self) -> bool:
        """Say that it can be read, as Arrow asks."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""
        piece = self._stream.read(size)
        self._bytes += len(piece)
        self._cells += piece.count(self._delimiter) + piece.count(b"\n")
        check_memory(
            self._path,
            f"the first {self._cells} cells",
            max(CELL_BYTES * self._cells, self._bytes),
            self._memory,
        )
        return piece
