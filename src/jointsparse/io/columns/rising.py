"""Columns of numbers that rise from row to row, as a clock does, and would count as features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jointsparse.io.errors import listed, shown
from jointsparse.io.notes import note

if TYPE_CHECKING:
    import pyarrow as pa

LEAST_ROWS = 12  # of numbers in no order, one column in twelve factorial would rise by chance
MOST_COLUMNS = 2000  # tables with more have features, and are not looked at one by one


def rising_told(columns: Mapping[str, pa.ChunkedArray], features: Sequence[str]) -> list[str]:
    """Return a note where features are larger in every row than in the one before.

    Parameters
    ----------
    columns : mapping
        Columns by their names.
    features : sequence of str
        Those of numbers that are features.
    """
    if len(features) > MOST_COLUMNS:
        return []
    found = [name for name in features if _rises(columns[name])]
    if not found or len(found) == len(features):
        return []
    first, one = found[0], len(found) == 1
    verb, counts = ("rises", "it counts") if one else ("rise", "they count")
    aside, out = ("it along", "it out") if one else ("one along", "one out")
    kind = "a feature" if one else "features"
    return [
        note(
            f"{listed(found)} {verb} from row to row, as times and running numbers do; {counts} as "
            f"{kind}; ",
            f"ids={first[:60]!r} carries {aside}, drop={first[:60]!r} leaves {out}",
            f"--id {shown(first)} carries {aside}, --drop {shown(first)} leaves {out}",
        )
    ]


def _rises(column: pa.ChunkedArray) -> bool:
    if len(column) < LEAST_ROWS or column.null_count:
        return False
    first = column.slice(0, LEAST_ROWS).to_numpy()
    if first.dtype.kind not in "iuf" or not (first[1:] > first[:-1]).all():
        return False  # so most columns are told from their first rows
    values = column.to_numpy()
    return bool(np.all(values[1:] > values[:-1]))
