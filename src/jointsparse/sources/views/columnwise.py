"""Samples whose columns are filled, centred and scaled when they are read, each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.numerics.variance import standard_deviations
from jointsparse.sources.base import Block, Source
from jointsparse.sources.sums import (
    add_means,
    check_finite,
    check_sparse_finite,
    fold_mean,
    squares_around,
)


class ColumnwiseSource(Source):
    """(x_j - c_j) f_j in place of the column x_j, with b_j where a value is missing.

    As no column depends on another, some columns of the result are read from these columns of the
    source alone: wide files stay cheap to read in blocks of columns.

    Parameters
    ----------
    source : Source
        The samples as they are.
    fill : ndarray of shape (n_features,) or None
        b, in place of missing values; None leaves them.
    centre, factors : ndarray of shape (n_features,) or None
        c and f; None does neither.
    """

    def __init__(
        self,
        source: Source,
        *,
        fill: FloatArray | None = None,
        centre: FloatArray | None = None,
        factors: FloatArray | None = None,
    ) -> None:
        self.source = source
        self._fill, self._centre, self._factors = fill, centre, factors
        self.n_features, self.n_samples = source.n_features, source.n_samples
        self.dtype = np.dtype(np.float32 if source.dtype == np.float32 else np.float64)
        if factors is None and source.dtype.kind == "f":
            self.dtype = source.dtype
        self.feature_names, self.name = source.feature_names, source.name
        self.memory, self.entries = source.memory, source.entries

    @property
    def most_samples(self) -> int | None:
        """How many rows the source has at most."""
        return self.source.most_samples

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield the blocks of the source, changed."""
        for block in self.source.blocks(entries):
            yield self._changed(block, slice(None))

    def columns(self, indices: Any) -> Source:
        """Return the source of some columns; the others are not read where they need not be."""
        parts = {
            name: None if value is None else value[indices]
            for name, value in (
                ("fill", self._fill),
                ("centre", self._centre),
                ("factors", self._factors),
            )
        }
        return ColumnwiseSource(self.source.columns(indices), **parts)

    def read_columns(self, features: NDArray[np.int64]) -> Any:
        """Return some columns, given by their numbers in ascending order, in memory."""
        return self._changed(self.source.read_columns(features), features)

    def _changed(self, block: Block, features: Any) -> Block:
        if self._fill is not None:
            block = fill_block(block, self._fill[features])
        if self._factors is None:
            return block
        if sp.issparse(block):  # which stays sparse, and is never centred
            scaled = block.astype(np.float64).multiply(self._factors[features]).tocsr()
            return scaled.astype(self.dtype, copy=False)
        centre = 0.0 if self._centre is None else self._centre[features]
        changed = np.subtract(block, centre, dtype=np.float64)
        changed *= self._factors[features]
        return changed.astype(self.dtype, copy=False)


def fill_block(block: Block, means: FloatArray) -> Block:
    """Return the block with the means in place of what is missing; itself where nothing is."""
    if block.dtype.kind != "f":
        return block
    if sp.issparse(block):
        stored = np.isnan(block.data)
        if stored.any():
            block = block.copy()
            block.data[stored] = means[block.indices[stored]]
        return block
    holes = np.isnan(block)
    return np.where(holes, means.astype(block.dtype), block) if holes.any() else block


class Standardised(NamedTuple):
    """A source of standardised columns, and what they were.

    Attributes
    ----------
    source : Source
        Subtracts the mean and divides by the standard deviation while it is read; a column that is
        constant becomes 0. Sparse samples are divided only.
    n_samples : int
        Number of rows.
    mean, deviations : ndarray of shape (n_features,)
        Mean and standard deviation of every column.
    """

    source: Source
    n_samples: int
    mean: FloatArray
    deviations: FloatArray


def standardised(source: Source) -> Standardised:
    """Read the samples twice, for means and standard deviations; standardise from then on.

    A missing or infinite value raises ``NotFiniteError``.
    """
    state = source.reduce(_fold_finite_mean, add_means)
    if state is None:
        raise ValueError(f"{source.name} has no rows")
    n_samples, mean = state
    deviations = standard_deviations(squares_around(source, mean), n_samples)
    factors = 1 / np.where(deviations > 0, deviations, 1.0)
    # Methods centre sparse samples themselves, without making them dense.
    centre = mean if source.entries is None else None
    scaled = ColumnwiseSource(source, centre=centre, factors=factors)
    return Standardised(scaled, n_samples, mean, deviations)


def _fold_finite_mean(
    state: tuple[int, FloatArray] | None, block: Block, start: int
) -> tuple[int, FloatArray]:
    if sp.issparse(block):
        check_sparse_finite(block, start)
    else:
        check_finite(np.sum(block, axis=0, dtype=np.float64), block, start)
    return fold_mean(state, block, start)
