r"""Ranks in place of values: what a column says of the order of the samples, and nothing else.

With r_i the rank of sample i among the n values of a column that are not missing (equal values
share the mean of their ranks) its normal score is

.. math:: z_i = \Phi^{-1}\Bigl(\frac{r_i - \frac12}{n}\Bigr) .
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri
from scipy.stats import rankdata

from jointsparse.arrays import FloatArray

TOGETHER = 256  # columns whose ranks are taken at a time: what is sorted stays small


def normal_scores(values: Any) -> Any:
    """Return the normal scores of each column; missing values stay missing.

    Of a sparse matrix, less the score of zero: it stays sparse, and only the mean differs.

    Parameters
    ----------
    values : ndarray or sparse matrix of shape (n_samples, n_features)
        Samples in rows.

    Returns
    -------
    ndarray or sparse matrix of shape (n_samples, n_features)
        In double precision.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.ranks import normal_scores
    >>> normal_scores(np.array([[1.0], [1000.0], [5.0]])).ravel().round(2).tolist()
    [-0.97, 0.97, 0.0]
    """
    if sp.issparse(values):
        return _sparse_scores(values)
    scores = np.empty(values.shape)
    for start in range(0, values.shape[1], TOGETHER):
        part = np.asarray(values[:, start : start + TOGETHER], dtype=np.float64)
        ranks = rankdata(part, axis=0, nan_policy="omit")
        present = np.count_nonzero(~np.isnan(part), axis=0)
        scores[:, start : start + TOGETHER] = _score(ranks, np.maximum(present, 1))
    return scores


def _score(ranks: Any, n: Any) -> FloatArray:
    return np.asarray(ndtri((ranks - 0.5) / n))


def _sparse_scores(values: Any) -> Any:
    columns = values.tocsc().astype(np.float64)  # a copy
    columns.sum_duplicates()
    columns.eliminate_zeros()
    n = columns.shape[0]
    for start, stop in zip(columns.indptr[:-1], columns.indptr[1:], strict=True):
        stored = columns.data[start:stop]
        zeros, below = n - stored.size, np.count_nonzero(stored < 0)
        ranks = rankdata(stored) + np.where(stored > 0, zeros, 0)
        zero = _score(below + (zeros + 1) / 2, n) if zeros else 0.0
        columns.data[start:stop] = _score(ranks, n) - zero
    return columns.tocsr()
