"""The data as the dictionary sees them: any R with RᵀR = XᵀX, through products with few vectors."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import like, to_host
from jointsparse.operators.dense import operator_of
from jointsparse.operators.samples import Samples


class Root:
    """What block coordinate descent asks of R (r × p): codes have r entries, atoms p.

    Questions and answers are on the host, products are made where R is.

    Parameters
    ----------
    data : array of shape (r, p) or Samples
        R, but for the scale.
    scale : float
        What it is multiplied by.
    codes : ndarray of shape (k, r) or None
        The first left singular vectors of R, in rows; None: R = diag(σ)Vᵀ with the largest σ first,
        of which they are the unit vectors.
    squares : ndarray of shape (p,) or None
        Squared lengths of the columns of the data, where R leaves out what is rounding beside its
        largest direction: next to an objective that is small itself it is not. None: those of R.
    """

    def __init__(
        self,
        data: Array | Samples,
        scale: float = 1.0,
        codes: FloatArray | None = None,
        squares: FloatArray | None = None,
    ) -> None:
        self.samples, self.scale, self._codes = operator_of(data), scale, codes
        if squares is not None:
            self.squares = squares

    @cached_property
    def squares(self) -> FloatArray:
        """Squared lengths of the columns."""
        return to_host(self.samples.squared_lengths()) * self.scale**2

    def to_atoms(self, codes: FloatArray) -> FloatArray:
        """Return YᵀR for codes in rows."""
        return to_host(self.samples.combined(like(codes, self.samples.empty))) * self.scale

    def to_codes(self, atoms: FloatArray) -> FloatArray:
        """Return DᵀRᵀ for atoms in rows."""
        return to_host(self.samples.times(like(atoms.T, self.samples.empty))).T * self.scale

    def column(self, feature: int) -> FloatArray:
        """Return one column."""
        return to_host(self.samples.take(np.array([feature])))[:, 0] * self.scale

    def principal(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return the first left singular vectors, and those times R, both in rows."""
        codes = np.eye(count, self.samples.shape[0]) if self._codes is None else self._codes[:count]
        return codes, self.to_atoms(codes)
