"""What the search for sets would gain on a device: ``python -m benchmarks.gpu_joint``.

Two tables of docs/gpu.md. *Batches*: a step of the search looks at up to 64 nodes at once, with a
factorisation and an eigendecomposition for each. *Steps* of the joint relaxation: the same frame,
so many steps of each, and the proofs that come of them. Both on a device and on one core of its
host; stored in benchmarks/results/gpu_joint.json, from which ``page`` writes the tables alone.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks import keeping
from benchmarks.pages import Table, grid

STORED = Path(__file__).parent / "results" / "gpu_joint.json"
NODES, ROWS = 64, (8, 16, 32, 64, 128)
FEATURES = (30, 61, 100, 150, 200, 256, 300, 400, 617)
REPEATS = 5


def best(call, argument, wait=lambda: None):
    """Return the milliseconds of the fastest of some calls, after one that loads what is needed."""
    taken = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        call(argument)
        wait()
        taken.append(1000 * (time.perf_counter() - start))
    return min(taken[1:])


def batches(device, wait):
    """Measure eigendecompositions and factorisations of a batch of nodes."""
    import torch
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    for rows in ROWS:
        tall = rng.standard_normal((NODES, 2 * rows, rows))
        square = np.swapaxes(tall, 1, 2) @ tall
        there = [torch.as_tensor(one, device=device) for one in (square, tall)]
        found = {"eigh": best(torch.linalg.eigh, there[0], wait)}
        found["QR"] = best(torch.linalg.qr, there[1], wait)
        with threadpool_limits(1):
            found["eigh, host"] = best(np.linalg.eigh, square)
            found["QR, host"] = best(np.linalg.qr, tall)
        keep("batches", rows, found)


def frame(count):
    from jointsparse.solvers.subset.joint_certificate import frame_of
    from jointsparse.solvers.subset.problem import problem_of_scatter
    from jointsparse.solvers.subset.rules import Rules

    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 20)) @ rng.standard_normal((20, count))
    X += 3 * rng.standard_normal(X.shape)
    return frame_of(problem_of_scatter(X.T @ X, None, len(X)), 10, Rules.none(count))


def milliseconds(frame, home, steps):
    """Return how long a step takes, and the bound after all of them."""
    from jointsparse.solvers.subset.joint_certificate import certify
    from jointsparse.solvers.subset.joint_relaxation import Relaxation

    relaxation = Relaxation(frame, home)
    relaxation.step()  # kernels are loaded
    relaxation.adapt()
    start = time.perf_counter()
    for _ in range(steps):
        relaxation.step()
    relaxation.adapt()  # waits for the device
    taken = 1000 * (time.perf_counter() - start) / steps
    return taken, float(certify(frame, relaxation.multipliers()).bound)


def relaxations(device, steps):
    """Measure steps of the joint relaxation."""
    import torch
    from threadpoolctl import threadpool_limits

    home = torch.zeros(0, dtype=torch.float64, device=device)
    for count in FEATURES:
        problem = frame(count)
        with threadpool_limits(1):
            here, bound = milliseconds(problem, None, steps)
        there, other = milliseconds(problem, home, steps)
        keep("steps", count, {"device": there, "host": here, "bounds": [other, bound]})


def keep(what, size, found):
    keeping.add(STORED, f"{what} {size}", found)
    print(what, size, found, flush=True)


def number(value):
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def batch_lines():
    """Return the table of batches, in Markdown."""
    names = ("eigh", "eigh, host", "QR", "QR, host")
    known = keeping.known(STORED)
    rows = [
        [str(size), *(number(known[f"batches {size}"][name]) for name in names)] for size in ROWS
    ]
    words = ["eigh, device", "eigh, host", "QR of twice as many rows, device", "QR, host"]
    return grid(["rows", *words], rows)


def step_lines():
    """Return the table of steps, in Markdown."""
    known = keeping.known(STORED)
    rows = [
        [str(size), *(number(known[f"steps {size}"][name]) for name in ("device", "host"))]
        for size in FEATURES
    ]
    return grid(["features", "device", "one core of its host"], rows)


TABLES = (
    Table("docs/gpu.md", "batches", batch_lines),
    Table("docs/gpu.md", "steps", step_lines),
)


def main(words=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_joint", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("page",), help="measure nothing")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args(words)
    if options.what is None:
        import torch

        wait = torch.cuda.synchronize if options.device.startswith("cuda") else (lambda: None)
        batches(options.device, wait)
        relaxations(options.device, options.steps)
    for table in TABLES:
        table.write()


if __name__ == "__main__":
    main()
