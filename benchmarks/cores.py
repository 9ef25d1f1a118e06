"""Large tables on all cores of the host: ``python -m benchmarks --suite cores [ROW ...]``.

Time by the clock of one fit each, in a process of its own, with as many threads as there are cores.
Written are benchmarks/results/cores.json and the table of benchmarks/limits.md. Rows that a run is
not asked for stay as they are.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks import keeping
from benchmarks.limits import factors
from benchmarks.pages import ROOT, Table, grid

STORED = Path(__file__).parent / "results" / "cores.json"
KEPT = {"n_features_to_select": 50}
MODEL = {"n_features_to_select": "support"}
LONGEST = 300  # seconds for one fit
# Seconds aimed at: half or a tenth of what version 0.1 took on 16 cores, or what was asked for.
GOALS = {
    "AW-SPCA-PSD": None,  # half of the published iteration
    "AW-SPCA-PSD, published iteration": None,
    "CSPCA without the cone": 10,
    "CSPCA-PSD": 20,
    "RobustPCA": 7.3,
    "UDFS": 3,
    "SOGFS": 3,
    "neighbours, exact": None,
    "neighbours, approximate": None,  # a tenth of the exact search
}


def fits():
    """Return {row: what makes (size in words, what is timed)}."""
    import jointsparse as js
    from jointsparse.graphs.neighbours import nearest_neighbours

    def fit(model, n, p, **options):
        X = factors(n, p, **options)
        return f"{n} × {p}", lambda: model.fit(X)

    def search(how):
        X = factors(200_000, 40)
        return "200000 × 40", lambda: nearest_neighbours(X, 10, search=how)

    published = js.AWSPCA(solver="published", **MODEL)
    return {
        "AW-SPCA-PSD": lambda: fit(js.AWSPCA(**MODEL), 3000, 2000),
        "AW-SPCA-PSD, published iteration": lambda: fit(published, 3000, 2000),
        "CSPCA without the cone": lambda: fit(js.CSPCA(psd=False, **MODEL), 3000, 2000),
        "CSPCA-PSD": lambda: fit(js.CSPCA(**MODEL), 3000, 2000),
        "RobustPCA": lambda: fit(js.RobustPCA(), 2000, 1000, noise=0.01, gross=0.05),
        "UDFS": lambda: fit(js.UDFS(**KEPT), 2000, 1000),
        "SOGFS": lambda: fit(js.SOGFS(**KEPT), 2000, 1000),
        "neighbours, exact": lambda: search("exact"),
        "neighbours, approximate": lambda: search("approximate"),
    }


def measured(name):
    """Return what one row takes, here and now."""
    import joblib

    warnings.simplefilter("ignore")
    np.linalg.eigh(np.eye(50))  # the pools of threads are there
    size, run = fits()[name]()
    start = time.perf_counter()
    found = run()
    gap = getattr(found, "duality_gap_", None)
    return {
        "size": size,
        "cores": joblib.cpu_count(),
        "seconds": round(time.perf_counter() - start, 2),
        "gap": None if gap is None else float(f"{gap:.1e}"),
    }


def in_process(name):
    """Measure a row in a process of its own."""
    call = f"print(json.dumps(measured({name!r})))"
    words = [sys.executable, "-c", f"import json; from benchmarks.cores import measured; {call}"]
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        words,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def goal_of(name, rows):
    """Return the seconds aimed at, or None."""
    others = {
        "AW-SPCA-PSD": ("AW-SPCA-PSD, published iteration", 2),
        "neighbours, approximate": ("neighbours, exact", 10),
    }
    if name not in others:
        return GOALS[name]
    other, factor = others[name]
    return rows[other]["seconds"] / factor if other in rows else None


def lines():
    """Return the table."""
    rows = keeping.known(STORED)
    body = []
    for name in (name for name in GOALS if name in rows):
        row, goal = rows[name], goal_of(name, rows)
        gap = "" if row["gap"] is None else f"{row['gap']:.0e}"
        met = "" if goal is None else "met" if row["seconds"] <= goal else "**missed**"
        aim = "" if goal is None else f"{goal:.3g} s"
        cells = (name, row["size"], f"{row['cores']}", f"{row['seconds']:.1f} s", gap, aim, met)
        body.append(cells)
    return grid(("what", "size", "cores", "time", "gap", "goal", ""), body)


TABLE = Table("benchmarks/limits.md", "cores", lines)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(GOALS)}")
    options = parser.parse_args(words)
    for name in options.rows or GOALS:
        try:
            keeping.add(STORED, name, in_process(name))
        except subprocess.SubprocessError as error:
            print(f"{name} was not measured: {error}")
            continue
        print(name, keeping.known(STORED)[name], flush=True)
    TABLE.write()


if __name__ == "__main__":
    main()
