"""What tools keep by their own defaults: of noise, and where the truth is known."""

import sys
from functools import cache

import numpy as np

from benchmarks.common import ROOT
from benchmarks.tasks import OURS, Bar, Metric, Problem, Task, by_name

DRAWS = 10
TESTED_DRAWS = 100  # of ours alone: of ten draws the share of noise has a standard error of 1.5 %
FIRST_SEED = 9000  # no draw that the tests or the page of evidence have looked at
ALARMS = 0.05  # share of tables of noise in which something may be kept
FALSE = 0.06  # share of noise among what is called significant
POWER = 0.95  # share of the signal that is called significant


@cache
def tables():
    """Return the kinds of noise, their shapes and the planted families, which the tests define."""
    folder = str(ROOT / "tests")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    from test_significance import NOISE, PLANTED, SHAPES

    return NOISE, SHAPES, PLANTED


def noise_problems(quick):
    kinds, shapes, _ = tables()
    kinds, shapes = (list(kinds)[:1], shapes[:1]) if quick else (kinds, shapes)
    return [
        Problem(
            "noise", "noise", f"{kind}, {n} × {p}", (kind, n, p), {"draws": 2 if quick else DRAWS}
        )
        for kind in kinds
        for n, p in shapes
    ]


def planted_problems(quick):
    families = list(tables()[2])[-1:] if quick else tables()[2]
    return [Problem("noise", "planted", family, family, params(quick)) for family in families]


def tested_problems(quick):
    families = list(tables()[2])[-1:] if quick else tables()[2]
    draws = {"draws": 2 if quick else TESTED_DRAWS}
    return [Problem("noise", "tested", family, family, draws) for family in families]


def params(quick):
    return {"draws": 2 if quick else DRAWS}


def load_noise(problem):
    kind, n, p = problem.dataset
    draw = tables()[0][kind]
    seeds = range(FIRST_SEED, FIRST_SEED + problem.params["draws"])
    return tables_of(draw(np.random.default_rng([seed, n, p]), (n, p)) for seed in seeds)


def load_planted(problem):
    draw = tables()[2][problem.dataset]
    seeds = range(FIRST_SEED, FIRST_SEED + problem.params["draws"])
    pairs = [draw(np.random.default_rng([seed, 7])) for seed in seeds]
    return tables_of(X for X, _ in pairs) | {"_signal": [signal for _, signal in pairs]}


def tables_of(draws):
    """Return every draw standardised and as it came; constant columns stay zero."""
    data = {}
    for number, X in enumerate(draws):
        scale = X.std(axis=0)
        data[f"X{number}"] = (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1)
        data[f"raw_X{number}"] = X
    return data


def judge_noise(data, params, result):
    kept = masks(result, params["draws"])
    return {
        "alarms": float(np.mean([mask.any() for mask in kept])),
        "kept": float(np.mean([mask.mean() for mask in kept])),
    }


def judge_planted(data, params, result):
    kept = masks(result, params["draws"])
    pairs = list(zip(kept, data["_signal"], strict=True))
    return {
        "false": float(np.mean([(mask & ~s).sum() / max(1, mask.sum()) for mask, s in pairs])),
        "power": float(np.mean([mask[s].mean() for mask, s in pairs])),
        "kept": float(np.mean([mask.mean() for mask, _ in pairs])),
    }


def masks(result, draws):
    return [np.asarray(result[f"kept{number}"], dtype=bool) for number in range(draws)]


def noise_bars(outcomes):
    ours = [by_name(rows).get(OURS) for rows in outcomes.values()]
    found = [one.quality["alarms"] for one in ours if one is not None]
    words = f"{100 * np.mean(found):.1f} % of the tables" if found else "not measured"
    met = bool(np.mean(found) <= ALARMS) if found else None
    return [Bar(f"Noise: something is kept in at most {100 * ALARMS:.0f} % of tables", words, met)]


def tested_bars(outcomes):
    ours = {problem: by_name(rows).get(OURS) for problem, rows in outcomes.items()}
    quality = {problem: one.quality for problem, one in ours.items() if one is not None}
    bars = []
    for name, holds, promise in (
        ("false", lambda value: value <= FALSE, f"at most {100 * FALSE:.0f} % of noise"),
        ("power", lambda value: value >= POWER, f"at least {100 * POWER:.0f} % of the signal"),
    ):
        missed = {key: one[name] for key, one in quality.items() if not holds(one[name])}
        words = "; ".join(f"{key} {100 * value:.1f} %" for key, value in missed.items())
        words = words or f"in all {len(quality)} families" if quality else "not measured"
        met = not missed if quality else None
        bars.append(Bar(f"Planted tables: what is called significant has {promise}", words, met))
    return bars


NOTES = """Every tool chooses by its own defaults how many features it keeps. Ten tables each;
columns are standardised, but for tools that need the values as they came. *alarms*: share of the
tables in which something is kept; *kept*: share of the features; *false*: share of noise among
what is kept; *power*: share of the signal that is kept. jointsparse keeps few on purpose, those
that stand in for the others: what it calls significant has a row of its own."""

TASKS = (
    Task(
        suite="noise",
        name="noise",
        title="Noise: share of the features that a tool keeps by its own defaults",
        problems=noise_problems,
        load=load_noise,
        evaluate=judge_noise,
        metric=Metric("kept", higher_is_better=False, same=1e-3),
        bars=noise_bars,
        notes=NOTES,
    ),
    Task(
        suite="noise",
        name="planted",
        title="Planted tables: share of noise in what a tool keeps by its own defaults",
        problems=planted_problems,
        load=load_planted,
        evaluate=judge_planted,
        metric=Metric("false", higher_is_better=False, same=1e-3),
        notes=NOTES,
    ),
    Task(
        suite="noise",
        name="tested",
        title="Planted tables: share of noise in what is called significant",
        problems=tested_problems,
        load=load_planted,
        evaluate=judge_planted,
        metric=Metric("false", higher_is_better=False, same=1e-3),
        bars=tested_bars,
        notes=f"What the test of the features calls significant, in {TESTED_DRAWS} tables each.",
    ),
)
