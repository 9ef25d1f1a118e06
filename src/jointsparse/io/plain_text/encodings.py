"""Text files in any usual encoding, handed on as UTF-8."""

from __future__ import annotations

import codecs
import io
from pathlib import Path
from typing import IO, Any

from jointsparse.io.errors import READ_FAILURES, reading, table_error
from jointsparse.io.formats import open_input

SAMPLE = 1 << 26  # bytes that are looked at; a longer file with an accent behind them says so
UTF8 = "utf-8"
# What Windows calls Latin-1 has the same letters, and quotation marks where Latin-1 has nothing.
LATIN = "cp1252"
_PIECE = 1 << 20
_MARKS = {
    codecs.BOM_UTF8: UTF8,
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_NO_TEXT = bytes(set(range(32)) - set(b"\t\n\r\f\x1a\x1b"))  # bytes that no text has


def find_encoding(path: Path) -> str:
    """Return how the characters of a text file are written.

    UTF-8 where all bytes are; else UTF-16 where the file says so or every other byte is zero; else
    that of Windows in western Europe, unless there are bytes that no text has.
    """
    with reading(path), open_input(path) as stream:
        first = stream.read(_PIECE)
        for mark, encoding in _MARKS.items():
            if first.startswith(mark):
                return encoding
        if first[1:4:2] == b"\0\0" and first[:1] != b"\0":
            return "utf-16-le"
        decoder = codecs.getincrementaldecoder(UTF8)()
        seen, piece, odd = 0, first, False
        while piece and seen < SAMPLE:
            odd = odd or any(byte in piece for byte in _NO_TEXT)
            try:
                decoder.decode(piece)
            except UnicodeDecodeError as error:
                if odd:
                    raise table_error(path, READ_FAILURES[UnicodeDecodeError]) from error
                return LATIN
            seen += len(piece)
            piece = stream.read(_PIECE)
    return UTF8


def check_encoding(path: Path, encoding: str) -> str:
    """Return the name by which Python knows an encoding; refuse one that it does not know."""
    try:
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise table_error(
            path,
            f"cannot be read in an encoding called {encoding[:40]!r}; known ones are utf-8, "
            "utf-16, latin-1 and cp1252.",
        ) from None


def open_text(path: Path, encoding: str) -> Any:
    """Open a text file for reading as UTF-8, whatever it is written in."""
    stream = open_input(path)
    return stream if encoding == UTF8 else Recoded(stream, encoding)


class Recoded(io.RawIOBase):
    """A stream of text in some encoding, read as UTF-8."""

    def __init__(self, stream: IO[bytes], encoding: str) -> None:
        self._stream = stream
        # What the old code pages of Windows leave undefined must not end the reading.
        errors = "replace" if encoding == LATIN else "strict"
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)
        self._left = b""

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill some of the buffer."""
        while not self._left:
            piece = self._stream.read(_PIECE)
            self._left = self._decoder.decode(piece, final=not piece).encode()
            if not piece:
                break
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count

    def close(self) -> None:
        """Close the file too."""
        self._stream.close()
        super().close()
