"""Tables in and out: CSV, Parquet, Arrow, NumPy and Matrix Market files.

What a user can mend is a `TableError` of one sentence; nothing is unpickled; files appear whole.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import gzip
import io
import itertools
import operator
import os
import re
import secrets
import shutil
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy import sparse

StrPath = str | os.PathLike[str]
_KINDS = {f".{kind}": kind for kind in ("csv", "tsv", "txt", "parquet", "npy", "npz", "mtx")}
_KINDS |= dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow")
_GZIP_KINDS = ("csv", "tsv", "txt", "npy", "mtx")
# The first delimiter that splits the header is read, the first of all is written.
_DELIMITERS = {"csv": ",;\t", "tsv": "\t", "txt": "\t,;"}
_MISSING = ["", "NA", "NaN", "nan", "null", "NULL", "N/A", "?"]
_MISSING += [f" {marker}" for marker in _MISSING]
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", re.ASCII)
_READ_FAILURES = {
    FileNotFoundError: "does not exist.",
    IsADirectoryError: "is a directory; name a file in it.",
    PermissionError: "cannot be read: permission denied.",
    UnicodeDecodeError: "is not UTF-8 text; save it with UTF-8 encoding.",
    MemoryError: "does not fit in memory.",
}
# What the readers raise, between them, on a damaged file.
_READ_ERRORS: tuple[type[Exception], ...] = (OSError, EOFError, ValueError, TypeError, LookupError)
_READ_ERRORS += (MemoryError, RuntimeError, SyntaxError, ArithmeticError)
_READ_ERRORS += (csv.Error, zlib.error, zipfile.BadZipFile, tokenize.TokenError)


class TableError(ValueError):
    """An input the user can mend, told in one sentence."""


@dataclass(frozen=True, eq=False)
class Table:
    """A numeric table with column names and, where known, labels kept aside.

    Parameters
    ----------
    values : ndarray or scipy.sparse.csr_array of shape (n_samples, n_columns)
        Finite numbers.
    names : list of str
        One name per column, as in the file.
    labels, label_name : ndarray of shape (n_samples,) and str, optional
        Numbers, or text in which a missing label is the empty string; where they came from.
    notes : list of str
        Sentences about what reading changed.
    """

    values: np.ndarray | sparse.csr_array
    names: list[str]
    labels: np.ndarray | None = None
    label_name: str | None = None
    notes: list[str] = field(default_factory=list)

    def select(self, columns: Sequence[int] | np.ndarray) -> Table:
        """Keep the columns of these integer indices, in the given order, with the labels."""
        # operator.index refuses a mask, which would name other columns than it selects.
        indices = np.array([operator.index(j) for j in columns], dtype=np.intp)
        names = [self.names[j] for j in indices]
        return Table(self.values[:, indices], names, self.labels, self.label_name, list(self.notes))


def read_table(
    path: StrPath,
    *,
    label: str | None = None,
    drop_text: bool = False,
    impute: Literal["median", "mean", "keep"] | None = None,
    least_rows: int = 2,
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

    Returns
    -------
    Table
        Samples of at least one numeric column, all finite (or kept NaN); else a `TableError`.
    """
    path = Path(path)
    if impute not in (None, "median", "mean", "keep"):
        raise TableError(f"impute must be 'median' or 'mean', not {impute!r}.")
    with _reading(path), path.open("rb") as stream:
        if not stream.read(1):
            raise _error(path, "is empty.")
    kind = _kind(path)
    bare = kind in ("npy", "npz", "mtx")
    table = _read_matrix(path, kind, label) if bare else _read_arrow(path, kind, label, drop_text)
    rows, columns = table.values.shape
    _check_shape(path, rows, columns, least_rows)
    _complete(path, table, impute)
    return table


def write_table(path: StrPath, table: Table) -> None:
    """Write a table whole or not at all, in the format of any suffix that `read_table` knows.

    Labels become the last column under their name, or the array ``y`` of an .npz file; .npy and
    .mtx hold the values only, without names or labels. A sparse table stays sparse in .mtx and
    becomes dense elsewhere. In delimited text, names and text labels that a spreadsheet would run
    as a formula get an apostrophe in front.
    """
    check_writable_format(path)
    kind, values, labels = _kind(Path(path)), table.values, table.labels
    if kind != "mtx" and not isinstance(values, np.ndarray):
        values = values.toarray()
    if labels is not None and labels.dtype.kind not in "biuf":
        labels = labels.astype(str)
    with atomic_path(path) as temporary, _open_output(temporary) as stream:
        if kind == "mtx":
            import scipy.io

            scipy.io.mmwrite(stream, values, symmetry="general")
        elif kind == "npy":
            np.save(stream, values, allow_pickle=False)
        elif kind == "npz":
            arrays: dict[str, Any] = {} if labels is None else {"y": labels}
            arrays |= {"X": values, "feature_names": np.array(table.names, dtype=str)}
            np.savez_compressed(stream, **arrays)
        else:
            _write_arrow(stream, kind, Table(values, table.names, labels, table.label_name))


def write_rows(path: StrPath, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a small delimited table, such as a ranking, whole or not at all.

    Suffixes .tsv and .txt take tabs, others commas; .gz compresses. Text cells (never numbers)
    that a spreadsheet would run as a formula get an apostrophe in front.
    """
    tabs = str(path).lower().removesuffix(".gz").endswith((".tsv", ".txt"))
    with atomic_path(path) as temporary, _open_output(temporary) as stream:
        writer = csv.writer(codecs.getwriter("utf-8")(stream), delimiter="\t" if tabs else ",")
        for row in itertools.chain([header], rows):
            writer.writerow([_formula_safe(c) if isinstance(c, str) else c for c in row])


@contextmanager
def atomic_path(path: StrPath) -> Iterator[Path]:
    """Yield an empty temporary file beside `path` that takes its place on success.

    The temporary path has the same suffixes and is deleted on any failure; a `path` that is a
    symbolic link is followed. A missing directory or a failure to write is a `TableError`.
    """
    target = Path(path).resolve()
    _check_target(target)
    temporary = target.parent / f".{secrets.token_hex(8)}{''.join(target.suffixes[-2:])}"
    try:
        temporary.touch(exist_ok=False)
        if target.exists():
            shutil.copymode(target, temporary)
        yield temporary
        temporary.replace(target)
    except OSError as error:
        raise _error(path, f"cannot be written: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def check_writable_format(path: StrPath) -> None:
    """Raise `TableError` early, before a long computation, if `write_table` would refuse `path`."""
    _kind(Path(path))
    _check_target(Path(path))


def _shown(text: str, limit: int = 60) -> str:
    text = text if len(text) <= limit else f"{text[:limit]}…"
    return text if text.isprintable() and text.strip() == text != "" else repr(text)


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(_shown(name) for name in names[:most]) or "none") + more


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _error(path: StrPath, sentence: str) -> TableError:
    # Paths and the readers' own messages may span lines.
    return TableError(" ".join(f"{path} {sentence}".split()))


def _formula_safe(text: str) -> str:
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _kind(path: Path) -> str:
    name = path.name.lower()
    kind = _KINDS.get(Path(name.removesuffix(".gz")).suffix)
    if kind is None or (name.endswith(".gz") and kind not in _GZIP_KINDS):
        known = " ".join([*_KINDS, *(f".{name}.gz" for name in _GZIP_KINDS)])
        raise _error(path, f"has no supported suffix; the supported ones are {known}.")
    return kind


def _check_target(target: Path) -> None:
    if not target.parent.is_dir():
        raise _error(target, f"cannot be written: there is no directory {target.parent}.")
    if target.is_dir() or (target.exists() and not os.access(target, os.W_OK)):
        what = "a directory" if target.is_dir() else "read-only"
        raise _error(target, f"cannot be written: it is {what}.")


@contextmanager
def _reading(path: Path, *also: type[Exception]) -> Iterator[None]:
    """Turn what a reader raises into one sentence."""
    try:
        yield
    except (*_READ_ERRORS, *also) as error:
        if isinstance(error, TableError):
            raise
        sentence = f"is damaged, truncated or not what its suffix says: {str(error)[:160]}."
        if "Object arrays" in str(error):
            sentence = "holds Python objects, which are never loaded; save numbers instead."
        plain = (text for kind, text in _READ_FAILURES.items() if isinstance(error, kind))
        raise _error(path, next(plain, sentence)) from error


def _open_input(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


@contextmanager
def _open_output(path: Path) -> Iterator[Any]:
    with path.open("wb") as stream:
        if path.suffix.lower() == ".gz":
            # Without name and time in it, the same table always gives the same bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
                yield packed
        else:
            yield stream


def _distinct(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names with repeated ones numbered (a, a.2, a.3), and notes that say so."""
    distinct, notes = dict[str, None](), list[str]()
    for name in names:
        fresh, numbers = name, itertools.count(2)
        while fresh in distinct or (fresh != name and fresh in names):
            fresh = f"{name}.{next(numbers)}"
        if fresh != name:
            notes.append(f"renamed a repeated column {_shown(name)} to {_shown(fresh)}")
        distinct[fresh] = None
    return list(distinct), notes


def _find_label(path: Path, label: str, names: Sequence[str]) -> int:
    if label in names:
        return list(names).index(label)
    close = difflib.get_close_matches(label, names, n=3)
    hint = f"did you mean {_listed(close)}" if close else f"it has {_listed(names)}"
    raise _error(path, f"has no column {_shown(label)} for --label; {hint}.")


def _check_shape(path: Path, rows: int, columns: int, least_rows: int = 1) -> None:
    if rows < least_rows:
        count = "one row" if rows else "no rows"
        raise _error(path, f"has {count} of data; at least two samples are needed.")
    if columns == 0:
        raise _error(path, "has no numeric columns.")


def _complete(path: Path, table: Table, impute: str | None) -> None:
    """Refuse infinities, and refuse or fill (in place) the missing values of a dense table."""
    values, names = table.values, table.names
    dense = isinstance(values, np.ndarray)
    with np.errstate(over="ignore", invalid="ignore"):
        # A finite sum has finite terms: the common case needs no mask.
        if values.dtype.kind != "f" or np.isfinite(values.sum() if dense else values.data).all():
            return
        # Times zero, a sparse matrix keeps what is not finite and nothing else.
        rows, columns = np.nonzero(np.isinf(values)) if dense else (values * 0).nonzero()
    if rows.size:
        value = f"{'infinite' if dense else 'non-finite'} value {values[rows[0], columns[0]]}"
        where = f"column {_shown(names[columns[0]])}, data row {rows[0] + 1}"
        raise _error(path, f"holds the {value} in {where}; replace it in the file, no option does.")
    if impute == "keep":
        return
    missing = np.isnan(values)
    counts = missing.sum(axis=0)
    if empty := [names[j] for j in np.flatnonzero(counts == len(values))]:
        count = f"{_counted(len(empty), 'column')} without a single value ({_listed(empty)})"
        raise _error(path, f"has {count}, which --impute cannot fill; drop them in the file.")
    if not (holed := np.flatnonzero(counts)).size:
        return
    where = f"{_counted(int(counts.sum()), 'missing value')} in {_counted(holed.size, 'column')}"
    if impute is None:
        listed = _listed([names[j] for j in holed])
        raise _error(path, f"has {where} ({listed}); fill with --impute median (or mean).")
    statistic = np.median if impute == "median" else np.mean
    for j in holed:
        values[missing[:, j], j] = statistic(values[~missing[:, j], j])
    table.notes.append(f"imputed {where} by the {impute}")


def _read_delimited(path: Path, kind: str) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    # The last try is the first again: a single column. A wide header not split is a csv.Error.
    for delimiter in (*_DELIMITERS[kind], _DELIMITERS[kind][0]):
        names: list[str] = []
        with suppress(csv.Error), io.TextIOWrapper(_open_input(path), "utf-8-sig", newline="") as f:
            reader = csv.reader(f, delimiter=delimiter)
            names, lines, more = next(filter(None, reader), []), reader.line_num, any(reader)
            if len(names) > 1:
                break
    if not names:
        raise _error(path, "has no readable line of column names.")
    numbers = {name for name in names if _NUMBER.fullmatch(name)}
    if numbers and numbers.union(_MISSING).issuperset(names):
        hint = "its first line is all numbers; add a line of column names"
        raise _error(path, f"has no header row: {hint}.")
    _check_shape(path, 2 if more else 0, len(names))
    parsing = arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    converting = arrow_csv.ConvertOptions(null_values=_MISSING, strings_can_be_null=True)
    reading = arrow_csv.ReadOptions(column_names=names, skip_rows=lines)
    # A row must fit in one block, and a block in 31 bits.
    reading.block_size = min(max(1 << 24, 64 * len(names)), (1 << 31) - 1)
    # One thread is slower but counts the rows, so that its errors say which one is wrong.
    reading.use_threads = path.stat().st_size > 1 << 24
    with _open_input(path) as stream:
        table = arrow_csv.read_csv(stream, reading, parsing, converting)
    if any(pa.types.is_binary(column.type) for column in table.columns):
        raise _error(path, _READ_FAILURES[UnicodeDecodeError])
    return table


def _is_numeric(column: pa.ChunkedArray) -> bool:
    return str(column.type).startswith(("int", "uint", "float", "double"))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return an Arrow column as numbers that NumPy takes over, or as strings, or as it is."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = str(column.type)
    if kind.startswith(("null", "decimal", "halffloat")):
        return column.cast(pa.float64())
    if kind.startswith(("string", "large_string", "date", "time")):
        return column.cast(pa.string())
    return column.cast(pa.uint8()) if kind == "bool" else column


def _text_error(path: Path, columns: dict[str, pa.ChunkedArray]) -> TableError:
    """Say which columns are text, where, and which one may be meant as labels."""
    name, column = next(iter(columns.items()))
    # A column is text by one bad cell among numbers: that is the cell to show.
    cells = enumerate((str(cell.as_py() or "") for cell in column), start=1)
    row, cell = next((c for c in cells if c[1] and not _NUMBER.fullmatch(c[1])), (1, "text"))
    where = f"first {cell[:60]!r} in data row {row} of column {_shown(name)}"
    option = "leave them out with --drop-text"
    for name, column in columns.items():
        if str(column.type) == "string" and len(column.unique()) <= min(50, len(column) // 2):
            option += f", or keep one aside with --label {_shown(name)}"
            break
    found = f"{_counted(len(columns), 'text column')} ({_listed(list(columns))})"
    return _error(path, f"has {found}, {where}; {option}.")


def _read_arrow(path: Path, kind: str, label: str | None, drop_text: bool) -> Table:
    import pyarrow as pa
    from pyarrow import feather, parquet

    with _reading(path, pa.ArrowException), path.open("rb") as stream:
        if kind in _DELIMITERS:
            arrow = _read_delimited(path, kind)
        elif kind == "arrow":
            arrow = feather.read_table(stream)
        else:
            arrow = parquet.ParquetFile(stream).read()
        names, notes = _distinct(arrow.column_names)
        columns = dict(zip(names, map(_plain, arrow.columns), strict=True))
    labels = None
    if label is not None:
        aside = columns.pop(names[_find_label(path, label, names)])
        with _reading(path, pa.ArrowException):
            aside = aside if _is_numeric(aside) else aside.cast(pa.string()).fill_null("")
        labels = np.array(aside.to_numpy(), dtype=None if _is_numeric(aside) else str)
    _check_shape(path, arrow.num_rows, len(names))
    text = {name: column for name, column in columns.items() if not _is_numeric(column)}
    if text and not drop_text:
        raise _text_error(path, text)
    if text:
        notes.append(f"dropped {_counted(len(text), 'text column')}: {_listed(list(text))}")
    numeric = {name: column for name, column in columns.items() if name not in text}
    _check_shape(path, arrow.num_rows, len(numeric))
    # The narrowest type that holds every column; an integer column with holes needs NaN.
    dtypes = {column.type.to_pandas_dtype() for column in numeric.values()}
    dtypes |= {np.float64 for c in numeric.values() if c.null_count and "int" in str(c.type)}
    values = np.empty((arrow.num_rows, len(numeric)), np.result_type(*dtypes), order="F")
    for j, column in enumerate(numeric.values()):
        values[:, j] = column.to_numpy()
    return Table(values, list(numeric), labels, label, notes)


def _write_arrow(stream: BinaryIO, kind: str, table: Table) -> None:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import feather, parquet

    guard = _formula_safe if kind in _DELIMITERS else str
    columns = [pa.array(table.values[:, j]) for j in range(len(table.names))]
    names = list(map(guard, table.names))
    if (labels := table.labels) is not None:
        columns.append(pa.array(list(map(guard, labels)) if labels.dtype.kind == "U" else labels))
        names.append(guard(table.label_name or "label"))
    arrow = pa.table(columns, names=names)
    if kind == "parquet":
        parquet.write_table(arrow, stream)
    elif kind == "arrow":
        feather.write_feather(arrow, stream)
    else:
        arrow_csv.write_csv(arrow, stream, arrow_csv.WriteOptions(delimiter=_DELIMITERS[kind][0]))


def _read_matrix(path: Path, kind: str, label: str | None) -> Table:
    """Read a format of bare arrays; a label may also be one of their made-up column names."""
    labels, label_name, names = None, None, None
    with _reading(path), _open_input(path) as stream:
        if kind == "npz":
            values, labels, label_name, names = _read_npz(path, stream, label)
        elif kind == "npy":
            values = np.lib.format.read_array(stream, allow_pickle=False)
        else:
            import scipy.io
            from scipy import sparse

            # Without a line end after its last value, a damaged file can crash the parser.
            values = scipy.io.mmread(io.BytesIO(stream.read() + b"\n"))
            values = sparse.csr_array(values) if sparse.issparse(values) else values
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        held = f"an array of shape {values.shape} and type {values.dtype}"
        raise _error(path, f"holds {held}; a two-dimensional array of real numbers is needed.")
    rows, width = values.shape
    dtype = values.dtype.newbyteorder("=")
    if dtype.kind in "bf" and dtype != np.float32:
        dtype = np.dtype(np.uint8 if dtype.kind == "b" else np.float64)
    values = values.astype(dtype, copy=False)
    if names is None:
        names = [f"x{j:0{len(str(width))}d}" for j in range(1, width + 1)]
    if len(names) != width:
        raise _error(path, f"has {len(names)} feature_names for {width} columns of X.")
    names, notes = _distinct(names)
    if label is not None and label_name != label:
        at, label_name = _find_label(path, label, names), label
        aside, values = values[:, [at]], values[:, np.arange(width) != at]
        labels = (aside if isinstance(aside, np.ndarray) else aside.toarray()).ravel()
        del names[at]
    if labels is not None and labels.shape != (rows,):
        raise _error(path, f"has labels {label_name} of shape {labels.shape} for {rows} rows.")
    _check_shape(path, *values.shape)
    return Table(values, names, labels, label_name, notes)


def _read_npz(path: Path, stream: BinaryIO, label: str | None) -> tuple[Any, Any, str | None, Any]:
    """Return the matrix, the labels, their array's name and the column names."""
    archive = np.lib.npyio.NpzFile(stream, allow_pickle=False)
    found = archive.files
    flat = ["X"] if "X" in found else [name for name in found if np.ndim(archive[name]) == 2]
    if len(flat) != 1:
        raise _error(path, f"needs an array X or exactly one 2-D array; it has {_listed(found)}.")
    label_name = label if label in found else "y" if "y" in found else None
    labels = None if label_name is None else np.asarray(archive[label_name])
    names = archive["feature_names"].astype(str).tolist() if "feature_names" in found else None
    return np.asarray(archive[flat[0]]), labels, label_name, names
