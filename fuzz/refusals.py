"""The refusals that docs/numerics.md promises; whatever else a fit raises is a fault."""

from __future__ import annotations

from typing import Any

import numpy as np

# Words of the sentences about data, as the table on that page has them.
ABOUT_DATA = (
    "contains NaN",
    "contains infinity",
    "a minimum of 2 is required",
    "every feature is constant",
    "too small for double precision",
    "too large for double precision",
    "lost in rounding",
)


def is_documented(error: Exception, estimator: Any) -> bool:
    """Whether an error is a promised refusal: about the data, or naming a parameter's value."""
    if not isinstance(error, ValueError) or isinstance(error, np.linalg.LinAlgError):
        return False
    message = str(error)
    if any(words in message for words in ABOUT_DATA):
        return True
    return any(f"{name}=" in message for name in estimator.get_params())
