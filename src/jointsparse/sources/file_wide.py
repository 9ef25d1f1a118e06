"""Products with a file of few rows and very many columns, read block of columns by block.

Every product reads the file once (:mod:`~jointsparse.sources.wide_blocks`); the solvers for many
features first prove most of them to be zero, and take the others into memory where they fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.sources import base
from jointsparse.sources.base import Source
from jointsparse.sources.read_ahead import read_ahead
from jointsparse.sources.wide_blocks import WideBlocks, scaled_block


class FileWide(WideBlocks):
    """Centred samples in a file, as the solvers for many features see them.

    Parameters
    ----------
    source : Source
        The file; its number of rows is known.
    features : ndarray of int
        Columns of the source that these are, in order.
    collect, memory, mean
        As of :class:`WideBlocks`.
    factors : ndarray of shape (n_features,) or None
        What the columns of the file are multiplied by; ``mean`` is that of the result.
    """

    def __init__(
        self,
        source: Source,
        features: IntArray,
        *,
        collect: Callable[[NDArray[Any]], Any],
        memory: int,
        mean: FloatArray | None = None,
        factors: FloatArray | None = None,
    ) -> None:
        self._source, self._features, self._factors = source, features, factors
        n_samples = source.n_samples
        assert n_samples is not None
        # Two blocks are there at a time, and a few arrays of their size in float64.
        entries = min(base.BLOCK_ENTRIES, source.budget // 64)
        step = max(1, entries // max(1, n_samples))
        widths = [min(step, features.size - first) for first in range(0, features.size, step)]
        super().__init__(widths, n_samples, source.dtype, collect=collect, memory=memory, mean=mean)

    def _read(self) -> Iterator[Any]:
        blocks = (self._source.read_columns(part) for part in self._cut(self._features))
        if self._factors is None:
            return blocks
        return map(scaled_block, blocks, self._cut(self._factors))

    def _results(self, function: Callable[..., Any], parts: Iterable[Any]) -> Iterator[Any]:
        for block, part in zip(read_ahead(self._read()), parts, strict=True):
            yield function(block, *part)

    def _total(self, function: Callable[..., Any], parts: Iterable[Any]) -> FloatArray:
        total: Any = 0.0
        for found in self._results(function, parts):
            total = total + found
        return np.asarray(total)

    def _selected(self, chosen: NDArray[np.bool_]) -> FileWide:
        return FileWide(
            self._source,
            self._features[chosen],
            collect=self._collect,
            memory=self._memory,
            mean=self.mean[chosen],
            factors=None if self._factors is None else self._factors[chosen],
        )

    def scaled(self, factors: FloatArray) -> FileWide:
        """Return the features multiplied by factors, where they are."""
        return FileWide(
            self._source,
            self._features,
            collect=self._collect,
            memory=self._memory,
            mean=self.mean * factors,
            factors=factors if self._factors is None else self._factors * factors,
        )
