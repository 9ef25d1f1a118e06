"""A grid of parameters, walked so that every fit helps the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from jointsparse.device import is_device_array
from jointsparse.methods.reading.samples import valid_samples
from jointsparse.model_selection.criteria import effective_rank
from jointsparse.moments import Moments
from jointsparse.sources.in_memory import ArraySource

# Fractions of the penalties that empty the model.
SPARSITY = tuple(float(f"{value:.2g}") for value in np.geomspace(0.5, 0.002, 9))
RANK = tuple(float(f"{value:.2g}") for value in np.geomspace(0.5, 0.001, 9))
_DEFAULTS = {"alpha": SPARSITY, "mu": SPARSITY, "eta": RANK}
_WALKED = ("alpha", "mu")  # along these each solution starts from the one before

Parameters = dict[str, Any]


@dataclass(frozen=True)
class Fit:
    """What the search keeps of a fit: parameters, kept features, size and rank of the model."""

    params: Parameters
    kept: NDArray[np.int64]
    n_nonzero: int
    rank: float | None


def default_grid(estimator: Any) -> dict[str, tuple[float, ...]]:
    """Return nine values of each penalty of an estimator, or say why there are none."""
    known = estimator.get_params(deep=True)
    name = type(estimator).__name__
    grid = {}
    for key in known:
        prefix, _, last = key.rpartition("__")
        scale = known.get(f"{prefix}__penalty_scale" if prefix else "penalty_scale")
        if last not in _DEFAULTS or scale is None:
            continue
        if scale != "relative":
            raise ValueError(
                f"the default grid is made of fractions, but {name} has penalty_scale={scale!r}: "
                "set it to 'relative', or give param_grid"
            )
        grid[key] = _DEFAULTS[last]
    if not grid:
        raise ValueError(f"{name} has no penalty to choose: give param_grid")
    return grid


def lines_of(estimator: Any, param_grid: Any) -> list[list[Parameters]]:
    """Return the points of a grid, cut into lines along which only the penalty falls."""
    if param_grid is None:
        param_grid = default_grid(estimator)
    try:
        points = list(ParameterGrid(param_grid))
    except (TypeError, ValueError) as error:
        raise ValueError(
            "param_grid must be a dictionary from names of parameters to lists of values (or a "
            f"list of such dictionaries): {error}"
        ) from error
    if not points or points == [{}]:
        raise ValueError("param_grid is empty: give at least one parameter with one value")
    known = estimator.get_params(deep=True)
    for key in points[0] if isinstance(param_grid, Mapping) else {k for p in points for k in p}:
        if key not in known:
            raise ValueError(
                f"{type(estimator).__name__} has no parameter {key!r}; it has "
                f"{', '.join(sorted(known)) or 'none'}"
            )
    lines: dict[str, list[Parameters]] = {}
    for point in points:
        walked = _walked(point)
        others = {key: value for key, value in point.items() if key != walked}
        lines.setdefault(f"{walked} {sorted(others.items(), key=str)}", []).append(point)
    return [_falling(line) for line in lines.values()]


def _walked(point: Parameters) -> str | None:
    return next((key for key in point if key.rpartition("__")[2] in _WALKED), None)


def _falling(line: list[Parameters]) -> list[Parameters]:
    walked = _walked(line[0])
    if walked is None or not all(isinstance(point[walked], Real) for point in line):
        return line
    return sorted(line, key=lambda point: -point[walked])


def check_selector(estimator: Any) -> None:
    """Refuse what cannot select features."""
    missing = [
        name for name in ("get_params", "fit", "get_support") if not hasattr(estimator, name)
    ]
    if missing or isinstance(estimator, type):
        name = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
        raise TypeError(f"estimator must be a selector, such as SPCAPSD(); {name} is none")


def as_moments(estimator: Any, X: Any) -> Moments:
    """Return the moments of samples, checked as the estimator would, with its messages."""
    if isinstance(X, Moments):
        return X
    fresh = clone(estimator)
    # As a source: what was checked once is not checked again.
    values = valid_samples(fresh, X, fitting=True)
    moments = Moments.from_data(
        values if is_device_array(values) else ArraySource(values), copy=False
    )
    moments.feature_names = getattr(fresh, "feature_names_in_", None)
    return moments


def check_rows(moments: Moments, who: str) -> None:
    """Refuse data of which no parts can be taken to select on."""
    if not moments.has_samples:
        raise ValueError(f"{who} needs the samples, not only their moments")
    if moments.elsewhere:  # in a file or on a cluster
        raise ValueError(f"{who} selects on parts of the samples: they must be in memory")


def fit_to(model: Any, moments: Moments) -> Any:
    """Fit an estimator, from the moments where it can."""
    if hasattr(model, "fit_moments"):
        return model.fit_moments(moments)
    return model.fit(moments.data)


def walk(estimator: Any, moments: Moments, line: Sequence[Parameters]) -> Iterator[Fit]:
    """Fit the points of a line one after the other; each starts from the one before if it can."""
    model = clone(estimator)
    if "warm_start" in model.get_params():
        model.set_params(warm_start=True)
    for params in line:
        fit_to(model.set_params(**params), moments)
        support = np.asarray(model.get_support())
        scores = getattr(model, "feature_scores_", support)
        yield Fit(
            dict(params),
            np.flatnonzero(support) if np.any(scores) else np.empty(0, dtype=np.int64),
            int(np.count_nonzero(scores)),
            effective_rank(model),
        )


def walk_all(
    estimator: Any,
    moments: Moments,
    lines: Sequence[Sequence[Parameters]],
    *,
    n_jobs: int | None,
    one_done: Callable[[], None],
) -> list[Fit]:
    """Fit the points of all lines, by several threads; something is called after each fit."""

    def fits_of(line: Sequence[Parameters]) -> list[Fit]:
        found = []
        for fit in walk(estimator, moments, line):
            found.append(fit)
            one_done()
        return found

    walks = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(fits_of)(line) for line in lines)
    return [fit for found in walks for fit in found]
