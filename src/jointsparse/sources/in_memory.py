"""Samples that are in memory, or mapped into it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import scipy.sparse as sp

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
