"""The convex models: time to a certified gap of 1e-4, and to the reference's own objective."""

import numpy as np

from benchmarks.common import has_data, load
from benchmarks.reference import sample_objective
from benchmarks.tasks import OURS, Bar, Metric, Problem, Task, by_name, ratios

OBJECTIVE = Metric("objective", higher_is_better=False, relative=True, same=1e-4)
NARROW = ("isolet", "pie", "usps", "mnist")


def spca_psd_problems(quick):
    places = [("breast_cancer", 10.0, 10.0, None), ("breast_cancer", 0.005, 0.05, "tr S")]
    if quick:
        places = places[1:]
    elif has_data():
        places += [(name, 10.0, 10.0, None) for name in NARROW]
        places += [(name, 0.005, 0.05, "tr S") for name in NARROW]
        places += [(name, 0.001, 0.05, "tr S") for name in ("colon", "allaml", "orlraws10p")]
    problems = []
    for dataset, lam, eta, unit in places:
        scale = 1.0 if unit is None else float((data_of(dataset) ** 2).sum())
        name = f"{dataset}, λ {lam:g}, η {eta:g}{' × ' + unit if unit else ''}"
        params = {"model": "spca-psd", "lam": lam * scale, "eta": eta * scale}
        problems.append(Problem("convex", "spca-psd", name, dataset, params))
    return problems


def data_of(dataset):
    X = load(dataset)
    return X / X.std(axis=0) if dataset in ("breast_cancer", "wine") else X


def spca_psd_objective(data, params, result):
    """Objective of Ω, by one formula for all, without a p × p matrix where Ω has low rank."""
    X, lam, eta = data["X"], params["lam"], params["eta"]
    if "loadings" in result:
        U = result["loadings"]
        rest = X - (X @ U) @ U.T
        lengths = np.sqrt(np.maximum(np.einsum("ij,ij->i", U @ (U.T @ U), U), 0))
        value = (rest**2).sum() + lam * lengths.sum() + eta * (U**2).sum()
    else:
        omega = result["omega"]
        rest = X - X @ omega
        value = (rest**2).sum() + lam * np.linalg.norm(omega, axis=0).sum() + eta * omega.trace()
    return {"objective": float(value)} | gap_of(result)


def gap_of(result):
    return {"gap": float(result["gap"])} if "gap" in result else {}


def reference_objective(data, params, result):
    """Our solver shall reach what the reference ended with, and not a rounding error more."""
    return {"target": spca_psd_objective(data, params, result)["objective"] * (1 + 1e-9)}


def spca_psd_bars(outcomes):
    found = ratios(outcomes, "reference")
    bars = []
    for text, bar in (("λ 10, η 10", 2), ("λ 0.005, η 0.05 × tr S", 10)):
        here = {
            name: ratio
            for name, ratio in found.items()
            if name.endswith(text) and name.split(",")[0] in NARROW
        }
        words = ", ".join(f"{name.split(',')[0]} {ratio:.1f}" for name, ratio in here.items())
        met = all(ratio >= bar for ratio in here.values()) if here else None
        promise = f"SPCA-PSD at {text}: certified 1e-4 at least {bar} times sooner than reference"
        bars.append(Bar(promise, words or "not measured", met))
    gaps = [
        by_name(rows)[OURS].quality["gap"] for rows in outcomes.values() if OURS in by_name(rows)
    ]
    if gaps:
        words = f"largest gap {max(gaps):.1e} of {len(gaps)} problems"
        bars.append(Bar("SPCA-PSD: certified gap of at most 1e-4", words, max(gaps) <= 1e-4))
    return bars


def sample_problems(model):
    def problems(quick):
        names = ["wine"] if quick or not has_data() else ["wine", "isolet", "usps", "yale"]
        params = {"model": model, "alpha": 0.2, "share": 0.1, "tol": 1e-4}
        return [Problem("convex", model, name, name, params) for name in names]

    return problems


def sample_penalties(data, params, result):
    return {"lam": float(result["lam"]), "eta": float(result["eta"])}


def judge_samples(data, params, result):
    """Objective of Ω, with the best mean for it where the model has one."""
    X, lam, eta = data["X"], params["lam"], params["eta"]
    omega = result["omega"] if "omega" in result else result["loadings"] @ result["loadings"].T
    offset = np.zeros(X.shape[1])
    if params["model"] == "aw-spca-psd":
        offset = geometric_median(X - X @ omega.T)
    return {"objective": float(sample_objective(X, omega, offset, lam, eta))} | gap_of(result)


def geometric_median(rows, steps=300):
    """Point with the least sum of distances to the rows, by Weiszfeld's steps."""
    centre = rows.mean(axis=0)
    for _ in range(steps):
        weights = 1 / np.maximum(np.linalg.norm(rows - centre, axis=1), 1e-12)
        centre = weights @ rows / weights.sum()
    return centre


def load_problem(problem):
    return {"X": data_of(problem.dataset)}


def sample_task(model, title):
    return Task(
        suite="convex",
        name=model,
        title=title,
        problems=sample_problems(model),
        load=load_problem,
        evaluate=judge_samples,
        metric=OBJECTIVE,
        leader=OURS,
        lead=sample_penalties,
    )


TASKS = (
    Task(
        suite="convex",
        name="spca-psd",
        title="SPCA-PSD, certified gap 1e-4",
        problems=spca_psd_problems,
        load=load_problem,
        evaluate=spca_psd_objective,
        metric=OBJECTIVE,
        leader="reference",
        lead=reference_objective,
        bars=spca_psd_bars,
    ),
    sample_task("cspca-psd", "CSPCA-PSD, certified gap 1e-4"),
    sample_task("aw-spca-psd", "AW-SPCA-PSD, certified gap 1e-4"),
)
