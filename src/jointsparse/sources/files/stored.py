"""Two-dimensional arrays on disk that are sliced like arrays in memory: .npy, Zarr, HDF5."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from jointsparse.io.budget import available_memory
from jointsparse.io.errors import reading, table_error
from jointsparse.io.limits import NAME_BYTES, UNCOUNTED, check_memory, check_possible
from jointsparse.sources.base import Block, Source

SLAB_SHARE = 4  # parts of the memory, of which whole rows of chunks may take one
CHUNKS_AT_ONCE = 10  # that Zarr unpacks at the same time
ALSO_RAISED = (AttributeError, AssertionError)  # by Zarr, where its metadata are not what they seem


class Watched(Protocol):
    """What tells whether files are still those that were opened."""

    def check(self) -> None:
        """Refuse those that are not."""


class ChunkedSource(Source):
    """A two-dimensional array on disk that is sliced like one in memory.

    Parameters
    ----------
    stored : object with shape, dtype and slices
        Read in whole chunks of rows where it has any.
    name : str
        What messages call it.
    watched : Watched or None
        The files that it is read from, which must not change; None where that is not known.
    """

    read_at_once = "chunks"

    def __init__(self, stored: Any, name: str = "the data", watched: Watched | None = None) -> None:
        shape = tuple(map(int, stored.shape))
        if len(shape) != 2 or stored.dtype.kind not in "biuf":
            raise table_error(
                name,
                f"holds an array of shape {shape} and type {stored.dtype}; a two-dimensional "
                "array of real numbers is needed.",
            )
        if 0 in shape:
            raise table_error(name, f"holds no numbers: its shape is {shape}.")
        _check_promises(name, shape, _chunks(stored), stored.dtype.itemsize)
        self.stored, self._watched = stored, watched
        self.n_samples, self.n_features = shape
        self.dtype = stored.dtype
        self.name = name

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield blocks of whole chunks, or parts of them, so that none is read twice."""
        rows = max(1, (entries or self.block_entries()) // max(1, self.n_features))
        chunk = self._chunk_rows
        at_once = rows
        if chunk <= rows:
            at_once = rows = rows - rows % chunk
        elif self._slab_bytes <= self.budget // SLAB_SHARE:
            at_once = chunk
        for start in range(0, self.stored.shape[0], at_once):
            read = self._read(slice(start, start + at_once))
            for first in range(0, read.shape[0], rows):
                yield read[first : first + rows]

    @property
    def _chunk_rows(self) -> int:
        return min((_chunks(self.stored) or (1,))[0], self.stored.shape[0])

    @property
    def _slab_bytes(self) -> int:
        """Bytes of as many whole rows as a chunk has."""
        return self._chunk_rows * self.n_features * self.dtype.itemsize

    @property
    def reading_bytes(self) -> int:
        """Bytes of chunks, packed and unpacked, and of rows that are read for several blocks."""
        chunks = _chunks(self.stored)
        if chunks is None:
            return 0
        bounds = zip(chunks, self.stored.shape, strict=True)
        chunk = math.prod(min(one, all_) for one, all_ in bounds) * self.dtype.itemsize
        side_by_side = -(-self.n_features // chunks[1])
        slab = self._slab_bytes if self._slab_bytes <= self.budget // SLAB_SHARE else 0
        taken = 2 * chunk * min(side_by_side, CHUNKS_AT_ONCE) + slab
        return max(taken - UNCOUNTED, 0)

    def read_columns(self, features: Any) -> Any:
        """Return some columns; what lies between them is read, what lies around them is not."""
        first, stop = int(features[0]), int(features[-1]) + 1
        block = self._read((slice(None), slice(first, stop)))
        return block if block.shape[1] == len(features) else block[:, features - first]

    def read_rows(self, first: int, stop: int) -> Block:
        """Return some consecutive rows."""
        return self._read(slice(first, stop))

    def _read(self, part: Any) -> Block:
        """Return a part, all of it from the files that were opened."""
        self._check()
        try:
            with reading(Path(self.name), *ALSO_RAISED):
                return self.stored[part]
        finally:
            self._check()  # also where reading failed: that they changed is then the reason

    def _check(self) -> None:
        if self._watched is not None:
            self._watched.check()


def _chunks(stored: Any) -> tuple[int, ...] | None:
    chunks = getattr(stored, "chunks", None)
    return None if chunks is None else tuple(map(int, chunks))


def _check_promises(
    name: str, shape: tuple[int, ...], chunks: tuple[int, ...] | None, size: int
) -> None:
    """Refuse what no file can hold: the shape is what the file says of itself."""
    check_possible(Path(name), shape, size)
    if chunks is not None and (len(chunks) != 2 or min(chunks) < 1):
        raise table_error(name, f"is damaged: it says to be cut into chunks of shape {chunks}.")
    free = available_memory()
    check_memory(Path(name), f"its {shape[1]} columns", NAME_BYTES * shape[1], free)
    if chunks is not None:
        check_memory(Path(name), f"its chunks of shape {chunks}", math.prod(chunks) * size, free)
