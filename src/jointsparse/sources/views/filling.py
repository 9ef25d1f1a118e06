"""Missing values filled with the mean of their column, in two passes over the samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.sources.base import Block, Source
from jointsparse.sources.sums import NotFiniteError
from jointsparse.sources.views.columnwise import ColumnwiseSource


class Filled(NamedTuple):
    """A source without missing values, and what was filled.

    Attributes
    ----------
    source : Source
        Fills while it is read; the source itself where nothing is missing.
    means : ndarray of shape (n_features,)
        Means of what is there; NaN for a column without a single value.
    missing : ndarray of shape (n_features,)
        How many values are missing in each column.
    n_samples : int
        How many rows there are.
    """

    source: Source
    means: FloatArray
    missing: NDArray[np.int64]
    n_samples: int


def filled_with_means(source: Source) -> Filled:
    """Read the samples once for the means of their columns; fill with them from then on."""
    state = source.reduce(_fold_present, _add_present)
    if state is None:
        raise ValueError(f"{source.name} has no rows")
    n, present, means = state
    missing = n - present
    means = np.where(present > 0, means, np.nan)
    if not missing.any():
        return Filled(source, means, missing, n)
    return Filled(ColumnwiseSource(source, fill=means), means, missing, n)


Present = tuple[int, NDArray[np.int64], FloatArray]


def _fold_present(state: Present | None, block: Block, start: int) -> Present:
    dense = block.toarray() if sp.issparse(block) else block
    values = np.asarray(dense, dtype=np.float64)
    rows, columns = np.nonzero(np.isinf(values))
    if rows.size:
        at = (int(rows[0]), int(columns[0]))
        raise NotFiniteError(start + at[0], at[1], float(values[at]))
    there = ~np.isnan(values)
    count = there.sum(axis=0)
    means = np.where(there, values, 0.0).sum(axis=0) / np.maximum(count, 1)
    found = (block.shape[0], count, means)
    return found if state is None else _add_present(state, found)


def _add_present(one: Present, other: Present) -> Present:
    count = one[1] + other[1]
    share = other[1] / np.maximum(count, 1)
    return one[0] + other[0], count, one[2] + (other[2] - one[2]) * share
