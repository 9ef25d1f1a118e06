"""How far the cells of a sheet reach, and what their reader takes for that."""

from __future__ import annotations

from pathlib import Path

from jointsparse.io.budget import size_in_words
from jointsparse.io.errors import counted, shown, table_error

# Measured with python-calamine 0.7 and 0.9.
CELL_BYTES = 42  # of the rectangle between the outermost cells, in the reader and in Python
FILLED_BYTES = 80  # of a cell with a value, besides
TEXT_BYTES = 4  # of a byte of text: in the reader, in Python, and in the text of the sheet
CURE = "delete what does not belong to the table, or save the table as .csv."


class Extent:
    """The rectangle between the outermost cells that have a value."""

    def __init__(self) -> None:
        self.filled = 0
        self._top = self._left = 1 << 30
        self._lowest = self._rightmost = (-1, -1)

    def add(self, row: int, column: int) -> None:
        """Take in a cell, counted from 0."""
        self.filled += 1
        if row > self._lowest[0]:
            self._lowest = (row, column)
        if column > self._rightmost[1]:
            self._rightmost = (row, column)
        if row < self._top:
            self._top = row
        if column < self._left:
            self._left = column

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        if not self.filled:
            return 0, 0
        return self._lowest[0] - self._top + 1, self._rightmost[1] - self._left + 1

    def needed(self) -> int:
        """Return the bytes that reading it takes."""
        rows, columns = self.shape
        return CELL_BYTES * rows * columns + FILLED_BYTES * self.filled

    def outermost(self) -> str:
        """Return the cells that make it as large as it is, in the words of a spreadsheet."""
        return " and ".join(dict.fromkeys(map(_named, (self._lowest, self._rightmost))))


def _named(place: tuple[int, int]) -> str:
    row, column = place
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return f"{letters}{row + 1}"


def check_extent(path: Path, sheet: str, extent: Extent, needed: int, memory: int) -> None:
    """Refuse a sheet that takes more memory than it may."""
    if needed > memory:
        rows, columns = extent.shape
        raise table_error(
            path,
            f"does not fit in memory: the sheet {shown(sheet)} reaches at least to "
            f"{extent.outermost()}, and {counted(rows, 'row')} × {counted(columns, 'column')} take "
            f"{size_in_words(needed)} where {size_in_words(memory)} may be used; {CURE}",
        )


def check_part(path: Path, what: str, needed: int, memory: int) -> None:
    """Refuse a workbook of which something else takes more memory than it may."""
    if needed > memory:
        raise table_error(
            path,
            f"does not fit in memory: {what} may take {size_in_words(needed)}, and "
            f"{size_in_words(memory)} may be used; {CURE}",
        )
