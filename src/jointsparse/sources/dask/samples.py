"""Products with a Dask array of few rows and very many columns, chunked along the columns.

The blocks of :mod:`~jointsparse.operators.blocks` stay on the workers. Sums are added in a tree
that depends on the blocks alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.operators.blocks import RemoteSamples, on_centred
from jointsparse.operators.samples import Samples
from jointsparse.sources.base import BLOCK_ENTRIES
from jointsparse.sources.dask.graph import applied, computed, on_cluster, persisted, tree_sum


class DaskSamples(RemoteSamples):
    """Centred samples on a cluster.

    Parameters
    ----------
    blocks : sequence of dask.delayed.Delayed
        Consecutive columns with all rows: arrays.
    *args, **options
        As of :class:`RemoteSamples`.
    """

    home = "cluster"

    def __init__(self, blocks: Sequence[Any], *args: Any, **options: Any) -> None:
        self._blocks, self._held = list(blocks), on_cluster()
        super().__init__(*args, **options)

    @classmethod
    def of(cls, array: Any, *, memory: int) -> DaskSamples:
        """Take a Dask array of known shape; its rows are brought together, chunk by chunk.

        On a cluster the blocks are kept in the memory of the workers: solvers come back to them
        many times.
        """
        n_samples = int(array.shape[0])
        least = max(1, BLOCK_ENTRIES // max(1, n_samples))
        array = array.rechunk({0: -1, 1: _merged(array.chunks[1], least)})
        blocks = _kept(list(array.to_delayed().ravel()))
        widths = [int(width) for width in array.chunks[1]]
        return cls(blocks, widths, n_samples, array.dtype, memory=memory)

    def columns(self, chosen: NDArray[np.bool_]) -> Samples:
        """Return the samples with some features: in memory here where they fit."""
        selection = super().columns(chosen)
        if isinstance(selection, DaskSamples) and selection is not self:
            selection._blocks = _kept(selection._blocks)
        return selection

    def _selected(self, chosen: NDArray[np.bool_]) -> DaskSamples:
        masks = np.split(chosen, np.cumsum(self._widths)[:-1])
        some = [position for position, mask in enumerate(masks) if mask.any()]
        blocks = applied(
            _take_columns, [self._blocks[i] for i in some], [(masks[i],) for i in some]
        )
        return DaskSamples(
            blocks,
            [int(np.count_nonzero(masks[i])) for i in some],
            self.shape[0],
            self.dtype,
            memory=self._memory,
            mean=self.mean[chosen],
            factors=None if self._factors is None else self._factors[chosen],
        )

    def _results(self, function: Callable[..., Any], *aligned: NDArray[Any]) -> Iterable[Any]:
        found: Iterable[Any] = computed(*self._applied(function, *aligned), held=self._held)
        return found

    def _total(
        self, shape: tuple[int, ...], function: Callable[..., Any], *aligned: NDArray[Any]
    ) -> FloatArray:
        if not self._blocks:
            return np.zeros(shape)
        total = tree_sum(self._applied(function, *aligned), np.add)
        return np.asarray(computed(total, held=self._held)[0])

    def _applied(self, function: Callable[..., Any], *aligned: NDArray[Any]) -> list[Any]:
        here = partial(on_centred, function=function)
        return list(applied(here, self._blocks, self._parts(*aligned)))


def _kept(blocks: list[Any]) -> list[Any]:
    """Keep blocks in the memory of the workers, where there are any."""
    return persisted(blocks) if on_cluster() else blocks


def _merged(widths: Sequence[int], least: int) -> tuple[int, ...]:
    merged: list[int] = []
    for width in map(int, widths):
        if merged and merged[-1] < least and merged[-1] + width <= 2 * least:
            merged[-1] += width
        else:
            merged.append(width)
    return tuple(merged)


def _take_columns(block: Any, mask: NDArray[np.bool_]) -> Any:
    return block[:, np.flatnonzero(mask)]
