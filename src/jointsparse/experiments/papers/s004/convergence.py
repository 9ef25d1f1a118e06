"""Source 004, Figures 2 and 7: convergence of the published algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointsparse.experiments.claims import Claim, Outcome
from jointsparse.experiments.data import moments
from jointsparse.experiments.papers.s004.shared import (
    Cases,
    Results,
    at_hand,
    fitted,
    on_stand_in,
    published_model,
    untested,
)
from jointsparse.experiments.task import Experiment, Row
from jointsparse.methods.spca_psd import SPCAPSD

METHODS = ("cspca", "cspca-psd", "aw-spca", "aw-spca-psd")
PENALTY = 10.0

# Figure 2: convergence curves on PIE.


def _curve_cases(quick: bool) -> Cases:
    names = ["digits"] if quick else at_hand(["pie"])
    return [{"dataset": name, "method": method} for name in names for method in METHODS]


def _curve(case: dict[str, Any]) -> list[Row]:
    model, seconds = fitted(published_model(case["method"], PENALTY), moments(case["dataset"]))
    history = [float(v) for v in model.history_]
    rises = int(np.count_nonzero(np.diff(history) > 1e-9 * abs(history[-1])))
    return [{"history": history, "seconds": seconds, "rises": rises}]


def _judge_curves(results: Results) -> Outcome:
    rows = {case["method"]: row for case, row in results}
    names = sorted({case["dataset"] for case, _ in results})
    if not rows:
        return Outcome([untested("the PSD projection accelerates convergence on PIE")])
    claims = []
    for kind in ("cspca", "aw-spca"):
        if kind not in rows or f"{kind}-psd" not in rows:
            continue
        free, psd = rows[kind], rows[f"{kind}-psd"]
        off = psd["history"][-1] / free["history"][-1] - 1
        claims.append(
            Claim(
                f"the PSD projection accelerates the convergence of {kind} ({names[0]})",
                "fewer iterations on PIE",
                f"{len(psd['history'])} against {len(free['history'])}",
                "reproduced" if len(psd["history"]) < len(free["history"]) else "not reproduced",
                f"it ends {100 * off:.2f} % higher: another model, and not its optimum",
            )
        )
    if names != ["pie"]:
        claims = [on_stand_in(claim, names[0], "pie") for claim in claims]
    table = [
        (m, len(r["history"]), r["history"][-1], r["rises"], r["seconds"]) for m, r in rows.items()
    ]
    header = ("method", "iterations", "last objective", "times it rose", "seconds")
    caption = f"Convergence on {', '.join(names)}, penalties of 10"
    return Outcome(claims, [(caption, header, table)], {"curves": lambda f: _draw(f, rows)})


def _draw(figure: Any, rows: dict[str, Row]) -> None:
    panels = figure.subplots(1, 2)
    for axes, kind in zip(panels, ("cspca", "aw-spca"), strict=True):
        for method, style in ((kind, "-"), (f"{kind}-psd", "--")):
            if method in rows:
                values = rows[method]["history"]
                axes.plot(range(1, len(values) + 1), values, style, label=method)
        axes.set(xlabel="iteration", ylabel="objective", xscale="log")
        axes.legend()


# Figure 7: convergence of SPCA-PSD with λ = η = 10.


def _convergence_cases(quick: bool) -> Cases:
    names = ["digits"] if quick else at_hand(("pie", "orlraws10p"))
    return [{"dataset": name} for name in names]


def _convergence(case: dict[str, Any]) -> list[Row]:
    data = moments(case["dataset"])
    model, seconds = fitted(published_model("spca-psd", 10.0), data)
    exact = SPCAPSD(alpha=10.0, eta=10.0, penalty_scale="absolute", n_features_to_select="support")
    exact, exact_seconds = fitted(exact, data)
    return [
        {
            "history": [float(v) for v in model.history_],
            "seconds": seconds,
            "optimum": float(exact.objective_),
            "gap": float(exact.duality_gap_),
            "exact_seconds": exact_seconds,
            "exact_iterations": int(exact.n_iter_),
        }
    ]


def _judge_convergence(results: Results) -> Outcome:
    rows = {case["dataset"]: row for case, row in results}
    claims = [
        untested(f"SPCA-PSD converges on {name} within 50 iterations")
        for name in ("pie", "orlraws10p")
        if name not in rows and name not in at_hand(("pie", "orlraws10p"))
    ]
    table = []
    for name, row in rows.items():
        history = np.array(row["history"])
        rises = np.diff(history)
        rises = rises[rises > 1e-9 * history[-1]]
        above = 100 * (history[-1] / row["optimum"] - 1)
        lowest = 100 * (history[-1] / history.min() - 1)
        claims += [
            Claim(
                f"{name}: converges within 50 iterations",
                "usually under 50",
                str(len(history)),
                "reproduced" if len(history) < 50 else "not reproduced",
            ),
            Claim(
                f"{name}: the objective falls in every iteration (Theorem 2)",
                "never rises",
                f"rises {len(rises)} times, by {rises.max(initial=0.0):.3g} at most",
                "not reproduced" if len(rises) else "reproduced",
                f"it ends {lowest:.2g} % above the lowest value on its way",
            ),
            Claim(
                f"{name}: ends at the optimum",
                "the optimum",
                f"{above:.2f} % above it",
                "not reproduced" if above > 0.01 else "reproduced",
                f"the exact solver proves its optimum to a relative gap of {row['gap']:.0e}",
            ),
        ]
        table.append(
            (
                *(name, len(history), float(history[-1]), row["optimum"], row["seconds"]),
                *(row["exact_iterations"], row["exact_seconds"]),
            )
        )
    header: tuple[str, ...] = (
        "dataset",
        "iterations",
        "published: objective",
        "optimum",
        "seconds",
    )
    header += ("exact: iterations", "exact: seconds")
    figures = {"convergence": lambda f: _draw_convergence(f, rows)} if rows else {}
    return Outcome(claims, [("Figure 7: λ = η = 10", header, table)], figures)


def _draw_convergence(figure: Any, rows: dict[str, Row]) -> None:
    panels = figure.subplots(1, len(rows), squeeze=False)[0]
    for axes, (name, row) in zip(panels, rows.items(), strict=True):
        values = row["history"]
        axes.plot(range(1, len(values) + 1), values, "o-", ms=3, label="published algorithm")
        axes.axhline(row["optimum"], color="tab:green", ls="--", label="proven optimum")
        axes.set(xlabel="iteration", ylabel="objective", title=name)
        axes.legend()


EXPERIMENTS = (
    Experiment(
        "004-figure2",
        "Convergence of CSPCA and AW-SPCA with and without PSD, on PIE",
        _curve_cases,
        _curve,
        _judge_curves,
    ),
    Experiment(
        "004-figure7",
        "Convergence of SPCA-PSD, beside the proven optimum",
        _convergence_cases,
        _convergence,
        _judge_convergence,
    ),
)
