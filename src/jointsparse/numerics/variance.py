"""Whether samples vary at all, and whether double precision can hold their squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointsparse.arrays import FloatArray

# Total variance beyond which sums of squares lose digits, or overflow, in double precision.
SMALLEST_VARIANCE, LARGEST_VARIANCE = 1e-300, 1e300
SOME = 64  # samples looked at before all are


def mean_seems_small(data: Any, mean: FloatArray) -> bool:
    """Whether the mean can be taken off after squares were summed, as far as a few samples say.

    It can where it is smaller than the spread: no digit cancels then, and no centred copy of
    the samples is made. Only for samples that are in memory in double precision.
    """
    if type(data) is not np.ndarray or data.dtype != np.float64:
        return False
    some = data[:SOME]
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->j", some, some)
        return bool(np.all(1.5 * len(some) * mean**2 <= squares))


def mean_is_small(mean: FloatArray, squares: FloatArray, n_samples: int) -> bool:
    """Whether it is, knowing Σ_i x_ij²."""
    with np.errstate(over="ignore"):
        small = 2 * n_samples * mean**2 <= squares
    return bool(np.all(small & (squares <= LARGEST_VARIANCE)))


def check_variance(moments: Any) -> None:
    """Refuse samples that do not vary, or whose squares double precision cannot hold.

    Parameters
    ----------
    moments : Moments
        Moments of the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.moments import Moments, check_variance
    >>> check_variance(Moments.from_data(np.array([[1.0], [2.0]]) * 1e-310))
    Traceback (most recent call last):
    ...
    ValueError: the data are too small for double precision, near 1.5e-310, and the squares ...
    """
    # Means beyond these are enough to know: the squares themselves may have become 0 or infinite.
    smallest, largest = np.sqrt([SMALLEST_VARIANCE, LARGEST_VARIANCE])
    means = np.abs(moments.mean)
    total = moments.total_variance
    if not total <= LARGEST_VARIANCE or not np.all(means <= largest):
        raise ValueError(
            f"the data are too large for double precision, near {_size(means, total):.2g}, and the "
            "squares of such numbers are infinite; divide them by a constant"
        )
    tiny = (means > 0) & (means < smallest)
    if total < SMALLEST_VARIANCE and (total > 0 or np.any(tiny)):
        raise ValueError(
            f"the data are too small for double precision, near {_size(means[tiny], total):.2g}, "
            "and the squares of such numbers are 0; multiply them by a constant"
        )
    if total == 0:
        raise ValueError(
            "every feature is constant: there is no variance to explain and nothing to select"
        )


def _size(means: FloatArray, total: float) -> float:
    """Return how large the samples are, to say so."""
    return max(float(np.max(means, initial=0.0)), float(np.sqrt(total)))
