"""The sentences of a report, and the Python that makes its fit again."""

from __future__ import annotations

import ast
import re
from typing import Any

from sklearn.base import BaseEstimator

from jointsparse.report.findings import (
    Findings,
    Worth,
    counted,
    grouped,
    mean_and_spread,
    percent,
    short_percent,
)
from jointsparse.solvers.subset.constraints import Constraints
from jointsparse.text import cut_middle

_R2 = re.compile(r"r2\s*>=\s*([\d.e-]+)", re.IGNORECASE)


def wanted_words(n_features_to_select: Any) -> str:
    """Say what was asked for, from the parameter that asks it; nothing for no such parameter."""
    value = n_features_to_select
    if value is None:
        return ""
    if value == "auto":
        return (
            "keep as few features as predict the others about as well as any number of them does "
            "in new samples, and none where there is no structure beyond noise"
        )
    if value == "support":
        return "keep every feature that the model does not set to zero"
    target = _R2.fullmatch(value.strip()) if isinstance(value, str) else None
    if target:
        share = percent(float(target[1]), 0)
        return f"keep the fewest features that account for {share} of the variance in this table"
    if isinstance(value, float):
        return f"keep {percent(value, 0)} of the features"
    return f"keep the {value} features that stand in best for all others"


def plain_words(found: Findings) -> list[tuple[str, str]]:
    """Return what was asked, what was found and how sure that is: headings and sentences."""
    parts = [("What was asked", _asked(found)), ("What was found", _found(found))]
    if found.worth is not None and found.features.n_kept:
        parts.append(("How good that is", _worth(found)))
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
        return _nothing(found)
    names = [found.features.name(int(place)) for place in found.features.kept.nonzero()[0][:5]]
    shortest = ", ".join(f"“{cut_middle(name, 40)}”" for name in names)
    more = f" and {grouped(n_kept - len(names))} more" if n_kept > len(names) else ""
    components = ""
    if found.components:
        components = f" The method makes {counted(len(found.components), 'component')} of them."
    return f"{counted(n_kept, 'feature')} of {grouped(size)}: {shortest}{more}.{components}"


def _nothing(found: Findings) -> str:
    """Say why nothing is kept."""
    worth = found.worth
    if worth is None:
        return "No feature is kept: the model sets every one to zero. Use lower penalties."
    if worth.n_patterns == 0:
        return (
            "No feature is kept. No pattern in this table is stronger than in random numbers of "
            "the same size, so a set of features would describe these samples and predict nothing "
            "of new ones. Ask for a number of features to see the best of them all the same."
        )
    return f"No feature is kept. {worth.verdict}"


def patterns(worth: Worth) -> str:
    """Return how many independent patterns are above the noise."""
    more = " or more" if worth.more_patterns else ""
    plural = "" if worth.n_patterns == 1 and not more else "s"
    return f"{grouped(worth.n_patterns)}{more} independent pattern{plural}"


def _worth(found: Findings) -> str:
    worth, n_kept = found.worth, found.features.n_kept
    assert worth is not None
    one = n_kept == 1
    kept = "the kept feature" if one else f"the {grouped(n_kept)} kept features"
    random = mean_and_spread(worth.random, worth.random_spread)
    components = (
        f"{counted(n_kept, 'principal component')}, {'' if one else 'each '}a mixture of all "
        f"features, would {{verb}} {short_percent(worth.pca)}"
    )
    this_table = (
        f"In this table {kept} {'accounts' if one else 'account'} for "
        f"{short_percent(worth.in_table)} of the variance and {'makes' if one else 'make'} up "
        f"{short_percent(worth.own_share)} of it"
    )
    if not worth.held_out:
        return (
            f"{this_table}; as many random features account for {random}, and "
            f"{components.format(verb='account for')}. What that is worth in new samples is not "
            f"known: {worth.why_not}."
        )
    return (
        f"In new samples {kept} {'predicts' if one else 'predict'} {short_percent(worth.own)} of "
        f"the others; as many random features predict {random}, and all other features together "
        f"{short_percent(worth.ceiling)}. {components.format(verb='give')}. "
        f"{this_table}."
    )


def _sure(found: Findings) -> str:
    worth, run = found.worth, found.run
    texts = []
    if worth is not None and worth.held_out:
        texts.append(
            "New samples are samples of this table that were held out: the selection was repeated "
            "without them, and they judged what it found."
        )
    if found.proof:
        texts.append(found.proof)
    if run.gap is not None:
        texts.append(
            f"The model is solved to within {run.gap:.1e} (proved); that is a proof about the "
            "model, not about new data."
        )
        return " ".join(texts)
    reason = run.reason.removeprefix("stopped ").rstrip(".")
    if run.converged is False:
        texts.append("The solver did not converge: raise max_iter.")
    if not found.proof:  # else more is known than how good the objective is
        texts.append("The method comes without a proof that its objective is the best possible.")
    if reason:
        texts.append(f"The solver stopped: {reason}.")
    return " ".join(texts)


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
            if isinstance(part, BaseEstimator | Constraints):
                parts += _parts(part)
    return parts


def _import_line(part: Any) -> str:
    kind = type(part)
    modules = kind.__module__.split(".")
    if modules[0] == "jointsparse":
        modules = modules[:1]
    public = [name for name in modules if not name.startswith("_")]
    return f"from {'.'.join(public)} import {kind.__name__}"
