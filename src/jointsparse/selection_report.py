r"""What a set of features is worth, and which of them stands in for a feature that was dropped.

Three numbers, each with one meaning wherever it is shown:

* what the kept features **predict** of the dropped ones in new samples: the selection is repeated
  in parts of the samples, and each part judges what was found without it
  (:mod:`jointsparse.trials`).
  Beside it stand random sets of the same size, as many principal components, and what all other
  features together predict;
* what they **account for** in this table: R² of all features on the kept ones, in the samples that
  they were chosen on;
* what they **make up**: their own share of the total variance.

Where features stand in for one another, which of them is kept is chance. So each kept feature is
looked for in what was picked without each part: itself, or a feature that stands in for it
(squared correlation of at least 0.8, :mod:`jointsparse.solvers.picking.stand_ins`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import to_host
from jointsparse.extremes import Extremes, extreme_values
from jointsparse.linalg import array_namespace, blocks, eigh
from jointsparse.moments import Moments
from jointsparse.selection.verdict import UNRELATED, rows_of, verdict_of
from jointsparse.significance import feature_significance
from jointsparse.solvers.picking.held_out import RCOND
from jointsparse.solvers.picking.stand_ins import found_again
from jointsparse.solvers.products.columns import Columns, feature_columns
from jointsparse.trials import N_RANDOM, Curve, Cut, Trials, Worth

N_STAND_INS = 3


@dataclass(frozen=True)
class StandIns:
    """For each dropped feature, the kept ones that stand in for it best, taken greedily.

    Attributes
    ----------
    dropped : ndarray of shape (n_dropped,)
        The dropped features.
    kept : ndarray of shape (n_dropped, n_stand_ins)
        The kept feature that has most of it, the one that adds most to that, …; -1 for none.
    r2 : ndarray of shape (n_dropped, n_stand_ins)
        Share of the dropped feature's variance that the first, the first two, … account for.
    r2_all : ndarray of shape (n_dropped,)
        What all kept features together account for of it; NaN for a constant feature.
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
    """What a set of features is worth.

    Attributes
    ----------
    n_kept, n_features : int
        Size of the set and number of all features.
    n_patterns : int
        Independent patterns in the table: directions above the noise.
    more_patterns : bool
        Whether counting stopped before the noise was reached: then there are more.
    n_significant, n_kept_significant : int
        Features that share something with others, and how many of these are kept.
    worth : Worth or None
        What is predicted in new samples; None where nothing was kept or could be held out.
    why_not : str
        Why that is not known.
    r2, pca_r2 : float
        Share of all features, in this table, that the kept ones and as many principal components
        account for.
    random_r2 : ndarray of shape (20,)
        What random sets of the same size account for in this table.
    own_share : float
        Share of the total variance that the kept features themselves make up.
    pca_curve : ndarray of shape (n_kept,)
        What the first principal component, the first two, … account for.
    stand_ins : StandIns
        For each dropped feature, the kept ones that predict it.
    kept : ndarray of int of shape (n_kept,)
        The kept features, best first.
    found_again : ndarray of shape (n_kept,)
        For each of them, the share of the parts without which it *or a feature that stands in for
        it* is among as many picks: 1 where it does not depend on the samples at hand. NaN where the
        selection was not repeated in parts.
    emptied : bool
        Whether nothing is kept because the model's penalties removed every feature.
    extremes : Extremes or None
        Columns and samples that hold a few gross values; None where that is not known.
    curve : Curve or None
        What other numbers of features predict in new samples; None where ``worth`` is.
    about : tuple of str
        What was done to the samples before the fit: missing values, batches.
    untested : str
        Why patterns could not be told from noise; nothing where they could.
    """

    n_kept: int
    n_features: int
    n_patterns: int
    more_patterns: bool
    n_significant: int
    n_kept_significant: int
    worth: Worth | None
    why_not: str
    r2: float
    pca_r2: float
    random_r2: FloatArray
    own_share: float
    pca_curve: FloatArray
    stand_ins: StandIns
    kept: IntArray
    found_again: FloatArray
    emptied: bool = False
    extremes: Extremes | None = None
    curve: Curve | None = None
    about: tuple[str, ...] = ()
    untested: str = ""

    @property
    def extremes_matter(self) -> bool:
        """Whether gross values concern this set: see :meth:`Extremes.matter`."""
        return self.extremes is not None and self.extremes.matter(self.kept)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to know about the table beside the verdict, and what to do; usually nothing."""
        if self.extremes is None or not self.extremes_matter:
            return self.about
        return (*self.about, *self.extremes.sentences())

    @property
    def held_out(self) -> bool:
        """Whether there were samples to hold out."""
        return self.worth is not None

    @property
    def r2_held_out(self) -> float:
        """Share of the dropped features that the kept ones predict; NaN if unknown."""
        return float("nan") if self.worth is None else self.worth.r2

    @property
    def pca_r2_held_out(self) -> float:
        """What as many principal components, made of all features, give of the dropped ones."""
        return float("nan") if self.worth is None else self.worth.pca

    @property
    def random_r2_held_out(self) -> FloatArray:
        """What random sets of the same size predict, in the same folds."""
        return np.full(N_RANDOM, np.nan) if self.worth is None else self.worth.random

    @property
    def ceiling(self) -> float:
        """What all other significant features together predict of the dropped ones."""
        return float("nan") if self.worth is None else self.worth.ceiling

    @property
    def coverage(self) -> float:
        """Share of what can be predicted that the kept features carry."""
        return float("nan") if self.worth is None else self.worth.coverage

    @property
    def headline(self) -> tuple[float, float, float, float]:
        """Share of the set and of PCA, mean and spread of random sets: in new samples, if known."""
        if self.worth is None:
            own, pca, random = self.r2, self.pca_r2, self.random_r2
        else:
            own, pca, random = self.worth.r2, self.worth.pca, self.worth.random
        return own, pca, float(np.mean(random)), float(np.std(random, ddof=1))

    @property
    def of_related(self) -> tuple[float, float, float] | None:
        """Where most features are unrelated, the share of the others: of the set, of random sets.

        That of the random sets as mean and spread; None where the verdict is about all features.
        """
        if self.worth is None or self.worth.ceiling >= UNRELATED:
            return None
        if self.n_related_dropped == 0:
            return None
        random = self.worth.random_significant
        return self.worth.r2_significant, float(np.mean(random)), float(np.std(random, ddof=1))

    @property
    def beaten_by(self) -> int:
        """How many of the twenty random sets predict as much in new samples.

        Where most features are unrelated to the others, of those that are not: that is what the
        verdict tells, and what all others predict of the rest is next to nothing.
        """
        worth = self.worth
        if worth is None:
            return 0
        own, random = worth.r2, worth.random
        if self.mostly_unrelated:
            own, random = worth.r2_significant, worth.random_significant
        return int(np.count_nonzero(random >= own - 1e-9))

    @property
    def is_noise(self) -> bool:
        """Whether nothing is above the noise: no pattern, and no two features that go together."""
        return self.n_patterns == 0 and self.n_significant == 0

    @property
    def n_related_dropped(self) -> int:
        """How many of the features that share something with others are dropped."""
        return self.n_significant - self.n_kept_significant

    @property
    def mostly_unrelated(self) -> bool:
        """Whether all other features together predict less than a tenth of the dropped ones."""
        return self.worth is not None and self.worth.ceiling < UNRELATED

    @property
    def verdict(self) -> str:
        """The answer in one sentence, with its numbers."""
        return verdict_of(self)

    @property
    def rows(self) -> dict[str, str]:
        """What is shown of the report as a table: a name for each number."""
        return rows_of(self)

    def _repr_html_(self) -> str:
        """Show the verdict and its numbers in a notebook."""
        body = "".join(f"<tr><th>{n}</th><td>{v}</td></tr>" for n, v in self.rows.items())
        return f"<p>{self}</p><table><tbody>{body}</tbody></table>"

    def __str__(self) -> str:
        return " ".join([self.verdict, *(f"Note: {remark}." for remark in self.remarks)])


def selection_report(
    moments: Moments,
    kept: Any,
    cut: Cut | None = None,
    extremes: Extremes | None = None,
    *,
    emptied: bool = False,
) -> SelectionReport:
    """Measure what a set of features is worth.

    Parameters
    ----------
    moments : Moments
        The data.
    kept : ndarray of int
        The kept features, best first; may be none.
    cut : Cut or None
        The samples in parts, with what was picked without each part; None where there is nothing to
        hold out.
    emptied : bool
        Whether nothing is kept because no feature is left in the model.
    extremes : Extremes or None
        Gross values, where they are known of more samples than these; None looks for them here.
    """
    kept = np.asarray(kept, dtype=np.int64)
    found = feature_significance(moments)
    varying = np.flatnonzero(moments.variances > 0)
    rng = np.random.default_rng(0)
    size = min(kept.size, varying.size)
    columns = feature_columns(moments)
    own, *others = (
        _explained(columns, features)
        for features in [kept, *(rng.choice(varying, size, replace=False) for _ in range(N_RANDOM))]
    )
    pca_curve = _pca_curve(columns, kept.size)
    worth = curve = None
    if cut is not None and cut.picked and 0 < kept.size < moments.n_features:
        trials = Trials(moments, cut)
        worth = trials.worth(kept.size)
        curve = trials.curve(kept.size) if cut.repeated else None
    return SelectionReport(
        n_kept=kept.size,
        n_features=moments.n_features,
        n_patterns=found.n_significant,
        more_patterns=found.limited,
        n_significant=int(found.significant.sum()),
        n_kept_significant=int(found.significant[kept].sum()),
        worth=worth,
        why_not=_why_not_held_out(moments, kept, cut),
        r2=own,
        pca_r2=float(pca_curve[-1]) if kept.size else 0.0,
        random_r2=np.array(others),
        own_share=float(moments.variances[kept].sum() / moments.total_variance),
        pca_curve=pca_curve,
        stand_ins=_stand_ins(columns, kept),
        kept=kept,
        found_again=_found_again(columns, kept, cut),
        emptied=emptied,
        untested=found.untested,
        extremes=extreme_values(moments) if extremes is None else extremes,
        curve=curve,
    )


def _why_not_held_out(moments: Moments, kept: IntArray, cut: Cut | None) -> str:
    if kept.size in (0, moments.n_features):
        return "every feature is kept" if kept.size else "nothing is kept"
    return "there are no samples to hold out" if cut is None else cut.why_not


def _found_again(columns: Columns, kept: IntArray, cut: Cut | None) -> FloatArray:
    if cut is None or not (cut.picked and cut.repeated):
        return np.full(kept.size, np.nan)
    return found_again(columns, kept, [picked.order[: kept.size] for picked in cut.picked])


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
