"""Columns taken aside or left out of a table in memory, and tables turned on their side."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jointsparse.io.columns.layout import Layout
from jointsparse.io.columns.roles import chosen_names, find_column
from jointsparse.io.table import Table, check_shape, distinct

SAMPLE_NAME = "sample"  # of the column with the names of the columns of a transposed table
LEAST_FEATURES = 1000  # rows from which a tall table may have its features in rows
MOST_COMPARED = 20  # columns that are compared with each other
ALIKE = 0.6  # correlation of samples of the same features, whose levels differ
_FEATURE_NAME = re.compile(
    r"(.*[_\W])?(genes?|probes?|features?|symbol|ensembl|proteins?|peptides?|otus?|asvs?|taxon|taxa|"
    r"markers?|variables?|wavelengths?|transcripts?|snps?|cpgs?|metabolites?|compounds?)"
    r"([_\W]?(id|ids|name|names|symbol))?",
    re.IGNORECASE,
)


def take_aside(path: Path, table: Table, layout: Layout) -> Table:
    """Return a table without the columns that are no features, which go along or stay behind.

    Parameters
    ----------
    path : Path
        The file, for messages.
    table : Table
        A table in memory, some of whose columns of numbers are labels, IDs or not wanted.
    layout : Layout
        What the caller says.
    """
    names, ids, labels = table.names, dict(table.ids), dict(table.all_labels)
    aside = set[str]()
    for wanted, kept, parameter, option in (
        (layout.ids, ids, "ids", "--id"),
        (layout.labels, labels, "label", "--label"),
    ):
        for name in wanted:
            if name not in kept:
                at = find_column(path, name, names, parameter, option)
                kept[name] = column_of(table.values, at)
                aside.add(name)
    free = [name for name in names if name not in aside]
    if layout.only:
        only = set(chosen_names(path, layout.only, names, "only"))
        free = [name for name in free if name in only]
    if layout.drop:
        drop = set(chosen_names(path, layout.drop, names, "drop"))
        free = [name for name in free if name not in drop]
    first = layout.label or table.label_name
    chosen = labels.pop(first, None) if first is not None else None
    values: Any = table.values
    if len(free) < len(names):
        kept_names = set(free)
        values = values[:, [j for j, name in enumerate(names) if name in kept_names]]
    check_shape(path, *values.shape)
    found = table.with_values(values, free)
    return replace(found, labels=chosen, label_name=first, ids=ids, more_labels=labels)


def column_of(values: Any, at: int) -> np.ndarray:
    """Return one column as an array."""
    column = values[:, [at]]
    return np.ravel(column if isinstance(column, np.ndarray) else column.toarray())


def transposed(table: Table, *, named: bool) -> Table:
    """Return a table whose rows were the features.

    Their names are the first column of IDs; without one they are made up.

    Parameters
    ----------
    table : Table
        A table in memory.
    named : bool
        Whether its columns have names of their own, which become those of the samples.
    """
    rows = table.values.shape[0]
    names = [f"x{j:0{len(str(rows))}d}" for j in range(1, rows + 1)]
    renamed: list[str] = []
    if table.ids:
        names, renamed = distinct([str(name) for name in next(iter(table.ids.values()))])
    values: Any = table.values.T
    values = np.ascontiguousarray(values) if isinstance(values, np.ndarray) else values.tocsr()
    ids = {SAMPLE_NAME: np.array(table.names, dtype=str)} if named else {}
    notes = [note for note in table.notes if "taken as IDs" not in note]
    return Table(values, names, None, None, [*notes, *renamed, "transposed"], ids)


def looks_transposed(table: Table) -> str | None:
    """Say why a table seems to have its features in rows; None where it does not.

    Genes often come so: thousands of rows, named in the first column, and a column for each sample.
    Samples of the same features resemble each other, since the levels of the features differ;
    features of the same samples do so seldom.
    """
    rows, columns = table.values.shape
    name = next(iter(table.ids), None)
    if name is None or table.ids[name].dtype.kind != "U" or columns < 2 or table.labels is not None:
        return None
    if rows > columns and _FEATURE_NAME.fullmatch(name):
        return f"its rows are named by {name!r}"
    if rows < LEAST_FEATURES or rows < 10 * columns or not isinstance(table.values, np.ndarray):
        return None
    sample = np.asarray(table.values[:, :MOST_COMPARED], dtype=np.float64)
    sample = np.log1p(np.abs(sample[np.isfinite(sample).all(axis=1)]))
    sample = sample[:, sample.std(axis=0) > 0]
    if min(sample.shape) < 2:
        return None
    correlations = np.atleast_2d(np.corrcoef(sample.T))[np.triu_indices(sample.shape[1], 1)]
    if np.median(correlations) < ALIKE:
        return None
    return f"it has {rows} named rows, and its columns resemble each other as samples do"
