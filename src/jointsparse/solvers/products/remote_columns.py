"""The features as the greedy kernel sees them, where they are elsewhere: products come here."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.linalg import array_namespace, double
from jointsparse.operators.samples import Samples
from jointsparse.solvers.products.columns import Columns


class RemoteColumns(Columns):
    """Centred columns that are reached through products, scaled so that their squares add up to 1.

    Parameters
    ----------
    wide : Samples
        The samples, such as blocks of columns on a cluster.
    squares : ndarray of shape (n_features,)
        Squared lengths of the columns, exactly 0 for constant ones.
    """

    def __init__(self, wide: Samples, squares: FloatArray) -> None:
        self.wide = wide
        self.live = squares > 0
        self.n_rows, self.n_features = wide.shape
        self.xp = array_namespace(squares)
        self._set_scale(squares)

    def take(self, features: Any) -> FloatArray:
        """Return some columns, m × k, in memory here."""
        wanted = np.arange(self.n_features)[features]
        chosen = np.zeros(self.n_features, dtype=bool)
        chosen[wanted] = True
        found = self.wide.columns(chosen).dense()[
            :, np.searchsorted(np.flatnonzero(chosen), wanted)
        ]
        return double(found) * (self.scale * self.live[wanted])

    def rows(self, part: slice) -> FloatArray:
        """Return some rows, k × p: as many products as rows."""
        axes = np.eye(self.n_rows)[:, part]
        return self.project(axes.T)

    def project(self, vectors: FloatArray) -> FloatArray:
        """Return vectors @ X for a few vectors (k × m) in rows."""
        return self.wide.transposed_times(vectors.T).T * (self.scale * self.live)

    def gram(self) -> FloatArray:
        """Return XXᵀ."""
        return self.wide.gram() * self.scale**2

    def times(self, loadings: FloatArray) -> FloatArray:
        """Return X @ loadings."""
        return self.wide.times(loadings * self.live[:, None]) * self.scale

    def left_over(
        self, span: FloatArray, kernel: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return ‖Px_j‖² and x_jᵀPKPx_j of all features; P takes orthonormal rows out."""
        outside = np.eye(self.n_rows) - span.T @ span
        unit = self.scale**2 * self.live
        lengths = self.wide.squared_lengths(outside) * unit
        if kernel is None:
            return lengths, np.zeros_like(lengths)
        values, axes = np.linalg.eigh(kernel)
        large = values > np.finfo(np.float64).eps * values[-1]
        root = outside @ (axes[:, large] * np.sqrt(values[large]))
        return lengths, self.wide.squared_lengths(root) * unit
