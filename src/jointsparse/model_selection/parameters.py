"""Choosing parameters without labels."""

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

from jointsparse.model_selection.criteria import KINDS, Criterion, nearness_of_rank
from jointsparse.model_selection.grid import (
    Fit,
    Parameters,
    as_moments,
    check_rows,
    check_selector,
    fit_to,
    lines_of,
    walk_all,
)
from jointsparse.model_selection.nested import Score, held_out_scores
from jointsparse.moments import Moments
from jointsparse.selection.choosing import is_number
from jointsparse.steps import counting
from jointsparse.trials import FEWEST_SAMPLES, N_FOLDS

CRITERIA = ("held-out", "agreement", "silhouette", "rank", "rank+agreement")
SHORTLIST = 9  # one in so many points is near enough in rank
LISTED = 10  # points that are printed
FEWEST_CLUSTERED = 4  # samples: fewer have no clusters to speak of
_NAMES = {
    "held-out": "R² of the dropped features in new samples",
    "agreement": "agreement (NMI) with K-means on all features",
    "silhouette": "silhouette in all features",
    "rank": "nearness of the rank",
    "rank+agreement": "agreement (NMI) with K-means on all features",
}


@dataclass(frozen=True)
class GridPoint:
    """One point of the grid.

    Attributes
    ----------
    params : dict
        The parameters.
    mean, error : float
        The criterion and its standard error (0 where nothing about it is random); NaN where the
        model was empty or, with "rank+agreement", has the wrong rank. More is better.
    kept : ndarray of int
        The kept features.
    n_nonzero : int
        Features to which the model gives a nonzero score.
    rank : float or None
        Effective rank of the model, where it has loadings.
    """

    params: Parameters
    mean: float
    error: float
    kept: NDArray[np.int64]
    n_nonzero: int
    rank: float | None

    @property
    def n_kept(self) -> int:
        """Number of kept features."""
        return int(self.kept.size)


@dataclass(frozen=True)
class ParameterChoice:
    """What :func:`choose_parameters` found.

    Attributes
    ----------
    best_params : dict
        The chosen parameters.
    best_estimator : estimator
        Fitted with them to all samples.
    criterion : str
        The criterion used.
    points : tuple of GridPoint
        All points of the grid.
    reason : str
        Why these parameters, in words.
    """

    best_params: Parameters
    best_estimator: Any
    criterion: str
    points: tuple[GridPoint, ...]
    reason: str

    @property
    def table(self) -> dict[str, list[Any]]:
        """The points as columns, for a data frame."""
        names = list(dict.fromkeys(name for point in self.points for name in point.params))
        columns: dict[str, list[Any]] = {
            name: [point.params.get(name) for point in self.points] for name in names
        }
        for name in ("mean", "error", "n_kept", "n_nonzero", "rank"):
            columns[name] = [getattr(point, name) for point in self.points]
        columns["chosen"] = [point.params == self.best_params for point in self.points]
        return columns

    def best_points(self, count: int = LISTED) -> list[GridPoint]:
        """Return the best points, best first, and the chosen one among them."""
        judged = [point for point in self.points if not np.isnan(point.mean)]
        order = sorted(judged, key=lambda point: -point.mean)
        chosen = [point for point in order[count:] if point.params == self.best_params]
        return order[: count - len(chosen)] + chosen

    def __str__(self) -> str:
        lines = [self.reason, ""]
        for point in self.best_points():
            mark = "*" if point.params == self.best_params else " "
            lines.append(
                f"{mark} {point.mean:9.4f} ± {point.error:.4f}  {point.n_kept:5d} features  "
                f"{_words(point.params)}"
            )
        left = len(self.points) - len(lines) + 2
        return "\n".join([*lines, f"  … and {left} more points"] if left > 0 else lines)

    def _repr_html_(self) -> str:
        cells = ["", "criterion", "standard error", "kept", "parameters"]
        rows = [f"<tr>{''.join(f'<th>{cell}</th>' for cell in cells)}</tr>"]
        for point in self.best_points():
            mark = "✔" if point.params == self.best_params else ""
            words = html.escape(_words(point.params))
            values = (mark, f"{point.mean:.4f}", f"{point.error:.4f}", str(point.n_kept), words)
            rows.append(f"<tr>{''.join(f'<td>{value}</td>' for value in values)}</tr>")
        return f"<p>{html.escape(self.reason)}</p><table>{''.join(rows)}</table>"


def choose_parameters(
    estimator: Any,
    X: Any,
    *,
    param_grid: Any = None,
    criterion: str = "auto",
    n_features_to_select: int | float | str | None = None,
    n_clusters: int | None = None,
    n_repeats: int = 10,
    max_samples: int = 2000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> ParameterChoice:
    r"""Choose the parameters of a selector without labels.

    Every point of a grid is fitted, and the set of features it keeps is judged by a criterion that
    needs no labels. By default that is the share of the dropped features that the kept ones predict
    in samples that neither chose the features nor fitted the regression: with H_k what a point
    keeps without the samples of part k, v the squares of a feature there and r its squared error,

    .. math:: R^2 = 1 - \frac{\sum_k\sum_{j\notin H_k} r_{jk}}{\sum_k\sum_{j\notin H_k} v_{jk}} .

    The moments of X are computed once; along each line of the grid the sparsity
    penalty falls and every fit starts from the one before, where the estimator can.

    Parameters
    ----------
    estimator : estimator
        A selector; not modified. A method with components keeps its nonzero features: wrap it in
        :class:`SelectFeatures` to ask for a number of them. A larger ``tol`` makes the search
        faster.
    X : array-like, data frame or sparse matrix of shape (n_samples, n_features), or Moments
        Samples, or their moments where they hold the samples.
    param_grid : dict, list of dict or None, default=None
        Values of each parameter, as in scikit-learn's ``ParameterGrid``; None takes nine values of
        each penalty, as fractions of the one that empties the model.
    criterion : str, default="auto"
        "held-out": what the kept features predict of the dropped ones in new samples. The samples
        are cut into three parts; for each, every point is fitted to the other two, and the part is
        the judge: four fits for each point. The simplest point within one standard
        error of the best wins: that with the fewest kept features, then the smallest rank, then the
        fewest nonzero scores. "agreement": normalised mutual information with K-means on all
        features. "silhouette": of K-means on the kept features, measured in all features. "rank":
        effective rank of the model next to ``n_clusters`` - 1. "rank+agreement": the best agreement
        among the ninth of the points with the nearest rank. "auto": the last one where
        the number of clusters is known and the model has a rank; "agreement" where it has none;
        "held-out" where the number of clusters is not known.
    n_features_to_select : int, float, str or None, default=None
        How many features each point keeps; None leaves it to the estimator.
    n_clusters : int or None, default=None
        Number of clusters; None takes the estimator's ``n_clusters``, where it has a number there.
        The other way round, an estimator that leaves its ``n_clusters`` open gets this one.
    n_repeats : int, default=10
        Runs of K-means for each set of features.
    max_samples : int, default=2000
        More samples than this are not clustered; a random part of them is.
    random_state : int, RandomState instance or None, default=0
        Seed of K-means and of the parts.
    n_jobs : int or None, default=None
        Threads; -1 is one for each core.

    Returns
    -------
    ParameterChoice

    See Also
    --------
    regularization_path : Solutions for a whole sequence of penalties.
    stability_selection : Which features are chosen again on other samples.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import SPCAPSD, choose_parameters
    >>> X = StandardScaler().fit_transform(load_breast_cancer().data)
    >>> choice = choose_parameters(
    ...     SPCAPSD(n_features_to_select=5), X, n_clusters=2, param_grid={"eta": [0.3, 0.03]}
    ... )
    >>> choice.criterion, sorted(choice.best_params)
    ('rank+agreement', ['eta'])
    >>> choice.best_estimator.transform(X).shape
    (569, 5)
    """
    check_selector(estimator)
    for name, value in (("n_repeats", n_repeats), ("max_samples", max_samples)):
        if not is_number(value, Integral) or value < 1:
            raise ValueError(f"{name}={value!r} is not a whole number of at least 1")
    estimator = clone(estimator)
    _set_count(estimator, n_features_to_select)
    n_clusters = _known_clusters(estimator, n_clusters)
    _check_criterion(criterion, n_clusters)
    lines = lines_of(estimator, param_grid)
    moments = as_moments(estimator, X)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    rows = _rows(moments.n_samples, max_samples, seed)
    _check_samples(criterion, moments, n_clusters, rows.size)
    nested = criterion == "held-out" or (criterion == "auto" and n_clusters is None)
    n_fits = sum(map(len, lines)) * (1 + N_FOLDS if nested else 1)
    with warnings.catch_warnings(), counting("penalties", n_fits) as one_done:
        # Points that are empty or stop early are part of a search; the last fit warns.
        warnings.simplefilter("ignore")
        fits = walk_all(estimator, moments, lines, n_jobs=n_jobs, one_done=one_done)
        if not any(fit.kept.size for fit in fits):
            raise ValueError(
                f"all {len(fits)} points of the grid leave the model empty: give smaller penalties"
            )
        chosen = _criterion_for(criterion, n_clusters, fits, estimator)
        values = _by_rank(fits, n_clusters)
        if chosen == "held-out":
            found = held_out_scores(
                estimator, moments, lines, seed=seed, n_jobs=n_jobs, one_done=one_done
            )
            values = [s if fit.kept.size else None for fit, s in zip(fits, found, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if chosen not in ("held-out", "rank"):
            shortlist = _shortlist(fits, values if chosen == "rank+agreement" else None)
            kind = KINDS[chosen.removeprefix("rank+")]
            judge = kind(moments, n_clusters, n_repeats=n_repeats, rows=rows, seed=seed)
            values = _judged(shortlist, judge, n_jobs)
    points = tuple(_point(fit, score) for fit, score in zip(fits, values, strict=True))
    best, reason = _best(points, chosen)
    final = fit_to(clone(estimator).set_params(**best.params), moments)
    return ParameterChoice(best.params, final, chosen, points, reason)


def _set_count(estimator: Any, count: Any) -> None:
    if count is None:
        return
    if "n_features_to_select" not in estimator.get_params():
        name = type(estimator).__name__
        raise ValueError(
            f"{name} has no n_features_to_select: wrap it, SelectFeatures({name}(...)), to keep a "
            "number of features"
        )
    estimator.set_params(n_features_to_select=count)


def _known_clusters(estimator: Any, n_clusters: Any) -> int | None:
    own = estimator.get_params().get("n_clusters")
    if n_clusters is None:
        return int(own) if is_number(own, Integral) else None
    if not is_number(n_clusters, Integral) or n_clusters < 2:
        raise ValueError(f"n_clusters={n_clusters!r} is not a whole number of at least 2")
    if "n_clusters" in estimator.get_params() and not is_number(own, Integral):
        estimator.set_params(n_clusters=int(n_clusters))
    return int(n_clusters)


def _check_criterion(criterion: Any, n_clusters: int | None) -> None:
    if criterion not in ("auto", *CRITERIA):
        known = ", ".join(map(repr, ("auto", *CRITERIA)))
        raise ValueError(f"criterion={criterion!r} is not one of {known}")
    if n_clusters is None and criterion not in ("auto", "held-out"):
        raise ValueError(f"criterion={criterion!r} needs the number of clusters: give n_clusters")


def _rows(n_samples: int, max_samples: int, seed: int) -> NDArray[np.int64]:
    """Return the samples to cluster: all, or a random part."""
    if n_samples <= max_samples:
        return np.arange(n_samples)
    return np.sort(np.random.default_rng(seed).permutation(n_samples)[:max_samples])


def _check_samples(
    criterion: str, moments: Moments, n_clusters: int | None, clustered: int
) -> None:
    if criterion == "rank":
        return
    check_rows(moments, f"criterion={criterion!r}")
    nested = criterion == "held-out" or n_clusters is None
    least = FEWEST_SAMPLES if nested else FEWEST_CLUSTERED
    if moments.n_samples < least:
        raise ValueError(
            f"criterion={criterion!r} needs at least {least} samples; there are {moments.n_samples}"
        )
    if criterion != "held-out" and n_clusters is not None and n_clusters >= clustered:
        raise ValueError(
            f"n_clusters={n_clusters} is too many for {clustered} samples: there must be fewer "
            "clusters than samples"
        )


def _criterion_for(criterion: str, n_clusters: int | None, fits: list[Fit], estimator: Any) -> str:
    ranked = all(fit.rank is not None for fit in fits)
    if criterion == "auto":
        if n_clusters is None:
            return "held-out"
        return "rank+agreement" if ranked else "agreement"
    if criterion.startswith("rank") and not ranked:
        raise ValueError(
            f"criterion={criterion!r} needs a model with loadings_ (SPCAPSD, CSPCA or AWSPCA), "
            f"which {type(estimator).__name__} has not"
        )
    return criterion


Values = list[Score | None]  # of each point; None where it is not judged


def _by_rank(fits: list[Fit], n_clusters: int | None) -> Values:
    return [
        (nearness_of_rank(fit.rank, n_clusters), 0.0)
        if n_clusters is not None and fit.rank is not None and fit.kept.size
        else None
        for fit in fits
    ]


def _shortlist(fits: list[Fit], nearness: Values | None) -> list[Fit | None]:
    """Return the points to judge: those that keep something and, where asked, suit in rank."""
    usable = [fit if fit.kept.size else None for fit in fits]
    if nearness is None:
        return list(usable)
    known = sorted((near[0] for near in nearness if near is not None), reverse=True)
    least = known[min(len(known), -(-len(known) // SHORTLIST)) - 1]
    return [
        fit if near is not None and near[0] >= least else None
        for fit, near in zip(usable, nearness, strict=True)
    ]


def _judged(shortlist: list[Fit | None], judge: Criterion, n_jobs: int | None) -> Values:
    # Neighbouring points often keep the same features; each set is judged once.
    sets = {fit.kept.tobytes(): fit.kept for fit in shortlist if fit is not None}
    with counting("sets", len(sets)) as one_done:

        def values(kept: NDArray[np.int64]) -> NDArray[np.float64]:
            found = judge.values(kept)
            one_done()
            return found

        results = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(values)(kept) for kept in sets.values()
        )
    found = dict(zip(sets, map(_mean_and_error, results), strict=True))
    return [None if fit is None else found[fit.kept.tobytes()] for fit in shortlist]


def _mean_and_error(values: NDArray[np.float64]) -> Score:
    error = float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else 0.0
    return float(values.mean()), error


def _point(fit: Fit, score: Score | None) -> GridPoint:
    mean, error = (np.nan, np.nan) if score is None else score
    return GridPoint(fit.params, mean, error, fit.kept, fit.n_nonzero, fit.rank)


def _best(points: tuple[GridPoint, ...], criterion: str) -> tuple[GridPoint, str]:
    judged = [point for point in points if not np.isnan(point.mean)]
    top = max(judged, key=lambda point: point.mean)
    what = _NAMES[criterion]
    least = top.mean - top.error if criterion == "held-out" else top.mean
    # Ties (the same set, often) go to the simplest model.
    best = min((point for point in judged if point.mean >= least), key=_complexity)
    if criterion == "held-out":
        reason = (
            f"{_words(best.params)}: {what} {_value(best)}, the simplest of {len(judged)} points "
            f"within one standard error of the best, {_value(top)} at {_words(top.params)}"
        )
    elif criterion == "rank":
        reason = (
            f"{_words(best.params)}: effective rank {best.rank:.1f}, of {len(judged)} points the "
            "nearest to the number of clusters less one"
        )
    else:
        among = f"{len(judged)} points"
        if criterion == "rank+agreement":
            among = f"the {len(judged)} of {len(points)} points nearest in rank to n_clusters - 1"
        reason = f"{_words(best.params)}: the best {what}, {_value(best)}, of {among}"
    return best, reason


def _complexity(point: GridPoint) -> tuple[float, float, float, float]:
    rank = np.inf if point.rank is None else point.rank
    penalties = sum(np.log(v) for v in point.params.values() if is_number(v) and v > 0)
    return (point.n_kept, round(rank, 2), point.n_nonzero, -penalties)


def _value(point: GridPoint) -> str:
    return f"{point.mean:.3f}" + (f" ± {point.error:.3f}" if point.error else "")


def _words(params: Parameters) -> str:
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value!r}"
        for name, value in params.items()
    )
