"""Sums over the samples of each batch, dense or sparse."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import like, to_host
from jointsparse.linalg import array_namespace, double
from jointsparse.sources.base import Block


class BatchSums(NamedTuple):
    """Weight, mean and squares around it of what is there of each batch and feature."""

    counts: FloatArray
    means: FloatArray
    squares: FloatArray

    def __add__(self, other: object) -> BatchSums:
        assert isinstance(other, BatchSums)
        counts = self.counts + other.counts
        share = np.divide(other.counts, counts, out=np.zeros_like(counts), where=counts > 0)
        shift = other.means - self.means
        squares = self.squares + other.squares + shift**2 * self.counts * share
        return BatchSums(counts, self.means + shift * share, squares)

    @property
    def total(self) -> FloatArray:
        """Mean over all batches."""
        counts = self.counts.sum(axis=0)
        sums = (self.counts * (self.means - self.means[:1])).sum(axis=0)
        return np.asarray(self.means[0] + sums / np.maximum(counts, np.finfo(float).tiny))


def fold_batches(
    state: BatchSums | None,
    block: Block,
    start: int,
    codes: IntArray,
    weights: FloatArray,
    *,
    n_batches: int,
) -> BatchSums:
    """Take a block into the sums of each batch."""
    shape = (n_batches, block.shape[1])
    found = BatchSums(np.zeros(shape), np.zeros(shape), np.zeros(shape))
    if sp.issparse(block):
        _sum_sparse(found, block, codes, weights)
        return found if state is None else state + found
    dense = double(block)
    xp = array_namespace(dense)
    for code in np.unique(codes).tolist():
        mine = np.flatnonzero(codes == code)
        rows, weight = dense[like(mine, dense)], like(weights[mine][:, None], dense)
        there = ~xp.isnan(rows)
        weight = xp.where(there, weight, xp.zeros_like(rows))
        rows = xp.where(there, rows, xp.zeros_like(rows))
        count = xp.sum(weight, axis=0)
        safe = xp.where(count > 0, count, xp.ones_like(count))
        mean = xp.sum(rows * weight, axis=0) / safe
        squares = xp.sum(weight * (rows - mean) ** 2, axis=0)
        found.counts[code], found.means[code] = to_host(count), to_host(mean)
        found.squares[code] = to_host(squares)
    return found if state is None else state + found


def _sum_sparse(found: BatchSums, block: Any, codes: IntArray, weights: FloatArray) -> None:
    """Sum up the batches of a sparse block, which stays sparse; missing values are left out."""
    rows = block.tocsr()
    for code in np.unique(codes).tolist():
        mine = np.flatnonzero(codes == code)
        part = rows[mine]
        weight = np.repeat(weights[mine], np.diff(part.indptr))
        values, there = part.data.astype(np.float64), ~np.isnan(part.data)
        add = partial(_per_column, part.indices, found.means.shape[1])
        count = weights[mine].sum() - add(np.where(there, 0.0, weight))
        weight, values = np.where(there, weight, 0.0), np.where(there, values, 0.0)
        mean = add(weight * values) / np.where(count > 0, count, 1.0)
        deviations = add(weight * (values - mean[part.indices]) ** 2)
        found.counts[code], found.means[code] = count, mean
        # Where all entries are stored this is rounding, and a large mean would blow it up.
        some = np.bincount(part.indices, minlength=mean.size) < mine.size
        found.squares[code] = deviations + np.where(some, count - add(weight), 0.0) * mean**2


def _per_column(columns: IntArray, n_columns: int, values: FloatArray) -> FloatArray:
    return np.asarray(np.bincount(columns, weights=values, minlength=n_columns), dtype=np.float64)
