"""Products with a file of few rows and very many columns, read block of columns by block.

Every product reads the file once (:mod:`~jointsparse.operators.blocks`); the solvers for many
features first prove most of them to be zero, and take the others into memory where they fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.operators.blocks import RemoteSamples, on_centred
from jointsparse.sources import base
from jointsparse.sources.base import Source
from jointsparse.sources.read_ahead import read_ahead


class FileSamples(RemoteSamples):
    """Centred samples in a file.

    Parameters
    ----------
    source : Source
        The file; its number of rows is known.
    features : ndarray of int
        Columns of the source that these are, in order.
    memory : int
        As of :class:`RemoteSamples`.
    room : int or None
        Bytes that the blocks may take; None: what the source may.
    **known
        Means and factors, where they are known.
    """

    home = "file"

    def __init__(
        self,
        source: Source,
        features: IntArray,
        *,
        memory: int,
        room: int | None = None,
        **known: FloatArray | None,
    ) -> None:
        self._source, self._features = source, features
        self._room = source.budget if room is None else room
        n_samples = source.n_samples
        assert n_samples is not None
        # Two blocks are there at a time, and a few arrays of their size in float64.
        entries = min(base.BLOCK_ENTRIES, self._room // 64)
        step = max(1, entries // max(1, n_samples))
        widths = [min(step, features.size - first) for first in range(0, features.size, step)]
        super().__init__(widths, n_samples, source.dtype, memory=memory, **known)

    def _read(self) -> Iterator[Any]:
        start = 0
        for width in self._widths:
            yield self._source.read_columns(self._features[start : start + width])
            start += width

    def _results(self, function: Callable[..., Any], *aligned: NDArray[Any]) -> Iterator[Any]:
        here = partial(on_centred, function=function)
        for block, part in zip(read_ahead(self._read()), self._parts(*aligned), strict=True):
            yield here(block, *part)

    def _selected(self, chosen: NDArray[np.bool_]) -> FileSamples:
        factors = None if self._factors is None else self._factors[chosen]
        return FileSamples(
            self._source,
            self._features[chosen],
            memory=self._memory,
            room=self._room,
            mean=self.mean[chosen],
            factors=factors,
        )
