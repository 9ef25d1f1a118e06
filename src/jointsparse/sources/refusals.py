"""What is wrong with the samples of a source, told in one sentence."""

from __future__ import annotations

import numpy as np

from jointsparse.io.budget import enough, size_in_words
from jointsparse.io.errors import shown, table_error
from jointsparse.sources.base import Source
from jointsparse.sources.finite import FILL
from jointsparse.sources.sums import NotFiniteError


def check_reading(source: Source) -> None:
    """Refuse, before anything is read, what cannot be read within the memory at all."""
    inner = source
    while isinstance(getattr(inner, "source", None), Source):
        inner = inner.source  # type: ignore[attr-defined]
    check_at_once(source.name, inner.read_at_once, source.reading_bytes, source.budget)


def check_at_once(name: str, what: str, needed: int, budget: int) -> None:
    """Refuse what has to be read as a whole and takes more than the memory.

    Parameters
    ----------
    name, what : str
        What messages call the samples, and what is read as a whole.
    needed, budget : int
        Bytes that it takes, and that may be taken.
    """
    if needed > budget:
        raise table_error(
            name,
            f"cannot be read within {size_in_words(budget)}: its {what}, of which "
            f"each is read as a whole, take {size_in_words(needed)}; allow more with ",
            f'memory="{enough(2 * needed)}".',
            f"--memory {enough(2 * needed)}.",
        )


def check_memory(source: Source) -> None:
    """Refuse, before anything is read, a scatter matrix that does not fit in the memory."""
    check_reading(source)
    needed = bytes_for_moments(source.n_features)
    if needed > source.budget:
        raise table_error(
            source.name,
            f"has {source.n_features} columns, whose scatter matrices need "
            f"{size_in_words(needed)}, more than the {size_in_words(source.budget)} that may be "
            "used: read fewer columns, or allow more memory.",
        )


def bytes_for_moments(n_features: int) -> int:
    """Return the size of the scatter matrices of all samples and of two halves of them."""
    return 3 * 8 * n_features**2


def not_finite(source: Source, error: NotFiniteError) -> ValueError:
    """Say in which column and row of a source a value is missing or infinite."""
    where = f"column {shown(source.column_name(error.column))}, data row {error.row + 1}"
    if np.isnan(error.value):
        return table_error(
            source.name,
            f"has a missing value in {where}; ",
            f"{FILL}.",
            "fill it, for example by --missing mean.",
        )
    return table_error(source.name, f"holds the infinite value {error.value} in {where}.")
