"""The same seeds give the same results to 1e-10, in every run and with any number of threads."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from jointsparse import registry

METHODS = registry.methods()
SHAPE = (70, 80)  # large enough for the BLAS to use threads
# Many products barely large enough for threads, which then wait for each other.
SLOW_WITH_THREADS = ("udfs", "sogfs", "spcafs")


def table(n, p):
    rng = np.random.default_rng(7)
    return rng.standard_normal((n, 4)) @ rng.standard_normal((4, p)) + rng.standard_normal((n, p))


def results(name, shape, **given):
    """Return all numbers that a fit leaves behind, as one vector."""
    method = METHODS[name].make()
    method.set_params(**{key: given[key] for key in given if key in method.get_params()})
    if "random_state" in method.get_params():
        method.set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method.fit(table(*shape))
    names = ("feature_scores_", "ranking_", "objective_", "duality_gap_", "n_iter_")
    return np.concatenate([np.ravel(getattr(method, name, 0.0)) for name in names])


def same(one, other):
    np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-10 * one.max())


@pytest.mark.parametrize("name", [name for name in METHODS if name not in SLOW_WITH_THREADS])
def test_threads_change_nothing(name):
    found = {}
    for threads in (1, 2):
        with threadpool_limits(threads):
            found[threads] = results(name, (60, 70), n_features_to_select=5)
    same(found[1], found[2])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(METHODS))
def test_runs_with_other_threads_and_hash_seeds_agree(name):
    found = []
    for threads in ("1", "2"):
        pools = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        environment = {**os.environ, "PYTHONHASHSEED": threads, **dict.fromkeys(pools, threads)}
        command = f"print(json.dumps(results({name!r}, {SHAPE!r}).tolist()))"
        run = subprocess.run(
            [sys.executable, "-c", f"from test_reproducible import *; {command}"],
            cwd=Path(__file__).parent,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(np.array(json.loads(run.stdout)))
    same(*found)
