"""Columns of categories as columns of 0 and 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def indicators(name: str, column: pa.ChunkedArray) -> dict[str, np.ndarray]:
    """Return a column of 0 and 1 for each value of a column of text, in the order of the values.

    A cell without a value is 0 in all of them. They are called ``name=value``.
    """
    import pyarrow as pa

    cells = np.array(column.cast(pa.string()).to_pylist(), dtype=object)
    values = sorted({cell for cell in cells if cell is not None})
    return {f"{name}={value}": (cells == value).astype(np.uint8) for value in values}
