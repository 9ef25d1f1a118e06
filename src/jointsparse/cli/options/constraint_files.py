"""``--costs`` and ``--groups``: a file with one line for each feature."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from jointsparse.cli.errors import CommandError
from jointsparse.cli.options.arguments import quoted
from jointsparse.text import counted

LARGEST = 64 * 2**20  # bytes: a million features with long names; more is another file
_DELIMITERS = ",;\t"


def read_pairs(
    path: Path, names: list[str], what: str, read: Callable[[str], Any]
) -> dict[int, Any]:
    """Return the second cell of each line by the number of the feature in the first.

    Parameters
    ----------
    path : Path
        CSV, also with semicolons or tabs; the first line may be a header, "feature" or ``what``.
    names : list of str
        Names of the features.
    what : str
        What the second cell is: cost, or group.
    read : callable
        Turns its text into a value; a ValueError says what is wrong with it.
    """
    number = {name: place for place, name in enumerate(names)}
    found: dict[int, Any] = {}
    rows: dict[int, int] = {}
    for row, cells in _rows(path):
        if len(cells) != 2:
            raise CommandError(
                f"{path}: row {row} has {counted(len(cells), 'cell')}; it takes two, a feature and "
                f"its {what}"
            )
        name, text = cells
        if name not in number:
            if row == 1 and (name.lower() == "feature" or text.lower() == what):
                continue  # a header
            raise CommandError(f"{path}: row {row}: {no_feature(name, number)}")
        feature = number[name]
        if feature in found:
            raise CommandError(
                f"{path}: row {row}: {quoted(name)} has a {what} in row {rows[feature]} already"
            )
        try:
            found[feature] = read(text)
        except ValueError as error:
            raise CommandError(
                f"{path}: row {row}: the {what} of {quoted(name)} is {quoted(text)}, {error}"
            ) from error
        rows[feature] = row
    if not found:
        raise CommandError(f"{path} has no {what} of any feature")
    return found


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines that are not empty, numbered from 1, as cells."""
    try:
        if not path.is_file():
            raise CommandError(f"{path} {'is no file' if path.exists() else 'does not exist'}")
        if path.stat().st_size > LARGEST:
            raise CommandError(f"{path} is too large for a line for each feature")
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not text in UTF-8") from error
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    first = text.split("\n", 1)[0]
    delimiter = next((mark for mark in _DELIMITERS if mark in first), ",")
    try:
        for row, cells in enumerate(csv.reader(io.StringIO(text), delimiter=delimiter), start=1):
            if any(cell.strip() for cell in cells):
                yield row, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise CommandError(f"{path}: {error}") from error


def no_feature(name: str, names: Mapping[str, int]) -> str:
    """Say that there is no such feature, and which one may be meant."""
    near = get_close_matches(name, list(names), n=1)
    hint = f"; did you mean {quoted(near[0])}?" if near else ""
    return f"the table has no feature {quoted(name)}{hint}"
