"""An .npy file, read in blocks of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from jointsparse.io.errors import reading, table_error
from jointsparse.io.npy import read_array_header
from jointsparse.io.versions import Versions


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
        self._versions = Versions([path])
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

    def __getitem__(self, rows: slice) -> np.ndarray:
        first, stop, _ = rows.indices(self.shape[0])
        self._versions.check()
        with reading(self.path), self.path.open("rb") as stream:
            block = self._read(stream, first, max(stop - first, 0))
        self._versions.check()
        return block

    def _read(self, stream: Any, first: int, count: int) -> np.ndarray:
        n_rows, n_columns = self.shape
        start, size = self._header.start, self.dtype.itemsize
        if not self._header.fortran_order:
            stream.seek(start + first * n_columns * size)
            values = np.fromfile(stream, self.dtype, count * n_columns)
            return values.reshape(count, n_columns)
        values = np.empty((count, n_columns), self.dtype, order="F")
        for column in range(n_columns):
            stream.seek(start + (column * n_rows + first) * size)
            values[:, column] = np.fromfile(stream, self.dtype, count)
        return values
