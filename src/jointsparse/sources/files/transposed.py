"""Arrays on disk whose rows are the features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jointsparse.sources.base import Block, Source
from jointsparse.sources.files.stored import ChunkedSource


class TransposedSource(Source):
    """Another source turned on its side: its columns are the samples.

    Blocks are read as blocks of columns, which arrays on disk allow.

    Parameters
    ----------
    source : Source
        Features in rows.
    """

    def __init__(self, source: Source) -> None:
        assert source.n_samples is not None
        self._source = source
        self.n_samples, self.n_features = source.n_features, source.n_samples
        self.dtype = source.dtype
        self.name = source.name
        if source.ids:
            names = source.aside(source.ids[0])
            self.feature_names = np.array([str(name) for name in names], dtype=object)

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield the columns of the other source, some at a time, as rows."""
        rows = max(1, (entries or self.block_entries()) // max(1, self.n_features))
        assert self.n_samples is not None
        for start in range(0, self.n_samples, rows):
            yield self._turned(np.arange(start, min(start + rows, self.n_samples)))

    def read_columns(self, features: Any) -> Any:
        """Return some columns: rows of the other source."""
        if not isinstance(self._source, ChunkedSource):
            return super().read_columns(features)
        first, stop = int(features[0]), int(features[-1]) + 1
        return self._source.read_rows(first, stop)[features - first].T

    def _turned(self, samples: Any) -> Block:
        block = self._source.read_columns(samples).T
        return np.ascontiguousarray(block) if isinstance(block, np.ndarray) else block.tocsr()
