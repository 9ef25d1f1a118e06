"""Spreadsheets: a sheet becomes the delimited text that the program would save."""

from __future__ import annotations

import csv
import io
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from jointsparse.io.errors import listed, reading, shown, table_error

_MOST_BYTES = 1 << 30  # of an unpacked workbook; the programs that write them stop long before


def sheet_as_text(path: Path, sheet: str | None) -> tuple[bytes, list[str]]:
    """Return a sheet as comma-separated text in UTF-8, and notes about which one.

    Parameters
    ----------
    path : Path
        An .xlsx, .xlsm, .xls, .xlsb or .ods file.
    sheet : str or None
        Its name; None is the first one that is not empty.
    """
    try:
        import python_calamine as calamine
    except ImportError:
        raise table_error(
            path, "needs python-calamine: pip install 'jointsparse[excel]'."
        ) from None
    with reading(path, calamine.CalamineError):
        _check_unpacked(path)
        with path.open("rb") as stream:
            book = calamine.CalamineWorkbook.from_filelike(stream)
            names = list(book.sheet_names)
            if sheet is not None and sheet not in names:
                raise table_error(path, f"has no sheet {shown(sheet)}; it has {listed(names)}.")
            wanted = names if sheet is None else [sheet]
            filled: list[str] = []
            text = b""
            for name in wanted:
                found = _text_of(book.get_sheet_by_name(name).to_python())
                text = text or found
                filled += [name] * bool(found)
    if not filled:
        raise table_error(path, "has no sheet with anything in it.")
    notes = []
    if len(filled) > 1:
        others = listed([shown(name) for name in filled[1:]])
        notes.append(f"read the sheet {shown(filled[0])}; the file also has {others}")
    return text, notes


def _check_unpacked(path: Path) -> None:
    """Refuse a workbook that unpacks to more than any program writes."""
    import zipfile

    if not zipfile.is_zipfile(path):
        return  # the old format of Excel is not packed
    with zipfile.ZipFile(path) as archive:
        size = sum(info.file_size for info in archive.infolist())
    if size > _MOST_BYTES:
        raise table_error(path, "unpacks to more than 1 GB; save the sheet as .csv or .parquet.")


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
