"""Steps of the joint bound on a device and on its host: ``python -m benchmarks.gpu_joint``.

The same relaxation, so many steps of each, and the proofs that come of them.
"""

import argparse
import time

import numpy as np


def frames(sizes):
    from jointsparse.solvers.subset.joint_certificate import frame_of
    from jointsparse.solvers.subset.problem import problem_of_scatter
    from jointsparse.solvers.subset.rules import Rules

    rng = np.random.default_rng(0)
    for count in sizes:
        X = rng.standard_normal((2000, 20)) @ rng.standard_normal((20, count))
        X += 3 * rng.standard_normal(X.shape)
        problem = problem_of_scatter(X.T @ X, None, len(X))
        yield count, frame_of(problem, 10, Rules.none(count))


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
    return taken, certify(frame, relaxation.multipliers()).bound


def main():
    import torch
    from threadpoolctl import threadpool_limits

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    home = torch.zeros(0, dtype=torch.float64, device=options.device)
    for count, frame in frames((30, 60, 100, 150, 200, 256, 300, 400)):
        with threadpool_limits(1, user_api="blas"):
            here, bound = milliseconds(frame, None, options.steps)
        there, other = milliseconds(frame, home, options.steps)
        print(
            f"{count} features: {here:.2f} ms on one core, {there:.2f} ms on {options.device}; "
            f"bounds {bound:.6f} and {other:.6f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
