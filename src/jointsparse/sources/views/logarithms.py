"""Samples whose values are replaced by log(1 + x) when they are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.io.errors import shown, table_error
from jointsparse.sources.base import Block, Source


class Log1pSource(Source):
    """log(1 + x) in place of every value x of a source; missing values stay missing.

    Some columns of the result are read from these columns of the source alone.

    Parameters
    ----------
    source : Source
        The samples as they are. A value of -1 or less is refused when it is read.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.n_features, self.n_samples = source.n_features, source.n_samples
        self.dtype = _kept(source.dtype)
        self.feature_names, self.name = source.feature_names, source.name
        self.memory = source.memory

    @property
    def most_samples(self) -> int | None:
        """How many rows the source has at most."""
        return self.source.most_samples

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield the blocks of the source, changed."""
        start = 0
        for block in self.source.blocks(entries):
            yield log1p(block, self.name, self.feature_names, start)
            start += block.shape[0]

    def columns(self, indices: Any) -> Source:
        """Return the source of some columns; the others are not read where they need not be."""
        return Log1pSource(self.source.columns(indices))

    def read_columns(self, features: NDArray[np.int64]) -> Any:
        """Return some columns, given by their numbers in ascending order, in memory."""
        names = features if self.feature_names is None else self.feature_names[features]
        return log1p(self.source.read_columns(features), self.name, names)


def _kept(dtype: Any) -> np.dtype[Any]:
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def log1p(values: Any, table: str, names: Any = None, start: int = 0) -> Any:
    """Return log(1 + x) of samples, or say which value has no logarithm.

    Parameters
    ----------
    values : ndarray or sparse matrix of shape (n_samples, n_features)
        Samples, or a block of them.
    table : str
        What messages call the table.
    names : sequence or None
        What they call the columns; None is their numbers.
    start : int
        Number of the first sample, counted from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.sources.views.logarithms import log1p
    >>> log1p(np.array([[0.0, 3.0], [1.0, -2.0]]), "t.csv", ["a", "b"])
    Traceback (most recent call last):
    ...
    jointsparse.io.errors.TableError: t.csv has -2 in column b, row 2, and log(1 + x) needs ...
    """
    stored = values.data if sp.issparse(values) else values
    bad = stored <= -1
    if bad.any():
        row, column, value = _first(values, bad)
        name = f"number {column + 1}" if names is None else shown(str(names[column]))
        raise table_error(
            table,
            f"has {value:g} in column {name}, row {start + row + 1}, and log(1 + x) needs values "
            "above -1; ",
            "use ranks instead.",
            "use --transform rank.",
        )
    changed = np.log1p(stored, dtype=_kept(stored.dtype))
    if not sp.issparse(values):
        return changed
    result = values.astype(changed.dtype)  # a copy
    result.data[:] = changed
    return result


def _first(values: Any, bad: NDArray[np.bool_]) -> tuple[int, int, float]:
    if sp.issparse(values):
        entries = values.tocoo()
        number = int(np.flatnonzero(entries.data <= -1)[0])
        return int(entries.row[number]), int(entries.col[number]), float(entries.data[number])
    row, column = (int(found[0]) for found in np.nonzero(bad))
    return row, column, float(values[row, column])
