"""``select --choose``: the penalties are chosen, without labels, before the fit."""

from enum import StrEnum
from typing import Any

from jointsparse.cli.errors import CommandError, told
from jointsparse.cli.options.arguments import name_of


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
    import warnings
    from contextlib import nullcontext

    from sklearn.base import clone

    from jointsparse.cli.display.console import error_console
    from jointsparse.cli.display.progress import solver_progress
    from jointsparse.cli.words import in_options
    from jointsparse.model_selection import choose_parameters
    from jointsparse.sources import Source

    if isinstance(values, Source):
        raise CommandError(
            f"--choose fits the method many times, and {values.name} is read from its file for "
            "each; allow more with --memory, so that the samples fit, or leave --choose out"
        )
    bar = nullcontext() if quiet else solver_progress(error_console(), None)
    try:
        with bar, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of points that are tried; the fit has its own
            found = choose_parameters(
                estimator,
                values,
                criterion=criterion.value,
                n_clusters=clusters,
                random_state=0 if seed is None else seed,
            )
    except (TypeError, ValueError) as error:
        raise told(
            error, about="--choose: ", method=name_of(estimator), n_clusters="--clusters"
        ) from error
    note = f"chosen by {found.criterion}: {in_options(found.reason, name_of(estimator))}"
    return clone(found.best_estimator), [note]
