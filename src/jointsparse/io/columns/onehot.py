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

    packed = pa.types.is_dictionary(column.type)
    column = (column if packed else column.dictionary_encode()).unify_dictionaries()
    codes = np.concatenate([chunk.indices.fill_null(-1).to_numpy() for chunk in column.chunks])
    texts = np.array(column.chunk(0).dictionary.cast(pa.string()).to_pylist(), dtype=object)
    found = {value: np.isin(codes, np.flatnonzero(texts == value)) for value in set(texts)}
    return {
        f"{name}={value}": found[value].astype(np.uint8)
        for value in sorted(value for value in found if value is not None and found[value].any())
    }
