"""How a table is laid out in its file, as far as the caller says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jointsparse.io.errors import TableError

Names = str | Sequence[str] | None


@dataclass(frozen=True)
class Layout:
    """What a caller says about the columns of a table, and about how its file is written.

    Attributes
    ----------
    labels, ids : tuple of str
        Columns that are no features and go along with the samples.
    find_ids : bool
        Whether columns that look like names or numbers of the samples are taken as such.
    drop, only : tuple of str
        Names, or patterns with ``*`` and ``?``, of columns that are no part of the table, and of
        the only ones that are.
    drop_text : bool
        Whether a column of numbers with text in some cells is left out, not refused.
    categories : {"onehot"} or None
        What becomes of columns of text with few values.
    transpose : bool
        Whether the rows are the features.
    decimal : {",", "."} or None
        What stands before the decimals in text; None where the text is to tell.
    encoding : str or None
        How characters are written in text; None where the text is to tell.
    dataset : str or None
        Which sheet, array, dataset or layer of a file that holds several.
    ids_apart_from : frozenset of str
        Columns that are features, whatever they look like.
    """

    labels: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    find_ids: bool = True
    drop: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    drop_text: bool = False
    categories: Literal["onehot"] | None = None
    transpose: bool = False
    decimal: str | None = None
    encoding: str | None = None
    dataset: str | None = None
    ids_apart_from: frozenset[str] = frozenset()

    @property
    def label(self) -> str | None:
        """The first label: the one that is used for scores."""
        return self.labels[0] if self.labels else None

    @property
    def carried(self) -> tuple[str, ...]:
        """Columns that were named and go along with the samples."""
        return (*self.ids, *self.labels)

    @classmethod
    def of(
        cls,
        *,
        label: Names = None,
        ids: Names = None,
        find_ids: bool = True,
        drop: Names = None,
        only: Names = None,
        drop_text: bool = False,
        categories: str | None = None,
        transpose: bool = False,
        decimal: str | None = None,
        encoding: str | None = None,
        dataset: str | None = None,
    ) -> Layout:
        """Return the layout that the parameters of ``read_table`` and ``open_source`` describe."""
        if categories not in (None, "onehot"):
            raise TableError(f"categories must be 'onehot' or None, not {categories!r}.")
        if decimal not in (None, ",", "."):
            raise TableError(f"decimal must be ',' or '.', not {decimal!r}.")
        labels, named = _names(label), _names(ids)
        twice = [name for name in dict.fromkeys(labels) if name in named]
        if twice:
            raise TableError(f"The column {twice[0]!r} is named both in ids and as label.")
        return cls(
            tuple(dict.fromkeys(labels)),
            tuple(dict.fromkeys(named)),
            find_ids,
            _names(drop),
            _names(only),
            drop_text,
            "onehot" if categories else None,
            transpose,
            decimal,
            encoding,
            dataset,
        )


def _names(given: Names) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(map(str, given))
