r"""Products with a Dask array of few rows and very many columns, chunked along the columns.

The centred matrix X = R - 1μᵀ (n × p, p ≫ n) is cut into blocks of columns X_b that stay on the
workers. Only thin matrices travel:

.. math:: XU = \sum_b X_bU_b,\qquad (X^\top V)_b = X_b^\top V,\qquad XX^\top = \sum_b X_bX_b^\top .

Sums are added in a tree that depends on the blocks alone. Everything is centred and added up in
float64 whatever the type of the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.sources.base import BLOCK_ENTRIES
from jointsparse.sources.dask_graph import applied, on_cluster, tree_sum


class DaskWide:
    """Centred samples on a cluster, as the solvers for many features see them.

    Parameters
    ----------
    blocks : sequence of dask.delayed.Delayed
        Consecutive columns with all rows: arrays.
    widths : sequence of int
        How many columns each block has.
    n_samples : int
        Number of rows.
    dtype : numpy.dtype
        Type of the entries.
    collect : callable
        ``collect(array)`` makes of a centred array what the solvers take in the place of this.
    memory : int
        Bytes that a selection of the columns may take in memory here; larger ones stay where they
        are.
    mean : ndarray of shape (n_features,) or None
        Mean of every column; computed where it is not given.
    """

    def __init__(
        self,
        blocks: Sequence[Any],
        widths: Sequence[int],
        n_samples: int,
        dtype: Any,
        *,
        collect: Callable[[NDArray[Any]], Any],
        memory: int,
        mean: FloatArray | None = None,
    ) -> None:
        self._blocks, self._widths = list(blocks), list(widths)
        self._collect, self._memory = collect, memory
        self.shape = (n_samples, sum(self._widths))
        self.dtype = np.dtype(np.float32 if dtype == np.float32 else np.float64)
        self.empty = np.empty((self.shape[1], 0), dtype=self.dtype)
        self.mean = np.zeros(self.shape[1]) if mean is None else mean
        if mean is None:
            self.mean = self._side_by_side(_means)
        self._gram: FloatArray | None = None

    @classmethod
    def of(cls, array: Any, *, collect: Callable[[NDArray[Any]], Any], memory: int) -> DaskWide:
        """Take a Dask array of known shape; its rows are brought together, chunk by chunk.

        On a cluster the blocks are kept in the memory of the workers: solvers come back to them
        many times.
        """
        import dask

        n_samples = int(array.shape[0])
        least = max(1, BLOCK_ENTRIES // max(1, n_samples))
        array = array.rechunk({0: -1, 1: _merged(array.chunks[1], least)})
        blocks = list(array.to_delayed().ravel())
        if on_cluster():
            blocks = list(dask.persist(*blocks))
        widths = [int(width) for width in array.chunks[1]]
        return cls(blocks, widths, n_samples, array.dtype, collect=collect, memory=memory)

    def times(self, columns: FloatArray) -> FloatArray:
        """Return XU."""
        parts = zip(self._cut(self.mean), self._cut(np.asarray(columns)), strict=True)
        return self._total(_times, parts)

    def transposed_times(self, rows: FloatArray) -> FloatArray:
        """Return XᵀV."""
        return self._side_by_side(partial(_transposed_times, rows=rows))

    def squared_lengths(self, rows: FloatArray | None = None) -> FloatArray:
        """Return ‖Vᵀx_j‖² for every feature; ‖x_j‖² without V."""
        return self._side_by_side(partial(_squared_lengths, rows=rows))

    def gram(self) -> FloatArray:
        """Return XXᵀ."""
        if self._gram is None:
            self._gram = self._total(_gram, self._means())
        return self._gram

    def columns(self, chosen: NDArray[np.bool_]) -> Any:
        """Return the data of some features: in memory here where they fit."""
        import dask

        chosen = np.asarray(chosen, dtype=bool)
        kept = int(np.count_nonzero(chosen))
        if kept * self.shape[0] * self.dtype.itemsize <= self._memory:
            return self._collect(self._selected(chosen).dense())
        if kept == self.shape[1]:
            return self
        selection = self._selected(chosen)
        if on_cluster():
            selection._blocks = list(dask.persist(*selection._blocks))
        return selection

    def _selected(self, chosen: NDArray[np.bool_]) -> DaskWide:
        masks = list(self._cut(chosen))
        some = [position for position, mask in enumerate(masks) if mask.any()]
        blocks = applied(
            _take_columns, [self._blocks[i] for i in some], [(masks[i],) for i in some]
        )
        return DaskWide(
            blocks,
            [int(np.count_nonzero(masks[i])) for i in some],
            self.shape[0],
            self.dtype,
            collect=self._collect,
            memory=self._memory,
            mean=self.mean[chosen],
        )

    def dense(self) -> NDArray[Any]:
        """Return the centred array, in memory here."""
        import dask

        result = np.empty(self.shape, dtype=self.dtype)
        centred = partial(_centred, dtype=self.dtype)
        start = 0
        for block in dask.compute(*applied(centred, self._blocks, self._means())):
            result[:, start : start + block.shape[1]] = block
            start += block.shape[1]
        return result

    def _cut(self, features: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Cut an array with one row for each feature as the blocks are cut."""
        start = 0
        for width in self._widths:
            yield features[start : start + width]
            start += width

    def _means(self) -> Iterator[tuple[FloatArray]]:
        return ((part,) for part in self._cut(self.mean))

    def _total(self, function: Callable[..., Any], parts: Any) -> FloatArray:
        import dask

        total = tree_sum(applied(function, self._blocks, parts), np.add)
        return np.asarray(dask.compute(total)[0])

    def _side_by_side(self, function: Callable[..., Any]) -> FloatArray:
        import dask

        return np.concatenate(dask.compute(*applied(function, self._blocks, self._means())))


def _merged(widths: Sequence[int], least: int) -> tuple[int, ...]:
    merged: list[int] = []
    for width in map(int, widths):
        if merged and merged[-1] < least and merged[-1] + width <= 2 * least:
            merged[-1] += width
        else:
            merged.append(width)
    return tuple(merged)


def _centred(block: Any, mean: FloatArray, dtype: Any = np.float64) -> NDArray[Any]:
    dense = block.toarray() if sp.issparse(block) else block
    return np.subtract(dense, mean, dtype=np.float64).astype(dtype, copy=False)


def _means(block: Any, _: FloatArray) -> FloatArray:
    return np.asarray(block.mean(axis=0, dtype=np.float64)).ravel()


def _times(block: Any, mean: FloatArray, columns: FloatArray) -> FloatArray:
    return _centred(block, mean) @ columns


def _transposed_times(block: Any, mean: FloatArray, rows: FloatArray) -> FloatArray:
    return _centred(block, mean).T @ rows


def _squared_lengths(block: Any, mean: FloatArray, rows: FloatArray | None) -> FloatArray:
    image = _centred(block, mean)
    if rows is not None:
        image = rows.T @ image
    return np.asarray(np.sum(image * image, axis=0))


def _gram(block: Any, mean: FloatArray) -> FloatArray:
    centred = _centred(block, mean)
    return centred @ centred.T


def _take_columns(block: Any, mask: NDArray[np.bool_]) -> Any:
    return block[:, np.flatnonzero(mask)]
