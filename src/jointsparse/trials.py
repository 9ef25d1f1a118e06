r"""What a way of selecting is worth in new samples: the selection repeated in parts of the samples.

The samples are cut into K parts at random (always the same way). For each part the features are
selected anew on all other parts, the dropped features are regressed on the kept ones there, and the
part itself is the judge: nothing of it was seen before. From the same folds come the answers to
"how many features?" (:func:`choose_count`) and "what are these worth?" (:meth:`Trials.worth`).

A feature that is not significant in the training part is predicted by its mean: regressed with the
others, noise would choose the ridge for all. With :math:`v_j` the squares of feature j in the test
parts, :math:`r_j` its squared error and :math:`\varepsilon_j` the one it has when *all* other
significant features (J) predict it, a set covers

.. math:: \frac{\sum_{j\in J\cap H}(v_j - \varepsilon_j) + \sum_{j\in J\setminus H}(v_j - r_j)}
          {\sum_{j\in J}(v_j - \varepsilon_j)}

of what can be predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.moments import Moments
from jointsparse.operators.samples import NeedsSamplesError
from jointsparse.partition import some_rows, units_first
from jointsparse.solvers.picking.held_out import (
    Fold,
    Judged,
    Mask,
    cross_validation_folds,
    folds_of_halves,
)
from jointsparse.sources.origin import Origin
from jointsparse.steps import steps

N_FOLDS = 3  # selections beside the one on all samples: three cost about two fits more
FEWEST_SAMPLES = 3 * N_FOLDS  # three samples to test with are the least that have a spread
MOST_ROWS = 4500  # samples that take part: more would not change the first two digits
N_RANDOM = 20  # random sets of the same size: better than all of them has a chance of 1 in 21
N_FOR_CEILING = 500  # features, at random, by which the ceiling is estimated where there are more
# What batches and copies leave of all rows where halves of a table that is not at hand are judged.
LARGE_BATCHES = 0.9
ALIKE = 1e-5  # relative difference of lengths that standardising in single precision leaves
COVERED = 0.9  # share of what can be predicted with which "auto" is content
# Sizes at which the curve is measured: half as many again each time, for the count is not known
# better than that from a few hundred samples.
FIRST_SIZES = (1, 2, 3, 5, 7, 10, 14, 20, 28, 40)


def sizes_up_to(most: int) -> IntArray:
    """Return the sizes at which a curve is measured: 1, 2, 3, 5, 7, 10, 14, 20, 28, 40, …, most.

    Examples
    --------
    >>> from jointsparse.trials import sizes_up_to
    >>> sizes_up_to(60).tolist()
    [1, 2, 3, 5, 7, 10, 14, 20, 28, 40, 56, 60]
    """
    sizes = list(FIRST_SIZES)
    while sizes[-1] < most:
        sizes.append(2 * sizes[-2])
    return np.array(sorted({*(size for size in sizes if size <= most), most} - {0}), dtype=np.int64)


@dataclass(frozen=True)
class Picked:
    """What was picked on some samples.

    Attributes
    ----------
    order : ndarray of int
        The picked features, best first.
    significant : ndarray of bool of shape (n_features,)
        J: the features that share something with others there.
    """

    order: IntArray
    significant: Mask


Pick = Callable[[Moments, IntArray | None], Picked]


@dataclass(frozen=True)
class Cut:
    """The samples in parts, and what was picked on all but each part.

    Attributes
    ----------
    parts : tuple of ndarray of int or None
        Rows of each part; None where there are moments of two halves only.
    picked : tuple of Picked
        What was picked without each part; none where that could not be done.
    why_not : str
        Why it could not, in words.
    repeated : bool
        Whether the selection was repeated in each part; not where the set is given.
    """

    parts: tuple[IntArray, ...] | None = None
    picked: tuple[Picked, ...] = ()
    why_not: str = ""
    repeated: bool = True


def _has_rows(moments: Moments) -> bool:
    # Samples on a cluster, or in a file, come as products only.
    return moments.has_samples and not moments.elsewhere


def _why_not(moments: Moments) -> str:
    origin = moments.origin
    n_samples = moments.n_samples
    if origin is not None and not origin.unknown:
        n_samples = origin.n_samples
    if n_samples < FEWEST_SAMPLES:
        return f"{n_samples} samples are too few to hold some out"
    if origin is not None and origin.unknown:
        return origin.unknown
    tied = origin is not None and origin.n_directions < LARGE_BATCHES * moments.n_samples
    if tied and not _has_rows(moments):
        return "rows of one batch, or of one sample, lie in both halves of what was read"
    if moments.halves is None and not _has_rows(moments):
        if moments.has_samples:
            return "the samples do not fit in memory, where parts of them are selected on"
        return "there are no samples to hold out"
    return ""


def rows_that_take_part(n_samples: int, origin: Origin | None = None) -> IntArray:
    """Return the samples that trials use, in the order in which they are cut into parts."""
    rows = np.random.default_rng(0).permutation(n_samples)
    if origin is not None and not origin.is_single:
        rows = units_first(rows, origin)[0]
    return rows[:MOST_ROWS]


def cut_into_parts(rows: IntArray, origin: Origin | None = None) -> tuple[IntArray, ...]:
    """Return K parts of some samples, in the order in which they come.

    Rows of one sample, and those of a small batch, are in one part: what one of them shows of the
    others would be no forecast.
    """
    if origin is None or origin.is_single:
        return tuple(np.sort(part) for part in np.array_split(rows, N_FOLDS))
    rows, ends = units_first(rows, origin)
    wanted = np.arange(1, N_FOLDS) * rows.size / N_FOLDS
    cuts = [int(ends[np.argmin(np.abs(ends - place))]) for place in wanted]
    if not 0 < cuts[0] < cuts[-1] < rows.size:  # a sample that is there very often
        cuts = [int(units[-1]) for units in np.array_split(ends, N_FOLDS)[:-1]]
    return tuple(np.sort(part) for part in np.split(rows, cuts))


def without_part(moments: Moments, rows: IntArray, part: IntArray) -> tuple[Moments, IntArray]:
    """Return the samples that a selection may see when a part is the judge, and their rows."""
    others = np.sort(np.setdiff1d(rows, part))
    return _scaled_alike(some_rows(moments, others), moments), others


def cut_and_pick(moments: Moments, pick: Pick) -> Cut:
    """Select in all parts of the samples but one, for each of them.

    Parameters
    ----------
    moments : Moments
        The data.
    pick : callable
        Takes moments of some samples, and their rows where these are known, and returns what is
        picked on them. A ValueError of it says that the method cannot do with these samples.
    """
    why_not = _why_not(moments)
    if why_not:
        return Cut(why_not=why_not)
    try:
        if not _has_rows(moments):
            assert moments.halves is not None
            halves = steps("parts left out", moments.halves)
            return Cut(None, tuple(pick(half, None) for half in halves))
        rows = rows_that_take_part(moments.n_samples, moments.origin)
        parts = cut_into_parts(rows, moments.origin)
        left_out = steps("parts left out", parts)
        return Cut(parts, tuple(pick(*without_part(moments, rows, part)) for part in left_out))
    except NeedsSamplesError:
        return Cut(
            why_not="the table is read in blocks, and this method needs the samples in memory to "
            "be tried on a part of them; allow more memory, or use spca-psd"
        )
    except ValueError as error:
        return Cut(why_not=f"the method refuses a part of the samples ({error})")


def _scaled_alike(some: Moments, every: Moments) -> Moments:
    """Return some of the samples with columns that are equally long if those of all samples are.

    Whoever standardised the columns would have done so with these samples, too.
    """
    live = every.variances > 0
    lengths = every.variances[live]
    if lengths.size == 0 or np.ptp(lengths) > ALIKE * lengths.max():
        return some
    unit = float(lengths.mean()) / every.n_samples * some.n_samples
    varying = some.variances > 0
    return some.scaled(np.sqrt(unit / np.where(varying, some.variances, unit)))


@dataclass(frozen=True)
class Curve:
    """What the first features of an order predict of the others, size by size.

    Attributes
    ----------
    sizes : ndarray of int
        Numbers of kept features.
    r2 : ndarray of shape (n_sizes,)
        Share of the dropped features that is predicted in new samples.
    error : ndarray of shape (n_sizes,)
        Its standard error, over the folds.
    coverage : ndarray of shape (n_sizes,)
        Share of what can be predicted; NaN where nothing can.
    """

    sizes: IntArray
    r2: FloatArray
    error: FloatArray
    coverage: FloatArray


def choose_count(curve: Curve) -> int:
    """Return how many features to keep; 0 where no number of them predicts anything.

    The fewest that cover 90 % of what can be predicted, or that are within one standard error of
    the best on the curve, whichever are fewer.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.trials import Curve, choose_count
    >>> r2 = np.array([0.2, 0.4, 0.49, 0.5])
    >>> curve = Curve(np.array([1, 2, 3, 5]), r2, np.full(4, 0.02), r2 / 0.6)
    >>> choose_count(curve)
    3
    """
    if curve.sizes.size == 0:
        return 0
    best = int(np.argmax(curve.r2))
    if curve.r2[best] <= 2 * curve.error[best]:
        return 0
    near = int(np.argmax(curve.r2 >= curve.r2[best] - curve.error[best]))
    covered = np.flatnonzero(curve.coverage >= COVERED)
    return int(curve.sizes[min(near, covered[0]) if covered.size else near])


@dataclass(frozen=True)
class Worth:
    """What a number of kept features is worth in new samples; shares of the dropped features.

    Attributes
    ----------
    r2, error : float
        What the kept features predict, and its standard error over the folds.
    r2_significant : float
        The same of the dropped features that are significant.
    random, random_significant : ndarray of shape (20,)
        What random sets of the same size predict, in the same folds: of all dropped features, and
        of those that are significant.
    pca : float
        What as many principal components give, which are made of all features.
    ceiling : float
        What all other significant features together predict: the most there is to be had.
    coverage : float
        Share of what can be predicted; NaN where nothing can.
    n_folds, n_rows : int
        Parts that the samples were cut into, and samples that took part.
    """

    r2: float
    error: float
    r2_significant: float
    random: FloatArray
    random_significant: FloatArray
    pca: float
    ceiling: float
    coverage: float
    n_folds: int
    n_rows: int


class Trials:
    """Folds of the samples with what was picked in each.

    Parameters
    ----------
    moments : Moments
        The data.
    cut : Cut
        From :func:`cut_and_pick` on the same data.
    """

    def __init__(self, moments: Moments, cut: Cut) -> None:
        self.moments = moments
        self.orders = [picked.order for picked in cut.picked]
        inside = [picked.significant for picked in cut.picked]
        if cut.parts is None:
            self.folds = folds_of_halves(moments, inside)
            self.n_rows = moments.n_samples
        else:
            self.folds = cross_validation_folds(moments, cut.parts, inside)
            self.n_rows = sum(part.size for part in cut.parts)

    def curve(self, around: int = 0) -> Curve:
        """Judge the first pick, the first two, …: until 90 % of what can be predicted is covered.

        Up to the longest order that was picked. Larger sets cost more to judge than all smaller
        ones together, and none would be kept.

        Parameters
        ----------
        around : int
            A size that is judged too, and so are those up to twice as many, whatever is covered:
            who sees the curve sees where it goes. 0 for none.
        """
        longest = max((order.size for order in self.orders), default=0)
        if around:  # of all features, none would be left to predict
            longest = min(longest, self.moments.n_features - 1)
        far = min(2 * around, longest)
        judged_too = {size for size in (around, far) if 0 < size <= longest}
        sizes = np.array(sorted({*sizes_up_to(longest).tolist(), *judged_too}), dtype=np.int64)
        found, coverage = [], []
        for size in steps("sizes", sizes.tolist()):
            found.append(self._judged(size))
            coverage.append(self._coverage(size, found[-1]))
            if coverage[-1] >= COVERED and size >= far:
                break
        return Curve(
            sizes[: len(found)],
            np.array([total_of(judged).r2 for judged in found]),
            np.array([error_of(judged) for judged in found]),
            np.array(coverage),
        )

    def worth(self, count: int) -> Worth:
        """Judge a number of features, beside random sets, principal components and the ceiling."""
        judged = self._judged(count)
        sets = [order[:count] for order in self.orders]
        total = total_of(judged)
        kept = self._predictable(sets)
        random = self._random(count)
        return Worth(
            r2=total.r2,
            error=error_of(judged),
            r2_significant=total.r2_inside,
            random=np.array([found.r2 for found in random]),
            random_significant=np.array([found.r2_inside for found in random]),
            pca=self._pca(count, sets),
            ceiling=max(self._ceiling.total - kept, 0.0) / total.total if total.total else 0.0,
            coverage=self._coverage(count, judged),
            n_folds=len(self.folds),
            n_rows=self.n_rows,
        )

    def _judged(self, count: int) -> list[Judged]:
        pairs = zip(self.folds, self.orders, strict=True)
        return [fold.judge(order[:count]) for fold, order in pairs]

    def _coverage(self, count: int, judged: Sequence[Judged]) -> float:
        if self._ceiling.total <= 0:
            return float("nan")
        total = total_of(judged)
        kept = self._predictable([order[:count] for order in self.orders])
        return (kept + total.total_inside - total.missed_inside) / self._ceiling.total

    def _random(self, count: int) -> list[Judged]:
        varying = np.flatnonzero(self.moments.variances > 0)
        rng = np.random.default_rng(0)
        size = min(count, varying.size)
        sets = [rng.choice(varying, size, replace=False) for _ in range(N_RANDOM)]
        return [
            total_of([fold.judge(features) for fold in self.folds])
            for features in steps("random sets", sets)
        ]

    def _pca(self, count: int, sets: Sequence[IntArray]) -> float:
        missed = total = 0.0
        for fold, kept in zip(self.folds, sets, strict=True):
            own = fold.total - float(fold.squares(kept).sum())
            missed += (1 - fold.r2_of_pca(count, kept)) * own
            total += own
        return 1 - missed / total if total > 0 else 0.0

    @cached_property
    def _ceiling(self) -> _Ceiling:
        return _Ceiling.of(self.folds, self.orders)

    def _predictable(self, sets: Sequence[IntArray]) -> float:
        """Return what all others predict of some sets of picks, one for each fold."""
        pairs = zip(self._ceiling.gains, sets, strict=True)
        return sum(gain.get(int(feature), 0.0) for gain, kept in pairs for feature in kept)


@dataclass(frozen=True)
class _Ceiling:
    """What all other significant features predict: v_j - ε_j, at the best of a few ridges.

    Attributes
    ----------
    gains : list of dict
        For each fold, what is predicted of some features, the picks among them.
    total : float
        What is predicted of all features in all folds, estimated from a sample of them.
    """

    gains: list[dict[int, float]]
    total: float

    @classmethod
    def of(cls, folds: Sequence[Fold], orders: Sequence[IntArray]) -> _Ceiling:
        """Compute it; one ridge for all folds."""
        rng = np.random.default_rng(0)
        samples, features, errors = [], [], []
        for fold, order in zip(folds, orders, strict=True):
            some = rng.permutation(np.flatnonzero(fold.inside))[:N_FOR_CEILING]
            picks = np.setdiff1d(order[fold.inside[order]], some)
            asked = np.concatenate([some, picks]).astype(np.int64)
            samples.append(some.size)
            features.append(asked)
            # A single feature has no others that could predict it.
            alone = np.count_nonzero(fold.inside) < 2
            squares = fold.squares(asked)
            errors.append(squares[None, :] if alone else fold.leave_one_out(asked))
        left = sum(e[:, :size].sum(axis=1) for e, size in zip(errors, samples, strict=True))
        ridge = int(np.argmin(left))
        gains: list[dict[int, float]] = []
        total = 0.0
        for fold, size, asked, e in zip(folds, samples, features, errors, strict=True):
            gain = fold.squares(asked) - e[min(ridge, len(e) - 1)]
            gains.append(dict(zip(asked.tolist(), gain.tolist(), strict=True)))
            if size:
                total += float(gain[:size].sum()) * np.count_nonzero(fold.inside) / size
        return cls(gains, max(total, 0.0))


def total_of(judged: Sequence[Judged]) -> Judged:
    """Return all folds together."""
    return reduce(add, judged)


def error_of(judged: Sequence[Judged]) -> float:
    """Return the standard error of R² over the folds."""
    shares = [one.r2 for one in judged]
    return float(np.std(shares, ddof=1) / np.sqrt(len(shares))) if len(shares) > 1 else 0.0


def fixed_cut(moments: Moments, kept: IntArray, significant: NDArray[np.bool_]) -> Cut:
    """Return a cut in which every part has the same kept features: for samples that are new."""
    return replace(
        cut_and_pick(moments, lambda some, rows: Picked(kept, significant)), repeated=False
    )
