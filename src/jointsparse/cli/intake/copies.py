"""Samples that are copies of each other: they make patterns, and judge what was found in them."""

from hashlib import blake2b
from typing import TYPE_CHECKING

from jointsparse.text import counted

if TYPE_CHECKING:
    from jointsparse.io import Table

MOST_VALUES, MOST_ROWS = 20_000_000, 300_000  # looking at more would take seconds
FEW = 0.05  # of the samples: fewer copies change next to nothing
MEASURED = 0.5  # of the different samples have a value of their own in a column of measurements
COLUMNS = 3  # of these: in fewer, rounded values may be the same by chance


def copies_told(table: "Table") -> list[str]:
    """Return a note where samples repeat others in every feature, of which some are measured.

    Samples of counts, classes or answers to questions may be equal by chance, and are no copies:
    in three columns most of the samples that differ must have a value of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.cli.intake.copies import copies_told
    >>> from jointsparse.io import Table
    >>> values = np.random.default_rng(0).standard_normal((20, 3))
    >>> copies_told(Table(values, ["a", "b", "c"]))
    []
    >>> copies_told(Table(np.tile(values, (2, 1)), ["a", "b", "c"]))[0][:47]
    '20 of 40 rows are the same as an earlier one in'
    """
    import numpy as np

    values = table.values
    if not isinstance(values, np.ndarray) or values.size > MOST_VALUES:
        return []
    n_samples = len(values)
    if n_samples > MOST_ROWS:
        return []
    seen: dict[bytes, int] = {}
    for place, row in enumerate(values):
        seen.setdefault(blake2b((row + 0).tobytes(), digest_size=16).digest(), place)  # -0 is 0
    first = list(seen.values())
    copies = n_samples - len(first)
    if copies < max(2, FEW * n_samples):
        return []
    some = values[first]
    if sum(len(np.unique(column)) > MEASURED * len(first) for column in some.T) < COLUMNS:
        return []
    return [
        f"{copies} of {counted(n_samples, 'row')} are the same as an earlier one in every feature: "
        "copies make patterns, and judge what was found in them, so that new samples seem to be "
        "predicted better than they are; keep one of each, unless they are samples of their own"
    ]
