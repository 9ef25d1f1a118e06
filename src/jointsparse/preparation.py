"""From samples with weights, batches and missing values to a plain table, or to its moments.

The order is fixed: weights first (a sample of weight 2 is there twice), then differences between
batches are taken out, then missing values are seen to. Whatever comes after sees a table in which
every sample counts once and no value is missing, or else an estimated mean and scatter matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from jointsparse.arrays import FloatArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.incomplete import Estimate, MissingValues, check_missing, estimated
from jointsparse.io.budget import size_in_words
from jointsparse.linalg import array_namespace
from jointsparse.sources import Source, as_source, is_streamed
from jointsparse.sources.door import as_samples, how_to_estimate, refuse_not_finite
from jointsparse.sources.in_memory import ArraySource
from jointsparse.sources.origin import Origin
from jointsparse.sources.refusals import not_finite
from jointsparse.sources.sums import NotFiniteError, half_of
from jointsparse.sources.views.filling import filled_with_means
from jointsparse.sources.weighting import Batches, weighted


@dataclass(frozen=True)
class Prepared:
    """A table in which every sample counts once and no value is missing.

    Attributes
    ----------
    samples : tensor, Source or None
        The table; None where there is an estimate only.
    estimate : Estimate or None
        Mean and scatter matrix, where values are missing and were not filled.
    missing : MissingValues or None
        What was missing; None where nothing is.
    batches : Batches or None
        What lay between batches.
    mixed : bool
        Whether weights were no counts: rows are mixtures of samples then.
    origin : Origin or None
        What the rows are; None where each is a sample like all others.
    """

    samples: Any
    estimate: Estimate | None = None
    missing: MissingValues | None = None
    batches: Batches | None = None
    mixed: bool = False
    origin: Origin | None = None


def prepared(
    samples: Any, *, sample_weight: Any = None, batch: Any = None, missing: str = "error"
) -> Prepared:
    """Prepare samples.

    Parameters
    ----------
    samples : tensor or Source
        Samples. Infinite values are refused where they are met; missing ones as ``missing`` says.
    sample_weight, batch : array-like of shape (n_samples,) or None
        Weight and batch of each sample.
    missing : {"error", "mean", "pairwise", "em"}
        What to do about missing values.
    """
    check_missing(missing)
    device = is_device_array(samples)
    if missing == "error" and not device:
        if samples.array is None:
            samples = samples.finite()  # says in which row and column
        else:
            refuse_not_finite(samples.array, samples.feature_names, advice=how_to_estimate)
    lost = None
    if missing != "error":
        samples, lost = _looked_at(samples, missing)
    table = weighted(samples, sample_weight, batch, fill=missing == "mean")
    samples = table.samples
    if lost is None or not lost.counts.any():
        return Prepared(samples, None, None, table.batches, table.shares, table.origin)
    if missing == "mean":
        samples = _filled(samples)
        return Prepared(samples, None, lost, table.batches, table.shares, table.origin)
    if table.shares:
        raise ValueError(
            f"missing={missing!r} takes whole-number weights only, which are counts of samples; "
            "with other weights use missing='mean'"
        )
    estimate = _estimate(samples, missing)
    origin = table.origin
    if origin is not None:
        origin = replace(origin, worth=estimate.told.n_samples / origin.sample.size)
    return Prepared(None, estimate, estimate.told, table.batches, origin=origin)


def _looked_at(samples: Any, how: str) -> tuple[Any, MissingValues]:
    """Return samples, dense where values are missing, and how many are in each column."""
    if is_device_array(samples):
        xp = array_namespace(samples)
        counts = to_host(xp.sum(xp.astype(xp.isnan(samples), xp.int64), axis=0))
        n = int(samples.shape[0])
        return samples, MissingValues(how, counts, n, n)
    if sp.issparse(samples.array):
        if np.isfinite(samples.array.data).all():
            return samples, MissingValues(how, np.zeros(samples.n_features, dtype=np.int64), 1, 1)
        samples = ArraySource(samples.array.toarray(), samples.feature_names)
    try:
        found = filled_with_means(samples)
    except NotFiniteError as error:
        raise not_finite(samples, error) from error
    empty = np.flatnonzero(np.isnan(found.means))
    if empty.size:
        first = int(empty[0])
        which = f"number {first} (counted from 0)"
        if samples.feature_names is not None:
            which = repr(str(samples.feature_names[first]))
        raise ValueError(
            f"column {which} of {samples.name} has no value at all; "
            "leave out such columns, there is nothing to estimate them from"
        )
    n = found.n_samples
    return samples, MissingValues(how, found.missing, n, n)


def _filled(samples: Any) -> Any:
    """Return samples with the means of their columns in place of missing values."""
    if is_device_array(samples):
        xp = array_namespace(samples)
        holes = xp.isnan(samples)
        counts = xp.sum(xp.astype(~holes, samples.dtype), axis=0)
        means = xp.sum(xp.where(holes, xp.zeros_like(samples), samples), axis=0) / counts
        return xp.where(holes, means + xp.zeros_like(samples), samples)
    source = filled_with_means(samples).source
    if samples.array is None:
        return source
    return ArraySource(source.read(), samples.feature_names)


def _estimate(samples: Any, how: str) -> Estimate:
    names = None
    if is_device_array(samples):
        values = to_host(samples)
    else:
        names = samples.feature_names
        values = samples.array
        if values is None:
            values = _read(samples, how)
    first = half_of(0, len(values))
    return estimated(values, how, (np.flatnonzero(first), np.flatnonzero(~first)), names)


def _read(samples: Source, how: str) -> FloatArray:
    """Read samples that are not at hand; refuse those that do not fit."""
    if samples.n_samples is not None:
        needed = 2 * 8 * samples.n_samples * samples.n_features
        if needed > samples.budget:
            raise ValueError(
                f"missing={how!r} looks at all samples at once: those of {samples.name} need "
                f"{size_in_words(needed)}, more than the {size_in_words(samples.budget)} that may "
                "be used; missing='mean' reads them in blocks"
            )
    return np.asarray(samples.read())


def fill_missing(samples: Any, mean: FloatArray) -> Any:
    """Return samples with a mean in place of missing values; themselves where nothing is missing.

    Parameters
    ----------
    samples : ndarray or tensor of shape (n_samples, n_features)
        Samples. Not changed.
    mean : ndarray of shape (n_features,)
        What stands for what is missing.
    """
    if sp.issparse(samples):
        if not np.isnan(samples.data).any():
            return samples
        samples = samples.toarray()
    xp = array_namespace(samples)
    holes = xp.isnan(samples)
    if not bool(xp.any(holes)):
        return samples
    rows = xp.zeros_like(samples) + xp.astype(like(mean, samples), samples.dtype)
    return xp.where(holes, rows, samples)


def with_holes(X: Any) -> Source:
    """Return samples as a source, with missing values in it."""
    if isinstance(X, Source) or is_streamed(X):
        return as_source(X)
    return ArraySource(*as_samples(X, finite=False))
