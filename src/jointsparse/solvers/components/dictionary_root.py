"""The data as the dictionary sees them: any R with RᵀR = XᵀX, through products with few vectors."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import like, to_host
from jointsparse.linalg import column_products
from jointsparse.solvers.products.gram import SampleGram


class Root(Protocol):
    """What block coordinate descent asks of R (r × p); codes have r entries, atoms p."""

    @property
    def squares(self) -> FloatArray:
        """Squared lengths of the columns."""
        ...

    def to_atoms(self, codes: FloatArray) -> FloatArray:
        """Return YᵀR for codes in rows."""
        ...

    def to_codes(self, atoms: FloatArray) -> FloatArray:
        """Return DᵀRᵀ for atoms in rows."""
        ...

    def column(self, feature: int) -> FloatArray:
        """Return one column."""
        ...

    def principal(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return the first left singular vectors, and those times R, both in rows."""
        ...


class DenseRoot:
    """R = diag(σ)Vᵀ as an array, the largest σ first; products are made where it is."""

    def __init__(self, root: Array) -> None:
        self.root = root

    @cached_property
    def squares(self) -> FloatArray:
        """Squared lengths of the columns."""
        return to_host(column_products(self.root, self.root))

    def to_atoms(self, codes: FloatArray) -> FloatArray:
        """Return YᵀR."""
        return to_host(like(codes, self.root) @ self.root)

    def to_codes(self, atoms: FloatArray) -> FloatArray:
        """Return DᵀRᵀ."""
        return to_host(like(atoms, self.root) @ self.root.T)

    def column(self, feature: int) -> FloatArray:
        """Return one column."""
        return to_host(self.root[:, feature])

    def principal(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return unit vectors, and the first rows."""
        return np.eye(count, self.root.shape[0]), to_host(self.root[:count, :])


class SparseRoot:
    """R = X itself, sparse samples that are centred on the way.

    Parameters
    ----------
    gram : SampleGram
        Their scatter matrix, divided by its trace.
    """

    def __init__(self, gram: SampleGram) -> None:
        self.gram = gram

    @cached_property
    def squares(self) -> FloatArray:
        """Squared lengths of the columns."""
        return self.gram.diagonal

    def to_atoms(self, codes: FloatArray) -> FloatArray:
        """Return YᵀX."""
        return self.gram.back(codes.T).T

    def to_codes(self, atoms: FloatArray) -> FloatArray:
        """Return DᵀXᵀ."""
        return self.gram.image(atoms.T).T

    def column(self, feature: int) -> FloatArray:
        """Return one column."""
        return self.gram.sample_columns(np.array([feature]))[:, 0]

    def principal(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return the first left singular vectors, and the principal components at their length."""
        values, vectors = self.gram.leading(count)
        codes = self.gram.image(vectors) / np.sqrt(values[:count])
        return codes.T, self.to_atoms(codes.T)
