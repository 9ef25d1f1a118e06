"""Samples on a Dask cluster, or in a Dask graph that this machine computes.

Blocks are read, and sums over them computed, where Dask puts them; only what a computation asks
for (a p × p matrix, some numbers for each sample) comes here. Nothing of ``distributed`` is
imported: Dask sends its graphs to a cluster by itself where there is a client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.sources.base import BLOCK_ENTRIES, BLOCK_ROWS, Block, Source, State
from jointsparse.sources.dask.blocks import (
    array_blocks,
    check_array,
    checked_rows,
    frame_blocks,
    frame_type,
    is_frame,
    known_lengths,
    map_rows,
    plain_block,
)
from jointsparse.sources.dask.graph import applied, computed, on_cluster, persisted, tree_sum
from jointsparse.sources.dask.samples import DaskSamples
from jointsparse.sources.finite import refuse_missing

LEAST_ENTRIES = 2**18  # 2 MB of float64: a task takes Dask about a millisecond whatever it does


def is_dask(X: Any) -> bool:
    """Tell whether something is a Dask collection; imports nothing."""
    kind = type(X)
    return kind.__module__.partition(".")[0].startswith("dask") and hasattr(kind, "__dask_graph__")


class DaskSource(Source):
    """A Dask array or DataFrame.

    Parameters
    ----------
    collection : dask.array.Array or dask.dataframe.DataFrame
        Samples in rows. An array may be chunked in any way, into chunks of unknown lengths too;
        columns that lie in several chunks are brought together, block of rows by block of rows.
    feature_names : ndarray of str or None
        Names of the columns.

    Examples
    --------
    >>> import dask.array as da
    >>> from jointsparse.sources.dask.source import DaskSource
    >>> DaskSource(da.ones((1000, 4), chunks=(300, 2)))
    DaskSource(n_samples=1000, n_features=4)
    """

    _held = False  # whether only the workers of a cluster have the blocks

    def __init__(self, collection: Any, feature_names: NDArray[Any] | None = None) -> None:
        self.collection = collection
        self.feature_names = feature_names
        self._lengths: list[int] | None = None
        if is_frame(collection):
            self.n_features = len(collection.columns)
            self.dtype = frame_type(collection)
        else:
            check_array(collection)
            self.n_features, self.dtype = int(collection.shape[1]), collection.dtype
            self._lengths = known_lengths(collection)

    @cached_property
    def _blocks(self) -> list[Any]:
        """Consecutive rows with all columns, delayed."""
        if is_frame(self.collection):
            return frame_blocks(self.collection)
        blocks, self._lengths = array_blocks(self.collection, _suitable_rows(self.n_features))
        return blocks

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Number of rows; None until something was summed up over them, where it is not known."""
        return None if self._lengths is None else sum(self._lengths)

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield all blocks in order, one at a time, in memory here; their sizes are Dask's."""
        return (computed(block, held=self._held)[0] for block in self._blocks)

    def reduce(
        self,
        fold: Callable[..., State],
        combine: Callable[[State, State], State],
        *aligned: Any,
    ) -> State | None:
        """Sum something up over all rows, where they are; see :meth:`Source.reduce`.

        Each block is folded by itself and the states are combined in a tree that depends on the
        blocks alone: the result is the same for any number of workers, and after any of them died.
        """
        if aligned:
            self.measure()
        starts, lengths = self._positions()
        said = [None] * len(starts) if self._lengths is None else self._lengths
        arguments = (
            (start, length, *part)
            for start, length, part in zip(starts, said, self._parts(aligned), strict=True)
        )
        states = applied(partial(_folded, fold), self._blocks, arguments)
        state, self._lengths = computed(tree_sum(states, combine), lengths, held=self._held)
        return state

    def measure(self) -> None:
        """Find out how many rows every block has, where that is not known."""
        if self._lengths is None:
            self._lengths = list(computed(*self._positions()[1], held=self._held))

    def _positions(self) -> tuple[list[Any], list[Any]]:
        """Return the number of each block's first row, and how many it has: numbers, or delayed."""
        import dask

        blocks = self._blocks  # which are cut, and their lengths known, when first asked for
        if self._lengths is not None:
            return [*accumulate(self._lengths, initial=0)][:-1], self._lengths
        count, add = dask.delayed(_count_rows, pure=False), dask.delayed(_add, pure=False)
        lengths = [count(block) for block in blocks]
        # A chain, so that the first blocks are done before the last are read.
        return [*accumulate(lengths, add, initial=0)][:-1], lengths

    def _parts(self, aligned: Sequence[Any]) -> Iterator[list[Any]]:
        """Cut arrays with one row for each sample as the blocks are cut."""
        if not aligned:
            yield from ([] for _ in self._blocks)
            return
        starts, lengths = self._positions()
        for start, length in zip(starts, lengths, strict=True):
            yield [rows[start : start + length] for rows in aligned]

    def collect(self, function: Callable[..., Any], *aligned: Any) -> NDArray[Any]:
        """Return ``function(block, *parts)`` of all blocks, one below the other, in memory here."""
        if aligned:
            self.measure()
        states = applied(function, self._blocks, self._parts(aligned))
        found = computed(*states, held=self._held)
        return np.concatenate(found)

    def map(
        self,
        function: Callable[[Block], Block],
        n_features: int,
        dtype: Any = None,
        feature_names: NDArray[Any] | None = None,
    ) -> DaskSource:
        """Return the source of ``function(block)``: a collection of the same kind, not computed."""
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        mapped = map_rows(self.collection, function, n_features, dtype, feature_names)
        return DaskSource(mapped, feature_names)

    def columns(self, indices: Any) -> DaskSource:
        """Return the source of some columns; the others are not even read, where Dask can."""
        chosen = np.asarray(indices)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        names = None if self.feature_names is None else self.feature_names[chosen]
        kept = self.collection
        kept = kept.iloc[:, chosen.tolist()] if is_frame(kept) else kept[:, chosen]
        return DaskSource(kept, names)

    def finite(self, numbers: Any = None) -> DaskSource:
        """Return the same collection; a block with a missing value is refused when computed."""
        names = numbers if self.feature_names is None else self.feature_names
        check = partial(refuse_missing, names=names, source=self.name)
        return DaskSource(checked_rows(self.collection, check), self.feature_names)

    @property
    def remote(self) -> bool:
        """Whether the samples are on a cluster, not in the memory of this process."""
        return on_cluster()

    def as_given(self) -> Any:
        """Return the Dask collection."""
        return self.collection

    def persist(self) -> DaskSource:
        """Return the same source with its blocks kept in the memory of the workers.

        What a worker that dies takes with it is computed again from where the blocks came.
        """
        size = (self.n_samples or np.inf) * self.n_features * self.dtype.itemsize
        if not on_cluster() and size > self.budget:
            return self  # the workers are threads here: the blocks are read again each time
        blocks = persisted(self._blocks)
        kept = copy(self)  # only now: cutting the blocks tells their lengths
        kept._blocks, kept._held = blocks, on_cluster()
        return kept

    def operator(self, room: int | None = None) -> DaskSamples | None:
        """Return the centred samples as kernels see them, on the workers."""
        if is_frame(self.collection) or self._lengths is None:
            return None
        room = self.budget if room is None else room
        return DaskSamples.of(self.collection, memory=room // 4)

    def read(self) -> Any:
        """Return all rows in memory here."""
        if is_frame(self.collection):
            return np.concatenate(computed(*self._blocks, held=self._held))
        return plain_block(computed(self.collection)[0])


def _suitable_rows(n_features: int) -> int:
    """Return how many rows a block needs for its products to outweigh the rest of the work.

    That is the p × p sums, and what Dask spends on a task; smaller chunks are brought together.
    """
    n_features = max(1, n_features)
    wanted = max(BLOCK_ROWS, n_features, LEAST_ENTRIES // n_features)
    return min(wanted, max(1, BLOCK_ENTRIES // n_features))


def _folded(fold: Any, block: Block, start: int, length: int | None, *parts: Any) -> Any:
    if length not in (None, block.shape[0]):  # rows would be counted from the wrong place
        raise ValueError(
            f"a block of the Dask array has {block.shape[0]} rows, and Dask was told {length}; "
            "give the right shape where the array is made, or call compute_chunk_sizes() on it"
        )
    return fold(None, block, start, *parts) if block.shape[0] else None


def _count_rows(block: Block) -> int:
    return int(block.shape[0])


def _add(one: int, other: int) -> int:
    return one + other
