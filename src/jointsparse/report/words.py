"""The sentences of a report, and the Python that makes its fit again."""

from __future__ import annotations

import ast
import re
from typing import Any

from sklearn.base import BaseEstimator

from jointsparse.report.findings import Findings, counted, grouped, percent
from jointsparse.text import cut_middle

_R2 = re.compile(r"r2\s*>=\s*([\d.e-]+)", re.IGNORECASE)


def wanted_words(n_features_to_select: Any) -> str:
    """Say what was asked for, from the parameter that asks it; nothing for no such parameter."""
    value = n_features_to_select
    if value is None:
        return ""
    if value == "auto":
        value = "r2>=0.9"
    if value == "support":
        return "keep every feature that the model does not set to zero"
    target = _R2.fullmatch(value.strip()) if isinstance(value, str) else None
    if target:
        share = percent(float(target[1]), 0)
        return f"keep the fewest features that explain {share} of the variance of all"
    if isinstance(value, float):
        return f"keep {percent(value, 0)} of the features"
    return f"keep the {value} features that stand best for all"


def plain_words(found: Findings) -> list[tuple[str, str]]:
    """Return what was asked, what was found and how sure that is: headings and sentences."""
    parts = [("What was asked", _asked(found)), ("What was found", _found(found))]
    if found.worth is not None:
        parts.append(("What it is worth", _worth(found)))
    parts.append(("How sure that is", _sure(found)))
    return parts


def _asked(found: Findings) -> str:
    size = [counted(len(found.features), "feature"), found.scaling]
    if found.n_samples is not None:
        size.insert(0, counted(found.n_samples, "sample"))
    table = f"“{found.data}”" if found.data else "the table"
    labels = "" if found.supervised else " No label was looked at."
    asked = found.asked or "find the features that matter"
    return f"From {table} ({', '.join(filter(None, size))}), {asked}.{labels}"


def _found(found: Findings) -> str:
    n_kept, size = found.features.n_kept, len(found.features)
    if n_kept == 0:
        return "No feature was kept: the penalty is so strong that it empties the model. Lower it."
    names = [found.features.name(int(place)) for place in found.features.kept.nonzero()[0][:5]]
    shortest = ", ".join(f"“{cut_middle(name, 40)}”" for name in names)
    more = f" and {grouped(n_kept - len(names))} more" if n_kept > len(names) else ""
    components = ""
    if found.components:
        components = f" The method makes {counted(len(found.components), 'component')} of them."
    return f"{counted(n_kept, 'feature')} of {grouped(size)}: {shortest}{more}.{components}"


def _worth(found: Findings) -> str:
    worth, n_kept = found.worth, found.features.n_kept
    assert worth is not None
    where = "samples that were held out" if worth.held_out else "these samples"
    text = (
        f"Of the variance of all features, on {where}, the kept "
        f"{'one explains' if n_kept == 1 else 'ones explain'} {percent(worth.own)}. As many "
        "principal components, each a mixture of all features, would explain "
        f"{percent(worth.pca)}; as many features drawn at random {percent(worth.random)} "
        f"± {percent(worth.random_spread)}."
    )
    if worth.own < worth.random - worth.random_spread:
        text += " That is less than chance: rule='greedy' avoids features that repeat each other."
    return text


def _sure(found: Findings) -> str:
    run = found.run
    if run.gap is not None:
        return (
            f"The model is solved with a proof: its objective is at most {run.gap:.1e} (relative) "
            "above the best possible. The proof is about the model, not about new data."
        )
    reason = run.reason.removeprefix("stopped ").rstrip(".")
    text = "The method comes without a proof that its objective is the best possible."
    if run.converged is False:
        text = "The solver did not converge: raise max_iter. " + text
    return f"{text} The solver stopped: {reason}." if reason else text


def reproducing_code(estimator: Any) -> str:
    """Return Python that makes the same fit, given the samples X."""
    samples = "X = ...  # the samples, one per row"
    return "\n".join([*import_lines(estimator), "", samples, fit_line(estimator)])


def import_lines(estimator: Any) -> list[str]:
    """Return the imports of an estimator and of those that it is made of."""
    return sorted({_import_line(part) for part in _parts(estimator)})


def fit_line(estimator: Any) -> str:
    """Return the line that makes and fits an estimator; a comment where Python cannot read it."""
    line = f"model = {_written(estimator)}.fit(X)"
    try:
        ast.parse(line)
    except (SyntaxError, ValueError):
        return f"# with parameters that cannot be written as Python: {line}"
    return line


def _written(estimator: Any) -> str:
    if isinstance(estimator, BaseEstimator):
        # The usual text of an estimator is cut where it is long.
        text = estimator.__repr__(N_CHAR_MAX=100_000)
        return re.sub(r"\n\s*", " ", text)
    return repr(estimator)


def _parts(estimator: Any) -> list[Any]:
    """Return the estimator and those that it is made of."""
    parts = [estimator]
    parameters = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    for value in parameters.values():
        steps = value if isinstance(value, list) else [value]
        for step in steps:
            part = step[1] if isinstance(step, tuple) and len(step) == 2 else step
            if isinstance(part, BaseEstimator):
                parts += _parts(part)
    return parts


def _import_line(part: Any) -> str:
    kind = type(part)
    modules = kind.__module__.split(".")
    if modules[0] == "jointsparse":
        modules = modules[:1]
    public = [name for name in modules if not name.startswith("_")]
    return f"from {'.'.join(public)} import {kind.__name__}"
