"""How long methods are going to take, told from fits to a few of the samples."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from jointsparse.methods import registry
from jointsparse.model_selection.grid import as_moments, fit_to
from jointsparse.moments import Moments

# Samples of the fits from which the others are told: enough that what a fit costs by itself does
# not hide how it grows, and few enough that telling takes no longer than doing.
FEW, MORE, MORE_OF_PAIRS = 2000, 8000, 4000


def estimated_seconds(
    estimators: Mapping[str, Any],
    X: Any,
    *,
    n_subsamples: int = 10,
    random_state: int = 0,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, float]:
    r"""Estimate how long each method takes in :func:`compare_methods`, before it starts.

    Methods that look at sums over the samples take :math:`c_0 + c_1n` for n of them, told from
    fits to 2000 and to 8000; those that look for the neighbours of each sample
    :math:`c_0 + c_2n^2`, told from fits to 2000 and to 4000. There is one fit to all samples, and
    one to each half.

    Parameters
    ----------
    estimators : dict
        Unfitted estimators by name.
    X : array-like, data frame, sparse matrix or Moments with samples
        Samples.
    n_subsamples : int, default=10
        Halves of the samples, each of which is fitted too.
    random_state : int, default=0
        Seed of the samples that are taken.
    on_progress : callable or None, default=None
        Called with the name of a method, the number of methods done and that of all.

    Returns
    -------
    dict of str to float
        Seconds by name; NaN for a method that refuses these samples. Empty where there are too few
        samples to tell from a part of them, so that trying takes no longer.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import GreedySelector
    >>> from jointsparse.model_selection.timing import estimated_seconds
    >>> X = np.random.default_rng(0).standard_normal((16000, 4))
    >>> estimated_seconds({"greedy": GreedySelector(n_features_to_select=2)}, X)["greedy"] < 60
    True
    >>> estimated_seconds({"greedy": GreedySelector()}, X[:100])
    {}
    """
    moments = as_moments(next(iter(estimators.values())), X)
    n = moments.n_samples
    if n < 2 * MORE or not moments.has_samples:
        return {}
    rows = np.random.default_rng(random_state).permutation(n)[:MORE]
    found = {}
    for number, (name, estimator) in enumerate(estimators.items()):
        if on_progress is not None:
            on_progress(name, number, len(estimators))
        found[name] = _seconds(estimator, moments, rows, n_subsamples)
    return found


def _seconds(estimator: Any, moments: Moments, rows: Any, n_subsamples: int) -> float:
    n = moments.n_samples
    method = registry.method_of(getattr(estimator, "estimator", estimator))
    try:
        few = _time_of_fit(estimator, moments.data[np.sort(rows[:FEW])])
        pairs = method is not None and method.uses == "graph"
        most, power = (MORE_OF_PAIRS, 2) if pairs else (MORE, 1)
        more = _time_of_fit(estimator, moments.data[np.sort(rows[:most])])
    except ValueError:
        return math.nan
    each = max(more - few, 0.0) / (most**power - FEW**power)
    sizes = [n] + [n / 2] * n_subsamples
    return sum(few + each * (size**power - FEW**power) for size in sizes)


def _time_of_fit(estimator: Any, samples: Any) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        fit_to(clone(estimator), Moments.from_data(samples, copy=False))
        return time.perf_counter() - started
