"""Sparse components with a proof: ``python -m benchmarks --suite l0 [--matrices FOLDER]``.

The best k-sparse component of correlation matrices: its value, the proved bound, and the seconds of
the processor (one thread) until value and bound are within 1e-6 of each other, beside what the
methods of the field reach at equal k. Truncated power iterations (TPower, Yuan and Zhang 2013) and
the generalised power method with an l0 penalty (GPower, Journée et al. 2010; its penalty is
bisected until k loadings are left) are written here after their papers, and get the better of
several starts; scikit-learn's SparsePCA gives an order of features, the best of eight penalties.
abess and A-ManPG (sparsepca) run in an environment of their own (``--environments``): abess is
told k, A-ManPG gets twelve penalties. All of them get the best loadings on the features that they
choose. What was measured is stored in benchmarks/results/l0.json, ``table`` prints it again, and
the last line says whether any method is ahead of ours anywhere. ``--jointly`` is about several
components with common features, ``--large`` about up to a million features; both are stored, too,
and docs/proofs.md has all of it. ``--again`` measures what is stored anew.

Without more: pitprops, wine, breast cancer and digits; with JOINTSPARSE_DATA also USPS, isolet and
colon. ``--matrices`` adds covariance matrices (.npy), as those of the published record (arrhythmia,
communities, miniBooNE, Eisen1, Eisen2), which are not ours to pass on.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # these sources, installed or not

from benchmarks import keeping
from benchmarks.common import ONE_THREAD, ROOT, verdict
from benchmarks.environments import Environments, default_folder
from benchmarks.pages import Table, grid

RESULT = ROOT / "benchmarks" / "results" / "l0.json"
JOINTLY = RESULT.with_name("l0_jointly.json")
MANY = RESULT.with_name("l0_large.json")
OUTSIDE = ROOT / "benchmarks" / "one_component.py"
PATIENCE = 300  # seconds for the programs that run outside, for all counts of one matrix

COUNTS = (5, 10, 20)
LARGE = ((500, 10_000), (200, 100_000), (100, 1_000_000))  # samples, features
JOINT = ((5, 2), (10, 2), (10, 3))


def correlations(X):
    import numpy as np

    X = np.asarray(X, dtype=float)
    X = X[:, X.std(axis=0) > 1e-12]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X.T @ X / len(X)


def matrices(folder):
    import numpy as np
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine

    from jointsparse.datasets import available_datasets, load_dataset, load_pitprops

    yield "pitprops", load_pitprops()[0]
    yield "wine", correlations(load_wine().data)
    yield "breast cancer", correlations(load_breast_cancer().data)
    yield "digits", correlations(load_digits().data)
    for path in sorted(Path(folder).glob("*.npy")) if folder else ():
        S = np.load(path)
        yield path.stem, (S + S.T) / 2
    for name in ("usps", "isolet", "colon"):
        if name in available_datasets():
            yield name, correlations(load_dataset(name)[0])


def value_on(S, features):
    import numpy as np

    return float(np.linalg.eigvalsh(S[np.ix_(features, features)])[-1])


def tpower(S, k):
    """Multiply, keep the k largest, normalise; the better of three ways to begin.

    The first principal component, the widest feature's column, and from more features to fewer.
    """
    import numpy as np

    principal = np.linalg.eigh(S)[1][:, -1]
    widest = S[:, np.argmax(np.diagonal(S))]
    fewer = principal
    for count in (8 * k, 4 * k, 2 * k):
        if count < len(S):
            kept = truncated(S, fewer, count)
            block = np.linalg.eigh(S[np.ix_(kept, kept)])[1][:, -1]
            fewer = S[:, kept] @ block
    found = [truncated(S, start, k) for start in (principal, widest, fewer)]
    return max(found, key=lambda features: value_on(S, features))


def truncated(S, x, k):
    import numpy as np

    for _ in range(500):
        kept = np.argsort(-np.abs(x))[:k]
        y = np.zeros(len(S))
        y[kept] = x[kept]
        moved = S @ (y / np.linalg.norm(y))
        if set(np.argsort(-np.abs(moved))[:k]) == set(kept):
            break
        x = moved
    return kept


def gpower(S, k):
    """Maximise Σ max((a_iᵀx)² - γ, 0) over the sphere; bisect γ until k terms are left.

    The better of two starts: the longest column, as published, and the first left singular vector.
    """
    import numpy as np

    values, vectors = np.linalg.eigh(S)
    A = (vectors * np.sqrt(np.maximum(values, 0.0))).T  # AᵀA = S
    norms = np.linalg.norm(A, axis=0)
    longest, first = A[:, np.argmax(norms)] / norms.max(), np.eye(len(S))[-1]
    found = [bisected(A, norms, start, k) for start in (longest, first)]
    return max(found, key=lambda features: value_on(S, features))


def bisected(A, norms, start, k):
    import numpy as np

    low, high = 0.0, float(norms.max() ** 2)
    best = np.argsort(-norms)[:k]
    for _ in range(40):
        gamma, x = (low + high) / 2, start
        for _ in range(300):
            inner = A.T @ x
            moved = A @ (inner * (inner**2 > gamma))
            length = np.linalg.norm(moved)
            if length == 0 or np.linalg.norm(moved / length - x) < 1e-10:
                break
            x = moved / length
        inner = A.T @ x
        count = int(np.count_nonzero(inner**2 > gamma))
        if count >= k:
            best = np.argsort(-np.abs(inner))[:k]
        if count == k:
            break
        low, high = (gamma, high) if count > k else (low, gamma)
    return best


def scikit_learn(S, k):
    """Return the features of the largest loadings of SparsePCA on a root of S."""
    import numpy as np
    from sklearn.decomposition import SparsePCA

    values, vectors = np.linalg.eigh(S)
    X = (vectors * np.sqrt(np.maximum(values, 0.0))).T * len(S) ** 0.5
    best = np.argsort(-np.abs(vectors[:, -1]))[:k]
    for alpha in np.geomspace(0.3, 30, 8):
        model = SparsePCA(n_components=1, alpha=alpha, method="cd", max_iter=200)
        loadings = np.abs(model.fit(X).components_[0])
        if np.count_nonzero(loadings) >= k:
            found = np.argsort(-loadings)[:k]
            best = max((best, found), key=lambda features: value_on(S, features))
    return best


RIVALS = {"TPower": tpower, "GPower": gpower, "scikit-learn": scikit_learn}


def line(cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def outside(S, counts, python):
    """Return {(program, k): features} of the programs that run in an environment of their own."""
    if python is None:
        return {}
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "S.npz", Path(folder) / "found.npz"
        np.savez(source, S=S, counts=np.array(counts))
        command = [python, str(OUTSIDE), str(source), str(target)]
        try:
            subprocess.run(
                command, timeout=PATIENCE, capture_output=True, env={**os.environ, **ONE_THREAD}
            )
        except subprocess.TimeoutExpired:
            return {}
        if not target.exists():
            return {}
        with np.load(target) as found:
            return {
                (key.rsplit("_", 1)[0], int(key.rsplit("_", 1)[1])): found[key] for key in found
            }


def measured(name, S, limit, rivals, python):
    """Return one record for each k: value, bound, seconds, and the values of the others."""
    from jointsparse import sparse_component

    counts = [k for k in COUNTS if k < len(S)]
    elsewhere = outside(S, counts, python) if rivals else {}
    for k in counts:
        start = time.process_time()
        found = sparse_component(S, k, is_scatter=True, time_limit=limit)
        record = {
            "data": name,
            "features": len(S),
            "k": k,
            "value": found.value,
            "bound": found.bound,
            "proved": bool(found.proved),
            "seconds": time.process_time() - start,
            "nodes": found.nodes,
            "others": {},
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for rival, solve in rivals.items():
                record["others"][rival] = value_on(S, solve(S, k))
        for (rival, count), features in elsewhere.items():
            if count == k:
                record["others"][rival] = value_on(S, features)
        yield record


def stored(path=RESULT):
    return json.loads(path.read_text()) if path.exists() else []


def one_component(chosen, limit, rivals, python, path=RESULT):
    """Measure what is not stored, store it, and print all."""
    for name, S in chosen:
        if any(record["data"] == name for record in stored(path)):
            continue
        found = [*stored(path), *measured(name, S, limit, rivals, python)]
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{name} is measured", file=sys.stderr, flush=True)
    print_table(stored(path))
    if path == RESULT:
        TABLE.write()


def print_table(records):
    rivals = list(dict.fromkeys(name for record in records for name in record["others"]))
    line(["data", "p", "k", "value", "gap", "s", "nodes", *(f"{name}, %" for name in rivals)])
    line(["---"] * (7 + len(rivals)))
    ahead = []
    for one in records:
        behind = []
        for rival in rivals:
            value = one["others"].get(rival)
            behind.append("" if value is None else f"{100 * (value / one['value'] - 1):.2f}")
            if value is not None and value > one["value"] * (1 + 1e-9):
                ahead.append(f"{rival} on {one['data']}, k = {one['k']}")
        gap = "proved" if one["proved"] else f"{one['bound'] / one['value'] - 1:.1e}"
        cells = [one["data"], one["features"], one["k"], f"{one['value']:.5f}", gap]
        line([*cells, f"{one['seconds']:.2f}", one["nodes"], *behind])
    words = "; ".join(ahead) or "none"
    print(f"methods of the field ahead at equal k: {words} {verdict(not ahead)}")


def lines():
    """Return the table of what is stored, in Markdown, for the page."""
    records = stored()
    rivals = list(dict.fromkeys(name for record in records for name in record["others"]))
    rows = []
    for one in records:
        after = f"{one['seconds']:.2f}" if one["seconds"] < 1 else f"{one['seconds']:.1f}"
        if not one["proved"]:
            share = 100 * (one["bound"] / one["value"] - 1)
            after = f"open: {share:.1f} % after {one['seconds']:.0f} s"
        values = [one["others"].get(rival) for rival in rivals]
        behind = ["" if value is None else shortfall(value / one["value"]) for value in values]
        cells = [one["data"], str(one["features"]), str(one["k"]), f"{one['value']:.5f}", after]
        rows.append([*cells, *behind])
    head = ["data", "features", "k", "value", "proved after, s", *(f"{name}, %" for name in rivals)]
    return grid(head, rows)


def shortfall(share):
    """Return by how many percent a value is less; nothing below a twentieth of one."""
    percent = 100 * (share - 1)
    return "0" if abs(percent) < 0.05 else f"{percent:.1f}".replace("-", "−")


def several_components(chosen, limit, again):
    """Measure several components with common features, and store them."""
    from jointsparse import joint_components

    for name, S in chosen:
        for k, r in JOINT:
            key = f"{name}, {k}, {r}"
            if not k < len(S) <= 300 or (key in keeping.known(JOINTLY) and not again):
                continue
            start = time.process_time()
            found = joint_components(S, k, r, is_scatter=True, time_limit=limit)
            seconds = round(time.process_time() - start, 3)
            record = {"data": name, "features": len(S), "k": k, "components": r}
            record |= {"value": found.value, "gap": found.gap, "proved": bool(found.proved)}
            keeping.add(JOINTLY, key, record | {"seconds": seconds, "nodes": found.nodes})
            print(f"{key}: {found.value:.5f}, gap {found.gap:.1e}, {seconds:.2f} s", flush=True)


def lines_jointly():
    """Return the table of several components, in Markdown, for the page."""
    rows = []
    for one in keeping.known(JOINTLY).values():
        gap = "proved" if one["proved"] else f"{100 * one['gap']:.2g} %"
        first = (str(one[name]) for name in ("data", "features", "k", "components"))
        seconds = f"{one['seconds']:.2f}" if one["seconds"] < 1 else f"{one['seconds']:.1f}"
        rows.append([*first, f"{one['value']:.5f}", gap, seconds])
    return grid(["data", "features", "k", "components", "value", "gap", "s"], rows)


TABLE = Table("docs/proofs.md", "one component", lines)
JOINT_TABLE = Table("docs/proofs.md", "several components", lines_jointly)


def many_features(sizes, seeds, again):
    """Ten features with a common signal among many: what leaves, and how soon that is proved."""
    import numpy as np

    from jointsparse import sparse_component

    for n, p in sizes:
        for seed in seeds:
            key = f"{n} x {p}, {seed}"
            if key in keeping.known(MANY) and not again:
                continue
            rng = np.random.default_rng(seed)
            X = rng.standard_normal((n, p))
            planted = np.sort(rng.permutation(p)[:10])
            X[:, planted] += 2.5 * rng.standard_normal((n, 1))
            start = time.process_time()
            found = sparse_component(X, 10, time_limit=300)
            seconds = time.process_time() - start
            record = {"samples": n, "features": p, "value": found.value, "gap": found.gap}
            record |= {"proved": bool(found.proved), "left": p - len(found.eliminated)}
            record |= {"planted": bool(np.array_equal(np.sort(found.features), planted))}
            keeping.add(MANY, key, record | {"seconds": round(seconds, 2)})
            print(f"{key}: gap {found.gap:.1e}, {seconds:.1f} s, {record}", flush=True)


def main(words=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks --suite l0", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("table",), help="print what is stored")
    parser.add_argument("--environments", type=Path, default=default_folder())
    parser.add_argument("--no-install", action="store_true", help="make no environment")
    parser.add_argument("--matrices", help="folder of covariance matrices, .npy")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each problem")
    parser.add_argument("--only", nargs="*", help="names of the data")
    parser.add_argument("--jointly", action="store_true", help="several components")
    parser.add_argument("--large", action="store_true", help="10 000 to 1 000 000 features")
    parser.add_argument("--alone", action="store_true", help="without the rivals")
    parser.add_argument("--again", action="store_true", help="jointly, large: what is stored, too")
    parser.add_argument("--quick", action="store_true", help="pitprops alone, nothing is stored")
    options = parser.parse_args(words)
    if options.what == "table":
        print_table(stored())
        return
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    if options.large:
        many_features(LARGE, range(3), options.again)
        return
    if options.quick:
        name, S = next(matrices(None))
        print_table(list(measured(name, S, options.limit, RIVALS, None)))
        return
    chosen = [
        (name, S)
        for name, S in matrices(options.matrices)
        if not options.only or name in options.only
    ]
    if options.jointly:
        several_components(chosen, options.limit, options.again)
        JOINT_TABLE.write()
    else:
        environments = Environments(options.environments, make=not options.no_install)
        python = None if options.alone else environments.python("components")
        one_component(chosen, options.limit, {} if options.alone else RIVALS, python)


if __name__ == "__main__":
    main()
