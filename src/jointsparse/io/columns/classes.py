"""Columns of numbers that seem to be the classes of the samples, and would count as features."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jointsparse.io.errors import listed, shown
from jointsparse.io.notes import note

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CLASSES = 20
LEAST_IN_CLASS = 3  # samples of each class, on average: fewer are more like counts
# With a word before them these still name what a sample belongs to; others may be measurements.
_CLASS_NAME = re.compile(
    r"(.*[_\W])?(class(es)?|labels?|targets?|diagnos[ie]s|outcome|batch|clusters?|cohort|phenotype"
    r"|subtype)([_\W]?(id|no|nr|num|number|code|label))?"
    r"|((study|sample|patient|treatment|control|experimental)[_\W]?)?(groups?|arm)([_\W]?(id|no|code))?"
    r"|(cover|cell|tumou?r|cancer|disease|sample)[_\W]?type"
    r"|treatment|condition|category|response|species|survived|y",
    re.IGNORECASE,
)


def classes_told(columns: Mapping[str, pa.ChunkedArray], features: Sequence[str]) -> list[str]:
    """Return a note where features seem to be classes, by their names and by their values.

    Parameters
    ----------
    columns : mapping
        Columns by their names.
    features : sequence of str
        Those of numbers that are features.
    """
    found = [name for name in features if _CLASS_NAME.fullmatch(name)]
    if "x" in map(str.lower, features):  # beside which y is a place
        found = [name for name in found if name.lower() != "y"]
    found = [name for name in found if _holds_classes(columns[name])]
    if not found or len(found) == len(features):
        return []
    first, one = found[0], len(found) == 1
    verb, counts = (
        ("looks", "it counts as a feature") if one else ("look", "they count as features")
    )
    aside, out = ("it aside", "it out") if one else ("one aside", "one out")
    return [
        note(
            f"{listed(found)} {verb} like the classes of the samples, by name and values, and so "
            f"{counts} like any other; ",
            f"label={first[:60]!r} keeps {aside}, drop={first[:60]!r} leaves {out}",
            f"--label {shown(first)} keeps {aside}, --drop {shown(first)} leaves {out}",
        )
    ]


def _holds_classes(column: pa.ChunkedArray) -> bool:
    """Whether values are 0, 1, ..., 1, 2, ..., or -1 and 1, each of them several times."""
    from pyarrow import compute

    known = column.drop_null()
    if len(known) < 2 * LEAST_IN_CLASS:
        return False
    # The first values tell most columns of measurements.
    few = known.slice(0, 1000).unique()
    if len(few) > MOST_CLASSES:
        return False
    values = sorted(float(value) for value in compute.unique(known).to_pylist())
    if not 2 <= len(values) <= MOST_CLASSES or LEAST_IN_CLASS * len(values) > len(known):
        return False
    start = values[0]
    return values == [-1, 1] or (
        start in (0, 1) and values == [start + k for k in range(len(values))]
    )
