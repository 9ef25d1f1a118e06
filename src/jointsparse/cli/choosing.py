"""``select --choose``: the penalties are chosen, without labels, before the fit."""

from enum import StrEnum
from typing import Any

from jointsparse.cli.errors import CommandError


class Criterion(StrEnum):
    """What the penalties are chosen by."""

    AUTO = "auto"
    HELD_OUT = "held-out"
    AGREEMENT = "agreement"
    SILHOUETTE = "silhouette"
    RANK = "rank"


def chosen(
    estimator: Any,
    values: Any,
    criterion: Criterion | None,
    clusters: int | None,
    seed: int | None,
    quiet: bool,
) -> tuple[Any, list[str]]:
    """Return the estimator with the chosen penalties, unfitted, and why, in words."""
    if criterion is None:
        if clusters is not None:
            raise CommandError("--clusters is for --choose; a method's own is --param n_clusters=C")
        return estimator, []
    from contextlib import nullcontext

    from sklearn.base import clone

    from jointsparse.cli.console import error_console
    from jointsparse.cli.progress import solver_progress
    from jointsparse.model_selection import choose_parameters

    bar = nullcontext() if quiet else solver_progress(error_console(), None)
    try:
        with bar:
            found = choose_parameters(
                estimator,
                values,
                criterion=criterion.value,
                n_clusters=clusters,
                random_state=0 if seed is None else seed,
            )
    except (TypeError, ValueError) as error:
        raise CommandError(f"--choose: {error}") from error
    note = f"chosen by {found.criterion}: {found.reason}"
    return clone(found.best_estimator), [note]
