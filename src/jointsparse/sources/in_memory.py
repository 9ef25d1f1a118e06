"""Samples that are in memory, or mapped into it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from jointsparse.io.errors import reading, table_error
from jointsparse.sources import base
from jointsparse.sources.base import Block, Source


class ArraySource(Source):
    """An array, a memmap or a sparse matrix; blocks are views of its rows.

    Parameters
    ----------
    array : ndarray, memmap or sparse matrix of shape (n_samples, n_features)
        Kept as it is.
    feature_names : ndarray of str or None
        Names of the columns.
    """

    def __init__(self, array: Any, feature_names: Any = None) -> None:
        self._array = array
        self.n_samples, self.n_features = array.shape
        self.dtype = array.dtype
        self.feature_names = feature_names

    @property
    def array(self) -> Any:
        """The array itself."""
        return self._array

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield views of consecutive rows; of a sparse matrix, the stored entries count."""
        entries = entries or self.block_entries()
        matrix, rows = self._array, max(1, entries // max(1, self.n_features))
        if sp.issparse(matrix):
            rows = max(1, int(entries * matrix.shape[0] / max(matrix.nnz, 1)))
            matrix = matrix.tocsr()
        for start in range(0, matrix.shape[0], rows):
            yield matrix[start : start + rows]

    def block_entries(self) -> int:
        """Return how many entries a block should have."""
        return max(self.n_features, base.BLOCK_ENTRIES)

    def _blocks_to_fold(self) -> Iterator[Block]:
        return self.blocks()  # there is nothing to wait for

    def rows(self, indices: Any) -> Any:
        """Return some rows, in the order given."""
        return self._array[indices]

    def columns(self, indices: Any) -> Source:
        """Return the source of some columns."""
        names = None if self.feature_names is None else self.feature_names[indices]
        return ArraySource(self._array[:, indices], names)


class ChunkedSource(Source):
    """A two-dimensional array on disk that is sliced like one in memory: Zarr, HDF5.

    Parameters
    ----------
    stored : object with shape, dtype and slices
        Read in whole chunks of rows where it has any.
    name : str
        What messages call it.
    """

    def __init__(self, stored: Any, name: str = "the data") -> None:
        if len(stored.shape) != 2 or stored.dtype.kind not in "biuf":
            raise table_error(
                name,
                f"holds an array of shape {tuple(stored.shape)} and type {stored.dtype}; a "
                "two-dimensional array of real numbers is needed.",
            )
        if 0 in stored.shape:
            raise table_error(name, f"holds no numbers: its shape is {tuple(stored.shape)}.")
        self.stored = stored
        self.n_samples, self.n_features = map(int, stored.shape)
        self.dtype = stored.dtype
        self.name = name

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield blocks of whole chunks, so that none is read twice."""
        rows = max(1, (entries or self.block_entries()) // max(1, self.n_features))
        chunk = (getattr(self.stored, "chunks", None) or (1,))[0]
        rows = max(rows - rows % chunk, min(chunk, rows))
        for start in range(0, self.stored.shape[0], rows):
            with reading(Path(self.name)):
                block = self.stored[start : start + rows]
            yield block

    def read_columns(self, features: Any) -> Any:
        """Return some columns; what lies between them is read, what lies around them is not."""
        first, stop = int(features[0]), int(features[-1]) + 1
        with reading(Path(self.name)):
            block = self.stored[:, first:stop]
        return block if block.shape[1] == len(features) else block[:, features - first]
