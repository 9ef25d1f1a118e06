"""Projections onto the constraint sets of the models, one function for each set."""

from __future__ import annotations

from array_api_compat import array_namespace

from jointsparse.linalg import Array


def positive_eigenpairs(matrix: Array, shift: float = 0.0) -> tuple[Array, Array]:
    """Return the eigenpairs of ``matrix - shift * I`` whose eigenvalue is positive.

    They are the projection of that matrix onto the positive semidefinite cone, in factored form:
    ``(vectors * values) @ vectors.T``. With ``shift = step * eta`` this is also the proximal step
    of ``eta * trace`` on the cone.
    """
    xp = array_namespace(matrix)
    values, vectors = xp.linalg.eigh(matrix)
    first = int(xp.sum(values <= shift))  # eigenvalues come in ascending order
    return values[first:] - shift, vectors[:, first:]


def from_eigenpairs(values: Array, vectors: Array) -> Array:
    """Return the matrix with these eigenpairs (all other eigenvalues zero)."""
    return (vectors * values) @ vectors.T
