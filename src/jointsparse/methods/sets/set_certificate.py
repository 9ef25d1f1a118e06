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
    """What a set explains, and what no set of its size can exceed.

    ``print`` says it in words.

    Attributes
    ----------
    features : ndarray of int
        The set.
    value : float
        Share of the target that it explains.
    bound : float
        What no allowed set of as many features can exceed: proven, rounding included.
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
    time_limit: float | None = 10.0,
    max_nodes: int | None = None,
    tol: float = 1e-9,
    callback: Callable[[SearchProgress], object] | None = None,
) -> SetCertificate:
    r"""Prove how good a set of features is, among all sets of its size.

    For a set H of k features and a target Y (all features by default), the value is

    .. math:: f(H) = \frac{\|P_HY\|_F^2}{\|Y\|_F^2} ,

    the share that a linear regression on H accounts for, and the bound is a number that
    :math:`f` of *no* set of k features exceeds. The set may come from any method or program.

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
    if ridge is not None and not (is_number(ridge) and ridge > 0):
        raise ValueError(f"ridge={ridge!r} is neither a positive number nor None")
    what = target_words(target, n_components, moments.missing)
    with threadpool_limits(1, user_api="blas"):
        problem = settled(subset_problem(moments, target, n_components), rules)
        if ridge is not None:
            return _by_ridge(problem, chosen, float(ridge), tol, what)
        value = set_value(problem, chosen)
        starts = [exchange(problem, chosen, rules), good_set(problem, chosen.size, rules)]
        start = max(starts, key=lambda found: found.value)
        search = search_for(problem, chosen.size, rules, start=start, tol=tol)
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
    )


def _by_ridge(
    problem: SubsetProblem, features: IntArray, penalty: float, tol: float, what: str
) -> SetCertificate:
    begin = time.perf_counter()
    value = ridge_value(problem, features, penalty)
    bound = max(ridge_bound(problem, features.size, penalty)[0], value)
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
) -> str:
    """Say what a set explains and what is proved about it.

    Parameters
    ----------
    value, bound : float
        What the set explains, and what no set of its size can.
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
    """
    these = f"These {size} features account" if size != 1 else "This feature accounts"
    allowed = f" that keep{'s' if size == 1 else ''} to the constraints" if constrained else ""
    said = f"{these} for {_percent(value)} of {what} in this table. "
    if bound <= value + tol:
        which, verb = (f"{size}", "account") if size != 1 else ("other", "accounts")
        said += f"No {which} of the {n_features}{allowed} {verb} for more "
        said += f"(proved, tolerance {tol:.0e}). "
    elif better is not None and bound <= better + tol:
        which, verb = (f"The best {size}", "account") if size != 1 else ("The best one", "accounts")
        said += f"{which} of the {n_features}{allowed} {verb} for {_percent(better)} "
        more = 100 * (better - value)
        more_points = f"{more:.2f}" if more >= 0.005 else "less than 0.01"
        said += f"(found and proved): {more_points} points more. "
    else:
        which, verb = (f"other {size}", "do") if size != 1 else ("other", "does")
        said += f"No {which} of the {n_features}{allowed} {verb} more than "
        said += f"{rounded_up(100 * (bound - value)):.2f} points better, "
        said += f"{min(rounded_up(100 * bound), 100.0):.2f} % (proved). "
        if better is None:
            said += "Whether a better set exists is not known. "
        else:
            said += f"A set that accounts for {_percent(better)} was found. "
    return said + "The proof is about this table, not about new data."


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
