"""From what ``jointsparse select --json`` printed to findings: less than a fit, but enough."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointsparse.report.findings import (
    N_STAND_INS,
    Component,
    Curves,
    Features,
    Findings,
    SolverRun,
    Worth,
    give_reasons,
)
from jointsparse.report.gather import MOST_COMPONENTS, STRONGEST, shown_names
from jointsparse.report.report import versions
from jointsparse.report.words import wanted_words
from jointsparse.text import visible


def findings_from_record(record: Any) -> Findings:
    """Return the findings of a record of ``select --json``; ValueError where it is not one.

    Parameters
    ----------
    record : dict
        The JSON object.
    """
    try:
        return _findings(record)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"this is not what 'jointsparse select --json' writes ({type(error).__name__}: {error})"
        ) from error


def _findings(record: dict[str, Any]) -> Findings:
    rows, worth = record["ranking"], record["worth"]
    parameters = record["parameters"]
    run = SolverRun(
        n_iter=record["iterations"],
        converged=record["converged"],
        gap=record["duality_gap"],
        objective=record["objective"],
        seconds=record["seconds"],
        tol=parameters.get("tol"),
    )
    features = _features(rows, parameters.get("n_features_to_select") == "support")
    curve = features.r2[features.kept]
    return Findings(
        title=visible(f"Which features matter: {record['data']}"),
        features=features,
        data=visible(str(record["data"])),
        n_samples=int(record["n_samples"]),
        scaling={"none": "not scaled"}.get(record["scale"], f"scaled ({record['scale']})"),
        method=visible(str(record["method"])),
        asked=wanted_words(parameters.get("n_features_to_select")),
        parameters={visible(str(k)): visible(repr(v))[:500] for k, v in parameters.items()},
        worth=None if worth is None else _worth(worth),
        curves=Curves(curve) if curve.size and np.isfinite(curve).all() else None,
        components=[
            Component(
                float(part["explained_variance"]),
                int(part["n_nonzero"]),
                [
                    (name, float(value))
                    for name, value in zip(
                        shown_names(list(part["loadings"])), part["loadings"].values(), strict=True
                    )
                ][:STRONGEST],
            )
            for part in (record["components"] or [])[:MOST_COMPONENTS]
        ],
        run=run,
        notes=[visible(str(note)) for note in record["notes"]],
        warnings=[visible(str(text)) for text in record["warnings"]],
        made=versions(),
    )


def _worth(worth: dict[str, Any]) -> Worth:
    held_out = bool(worth["held_out"])
    suffix = "_held_out" if held_out else ""
    return Worth(
        own=float(worth[f"r2{suffix}"]),
        pca=float(worth[f"pca_r2{suffix}"]),
        random=float(worth["random_r2_mean"]),
        random_spread=float(worth["random_r2_std"]),
        held_out=held_out,
    )


def _features(rows: list[dict[str, Any]], by_support: bool) -> Features:
    size = len(rows)
    kept = np.array([bool(row["kept"]) for row in rows])
    scores = np.array([float(row["score"]) for row in rows])
    r2 = np.array([np.nan if row["r2"] is None else float(row["r2"]) for row in rows])
    place = {row["feature"]: i for i, row in enumerate(rows)}
    stand_ins = np.full((size, N_STAND_INS), -1, dtype=np.int64)
    stand_in_r2 = np.full((size, N_STAND_INS), np.nan)
    for i, row in enumerate(rows):
        if row["stand_in"] is not None and row["stand_in_r2"] is not None:
            stand_ins[i, 0] = place[row["stand_in"]]
            stand_in_r2[i, 0] = float(row["stand_in_r2"])
    nothing = np.zeros(size, dtype=bool)
    # What all kept ones explain of a dropped feature is not in the record.
    explained = np.full(size, np.nan)
    return Features(
        columns=np.arange(size),
        names=shown_names([row["feature"] for row in rows]),
        scores=scores,
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
            by_support=by_support,
        ),
    )
