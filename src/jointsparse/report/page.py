"""From findings to one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from jointsparse.report.findings import (
    REASONS,
    Features,
    Findings,
    PathPoints,
    counted,
    gains_of,
    grouped,
    mean_and_spread,
    percent,
    short_percent,
)
from jointsparse.report.payload import (
    MOST_LISTED,
    packed_json,
    page_data,
    path_axis,
    repeated_places,
    start_point,
)
from jointsparse.report.pictures import (
    Chart,
    heat_map,
    line,
    marked_map,
    shares_chart,
    steps_chart,
    upwards,
)
from jointsparse.report.sections import (
    INLINE_NAME,
    TOO_LITTLE,
    cards,
    chips,
    how_many_words,
    look_view,
    sizes_chart,
)
from jointsparse.report.words import (
    DEFINITIONS,
    asked_words,
    nothing_words,
    sure_lines,
    warnings_beside,
)
from jointsparse.text import cut_middle, visible

ROWS_KEPT, ROWS_DROPPED = 200, 40  # rows that are there without the script, and on paper
PATH_LINES = 40
PATH_HEIGHT = 220
PATH_TICKS = 7
LONG_NAME = 64  # characters: a longer name is folded


@cache
def page_template(name: str) -> Any:
    """Return a template of this package; what it is given is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("jointsparse.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        percent=percent,
        short_percent=short_percent,
        mean_and_spread=mean_and_spread,
        grouped=grouped,
        short=lambda text: cut_middle(text, INLINE_NAME),
    )
    environment.tests["long_name"] = lambda text: len(text) > LONG_NAME
    return environment.get_template(name)


def render(found: Findings) -> str:
    """Return the page."""
    style, script = trusted_asset("report.css"), trusted_asset("report.js")
    text, packed = packed_json(page_data(found))
    page: str = page_template("report.html").render(
        found=found,
        policy=content_policy(style, script),
        style=style,
        script=script,
        data=_Trusted(text),
        packed=packed,
        asked=asked_words(found),
        nothing=nothing_words(found),
        warnings=warnings_beside(found),
        sure=sure_lines(found),
        meaning=DEFINITIONS,
        chips=chips(found.features),
        cards=cards(found),
        look=look_view(found),
        sizes=sizes_chart(found),
        how_many=how_many_words(found),
        rows=_rows(found.features),
        has_shares=bool(np.isfinite(found.features.shares).any()),
        dropped=_dropped(found.features),
        counted=counted,
        most_listed=MOST_LISTED,
        worth=_worth_bars(found),
        curve=_curve(found),
        path=None if found.path is None else _path_picture(found.path, found.features),
        gap_chart=steps_chart(found.run.gaps, "proved gap", log=True),
        objective_chart=steps_chart(found.run.history, "objective", log=False),
        run_rows=_run_rows(found),
        components=_components(found),
        maps=_maps(found),
    )
    return page


class _Trusted(str):
    """Text of this package, or made safe already: stands in the page as it is."""

    def __html__(self) -> str:
        return str(self)


def trusted_asset(name: str) -> _Trusted:
    """Return a style or a script of this package."""
    folder = files("jointsparse.report") / "templates"
    return _Trusted((folder / name).read_text(encoding="utf-8").replace("\r\n", "\n"))


def content_policy(style: str, script: str | None = None) -> str:
    """Forbid everything but the one style and the one script of the page, and pictures in it."""

    def hashed(text: str) -> str:
        digest = hashlib.sha256(text.encode("utf-8")).digest()
        return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"

    scripts = "'none'" if script is None else hashed(script)
    return (
        f"default-src 'none'; script-src {scripts}; style-src {hashed(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _rows(features: Features) -> list[dict[str, Any]]:
    kept = np.flatnonzero(features.kept)[:ROWS_KEPT]
    dropped = np.flatnonzero(~features.kept)[:ROWS_DROPPED]
    repeated = set(repeated_places(features.names))
    gains = gains_of(features.r2)
    rows = []
    for place in [*kept.tolist(), *dropped.tolist()]:
        name = features.name(place)
        score = float(features.scores[place])
        rows.append(
            {
                "rank": place + 1,
                "name": name,
                "column": int(features.columns[place]) if place in repeated else None,
                "kept": bool(features.kept[place]),
                "score": f"{score:.3g}",
                "shared": _shared(features, place),
                "place": place,
                "share": _share(features, place),
                "reason": REASONS[features.reasons[place]].format(
                    gain=percent(float(gains[place])), n_kept=grouped(features.n_kept)
                ),
                "stand_ins": _stand_ins(features, place),
            }
        )
    return rows


def _dropped(features: Features) -> list[tuple[str, int]]:
    """Return the reasons for which features were dropped, and how many were for each."""
    reasons = features.reasons[~features.kept].tolist()
    counts = {key: reasons.count(key) for key in REASONS}
    return [
        (REASONS[key].format(n_kept=grouped(features.n_kept)), count)
        for key, count in counts.items()
        if count
    ]


def _shared(features: Features, place: int) -> int | None:
    """Return what of a feature is shared with others, in whole per cent as the script has it."""
    share = float(features.shares[place])
    return round(100 * share) if np.isfinite(share) else None


def _share(features: Features, place: int) -> str:
    """Return what the kept features account for of a dropped one, in whole per cent."""
    share = float(features.explained[place])
    return percent(share, 0) if np.isfinite(share) and not features.kept[place] else ""


def _stand_ins(features: Features, place: int) -> list[tuple[str, str]]:
    """Return the stand-ins of a dropped feature, each with the share reached with it."""
    pairs: list[tuple[str, str]] = []
    reached = TOO_LITTLE
    shares = np.round(100 * features.stand_in_r2[place])  # in per cent, as the script has them
    for other, share in zip(features.stand_ins[place], shares, strict=True):
        if other < 0 or not share > reached:  # one that adds nothing is not worth telling
            break
        pairs.append((features.name(int(other)), percent(share / 100, 0)))
        reached = share
    return pairs


def _worth_bars(found: Findings) -> list[tuple[str, str, float, float]]:
    """Return title, kind, share and spread of each bar."""
    worth, n_kept = found.worth, found.features.n_kept
    if worth is None or n_kept == 0:
        return []
    kept, random = f"the kept {counted(n_kept, 'feature')}", counted(n_kept, "random feature")
    bars = []
    ends = ("", "")
    if worth.related is not None:  # what the verdict is about
        own, mean, spread = worth.related
        count = worth.n_related_dropped
        others = "others that share" if count is None else f"{grouped(count)} others that share"
        others = "other one that shares" if count == 1 else others
        bars = [
            (f"{kept}, of the {others} something", "own", own, 0.0),
            (f"{random}, of the same", "random", mean, spread),
        ]
        ends = (f", of all {grouped(len(found.features) - n_kept)} others", ", of all others")
    bars += [
        (f"{kept}{ends[0]}", "own", worth.own, 0.0),
        (f"{random}{ends[1]}", "random", worth.random, worth.random_spread),
        ("all other features together", "other", worth.ceiling, 0.0),
        (f"{counted(n_kept, 'principal component')} of all features", "pca", worth.pca, 0.0),
    ]
    return [bar for bar in bars if np.isfinite(bar[2])]


def _curve(found: Findings) -> Chart | None:
    if found.curves is None:
        return None
    known = found.curves
    lines = {"pca": known.pca, "random": known.random, "own": known.kept}
    return shares_chart(lines, "number of features kept")


def _path_picture(path: PathPoints, features: Features) -> dict[str, Any]:
    top = float(path.scores.max(initial=0.0)) or 1.0
    x, y = path_axis(path), upwards(0, top, height=PATH_HEIGHT)
    places = np.arange(path.alphas.size, dtype=np.float64)
    strongest = np.argsort(-path.scores.max(axis=0), kind="stable")[:PATH_LINES]
    # The kept ones last, so that they lie above the others.
    chosen = sorted(strongest.tolist(), key=lambda j: (bool(features.kept[j]), -j))
    lines = [
        line(
            x,
            y,
            places,
            path.scores[:, j],
            "own" if features.kept[j] else "other",
            cut_middle(features.name(j), INLINE_NAME),
        )
        for j in chosen
    ]
    used = None
    if path.used is not None and path.alphas[-1] <= path.used <= path.alphas[0]:
        used = x(float(np.interp(-np.log(path.used), -np.log(path.alphas), places)))
    step = -(-path.alphas.size // PATH_TICKS)
    ticks = [(x(float(i)), f"{path.alphas[i]:.2g}") for i in range(0, path.alphas.size, step)]
    return {
        "chart": Chart(
            x,
            y,
            "penalty, as a share of the one that empties the model",
            "score",
            lines,
            height=PATH_HEIGHT,
            marks=ticks,
        ),
        "used": used,
        "start": start_point(path),
        "last": path.alphas.size - 1,
        "n_lines": len(lines),
        "table": _path_table(path),
    }


def _path_table(path: PathPoints) -> list[tuple[str, str, str]]:
    counts = np.count_nonzero(path.scores, axis=1)
    return [
        (f"{alpha:.3g}", grouped(int(count)), "" if not np.isfinite(gap) else f"{gap:.1e}")
        for alpha, count, gap in zip(path.alphas, counts, path.gaps, strict=True)
    ]


def _run_rows(found: Findings) -> list[tuple[str, str]]:
    run = found.run
    rows = [
        ("relative duality gap (proved)", None if run.gap is None else f"{run.gap:.3g}"),
        ("tolerance", None if run.tol is None else f"{run.tol:g}"),
        ("converged", None if run.converged is None else ("yes" if run.converged else "no")),
        ("stopped because", visible(run.reason) or None),
        ("iterations", None if run.n_iter is None else grouped(int(run.n_iter))),
        ("objective", None if run.objective is None else f"{run.objective:.6g}"),
        ("seconds", None if run.seconds is None else f"{run.seconds:.2f}"),
        *run.diagnostics.items(),
    ]
    return [(name, value) for name, value in rows if value is not None]


def _components(found: Findings) -> list[dict[str, Any]]:
    strengths = [abs(value) for part in found.components for _, value in part.loadings]
    top = max(strengths, default=1.0)
    return [
        {
            "share": percent(part.share) if np.isfinite(part.share) else "",
            "n_nonzero": part.n_nonzero,
            "hidden": part.n_nonzero - len(part.loadings),
            "loadings": [
                (
                    name,
                    f"{value:+.2f}".replace("-", "−"),
                    round(50 * abs(value) / top, 1),
                    value < 0,
                )
                for name, value in part.loadings
            ],
        }
        for part in found.components
    ]


def _maps(found: Findings) -> list[tuple[str, str, str]]:
    """Return caption, description and picture of each pixel map."""
    pixels = found.pixels
    if pixels is None:
        return []
    n_kept, shape = int(pixels.kept.sum()), pixels.shape
    size = f"{shape[0]} × {shape[1]} pixels"
    over = " over the mean picture" if pixels.background is not None else ""
    maps = [
        (
            f"The {counted(n_kept, 'kept pixel')}{over}",
            f"Map of {size}, {n_kept} of them marked as kept",
            marked_map(pixels.background, pixels.kept, shape),
        ),
        (
            "Score of every pixel; white is zero",
            f"Map of {size}: scores, dark where high",
            heat_map(pixels.scores / (float(pixels.scores.max(initial=0.0)) or 1.0), shape),
        ),
    ]
    if pixels.explained is not None:
        maps.append(
            (
                "How much of every pixel the kept ones account for; grey does not vary",
                f"Map of {size}: share that the kept pixels account for, dark where all of it",
                heat_map(pixels.explained, shape),
            )
        )
    return maps
