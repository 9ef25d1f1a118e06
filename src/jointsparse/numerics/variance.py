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
    means = np.abs(moments.mean)
    total = moments.total_variance
    if not total <= LARGEST_VARIANCE or not means.max() <= LARGEST_VARIANCE**0.5:
        raise too_large(_size(means, total))
    if total < SMALLEST_VARIANCE:
        tiny = (means > 0) & (means < SMALLEST_VARIANCE**0.5)
        if total > 0 or np.any(tiny):
            raise too_small(_size(means[tiny], total))
    if total == 0:
        raise ValueError(
            "every feature is constant: there is no variance to explain and nothing to select"
        )


def standard_deviations(variances: FloatArray, n_samples: int) -> FloatArray:
    """Return √(variance / n); refuse variances that are infinite.

    A column divided by an infinite deviation would be constant, and left out without a word.

    Parameters
    ----------
    variances : ndarray of shape (n_features,)
        Sums of squared deviations from the mean.
    n_samples : int
        How many samples were summed over.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.numerics.variance import standard_deviations
    >>> standard_deviations(np.array([0.0, 400.0]), 4).tolist()
    [0.0, 10.0]
    """
    if not np.all(np.isfinite(variances)):
        raise too_large()
    return np.asarray(np.sqrt(variances / n_samples))


def check_squares(means: FloatArray, deviations: FloatArray) -> None:
    """Refuse columns that seem to be constant only because their squares are 0.

    Parameters
    ----------
    means, deviations : ndarray of shape (n_features,)
        Of the columns.
    """
    sizes = np.abs(means)
    tiny = (sizes > 0) & (sizes < SMALLEST_VARIANCE**0.5)
    if not np.any(deviations > 0) and np.any(tiny):
        raise too_small(_size(sizes[tiny], 0.0))


def too_large(size: float = np.inf) -> ValueError:
    """Return the error about squares that are infinite."""
    near = f", near {size:.2g}" if np.isfinite(size) else ""
    return ValueError(
        f"the data are too large for double precision{near}, and the squares of such numbers are "
        "infinite; divide them by a constant"
    )


def too_small(size: float) -> ValueError:
    """Return the error about squares that are 0."""
    return ValueError(
        f"the data are too small for double precision, near {size:.2g}, and the squares of such "
        "numbers are 0; multiply them by a constant"
    )


def _size(means: FloatArray, total: float) -> float:
    """Return how large the samples are, to say so; squares that became infinite do not tell."""
    return max(float(np.max(means, initial=0.0)), float(np.sqrt(total)) if total < np.inf else 0.0)
