"""Options for which sets are allowed, shared by ``select`` and ``compare``."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jointsparse.cli.errors import CommandError, told
from jointsparse.cli.options.arguments import quoted
from jointsparse.cli.options.constraint_files import no_feature, read_pairs
from jointsparse.text import counted

if TYPE_CHECKING:
    from jointsparse.methods.registry import Method
    from jointsparse.methods.sets.constraint_prices import ConstraintPrice
    from jointsparse.solvers.subset.constraints import Constraints

_option = partial(typer.Option, rich_help_panel="Constraints")
_PATTERN = re.compile(r"[*?\[]")
_NAMED = 5  # features in a note


@dataclass(frozen=True, kw_only=True)
class ConstraintOptions:
    """Which sets are allowed."""

    include: Annotated[
        list[str] | None,
        _option(
            "--include",
            metavar="NAME",
            help="Feature that must be kept, or a pattern such as 'mean *'; can be repeated.",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        _option(
            "--exclude",
            metavar="NAME",
            help="Feature that must not be kept, or a pattern; it is still to be explained. Can be "
            "repeated.",
        ),
    ] = None
    costs: Annotated[
        Path | None,
        _option(
            "--costs",
            metavar="FILE",
            help="CSV with lines feature,cost; features that are not in it are free.",
        ),
    ] = None
    budget: Annotated[
        float | None, _option("--budget", metavar="AMOUNT", help="What the set may cost.")
    ] = None
    groups: Annotated[
        Path | None,
        _option(
            "--groups",
            metavar="FILE",
            help="CSV with lines feature,group; features that are not in it have no group.",
        ),
    ] = None
    max_per_group: Annotated[
        list[str] | None,
        _option(
            "--max-per-group",
            metavar="N",
            help="How many of a group may be kept: 2 for all groups, or NAME=2; can be repeated.",
        ),
    ] = None
    whole_groups: Annotated[
        list[str] | None,
        _option(
            "--whole-groups",
            metavar="NAME",
            help="Group that is kept with all features or not at all, or a pattern: '*' for all "
            "groups. Can be repeated.",
        ),
    ] = None

    @property
    def constraint_files(self) -> list[Path | None]:
        """Files that are read besides the table."""
        return [self.costs, self.groups]


def check_constraints(options: ConstraintOptions) -> None:
    """Refuse, before any work, constraints that contradict, or of which a part is missing."""
    both = [name for name in options.include or () if name in (options.exclude or ())]
    if both:
        raise CommandError(f"{quoted(both[0])} is in both --include and --exclude")
    if (options.costs is None) != (options.budget is None):
        given, missing = ("--costs", "--budget") if options.costs else ("--budget", "--costs")
        raise CommandError(f"{given} goes with {missing}: give both")
    if options.budget is not None and not options.budget >= 0:
        raise CommandError(f"--budget: {options.budget:g} is not a number of at least 0")
    limits = options.max_per_group or options.whole_groups
    if options.groups is None and limits:
        option = "--max-per-group" if options.max_per_group else "--whole-groups"
        raise CommandError(f"{option} goes with --groups FILE: give both")
    if options.groups is not None and not limits:
        raise CommandError("--groups goes with --max-per-group or --whole-groups: give one of them")


def constraints_of(options: ConstraintOptions, table: Any) -> "Constraints | None":
    """Return the constraints of a table, features by number; None where there are none.

    Columns that were made of one category are a group that is kept as a whole.
    """
    from jointsparse.solvers.subset.constraints import Constraints

    names: list[str] = table.names
    given: dict[str, Any] = _categories(options, table)
    if options.include:
        given["include"] = places(options.include, names, "--include")
    if options.exclude:
        given["exclude"] = places(options.exclude, names, "--exclude")
    if options.costs is not None:
        given["costs"] = read_pairs(options.costs, names, "cost", _cost)
        given["budget"] = options.budget
    if options.groups is not None:
        groups = read_pairs(options.groups, names, "group", str)
        given["groups"] = groups
        known = list(dict.fromkeys(groups.values()))
        if options.whole_groups:
            given["whole_groups"] = _matching(options.whole_groups, known, "--whole-groups")
        if options.max_per_group:
            given["max_per_group"] = _limits(options.max_per_group, known)
    if not given:
        return None
    constraints = Constraints(**given)
    try:
        constraints.resolve(len(names), names)
    except ValueError as error:
        raise told(error) from error
    return constraints


def _categories(options: ConstraintOptions, table: Any) -> dict[str, Any]:
    categories: dict[str, Any] = getattr(table, "groups", {})  # of a table in memory
    if not categories:
        return {}
    if options.groups is not None:
        raise CommandError(
            "--categories makes groups of columns, and --groups makes others: give one of them"
        )
    place = {name: column for column, name in enumerate(table.names)}
    whole = {place[made]: name for name, columns in categories.items() for made in columns}
    return {"groups": whole, "whole_groups": list(categories)}


def constrained(method: "Method", constraints: "Constraints | None") -> Any:
    """Return an estimator of a method that keeps to constraints, where there are any."""
    made = method.make()
    if constraints is None:
        return made
    if method.kind == "selector":
        return made.set_params(constraints=constraints)
    from jointsparse.methods.select_features import SelectFeatures

    return SelectFeatures(made, constraints=constraints)


def check_count(constraints: "Constraints | None", wanted: Any) -> None:
    """Refuse more features that must be kept than are to be kept."""
    inside = 0 if constraints is None else len(constraints.include)
    if isinstance(wanted, int) and inside > wanted:
        raise CommandError(
            f"--include names {counted(inside, 'feature')}, more than --features {wanted}"
        )


def _cost(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError("which is not a number of at least 0")
    return value


def _limits(texts: Sequence[str], known: list[str]) -> int | dict[str, int]:
    """Read ``--max-per-group``: one number for all groups, or numbers of some."""
    limits: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not value.strip().isdecimal():
            raise CommandError(
                f"--max-per-group takes a whole number or NAME=2, not {quoted(text)}"
            )
        if not equals:
            if len(texts) > 1:
                raise CommandError(
                    "--max-per-group: one number is for all groups; name them, NAME=2"
                )
            return int(value)
        if name not in known:
            raise CommandError(f"--max-per-group: no feature is in the group {quoted(name)}")
        limits[name] = int(value)
    return limits


def places(given: Sequence[str], names: list[str], option: str) -> list[int]:
    """Return the numbers of features that are named, or that a pattern stands for."""
    number = {name: place for place, name in enumerate(names)}
    places: list[int] = []
    for text in given:
        if text in number:
            places.append(number[text])
            continue
        if not _PATTERN.search(text):
            from jointsparse.io.errors import names_apart

            if apart := names_apart(text, number):
                repeated = " ".join(f"{option} {quoted(part)}" for part in apart)
                raise CommandError(f"{option} takes one name; repeat it: {repeated}")
            raise CommandError(f"{option}: {no_feature(text, number)}")
        found = [place for name, place in number.items() if fnmatchcase(name, text)]
        if not found:
            raise CommandError(f"{option}: no feature of the table is like {quoted(text)}")
        places += found
    return list(dict.fromkeys(places))


def _matching(given: Sequence[str], known: list[str], option: str) -> list[str]:
    found: list[str] = []
    for text in given:
        some = [text] if text in known else [name for name in known if fnmatchcase(name, text)]
        if not some:
            raise CommandError(f"{option}: no feature is in a group {quoted(text)}")
        found += some
    return list(dict.fromkeys(found))


def prices(
    constraints: "Constraints | None", values: Any, names: list[str], count: int, seconds: float
) -> "list[ConstraintPrice]":
    """Return what each constraint costs, with proof.

    Parameters
    ----------
    constraints : Constraints or None
        The constraints.
    values : array, sparse matrix, Moments or source
        What the method saw.
    names : list of str
        Names of the features.
    count : int
        How many features may be kept.
    seconds : float
        For all searches together.
    """
    from jointsparse.methods.sets.constraint_prices import constraint_prices
    from jointsparse.moments import Moments

    if constraints is None or count == 0:
        return []
    moments = values if isinstance(values, Moments) else Moments.from_data(values, copy=False)
    known, moments.feature_names = moments.feature_names, names
    try:
        return list(constraint_prices(moments, constraints, count, time_limit=seconds))
    except ValueError as error:
        raise told(error, about="--prove: ") from error
    finally:
        moments.feature_names = known


def record(
    constraints: "Constraints | None",
    names: list[str],
    kept: Sequence[int] | None,
    found: "Sequence[ConstraintPrice]",
) -> dict[str, Any] | None:
    """Return which constraints held and what they cost, ready for JSON.

    Parameters
    ----------
    constraints : Constraints or None
        The constraints.
    names : list of str
        Names of the features.
    kept : sequence of int or None
        The set; None where there are several.
    found : sequence of ConstraintPrice
        What each constraint costs, where that is known.
    """
    if constraints is None:
        return None
    spent, free = None, 0
    if isinstance(constraints.costs, dict):  # as they were read
        if kept is not None:
            spent = float(sum(constraints.costs.get(j, 0.0) for j in kept))
        free = len(names) - len(constraints.costs)
    held: dict[str, Any] = {
        "include": [names[j] for j in constraints.include],
        "exclude": [names[j] for j in constraints.exclude],
        "cost": spent,
        "budget": constraints.budget,
        "without_cost": free,
        "max_per_group": constraints.max_per_group,
        "whole_groups": constraints.whole_groups or None,
        "prices": [
            {
                "words": str(price),
                "constraint": price.constraint,
                "at_least": price.at_least,
                "at_most": price.at_most,
            }
            for price in found
        ],
    }
    return {**held, "words": in_words(held, one_set=kept is not None)}


def in_words(held: dict[str, Any], *, one_set: bool) -> list[str]:
    """Return what to say about the constraints that held, from their record.

    Parameters
    ----------
    held : dict
        The record.
    one_set : bool
        Whether it is about one set, the cost of which is known.
    """
    said = [
        f"{_several(given)}: {kind} because you asked for it"
        for kind, given in (("kept", held["include"]), ("left out", held["exclude"]))
        if given
    ]
    if held["budget"] is not None and not one_set:
        said.append(f"the kept features of each method cost at most {held['budget']:g}")
    elif held["budget"] is not None:
        said.append(f"the kept features cost {held['cost']:g} of the budget of {held['budget']:g}")
    if held["without_cost"]:
        free = held["without_cost"]
        verb = "counts" if free == 1 else "count"
        said.append(f"{counted(free, 'feature')} without a cost {verb} as free")
    limits = held["max_per_group"]
    if isinstance(limits, dict):
        some = ", ".join(f"{count} of {quoted(name)}" for name, count in limits.items())
        said.append(f"of each group at most so many are kept: {some}")
    elif limits is not None:
        said.append(f"at most {limits} of each group {'is' if limits == 1 else 'are'} kept")
    if held["whole_groups"]:
        said.append(f"kept as a whole or not at all: {_several(held['whole_groups'])}")
    said += [price["words"] for price in held["prices"]]
    if not held["prices"]:
        said.append("--prove SECONDS tells what the constraints cost")
    return said


def _several(given: Sequence[str]) -> str:
    more = f" and {len(given) - _NAMED} more" if len(given) > _NAMED else ""
    return ", ".join(map(quoted, given[:_NAMED])) + more
