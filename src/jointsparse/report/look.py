r"""A look at the samples: their values in the kept features, and where they lie.

Two maps of the samples stand side by side: the first two principal components :math:`A` of all
features (centred, one row for each sample), and where the kept features say that the samples lie,
:math:`\hat A`. Each third of the samples is placed by a ridge regression of A on the kept features
in the other two. How alike the maps are is the share of the first that the second tells,

.. math:: \max\Bigl(0,\; 1 - \frac{\|A - \hat A\|^2}{\|A\|^2}\Bigr) .

Principal components *of the kept features* would be the wrong second map: kept features do not
repeat each other, so that a pattern which many features share, and which makes the first map, has
no more weight among them than any other. Random features do repeat each other, and draw the map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import to_host
from jointsparse.solvers.picking.held_out import choose_ridge
from jointsparse.text import cut_middle, visible
from jointsparse.trials import cut_into_parts

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
        The samples on the map of all features, and where the kept ones say that they lie.
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
    everything = _map_of(values, rows)
    own = _placed(everything, _dense(values, rows, kept))
    random = [
        _likeness(everything, _placed(everything, _dense(values, rows, chosen)))
        for chosen in (_random_set(rng, values, kept.size) for _ in range(N_RANDOM))
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
        alike=_likeness(everything, own),
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


def _map_of(values: Any, rows: IntArray) -> FloatArray:
    """Return the first two principal components, from the inner products of samples."""
    part = values[rows]
    if not hasattr(part, "toarray"):
        part = _filled(np.asarray(to_host(part), dtype=np.float64))
    inner = part @ part.T
    inner = np.asarray(inner.toarray() if hasattr(inner, "toarray") else inner, dtype=np.float64)
    centred = inner - inner.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    squares, axes = np.linalg.eigh((centred + centred.T) / 2)
    return np.asarray(axes[:, :-3:-1] * np.sqrt(np.maximum(squares[:-3:-1], 0.0)))


def _placed(positions: FloatArray, columns: FloatArray) -> FloatArray:
    """Return where some features say that samples lie, each told without the sample itself."""
    found = np.empty_like(positions)
    for part in cut_into_parts(np.random.default_rng(0).permutation(len(positions))):
        others = np.setdiff1d(np.arange(len(positions)), part)
        centre, means = positions[others].mean(axis=0), columns[others].mean(axis=0)
        weights = _ridge(columns[others] - means, positions[others] - centre)
        found[part] = centre + (columns[part] - means) @ weights
    return found


def _ridge(regressors: FloatArray, outcomes: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(regressors, axis=0)
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    left, values, right = np.linalg.svd(regressors * scale, full_matrices=False)
    image = left.T @ outcomes
    seen, total = np.sum(image**2, axis=1), float(np.sum(outcomes**2))
    added = choose_ridge(values**2, seen, total, len(outcomes))
    return np.asarray(
        scale[:, None] * (right.T @ ((values / (values**2 + added))[:, None] * image))
    )


def _likeness(positions: FloatArray, told: FloatArray) -> float:
    total = float(np.sum(positions**2))
    return max(1 - float(np.sum((positions - told) ** 2)) / total, 0.0) if total > 0 else 0.0


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
