"""A table from a file of any format."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from jointsparse.io.arrow import read_arrow
from jointsparse.io.budget import available_memory, parse_size
from jointsparse.io.errors import StrPath, TableError, reading, table_error
from jointsparse.io.formats import kind_of
from jointsparse.io.matrix import read_matrix
from jointsparse.io.table import Table, check_shape, complete
from jointsparse.io.versions import Versions, check_plain


def read_table(
    path: StrPath,
    *,
    label: str | None = None,
    drop_text: bool = False,
    impute: Literal["median", "mean", "keep"] | None = None,
    least_rows: int = 2,
    memory: int | str | None = None,
) -> Table:
    """Read a numeric table; the suffix names the format.

    Parameters
    ----------
    path : path-like
        A .csv, .tsv, .txt, .npy, .mtx (also .gz), .parquet, .arrow, .feather, .ipc or .npz file.
    label : str, optional
        Column to keep aside as labels (text is allowed in it), or an array of an .npz file.
    drop_text : bool
        Leave columns that are not numbers out instead of refusing them.
    impute : {"median", "mean", "keep"}, optional
        Fill missing values with that statistic of their column, or keep them as NaN, instead of
        refusing them.
    least_rows : int
        Fewer samples than this are refused.
    memory : int or str, optional
        How much the table may take, in bytes or as "1GB"; all that is free by default. What would
        take more is refused before the memory is taken, whatever the file says of itself.

    Returns
    -------
    Table
        Samples of at least one numeric column, all finite (or kept NaN); else a `TableError`.
    """
    path = Path(path)
    limit = available_memory() if memory is None else parse_size(memory)
    if impute not in (None, "median", "mean", "keep"):
        raise TableError(f"impute must be 'median' or 'mean', not {impute!r}.")
    check_plain(path)
    with reading(path), path.open("rb") as stream:
        if not stream.read(1):
            raise table_error(path, "is empty.")
    kind = kind_of(path)
    before = Versions([path])
    if kind in ("npy", "npz", "mtx"):
        table = read_matrix(path, kind, label, limit)
    else:
        table = read_arrow(path, kind, label, drop_text, limit)
    before.check()
    rows, columns = table.values.shape
    check_shape(path, rows, columns, least_rows)
    complete(path, table, impute)
    return table
