"""Dask arrays and DataFrames as delayed blocks of rows with all columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.numerics.sparse import canonical
from jointsparse.sources.door import without_mask
from jointsparse.sources.frames import number_type


def is_frame(collection: Any) -> bool:
    """Tell a Dask DataFrame from a Dask array and from everything else."""
    kind = type(collection)  # an object of Dask's Delayed claims to have every attribute
    return hasattr(kind, "columns") and hasattr(kind, "map_partitions")


def array_blocks(array: Any, rows: int) -> tuple[list[Any], list[int] | None]:
    """Cut a Dask array into delayed blocks of rows.

    Parameters
    ----------
    array : dask.array.Array
        Of two dimensions, chunked in any way; the chunks may have unknown numbers of rows.
    rows : int
        Smaller chunks of rows are put together until they have so many, where their lengths are
        known.

    Returns
    -------
    blocks : list of dask.delayed.Delayed
        Arrays, or CSR matrices.
    lengths : list of int or None
        Their numbers of rows, where they are known.
    """
    import dask

    layout: dict[int, Any] = {1: -1}
    if known_lengths(array) is not None:
        layout[0] = _merged(array.chunks[0], rows)
    array = array.rechunk(layout)
    blocks = list(array.to_delayed().ravel())
    if type(array._meta) is not np.ndarray:
        convert = dask.delayed(plain_block, pure=False)
        blocks = [convert(block) for block in blocks]
    return blocks, known_lengths(array)


def check_array(array: Any) -> None:
    """Refuse a Dask array, or another Dask collection, that is no table of real numbers."""
    if not hasattr(type(array), "chunks"):
        raise ValueError(f"a Dask array or DataFrame is needed; got a Dask {type(array).__name__}")
    if array.ndim != 2:
        raise ValueError(
            f"samples are the rows of a two-dimensional array; got a Dask array of shape "
            f"{array.shape}"
        )
    if np.isnan(array.shape[1]):
        raise ValueError(
            "the number of columns of the Dask array is unknown; call compute_chunk_sizes() on it"
        )
    if array.dtype.kind not in "biuf":
        raise ValueError(f"the Dask array holds {array.dtype}; real numbers are needed")


def known_lengths(array: Any) -> list[int] | None:
    """Return how many rows each chunk has, or None where Dask does not know."""
    lengths = array.chunks[0]
    return None if any(np.isnan(length) for length in lengths) else list(map(int, lengths))


def _merged(lengths: tuple[int, ...], rows: int) -> tuple[int, ...]:
    merged: list[int] = []
    for length in lengths:
        if merged and merged[-1] < rows and merged[-1] + length <= 2 * rows:
            merged[-1] += length
        else:
            merged.append(length)
    return tuple(merged)


def plain_block(block: Any) -> Any:
    """Make a CSR matrix of whatever sparse block Dask holds, an array of anything else."""
    if hasattr(block, "to_scipy_sparse"):
        block = block.to_scipy_sparse()
    if sp.issparse(block):
        return canonical(block).tocsr()
    return np.asarray(without_mask(block))


def frame_type(frame: Any) -> np.dtype[Any]:
    """Return the type of number that holds every column; refuse, by name, those without one."""
    columns = list(frame.dtypes.items())
    types = [number_type(dtype) for _, dtype in columns]
    wrong = [name for (name, _), found in zip(columns, types, strict=True) if found is None]
    if wrong:
        named = ", ".join(repr(name) for name in wrong[:5]) + (", …" if len(wrong) > 5 else "")
        raise ValueError(
            f"{len(wrong)} columns of the Dask DataFrame are not numeric: {named}; drop or encode "
            "them"
            if len(wrong) > 1
            else f"column {named} of the Dask DataFrame is not numeric; drop or encode it"
        )
    numbers = [found for found in types if found is not None]
    return np.result_type(*numbers) if numbers else np.dtype(np.float64)  # where none were kept


def frame_blocks(frame: Any) -> list[Any]:
    """Return the partitions of a Dask DataFrame as delayed arrays."""
    import dask

    dtype = frame_type(frame)
    nullable = any(not isinstance(found, np.dtype) for found in frame.dtypes)
    convert = dask.delayed(_frame_values, pure=False)
    return [convert(part, dtype, nullable) for part in frame.to_delayed()]


def _frame_values(part: Any, dtype: Any, nullable: bool) -> Any:
    if nullable:
        return part.to_numpy(dtype=dtype, na_value=np.nan)
    return part.to_numpy(dtype=dtype)


def map_rows(
    collection: Any,
    function: Callable[[Any], Any],
    n_columns: int,
    dtype: np.dtype[Any],
    names: Any,
) -> Any:
    """Return ``function(block)`` of every block of rows: a collection of the same kind.

    Nothing is computed. A DataFrame becomes a DataFrame with the same index.
    """
    if is_frame(collection):
        columns = list(range(n_columns)) if names is None else list(names)
        meta = collection._meta.iloc[:0, :0].reindex(columns=columns).astype(dtype)
        convert = partial(_frame_part, function=function, meta=meta, dtype=frame_type(collection))
        return collection.map_partitions(convert, meta=meta)
    whole = collection.rechunk({1: -1})
    return whole.map_blocks(
        partial(_array_part, function=function),
        dtype=dtype,
        chunks=(whole.chunks[0], (n_columns,)),
        meta=np.empty((0, 0), dtype=dtype),
    )


def checked_rows(collection: Any, check: Callable[[Any], Any]) -> Any:
    """Return the same collection, whose parts go through a check when they are computed."""
    if is_frame(collection):
        return collection.map_partitions(check, meta=collection._meta)
    whole = collection.rechunk({1: -1})
    return whole.map_blocks(check, dtype=whole.dtype, meta=whole._meta)


def _array_part(block: Any, function: Callable[[Any], Any]) -> Any:
    return function(plain_block(block))


def _frame_part(part: Any, function: Callable[[Any], Any], meta: Any, dtype: Any) -> Any:
    nullable = any(not isinstance(found, np.dtype) for found in part.dtypes)
    values = function(_frame_values(part, dtype, nullable))
    return type(part)(values, columns=meta.columns, index=part.index)
