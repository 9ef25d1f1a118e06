"""What the convex solvers promise, measured: ``python -m benchmarks.convex [SECTION ...]``.

The datasets are read from the folder that JOINTSPARSE_DATA names. Times are medians of interleaved
runs with the BLAS threads pinned, and only their ratios are meant to be compared. The *reference*
is :mod:`benchmarks.reference`.
"""

import resource
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import ALL, alternate, load, timed, verdict
from benchmarks.reference import reference, reference_step
from jointsparse import AWSPCA, CSPCA, SPCAPSD, Moments, regularization_path
from jointsparse.linalg import Spectrum
from jointsparse.solvers.convex.model import largest_eta, largest_lam
from jointsparse.solvers.convex.published import PublishedConstants, solve_published
from jointsparse.solvers.convex.screening import static_screen
from jointsparse.solvers.convex.splitting import solve_splitting

warnings.simplefilter("ignore")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

FIVE = "isolet pie usps yale imm40"
REPEATS = 5


def certified():
    """SPCA-PSD: certified gap 1e-4 on 13 datasets at six pairs of penalties."""
    reached = 0
    for name in ALL.split():
        X = load(name)
        for eta in (0.01, 0.1, 0.3):
            for alpha in (0.02, 0.2):
                seconds, fitted = timed(lambda X=X, e=eta, a=alpha: SPCAPSD(alpha=a, eta=e).fit(X))
                reached += fitted.duality_gap_ <= 1e-4
                print(
                    f"{name:11s} eta {eta:4.2f} alpha {alpha:4.2f}: gap {fitted.duality_gap_:.1e}, "
                    f"{np.count_nonzero(fitted.feature_scores_)} of {X.shape[1]} nonzero, rank "
                    f"{fitted.loadings_.shape[1]}, {fitted.n_iter_} iterations, {seconds:.2f} s"
                )
    print(f"certified to 1e-4: {reached} of 78 {verdict(reached == 78)}")


def robust():
    """CSPCA and AW-SPCA with and without the cone: certified gap 1e-3 on five datasets."""
    reached = 0
    for name in FIVE.split():
        X = load(name)
        for model in (CSPCA(eta=0.1), CSPCA(eta=0.1, psd=False), AWSPCA(), AWSPCA(psd=False)):
            model.set_params(alpha=0.2, tol=1e-3)
            seconds, _ = timed(lambda model=model, X=X: model.fit(X))
            reached += model.duality_gap_ <= 1e-3
            print(
                f"{name:8s} {type(model).__name__:7s} psd={model.psd!s:5s}: gap "
                f"{model.duality_gap_:.1e}, {model.n_iter_} iterations, {seconds:.2f} s"
            )
    print(f"certified to 1e-3: {reached} of 20 {verdict(reached == 20)}")


def robust_against_splitting():
    """CSPCA-PSD to 1e-4: the solver chosen by shape against splitting with p × p matrices."""
    for name in ("usps", "isolet", "yale", "colon", "tox171", "allaml", "orlraws10p"):
        X = load(name)
        settings = {"eta": 0.1, "alpha": 0.2, "n_features_to_select": "support"}
        seconds, model = timed(lambda X=X, s=settings: CSPCA(**s).fit(X))
        text = f"{name:11s} gap {model.duality_gap_:.1e} {verdict(model.duality_gap_ <= 1e-4)}, "
        text += f"rank {model.loadings_.shape[1]}, {seconds:.2f} s"
        part = X[:, np.linspace(0, X.shape[1] - 1, min(X.shape[1], 600)).astype(int)]
        mine, theirs = alternate(
            lambda X=part, s=settings: CSPCA(**s).fit(X),
            lambda X=part, s=settings: CSPCA(solver="splitting", **s).fit(X),
            repeats=1,
        )
        print(f"{text}; on {part.shape[1]} features 1/{theirs / mine:.1f} of the time of splitting")


def against_reference():
    """SPCA-PSD certified to 1e-4 against the reference, same data, same run."""
    for name in ("isolet", "pie", "usps", "mnist"):
        X = load(name)
        moments = Moments.from_data(X)
        S, total = moments.scatter, moments.total_variance
        for lam, eta, bar in ((10.0, 10.0, 1 / 2), (0.005 * total, 0.05 * total, 1 / 10)):
            # The reference stops at Ω: so do we, without choosing how many features to keep.
            model = SPCAPSD(
                alpha=lam, eta=eta, penalty_scale="absolute", n_features_to_select="support"
            )

            # The input is checked before the clock starts, as the reference does not check it; each
            # run gets moments of its own, so that nothing is remembered from the one before.
            fresh = [Moments.from_scatter(S, n_samples=len(X)) for _ in range(1 + REPEATS)]

            def ours(model=model, fresh=fresh):
                return model.fit_moments(fresh.pop())

            mine, theirs = alternate(
                ours, lambda S=S, lam=lam, eta=eta: reference(S, lam, eta), REPEATS
            )
            _, history = reference(S, lam, eta)
            print(
                f"{name:7s} λ {lam:8.1f} η {eta:8.1f}: {mine:.3f} s against {theirs:.3f} s, ratio "
                f"{mine / theirs:.3f} (bar {bar:.2f}) {verdict(mine <= bar * theirs)}; gap "
                f"{model.duality_gap_:.1e}, objective {model.objective_:.3f} against "
                f"{history[-1]:.3f}"
            )


def wide_against_reference():
    """Wide data: one dense reference iteration, times its iterations, against a full solve."""
    for name in ("allaml", "orlraws10p"):
        X = load(name)
        total = float((X**2).sum())
        lam, eta = 0.001 * total, 0.05 * total
        model = SPCAPSD(alpha=lam, eta=eta, penalty_scale="absolute")
        model.fit(X)
        seconds, _ = timed(lambda model=model, X=X: model.fit(X))
        published = SPCAPSD(alpha=lam, eta=eta, penalty_scale="absolute", solver="published").fit(X)
        # The dense step is timed on fewer features and scaled by the cube of their number.
        p, part = X.shape[1], 1500
        S = X[:, :part].T @ X[:, :part]
        one, _ = timed(lambda S=S, m=lam, e=eta: reference_step(S, np.eye(len(S)), m, e))
        theirs = one * (p / part) ** 3 * published.n_iter_
        print(
            f"{name}: {seconds:.2f} s against about {theirs:.0f} s, ratio 1/{theirs / seconds:.0f} "
            f"(bar 1/300) {verdict(seconds * 300 <= theirs)}; gap {model.duality_gap_:.1e}"
        )


def published_low_rank():
    """The published algorithm without p × p matrices: speed per iteration, equality of iterates."""
    X = load("orlraws10p")
    p, total = X.shape[1], float((X**2).sum())
    for eta, lam in ((0.05, 0.001), (0.05, 0.005), (0.005, 0.005)):
        seconds, run = timed(
            lambda e=eta, m=lam: solve_published(X, m * total, e * total, max_iter=20)
        )
        part = 2000
        S = X[:, :part].T @ X[:, :part]
        dense, _ = timed(
            lambda S=S, e=eta, m=lam: reference_step(S, np.eye(len(S)), m * total, e * total)
        )
        ratio = dense * (p / part) ** 3 / (seconds / run.n_iter)
        print(f"orlraws10p η {eta} λ {lam} tr S: {ratio:.0f} times faster {verdict(ratio >= 300)}")
    X = load("colon")[:, :1000]
    total = float((X**2).sum())
    constants = PublishedConstants(1e-12, 1e-3, 1e-3, absolute=True)
    wide = solve_published(
        X, 0.005 * total, 0.05 * total, constants=constants, tol=0.0, max_iter=6
    ).loadings
    omega, S = np.eye(1000), X.T @ X
    for _ in range(6):
        omega = reference_step(S, omega, 0.005 * total, 0.05 * total, smoothing=1e-12)
    difference = np.abs(wide @ wide.T - omega).max()
    print(f"iterates equal to {difference:.1e} {verdict(difference <= 1e-8)}")


def screening():
    """Safe screening: never wrong against CVXPY, and strong on tox171."""
    from oracles import spca_psd_optimum

    wrong = removed = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        n, p = rng.integers(4, 12), rng.integers(4, 14)
        X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, p)) + rng.standard_normal((n, p))
        X = (X - X.mean(axis=0)) * 10 ** rng.uniform(-1, 0.3, p)
        spectrum = Spectrum.of(X.T @ X)
        eta = 10 ** rng.uniform(-3, -0.2) * largest_eta(spectrum)
        lam = 10 ** rng.uniform(-2.5, 0) * largest_lam(spectrum, eta)
        zero = np.asarray(static_screen(X, lam, eta))
        _, omega = spca_psd_optimum(X.T @ X, lam, eta)
        wrong += int((np.linalg.norm(omega, axis=0)[zero] > 1e-4).sum())
        removed += int(zero.sum())
    print(f"400 random problems: {removed} features removed, {wrong} wrongly {verdict(wrong == 0)}")
    X = load("tox171")
    for eta in (0.01, 0.1, 0.3):
        spectrum = Spectrum.thin(X)
        eta_abs = eta * largest_eta(spectrum)
        left = int((~static_screen(X, 0.2 * largest_lam(spectrum, eta_abs), eta_abs)).sum())
        print(f"tox171, eta {eta}, alpha .2: {left} of {X.shape[1]} left {verdict(left < 200)}")


def iterations():
    """Splitting iterations to 1e-4 over a grid of penalties."""
    counts = []
    for name in ("isolet", "usps", "yale", "allaml"):
        X = load(name)
        if X.shape[1] > 400:
            X = X[:, np.random.default_rng(0).choice(X.shape[1], 400, replace=False)]
        spectrum = Spectrum.of(X.T @ X)
        here = [
            solve_splitting(spectrum, lam * spectrum.trace, eta * spectrum.trace).n_iter
            for lam in (1e-4, 1e-3, 1e-2, 0.1, 0.3)
            for eta in (1e-4, 1e-3, 1e-2, 0.1, 0.3)
        ]
        counts += here
        print(f"{name:7s} median {np.median(here):.0f}, maximum {max(here)}")
    good = np.median(counts) <= 20 and max(counts) <= 100
    print(
        f"all: median {np.median(counts):.0f} (bar 20), maximum {max(counts)} (bar 100) "
        f"{verdict(good)}"
    )


def recovery():
    """Planted support: exact zeros, at default penalties, against thresholded published scores."""
    planted = np.arange(200) < 20
    exact, scores = 0, []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((100, 200))
        X[:, :20] += 2 * rng.standard_normal((100, 3)) @ rng.standard_normal((3, 20))
        fitted = SPCAPSD(n_features_to_select="support").fit(X)
        exact += np.array_equal(fitted.support_, planted)
        scores.append(SPCAPSD(solver="published").fit(X).feature_scores_)
    scores = np.array(scores)
    lowest, highest = scores[:, planted].min(axis=1), scores[:, ~planted].max(axis=1)
    common = max(int(((highest < t) & (t <= lowest)).sum()) for t in lowest)
    print(
        f"exact support {exact} of 50; the best threshold for all seeds {common} "
        f"{verdict(exact >= common)}; the best one for each seed {int((lowest > highest).sum())}"
    )


def path():
    """A warm-started path of 30 points against 30 cold fits."""
    for name in ("isolet", "pie", "tox171"):
        X = load(name)
        warm, result = timed(lambda X=X: regularization_path(SPCAPSD(), X))
        cold = sum(timed(lambda X=X, a=a: SPCAPSD(alpha=a).fit(X))[0] for a in result.alphas)
        print(
            f"{name:7s} {warm:.1f} s against {cold:.1f} s, ratio {warm / cold:.2f} (bar .5) "
            f"{verdict(warm <= cold / 2)}; largest gap {result.duality_gaps.max():.1e}"
        )


def cvxpy():
    """Agreement with an interior-point solver on ten random problems for each of five models."""
    from oracles import sample_loss_optimum, spca_psd_optimum

    models = {
        "SPCA-PSD": SPCAPSD(),
        "CSPCA-PSD": CSPCA(),
        "CSPCA": CSPCA(psd=False),
        "AW-SPCA-PSD": AWSPCA(),
        "AW-SPCA": AWSPCA(psd=False),
    }
    for name, model in models.items():
        worst = 0.0
        for seed in range(10):
            rng = np.random.default_rng(seed)
            X = rng.standard_normal((15, 2)) @ rng.standard_normal((2, 7))
            X += 0.3 * rng.standard_normal((15, 7))
            X -= X.mean(axis=0)
            model.set_params(tol=1e-6, max_iter=5000).fit(X)
            if name == "SPCA-PSD":
                optimum, _ = spca_psd_optimum(X.T @ X, model.alpha_, model.eta_)
            else:
                optimum, _ = sample_loss_optimum(
                    X, model.alpha_, model.eta_, psd=model.psd, free_mean="AW" in name
                )
            worst = max(worst, abs(model.objective_ / optimum - 1))
        print(f"{name:12s} largest difference {worst:.1e} {verdict(worst <= 1e-5)}")


def memory():
    """200 × 100 000 float32: added memory, in a process of its own (peaks never fall)."""
    subprocess.run([sys.executable, "-c", "from benchmarks.convex import wide_fit; wide_fit()"])


def wide_fit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 100_000), dtype=np.float32)
    signal = rng.standard_normal((200, 5)) @ rng.standard_normal((5, 500))
    X[:, :500] += (3 * signal).astype(np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, model = timed(lambda: SPCAPSD(alpha=0.1, eta=0.1).fit(X))
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024**2
    print(
        f"added {added:.2f} GB, gap {model.duality_gap_:.1e}, {seconds:.1f} s {verdict(added < 1)}"
    )


SECTIONS = {
    f.__name__: f
    for f in (
        certified,
        robust,
        robust_against_splitting,
        against_reference,
        wide_against_reference,
        published_low_rank,
        screening,
        iterations,
        recovery,
        path,
        cvxpy,
        memory,
    )
}


def main(names):
    with threadpool_limits(2):
        for name in names or SECTIONS:
            print(f"\n== {name}: {SECTIONS[name].__doc__.splitlines()[0]}", flush=True)
            SECTIONS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
