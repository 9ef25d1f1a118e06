"""The one door for samples in memory: what holds numbers becomes an array, or is refused.

Frames, masked arrays, AnnData objects and every form of sparse matrix come in here, whatever asks
for them: methods, moments, metrics, pictures. What comes out is an array or a canonical sparse
matrix of finite real numbers, and the caller's data are never changed.
"""

from __future__ import annotations

from collections.abc import Callable
from mmap import mmap
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.utils import check_array

from jointsparse.device import is_device_array
from jointsparse.io.table import distinct
from jointsparse.linalg import array_namespace
from jointsparse.numerics.sparse import canonical
from jointsparse.sources.frames import (
    arrow_values,
    bare_frame,
    check_frame,
    column_names,
    flat_frame,
    is_arrow_table,
    is_frame,
)


def cure() -> str:
    """Return what to do about missing values, where the caller has no better advice."""
    return (
        "fill missing values, for example with sklearn.impute.SimpleImputer, or leave such rows or "
        "columns out"
    )


def how_to_estimate(call: str = "missing='em'") -> str:
    """Return the same where a parameter says how missing values are dealt with.

    Parameters
    ----------
    call : str
        What has that parameter, if it is not what was called.
    """
    return (
        f"{call} estimates the scatter matrix in spite of such values, missing='mean' puts "
        "the mean of their column there, or leave such rows or columns out"
    )


def how_moments_estimate() -> str:
    """Return the same where moments are computed, which every function without it takes, too."""
    return how_to_estimate("Moments.from_data(X, missing='em')")


class Samples(NamedTuple):
    """Samples that were checked.

    Attributes
    ----------
    values : ndarray or CSR or CSC matrix of shape (n_samples, n_features)
        Finite real numbers.
    names : ndarray of str, or None
        Names of the columns.
    """

    values: Any
    names: NDArray[Any] | None


def as_samples(
    X: Any,
    *,
    sparse: bool = True,
    finite: bool = True,
    missing: bool = False,
    advice: Callable[[], str] = cure,
    **options: Any,
) -> Samples:
    """Return samples of any kind as an array or sparse matrix of numbers, and their names.

    Parameters
    ----------
    X : array-like, data frame, Arrow table, AnnData or sparse matrix
        Samples, one per row. Never changed; an array of numbers is not copied.
    sparse : bool
        Whether a sparse matrix may stay one; otherwise it is refused.
    finite : bool
        Whether missing and infinite values are refused.
    missing : bool
        Whether missing values are not.
    advice : callable
        Says what to do about missing values.
    **options
        More of what scikit-learn's ``check_array`` takes.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.sources.door import as_samples
    >>> as_samples(np.ma.masked_greater([[1.0, 2.0], [3.0, 9.0]], 5.0))
    Traceback (most recent call last):
    ...
    ValueError: X contains NaN, a missing value, in row 1, column 1 (counted from 0); fill ...
    """
    if _is_plain(X, **options):  # nothing to find out, and scikit-learn takes its time to
        if finite and not get_config()["assume_finite"]:
            refuse_not_finite(X, missing=missing, advice=advice)
        return Samples(X, None)
    X, names = _with_names(X)
    values = _bare(X)
    options = {"dtype": "numeric", **options}
    form = ("csr", "csc") if sparse else False
    try:
        array = check_array(values, accept_sparse=form, ensure_all_finite=False, **options)
    except ValueError:
        _refuse_text(values)
        raise
    if array.dtype.kind not in "biuf":
        raise ValueError(f"X holds values of type {array.dtype}, not numbers; convert them")
    if array.dtype.itemsize > 8:  # of extended precision, which the sums do not have
        array = array.astype(np.float64)
    if finite and array.dtype.kind == "f" and not get_config()["assume_finite"]:
        refuse_not_finite(array, names, missing=missing, advice=advice)
    return Samples(array, names)


def _is_plain(
    X: Any, *, ensure_min_samples: int = 1, estimator: Any = None, **options: Any
) -> bool:
    """Whether these are samples as they should be but for what is not finite, and no more asked."""
    if type(X) is not np.ndarray or X.ndim != 2 or options:
        return False
    known = X.dtype == np.float64 or X.dtype == np.float32
    return known and X.shape[0] >= ensure_min_samples and X.shape[1] >= 1


def _refuse_text(values: Any) -> None:
    """Say where the first text is, if an array or nested lists have any."""
    cells = np.asarray(values, dtype=object)
    if cells.ndim != 2:
        return
    texts = [isinstance(cell, str | bytes) for cell in cells.flat]
    if any(texts):
        row, column = divmod(texts.index(True), cells.shape[1])
        raise ValueError(
            f"X contains text, {cells[row, column]!r:.60} in row {row}, column {column} (counted "
            "from 0), not a number; convert it, or leave such columns out"
        ) from None


def refuse_not_finite(
    array: Any, names: Any = None, *, missing: bool = False, advice: Callable[[], str] = cure
) -> None:
    """Refuse values that are missing or infinite, and say where the first one is.

    Parameters
    ----------
    array : ndarray or sparse matrix
        Numbers.
    names : sequence of str or None
        Names of the columns.
    missing : bool
        Whether values may be missing.
    advice : callable
        Says what to do about missing values.
    """
    stored = array.data if sp.issparse(array) else array
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(stored, dtype=np.float64)):
            return  # a finite sum has finite terms: the common case needs no mask
    if sp.issparse(array):
        found = array.tocoo()
        wrong = np.flatnonzero(np.isinf(found.data) if missing else ~np.isfinite(found.data))
        rows, columns = found.row[wrong], found.col[wrong]
        first = np.lexsort((columns, rows))[:1]
        rows, columns, values = rows[first], columns[first], found.data[wrong[first]]
    else:
        rows, columns = np.nonzero(np.isinf(array) if missing else ~np.isfinite(array))
        values = array[rows[:1], columns[:1]]
    if rows.size == 0:
        return
    row, column = int(rows[0]), int(columns[0])
    place = f"column {column} (counted from 0)"
    if names is not None:
        place = f"column {names[column]!r} (rows counted from 0)"
    what, todo = f"infinity ({values[0]})", "replace it, or leave such rows or columns out"
    if np.isnan(values[0]):
        what, todo = "NaN, a missing value,", advice()
    raise ValueError(f"X contains {what} in row {row}, {place}; {todo}")


def _with_names(X: Any) -> tuple[Any, NDArray[Any] | None]:
    """Return what holds the numbers, and the names of the columns where there are any."""
    if hasattr(type(X), "collect_schema") and not is_frame(X):
        raise ValueError(
            f"X is a {type(X).__name__}, whose rows are not computed yet; pass X.collect()"
        )
    if is_labelled(X):
        return X.values, labels_of(X)
    if not is_annotated(X):
        return X, column_names(X)
    names, _ = distinct([str(name) for name in X.var_names])
    return _matrix_of(X), np.array(names, dtype=object)


def _bare(X: Any) -> Any:
    """Return what scikit-learn's check can convert; refuse what it would misread."""
    if is_arrow_table(X):
        return arrow_values(X)
    if is_frame(X):
        check_frame(X)
        X = bare_frame(flat_frame(X))
    if hasattr(X, "to_scipy_sparse"):  # of the package sparse
        X = X.to_scipy_sparse()
    return canonical(X) if sp.issparse(X) else without_mask(X)


def without_mask(values: Any) -> Any:
    """Return a masked array, or masked rows, with NaN where masked; anything else as it is."""
    if isinstance(values, list | tuple) and any(
        isinstance(row, np.ma.MaskedArray) for row in values
    ):
        values = np.ma.stack(values)  # as NumPy would not: it makes an array of what is masked
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.is_masked(values):
        return values.data
    holes = np.ma.getmaskarray(values)
    return np.where(holes, np.nan, values.data.astype(np.result_type(values.dtype, np.float16)))


def own(array: Any) -> Any:
    """Return a copy of samples, which no one else can change; of a mapped file the array itself."""
    held = array
    while held is not None:
        if isinstance(held, np.memmap | mmap):
            return array
        held = getattr(held, "base", None)
    if is_device_array(array):
        return array_namespace(array).asarray(array, copy=True)
    return array.copy() if sp.issparse(array) else np.copy(array, order="K")


def missing_entries(values: Any) -> NDArray[np.bool_]:
    """Return which entries of a column of numbers or words are missing.

    These are masked, None, NaN, NaT, the NA of pandas, and words without a letter, which is what
    files have in their place.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.sources.door import missing_entries
    >>> missing_entries(["a", None]).tolist(), missing_entries(np.array([1.0, np.nan])).tolist()
    ([False, True], [False, True])
    """
    # Of a list of words and NaN, NumPy would make words alone.
    array = np.asarray(values, dtype=object if isinstance(values, list | tuple) else None)
    found = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else False
    if array.dtype.kind in "fcmM":
        found = found | (array != array)
    elif array.dtype.kind in "US":
        found = found | (np.char.str_len(array) == 0)
    elif array.dtype.kind == "O":
        found = found | np.array([_is_missing(value) for value in array.flat]).reshape(array.shape)
    return np.broadcast_to(np.asarray(found, dtype=bool), array.shape)


def _is_missing(value: Any) -> bool:
    if value is None or value is np.ma.masked or (isinstance(value, str) and not value):
        return True
    differs = value != value  # NaN and NaT do from themselves; of the NA of pandas that is NA
    return type(value).__name__ == "NAType" or (np.ndim(differs) == 0 and bool(differs))


def is_labelled(X: Any) -> bool:
    """Whether something is a DataArray of xarray."""
    return type(X).__module__.partition(".")[0] == "xarray" and hasattr(X, "dims")


def labels_of(array: Any) -> NDArray[Any] | None:
    """Return the names of the columns of a DataArray, where its second dimension has text."""
    if len(array.dims) != 2 or array.dims[1] not in array.coords:
        return None
    names = list(np.asarray(array.coords[array.dims[1]].values, dtype=object))
    if not all(isinstance(name, str) for name in names):
        return None
    return np.array(distinct(names)[0], dtype=object)


def is_annotated(X: Any) -> bool:
    """Whether something is an AnnData object, by what it has."""
    return all(hasattr(X, name) for name in ("X", "var_names", "obs_names"))


def _matrix_of(annotated: Any) -> Any:
    matrix = annotated.X
    if matrix is None:
        raise ValueError("this AnnData object has no X; pass the layer that you mean")
    if not (isinstance(matrix, np.ndarray) or sp.issparse(matrix)):
        raise ValueError(
            f"X of this AnnData object is a {type(matrix).__name__} that is not in memory; pass "
            "the object's to_memory()"
        )
    return matrix
