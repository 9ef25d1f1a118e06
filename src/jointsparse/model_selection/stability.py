r"""Which features are chosen again on other samples: themselves, or others that stand in for them.

Where features are nearly copies of each other, which of them is kept is chance, and a good method
looks unstable. So everything is also counted by groups of features that stand in for one another
(squared correlation with the first of the group of at least 0.8; the first are those that share
most with others). With :math:`G_1, \dots, G_m` the groups and :math:`H_i` what is kept on
subsample i, group g is kept where :math:`G_g\cap H_i\ne\emptyset`, and Nogueira's index is that of
these m zeros and ones. Groups are a property of the table: the same for all methods.
"""

from __future__ import annotations

import html
import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.metrics import selection_stability
from jointsparse.model_selection.grid import as_moments, check_rows, check_selector, fit_to
from jointsparse.moments import Moments
from jointsparse.partition import some_rows
from jointsparse.selection.choosing import is_number
from jointsparse.significance import feature_significance
from jointsparse.solvers.picking.stand_ins import found_again, groups_of_stand_ins
from jointsparse.solvers.products.columns import feature_columns
from jointsparse.steps import counting

LISTED = 15  # features that are printed


@dataclass(frozen=True)
class StabilitySelection:
    """What :func:`stability_selection` found.

    Attributes
    ----------
    supports : ndarray of bool, shape (n_subsamples, n_features)
        What was kept on each subsample; rows 2k and 2k + 1 are a complementary pair.
    frequencies : ndarray of shape (n_features,)
        Share of the subsamples on which a feature was kept.
    found_again : ndarray of shape (n_features,)
        Share of the subsamples on which a feature *or one that stands in for it* was kept: a
        squared correlation of at least 0.8 in all samples.
    stability, lower, upper : float
        Nogueira's index of the selections, 1 when all are the same and 0 on average at random, and
        its 95 % confidence interval.
    groups : ndarray of int of shape (n_features,)
        Number of the group of each feature: features that stand in for the first of the group.
    group_stability, group_lower, group_upper : float
        The same index of the groups: a group is kept where one of its features is.
    threshold : float
        Frequency from which a feature counts as stable.
    feature_names : ndarray of shape (n_features,) or None
        Names of the features, where X had any.
    """

    supports: NDArray[np.bool_]
    frequencies: FloatArray
    found_again: FloatArray
    stability: float
    lower: float
    upper: float
    groups: IntArray
    group_stability: float
    group_lower: float
    group_upper: float
    threshold: float
    feature_names: NDArray[Any] | None

    def get_support(self, threshold: float | None = None, *, indices: bool = False) -> Any:
        """Return the stable features, as a mask or as indices, at this or another threshold."""
        mask = self.frequencies >= (self.threshold if threshold is None else threshold)
        return np.flatnonzero(mask) if indices else mask

    @property
    def error_bound(self) -> float:
        r"""Upper bound on the expected number of stable features that are kept at random.

        With q of p features kept on average and threshold τ, at most q²/(p(2τ - 1)) of the stable
        features are expected to be ones that a subsample keeps with probability below q/p. No
        assumption on the data or the method is made.
        """
        kept = float(self.supports.sum(axis=1).mean())
        return kept**2 / (self.frequencies.size * (2 * self.threshold - 1))

    def __str__(self) -> str:
        stable = self.get_support(indices=True)
        lines = [
            f"{stable.size} of {self.frequencies.size} features are kept on at least "
            f"{self.threshold:.0%} of {len(self.supports)} subsamples; stability "
            f"{self.stability:.2f} (95 % interval {self.lower:.2f} to {self.upper:.2f}), of groups "
            f"that stand in for one another {self.group_stability:.2f} ({self.group_lower:.2f} to "
            f"{self.group_upper:.2f}); kept, and kept itself or by a stand-in:"
        ]
        lines += [f"  {own:4.0%}  {again:4.0%}  {n}" for n, own, again in self._most_frequent()]
        return "\n".join(lines)

    def _most_frequent(self) -> list[tuple[str, float, float]]:
        names, own, again = self.feature_names, self.frequencies, self.found_again
        return [
            (f"feature {j}" if names is None else str(names[j]), float(own[j]), float(again[j]))
            for j in np.argsort(-own, kind="stable")[:LISTED]
        ]

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{own:.0%}</td><td>{again:.0%}</td><td>{html.escape(name)}</td></tr>"
            for name, own, again in self._most_frequent()
        )
        first = html.escape(str(self).partition("\n")[0])
        titles = "".join(f"<th>{title}</th>" for title in ("kept", "or a stand-in", "feature"))
        return f"<p>{first}</p><table><tr>{titles}</tr>{rows}</table>"


def stability_selection(
    estimator: Any,
    X: Any,
    *,
    n_subsamples: int = 50,
    share: float = 0.5,
    threshold: float = 0.75,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> StabilitySelection:
    r"""Select features again and again on subsamples, and count how often each is kept.

    The subsamples come in complementary pairs: two disjoint random parts of the samples. A feature
    whose frequency :math:`\hat\pi_j` reaches the threshold τ is stable; of the features that a
    subsample keeps with a probability below average, at most

    .. math:: \frac{q^2}{p\,(2\tau - 1)}

    are expected to be called stable, q of p features being kept on average.

    Where features stand in for one another (:math:`r_{jk}^2\ge 0.8`) each is kept now and then.
    What is kept is therefore also counted with stand-ins, ``found_again``, and by groups of them,
    ``group_stability``.

    Parameters
    ----------
    estimator : estimator
        A selector; not modified. It should keep a fixed number of features.
    X : array-like, data frame or sparse matrix of shape (n_samples, n_features), or Moments
        Samples, or their moments where they hold the samples.
    n_subsamples : int, default=50
        Number of subsamples; even, as they come in pairs.
    share : float, default=0.5
        Share of the samples in each; at most 0.5, so that two are disjoint.
    threshold : float, default=0.75
        Frequency τ from which a feature is stable; above 0.5.
    random_state : int, RandomState instance or None, default=0
        Seed of the subsamples.
    n_jobs : int or None, default=None
        Threads; -1 is one for each core.

    Returns
    -------
    StabilitySelection

    Notes
    -----
    Groups are made on all samples, in one pass: the feature that shares most with others leads a
    group, of all features that stand in for it; of those left, the one that shares most leads the
    next. Members stand in for the first of their group, not always for each other. The bound on
    stable features is about ``frequencies``, not about ``found_again``.

    The confidence intervals treat the subsamples as independent of each other, which overlapping
    ones are not: they say how well an index is estimated, not how it would vary with other data.

    References
    ----------
    Shah, Samworth (2013). Variable selection with error control: another look at stability
    selection. Journal of the Royal Statistical Society B 75(1): complementary pairs, theorem 1.

    Nogueira, Sechidis, Brown (2018). On the stability of feature selection algorithms. Journal of
    Machine Learning Research 18(174).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import GreedySelector, stability_selection
    >>> X = StandardScaler().fit_transform(load_breast_cancer().data)
    >>> found = stability_selection(GreedySelector(n_features_to_select=5), X, n_subsamples=20)
    >>> found.supports.shape, found.supports.sum(axis=1).max()
    ((20, 30), np.int64(5))
    >>> bool(found.lower < found.stability < found.upper)
    True
    >>> bool(found.stability < found.group_stability)
    True
    """
    check_selector(estimator)
    if not is_number(n_subsamples, Integral) or n_subsamples < 2 or n_subsamples % 2:
        raise ValueError(f"n_subsamples={n_subsamples!r} is not an even number of at least 2")
    if not is_number(share) or not 0 < share <= 0.5:
        raise ValueError(
            f"share={share!r} is not above 0 and at most 0.5: two subsamples must be disjoint"
        )
    if not is_number(threshold) or not 0.5 < threshold <= 1:
        raise ValueError(f"threshold={threshold!r} is not above 0.5 and at most 1")
    moments = as_moments(estimator, X)
    check_rows(moments, "stability_selection")
    pairs = complementary_pairs(moments.n_samples, int(n_subsamples) // 2, share, random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of subsamples; the estimator warns on all samples
        supports = _supports(estimator, moments, [rows for pair in pairs for rows in pair], n_jobs)
    kept = np.array(supports)
    columns, groups = feature_columns(moments), stand_in_groups(moments)
    again = found_again(columns, np.arange(kept.shape[1]), [np.flatnonzero(row) for row in kept])
    return StabilitySelection(
        kept,
        kept.mean(axis=0),
        again,
        *selection_stability(kept),
        groups,
        *group_stability(kept, groups),
        float(threshold),
        moments.feature_names,
    )


def _supports(
    estimator: Any, moments: Moments, parts: list[NDArray[np.int64]], n_jobs: int | None
) -> list[NDArray[np.bool_]]:
    with counting("subsamples", len(parts)) as one_done:

        def support(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
            found = support_on(estimator, moments, rows)
            one_done()
            return found

        found: list[NDArray[np.bool_]] = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(support)(rows) for rows in parts
        )
    return found


def complementary_pairs(
    n_samples: int, n_pairs: int, share: float = 0.5, random_state: Any = 0
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return pairs of disjoint random parts of the samples."""
    size = int(share * n_samples + 1e-9)
    if size < 2:
        raise ValueError(
            f"a share of {share:g} of {n_samples} samples leaves {size} in a subsample; at least "
            "2 are needed"
        )
    random = check_random_state(random_state)
    orders = [random.permutation(n_samples) for _ in range(n_pairs)]
    return [(np.sort(order[:size]), np.sort(order[size : 2 * size])) for order in orders]


def support_on(estimator: Any, moments: Moments, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return what an estimator keeps on some of the samples."""
    part = some_rows(moments, rows)
    return np.asarray(fit_to(clone(estimator), part).get_support(), dtype=bool)


def stand_in_groups(moments: Moments) -> IntArray:
    """Return the group of each feature; features that share most with others lead them."""
    shares = feature_significance(moments).shares
    return groups_of_stand_ins(feature_columns(moments), np.argsort(-shares, kind="stable"))


def group_stability(supports: NDArray[np.bool_], groups: IntArray) -> tuple[float, float, float]:
    """Return Nogueira's index, and its interval, of selections seen as groups of features."""
    kept = np.zeros((len(supports), int(groups.max()) + 1), dtype=bool)
    for row, support in zip(kept, supports, strict=True):
        row[groups[support]] = True
    return selection_stability(kept)
