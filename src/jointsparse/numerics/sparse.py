"""Sparse matrices on their way in: one form of the many in which SciPy can hold the same matrix.

SciPy lets the same entry be stored several times (its value is then the sum), in any order, beside
zeros that are stored too, and believes indices that point outside the matrix. Whatever goes over
the stored entries one by one, as a sum of squares does, needs each entry once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

_LARGEST = np.iinfo(np.int32).max


def canonical(matrix: Any) -> Any:
    """Return a sparse matrix in which every entry that is not zero is stored once, in order.

    Parameters
    ----------
    matrix : sparse matrix or sparse array of two dimensions
        In any format of SciPy. Never changed, not even where SciPy would sort it on the way.

    Returns
    -------
    CSR or CSC matrix, or array
        By columns where the matrix was, by rows otherwise; an array for an array. The entries are
        those of the caller where they were in order, so that nothing may be written to them.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from jointsparse.numerics.sparse import canonical
    >>> words = sp.csr_array(([1, 1, 1], [2, 0, 2], [0, 3]), shape=(1, 3))
    >>> canonical(words).data.tolist(), words.nnz
    ([1, 2], 3)
    """
    if matrix.ndim != 2:
        raise ValueError(
            f"samples are the rows of a matrix; got a sparse array of shape {matrix.shape}"
        )
    form = "csc" if matrix.format == "csc" else "csr"
    kind = getattr(sp, f"{form}_{'array' if isinstance(matrix, sp.sparray) else 'matrix'}")
    with _refusing_damage(matrix.shape):
        # In a new shell: what SciPy notes or prunes while it looks at the arrays, it does there.
        ordered = kind(_parts(matrix), shape=matrix.shape)
        ordered.check_format(full_check=True)
    if not ordered.has_canonical_format:
        ordered = ordered.copy()
        ordered.sum_duplicates()
    if not np.all(ordered.data):
        ordered = ordered.copy()
        ordered.eliminate_zeros()
    if ordered.indices.dtype != np.int32 and max(*ordered.shape, ordered.nnz) <= _LARGEST:
        # What SciPy and scikit-learn compile for both types is tested for this one.
        ordered.indices = ordered.indices.astype(np.int32)
        ordered.indptr = ordered.indptr.astype(np.int32)
    return ordered


def _parts(matrix: Any) -> Any:
    """Return the arrays that make up a CSR or CSC matrix; (values, (rows, columns)) of others."""
    if hasattr(matrix, "indptr") and np.any(np.diff(matrix.indptr) < 0):
        raise ValueError("indptr must not decrease")  # not looked at where the last of it is 0
    if matrix.format in ("csr", "csc"):
        return matrix.data, matrix.indices, matrix.indptr
    if matrix.format == "bsr":  # whose blocks are unrolled without a look at where they lie
        matrix = type(matrix)(
            (matrix.data, matrix.indices, matrix.indptr), matrix.shape, blocksize=matrix.blocksize
        )
        matrix.check_format(full_check=True)
    if matrix.format == "lil" and list(map(len, matrix.rows)) != list(map(len, matrix.data)):
        raise ValueError("a row has not as many values as columns")
    found = matrix.tocoo(copy=False)
    places = found.row, found.col
    for name, indices, length in zip(("row", "column"), places, found.shape, strict=True):
        outside = (indices < 0) | (indices >= length)
        if outside.any():
            raise IndexError(f"the {name} index {indices[outside][0]} is out of range")
    return found.data, places


@contextmanager
def _refusing_damage(shape: tuple[int, int]) -> Iterator[None]:
    """Say in one sentence what SciPy says in several ways."""
    try:
        yield
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"X is a damaged sparse matrix of shape {tuple(shape)}: {error}; build it again, for "
            "example with scipy.sparse.coo_array((values, (rows, columns)))"
        ) from error
