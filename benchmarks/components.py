"""What the component methods promise, measured: ``python -m benchmarks.components [SECTION ...]``.

The datasets are read from the folder that JOINTSPARSE_DATA names. Times are medians of interleaved
runs with one BLAS thread, and only their ratios are meant to be compared: seconds of the processor,
so that other work on the machine does not count. What a section returns is kept in
benchmarks/results/component_methods.json, from which docs/components.md has its tables and numbers.
"""

import sys
import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import SparsePCA, dict_learning
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks import common, keeping
from benchmarks.common import ROOT, load, verdict
from benchmarks.pages import Table, grid
from jointsparse import JSPCA, SPCA, DictionarySPCA, Moments, RobustPCA, regularization_path
from jointsparse.solvers.components.joint import (
    FeatureLoss,
    FrobeniusLoss,
    SampleLoss,
    emptying_joint_penalty,
    solve_joint,
)
from jointsparse.solvers.components.joint_published import solve_joint_published
from jointsparse.solvers.products.gram import Gram, SampleGram

STORED = ROOT / "benchmarks" / "results" / "component_methods.json"


def timed(function):
    return common.timed(function, time.process_time)


def alternate(ours, theirs, repeats=3):
    return common.alternate(ours, theirs, repeats, time.process_time)


def digits():
    X = load_digits().data
    return X - X.mean(axis=0)


def objective(X, codes, atoms, lam):
    return 0.5 * np.sum((X - codes @ atoms) ** 2) + lam * np.abs(atoms).sum()


def objective_of_sparse_pca(X, q, lam):
    """Objective of scikit-learn's solution, from its own factors, checked in two ways.

    ``SparsePCA`` keeps its atoms only at unit length and its codes not at all, so the function
    that it calls is run once more (with the same arguments, hence the same result).
    """
    atoms, codes, errors = dict_learning(
        X.T, q, alpha=lam, tol=1e-8, max_iter=1000, method="cd", random_state=0
    )
    found = objective(X, codes.T, atoms.T, lam)
    assert np.linalg.norm(codes, axis=1).max() <= 1 + 1e-9
    assert abs(found / errors[-1] - 1) < 1e-9
    return found


def dictionary():
    """DictionarySPCA against scikit-learn's SparsePCA: objective, and time at most one fifth."""
    q, found = 10, []
    for name, X, shares in (
        ("digits", digits(), (0.004, 0.09, 0.17)),
        ("yale", load("yale"), (0.02, 0.1, 0.17)),
    ):
        longest = np.linalg.norm(X, axis=0).max()
        for share in shares:
            lam = share * longest
            model = DictionarySPCA(n_components=q, alpha=share)
            rival = SparsePCA(q, alpha=lam, ridge_alpha=0, method="cd", random_state=0)
            repeats = 1 if share < 0.05 else 3
            mine, theirs = alternate(
                lambda m=model, X=X: m.fit(X), lambda r=rival, X=X: r.fit(X), repeats
            )
            theirs_objective = objective_of_sparse_pca(X, q, lam)
            assert abs(theirs_objective / rival.error_[-1] - 1) < 1e-9
            zeros = [float(np.mean(m.components_ == 0)) for m in (model, rival)]
            print(
                f"{name:7s} {share:5.3f} of the largest λ, zeros {zeros[0]:.0%} ({zeros[1]:.0%}): "
                f"objective {model.objective_:.8g} against {theirs_objective:.8g} "
                f"{verdict(model.objective_ <= theirs_objective)}; {mine:.3f} s against "
                f"{theirs:.2f} s, ratio 1/{theirs / mine:.0f} (bar 1/5) "
                f"{verdict(5 * mine <= theirs)}",
                flush=True,
            )
            found.append(
                {
                    "data": name,
                    "size": X.shape,
                    "zeros": zeros[0],
                    "objectives": [model.objective_, theirs_objective],
                    "seconds": [mine, theirs],
                }
            )
    return found


def many_samples():
    """DictionarySPCA: the cost of 10 000 and of 1 000 000 samples of 64 features."""
    rng = np.random.default_rng(0)
    for n in (10_000, 1_000_000):
        X = rng.standard_normal((n, 5)) @ rng.standard_normal((5, 64))
        X += 0.5 * rng.standard_normal((n, 64))
        one_pass, moments = timed(lambda X=X: Moments.from_data(X))
        rest, _ = timed(lambda m=moments: m.scatter)
        model = DictionarySPCA(n_components=5)
        fit, _ = timed(lambda model=model, m=moments: model.fit_moments(m))
        print(
            f"n = {n}: moments {one_pass + rest:.2f} s, fit {fit:.3f} s, {model.n_iter_} iterations"
        )


def planted(n, p, rank, share, seed=0):
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    E = np.where(rng.random((n, p)) < share, rng.uniform(1, 10, (n, p)), 0) * L.std()
    return L, E * rng.choice([-1, 1], (n, p))


def pursuit():
    """RobustPCA on planted problems: error of the low-rank part, support, certified gap."""
    found = []
    for n, p, rank, share in (
        (200, 200, 5, 0.05),
        (200, 200, 5, 0.1),
        (100, 1000, 5, 0.1),
        (1000, 100, 5, 0.1),
        (500, 500, 25, 0.1),
        (200, 20_000, 5, 0.05),
    ):
        L, E = planted(n, p, rank, share)
        model = RobustPCA()
        seconds, _ = timed(lambda model=model, X=L + E: model.fit(X))
        error = np.linalg.norm(model.low_rank_ - L) / np.linalg.norm(L)
        exact = np.array_equal(model.outlier_entries_, E != 0)
        support = f"support {'exact' if exact else 'wrong'} {verdict(error < 1e-6 and exact)}"
        print(
            f"{n} x {p}, rank {rank}, {share:.0%} errors: error {error:.1e}, {support}; "
            f"rank {model.rank_}, gap {model.duality_gap_:.1e}, "
            f"{model.n_iter_} iterations, {seconds:.2f} s",
            flush=True,
        )
        found.append(
            {
                "size": [n, p],
                "rank": rank,
                "share": share,
                "error": error,
                "exact": exact,
                "gap": model.duality_gap_,
                "iterations": model.n_iter_,
            }
        )
    return found


def against_growing_steps():
    """RobustPCA against the usual inexact multiplier method: how far from the optimum it stops."""
    problems = {"noisy 100 x 30": np.add(*noisy())}
    for name in ("yale", "colon"):
        problems[name] = load(name)
    problems["planted 50 x 400"] = np.add(*planted(50, 400, 3, 0.1))
    above = {}
    for name, X in problems.items():
        model = RobustPCA(tol=1e-6)
        mine, _ = timed(lambda model=model, X=X: model.fit(X))
        centred = X - np.median(X, axis=0)
        theirs, E = timed(lambda Z=centred, lam=model.alpha_: growing_steps(Z, lam))
        value = np.linalg.svd(centred - E, compute_uv=False).sum() + model.alpha_ * np.abs(E).sum()
        optimum = model.objective_ * (1 - model.duality_gap_)
        print(
            f"{name:17s} certified gap {model.duality_gap_:.1e} in {mine:.2f} s; growing steps end "
            f"{value / optimum - 1:.1e} above the optimum in {theirs:.2f} s"
        )
        above[name] = value / optimum - 1
    return above


def noisy():
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((100, 3)) @ rng.standard_normal((3, 30))
    return signal, 0.3 * rng.standard_normal((100, 30))


def growing_steps(X, lam, tol=1e-7, growth=1.5):
    """The inexact augmented Lagrangian method with its usual constants, transcribed plainly."""
    largest = np.linalg.norm(X, 2)
    Z, step, E = X / max(largest, np.abs(X).max() / lam), 1.25 / largest, np.zeros_like(X)
    for _ in range(1000):
        left, values, right = np.linalg.svd(X - E + Z / step, full_matrices=False)
        L = (left * np.clip(values - 1 / step, 0, None)) @ right
        T = X - L + Z / step
        E = T - np.clip(T, -lam / step, lam / step)
        rest = X - L - E
        Z, step = Z + step * rest, step * growth
        if np.linalg.norm(rest) < tol * np.linalg.norm(X):
            break
    return E


def joint_spaces():
    """JSPCA on wide data: through the samples against p × p matrices (bar: 5 times faster)."""
    X = load("yale")
    X /= np.linalg.norm(X)
    faster = {}
    for loss in ("samples", "frobenius", "features"):

        def run(wide, loss=loss):
            if loss == "samples":
                model = SampleLoss(X, wide=wide)
            else:
                gram = SampleGram(X) if wide else Gram(X.T @ X)
                model = FrobeniusLoss(gram) if loss == "frobenius" else FeatureLoss(gram)
            start = model.start(3)
            penalty = 0.2 * emptying_joint_penalty(model, start)
            return solve_joint(model, start, penalty, tol=1e-5, max_iter=500)

        faster[loss] = _report_spaces(loss, run)

    def published(wide):
        gram = SampleGram(X) if wide else Gram(X.T @ X)
        return solve_joint_published(gram, 3, 0.05, tol=0.0, max_iter=20)

    _report_spaces("published", published)
    return faster


def _report_spaces(name, run):
    wide, dense = alternate(lambda: run(True), lambda: run(False))
    solutions = [run(True), run(False)]
    same = abs(solutions[0].objective / solutions[1].objective - 1)
    print(
        f"{name:9s} {wide:.3f} s against {dense:.3f} s, ratio 1/{dense / wide:.0f} (bar 1/5) "
        f"{verdict(5 * wide <= dense)}; objectives differ by {same:.0e}; {solutions[0].n_iter} "
        "alternations",
        flush=True,
    )
    return dense / wide


def paths():
    """Warm-started paths against fits from the principal components, point by point."""
    problems = {"breast cancer": StandardScaler().fit_transform(load_breast_cancer().data)}
    for name in ("yale", "colon"):
        problems[name] = load(name)
    found = []
    for name, X in problems.items():
        models = [
            SPCA(n_components=3),
            JSPCA(n_components=3),
            JSPCA(n_components=3, loss="frobenius"),
        ]
        for model in models if X.shape[1] < 100 else models[:1]:
            moments = Moments.from_data(X)
            warm, path = timed(lambda m=model, d=moments: regularization_path(m, d, n_points=12))
            cold, fits = timed(
                lambda m=model, p=path, d=moments: [
                    clone(m).set_params(alpha=alpha).fit_moments(d) for alpha in p.alphas
                ]
            )
            objectives = np.array([fit.objective_ for fit in fits])
            worse = (path.objectives - objectives) / np.abs(objectives)
            print(
                f"{name:13s} {model}: {path.n_iter.sum()} iterations against "
                f"{sum(fit.n_iter_ for fit in fits)}, {warm:.2f} s against {cold:.2f} s; objective "
                f"{worse.min():+.0e} to {worse.max():+.0e}",
                flush=True,
            )
            found.append(
                {
                    "data": name,
                    "method": type(model).__name__,
                    "iterations": [int(path.n_iter.sum()), sum(fit.n_iter_ for fit in fits)],
                    "above": [worse.min(), worse.max()],
                }
            )
    return found


def objective_in_words(value):
    """Return an objective with seven or eight digits, thousands apart."""
    return f"{value:,.2f}".replace(",", " ") if value > 1e5 else f"{value:.4f}"


def dictionaries():
    """Return what is stored of the first table, in Markdown."""
    names, rows = {"digits": "digits", "yale": "Yale faces"}, []
    for one in keeping.known(STORED)["dictionary"]:
        first = (
            f"{names.pop(one['data'])} {one['size'][0]} × {one['size'][1]}"
            if (one["data"] in names)
            else ""
        )
        objectives = map(objective_in_words, one["objectives"])
        mine, theirs = one["seconds"]
        rows.append([first, f"{100 * one['zeros']:.0f} %", *objectives, f"1 : {theirs / mine:.0f}"])
    times = "time, jointsparse : scikit-learn"
    return grid(["data", "zeros", "objective, jointsparse", "scikit-learn", times], rows)


def pursuits():
    """Return what is stored of the second table, in Markdown."""
    rows = [
        [
            " × ".join(f"{size:,}".replace(",", " ") for size in one["size"]),
            str(one["rank"]),
            f"{100 * one['share']:.0f} %",
            "yes" if one["exact"] else "no",
            f"{one['error']:.0e}",
            f"{one['gap']:.0e}",
            str(one["iterations"]),
        ]
        for one in keeping.known(STORED)["pursuit"]
    ]
    errors = ["errors", "found exactly", "relative error of L"]
    return grid(["size", "rank", *errors, "proved gap", "iterations"], rows)


TABLES = (
    Table("docs/components.md", "dictionaries", dictionaries),
    Table("docs/components.md", "pursuit", pursuits),
)

SECTIONS = {
    f.__name__: f
    for f in (
        joint_spaces,
        paths,
        dictionary,
        many_samples,
        pursuit,
        against_growing_steps,
    )
}


def main(names):
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for name in names or SECTIONS:
            start = time.perf_counter()
            print(f"\n== {name}: {SECTIONS[name].__doc__.splitlines()[0]}", flush=True)
            found = SECTIONS[name]()
            print(f"({time.perf_counter() - start:.0f} s)")
            if found:
                keeping.add(STORED, name, found)
    for table in TABLES:
        table.write()


if __name__ == "__main__":
    main(sys.argv[1:])
