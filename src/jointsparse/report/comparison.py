"""Several methods side by side, as one HTML file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jointsparse.io import atomic_path
from jointsparse.report.page import content_policy, page_template, trusted_asset

if TYPE_CHECKING:
    from jointsparse.model_selection import Comparison, MethodResult

SCORES = {"accuracy": "ACC", "nmi": "NMI", "ari": "ARI"}
MOST_FEATURES = 60  # of those that any method keeps


def save_comparison(
    path: Path | str, found: Comparison, *, title: str, scaling: str = "", made: str = ""
) -> None:
    """Write a comparison as one page that needs no other file, whole or not at all.

    Parameters
    ----------
    path : path-like
        Where to.
    found : Comparison
        From :func:`~jointsparse.compare_methods`.
    title, scaling, made : str
        What was compared, how the columns were scaled, by what it was made: shown as they are.
    """
    style = trusted_asset("report.css")
    page = page_template("comparison.html").render(
        title=title,
        scaling=scaling,
        made=made,
        found=found,
        policy=content_policy(style),
        style=style,
        rows=[_row(found, result) for result in found.results],
        baselines=[
            (f"{found.n_kept} random features", "random", *_share(found.random_r2)),
            (f"{found.n_kept} principal components", "pca", *_share(found.pca_r2)),
        ],
        score_names=SCORES if found.scores_of_all else {},
        scores_of_all=_scores(found.scores_of_all),
        overlap=_overlap(found),
        features=_features(found),
        kept_by_any=int(np.count_nonzero(found.votes)),
    )
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _row(found: Comparison, result: MethodResult) -> dict[str, Any]:
    share, width = _share(result.r2)
    value, lower, upper = result.stability
    steady = "–" if math.isnan(value) else f"{value:.2f} ({lower:.2f} to {upper:.2f})"
    return {
        "name": result.name,
        "error": result.error,
        "share": share,
        "width": width,
        "stability": steady,
        "seconds": "–" if math.isnan(result.seconds) else f"{result.seconds:.2f} s",
        "scores": _scores(result.scores),
        "of_best": found.share_of_best(result) if found.proof else "",
    }


def _share(r2: tuple[float, float]) -> tuple[str, float]:
    mean, spread = r2
    if math.isnan(mean):
        return "–", 0.0
    return _percents(mean, spread), round(100 * min(max(mean, 0.0), 1.0), 1)


def _scores(scores: dict[str, tuple[float, float]] | None) -> list[str]:
    if scores is None:
        return []
    return [_percents(*scores[name]) for name in SCORES]


def _percents(mean: float, spread: float) -> str:
    return f"{100 * mean:.1f} ± {100 * spread:.1f} %"


def _overlap(found: Comparison) -> list[tuple[str, list[str]]]:
    cells = [["–" if math.isnan(v) else f"{v:.2f}" for v in line] for line in found.jaccard]
    return [(result.name, line) for result, line in zip(found.results, cells, strict=True)]


def _features(found: Comparison) -> list[tuple[str, int, str]]:
    """Return the features that most methods keep: name, how many keep it, and which."""
    votes = found.votes
    order = np.argsort(-votes, kind="stable")[:MOST_FEATURES]
    return [
        (
            found.feature_names[j],
            int(votes[j]),
            ", ".join(result.name for result in found.results if j in result.kept),
        )
        for j in order.tolist()
        if votes[j] > 0
    ]
