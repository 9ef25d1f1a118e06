"""What a method takes from samples that are not at hand: their moments, or all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointsparse.methods.reading.needs import Needs
from jointsparse.methods.reading.passes import moments_with_passes
from jointsparse.methods.reading.plan import (
    SMALL,
    Reading,
    bytes_of_samples,
    plan,
    room_for_columns,
    too_many_samples,
)
from jointsparse.moments import Moments, not_finite
from jointsparse.operators.blocks import RemoteSamples
from jointsparse.sources import Source
from jointsparse.sources.sums import NotFiniteError, check_finite, rounding


def moments_to_fit(source: Source, estimator: Any) -> Moments:
    """Return the moments of a source as a method needs them.

    How they are read is decided by :func:`jointsparse.methods.reading.plan.plan`.

    Parameters
    ----------
    source : Source
        Samples.
    estimator : MomentsEstimator
        Says whether it needs them.
    """
    if source.array is not None:
        return Moments.from_data(source.array, copy=False)
    name = type(getattr(estimator, "estimator", estimator)).__name__
    moments = read_moments(source, Needs.of(estimator), name)
    return moments if source.origin is None else moments.made_of(source.origin)


def read_moments(source: Source, needs: Needs, method: str = "this") -> Moments:
    """Return the moments of a source for what is needed of it.

    Parameters
    ----------
    source : Source
        Samples that are not in memory.
    needs : Needs
        What is needed of them.
    method : str
        What messages call who needs it.
    """
    reading = plan(source, needs, method)
    if reading is Reading.MOMENTS:
        moments = Moments.from_source(source)
        # Text does not say how many rows it has: known now, and wide samples that fit are read.
        wide = moments.n_samples < source.n_features
        size = bytes_of_samples(source, moments.n_samples)
        again = size <= source.budget and (wide or (needs.judged and size <= SMALL))
        return samples_at_hand(source) if again and not source.remote else moments
    if reading is Reading.PASSES:
        return moments_with_passes(source)
    if reading is Reading.WHOLE:
        return samples_at_hand(source)
    samples = source.operator(None if source.remote else room_for_columns(source))
    if samples is None:  # a collection whose columns cannot be reached
        assert source.n_samples is not None
        raise too_many_samples(source, source.n_samples, method)
    return moments_of_products(source, samples)


def samples_at_hand(source: Source) -> Moments:
    """Read all samples into memory."""
    values = source.read()
    if isinstance(values, np.ndarray):
        try:
            check_finite(values.sum(axis=0, dtype=np.float64), values, 0)
        except NotFiniteError as error:
            raise not_finite(source, error) from error
    moments = Moments.from_data(values, copy=False)
    moments.feature_names = source.feature_names
    return moments


def moments_of_products(source: Source, samples: RemoteSamples) -> Moments:
    """Return moments whose samples stay where they are and are reached through products."""
    n_samples, mean, squares = samples.shape[0], samples.mean, samples.squared_lengths()
    wrong = np.flatnonzero(~np.isfinite(squares))
    if wrong.size:
        column = source.columns(wrong[:1]).read()
        try:
            check_finite(squares[wrong], column, 0)
        except NotFiniteError as error:
            where = NotFiniteError(error.row, int(wrong[0]), error.value)
            raise not_finite(source, where) from error
    moments = Moments(n_samples, mean, None, source.feature_names, data=samples)
    constant = squares <= rounding(mean, n_samples)
    moments.__dict__["variances"] = np.where(constant, 0.0, squares)
    return moments


def check_features(estimator: Any, source: Source) -> None:
    """Refuse a source with other features than those of fit."""
    if source.n_features != estimator.n_features_in_:
        raise ValueError(
            f"{source.name} has {source.n_features} features, but {type(estimator).__name__} was "
            f"fitted to {estimator.n_features_in_}"
        )
    seen = getattr(estimator, "feature_names_in_", None)
    if seen is None or source.feature_names is None:
        return
    for one, other in zip(source.feature_names, seen, strict=True):
        if one != other:
            raise ValueError(
                f"{source.name} has a column {one!r} where {type(estimator).__name__} was fitted "
                f"to {other!r}"
            )
