"""Annotated matrices in HDF5 files, read in blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.io.columns.layout import Layout
from jointsparse.io.columns.reshaping import column_of
from jointsparse.io.columns.roles import chosen_names, find_column
from jointsparse.io.errors import reading, table_error
from jointsparse.io.limits import UNCOUNTED
from jointsparse.io.matrices.annotated import AnnotatedFile, SparseRows
from jointsparse.io.table import distinct
from jointsparse.sources.base import Block, Source


class AnnotatedSource(Source):
    """A matrix of an AnnData or 10x file, with names and what goes along with the samples.

    Blocks of a sparse matrix are sparse, and as long as their stored entries allow.

    Parameters
    ----------
    opened : AnnotatedFile
        The file.
    layout : Layout
        Which columns are no features.
    """

    read_at_once = "chunks"

    def __init__(self, opened: AnnotatedFile, layout: Layout) -> None:
        self._opened, self._layout = opened, layout
        self.name = str(opened.path)
        self.notes = list(opened.notes)
        self.n_samples, self.n_features = opened.matrix.shape
        if 0 in opened.matrix.shape:
            raise table_error(
                self.name, f"holds no numbers: its shape is {tuple(opened.matrix.shape)}."
            )
        self.dtype = opened.matrix.dtype
        self.entries = opened.matrix.entries
        self.ids = tuple(dict.fromkeys((*opened.id_names, *layout.ids)))
        self.labels = layout.labels
        self._columns: NDArray[np.int64] | None = None  # None is all of them
        if opened.names is not None:
            names, notes = distinct(opened.names)
            self.notes += notes
            self.feature_names = np.array(names, dtype=object)

    @cached_property
    def _all_names(self) -> list[str]:
        return distinct(self._opened.names or [])[0]

    def chosen(self, columns: Sequence[str] | None) -> AnnotatedSource:
        """Return the features that the caller wants, all by default."""
        path, names = Path(self.name), self._all_names
        places = {name: j for j, name in enumerate(names)}
        aside = {name for name in (*self.ids, *self.labels) if not self._opened.knows(name)}
        free = [name for name in names if name not in aside]
        if columns is not None:
            for name in columns:
                find_column(path, name, names, "columns")
            free = list(columns)
        if self._layout.only:
            only = set(chosen_names(path, self._layout.only, names, "only"))
            free = [name for name in free if name in only]
        if self._layout.drop:
            drop = set(chosen_names(path, self._layout.drop, names, "drop"))
            free = [name for name in free if name not in drop]
        if not free:
            raise table_error(path, "has no numeric columns.")
        if free == names:
            return self
        return self._with(np.array([places[name] for name in free]))

    def _with(self, columns: NDArray[np.int64]) -> AnnotatedSource:
        part = copy(self)
        part._columns = columns
        part.n_features = columns.size
        part.feature_names = None
        if self._opened.names is not None:
            part.feature_names = np.array(self._all_names, dtype=object)[columns]
        return part

    def columns(self, indices: Any) -> Source:
        """Return the source of some columns, in the given order."""
        chosen = np.asarray(indices)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        if not chosen.size:
            return super().columns(indices)
        return self._with(chosen if self._columns is None else self._columns[chosen])

    def aside(self, name: str) -> NDArray[Any]:
        """Return a column that goes along with the samples."""
        found = self._opened.about(name)
        if found is not None:
            return found
        at = self._all_names.index(name)
        parts = [column_of(block, at) for block in self._whole_blocks(self.block_entries())]
        return np.concatenate(parts)

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield blocks of rows; of a sparse matrix, the stored entries count."""
        for block in self._whole_blocks(entries or self.block_entries()):
            yield block if self._columns is None else block[:, self._columns]

    @property
    def reading_bytes(self) -> int:
        """Bytes of chunks, packed and unpacked, and of what stays in memory."""
        matrix = self._opened.matrix
        return max(2 * matrix.chunk_bytes + matrix.held_bytes - UNCOUNTED, 0)

    def _whole_blocks(self, entries: int) -> Iterator[Block]:
        matrix = self._opened.matrix
        start = 0
        for stop in self._ends(entries):
            self._opened.versions.check()
            with reading(Path(self.name)):
                block = matrix.rows(start, stop)
            yield block
            start = stop
        self._opened.versions.check()

    def _ends(self, entries: int) -> list[int]:
        """Return where blocks of rows end."""
        matrix = self._opened.matrix
        rows, columns = matrix.shape
        if isinstance(matrix, SparseRows):
            stored = max(matrix.entries or 0, 1)
            return matrix.ends(max(1, entries * stored // (stored + rows)))  # rows count, too
        if matrix.entries is not None:  # every block takes a look at all entries: few blocks
            at_once = max(1, int(entries * rows / max(matrix.entries, 1)))
        else:
            at_once = max(1, entries // columns)
        return [*range(at_once, rows, at_once), rows]
