"""``select --include --exclude``: features that must, or must not, be kept."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from jointsparse.cli.arguments import quoted
from jointsparse.cli.errors import CommandError
from jointsparse.text import counted

METHOD = "subset"  # the method that searches under constraints


def check_constraints(method: str, include: Sequence[str], exclude: Sequence[str]) -> None:
    """Refuse, before any work, constraints that the method knows nothing of, or that contradict."""
    given = [*["--include"] * bool(include), *["--exclude"] * bool(exclude)]
    if given and method != METHOD:
        raise CommandError(f"{given[0]} is for --method {METHOD}; {method} takes no constraints")
    both = [name for name in include if name in set(exclude)]
    if both:
        raise CommandError(f"{quoted(both[0])} is in both --include and --exclude")


def constrain(
    estimator: Any, names: list[str], include: Sequence[str], exclude: Sequence[str]
) -> list[str]:
    """Give the constraints to the estimator; return notes that say what they are."""
    from jointsparse.solvers.subset.constraints import Constraints

    if not (include or exclude):
        return []
    inside, outside = (
        [_place(name, names, option) for name in dict.fromkeys(given)]
        for option, given in (("--include", include), ("--exclude", exclude))
    )
    if len(set(outside)) == len(names):
        raise CommandError("--exclude leaves no feature to keep")
    wanted = estimator.get_params()["n_features_to_select"]
    if isinstance(wanted, int) and len(inside) > wanted:
        raise CommandError(
            f"--include names {counted(len(inside), 'feature')}, more than --features {wanted}"
        )
    estimator.set_params(constraints=Constraints(include=inside, exclude=outside))
    kinds = (("kept", include), ("left out", exclude))
    return [
        f"{', '.join(map(quoted, dict.fromkeys(given)))}: {kind} because you asked for it"
        for kind, given in kinds
        if given
    ]


def _place(name: str, names: list[str], option: str) -> int:
    """Return the number of a feature, or say that there is none of that name."""
    if name in names:
        return names.index(name)
    near = get_close_matches(name, names, n=1)
    hint = f"; did you mean {quoted(near[0])}?" if near else ""
    raise CommandError(f"{option}: the table has no feature {quoted(name)}{hint}")
