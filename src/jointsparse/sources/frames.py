"""Data frames of pandas, polars and Arrow: their names, and which columns are numbers.

No library is imported here that the caller has not imported already.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jointsparse.io.errors import listed, shown
from jointsparse.io.plain_text.delimited import JOINED
from jointsparse.io.table import distinct

_LONGEST = 40  # characters of the name of a type; some list what they hold
# What to do about a column, by what the name of its type begins with.
_CURES = {
    ("datetime", "timestamp", "date"): "subtract a date and divide by a unit of time",
    ("timedelta", "duration", "time", "period"): "divide by a unit of time",
    ("category", "categorical", "enum", "dictionary"): "make a column of 0 and 1 of each category",
}


class _Column(NamedTuple):
    """A column that is not numbers: its name, what it holds and what the type is called."""

    name: Any
    holds: str
    kind: str


def is_frame(X: Any) -> bool:
    """Whether something is a data frame of pandas or polars (or one that looks like them)."""
    kind = type(X)  # of a lazy frame, the attributes themselves would be computed
    return all(hasattr(kind, name) for name in ("columns", "dtypes", "shape"))


def is_arrow_table(X: Any) -> bool:
    """Whether something is a table or record batch of pyarrow."""
    return type(X).__module__.partition(".")[0] == "pyarrow" and hasattr(X, "schema")


def column_names(X: Any) -> Any:
    """Return the column names of a data frame or Arrow table; None where there are none."""
    columns = X.schema.names if is_arrow_table(X) else getattr(X, "columns", None)
    if columns is None:
        return None
    names = list(columns)
    if names and all(isinstance(name, tuple) for name in names):
        names = [_joined(name) for name in names]  # of columns with several levels
    if not all(isinstance(name, str) for name in names):
        return None
    return np.array(distinct(names)[0], dtype=object)


def _joined(levels: tuple[Any, ...]) -> str:
    """Return the names of a column on all levels as one."""
    return JOINED.join(str(level) for level in levels if str(level) != "") or str(levels[-1])


def flat_frame(frame: Any) -> Any:
    """Return a pandas frame with one name of its own for every column; others as they are."""
    columns = list(frame.columns)
    several = any(isinstance(name, tuple) for name in columns)
    if not hasattr(frame, "set_axis") or not (several or len(set(columns)) < len(columns)):
        return frame
    names = column_names(frame)
    return frame if names is None else frame.set_axis(list(names), axis=1)


def check_frame(frame: Any) -> None:
    """Refuse a data frame with a column that is not numbers.

    Parameters
    ----------
    frame : data frame of pandas or polars
        Looked at, not converted.
    """
    by_name = hasattr(frame, "iloc")
    wrong = []
    for place, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        if number_type(dtype) is not None:
            continue
        kind = str(dtype)
        holds: str | None = f"values of type {shown(kind, _LONGEST)}"
        if kind.lower().startswith(("object", "str", "string", "large_string", "decimal")):
            column = frame.iloc[:, place] if by_name else frame.to_series(place)
            holds = _first_other(np.asarray(column.to_numpy(), dtype=object))
        if holds is not None:
            wrong.append(_Column(name, holds, kind))
    _refuse(wrong, "X.drop(columns={})" if by_name else "X.drop({})")


def check_schema(names: Sequence[str], dtypes: Sequence[Any]) -> None:
    """Refuse columns of a lazy frame that are not numbers."""
    wrong = [
        _Column(name, f"values of type {shown(str(dtype), _LONGEST)}", str(dtype))
        for name, dtype in zip(names, dtypes, strict=True)
        if number_type(dtype) is None
    ]
    _refuse(wrong, "X.drop({})")


def number_type(dtype: Any) -> np.dtype[Any] | None:
    """Return the NumPy type of a column of pandas or polars; None where it is no real number."""
    if isinstance(dtype, np.dtype):
        return dtype if dtype.kind in "biuf" else None
    if hasattr(dtype, "is_numeric"):  # of polars
        numeric = dtype.is_numeric() or str(dtype) == "Boolean"
        return np.dtype(np.float64) if numeric else None
    if hasattr(dtype, "fill_value"):  # of sparse columns
        return number_type(dtype.subtype)
    plain = getattr(dtype, "numpy_dtype", None)
    if not isinstance(plain, np.dtype) or plain.kind not in "biuf":
        return None
    # Columns that may have missing values: only floats can say so.
    return plain if plain.kind == "f" else np.dtype(np.float64)


def plain_columns(frame: Any) -> Any:
    """Return a pandas frame with sparse and decimal columns as plain ones; others as they are."""
    plain: dict[Any, Any] = {}
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if hasattr(dtype, "fill_value"):
            plain[name] = dtype.subtype
        elif str(dtype).startswith("decimal"):
            plain[name] = np.float64
    return frame.astype(plain) if plain else frame


def bare_frame(frame: Any) -> Any:
    """Return a pandas frame of sparse columns around zeros as a sparse matrix, others as frames."""
    types = list(frame.dtypes)
    # A comparison, not a difference: the columns may be sparse around NaN.
    if types and all(getattr(dtype, "fill_value", None) == 0 for dtype in types):
        return frame.sparse.to_coo()
    return plain_columns(frame)


def arrow_values(table: Any) -> NDArray[Any]:
    """Return the columns of an Arrow table side by side, NaN where nothing is stored."""
    import pyarrow as pa

    wrong, columns = [], []
    for name, column in zip(table.schema.names, table.columns, strict=True):
        kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            columns.append(column.to_numpy(zero_copy_only=False))
        elif pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
            columns.append(column.cast(pa.float64()).to_numpy(zero_copy_only=False))
        else:
            wrong.append(_Column(name, f"values of type {shown(str(kind), _LONGEST)}", str(kind)))
    _refuse(wrong, "X.drop_columns({})")
    return np.column_stack(columns) if columns else np.empty((table.num_rows, 0))


def _refuse(wrong: Sequence[_Column], drop: str) -> None:
    """Refuse columns that are not numbers, by name, and say what to do."""
    if not wrong:
        return
    first = wrong[0]
    known = (cure for kinds, cure in _CURES.items() if first.kind.lower().startswith(kinds))
    cure = next(known, "turn it into numbers")
    also = f" (nor does {listed([str(column.name) for column in wrong[1:]])})" if wrong[1:] else ""
    names = [column.name for column in wrong] if len(wrong) <= 5 else ...
    raise ValueError(
        f"column {first.name!r} of X holds {first.holds}, not numbers{also}; {cure}, or leave it "
        f"out: {drop.format('[...]' if names is ... else names)}"
    )


def _first_other(values: NDArray[Any]) -> str | None:
    """Say what the first entry is that is no number, and where; None where all are numbers."""
    for row, value in enumerate(values):
        if value is None or value != value or type(value).__name__ == "NAType":
            continue  # missing: said elsewhere, with its row and column
        if not isinstance(value, Number) or isinstance(value, complex):
            kind = "text" if isinstance(value, str) else f"a value of type {type(value).__name__}"
            return f"{kind} ({shown(str(value))!r} in row {row}, counted from 0)"
    return None
