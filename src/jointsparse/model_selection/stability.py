"""Which features are chosen again on other samples."""

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

from jointsparse.arrays import FloatArray
from jointsparse.metrics import selection_stability
from jointsparse.model_selection.grid import as_moments, check_selector, fit_to
from jointsparse.moments import Moments
from jointsparse.selection import is_number

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
    stability, lower, upper : float
        Nogueira's index of the selections, 1 when all are the same and 0 on average at random, and
        its 95 % confidence interval.
    threshold : float
        Frequency from which a feature counts as stable.
    feature_names : ndarray of shape (n_features,) or None
        Names of the features, where X had any.
    """

    supports: NDArray[np.bool_]
    frequencies: FloatArray
    stability: float
    lower: float
    upper: float
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
            f"{self.stability:.2f} (95 % interval {self.lower:.2f} to {self.upper:.2f})"
        ]
        lines += [f"  {share:4.0%}  {name}" for name, share in self._most_frequent()]
        return "\n".join(lines)

    def _most_frequent(self) -> list[tuple[str, float]]:
        names = self.feature_names
        order = np.argsort(-self.frequencies, kind="stable")[:LISTED]
        return [
            (f"feature {j}" if names is None else str(names[j]), float(self.frequencies[j]))
            for j in order
        ]

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{share:.0%}</td><td>{html.escape(name)}</td></tr>"
            for name, share in self._most_frequent()
        )
        first = html.escape(str(self).partition("\n")[0])
        return f"<p>{first}</p><table><tr><th>kept</th><th>feature</th></tr>{rows}</table>"


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
    Where features stand in for one another, each is kept now and then, and the frequencies are low
    though every set is good: look at ``selection_report_.stand_ins`` before calling a method
    unstable. The confidence interval treats the subsamples as independent of each other, which
    overlapping ones are not: it says how well the index is estimated, not how it would vary with
    other data.

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
    if not moments.has_samples:
        raise ValueError("stability_selection needs the samples, not only their moments")
    pairs = complementary_pairs(moments.n_samples, int(n_subsamples) // 2, share, random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of subsamples; the estimator warns on all samples
        supports = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(support_on)(estimator, moments, rows) for pair in pairs for rows in pair
        )
    return _summary(np.array(supports), threshold, moments.feature_names)


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
    part = Moments.from_data(moments.data[rows])
    return np.asarray(fit_to(clone(estimator), part).get_support(), dtype=bool)


def _summary(supports: NDArray[np.bool_], threshold: float, names: Any) -> StabilitySelection:
    stability, lower, upper = selection_stability(supports)
    return StabilitySelection(
        supports, supports.mean(axis=0), stability, lower, upper, float(threshold), names
    )
