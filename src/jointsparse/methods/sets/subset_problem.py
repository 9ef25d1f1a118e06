"""From a table to the problem of its best set: what is to be explained, what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.device import is_device_array, like, on_accelerator, to_host
from jointsparse.incomplete import MissingValues
from jointsparse.moments import Moments
from jointsparse.running.workspace import Slot
from jointsparse.selection.choosing import is_number
from jointsparse.selection.noise import pattern_loadings
from jointsparse.solvers.products.gram import centred_in_double
from jointsparse.solvers.subset.constraints import Finder, several
from jointsparse.solvers.subset.problem import (
    SubsetProblem,
    problem_of_columns,
    problem_of_outcomes,
    problem_of_scatter,
)

OUTCOMES: Slot[FloatArray] = Slot("outcomes")  # what is to be explained, centred
ROTATED: Slot[FloatArray | None] = Slot("unit columns by a QR factorisation")
BLOCK = 2**20  # entries of the samples that are centred at a time: 8 MB
MOST_FOR_QR = 3e10  # np² up to which it takes some seconds; beyond, nothing is known of dependence
# Measured 6.0 to 7.2 of 500 to 3000 features. With fewer it is less than 100 MB, or 200 MB where
# the joint bound has been split for a while.
MATRICES_AT_ONCE = 8


def subset_problem(moments: Moments, target: Any, n_components: Any) -> SubsetProblem:
    """Return the problem of some moments.

    Parameters
    ----------
    moments : Moments
        The data; with outcomes in their workspace where those are the target.
    target : {"features", "patterns", "outcomes"} or array of shape (n_components, n_features)
        What is to be explained.
    n_components : int or None
        With "features": the first principal components only.
    """
    problem = _on_host(moments.near_one, target, n_components)
    problem = replace(problem, accuracy=problem.accuracy + _preparation(moments))
    if not on_accelerator(moments.data):
        return problem
    return replace(problem, home=like(np.zeros(0), moments.data))


def _on_host(moments: Moments, target: Any, n_components: Any) -> SubsetProblem:
    wide = moments.is_wide
    samples = centred_in_double(moments) if wide else np.zeros((0, 0))
    if isinstance(target, str) and target == "outcomes":
        outcomes = moments.workspace.found(OUTCOMES)
        if outcomes is None:
            raise ValueError("target='outcomes' needs the outcomes: use fit(X, y)")
        if wide:
            return problem_of_columns(samples, outcomes)
        cross = np.zeros((moments.n_features, outcomes.shape[1]))
        for start, rows in _centred_blocks(moments):  # an offset costs digits of the sums
            cross += rows.T @ outcomes[start : start + len(rows)]
        squares = outcomes.T @ outcomes
        n_samples = moments.n_samples
        return problem_of_outcomes(moments.scatter, cross, squares, n_samples, rotated(moments))
    factor = _factor(moments, target, n_components)
    if wide:
        return problem_of_columns(samples, None if factor is None else samples @ factor)
    return problem_of_scatter(moments.scatter, factor, moments.n_samples, rotated(moments))


def rotated(moments: Moments) -> Callable[[], FloatArray | None] | None:
    """Return what gives the unit columns of samples in p coordinates; None where none are at hand.

    That is the triangle of a QR factorisation, made when it is first asked for.
    """
    return partial(_rotated, moments) if moments.has_samples and not moments.elsewhere else None


def _rotated(moments: Moments) -> FloatArray | None:
    def make() -> FloatArray | None:
        if moments.n_samples * moments.n_features**2 > MOST_FOR_QR:
            return None
        # Beside a column of ones, so that what the rounded mean leaves is no part of the others.
        triangle = np.zeros((0, moments.n_features + 1))
        for _, rows in _centred_blocks(moments):
            block = np.column_stack([np.ones(len(rows)), rows])
            triangle = np.asarray(np.linalg.qr(np.vstack([triangle, block]), mode="r"))
        columns = triangle[1:, 1:]
        lengths = np.linalg.norm(columns, axis=0)
        return np.asarray(columns / np.where(lengths > 0, lengths, 1.0))

    return moments.workspace.kept(ROTATED, make)


def _preparation(moments: Moments) -> float:
    """Return what was lost of inner products of unit columns when the samples were prepared.

    Columns that were scaled, or mixed by weights, were rounded beside their mean.
    """
    if moments.scale is None and not moments.mixed:
        return 0.0
    lengths = np.sqrt(moments.variances)
    live = lengths > 0
    offsets = moments.n_samples**0.5 * np.abs(moments.mean[live]) / lengths[live]
    return float(np.finfo(moments.dtype).eps * (2 + 2 * np.max(offsets, initial=0.0)))


def _centred_blocks(moments: Moments) -> Iterator[tuple[int, FloatArray]]:
    """Yield the samples in double precision, the mean taken off, some at a time."""
    data = moments.data.tocsr() if sp.issparse(moments.data) else moments.data
    step = max(BLOCK // moments.n_features, 2 * moments.n_features)
    for start in range(0, moments.n_samples, step):
        part = data[start : start + step]
        rows = part.toarray() if sp.issparse(part) else np.asarray(to_host(part))
        centred = rows.astype(np.float64) - moments.mean
        centred[:, moments.variances == 0] = 0.0
        yield start, centred


def bytes_for_problem(n_rows: int, n_features: int) -> int:
    """Return what a problem and the search for its best set hold at once, as measured.

    Parameters
    ----------
    n_rows : int
        Number of samples where there are more features than samples; else that of features.
    n_features : int
        Number of features.
    """
    return MATRICES_AT_ONCE * 8 * n_rows * n_features


def _factor(moments: Moments, target: Any, n_components: Any) -> FloatArray | None:
    """Return what the features are multiplied by to give the target; None for themselves."""
    if isinstance(target, str):
        if target == "patterns":
            return pattern_loadings(moments)
        if target != "features":
            raise ValueError(
                f"target={target!r} is neither 'features', nor 'patterns', nor 'outcomes', nor an "
                "array of components"
            )
        if n_components is None:
            return None
        if not (is_number(n_components, Integral) and n_components >= 1):
            raise ValueError(f"n_components={n_components!r} is not a whole number of at least 1")
        vectors = moments.thin_spectrum.vectors
        return np.asarray(vectors[:, max(0, vectors.shape[1] - int(n_components)) :])
    components = np.atleast_2d(to_host(target) if is_device_array(target) else target)
    if components.dtype.kind not in "fiub" or components.ndim != 2:
        raise ValueError("target must be 'features', 'outcomes' or an array of numbers")
    components = components.astype(np.float64)
    if components.shape[1] != moments.n_features:
        raise ValueError(
            f"target has {components.shape[1]} columns, but there are {moments.n_features} "
            "features: give one row for each component; outcomes of the samples go into y, with "
            "target='outcomes'"
        )
    if not np.all(np.isfinite(components)) or not components.any():
        raise ValueError("target must be finite, and not zero")
    return components.T


def target_words(
    target: Any, n_components: int | None, missing: MissingValues | None = None
) -> str:
    """Say what is to be explained; what is proved of an estimate is proved of that alone."""
    words = _words_of(target, n_components)
    if missing is None or missing.how == "mean":
        return words
    return f"{words} (estimated, as values are missing)"


def _words_of(target: Any, n_components: int | None) -> str:
    if not isinstance(target, str):
        return "the given components"
    if target == "outcomes":
        return "the outcomes"
    if target == "patterns":
        return "what lies above the noise"
    if n_components is None:
        return "the variance"
    if n_components == 1:
        return "the first principal component"
    return f"the first {n_components} principal components"


def centred_outcomes(y: Any, n_samples: int) -> FloatArray:
    """Return outcomes as columns with mean zero, or say what is wrong with them."""
    if y is None:
        raise ValueError("target='outcomes' needs the outcomes: use fit(X, y)")
    outcomes = np.asarray(to_host(y) if is_device_array(y) else y)
    if outcomes.ndim == 1:
        outcomes = outcomes[:, None]
    if outcomes.dtype.kind not in "fiub" or outcomes.ndim != 2:
        raise ValueError(
            "outcomes are numbers, one column for each; make columns of 0 and 1 out of classes"
        )
    if len(outcomes) != n_samples:
        raise ValueError(f"y has {len(outcomes)} rows, but X has {n_samples}")
    outcomes = outcomes.astype(np.float64)
    if not np.all(np.isfinite(outcomes)):
        raise ValueError("y has missing or infinite values")
    outcomes = outcomes - outcomes.mean(axis=0)
    outcomes = outcomes - outcomes.mean(axis=0)  # what rounding has left of an offset
    largest = float(np.max(np.abs(outcomes), initial=0.0))
    if largest == 0:
        raise ValueError("the outcomes are constant: there is nothing to explain")
    return outcomes / largest


def feature_numbers(
    features: Any, n_features: int, names: Sequence[Any] | None
) -> NDArray[np.int64]:
    """Return a set of features, given as numbers, names or a mask, as sorted numbers."""
    entries = np.asarray(features)
    if entries.dtype == bool:
        if entries.shape != (n_features,):
            raise ValueError(f"features is a mask of {entries.size} entries for {n_features}")
        return np.flatnonzero(entries)
    find = Finder(n_features, names)
    found = {find(entry, "features") for entry in several(features)}
    if not found:
        raise ValueError("features is empty: there is nothing to certify")
    return np.array(sorted(found), dtype=np.int64)
