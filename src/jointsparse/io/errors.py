"""What a user can mend, told in one sentence."""

from __future__ import annotations

import csv
import os
import tokenize
import zipfile
import zlib
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jointsparse.text import counted as counted  # what errors count, they find here

StrPath = str | os.PathLike[str]
# Suffixes of text, which may be in another encoding; elsewhere what cannot be decoded is damage.
TEXT = (".csv", ".tsv", ".txt", ".mtx", ".gz")
READ_FAILURES = {
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
    """An input the user can mend, told in one sentence, in the words of Python.

    Attributes
    ----------
    cure_option : str or None
        The same sentence in the options of the command line, which prints it instead; None where
        both have the same words.
    """

    cure_option: str | None = None


def shown(text: str, limit: int = 60) -> str:
    """Return a text for a message: short and on one line."""
    text = text if len(text) <= limit else f"{text[:limit]}…"
    return text if text.isprintable() and text.strip() == text != "" else repr(text)


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return the first names and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(shown(name) for name in names[:most]) or "none") + more


def names_apart(text: str, names: Container[str]) -> list[str]:
    """Return the names that stand in a text with commas between them; none if one is not known.

    Examples
    --------
    >>> from jointsparse.io.errors import names_apart
    >>> names_apart("dose, weight", ["dose", "weight"]), names_apart("dose,site", ["dose"])
    (['dose', 'weight'], [])
    """
    parts = [part.strip() for part in text.split(",")]
    return parts if len(parts) > 1 and all(part in names for part in parts) else []


def table_error(path: StrPath, sentence: str, cure: str = "", cure_option: str = "") -> TableError:
    """Return the error of a file.

    Parameters
    ----------
    path : path-like
        What the sentence begins with.
    sentence : str
        How it goes on: what is wrong, and where.
    cure, cure_option : str
        What to do, in the words of Python and in options of the command line, where these differ.
    """
    told, told_in_options = (
        # Paths and the readers' own messages may span lines.
        " ".join(f"{path} {sentence}{end}".split())
        for end in (cure, cure_option)
    )
    error = TableError(told)
    if cure_option:
        error.cure_option = told_in_options
    return error


@contextmanager
def reading(path: Path, *also: type[Exception]) -> Iterator[None]:
    """Turn what a reader raises into one sentence."""
    try:
        yield
    except (*_READ_ERRORS, *also) as error:
        if isinstance(error, TableError):
            raise
        sentence = f"is damaged, truncated or not what its suffix says: {str(error)[:160]}."
        if "Object arrays" in str(error):
            sentence = "holds Python objects, which are never loaded; save numbers instead."
        plain = (text for kind, text in READ_FAILURES.items() if isinstance(error, kind))
        if isinstance(error, UnicodeDecodeError) and path.suffix.lower() not in TEXT:
            raise table_error(path, "is damaged: a text in it cannot be read.") from error
        raise table_error(path, next(plain, sentence)) from error
