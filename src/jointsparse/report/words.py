"""The sentences of a report, and the Python that makes its fit again."""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from jointsparse.report.findings import (
    Findings,
    Worth,
    counted,
    grouped,
    percent,
    short_percent,
)
from jointsparse.solvers.subset.constraints import Constraints
from jointsparse.text import left_out

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
    if value == 1:
        return "keep the one feature that stands in best for all others"
    return f"keep the {value} features that stand in best for all others"


# What each number on the page means: one definition, wherever it is shown.
DEFINITIONS = {
    "predicted in new samples": "Share (R²) of the variance of the features that were dropped, "
    "predicted from the kept ones by regression, in samples that took no part in the selection: "
    "the table is cut into parts, and for each part everything is repeated without it.",
    "random features": "The same for twenty random sets of as many features: their mean ± standard "
    "deviation. The baseline.",
    "all other features": "The same when every feature is predicted from all others together: the "
    "most that can be had.",
    "principal components": "The same for as many principal components. Each is a mixture of all "
    "features, so all of them would have to be measured.",
    "accounted for in this table": "R² in the very samples that the features were chosen on; "
    "always higher than in new samples. Of all features, unless one is named.",
    "stands in for": "Each dropped feature is listed under the kept one that alone accounts for "
    "most of it in this table; the number is that share. Those with no more than 4 % are not "
    "listed: nothing stands in for them.",
    "kept again": "The selection is repeated three times, each time without a third of the samples "
    "(twice without half of them, where the table is read in blocks or missing values are "
    "estimated). Counted is how often the feature is kept: itself, or one that is nearly the same "
    "(squared correlation of at least 0.8).",
    "shared": "Share of the feature that all other features together account for, beyond noise.",
    "score": "The method's own number. It orders features; its size has no meaning by itself, and "
    "the set is not simply the highest scores, which often repeat each other.",
    "alike": "Share of the positions on the first map that a regression on the kept features "
    "tells, each for a sample that had no part in the regression.",
}


def sure_lines(found: Findings) -> list[tuple[str, str]]:
    """Return what the answer rests on: a few words and a sentence for each kind of evidence."""
    lines = [("New samples", _new_samples(found))]
    worth = found.worth
    if worth is not None and found.features.n_kept:
        lines += [("Repeats", _repeats(found)), ("This table", _this_table(found))]
    if worth is not None:
        size = grouped(len(found.features))
        lines.append(
            (
                "Above the noise",
                f"{patterns(worth)[:1].upper()}{patterns(worth)[1:]}; "
                f"{grouped(worth.n_significant)} of {size} features share something with others.",
            )
        )
    if found.features.n_kept:
        lines.append(("Best possible set", _best_set(found)))
    if found.constraints:
        lines.append(("Constraints", _constraints(found)))
    lines.append(("The model", _model(found)))
    return [(name, text) for name, text in lines if text]


def _new_samples(found: Findings) -> str:
    worth = found.worth
    if worth is None or not found.features.n_kept:
        return ""
    if not worth.held_out:
        return f"What the set predicts in new samples is not known: {worth.why_not}."
    return (
        "New samples are samples of this table that were held back: the selection was repeated "
        "without them, and they judged what it found."
    )


def _repeats(found: Findings) -> str:
    worth, again = found.worth, found.features.found_again
    assert worth is not None
    if again is None or not worth.n_parts:
        return ""
    known = again[np.isfinite(again)]
    if not known.size:
        return ""
    always = int(np.count_nonzero(known > 1 - 1e-9))
    if known.size == 1:
        return (
            f"The kept feature, or one nearly the same, is {'' if always else 'not '}kept again in "
            f"all {worth.n_parts} repeats, each without {left_out(worth.n_parts)} of the samples."
        )
    return (
        f"{grouped(always)} of the {counted(known.size, 'kept feature')}, or features nearly the "
        f"same, are kept again in all {worth.n_parts} repeats, each without "
        f"{left_out(worth.n_parts)} of the samples."
    )


def _best_set(found: Findings) -> str:
    if found.proof:
        text = found.proof[:1].upper() + found.proof[1:]
        return text if text.endswith(".") else f"{text}."
    return (
        "How close this is to the best possible set of the same size was not proved; --prove on "
        "the command line and certify_set in Python prove it."
    )


def _constraints(found: Findings) -> str:
    """Say which constraints held and what they cost, a sentence each."""
    return " ".join(f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in found.constraints)


def asked_words(found: Findings) -> str:
    """Say what was asked, of which table."""
    return _asked(found)


def nothing_words(found: Findings) -> str:
    """Say why nothing is kept; nothing where something is."""
    return "" if found.features.n_kept else _nothing(found)


def warnings_beside(found: Findings) -> list[str]:
    """Return the warnings that say something else than the verdict does."""
    if found.worth is None:
        return found.warnings
    said = found.worth.verdict.split(":")[0].casefold()
    return [text for text in found.warnings if said not in text.casefold()]


def _asked(found: Findings) -> str:
    size = [counted(len(found.features), "feature"), found.scaling]
    if found.n_samples is not None:
        size.insert(0, counted(found.n_samples, "sample"))
    table = f"“{found.data}”" if found.data else "the table"
    labels = "" if found.supervised else " No label was looked at."
    asked = found.asked or "find the features that matter"
    return f"From {table} ({', '.join(filter(None, size))}), {asked}.{labels}"


def _nothing(found: Findings) -> str:
    """Say why nothing is kept."""
    worth = found.worth
    if worth is None:
        return "No feature is kept: the model sets every one to zero. Use lower penalties."
    if worth.n_patterns == worth.n_significant == 0:
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


def _this_table(found: Findings) -> str:
    worth, one = found.worth, found.features.n_kept == 1
    assert worth is not None
    kept = "The kept feature" if one else f"The {grouped(found.features.n_kept)} kept features"
    return (
        f"{kept} {'accounts' if one else 'account'} for {short_percent(worth.in_table)} of the "
        f"variance in this table, and {'makes' if one else 'make'} up "
        f"{short_percent(worth.own_share)} of it."
    )


def _model(found: Findings) -> str:
    run = found.run
    if run.gap is not None:
        return (
            f"The model is solved to within {run.gap:.1e} (proved); that is a proof about the "
            "model, not about new data."
        )
    texts = []
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
