"""Numbers as people write them: with decimal commas, with separated thousands, with spaces."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_SPACES = " \u00a0\u2009\u202f"  # plain, no-break, thin, narrow no-break
_MINUS = "\u2212"
# What may separate thousands, by what stands before the decimals.
_THOUSANDS = {".": f",'’{_SPACES}", ",": f".'’{_SPACES}"}
_DECIMALS = {",": re.compile(r"\s*[-+−]?[\d.'’\s]*,\d+([eE][-+]?\d+)?\s*")}
_DECIMALS["."] = re.compile(r"\s*[-+−]?[\d,'’\s]*\.\d+([eE][-+]?\d+)?\s*")
_CODE = r"^\s*0[0-9]"  # a code such as 00123 that was stored as text is no number
_GROUPED = re.compile(r"\s*[-+−]?\d{1,3}([.,])\d{3}(\1\d{3})*\s*")


def numeral(decimal: str) -> str:
    """Return the regular expression of a number, for Arrow and for Python."""
    thousands, point = re.escape(_THOUSANDS[decimal]), re.escape(decimal)
    whole = rf"([0-9]{{1,3}}([{thousands}][0-9]{{3}})+|[0-9]+)"
    return rf"^\s*[-+−]?({whole}({point}[0-9]*)?|{point}[0-9]+)([eE][-+]?[0-9]+)?\s*$"


def decimal_of(cells: Iterable[str], delimiter: str) -> str:
    """Return what stands before the decimals in some cells of a text.

    A comma that is not followed by exactly three digits can be nothing else, nor can such a point.
    Where there is no such cell, ``1,234`` is a thousand in a text that is separated by commas and a
    little more than one in any other, as programs write them.

    Parameters
    ----------
    cells : iterable of str
        Cells as they are in the text.
    delimiter : str
        What separates them.
    """
    found = {",": 0, ".": 0}
    grouped = False
    for cell in cells:
        if _GROUPED.fullmatch(cell):
            # 1.234 is a number everywhere, so that only commas are doubtful; 1,234,567 is grouped.
            grouped = grouped or cell.count(",") == 1
            continue
        for mark, pattern in _DECIMALS.items():
            found[mark] += pattern.fullmatch(cell) is not None
    if found[","] or found["."]:
        return "," if found[","] > found["."] else "."
    return "," if grouped and delimiter != "," else "."


def numbers_in(column: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray | None:
    """Return a column of text as numbers; None where a cell is not one.

    Parameters
    ----------
    column : pyarrow.ChunkedArray of strings
        Text; nothing stays nothing.
    decimal : {",", "."}
        What stands before the decimals.
    """
    import pyarrow as pa
    from pyarrow import compute

    column = column.cast(pa.string())
    if column.null_count == len(column):
        return None
    fits = compute.match_substring_regex(column, pattern=numeral(decimal))
    if not compute.all(fits).as_py():
        return None
    if compute.any(compute.match_substring_regex(column, pattern=_CODE)).as_py():
        return None
    gaps = f"[{re.escape(_THOUSANDS[decimal])}\\s+]"
    plain = compute.replace_substring_regex(column, pattern=gaps, replacement="")
    plain = compute.replace_substring(plain, pattern=_MINUS, replacement="-")
    if decimal == ",":
        plain = compute.replace_substring(plain, pattern=",", replacement=".")
    return compute.cast(plain, pa.float64())


def is_numeral(cell: str, decimal: str) -> bool:
    """Whether a cell is a number."""
    return re.fullmatch(numeral(decimal), cell) is not None
