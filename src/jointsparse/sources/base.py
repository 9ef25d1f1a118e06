"""What a source of samples is, and the one door through which sums over them are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.io.budget import default_budget, limited_to
from jointsparse.operators.blocks import RemoteSamples
from jointsparse.sources.finite import refuse_missing
from jointsparse.sources.origin import Origin
from jointsparse.sources.read_ahead import read_ahead

BLOCK_ENTRIES = 2**22  # 32 MB of float64: larger blocks are no faster, smaller ones are slower
BLOCK_ROWS = 512  # fewer rows at a time would spend the time on the p × p sums, not the products
# Of what is allowed, for each entry of a block: a third of it is taken by blocks, see BLOCK_COPIES.
BYTES_OF_ENTRY = 160

Block = Any  # an array or CSR matrix of some consecutive rows
State = TypeVar("State")


class Source:
    """Samples in rows that are read block by block.

    A subclass sets the attributes and defines :meth:`blocks`; one whose blocks lie elsewhere (on
    the workers of a cluster) also overrides :meth:`reduce` and :meth:`map`. Nothing else in the
    library asks where samples are.

    Attributes
    ----------
    n_features : int
        Number of columns.
    n_samples : int or None
        Number of rows; None where only reading tells.
    dtype : numpy.dtype
        Type of the entries; single blocks may have a wider one (integers with missing values).
    feature_names : ndarray of str or None
        Names of the columns, where there are any.
    name : str
        What messages call the samples.
    memory : int or None
        Bytes that a computation may take; None is half of what is free.
    ids, labels : tuple of str
        Columns that are no features and go along with the samples.
    entries : int or None
        How many entries are stored of sparse samples; None of dense ones.
    origin : Origin or None
        What the rows are, where they are not samples like all others.
    """

    n_features: int
    n_samples: int | None
    dtype: np.dtype[Any]
    feature_names: NDArray[Any] | None = None
    name: str = "the data"
    memory: int | None = None
    ids: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    entries: int | None = None
    origin: Origin | None = None
    read_at_once: str = "blocks"  # what has to be read as a whole, in messages

    def aside(self, name: str) -> NDArray[Any]:
        """Return a column that goes along with the samples."""
        raise KeyError(name)  # pragma: no cover - of sources without such columns none is asked

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield all rows in order, some at a time.

        Parameters
        ----------
        entries : int or None
            How many entries a block may have, about; None is what suits the memory.
        """
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    @property
    def most_samples(self) -> int | None:
        """How many rows there are at most; None where only reading tells."""
        return self.n_samples

    @property
    def array(self) -> Any:
        """The array or sparse matrix itself where it is in memory; None elsewhere."""
        return None

    @property
    def budget(self) -> int:
        """Bytes that a computation may take."""
        return default_budget() if self.memory is None else self.memory

    @property
    def reading_bytes(self) -> int:
        """Bytes that reading takes beside the blocks: open pages, whole chunks, unparsed text."""
        inner = getattr(self, "source", None)
        return inner.reading_bytes if isinstance(inner, Source) else 0

    def block_entries(self) -> int:
        """Return how many entries a block should have."""
        # A few copies of a block in float64 exist at a time, and another one is being read.
        most = (self.budget - self.reading_bytes) // BYTES_OF_ENTRY
        return max(self.n_features, min(most, max(BLOCK_ENTRIES, BLOCK_ROWS * self.n_features)))

    def reduce(
        self,
        fold: Callable[..., State],
        combine: Callable[[State, State], State],
        *aligned: Any,
    ) -> State | None:
        """Sum something up over all rows.

        Parameters
        ----------
        fold : callable
            ``fold(state, block, start, *parts)`` takes some more rows into a state, which it may
            change, and returns it; a state of None is that of no rows. ``start`` is the number of
            the block's first row, and ``parts`` are the rows of ``aligned`` that belong to it.
            Functions that can be pickled, so that they can be sent to where the samples are.
        combine : callable
            ``combine(one, other)`` makes one state of those of two runs of rows, the first before
            the second. Called in an order that depends on the blocks alone; not at all where
            every block is folded into the same state, as here.
        *aligned : arrays with one row for each sample
            Weights or factors of the samples.

        Returns
        -------
        object
            The state of all rows, None where there are none.
        """
        state: State | None = None
        start = 0
        for block in self._blocks_to_fold():
            stop = start + block.shape[0]
            state = fold(state, block, start, *(rows[start:stop] for rows in aligned))
            start = stop
        return state

    def _blocks_to_fold(self) -> Iterator[Block]:
        # The next block is read while the sums over this one are computed.
        return read_ahead(self.blocks())

    def collect(self, function: Callable[..., Any], *aligned: Any) -> NDArray[Any]:
        """Return ``function(block, *parts)`` of all blocks, one below the other, in memory."""
        found = self.reduce(partial(_append, function), _join, *aligned)
        if not found:
            raise ValueError(f"{self.name} has no rows")
        return np.concatenate(found)

    def map(
        self,
        function: Callable[[Block], Block],
        n_features: int,
        dtype: Any = None,
        feature_names: NDArray[Any] | None = None,
    ) -> Source:
        """Return the source of ``function(block)``; nothing is read before its blocks are."""
        return MappedSource(self, function, n_features, dtype, feature_names)

    def columns(self, indices: Any) -> Source:
        """Return the source of some columns, in the given order."""
        chosen = np.asarray(indices)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        names = None if self.feature_names is None else self.feature_names[chosen]
        return self.map(partial(_take_columns, columns=chosen), chosen.size, self.dtype, names)

    def map_finite(
        self,
        function: Callable[[Block], Block],
        n_features: int,
        dtype: Any = None,
        feature_names: NDArray[Any] | None = None,
    ) -> Source:
        """Return the same as :meth:`map`; a block with a missing value is refused when read."""
        return self.finite().map(function, n_features, dtype, feature_names)

    def finite(self, numbers: Any = None) -> Source:
        """Return the same source, of which a block with a missing value is refused when read.

        Parameters
        ----------
        numbers : sequence of int or None
            What messages call columns without a name, counted from 0.
        """
        return CheckedSource(self, numbers if self.feature_names is None else self.feature_names)

    def rows(self, indices: Any) -> Any:
        """Return some rows, in the order of the source, in memory."""
        wanted = np.sort(np.asarray(indices, dtype=np.int64))
        found = self.reduce(partial(_take_rows, wanted=wanted), _join)
        return _stack(found or [])

    def read(self) -> Any:
        """Return all rows in memory: an array, or a CSR matrix."""
        if self.array is not None:
            return self.array
        if self.n_samples is None:
            return _stack(list(self.blocks()))
        values, start = np.empty((self.n_samples, self.n_features), dtype=self.dtype), 0
        for block in self.blocks():
            if sp.issparse(block):
                return _stack(list(self.blocks()))
            stop = start + block.shape[0]
            if block.dtype != values.dtype:
                values = values.astype(np.result_type(values, block), copy=False)
            if stop <= self.n_samples:
                values[start:stop] = block
            start = stop
        if start != self.n_samples:  # what is beyond them was never written
            raise ValueError(
                f"{self.name} says to have {self.n_samples} rows, and has {start}: it is damaged"
            )
        return values

    @property
    def remote(self) -> bool:
        """Whether the samples are elsewhere, where sums over them are computed."""
        return False

    def as_given(self) -> Any:
        """Return what the caller of ``transform`` gets: this, or the collection it stands for."""
        return self

    def persist(self) -> Source:
        """Return the same source, at hand for many passes where it can be; here, as it is."""
        return self

    def operator(self, room: int | None = None) -> RemoteSamples | None:
        """Return the centred samples as kernels see them, where they are; None: not by columns.

        Parameters
        ----------
        room : int or None
            Bytes that blocks of columns, and columns that are kept, may take; None: the budget.
        """
        from jointsparse.sources.files.samples import FileSamples  # which builds on this

        if self.n_samples is None:
            return None
        features = np.arange(self.n_features)
        room = self.budget if room is None else room
        return FileSamples(self, features, memory=room // 4, room=room)

    def read_columns(self, features: NDArray[np.int64]) -> Any:
        """Return some columns, given by their numbers in ascending order, in memory."""
        return self.columns(features).read()

    def write(self, path: Any) -> None:
        """Write all rows to a Parquet, Arrow, CSV, TSV or .npy file, block by block.

        The file appears whole or not at all.
        """
        from jointsparse.sources.files.writing import (
            write_source,  # which knows the kinds of sources
        )

        write_source(path, self)

    def column_name(self, column: int) -> str:
        """Return what messages call a column."""
        if self.feature_names is None:
            return f"number {column + 1}"
        return str(self.feature_names[column])

    def __repr__(self) -> str:
        rows = "unknown" if self.n_samples is None else self.n_samples
        return f"{type(self).__name__}(n_samples={rows}, n_features={self.n_features})"


class MappedSource(Source):
    """Another source with a function applied to each of its blocks when they are read."""

    def __init__(
        self,
        source: Source,
        function: Callable[..., Block],
        n_features: int,
        dtype: Any = None,
        feature_names: NDArray[Any] | None = None,
    ) -> None:
        self.source = source
        self.function = function
        self.n_features = n_features
        self.n_samples = source.n_samples
        self.dtype = source.dtype if dtype is None else np.dtype(dtype)
        self.feature_names = feature_names
        self.name = source.name
        self.memory = source.memory

    @property
    def most_samples(self) -> int | None:
        """How many rows the other source has at most."""
        return self.source.most_samples

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield the blocks of the other source, each with the function applied."""
        return map(self.function, self.source.blocks(entries))


class CheckedSource(MappedSource):
    """Another source, of which a block with a missing value is refused when it is read.

    Parameters
    ----------
    source : Source
        Samples.
    names : sequence of str or int, or None
        What messages call the columns.
    """

    def __init__(self, source: Source, names: Any) -> None:
        check = partial(refuse_missing, names=names, source=source.name)
        super().__init__(source, check, source.n_features, None, source.feature_names)

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield the blocks of the other source, each after the check."""
        start = 0
        for block in self.source.blocks(entries):
            yield self.function(block, start=start)
            start += block.shape[0]


@contextmanager
def within_memory_of(X: Any) -> Iterator[None]:
    """Let kernels take no more memory than a source allows, within the block.

    Of anything else, and of a source that says nothing, what was allowed before stays so.
    """
    allowed = X.memory if isinstance(X, Source) else None
    with nullcontext() if allowed is None else limited_to(allowed):
        yield


def _append(function: Any, state: Any, block: Block, start: int, *parts: Any) -> list[Any]:
    return [*(state or []), function(block, *parts)]


def _join(one: list[Any], other: list[Any]) -> list[Any]:
    return one + other


def _take_columns(block: Block, columns: NDArray[np.int64]) -> Block:
    return block[:, columns]


def _take_rows(state: Any, block: Block, start: int, wanted: NDArray[np.int64]) -> list[Any]:
    first, last = np.searchsorted(wanted, [start, start + block.shape[0]])
    return [*(state or []), block[wanted[first:last] - start]]


def _stack(blocks: Sequence[Block]) -> Any:
    if not blocks:
        raise ValueError("there are no rows")
    return sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)
