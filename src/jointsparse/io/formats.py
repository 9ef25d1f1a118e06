"""Which file formats there are, and how their bytes are opened."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jointsparse.io.errors import TableError, table_error

_KINDS = {f".{kind}": kind for kind in ("csv", "tsv", "txt", "parquet", "npy", "npz", "mtx")}
_KINDS |= dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow")
_KINDS |= dict.fromkeys((".xlsx", ".xlsm", ".xls"), "sheet")
_KINDS |= {".h5ad": "h5ad"} | dict.fromkeys((".h5", ".hdf5", ".he5"), "hdf5")
_GZIP_KINDS = ("csv", "tsv", "txt", "npy", "mtx")
_NOT_BOUNDED = (".xlsb", ".ods")  # a few bytes of which can promise any number of cells
READ_ONLY = ("sheet", "h5ad", "hdf5")  # kinds that are not written
# The first delimiter that splits the header is read, the first of all is written.
DELIMITERS = {"csv": ",;\t", "tsv": "\t", "txt": "\t,;", "sheet": ","}
MISSING = ["", "NA", "NaN", "nan", "null", "NULL", "N/A", "?"]
MISSING += ["n/a", "#N/A", "<NA>", "None", "NaT", "-", "--", "."]
MISSING += [f" {marker}" for marker in MISSING]
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", re.ASCII)


def not_bounded(path: Path, what: str) -> TableError:
    """Return the error of a workbook of which nobody knows how far it reaches."""
    return table_error(
        path, f"is {what}, whose extent is not known before it is read; save it as .xlsx."
    )


def kind_of(path: Path, *, unless: tuple[str, ...] = ()) -> str:
    """Return the format that the suffix names; those in ``unless`` are not advised."""
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix in _NOT_BOUNDED and not unless:
        raise not_bounded(path, f"an {suffix} file")
    kind = _KINDS.get(suffix)
    if kind is None or (name.endswith(".gz") and kind not in _GZIP_KINDS):
        advised = [suffix for suffix, one in _KINDS.items() if one not in unless]
        known = " ".join([*advised, *(f".{name}.gz" for name in _GZIP_KINDS)])
        raise table_error(path, f"has no supported suffix; the supported ones are {known}.")
    return kind


def written_kind_of(path: Path) -> str:
    """Return the format that the suffix names, of a file that is to be written."""
    kind = kind_of(path, unless=READ_ONLY)
    if kind in READ_ONLY:
        raise table_error(
            path, "is a format that is read and not written; write .csv, .parquet or .npz."
        )
    return kind


def formula_safe(text: str) -> str:
    """Return the text with an apostrophe where a spreadsheet would run it as a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def open_input(path: Path) -> Any:
    """Open for reading, unpacking .gz."""
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


@contextmanager
def open_output(path: Path) -> Iterator[Any]:
    """Open for writing, packing .gz."""
    with path.open("wb") as stream:
        if path.suffix.lower() == ".gz":
            # Without name and time in it, the same table always gives the same bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
                yield packed
        else:
            yield stream
