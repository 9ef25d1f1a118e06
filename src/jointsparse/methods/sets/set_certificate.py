"""How good is this set? A proof for any set of features, whatever chose it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from jointsparse.arrays import IntArray
from jointsparse.methods.sets.constraining import rules_of
from jointsparse.methods.sets.subset_problem import (
    OUTCOMES,
    centred_outcomes,
    feature_numbers,
    subset_problem,
    target_words,
)
from jointsparse.moments import Moments, check_variance
from jointsparse.selection.choosing import is_number
from jointsparse.solvers.subset.constraints import Constraints
from jointsparse.solvers.subset.exchange import exchange, good_set
from jointsparse.solvers.subset.problem import SubsetProblem, set_value
from jointsparse.solvers.subset.ridge_bound import ridge_bound, ridge_value
from jointsparse.solvers.subset.search import SearchProgress
from jointsparse.solvers.subset.whole_groups import settled
from jointsparse.solvers.subset.whole_search import search_for
from jointsparse.text import rounded_up


@dataclass(frozen=True)
class SetCertificate:
    """What a set explains, and what no allowed set of at most k features can exceed.

    ``print`` says it in words.

    Attributes
    ----------
    features : ndarray of int
        The set.
    value : float
        Share of the target that it explains.
    bound : float
        What no allowed set of at most ``k`` features can exceed: proven, rounding included.
    gap : float
        (bound - value) / value.
    proved : bool
        Whether no such set is better by more than ``tol``.
    best_features : ndarray of int
        The best set found on the way; the given one where none was better.
    best_value : float
        What that explains.
    n_features : int
        Number of all features.
    method : str
        What the bound comes from.
    nodes : int
        Nodes of the search.
    seconds : float
        Seconds it took.
    tol : float
        Share of the target to which the best set is proved.
    target : str
        What is to be explained, in words.
    constrained : bool
        Whether the proof is about the sets that keep to constraints.
    k : int or None
        How many features a set may have; None is as many as this one has.
    """

    features: IntArray
    value: float
    bound: float
    gap: float
    proved: bool
    best_features: IntArray
    best_value: float
    n_features: int
    method: str
    nodes: int
    seconds: float
    tol: float
    target: str = "the variance"
    constrained: bool = False
    k: int | None = None

    def __str__(self) -> str:
        better = self.best_value if self.best_value > self.value + self.tol else None
        return set_words(
            self.value,
            self.bound,
            self.features.size,
            self.n_features,
            self.tol,
            what=self.target,
            better=better,
            constrained=self.constrained,
            most=self.k,
        )


def certify_set(
    X: Any,
    features: Any,
    *,
    y: Any = None,
    target: Any = "features",
    n_components: int | None = None,
    ridge: float | None = None,
    constraints: Constraints | None = None,
    n_features_to_select: int | None = None,
    time_limit: float | None = 10.0,
    max_nodes: int | None = None,
    tol: float = 1e-9,
    callback: Callable[[SearchProgress], object] | None = None,
) -> SetCertificate:
    r"""Prove how good a set of features is, among all sets that are no larger.

    For a set H and a target Y (all features by default), the value is

    .. math:: f(H) = \frac{\|P_HY\|_F^2}{\|Y\|_F^2} ,

    the share that a linear regression on H accounts for, and the bound is a number that
    :math:`f` of *no* set of at most k features exceeds, k being the size of the set unless
    ``n_features_to_select`` is given. The set may come from any method or program.

    Parameters
    ----------
    X : array-like, data frame, sparse matrix, source or Moments
        Samples (n_samples × n_features), used as they are (not scaled), or their moments.
    features : array-like of int, str or bool
        The set: numbers, names, or a mask.
    y : array-like or None, default=None
        Outcomes, for target="outcomes".
    target : "features", "outcomes" or array of shape (q, n_features), default="features"
        What the set shall explain, as in :class:`SubsetSelector`.
    n_components : int or None, default=None
        With target="features": only their first principal components.
    ridge : float or None, default=None
        Penalty of a ridge regression, in units of a feature's sum of squares, in place of the plain
        one: with more features than samples that has a bound worth knowing (the larger the penalty,
        the closer). There is no search then.
    constraints : Constraints or None, default=None
        Which sets are allowed; the given one must be.
    n_features_to_select : int or None, default=None
        How many features a set may have; None is as many as the given one has. Where a budget or
        whole groups let a method keep fewer than it was asked for, give what it was asked for.
    time_limit : float or None, default=10.0
        Seconds for the search; None is no limit.
    max_nodes : int or None, default=None
        Nodes for the search; None is no limit.
    tol : float, default=1e-9
        Share of the target to which a set is proved to be the best.
    callback : callable or None, default=None
        Called some ten times a second with the value, the bound, the nodes and the seconds so far;
        the search stops where it returns True.

    Returns
    -------
    SetCertificate
        The proof is about this table, not about new data.

    See Also
    --------
    SubsetSelector : Finds such a set.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import certify_set
    >>> X = StandardScaler().fit_transform(load_wine().data)
    >>> proof = certify_set(X, [0, 6, 9])
    >>> round(proof.value, 3), round(proof.bound, 3), proof.best_features.tolist()
    (0.527, 0.566, [3, 6, 9])
    """
    seconds, nodes = search_limits(time_limit, max_nodes)
    moments = X if isinstance(X, Moments) else Moments.from_data(X, copy=False)
    check_variance(moments)
    if isinstance(target, str) and target == "outcomes":
        if not moments.has_samples:
            raise ValueError("target='outcomes' needs the samples themselves, not their moments")
        moments.near_one.workspace.keep(OUTCOMES, centred_outcomes(y, moments.n_samples))
    chosen = feature_numbers(features, moments.n_features, moments.feature_names)
    rules = rules_of(constraints, moments.n_features, moments.feature_names)
    if not rules.allows(chosen):
        raise ValueError("the set does not keep to the constraints")
    k = _most(n_features_to_select, chosen.size, moments.n_features)
    if ridge is not None and not (is_number(ridge) and ridge > 0):
        raise ValueError(f"ridge={ridge!r} is neither a positive number nor None")
    what = target_words(target, n_components, moments.missing)
    with threadpool_limits(1, user_api="blas"):
        problem = settled(subset_problem(moments, target, n_components), rules)
        if ridge is not None:
            return _by_ridge(problem, chosen, k, float(ridge), tol, what)
        value = set_value(problem, chosen)
        starts = [exchange(problem, chosen, rules), good_set(problem, k, rules)]
        start = max(starts, key=lambda found: found.value)
        search = search_for(problem, k, rules, start=start, tol=tol)
        search.run(time_limit=seconds, max_nodes=nodes, callback=callback)
    bound = max(search.bound, value)
    better = search.best.value > value + tol
    return SetCertificate(
        features=chosen,
        value=value,
        bound=bound,
        gap=relative_gap(value, bound),
        proved=bool(bound <= value + tol),
        best_features=np.sort(search.best.features) if better else chosen,
        best_value=search.best.value if better else value,
        n_features=moments.n_features,
        method=search.bound_method,
        nodes=search.nodes,
        seconds=search.seconds,
        tol=tol,
        target=what,
        constrained=constraints is not None,
        k=k,
    )


def _most(given: Any, size: int, n_features: int) -> int:
    """Return how many features a set may have, or say what is wrong with that."""
    most = size if given is None else given
    if not (is_number(most, Integral) and size <= most <= n_features):
        raise ValueError(
            f"n_features_to_select={given!r} is not a whole number between {size}, the size of the "
            f"set, and {n_features}"
        )
    return int(most)


def _by_ridge(
    problem: SubsetProblem, features: IntArray, k: int, penalty: float, tol: float, what: str
) -> SetCertificate:
    begin = time.perf_counter()
    value = ridge_value(problem, features, penalty)
    bound = max(ridge_bound(problem, k, penalty)[0], value)
    return SetCertificate(
        features=features,
        value=value,
        bound=bound,
        gap=relative_gap(value, bound),
        proved=bool(bound <= value + tol),
        best_features=features,
        best_value=value,
        n_features=problem.n_features,
        method="ridge relaxation",
        nodes=0,
        seconds=time.perf_counter() - begin,
        tol=tol,
        target=f"{what} (by ridge regression)",
        k=k,
    )


def relative_gap(value: float, bound: float) -> float:
    """Return (bound - value) / value; infinite where the value is 0 and the bound is not."""
    if bound <= value:
        return 0.0
    return (bound - value) / value if value > 0 else float("inf")


def search_limits(time_limit: Any, max_nodes: Any) -> tuple[float, float]:
    """Return the limits of a search as numbers, or say what is wrong with them."""
    if time_limit is not None and not (is_number(time_limit) and time_limit >= 0):
        raise ValueError(f"time_limit={time_limit!r} is neither a number of seconds nor None")
    if max_nodes is not None and not (is_number(max_nodes, Integral) and max_nodes >= 0):
        raise ValueError(f"max_nodes={max_nodes!r} is neither a whole number nor None")
    return (
        np.inf if time_limit is None else float(time_limit),
        np.inf if max_nodes is None else float(max_nodes),
    )


def set_words(
    value: float,
    bound: float,
    size: int,
    n_features: int,
    tol: float,
    *,
    what: str,
    better: float | None = None,
    constrained: bool = False,
    most: int | None = None,
) -> str:
    """Say what a set explains and what is proved about it.

    Parameters
    ----------
    value, bound : float
        What the set explains, and what no set of at most so many features can.
    size, n_features : int
        How many features of how many.
    tol : float
        Share to which a set is proved to be the best.
    what : str
        What is to be explained.
    better : float or None
        What a better set explains, where one was found.
    constrained : bool
        Whether only sets that keep to constraints are meant.
    most : int or None
        How many features a set may have; None is as many as this one has.
    """
    these = f"These {size} features account" if size != 1 else "This feature accounts"
    most = size if most is None else most
    if constrained or most != size:  # sets of fewer features are meant, too
        these_sets = sets_in_words(most, n_features, constrained=constrained)
        no, no_other, best = f"No {these_sets}", f"No other {these_sets}", f"The best {these_sets}"
        verb, do = "accounts", "does"
    elif size == 1:
        no = no_other = f"No other of the {n_features}"
        best, verb, do = f"The best one of the {n_features}", "accounts", "does"
    else:
        no, no_other = f"No {size} of the {n_features}", f"No other {size} of the {n_features}"
        best, verb, do = f"The best {size} of the {n_features}", "account", "do"
    said = f"{these} for {_percent(value)} of {what} in this table. "
    if bound <= value + tol:
        said += f"{no} {verb} for more (proved, tolerance {tol:.0e}). "
    elif better is not None and bound <= better + tol:
        said += f"{best} {verb} for {_percent(better)} "
        more = 100 * (better - value)
        more_points = f"{more:.2f}" if more >= 0.005 else "less than 0.01"
        said += f"(found and proved): {more_points} points more. "
    else:
        said += f"{no_other} {do} more than "
        said += f"{rounded_up(100 * (bound - value)):.2f} points better, "
        said += f"{min(rounded_up(100 * bound), 100.0):.2f} % (proved). "
        if better is None:
            said += "Whether a better set exists is not known. "
        else:
            said += f"A set that accounts for {_percent(better)} was found. "
    return said + "The proof is about this table, not about new data."


def sets_in_words(most: int, n_features: int, *, constrained: bool) -> str:
    """Say which sets a bound is about, after "no" or "the best"."""
    allowed = " that keeps to the constraints" if constrained else ""
    return f"set of at most {most} of the {n_features} features{allowed}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
