"""Which columns of a table are features, and which go along with the samples or stay behind.

Tables that are read whole and tables that are read in blocks ask here, with all rows of a column
or with the first ones: both are told the same.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jointsparse.io.columns.classes import classes_told
from jointsparse.io.columns.layout import Layout
from jointsparse.io.columns.rising import rising_told
from jointsparse.io.errors import TableError, listed, names_apart, shown, table_error
from jointsparse.io.notes import note
from jointsparse.io.plain_text.numerals import is_numeral, numeral
from jointsparse.text import counted

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[str, "pa.ChunkedArray"]

# Fewer rows than this are no evidence that numbers are those of the rows.
LEAST_RUNNING = 8
# A column of text with at most this many values, each of them repeated, is one of categories.
MOST_CATEGORIES = 50
_ID_NAME = re.compile(
    r"(.*[_\W])?(id|ids|index|idx|barcode|uuid|guid|rownames?|row_?names?|sample|subject|patient|"
    r"cell|specimen|participant|case|record|accession)([_\W]?(id|no|nr|num|number|name|code))?"
    r"|unnamed: ?\d+",
    re.IGNORECASE,
)
_CAMEL_ID = re.compile(r"[a-z]+I[Dd]")  # patientId, sampleID


@dataclass
class Roles:
    """What each column is.

    Attributes
    ----------
    features : list of str
        Columns of numbers to choose from.
    ids, labels : list of str
        Columns that go along with the samples.
    categories : list of str
        Columns of text that become columns of 0 and 1.
    notes : list of str
        What was left out or recognised, one line each, and how to say otherwise.
    """

    features: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def assign_roles(
    path: Path, columns: Columns, layout: Layout, *, whole: bool = True, keep_empty: bool = False
) -> Roles:
    """Say what each column of a table is.

    Parameters
    ----------
    path : Path
        The file, for messages.
    columns : mapping
        Columns by their names; text that is numbers in other writing is numbers already.
    layout : Layout
        What the caller says.
    whole : bool
        Whether these are all rows, or the first ones.
    keep_empty : bool
        Whether columns without a single value stay.
    """
    names = list(columns)
    roles = Roles(
        ids=[names[find_column(path, name, names, "ids", "--id")] for name in layout.ids],
        labels=[
            names[find_column(path, name, names, "label", "--label")] for name in layout.labels
        ],
    )
    aside = {*roles.ids, *roles.labels}
    wanted = _wanted(path, [name for name in names if name not in aside], names, layout)
    if whole and not keep_empty:
        empty = [name for name in wanted if columns[name].null_count == len(columns[name])]
        if empty and len(columns[names[0]]):
            roles.notes.append(f"left out {counted(len(empty), 'empty column')}: {listed(empty)}")
            wanted = [name for name in wanted if name not in set(empty)]
    if layout.find_ids:
        found = {name: why for name in wanted if (why := _id_reason(columns, name, names, layout))}
        roles.ids += found
        roles.notes += _ids_told(found)
        wanted = [name for name in wanted if name not in found]
    roles.features = [name for name in wanted if is_number(columns[name])]
    if not layout.ids_apart_from:  # whose features a model knows
        named = set(layout.only)
        free = [name for name in roles.features if name not in named]
        roles.notes += classes_told(columns, free)
        roles.notes += rising_told(columns, free)
    numbers = set(roles.features)
    _leave_out(path, {n: columns[n] for n in wanted if n not in numbers}, layout, roles)
    return roles


def find_column(
    path: Path, name: str, names: Sequence[str], parameter: str, option: str = ""
) -> int:
    """Return the place of a column, or say which columns there are."""
    if name in names:
        return list(names).index(name)
    if apart := names_apart(name, names):
        repeated = " ".join(f"{option} {shown(part)}" for part in apart)
        hint, hint_option = f"give a list: {parameter}={apart}.", f"repeat the option: {repeated}."
    else:
        close = difflib.get_close_matches(name, names, n=3)
        hint = f"did you mean {listed(close)}?" if close else f"it has {listed(names)}."
        hint_option = hint
    raise table_error(
        path,
        f"has no column {shown(name)} for ",
        f"{parameter}; {hint}",
        f"{option}; {hint_option}" if option else "",
    )


def chosen_names(
    path: Path, patterns: Sequence[str], names: Sequence[str], parameter: str
) -> list[str]:
    """Return the columns that names or patterns stand for; one that stands for none is refused.

    Parameters
    ----------
    path : Path
        The file, for messages.
    patterns : sequence of str
        Names, or patterns with ``*`` and ``?``. A name is never taken as a pattern.
    names : sequence of str
        All columns.
    parameter : str
        What the caller calls the patterns: a word of Python, and with two dashes an option.
    """
    known, found = set(names), set[str]()
    for pattern in patterns:
        if pattern in known:
            found.add(pattern)
            continue
        matched = {name for name in names if fnmatchcase(name, pattern)}
        if not matched:
            find_column(path, pattern, names, parameter, f"--{parameter}")
        found |= matched
    return [name for name in names if name in found]


def _wanted(path: Path, free: list[str], names: list[str], layout: Layout) -> list[str]:
    if layout.only:
        only = set(chosen_names(path, layout.only, names, "only"))
        free = [name for name in free if name in only]
    if layout.drop:
        drop = set(chosen_names(path, layout.drop, names, "drop"))
        free = [name for name in free if name not in drop]
    return free


def is_number(column: pa.ChunkedArray) -> bool:
    """Whether NumPy takes the column over as numbers."""
    return str(column.type).startswith(("int", "uint", "float", "double"))


def _id_reason(columns: Columns, name: str, names: list[str], layout: Layout) -> str | None:
    """Say why a column names or numbers the samples; None where it does not."""
    column = columns[name]
    if name in layout.only or name in layout.ids_apart_from:
        return None
    if len(column) < 2 or column.null_count:
        return None
    if kind_in_words(column) == "text":
        different = _all_different(column) and not holds_numbers(column)
        return "different text in every row" if different else None
    if not is_number(column):
        return None
    unnamed = name == names[0] and (name == "" or name.lower().startswith("unnamed:"))
    whole_numbers = str(column.type).startswith(("int", "uint"))
    if not (whole_numbers or unnamed):
        return None
    values = column.to_numpy()
    if not whole_numbers:  # an index: times, depths, wavelengths
        steps = np.diff(values)
        return "numbers in order" if (steps > 0).all() or (steps < 0).all() else None
    running = values[0] in (0, 1) and bool((np.diff(values) == 1).all())
    if running and (len(values) >= LEAST_RUNNING or unnamed):
        return "running numbers"
    called = unnamed or _ID_NAME.fullmatch(name) or _CAMEL_ID.fullmatch(name)
    if called and _all_different(column):
        return "different numbers in every row"
    return None


def _all_different(column: pa.ChunkedArray) -> bool:
    return len(column.unique()) == len(column)


def _ids_told(found: dict[str, str]) -> list[str]:
    if not found:
        return []
    shown_names = ", ".join(
        f"{shown(name) if name else 'the one without a name'} ({why})"
        for name, why in list(found.items())[:5]
    )
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return [
        note(
            f"{counted(len(found), 'column')} taken as IDs, kept out and carried along: "
            f"{shown_names}{more}; ",
            "find_ids=False makes features of those that are numbers",
            "--no-ids makes features of those that are numbers",
        )
    ]


def kind_in_words(column: pa.ChunkedArray) -> str:
    """Return what a column that is not numbers holds."""
    kind = str(column.type)
    if kind.startswith(("date", "time", "duration")):
        return "dates"
    if kind.startswith(("string", "large_string", "dictionary<values=string")):
        return "text"
    if kind.startswith("dictionary<values=large_string"):
        return "text"
    return kind.partition("<")[0].partition("[")[0]


def holds_numbers(column: pa.ChunkedArray) -> bool:
    """Whether most cells of a column of text are numbers, and some are not."""
    import pyarrow as pa
    from pyarrow import compute

    # A text may be stored once for millions of rows, which written out would be gigabytes.
    different = compute.value_counts(column.drop_null())
    texts, counts = different.field("values").cast(pa.string()), different.field("counts")
    fits = [compute.match_substring_regex(texts, pattern=numeral(mark)) for mark in ".,"]
    numbers = compute.sum(counts.filter(compute.or_(*fits))).as_py() or 0
    total = compute.sum(counts).as_py() or 0
    return total // 2 < numbers < total


def _is_numeral(cell: str) -> bool:
    return is_numeral(cell, ".") or is_numeral(cell, ",")


def is_category(column: pa.ChunkedArray) -> bool:
    """Whether a column of text has few values, most of them repeated."""
    if kind_in_words(column) != "text":
        return False
    count = len(column.drop_null().unique())
    return 1 < count <= MOST_CATEGORIES and 2 * count <= len(column)


def _leave_out(path: Path, others: dict[str, Any], layout: Layout, roles: Roles) -> None:
    """Sort what is not numbers: categories, what stays behind, and what has to be mended."""
    if layout.categories == "onehot":
        roles.categories = [name for name, column in others.items() if is_category(column)]
    left = {name: column for name, column in others.items() if name not in set(roles.categories)}
    if not layout.drop_text:
        for name, column in left.items():
            if error := _mixed(path, name, column):
                raise error
    if not left:
        return
    parts = [f"{shown(name)} ({kind_in_words(column)})" for name, column in left.items()]
    more = f" and {len(parts) - 5} more" if len(parts) > 5 else ""
    roles.notes.append(
        f"left out {counted(len(parts), 'column')} that {'is' if len(parts) == 1 else 'are'} "
        f"not numbers: {', '.join(parts[:5])}{more}"
    )
    if layout.categories is None and (few := [n for n, c in left.items() if is_category(c)]):
        roles.notes[-1] = note(
            roles.notes[-1],
            f"; label={few[0]!r} keeps one aside, categories='onehot' makes columns of 0 and 1",
            f"; --label {shown(few[0])} keeps one aside, --categories onehot makes columns of 0 "
            "and 1",
        )
    ordered = next((name for name, column in left.items() if _in_order_of_time(column)), None)
    if ordered is not None:
        roles.notes.append(
            f"the rows are in order of time ({shown(ordered)}): where neighbouring rows are alike, "
            "what is said of new samples holds for times between these, not for later ones"
        )


def no_features(path: Path, columns: Columns, layout: Layout) -> TableError:
    """Refuse a table without numbers; say of which text columns of 0 and 1 could be made."""
    aside = {*layout.ids, *layout.labels}
    few = [name for name in columns if name not in aside and is_category(columns[name])]
    if not few or layout.categories is not None:
        return table_error(path, "has no numeric columns.")
    made = f" makes columns of 0 and 1 of {listed(few)}."
    return table_error(
        path,
        "has no numeric columns; ",
        f"categories='onehot'{made}",
        f"--categories onehot{made}",
    )


def _in_order_of_time(column: pa.ChunkedArray) -> bool:
    """Whether a column of dates never goes back, as that of a series of measurements."""
    if kind_in_words(column) != "dates" or len(column) < LEAST_RUNNING or column.null_count:
        return False
    from pyarrow import compute

    if compute.all(compute.equal(column, column[0])).as_py():
        return False
    earlier, later = column.slice(0, len(column) - 1), column.slice(1)
    return bool(compute.all(compute.less_equal(earlier, later)).as_py())


def _mixed(path: Path, name: str, column: pa.ChunkedArray) -> TableError | None:
    """Refuse a column of numbers with text in some cells, and show the first such cell."""
    if kind_in_words(column) != "text":
        return None
    if not holds_numbers(column):
        return None
    cells = ((row, value.as_py()) for row, value in enumerate(column, start=1))
    row, cell = next((r, c) for r, c in cells if c is not None and not _is_numeral(c))
    return table_error(
        path,
        f"has {cell[:60]!r} in data row {row} of column {shown(name)}, which otherwise holds "
        "numbers; mend the cell, or leave the column out with ",
        f"drop={name[:60]!r} (drop_text=True leaves out all such columns).",
        f"--drop {shown(name)} (--drop-text leaves out all such columns).",
    )
