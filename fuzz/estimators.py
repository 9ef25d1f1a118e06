"""Fit a method with random parameters to a random table in a random container, and look at it."""

from __future__ import annotations

import copy
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from fuzz.containers import (
    CONTAINERS,
    Container,
    close,
    contents,
    rows_beyond,
    same_content,
)
from fuzz.inputs import table
from fuzz.oracle import wrong_sums
from fuzz.refusals import kind_of
from fuzz.runner import GOOD
from fuzz.twins import ROUNDING, SINGLE_ROUNDING, Answer, answer, fit_quietly, verdict, view_of
from jointsparse import AWSPCA, RobustPCA, registry

CASE_LIMIT = 60.0  # seconds of processor time, most of them for the twins; of them
FIT_LIMIT = 10.0  # seconds for the fit itself
OTHER_CENTRES = (AWSPCA, RobustPCA)  # whose mean_ is that of their model
SPARSE = ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")  # what names of containers begin with
AS_DRAWN = Container("as drawn", lambda X, folder: X)

CHOICES: dict[str, tuple[Any, ...]] = {
    "alpha": (0.01, 0.2, 0.9),
    "eta": (0.01, 0.3, 0.9),
    "mu": (0.1, 10.0),
    "n_components": (1, 2, 5),
    "n_clusters": (2, 3),
    "n_neighbors": (1, 5),
    "n_features_to_select": (1, 3, 0.5, "support", "auto", "r2>=0.5"),
    "rule": ("greedy", "residual", "norm"),
    "penalty_scale": ("relative", "relative", "trace", "absolute"),
    "solver": ("exact", "exact", "published"),
    "loss": ("samples", "features", "frobenius"),
    "target": ("reconstruction", "clusters"),
    "graph": ("pca", "lpp", "lda"),
    "norm": ("l21", "l11", "fro"),
    "constraint": ("penalised", "equality"),
}


def prepare() -> None:
    """Import what the methods and the containers import late."""
    for method in registry.methods().values():
        method.make()
    with tempfile.TemporaryDirectory() as folder:
        for number, container in enumerate(CONTAINERS.values()):
            if container.in_python and container.installed:
                place = Path(folder, str(number))
                place.mkdir()
                close(container.make(np.eye(3), place))


def case(number: int) -> str:
    """Run one case and return what happened: a word of ``GOOD``, or a fault in words."""
    rng = np.random.default_rng(number)
    names = list(registry.methods())
    name = names[int(rng.integers(len(names)))]
    X, words = table(rng)
    estimator = _estimator(name, rng)
    y = rng.integers(0, 3, X.shape[0]) if getattr(estimator, "graph", None) == "lda" else None
    container = _container(rng)
    if container.scarce and X.shape[0] >= X.shape[1] and "Parquet" not in container.name:
        # Sums over the rows take more memory than so few rows do, which would be read whole. But
        # not of Parquet files, whose description would take more than is allowed.
        rows = np.resize(np.arange(X.shape[0]), rows_beyond(_dense(X)))
        X, y = _dense(X)[rows], y if y is None else y[rows]
    if container.name[:3] in SPARSE and rng.random() < 0.5:
        # Most tables are so full that a sparse matrix of them is summed up as a dense one.
        X, words = (
            np.where(rng.random(X.shape) < 0.9, 0, _dense(X)).astype(X.dtype),
            f"{words}, thin",
        )
    label = f"{name}, {words}, {container.name}, {_given(estimator)}"
    with tempfile.TemporaryDirectory() as folder:
        held = X if container is AS_DRAWN else container.make(_dense(X), Path(folder))
        try:
            outcome = _outcome(estimator, held, container, _dense(X), y)
        except Exception as error:
            return f"{label}: {type(error).__name__}: {error}"
        finally:
            close(held)
    return outcome if outcome in GOOD else f"{label}: {outcome}"


def _outcome(estimator: Any, held: Any, container: Container, X: np.ndarray, y: Any) -> str:
    values = container.values(X)
    before = copy.deepcopy(held) if _in_memory(held) else None
    since = time.process_time()
    try:
        fitted = fit_quietly(estimator, held, y)
    except ValueError as error:
        kind = kind_of(error, estimator)
        if kind is None:
            raise
        found, faults = Answer.refusal(kind, str(error)), []
    else:
        if time.process_time() - since > FIT_LIMIT:
            return f"took more than {FIT_LIMIT:g} s of processor time"
        found = Answer.of(fitted)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            faults = list(_faults(fitted, held, values))
            if container is AS_DRAWN and not _repeats(fitted, held, y):
                faults.append("another result the second time")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        faults += wrong_sums(held, values, np.random.default_rng(len(values)))
    if before is not None and not same_content(before, held):
        faults.append("the table was changed")
    if faults:
        return "; ".join(faults)
    return verdict(
        estimator,
        lambda other: answer(other, held, y),
        values,
        y,
        single=container.single or X.dtype == np.float32,
        may_not_fit=container.scarce,
        found=found,
        view=view_of(container, held, values),
    )


def _container(rng: np.random.Generator) -> Container:
    """Return one of the containers, or the table as it was drawn; for a number always the same.

    What is not installed is drawn, too: in its place comes the table as it was drawn.
    """
    usable = [one for one in CONTAINERS.values() if one.in_python]
    drawn = rng.random() < 0.2
    container = usable[int(rng.integers(len(usable)))]
    return AS_DRAWN if drawn or not container.installed else container


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if sparse.issparse(X) else np.ascontiguousarray(X)


def _repeats(fitted: Any, held: Any, y: Any) -> bool:
    again = fit_quietly(fitted, held, y)
    return bool(np.array_equal(again.feature_scores_, fitted.feature_scores_))


def _estimator(name: str, rng: np.random.Generator) -> Any:
    estimator = registry.methods()[name].make()
    known = estimator.get_params()
    chosen = {}
    for parameter, values in CHOICES.items():
        if parameter in known and rng.random() < 0.4:
            chosen[parameter] = values[int(rng.integers(len(values)))]
    return estimator.set_params(**chosen)


def _given(estimator: Any) -> str:
    default = clone(estimator).set_params(**type(estimator)().get_params()).get_params()
    given = {k: v for k, v in estimator.get_params().items() if v != default[k]}
    return str(given)


def _faults(estimator: Any, held: Any, values: np.ndarray) -> Iterator[str]:
    p = values.shape[1]
    scores = estimator.feature_scores_
    if scores.shape != (p,) or not np.all(np.isfinite(scores)) or np.any(scores < 0):
        yield f"scores {scores}"
    if not np.array_equal(np.sort(estimator.ranking_), np.arange(1, p + 1)):
        yield f"ranking {estimator.ranking_}"
    gap = getattr(estimator, "duality_gap_", 0.0)
    if not gap >= -1e-12:
        yield f"gap {gap}"
    if not np.all(np.isfinite(list(estimator.diagnostics_.values()))):
        yield "a diagnostic is not finite"
    known = estimator.diagnostics_.get("optimality", 0.0)
    if estimator.converged_ and known > estimator.diagnostics_.get("optimality_bound", np.inf):
        yield f"converged with an optimality of {known:.1e}"
    if not np.isfinite(estimator.objective_):
        yield f"objective {estimator.objective_}"
    curve = getattr(estimator, "selection_curve_", np.empty(0))
    if not np.all(np.isfinite(curve)) or np.any(np.diff(curve, prepend=0.0, append=1.0) < -1e-9):
        yield f"selection curve {curve}"
    ratio = getattr(estimator, "explained_variance_ratio_", np.empty(0))
    # Shares in single precision are rounded to it one by one; their sum is not.
    total, slack = ratio.sum(dtype=np.float64), max(1e-9, float(np.finfo(ratio.dtype).eps))
    if not np.all((ratio >= -slack) & (ratio <= 1 + slack)) or not total <= 1 + slack:
        yield f"explained variance {ratio}"
    loadings = getattr(estimator, "components_", getattr(estimator, "loadings_", np.empty(0)))
    if not np.all(np.isfinite(loadings)):
        yield f"loadings {loadings}"
    if _is_off(estimator, values):
        yield "the mean is not that of the table"
    reduced = contents(estimator.transform(held))
    twin = estimator.transform(values)
    if not np.all(np.isfinite(reduced)):
        yield "transform is not finite"
    elif reduced.shape != twin.shape:
        yield f"transform gives {reduced.shape} where that of the twin gives {twin.shape}"
    else:
        # Of a table in single precision, the reduced one is too.
        unit = SINGLE_ROUNDING if reduced.dtype == np.float32 else ROUNDING
        size = np.abs(twin).max(axis=0, initial=0.0) + _projected_size(estimator, values)
        if np.any(np.abs(reduced - twin) > unit * size + _least(reduced.dtype)):
            yield "transform differs from that of the twin"


def _is_off(estimator: Any, values: np.ndarray) -> bool:
    """Whether components are about another mean than that of the columns.

    The twin cannot tell: it has its mean from the same place. A mean that is off by δ changes the
    scatter matrix by nδ² only, and scores of all samples, by which a container is compared, alike.
    """
    mean = getattr(estimator, "mean_", None)
    if mean is None or isinstance(estimator, OTHER_CENTRES):
        return False
    expected = np.mean(values, axis=0, dtype=np.longdouble)
    unit = SINGLE_ROUNDING if mean.dtype == np.float32 else ROUNDING
    off = np.abs(mean - expected) - _least(mean.dtype)
    return bool(np.any(off > unit * np.max(np.abs(values), axis=0)))


def _least(dtype: np.dtype[Any]) -> float:
    """Return how far rounding goes where numbers are so small that they have no more digits."""
    return float(np.finfo(dtype).smallest_subnormal) / 2 if dtype.kind == "f" else 0.0


def _projected_size(estimator: Any, values: np.ndarray) -> Any:
    """Return the size of the terms that make up a score, which may cancel; 0 for kept columns."""
    components = getattr(estimator, "components_", None)
    if components is None:
        return 0.0
    return np.abs(components) @ np.abs(values).max(axis=0, initial=0.0)


def _in_memory(held: Any) -> bool:
    return isinstance(held, np.ndarray) or sparse.issparse(held)
