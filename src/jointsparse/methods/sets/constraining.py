"""``constraints`` of the selectors: read, checked against the count, and told about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jointsparse.selection.choosing import Choice, Wanted
from jointsparse.solvers.subset.constraints import Constraints
from jointsparse.solvers.subset.rules import Rules
from jointsparse.text import counted


def rules_of(constraints: Any, n_features: int, names: Sequence[Any] | None) -> Rules:
    """Return constraints with features as numbers.

    Parameters
    ----------
    constraints : Constraints or None
        As a user gave them.
    n_features : int
        Number of features.
    names : sequence of str or None
        Their names, where they have any.
    """
    if constraints is None:
        return Rules.none(n_features)
    if not isinstance(constraints, Constraints):
        raise ValueError(f"constraints={constraints!r} is no Constraints object")
    return constraints.resolve(n_features, names)


def check_size(rules: Rules, count: int) -> None:
    """Refuse a number of features into which not even the smallest allowed set fits."""
    inside = len(rules.include)
    if inside > count:
        raise ValueError(f"include has {inside} features, more than n_features_to_select={count}")
    if count > 0 and not rules.wholes:
        return  # what can be chosen are single features
    room = rules.room(rules.include)
    sizes = [len(unit) for unit in rules.units if room.fits(unit)]
    if sizes and not inside and min(sizes) > count:
        raise ValueError(
            f"n_features_to_select={count} is less than the smallest of the groups that are chosen "
            f"as a whole, which has {min(sizes)} features: raise it"
        )


def about_constrained(choice: Choice, wanted: Wanted, rules: Rules, reached: float) -> str:
    """Return what the user should know about a set under constraints; nothing where it is as asked.

    Parameters
    ----------
    choice : Choice
        The set.
    wanted : Wanted
        What was asked for.
    rules : Rules
        Constraints.
    reached : float
        Share of the variance that the set accounts for.
    """
    kept = counted(choice.n_kept, "feature")
    if wanted.count is not None and choice.n_kept < wanted.count:
        if choice.n_kept == rules.most_features():
            return f"the constraints allow {kept} at most, not the {wanted.count} asked for"
        # Whole groups seldom add up to a number; single features that do are worth a search.
        more = f"; SubsetSelector looks for a set of {wanted.count} that does"
        return (
            f"{kept} {'is' if choice.n_kept == 1 else 'are'} kept, not the {wanted.count} asked "
            f"for: no other fits the constraints beside them{'' if rules.wholes else more}"
        )
    if wanted.r2 is not None and reached < wanted.r2 - 1e-8:
        return (
            f"the {kept} that the constraints allow account for {reached:.1%} of the variance, "
            f"not the {wanted.r2:.0%} asked for"
        )
    return ""
