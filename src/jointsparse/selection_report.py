r"""What a set of features is worth, and which of them stands in for a feature that was dropped.

Worth is R², the share of the variance of *all* features that a linear regression on the kept ones
explains. Held out: the samples are cut into two halves at random (always the same way); the
regression is fitted on one half and judged on the other, then the other way round. Beside it stand
what as many principal components explain, the best that any linear method could do on the samples
it was fitted to, and what random sets of the same size explain: the least that a selection must do.

The held-out regressions have a ridge, chosen by generalised cross-validation on the fitting half
alone: without one, a set about as large as that half would fit its noise, whatever it is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.linalg import blocks
from jointsparse.moments import Moments
from jointsparse.solvers.columns import Columns, FloatArray, feature_columns
from jointsparse.solvers.greedy import IntArray, row_gram

N_RANDOM = 10  # random sets of the same size
N_STAND_INS = 3
MOST_ROWS = 8192  # samples of each half; more would not change the first two digits
RCOND = 1e-5  # directions of the kept features, at unit variance, that are shorter are noise


@dataclass(frozen=True)
class StandIns:
    """For each dropped feature, the kept ones that explain it best, taken greedily.

    Attributes
    ----------
    dropped : ndarray of shape (n_dropped,)
        The dropped features.
    kept : ndarray of shape (n_dropped, n_stand_ins)
        The kept feature that explains it best, the one that adds most to that, …; -1 for none.
    r2 : ndarray of shape (n_dropped, n_stand_ins)
        Share of the dropped feature's variance that the first, the first two, … explain.
    r2_all : ndarray of shape (n_dropped,)
        What all kept features together explain of it; NaN for a constant feature.
    """

    dropped: IntArray
    kept: IntArray
    r2: FloatArray
    r2_all: FloatArray

    def of(self, feature: int) -> list[tuple[int, float]]:
        """Return the stand-ins of a dropped feature, each with the R² reached with it."""
        place = np.flatnonzero(self.dropped == feature)
        if place.size == 0:
            raise KeyError(f"feature {feature} was not dropped")
        row = int(place[0])
        pairs = zip(self.kept[row].tolist(), self.r2[row].tolist(), strict=True)
        return [(kept, r2) for kept, r2 in pairs if kept >= 0]


@dataclass(frozen=True)
class SelectionReport:
    """What a set of features is worth; all figures are shares of the total variance.

    Attributes
    ----------
    n_kept, n_features : int
        Size of the set and number of all features.
    r2, pca_r2 : float
        What the kept features, and as many principal components, explain of all samples.
    r2_held_out, pca_r2_held_out : float
        The same, judged on samples that were held out of the regression (not of the selection);
        NaN where there were no samples, only moments, or fewer than four of them.
    random_r2_held_out, random_r2 : ndarray of shape (10,)
        What random sets of the same size explain, held out and of all samples.
    pca_curve : ndarray of shape (n_kept,)
        R² of the first principal component, the first two, ….
    stand_ins : StandIns
        For each dropped feature, the kept ones that explain it.
    """

    n_kept: int
    n_features: int
    r2: float
    pca_r2: float
    r2_held_out: float
    pca_r2_held_out: float
    random_r2_held_out: FloatArray
    random_r2: FloatArray
    pca_curve: FloatArray
    stand_ins: StandIns

    @property
    def held_out(self) -> bool:
        """Whether there were samples to hold out."""
        return not np.isnan(self.r2_held_out)

    @property
    def worth(self) -> tuple[float, float, float, float]:
        """R² of the set and of PCA, mean and spread of random sets: held out where possible."""
        random = self.random_r2_held_out if self.held_out else self.random_r2
        pair = (self.r2_held_out, self.pca_r2_held_out) if self.held_out else (self.r2, self.pca_r2)
        return (*pair, float(np.mean(random)), float(np.std(random, ddof=1)))

    @property
    def below_random(self) -> bool:
        """Whether random sets are better, by more than two standard errors of their mean."""
        own, _, mean, spread = self.worth
        return bool(own < mean - 2 * spread / np.sqrt(self.random_r2.size) - 1e-9)

    def __str__(self) -> str:
        own, pca, mean, spread = self.worth
        where = "of held-out samples" if self.held_out else "of the samples"
        return (
            f"{self.n_kept} of {self.n_features} features explain {own:.1%} of the variance "
            f"{where}; {self.n_kept} principal components {pca:.1%}; {self.n_kept} random "
            f"features {mean:.1%} ± {spread:.1%}"
        )


def selection_report(moments: Moments, kept: Any) -> SelectionReport:
    """Measure what a set of features is worth.

    Parameters
    ----------
    moments : Moments
        The data; held-out figures need the samples in it.
    kept : ndarray of int
        The kept features, at least one.
    """
    kept = np.asarray(kept, dtype=np.int64)
    varying = np.flatnonzero(moments.variances > 0)
    rng = np.random.default_rng(0)
    size = min(kept.size, varying.size)
    random = [rng.choice(varying, size, replace=False) for _ in range(N_RANDOM)]
    sets = [kept, *random]
    columns = feature_columns(moments)
    own, *others = (_explained(columns, features) for features in sets)
    pca_curve = _pca_curve(columns, kept.size)
    held_out = np.full(len(sets) + 1, np.nan)
    if moments.has_samples and moments.n_samples >= 4:
        held_out = _held_out(moments, sets)
    return SelectionReport(
        n_kept=kept.size,
        n_features=moments.n_features,
        r2=own,
        pca_r2=float(pca_curve[-1]),
        r2_held_out=float(held_out[0]),
        pca_r2_held_out=float(held_out[-1]),
        random_r2_held_out=held_out[1:-1],
        random_r2=np.array(others),
        pca_curve=pca_curve,
        stand_ins=_stand_ins(columns, kept),
    )


def _basis(columns: Columns, features: IntArray) -> FloatArray:
    """Return an orthonormal basis of some columns."""
    block = columns.take(features)
    lengths = np.linalg.norm(block, axis=0)
    block = block[:, lengths > 0] / lengths[lengths > 0]
    left, values, _ = np.linalg.svd(block, full_matrices=False)
    return np.asarray(left[:, values > RCOND * values.max(initial=0.0)])


def _explained(columns: Columns, features: IntArray) -> float:
    basis = _basis(columns, features)
    parts = (basis.T @ columns.take(part) for part in blocks(columns.n_features))
    return min(1.0, float(sum(np.sum(part**2) for part in parts)))


def _pca_curve(columns: Columns, count: int) -> FloatArray:
    values = np.clip(np.linalg.eigvalsh(row_gram(columns))[::-1][:count], 0.0, None)
    curve = np.ones(count)
    curve[: values.size] = np.minimum(np.cumsum(values), 1.0)
    return curve


def _halves(n_samples: int) -> tuple[IntArray, IntArray]:
    order = np.random.default_rng(0).permutation(n_samples)[: 2 * MOST_ROWS]
    middle = order.size // 2
    return np.sort(order[:middle]), np.sort(order[middle:])


def _held_out(moments: Moments, sets: Sequence[IntArray]) -> FloatArray:
    """Return R² of each set of features, and of as many principal components as the first has."""
    one, other = _halves(moments.n_samples)
    missed, total = np.zeros(len(sets) + 1), 0.0
    for train, test in ((one, other), (other, one)):
        fold = held_out_fold(moments, train, test)
        missed += [*(fold.missed(features) for features in sets), fold.missed_by_pca(sets[0].size)]
        total += fold.total
    if total <= 0:
        return np.full(missed.size, np.nan)
    return 1 - missed / total


def _ridge(values: FloatArray, seen: FloatArray, total: float, n_samples: int) -> float:
    """Choose the ridge of a regression by generalised cross-validation.

    Parameters
    ----------
    values : ndarray
        Squared singular values of the regressors.
    seen : ndarray
        What of the outcomes lies along each left singular vector.
    total : float
        All of the outcomes.
    n_samples : int
        Number of samples, of which the mean takes one degree of freedom.
    """
    ridges = values.max(initial=0.0) * np.geomspace(1e-6, 1e2, 17)
    shrink = values / (values + ridges[:, None]) if values.size else np.zeros((17, 0))
    left = total - (1 - (1 - shrink) ** 2) @ seen
    freedom = n_samples - 1 - shrink.sum(axis=1)
    score = np.where(freedom > 1e-6, left / np.maximum(freedom, 1e-6) ** 2, np.inf)
    return float(ridges[np.argmin(score)])


class Fold:
    """One way of holding samples out: regressions on some, judged on others."""

    @property
    def total(self) -> float:
        """Variance of the test samples around the mean of the training ones."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def missed(self, features: IntArray) -> float:
        """Return the squared error, on the test samples, of all features regressed on some."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def missed_by_pca(self, count: int) -> float:
        """Return that of the projection on the training samples' principal components."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def r2(self, features: IntArray) -> float:
        """Return the share of the test samples' variance that some features explain."""
        return 1 - self.missed(features) / self.total

    def r2_of_pca(self, count: int) -> float:
        """Return the share that principal components explain."""
        return 1 - self.missed_by_pca(count) / self.total


@dataclass(frozen=True)
class _RowFold(Fold):
    """Seen through the Gram matrices of the samples (many features)."""

    columns: Columns
    train: IntArray
    test: IntArray
    gram: FloatArray  # of all samples around the mean of the training ones

    @property
    def total(self) -> float:
        return float(np.trace(self.gram[np.ix_(self.test, self.test)]))

    def missed(self, features: IntArray) -> float:
        # The prediction is linear in the training samples, so Gram matrices are enough.
        block = self.columns.take(features)
        block = block - block[self.train].mean(axis=0)
        # Unit length over both halves: a feature that hardly varies in one must not blow up there.
        lengths = np.linalg.norm(block, axis=0)
        block = block[:, lengths > 0] / lengths[lengths > 0]
        left, values, right = np.linalg.svd(block[self.train], full_matrices=False)
        gram = self.gram[np.ix_(self.train, self.train)]
        seen = np.sum(left * (gram @ left), axis=0)
        ridge = _ridge(values**2, seen, float(np.trace(gram)), self.train.size)
        inverse = (right.T * (values / (values**2 + ridge))) @ left.T
        test = block[self.test]
        cross = inverse @ self.gram[np.ix_(self.train, self.test)]
        inner = inverse @ gram @ inverse.T
        fit = -2 * float(np.sum(test.T * cross)) + float(np.sum((test.T @ test) * inner))
        return self.total + fit

    def missed_by_pca(self, count: int) -> float:
        values, vectors = np.linalg.eigh(self.gram[np.ix_(self.train, self.train)])
        large = values > 1e-10 * values[-1]
        values, vectors = values[large][::-1][:count], vectors[:, large][:, ::-1][:, :count]
        scores = self.gram[np.ix_(self.test, self.train)] @ (vectors / np.sqrt(values))
        return self.total - float(np.sum(scores**2))


@dataclass(frozen=True)
class _ScatterFold(Fold):
    """Seen through scatter matrices (many samples), both around the training mean."""

    train: FloatArray
    test: FloatArray
    n_train: int

    @property
    def total(self) -> float:
        return float(np.trace(self.test))

    def missed(self, features: IntArray) -> float:
        squares = np.diagonal(self.train) + np.diagonal(self.test)
        features = features[squares[features] > 0]
        scale = 1 / np.sqrt(squares[features])
        inner = self.train[np.ix_(features, features)] * scale * scale[:, None]
        values, axes = np.linalg.eigh(inner)
        values = np.clip(values, 0.0, None)
        image = axes.T @ (self.train[features] * scale[:, None])
        large = values > RCOND**2 * values[-1]
        seen = np.sum(image[large] ** 2, axis=1) / values[large]
        ridge = _ridge(values[large], seen, float(np.trace(self.train)), self.n_train)
        weights = (axes[:, large] / (values[large] + ridge)) @ image[large] * scale[:, None]
        fit = weights.T @ self.test[np.ix_(features, features)]
        return self.total + float(np.sum((fit - 2 * self.test[:, features]) * weights.T))

    def missed_by_pca(self, count: int) -> float:
        axes = np.linalg.eigh(self.train)[1][:, ::-1][:, :count]
        return self.total - float(np.sum(axes * (self.test @ axes)))


def held_out_fold(moments: Moments, train: IntArray, test: IntArray) -> Fold:
    """Return a fold of the samples, in the form that is cheaper for their shape."""
    wide = moments.n_features > train.size + test.size
    return _by_rows(moments, train, test) if wide else _by_scatter(moments, train, test)


def _by_rows(moments: Moments, train: IntArray, test: IntArray) -> _RowFold:
    rows = np.concatenate([train, test])
    part = Moments.from_data(moments.data[rows])
    columns = feature_columns(part)
    gram = row_gram(columns)
    train, test = np.arange(train.size), np.arange(train.size, rows.size)
    mean = gram[:, train].mean(axis=1)
    gram = gram - mean - mean[:, None] + float(mean[train].mean())
    return _RowFold(columns, train, test, gram)


def _by_scatter(moments: Moments, train: IntArray, test: IntArray) -> _ScatterFold:
    first, second = (Moments.from_data(moments.data[rows]) for rows in (train, test))
    total = moments.total_variance
    root = np.sqrt(test.size / total)
    shift = (second.mean - first.mean) * root
    return _ScatterFold(
        first.scatter / total, second.scatter / total + np.outer(shift, shift), train.size
    )


def _stand_ins(columns: Columns, kept: IntArray) -> StandIns:
    mask = np.ones(columns.n_features, dtype=bool)
    mask[kept] = False
    dropped = np.flatnonzero(mask)
    lengths = np.sqrt(columns.squares)
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    block = columns.take(kept) * inverse[kept]
    basis = _basis(columns, kept)
    depth = min(N_STAND_INS, kept.size)
    chosen = np.empty((dropped.size, depth), dtype=np.int64)
    r2 = np.empty((dropped.size, depth))
    r2_all = np.empty(dropped.size)
    for part in blocks(dropped.size):
        features = columns.take(dropped[part]) * inverse[dropped[part]]
        r2_all[part] = np.sum((basis.T @ features) ** 2, axis=0)
        chosen[part], r2[part] = _few_that_explain(block.T @ block, features.T @ block, depth)
    chosen = np.where(chosen >= 0, kept[chosen], -1)
    constant = lengths[dropped] == 0
    r2_all = np.minimum(r2_all, 1.0)
    r2_all[constant] = r2[constant] = np.nan
    return StandIns(dropped, chosen, np.minimum(r2, 1.0), r2_all)


def _few_that_explain(
    inner: FloatArray, correlations: FloatArray, depth: int
) -> tuple[IntArray, FloatArray]:
    """Pick, for every feature by itself, the few kept ones that explain it: forward selection.

    Parameters
    ----------
    inner : ndarray of shape (n_kept, n_kept)
        Correlations among the kept features.
    correlations : ndarray of shape (n, n_kept)
        Correlations of the features with the kept ones.
    depth : int
        How many to pick.
    """
    n, n_kept = correlations.shape
    everyone = np.arange(n)
    left = np.ones((n, n_kept)) * np.diagonal(inner)  # what the picks leave of each kept feature
    covariance = correlations.copy()
    directions: list[FloatArray] = []
    picks = np.empty((n, depth), dtype=np.int64)
    r2 = np.zeros((n, depth))
    for step in range(depth):
        usable = left > 1e-9
        gain = np.divide(covariance**2, left, out=np.zeros((n, n_kept)), where=usable)
        pick = np.argmax(gain, axis=1)
        worthwhile: NDArray[np.bool_] = gain[everyone, pick] > 1e-12
        picks[:, step] = np.where(worthwhile, pick, -1)
        r2[:, step] = r2[:, step - 1] + gain[everyone, pick]
        column = inner[pick]
        for direction in directions:
            column = column - direction * direction[everyone, pick][:, None]
        root = np.sqrt(np.where(worthwhile, left[everyone, pick], 1.0))
        direction = np.where(worthwhile[:, None], column / root[:, None], 0.0)
        covariance -= direction * (covariance[everyone, pick] / root)[:, None]
        left -= direction**2
        directions.append(direction)
    return picks, r2
