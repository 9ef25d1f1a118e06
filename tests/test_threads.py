"""Tests use one thread each, so that tests side by side do not wait for each other."""

import importlib

import pytest
from threadpoolctl import threadpool_info


def test_one_thread_each(request):
    if not request.config.option.markexpr.startswith("not slow") and not hasattr(
        request.config, "workerinput"
    ):
        pytest.skip("slow tests in one process may use all the threads there are")
    for module in ("numpy.linalg", "scipy.linalg", "sklearn.cluster"):
        importlib.import_module(module)  # each brings thread pools of its own
    pools = {
        pool["filepath"]: pool["num_threads"]
        for pool in threadpool_info()
        if pool["user_api"] in ("blas", "openmp")
    }
    assert pools
    assert set(pools.values()) == {1}, pools
