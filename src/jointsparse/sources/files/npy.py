"""An .npy file, read in blocks of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from jointsparse.io.errors import reading, table_error
from jointsparse.io.matrices.npy import read_array_header


class NpyFile:
    """The array of an .npy file, of which rows are read when they are asked for.

    The file is not mapped into memory: one that another program shortens would then end this one.

    Parameters
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path), path.open("rb") as stream:
            self._header = read_array_header(path, stream)
            if self._header.dtype.hasobject:
                raise ValueError("Object arrays are never loaded")  # `reading` has the sentence
        self.shape, self.dtype = self._header.shape, self._header.dtype
        held = path.stat().st_size - self._header.start
        if self._header.size > held:
            raise table_error(
                path,
                f"is damaged or truncated: its header promises the shape {self.shape}, "
                f"{self._header.size} bytes, and {max(held, 0)} follow.",
            )

    def __getitem__(self, part: slice | tuple[slice, slice]) -> np.ndarray:
        rows, columns = part if isinstance(part, tuple) else (part, slice(None))
        first, stop, _ = rows.indices(self.shape[0])
        left, right, _ = columns.indices(self.shape[1])
        with reading(self.path), self.path.open("rb") as stream:
            if (left, right) == (0, self.shape[1]) and not self._header.fortran_order:
                block = self._read(stream, first, max(stop - first, 0))
            else:
                block = self._read_part(stream, (first, stop), (left, right))
        return block

    def _read(self, stream: Any, first: int, count: int) -> np.ndarray:
        """Return whole rows of a file in the order of rows."""
        n_columns = self.shape[1]
        stream.seek(self._header.start + first * n_columns * self.dtype.itemsize)
        return np.fromfile(stream, self.dtype, count * n_columns).reshape(count, n_columns)

    def _read_part(
        self, stream: Any, rows: tuple[int, int], columns: tuple[int, int]
    ) -> np.ndarray:
        """Return some columns of some rows, one run of numbers that follow each other at a time."""
        by_column = self._header.fortran_order
        outer, inner = (columns, rows) if by_column else (rows, columns)
        length = self.shape[0] if by_column else self.shape[1]
        count = max(inner[1] - inner[0], 0)
        values = np.empty((max(outer[1] - outer[0], 0), count), self.dtype)
        for place in range(values.shape[0]):
            at = (outer[0] + place) * length + inner[0]
            stream.seek(self._header.start + at * self.dtype.itemsize)
            values[place] = np.fromfile(stream, self.dtype, count)
        return values.T if by_column else values
