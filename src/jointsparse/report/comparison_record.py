"""From what ``jointsparse compare --json`` printed back to the comparison."""

from __future__ import annotations

import math
from typing import Any

from jointsparse.model_selection import Comparison, MethodResult
from jointsparse.report.comparison import SCORES
from jointsparse.report.entries import amount, entry, listing, number, scaling_of, sentence

MOST_FEATURES = 10**8  # beyond any table; counts of all features are made


def is_comparison(record: Any) -> bool:
    """Whether a JSON document is one of ``compare``, not of another command."""
    return isinstance(record, dict) and "methods" in record and "n_kept" in record


def comparison_from_record(record: dict[str, Any]) -> tuple[Comparison, str, str]:
    """Return the comparison, the name of the data and how they were scaled.

    Raises ValueError, with what is wrong, where the record is not one of ``compare --json``.

    Parameters
    ----------
    record : dict
        The JSON object.
    """
    methods = listing(record, "methods")
    names: dict[str, int] = {}  # of the features that any method keeps, and their places
    for method in methods:
        for name in listing(method, "kept"):
            names.setdefault(sentence(name, "kept"), len(names))
    n_features = amount(record, "n_features", least=max(1, len(names)), most=MOST_FEATURES)
    found = Comparison(
        results=tuple(_result(method, names) for method in methods),
        feature_names=tuple(names),
        n_samples=amount(record, "n_samples"),
        n_features=n_features,
        n_kept=amount(record, "n_kept"),
        n_subsamples=amount(record, "n_subsamples"),
        pca_r2=_mean_std(entry(record, "pca_r2_held_out")),
        random_r2=_mean_std(entry(record, "random_r2_held_out")),
        scores_of_all=_scores(entry(record, "scores_of_all_features")),
        **_proof(record.get("set")),
        notes=tuple(sentence(note, "notes") for note in listing(record, "notes")),
    )
    return found, sentence(entry(record, "data"), "data"), scaling_of(record)


def _result(record: Any, names: dict[str, int]) -> MethodResult:
    error = entry(record, "error")
    return MethodResult(
        name=sentence(entry(record, "method"), "method"),
        kept=tuple(names[sentence(name, "kept")] for name in listing(record, "kept")),
        seconds=number(entry(record, "seconds"), "seconds"),
        r2=_mean_std(entry(record, "r2_held_out")),
        stability=_interval(entry(record, "stability"), "stability"),
        group_stability=_groups(record),
        scores=_scores(entry(record, "scores")),
        warnings=tuple(sentence(text, "warnings") for text in listing(record, "warnings")),
        error="" if error is None else sentence(error, "error") or "it failed",
        set_value=number(record.get("set_value"), "set_value"),
    )


def _proof(found: Any) -> dict[str, Any]:
    """Return what is proved about the sets; nothing where nothing is, or by earlier versions."""
    if found is None:
        return {}
    bound, best = (number(entry(found, name), name) for name in ("bound", "best_value"))
    constrained = found.get("constrained") is True
    return {"set_bound": bound, "best_set_value": best, "constrained": constrained}


def _groups(record: dict[str, Any]) -> tuple[float, float, float]:
    if "group_stability" not in record:  # of a version that did not know groups
        return math.nan, math.nan, math.nan
    return _interval(entry(record, "group_stability"), "group_stability")


def _interval(found: Any, name: str) -> tuple[float, float, float]:
    value, lower, upper = (number(entry(found, end), name) for end in ("value", "lower", "upper"))
    return value, lower, upper


def _mean_std(pair: Any) -> tuple[float, float]:
    return number(entry(pair, "mean"), "mean"), number(entry(pair, "std"), "std")


def _scores(scores: Any) -> dict[str, tuple[float, float]] | None:
    if scores is None:
        return None
    found = {name: _mean_std(entry(scores, name)) for name in SCORES}
    return None if any(math.isnan(mean) for mean, _ in found.values()) else found
