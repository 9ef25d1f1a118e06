"""NumPy arrays from streams: the header is checked before memory is taken for what it promises."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from jointsparse.io.budget import size_in_words
from jointsparse.io.errors import table_error
from jointsparse.io.limits import check_memory

LONGEST_HEADER = 10_000  # characters: NumPy's own bound for headers that are not trusted
_PIECE = 1 << 24
# Types that a table keeps; others become float64, and for a moment both are there.
_KEPT = ("f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1")


@dataclass(frozen=True)
class ArrayHeader:
    """What the header of an .npy file says.

    Attributes
    ----------
    shape : tuple of int
        Number of entries along each axis.
    fortran_order : bool
        Whether columns, not rows, lie together.
    dtype : numpy.dtype
        Type of the entries.
    start : int
        Bytes before the first entry.
    """

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    start: int

    @property
    def size(self) -> int:
        """Bytes of the entries; a Python integer, which no shape overflows."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_array_header(path: Path, stream: IO[bytes]) -> ArrayHeader:
    """Read the header of an array; what is damaged is a ValueError."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        # The third version differs by names of fields, and an array of fields is no matrix.
        raise table_error(path, f"is in version {version[0]}.{version[1]} of the NumPy format.")
    digits = 2 if version == (1, 0) else 4
    counted = stream.read(digits)
    length = int.from_bytes(counted, "little")
    if length > LONGEST_HEADER:
        raise table_error(path, f"is damaged: its header says to be {length} bytes long.")
    text = io.BytesIO(counted + stream.read(length))
    read = np.lib.format.read_array_header_1_0
    if version == (2, 0):
        read = np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(text)
    if any(count < 0 for count in shape):
        raise table_error(path, f"is damaged: its header says the shape {shape}.")
    return ArrayHeader(shape, fortran_order, dtype, 8 + digits + length)


def read_array(
    path: Path, stream: IO[bytes], held: int | None, memory: int, member: str = ""
) -> np.ndarray:
    """Read an array of no Python objects.

    Parameters
    ----------
    path : Path
        The file, for messages.
    stream : binary stream
        At the beginning of the array.
    held : int or None
        How many bytes the stream has, header included; None where only reading tells.
    memory : int
        How much may be taken.
    member : str
        Name of the array within the file.
    """
    header = read_array_header(path, stream)
    if header.dtype.hasobject:
        raise ValueError("Object arrays are never loaded")  # `reading` has the sentence
    what = f"its {f'array {member}' if member else 'array'} of shape {header.shape}"
    if held is not None and header.size > held - header.start:
        raise table_error(
            path,
            f"is damaged or truncated: {what} takes {size_in_words(header.size)}, and "
            f"{size_in_words(max(held - header.start, 0))} follow its header.",
        )
    copied = 8 * math.prod(header.shape) if header.dtype.str[1:] not in _KEPT else 0
    check_memory(path, f"the numbers of {what}", header.size + copied, memory)
    values = np.empty(math.prod(header.shape), header.dtype)
    if header.size:
        _fill(values.view(np.uint8), stream)
    if header.fortran_order:
        return values.reshape(header.shape[::-1]).T
    return values.reshape(header.shape)


def _fill(buffer: Any, stream: IO[bytes]) -> None:
    filled = 0
    while filled < len(buffer):
        piece = stream.read(min(_PIECE, len(buffer) - filled))
        if not piece:
            raise EOFError(f"it ends {len(buffer) - filled} bytes early")
        buffer[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
        filled += len(piece)
