"""Missing and infinite values in blocks that are mapped: found when a block is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

# Methods that look at samples one by one have no such parameter.
FILL = "fill it (missing='mean' does, where there is this parameter), or drop the row"


def refuse_missing(
    block: Any, names: Any, source: str, start: int | None = None, block_info: Any = None
) -> Any:
    """Return a block as it is, or say where in it a value is missing or infinite.

    Parameters
    ----------
    block : ndarray, sparse matrix or pandas data frame
        Some rows.
    names : sequence of str or int, or None
        Names of the columns, or their numbers in the whole table.
    source : str
        What messages call the samples.
    start : int or None
        Number of the first row, counted from 0; None where it is not known.
    block_info : dict or None
        What Dask says of a block of an array: where it begins.
    """
    found = _not_finite(block)
    if found is None:
        return block
    row, column, value = found
    named = column if names is None else names[column]
    where = repr(named) if isinstance(named, str) else f"number {int(named) + 1}"
    what = "a missing value" if np.isnan(value) else f"an infinite value {value}"
    row_named = _row_in_words(block, row, _start_of(block_info) if start is None else start)
    raise ValueError(f"{source} has {what} in column {where}{row_named}; {FILL}")


def _not_finite(block: Any) -> tuple[int, int, float] | None:
    """Return row, column and value of the first entry that is not finite."""
    if hasattr(block, "to_scipy_sparse"):
        block = block.to_scipy_sparse()
    if sp.issparse(block):
        if np.isfinite(block.data).all():
            return None
        stored = block.tocoo()
        wrong = np.flatnonzero(~np.isfinite(stored.data))
        first = wrong[np.lexsort((stored.col[wrong], stored.row[wrong]))[0]]
        return int(stored.row[first]), int(stored.col[first]), float(stored.data[first])
    values = block
    if not isinstance(block, np.ndarray):  # a part of a data frame, of columns of several types
        values = block.to_numpy(dtype=np.float64, na_value=np.nan)
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return None
    row, column = (int(place[0]) for place in np.nonzero(~np.isfinite(values)))
    return row, column, float(values[row, column])


def _start_of(block_info: Any) -> int | None:
    """Return where a block of a Dask array begins; None where lengths before it are not known."""
    if not block_info:
        return None
    first = block_info[0]["array-location"][0][0]
    return None if np.isnan(first) else int(first)


def _row_in_words(block: Any, row: int, start: int | None) -> str:
    if hasattr(block, "index"):  # of a data frame the label of a row tells more than its number
        return f", row {block.index[row]}"
    return "" if start is None else f", data row {start + row + 1}"
