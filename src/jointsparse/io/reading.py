"""A table from a file of any format."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from jointsparse.io.arrow import read_arrow
from jointsparse.io.budget import available_memory, parse_size
from jointsparse.io.columns.layout import Layout, Names
from jointsparse.io.columns.reshaping import looks_transposed, take_aside, transposed
from jointsparse.io.errors import StrPath, TableError, reading, table_error
from jointsparse.io.formats import kind_of
from jointsparse.io.matrices.annotated import read_annotated
from jointsparse.io.matrices.bare import read_matrix
from jointsparse.io.matrices.tenx import is_market_folder, read_market_folder
from jointsparse.io.notes import note
from jointsparse.io.table import Table, check_shape, complete
from jointsparse.io.versions import Versions, check_plain


def read_table(
    path: StrPath,
    *,
    label: Names = None,
    ids: Names = None,
    find_ids: bool = True,
    drop: Names = None,
    only: Names = None,
    drop_text: bool = False,
    categories: Literal["onehot"] | None = None,
    transpose: bool = False,
    decimal: Literal[",", "."] | None = None,
    encoding: str | None = None,
    dataset: str | None = None,
    impute: Literal["median", "mean", "keep"] | None = None,
    least_rows: int = 2,
    memory: int | str | None = None,
) -> Table:
    r"""Read a numeric table; the suffix names the format.

    Parameters
    ----------
    path : path-like
        A .csv, .tsv, .txt, .npy, .mtx (also .gz), .parquet, .arrow, .feather, .ipc, .npz, .xlsx,
        .xls, .h5ad or .h5 file, or a folder of 10x Genomics with a matrix.mtx in it.
    label : str or sequence of str, optional
        Columns to keep aside as labels (text is allowed in them), or arrays of an .npz file. The
        first is the one that scores are computed for.
    ids : str or sequence of str, optional
        Columns that name or number the samples.
    find_ids : bool
        Also take those that seem to: text or, under a name such as ``id``, whole numbers that
        differ in every row, and running numbers.
    drop, only : str or sequence of str, optional
        Names, or patterns with ``*`` and ``?``, of columns that are no part of the table, and of
        the only ones that are.
    drop_text : bool
        Leave columns of numbers with text in some cells out instead of refusing them.
    categories : {"onehot"}, optional
        Make a column of 0 and 1 of each value of columns of text with few values; other text is
        left out.
    transpose : bool
        Whether the features are in the rows, named by the first column of text. Other names then
        are those after the transposition.
    decimal : {",", "."}, optional
        What stands before the decimals in text; by default the text tells.
    encoding : str, optional
        How characters are written in text; by default the text tells.
    dataset : str, optional
        Which sheet, array or layer of a file that holds several.
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

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from jointsparse.io import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "doses.csv"
    ...     _ = file.write_text("sample;dose;weight\ns1;1,5;70\ns2;2,25;80\n")
    ...     table = read_table(file)
    >>> table.names, table.values.tolist(), table.ids["sample"].tolist()
    (['dose', 'weight'], [[1.5, 70.0], [2.25, 80.0]], ['s1', 's2'])
    """
    layout = Layout.of(
        label=label,
        ids=ids,
        find_ids=find_ids,
        drop=drop,
        only=only,
        drop_text=drop_text,
        categories=categories,
        transpose=transpose,
        decimal=decimal,
        encoding=encoding,
        dataset=dataset,
    )
    limit = available_memory() if memory is None else parse_size(memory)
    if impute not in (None, "median", "mean", "keep"):
        raise TableError(f"impute must be 'median' or 'mean', not {impute!r}.")
    return read_with(Path(path), layout, impute=impute, least_rows=least_rows, memory=limit)


def read_with(
    path: Path, layout: Layout, *, impute: str | None, least_rows: int, memory: int
) -> Table:
    """Read a table with a layout in place of single parameters."""
    check_plain(path)
    if is_market_folder(path):
        table = take_aside(path, read_market_folder(path, layout, memory), layout)
    else:
        with reading(path), path.open("rb") as stream:
            if not stream.read(1):
                raise table_error(path, "is empty.")
        before = Versions([path])
        table = _read(path, layout, memory, keep_empty=impute == "keep")
        before.check()
    rows, columns = table.values.shape
    check_shape(path, rows, columns, least_rows)
    complete(path, table, impute)
    if not layout.transpose and (why := looks_transposed(table)):
        table.notes.append(
            note(
                f"this table may have its features in rows: {why}; if so, add ",
                "transpose=True",
                "--transpose",
            )
        )
    return table


def _read(path: Path, layout: Layout, memory: int, *, keep_empty: bool) -> Table:
    kind = kind_of(path)
    if kind in ("npy", "npz", "mtx"):
        table = read_matrix(path, kind, layout, memory)
        named = table.names[:1] not in (["x1"], [f"x{1:0{len(str(len(table.names)))}d}"])
    elif kind in ("h5ad", "hdf5"):
        table, named = read_annotated(path, layout, memory), True
    elif layout.transpose:
        inner = replace(layout, labels=(), ids=(), drop=(), only=(), categories=None, find_ids=True)
        table, named = read_arrow(path, kind, inner, memory), True
    else:
        return read_arrow(path, kind, layout, memory, keep_empty=keep_empty)
    if layout.transpose:
        table = transposed(table, named=named)
    return take_aside(path, table, layout)
