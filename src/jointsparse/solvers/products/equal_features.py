"""Features that are equal but for the sign, found through products with the scatter matrix."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.solvers.products.gram import Gram


class EqualFeatures(NamedTuple):
    """Features that are equal but for the sign: ``signs * columns`` are all the same."""

    features: IntArray
    signs: FloatArray


@lru_cache(maxsize=1)
def _probes(size: int) -> FloatArray:
    """Return two random combinations, the same at every fit: making them takes longer than one."""
    return np.random.default_rng(0).standard_normal((size, 2))


def equal_features(gram: Gram) -> list[EqualFeatures]:
    """Return the groups of features that are equal to rounding, or opposite; no constant ones.

    They are found by two random combinations of the columns of S: equal features agree in both,
    opposite ones (a column of yes and no, and its complement) in both but for the same sign.
    """
    images = gram.apply(_probes(gram.diagonal.size))
    signs = np.where(images[:, 0] < 0, -1.0, 1.0)
    images = signs[:, None] * images
    order = np.argsort(images[:, 0], kind="stable")
    close = np.abs(np.diff(images[order], axis=0)) <= 1e-10 * np.max(np.abs(images), axis=0)
    joined = np.all(close, axis=1) & (gram.diagonal[order[1:]] > 0)
    pairs = np.flatnonzero(joined)  # of neighbours in this order
    if pairs.size == 0:
        return []
    runs = np.split(pairs, np.flatnonzero(np.diff(pairs) > 1) + 1)
    groups = [order[run[0] : run[-1] + 2] for run in runs]
    return [EqualFeatures(group, signs[group]) for group in groups]
