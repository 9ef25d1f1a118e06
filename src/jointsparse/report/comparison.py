"""Several methods side by side, as one HTML file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jointsparse.io import atomic_path
from jointsparse.report.findings import counted
from jointsparse.report.page import content_policy, page_template, trusted_asset
from jointsparse.report.pictures import RIGHT, TOP, WIDTH, Axis
from jointsparse.text import cut_middle

if TYPE_CHECKING:
    from jointsparse.model_selection import Comparison, MethodResult

SCORES = {"accuracy": "ACC", "nmi": "NMI", "ari": "ARI"}
MOST_FEATURES = 60  # of those that any method keeps
NAMES, ROW = 132, 20  # room for names, and for a method, in the picture


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
        picture=_picture(found),
        rows=[_row(found, result) for result in found.results],
        baselines=[
            (counted(found.n_kept, "random feature"), _share(found.random_r2)),
            (counted(found.n_kept, "principal component"), _share(found.pca_r2)),
        ],
        score_names=SCORES if found.scores_of_all else {},
        scores_of_all=_scores(found.scores_of_all),
        overlap=_overlap(found),
        features=_features(found),
        kept_by_any=int(np.count_nonzero(found.votes)),
        knows_groups=any(not math.isnan(r.group_stability[0]) for r in found.results),
    )
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _picture(found: Comparison) -> dict[str, Any] | None:
    """Return where the methods lie on one axis, the best first, beside chance and PCA."""
    known = [result for result in found.results if not math.isnan(result.r2[0])]
    if not known:
        return None
    known.sort(key=lambda result: -result.r2[0])
    means = [result.r2 for result in known]
    baselines = [pair for pair in (found.random_r2, found.pca_r2) if not math.isnan(pair[0])]
    highest = max(mean + spread for mean, spread in [*means, *baselines])
    lowest = min(mean - spread for mean, spread in [*means, *baselines])
    # From a round number below all, so that differences can be seen; never below 0.
    low = max(0.0, math.floor(10 * lowest - 0.1) / 10)
    x = Axis(low, min(1.0, math.ceil(10 * highest + 0.1) / 10), NAMES, WIDTH - RIGHT)

    def ends(mean: float, spread: float) -> tuple[float, float, float]:
        kept_in = [min(max(v, x.low), x.high) for v in (mean, mean - spread, mean + spread)]
        return x(kept_in[0]), x(kept_in[1]), x(kept_in[2])

    return {
        "rows": [
            (TOP + (i + 0.5) * ROW, cut_middle(result.name, 20), *ends(*result.r2))
            for i, result in enumerate(known)
        ],
        "random": None if math.isnan(found.random_r2[0]) else ends(*found.random_r2),
        "pca": None if math.isnan(found.pca_r2[0]) else ends(*found.pca_r2)[0],
        "ticks": [(place, f"{100 * float(text):.0f}\u202f%") for place, text in x.ticks(4)],
        "bottom": TOP + len(known) * ROW + 4,
    }


def _row(found: Comparison, result: MethodResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "error": result.error,
        "share": _share(result.r2),
        "stability": _interval(result.stability),
        "groups": _interval(result.group_stability),
        "seconds": "–" if math.isnan(result.seconds) else f"{result.seconds:.2f} s",
        "scores": _scores(result.scores),
        "of_best": found.share_of_best(result) if found.proof else "",
    }


def _interval(interval: tuple[float, float, float]) -> str:
    value, lower, upper = interval
    return "–" if math.isnan(value) else f"{value:.2f} ({lower:.2f} to {upper:.2f})"


def _share(r2: tuple[float, float]) -> str:
    return "–" if math.isnan(r2[0]) else _percents(*r2)


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
