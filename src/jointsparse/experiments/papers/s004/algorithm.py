"""Source 004: what it says about its algorithm and its models, on small problems."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointsparse.datasets import make_spiked
from jointsparse.experiments.claims import Claim, Outcome
from jointsparse.experiments.papers.s004.shared import Cases, Results, fitted, published_model
from jointsparse.experiments.task import Experiment, Row
from jointsparse.methods.cspca import CSPCA
from jointsparse.methods.spca_psd import SPCAPSD
from jointsparse.moments import Moments
from jointsparse.solvers.convex.published import CONSTANTS

PLANTED = ((12, 6), (20, 10), (40, 20))  # features, and how many of them carry the signal
ALPHA, ETA = 0.2, 0.1  # fractions of the penalties that empty the model
HIGHER = 1e-9  # a rise below this share of the objective is rounding


def _cases(quick: bool) -> Cases:
    seeds = range(2 if quick else 10)
    cases: Cases = [
        {"study": "planted", "features": p, "informative": k, "seed": seed}
        for p, k in PLANTED
        for seed in seeds
    ]
    return [*cases, {"study": "asymmetric"}]


def _compute(case: dict[str, Any]) -> list[Row]:
    return [_counterexample()] if case["study"] == "asymmetric" else _planted(case)


def _planted(case: dict[str, Any]) -> list[Row]:
    """Run the published algorithm and the exact solver on one problem with planted features."""
    X, directions = make_spiked(
        200,
        case["features"],
        n_components=3,
        n_informative=case["informative"],
        noise=0.3,
        strength=30.0,
        shared=True,
        random_state=case["seed"],
    )
    data, planted = Moments.from_data(X, copy=False), np.any(directions != 0, axis=0)
    exact = SPCAPSD(alpha=ALPHA, eta=ETA, tol=1e-8, max_iter=5000, n_features_to_select="support")
    fitted(exact, data)
    rows = []
    for constants in CONSTANTS:
        model = published_model("spca-psd", exact.alpha_, exact.eta_)
        fitted(model.set_params(constants=constants, tol=1e-10, max_iter=5000), data)
        steps = np.diff(model.history_) / model.objective_
        rows.append(
            {
                "constants": constants,
                "rises": int(np.count_nonzero(steps > HIGHER)),
                "largest_rise": 100 * float(steps.max(initial=0.0)),
                "iterations": int(model.n_iter_),
                "above": 100 * float(model.objective_ / exact.objective_ - 1),
                "zeros": int(np.count_nonzero(model.feature_scores_ == 0)),
                "exact_zeros": int(np.count_nonzero(exact.feature_scores_ == 0)),
                "exact_is_planted": bool(np.array_equal(exact.feature_scores_ > 0, planted)),
                "gap": float(exact.duality_gap_),
            }
        )
    return rows


def _counterexample() -> Row:
    """Two samples x and -x with x = (2, 1), λ = 1, no rank penalty: Appendix A fails."""
    X = np.array([[2.0, 1.0], [-2.0, -1.0]])
    known = np.array([[1.0, 0.0], [0.5, 0.0]])  # Ω x = x with one feature alone

    def objective(omega: Any) -> float:
        residuals = X - X @ omega.T
        return float(np.linalg.norm(residuals, axis=1).sum() + np.linalg.norm(omega, axis=0).sum())

    data, values = Moments.from_data(X, copy=False), {}
    for psd in (True, False):
        model = CSPCA(
            alpha=1.0,
            eta=0.0,
            psd=psd,
            penalty_scale="absolute",
            tol=1e-9,
            max_iter=20000,
            n_features_to_select="support",
        )
        values[psd] = float(fitted(model, data)[0].objective_)
    return {"psd": values[True], "free": values[False], "asymmetric": objective(known)}


def _judge(results: Results) -> Outcome:
    rows = [(case, row) for case, row in results if case["study"] == "planted"]
    other = [row for case, row in results if case["study"] == "asymmetric"]
    claims = []
    if rows:
        claims = _algorithm_claims([row for _, row in rows])
    if other:
        free, psd, known = other[0]["free"], other[0]["psd"], other[0]["asymmetric"]
        claims.append(
            Claim(
                "the optimum of CSPCA without the constraint is PSD anyway (Appendix A)",
                "equal optima",
                f"{free:.4f} without, {psd:.4f} with the constraint",
                "not reproduced" if psd > free * (1 + 1e-4) else "reproduced",
                "X = [x, -x] with x = (2, 1), λ = 1: the asymmetric Ω = [[1, 0], [.5, 0]] has "
                f"{known:.4f}",
            )
        )
    header: tuple[str, ...] = (
        "features",
        "constants",
        "problems",
        "rose",
        "largest rise, %",
        "above optimum, %",
    )
    header += ("zero columns", "optimum: zero columns", "optimum = planted features")
    table = [
        _line(p, constants, [r for c, r in rows if _is(c, r, p, constants)])
        for p, _ in PLANTED
        for constants in CONSTANTS
        if any(_is(c, r, p, constants) for c, r in rows)
    ]
    return Outcome(claims, [("SPCA-PSD on problems with planted features", header, table)])


def _algorithm_claims(rows: list[Row]) -> list[Claim]:
    rose = [row for row in rows if row["rises"]]
    above = [row["above"] for row in rows]
    zeros, exact_zeros = (sum(row[k] for row in rows) for k in ("zeros", "exact_zeros"))
    planted = sum(row["exact_is_planted"] for row in rows)
    gap = max(row["gap"] for row in rows)
    return [
        Claim(
            "the objective falls in every iteration (Theorem 2)",
            "never rises",
            f"rises in {len(rose)} of {len(rows)} runs, by up to "
            f"{max(row['largest_rise'] for row in rows):.2g} %",
            "not reproduced" if rose else "reproduced",
            "projecting the unconstrained minimiser is not the constrained minimiser",
        ),
        Claim(
            "the algorithm reaches the optimum of the convex model",
            "the optimum",
            f"{min(above):.2g} to {max(above):.2g} % above it",
            "not reproduced" if max(above) > 0.01 else "reproduced",
            f"optima proved to a relative gap of {gap:.0e}",
        ),
        Claim(
            "it yields sparse columns (section 3.1)",
            "zero columns",
            f"{zeros} zero columns in {len(rows)} runs; the optima have {exact_zeros}",
            "not reproduced" if zeros == 0 and exact_zeros else "reproduced",
            f"the optimum is exactly the planted features in {planted} of {len(rows)} runs",
        ),
    ]


def _is(case: dict[str, Any], row: Row, features: int, constants: str) -> bool:
    return bool(case["features"] == features and row["constants"] == constants)


def _line(features: int, constants: str, rows: list[Row]) -> tuple[Any, ...]:
    return (
        *(features, constants, len(rows), sum(row["rises"] > 0 for row in rows)),
        max(row["largest_rise"] for row in rows),
        float(np.median([row["above"] for row in rows])),
        float(np.mean([row["zeros"] for row in rows])),
        float(np.mean([row["exact_zeros"] for row in rows])),
        f"{sum(row['exact_is_planted'] for row in rows)} of {len(rows)}",
    )


EXPERIMENTS = (
    Experiment(
        "004-algorithm",
        "SPCA-PSD's algorithm against the proven optimum; the claim of Appendix A",
        _cases,
        _compute,
        _judge,
    ),
)
