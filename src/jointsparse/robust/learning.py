"""What is usual in samples: learned from all of them, or from a random part of many."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr, stdtrit

from jointsparse.arrays import FloatArray
from jointsparse.device import checked_samples, is_device_array, like, to_host
from jointsparse.io.budget import size_in_words
from jointsparse.io.errors import table_error
from jointsparse.linalg import array_namespace
from jointsparse.robust.centre import geometric_median
from jointsparse.robust.columns import ColumnScales, column_scales, typical
from jointsparse.robust.rule import FAR, KINDS, RobustRule
from jointsparse.sources import Source, as_source
from jointsparse.sources.base import BLOCK_ENTRIES
from jointsparse.sources.in_memory import ArraySource
from jointsparse.sources.sums import mean_of

# Entries of the samples that medians are taken of: beyond, a random part of the samples tells as
# much. With 8000 of them a median is off by 1.4 % of a standard deviation.
LEARNED_ENTRIES = 2**23
FEWEST_LEARNED = 1000  # samples, however many columns
COPIES = 6  # of these samples in float64 that exist at the same time
MEDIAN_EFFICIENCY = 0.37
# A column whose spread lies in far samples has not more than so many times its own weight.
MOST_STRETCHED = 4.0


class Robust(NamedTuple):
    """How samples were made robust.

    Attributes
    ----------
    rule : RobustRule
        What is done to them.
    scores : ndarray of shape (n_samples,)
        Outlier score of each: how far it is from the centre, in robust units.
    comparable : bool
        Whether the columns were divided by their scales, too.
    """

    rule: RobustRule
    scores: FloatArray
    comparable: bool = True

    @property
    def outliers(self) -> Any:
        """Which samples are far from the others: 1 in 400 of Gaussian ones."""
        return self.scores > FAR


def check_kind(robust: Any) -> str:
    """Return what to bound, or refuse what is no answer to that.

    Examples
    --------
    >>> from jointsparse.robust.learning import check_kind
    >>> check_kind("rows")
    Traceback (most recent call last):
    ...
    ValueError: robust='rows' is not one of None, 'samples', 'cells'
    """
    if not isinstance(robust, str) or robust not in KINDS:
        raise ValueError(f"robust={robust!r} is not one of None, 'samples', 'cells'")
    return robust


def refuse_with_robust(robust: Any, **given: Any) -> None:
    """Refuse weights, batches or missing values where outliers are to be bounded.

    Parameters
    ----------
    robust : str or None
        What is to be bounded.
    **given : object
        What else was asked for, by the name of its parameter; nothing is missing values.

    Examples
    --------
    >>> from jointsparse.robust.learning import refuse_with_robust
    >>> refuse_with_robust("cells", batch=[1, 1, 2])
    Traceback (most recent call last):
    ...
    ValueError: robust='cells' and batch do not go together: make the samples robust first, with ...
    """
    if robust is None:
        return
    names = [name for name, value in given.items() if value is not None]
    if names:
        step = "Wrap" if check_kind(robust) == "cells" else "SpatialSign"
        raise ValueError(
            f"robust={robust!r} and {names[0]} do not go together: make the samples robust first, "
            f"with jointsparse.{step}().fit_transform(X), and fit those with {names[0]}, without "
            "robust"
        )
    raise ValueError(
        f"robust={check_kind(robust)!r} and missing values do not go together: fill them first, "
        "for example with scikit-learn's SimpleImputer"
    )


def learn(values: Any, kind: str, *, signs: bool = False) -> RobustRule:
    """Learn what is usual in samples.

    Parameters
    ----------
    values : array or sparse matrix of shape (n_samples, n_features)
        Samples. Many are represented by a random part of them, the same in every run.
    kind : {"samples", "cells"}
        What is to be bounded.
    signs : bool
        Whether samples are to be brought to length 1, all of them.
    """
    rows = rows_to_learn(*values.shape)
    if rows is not None:
        values = values[like(rows, values)] if is_device_array(values) else values[rows]
    sparse, p = sp.issparse(values), values.shape[1]
    scales = column_scales(values)
    nothing = np.zeros(p)
    if sparse and kind == "samples":  # about a centre they would become dense
        scales = ColumnScales(nothing, scales.unit, scales.deviation)
    rule = RobustRule(kind, *scales, nothing, 0.0, 1.0, np.ones(p), signs)
    if kind == "samples" and not sparse:
        standard = rule.rows(values)
        start = array_namespace(standard).zeros_like(standard[0, :])
        rule = replace(rule, shift=to_host(geometric_median(standard, start).point))
    rule = _with_lengths(rule, values)
    if kind == "samples" and not sparse and not signs:
        rule = _with_lengths(replace(rule, shift=_middle(rule, values)), values)
    return rule if signs else replace(rule, factors=_factors(rule.apply(values)))


def _with_lengths(rule: RobustRule, values: Any) -> RobustRule:
    """Return the rule with the usual length of samples, about its centre."""
    bare = replace(rule, length=0.0, spread=1.0)
    length, spread = typical(bare.scores(values))  # of d^(2/3)
    return replace(rule, length=length, spread=spread * _caution(values.shape[0]))


def _middle(rule: RobustRule, values: Any) -> FloatArray:
    """Return the mean of the samples, outliers left out, as far as they count.

    The geometric median gives way when outliers lie on one side. They are left at the centre, and
    would be a pattern of their own if that were not the middle of the others.
    """
    rows = rule.rows(values)
    weights = rule.weights(rows)
    mean = weights @ rows / array_namespace(rows).sum(weights)
    return rule.shift + to_host(mean)


def rows_to_learn(n_samples: int, n_features: int, budget: float = np.inf) -> Any:
    """Return the numbers of the samples to learn from; None for all of them.

    Parameters
    ----------
    n_samples, n_features : int
        Size of the table.
    budget : float
        Bytes that may be used; 1000 samples are asked for in any case.

    Examples
    --------
    >>> from jointsparse.robust.learning import rows_to_learn
    >>> rows_to_learn(10**6, 1000).shape
    (8388,)
    """
    entries = min(LEARNED_ENTRIES, budget // (8 * COPIES))
    most = max(FEWEST_LEARNED, int(entries // n_features))
    if n_samples <= most:
        return None
    return np.sort(np.random.default_rng(0).choice(n_samples, most, replace=False))


def _caution(n_samples: int) -> float:
    """Return by how much to widen a robust spread, so that few samples call no more outliers.

    A median deviation is as precise as a standard deviation of 37 % of the samples (its efficiency
    in Gaussian ones): the quantile is that of Student's distribution with so many degrees.
    """
    degrees = max(MEDIAN_EFFICIENCY * (n_samples - 1), 1.0)
    return float(stdtrit(degrees, ndtr(FAR))) / FAR


def _factors(values: Any) -> FloatArray:
    """Return what gives columns a standard deviation of 1; 0 for constant ones."""
    if sp.issparse(values):
        mean = np.asarray(values.mean(axis=0)).ravel()
        squares = np.asarray(values.multiply(values).mean(axis=0)).ravel()
        deviations = np.sqrt(np.clip(squares - mean**2, 0.0, None))
    else:
        xp = array_namespace(values)
        deviations = to_host(xp.std(xp.astype(values, xp.float64), axis=0))
    live = deviations > 1e-9 * np.max(deviations, initial=0.0)
    usual = float(np.median(deviations[live])) if live.any() else 1.0
    return np.where(live, 1 / np.maximum(deviations, usual / MOST_STRETCHED), 0.0)


def made_robust(values: Any, kind: str, *, comparable: bool = True) -> tuple[Any, Robust]:
    """Return samples in memory as they count, and how that was done.

    Parameters
    ----------
    values : array or sparse matrix of shape (n_samples, n_features)
        Checked samples; not changed.
    kind : {"samples", "cells"}
        What is to be bounded.
    comparable : bool
        Whether columns are to be made comparable, or to keep their units.
    """
    rule = learn(values, kind)
    if sp.issparse(values) or is_device_array(values) or values.size <= BLOCK_ENTRIES:
        made = rule.apply(values, comparable=comparable)
        return made, Robust(rule, rule.scores(values), comparable)
    made = np.empty(values.shape, np.float32 if values.dtype == np.float32 else np.float64)
    scores, start = np.empty(len(values)), 0
    for block in ArraySource(values).blocks():  # of a large table no copies but the one
        part = slice(start, start + len(block))
        made[part] = rule.apply(block, comparable=comparable)
        scores[part], start = rule.scores(block), part.stop
    return made, Robust(rule, scores, comparable)


def robust_samples(X: Any, robust: Any, *, comparable: bool) -> tuple[Any, Robust]:
    """Return samples of any kind as they count, and how that was done.

    Parameters
    ----------
    X : array-like, data frame, sparse matrix, tensor, source or path
        Samples; not changed.
    robust : {"samples", "cells"}
        What is to be bounded.
    comparable : bool
        Whether columns are to be made comparable, or to keep their units.

    Returns
    -------
    samples : tensor or Source
        A tensor stays on its device. What is not in memory, or too large for a copy, is changed
        when it is read.
    how : Robust
        With the outlier scores of the samples.
    """
    kind = check_kind(robust)
    if is_device_array(X):
        return made_robust(checked_samples(X), kind, comparable=comparable)
    source = as_source(X)
    if source.array is None or _too_large(source.array, source.budget):
        return robust_source(source, kind, comparable=comparable)
    values, how = made_robust(source.array, kind, comparable=comparable)
    return ArraySource(values, source.feature_names), how


def learn_from(source: Source, kind: str, *, signs: bool = False) -> RobustRule:
    """Learn what is usual in samples that are read in blocks; refuse what would not fit.

    Parameters
    ----------
    source : Source
        Samples. Some of the rows are read, all columns of them; one pass more counts the rows
        where nothing tells how many there are.
    kind, signs
        As in :func:`learn`.
    """
    n = mean_of(source)[0] if source.n_samples is None else source.n_samples
    rows = rows_to_learn(n, source.n_features, source.budget)
    count = n if rows is None else rows.size
    needed = COPIES * 8 * count * source.n_features
    if needed > source.budget:
        raise table_error(
            source.name,
            f"has {source.n_features} columns, and medians of {count} rows of them need "
            f"{size_in_words(needed)}, more than the {size_in_words(source.budget)} that may be "
            "used; ",
            "leave robust out, read fewer columns, or allow more memory.",
            "leave --robust out, use fewer columns, or allow more with --memory.",
        )
    values = source.finite().rows(np.arange(n) if rows is None else rows)
    return learn(values, kind, signs=signs)


def robust_source(source: Source, kind: str, *, comparable: bool) -> tuple[Source, Robust]:
    """Return a source of samples as they count, and how that is done; two passes or three.

    Parameters
    ----------
    source : Source
        Samples that are not in memory.
    kind : {"samples", "cells"}
        What is to be bounded.
    comparable : bool
        Whether columns are to be made comparable, or to keep their units.
    """
    rule = learn_from(source, kind)
    scores = scores_of(source, rule)
    return _changed(source, rule, comparable), Robust(rule, scores, comparable)


def like_before(source: Source, how: Robust | None) -> tuple[Source, Robust | None]:
    """Return more samples as they count beside earlier ones, and how all were made robust.

    Parameters
    ----------
    source : Source
        More samples.
    how : Robust or None
        How the earlier ones were made robust, if they were.
    """
    if how is None:
        return source, None
    scores = np.concatenate([how.scores, scores_of(source, how.rule)])
    return _changed(source, how.rule, how.comparable), how._replace(scores=scores)


def joined(first: Robust | None, second: Robust | None) -> Robust | None:
    """Return how the samples of two moments were made robust, or refuse to add different kinds."""
    if first is None and second is None:
        return None
    alike = (
        first is not None
        and second is not None
        and (first.rule.kind, first.comparable) == (second.rule.kind, second.comparable)
    )
    if not alike:
        raise ValueError(
            "moments of robust samples can be added to moments that were made robust in the same "
            "way only: give Moments.from_data the same robust for both"
        )
    assert first is not None
    assert second is not None
    return first._replace(scores=np.concatenate([first.scores, second.scores]))


def scores_of(source: Source, rule: RobustRule) -> FloatArray:
    """Return the outlier scores of samples that are read in blocks, in one pass."""
    return source.collect(partial(_scores, rule=rule))


def _too_large(values: Any, budget: int) -> bool:
    """Tell whether samples are mapped into memory, and too many for a copy of them."""
    return isinstance(values, np.ndarray) and 3 * 8 * values.size > budget


def _changed(source: Source, rule: RobustRule, comparable: bool) -> Source:
    change = partial(apply_rule, rule=rule, comparable=comparable)
    dtype = np.float32 if source.dtype == np.float32 else np.float64
    return source.map(change, source.n_features, dtype, source.feature_names)


def _scores(block: Any, rule: RobustRule) -> FloatArray:
    return rule.scores(block)


def apply_rule(block: Any, rule: RobustRule, comparable: bool) -> Any:
    """Return samples as they count: a function that can be sent to where they are."""
    return rule.apply(block, comparable=comparable)
