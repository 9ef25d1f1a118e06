"""Options about the table that every command has that reads one, and tables from standard input."""

import atexit
import shutil
import sys
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jointsparse.cli.display.console import SPOOLED
from jointsparse.cli.errors import CommandError, told

if TYPE_CHECKING:
    from jointsparse.io.columns.layout import Layout

_option = partial(typer.Option, rich_help_panel="Data")
STDIN = "-"
# What files of other formats than text begin with.
_MARKS = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\x93NUMPY": ".npy",
    b"%%MatrixMarket": ".mtx",
    b"\x89HDF": ".h5",
    b"\x1f\x8b": ".csv.gz",
}


class Categories(StrEnum):
    """What becomes of columns of text with few values."""

    ONEHOT = "onehot"


class Decimal(StrEnum):
    """What stands before the decimals."""

    COMMA = ","
    POINT = "."


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What a command can be told about the table that it reads."""

    label: Annotated[
        list[str] | None,
        _option(
            "--label",
            metavar="COLUMN",
            help="Column to keep out and carry along; can be repeated. Scores are computed for the "
            "first.",
        ),
    ] = None
    ids: Annotated[
        list[str] | None,
        _option(
            "--id",
            metavar="COLUMN",
            help="Column that names the samples: kept out and carried along; can be repeated.",
        ),
    ] = None
    no_ids: Annotated[
        bool, _option("--no-ids", help="Take no column for an ID that is not named by --id.")
    ] = False
    drop: Annotated[
        list[str] | None,
        _option(
            "--drop",
            metavar="NAME",
            help="Column, or pattern such as 'QC_*', that is no part of the table; repeatable.",
        ),
    ] = None
    only: Annotated[
        list[str] | None,
        _option(
            "--only",
            metavar="NAME",
            help="Column, or pattern, to choose from, and no other; can be repeated.",
        ),
    ] = None
    drop_text: Annotated[
        bool, _option("--drop-text", help="Leave out columns of numbers with text in some cells.")
    ] = False
    categories: Annotated[
        Categories | None,
        _option(
            "--categories",
            help="Make a column of 0 and 1 of each value of text columns with few values, which "
            "are left out otherwise.",
            show_default=False,
        ),
    ] = None
    transpose: Annotated[
        bool, _option("--transpose", help="The features are in the rows of the table.")
    ] = False
    decimal: Annotated[
        Decimal | None,
        _option(
            "--decimal",
            help="What stands before decimals in text; the text tells by default.",
            show_default=False,
        ),
    ] = None
    encoding: Annotated[
        str | None,
        _option(
            "--encoding",
            metavar="NAME",
            help="Encoding of text, such as latin-1; the text tells by default.",
            show_default=False,
        ),
    ] = None
    dataset: Annotated[
        str | None,
        _option(
            "--dataset",
            metavar="NAME",
            help="Which sheet, array, dataset or layer of a file that holds several.",
            show_default=False,
        ),
    ] = None

    def layout(self) -> "Layout":
        """Return what the library calls all of this."""
        from jointsparse.io.columns.layout import Layout
        from jointsparse.io.errors import TableError

        try:
            return Layout.of(**self.reading(every=True))
        except TableError as error:
            raise told(error) from error

    def reading(self, *, every: bool = False) -> dict[str, Any]:
        """Return the parameters of ``read_table``; those that differ from it, or all."""
        given: dict[str, Any] = {
            "label": self.label if self.label is None or len(self.label) > 1 else self.label[0],
            "ids": self.ids,
            "find_ids": not self.no_ids,
            "drop": self.drop,
            "only": self.only,
            "drop_text": self.drop_text,
            "categories": self.categories and self.categories.value,
            "transpose": self.transpose,
            "decimal": self.decimal and self.decimal.value,
            "encoding": self.encoding,
            "dataset": self.dataset,
        }
        if every:
            return given
        told = {name: value for name, value in given.items() if value and name != "find_ids"}
        return told | ({"find_ids": False} if self.no_ids else {})


def spooled(data: str | None) -> str | None:
    """Return the name of the table; ``-`` becomes a file with what comes from standard input."""
    if data != STDIN:
        return data
    stream = sys.stdin.buffer
    if sys.stdin.isatty():
        raise CommandError("- reads the table from standard input, and nothing is sent there")
    folder = Path(tempfile.mkdtemp(prefix="jointsparse-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    first = stream.read(1 << 16)
    suffix = next((end for mark, end in _MARKS.items() if first.startswith(mark)), ".csv")
    if first.startswith(b"PK"):
        suffix = ".npz" if b".npy" in first[:512] else ".xlsx"
    file = folder / f"{SPOOLED}{suffix}"
    with file.open("wb") as copy:
        copy.write(first)
        shutil.copyfileobj(stream, copy)
    return str(file)


def notes_in_options(notes: list[str]) -> list[str]:
    """Return what reading said in the words of the command line."""
    return [getattr(note, "in_options", note) for note in notes]
