"""``--prove``: what no other set of at most as many features can exceed, after the fit."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from jointsparse.cli.display.console import error_console
from jointsparse.cli.errors import CommandError, told
from jointsparse.cli.options.arguments import quoted
from jointsparse.text import counted

if TYPE_CHECKING:
    from jointsparse.methods.sets.set_certificate import SetCertificate

PROVE_HELP = (
    "Search so many seconds for a better set, and prove how much better one of at most as many "
    "features could be in this table; preparing the search takes time too."
)
NAMED = 12  # features of a better set on the terminal; --json names all
NOTHING = "nothing is kept, so there is nothing to prove"


def check_memory(seconds: float | None, values: Any, memory: str | None) -> None:
    """Refuse, before the fit, a proof that needs more memory than there is, or than may be used."""
    from jointsparse.io.budget import available_memory, parse_size, size_in_words
    from jointsparse.methods.sets.subset_problem import bytes_for_problem
    from jointsparse.moments import Moments
    from jointsparse.sources import Source

    if seconds is None:
        return
    whole = not isinstance(values, Moments | Source)  # else from the scatter matrix alone
    n_features = values.n_features if not whole else values.shape[1]
    rows = min(values.shape[0], n_features) if whole else n_features
    needed = bytes_for_problem(rows, n_features)
    allowed = available_memory() if memory is None else parse_size(memory)
    if needed > allowed:
        raise CommandError(
            f"--prove needs {size_in_words(needed)} of memory for "
            f"{counted(n_features, 'feature')}, and {size_in_words(allowed)} may be used: use "
            "fewer columns, allow more with --memory, or leave --prove out"
        )


def go_on(seconds: float | None, estimator: Any, *, show_progress: bool) -> None:
    """Have a method that searches for the best set search on: it keeps what is found.

    Parameters
    ----------
    seconds : float or None
        For the search; None where no proof is asked for.
    estimator : estimator
        Fitted.
    show_progress : bool
        Whether to say on a terminal what is being done.
    """
    if seconds is None or not searches(estimator) or not estimator.get_support().any():
        return
    with proving(show_progress):
        try:
            estimator.improve(time_limit=seconds)
        except ValueError as error:
            raise told(error, about="--prove: ", time_limit="--prove") from error


def searches(estimator: Any) -> bool:
    """Whether a method looks for the best set by itself, and can go on doing so."""
    return hasattr(estimator, "improve")


def proof(
    seconds: float | None, values: Any, estimator: Any, *, show_progress: bool
) -> "tuple[SetCertificate | None, list[str]]":
    """Return what is proved about the kept features, and notes.

    Parameters
    ----------
    seconds : float or None
        For the search; None where no proof is asked for beyond what the method has.
    values : array, sparse matrix, Moments or source
        What the method saw.
    estimator : estimator
        Fitted.
    show_progress : bool
        Whether to say on a terminal what is being done.
    """
    from jointsparse.methods.sets.set_certificate import certify_set

    kept = estimator.get_support()
    if seconds is None or (searches(estimator) and kept.any()):
        known = getattr(estimator, "set_certificate_", None)  # of a method that proves by itself
        return known if kept.any() else None, []
    if not kept.any():
        return None, [f"--prove: {NOTHING}"]
    with proving(show_progress):
        try:
            found = certify_set(
                values,
                kept,
                time_limit=seconds,
                constraints=getattr(estimator, "constraints", None),
                n_features_to_select=asked_for(estimator),
            )
        except ValueError as error:
            raise told(error, about="--prove: ", time_limit="--prove") from error
    return found, []


def asked_for(estimator: Any) -> int:
    """Return how many features a set may have: as many as were asked for, else as are kept.

    Constraints may let a method keep fewer than it was asked for.
    """
    from jointsparse.selection.choosing import wanted_features

    kept = estimator.get_support()
    wanted = wanted_features(estimator.get_params()["n_features_to_select"], kept.size)
    constrained = getattr(estimator, "constraints", None) is not None
    return max(int(kept.sum()), wanted.count or 0) if constrained else int(kept.sum())


def better_set(found: "SetCertificate", names: list[str]) -> str:
    """Name the features of a better set where the proof came across one; else say nothing."""
    if found.best_value <= found.value + found.tol:
        return ""
    features = [names[j] for j in found.best_features.tolist()]
    more = f" and {len(features) - NAMED} more (--json names all)" if len(features) > NAMED else ""
    return f"{', '.join(map(quoted, features[:NAMED]))}{more}"


def proving(show_progress: bool) -> AbstractContextManager[Any]:
    """Say on a terminal what is being done."""
    console = error_console()
    if show_progress and console.is_terminal:
        return console.status("proving how good the set is")
    return nullcontext()


def set_record(found: "SetCertificate | None", names: list[str]) -> dict[str, Any] | None:
    """Return what is proved about a set, ready for JSON."""
    if found is None:
        return None
    better = found.best_value > found.value + found.tol
    return {
        "words": str(found),
        "value": found.value,
        "bound": found.bound,
        "gap": found.gap,
        "proved": found.proved,
        "tol": found.tol,
        "better": [names[j] for j in found.best_features.tolist()] if better else None,
        "better_value": found.best_value if better else None,
        "most": found.features.size if found.k is None else found.k,
        "method": found.method,
        "seconds": found.seconds,
        "nodes": found.nodes,
    }
