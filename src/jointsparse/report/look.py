r"""A look at the samples: their values in the kept features, and where they lie.

Two maps of the samples stand side by side: the first two principal components of all features,
:math:`A`, and of the kept features alone, :math:`B` (both centred, one row for each sample). How
alike they are is the share of the first that the second reproduces once it is turned and stretched,

.. math:: \max_{R^TR=I,\,c} 1 - \frac{\|A - cBR\|^2}{\|A\|^2}
          = \frac{(\sum_i \sigma_i(A^TB))^2}{\|A\|^2\|B\|^2},

1 for the same map and near 0 for unrelated ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import to_host
from jointsparse.text import cut_middle, visible

MOST_SAMPLES = 300  # in the pictures: more would be narrower than a point
FEWEST_SAMPLES = 20  # of a very wide table
MOST_ENTRIES = 30_000_000  # of the samples in the pictures, with all features: 240 MB
MOST_MEASURED = 4500  # samples that correlations and distributions are measured on
MOST_COLUMNS = 40  # kept features in the heat map
N_RANDOM = 20  # random sets of features, beside which the likeness of the maps is shown
CLIPPED = 2.5  # standard deviations at which the colours of the heat map end
MOST_CLASSES = 8  # with a colour each
BINS = 24
NAME_LENGTH = 40


@dataclass(frozen=True)
class Distribution:
    """How the values of a kept feature are spread: counts in equal bins, and five numbers."""

    counts: IntArray
    lowest: float
    median: float
    highest: float


@dataclass(frozen=True)
class Look:
    """Samples in pictures.

    Attributes
    ----------
    n_samples : int
        Of the table; the pictures show at most 300 of them, at random.
    names : list of str
        Names of the samples in the pictures, in the order of the table.
    labels : list of str or None
        Their labels, where there are any.
    classes : list of str
        The different labels, the most frequent first; none where there are too many for colours.
    order : ndarray of int
        The samples in the order of the heat map: similar ones beside each other.
    columns : ndarray of int
        The kept features in the heat map, similar ones beside each other; as places in the order
        of the kept features.
    values : ndarray of shape (n_columns, n_shown)
        Values in standard deviations from the mean, rows as ``columns``, columns as ``order``.
    correlations : ndarray of shape (n_columns, n_columns)
        Between the kept features in the heat map, best first.
    everything, kept : ndarray of shape (n_shown, 2)
        The samples on the map of all features, and on that of the kept ones, turned to lie alike.
    alike : float
        How alike the two maps are, from 0 to 1.
    random, random_spread : float
        The same for random sets of as many features: mean and standard deviation.
    distributions : list of Distribution
        Of the kept features in the heat map, best first, in the units of the table.
    """

    n_samples: int
    names: list[str]
    labels: list[str] | None
    classes: list[str]
    order: IntArray
    columns: IntArray
    values: FloatArray
    correlations: FloatArray
    everything: FloatArray
    kept: FloatArray
    alike: float
    random: float
    random_spread: float
    distributions: list[Distribution]


def look_at(
    values: Any,
    kept: IntArray,
    *,
    original: Any = None,
    labels: Any = None,
    sample_names: Sequence[Any] | None = None,
) -> Look | None:
    """Return pictures of the samples; None where there are too few samples to see anything.

    Parameters
    ----------
    values : ndarray or sparse matrix of shape (n_samples, n_features)
        As the method saw them.
    kept : ndarray of int
        The kept features, best first.
    original : ndarray, sparse matrix or None
        The same samples in their own units, for the distributions.
    labels : array-like or None
        One for each sample.
    sample_names : sequence or None
        Names of the samples; by default their numbers, counted from 1.
    """
    n_samples, n_features = values.shape
    if n_samples < 3 or kept.size == 0:
        return None
    rng = np.random.default_rng(0)
    measured = np.sort(rng.permutation(n_samples)[:MOST_MEASURED])
    most = min(MOST_SAMPLES, max(FEWEST_SAMPLES, MOST_ENTRIES // n_features))
    rows = np.sort(rng.permutation(n_samples)[:most])
    first = kept[:MOST_COLUMNS]
    columns = _dense(values, measured, first)
    correlations = _correlations(columns)
    arranged = _similar_beside(correlations)
    scaled = _standardised(_dense(values, rows, first), columns)
    order = _leaves(scaled)
    everything, own, alike = _maps(values, rows, kept)
    random = [
        _likeness(everything, _first_two(_dense(values, rows, _random_set(rng, values, kept.size))))
        for _ in range(N_RANDOM)
    ]
    shown, classes = _classes(labels, rows)
    names = [str(row + 1) for row in rows] if sample_names is None else list(sample_names)
    if sample_names is not None:
        names = [cut_middle(visible(str(names[row])), NAME_LENGTH) for row in rows]
    units = values if original is None else original
    return Look(
        n_samples=n_samples,
        names=names,
        labels=shown,
        classes=classes,
        order=order,
        columns=arranged,
        values=scaled[order][:, arranged].T,
        correlations=correlations,
        everything=everything,
        kept=own,
        alike=alike,
        random=float(np.mean(random)),
        random_spread=float(np.std(random, ddof=1)),
        distributions=[_spread(column) for column in _dense(units, measured, first).T],
    )


def _dense(values: Any, rows: IntArray, columns: IntArray) -> FloatArray:
    part = values[rows]
    part = part[:, columns]
    part = part.toarray() if hasattr(part, "toarray") else to_host(part)
    return _filled(np.asarray(part, dtype=np.float64))


def _filled(part: FloatArray) -> FloatArray:
    """Return samples with the mean in place of what is missing: in a picture it says nothing."""
    missing = np.isnan(part)
    if not missing.any():
        return part
    known = np.maximum((~missing).sum(axis=0), 1)
    means = np.where(missing, 0.0, part).sum(axis=0) / known
    return np.where(missing, means, part)


def _random_set(rng: np.random.Generator, values: Any, size: int) -> IntArray:
    return rng.choice(values.shape[1], size, replace=False)


def _correlations(columns: FloatArray) -> FloatArray:
    centred = columns - columns.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    unit = np.divide(centred, lengths, out=np.zeros_like(centred), where=lengths > 0)
    found = np.clip(unit.T @ unit, -1.0, 1.0)
    np.fill_diagonal(found, 1.0)
    return found


def _standardised(shown: FloatArray, columns: FloatArray) -> FloatArray:
    """Return values in standard deviations from the mean of all measured samples."""
    spread = columns.std(axis=0)
    centred = shown - columns.mean(axis=0)
    return np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)


def _similar_beside(correlations: FloatArray) -> IntArray:
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(correlations) < 3:
        return np.arange(len(correlations))
    distances = squareform(1 - np.abs(correlations), checks=False)
    return np.asarray(leaves_list(linkage(distances, "average", optimal_ordering=True)))


def _leaves(scaled: FloatArray) -> IntArray:
    from scipy.cluster.hierarchy import leaves_list, linkage

    if len(scaled) < 3:
        return np.arange(len(scaled))
    tree = linkage(np.clip(scaled, -CLIPPED, CLIPPED), "ward", optimal_ordering=True)
    return np.asarray(leaves_list(tree))


def _maps(values: Any, rows: IntArray, kept: IntArray) -> tuple[FloatArray, FloatArray, float]:
    """Return the map of all features, that of the kept ones turned onto it, and their likeness."""
    part = values[rows]
    if not hasattr(part, "toarray"):
        part = _filled(np.asarray(to_host(part), dtype=np.float64))
    inner = part @ part.T
    inner = inner.toarray() if hasattr(inner, "toarray") else inner
    everything = _map_of_inner(np.asarray(inner, dtype=np.float64))
    own = _first_two(_dense(values, rows, kept))
    u, _, vt = np.linalg.svd(own.T @ everything)
    return everything, own @ (u @ vt), _likeness(everything, own)


def _first_two(columns: FloatArray) -> FloatArray:
    return _map_of_inner(columns @ columns.T)


def _map_of_inner(inner: FloatArray) -> FloatArray:
    """Return the first two principal components from the inner products of samples."""
    centred = inner - inner.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    squares, axes = np.linalg.eigh((centred + centred.T) / 2)
    return np.asarray(axes[:, :-3:-1] * np.sqrt(np.maximum(squares[:-3:-1], 0.0)))


def _likeness(one: FloatArray, other: FloatArray) -> float:
    sizes = np.sum(one**2) * np.sum(other**2)
    if sizes <= 0:
        return 0.0
    aligned = np.linalg.svd(one.T @ other, compute_uv=False).sum()
    return float(min(aligned**2 / sizes, 1.0))


def _classes(labels: Any, rows: IntArray) -> tuple[list[str] | None, list[str]]:
    if labels is None:
        return None, []
    shown = [cut_middle(visible(str(label)), NAME_LENGTH) for label in np.asarray(labels)[rows]]
    names, counts = np.unique(shown, return_counts=True)
    if names.size > MOST_CLASSES:
        return shown, []
    return shown, [str(name) for name in names[np.argsort(-counts, kind="stable")]]


def _spread(column: FloatArray) -> Distribution:
    counts, _ = np.histogram(column, bins=BINS)
    lowest, median, highest = (float(x) for x in np.quantile(column, [0, 0.5, 1]))
    return Distribution(counts, lowest, median, highest)
