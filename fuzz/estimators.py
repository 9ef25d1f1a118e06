"""Fit a method with random parameters to a random table, and look at what comes out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from fuzz.inputs import table
from fuzz.refusals import is_documented
from jointsparse import registry

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
    """Import what the methods import late."""
    for method in registry.methods().values():
        method.make()


def case(number: int) -> str:
    """Run one case and return what happened: "fitted", "refused" or a fault in words."""
    rng = np.random.default_rng(number)
    names = list(registry.methods())
    name = names[int(rng.integers(len(names)))]
    X, words = table(rng)
    estimator = _estimator(name, rng)
    y = rng.integers(0, 3, X.shape[0]) if getattr(estimator, "graph", None) == "lda" else None
    label = f"{name}, {words}, {_given(estimator)}"
    before = X.copy()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            fitted = estimator.fit(X, y)
            faults = list(_faults(fitted, X, y))
    except Exception as error:
        if is_documented(error, estimator):
            return "refused"
        return f"{label}: {type(error).__name__}: {error}"
    if not _same(before, X):
        faults.append("the table was changed")
    return f"{label}: {'; '.join(faults)}" if faults else "fitted"


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


def _faults(estimator: Any, X: Any, y: Any) -> Iterator[str]:
    p = X.shape[1]
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
    if not np.all((ratio >= -1e-9) & (ratio <= 1 + 1e-9)) or not ratio.sum() <= 1 + 1e-9:
        yield f"explained variance {ratio}"
    loadings = getattr(estimator, "components_", getattr(estimator, "loadings_", np.empty(0)))
    if not np.all(np.isfinite(loadings)):
        yield f"loadings {loadings}"
    reduced = estimator.transform(X)
    values = reduced.data if sparse.issparse(reduced) else np.asarray(reduced)
    if not np.all(np.isfinite(values)):
        yield "transform is not finite"
    again = clone(estimator).fit(X, y)
    if not np.array_equal(again.feature_scores_, scores):
        yield "another result the second time"


def _same(one: Any, other: Any) -> bool:
    if sparse.issparse(one):
        return bool((one != other).nnz == 0) or bool(np.any(np.isnan(one.data)))
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
