"""What a whole group of features scores in the greedy rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jointsparse.arrays import Array


def group_score(
    block: Array,
    features: Sequence[int],
    kernel: Any,
    *,
    floor: Array,
    below: Array | None,
    weights: Array | None,
    prices: Array | None,
) -> float:
    """Return the mean score of some features, each after those before it.

    Parameters
    ----------
    block : array of shape (m, k)
        What the picks leave of their columns.
    features : sequence of int
        Which ones they are.
    kernel : array, matrix-like or None
        The target as the greedy rule follows it: the score is a gain. None: the score is what is
        left of the feature.
    floor : array of shape (n_features,)
        Squares below which a feature is determined, and adds nothing.
    below : array of shape (n_features,) or None
        For gains, noise that is added to the squares left; else the squares of all.
    weights : array of shape (n_features,) or None
        What each score is multiplied by.
    prices : array of shape (n_features,) or None
        Prices, by whose sum the scores are divided in place of the number of features.
    """
    total = 0.0
    for place, feature in enumerate(features):
        column = block[:, place]
        left = float(column @ column)
        if left <= float(floor[feature]):
            continue
        added = 0.0 if below is None else float(below[feature])
        score = left / added if kernel is None else 0.0
        if kernel is not None:
            image = kernel @ column[:, None]
            score = max(float(column @ image[:, 0]), 0.0) / (left + added)
        total += score * (1.0 if weights is None else float(weights[feature]))
        unit = column / left**0.5
        block = block - unit[:, None] * (unit @ block)[None, :]
    if prices is None:
        return total / len(features)
    return total / sum(float(prices[feature]) for feature in features)
