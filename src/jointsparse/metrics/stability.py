"""Whether similar data lead to similar selections."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.utils import check_array


def selection_stability(supports: Any, *, confidence: float = 0.95) -> tuple[float, float, float]:
    r"""Stability of a feature selection, with a confidence interval.

    For M selections (for example on M halves of the samples), feature f chosen in a share
    :math:`\hat p_f` of them, and on average :math:`\bar k` of p features kept,

    .. math:: \hat\Phi = 1 - \frac{\frac1p\sum_f \frac{M}{M-1}\hat p_f(1-\hat p_f)}
              {\frac{\bar k}{p}\big(1-\frac{\bar k}{p}\big)} .

    It is 1 when all selections are the same, and 0 on average for selections at random, whatever
    the numbers of features kept.

    Parameters
    ----------
    supports : array-like of bool, shape (n_selections, n_features)
        One selection per row, as ``get_support()`` returns it.
    confidence : float, default=0.95
        Level of the interval.

    Returns
    -------
    stability, lower, upper : float
        The index and its (asymptotic) confidence interval. All are 1 where every selection keeps
        all features or none.

    References
    ----------
    Nogueira, Sechidis, Brown (2018). On the stability of feature selection algorithms. Journal of
    Machine Learning Research 18(174), equation (4) and theorem 7.

    Examples
    --------
    >>> from jointsparse.metrics import selection_stability
    >>> stability, lower, upper = selection_stability([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0]])
    >>> round(stability, 3)
    0.333
    """
    chosen = check_array(supports, dtype=np.float64, ensure_min_samples=2)
    if not np.all((chosen == 0) | (chosen == 1)):
        raise ValueError("supports must hold True and False (or 1 and 0) only")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence!r} is not between 0 and 1")
    count, n_features = chosen.shape
    share, kept = chosen.mean(axis=0), chosen.sum(axis=1)
    mean = float(kept.mean()) / n_features
    chance = mean * (1 - mean)
    if chance == 0:
        return 1.0, 1.0, 1.0
    spread = float(np.mean(share * (1 - share))) * count / (count - 1)
    stability = 1 - spread / chance
    # What each selection contributes, to first order; their variance is that of the index.
    parts = (chosen @ share) / n_features - kept * kept.mean() / n_features**2
    parts += stability / 2 * (2 * mean * kept / n_features - kept / n_features - mean + 1)
    parts /= chance
    error = float(np.sqrt(4 / count**2 * np.sum((parts - parts.mean()) ** 2)))
    reach = float(norm.ppf(0.5 + confidence / 2)) * error
    return stability, stability - reach, stability + reach
