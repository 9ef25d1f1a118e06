"""Spreadsheets: a sheet becomes the delimited text that the program would save."""

from __future__ import annotations

import csv
import io
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from xml.parsers import expat

from jointsparse.io.errors import listed, reading, shown, table_error
from jointsparse.io.plain_text.old_workbooks import checked_old
from jointsparse.io.plain_text.workbooks import Workbook, check_entries

_OLD_MARK = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def sheet_as_text(path: Path, sheet: str | None, memory: int) -> tuple[bytes, list[str]]:
    """Return a sheet as comma-separated text in UTF-8, and notes about which one.

    Parameters
    ----------
    path : Path
        An .xlsx, .xlsm or .xls file.
    sheet : str or None
        Its name; None is the first one that is not empty.
    memory : int
        How many bytes reading it may take.
    """
    try:
        import python_calamine as calamine
    except ImportError:
        raise table_error(
            path, "needs python-calamine: pip install 'jointsparse[excel]'."
        ) from None
    with reading(path, calamine.CalamineError, expat.ExpatError, struct.error), _without_panic():
        with path.open("rb") as stream:
            old = stream.read(len(_OLD_MARK)) == _OLD_MARK
        if old:
            filled, text = _old_sheet(path, sheet, memory, calamine.CalamineWorkbook.from_path)
        elif zipfile.is_zipfile(path):
            filled, text = _new_sheet(path, sheet, memory, calamine.CalamineWorkbook.from_filelike)
        else:
            raise ValueError("it is no workbook of Excel")
    if not filled:
        raise table_error(path, "has no sheet with anything in it.")
    notes = []
    if len(filled) > 1:
        others = listed([shown(name) for name in filled[1:]])
        notes.append(f"read the sheet {shown(filled[0])}; the file also has {others}")
    return text, notes


def _new_sheet(path: Path, sheet: str | None, memory: int, opened: Any) -> tuple[list[str], bytes]:
    """Return the names of the sheets with something in them, and the text of the first."""
    check_entries(path, memory)
    filled: list[str] = []
    text = b""
    with zipfile.ZipFile(path) as archive:
        book = Workbook(path, archive, memory)
        for name in _wanted(path, sheet, book.names):
            if not book.has_anything(name):
                continue
            if not text:
                book.check(name)
                with book.only(name) as stream:
                    text = _text_of(opened(stream).get_sheet_by_name(name).to_python())
            filled += [name] * bool(text)
    return filled, text


def _old_sheet(path: Path, sheet: str | None, memory: int, opened: Any) -> tuple[list[str], bytes]:
    """Return the same of a workbook in the format before 2007."""
    data = checked_old(path, memory)
    # Windows does not remove a file that is open.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        # Under this suffix it is read as nothing else: there may be a packed file in it, too.
        copy = Path(folder) / "book.xls"
        copy.write_bytes(data)
        book = opened(copy)
    filled: list[str] = []
    text = b""
    for name in _wanted(path, sheet, list(book.sheet_names)):
        found = _text_of(book.get_sheet_by_name(name).to_python())
        text = text or found
        filled += [name] * bool(found)
    return filled, text


def _wanted(path: Path, sheet: str | None, names: list[str]) -> list[str]:
    if sheet is not None and sheet not in names:
        raise table_error(path, f"has no sheet {shown(sheet)}; it has {listed(names)}.")
    return names if sheet is None else [sheet]


@contextmanager
def _without_panic() -> Iterator[None]:
    """Turn what Rust raises where it gives up, which is no Exception, into damage."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError("its reader gave up") from None


def _text_of(rows: list[list[Any]]) -> bytes:
    if not any(cell != "" for row in rows for cell in row):
        return b""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        if any(cell != "" for cell in row):
            writer.writerow([_cell(cell) for cell in row])
    return text.getvalue().encode()


def _cell(value: Any) -> str:
    """Return a cell as text: numbers with all their digits, whole ones without a point."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, timedelta):
        return str(value.total_seconds())
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value)
