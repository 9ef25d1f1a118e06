"""Matrices of correlations, covariances or distances, whose rows are features and no samples."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jointsparse.io import Table

FEWEST = 3  # rows: two numbers may be equal by chance
ALIKE = 1e-6  # of the largest entry: what programs round differently in both halves


def symmetric_told(table: "Table") -> list[str]:
    """Return a note where a table stays the same when its rows and columns change places.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.cli.intake.symmetric import symmetric_told
    >>> from jointsparse.io import Table
    >>> correlations = np.array([[1.0, 0.3, 0.2], [0.3, 1.0, 0.5], [0.2, 0.5, 1.0]])
    >>> symmetric_told(Table(correlations, ["a", "b", "c"]))[0][:52]
    'the table is symmetric, as a matrix of correlations '
    >>> symmetric_told(Table(correlations + np.eye(3, k=1), ["a", "b", "c"]))
    []
    """
    import numpy as np

    values = table.values
    n_samples, n_features = values.shape
    if not isinstance(values, np.ndarray) or n_samples != n_features or n_samples < FEWEST:
        return []
    most, least = float(values.max()), float(values.min())
    largest = max(most, -least)
    if not 0 < largest < np.inf or most == least:  # NaN is neither
        return []
    for part in (slice(1), slice(None)):  # most tables are told from one row
        if not (np.abs(values[part] - values[:, part].T) <= ALIKE * largest).all():
            return []
    ones = bool((np.abs(np.diagonal(values) - 1) <= ALIKE).all()) and largest <= 1 + ALIKE
    kind = "correlations" if ones else "covariances or distances"
    return [
        f"the table is symmetric, as a matrix of {kind} is; if it is one, its rows are no samples, "
        "and what is said here of samples means nothing. In Python, Moments.from_scatter takes "
        "matrices of correlations or covariances, with the number of samples"
    ]
