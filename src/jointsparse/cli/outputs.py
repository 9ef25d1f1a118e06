"""Results in files: every one is checked before the work, and written whole."""

import os
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from jointsparse.cli.errors import CommandError, told

_TEXT = (".csv", ".tsv", ".txt")


class Kind(Enum):
    """What a file of results is: in words, and how its name ends (nothing: as a table does)."""

    TABLE = ("a table", ())
    TEXT = ("text", (*_TEXT, *(f"{suffix}.gz" for suffix in _TEXT)))
    FIGURE = ("a picture", (".png", ".svg", ".pdf"))
    PAGE = ("HTML", (".html", ".htm"))
    MODEL = ("a model", (".skops",))
    DATABASE = ("results", ("",))
    FOLDER = ("pages", ("",))


class Output(NamedTuple):
    """A file, or folder, that a command is asked to write.

    Attributes
    ----------
    option : str
        The option that names it.
    path : Path or None
        Its name; None where it is not asked for.
    kind : Kind
        What it is to be.
    """

    option: str
    path: Path | None
    kind: Kind


def check_outputs(outputs: Iterable[Output], inputs: Iterable[Path | str | None] = ()) -> None:
    """Refuse, before any work, results that could not be written, or would replace what is needed.

    Parameters
    ----------
    outputs : iterable of Output
        All that the command is asked to write.
    inputs : iterable of path or None
        All that it reads.
    """
    from jointsparse.io import TableError
    from jointsparse.io.atomic import check_target

    taken = [Path(path) for path in inputs if path is not None]
    for option, path, kind in outputs:
        if path is None:
            continue
        try:
            _check_suffix(option, path, kind)
            if kind is not Kind.FOLDER:
                check_target(path)
        except TableError as error:
            raise told(error, about=f"{option}: ") from error
        _check_place(option, path, kind)
        for other in taken:
            if _same(path, other):
                raise CommandError(f"{option}: {path} would replace the data or another result")
            if other.is_dir() and other.resolve() in path.resolve().parents:
                raise CommandError(f"{option}: {path} would become part of the data in {other}")
        taken.append(path)


def _check_suffix(option: str, path: Path, kind: Kind) -> None:
    from jointsparse.io.formats import written_kind_of

    what, suffixes = kind.value
    if not suffixes:
        written_kind_of(path)
    elif not path.name.lower().endswith(suffixes):
        *most, last = suffixes[: len(_TEXT)]  # that they may be packed need not be said
        ends = f"{', '.join(most)} or {last}" if most else last
        raise CommandError(f"{option} writes {what}, so {path} must end in {ends}")


def _check_place(option: str, path: Path, kind: Kind) -> None:
    """Refuse a folder in which nothing can be written."""
    place = path.resolve().parent  # of a file: a new one takes the place of the old
    if kind is Kind.FOLDER:
        place = path.resolve()
        while not place.exists() and place != place.parent:
            place = place.parent  # the folder, and those above it, are made
        if not place.is_dir():
            raise CommandError(f"{option}: {path} cannot be written: {place} is not a directory")
    if not os.access(place, os.W_OK):
        raise CommandError(f"{option}: {path} cannot be written: {place} is read-only")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.resolve() == other.resolve() or one.samefile(other)
    except OSError:  # one of them is not there
        return False


def save_figure(path: Path, draw: Callable[[], Any]) -> None:
    """Draw without a screen, and write the figure whole or not at all."""
    import matplotlib

    from jointsparse.io import atomic_path

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = draw()
    try:
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=150)
    finally:
        plt.close(figure)
