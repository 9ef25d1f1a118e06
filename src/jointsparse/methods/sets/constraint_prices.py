"""What constraints cost: how much more the best set would explain without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from threadpoolctl import threadpool_limits

from jointsparse.methods.sets.constraining import check_size, rules_of
from jointsparse.methods.sets.set_certificate import search_limits
from jointsparse.methods.sets.subset_problem import subset_problem
from jointsparse.moments import Moments, check_variance
from jointsparse.selection.choosing import is_number
from jointsparse.solvers.subset.constraints import Constraints, several
from jointsparse.solvers.subset.exchange import FoundSet, good_set
from jointsparse.solvers.subset.problem import SubsetProblem, set_value, span_of
from jointsparse.solvers.subset.rules import Rules
from jointsparse.solvers.subset.search import SubsetSearch
from jointsparse.solvers.subset.whole_groups import settled
from jointsparse.solvers.subset.whole_search import search_for

MOST_SINGLY = 8  # features that are priced one by one; more are priced together
POINT = 0.01  # share of the variance that is called a point
TOGETHER = "all constraints together"
NOTHING = 5e-5  # share below which a price is none: half of the last digit that is shown


@dataclass(frozen=True)
class ConstraintPrice:
    """What one constraint costs.

    ``print`` says it in words.

    Attributes
    ----------
    constraint : str
        The constraint, in words.
    at_least, at_most : float
        Between these shares of the variance the price is proved to lie: what the best set explains
        without the constraint, less what the best set explains with it.
    """

    constraint: str
    at_least: float
    at_most: float

    def __str__(self) -> str:
        low, high = (f"{share / POINT:.2f}" for share in (self.at_least, self.at_most))
        verb = "cost" if self.constraint == TOGETHER else "costs"
        if self.at_most < NOTHING:
            much = "nothing, to 0.01 points of variance"
        elif self.at_least < NOTHING:
            much = f"at most {high} points of variance"
        else:
            much = f"{high if low == high else f'{low} to {high}'} points of variance"
        return f"{self.constraint} {verb} {much} (proved for this table)"


def constraint_prices(
    X: Any,
    constraints: Constraints,
    n_features_to_select: int,
    *,
    time_limit: float | None = 10.0,
    max_nodes: int | None = None,
    tol: float = 1e-9,
) -> tuple[ConstraintPrice, ...]:
    r"""Say what each constraint costs, with proof.

    Let :math:`v(C)` be the largest share of the variance that a set of at most k features explains
    under the constraints C. The price of one of them, c, is

    .. math:: v(C \setminus c) - v(C) \ge 0 .

    A search gives a set and a bound for each v, and with them two numbers between which the price
    is proved to lie.

    Parameters
    ----------
    X : array-like, data frame, sparse matrix, source or Moments
        Samples (n_samples × n_features), used as they are (not scaled), or their moments.
    constraints : Constraints
        The constraints.
    n_features_to_select : int
        Number k of features.
    time_limit : float or None, default=10.0
        Seconds for all searches together; None is no limit.
    max_nodes : int or None, default=None
        Nodes for each search; None is no limit.
    tol : float, default=1e-9
        Share of the variance to which best sets are proved.

    Returns
    -------
    tuple of ConstraintPrice
        One for each feature that must or must not be in (for all of them together where they are
        more than eight), one each for the budget, the caps and the whole groups; where there are
        several, the last one is for all constraints. About this table, not about new data.

    See Also
    --------
    SubsetSelector : Finds the best set; ``price_of_leaving_out`` is what its features are worth.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import Constraints, constraint_prices
    >>> X = StandardScaler().fit_transform(load_wine().data)
    >>> for price in constraint_prices(X, Constraints(include=[4], exclude=[6]), 3):
    ...     print(price)
    keeping feature 4 costs 2.68 points of variance (proved for this table)
    leaving out feature 6 costs 2.58 points of variance (proved for this table)
    all constraints together cost 4.94 points of variance (proved for this table)
    """
    seconds, nodes = search_limits(time_limit, max_nodes)
    moments = X if isinstance(X, Moments) else Moments.from_data(X, copy=False)
    check_variance(moments)
    p, names = moments.n_features, moments.feature_names
    rules = rules_of(constraints, p, names)
    if not (is_number(n_features_to_select, Integral) and 1 <= n_features_to_select <= p):
        raise ValueError(
            f"n_features_to_select={n_features_to_select!r} is not a whole number between 1 and {p}"
        )
    check_size(rules, int(n_features_to_select))
    lighter = list(without_each(constraints, names))
    with threadpool_limits(1, user_api="blas"):
        problem = subset_problem(moments, "features", None)

        def search(given: Rules, start: FoundSet | None) -> SubsetSearch:
            own = settled(problem, given)
            found = good_set(own, int(n_features_to_select), given)
            if start is not None:  # what is allowed with a constraint is allowed without
                start = FoundSet(start.features, set_value(own, start.features))
                found = max(found, start, key=lambda one: one.value)
            state = search_for(own, int(n_features_to_select), given, start=found, tol=tol)
            state.run(time_limit=seconds / (len(lighter) + 1), max_nodes=nodes)
            return state

        inside = search(rules, None)
        return tuple(
            _price(words, inside, search(rules_of(one, p, names), inside.best))
            for words, one in lighter
        )


def _price(words: str, inside: SubsetSearch, outside: SubsetSearch) -> ConstraintPrice:
    """Return the price from the searches with and without a constraint."""
    least = _lower(outside.problem, outside.best) - min(inside.bound, outside.bound)
    most = outside.bound - _lower(inside.problem, inside.best)
    return ConstraintPrice(words, max(least, 0.0), max(most, least, 0.0))


def _lower(problem: SubsetProblem, found: FoundSet) -> float:
    """Return the value of a set less what rounding may have added to it."""
    trace = span_of(problem, found.features).inverse_trace
    return found.value - float(problem.charge(trace, max(found.features.size, 1)))


def without_each(
    constraints: Constraints, names: Sequence[Any] | None = None
) -> Iterator[tuple[str, Constraints]]:
    """Yield each constraint in words, and what is left without it.

    Parameters
    ----------
    constraints : Constraints
        As a user gave them.
    names : sequence of str or None
        Names of the features, where they have any.
    """
    found = [
        *_one_by_one(constraints, "include", "keeping", names),
        *_one_by_one(constraints, "exclude", "leaving out", names),
    ]
    if constraints.budget is not None:
        words = f"the budget of {constraints.budget:g}"
        found.append((words, replace(constraints, costs=None, budget=None)))
    whole = constraints.whole_groups
    some_whole = whole if isinstance(whole, bool) else len(several(whole)) > 0
    if constraints.max_per_group is not None:
        groups = constraints.groups if some_whole else None
        lighter = replace(constraints, max_per_group=None, groups=groups)
        found.append((_caps_in_words(constraints.max_per_group), lighter))
    if some_whole:
        groups = constraints.groups if constraints.max_per_group is not None else None
        lighter = replace(constraints, whole_groups=False, groups=groups)
        found.append(("choosing groups as a whole", lighter))
    yield from found
    if len(found) > 1:
        yield TOGETHER, Constraints()


def _one_by_one(
    constraints: Constraints, parameter: str, verb: str, names: Sequence[Any] | None
) -> list[tuple[str, Constraints]]:
    entries = several(getattr(constraints, parameter))

    def without(some: Sequence[Any]) -> Constraints:
        others: dict[str, Any] = {parameter: [entry for entry in entries if entry not in some]}
        return replace(constraints, **others)

    if len(entries) > MOST_SINGLY:
        return [(f"{verb} the {len(entries)} features asked for", without(entries))]
    return [(f"{verb} {_shown(entry, names)}", without([entry])) for entry in entries]


def _caps_in_words(limits: Any) -> str:
    if isinstance(limits, Integral):
        return f"allowing at most {limits} of each group"
    some = [f"{count} of {group!r}" for group, count in limits.items()]
    more = ", …" if len(some) > MOST_SINGLY else ""
    return f"allowing at most {', '.join(some[:MOST_SINGLY])}{more}"


def _shown(entry: Any, names: Sequence[Any] | None) -> str:
    if isinstance(entry, str):
        return repr(entry)
    return f"feature {entry}" if names is None else repr(str(names[entry]))
