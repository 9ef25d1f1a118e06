"""Samples on a Dask cluster, or in a Dask graph that this machine computes.

Blocks are read, and sums over them computed, where Dask puts them; only what a computation asks
for (a p × p matrix, some numbers for each sample) comes here. Nothing of ``distributed`` is
imported: Dask sends its graphs to a cluster by itself where there is a client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.sources.base import BLOCK_ENTRIES, BLOCK_ROWS, Block, Source, State, _stack
from jointsparse.sources.dask_blocks import array_blocks, frame_blocks, frame_type, is_frame

STATES_AT_A_TIME = 4  # how many partial sums one task of the tree adds up


def is_dask(X: Any) -> bool:
    """Tell whether something is a Dask collection; imports nothing."""
    kind = type(X)
    return kind.__module__.partition(".")[0].startswith("dask") and hasattr(kind, "__dask_graph__")


class DaskSource(Source):
    """A Dask array or DataFrame.

    Parameters
    ----------
    blocks : sequence of dask.delayed.Delayed
        Consecutive rows: arrays or CSR matrices with all columns.
    lengths : sequence of int or None
        How many rows each block has; None where only computing it tells.
    n_features : int
        Number of columns.
    dtype : numpy.dtype
        Type of the entries.
    feature_names : ndarray of str or None
        Names of the columns.

    Examples
    --------
    >>> import dask.array as da
    >>> from jointsparse.sources.dask import DaskSource
    >>> source = DaskSource.of(da.ones((1000, 4), chunks=(300, 2)))
    >>> source, source.array is None
    (DaskSource(n_samples=1000, n_features=4), True)
    """

    def __init__(
        self,
        blocks: Sequence[Any],
        lengths: Sequence[int] | None,
        n_features: int,
        dtype: Any,
        feature_names: NDArray[Any] | None = None,
    ) -> None:
        self._blocks = list(blocks)
        self._lengths = None if lengths is None else [int(length) for length in lengths]
        self.n_features = n_features
        self.dtype = np.dtype(dtype)
        self.feature_names = feature_names

    @classmethod
    def of(cls, collection: Any, feature_names: NDArray[Any] | None = None) -> DaskSource:
        """Take a Dask array of two dimensions or a Dask DataFrame; nothing is computed.

        Columns that lie in several chunks are brought together, block of rows by block of rows.
        """
        if is_frame(collection):
            blocks, dtype = frame_blocks(collection), frame_type(collection)
            return cls(blocks, None, len(collection.columns), dtype, feature_names)
        rows = _suitable_rows(collection)
        blocks, lengths = array_blocks(collection, rows)
        return cls(blocks, lengths, collection.shape[1], collection.dtype, feature_names)

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Number of rows; None until something was summed up over them, where it is not known."""
        return None if self._lengths is None else sum(self._lengths)

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield all blocks in order, one at a time, in memory here; their sizes are Dask's."""
        return (block.compute() for block in self._blocks)

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
        import dask

        if aligned:
            self.measure()
        starts, lengths = self._positions()
        # The functions, and whatever arrays they carry, are in the graph once, not in every task.
        folding = dask.delayed(partial(_folded, fold), pure=False)
        joining = dask.delayed(partial(_joined, combine), pure=False)
        apply = dask.delayed(_apply, pure=False)
        states = [
            apply(folding, block, start, *parts)
            for block, start, parts in zip(self._blocks, starts, self._parts(aligned), strict=True)
        ]
        while len(states) > 1:
            groups = range(0, len(states), STATES_AT_A_TIME)
            states = [apply(joining, states[i : i + STATES_AT_A_TIME]) for i in groups]
        if not states:
            return None
        state, self._lengths = dask.compute(states[0], lengths)
        return state

    def measure(self) -> None:
        """Find out how many rows every block has, where that is not known."""
        if self._lengths is None:
            import dask

            self._lengths = list(dask.compute(*self._positions()[1]))

    def _positions(self) -> tuple[list[Any], list[Any]]:
        """Return the number of each block's first row, and how many it has: numbers, or delayed."""
        import dask

        if self._lengths is not None:
            return [*accumulate(self._lengths, initial=0)][:-1], self._lengths
        count, add = dask.delayed(_count_rows, pure=False), dask.delayed(_add, pure=False)
        lengths = [count(block) for block in self._blocks]
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
        import dask

        if aligned:
            self.measure()
        applied, apply = dask.delayed(function, pure=False), dask.delayed(_apply, pure=False)
        found = dask.compute(
            *(
                apply(applied, block, *parts)
                for block, parts in zip(self._blocks, self._parts(aligned), strict=True)
            )
        )
        return np.concatenate(found)

    def map(
        self,
        function: Callable[[Block], Block],
        n_features: int,
        dtype: Any = None,
        feature_names: NDArray[Any] | None = None,
    ) -> DaskSource:
        """Return the source of ``function(block)``, to be computed where the blocks are."""
        import dask

        applied, apply = dask.delayed(function, pure=False), dask.delayed(_apply, pure=False)
        blocks = [apply(applied, block) for block in self._blocks]
        dtype = self.dtype if dtype is None else dtype
        return DaskSource(blocks, self._lengths, n_features, dtype, feature_names)

    def persist(self) -> DaskSource:
        """Return the same source with its blocks kept in the memory of the workers.

        What a worker that dies takes with it is computed again from where the blocks came.
        """
        import dask

        blocks = dask.persist(*self._blocks)
        return DaskSource(
            blocks, self._lengths, self.n_features, self.dtype, self.feature_names
        )

    def read(self) -> Any:
        """Return all rows in memory here."""
        import dask

        return _stack(dask.compute(*self._blocks))


def _suitable_rows(array: Any) -> int:
    """Return how many rows a block needs for the sums, p × p, not to cost more than the products.

    Chunks may be much smaller; those with as many rows as columns are never brought together.
    """
    n_features = max(1, int(array.shape[1]))
    return max(BLOCK_ROWS, min(n_features, BLOCK_ENTRIES // n_features))


def _apply(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


def _folded(fold: Any, block: Block, start: int, *parts: Any) -> Any:
    return fold(None, block, start, *parts) if block.shape[0] else None


def _joined(combine: Any, states: list[Any]) -> Any:
    present = [state for state in states if state is not None]
    if not present:
        return None
    total = present[0]
    for state in present[1:]:
        total = combine(total, state)
    return total


def _count_rows(block: Block) -> int:
    return int(block.shape[0])


def _add(one: int, other: int) -> int:
    return one + other
