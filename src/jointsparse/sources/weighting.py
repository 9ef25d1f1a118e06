r"""Samples that count more or less, and differences between batches taken out.

Both make another table of the samples, which everything else takes as it takes any table:

* *Whole-number weights are counts*: a sample of weight w is there w times, one of weight 0 is not.
* *Other weights are shares*: they are divided by their mean, and only their ratios matter. With the
  weighted mean :math:`\mu` and :math:`\tilde x_i = \sqrt{w_i}(x_i - \mu)`, the rows of

  .. math:: Z = H\tilde X + 1\mu^\top,\qquad H = I - 2vv^\top,\quad Hu = 1/\sqrt n,
            \quad u_i = \sqrt{w_i / n},

  have the mean :math:`\mu` and the scatter matrix :math:`\sum_i w_i(x_i-\mu)(x_i-\mu)^\top`,
  because :math:`u^\top\tilde X = 0` and H is orthogonal: a table of as many rows as there were
  samples.
* *Batches*: :math:`x_i - \mu_{b(i)} + \mu` in place of :math:`x_i`, with the mean of its batch.
  What is left is the scatter within batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.linalg import array_namespace, double
from jointsparse.sources.base import Block, Source
from jointsparse.sources.batch_sums import fold_batches
from jointsparse.sources.door import missing_entries, without_mask
from jointsparse.sources.in_memory import ArraySource
from jointsparse.sources.origin import Origin
from jointsparse.sources.sums import rounding

# Times the spread: a mean beyond this leaves fewer digits of deviations than single precision has
# twice over (6e-8 · 100 of each), where rows that were changed are rounded beside it.
FAR = 100.0


@dataclass(frozen=True)
class Batches:
    """What lay between batches, and was taken out.

    Attributes
    ----------
    names : ndarray
        The batches.
    counts : ndarray of shape (n_batches,)
        How many samples each has, or their weight.
    feature_shares : ndarray of shape (n_features,)
        Share of each feature's variance that lay between batches; 0 for constant features.
    """

    names: NDArray[Any]
    counts: FloatArray
    feature_shares: FloatArray
    varying: int

    @property
    def share(self) -> float:
        """Share of the variance that lay between batches, of columns standardised before."""
        return float(self.feature_shares.sum()) / max(self.varying, 1)

    def __str__(self) -> str:
        return (
            f"{100 * self.share:.0f} % of the variance lay between the {self.names.size} batches "
            "and was taken out"
        )


class Weighted(NamedTuple):
    """Samples after their weights and batches.

    Attributes
    ----------
    samples : array, sparse matrix, tensor or Source
        Samples that count once each.
    batches : Batches or None
        What was taken out.
    shares : bool
        Whether weights were no counts, so that rows are mixtures of samples.
    origin : Origin or None
        What the rows are; None where each is a sample like all others.
    """

    samples: Any
    batches: Batches | None
    shares: bool
    origin: Origin | None = None


class AlignedSource(Source):
    """Another source, each block changed together with what belongs to its rows.

    Parameters
    ----------
    source : Source
        Samples.
    change : callable
        ``change(block, *parts)`` returns the rows that take the place of the block.
    aligned : tuple of ndarray
        Each has one entry for every sample.
    n_samples : int
        How many rows come out.
    dtype : dtype or None
        Their type; None is that of the source.
    """

    def __init__(
        self,
        source: Source,
        change: Callable[..., Block],
        aligned: tuple[NDArray[Any], ...],
        n_samples: int,
        dtype: Any = None,
    ) -> None:
        self.source, self.change, self.aligned = source, change, aligned
        self.n_samples, self.n_features = n_samples, source.n_features
        self.dtype = source.dtype if dtype is None else np.dtype(dtype)
        self.feature_names, self.name = source.feature_names, source.name
        self.memory = source.memory

    def blocks(self, entries: int | None = None) -> Iterator[Block]:
        """Yield the changed blocks; refuse samples that are more or fewer than their weights."""
        start, expected = 0, self.aligned[0].size
        for block in self._cut(self.source.blocks(entries)):
            stop = start + block.shape[0]
            if stop <= expected:
                changed = self.change(block, *(rows[start:stop] for rows in self.aligned))
                if changed.shape[0]:
                    yield changed
            start = stop
        if start != expected:
            raise _wrong_length("sample_weight or batch", expected, start)

    def _cut(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Cut sparse blocks, which become dense, into parts that are not too large for that."""
        rows = max(1, self.block_entries() // max(1, self.n_features))
        for block in blocks:
            if sp.issparse(block):
                yield from (block[first : first + rows] for first in range(0, block.shape[0], rows))
            else:
                yield block


def checked_weights(sample_weight: Any, n_samples: int | None) -> FloatArray:
    """Return weights as numbers, or say what is wrong with them.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,)
        Weights, at least 0.
    n_samples : int or None
        How many samples there are, where that is known.

    Examples
    --------
    >>> from jointsparse.sources.weighting import checked_weights
    >>> checked_weights([1, -2], 2)
    Traceback (most recent call last):
    ...
    ValueError: sample_weight has the negative value -2.0 for sample 1 (counted from 0); ...
    """
    if isinstance(sample_weight, int | float):
        sample_weight = np.full(n_samples or 0, sample_weight)
    device = is_device_array(sample_weight)
    values = to_host(sample_weight) if device else np.asarray(without_mask(sample_weight))
    if values.ndim != 1:
        raise ValueError(
            f"sample_weight has {values.ndim} dimensions; Sample weights must be 1D: one number "
            "for each sample"
        )
    try:
        weights = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight holds {values.dtype} values, not numbers") from error
    if n_samples is not None and weights.size != n_samples:
        raise _wrong_length("sample_weight", weights.size, n_samples)
    wrong = np.flatnonzero(~np.isfinite(weights))
    if wrong.size:
        raise ValueError(
            f"sample_weight is {weights[wrong[0]]} for sample {wrong[0]} (counted from 0); every "
            "weight is a finite number, and 0 leaves a sample out"
        )
    wrong = np.flatnonzero(weights < 0)
    if wrong.size:
        raise ValueError(
            f"sample_weight has the negative value {weights[wrong[0]]} for sample {wrong[0]} "
            "(counted from 0); a weight is at least 0"
        )
    if np.count_nonzero(weights) < 2 and weights.sum() < 2:
        raise ValueError(
            "sample_weight is zero for all samples but one at most: at least two must be above 0"
        )
    return weights


def are_counts(weights: FloatArray) -> bool:
    """Whether weights are whole numbers, so that they count samples.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.sources.weighting import are_counts
    >>> are_counts(np.array([0.0, 2.0])), are_counts(np.array([0.5, 2.0]))
    (True, False)
    """
    return bool(np.all(weights == np.rint(weights)))


def weighted_rows(sample_weight: Any, n_samples: int | None = None) -> IntArray:
    """Return the number of the sample in each row of the table that weights stand for.

    Examples
    --------
    >>> from jointsparse.sources.weighting import weighted_rows
    >>> weighted_rows([2, 0, 1]).tolist()
    [0, 0, 2]
    """
    weights = checked_weights(sample_weight, n_samples)
    counts = np.rint(weights) if are_counts(weights) else weights > 0
    return np.repeat(np.arange(weights.size), counts.astype(np.int64))


def weighted(
    samples: Any, sample_weight: Any = None, batch: Any = None, *, fill: bool = False
) -> Weighted:
    """Return the table of samples with weights and without differences between batches.

    Parameters
    ----------
    samples : tensor or Source
        Samples, one per row.
    sample_weight : array-like of shape (n_samples,) or None
        Weights.
    batch : array-like of shape (n_samples,) or None
        The batch of each sample: numbers or words.
    fill : bool
        Whether a missing value becomes the mean of its column (and batch) where rows are mixed.
    """
    n = int(samples.shape[0]) if is_device_array(samples) else samples.n_samples
    weights = None if sample_weight is None else checked_weights(sample_weight, n)
    names, codes = (None, None) if batch is None else batch_codes(batch, n)
    if weights is not None and codes is not None and codes.size != weights.size:
        raise _wrong_length("batch", codes.size, weights.size)
    shares = weights is not None and not are_counts(weights)
    origin = None
    if weights is not None:
        samples = _taken(samples, weights if not shares else (weights > 0).astype(np.float64))
        codes = None if codes is None else codes[weighted_rows(weights)]
        rows = weighted_rows(weights)
        weights = weights[weights > 0] if shares else None
        mean = None if weights is None else weights * (weights.size / weights.sum())
        origin = Origin.of_rows(rows.size, sample=rows, batch=codes, weights=mean)
    elif codes is not None:
        origin = Origin.of_rows(codes.size, batch=codes)
    origin = None if origin is None or origin.is_usual else origin
    if names is None and not shares:
        return Weighted(samples, None, False, origin)
    samples, batches = _centred_table(samples, weights, codes, names, fill=fill)
    return Weighted(samples, batches, shares, origin)


def plain_rows(rows: FloatArray, origin: Origin) -> FloatArray:
    """Return rows around their mean as they were before they were weighted and mixed.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, any)
        Rows of a table less its mean, or some columns of them.
    origin : Origin
        Theirs.
    """
    mixing = _Mixing.of(origin.weights) if origin.mixed else None
    if mixing is None:
        return rows
    unmixed = rows - 2 * mixing.axis[:, None] * (mixing.axis @ rows)
    return np.asarray(unmixed / mixing.roots[:, None])


def centred_again(samples: Any, origin: Origin) -> Any:
    """Return a table of samples with the weights and batches of an origin."""
    weights = origin.weights if origin.mixed else None
    return _centred_table(samples, weights, origin.batch, None, fill=False)[0]


def _wrong_length(what: str, given: int, expected: int) -> ValueError:
    return ValueError(f"{what} has {given} values for {expected} samples; give one for each")


def batch_codes(batch: Any, n_samples: int | None) -> tuple[NDArray[Any], IntArray]:
    """Return the names of batches, and the number of that of each sample; refuse what is none."""
    batch = to_host(batch) if is_device_array(batch) else batch
    values = np.asarray(batch)
    if values.ndim != 1:
        raise ValueError(f"batch has {values.ndim} dimensions; give one value for each sample")
    if n_samples is not None and values.size != n_samples:
        raise _wrong_length("batch", values.size, n_samples)
    missing = missing_entries(batch)
    if np.any(missing):
        raise ValueError(
            f"batch is missing for sample {int(np.argmax(missing))} (counted from 0); give every "
            "sample a batch, or leave it out with a weight of 0"
        )
    if values.dtype.kind == "O":
        values = values.astype(str)
    names, codes = np.unique(values, return_inverse=True)
    if names.size == values.size > 1:
        raise ValueError(
            "batch is different for every sample, so nothing varies within batches; name the "
            "column that says which samples were measured together"
        )
    return names, codes.astype(np.int64)


def _taken(samples: Any, counts: FloatArray) -> Any:
    """Return every sample as often as its count says."""
    if np.all(counts == 1):
        return samples
    n_rows = int(counts.sum())
    device = is_device_array(samples)
    if not device:
        if samples.array is None:
            return AlignedSource(samples, _repeated, (np.rint(counts).astype(np.int64),), n_rows)
        _check_fits(samples, n_rows)
    rows = np.repeat(np.arange(counts.size), np.rint(counts).astype(np.int64))
    if device:
        return samples[like(rows, samples)]
    array = samples.array.tocsr() if sp.issparse(samples.array) else samples.array
    return ArraySource(array[rows], samples.feature_names)


def _check_fits(samples: Source, n_rows: int) -> None:
    """Refuse counts that make a table of more than the memory."""
    from jointsparse.io.budget import size_in_words

    n_samples = samples.n_samples or 1
    needed = n_rows * samples.n_features * samples.dtype.itemsize
    if sp.issparse(samples.array):  # a value and its column
        needed = int(samples.array.nnz / n_samples * n_rows) * 12
    if n_rows > n_samples and needed > samples.budget:
        raise ValueError(
            f"whole-number weights are counts, and these stand for {n_rows} samples, which need "
            f"{size_in_words(needed)} of memory, more than the {size_in_words(samples.budget)} "
            "that may be used; divide the weights by their mean, so that they are shares of the "
            "samples at hand"
        )


def _repeated(block: Block, counts: IntArray) -> Block:
    return block[np.repeat(np.arange(counts.size), counts)]


def _centred_table(
    samples: Any,
    weights: FloatArray | None,
    codes: IntArray | None,
    names: NDArray[Any] | None,
    *,
    fill: bool,
) -> tuple[Any, Batches | None]:
    """Return the table around the means of its batches, its rows mixed where weights differ."""
    n = codes.size if codes is not None else 0 if weights is None else weights.size
    weights = np.ones(n) if weights is None else weights * (n / weights.sum())
    codes = np.zeros(n, dtype=np.int64) if codes is None else codes
    fold = partial(fold_batches, n_batches=int(codes.max()) + 1)
    sums = _reduced(samples, fold, codes, weights)
    total = sums.total
    between = (sums.counts * (sums.means - total) ** 2).sum(axis=0)
    within = sums.squares.sum(axis=0)
    within = np.where(within <= rounding(total, n), 0.0, within)
    between = np.where(between <= rounding(total, n), 0.0, between)
    batches = None
    if names is not None:
        both = between + within
        shares = np.divide(between, both, out=np.zeros_like(both), where=both > 0)
        counts = np.zeros(names.size)
        np.add.at(counts, codes, weights)
        batches = Batches(names, counts, shares, int(np.count_nonzero(both)))
        if between.any() and not within.any():
            raise ValueError(
                "nothing varies within batches: every feature is constant in each of them"
            )
    mixing = _Mixing.of(weights)
    centre = np.where(np.isfinite(sums.means), sums.means, total)
    single = str(samples.dtype).endswith("float32")
    single &= bool(np.all((total / FAR) ** 2 * n <= np.where(within > 0, within, np.inf)))
    fills = mixing is not None and fill
    change = _Change(centre, total, within > 0, np.zeros(total.size), fills, single)
    aligned = (codes,) if mixing is None else (codes, mixing.roots, mixing.axis)
    if mixing is not None:
        added = partial(_fold_added, change=change)
        change = change._replace(added=2 * _reduced(samples, added, *aligned))
    if is_device_array(samples):
        return change.of(samples, *aligned), batches
    kept = np.dtype(np.float32 if single else np.float64)
    changed = AlignedSource(samples, change.of, aligned, n, kept)
    if samples.array is None or sp.issparse(samples.array):
        return changed, batches  # blocks become dense one at a time
    return ArraySource(changed.read(), samples.feature_names), batches


class _Mixing(NamedTuple):
    """√w and the axis v of the reflection that takes √(w/n) to 1/√n."""

    roots: FloatArray
    axis: FloatArray

    @classmethod
    def of(cls, weights: FloatArray) -> _Mixing | None:
        roots = np.sqrt(weights)
        axis = (roots - 1) / np.sqrt(weights.size)
        length = float(np.linalg.norm(axis))
        return cls(roots, axis / length) if length > 0 else None


class _Change(NamedTuple):
    """What is done to every row: around its batch, times √w, minus v_i times what is added up."""

    centre: FloatArray
    mean: FloatArray
    varying: NDArray[np.bool_]
    added: FloatArray
    fill: bool
    single: bool

    def deviations(self, block: Block, codes: IntArray, roots: FloatArray | None) -> Any:
        """Return √w_i (x_i - μ_b); exactly 0 where a feature does not vary within batches."""
        dense = block.toarray() if sp.issparse(block) else block
        rows = double(dense) - like(self.centre[codes], dense)
        xp = array_namespace(rows)
        if self.fill:
            rows = xp.where(xp.isnan(rows), xp.zeros_like(rows), rows)
        if not self.varying.all():
            rows[:, like(np.flatnonzero(~self.varying), rows)] *= 0.0
        return rows if roots is None else rows * like(roots[:, None], rows)

    def of(
        self,
        block: Block,
        codes: IntArray,
        roots: FloatArray | None = None,
        axis: FloatArray | None = None,
    ) -> Any:
        """Return the rows that take the place of a block."""
        rows = self.deviations(block, codes, roots)
        if axis is not None:
            rows = rows - like(axis[:, None] * self.added, rows)
        rows = rows + like(self.mean, rows)
        xp = array_namespace(rows)
        return xp.astype(rows, xp.float32, copy=False) if self.single else rows


def _fold_added(
    state: FloatArray | None,
    block: Block,
    start: int,
    codes: IntArray,
    roots: FloatArray,
    axis: FloatArray,
    *,
    change: _Change,
) -> FloatArray:
    rows = change.deviations(block, codes, roots)
    found = np.asarray(to_host(like(axis, rows) @ rows))
    return found if state is None else state + found


def _reduced(samples: Any, fold: Callable[..., Any], *aligned: NDArray[Any]) -> Any:
    """Sum something up over all rows, of a tensor or of a source."""
    if is_device_array(samples):
        return fold(None, samples, 0, *aligned)
    found = samples.reduce(fold, _add, *aligned)
    if found is None:
        raise ValueError(f"{samples.name} has no rows")
    return found


def _add(one: Any, other: Any) -> Any:
    return one + other
