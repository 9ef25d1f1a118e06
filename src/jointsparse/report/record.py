"""From what ``jointsparse select --json`` printed to findings: less than a fit, but enough."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray
from jointsparse.report.entries import amount, entry, listing, number, scaling_of, sentence
from jointsparse.report.findings import (
    N_STAND_INS,
    Component,
    Curves,
    Features,
    Findings,
    Sizes,
    SolverRun,
    Worth,
    give_reasons,
)
from jointsparse.report.gather import MOST_COMPONENTS, STRONGEST, shown_names
from jointsparse.report.outliers import outliers_from_record
from jointsparse.report.report import versions
from jointsparse.report.words import wanted_words
from jointsparse.text import visible

MOST_FEATURES = 10**8  # beyond any table


def findings_from_record(record: Any) -> Findings:
    """Return the findings of a record of ``select --json``.

    Raises ValueError, with what is wrong, where it is not one.

    Parameters
    ----------
    record : dict
        The JSON object.
    """
    rows, verdict = listing(record, "ranking"), entry(record, "verdict")
    worth = None
    if verdict is not None:
        worth = _worth(entry(record, "worth"), sentence(verdict, "verdict"))
    parameters = entry(record, "parameters")
    if not rows or not isinstance(parameters, dict):
        raise ValueError("'ranking' is empty, or 'parameters' is not an object")
    wanted = parameters.get("n_features_to_select")
    n_iter, converged = entry(record, "iterations"), entry(record, "converged")
    run = SolverRun(
        n_iter=None if n_iter is None else amount(record, "iterations"),
        converged=None if converged is None else bool(converged),
        gap=_known(record, "duality_gap"),
        objective=_known(record, "objective"),
        seconds=_known(record, "seconds"),
        tol=_known(parameters, "tol") if "tol" in parameters else None,
    )
    features = _features(rows, wanted == "support", None if worth is None else worth.n_significant)
    curve = features.r2[features.kept]
    data = sentence(entry(record, "data"), "data")
    return Findings(
        title=f"Which features matter: {data}",
        features=features,
        data=data,
        n_samples=amount(record, "n_samples"),
        scaling=scaling_of(record),
        method=sentence(entry(record, "method"), "method"),
        asked=wanted_words(wanted if isinstance(wanted, str | int | float) else None),
        parameters={visible(str(k)): visible(repr(v))[:500] for k, v in parameters.items()},
        worth=worth,
        curves=Curves(curve) if curve.size and np.isfinite(curve).all() else None,
        sizes=None if worth is None else _sizes(record["worth"].get("curve")),
        components=_components(entry(record, "components")),
        run=run,
        proof=_proof(record.get("set")),
        outliers=outliers_from_record(record.get("outliers")),  # not in earlier versions
        constraints=_constraints(record.get("constraints")),
        notes=[sentence(note, "notes") for note in listing(record, "notes")],
        warnings=[sentence(text, "warnings") for text in listing(record, "warnings")],
        made=versions(),
    )


def _proof(found: Any) -> str:
    """Return what is proved about the set; earlier versions knew nothing of that."""
    return "" if found is None else sentence(entry(found, "words"), "words")


def _constraints(held: Any) -> list[str]:
    """Return what is said about the constraints; earlier versions said it among the notes."""
    if held is None:
        return []
    if not isinstance(held, dict):
        raise ValueError("'constraints' is not an object")
    if "words" not in held:
        return []
    return [sentence(text, "words") for text in listing(held, "words")]


def _known(record: Any, name: str) -> float | None:
    found = entry(record, name)
    return None if found is None else number(found, name)


def _components(parts: Any) -> list[Component]:
    if parts is None:
        return []
    if not isinstance(parts, list):
        raise ValueError("'components' is not a list")
    found = []
    for part in parts[:MOST_COMPONENTS]:
        loadings = entry(part, "loadings")
        if not isinstance(loadings, dict):
            raise ValueError("'loadings' is not an object")
        names = shown_names(list(loadings))
        values = (number(value, "loadings") for value in loadings.values())
        strongest = list(zip(names, values, strict=True))[:STRONGEST]
        share = number(entry(part, "explained_variance"), "explained_variance")
        found.append(Component(share, amount(part, "n_nonzero"), strongest))
    return found


def _worth(worth: Any, verdict: str) -> Worth:
    held_out = bool(entry(worth, "held_out"))
    suffix = "_held_out" if held_out else ""
    own, pca, mean, spread = (
        number(entry(worth, name), name)
        for name in (f"r2{suffix}", f"pca_r2{suffix}", "random_r2_mean", "random_r2_std")
    )
    ceiling, in_table, own_share = (
        number(entry(worth, name), name) for name in ("ceiling", "r2", "own_share")
    )
    return Worth(
        verdict=verdict,
        own=own,
        pca=pca,
        random=mean,
        random_spread=spread,
        held_out=held_out,
        why_not=sentence(entry(worth, "why_not_held_out"), "why_not_held_out"),
        ceiling=ceiling,
        in_table=in_table,
        own_share=own_share,
        n_patterns=amount(worth, "n_patterns"),
        n_significant=amount(worth, "n_significant"),
        more_patterns=bool(entry(worth, "more_patterns")),
        n_parts=amount(worth, "n_parts", most=1000) if "n_parts" in worth else 0,
        related=_related(worth.get("related")),
        n_related_dropped=(
            amount(worth, "n_significant") - amount(worth, "n_kept_significant")
            if "n_kept_significant" in worth  # earlier versions did not record it
            else None
        ),
    )


def _related(found: Any) -> tuple[float, float, float] | None:
    """Return what is predicted of related features; earlier versions did not record it."""
    if found is None:
        return None
    names = ("r2", "random_r2_mean", "random_r2_std")
    own, mean, spread = (number(entry(found, name), name) for name in names)
    return own, mean, spread


def _sizes(found: Any) -> Sizes | None:
    """Return the curve over the number of features; earlier versions did not record it."""
    if found is None:
        return None
    sizes, r2, error = (
        np.array([number(value, name) for value in listing(found, name)])
        for name in ("sizes", "r2", "error")
    )
    whole = bool(np.all((sizes == sizes.round()) & (sizes >= 1) & (sizes <= MOST_FEATURES)))
    if not (sizes.size == r2.size == error.size > 0 and whole and np.isfinite(r2 + error).all()):
        raise ValueError("'curve' has not as many numbers everywhere, or not whole sizes")
    return Sizes(sizes.astype(np.int64), r2, error)


def _unrelated(pvalues: FloatArray, n_significant: int | None) -> NDArray[np.bool_]:
    """Return which features share nothing with others: the significant have the lowest p values."""
    if n_significant is None or np.isnan(pvalues).any():
        return np.zeros(pvalues.size, dtype=bool)
    if not 0 < n_significant <= pvalues.size:
        return np.ones(pvalues.size, dtype=bool)
    return pvalues > np.sort(pvalues)[n_significant - 1]


def _features(rows: list[Any], by_support: bool, n_significant: int | None) -> Features:
    size = len(rows)
    shares, pvalues = (
        np.array([number(entry(row, name), name) for row in rows]) for name in ("shared", "p_value")
    )
    kept = np.array([bool(entry(row, "kept")) for row in rows])
    scores = np.nan_to_num([number(entry(row, "score"), "score") for row in rows])
    r2 = np.array([number(entry(row, "r2"), "r2") for row in rows])
    again = np.array([number(row.get("found_again"), "found_again") for row in rows])
    names = [entry(row, "feature") for row in rows]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("'feature' is not a text")
    place = {name: i for i, name in enumerate(names)}
    stand_ins = np.full((size, N_STAND_INS), -1, dtype=np.int64)
    stand_in_r2 = np.full((size, N_STAND_INS), np.nan)
    for i, row in enumerate(rows):
        stand_in, share = entry(row, "stand_in"), entry(row, "stand_in_r2")
        if stand_in is not None and share is not None:
            if stand_in not in place:
                raise ValueError("'stand_in' is not a feature")
            stand_ins[i, 0], stand_in_r2[i, 0] = place[stand_in], number(share, "stand_in_r2")
    nothing = np.zeros(size, dtype=bool)
    # What all kept ones explain of a dropped feature is not in the record.
    explained = np.full(size, np.nan)
    return Features(
        columns=np.arange(size),
        names=shown_names(names),
        scores=scores,
        shares=shares,
        kept=kept,
        r2=r2,
        explained=explained,
        stand_ins=stand_ins,
        stand_in_r2=stand_in_r2,
        reasons=give_reasons(
            kept=kept,
            scores=scores,
            r2=r2,
            explained=np.nan_to_num(stand_in_r2[:, 0]),
            constant=nothing,
            proved_zero=nothing,
            unrelated=_unrelated(pvalues, n_significant),
            by_support=by_support,
        ),
        found_again=again,
    )
