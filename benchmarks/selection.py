"""What the selection rules promise, measured: ``python -m benchmarks.selection [SECTION ...]``.

The datasets are read from the folder that JOINTSPARSE_DATA names. The rivals, CUR and FPS of
skmatter, run in a process of their own: set SKMATTER_PYTHON to a Python that has skmatter, or
install it beside jointsparse; without it the benchmark says so and leaves them out.
"""

import os
import resource
import subprocess
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.common import ALL, table, timed, verdict
from jointsparse import SPCAPSD, GreedySelector, Moments
from jointsparse.solvers.picking.held_out import held_out_folds

warnings.simplefilter("ignore")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

MOST_SAMPLES = 2000  # K-means 30 times, and CUR's singular vectors at every pick, take long enough
RIVALS = """
import sys, warnings
import numpy as np
from skmatter.feature_selection import CUR, FPS
warnings.simplefilter("ignore")
data = np.load(sys.argv[1])
X, count = data["X"], int(data["count"])
picks = {}
for name, make in (("CUR", CUR), ("FPS", FPS)):
    # "full": where nothing is left to gain, the rest is random
    picks[name] = make(n_to_select=count, full=True).fit(X).selected_idx_
np.savez(sys.argv[2], **picks)
"""


@cache
def load(name):
    X, y = table(name, MOST_SAMPLES)
    X = X[:, X.std(axis=0) > 0]
    return X - X.mean(axis=0), y


@cache
def rival_python():
    for python in (os.environ.get("SKMATTER_PYTHON"), sys.executable):
        command = [python or "", "-c", "import skmatter; print(skmatter.__version__)"]
        try:
            run = subprocess.run(command, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        print(f"(skmatter {run.stdout.strip()})")
        return python
    print("(skmatter is absent: set SKMATTER_PYTHON to a Python that has it; no CUR, no FPS)")
    return None


def rivals(X, count):
    """Features that CUR and FPS pick, in order; nothing where skmatter is absent."""
    if rival_python() is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "data.npz", Path(folder) / "picks.npz"
        np.savez(source, X=X, count=count)
        subprocess.run([rival_python(), "-c", RIVALS, source, result], check=True)
        return dict(np.load(result))


def ours(X, c, count):
    """Features in the order of our rules; norm at the fixed penalties used before and now."""

    def order(selector):
        return np.argsort(selector.set_params(n_features_to_select=count).fit(X).ranking_)

    return {
        "greedy": order(GreedySelector()),
        "clusters": order(GreedySelector(target="clusters", n_clusters=c)),
        "spca-psd": order(SPCAPSD()),
        "spca-psd, c": order(SPCAPSD(n_clusters=c)),
        "norm": order(SPCAPSD(rule="norm")),
        "norm, fixed": order(SPCAPSD(alpha=0.2, eta=0.1, rule="norm")),
    }


def print_table(names, rows, errors=None):
    """One line for each dataset, one column for each rule, in percent."""
    columns = list(rows[0])
    print(f"{'':12s}" + "".join(f"{column:>13s}" for column in columns))
    for i, (name, row) in enumerate(zip(names, rows, strict=True)):
        cells = [f"{100 * row[c]:.1f}" for c in columns]
        if errors is not None:
            cells = [f"{t} ± {100 * errors[i][c]:.1f}" for t, c in zip(cells, columns, strict=True)]
        print(f"{name:12s}" + "".join(f"{cell:>13s}" for cell in cells))
    mean = {c: float(np.mean([row[c] for row in rows])) for c in columns}
    print(f"{'mean':12s}" + "".join(f"{100 * mean[c]:13.1f}" for c in columns), flush=True)
    return mean


def kernel():
    """The kernel against a dense greedy choice that fits every candidate anew."""
    from oracles import greedy_by_refit

    from jointsparse.solvers.picking.greedy import select_greedily
    from jointsparse.solvers.products.columns import Columns

    same, worst = 0, 0.0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((25, 4)) @ rng.standard_normal((4, 20))
        X += 0.3 * rng.standard_normal((25, 20))
        X -= X.mean(axis=0)
        A = np.eye(20) if seed % 2 else rng.standard_normal((8, 20))
        path = select_greedily(Columns(X), n_picks=15, target=lambda rows, A=A: rows @ A.T)
        picks, left = greedy_by_refit(X, A, 15)
        same += path.picks.tolist() == picks
        worst = max(worst, float(np.abs(1 - np.cumsum(path.gains) - left).max()))
    print(f"same picks in {same} of 20, largest difference {worst:.1e}", end=" ")
    print(verdict(same == 20 and worst < 1e-8))


def held_out(h=50):
    """R² on held-out samples, h = 50: selected and regressed on one half, judged on the other.

    Both ways round; with fewer than 300 samples, mean of three cuts.
    """
    names, rows, overlaps = ALL.split(), [], []
    for name in names:
        X, y = load(name)
        folds = []
        for seed in range(3 if len(X) < 300 else 1):
            order = np.random.default_rng(seed).permutation(len(X))
            one, other = order[: len(X) // 2], order[len(X) // 2 :]
            folds += [(one, other), (other, one)]
        results, sets = zip(
            *(held_out_shares(X, int(y.max()) + 1, h, *fold) for fold in folds), strict=True
        )
        rows.append({rule: float(np.mean([r[rule] for r in results])) for rule in results[0]})
        overlaps.append(
            {rule: len(set(kept) & set(sets[1][rule])) / h for rule, kept in sets[0].items()}
        )
        print(name, end=" ", flush=True)
    print()
    mean = print_table(names, rows)
    print("share of the features that both halves of the samples agree on")
    print_table(names, overlaps)
    for rule in ("greedy", "spca-psd"):
        above = sum(row[rule] >= row["random"] for row in rows)
        rivals = [mean[rival] for rival in ("CUR", "FPS") if rival in mean]
        against = "no rival to compare with"
        if rivals:
            against = f"against {100 * max(rivals):.1f} of the better rival "
            against += verdict(mean[rule] >= max(rivals))
        print(
            f"{rule}: mean {100 * mean[rule]:.1f}, {against}; at least random on {above} of "
            f"{len(rows)} {verdict(above == len(rows))}"
        )


def held_out_shares(X, c, h, train, test):
    fold, _ = held_out_folds(Moments.from_data(X), train, test)
    fitting = X[train] - X[train].mean(axis=0)
    sets = {rule: order[:h] for rule, order in (ours(fitting, c, h) | rivals(fitting, h)).items()}
    shares = {rule: fold.r2(features) for rule, features in sets.items()}
    rng = np.random.default_rng(0)
    varying = np.flatnonzero(fitting.std(axis=0))
    random = [rng.choice(varying, h, replace=False) for _ in range(20)]
    shares["random"] = float(np.mean([fold.r2(features) for features in random]))
    shares["PCA"] = fold.r2_of_pca(h)
    return shares, sets


def clustering():
    """Accuracy of K-means (30 repeats) on the kept features, h = 20 and 100."""
    names = ALL.split()
    orders = {}
    for name in names:
        X, y = load(name)
        orders[name] = ours(X, int(y.max()) + 1, 100) | rivals(X, 100)
        rng = np.random.default_rng(0)
        orders[name]["random"] = rng.permutation(X.shape[1])
        print(name, end=" ", flush=True)
    print()
    for h in (20, 100):
        rows, errors = [], []
        for name in names:
            X, y = load(name)
            scores = {rule: accuracies(X[:, o[:h]], y) for rule, o in orders[name].items()}
            rows.append({rule: float(np.mean(s)) for rule, s in scores.items()})
            errors.append({r: float(np.std(s, ddof=1) / np.sqrt(30)) for r, s in scores.items()})
        print(f"h = {h}, mean ± standard error of 30 repeats")
        print_table(names, rows, errors)
        for rival, least in (("norm, fixed", 0.03), ("CUR", None), ("FPS", None), ("random", None)):
            if rival not in rows[0]:
                continue
            gaps = np.array([row["clusters"] - row[rival] for row in rows])
            error = float(gaps.std(ddof=1) / np.sqrt(gaps.size))
            good = gaps.mean() >= (-error if least is None else least)
            losses = [name for name, gap in zip(names, gaps, strict=True) if gap < 0]
            print(
                f"clusters - {rival}: {100 * gaps.mean():+.1f} points, standard error over the "
                f"datasets {100 * error:.1f} {verdict(good)}; behind on {', '.join(losses) or '-'}"
            )


def accuracies(X, y):
    """Share of samples in the right group after the best matching, for 30 runs of K-means."""
    c = int(y.max()) + 1
    shares = []
    for seed in range(30):
        groups = KMeans(c, n_init=1, random_state=seed).fit_predict(X)
        table = np.zeros((c, c))
        np.add.at(table, (groups, y), 1)
        shares.append(table[linear_sum_assignment(-table)].sum() / len(y))
    return np.array(shares)


def speed():
    """orlraws10p, h = 100, against the full PCA of scikit-learn, interleaved."""
    X, _ = load("orlraws10p")
    selector = GreedySelector(n_features_to_select=100)
    a, b = [], []
    for _ in range(9):
        a.append(timed(lambda: selector.fit(X))[0])
        b.append(timed(lambda: PCA().fit(X))[0])
    ratio = np.median(a) / np.median(b)
    print(
        f"{X.shape[0]} × {X.shape[1]}: {1e3 * np.median(a):.0f} ms against "
        f"{1e3 * np.median(b):.0f} ms, ratio {ratio:.2f} (bar 2) {verdict(ratio < 2)}"
    )


def memory():
    """200 × 100 000 float32, h = 100: added memory, in a process of its own (peaks never fall)."""
    subprocess.run([sys.executable, "-c", "from benchmarks.selection import wide; wide()"])


def wide():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 100_000), dtype=np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, _ = timed(lambda: GreedySelector(n_features_to_select=100).fit(X))
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024**2
    print(f"added {added:.2f} GB, {seconds:.1f} s {verdict(added < 1)}")


def how_many():
    """The smallest greedy set that explains 90 % ("auto"): how many that is, checked by refit."""
    data = {
        "breast cancer": StandardScaler().fit_transform(load_breast_cancer().data),
        "digits": load_digits().data,
        "isolet": load("isolet")[0],
        "colon": load("colon")[0],
    }
    for name, X in data.items():
        for selector in (GreedySelector(), SPCAPSD()):
            selector.fit(X)
            kept = np.argsort(selector.ranking_)[: selector.support_.sum()]
            r2, before = (refit(X, kept[:h]) for h in (kept.size, kept.size - 1))
            print(
                f"{name:14s}{type(selector).__name__:15s} kept {kept.size:3d} of {X.shape[1]:4d}: "
                f"{kept.size - 1} explain {before:.2%}, {kept.size} explain {r2:.2%} "
                f"{verdict(before < 0.9 <= r2)}; {selector.selection_report_}"
            )


def refit(X, features):
    X = X - X.mean(axis=0)
    if features.size == 0:
        return 0.0
    kept = X[:, features]
    rest = X - LinearRegression(fit_intercept=False).fit(kept, X).predict(kept)
    return 1 - (rest**2).sum() / (X**2).sum()


SECTIONS = {f.__name__: f for f in (kernel, how_many, speed, memory, held_out, clustering)}


def main(names):
    with threadpool_limits(1):
        for name in names or SECTIONS:
            print(f"\n== {name}: {SECTIONS[name].__doc__.splitlines()[0]}", flush=True)
            SECTIONS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
