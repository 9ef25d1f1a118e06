"""Lazy frames of polars, computed some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from jointsparse.sources.base import Block, Source
from jointsparse.sources.frames import check_schema, is_frame


def is_lazy(X: Any) -> bool:
    """Whether something is a lazy frame of polars."""
    return hasattr(type(X), "collect_schema") and not is_frame(X)


class LazySource(Source):
    """The rows of a lazy frame; each pass over them computes it again.

    Parameters
    ----------
    frame : polars.LazyFrame
        Columns of numbers.
    """

    def __init__(self, frame: Any) -> None:
        schema = frame.collect_schema()
        check_schema(list(schema.names()), list(schema.dtypes()))
        self.frame = frame
        self.name = "the LazyFrame"
        self.feature_names = np.array(schema.names(), dtype=object)
        self.n_features = len(self.feature_names)
        if self.n_features == 0:
            raise ValueError("the LazyFrame has no columns; at least one is needed")
        single = all(str(dtype) == "Float32" for dtype in schema.dtypes())
        self.dtype = np.dtype(np.float32 if single else np.float64)

    @cached_property
    def n_samples(self) -> int:  # type: ignore[override]
        """Number of rows, which polars counts."""
        import polars as pl

        return int(self.frame.select(pl.len()).collect().item())

    def columns(self, indices: Any) -> Source:
        """Return the source of some columns; the others are not computed."""
        assert self.feature_names is not None
        names = self.feature_names[indices].tolist()
        if not names:
            return super().columns(indices)
        part = LazySource(self.frame.select(names))
        part.memory = self.memory
        return part

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield some rows at a time."""
        rows = max(1, (entries or self.block_entries()) // self.n_features)
        for frame in self._frames(rows):
            if frame.height:
                yield frame.to_numpy().astype(self.dtype, copy=False)

    def _frames(self, rows: int) -> Iterator[Any]:
        if hasattr(self.frame, "collect_batches"):
            yield from self.frame.collect_batches(chunk_size=rows, maintain_order=True)
            return
        for start in range(0, self.n_samples, rows):
            yield self.frame.slice(start, rows).collect()
