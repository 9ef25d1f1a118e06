r"""Scatter matrices that others computed: are they one, and what is the nearest that is.

A scatter matrix :math:`S = X^\top X` has no negative eigenvalue. Pairwise correlations, rounded
tables and matrices put together from several sources often have one, and then no samples belong to
them, explained variances exceed 100 % and objectives fall below 0. The check is made of the matrix
scaled to a unit diagonal, :math:`R = D^{-1/2} S D^{-1/2}`, which has as many negative eigenvalues
as S: small features are looked at as closely as large ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.linalg import EPSILON
from jointsparse.numerics.projections import from_eigenpairs, positive_eigenpairs

# Sums over n samples that were computed one after the other have an error of about √n roundings in
# each entry, and such errors, independent of each other, move an eigenvalue by 2√p of them. Sums in
# single precision over more samples than this are computed in blocks by everyone.
_MOST_SAMPLES = 10_000
_ROUNDINGS = 8
_UNIT_DIAGONAL = 1e-6  # a correlation matrix that was rounded still has ones on its diagonal
_NEAR = 1e-10  # change of an entry at which the alternating projections have arrived
_MOST_PROJECTIONS = 2000
_LARGEST = 1e100  # beyond 1, an entry at a unit diagonal tells the same however large it is


class IndefiniteError(ValueError):
    """A scatter matrix with a negative eigenvalue.

    Parameters
    ----------
    smallest : float
        The smallest eigenvalue, as a share of the largest, of the matrix scaled to a unit diagonal.
    """

    def __init__(self, smallest: float) -> None:
        super().__init__(
            "a scatter matrix has no negative eigenvalue, but the smallest of this one is "
            f"{smallest:.2g} times the largest (at a unit diagonal): entries that were rounded or "
            "computed from different samples do that; compute all of them from the same samples "
            "with all digits, or take the nearest matrix that is one: "
            "Moments.from_scatter(..., repair='nearest')"
        )
        self.smallest = smallest


class Checked(NamedTuple):
    """A scatter matrix that was looked at, or computed from samples, and how far it was moved.

    Attributes
    ----------
    scatter : ndarray of shape (n_features, n_features)
        Symmetric, without a negative eigenvalue but for rounding.
    change : float
        ‖S - A‖_F / ‖A‖_F; 0 where the matrix given was one.
    """

    scatter: FloatArray
    change: float = 0.0


def checked_scatter(matrix: NDArray[Any], n_samples: int, repair: str | None = None) -> Checked:
    """Return a matrix that can be the scatter matrix of samples, or say why it can be none.

    Parameters
    ----------
    matrix : ndarray of shape (n_features, n_features)
        A, of finite numbers. Not changed.
    n_samples : int
        How many samples were summed up.
    repair : {None, "nearest"}
        Refuse a matrix with a negative eigenvalue, or take the nearest one without.
    """
    if n_samples == 0:  # the half of one sample; there is nothing to look at
        return Checked(matrix)
    if repair not in (None, "nearest"):
        raise ValueError(f"repair={repair!r} is neither None nor 'nearest'")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        rows, columns = (*matrix.shape, 1)[:2]
        raise ValueError(f"a scatter matrix is square; got {rows} rows and {columns} columns")
    epsilon = float(np.finfo(matrix.dtype).eps) if matrix.dtype.kind == "f" else EPSILON
    given = matrix.astype(np.float64, copy=False)
    if not np.isfinite(given).all():
        raise ValueError("a scatter matrix has no entry that is missing or infinite")
    size = float(np.max(np.abs(given)))
    asymmetry = float(np.max(np.abs(given - given.T)))
    if asymmetry > max(1e-8, _ROUNDINGS * epsilon) * size:
        raise ValueError(
            f"a scatter matrix is symmetric; two mirrored entries differ by {asymmetry:.3g}"
        )
    negative = float(np.min(np.diagonal(given)))
    if negative < 0:
        raise ValueError(f"a scatter matrix has no negative diagonal entry; got {negative:.3g}")
    scatter, change = _symmetric(given), 0.0
    try:
        check_semidefinite(scatter, n_samples, epsilon)
    except IndefiniteError:
        if repair is None:
            raise
        nearest = nearest_scatter(scatter)
        # In units of the largest entry: squares of others may overflow.
        distance = np.linalg.norm(nearest / size - scatter / size)
        scatter, change = nearest, float(distance / np.linalg.norm(scatter / size))
    flat = np.diagonal(scatter) == 0  # what does not vary does not vary with anything
    scatter[flat, :] = 0.0
    scatter[:, flat] = 0.0
    return Checked(scatter, change)


def check_semidefinite(scatter: FloatArray, n_samples: int, epsilon: float = EPSILON) -> None:
    """Refuse a symmetric matrix with an eigenvalue below 0 by more than rounding.

    Parameters
    ----------
    scatter : ndarray of shape (n_features, n_features)
        Symmetric, finite, without a negative entry on the diagonal.
    n_samples : int
        How many samples were summed up, which tells how much rounding there may be.
    epsilon : float
        Rounding of the type in which the matrix was computed.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.numerics.semidefinite import check_semidefinite
    >>> check_semidefinite(np.array([[1.0, 5.0], [5.0, 1.0]]), 10)
    Traceback (most recent call last):
    ...
    jointsparse.numerics.semidefinite.IndefiniteError: ... smallest ... is -0.67 times the ...
    """
    scaled = _at_unit_diagonal(scatter)
    size = len(scaled)
    entries = _ROUNDINGS * epsilon * np.sqrt(size * min(max(n_samples, 1), _MOST_SAMPLES))
    # A factorisation succeeds where no eigenvalue is below -allowed, at a fraction of the cost of
    # eigenvalues; ‖R‖₁ bounds the largest, and with it the rounding of the factorisation itself.
    allowed = entries + _ROUNDINGS * size * EPSILON * float(np.abs(scaled).sum(axis=0).max())
    shifted = scaled + allowed * np.eye(size)
    try:
        scipy.linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        values = np.linalg.eigvalsh(scaled)
        if values[0] < -allowed:
            raise IndefiniteError(float(values[0] / values[-1])) from None


def nearest_scatter(matrix: FloatArray) -> FloatArray:
    r"""Return the nearest matrix without a negative eigenvalue.

    .. math:: \min_{S}\ \|S - A\|_F \quad\text{subject to}\quad S \succeq 0,

    and, where the diagonal of A is all ones, subject to :math:`S_{jj} = 1` too: the nearest
    correlation matrix. Without that, the negative eigenvalues become 0. With it, projections onto
    both sets alternate, with Dykstra's correction (N. J. Higham, *IMA J. Numer. Anal.* 22, 2002).

    Parameters
    ----------
    matrix : ndarray of shape (n_features, n_features)
        A, symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.numerics.semidefinite import nearest_scatter
    >>> nearest_scatter(np.array([[1.0, 5.0], [5.0, 1.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    if np.any(np.abs(np.diagonal(matrix) - 1) > _UNIT_DIAGONAL):
        return _symmetric(from_eigenpairs(*positive_eigenpairs(matrix)))
    nearest, correction = matrix, np.zeros_like(matrix)
    for _ in range(_MOST_PROJECTIONS):
        moved = nearest - correction
        positive = from_eigenpairs(*positive_eigenpairs(moved))
        correction = positive - moved
        last, nearest = nearest, _symmetric(positive)
        np.fill_diagonal(nearest, 1.0)
        if np.max(np.abs(nearest - last)) <= _NEAR:
            break
    # Both sets are met only in the limit; one congruence meets them to rounding.
    scale = 1 / np.sqrt(np.diagonal(positive))
    nearest = np.clip(_symmetric(positive * scale * scale[:, None]), -1.0, 1.0)
    np.fill_diagonal(nearest, 1.0)
    return nearest


def _symmetric(matrix: FloatArray) -> FloatArray:
    return (matrix + matrix.T) / 2


def _at_unit_diagonal(scatter: FloatArray) -> FloatArray:
    """Return D^(-1/2) S D^(-1/2); a feature without variance counts in the largest unit."""
    diagonal = np.diagonal(scatter)
    lengths = np.sqrt(diagonal)
    lengths = np.where(lengths > 0, lengths, np.max(lengths, initial=0.0) or 1.0)
    # One factor after the other: their product may underflow.
    with np.errstate(over="ignore"):
        scaled = scatter / lengths / lengths[:, None]
    return np.clip(scaled, -_LARGEST, _LARGEST)
