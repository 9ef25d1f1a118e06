"""Missing and infinite values in blocks that are mapped: found when a block is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp


def refuse_missing(block: Any, names: Any, source: str) -> Any:
    """Return a block as it is, or say in which of its columns a value is missing or infinite.

    Parameters
    ----------
    block : ndarray, sparse matrix or pandas data frame
        Some rows.
    names : sequence of str or int, or None
        Names of the columns, or their numbers in the whole table.
    source : str
        What messages call the samples.
    """
    values = block.data if sp.issparse(block) else block
    if isinstance(values, np.ndarray):
        if values.dtype.kind != "f" or np.isfinite(values).all():
            return block
    else:  # a part of a data frame, whose columns may be of several types
        values = block.to_numpy(dtype=np.float64, na_value=np.nan)
        if np.isfinite(values).all():
            return block
    if sp.issparse(block):
        found = block.tocoo()
        wrong = int(np.flatnonzero(~np.isfinite(found.data))[0])
        column, value = int(found.col[wrong]), float(found.data[wrong])
    else:
        row, column = (int(place[0]) for place in np.nonzero(~np.isfinite(values)))
        value = float(values[row, column])
    named = column if names is None else names[column]
    where = repr(named) if isinstance(named, str) else f"number {int(named) + 1}"
    what = "a missing value" if np.isnan(value) else f"an infinite value {value}"
    raise ValueError(f"{source} has {what} in column {where}; fill it, or drop the row")


def after_check(block: Any, function: Callable[[Any], Any], names: Any, source: str) -> Any:
    """Return ``function(block)``, unless a value of the block is missing or infinite."""
    return function(refuse_missing(block, names, source))
