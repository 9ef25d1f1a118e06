"""Which way the scatter matrix of samples with missing values is estimated, and what is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.incomplete.factor_em import factor_em
from jointsparse.incomplete.gaussian_em import Fitted, gaussian_em, patterns_of
from jointsparse.incomplete.pairwise import Pairs, pairwise
from jointsparse.io.budget import default_budget, size_in_words
from jointsparse.running.notices import warn_caller
from jointsparse.text import counted

HOW = ("error", "mean", "pairwise", "em")
TOL = 1e-5  # relative change of the covariance matrix; sampling errors are a thousand times larger
MAX_ITER = 1000
FULL_FEATURES = 50  # a full covariance matrix up to so many features …
FULL_SAMPLES = 5  # … and from so many complete samples' worth for each of them
FULL_WORK = 1e9  # … where one step takes a second at most: patterns × p³
MOST_FACTORS = 40
SCATTER_COPIES = 10  # arrays as large as the scatter matrix that exist at the same time


@dataclass(frozen=True)
class MissingValues:
    """What was missing in a table, and how its scatter matrix was made all the same.

    Attributes
    ----------
    how : {"mean", "pairwise", "em"}
        The way.
    counts : ndarray of shape (n_features,)
        How many values are missing in each column.
    n_rows : int
        Samples of the table.
    n_samples : int
        Complete samples that would tell as much, by which noise is judged.
    repair_change : float
        With "pairwise", how far negative eigenvalues moved the correlation matrix, as a share of
        its Frobenius norm; 0 otherwise.
    n_iter, change, converged : int, float, bool
        With "em", steps, the last relative change of the covariance matrix, and whether it is small
        enough.
    n_factors : int or None
        With "em", factors of the model; None for a full covariance matrix.
    """

    how: str
    counts: IntArray
    n_rows: int
    n_samples: int
    repair_change: float = 0.0
    n_iter: int = 0
    change: float = 0.0
    converged: bool = True
    n_factors: int | None = None

    @property
    def share(self) -> float:
        """Share of all values that is missing."""
        return float(self.counts.sum()) / (self.n_rows * self.counts.size)

    def __str__(self) -> str:
        columns = counted(int(np.count_nonzero(self.counts)), "column")
        lost = f"{100 * self.share:.1f} % of the values, in {columns}, are missing"
        if self.how == "mean":
            return f"{lost} and were replaced by the mean of their column"
        if self.how == "pairwise":
            moved = (
                ""
                if self.repair_change == 0
                else f" (repaired by {100 * self.repair_change:.1f} %)"
            )
            way = f"correlations are from the samples that have both values{moved}"
        else:
            model = "" if self.n_factors is None else f", {counted(self.n_factors, 'factor')}"
            way = f"the scatter matrix is estimated by maximum likelihood (EM{model})"
        return (
            f"{lost}; {way}, worth {self.n_samples} complete samples: what is proved holds for the "
            "estimated scatter matrix"
        )


@dataclass(frozen=True)
class Estimate:
    """Mean and scatter matrix of samples with missing values.

    Attributes
    ----------
    mean : ndarray of shape (n_features,)
        Mean.
    scatter : ndarray of shape (n_features, n_features)
        As many times the covariance matrix as there are samples' worth.
    told : MissingValues
        What was missing, and how it was done.
    halves : tuple of two Estimates or None
        The same of two random halves of the samples, each from its own values alone.
    """

    mean: FloatArray
    scatter: FloatArray
    told: MissingValues
    halves: tuple[Estimate, Estimate] | None = None


def check_missing(missing: Any) -> None:
    """Refuse a word that ``missing`` does not know.

    Examples
    --------
    >>> from jointsparse.incomplete import check_missing
    >>> check_missing("drop")
    Traceback (most recent call last):
    ...
    ValueError: missing='drop' is not one of 'error', 'mean', 'pairwise', 'em'
    """
    if missing not in HOW:
        raise ValueError(f"missing={missing!r} is not one of {', '.join(map(repr, HOW))}")


def estimated(
    values: Any, how: str, halves: tuple[IntArray, IntArray], names: Sequence[Any] | None = None
) -> Estimate:
    """Estimate mean and scatter matrix.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_features)
        Samples; NaN where a value is missing.
    how : {"pairwise", "em"}
        The way.
    halves : tuple of two ndarray of int
        Rows of two random halves.
    names : sequence of str or None
        Names of the columns, for messages.
    """
    _check_fits(values.shape[1])
    values = np.asarray(values, dtype=np.float64)
    _check_columns(values, names)
    whole = _estimated(values, how)
    if not whole.told.converged:
        warn_caller(
            f"missing='em' did not converge: after {whole.told.n_iter} steps the covariance matrix "
            f"still changes by {whole.told.change:.1g}",
            ConvergenceWarning,
        )
    parts = [values[rows] for rows in halves]
    if any((~np.isnan(part)).sum(axis=0).min() < 2 for part in parts):
        return whole  # a column of which a half knows nothing: no half can be judged by the other
    one, other = (_estimated(part, how) for part in parts)
    return replace(whole, halves=(one, other))


def _estimated(values: FloatArray, how: str) -> Estimate:
    there = ~np.isnan(values)
    counts = there.sum(axis=0)
    mean = np.nansum(values, axis=0) / counts
    mean = mean + np.nansum(values - mean, axis=0) / counts  # of large means a second time
    deviations = np.sqrt(np.nansum((values - mean) ** 2, axis=0) / counts)
    live = deviations > 8 * np.finfo(np.float64).eps * np.abs(mean)
    unit = (values[:, live] - mean[live]) / deviations[live]
    unit = unit[~np.isnan(unit).all(axis=1)]
    scatter = np.zeros((mean.size, mean.size))
    told = MissingValues(how, np.asarray(len(values) - counts), len(values), len(values))
    if not live.any():
        return Estimate(mean, scatter, told)
    pairs = pairwise(unit)
    n_samples = pairs.n_samples
    covariance, shift = pairs.correlation, np.zeros(unit.shape[1])
    told = replace(told, n_samples=n_samples, repair_change=pairs.change)
    if how == "em":
        fitted, n_factors = _most_likely(unit, pairs)
        covariance, shift = fitted.covariance, fitted.mean
        told = replace(
            told,
            repair_change=0.0,
            n_iter=len(fitted.history),
            change=fitted.change,
            converged=fitted.converged,
            n_factors=n_factors,
        )
    lengths = deviations[live]
    mean = mean.copy()
    mean[live] += shift * lengths
    scatter[np.ix_(live, live)] = n_samples * covariance * lengths * lengths[:, None]
    return Estimate(mean, (scatter + scatter.T) / 2, told)


def _most_likely(unit: FloatArray, pairs: Pairs) -> tuple[Fitted, int | None]:
    """Return what EM arrives at, and the number of factors; None without any."""
    p, n_samples = unit.shape[1], pairs.n_samples
    if p <= FULL_FEATURES and n_samples >= FULL_SAMPLES * p:
        work = len(patterns_of(np.isnan(unit))[0]) * p**3
        if work <= FULL_WORK:
            return gaussian_em(unit, pairs.correlation, tol=TOL, max_iter=MAX_ITER), None
    eigenvalues, vectors = np.linalg.eigh(pairs.correlation)
    # The largest eigenvalue that noise would have in a matrix of independent entries: rather too
    # many factors than too few, which would leave the others shrunk towards nothing.
    edge = 1 + 2 * np.sqrt(p / n_samples)
    most = min(MOST_FACTORS, max(1, min(p, n_samples) // 4))
    count = int(np.clip(np.count_nonzero(eigenvalues > edge), 1, most))
    above = np.maximum(eigenvalues[-count:] - 1, NOISE_START * eigenvalues[-count:])
    start = vectors[:, -count:] * np.sqrt(above)
    start *= np.minimum(1.0, 0.95 / np.maximum(np.linalg.norm(start, axis=1), 1e-12))[:, None]
    return factor_em(unit, start, tol=TOL, max_iter=MAX_ITER), count


NOISE_START = 0.1  # of an eigenvalue at least, so that no factor begins, and stays, at zero


def _check_columns(values: FloatArray, names: Sequence[Any] | None) -> None:
    empty = np.flatnonzero(np.isnan(values).all(axis=0))
    if empty.size:
        first = f"number {empty[0]} (counted from 0)" if names is None else repr(names[empty[0]])
        raise ValueError(
            f"column {first} has no value at all; leave out such columns, there is nothing to "
            "estimate them from"
        )


def _check_fits(n_features: int) -> None:
    needed, budget = SCATTER_COPIES * 8 * n_features**2, default_budget()
    if needed > budget:
        raise ValueError(
            f"the scatter matrix of {n_features} features needs {size_in_words(needed)}, more than "
            f"the {size_in_words(budget)} that may be used; missing='mean' needs none"
        )
