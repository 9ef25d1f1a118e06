r"""Regressions of the dropped features on the kept ones, fitted to some samples, judged on others.

Cut the samples into a training and a test part, both around the training mean. For a set H of kept
features and a set J of features that something can be said about (others are predicted by their
mean), the share of the *dropped* features that H predicts is

.. math:: R^2(H) = 1 - \frac{\sum_{j\in J\setminus H}\|x_j - X_H b_j\|^2 +
          \sum_{j\notin J\cup H}\|x_j\|^2}{\sum_{j\notin H}\|x_j\|^2} \quad\text{on the test part,}

with coefficients :math:`b_j` of a ridge regression on the training part. Its ridge is chosen by
generalised cross-validation there, and is never below 1e-3 of the largest eigenvalue: without a
ridge, a set about as large as the number of samples would fit their noise, whatever it is worth.
Kept features are exact: they are at hand, and nobody predicts them.

What could be predicted at all is the ceiling: every feature of J from *all other* features of J by
one ridge ρ. With :math:`\Omega_\rho = V\operatorname{diag}(s/(s+\rho))V^\top` from the eigenpairs
of the training part, leaving feature j out of its own regressors changes its error to exactly

.. math:: \varepsilon_j = \frac{x_j - (\Omega_\rho x)_j}{1 - (\Omega_\rho)_{jj}} .
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.eigen.lanczos import leading_pairs
from jointsparse.linalg import array_namespace, blocks, eigh, positive_part, submatrix
from jointsparse.moments import Moments
from jointsparse.partition import apart
from jointsparse.solvers.products.columns import Columns, feature_columns

MANY_ROWS, FEW = 1000, 10  # of so many eigenvectors, a tenth is found sooner than all
RCOND = 1e-5  # directions of the regressors, at unit length, that are shorter are noise
# Smallest and largest ridge, as shares of the largest eigenvalue of the regressors. Below the
# smallest, one split in a hundred explodes where half as many features as samples are kept.
RIDGES = np.geomspace(1e-3, 1e2, 11)
CEILING_RIDGES = np.geomspace(1e-4, 1e1, 9)  # of all features: nine from hardly any to nearly all
ROUNDING = 1e-12  # share of a sum of squares that is not left over, but rounding
EIGENVALUE = 1e-12  # share of the largest below which an eigenvalue is rounding

Mask = NDArray[np.bool_]


def choose_ridge(
    values: FloatArray,
    seen: FloatArray,
    total: float,
    n_samples: int,
    shares: FloatArray = RIDGES,
) -> float:
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
    shares : ndarray
        The ridges to choose from, as shares of the largest value.
    """
    ridges = (values.max(initial=0.0) or 1.0) * shares
    shrink = values / (values + ridges[:, None]) if values.size else np.zeros((ridges.size, 0))
    left = total - (1 - (1 - shrink) ** 2) @ seen
    freedom = n_samples - 1 - shrink.sum(axis=1)
    score = np.where(freedom > 1e-6, left / np.maximum(freedom, 1e-6) ** 2, np.inf)
    return float(ridges[np.argmin(score)])


@dataclass(frozen=True)
class Judged:
    """Squared errors of the dropped features on the test part, and their squares.

    Attributes
    ----------
    missed, total : float
        Of all dropped features.
    missed_inside, total_inside : float
        Of those in J.
    """

    missed: float
    total: float
    missed_inside: float
    total_inside: float

    def __add__(self, other: Judged) -> Judged:
        return Judged(
            self.missed + other.missed,
            self.total + other.total,
            self.missed_inside + other.missed_inside,
            self.total_inside + other.total_inside,
        )

    @property
    def r2(self) -> float:
        """Share of the dropped features that is predicted; 0 where nothing is dropped."""
        return 1 - self.missed / self.total if self.total > 0 else 0.0

    @property
    def r2_inside(self) -> float:
        """The same of the dropped features in J."""
        return 1 - self.missed_inside / self.total_inside if self.total_inside > 0 else 0.0


class Fold(ABC):
    """One way of holding samples out. ``inside`` is the mask of J."""

    n_train: int
    inside: Mask

    @abstractmethod
    def squares(self, features: IntArray) -> FloatArray:
        """Return ‖x_j‖² on the test part for some features."""

    @property
    @abstractmethod
    def total(self) -> float:
        """Σ_j ‖x_j‖² on the test part, of all features."""

    @property
    @abstractmethod
    def total_inside(self) -> float:
        """The same of the features in J."""

    @abstractmethod
    def _missed_inside(self, features: IntArray, *, ridge: bool) -> float:
        """Return the squared error of the dropped features in J, regressed on some features."""

    @abstractmethod
    def _missed_by_pca(self, count: int, kept: IntArray) -> float:
        """Return that of all features but ``kept``, projected on the training part's axes."""

    @abstractmethod
    def leave_one_out(self, features: IntArray) -> FloatArray:
        """Return Σε_j² on the test part for some features of J (columns) and every ridge (rows)."""

    def judge(self, features: IntArray, *, ridge: bool = True) -> Judged:
        """Judge a set of kept features; without a ridge, by least squares."""
        own = self.squares(features)
        kept_inside = self.inside[features]
        total = _difference(self.total, float(own.sum()))
        total_inside = _difference(self.total_inside, float(own[kept_inside].sum()))
        missed = total_inside
        if features.size and total_inside > 0:
            missed = max(self._missed_inside(features, ridge=ridge), 0.0)
        return Judged(total - total_inside + missed, total, missed, total_inside)

    def r2(self, features: IntArray) -> float:
        """Return the share of the dropped features that some predict."""
        return self.judge(features).r2

    def r2_of_pca(self, count: int, kept: IntArray | None = None) -> float:
        """Return the share that principal components give of all features but ``kept``."""
        kept = np.empty(0, dtype=np.int64) if kept is None else kept
        total = self.total - float(self.squares(kept).sum())
        return 1 - self._missed_by_pca(count, kept) / total if total > 0 else 0.0


@dataclass(frozen=True)
class _RowFold(Fold):
    """Seen through the Gram matrices of the samples (many features)."""

    columns: Columns
    train: IntArray
    test: IntArray
    inside: Mask
    whole: Array = field(repr=False)  # Gram matrix of all features around the training mean
    gram: Array = field(repr=False)  # that of the features in J

    @property
    def n_train(self) -> int:  # type: ignore[override]
        return self.train.size

    @property
    def total(self) -> float:
        return _trace(submatrix(self.whole, self.test, self.test))

    @property
    def total_inside(self) -> float:
        return _trace(submatrix(self.gram, self.test, self.test))

    def _block(self, features: IntArray) -> Array:
        """Return some columns around the training mean, both parts."""
        block = self.columns.take(features)
        return block - self.columns.xp.mean(block[like(self.train, block), :], axis=0)

    def squares(self, features: IntArray) -> FloatArray:
        if features.size == 0:
            return np.zeros(0)
        block = self._block(features)
        test = block[like(self.test, block), :]
        return to_host(self.columns.xp.sum(test**2, axis=0))

    def _missed_inside(self, features: IntArray, *, ridge: bool) -> float:
        # The prediction is linear in the training samples, so Gram matrices are enough.
        xp = self.columns.xp
        block = self._block(features)
        mine = block[:, like(np.flatnonzero(self.inside[features]), block)]
        gram = self.gram - mine @ mine.T  # of the dropped ones
        # Unit length over both parts: a feature that hardly varies in one must not blow up there.
        lengths = xp.linalg.vector_norm(block, axis=0)
        block = block[:, lengths > 0] / lengths[lengths > 0]
        if block.shape[1] == 0:
            return _trace(submatrix(gram, self.test, self.test))
        left, values, right = xp.linalg.svd(block[like(self.train, block), :], full_matrices=False)
        large = values > RCOND * xp.max(values)
        left, values, right = left[:, large], values[large], right[large, :]
        own = submatrix(gram, self.train, self.train)
        added = 0.0
        if ridge:
            seen = xp.sum(left * (own @ left), axis=0)
            added = choose_ridge(to_host(values) ** 2, to_host(seen), _trace(own), self.n_train)
        inverse = (right.T * (values / (values**2 + added))) @ left.T
        test = block[like(self.test, block), :]
        cross = inverse @ submatrix(gram, self.train, self.test)
        inner = inverse @ own @ inverse.T
        fit = -2 * float(xp.sum(test.T * cross)) + float(xp.sum((test.T @ test) * inner))
        return _trace(submatrix(gram, self.test, self.test)) + fit

    def _missed_by_pca(self, count: int, kept: IntArray) -> float:
        gram = submatrix(self.whole, self.train, self.train)
        if type(gram) is np.ndarray and len(gram) > MANY_ROWS and FEW * count < len(gram):
            values, vectors = leading_pairs(len(gram), lambda vectors: gram @ vectors, count)
        else:
            values, vectors = eigh(gram)
            xp = self.columns.xp
            values, vectors = xp.flip(values)[:count], xp.flip(vectors, axis=1)[:, :count]
        large = values > 1e-10 * values[0]
        axes = vectors[:, large] / values[large] ** 0.5
        scores = submatrix(self.whole, self.test, self.train) @ axes
        missed = self.total - float((scores**2).sum())
        if kept.size == 0:
            return missed
        block = self._block(kept)
        fit = scores @ (block[like(self.train, block), :].T @ axes).T
        return missed - float(((block[like(self.test, block), :] - fit) ** 2).sum())

    def leave_one_out(self, features: IntArray) -> FloatArray:
        values, vectors = eigh(submatrix(self.gram, self.train, self.train))
        large = values > EIGENVALUE * values[-1]
        values, vectors = values[large], vectors[:, large]
        axes = vectors / values**0.5
        scores = submatrix(self.gram, self.test, self.train) @ axes
        block = self._block(features)
        loadings = block[like(self.train, block), :].T @ axes
        test = block[like(self.test, block), :]
        return _leave_one_out(values, loadings, test, scores)


@dataclass(frozen=True)
class _ScatterFold(Fold):
    """Seen through scatter matrices (many samples), both around the training mean."""

    train: Array = field(repr=False)
    test: Array = field(repr=False)
    n_train: int
    inside: Mask

    def squares(self, features: IntArray) -> FloatArray:
        return to_host(array_namespace(self.test).linalg.diagonal(self.test))[features]

    @property
    def total(self) -> float:
        return _trace(self.test)

    @property
    def total_inside(self) -> float:
        return float(self.squares(np.flatnonzero(self.inside)).sum())

    def _missed_inside(self, features: IntArray, *, ridge: bool) -> float:
        xp = array_namespace(self.train)
        outcomes = self.inside.copy()
        outcomes[features] = False
        dropped = like(np.flatnonzero(outcomes), self.train)
        total = float(self.squares(np.flatnonzero(outcomes)).sum())
        squares = xp.linalg.diagonal(self.train) + xp.linalg.diagonal(self.test)
        features = features[to_host(squares)[features] > 0]
        if features.size == 0:
            return total
        index = like(features, squares)
        scale = 1 / squares[index] ** 0.5
        inner = self.train[index, :][:, index] * scale * scale[:, None]
        values, axes = eigh(inner)
        values = positive_part(values)
        image = axes.T @ (self.train[index, :][:, dropped] * scale[:, None])
        large = values > RCOND**2 * values[-1]
        values, axes, image = values[large], axes[:, large], image[large, :]
        added = 0.0
        if ridge:
            seen = to_host(xp.sum(image**2, axis=1) / values)
            own = float(xp.sum(xp.linalg.diagonal(self.train)[dropped]))
            added = choose_ridge(to_host(values), seen, own, self.n_train)
        weights = (axes / (values + added)) @ image * scale[:, None]
        fit = weights.T @ self.test[index, :][:, index]
        return total + float(xp.sum((fit - 2 * self.test[dropped, :][:, index]) * weights.T))

    def _missed_by_pca(self, count: int, kept: IntArray) -> float:
        axes = eigh(self.train)[1]
        axes = axes[:, max(0, axes.shape[1] - count) :]
        image = self.test @ axes
        missed = self.total - float((axes * image).sum())
        if kept.size == 0:
            return missed
        mine = axes[like(kept, axes), :]
        inner = axes.T @ image
        fit = ((mine @ inner) * mine).sum() - 2 * (mine * image[like(kept, axes), :]).sum()
        return missed - float(self.squares(kept).sum()) - float(fit)

    def leave_one_out(self, features: IntArray) -> FloatArray:
        xp = array_namespace(self.train)
        among = np.flatnonzero(self.inside)
        values, vectors = eigh(submatrix(self.train, among, among))
        large = values > EIGENVALUE * values[-1]
        values, vectors = values[large], vectors[:, large]
        place = like(np.searchsorted(among, features), self.train)
        test = submatrix(self.test, among, among)
        inner = vectors.T @ test @ vectors
        loadings = vectors[place, :]
        own = like(self.squares(features), self.train)
        cross = test[place, :] @ vectors  # Σ x_j (Vᵀx), feature by feature
        ridges = (float(xp.max(values)) if values.shape[0] else 1.0) * CEILING_RIDGES
        errors = []
        for ridge in ridges:
            weighted = loadings * (values / (values + float(ridge)))
            fit = xp.sum((weighted @ inner) * weighted, axis=1)
            residual = own - 2 * xp.sum(weighted * cross, axis=1) + fit
            errors.append(to_host(residual / (1 - xp.sum(weighted * loadings, axis=1)) ** 2))
        return np.maximum(np.array(errors), 0.0)


def _leave_one_out(values: Array, loadings: Array, test: Array, scores: Array) -> FloatArray:
    """Return Σε_j² for every ridge from V (rows of the features), their test values and XV."""
    xp = array_namespace(values)
    ridges = (float(xp.max(values)) if values.shape[0] else 1.0) * CEILING_RIDGES
    errors = []
    for ridge in ridges:
        weighted = loadings * (values / (values + float(ridge)))
        residual = test - scores @ weighted.T
        own = 1 - xp.sum(weighted * loadings, axis=1)
        errors.append(to_host(xp.sum(residual**2, axis=0) / own**2))
    return np.array(errors)


def _difference(whole: float, part: float) -> float:
    """Return whole - part, and 0 where it is rounding."""
    return whole - part if part < (1 - ROUNDING) * whole else 0.0


def _trace(matrix: Array) -> float:
    return float(array_namespace(matrix).linalg.trace(matrix))


def held_out_folds(
    moments: Moments, one: IntArray, other: IntArray, inside: tuple[Mask, Mask] | None = None
) -> tuple[Fold, Fold]:
    """Return two folds: fitted to ``one`` and judged on ``other``, and the other way round.

    Parameters
    ----------
    moments : Moments
        The data, with their samples.
    one, other : ndarray of int
        Rows of the two parts.
    inside : tuple of ndarray of bool or None
        J of each fold; None is all features.
    """
    first, second = cross_validation_folds(moments, [other, one], inside)
    return first, second


def cross_validation_folds(
    moments: Moments, parts: Sequence[IntArray], inside: Sequence[Mask] | None = None
) -> list[Fold]:
    """Return one fold for each part of the samples: fitted to all other parts, judged on it.

    Parameters
    ----------
    moments : Moments
        The data, with their samples.
    parts : sequence of ndarray of int
        Rows of each part.
    inside : sequence of ndarray of bool or None
        J of each fold; None is all features.
    """
    moments = apart(moments, parts)
    rows = np.concatenate(parts)
    ends = np.cumsum([part.size for part in parts])
    masks = inside or [np.ones(moments.n_features, dtype=bool)] * len(parts)
    if moments.n_features > rows.size:
        # Samples that are elsewhere come as products of all of them only.
        if rows.size == moments.n_samples or moments.elsewhere:
            columns, everyone, tests = feature_columns(moments), rows, list(parts)
        else:
            columns = feature_columns(Moments.from_data(_rows(moments.data, rows), copy=False))
            everyone = np.arange(rows.size)
            tests = np.split(everyone, ends[:-1])
        gram = columns.gram()
        return [
            _row_fold(columns, gram, np.setdiff1d(everyone, test), test, mask)
            for test, mask in zip(tests, masks, strict=True)
        ]
    cut = [Moments.from_data(_rows(moments.data, part), copy=False) for part in parts]
    return _scatter_folds(cut, moments, masks)


def folds_of_halves(moments: Moments, inside: Sequence[Mask] | None = None) -> list[Fold]:
    """Return two folds from the moments of two halves, for samples that are not at hand."""
    assert moments.halves is not None
    masks = inside or [np.ones(moments.n_features, dtype=bool)] * 2
    return _scatter_folds(list(moments.halves)[::-1], moments, masks)


def _scatter_folds(parts: list[Moments], whole: Moments, masks: Sequence[Mask]) -> list[Fold]:
    return [
        _scatter_fold(
            reduce(operator.add, parts[:k] + parts[k + 1 :]), part, whole.total_variance, mask
        )
        for k, (part, mask) in enumerate(zip(parts, masks, strict=True))
    ]


def _rows(data: Any, rows: IntArray) -> Any:
    return data[like(rows, data)] if is_device_array(data) else data[rows]


def _row_fold(
    columns: Columns, gram: Array, train: IntArray, test: IntArray, inside: Mask
) -> _RowFold:
    whole = _around(gram, train)
    among = whole if inside.all() else _around(_gram_of(columns, inside, gram), train)
    return _RowFold(columns, train, test, inside, whole, among)


def _gram_of(columns: Columns, mask: Mask, whole: Array) -> Array:
    """Return XXᵀ of some features, from those in the mask or those outside, whichever are fewer."""
    few = 2 * np.count_nonzero(mask) <= mask.size
    chosen = np.flatnonzero(mask if few else ~mask)
    gram = columns.xp.zeros_like(whole)
    for part in blocks(chosen.size):
        block = columns.take(chosen[part])
        gram = gram + block @ block.T
    return gram if few else whole - gram


def _around(gram: Array, train: IntArray) -> Array:
    """Return a Gram matrix around the mean of the training samples."""
    inside = like(train, gram)
    mean = gram[:, inside].mean(axis=1)
    return gram - mean - mean[:, None] + float(mean[inside].mean())


def _scatter_fold(train: Moments, test: Moments, unit: float, inside: Mask) -> _ScatterFold:
    other = test.native
    # Moments that were added are on the host, wherever their samples are.
    mean, scatter = like(train.mean, other.mean), like(train.scatter, other.scatter)
    shift = (other.mean - mean) * float(np.sqrt(test.n_samples / unit))
    around = other.scatter / unit + shift[:, None] * shift
    return _ScatterFold(scatter / unit, around, train.n_samples, inside)
