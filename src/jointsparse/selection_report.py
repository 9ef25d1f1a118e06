r"""What a set of features is worth, and which of them stands in for a feature that was dropped.

Worth is R², the share of the variance of *all* features that a linear regression on the kept ones
explains. Held out: the samples are cut into two halves at random (always the same way); the
regression is fitted on one half and judged on the other, then the other way round. Beside it stand
what as many principal components explain, the best that any linear method could do on the samples
it was fitted to, and what random sets of the same size explain: the least that a selection must do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import to_host
from jointsparse.linalg import array_namespace, blocks, eigh
from jointsparse.moments import Moments
from jointsparse.solvers.columns import Columns, feature_columns
from jointsparse.solvers.held_out import RCOND, folds_of_halves, held_out_folds
from jointsparse.text import counted

N_RANDOM = 10  # random sets of the same size
N_STAND_INS = 3
MOST_ROWS = 4096  # samples of each half; more would not change the first two digits


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
        NaN where there were fewer than four samples, or only moments without those of two halves.
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

    def _repr_html_(self) -> str:
        """Show the shares as a small table in a notebook."""
        own, pca, mean, spread = self.worth
        rows = {
            counted(self.n_kept, "kept feature"): f"{own:.1%}",
            counted(self.n_kept, "principal component"): f"{pca:.1%}",
            counted(self.n_kept, "random feature"): f"{mean:.1%} ± {spread:.1%}",
        }
        where = "held-out samples" if self.held_out else "these samples"
        body = "".join(f"<tr><th>{name}</th><td>{share}</td></tr>" for name, share in rows.items())
        return (
            f"<table><caption>Variance of all {counted(self.n_features, 'feature')} explained, on "
            f"{where}</caption><tbody>{body}</tbody></table>"
        )

    def __str__(self) -> str:
        own, pca, mean, spread = self.worth
        where = "of held-out samples" if self.held_out else "of the samples"
        return (
            f"{self.n_kept} of {counted(self.n_features, 'feature')} "
            f"{'explains' if self.n_kept == 1 else 'explain'} {own:.1%} of the variance {where}; "
            f"{counted(self.n_kept, 'principal component')} {pca:.1%}; "
            f"{counted(self.n_kept, 'random feature')} {mean:.1%} ± {spread:.1%}"
        )


def selection_report(moments: Moments, kept: Any) -> SelectionReport:
    """Measure what a set of features is worth.

    Parameters
    ----------
    moments : Moments
        The data; held-out figures need the samples in it, or the moments of two halves.
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
    if moments.n_samples >= 4 and (moments.has_samples or moments.halves):
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


def _basis(columns: Columns, features: IntArray) -> Array:
    """Return an orthonormal basis of some columns."""
    block = columns.take(features)
    lengths = columns.xp.linalg.vector_norm(block, axis=0)
    block = block[:, lengths > 0] / lengths[lengths > 0]
    if block.shape[1] == 0:
        return block
    values, axes = eigh(block.T @ block)  # cheaper than the SVD, and accurate enough
    large = values > RCOND**2 * values[-1]
    return block @ (axes[:, large] / values[large] ** 0.5)


def _explained(columns: Columns, features: IntArray) -> float:
    basis = _basis(columns, features)
    parts = (columns.inner(basis, part) for part in blocks(columns.n_features))
    return min(1.0, float(sum((part**2).sum() for part in parts)))


def _pca_curve(columns: Columns, count: int) -> FloatArray:
    values = np.clip(to_host(columns.leading_values(count)), 0.0, None)
    curve = np.ones(count)
    curve[: values.size] = np.minimum(np.cumsum(values), 1.0)
    return curve


def _halves(n_samples: int) -> tuple[IntArray, IntArray]:
    order = np.random.default_rng(0).permutation(n_samples)[: 2 * MOST_ROWS]
    middle = order.size // 2
    return np.sort(order[:middle]), np.sort(order[middle:])


def _held_out(moments: Moments, sets: Sequence[IntArray]) -> FloatArray:
    """Return R² of each set of features, and of as many principal components as the first has."""
    missed, total = np.zeros(len(sets) + 1), 0.0
    folds = (
        held_out_folds(moments, *_halves(moments.n_samples))
        if moments.has_samples
        else folds_of_halves(moments)
    )
    for fold in folds:
        missed += [*(fold.missed(features) for features in sets), fold.missed_by_pca(sets[0].size)]
        total += fold.total
    if total <= 0:
        return np.full(missed.size, np.nan)
    return 1 - missed / total


def _stand_ins(columns: Columns, kept: IntArray) -> StandIns:
    mask = np.ones(columns.n_features, dtype=bool)
    mask[kept] = False
    dropped = np.flatnonzero(mask)
    lengths = np.sqrt(to_host(columns.squares))
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    block = columns.take(kept) * columns.here(inverse[kept])
    basis = _basis(columns, kept)
    depth = min(N_STAND_INS, kept.size)
    chosen = np.empty((dropped.size, depth), dtype=np.int64)
    r2 = np.empty((dropped.size, depth))
    r2_all = np.empty(dropped.size)
    for part in blocks(dropped.size):
        scale = columns.here(inverse[dropped[part]])
        images = columns.inner(basis, dropped[part]) * scale
        r2_all[part] = to_host(columns.xp.sum(images**2, axis=0))
        correlations = (columns.inner(block, dropped[part]) * scale).T
        picks, shares = _few_that_explain(block.T @ block, correlations, depth)
        chosen[part], r2[part] = to_host(picks), to_host(shares)
    chosen = np.where(chosen >= 0, kept[chosen], -1)
    constant = lengths[dropped] == 0
    r2_all = np.minimum(r2_all, 1.0)
    r2_all[constant] = r2[constant] = np.nan
    return StandIns(dropped, chosen, np.minimum(r2, 1.0), r2_all)


def _few_that_explain(inner: Array, correlations: Array, depth: int) -> tuple[Array, Array]:
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
    n = correlations.shape[0]
    xp, device = array_namespace(inner), inner.device
    everyone = xp.arange(n, device=device)
    # what the picks leave of each kept feature
    left = xp.ones_like(correlations) * xp.linalg.diagonal(inner)
    covariance = xp.asarray(correlations, copy=True)
    directions: list[Array] = []
    picks = xp.empty((n, depth), dtype=xp.int64, device=device)
    r2 = xp.zeros((n, depth), dtype=inner.dtype, device=device)
    for step in range(depth):
        usable = left > 1e-9
        gain = xp.where(usable, covariance**2 / xp.where(usable, left, 1.0), 0.0)
        pick = xp.argmax(gain, axis=1)
        worthwhile = gain[everyone, pick] > 1e-12
        picks[:, step] = xp.where(worthwhile, pick, -1)
        r2[:, step] = r2[:, step - 1] + gain[everyone, pick]
        column = inner[pick, :]
        for direction in directions:
            column = column - direction * direction[everyone, pick][:, None]
        root = xp.sqrt(xp.where(worthwhile, left[everyone, pick], 1.0))
        direction = xp.where(worthwhile[:, None], column / root[:, None], 0.0)
        covariance -= direction * (covariance[everyone, pick] / root)[:, None]
        left -= direction**2
        directions.append(direction)
    return picks, r2
