r"""What ``robust="samples"`` and ``robust="cells"`` do to samples, once it is known what is usual.

With location, unit and deviation of the columns (:mod:`jointsparse.robust.columns`):

* samples: :math:`z_i = (x_i - m)/s - c`, of length :math:`d_i`, with the centre c of the
  standardised samples: their geometric median, then the mean of those that are no outliers from
  there, weighted as below. As :math:`d_i^{2/3}` is nearly normal for Gaussian samples, however
  their columns depend on each other (Wilson, Hilferty), its distance from its median in robust
  units is the outlier score :math:`t_i`. Then :math:`y_i = w_i z_i` with

  .. math:: w_i = \min(1, L/d_i)\,\Bigl(\frac{5-t_i}{5-2.8}\Bigr)_0^1 ,

  L the length at :math:`t = 1`, which five of six Gaussian samples stay within: these stay as they
  are, longer ones keep their direction only (the spatial sign), and those far from all others count
  as nothing. Directions alone are not enough: a fifth of the samples, all on one side, would still
  decide the first component.
* cells: :math:`y_{ij} = \psi((x_{ij}-m_j)/u_j)`, the wrapping function.

At the end columns are divided by their standard deviations, which nothing gross is left to move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import like, to_host
from jointsparse.linalg import array_namespace, double
from jointsparse.robust.columns import HUGE, standardised
from jointsparse.robust.wrapping import GROSS, wrapped

KINDS = ("samples", "cells")
# Scores above this are outliers: 1 in 400 Gaussian samples. Of few samples the spread is widened
# for that (see learning.py); measured, never more than 1 in 100.
FAR = 2.807
GONE = 5.0  # scores from here on: 1 in 3 million, so that such a sample counts as nothing
USUAL = 1.0  # scores up to this keep their length


@dataclass(frozen=True)
class RobustRule:
    """What is usual in samples, and what becomes of those that are not.

    Attributes
    ----------
    kind : {"samples", "cells"}
        What is bounded: whole samples or single values.
    location, unit, deviation : ndarray of shape (n_features,)
        Of the columns; the deviation of a constant one is 0.
    shift : ndarray of shape (n_features,)
        Centre of the standardised samples; 0 for "cells".
    length, spread : float
        Median and unit of the samples' lengths to the power 2/3; the unit of few is widened.
    factors : ndarray of shape (n_features,)
        What columns are multiplied by at the end.
    signs : bool
        Whether all samples are brought to length 1 and nothing else is done: the textbook's
        spatial signs.
    """

    kind: str
    location: FloatArray
    unit: FloatArray
    deviation: FloatArray
    shift: FloatArray
    length: float
    spread: float
    factors: FloatArray
    signs: bool = False

    @property
    def centre(self) -> FloatArray:
        """What becomes 0, in the units of the samples."""
        return self.location + self.deviation * self.shift

    @property
    def scale(self) -> FloatArray:
        """What usual values are divided by; 1 for constant columns."""
        live = (self.deviation > 0) & (self.factors > 0)
        return np.where(live, self.deviation, 1.0) / np.where(live, self.factors, 1.0)

    def apply(self, block: Any, *, comparable: bool = True) -> Any:
        """Return samples, or some of them, as they count.

        Parameters
        ----------
        block : array or sparse matrix of shape (n_samples, n_features)
            float32 stays float32, sparse stays sparse.
        comparable : bool
            Whether the columns have a standard deviation of 1 each, and the centre is 0; otherwise
            both are as in the samples. What is sparse is never centred.
        """
        if sp.issparse(block):
            made = self._sparse(block)
            if comparable:
                return made
            return (made @ sp.diags_array(self.scale)).tocsr().astype(made.dtype)
        if self.kind == "cells":
            bent = wrapped(standardised(block, *self._here(block, self.location, self.unit)))
            final = bent * self._here(block, self._over(self.unit) * self.factors)[0]
        else:
            rows = self.rows(block)
            weights = self.weights(rows)
            final = rows * weights[:, None] * self._here(block, self.factors)[0]
        if not comparable:
            centre, scale = self._here(block, self.centre, self.scale)
            final = final * scale + centre
        return _as_given(final, block)

    def rows(self, block: Array) -> Array:
        """Return the samples, standardised and, for "cells", with gross values cut."""
        location, divisor, shift = self._here(
            block, self.location, np.where(self.deviation > 0, self.deviation, np.inf), self.shift
        )
        if self.kind == "samples":
            return standardised(block, location, divisor) - shift
        unit, over = self._here(block, self.unit, self._over(self.unit))
        xp = array_namespace(block)
        return xp.clip(standardised(block, location, unit), -GROSS, GROSS) * over

    def weights(self, rows: Array) -> Array:
        """Return the weights of standardised samples."""
        xp = array_namespace(rows)
        lengths = xp.linalg.vector_norm(rows, axis=1)
        somewhere = xp.where(lengths > 0, lengths, 1.0)
        if self.signs:
            return xp.where(lengths > 0, 1 / somewhere, 0.0)
        longest = max(self.length + USUAL * self.spread, 0.0) ** 1.5
        fading = xp.clip((GONE - self._score(lengths)) / (GONE - FAR), 0.0, 1.0)
        return xp.where(lengths > longest, longest / somewhere, 1.0) * fading

    def scores(self, block: Any) -> FloatArray:
        """Return the outlier score of every sample; those above ``FAR`` are outliers."""
        if sp.issparse(block):
            return to_host(self._score(self._sparse_lengths(block)))
        rows = self.rows(block)
        return to_host(self._score(array_namespace(rows).linalg.vector_norm(rows, axis=1)))

    def gross(self, block: Any) -> Any:
        """Return which single values count as nothing: a mask, sparse for sparse samples.

        Of a sparse matrix those that are not stored are never gross.
        """
        if sp.issparse(block):
            entries = block.tocoo()
            z = (entries.data - self.location[entries.col]) / self.unit[entries.col]
            far = np.abs(z) > GROSS
            where = (entries.row[far], entries.col[far])
            return sp.csr_array((np.ones(int(far.sum()), dtype=bool), where), shape=block.shape)
        location, unit = self._here(block, self.location, self.unit)
        return to_host(abs(standardised(block, location, unit)) > GROSS)

    def _score(self, lengths: Array) -> Array:
        return (lengths ** (2 / 3) - self.length) / self.spread

    def _over(self, unit: FloatArray) -> FloatArray:
        """Return u/s, 0 for constant columns."""
        live = self.deviation > 0
        return np.where(live, unit / np.where(live, self.deviation, 1.0), 0.0)

    def _here(self, block: Array, *columns: FloatArray) -> list[Array]:
        model = double(block[:1, :])
        return [like(values, model) for values in columns]

    def _sparse(self, block: Any) -> Any:
        matrix = block.tocsr().astype(np.float64)
        columns = matrix.indices
        if self.kind == "cells":
            unit, final = self.unit[columns], (self._over(self.unit) * self.factors)[columns]
            zero = wrapped(np.clip(-self.location / self.unit, -HUGE, HUGE))[columns]
            z = np.clip((matrix.data - self.location[columns]) / unit, -HUGE, HUGE)
            matrix.data = (wrapped(z) - zero) * final  # what is not stored stays 0
        else:
            self._check_not_centred()
            weights = self._sparse_weights(block)
            final = (self._inverse() * self.factors)[columns]
            matrix.data = matrix.data * final * np.repeat(weights, np.diff(matrix.indptr))
        return matrix.astype(block.dtype if block.dtype == np.float32 else np.float64)

    def _inverse(self) -> FloatArray:
        live = self.deviation > 0
        return np.where(live, 1 / np.where(live, self.deviation, 1.0), 0.0)

    def _sparse_weights(self, block: Any) -> FloatArray:
        # As rows of one column each, which have these lengths.
        return to_host(self.weights(self._sparse_lengths(block)[:, None]))

    def _sparse_lengths(self, block: Any) -> FloatArray:
        """Return the lengths of sparse samples without making them dense."""
        matrix = block.tocsr().astype(np.float64)
        columns = matrix.indices
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        if self.kind == "samples":
            self._check_not_centred()
            stored, zeros = matrix.data * self._inverse()[columns], np.zeros(matrix.shape[1])
        else:
            unit, over = self.unit, self._over(self.unit)
            zeros = np.clip(-self.location / unit, -GROSS, GROSS) * over
            z = (matrix.data - self.location[columns]) / unit[columns]
            stored = np.clip(z, -GROSS, GROSS) * over[columns]
        change = np.clip(stored, -HUGE, HUGE) ** 2 - zeros[columns] ** 2
        squares = np.bincount(row, weights=change, minlength=matrix.shape[0]) + (zeros**2).sum()
        return np.sqrt(np.clip(squares, 0.0, None))

    def _check_not_centred(self) -> None:
        if self.location.any() or self.shift.any():
            raise ValueError(
                "the samples are sparse, and those of fit were not: about their centre they would "
                "become dense. Pass dense samples, or fit to sparse ones, which are not centred"
            )


def _as_given(values: Array, block: Array) -> Array:
    xp = array_namespace(values)
    single = xp.float32 if block.dtype == array_namespace(block).float32 else xp.float64
    return xp.astype(values, single, copy=False)
