"""Linear algebra shared by the kernels; every function runs on any array namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

Array = Any  # an array of any namespace: NumPy, PyTorch, CuPy


@dataclass(frozen=True)
class Spectrum:
    """Eigendecomposition S = V diag(values) Vᵀ of a scatter matrix divided by its trace.

    Attributes
    ----------
    values : array of shape (n_features,)
        Eigenvalues in ascending order, at least 0, summing to 1.
    vectors : array of shape (n_features, n_features)
        Orthonormal eigenvectors, one per column.
    trace : float
        Trace of the scatter matrix before the division.
    """

    values: Array
    vectors: Array
    trace: float

    @classmethod
    def of(cls, scatter: Array) -> Spectrum:
        """Decompose a symmetric positive semidefinite matrix that is not zero."""
        xp = array_namespace(scatter)
        trace = float(xp.linalg.trace(scatter))
        values, vectors = xp.linalg.eigh(scatter / trace)
        return cls(xp.clip(values, 0.0, None), vectors, trace)


def symmetric_part(matrix: Array) -> Array:
    """Return (M + Mᵀ)/2."""
    return (matrix + matrix.T) / 2


def column_norms(matrix: Array) -> Array:
    """Euclidean norm of every column."""
    xp = array_namespace(matrix)
    return xp.linalg.vector_norm(matrix, axis=0)


def add_to_diagonal(matrix: Array, values: Array) -> Array:
    """Add a vector (or a number) to the diagonal of a square matrix, in place."""
    xp = array_namespace(matrix)
    index = xp.arange(matrix.shape[0])
    matrix[index, index] += values
    return matrix


def largest_eigenvalue(matrix: Array) -> float:
    """Largest eigenvalue of a symmetric matrix, to rounding (no iterative estimate)."""
    xp = array_namespace(matrix)
    return float(xp.linalg.eigvalsh(matrix)[-1])
