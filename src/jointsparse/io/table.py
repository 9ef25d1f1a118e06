"""A numeric table with names, and what is asked of it before anything is computed."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jointsparse.io.errors import listed, shown, table_error
from jointsparse.text import counted

if TYPE_CHECKING:
    from scipy import sparse


_MOST_NOTES = 20  # about repeated names


@dataclass(frozen=True, eq=False)
class Table:
    """A numeric table with column names and, where known, labels kept aside.

    Parameters
    ----------
    values : ndarray or scipy.sparse.csr_array of shape (n_samples, n_columns)
        Finite numbers.
    names : list of str
        One name per column, as in the file.
    labels, label_name : ndarray of shape (n_samples,) and str, optional
        Numbers, or text in which a missing label is the empty string; where they came from.
    notes : list of str
        Sentences about what reading changed.
    ids : dict of str to ndarray of shape (n_samples,)
        Columns that name or number the samples; they are written before all others.
    more_labels : dict of str to ndarray of shape (n_samples,)
        Labels besides the first.
    groups : dict of str to list of str
        Columns of 0 and 1 that were made of one column of categories, by its name.
    """

    values: np.ndarray | sparse.csr_array
    names: list[str]
    labels: np.ndarray | None = None
    label_name: str | None = None
    notes: list[str] = field(default_factory=list)
    ids: dict[str, np.ndarray] = field(default_factory=dict)
    more_labels: dict[str, np.ndarray] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)

    @property
    def id_names(self) -> tuple[str, ...]:
        """Columns that name or number the samples."""
        return tuple(self.ids)

    @property
    def all_labels(self) -> dict[str, np.ndarray]:
        """All labels, by their names."""
        first = {} if self.labels is None else {self.label_name or "label": self.labels}
        return first | self.more_labels

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of columns."""
        rows, columns = self.values.shape
        return int(rows), int(columns)

    def select(self, columns: Sequence[int] | np.ndarray) -> Table:
        """Keep the columns of these integer indices, in the given order, with the labels."""
        # A mask would name other columns than it selects; old versions of NumPy let it pass.
        if np.asarray(columns).dtype == np.bool_:
            raise TypeError("columns is a mask; integer indices are needed: np.flatnonzero(mask)")
        indices = np.array([operator.index(j) for j in columns], dtype=np.intp)
        names = [self.names[j] for j in indices]
        return self.with_values(self.values[:, indices], names)

    def with_values(self, values: np.ndarray | sparse.csr_array, names: list[str]) -> Table:
        """Return other columns of the same samples, with the IDs and labels of these."""
        kept = set(names)
        groups = {
            name: found for name, made in self.groups.items() if (found := _within(made, kept))
        }
        return replace(self, values=values, names=names, notes=list(self.notes), groups=groups)


def _within(names: list[str], kept: set[str]) -> list[str]:
    return [name for name in names if name in kept]


def distinct(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names with repeated ones numbered (a, a.2, a.3), and notes that say so."""
    distinct, notes, given = dict[str, None](), list[str](), set(names)
    last: dict[str, int] = {}  # where counting goes on: a name may be repeated a million times
    for name in names:
        fresh = name
        while fresh in distinct or (fresh != name and fresh in given):
            last[name] = last.get(name, 1) + 1
            fresh = f"{name}.{last[name]}"
        if fresh != name:
            notes.append(f"renamed a repeated column {shown(name)} to {shown(fresh)}")
        distinct[fresh] = None
    if (more := len(notes) - _MOST_NOTES) > 0:
        notes[_MOST_NOTES:] = [f"renamed {more} more repeated columns in the same way"]
    return list(distinct), notes


def check_shape(path: Path, rows: int, columns: int, least_rows: int = 1) -> None:
    """Refuse a table with fewer samples than these or without a column."""
    if rows < least_rows:
        count = "one row" if rows else "no rows"
        raise table_error(path, f"has {count} of data; at least two samples are needed.")
    if columns == 0:
        raise table_error(path, "has no numeric columns.")


def complete(path: Path, table: Table, impute: str | None) -> None:
    """Refuse infinities, and refuse or fill (in place) the missing values of a dense table."""
    values, names = table.values, table.names
    dense = isinstance(values, np.ndarray)
    with np.errstate(over="ignore", invalid="ignore"):
        # A finite sum has finite terms: the common case needs no mask.
        if values.dtype.kind != "f" or np.isfinite(values.sum() if dense else values.data).all():
            return
        # Times zero, a sparse matrix keeps what is not finite and nothing else.
        rows, columns = np.nonzero(np.isinf(values)) if dense else (values * 0).nonzero()
    if rows.size:
        value = f"{'infinite' if dense else 'non-finite'} value {values[rows[0], columns[0]]}"
        where = f"column {shown(names[columns[0]])}, data row {rows[0] + 1}"
        raise table_error(
            path,
            f"holds the {value} in {where}; replace it in the file",
            ".",
            ", no option does.",
        )
    if impute == "keep":
        return
    missing = np.isnan(values)
    counts = missing.sum(axis=0)
    if empty := [names[j] for j in np.flatnonzero(counts == len(values))]:
        count = f"{counted(len(empty), 'column')} without a single value ({listed(empty)})"
        raise table_error(
            path,
            f"has {count}, which ",
            f"impute cannot fill; leave them out with drop={empty[:5]!r}.",
            f"--missing cannot fill; leave them out with --drop {shown(empty[0])}.",
        )
    if not (holed := np.flatnonzero(counts)).size:
        return
    where = f"{counted(int(counts.sum()), 'missing value')} in {counted(holed.size, 'column')}"
    if impute is None:
        where += f" ({listed([names[j] for j in holed])})"
        raise table_error(
            path,
            f"has {where}; fill with ",
            "impute='median' (or 'mean'), or keep them with impute='keep' and fit a method with "
            "missing='em' (or 'pairwise').",
            "--missing median (or mean), or estimate without them by --missing em (or pairwise).",
        )
    statistic = np.median if impute == "median" else np.mean
    for j in holed:
        values[missing[:, j], j] = statistic(values[~missing[:, j], j])
    table.notes.append(f"filled {where} with the {impute}")
