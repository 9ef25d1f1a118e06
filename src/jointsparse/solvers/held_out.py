"""Regressions of all features on some, fitted to one part of the samples and judged on another.

They have a ridge, chosen by generalised cross-validation on the fitting part alone: without one, a
set about as large as the number of samples would fit their noise, whatever it is worth.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.linalg import array_namespace, eigh, positive_part, submatrix
from jointsparse.moments import Moments
from jointsparse.solvers.columns import Columns, feature_columns
from jointsparse.solvers.sparse_columns import leading_pairs

MANY_ROWS, FEW = 1000, 10  # of so many eigenvectors, a tenth is found sooner than all
RCOND = 1e-5  # directions of the regressors, at unit length, that are shorter are noise


def choose_ridge(values: FloatArray, seen: FloatArray, total: float, n_samples: int) -> float:
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
    ridges = (values.max(initial=0.0) or 1.0) * np.geomspace(1e-6, 1e2, 17)
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
    gram: Array  # of all samples around the mean of the training ones

    @property
    def total(self) -> float:
        return _trace(submatrix(self.gram, self.test, self.test))

    def missed(self, features: IntArray) -> float:
        # The prediction is linear in the training samples, so Gram matrices are enough.
        xp = self.columns.xp
        block = self.columns.take(features)
        train = like(self.train, block)
        block = block - xp.mean(block[train, :], axis=0)
        # Unit length over both halves: a feature that hardly varies in one must not blow up there.
        lengths = xp.linalg.vector_norm(block, axis=0)
        block = block[:, lengths > 0] / lengths[lengths > 0]
        left, values, right = xp.linalg.svd(block[train, :], full_matrices=False)
        gram = submatrix(self.gram, self.train, self.train)
        seen = xp.sum(left * (gram @ left), axis=0)
        ridge = choose_ridge(to_host(values) ** 2, to_host(seen), _trace(gram), self.train.size)
        inverse = (right.T * (values / (values**2 + ridge))) @ left.T
        test = block[like(self.test, block), :]
        cross = inverse @ submatrix(self.gram, self.train, self.test)
        inner = inverse @ gram @ inverse.T
        fit = -2 * float(xp.sum(test.T * cross)) + float(xp.sum((test.T @ test) * inner))
        return self.total + fit

    def missed_by_pca(self, count: int) -> float:
        gram = submatrix(self.gram, self.train, self.train)
        if type(gram) is np.ndarray and len(gram) > MANY_ROWS and FEW * count < len(gram):
            values, vectors = leading_pairs(len(gram), lambda vectors: gram @ vectors, count)
        else:
            values, vectors = eigh(gram)
            xp = self.columns.xp
            values, vectors = xp.flip(values)[:count], xp.flip(vectors, axis=1)[:, :count]
        large = values > 1e-10 * values[0]
        values, vectors = values[large], vectors[:, large]
        scores = submatrix(self.gram, self.test, self.train) @ (vectors / values**0.5)
        return self.total - float((scores**2).sum())


@dataclass(frozen=True)
class _ScatterFold(Fold):
    """Seen through scatter matrices (many samples), both around the training mean."""

    train: Array
    test: Array
    n_train: int

    @property
    def total(self) -> float:
        return _trace(self.test)

    def missed(self, features: IntArray) -> float:
        xp = array_namespace(self.train)
        squares = xp.linalg.diagonal(self.train) + xp.linalg.diagonal(self.test)
        features = features[to_host(squares)[features] > 0]
        if features.size == 0:
            return self.total
        index = like(features, squares)
        scale = 1 / squares[index] ** 0.5
        inner = self.train[index, :][:, index] * scale * scale[:, None]
        values, axes = eigh(inner)
        values = positive_part(values)
        image = axes.T @ (self.train[index, :] * scale[:, None])
        large = values > RCOND**2 * values[-1]
        values, axes, image = values[large], axes[:, large], image[large, :]
        seen = to_host(xp.sum(image**2, axis=1) / values)
        ridge = choose_ridge(to_host(values), seen, _trace(self.train), self.n_train)
        weights = (axes / (values + ridge)) @ image * scale[:, None]
        fit = weights.T @ self.test[index, :][:, index]
        return self.total + float(xp.sum((fit - 2 * self.test[:, index]) * weights.T))

    def missed_by_pca(self, count: int) -> float:
        axes = eigh(self.train)[1]
        axes = axes[:, max(0, axes.shape[1] - count) :]
        return self.total - float((axes * (self.test @ axes)).sum())


def _trace(matrix: Array) -> float:
    return float(array_namespace(matrix).linalg.trace(matrix))


def held_out_folds(moments: Moments, one: IntArray, other: IntArray) -> tuple[Fold, Fold]:
    """Return two folds: fitted to ``one`` and judged on ``other``, and the other way round."""
    first, second = cross_validation_folds(moments, [other, one])
    return first, second


def cross_validation_folds(moments: Moments, parts: Sequence[IntArray]) -> list[Fold]:
    """Return one fold for each part of the samples: fitted to all other parts, judged on it."""
    rows = np.concatenate(parts)
    if hasattr(moments.data, "transposed_times"):  # elsewhere: of all samples, but only products
        columns = feature_columns(moments)
        gram = columns.gram()
        return [_row_fold(columns, gram, np.setdiff1d(rows, part), part) for part in parts]
    ends = np.cumsum([part.size for part in parts])
    if moments.n_features > rows.size:
        columns = feature_columns(Moments.from_data(_rows(moments.data, rows)))
        gram = columns.gram()
        tests = np.split(np.arange(rows.size), ends[:-1])
        everyone = np.arange(rows.size)
        return [_row_fold(columns, gram, np.setdiff1d(everyone, test), test) for test in tests]
    return _scatter_folds([Moments.from_data(_rows(moments.data, part)) for part in parts], moments)


def folds_of_halves(moments: Moments) -> list[Fold]:
    """Return two folds from the moments of two halves, for samples that are not at hand."""
    assert moments.halves is not None
    return _scatter_folds(list(moments.halves)[::-1], moments)


def _scatter_folds(parts: list[Moments], whole: Moments) -> list[Fold]:
    return [
        _scatter_fold(reduce(operator.add, parts[:k] + parts[k + 1 :]), part, whole.total_variance)
        for k, part in enumerate(parts)
    ]


def _rows(data: Any, rows: IntArray) -> Any:
    return data[like(rows, data)] if is_device_array(data) else data[rows]


def _row_fold(columns: Columns, gram: Array, train: IntArray, test: IntArray) -> _RowFold:
    inside = like(train, gram)
    mean = gram[:, inside].mean(axis=1)
    around = gram - mean - mean[:, None] + float(mean[inside].mean())
    return _RowFold(columns, train, test, around)


def _scatter_fold(train: Moments, test: Moments, unit: float) -> _ScatterFold:
    one, other = train.native, test.native
    shift = (other.mean - one.mean) * float(np.sqrt(test.n_samples / unit))
    around = other.scatter / unit + shift[:, None] * shift
    return _ScatterFold(one.scatter / unit, around, train.n_samples)
