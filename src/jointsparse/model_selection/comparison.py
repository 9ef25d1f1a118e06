"""Several methods side by side: what each keeps, what that is worth, how much they agree."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from jointsparse.methods.select_features import SelectFeatures
from jointsparse.methods.sets.constraining import rules_of
from jointsparse.methods.sets.set_certificate import certify_set, sets_in_words
from jointsparse.methods.sets.subset_problem import subset_problem
from jointsparse.metrics import clustering_scores, selection_stability
from jointsparse.model_selection.grid import as_moments, check_rows, fit_to
from jointsparse.model_selection.stability import (
    complementary_pairs,
    group_stability,
    stand_in_groups,
    support_on,
)
from jointsparse.moments import Moments
from jointsparse.partition import some_rows
from jointsparse.selection.choosing import is_number
from jointsparse.significance import feature_significance
from jointsparse.solvers.picking.held_out import Fold, Judged, held_out_folds
from jointsparse.solvers.subset.constraints import Constraints
from jointsparse.solvers.subset.problem import set_value
from jointsparse.solvers.subset.whole_groups import settled
from jointsparse.text import counted, percent
from jointsparse.trials import total_of

SET_TOLERANCE = 1e-9  # share of the variance to which a set is proved to be the best
N_RANDOM = 10  # random sets, each judged in all halves
Interval = tuple[float, float, float]  # value, lower and upper end
MeanAndSpread = tuple[float, float]


@dataclass(frozen=True)
class MethodResult:
    """What one method kept, and what that is worth.

    Attributes
    ----------
    name : str
        Name of the method.
    kept : tuple of int
        The kept features, best first; empty where the method failed.
    seconds : float
        Time of the fit to all samples.
    r2 : tuple of float
        Share of the dropped features that the kept ones predict in new samples: features *and*
        regression from one half, judged on the other. Of all halves together, and the standard
        deviation over them.
    stability : tuple of float
        Nogueira's index of the selections on the halves, and its 95 % confidence interval.
    group_stability : tuple of float
        The same where features that stand in for one another count as one.
    scores : dict or None
        Accuracy, NMI and ARI of K-means on the kept features against the labels: mean and standard
        deviation over the runs. None without labels.
    warnings : tuple of str
        What the method said during the fit to all samples.
    error : str
        Why it failed; empty where it did not.
    set_value : float
        Share of the variance in this table that the kept features account for; NaN before
        :meth:`Comparison.proved`.
    """

    name: str
    kept: tuple[int, ...] = ()
    seconds: float = np.nan
    r2: MeanAndSpread = (np.nan, np.nan)
    stability: Interval = (np.nan, np.nan, np.nan)
    group_stability: Interval = (np.nan, np.nan, np.nan)
    scores: dict[str, MeanAndSpread] | None = None
    warnings: tuple[str, ...] = ()
    error: str = ""
    set_value: float = np.nan


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare_methods` found; plain data, for tables, figures and pages.

    Attributes
    ----------
    results : tuple of MethodResult
        One for each method, in the order given.
    feature_names : tuple of str
        Names of the features.
    n_samples, n_features, n_kept : int
        Size of the data, and the number of features asked for.
    n_subsamples : int
        Halves of the samples on which each method selected again.
    pca_r2 : tuple of float
        What as many principal components give of all features, mean and standard deviation over
        the halves.
    random_r2 : tuple of float
        What as many random features predict, as ``r2``: mean and standard deviation over ten sets,
        each judged in all halves.
    scores_of_all : dict or None
        Scores of K-means on all features.
    set_bound : float
        What no set of at most as many features as the largest, or under constraints as ``n_kept``,
        can account for more than, in this table: proven, rounding included. NaN before
        :meth:`proved`.
    best_set_value : float
        What the best set that is known accounts for, whether a method kept it or not.
    constrained : bool
        Whether the bound is one of the sets that keep to constraints.
    notes : tuple of str
        What a reader of the page should know: how the table was read, which constraints held.
    """

    results: tuple[MethodResult, ...]
    feature_names: tuple[str, ...]
    n_samples: int
    n_features: int
    n_kept: int
    n_subsamples: int
    pca_r2: MeanAndSpread
    random_r2: MeanAndSpread
    scores_of_all: dict[str, MeanAndSpread] | None
    set_bound: float = np.nan
    best_set_value: float = np.nan
    constrained: bool = False
    notes: tuple[str, ...] = ()

    def proved(
        self,
        X: Any,
        *,
        constraints: Constraints | None = None,
        time_limit: float | None = 10.0,
    ) -> Comparison:
        """Return the same with what each set accounts for, beside what none of its size can exceed.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or Moments
            The samples that were compared.
        constraints : Constraints or None, default=None
            Those of the methods, where they have any: the bound is then one of allowed sets.
        time_limit : float or None, default=10.0
            Seconds for the search (:func:`~jointsparse.certify_set`); None is no limit.

        Returns
        -------
        Comparison
            With ``set_bound``, ``best_set_value`` and each ``set_value``; as it is where no method
            kept anything. The proof is about this table, not about new data.
        """
        sets = [result.kept for result in self.results]
        size = max(map(len, sets), default=0)
        if size == 0:
            return self
        most = self._most(constrained=constraints is not None)
        moments = X if isinstance(X, Moments) else Moments.from_data(X, copy=False)
        rules = rules_of(constraints, moments.n_features, moments.feature_names)
        problem = settled(subset_problem(moments, "features", None), rules)
        values = [set_value(problem, kept) if kept else np.nan for kept in sets]
        # More features never account for less: the bound of the largest sets is one of all.
        largest = [number for number, kept in enumerate(sets) if len(kept) == size]
        start = sets[max(largest, key=lambda number: values[number])]
        found = certify_set(
            moments,
            start,
            constraints=constraints,
            n_features_to_select=most,
            time_limit=time_limit,
            tol=SET_TOLERANCE,
        )
        results = (
            replace(result, set_value=value)
            for result, value in zip(self.results, values, strict=True)
        )
        return replace(
            self,
            results=tuple(results),
            set_bound=max(found.bound, float(np.nanmax(values))),
            best_set_value=found.best_value,
            constrained=constraints is not None,
        )

    @property
    def proof(self) -> str:
        """What is proved about the sets, in words; empty before :meth:`proved`."""
        if np.isnan(self.set_bound):
            return ""
        most = self._most(constrained=self.constrained)
        sets = f"{most} of the {self.n_features}"
        if self.constrained:
            sets = sets_in_words(most, self.n_features, constrained=True)
        best = f"the best set known accounts for {100 * self.best_set_value:.2f} %"
        return (
            f"of the best: what the kept features account for in this table, as a share of "
            f"{100 * self.set_bound:.2f} % of the variance, which no {sets} can exceed (proved); "
            f"{best}. The proof is about this table, not about new data."
        )

    def _most(self, *, constrained: bool) -> int:
        """Return how many features a set may have that the bound is about.

        Constraints may have let every method keep fewer than were asked for.
        """
        largest = max(len(result.kept) for result in self.results)
        return max(largest, self.n_kept) if constrained else largest

    def share_of_best(self, result: MethodResult) -> str:
        """Return in per cent what a set accounts for of what none of its size can exceed.

        Rounded down: 100 is said of no set that is not proved to be the best, to 1e-9.

        Parameters
        ----------
        result : MethodResult
            One of the results.
        """
        if np.isnan(result.set_value):
            return "–"
        if result.set_value >= self.set_bound - SET_TOLERANCE:
            return "100"
        return f"{np.floor(1000 * result.set_value / self.set_bound) / 10:.1f}"

    @property
    def verdict(self) -> str:
        """Which method predicts most, if any clearly does; how they compare with chance.

        Clearly more is more by the larger of the two standard deviations.
        """
        good = [result for result in self.results if not result.error]
        if not good:
            return "No method could be fitted."
        best = max(good, key=lambda result: result.r2[0])
        near = [r.name for r in good if r is not best and not _beyond(best.r2, r.r2)]
        above = sum(_beyond(result.r2, self.random_r2) for result in good)
        random = f"clearly more than random features ({_in_percent(self.random_r2)})."
        if len(good) == 1:
            words = f"{best.name} predicts {_in_percent(best.r2)} of the dropped features"
            return f"{words}, {'' if above else 'not '}{random}"
        words = f"{best.name} predicts most of the dropped features ({_in_percent(best.r2)})"
        if len(near) == len(good) - 1:
            words = (
                "All methods predict about as much of the dropped features "
                f"({best.name} {_in_percent(best.r2)})"
            )
        elif near:
            words += f"; {_listed(near)} {'does' if len(near) == 1 else 'do'} about as well"
        verb = "predicts" if above == 1 else "predict"
        return f"{words}. {above or 'None'} of {counted(len(good), 'method')} {verb} {random}"

    @property
    def jaccard(self) -> NDArray[np.float64]:
        """Overlap of every two selections: features in both over features in either."""
        sets = [set(result.kept) for result in self.results]
        return np.array([[_overlap(one, other) for other in sets] for one in sets])

    @property
    def votes(self) -> NDArray[np.int64]:
        """By how many methods each feature is kept."""
        counts = np.zeros(self.n_features, dtype=np.int64)
        for result in self.results:
            counts[list(result.kept)] += 1
        return counts


def _listed(names: list[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _beyond(one: MeanAndSpread, other: MeanAndSpread) -> bool:
    """Whether one mean is above another by more than either spread."""
    return one[0] - other[0] > max(one[1], other[1])


def _in_percent(pair: MeanAndSpread) -> str:
    return f"{percent(pair[0], bare=True)} ± {percent(pair[1])}"


def _overlap(one: set[int], other: set[int]) -> float:
    return len(one & other) / len(one | other) if one and other else np.nan


def compare_methods(
    estimators: Mapping[str, Any],
    X: Any,
    y: Any = None,
    *,
    n_features_to_select: int,
    n_subsamples: int = 10,
    n_repeats: int = 10,
    random_state: int = 0,
    feature_names: Sequence[str] | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
    on_fit: Callable[[str, int, int], None] | None = None,
) -> Comparison:
    r"""Run several methods on the same data and measure what each selection is worth.

    Every method keeps the same number of features. It is fitted to all samples, and again to both
    halves of random pairs of halves. With :math:`H_k` what it keeps on half k, and on the other
    half of that pair v the squares of a feature and r its squared error by a regression on
    :math:`H_k` (fitted to half k),

    .. math:: R^2 = 1 - \frac{\sum_k\sum_{j\notin H_k} r_{jk}}{\sum_k\sum_{j\notin H_k} v_{jk}}

    is what it predicts of the dropped features in new samples, and how much the :math:`H_k` agree
    is its stability: as they are, and with features that stand in for one another (squared
    correlation of at least 0.8) counted as one.

    Parameters
    ----------
    estimators : dict
        Unfitted estimators by name. Methods with components are wrapped in
        :class:`SelectFeatures`.
    X : array-like, data frame or sparse matrix of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,) or None, default=None
        Labels, for cluster scores only; no method sees them.
    n_features_to_select : int
        How many features each method keeps.
    n_subsamples : int, default=10
        Halves of the samples; even.
    n_repeats : int, default=10
        Runs of K-means, where there are labels.
    random_state : int, default=0
        Seed of the halves and of K-means.
    feature_names : sequence of str or None, default=None
        Names of the features, where X has none.
    on_progress : callable or None, default=None
        Called with the name of a method, the number of methods done and that of all.
    on_fit : callable or None, default=None
        Called with the name of a method, the number of the fit that begins (from 1) and that of
        all its fits.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import GreedySelector, LaplacianScore, compare_methods
    >>> X = StandardScaler().fit_transform(load_breast_cancer().data)
    >>> methods = {"greedy": GreedySelector(), "Laplacian score": LaplacianScore()}
    >>> found = compare_methods(methods, X, n_features_to_select=5, n_subsamples=4)
    >>> [len(result.kept) for result in found.results], found.jaccard.shape
    ([5, 5], (2, 2))
    """
    if not isinstance(estimators, Mapping):
        raise TypeError(
            "estimators must be a dictionary of estimators by name, and comes before X, as in "
            f'compare_methods({{"greedy": GreedySelector()}}, X, ...); got '
            f"{type(estimators).__name__}"
        )
    if not estimators:
        raise ValueError("estimators is empty: give at least one method")
    if not is_number(n_subsamples, Integral) or n_subsamples < 2 or n_subsamples % 2:
        raise ValueError(f"n_subsamples={n_subsamples!r} is not an even number of at least 2")
    methods = {name: _selector(e, n_features_to_select) for name, e in estimators.items()}
    moments = as_moments(next(iter(methods.values())), X)
    check_rows(moments, "compare_methods")
    count = min(int(n_features_to_select), moments.n_features)
    pairs = complementary_pairs(moments.n_samples, n_subsamples // 2, 0.5, random_state)
    judge = _Judge(moments, y, pairs, n_repeats, random_state)
    results = []
    for number, (name, estimator) in enumerate(methods.items()):
        if on_progress is not None:
            on_progress(name, number, len(methods))
        results.append(judge.result(name, estimator, on_fit))
    names = moments.feature_names if feature_names is None else feature_names
    if names is None:
        names = [f"feature {j}" for j in range(moments.n_features)]
    return Comparison(
        results=tuple(results),
        feature_names=tuple(map(str, names)),
        n_samples=moments.n_samples,
        n_features=moments.n_features,
        n_kept=count,
        n_subsamples=int(n_subsamples),
        pca_r2=_mean_and_spread([fold.r2_of_pca(count) for fold in judge.folds]),
        random_r2=judge.random(count),
        scores_of_all=judge.scores(np.arange(moments.n_features)),
    )


def _selector(estimator: Any, count: int) -> Any:
    if "n_features_to_select" in estimator.get_params():
        return clone(estimator).set_params(n_features_to_select=count)
    return SelectFeatures(estimator, n_features_to_select=count)


class _Judge:
    """Measures the selections of one method after the other on the same halves."""

    def __init__(
        self,
        moments: Moments,
        y: Any,
        pairs: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
        n_repeats: int,
        seed: int,
    ) -> None:
        self.moments, self.y, self.n_repeats, self.seed = moments, y, n_repeats, seed
        self.halves = [half for pair in pairs for half in pair]
        # Fold k is fitted to half k and judged on the other half of its pair. As in the trials of
        # a single method, a feature that is not significant in half k is predicted by its mean.
        self.folds: list[Fold] = [
            fold
            for one, other in pairs
            for fold in held_out_folds(
                moments, one, other, (_significant(moments, one), _significant(moments, other))
            )
        ]
        self.groups = stand_in_groups(moments)

    def result(
        self, name: str, estimator: Any, on_fit: Callable[[str, int, int], None] | None
    ) -> MethodResult:
        """Fit to all samples and to the halves; a method that refuses says why."""
        fits = len(self.halves) + 1
        begins = on_fit or (lambda *_: None)
        try:
            begins(name, 1, fits)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                start = time.perf_counter()
                # Moments of its own, so that no method profits from what another has computed.
                own = Moments.from_data(self.moments.data, copy=False).made_of(self.moments.origin)
                own.feature_names = self.moments.feature_names
                fitted = fit_to(clone(estimator), own)
                seconds = time.perf_counter() - start
                kept = _best_first(fitted)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                supports = []
                for number, half in enumerate(self.halves, start=2):
                    begins(name, number, fits)
                    supports.append(support_on(estimator, self.moments, half))
        except ValueError as error:
            return MethodResult(name, error=str(error))
        judged = [
            fold.judge(np.flatnonzero(support))
            for fold, support in zip(self.folds, supports, strict=True)
        ]
        return MethodResult(
            name=name,
            kept=tuple(kept.tolist()),
            seconds=seconds,
            r2=_together(judged),
            stability=selection_stability(np.array(supports)),
            group_stability=group_stability(np.array(supports), self.groups),
            scores=self.scores(kept),
            warnings=tuple(dict.fromkeys(str(warning.message) for warning in caught)),
        )

    def scores(self, kept: NDArray[np.int64]) -> dict[str, MeanAndSpread] | None:
        """Return the cluster scores of some features."""
        if self.y is None or kept.size == 0:
            return None
        part = self.moments.data[:, kept]
        values = part.toarray() if hasattr(part, "toarray") else part
        found = clustering_scores(values, self.y, n_repeats=self.n_repeats, random_state=self.seed)
        return found.summary()

    def random(self, count: int) -> MeanAndSpread:
        """Return what random features predict, in the same folds."""
        varying = np.flatnonzero(self.moments.variances > 0)
        rng = np.random.default_rng(self.seed)
        size = min(count, varying.size)
        sets = [rng.choice(varying, size, replace=False) for _ in range(N_RANDOM)]
        return _mean_and_spread(
            [total_of([fold.judge(features) for fold in self.folds]).r2 for features in sets]
        )


def _significant(moments: Moments, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    return feature_significance(some_rows(moments, rows)).significant


def _best_first(fitted: Any) -> NDArray[np.int64]:
    kept = np.flatnonzero(fitted.get_support())
    ranking = getattr(fitted, "ranking_", None)
    return kept if ranking is None else kept[np.argsort(np.asarray(ranking)[kept], kind="stable")]


def _together(judged: Sequence[Judged]) -> MeanAndSpread:
    return total_of(judged).r2, float(np.std([one.r2 for one in judged], ddof=1))


def _mean_and_spread(values: Sequence[float]) -> MeanAndSpread:
    return float(np.mean(values)), float(np.std(values, ddof=1))
