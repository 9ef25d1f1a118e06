"""What a method takes from samples that are not at hand: their moments, or all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointsparse.io.budget import default_budget, size_in_words
from jointsparse.io.errors import table_error
from jointsparse.methods import registry
from jointsparse.methods.passes import moments_with_passes
from jointsparse.moments import Moments, bytes_for_moments, not_finite
from jointsparse.solvers.wide_data import DenseWide
from jointsparse.sources import Source
from jointsparse.sources.sums import NotFiniteError, check_finite, mean_of, rounding


def moments_to_fit(source: Source, estimator: Any) -> Moments:
    """Return the moments of a source as a method needs them.

    Where the scatter matrix is all that the method looks at, the samples are read once and not
    kept. Methods that need a pass over the samples in every iteration get that where the samples
    are on a cluster or do not fit. What else looks at the samples themselves, and data with more
    features than samples, are read into memory, if they fit.

    Parameters
    ----------
    source : Source
        Samples.
    estimator : MomentsEstimator
        Says whether it needs them.
    """
    if source.array is not None:
        return Moments.from_data(source.array)
    needs_samples = estimator._needs_samples()
    scatter_fits = bytes_for_moments(source.n_features) <= source.budget
    known = source.n_samples
    wide = known is not None and known < source.n_features
    if scatter_fits and not needs_samples and not wide:
        return Moments.from_source(source)
    passes = scatter_fits and not wide and getattr(estimator, "_takes_passes", bool)()
    if passes and source.remote:
        return moments_with_passes(source)
    n_samples = mean_of(source)[0] if known is None else known
    # The samples, and a centred copy in float64.
    needed = n_samples * source.n_features * (source.dtype.itemsize + 8)
    if passes and needed > source.budget:
        return moments_with_passes(source)
    if needed <= source.budget:
        return samples_at_hand(source)
    if wide and getattr(estimator, "_takes_products", bool)():
        remote = source.wide(DenseWide)
        if remote is not None:
            return moments_of_products(source, remote)
    size = f"{n_samples} × {source.n_features} samples need {size_in_words(needed)}"
    limit = f"more than the {size_in_words(source.budget)} that may be used"
    if wide:
        raise table_error(
            source.name,
            f"does not fit in memory: its {size}, {limit}, and {type(estimator).__name__} goes "
            "over them many times; allow more memory, read fewer columns, or use a method that "
            f"reads wide tables in blocks of columns: {', '.join(_wide_methods())}.",
        )
    if needs_samples:
        raise table_error(
            source.name,
            f"does not fit in memory: its {size}, {limit}, and {type(estimator).__name__} needs "
            f"them all at once; allow more memory, or use a method that reads them in blocks: "
            f"{', '.join(_streaming_methods())}.",
        )
    return Moments.from_source(source)  # which says what is too large


def samples_at_hand(source: Source) -> Moments:
    """Read all samples into memory."""
    values = source.read()
    if isinstance(values, np.ndarray):
        try:
            check_finite(values.sum(axis=0, dtype=np.float64), values, 0)
        except NotFiniteError as error:
            raise not_finite(source, error) from error
    moments = Moments.from_data(values)
    moments.feature_names = source.feature_names
    return moments


def moments_of_products(source: Source, wide: Any) -> Moments:
    """Return moments whose samples stay where they are and are reached through products."""
    n_samples, mean, squares = wide.shape[0], wide.mean, wide.squared_lengths()
    wrong = np.flatnonzero(~np.isfinite(squares))
    if wrong.size:
        column = source.columns(wrong[:1]).read()
        try:
            check_finite(squares[wrong], column, 0)
        except NotFiniteError as error:
            where = NotFiniteError(error.row, int(wrong[0]), error.value)
            raise not_finite(source, where) from error
    moments = Moments(n_samples, mean, None, source.feature_names, data=wide)
    constant = squares <= rounding(mean, n_samples)
    moments.__dict__["variances"] = np.where(constant, 0.0, squares)
    return moments


def check_dense(estimator: Any, n_samples: int, n_features: int) -> None:
    """Refuse sparse samples of which a method would make dense arrays that do not fit in memory."""
    needed, budget = estimator._dense_bytes(n_samples, n_features), default_budget()
    if needed > budget:
        raise ValueError(
            f"{type(estimator).__name__} works on dense arrays, which for these {n_samples} × "
            f"{n_features} sparse samples need about {size_in_words(needed)} of memory, more than "
            f"the {size_in_words(budget)} that may be used (half of what is free); use fewer "
            "features, or a method that leaves samples sparse: "
            f"{', '.join(_sparse_methods(n_samples, n_features))}"
        )


def _sparse_methods(n_samples: int, n_features: int) -> list[str]:
    from jointsparse.methods.registry import methods  # which imports the methods

    budget = default_budget()
    return [
        name
        for name, method in methods().items()
        if method.make()._dense_bytes(n_samples, n_features) <= budget
    ]


def _wide_methods() -> list[str]:
    from jointsparse.methods.registry import methods  # which imports the methods

    return [name for name, method in methods().items() if method.make()._takes_products()]


def _streaming_methods() -> list[str]:
    return [name for name, method in registry.methods().items() if method.scatter_only]


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
