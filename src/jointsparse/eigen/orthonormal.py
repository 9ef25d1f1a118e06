"""Orthonormal bases of tall, thin arrays, in float64 accumulation whatever their dtype."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs

from jointsparse.arrays import Array, FloatArray
from jointsparse.linalg import array_namespace, blocks, double, eigh, long_product, tall_product

LEAST_ANGLE = {8: 1e-8, 4: 1e-4}  # columns closer than this to a basis are in it, by bytes an entry
DEPENDENT = 1e-6  # length of what a row adds to those before it: below, squares leave no digits


def orthonormalised(columns: Array, least: float = 0.0) -> Array:
    """Orthonormal basis of range(columns), without directions of squared length below ``least``."""
    xp = array_namespace(columns)
    values, rotation = eigh(long_product(columns.T, columns))
    keep = values > least
    return tall_product(columns, rotation[:, keep] / xp.sqrt(values[keep]))


def outside(basis: Array, columns: Array) -> Array:
    """Return an orthonormal basis of what range(columns) has outside range(basis)."""
    xp = array_namespace(columns)
    lengths = xp.sqrt(_column_sums(columns))
    positive = lengths > 0
    columns = columns[:, positive] / xp.astype(lengths[positive], columns.dtype, copy=False)
    # Columns that the basis holds already leave rounding behind, which must not become a direction.
    least = LEAST_ANGLE[4 if columns.dtype == xp.float32 else 8] ** 2
    # The second pass removes what rounding left of the first. Directions of which it leaves less
    # than half were nothing else: noise that was made as long as the others.
    for shortest in (least, 0.5):
        if columns.shape[1] == 0:
            break
        columns = columns - tall_product(basis, long_product(basis.T, columns))
        columns = orthonormalised(columns, shortest)
    return columns


def _column_sums(columns: Array) -> Array:
    xp = array_namespace(columns)
    if columns.dtype == xp.float64:
        return xp.sum(columns * columns, axis=0)
    total = xp.zeros(columns.shape[1], dtype=xp.float64, device=columns.device)
    for part in blocks(columns.shape[0]):
        total += xp.sum(double(columns[part, :]) ** 2, axis=0)
    return total


def orthonormal_rows(rows: FloatArray) -> FloatArray | None:
    """Return rows that are orthonormal and span the same space; None where they depend."""
    factor, failed = dpotrf(rows @ rows.T, lower=1)
    if failed or np.min(np.diagonal(factor)) <= DEPENDENT * np.max(np.diagonal(factor)):
        return None
    return np.asarray(dtrtrs(factor, rows, lower=1)[0])
