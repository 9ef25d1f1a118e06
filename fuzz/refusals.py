"""The refusals that docs/numerics.md promises; whatever else a fit raises is a fault."""

from __future__ import annotations

from typing import Any

import numpy as np

# What is refused: words of the sentences about it, as the tables on that page have them. Samples
# in memory and samples in files have sentences of their own for the same thing.
DOCUMENTED = {
    "not finite": (
        "contains NaN",
        "contains infinity",
        "missing value",
        "infinite value",
        "NaN or infinite",
        "non-finite value",
    ),
    "one sample": ("a minimum of 2 is required", "at least two"),
    "constant": ("every feature is constant", "every column is constant"),
    "small": ("too small for double precision",),
    "large": ("too large for double precision",),
    "lost": ("lost in rounding",),
    "memory": ("does not fit in memory", "may be used"),
}
ABOUT_DATA = tuple(words for sentences in DOCUMENTED.values() for words in sentences)


def kind_of(error: Exception, estimator: Any) -> str | None:
    """Return what a promised refusal is about: a kind, a parameter; None where it is a fault."""
    if not isinstance(error, ValueError) or isinstance(error, np.linalg.LinAlgError):
        return None
    message = str(error)
    for kind, sentences in DOCUMENTED.items():
        if any(words in message for words in sentences):
            return kind
    named = [name for name in estimator.get_params() if f"{name}=" in message]
    return f"{named[0]}=" if named else None


def is_documented(error: Exception, estimator: Any) -> bool:
    """Whether an error is a promised refusal: about the data, or naming a parameter's value."""
    return kind_of(error, estimator) is not None
